"""Lists in Parquet: S3 inventories as input, catalogs and listings as output. Needs pyarrow."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union
from urllib.parse import quote_plus

from . import _shoal
from ._errors import BadValueError, Error
from ._progress import Progress
from .catalog import SIZE_UNKNOWN, Catalog, Path
from .listing import Entry, Listing, _catalog, _select

MAGIC = b"PAR1"  # the start of a Parquet file
COLUMNS = "Bucket, Key, Size, ETag"  # of csv_lines()
_ROWS = 1 << 16  # of a row group: memory does not grow with the list


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'shoal[parquet]'") from None
    return pyarrow


# ---- Inventories ----


def inventory_rows(path: Path) -> Iterator[Dict[str, Any]]:
    """The rows of an S3 Inventory."""
    with _pyarrow().parquet.ParquetFile(os.fsdecode(path)) as file:
        there = file.schema_arrow.names
        missing = [name for name in ("bucket", "key") if name not in there]
        if missing:
            raise BadValueError(22, "'%s' is no S3 Inventory: it has no column '%s'" % (os.fsdecode(path), missing[0]))
        wanted = [name for name in ("bucket", "key", "size", "e_tag", "is_latest", "is_delete_marker") if name in there]
        for batch in file.iter_batches(columns=wanted):
            yield from batch.to_pylist()


def csv_lines(rows: Iterable[Dict[str, Any]]) -> Iterator[bytes]:
    """Lines of an inventory as CSV, for the objects that are there now; keys are encoded in CSV, and not in Parquet."""
    for row in rows:
        if row.get("is_latest") is not False and not row.get("is_delete_marker"):
            line = io.StringIO()
            size = row.get("size")
            csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(
                [row["bucket"], quote_plus(row["key"], safe="/"), "" if size is None else size, row.get("e_tag") or ""])
            yield line.getvalue().encode()


# ---- Lists ----


def _rows_of(source: Union[Catalog, Path, Iterable[Entry]]) -> Iterator[List[Any]]:
    """Blocks of (name as bytes, size, samples, etag)."""
    if not isinstance(source, (Catalog, str, bytes, os.PathLike)):
        if isinstance(source, Listing) and source._names_only:
            raise BadValueError(22, "give list() sizes=True or etags=True: without them it yields names only")
        entries = iter(source)
        while block := list(itertools.islice(entries, _ROWS)):
            yield [(os.fsencode(entry.name), entry.size, entry.samples, entry.etag) for entry in block]
        return
    handle = _shoal.list_catalog(_catalog(source).handle, _select())
    try:
        while rows := handle.next(_ROWS):
            yield [(name, None if size == SIZE_UNKNOWN else size, samples, etag or None) for name, size, samples, etag in rows]
    finally:
        handle.close()


def _texts(names: Iterable[bytes]) -> List[str]:
    try:
        return [name.decode() for name in names]
    except UnicodeDecodeError as e:
        raise BadValueError(22, "the name %r is not UTF-8: binary=True writes names as bytes" % (e.object,)) from None


def _check_target(path: str) -> None:
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Error(errno.EEXIST, "%s exists and is not a Parquet file: use another name, or force=True" % path)


def to_parquet(source: Union[Catalog, Path, Iterable[Entry]], output: Path, *, binary: bool = False, force: bool = False,
               progress: Optional[Callable[[Progress], Any]] = None) -> int:
    """Write a list as Parquet, for pandas, Polars, DuckDB and others. Returns the number of rows.

        shoal.to_parquet("train.cat", "train.parquet")
        shoal.to_parquet(shoal.list("s3://bucket/train", sizes=True), "train.parquet")

    source: a Catalog or its path, or entries, as list(..., sizes=True) yields them. Columns: name, size, samples, etag. Names are
    text, or with binary=True bytes, which names that are not UTF-8 need. Memory does not grow with the list. The file appears
    when it is complete; a file that is not Parquet is not replaced without force. Needs pyarrow: pip install 'shoal[parquet]'.
    """
    pyarrow = _pyarrow()
    path = os.fsdecode(output)
    if not force:
        _check_target(path)
    schema = pyarrow.schema([("name", pyarrow.binary() if binary else pyarrow.string()), ("size", pyarrow.uint64()),
                             ("samples", pyarrow.uint64()), ("etag", pyarrow.string())])
    partial = os.path.join(os.path.dirname(path), ".%s.00000000.partial" % os.path.basename(path))
    done = 0
    try:
        with pyarrow.parquet.ParquetWriter(partial, schema) as writer:
            for block in _rows_of(source):
                names, sizes, samples, etags = zip(*block)
                writer.write_table(pyarrow.table([names if binary else _texts(names), sizes, samples, etags], schema=schema))
                done += len(block)
                if progress is not None:
                    progress(Progress("names", done, None))
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    return done
