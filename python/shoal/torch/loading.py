"""torch's DataLoader with epochs that advance by themselves, and a state that counts what was
delivered.
"""

import itertools
import warnings

import torch.utils.data
from torch.utils.data import Sampler

from .._errors import BadValueError
from .callers import called_by_lightning
from .dataset import ShoalDataset
from .iterable import ShoalIterable
from .samplers import ShoalBatchSampler, ShoalSampler


def _with_sampler(dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                  pin_memory=False, drop_last=False, **more):
    """The arguments of a torch DataLoader by name, with Shoal's sampler if shuffle is given."""
    if isinstance(sampler, ShoalBatchSampler):
        raise BadValueError(22, "a ShoalBatchSampler yields batches: use DataLoader(..., batch_sampler=...), not sampler=")
    if isinstance(dataset, ShoalDataset) and sampler is None and batch_sampler is None and shuffle is not None:
        sampler, shuffle = ShoalSampler(dataset, shuffle=shuffle, drop_last=drop_last), None
    more.update(batch_size=batch_size, sampler=sampler, batch_sampler=batch_sampler, num_workers=num_workers,
                collate_fn=collate_fn, pin_memory=pin_memory, drop_last=drop_last)
    if shuffle is not None:
        more["shuffle"] = shuffle
    return more


class _EpochOfIterable(Sampler):
    """Takes the place of a sampler in torch's DataLoader; frameworks look here for set_epoch()."""

    def __init__(self, iterable):
        self._iterable = iterable

    def set_epoch(self, epoch):
        self._iterable.set_epoch(epoch)

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(torch.utils.data.DataLoader):
    """A torch DataLoader over Shoal's samplers or iterable, used in the same way, and

    - each iteration that follows a complete one is the next epoch, unless set_epoch() was called.
      An iteration that yielded all its batches is complete, even if the loop did not request one
      more;
    - state_dict() is the state of the training loop, not of the workers that read ahead;
      load_state_dict() continues there with any number of ranks, workers, and samples per batch;
    - Lightning, Ray Train and Accelerate do not divide the data among ranks again: see
      docs/frameworks.md.

    Over a ShoalDataset, shuffle=True or False without a sampler creates a ShoalSampler. Other
    datasets with other samplers are read as by torch's DataLoader; their state is empty.
    """

    def __init__(self, dataset, *args, **kwargs):
        names = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
                 "timeout", "worker_init_fn", "multiprocessing_context", "generator")
        if len(args) > len(names):
            raise TypeError("DataLoader takes at most %d arguments without names, not %d" % (1 + len(names), 1 + len(args)))
        super().__init__(dataset, **_with_sampler(dataset, **dict(zip(names, args)), **kwargs))
        self._shoal_batches = 0
        self._shoal_done = None
        self._shoal_length = None  # a length that was returned by len()
        source = self._source()[0]
        if isinstance(source, ShoalBatchSampler):  # instead of one that is not used
            source._check_dataset(dataset)
            self.__dict__["sampler"] = source
        elif source is dataset:
            self.__dict__["sampler"] = _EpochOfIterable(dataset)
        elif source is not None:
            source._check_dataset(dataset)
        self._shoal_left = None  # (epoch, where it began) of an iteration that was left early
        # Then Accelerate's prepare() leaves it unchanged: it could neither split nor join batches
        # of an unknown kind.
        self._is_accelerate_prepared = source is dataset

    def _source(self):
        """The object that decides the order, and how many of its steps make a batch; (None, 1): it
        is not Shoal's.
        """
        if isinstance(self.dataset, ShoalIterable):
            if self.batch_size is not None:
                raise BadValueError(22, "a ShoalIterable yields batches: use DataLoader(..., batch_size=None)")
            return self.dataset, 1
        if isinstance(self.batch_sampler, ShoalBatchSampler):
            return self.batch_sampler, 1
        own = getattr(self.batch_sampler, "sampler", self.sampler)
        if isinstance(own, ShoalSampler) and type(self.batch_sampler) in (torch.utils.data.BatchSampler, type(None)):
            return own, getattr(self.batch_sampler, "batch_size", 1)
        if isinstance(self.dataset, ShoalDataset) and isinstance(self.sampler, torch.utils.data.SequentialSampler) and (
                type(self.batch_sampler) in (torch.utils.data.BatchSampler, type(None))):
            raise BadValueError(22, "over a ShoalDataset shoal.torch.DataLoader needs shuffle=True or False, a ShoalSampler or a "
                                "ShoalBatchSampler, which divide the samples among the ranks: without one use torch's DataLoader")
        return None, 1

    def _remaining(self):
        """The number of batches of the next iteration; None if unknown."""
        source, size = self._source()
        if source is None:
            return None
        samples = source._remaining()
        return samples // size if getattr(self.batch_sampler, "drop_last", False) else -(-samples // size)

    def __len__(self):
        """The number of batches of an epoch, even if one continues from a state: see the samplers.
        """
        self._shoal_length = super().__len__()
        return self._shoal_length

    def set_epoch(self, epoch):
        """Choose the epoch of the next iteration."""
        source = self._source()[0] or getattr(self.batch_sampler, "sampler", self.sampler)
        if hasattr(source, "set_epoch"):
            source.set_epoch(epoch)
        self._shoal_done = None
        self._shoal_batches = 0

    def __iter__(self):
        source, _ = self._source()
        if source is None:
            return super().__iter__()
        return self._epoch(source)

    def _epoch(self, source):
        """Begins when its first batch is requested: set_epoch() and load_state_dict() may be called
        until then.
        """
        if self._shoal_done is not None and self._shoal_done == source.epoch:
            source.set_epoch(source.epoch + 1)
        self._shoal_done = None
        self._shoal_batches = 0
        epoch, left = source.epoch, self._remaining()
        self._warn_if_left(source, left)
        try:
            for batch in super().__iter__():
                self._shoal_batches += 1
                if self._shoal_batches == left:
                    self._whole(source, epoch)
                yield batch
                del batch
            if self._shoal_done is None:
                self._whole(source, epoch)
        finally:
            if self._shoal_done is None:
                self._shoal_left = (epoch, left) if self._shoal_batches else None
                if source is not self.dataset:
                    source._left_early(epoch)

    def _warn_if_left(self, source, left):
        """A loop that is left early and begins again reads the same samples again, which may be
        intended or not.
        """
        if self._shoal_left == (source.epoch, left) and source._shuffled:
            warnings.warn("epoch %d was left before its end, and begins again in the same order, so its last samples may never "
                          "be read: call set_epoch() before each iteration, or load_state_dict() to continue"
                          % source.epoch, RuntimeWarning, stacklevel=3)
        self._shoal_left = None

    def _whole(self, source, epoch):
        self._shoal_done = epoch
        if source is self.dataset and self.num_workers and epoch == source.epoch:
            source._finished()  # workers have no group of ranks

    def state_dict(self):
        """The state after the batches that the loop has received."""
        source, steps = self._source()
        return {} if source is None else source.state_dict(self._shoal_batches * steps)

    def load_state_dict(self, state):
        source = self._source()[0]
        if source is None and state:
            raise BadValueError(22, "this is the state of a loader over Shoal's samplers or iterable, but this loader has none")
        told = self._shoal_length
        if source is not None:
            source.load_state_dict(state)
        self._shoal_done = None
        self._shoal_batches = 0
        if told is not None and len(self) > told and called_by_lightning():
            raise BadValueError(22, "%d steps of this epoch are done and %d are left, but Lightning has read the number of "
                                "steps before it loads the state, and would stop after %d: load the state "
                                "in train_dataloader(), as docs/frameworks.md shows" % (len(self) - self._remaining(),
                                                                                        self._remaining(), told))
