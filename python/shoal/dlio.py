"""DLIO on Shoal's catalog and order, through DLIO's own plug-in keys, without changing DLIO.

The data loader reads with Shoal's engine, in Shoal's order, new in every epoch; DLIO's workers, their pickles
and their caches are not used:

    reader:
      data_loader_classname: shoal.dlio.ShoalDataLoader
      data_loader_sampler: index

The reader keeps DLIO's own data loader and workers, and only opens nothing twice and caches nothing:

    reader:
      reader_classname: shoal.dlio.ShoalReader

The catalog is $SHOAL_CATALOG, in which {dataset} stands for train or valid; by default <data_folder>/train.cat
and valid.cat. It is made of <data_folder>/train when it is not there. DLIO lists the folder itself before any
plug-in is asked, which takes its own memory and time.

read_threads is how many reads are in flight; prefetch_size how many batches are read ahead; sample_shuffle off
reads in the order of names; seed_change_epoch off repeats one order.
"""

import errno
import logging
import os
import time

import numpy
from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
from dlio_benchmark.reader.reader_handler import FormatReader

from . import _shoal
from ._errors import BadValueError, Error
from .catalog import Catalog
from .indexing import index
from .loader import Loader
from .order import Order

__all__ = ["ShoalDataLoader", "ShoalReader"]

_WAIT = 3600  # seconds for another process to make the catalog


def _dataset_name(dataset_type):
    return "train" if dataset_type is DatasetType.TRAIN else "valid"


def catalog_path(args, dataset_type):
    """Where the catalog of a dataset is."""
    name = _dataset_name(dataset_type)
    given = os.environ.get("SHOAL_CATALOG")
    return given.replace("{dataset}", name) if given else os.path.join(args.data_folder, name + ".cat")


def open_catalog(args, dataset_type):
    """The catalog; made by whoever comes first when it is not there, while the others wait."""
    path, until = catalog_path(args, dataset_type), time.monotonic() + _WAIT
    folder = os.path.join(args.data_folder, _dataset_name(dataset_type))
    while not os.path.exists(path):
        try:
            index(folder, path, include=["*." + str(args.format)])
        except Error as e:
            if e.errno != errno.EBUSY or time.monotonic() > until:
                raise
            time.sleep(0.2)
    catalog = Catalog(path)
    per_file = catalog.samples_per_file or 0
    if per_file != 1 or args.num_samples_per_file != 1:
        raise BadValueError(22, "shoal.dlio reads files of one sample, and num_samples_per_file is %d: use DLIO's own "
                            "loader for these" % max(per_file, args.num_samples_per_file))
    wanted = args.num_files_train if dataset_type is DatasetType.TRAIN else args.num_files_eval
    if len(catalog) < wanted:
        raise BadValueError(22, "'%s' has %d files, and DLIO wants %d: remove it, and it is made again"
                            % (path, len(catalog), wanted))
    return catalog


def _order_options(args):
    """Shoal's words for DLIO's."""
    shuffled = str(args.sample_shuffle) != str(Shuffle.OFF) or str(args.file_shuffle) != str(Shuffle.OFF)
    return {"mode": "global" if shuffled else "sequential", "seed": args.seed, "remainder": "drop",
            "world_size": args.comm_size, "frozen": not getattr(args, "seed_change_epoch", True)}


class ShoalDataLoader(BaseDataLoader):
    """For data_loader_classname. Batches are shaped as DLIO's own are: the sample's bytes are read and counted."""

    def __init__(self, format_type, dataset_type, epoch_number, *_):
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._loader = None

    def read(self, *_):
        args = self._args
        self._loader = Loader(open_catalog(args, self.dataset_type), self.batch_size, rank=args.my_rank,
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
        # DLIO leaves its loop at the last step, so what follows a yield may never run: the epoch goes on first.
        epoch, self.epoch_number = self.epoch_number, self.epoch_number + 1
        batches = self._loader.epoch(epoch)
        nr_samples = nr_bytes = 0
        started = time.monotonic()
        try:
            for batch in batches:
                nr_samples += len(batch)
                nr_bytes += sum(len(sample) for sample in batch)
                yield self._shaped(len(batch))
        finally:
            logging.info("shoal: %s epoch %d: rank %d read %d samples, %d bytes, in %.3f s",
                         _dataset_name(self.dataset_type), epoch, self._args.my_rank, nr_samples, nr_bytes,
                         time.monotonic() - started)

    def finalize(self):
        """After each epoch: the loader stays, for the next."""


class ShoalReader(FormatReader):
    """For reader_classname: a sample of DLIO's index is the one at that position of Shoal's order of the epoch."""

    def __init__(self, dataset_type, thread_index, epoch, *_):
        super().__init__(dataset_type, thread_index)
        self._catalog = open_catalog(self._args, dataset_type)
        options = _order_options(self._args)
        self._order = Order(self._catalog, batch_size=self.batch_size, rank=self._args.my_rank, epoch=epoch, **options)
        self._reader = _shoal.Reader(self._catalog.handle, None, False)
        self.nr_bytes = 0

    def open(self, filename):
        return filename

    def close(self, filename):
        pass

    def get_sample(self, filename, sample_index):
        self._take([self._catalog.index(os.path.relpath(filename, self._catalog.root.replace("file://", "", 1)))])

    def _take(self, ids):
        self.nr_bytes += sum(map(len, self._reader.read(ids, max(1, min(len(ids), 64)), False)))
        for _ in ids:
            self.preprocess()

    def next(self):
        threads = max(1, self._args.read_threads)
        image = numpy.asarray(self._args.resized_image)
        for step in range(max(0, self.thread_index), self._order.steps, threads):
            ids = self._order.batch(step).tolist()
            self._take(ids)
            yield numpy.broadcast_to(image, (len(ids),) + image.shape)

    def read_index(self, global_sample_idx, step):
        self._take([self._order[int(global_sample_idx) % len(self._order)]])
        return self._args.resized_image

    def finalize(self):
        pass

    def is_index_based(self):
        return True

    def is_iterator_based(self):
        return True
