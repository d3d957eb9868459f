"""An iterable dataset over the C loader."""

import dataclasses
import os

import torch
from torch.utils.data import IterableDataset, get_worker_info

from .. import _shoal
from .._errors import BadValueError, Error, StaleError, TransformError
from ..catalog import Catalog
from ..loader import Audit, Loader
from ..order import Order, _choice, _number, spec_from
from .callers import accelerate_callers, batched_again, divides_batches
from .dataset import Tensors, apply, as_tensor, check_transform
from .place import Place
from .samplers import _steps_before, choose_remainder, same_number, warn_left, warn_repeated
from .shared import Skips, make_left_out
from .watch import Ranks

OUTPUTS = ("tensors", "stack", "bytes")

# Workers of a rank whose audits fit into shared memory.
_WORKERS_MAX = 256
_ROW = 13  # words: see _keep_audit()

_EPOCH, _CONSUMED, _SEED, _LOADED = 0, 1, 2, 3
_EPOCH_BITS = 62  # a signed word of shared memory holds one more


def _signed(word):
    return word - 2**64 if word >= 2**63 else word


class _Batches:
    """One iteration, in one process. Its state is for torchdata's StatefulDataLoader, which keeps
    one per worker.
    """

    def __init__(self, dataset, epoch, consumed):
        info = get_worker_info()
        self._dataset = dataset
        self._worker, self._workers = (0, 1) if info is None else (info.id, info.num_workers)
        self._begin(epoch, consumed, 0)

    def _begin(self, epoch, consumed, skip):
        self._at = (epoch, consumed)
        self._taken = skip
        self._failed = self._kept = False
        self._dataset._local = (epoch, consumed, skip) if get_worker_info() is None else None
        self._loader = self._dataset._open_loader(self._worker, self._workers, epoch, consumed, skip)
        self._steps = len(range(self._worker, self._dataset._order_at(epoch, consumed).steps, self._workers))
        self._batches = self._loader.epoch(epoch)

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._next()
        while len(batch) == 0:  # of a rank that has fewer than others: len() does not count it either
            batch = self._next()
        if self._dataset._local is not None:
            self._dataset._local = (*self._at, self._taken)
        finished = self._dataset._finish(batch)
        if self._taken == self._steps:  # the last one: a loop that counts does not request the end
            try:
                self._next()
            except StopIteration:
                pass
        return finished

    def _next(self):
        try:
            batch = next(self._batches)
        except StopIteration:
            if not self._failed and not self._kept:
                self._kept = True
                self._dataset._keep_audit(self._worker, self._workers, self._at, self._loader.audit)
            raise
        except Exception:  # not Ctrl-C, after which it continues
            self._failed = True  # a StopIteration after it is not the end of the epoch
            raise
        self._taken += 1
        return batch

    def state_dict(self):
        epoch, consumed = self._at
        return {"epoch": epoch, "consumed": consumed, "taken": self._taken, "workers": self._workers,
                "state": self._dataset._state(epoch, consumed, 0)}

    def load_state_dict(self, state):
        try:
            workers, at, taken, kept = state["workers"], (state["epoch"], state["consumed"]), state["taken"], state["state"]
        except (KeyError, TypeError):
            raise BadValueError(22, "not the state of an iteration over a ShoalIterable: %.100r" % (state,)) from None
        if workers != self._workers:
            raise BadValueError(22, "this state was saved with %s workers, not %d: resume with ShoalIterable's own "
                                "load_state_dict()" % (workers, self._workers))
        self._dataset._set_seed(self._dataset._check_state(kept).seed)
        self._begin(*at, taken)
        if at[0] > self._dataset.epoch:  # no later epoch was set since
            self._dataset._now_at(*at)


class ShoalIterable(Skips, IterableDataset):
    """Batches of a rank, read by the C loader with many reads in flight, in the order of an epoch.

        dataset = ShoalIterable("train.cat", batch_size=256, seed=7)
        loader = DataLoader(dataset, batch_size=None)

    Pass batch_size=None to DataLoader: the items are batches already. One process is enough for
    reading; workers are for slow transforms. Worker w of n takes every n-th batch, and DataLoader
    takes from them in turn, so the rank's order is the same for any number of workers.

    output: "tensors" (a list of uint8 tensors, without a copy), "stack" (one tensor with a row per
    sample, padded with zeros, and their lengths) or "bytes". transform: a function of one sample's
    tensor or bytes; with_name=True adds its name, with_id=True its id and the epoch (data, name,
    id, epoch); the batch is the list of its results.

    keep_going=True: a sample that cannot be read, or whose transform raises, is skipped, and the
    batch is shorter. `errors` counts such samples over all workers, each once, `first_errors` names
    some, a warning is raised for the first, audit().errors counts those of the epoch, and more than
    max_errors (None: any number) raise TooManyErrors.

    set_epoch() reaches persistent workers. Nothing that was read in one epoch is delivered in
    another, and audit() tells whether each sample was delivered exactly once. Other arguments are
    those of ShoalBatchSampler and Loader.
    """

    def __init__(self, catalog, batch_size, transform=None, *, output="tensors", with_name=False, with_id=False,
                 keep_going=False, max_errors=1000, rank=None,
                 world_size=None, seed=0, shuffle=True, drop_last=False, remainder=None, mode=None, unit=None,
                 window=None, frozen=False, local_copy=None, num_replicas=None, lanes=None, lane_batch=None, **loading):
        super().__init__()
        self._place = Place(rank, same_number(world_size, num_replicas))
        _choice("output", output, OUTPUTS)
        if output == "stack" and (transform or with_name or with_id):
            raise BadValueError(22, "output='stack' cannot be combined with a transform or names: they are for single samples")
        self.output, self.transform, self.with_name = output, check_transform(transform), with_name
        self.with_id, self._left_out, loading["keep_going"] = with_id, make_left_out(keep_going, max_errors), keep_going
        catalog = catalog if isinstance(catalog, Catalog) else Catalog(catalog, local_copy, loading.get("s3"))
        self._catalog, self._path, self._copy, self._digest = catalog, catalog.path, catalog._copy, catalog.digest
        self._s3 = catalog.s3
        self._order = dict(mode=mode or ("global" if shuffle else "sequential"),
                           remainder=choose_remainder(remainder, drop_last, self._place.world_size),
                           rank=self._place.rank, world_size=self._place.world_size, unit=unit, window=window,
                           frozen=frozen, lanes=lanes, lane_batch=lane_batch)
        self._shuffled = self._order["mode"] != "sequential"
        self.batch_size = batch_size
        self._loading = loading
        Order(catalog, batch_size=batch_size, seed=seed, **self._order)  # raises if they are invalid
        Loader(catalog, batch_size, seed=seed, **self._order, **loading)
        # Shared with workers, even persistent ones: the epoch, where in it to begin, the seed,
        # whether a state was loaded and nothing read since; and their audits.
        self._shared = torch.zeros(4, dtype=torch.int64).share_memory_()
        self._set_seed(seed)
        self._audits = torch.zeros(_WORKERS_MAX, _ROW, dtype=torch.int64).share_memory_()
        self._forget()

    def _forget(self):
        self._pid = self._loader = None
        self._key = self._done = None
        self._local = None  # (epoch, consumed, batches) of an iteration in this process
        self._before = 0  # batches of this epoch that the loop had taken when the state was saved
        self._ranks = Ranks("ShoalIterable/" + self._digest)

    # ---- Epochs ----

    @property
    def catalog(self):
        if self._catalog is None:
            catalog = Catalog(self._path, self._copy, self._s3)
            if catalog.digest != self._digest:
                raise StaleError(116, "'%s' is not the catalog that the dataset was made with: its digest is %s, "
                                 "and was %s. Start again with the new one" % (self._path, catalog.digest, self._digest))
            self._catalog = catalog
        return self._catalog

    @property
    def epoch(self):
        return int(self._shared[_EPOCH])

    def set_epoch(self, epoch):
        """Choose the epoch of the next iteration, even in persistent workers.

        The epoch of a loaded state continues where it was, until it has been read to its end.
        """
        self._check_callers(accelerate_callers())
        epoch = _number("epoch", epoch, 0, _EPOCH_BITS)
        if epoch == self.epoch and int(self._shared[_CONSUMED]) and not self._is_done():
            return
        if int(self._shared[_LOADED]) and epoch != self.epoch:
            warn_left(self.epoch, int(self._shared[_CONSUMED]), epoch)
        self._now_at(epoch, 0)
        self._audits.zero_()
        self._local = None
        self._before = 0

    @property
    def seed(self):
        return int(self._shared[_SEED]) % 2**64

    def _set_seed(self, seed):
        self._shared[_SEED] = _signed(_number("seed", seed))

    def _now_at(self, epoch, consumed):
        """Set where the next iteration begins, even in persistent workers."""
        self._shared[_EPOCH] = _number("epoch", epoch, 0, _EPOCH_BITS)
        self._shared[_CONSUMED] = consumed
        self._shared[_LOADED] = 0

    def _is_done(self):
        """Whether all of the epoch was delivered, by as many workers as reported it."""
        return self._audits[0, 0] == self.epoch + 1

    def _check_callers(self, found):
        if self._place.world_size > 1 and divides_batches(found):
            raise BadValueError(22, "Accelerate would divide what rank %d of %d reads among the ranks once more: prepare() the "
                                "data loader as shoal.torch.DataLoader, which it leaves unchanged"
                                % (self._place.rank, self._place.world_size))

    def __iter__(self):
        self._place.check()
        self._check_callers(accelerate_callers())
        if batched_again():
            raise BadValueError(22, "a ShoalIterable yields batches: use DataLoader(..., batch_size=None)")
        epoch, consumed = self._shared.tolist()[:2]
        worker = get_worker_info()
        row = self._audits[0 if worker is None else worker.id % _WORKERS_MAX]
        if self._done == (epoch, consumed) or row[[0, 2]].tolist() == [epoch + 1, consumed]:
            warn_repeated(epoch)
        self._shared[_LOADED] = 0
        return _Batches(self, epoch, consumed)

    def _remaining(self):
        """The number of batches of the next iteration."""
        return self._count(*self._shared.tolist()[:2])

    def _count(self, epoch, consumed):
        order = self._order_at(epoch, consumed)
        steps = order.steps
        if steps and len(order.batch(steps - 1)) == 0:
            steps -= 1
        return steps

    def __len__(self):
        """The number of batches of an epoch. Not fewer in an epoch that continues from a state:
        loops ask once, for all epochs, and count from where they were.
        """
        epoch, consumed = self._shared.tolist()[:2]
        length = self._count(epoch, 0)
        return max(length, self._before + self._count(epoch, consumed)) if consumed else length

    def _finished(self):
        """The rank has read its epoch to the end: called in the process that has the ranks' group.
        """
        epoch, consumed = self._shared.tolist()[:2]
        self._ranks.finished(self._order_at(epoch, consumed), self._place.rank, self._place.world_size, self.batch_size)

    def _order_at(self, epoch, consumed):
        order = Order(self.catalog, batch_size=self.batch_size, epoch=epoch, seed=self.seed, **self._order)
        if consumed:
            order.handle = _shoal.Order(spec_from(order.handle.spec(), consumed), epoch)
        return order

    # ---- In the process that reads ----

    def _open_loader(self, worker, workers, epoch, consumed, skip):
        """The process's loader, at this place. A loader inherited by a fork belongs to another
        process.
        """
        key = (worker, workers, self.seed)
        if self._pid != os.getpid() or self._key != key:
            if get_worker_info() is not None:
                _shoal.catch_sigbus()  # torch has installed its own handler
            self._loader = Loader(self.catalog, self.batch_size, worker=worker, workers=workers, seed=self.seed,
                                  **self._order, **self._loading)
            self._pid, self._key = os.getpid(), key
        self._loader.seek(epoch, consumed, skip)
        self._reading, self._nr_failed = epoch, 0  # transforms that failed in this epoch, in this process
        return self._loader

    def _finish(self, batch):
        failed = batch.errors.any()
        if failed:  # keep_going=True
            for sample in batch:
                if sample.error:
                    name = self.catalog.name(self.catalog.locate(sample.id)[0])
                    self._left_out.add(sample.id, Error(sample.error, "sample %d, '%s': cannot be read: %s" % (
                        sample.id, name, os.strerror(sample.error))), self.catalog)
        if self.output == "stack":
            rows, lengths = torch.from_numpy(batch.stack()), torch.from_numpy(batch.lengths.copy())
            good = torch.from_numpy(batch.errors == 0)
            return (rows, lengths) if good.all() else (rows[good], lengths[good])
        plain = self.output == "tensors" and self.transform is None and not self.with_name and not self.with_id
        if plain and not failed and batch.lengths.all():  # half of the time that the general way takes
            return Tensors([torch.frombuffer(sample, dtype=torch.uint8) for sample in batch.handle])
        items = []
        for sample in batch:
            if sample.error:
                continue
            data = bytes(sample) if self.output == "bytes" else as_tensor(sample)
            try:
                items.append(apply(self.transform, data, self.catalog, sample.id, self.with_name,
                                   self._reading if self.with_id else None))
            except TransformError as e:
                if self._left_out is None:
                    raise
                self._nr_failed += 1
                self._left_out.add(sample.id, e, self.catalog)
        return Tensors(items) if plain else items

    def _keep_audit(self, worker, workers, at, audit):
        self._done = at
        if audit is None or worker >= _WORKERS_MAX:
            return
        audit = dataclasses.replace(audit, samples=audit.samples - self._nr_failed, errors=audit.errors + self._nr_failed)
        words = [at[0] + 1, workers, at[1], audit.samples, audit.errors, audit.bytes, *audit.sum_ids, *audit.sum_order,
                 audit.expected_samples, *audit.expected_ids]
        self._audits[worker] = torch.tensor([_signed(word) for word in words], dtype=torch.int64)
        if get_worker_info() is None:
            self._finished()

    # ---- The audit ----

    def audit(self):
        """What this rank delivered in the epoch that was read last, or None before its end.

        With several ranks it is a part: shoal.torch.reduce_audit() adds them.
        """
        rows = [[word % 2**64 for word in row] for row in self._audits.tolist()]
        workers = rows[0][1]
        if not 1 <= workers <= _WORKERS_MAX or any(row[:3] != rows[0][:3] for row in rows[1:workers]):
            return None
        total = None
        for _, _, _, samples, errors, size, i0, i1, o0, o1, nr, e0, e1 in rows[:workers]:
            part = Audit(samples, errors, size, (i0, i1), (o0, o1), nr, (e0, e1))
            total = part if total is None else total + part
        return total

    # ---- States ----

    def _state(self, epoch, consumed, batches):
        return self._order_at(epoch, consumed).state_dict(batches)

    def _check_state(self, state):
        order = Order(self.catalog, batch_size=self.batch_size, seed=self.seed, **self._order)
        order.load_state_dict(state)
        return order

    def state_dict(self, batches=None):
        """The place in the epoch after the training loop has finished this many batches of the
        current iteration.

        If workers read ahead, only the loop knows how many: pass the number, or use
        shoal.torch.DataLoader, which counts. Without workers, the default is the number of batches
        yielded.
        """
        if get_worker_info() is not None:
            return {}  # a worker's iterator keeps the state
        if batches is None and self._local is not None:
            return dict(self._state(*self._local), steps=self._before + self._local[2], steps_are="batches")
        if batches is None:
            raise BadValueError(22, "only the training loop knows how many batches it has finished: use "
                                "state_dict(batches=...), or shoal.torch.DataLoader, which counts")
        return dict(self._state(*self._shared.tolist()[:2], _number("batches", batches)), steps=self._before + batches, steps_are="batches")

    def load_state_dict(self, state):
        """Continue from a state, saved with any number of ranks, batch size and workers."""
        if get_worker_info() is not None and not state:
            return
        order = self._check_state(state)
        at_end = order.steps == 0
        self._now_at(order.epoch + 1 if at_end else order.epoch, 0 if at_end else order.consumed)
        self._set_seed(order.seed)
        self._audits.zero_()
        self._done = self._local = None
        self._before = 0 if at_end else _steps_before(state, "batches")
        self._shared[_LOADED] = 1

    # ---- Copies in other processes ----

    def __getstate__(self):
        state = self.__dict__.copy()
        for key in ("_catalog", "_pid", "_loader", "_key", "_done", "_local"):
            state[key] = None
        return state

    def __repr__(self):
        return "ShoalIterable(%r, batch_size=%d)" % (self._path, self.batch_size)
