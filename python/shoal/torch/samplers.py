"""Samplers that compute their order instead of storing it."""

import copy
import warnings

from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

from .. import _shoal
from .._errors import BadValueError
from ..columns import Batches, KeptOrder, open_column
from ..order import MODES, Order, _number, opened, spec_from
from .callers import accelerate_callers, divides_batches
from .dataset import with_epoch
from .place import Place
from .watch import Ranks, compare_reads, watch_reads


def warn_repeated(epoch):
    warnings.warn("epoch %d is read again, in the same order: call set_epoch() before each epoch, or use "
                  "shoal.torch.DataLoader, which does" % epoch, RuntimeWarning, stacklevel=3)


def warn_left(state_epoch, consumed, epoch):
    warnings.warn("set_epoch(%d) discards the state that was loaded, which was in epoch %d after %d samples of all ranks: to "
                  "continue there, begin with set_epoch(%d)" % (epoch, state_epoch, consumed, state_epoch), RuntimeWarning,
                  stacklevel=3)


def choose_remainder(remainder, drop_last, world_size):
    """As in PyTorch: all ranks get the same number of batches, the last one padded from the
    beginning of the epoch; with drop_last, samples that do not fill a step are dropped; a single
    process gets a short last batch.
    """
    if remainder is not None:
        return remainder
    if drop_last:
        return "drop"
    return "pad" if world_size > 1 else "keep"


def same_number(world_size, num_replicas):
    """The world size, which may also be called num_replicas, as in DistributedSampler."""
    if num_replicas is None:
        return world_size
    if world_size is not None and world_size != num_replicas:
        raise BadValueError(22, "world_size=%r and num_replicas=%r are two names of one number" % (world_size, num_replicas))
    return num_replicas


def check_dataset(dataset):
    """An object with a length is not always a dataset: frameworks create a batch sampler anew from
    its class and a sampler of their own, whose length is one rank's share.
    """
    if isinstance(dataset, (Sampler, DataLoader)):
        raise TypeError(
            "this creates a sampler for a %s, not for a dataset. In Lightning: use shoal.torch.DataLoader, which Lightning leaves "
            "unchanged, or Trainer(use_distributed_sampler=False); to predict, pass a ShoalSampler as sampler=. See "
            "docs/frameworks.md" % type(dataset).__name__)
    return opened(dataset)


class _Steps:
    """An iterator over a sampler's steps, with a state. It stays in the epoch that the sampler had
    when the first step was requested.
    """

    def __init__(self, sampler, whole, skipped):
        self._sampler, self._whole, self._skipped = sampler, whole, skipped
        self._items = None
        self._warned = False
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
        if self._order is not self._sampler.order and not self._warned:
            self._warned = True
            warnings.warn("set_epoch() or load_state_dict() was called after the iteration had begun: it continues in epoch %d, and "
                          "the next one is in epoch %d" % (self._order.epoch, self._sampler.epoch), RuntimeWarning,
                          stacklevel=2)
        self._given += 1
        self._samples += len(item) if isinstance(item, list) else 1
        if self._order is self._sampler.order:
            self._sampler._yielded = self._given // (self._order.world_size if self._whole else 1)
        if self._given == self._left:  # loops that count do not request one more
            self._ended()
        return with_epoch(item, self._order.epoch) if self._sampler._adds_epoch else item

    def _ended(self):
        if self._left is not None and self._order is self._sampler.order:
            share = self._samples // self._order.world_size if self._whole else self._samples
            self._sampler._ended(None if self._skipped else share)
        self._left = None

    def state_dict(self):
        return self._sampler.state_dict()

    def load_state_dict(self, state):
        """At the end of an epoch this iteration has nothing left; the sampler's next is the epoch
        after it.
        """
        self._sampler.load_state_dict(state)
        self._begin()
        if state["epoch"] != self._sampler.epoch:
            self._items, self._left = iter(()), None


def _of_all_ranks(order):
    """The order of all ranks together, starting where this one begins; None if the order depends on
    the number of ranks.
    """
    if not isinstance(order, Order) or order.handle.spec()[0] == MODES.index("local"):
        return None
    spec = order.handle.spec()
    order = copy.copy(order)
    order.rank, order.handle = 0, _shoal.Order(spec[:7] + (1,) + spec[8:], order.epoch)
    order._spec = spec_from(order.handle.spec(), 0)
    return order


class _ShoalSampler(DistributedSampler):
    """Shared by both samplers: the order, the rank, epochs and states.

    It is a DistributedSampler, because Lightning and Ray Train leave data loaders with such a
    sampler unchanged.
    """

    _steps_are = "samples"  # the unit of the steps in a state

    def __init__(self, dataset, batch_size, rank, world_size, seed, shuffle, drop_last, remainder, mode, unit, window,
                 frozen, keep=None, by_length=None, lanes=None, lane_batch=None):
        dataset = check_dataset(dataset)
        self._place = Place(rank, world_size)
        mode = mode or ("global" if shuffle else "sequential")
        remainder = choose_remainder(remainder, drop_last, self._place.world_size)
        self.shuffle, self.drop_last = bool(shuffle), remainder == "drop"
        here = {"seed": seed, "remainder": remainder, "rank": self._place.rank, "world_size": self._place.world_size,
                "frozen": frozen}
        lanes = {"lanes": lanes, "lane_batch": lane_batch}
        if by_length is not None:
            column = open_column(by_length.pop("sort_by"), dataset)
            self.order = Batches(column, batch_size=batch_size, shuffle=shuffle, **by_length, **here)
        elif keep is not None:
            self.order = KeptOrder(dataset, keep, batch_size=batch_size, mode=mode, unit=unit, window=window, **lanes,
                                   **here)
        else:
            self.order = Order(dataset, batch_size=batch_size, mode=mode, unit=unit, window=window, **lanes, **here)
        self._catalog_digest = getattr(getattr(dataset, "catalog", dataset), "digest", None)
        self._nr_samples = len(dataset) if hasattr(dataset, "__len__") else int(dataset)
        self._shuffled = mode != "sequential"
        self._split = False  # by Accelerate, whose steps are parts of batches
        self._adds_epoch = getattr(dataset, "with_id", False)  # its transform takes the epoch
        self._yielded = 0  # steps yielded by the current iteration
        self._before = 0  # steps of this epoch that the loop had taken when the state was saved
        self._loaded = False  # a state was loaded, and nothing was read since
        self._done = None  # the last epoch that was read to its end
        self._reads = watch_reads(dataset, self.world_size)
        self._read = None  # (samples yielded, the dataset's count before them) of a complete iteration
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
        """Itself: frameworks look here for the sampler whose epoch they set."""
        return self

    def set_epoch(self, epoch):
        """Choose the epoch of the next iteration. Takes microseconds for any number of samples.

        The epoch of a loaded state continues where it was, until it has been read to its end.
        """
        if self._done == epoch and accelerate_callers():
            return  # its count does not change if the loop does not request the end: __iter__() warns
        if _number("epoch", epoch) == self.order.epoch and self._done is None:
            if not self.order.consumed:
                self._yielded = 0
            return
        if self._loaded:
            warn_left(self.order.epoch, self.order.consumed, epoch)
        self._go_to(epoch)

    def _go_to(self, epoch):
        order = copy.copy(self.order)  # an iteration in progress keeps its own
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
            # Together they hide the sampler from set_epoch(). Older versions count anew from 0 if
            # it was set before.
            self.set_epoch(max(self.epoch, found["DataLoaderShard"].iteration))
        if self._done == self.epoch:
            warn_repeated(self.epoch)
            self._go_to(self.epoch)
        self._compare_reads()
        self._split = getattr(found.get("BatchSamplerShard"), "split_batches", False)
        # By Accelerate, which passes only a part of this sampler's output to this process.
        divided = divides_batches(found)
        return _Steps(self, self.world_size > 1 and divided, "SkipBatchSampler" in found or (self.world_size == 1 and divided))

    def _ended(self, samples):
        """samples: the number to be read in the iteration; None if some are skipped on purpose."""
        self._done = self.epoch
        self._read = None if samples is None else (self.epoch, samples)
        self._ranks.finished(self.order, self.rank, self.world_size, getattr(self, "batch_size", 1))

    def _check_dataset(self, dataset):
        """Called before a loader reads: the samples must be those of this sampler's dataset."""
        digest = getattr(getattr(dataset, "catalog", None), "digest", None)
        if digest is None:
            return
        if self._catalog_digest is not None and self._catalog_digest != digest:
            raise BadValueError(22, "the sampler was made over another catalog than the dataset's (digest %s, not %s): make it over "
                                "the dataset itself" % (self._catalog_digest, digest))
        if self._catalog_digest is None and self._nr_samples != len(dataset):
            raise BadValueError(22, "the sampler is for %d samples, but the dataset has %d: make it over the dataset itself"
                                % (self._nr_samples, len(dataset)))

    def _left_early(self, epoch):
        """The loop was left early: workers may have taken all steps ahead of it, but the epoch was
        not read.
        """
        if epoch == self.epoch:
            self._done = self._read = None

    def _compare_reads(self):
        if self._reads is None:
            return
        self._reads.asked()
        total = self._reads.total()
        if self._read is not None:
            short = self._read[1] - (total - self._reads_before)
            # Fewer may be a remainder that was dropped.
            if short >= self.world_size * (getattr(self, "batch_size", 1) or 1):
                compare_reads(*self._read, total - self._reads_before, self.rank, self.world_size)
        self._read, self._reads_before = None, total

    def _count(self, order, all_ranks=False):
        """The number of items from the start of the order to its end, of this rank or of all."""
        steps = order.steps
        if all_ranks:
            return max(0, steps - 1) * order.world_size + sum(len(order.batch(steps - 1, rank)) > 0
                                                              for rank in range(order.world_size if steps else 0))
        if steps and len(order.batch(steps - 1)) == 0:
            steps -= 1  # with "keep", nothing was left for this rank
        return steps

    def _remaining(self):
        """The number of items of the next iteration."""
        return self._count(self.order)

    def __len__(self):
        """The number of items of an epoch. Not fewer in an epoch that continues from a state: loops
        ask once, for all epochs, and count from where they were.
        """
        whole = self.world_size > 1 and divides_batches(accelerate_callers())
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
        """The state after this many items of the current iteration; by default, all that were
        yielded.

        A DataLoader with workers takes items ahead of the training loop: pass the number that the
        loop has finished, or use shoal.torch.DataLoader or torchdata's StatefulDataLoader, which
        count.
        """
        if self._split:
            raise BadValueError(22, "with split_batches=True a step of Accelerate's is a part of a batch, so it is not known where "
                                "the loop stands: use split_batches=False, the default, to save states")
        steps = self._yielded if steps is None else steps
        at = self.order.steps if 0 < self._remaining() <= steps else steps  # with "keep", others may have one more
        return dict(self.order.state_dict(at), steps=self._before + steps, steps_are=self._steps_are)

    def load_state_dict(self, state):
        """Continue from a state, saved with any number of ranks, batch size and workers."""
        order = copy.copy(self.order)
        order.load_state_dict(state)
        self._begin_at(order, _steps_before(state, self._steps_are))
        if self.order.steps == 0:  # it was at the end
            self._go_to(self.epoch + 1)
        self._loaded = True


def _steps_before(state, unit):
    """The number of steps of its epoch that the loop had taken, according to a state; 0 if the
    state lacks it or counts in another unit.
    """
    steps = state.get("steps", 0)
    return steps if isinstance(steps, int) and steps >= 0 and state.get("steps_are", unit) == unit else 0


class ShoalSampler(_ShoalSampler):
    """Sample ids of a rank, one by one, in the order of an epoch; replaces DistributedSampler.

    dataset: a ShoalDataset, a Catalog or its path, anything with a length, or a number. rank and
    world_size default to those of torch.distributed, then of the launcher (torchrun, Open MPI,
    MPICH), then 0 of 1; num_replicas is another name of world_size. keep: a column of type bit (or
    its name or path): only samples with a 1 are included.
    """

    def __init__(self, dataset, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False, remainder=None,
                 mode=None, unit=None, window=None, frozen=False, keep=None, num_replicas=None, lanes=None, lane_batch=None):
        super().__init__(dataset, 1, rank, same_number(world_size, num_replicas), seed, shuffle, drop_last, remainder, mode,
                         unit, window, frozen, keep, lanes=lanes, lane_batch=lane_batch)

    def _items(self, order, all_ranks=False):
        if not all_ranks:
            return order.ids()
        return (int(i) for step in range(order.steps) for rank in range(order.world_size) for i in order.batch(step, rank))


class ShoalBatchSampler(_ShoalSampler):
    """Batches of sample ids of a rank, for DataLoader(batch_sampler=...).

    keep: a column of type bit (or its name or path): only samples with a 1 are included. sort_by: a
    sorted column of lengths (or its name or path): batches consist of samples of similar length;
    with max_tokens as many as that allows (longest times number), from buckets of `bucket` samples
    that are shuffled together; `group` batches of similar length come together, for the ranks of a
    step. See shoal.Batches.
    """

    _steps_are = "batches"

    def __init__(self, dataset, batch_size=None, rank=None, world_size=None, seed=0, *, shuffle=True, drop_last=False,
                 remainder=None, mode=None, unit=None, window=None, frozen=False, keep=None, sort_by=None, bucket=None,
                 max_tokens=None, group=None, num_replicas=None, lanes=None, lane_batch=None):
        by_length = None
        if sort_by is not None:
            if any(x is not None for x in (keep, mode, unit, window, lanes, lane_batch)):
                raise BadValueError(22, "sort_by cannot be combined with keep, mode, unit, window and lanes: sort the column "
                                    "with Column.sort(keep=...) to exclude samples")
            by_length = {"sort_by": sort_by, "bucket": bucket, "max_tokens": max_tokens, "group": group}
        elif bucket is not None or max_tokens is not None or group is not None:
            raise BadValueError(22, "bucket, max_tokens and group need a column of lengths: set sort_by")
        super().__init__(dataset, batch_size, rank, same_number(world_size, num_replicas), seed, shuffle, drop_last, remainder,
                         mode, unit, window, frozen, keep, by_length, lanes, lane_batch)
        self.batch_size = batch_size

    def _items(self, order, all_ranks=False):
        for step in range(order.steps):
            for rank in range(order.world_size) if all_ranks else (order.rank,):
                ids = order.batch(step, rank)
                if len(ids):
                    yield ids.tolist()
