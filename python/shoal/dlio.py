"""DLIO with Shoal's catalog, order and loader, through DLIO's own plug-in keys, without changes to
DLIO.

The data loader reads with Shoal's engine, in Shoal's order, which is new in every epoch; DLIO's
workers, their pickles and their caches are not used:

    reader:
      data_loader_classname: shoal.dlio.ShoalDataLoader
      data_loader_sampler: index

The files of an epoch are those that DLIO itself would read: the first num_files_train of its list,
below storage_root and data_folder, in a folder or a bucket. Each is read once per epoch, except for
those that do not fill a step of all ranks.

The catalog is $SHOAL_CATALOG, in which {dataset} stands for train or valid; by default train.cat
and valid.cat in the data folder, which must then be writable. A missing catalog is made from the
folder. DLIO lists the folder itself before it calls any plug-in, which takes its own memory and
time.

read_threads is the number of reads in flight per rank; prefetch_size the number of batches that are
read ahead; sample_shuffle off reads in the order of names; seed_change_epoch off repeats one order.
"""

import errno
import hashlib
import importlib.util
import logging
import os
import time

import numpy
from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
from dlio_benchmark.utils.utility import DLIOMPI

from ._errors import BadValueError, Error
from ._store import S3Config, parse_uri
from .catalog import Catalog, local_path
from .indexing import index
from .loader import Loader

__all__ = ["ShoalDataLoader"]

_WAIT = 3600  # seconds to wait for another process that makes the catalog

# DLIO's storage_options, and the fields of S3Config.
_S3_OPTIONS = {"endpoint_url": "endpoint", "region": "region", "access_key_id": "access_key",
               "secret_access_key": "secret_key"}


# ---- The location of the dataset


def _dataset_name(dataset_type):
    return "train" if dataset_type is DatasetType.TRAIN else "valid"


def _is_bucket(args):
    kind = str(args.storage_type)
    if kind not in ("local_fs", "s3"):
        raise BadValueError(22, "shoal.dlio supports storage_type local_fs and s3, not %s: use DLIO's own loader for that" % kind)
    return kind == "s3"


def data_folder(args, dataset_type):
    """The folder, or s3:// URI, that DLIO lists: the prefix of the names in its list."""
    folder = os.path.join(args.data_folder, _dataset_name(dataset_type))
    if not _is_bucket(args):
        return os.path.join(args.storage_root or "", folder)
    return folder if "://" in folder else _bucket_uri(args.storage_root.rstrip("/"), folder.lstrip("/"))


def _bucket_uri(bucket, key):
    return "%s://%s/%s" % ("s3", bucket, key)


def _storage(args, dataset_type):
    """The same folder as a URI or path for Shoal."""
    folder = data_folder(args, dataset_type)
    if not _is_bucket(args):
        return folder
    whole = str((getattr(args, "storage_options", None) or {}).get("use_full_object_uri", "")).lower() in ("true", "1", "yes")
    if whole or importlib.util.find_spec("dlio_benchmark.storage.s3_torch_storage"):  # always so in Argonne's DLIO
        # The key of the object is the whole URI.
        return _bucket_uri(folder.split("/")[2], folder)
    return folder


def _s3_config(args):
    """The server and the keys of storage_options. None: the environment's."""
    options = getattr(args, "storage_options", None) or {}
    given = {field: str(options[key]) for key, field in _S3_OPTIONS.items() if options.get(key)}
    return S3Config(**given) if _is_bucket(args) and given else None


def catalog_path(args, dataset_type):
    """The path of the catalog of a dataset."""
    name = _dataset_name(dataset_type)
    given = os.environ.get("SHOAL_CATALOG")
    if given:
        return given.replace("{dataset}", name)
    if _is_bucket(args):
        raise BadValueError(22, "with storage_type s3, set the path of the catalog, which is made if it is missing: SHOAL_CATALOG=/path/{dataset}.cat, in which "
                            "{dataset} stands for train or valid")
    return data_folder(args, dataset_type) + ".cat"


# ---- The catalog


def _patterns(args, dataset_type):
    """The patterns of the files that DLIO reads: by the end of the name in a folder, by the
    extension in subfolders.
    """
    kind = str(args.format)
    nr_subfolders = args.num_subfolders_train if dataset_type is DatasetType.TRAIN else args.num_subfolders_eval
    if _is_bucket(args):
        return {"include": ["*" + kind]}
    if nr_subfolders > 0:
        return {"include": ["*/*." + kind, "*/*." + kind.upper()], "exclude": ["*/*/"]}
    return {"include": ["*" + kind], "exclude": ["*/"]}


def _when_made(path, make, s3=None):
    """A catalog that the first process makes if it is missing, while the others wait."""
    until = time.monotonic() + _WAIT
    while not parse_uri(path).objects and not os.path.exists(path):
        try:
            make()
        except Error as e:
            if e.errno == errno.EBUSY and time.monotonic() < until:
                time.sleep(0.2)
            elif e.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            else:
                raise type(e)(e.errno, "the catalog '%s' cannot be made: %s. Set another path: SHOAL_CATALOG=/path/{dataset}.cat, in which "
                              "{dataset} stands for train or valid" % (path, e)) from None
    return Catalog(path, s3=s3)


def open_catalog(args, dataset_type):
    """The catalog of all files of a dataset."""
    if args.num_samples_per_file != 1:
        raise BadValueError(22, "shoal.dlio supports files of one sample, but num_samples_per_file is %d: use DLIO's own "
                            "loader for these" % args.num_samples_per_file)
    path, s3 = catalog_path(args, dataset_type), _s3_config(args)
    catalog = _when_made(path, lambda: index(_storage(args, dataset_type), path, s3=s3, **_patterns(args, dataset_type)), s3)
    if len(catalog) and catalog.samples_per_file != 1:
        raise BadValueError(22, "shoal.dlio supports files of one sample, but those of '%s' have more: make it with "
                            "samples_per_file=1" % path)
    return catalog


def _open_part(catalog, ids):
    """A catalog of some of the files of another one, next to it, named after its content."""
    name = hashlib.sha256(catalog.digest.encode() + ids.tobytes()).hexdigest()[:16]
    if parse_uri(catalog.path).objects:
        raise BadValueError(22, "the %d files that DLIO reads are not contiguous in '%s': set SHOAL_CATALOG to a file, "
                            "so that a catalog of these can be made next to it" % (len(ids), catalog.path))
    path = "%s-%s.cat" % (os.path.splitext(catalog.path)[0], name)

    def names():  # created anew for each try: a try that has to wait for another process has consumed some
        return ((catalog.name(i), catalog.size(i)) if catalog.size(i) is not None else catalog.name(i) for i in ids.tolist())

    part = _when_made(path, lambda: index(names(), path, root=catalog.root, s3=catalog.s3), catalog.s3)
    if len(part) != len(ids):
        raise BadValueError(22, "'%s' has %d files instead of the %d that DLIO reads: remove it, and it is made again"
                            % (path, len(part), len(ids)))
    return part


# ---- The files that DLIO reads


def _prefix(catalog, storage):
    """The common prefix of the folder's files in the catalog."""
    folder, root = storage.rstrip("/"), catalog.root.rstrip("/")
    if not parse_uri(storage).objects:
        folder, root = os.path.realpath(folder), os.path.realpath(local_path(catalog.root))
    if folder == root:
        return ""
    if not folder.startswith(root.rstrip("/") + "/"):
        raise BadValueError(22, "'%s' is a catalog of %s, but DLIO reads %s: set another one in SHOAL_CATALOG, or remove it, and it is "
                            "made again" % (catalog.path, catalog.root, storage))
    return folder[len(root.rstrip("/")) + 1:] + "/"


def _list_of_dlio(args, dataset_type):
    """All files, or in MLCommons' DLIO the same number on every rank."""
    return args.file_list_train if dataset_type is DatasetType.TRAIN else args.file_list_eval


def _find(args, dataset_type):
    """The catalog, and the ids of this rank's part of DLIO's list."""
    catalog, files = open_catalog(args, dataset_type), _list_of_dlio(args, dataset_type)
    if not getattr(args, "files_pre_sharded", False):  # then every rank has the whole list
        files = files[args.my_rank::args.comm_size]
    prefix, folder = _prefix(catalog, _storage(args, dataset_type)), data_folder(args, dataset_type).rstrip("/") + "/"
    ids = numpy.empty(len(files), dtype=numpy.int64)
    for i, file in enumerate(files):
        found = catalog.find(prefix + file[len(folder):]) if file.startswith(folder) else None
        if found is None:
            raise BadValueError(22, "DLIO reads '%s', which is not in '%s', a catalog of %d files of %s: remove the catalog, and it is made "
                                "again" % (file, catalog.path, len(catalog), catalog.root))
        ids[i] = found
    return catalog, ids


def _on_all_ranks(function):
    """The result of function() on each rank. If it fails on one, it fails on all: otherwise they
    would wait for that rank for ever.
    """
    mine = failed = None
    try:
        mine = function()
    except Exception as e:  # raised again below
        failed = e
    everyones = DLIOMPI.get_instance().comm().allgather((mine, failed and str(failed)))
    if failed:
        raise failed
    for rank, (_, words) in enumerate(everyones):
        if words:
            raise Error(errno.ECANCELED, "rank %d: %s" % (rank, words))
    return [each for each, _ in everyones]


def files_of_dlio(args, dataset_type):
    """A catalog, and the range of its files that DLIO's list contains, over all ranks. Collective.
    """
    if not len(_list_of_dlio(args, dataset_type)):  # the same on all ranks
        return None, range(0)
    found = []

    def look():
        found.extend(_find(args, dataset_type))
        ids = found[1]
        return (len(ids), int(ids.min()), int(ids.max()), int(ids.sum())) if len(ids) else None

    parts = [part for part in _on_all_ranks(look) if part]
    catalog, mine = found
    files = range(min(part[1] for part in parts), max(part[2] for part in parts) + 1)
    nr, ids = sum(part[0] for part in parts), sum(part[3] for part in parts)
    if nr == len(files) and 2 * ids == (files[0] + files[-1]) * nr:
        return catalog, files
    ids = numpy.unique(numpy.concatenate(_on_all_ranks(lambda: mine)))
    found[:] = []
    _on_all_ranks(lambda: found.append(_open_part(catalog, ids)))
    return found[0], range(len(found[0]))


# ---- The plug-in


def _order_options(args):
    """Shoal's options for DLIO's."""
    shuffled = str(args.sample_shuffle) != str(Shuffle.OFF) or str(args.file_shuffle) != str(Shuffle.OFF)
    return {"mode": "global" if shuffled else "sequential", "seed": args.seed, "remainder": "drop",
            "world_size": args.comm_size, "frozen": not getattr(args, "seed_change_epoch", True)}


class ShoalDataLoader(BaseDataLoader):
    """For data_loader_classname. Batches have the shape of DLIO's own: the bytes of a sample are
    read and counted.
    """

    def __init__(self, format_type, dataset_type, epoch_number, *_):
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._loader = None

    def read(self, *_):
        """Collective over all ranks: once, before the first epoch."""
        args = self._args
        catalog, files = files_of_dlio(args, self.dataset_type)
        if not files:
            return
        # DLIO leaves its loop after these; more would be read in vain.
        steps = args.total_training_steps if self.dataset_type is DatasetType.TRAIN else -1
        self._loader = Loader(catalog, self.batch_size, rank=args.my_rank, samples=files, steps=steps if steps > 0 else None,
                              in_flight=max(1, args.read_threads), prefetch=max(1, min(64, args.prefetch_size or 2)),
                              **_order_options(args))

    def _shaped(self, nr):
        image = numpy.asarray(self._args.resized_image)
        batch = numpy.broadcast_to(image, (nr,) + image.shape)
        if str(self._args.framework) == "tensorflow":
            return batch
        import torch

        return torch.from_numpy(batch.copy())

    def next(self):
        # DLIO leaves its loop at the last step, so code after a yield may never run: advance the
        # epoch first.
        epoch, self.epoch_number = self.epoch_number, self.epoch_number + 1
        if self._loader is None:
            return
        nr_samples = nr_bytes = 0
        started = time.monotonic()
        try:
            for batch in self._loader.epoch(epoch):
                nr_samples += len(batch)
                nr_bytes += int(batch.lengths.sum())
                yield self._shaped(len(batch))
        finally:
            logging.info("shoal: %s epoch %d: rank %d read %d samples, %d bytes, in %.3f s",
                         _dataset_name(self.dataset_type), epoch, self._args.my_rank, nr_samples, nr_bytes,
                         time.monotonic() - started)

    def finalize(self):
        """After each epoch: the loader is kept for the next."""
