"""Samplers that compute their order instead of holding it."""

import copy
import warnings

from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

from .. import _shoal
from .._errors import BadValueError
from ..columns import Batches, KeptOrder, open_column
from ..order import MODES, Order, _number, opened
from .callers import accelerate_callers, shares_out
from .dataset import tell_epoch
from .place import Place
from .watch import Ranks, compare_reads, watch_reads


def warn_repeated(epoch):
    warnings.warn("epoch %d is read again, in the same order: call set_epoch() before each epoch, or use "
                  "shoal.torch.DataLoader, which does" % epoch, RuntimeWarning, stacklevel=3)


def warn_left(state_epoch, consumed, epoch):
    warnings.warn("set_epoch(%d) leaves the state that was loaded, which was in epoch %d after %d samples of all ranks: to "
                  "go on there, begin with set_epoch(%d)" % (epoch, state_epoch, consumed, state_epoch), RuntimeWarning,
                  stacklevel=3)


def choose_remainder(remainder, drop_last, world_size):
    """As PyTorch has it: all ranks get as many batches, the last filled up from the epoch's beginning; with
    drop_last what does not fill a step is left out; a single process gets a short last batch."""
    if remainder is not None:
        return remainder
    if drop_last:
        return "drop"
    return "pad" if world_size > 1 else "keep"


def same_number(world_size, num_replicas):
    """The world size, which may also be called num_replicas, as DistributedSampler calls it."""
    if num_replicas is None:
        return world_size
    if world_size is not None and world_size != num_replicas:
        raise BadValueError(22, "world_size=%r and num_replicas=%r are two names of one number" % (world_size, num_replicas))
    return num_replicas


def check_dataset(dataset):
    """What has a length is not always a dataset: frameworks make a batch sampler anew of its class and a sampler of
    their own, whose length is one rank's share."""
    if isinstance(dataset, (Sampler, DataLoader)):
        raise TypeError(
            "this makes a sampler of a %s, not of a dataset. In Lightning: use shoal.torch.DataLoader, which Lightning leaves "
            "as it is, or Trainer(use_distributed_sampler=False); to predict, give a ShoalSampler as sampler=. See "
            "docs/frameworks.md" % type(dataset).__name__)
    return opened(dataset)


class _Steps:
    """An iterator over a sampler's steps, whose state is where it stands. It keeps to the epoch that was the sampler's
    when its first step was asked for."""

    def __init__(self, sampler, whole, skipped):
        self._sampler, self._whole, self._skipped = sampler, whole, skipped
        self._items = None
        self._told = False
        sampler._yielded = 0

    def _begin(self):
        self._order = self._sampler.order
        shared = _of_all_ranks(self._order) if self._whole else None
        self._items = self._sampler._items(shared or self._order, self._whole and shared is None)
        self._left = self._sampler._count(shared or self._order, self._whole and shared is None)
        self._given, self._samples = 0, 0
        self._sampler._loaded = False

    def __iter__(self):
        return self

    def __next__(self):
        if self._items is None:
            self._begin()
        item = next(self._items, None)
        if item is None:
            self._ended()
            raise StopIteration
        if self._order is not self._sampler.order and not self._told:
            self._told = True
            warnings.warn("set_epoch() or load_state_dict() came after the iteration had begun: it goes on in epoch %d, and "
                          "the next one is in epoch %d" % (self._order.epoch, self._sampler.epoch), RuntimeWarning,
                          stacklevel=2)
        self._given += 1
        self._samples += len(item) if isinstance(item, list) else 1
        if self._order is self._sampler.order:
            self._sampler._yielded = self._given // (self._order.world_size if self._whole else 1)
        if self._given == self._left:  # loops that count do not ask for one more
            self._ended()
        return tell_epoch(item, self._order.epoch) if self._sampler._tells_epoch else item

    def _ended(self):
        if self._left is not None and self._order is self._sampler.order:
            share = self._samples // self._order.world_size if self._whole else self._samples
            self._sampler._ended(None if self._skipped else share)
        self._left = None

    def state_dict(self):
        return self._sampler.state_dict()

    def load_state_dict(self, state):
        """At the end of an epoch this iteration has nothing left; the sampler's next is the epoch after it."""
        self._sampler.load_state_dict(state)
        self._begin()
        if state["epoch"] != self._sampler.epoch:
            self._items, self._left = iter(()), None


def _of_all_ranks(order):
    """The order of all ranks together, from where this one begins; None of an order that depends on their number."""
    if not isinstance(order, Order) or order.handle.spec()[0] == MODES.index("local"):
        return None
    spec = order.handle.spec()
    order = copy.copy(order)
    order.rank, order.handle = 0, _shoal.Order(spec[:7] + (1,) + spec[8:], order.epoch)
    order._spec = order.handle.spec()[:9] + (0,)
    return order


class _ShoalSampler(DistributedSampler):
    """What both samplers share: the order, the rank, epochs and states.

    A DistributedSampler, because Lightning and Ray Train leave the data loader of such a sampler as it is.
    """

    _steps_are = "samples"  # what the steps of a state are

    def __init__(self, dataset, batch_size, rank, world_size, seed, shuffle, drop_last, remainder, mode, unit, window,
                 frozen, keep=None, by_length=None):
        dataset = check_dataset(dataset)
        self._place = Place(rank, world_size)
        mode = mode or ("global" if shuffle else "sequential")
        remainder = choose_remainder(remainder, drop_last, self._place.world_size)
        self.shuffle, self.drop_last = bool(shuffle), remainder == "drop"
        here = {"seed": seed, "remainder": remainder, "rank": self._place.rank, "world_size": self._place.world_size,
                "frozen": frozen}
        if by_length is not None:
            column = open_column(by_length.pop("sort_by"), dataset)
            self.order = Batches(column, batch_size=batch_size, shuffle=shuffle, **by_length, **here)
        elif keep is not None:
            self.order = KeptOrder(dataset, keep, batch_size=batch_size, mode=mode, unit=unit, window=window, **here)
        else:
            self.order = Order(dataset, batch_size=batch_size, mode=mode, unit=unit, window=window, **here)
        self._catalog_digest = getattr(getattr(dataset, "catalog", dataset), "digest", None)
        self._nr_samples = len(dataset) if hasattr(dataset, "__len__") else int(dataset)
        self._shuffled = mode != "sequential"
        self._split = False  # by Accelerate, whose steps are parts of batches
        self._tells_epoch = getattr(dataset, "with_id", False)  # its transform is to have it
        self._yielded = 0  # steps of the running iteration
        self._before = 0  # steps of this epoch that the loop had taken before the state was saved
        self._loaded = False  # a state, and nothing was read since
        self._done = None  # the epoch that was read to its end
        self._reads = watch_reads(dataset, self.world_size)
        self._read = None  # (samples given, the dataset's count before them) of a whole iteration
        self._ranks = Ranks("%s/%s" % (type(self).__name__, self.order.state_dict(0)["digest"]))

    @property
    def rank(self):
        return self._place.rank

    @property
    def world_size(self):
        return self._place.world_size

    num_replicas = world_size

    @property
    def num_samples(self):
        return len(self)

    @property
    def epoch(self):
        return self.order.epoch

    @property
    def sampler(self):
        """Itself: frameworks look here for the one whose epoch they set."""
        return self

    def set_epoch(self, epoch):
        """Choose the epoch that the next iteration gives. Microseconds at any number of samples.

        The epoch that a loaded state is in goes on where it was, until it was read to its end.
        """
        if self._done == epoch and accelerate_callers():
            return  # its count stands still where the loop does not ask for the end: __iter__() warns
        if _number("epoch", epoch) == self.order.epoch and self._done is None:
            if not self.order.consumed:
                self._yielded = 0
            return
        if self._loaded:
            warn_left(self.order.epoch, self.order.consumed, epoch)
        self._go_to(epoch)

    def _go_to(self, epoch):
        order = copy.copy(self.order)  # a running iteration keeps its own
        order.set_epoch(epoch)
        self._begin_at(order, 0)

    def _begin_at(self, order, before):
        self.order, self._before = order, before
        self._yielded = 0
        self._done = None
        self._loaded = False

    def __iter__(self):
        self._place.check()
        found = accelerate_callers()
        if "SkipBatchSampler" in found and "DataLoaderShard" in found:
            # Together they hide the sampler from set_epoch(). Older ones count anew from 0, when it was set before.
            self.set_epoch(max(self.epoch, found["DataLoaderShard"].iteration))
        if self._done == self.epoch:
            warn_repeated(self.epoch)
            self._go_to(self.epoch)
        self._compare_reads()
        self._split = getattr(found.get("BatchSamplerShard"), "split_batches", False)
        divided = shares_out(found)  # by Accelerate, which gives this process a part of what this sampler gives
        return _Steps(self, self.world_size > 1 and divided, "SkipBatchSampler" in found or (self.world_size == 1 and divided))

    def _ended(self, samples):
        """samples: that are to be read of the iteration; None if somebody leaves some out on purpose."""
        self._done = self.epoch
        self._read = None if samples is None else (self.epoch, samples)
        self._ranks.finished(self.order, self.rank, self.world_size, getattr(self, "batch_size", 1))

    def _check_dataset(self, dataset):
        """Before a loader reads: the samples must be those that this was made over."""
        digest = getattr(getattr(dataset, "catalog", None), "digest", None)
        if digest is None:
            return
        if self._catalog_digest is not None and self._catalog_digest != digest:
            raise BadValueError(22, "the sampler was made over another catalog than the dataset's (digest %s, not %s): make it over "
                                "the dataset itself" % (self._catalog_digest, digest))
        if self._catalog_digest is None and self._nr_samples != len(dataset):
            raise BadValueError(22, "the sampler is for %d samples, and the dataset has %d: make it over the dataset itself"
                                % (self._nr_samples, len(dataset)))

    def _left_early(self, epoch):
        """The loop broke off: workers may have taken all steps ahead of it, but the epoch was not read."""
        if epoch == self.epoch:
            self._done = self._read = None

    def _compare_reads(self):
        if self._reads is None:
            return
        self._reads.asked()
        total = self._reads.total()
        if self._read is not None:
            short = self._read[1] - (total - self._reads_before)
            if short >= self.world_size * (getattr(self, "batch_size", 1) or 1):  # less may be a remainder that was dropped
                compare_reads(*self._read, total - self._reads_before, self.rank, self.world_size)
        self._read, self._reads_before = None, total

    def _count(self, order, all_ranks=False):
        """Items from where the order begins to its end, of this rank or of all."""
        steps = order.steps
        if all_ranks:
            return max(0, steps - 1) * order.world_size + sum(len(order.batch(steps - 1, rank)) > 0
                                                              for rank in range(order.world_size if steps else 0))
        if steps and len(order.batch(steps - 1)) == 0:
            steps -= 1  # "keep", and nothing was left for this rank
        return steps

    def _remaining(self):
        """How many the next iteration gives."""
        return self._count(self.order)

    def __len__(self):
        """How many an epoch gives. Not fewer in one that goes on from a state: loops ask once, for all epochs, and count
        from where they were."""
        whole = self.world_size > 1 and shares_out(accelerate_callers())
        order = self.order
        if order.consumed:
            order = copy.copy(order)
            order.set_epoch(order.epoch)
        shared = _of_all_ranks(order) if whole else None
        length = self._count(shared or order, whole and shared is None)
        if self.order.consumed and not whole:
            length = max(length, self._before + self._remaining())
        return length

    def state_dict(self, steps=None):
        """Where the epoch is after this many items of the running iteration; by default, all that were yielded.

        A DataLoader with workers takes items ahead of the training loop: give the number that the loop has
        finished, or use shoal.torch.DataLoader or torchdata's StatefulDataLoader, which count.
        """
        if self._split:
            raise BadValueError(22, "with split_batches=True a step of Accelerate's is a part of a batch, so it is not known where "
                                "the loop stands: use split_batches=False, the default, to save states")
        steps = self._yielded if steps is None else steps
        at = self.order.steps if 0 < self._remaining() <= steps else steps  # with "keep", others may have one more
        return dict(self.order.state_dict(at), steps=self._before + steps, steps_are=self._steps_are)

    def load_state_dict(self, state):
        """Go on from a state, saved with any number of ranks, batch size and workers."""
        order = copy.copy(self.order)
        order.load_state_dict(state)
        self._begin_at(order, _steps_before(state, self._steps_are))
        if self.order.steps == 0:  # it was at the end
            self._go_to(self.epoch + 1)
        self._loaded = True


def _steps_before(state, unit):
    """How many steps of its epoch the loop had taken, by a state; 0 by one that does not tell, or that counts in another unit."""
    steps = state.get("steps", 0)
    return steps if isinstance(steps, int) and steps >= 0 and state.get("steps_are", unit) == unit else 0


class ShoalSampler(_ShoalSampler):
    """Sample ids of a rank, one by one, in the order of an epoch, in place of DistributedSampler.

    dataset: a ShoalDataset, a Catalog or its path, anything with a length, or a number. rank and world_size are those of
    torch.distributed, else of what started the ranks (torchrun, Open MPI, MPICH), else 0 of 1; num_replicas is
    another name of world_size. keep: a column of type bit (or its name or path): only samples with a 1 come.
    """

    def __init__(self, dataset, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False, remainder=None,
                 mode=None, unit=None, window=None, frozen=False, keep=None, num_replicas=None):
        super().__init__(dataset, 1, rank, same_number(world_size, num_replicas), seed, shuffle, drop_last, remainder, mode,
                         unit, window, frozen, keep)

    def _items(self, order, all_ranks=False):
        if not all_ranks:
            return order.ids()
        return (int(i) for step in range(order.steps) for rank in range(order.world_size) for i in order.batch(step, rank))


class ShoalBatchSampler(_ShoalSampler):
    """Batches of sample ids of a rank, for DataLoader(batch_sampler=...).

    keep: a column of type bit (or its name or path): only samples with a 1 come. sort_by: a sorted column of
    lengths (or its name or path): batches are of samples of similar length, with max_tokens of as many as that
    allows (longest times number), from buckets of `bucket` samples that are mixed with each other; `group`
    batches of similar length come together, for the ranks of a step. See shoal.Batches.
    """

    _steps_are = "batches"

    def __init__(self, dataset, batch_size=None, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False,
                 remainder=None, mode=None, unit=None, window=None, frozen=False, keep=None, sort_by=None, bucket=None,
                 max_tokens=None, group=None, num_replicas=None):
        by_length = None
        if sort_by is not None:
            if keep is not None or mode is not None or unit is not None or window is not None:
                raise BadValueError(22, "sort_by goes without keep, mode, unit and window: sort the column with "
                                    "Column.sort(keep=...) to leave samples out")
            by_length = {"sort_by": sort_by, "bucket": bucket, "max_tokens": max_tokens, "group": group}
        elif bucket is not None or max_tokens is not None or group is not None:
            raise BadValueError(22, "bucket, max_tokens and group need a column of lengths: give sort_by")
        super().__init__(dataset, batch_size, rank, same_number(world_size, num_replicas), seed, shuffle, drop_last, remainder,
                         mode, unit, window, frozen, keep, by_length)
        self.batch_size = batch_size

    def _items(self, order, all_ranks=False):
        for step in range(order.steps):
            for rank in range(order.world_size) if all_ranks else (order.rank,):
                ids = order.batch(step, rank)
                if len(ids):
                    yield ids.tolist()
