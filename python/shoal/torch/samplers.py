"""Samplers that compute their order instead of holding it."""

import warnings

from torch.utils.data import Sampler

from .._errors import BadValueError
from ..columns import Batches, KeptOrder, open_column
from ..order import Order, _number, opened
from .place import Place


def warn_repeated(epoch):
    warnings.warn("epoch %d is read again, in the same order: call set_epoch() before each epoch, or use "
                  "shoal.torch.DataLoader, which does" % epoch, RuntimeWarning, stacklevel=3)


def choose_remainder(remainder, drop_last, world_size):
    """As PyTorch has it: all ranks get as many batches, the last filled up from the epoch's beginning; with
    drop_last what does not fill a step is left out; a single process gets a short last batch."""
    if remainder is not None:
        return remainder
    if drop_last:
        return "drop"
    return "pad" if world_size > 1 else "keep"


class _Steps:
    """An iterator over a sampler's steps, whose state is where it stands."""

    def __init__(self, sampler):
        self._sampler = sampler
        self._epoch = sampler.epoch
        self._begin()

    def _begin(self):
        self._items = self._sampler._items()
        self._sampler._yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        try:
            item = next(self._items)
        except StopIteration:
            self._sampler._ended(self._epoch)
            raise
        self._sampler._yielded += 1
        return item

    def state_dict(self):
        return self._sampler.state_dict()

    def load_state_dict(self, state):
        """At the end of an epoch this iteration has nothing left; the sampler's next is the epoch after it."""
        self._sampler.load_state_dict(state)
        self._epoch = state["epoch"]
        self._begin()
        if self._epoch != self._sampler.epoch:
            self._items = iter(())


class _ShoalSampler(Sampler):
    """What both samplers share: the order, the rank, epochs and states."""

    def __init__(self, dataset, batch_size, rank, world_size, seed, shuffle, drop_last, remainder, mode, unit, window,
                 frozen, keep=None, by_length=None):
        self._place = Place(rank, world_size)
        dataset = opened(dataset)
        mode = mode or ("global" if shuffle else "sequential")
        remainder = choose_remainder(remainder, drop_last, self._place.world_size)
        here = {"seed": seed, "remainder": remainder, "rank": self._place.rank, "world_size": self._place.world_size,
                "frozen": frozen}
        if by_length is not None:
            column = open_column(by_length.pop("sort_by"), dataset)
            self.order = Batches(column, batch_size=batch_size, shuffle=shuffle, **by_length, **here)
        elif keep is not None:
            self.order = KeptOrder(dataset, keep, batch_size=batch_size, mode=mode, unit=unit, window=window, **here)
        else:
            self.order = Order(dataset, batch_size=batch_size, mode=mode, unit=unit, window=window, **here)
        self._yielded = 0
        self._done = None  # the epoch that was read to its end

    @property
    def rank(self):
        return self._place.rank

    @property
    def world_size(self):
        return self._place.world_size

    @property
    def epoch(self):
        return self.order.epoch

    def set_epoch(self, epoch):
        """Choose the epoch that the next iteration gives. Microseconds at any number of samples.

        The epoch that a loaded state is in goes on where it was, until it was read to its end.
        """
        if _number("epoch", epoch) == self.order.epoch and self.order.consumed and self._done is None:
            return
        self.order.set_epoch(epoch)
        self._done = None
        self._yielded = 0

    def __iter__(self):
        self._place.check()
        if self._done == self.epoch:
            warn_repeated(self.epoch)
            self.order.set_epoch(self.epoch)
            self._done = None
        return _Steps(self)

    def _ended(self, epoch):
        if epoch == self.epoch:
            self._done = epoch

    def __len__(self):
        """How many the next iteration gives."""
        steps = self.order.steps
        if steps and len(self.order.batch(steps - 1)) == 0:
            steps -= 1  # "keep", and nothing was left for this rank
        return steps

    def state_dict(self, steps=None):
        """Where the epoch is after this many items of the running iteration; by default, all that were yielded.

        A DataLoader with workers takes items ahead of the training loop: give the number that the loop has
        finished, or use shoal.torch.DataLoader or torchdata's StatefulDataLoader, which count.
        """
        return self.order.state_dict(self._yielded if steps is None else steps)

    def load_state_dict(self, state):
        """Go on from a state, saved with any number of ranks, batch size and workers."""
        self.order.load_state_dict(state)
        self._yielded = 0
        self._done = None
        if self.order.steps == 0:  # it was at the end
            self.order.set_epoch(self.epoch + 1)


class ShoalSampler(_ShoalSampler):
    """Sample ids of a rank, one by one, in the order of an epoch, in place of DistributedSampler.

    dataset: a ShoalDataset, a Catalog or its path, anything with a length, or a number. rank and world_size are those of
    torch.distributed, else of what started the ranks (torchrun, Open MPI, MPICH), else 0 of 1. keep: a column of
    type bit (or its name or path): only samples with a 1 come.
    """

    def __init__(self, dataset, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False, remainder=None,
                 mode=None, unit=None, window=None, frozen=False, keep=None):
        super().__init__(dataset, 1, rank, world_size, seed, shuffle, drop_last, remainder, mode, unit, window, frozen,
                         keep)

    def _items(self):
        return self.order.ids()


class ShoalBatchSampler(_ShoalSampler):
    """Batches of sample ids of a rank, for DataLoader(batch_sampler=...).

    keep: a column of type bit (or its name or path): only samples with a 1 come. sort_by: a sorted column of
    lengths (or its name or path): batches are of samples of similar length, with max_tokens of as many as that
    allows (longest times number), from buckets of `bucket` samples that are mixed with each other; `group`
    batches of similar length come together, for the ranks of a step. See shoal.Batches.
    """

    def __init__(self, dataset, batch_size=None, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False,
                 remainder=None, mode=None, unit=None, window=None, frozen=False, keep=None, sort_by=None, bucket=None,
                 max_tokens=None, group=None):
        by_length = None
        if sort_by is not None:
            if keep is not None or mode is not None or unit is not None or window is not None:
                raise BadValueError(22, "sort_by goes without keep, mode, unit and window: sort the column with "
                                    "Column.sort(keep=...) to leave samples out")
            by_length = {"sort_by": sort_by, "bucket": bucket, "max_tokens": max_tokens, "group": group}
        elif bucket is not None or max_tokens is not None or group is not None:
            raise BadValueError(22, "bucket, max_tokens and group need a column of lengths: give sort_by")
        super().__init__(dataset, batch_size, rank, world_size, seed, shuffle, drop_last, remainder, mode, unit, window,
                         frozen, keep, by_length)
        self.batch_size = batch_size
        self.drop_last = drop_last

    def _items(self):
        for ids in self.order.batches():
            if len(ids):
                yield ids.tolist()
