"""Loaders: the samples of a rank in their order, with many reads in flight."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional, Tuple, Union

import numpy

from . import _shoal
from ._errors import BadValueError, Error
from ._keywords import explained
from ._store import S3Config, as_tuple
from ._units import Seconds, Size, milliseconds_of, size_of
from .catalog import Catalog, Path
from .order import BATCH, _choice, _number, check_rank, dataset_facts, make_spec, spec_from, state_from_dict, state_to_dict

ENGINES = ("auto", "uring", "threads")
Range = Callable[[int, int], Any]
_WORD = 2**64
# The library's type for counts of batches and reads; its limits are lower, and it reports them.
_COUNT_MAX = 2**32 - 1


def _part(facts, ids):
    """The facts of a range of the samples, and its first sample. A state of one range cannot be
    resumed in another.
    """
    if ids is None:
        return facts, 0
    if not isinstance(ids, range) or ids.step != 1:
        raise TypeError("ids must be a range, such as range(0, 200), not %r" % (ids,))
    if not 0 <= ids.start < ids.stop <= facts[0]:
        raise BadValueError(22, "there are no samples %d to %d in a catalog of %d" % (ids.start, ids.stop, facts[0]))
    digest = facts[1] if ids.start == 0 else "%.16s%016x" % (facts[1], ids.start)
    return (len(ids), digest, facts[2]), ids.start


def _both(register, unregister):
    if (register is None) != (unregister is None):
        raise TypeError("register and unregister must be given together")
    for word, function in (("register", register), ("unregister", unregister)):
        if function is not None and not callable(function):
            raise TypeError("%s must be a function of an address and a length, not %r" % (word, function))
    return register, unregister


class AuditError(Error):
    """An epoch did not deliver each of its samples exactly once."""


@dataclass(frozen=True)
class Audit:
    """What an epoch delivered, and what it should have delivered, as sums that can be added over
    ranks.

    With several ranks or workers, each has a part: add them with +; then exactly_once tells whether
    every sample was delivered once.
    """

    samples: int
    errors: int
    bytes: int
    sum_ids: Tuple[int, int]
    sum_order: Tuple[int, int]
    expected_samples: int
    expected_ids: Tuple[int, int]

    def __add__(self, other: Audit) -> Audit:
        if not isinstance(other, Audit):
            return NotImplemented
        plus = [tuple((x + y) % _WORD for x, y in zip(a, b)) if isinstance(a, tuple) else a + b
                for a, b in zip(self._values(), other._values())]
        return Audit(*plus)

    def _values(self):
        return (self.samples, self.errors, self.bytes, self.sum_ids, self.sum_order, self.expected_samples,
                self.expected_ids)

    @property
    def exactly_once(self) -> bool:
        """Whether all samples of the epoch were delivered, each once."""
        return self.errors == 0 and self.samples == self.expected_samples and self.sum_ids == self.expected_ids

    @property
    def order_digest(self) -> str:
        """A hash of which sample was at which position: equal only for epochs in the same order."""
        return "%016x%016x" % self.sum_order


class Batch(Sequence):
    """The samples of a step. Their memory belongs to the loader, and is lent as long as a view of
    it exists.

    batch[i] is a sample: it has an id, an error (0, or the reason why it could not be read), a
    length, and its bytes through the buffer protocol: memoryview(sample), numpy.frombuffer(sample,
    numpy.uint8) and torch.frombuffer(sample, dtype=torch.uint8) are views, bytes(sample) is a copy.
    """

    __slots__ = ("handle", "_table")

    def __init__(self, handle):
        self.handle = handle
        self._table = None

    def _columns(self):
        if self._table is None:
            self._table = numpy.empty((len(self.handle), 3), dtype=numpy.int64)
            self.handle.table(self._table)
        return self._table

    def __len__(self) -> int:
        return len(self.handle)

    def __getitem__(self, key: Union[int, slice]) -> Any:
        if isinstance(key, slice):
            return [self.handle[i] for i in range(*key.indices(len(self)))]
        return self.handle[key]

    @property
    def step(self) -> int:
        """The step of the epoch."""
        return self.handle.step

    @property
    def ids(self) -> numpy.ndarray:
        """The samples' ids, as an array."""
        return self._columns()[:, 0]

    @property
    def lengths(self) -> numpy.ndarray:
        """The samples' lengths in bytes, as an array."""
        return self._columns()[:, 1]

    @property
    def errors(self) -> numpy.ndarray:
        """0, or with keep_going=True the errno of a sample that could not be read, as an array."""
        return self._columns()[:, 2]

    def arrays(self) -> List[numpy.ndarray]:
        """The samples as arrays of uint8, without a copy."""
        return [numpy.frombuffer(sample, dtype=numpy.uint8) for sample in self.handle]

    def stack(self, width: Optional[int] = None, fill: int = 0) -> numpy.ndarray:
        """All samples as the rows of one array of uint8, padded with zeros or truncated to the
        width (default: the longest).

        If all have that length, it is a view of the loader's memory: no copy.
        """
        lengths = self.lengths
        if width is None:
            width = int(lengths.max()) if len(self) else 0
        if len(self) and width and (lengths == width).all():
            try:
                return numpy.asarray(memoryview(self.handle))
            except BufferError:  # after direct reads they may be at any place
                pass
        out = numpy.empty((len(self), width), dtype=numpy.uint8)
        self.handle.stack(out, width, fill)
        return out

    def __repr__(self):
        return "<shoal.Batch: step %d, %d samples>" % (self.step, len(self))


class _Epoch:
    """One iteration over a loader. Not a generator: after Ctrl-C it continues, and an error never
    looks like the end of the epoch.
    """

    def __init__(self, loader, number):
        self._loader, self._number, self._begun, self._done = loader, number, False, False
        self._turn = object()  # not self: the loader would keep itself alive
        self._beginning = threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader
        if self._done:
            raise StopIteration
        if not self._begun:
            if not self._beginning.acquire(blocking=False):
                raise RuntimeError("the loader is in use by another thread: open one for each")
            try:
                if not self._begun:
                    loader._begin(self._number, self._turn)
                self._begun = True
            finally:
                self._beginning.release()
        handle = loader._next(self._turn)
        if handle is None:
            self._done = True
            loader._end()
            raise StopIteration
        return Batch(handle)


class Loader:
    """Reads the samples of a rank in each epoch, in the order's sequence, with many reads in
    flight.

        loader = shoal.Loader("train.cat", batch_size=256, seed=7)
        for epoch in range(90):
            for batch in loader.epoch(epoch):
                train(batch.stack())
            assert loader.audit.exactly_once

    Memory is proportional to the bytes of the batches in flight (prefetch + 2 of them), and depends
    neither on the number of files nor on the largest one. `memory` limits it, in bytes: fewer
    batches are then read ahead, and a single batch that exceeds it raises MemoryError. A batch that
    is kept while the next is taken counts, too; only if the limit has no room for both is it
    exceeded. The memory of a batch is reused when nothing refers to it any more; a caller that
    keeps more batches than there is room for gets copies. Nothing that was read in one epoch is
    delivered in another.

    Without an epoch's number, iter(loader) is the epoch after the last one, starting at 0. At the
    end of an epoch `audit` has the proof; for a single rank, a failed audit raises AuditError.
    keep_going=True continues after samples that cannot be read: they are in the batch with their
    error. data, a directory or URI, is where the files are instead of the catalog's root.

    Sizes are bytes, or such as "64M" or "64MB"; times are seconds, or such as "30s" or "500ms".

    if_match=True makes reads from a bucket conditional on the ETags in the catalog (index(...,
    etags=True)): an object that changed since it was listed fails with errno ESTALE.

    ids, a range, restricts the order to these samples, as if there were no others; steps
    is the maximum number of steps of an epoch: nothing is read for later ones. s3 is the
    configuration of the bucket if it differs from the catalog's (Catalog.s3).

    Files are read by as many threads as pay, or by `threads` (1 to 256).

    register(address, length) is called with the memory that samples are delivered from, when the
    first epoch opens it, and unregister(address, length) before it is unmapped, so that a GPU can
    copy from it directly: see docs/python.md. Their exceptions are raised by the iteration and by
    close().

    A loader belongs to one thread of one process. `worker` of `workers` shares a rank: it takes
    every workers-th step.
    """

    @explained
    def __init__(self, catalog: Any, batch_size: int = BATCH, *, seed: int = 0, mode: str = "global", remainder: str = "keep",
                 rank: int = 0, world_size: int = 1, unit: Optional[int] = None, window: Optional[int] = None,
                 frozen: bool = False, data: Optional[Path] = None, in_flight: int = 64, prefetch: int = 2,
                 slot: Optional[Size] = None, engine: str = "auto", direct: bool = False, keep_going: bool = False,
                 object_size: Optional[Size] = None, timeout: Optional[Seconds] = None, stall: Seconds = 10.0,
                 worker: int = 0, workers: int = 1, if_match: bool = False, memory: Optional[Size] = None,
                 ids: Optional[range] = None, steps: Optional[int] = None, s3: Optional[S3Config] = None,
                 lanes: Optional[int] = None, lane_batch: Optional[int] = None, threads: Optional[int] = None,
                 register: Optional[Range] = None, unregister: Optional[Range] = None) -> None:
        self.handle = None
        self._closed = False
        self.audit: Optional[Audit] = None
        self.catalog = catalog if isinstance(catalog, Catalog) else Catalog(catalog, s3=s3)
        self._facts, first = _part(dataset_facts(self.catalog), ids)
        self._steps = None if steps is None else _number("steps", steps, 1)
        self._spec = make_spec(self._facts, batch_size=batch_size, seed=seed, mode=mode, remainder=remainder,
                               world_size=world_size, unit=unit, window=window, frozen=frozen, lanes=lanes,
                               lane_batch=lane_batch)
        self.rank = check_rank(rank, world_size)
        self.workers = _number("workers", workers, 1)
        self.worker = check_rank(worker, self.workers, "worker")
        skip = bool(keep_going)
        # One batch more than are read ahead: in a loop the last one is still held when the next is
        # taken.
        self._options = (None if data is None else os.fsdecode(data), _choice("engine", engine, ENGINES), bool(direct),
                         min(_number("in_flight", in_flight, 1), _COUNT_MAX),
                         min(_number("prefetch", prefetch, 1) + 1, _COUNT_MAX), size_of("slot", slot or 0), self.worker,
                         self.workers, size_of("object_size", object_size or 0), skip, milliseconds_of("stall", stall),
                         0 if timeout is None else milliseconds_of("timeout", timeout), bool(if_match),
                         size_of("memory", memory or 0), ids is not None, first, self._steps or 0,
                         as_tuple(self.catalog.s3 if s3 is None else s3),
                         0 if threads is None else min(_number("threads", threads, 1), _COUNT_MAX),
                         *_both(register, unregister))
        self._skip = skip
        self._at = (0, 0)  # epoch and consumed of the next epoch
        self._skipping = 0  # batches to skip in that epoch only
        self._epoch = self._turn = None
        self._taken = 0
        _shoal.Order(self._spec, 0)  # raises if they are invalid

    # ---- Epochs ----

    def seek(self, epoch: int, consumed: int, skip: int = 0) -> None:
        """Start the epoch after these positions, and skip the first `skip` of this worker's
        batches.

        There is no audit for it.
        """
        self._skipping = _number("skip", skip)
        self._turn = None  # an iteration in progress ends with an error
        self._epoch = None
        self._at = (_number("epoch", epoch), _number("consumed", consumed))

    def _check_open(self):
        if self._closed:
            raise ValueError("the loader is closed: open another")

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch. The rest of the previous one is dropped."""
        self._check_open()
        return _Epoch(self, _number("epoch", epoch))

    def __iter__(self) -> Iterator[Batch]:
        self._check_open()
        return _Epoch(self, _number("epoch", self._at[0]))

    def _begin(self, epoch, turn):
        self._check_open()  # it may have been closed after the iteration was created
        start, consumed = self._at
        consumed, skip = (consumed, self._skipping) if start == epoch else (0, 0)
        first_step = self.worker + skip * self.workers
        left = self._left(consumed)
        if consumed or first_step != self._options[6] or left != self._options[16]:
            self._give_up()
        if self.handle is None:
            self._options = self._options[:6] + (first_step,) + self._options[7:16] + (left,) + self._options[17:]
            self.handle = _shoal.Loader(self.catalog.handle, spec_from(self._spec, consumed), self.rank, self._options)
        self.handle.epoch(epoch)
        self._epoch, self._consumed, self._taken, self._at = epoch, consumed, skip, (epoch, consumed)
        self._skipping = skip
        self.audit = None
        self._turn = turn

    def _next(self, turn):
        """The next batch of the current iteration, or None at the end."""
        if self._turn is not turn or self.handle is None:
            raise RuntimeError("the loader was closed, or another epoch of it begun, meanwhile")
        handle = self.handle.next()
        if handle is not None:
            self._taken += 1
        return handle

    def _end(self):
        skipped = self._options[6] != self.worker
        self.audit = None if skipped else self._audit()
        epoch, self._epoch = self._epoch, None
        self._at, self._skipping = (epoch + 1, 0), 0
        if skipped:  # what was read before is unknown here
            return
        if self._spec[7] == 1 and self.workers == 1 and not self._skip and not self.audit.exactly_once:
            raise AuditError(5, "epoch %d delivered %d samples instead of %d, each once"
                             % (epoch, self.audit.samples, self.audit.expected_samples))

    def _audit(self):
        stats = self.handle.stats()
        # What all workers of the rank should have delivered is part of the first worker's audit.
        nr, *ids = (0, 0, 0) if self.worker else self.handle.expect(self._at_most(self.handle.steps(), self._consumed), self.rank)
        return Audit(stats["nr_samples"], stats["nr_errors"], stats["bytes_delivered"], stats["sum_ids"],
                     stats["sum_order"], nr, tuple(ids))

    @property
    def stats(self) -> dict[str, Any]:
        """The statistics of this epoch so far, as a dict."""
        self._check_open()
        if self.handle is None:
            raise ValueError("no epoch was begun yet")
        return self.handle.stats()

    def __len__(self) -> int:
        """The number of batches of the next or current epoch."""
        order = _shoal.Order(spec_from(self._spec, self._at[1]), self._at[0])
        return max(0, -(-(self._at_most(order.steps(), self._at[1]) - self.worker) // self.workers))

    def _at_most(self, steps, consumed):
        """The number of these steps that the limit allows."""
        return steps if self._steps is None else min(steps, self._left(consumed))

    def _left(self, consumed):
        """The steps that the limit leaves of an epoch of which that many positions are consumed; 0
        without a limit.
        """
        return max(0, (self._steps or 0) - consumed // (self._spec[7] * self._spec[8]))

    # ---- States ----

    def state_dict(self) -> dict[str, Any]:
        """The place in the epoch after the batches taken so far; or the start of the next epoch."""
        if self.workers > 1:
            raise BadValueError(22, "with several workers, none knows what the others have delivered")
        epoch, consumed = (self._epoch, self._consumed) if self._epoch is not None else self._at
        order = _shoal.Order(spec_from(self._spec, consumed), epoch)
        return state_to_dict(order.save(self._taken if self._epoch is not None else self._skipping, self._facts[1]))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, possibly with another number of ranks or batch size: the next
        epoch begins there.
        """
        kept = state_from_dict(state)
        order = _shoal.resume(self._spec, kept, self._facts[1])
        spec, epoch = order.spec(), kept[1]
        self._spec = spec_from(spec, 0)
        self._at = (epoch, spec[9])
        self._epoch, self._skipping = None, 0
        self._give_up()
        if self._at_most(order.steps(), spec[9]) == 0:  # that epoch was complete
            self._at = (epoch + 1, 0)

    # ---- Closing ----

    def close(self) -> None:
        """End all reads, and release the memory as soon as no batch, sample or view of one is held.

        Views stay valid until then; audit and state_dict() stay available.
        """
        self._closed = True
        self._give_up()

    def _give_up(self):
        self._epoch = None
        handle, self.handle = self.handle, None  # first, because what follows may be interrupted
        if handle is not None:
            handle.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self):
        return "<shoal.Loader: %r, rank %d of %d>" % (self.catalog, self.rank, self._spec[7])
