"""Where DLIO's dataset is, the catalog of it, and which of its files DLIO reads."""

import errno
import hashlib
import importlib.util
import os
import time

import numpy
from dlio_benchmark.common.enumerations import DatasetType, Shuffle
from dlio_benchmark.utils.utility import DLIOMPI

from .._errors import BadValueError, Error
from .._store import S3Config, bucket_uri, parse_uri
from ..catalog import Catalog, local_path
from ..indexing import index

_WAIT = 3600  # seconds to wait for another process that makes the catalog

# DLIO's storage_options, and the fields of S3Config.
_S3_OPTIONS = {"endpoint_url": "endpoint", "region": "region", "access_key_id": "access_key",
               "secret_access_key": "secret_key"}


# ---- The location of the dataset


def dataset_name(dataset_type):
    return "train" if dataset_type is DatasetType.TRAIN else "valid"


def config_name(dataset_type):
    """What DLIO's keys call it: num_files_train, num_files_eval."""
    return "train" if dataset_type is DatasetType.TRAIN else "eval"


def _is_bucket(args):
    kind = str(args.storage_type)
    if kind not in ("local_fs", "s3"):
        raise BadValueError(22, "shoal.dlio supports storage_type local_fs and s3, not %s: use DLIO's own loader for that" % kind)
    return kind == "s3"


def data_folder(args, dataset_type):
    """The folder, or s3:// URI, that DLIO lists: its list's names begin with it."""
    folder = os.path.join(args.data_folder, dataset_name(dataset_type))
    if not _is_bucket(args):
        return os.path.join(args.storage_root or "", folder)
    return folder if parse_uri(folder).local is None else bucket_uri(args.storage_root.rstrip("/"), folder.lstrip("/"))


def storage_of(args, dataset_type):
    """The same as Shoal finds it."""
    folder = data_folder(args, dataset_type)
    if not _is_bucket(args):
        return folder
    whole = str((getattr(args, "storage_options", None) or {}).get("use_full_object_uri", "")).lower() in ("true", "1", "yes")
    if whole or importlib.util.find_spec("dlio_benchmark.storage.s3_torch_storage"):  # always so in Argonne's DLIO
        # The key of the object is the whole URI.
        return bucket_uri(folder.split("/")[2], folder)
    return folder


def _s3_config(args):
    """The server and the keys of storage_options. None: the environment's."""
    options = getattr(args, "storage_options", None) or {}
    given = {field: str(options[key]) for key, field in _S3_OPTIONS.items() if options.get(key)}
    return S3Config(**given) if _is_bucket(args) and given else None


def catalog_path(args, dataset_type):
    """Where the catalog of a dataset is."""
    name = dataset_name(dataset_type)
    given = os.environ.get("SHOAL_CATALOG")
    if given:
        return given.replace("{dataset}", name)
    if _is_bucket(args):
        raise BadValueError(22, "with storage_type s3, set the path of the catalog, which is made if it is missing: SHOAL_CATALOG=/path/{dataset}.cat, in which "
                            "{dataset} stands for train or valid")
    return data_folder(args, dataset_type) + ".cat"


# ---- The catalog


def patterns(args, dataset_type):
    """Which files DLIO takes: by the end of the name in a folder, by the extension in subfolders."""
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
    path, s3 = catalog_path(args, dataset_type), _s3_config(args)
    return _when_made(path, lambda: index(storage_of(args, dataset_type), path, s3=s3, **patterns(args, dataset_type)), s3)


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


def prefix_in(catalog, storage):
    """What the catalog's names of the files in the folder begin with."""
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
    prefix, folder = prefix_in(catalog, storage_of(args, dataset_type)), data_folder(args, dataset_type).rstrip("/") + "/"
    ids = numpy.empty(len(files), dtype=numpy.int64)
    for i, file in enumerate(files):
        found = catalog.find(prefix + file[len(folder):]) if file.startswith(folder) else None
        if found is None:
            raise BadValueError(22, "DLIO reads '%s', which is not in '%s', a catalog of %d files of %s: remove the catalog, and it is made "
                                "again" % (file, catalog.path, len(catalog), catalog.root))
        ids[i] = found
    return catalog, ids


def on_all_ranks(function):
    """What function() gives on each rank. When it fails on one it fails on all: the others would wait for that one for ever."""
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

    parts = [part for part in on_all_ranks(look) if part]
    catalog, mine = found
    files = range(min(part[1] for part in parts), max(part[2] for part in parts) + 1)
    nr, ids = sum(part[0] for part in parts), sum(part[3] for part in parts)
    if nr == len(files) and 2 * ids == (files[0] + files[-1]) * nr:
        return catalog, files
    ids = numpy.unique(numpy.concatenate(on_all_ranks(lambda: mine)))
    found[:] = []
    on_all_ranks(lambda: found.append(_open_part(catalog, ids)))
    return found[0], range(len(found[0]))


# ---- In which order


def order_options(args):
    """Shoal's words for DLIO's."""
    shuffled = str(args.sample_shuffle) != str(Shuffle.OFF) or str(args.file_shuffle) != str(Shuffle.OFF)
    return {"mode": "global" if shuffled else "sequential", "seed": args.seed, "remainder": "drop",
            "world_size": args.comm_size, "frozen": not getattr(args, "seed_change_epoch", True)}
