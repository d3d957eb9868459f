"""Samples inside files as tables, rows and members."""

from __future__ import annotations

import collections
import io
import os
import tarfile
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence

import torch

from .._errors import BadValueError, DamagedError
from .._store import parse_uri
from ..catalog import local_path
from .dataset import ShoalDataset

FOOTERS_KEPT = 256  # per process: of dlrm they are 3 MB each, of most datasets some kilobytes


def members(data: Any) -> Dict[str, bytes]:
    """A sample of WebDataset as {"jpg": bytes, "cls": bytes, "__key__": stem}: a transform for the
    samples of a catalog of tar files (index(..., samples="auto")).
    """
    found: Dict[str, Any] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                if not member.isfile():
                    continue
                folder, name = os.path.split(member.name)
                stem, _, ending = name.partition(".")
                file = tar.extractfile(member)
                assert file is not None
                found.setdefault("__key__", os.path.join(folder, stem))
                found[ending] = file.read()
    except tarfile.TarError as e:
        raise DamagedError(74, "not the members of a tar file: %s" % e) from e
    return found


class _Part(io.RawIOBase):
    """A file of which only the bytes of one sample are there."""

    def __init__(self, data: Any, offset: int, size: int) -> None:
        self._data, self._offset, self._size, self._at = memoryview(data), offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, n: int = -1) -> bytes:
        start = self._at - self._offset
        end = len(self._data) if n < 0 else start + n
        if start < 0 or end > len(self._data):
            raise OSError("bytes %d to %d are outside of the row group" % (self._at, self._at + n))
        self._at = self._offset + end
        return bytes(self._data[start:end])


class ShoalTables(ShoalDataset):
    """The row groups of Parquet files, or the record batches of Arrow files, as pyarrow tables.

    catalog: one with samples, index(..., samples="auto"). columns: the names of the columns to
    decode (default: all). A transform gets the table. Everything else is as in ShoalDataset, which
    gives the undecoded bytes instead. A process reads the footer of a file when it first decodes one
    of its groups, and keeps the last 256 of them. Requires pyarrow.
    """

    def __init__(self, catalog: Any, transform: Any = None, *, columns: Optional[Sequence[str]] = None, **options: Any) -> None:
        if isinstance(columns, (str, bytes)):
            raise TypeError("columns is a list of names, not one name")
        if options.get("output", "bytes") != "bytes":
            raise BadValueError(22, "tables are made of bytes: output cannot be given")
        try:
            import pyarrow  # noqa: F401
        except ImportError as e:
            raise ImportError("ShoalTables needs pyarrow; ShoalDataset gives the undecoded bytes of groups") from e
        super().__init__(catalog, transform, **options)
        self.columns: Optional[List[str]] = None if columns is None else list(columns)
        self._footers: "collections.OrderedDict[int, Any]" = collections.OrderedDict()
        if not self.catalog.info["extents"]:
            raise BadValueError(22, "the catalog does not know where row groups lie: index the files with samples=")

    def __getstate__(self) -> Dict[str, Any]:
        state = super().__getstate__()
        state["_footers"] = collections.OrderedDict()
        return state

    def _open(self, file: int) -> Any:
        """The file, to read its footer."""
        import pyarrow
        import pyarrow.fs
        uri = self.catalog.uri(file)
        if not parse_uri(uri).objects:
            return pyarrow.OSFile(local_path(uri))
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
        return system.open_input_file(path)

    def _footer(self, file: int, arrow: bool) -> Any:
        import pyarrow.ipc
        import pyarrow.parquet
        if file in self._footers:
            self._footers.move_to_end(file)
            return self._footers[file]
        with self._open(file) as source:
            footer = pyarrow.ipc.open_file(source).schema if arrow else pyarrow.parquet.read_metadata(source)
        self._footers[file] = footer
        if len(self._footers) > FOOTERS_KEPT:
            self._footers.popitem(last=False)
        return footer

    def table(self, data: Any, sample: int) -> Any:
        """The table of a sample from its bytes."""
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
        file, index = self.catalog.locate(sample)
        arrow = self.catalog.name(file).lower().endswith((".arrow", ".feather"))
        footer = self._footer(file, arrow)
        if arrow:
            batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(data), footer)
            table = pyarrow.Table.from_batches([batch])
            return table if self.columns is None else table.select(self.columns)
        part = _Part(data, self.catalog.extent(sample).offset, self.catalog.size(file) or 0)
        missing = set(self.columns or ()) - set(footer.schema.to_arrow_schema().names)
        if missing:
            raise BadValueError(22, "'%s' has no column %r" % (self.catalog.name(file), sorted(missing)[0]))
        return pyarrow.parquet.ParquetFile(part, metadata=footer).read_row_group(index, columns=self.columns)

    def _finish(self, data: Any, i: Any) -> Any:
        return super()._finish(self.table(data, self._id(i)), i)


def _tensor(column: Any) -> torch.Tensor:
    """A column of numbers, or of lists of one length, as a tensor of its rows."""
    import pyarrow
    array = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks)
    rows = len(array)
    while pyarrow.types.is_list(array.type) or pyarrow.types.is_fixed_size_list(array.type):
        array = array.flatten()
    values = torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())
    if rows and len(values) % rows:
        raise BadValueError(22, "lists of different lengths are no tensor")
    return values if len(values) == rows else values.view(rows, -1)


def row_batches(tables: Iterable[Any], batch_size: int, columns: Optional[Sequence[str]] = None, *,
                drop_last: bool = False) -> Iterator[Dict[str, torch.Tensor]]:
    """Batches of so many rows, cut from tables in their order: {column: tensor}.

        groups = DataLoader(ShoalTables("train.cat"), batch_size=None, sampler=sampler)
        for batch in row_batches(groups, 4096, ["age", "clicks"]):

    A list of fixed size becomes the second dimension. At most one table and one batch are held.
    """
    import pyarrow
    if batch_size < 1:
        raise BadValueError(22, "a batch has at least one row, not %d" % batch_size)
    left: Any = None
    for table in tables:
        table = table if columns is None else table.select(list(columns))
        table = table if left is None else pyarrow.concat_tables([left, table])
        whole = table.num_rows - table.num_rows % batch_size
        for start in range(0, whole, batch_size):
            part = table.slice(start, batch_size)
            yield {name: _tensor(part[name]) for name in part.column_names}
        left = table.slice(whole) if whole < table.num_rows else None
    if left is not None and not drop_last:
        yield {name: _tensor(left[name]) for name in left.column_names}
