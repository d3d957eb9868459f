"""Run a function over every sample once, and store one number per sample in a column."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import functools
import multiprocessing
import os
import sys
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy
import numpy.typing

from . import _rendezvous
from ._errors import BadValueError, NotFoundError, TransformError
from ._keywords import explained
from ._units import Seconds, milliseconds_of
from .catalog import Catalog, Path
from .columns import DTYPES, Column, ColumnWriter, check_name, column_path, join_columns, open_column
from .order import _number, opened

_BLOCK = 256  # samples per piece of work


class _Progress:
    """A line that is overwritten on a terminal; otherwise one line now and then."""

    def __init__(self, total: int, name: str, wanted: bool) -> None:
        self._total, self._name, self._wanted = total, name, wanted
        self._start = self._shown = time.monotonic()

    def show(self, done: int, end: bool = False) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if not self._wanted or not (end or now - self._shown > (0.2 if terminal else 10)):
            return
        self._shown = now
        rate = done / max(now - self._start, 1e-9)
        left = "" if end or not done else ", %d s left" % ((self._total - done) / max(rate, 1e-9))
        share = 100 * done / max(self._total, 1)
        sys.stderr.write("%sscan %s: %d of %d samples (%.0f %%), %.0f/s%s%s" % (
            "\r\x1b[K" if terminal else "", self._name, done, self._total, share, rate, left,
            "\n" if end or not terminal else ""))
        sys.stderr.flush()


def _values(dataset: Any, fn: Callable[[Any], Any], ids: List[int]) -> numpy.typing.NDArray[Any]:
    """fn of each sample, as an array. An error names the sample."""
    catalog = dataset.catalog
    found = []
    items = dataset.__getitems__(ids) if hasattr(dataset, "__getitems__") else [dataset[i] for i in ids]
    if len(items) != len(ids):
        raise BadValueError(22, "the dataset returned %d of %d samples, but a column needs a number for each" % (len(items), len(ids)))
    for i, item in zip(ids, items):
        try:
            value = fn(item)
            found.append(value.item() if hasattr(value, "item") else value + 0)
        except Exception as e:
            raise TransformError(22, "scan failed on sample %d, '%s': %s: %s" % (
                i, catalog.name(catalog.locate(i)[0]), type(e).__name__, e)) from e
    return numpy.asarray(found)


def _blocks(first: int, stop: int) -> Iterator[List[int]]:
    for start in range(first, stop, _BLOCK):
        yield list(range(start, min(start + _BLOCK, stop)))


def _scanned(dataset: Any, fn: Callable[[Any], Any], first: int, stop: int, workers: int,
             context: Optional[str]) -> Iterator[numpy.typing.NDArray[Any]]:
    """Arrays of values, in the order of samples."""
    work = functools.partial(_values, dataset, fn)
    if not workers:
        yield from map(work, _blocks(first, stop))
        return
    # What cannot be pickled fails here: a pool would notice in a thread of its own, and might wait
    # for ever.
    ForkingPickler.dumps(work)
    # Not multiprocessing.Pool, which waits for ever for the work of a worker that was killed.
    pool = concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context(context))
    pending: List[concurrent.futures.Future[Any]] = []
    try:
        # map() would read all blocks ahead: submit new ones as results are taken.
        for block in _blocks(first, stop):
            pending.append(pool.submit(work, block))
            if len(pending) >= 4 * workers:
                yield pending.pop(0).result()
        while pending:
            yield pending.pop(0).result()
    except concurrent.futures.process.BrokenProcessPool:
        raise TransformError(5, "a worker of the scan died (killed, perhaps for lack of memory, or a crash in the "
                             "function): run it again with fewer workers, or workers=0 to see why") from None
    finally:
        # Not one.cancel() for each: Python before 3.12 waits for ever if the last of them is
        # cancelled from outside.
        pool.shutdown(cancel_futures=True)


def _write_part(path: str, dataset: Any, fn: Callable[[Any], Any], name: str, type: str, first: int, stop: int, workers: int,
                context: Optional[str], progress: bool) -> None:
    shown = _Progress(stop - first, name, progress)
    with ColumnWriter(path, dataset, name, type, first, stop - first) as writer:
        done = 0
        for values in _scanned(dataset, fn, first, stop, workers, context):
            try:
                writer.append(values)
            except BadValueError as e:
                raise BadValueError(22, "scan of samples %d to %d: %s" % (
                    first + done, first + done + len(values) - 1, e)) from None
            done += len(values)
            shown.show(done)
    shown.show(done, end=True)


def _part_exists(path: str, digest: str, name: str, type: str, first: int, stop: int) -> bool:
    """Whether a part exists already, from a scan that was interrupted."""
    try:
        info = Column(path, digest).info
    except OSError:
        return False
    return bool((info["name"], info["type"], info["first"], info["nr"]) == (name, type, first, stop - first))


def _file_identity(path: str) -> Optional[Tuple[int, int, int]]:
    """What distinguishes a file from an earlier one with the same name; None if there is no file.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _wait_for(paths: Sequence[str], timeout: float, fail: str, old: Tuple[Any, Any] = (None, None)) -> None:
    """Wait until all parts exist. For ranks without a torch.distributed group.

    old: the file, and the message of a failure, that an earlier scan has left.
    """
    until = time.monotonic() + timeout
    for path in paths:
        while _file_identity(path) in (None, old[0]):
            if time.monotonic() > until:
                raise NotFoundError(2, "waited %d s for '%s': is its rank still running?" % (timeout, path))
            if _file_identity(fail) not in (None, old[1]):
                with open(fail, encoding="utf-8", errors="replace") as file:
                    raise TransformError(22, file.read())
            time.sleep(0.2)


def _group() -> Any:
    """torch.distributed, if it is loaded and has a group."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _agree(error: Optional[Exception]) -> None:
    """Raise on all ranks if one raised."""
    from .torch.gather import gather_objects

    words = None if error is None else "%s: %s" % (type(error).__name__, error)
    found = gather_objects(words)
    for rank, text in enumerate(found or ()):
        if text is not None:
            raise error if error is not None else TransformError(22, "rank %d: %s" % (rank, text))


def _join(parts: Sequence[str], path: str, sort: bool, keep: Optional[Column]) -> None:
    """Publish the column atomically: other ranks may be waiting for it."""
    if not sort:
        join_columns(path, parts)
        return
    joined = path + ".joined"
    try:
        join_columns(joined, parts)
        Column(joined).sort(path, keep=keep)
    finally:
        if os.path.exists(joined):
            os.unlink(joined)


def _finish(dist: Any, parts: Sequence[str], path: str, rank: int, sort: bool, keep: Optional[Column], timeout: float,
            old: Tuple[Any, Any], error: Optional[Exception]) -> None:
    """After a rank's part was written or failed: rank 0 joins the parts once all exist."""
    fail = path + ".failed"
    if dist is not None:
        _agree(error)
    elif error is not None:
        if len(parts) > 1:
            _rendezvous.publish(fail, "rank %d: %s" % (rank, error))
        raise error
    try:
        if rank == 0:
            if dist is None:
                _wait_for(parts, timeout, fail, (None, old[1]))
            _join(parts, path, sort, keep)
    except Exception as e:
        error = e
    if dist is not None:
        _agree(error)
    elif error is not None:
        # The other ranks are waiting, unless one of them reported the failure.
        if len(parts) > 1 and timeout and _file_identity(fail) in (None, old[1]):
            _rendezvous.publish(fail, "rank %d: %s" % (rank, error))
        raise error
    elif rank != 0:
        _wait_for([path], timeout, fail, old)
    if rank == 0:
        for one in parts:
            os.unlink(one)
        if _file_identity(fail) is not None:  # left by an earlier scan
            os.unlink(fail)


@explained
def scan(dataset: Any, fn: Callable[[Any], Any], column: str = "length", *, type: str = "u32", path: Optional[Path] = None,
         rank: Optional[int] = None, world_size: Optional[int] = None, workers: int = 0, context: Optional[str] = None,
         sort: Optional[bool] = None, keep: Union[Column, Path, None] = None, progress: Optional[bool] = None,
         timeout: Seconds = 3600) -> Column:
    """Run fn(sample) over all samples and store the results, one number per sample, as a column.
    Collective.

    Each rank reads a contiguous range of samples, with `workers` processes, and writes a part; rank
    0 joins the parts. Neither samples nor values are gathered. Ranks are those of
    torch.distributed, or of the launcher (torchrun, mpirun), and must then share a file system. An
    exception on one rank ends the scan on all, with the name of the sample. A scan that is
    interrupted keeps its finished parts.

    Ranks without a torch.distributed group wait for each other at the start, through files next to
    the column, and for the column at the end; each time for at most `timeout` seconds. With 0 they
    do not wait: run one after the other, each leaves a part, and rank 0, which must be the last,
    joins them.

    dataset: a ShoalDataset, or a Catalog or its path, whose samples are bytes. column: its name.
    type: bit (a keep flag), u8, u16, u32, u64, i64, f32 or f64. path: by default next to the
    catalog, CATALOG.NAME.col. sort: also write the order of samples by value, which batches by
    length need (default: for all types but bit). keep: a keep column, or its name or path; the
    order then includes only the samples that it keeps. Returns the Column.
    """
    if type not in DTYPES:
        raise BadValueError(22, "a column's type is one of %s, not %r" % (", ".join(DTYPES), type))
    check_name(column)
    if not callable(fn):
        raise TypeError("fn must be a function of a sample that returns a number, not %.100r" % (fn,))
    workers = _number("workers", workers)
    patience = milliseconds_of("timeout", timeout) / 1000 if timeout else 0.0
    from .torch.dataset import ShoalDataset
    from .torch.place import Place

    dataset = opened(dataset)
    if isinstance(dataset, Catalog):
        dataset = ShoalDataset(dataset)
    if not isinstance(getattr(dataset, "catalog", None), Catalog):
        raise TypeError("scan() needs a ShoalDataset, or a Catalog or its path, not %.100r" % (dataset,))
    if getattr(dataset, "_left_out", None) is not None:
        raise BadValueError(22, "a column has a number for each sample: scan() takes no dataset with keep_going=True, which leaves "
                            "some out. Return a number for those in fn instead")
    place = Place(rank, world_size)
    rank, world_size = place.rank, place.world_size
    catalog = dataset.catalog
    to = os.path.abspath(os.fsdecode(path)) if path is not None else column_path(catalog, column)
    if to is None:
        raise BadValueError(22, "'%s' is in a bucket, and a column is a file: say where with path=" % catalog.path)
    total = catalog.nr_samples
    cut = [total * r // world_size for r in range(world_size + 1)]
    parts = ["%s.part-%d-of-%d" % (to, r, world_size) for r in range(world_size)]
    first, stop = cut[rank], cut[rank + 1]
    error: Optional[Exception] = None
    old = (_file_identity(to), _file_identity(to + ".failed"))
    mine = _part_exists(parts[rank], catalog.digest, column, type, first, stop)
    # Files that exist before all ranks have arrived are left over from an earlier scan; later ones
    # belong to this one.
    if world_size > 1 and patience and _group() is None:
        if not mine:
            _rendezvous.remove(parts[rank])  # otherwise rank 0 might use it
        _rendezvous.meet(to, rank, world_size, patience)
    kept: Optional[Column] = None
    try:
        kept = None if keep is None else open_column(keep, catalog)
        if not mine:
            _write_part(parts[rank], dataset, fn, column, type, first, stop, workers, context,
                        rank == 0 if progress is None else progress)
    except Exception as e:
        error = e
    _finish(_group(), parts, to, rank, type != "bit" if sort is None else sort, kept, patience, old, error)
    return Column(to, catalog)
