"""Rows shuffled over row groups: batches of tensors whose order is a function."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy
import numpy.typing
import torch
from torch.utils.data import IterableDataset, get_worker_info

from .. import _shoal
from .._errors import BadValueError
from ..order import Order, _number
from .containers import ShoalTables, column_tensor
from .dataset import apply

AHEAD = 64  # batches whose groups are read ahead, at most
_OPTIONS = {"footers", "data", "in_flight", "local_copy", "if_match", "s3"}  # of ShoalTables; the others are for its items


class _Rows:
    """What an order needs to know of the rows of a catalog."""

    def __init__(self, catalog: Any, handle: Any, unit: int) -> None:
        # No state of this order may be resumed in one of samples.
        self.order_facts = len(handle), "%.28srows" % catalog.digest, unit


def _unit(rows: Any) -> int:
    """Rows that stay together before they are mixed: those of a group if all but the last of a file
    have as many, so that no two windows need the same group.
    """
    first = rows.find(0)[2]
    return int(first) if len(rows) % first == 0 else max(1, round(len(rows) / (rows.find(len(rows) - 1)[0] + 1)))


class ShoalRows(IterableDataset):  # type: ignore[type-arg]
    """Batches of rows, {column: tensor}, of the row groups or record batches of a catalog.

        rows = ShoalRows("train.cat", batch_size=4096, columns=["age", "clicks"], window=16,
                         rank=rank, world_size=ranks)
        for epoch in range(3):
            rows.set_epoch(epoch)
            for batch in rows:
                ...

    Units of rows are shuffled over the whole dataset, and rows within windows of `window` units, as
    in Order(mode="window"): the order is a function of (seed, epoch, position), and every row comes
    once per epoch. unit is a number of rows, by default those of a row group; a group is then read
    once if all groups have as many rows, and at most twice on average otherwise. Each rank has
    windows of its own (lanes=world_size).

    state_dict() after any batch, also in the middle of a group; load_state_dict() continues with
    any number of ranks and any batch_size. With workers of a DataLoader (batch_size=None) batches
    come in the same order; states are then made with state_dict(batches).

    At most 2 * window decoded groups per lane are held, and those that are read ahead by `threads`
    threads. transform: a function of a group's table, before rows are taken from it, that returns a
    table of as many rows, with nulls filled or columns cast. columns, footers, data, in_flight,
    local_copy, if_match and s3 are those of ShoalTables. `read` has bytes and groups read, rows
    delivered.
    """

    def __init__(self, catalog: Any, *, batch_size: int, columns: Optional[Sequence[str]] = None, window: int = 16,
                 unit: Optional[int] = None, seed: int = 0, epoch: int = 0, rank: int = 0, world_size: int = 1,
                 remainder: str = "keep", lanes: Optional[int] = None, lane_batch: Optional[int] = None, threads: int = 2,
                 frozen: bool = False, transform: Any = None, **options: Any) -> None:
        super().__init__()
        for name in set(options) - _OPTIONS:
            raise TypeError("ShoalRows has no option %r" % name)
        self._tables = ShoalTables(catalog, transform, columns=columns, **options)
        handle = _shoal.Rows(self._tables.catalog.handle)
        if not len(handle):
            raise BadValueError(22, "the catalog has no rows")
        unit = _unit(handle) if unit is None else _number("unit", unit, 1)
        self._window, self._threads = _number("window", window, 1, 20), _number("threads", threads, 1, 8)
        self._spec = dict(batch_size=batch_size, seed=seed, epoch=epoch, mode="window", remainder=remainder, rank=rank,
                          world_size=world_size, unit=unit, window=window, frozen=frozen,
                          lanes=world_size if lanes is None else lanes, lane_batch=lane_batch)
        self._facts = _Rows(self._tables.catalog, handle, unit)
        self._handle: Any = handle
        self.order = Order(self._facts, **self._spec)  # type: ignore[arg-type]
        self._delivered = 0
        self.read = {"groups": 0, "bytes": 0, "rows": 0}

    @property
    def _rows(self) -> Any:
        if self._handle is None:
            self._handle = _shoal.Rows(self._tables.catalog.handle)
        return self._handle

    def __len__(self) -> int:
        return self.order.steps

    def set_epoch(self, epoch: int) -> None:
        """Go to the first row of an epoch."""
        self.order.set_epoch(epoch)
        self._delivered = 0

    def state_dict(self, batches: Optional[int] = None) -> Dict[str, Any]:
        """The state after the batches delivered so far, or after so many."""
        return self.order.state_dict(self._delivered if batches is None else batches)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continue from a state, possibly of another number of ranks or batch size."""
        self.order.load_state_dict(state)
        self._delivered = 0

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_handle": None}

    def __iter__(self) -> Iterator[Dict[str, torch.Tensor]]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (self._delivered, 1)
        reader = _Reader(self._tables, self._rows, self._threads, self._held(), self.read)
        try:
            for _, batch in reader.batches(self.order, range(first, self.order.steps, step)):
                if not info:
                    self._delivered += 1  # before the caller can save a state of it
                yield batch
        finally:
            reader.close()

    def _held(self) -> int:
        """The groups that are kept: of both windows that a batch may be in, for each lane of this rank."""
        spec = self.order.handle.spec()
        lanes = max(1, -(-int(spec[10] or 1) // int(spec[7])))
        return (2 * self._window + 1) * lanes


def _check_alike(out: Dict[str, numpy.typing.NDArray[Any]], columns: Dict[str, numpy.typing.NDArray[Any]], sample: int) -> None:
    """Rows of several groups can only be one batch if these have the same columns."""
    for name in {*out, *columns}:
        if name not in out or name not in columns:
            raise BadValueError(22, "not all groups have a column %r: sample %d differs; choose others with columns=" % (name, sample))
        a, b = out[name], columns[name]
        if a.shape[1:] != b.shape[1:] or a.dtype != b.dtype:
            raise BadValueError(22, "column %r differs between groups: %s%s, and in sample %d %s%s"
                                % (name, a.dtype, list(a.shape[1:]) or "", sample, b.dtype, list(b.shape[1:]) or ""))


class _Reader:
    """Reads and decodes groups ahead, and picks rows from them."""

    def __init__(self, tables: ShoalTables, rows: Any, threads: int, held: int, count: Dict[str, int]) -> None:
        self._tables, self._rows, self._held, self._count = tables, rows, held, count
        tables.read([])  # opens the store, before threads do
        self._pool = concurrent.futures.ThreadPoolExecutor(threads)
        self._lock = threading.Lock()
        # sample: (its first row, rows, the future of its columns), the least recently used first
        self._groups: "collections.OrderedDict[int, Tuple[int, int, Any]]" = collections.OrderedDict()

    def close(self) -> None:
        for _, _, future in self._groups.values():
            future.cancel()
        self._pool.shutdown()

    def _decode(self, sample: int) -> Dict[str, numpy.typing.NDArray[Any]]:
        data = self._tables.read([sample])[0]
        nr = sum(len(part) for _, part in data) if isinstance(data, list) else len(data)
        with self._lock:
            self._count["groups"] += 1
            self._count["bytes"] += nr
        table = apply(self._tables.transform, self._tables.table(data, sample), self._tables.catalog, sample, False)
        rows = self._tables.catalog.extent(sample)[2]
        if table.num_rows != rows:
            raise BadValueError(22, "the transform made %d rows of the %d of sample %d" % (table.num_rows, rows, sample))
        return {name: column_tensor(table[name], name).numpy() for name in table.column_names}

    def _find(self, ids: numpy.typing.NDArray[Any]) -> List[int]:
        """The samples that contain these rows, being read; the most recently used at the end."""
        left, found = numpy.sort(ids), []
        while len(left):
            sample, first, nr = self._rows.find(int(left[0]))
            if sample not in self._groups:
                self._groups[sample] = first, nr, self._pool.submit(self._decode, sample)
            self._groups.move_to_end(sample)
            found.append(sample)
            left = left[numpy.searchsorted(left, first + nr):]
        return found

    def _pick(self, ids: numpy.typing.NDArray[Any], samples: List[int]) -> Dict[str, torch.Tensor]:
        order = numpy.argsort(ids, kind="stable")
        ordered, at = ids[order], 0
        out: Dict[str, numpy.typing.NDArray[Any]] = {}
        for sample in samples:
            first, nr, future = self._groups[sample]
            columns = future.result()
            if not out:
                out = {name: numpy.empty((len(ids),) + values.shape[1:], values.dtype) for name, values in columns.items()}
            _check_alike(out, columns, sample)
            end = int(numpy.searchsorted(ordered, first + nr))
            for name, values in columns.items():
                out[name][order[at:end]] = values[ordered[at:end] - first]
            at = end
        return {name: torch.from_numpy(values) for name, values in out.items()}

    def batches(self, order: Order, steps: range) -> Iterator[Tuple[int, Dict[str, torch.Tensor]]]:
        ahead: "collections.deque[Tuple[int, numpy.typing.NDArray[Any], List[int]]]" = collections.deque()
        left = iter(steps)
        while True:
            # Groups that are read ahead must not push out those that the next batch needs.
            while len(ahead) < AHEAD and (not ahead or len({s for _, _, samples in ahead for s in samples}) < self._held // 2):
                step = next(left, None)
                if step is None:
                    break
                ids = order.batch(step)
                if len(ids):
                    ahead.append((step, ids, self._find(ids)))
            if not ahead:
                return
            step, ids, samples = ahead.popleft()
            batch = self._pick(ids, samples)
            needed = {s for _, _, later in ahead for s in later}
            for old in list(self._groups):
                if len(self._groups) <= self._held:
                    break
                if old not in needed:
                    del self._groups[old]
            self._count["rows"] += len(ids)
            yield step, batch
