"""Columns: one number per sample, in a file next to the catalog; and batches by length made from
one.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple, Type, Union, overload

import numpy
import numpy.typing

from . import _shoal
from ._errors import BadValueError, Error, StaleError
from ._store import parse_uri
from ._units import Size, size_of
from .catalog import Catalog, Path, local_path
from .order import (_BLOCK, REMAINDERS, Ids, Order, _choice, _number, check_rank, ids_of, opened, state_from_dict,
                    state_to_dict)

UNSORTED = 2**64 - 1
_NAME_MAX = 63  # bytes

DTYPES: Dict[str, Any] = {"bit": numpy.uint8, "u8": numpy.uint8, "u16": numpy.uint16, "u32": numpy.uint32, "u64": numpy.uint64,
          "i64": numpy.int64, "f32": numpy.float32, "f64": numpy.float64}


def _digest_of(catalog: Any) -> Optional[str]:
    """The digest of a catalog, given as a Catalog, its path, an object with a catalog, or the
    digest itself; None if there is none.
    """
    if catalog is None or isinstance(catalog, str) and re.fullmatch("[0-9a-f]{32}", catalog):
        return catalog
    catalog = opened(catalog)
    return getattr(getattr(catalog, "catalog", catalog), "digest", None)


def check_name(name: Any) -> str:
    """Check a column's name, which becomes part of its file's name."""
    if not isinstance(name, str):
        raise TypeError("a column's name must be a str, not %r" % (name,))
    if not name or "/" in name or "\0" in name or len(os.fsencode(name)) > _NAME_MAX:
        raise BadValueError(22, "%.100r cannot be a column's name: it needs 1 to %d bytes, without '/' and NUL"
                            % (name, _NAME_MAX))
    return name


class Column:
    """One number per sample of a catalog, mapped and shared by all processes of a machine.

    column[i], column[a:b] (an array), len(column). With `catalog` (a Catalog, or an object with
    one), a column of another catalog is refused: StaleError. A pickle contains only the path.
    """

    def __init__(self, path: Path, catalog: Any = None) -> None:
        self.path = local_path(path)
        self._open(_digest_of(catalog))

    def _open(self, digest: Optional[str]) -> None:
        try:
            self._handle: Optional[_shoal.Column] = _shoal.Column(self.path, digest)
        except Error as e:
            raise type(e)(e.errno, "'%s': %s" % (self.path, e)) from None
        self._info = self._handle.info()

    @property
    def handle(self) -> _shoal.Column:
        if self._handle is None:
            raise ValueError("the column is closed")
        return self._handle

    def close(self) -> None:
        """Unmap it, once batches made from it are gone. Its info stays available; reading raises
        ValueError.
        """
        self._handle = None

    def __enter__(self) -> Column:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> Dict[str, Any]:
        """All properties, as a dict."""
        return dict(self._info)

    @property
    def name(self) -> str:
        return str(self._info["name"])

    @property
    def type(self) -> str:
        return str(self._info["type"])

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The NumPy type of its values; bool for type bit."""
        return numpy.dtype(bool) if self.type == "bit" else numpy.dtype(DTYPES[self.type])

    @property
    def is_sorted(self) -> bool:
        return bool(self._info["nr_sorted"] != UNSORTED)

    @property
    def nr_kept(self) -> int:
        """Type bit: the number of samples with a 1."""
        return int(self._info["nr_ones"])

    def __len__(self) -> int:
        return int(self._info["nr"])

    def _read(self, first: int, nr: int) -> numpy.typing.NDArray[Any]:
        values = numpy.empty(nr, dtype=DTYPES[self.type])
        self.handle.read(self._info["first"] + first, nr, values)
        return values.view(bool) if self.type == "bit" else values

    @overload
    def __getitem__(self, key: int) -> Any: ...

    @overload
    def __getitem__(self, key: slice) -> numpy.typing.NDArray[Any]: ...

    def __getitem__(self, key: Union[int, slice]) -> Any:
        if isinstance(key, slice):
            wanted = range(*key.indices(len(self)))
            if not wanted:
                return self._read(0, 0)
            low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
            values = self._read(low, high - low + 1)
            return values[::wanted.step] if wanted.step > 0 else values[::-1][::-wanted.step]
        at = operator.index(key)
        if not -len(self) <= at < len(self):
            raise IndexError("sample %d of a column of %d" % (at, len(self)))
        return self._read(at % len(self), 1)[0].item()

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), 65536):
            yield from self[start:start + 65536].tolist()

    def sorted_ids(self, start: int = 0, stop: Optional[int] = None) -> Ids:
        """Samples in the order of their values, from one place to another, as an array of int64."""
        nr = self._info["nr_sorted"]
        if nr == UNSORTED:
            raise BadValueError(22, "column '%s' is not sorted: use sort()" % self.name)
        start, stop, _ = slice(start, stop).indices(nr)
        ids = numpy.empty(max(0, stop - start), dtype=numpy.int64)
        self.handle.sorted(start, ids)
        return ids

    def sort(self, path: Optional[Path] = None, keep: Union[Column, Path, None] = None, memory: Size = 0) -> Column:
        """Write it again with the order of its samples by value, in place or as `path`; with `keep`
        (a Column of type bit, or its path) the order includes only the samples with a 1 there.
        Returns the new column. Memory does not grow with the samples.
        """
        path = self.path if path is None else os.path.abspath(os.fsdecode(path))
        kept = None if keep is None else open_column(keep, self._info["digest"]).handle
        self.handle.sort(path, kept, size_of("memory", memory))
        return Column(path, self._info["digest"])

    def kept(self, numbers: Any) -> Ids:
        """Type bit: the samples of the n-th ones, as an array of int64."""
        ids = ids_of(numbers)
        self.handle.select(ids)
        return ids

    def rank(self, sample: int) -> int:
        """Type bit: the number of ones before this sample."""
        sample = operator.index(sample)
        if not 0 <= sample <= len(self):
            raise IndexError("sample %d of a column of %d" % (sample, len(self)))
        return self.handle.rank(sample)

    def verify(self) -> None:
        """Read and check everything; DamagedError has the place of the damage."""
        self.handle.verify()

    def __repr__(self) -> str:
        return "<shoal.Column %r: %d values of type %s>" % (self.name, len(self), self.type)

    def __getstate__(self) -> Dict[str, Any]:
        return {"path": self.path, "info": self._info}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.path = state["path"]
        self._open(state["info"]["digest"])
        if self._info != state["info"]:
            raise StaleError(116, "'%s' is not the column that was pickled" % self.path)


class ColumnWriter:
    """Writes a column, or the part of one from sample `first` on, in constant memory.

    As a context manager: sealed at the end of the block, aborted if the block raises. No file
    appears before it is sealed.
    """

    def __init__(self, path: Path, catalog: Any, name: str, type: str, first: int = 0, nr: Optional[int] = None) -> None:
        if type not in DTYPES:
            raise BadValueError(22, "a column's type is one of %s, not %r" % (", ".join(DTYPES), type))
        check_name(name)
        catalog = opened(catalog)
        catalog = getattr(catalog, "catalog", catalog)
        if not isinstance(catalog, Catalog):
            raise TypeError("a column is written for a Catalog, its path or a dataset with one, not for %.100r" % (catalog,))
        total, first = catalog.nr_samples, _number("first", first)
        nr = max(0, total - first) if nr is None else _number("nr", nr)
        self.type = type
        self.path = os.path.abspath(os.fsdecode(path))
        self._writer = _shoal.ColumnWriter(self.path, name, type, catalog.digest, total, first, nr)

    def append(self, values: Any) -> None:
        """Add values: numbers, or an array of them. Values that do not fit the type are refused."""
        given = numpy.atleast_1d(numpy.asarray(values))
        if given.ndim != 1 or given.dtype.kind not in "biuf":
            raise BadValueError(22, "a column takes numbers, one per sample, not %.100r" % (values,))
        if self.type == "bit" and not ((given == 0) | (given == 1)).all():
            wrong = given[(given != 0) & (given != 1)][0]
            raise BadValueError(22, "%r does not fit a column of type bit: it takes 0, 1, False and True" % (wrong.item(),))
        with numpy.errstate(all="ignore"):
            fitting = (given != 0).astype(numpy.uint8) if self.type == "bit" else given.astype(DTYPES[self.type])
            exact = self.type in ("bit", "f32", "f64") or bool((fitting == given).all()
                                                               and ((given < 0) == (fitting < 0)).all())
        if not exact:
            wrong = given[(fitting != given) | ((given < 0) != (fitting < 0))][0]
            raise BadValueError(22, "%r does not fit a column of type %s: choose another type" % (wrong.item(), self.type))
        self._writer.append(numpy.ascontiguousarray(fitting), len(fitting))

    def seal(self) -> None:
        self._writer.seal()

    def abort(self) -> None:
        self._writer.abort()

    def __enter__(self) -> ColumnWriter:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is None:
            self.seal()
        else:
            self.abort()


def join_columns(path: Path, parts: Iterable[Path]) -> None:
    """Join parts of a column, given in the order of samples."""
    _shoal.join_columns(os.fsdecode(path), [os.fsencode(part) for part in parts])


def open_column(column: Union[Column, Path], catalog: Any) -> Column:
    """The Column given as a Column, a path, or a name (next to the catalog, CATALOG.NAME.col)."""
    if isinstance(column, Column):
        digest = _digest_of(catalog)
        if digest is not None and column.info["digest"] != digest:
            raise StaleError(116, "column '%s' belongs to the catalog with digest %s, not %s: make it again for this "
                             "catalog" % (column.name, column.info["digest"], digest))
        return column
    path = os.fsdecode(column)
    beside = column_path(catalog, path)
    if beside is not None and not os.path.exists(path) and os.path.exists(beside):
        path = beside
    return Column(path, catalog)


def column_path(catalog: Any, name: str) -> Optional[str]:
    """The path of the column of this name: next to the catalog. None if that is in a bucket,
    because columns are files.
    """
    catalog = getattr(catalog, "catalog", catalog)
    if not isinstance(catalog, Catalog) or os.sep in name or parse_uri(catalog.path).objects:
        return None
    return "%s.%s.col" % (catalog.path, name)


class KeptOrder(Order):
    """An order over only the samples that have a 1 in a keep column. No list of them is made."""

    def __init__(self, dataset: Any, keep: Union[Column, Path], **options: Any) -> None:
        keep = open_column(keep, opened(dataset))
        if keep.type != "bit":
            raise BadValueError(22, "column '%s' is not a keep column: its type is %s, not bit"
                                % (keep.name, keep.type))
        if not keep.nr_kept:
            raise BadValueError(22, "column '%s' keeps no sample" % keep.name)
        super().__init__(keep.nr_kept, **options)
        self.keep = keep
        self._facts = (keep.nr_kept, keep.info["digest"], 1)

    def at(self, positions: Any) -> Ids:
        return self.keep.kept(super().at(positions))

    def position(self, sample: int) -> int:
        sample = operator.index(sample)
        if sample < 0 or not self.keep[sample]:
            raise IndexError("sample %d is not kept" % sample)
        return super().position(self.keep.rank(sample))

    def batch(self, step: int, rank: Optional[int] = None) -> Ids:
        return self.keep.kept(super().batch(step, rank))

    def ids(self, first: int = 0) -> Iterator[int]:
        numbers = super().ids(first)
        for block in iter(lambda: list(itertools.islice(numbers, _BLOCK)), []):
            yield from self.keep.kept(block).tolist()

    def state_dict(self, steps: int = 0) -> Dict[str, Any]:
        return dict(super().state_dict(steps), keep=self.keep.info["hash"])

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if isinstance(state, dict) and state.get("keep") != self.keep.info["hash"]:
            raise StaleError(116, "the state was saved with another keep column: resume it with its own, or start a "
                             "new epoch")
        super().load_state_dict(state)

    def __getstate__(self) -> Dict[str, Any]:
        return dict(super().__getstate__(), keep=self.keep)

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        self.keep = state["keep"]


class Batches:
    """Batches of samples of similar length, computed from a sorted column; shuffled in each epoch,
    the same on all ranks.

    column: a Column, or its path. batch_size: samples per batch. max_tokens: instead, or in
    addition: the longest sample of a batch times its number of samples is at most this. bucket:
    number of samples that are shuffled together (default 2 to 32 batches). group: number of batches
    of similar length that come together, for the ranks of a step (default world_size; set it if the
    number of ranks may change on resume).
    """

    def __init__(self, column: Union[Column, Path], *, batch_size: Optional[int] = None, max_tokens: Optional[int] = None,
                 bucket: Optional[int] = None, group: Optional[int] = None, seed: int = 0, epoch: int = 0,
                 shuffle: bool = True, remainder: str = "keep", rank: int = 0, world_size: int = 1,
                 frozen: bool = False) -> None:
        self.column = column = column if isinstance(column, Column) else Column(column)
        world_size = _number("world_size", world_size, 1)
        self.rank = check_rank(rank, world_size)
        self._spec = (_number("batch_size", batch_size or 0), _number("max_tokens", max_tokens or 0),
                      _number("bucket", bucket or 0), _number("group", group or 0), not shuffle, bool(frozen),
                      _choice("remainder", remainder, REMAINDERS), _number("seed", seed), world_size, 0)
        self._epoch = _number("epoch", epoch)
        self.handle = _shoal.Batches(column.handle, self._spec, self._epoch)

    def __len__(self) -> int:
        """The number of batches of an epoch, over all ranks."""
        return self.handle.info()[1]

    @property
    def steps(self) -> int:
        return self.handle.info()[0]

    @property
    def largest(self) -> int:
        """The number of samples of the largest batch."""
        return self.handle.info()[2]

    @property
    def consumed(self) -> int:
        return int(self.handle.spec()[9])

    @property
    def world_size(self) -> int:
        return self._spec[8]

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        self._epoch = _number("epoch", epoch)
        self.handle.set_epoch(self._epoch)

    def batch(self, step: int, rank: Optional[int] = None) -> Ids:
        """The sample ids of a rank's batch in a step, as an array of int64."""
        step = _number("step", step)
        if step >= self.steps:
            raise IndexError("there is no step %d of %d: steps are counted from 0" % (step, self.steps))
        ids = numpy.empty(self.largest, dtype=numpy.int64)
        rank = self.rank if rank is None else check_rank(rank, self.world_size)
        return ids[:self.handle.get(step, rank, ids)].copy()

    def batches(self, first: int = 0) -> Iterator[Ids]:
        for step in range(first, self.steps):
            yield self.batch(step)

    __iter__ = batches

    def state_dict(self, steps: int = 0) -> Dict[str, Any]:
        return state_to_dict(self.handle.save(_number("steps", steps)))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        kept = state_from_dict(state)
        self.handle = _shoal.Batches(self.column.handle, self._spec, kept)
        self._epoch = kept[1]

    def __repr__(self) -> str:
        return "<shoal.Batches: epoch %d, %d batches by %s>" % (self._epoch, len(self), self.column.name)

    def __getstate__(self) -> Dict[str, Any]:
        return {"column": self.column, "spec": self.handle.spec(), "rank": self.rank, "epoch": self._epoch}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.column, self.rank, self._epoch = state["column"], state["rank"], state["epoch"]
        self._spec = state["spec"][:9] + (0,)
        self.handle = _shoal.Batches(self.column.handle, state["spec"], self._epoch)
