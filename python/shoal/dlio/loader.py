"""The data loader for data_loader_classname: Shoal's engine in place of DLIO's workers and readers."""

import logging
import time

import numpy
from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader

from .._errors import BadValueError
from ..loader import Loader
from .dataset import dataset_name, files_of_dlio, order_options


class ShoalDataLoader(BaseDataLoader):
    """For data_loader_classname. Batches are shaped as DLIO's own are: the sample's bytes are read and counted."""

    def __init__(self, format_type, dataset_type, epoch_number, *_):
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._loader = None

    def read(self, *_):
        """Collective over all ranks: once, before the first epoch."""
        args = self._args
        if args.num_samples_per_file != 1:
            raise BadValueError(22, "shoal.dlio.ShoalDataLoader reads files of one sample, and num_samples_per_file is %d: use "
                                "shoal.dlio.Callback, which keeps DLIO's own readers" % args.num_samples_per_file)
        catalog, files = files_of_dlio(args, self.dataset_type)
        if not files:
            return
        if catalog.samples_per_file != 1:
            raise BadValueError(22, "shoal.dlio.ShoalDataLoader reads files of one sample, and those of '%s' have more: make it with "
                                "samples_per_file=1" % catalog.path)
        # DLIO leaves its loop after these; what follows would be read for nothing.
        steps = args.total_training_steps if self.dataset_type is DatasetType.TRAIN else -1
        self._loader = Loader(catalog, self.batch_size, rank=args.my_rank, ids=files, steps=steps if steps > 0 else None,
                              in_flight=max(1, args.read_threads), prefetch=max(1, min(64, args.prefetch_size or 2)),
                              **order_options(args))

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
                         dataset_name(self.dataset_type), epoch, self._args.my_rank, nr_samples, nr_bytes,
                         time.monotonic() - started)

    def finalize(self):
        """After each epoch: the loader stays, for the next."""
