"""Samples inside files as tables, rows and members."""

from __future__ import annotations

import collections
import hashlib
import io
import itertools
import math
import os
import struct
import tarfile
import threading
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from .._errors import BadValueError, DamagedError
from .dataset import ShoalDataset
from .footers import Footers

FOOTER_BYTES = 64 << 20  # of parsed footers per process: of dlrm one has 3 MB, of most datasets some kilobytes
TAIL = 64 << 10  # read at once from the end of a file: most footers
_FOOTERS = threading.Lock()  # around the footers of all datasets: threads may decode groups
# The most bytes between two columns that are read and dropped rather than skipped, of files and of objects: docs/design/load.md
GAP, GAP_OF_OBJECTS = 32 << 10, 96 << 10
NEAR = 16 << 10  # always read: pyarrow asks for ranges with up to 8 KiB between them at once
SPARE = 4  # others, all together: up to a quarter of the bytes of the columns


def members(data: Any) -> Dict[str, bytes]:
    """A sample of WebDataset as {"jpg": bytes, "cls": bytes, "__key__": stem}: a transform for the
    samples of a catalog of tar files (index(..., samples="auto")).

    As in webdataset, endings are in lower case, members without a stem or an ending are left out,
    and two with the same ending are an error.
    """
    found: Dict[str, Any] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                folder, name = os.path.split(member.name)
                stem, dot, ending = name.partition(".")
                if not member.isfile() or not stem or not dot:
                    continue
                if ending.lower() in found:
                    raise DamagedError(74, "two members of a sample are named '%s'" % os.path.join(folder, stem + "." + ending.lower()))
                file = tar.extractfile(member)
                assert file is not None
                found.setdefault("__key__", os.path.join(folder, stem))
                found[ending.lower()] = file.read()
    except tarfile.TarError as e:
        raise DamagedError(74, "not the members of a tar file: %s" % e) from e
    return found


class _Parts(io.RawIOBase):
    """A file of which only some ranges are there: [(offset, bytes)], in order."""

    def __init__(self, parts: Sequence[Tuple[int, Any]], size: int) -> None:
        self._parts, self._size, self._at = [(offset, memoryview(data)) for offset, data in parts], size, 0

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

    def read(self, n: int = -1) -> Any:
        """Without a copy, which would cost half as much as decoding."""
        for offset, data in self._parts:
            start = self._at - offset
            if 0 <= start <= len(data) and (n < 0 or start + n <= len(data)):
                end = len(data) if n < 0 else start + n
                self._at = offset + end
                return data[start:end]
        raise OSError("bytes %d to %d were not read" % (self._at, self._at + n))


def _leaves(kind: Any) -> int:
    """The columns that a type has in Parquet."""
    import pyarrow
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _leaves(kind.storage_type)
    if pyarrow.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    if pyarrow.types.is_struct(kind):
        return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields))
    return _leaves(kind.value_type) if hasattr(kind, "value_type") else 1


def merged(ranges: Iterable[Tuple[int, int]], gap: int = GAP) -> List[Tuple[int, int]]:
    """(offset, length) of as few reads as pay: ranges with at most `gap` bytes between them are one, the nearest
    first, while what is read in vain is little of what is wanted, or they are near.
    """
    ordered = sorted(ranges)
    spare = sum(length for _, length in ordered) // SPARE
    ends = itertools.accumulate((offset + length for offset, length in ordered), max)
    between = sorted((max(0, offset - end), at) for at, (end, (offset, _)) in enumerate(zip(ends, ordered[1:]), 1))
    joined = {at for (more, at), total in zip(between, itertools.accumulate(more for more, _ in between)) if more <= gap and (more <= NEAR or total <= spare)}
    found: List[Tuple[int, int]] = []
    for at, (offset, length) in enumerate(ordered):
        if at in joined:
            start, before = found[-1]
            found[-1] = start, max(start + before, offset + length) - start
        else:
            found.append((offset, length))
    return found


_PART = struct.Struct("<QQ")  # offset and length of a part, before its bytes


class _Footer:
    """What decoding needs of a file: metadata of Parquet; of Arrow everything but its record batches.

    `data` is the footer of a Parquet file to its end, or the parts of an Arrow file.
    """

    def __init__(self, data: bytes, size: int) -> None:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
        self.cost, self.size = len(data), size
        self._parts: List[Tuple[int, Any]] = []
        self.arrow = data.endswith(b"ARROW1")
        if self.arrow:
            at = 0
            while at < len(data):
                offset, length = _PART.unpack_from(data, at)
                at += _PART.size + length
                self._parts.append((offset, data[at - length:at]))
            self.schema = pyarrow.ipc.open_file(_Parts(self._parts, size)).schema
            return
        self.metadata = pyarrow.parquet.read_metadata(pyarrow.BufferReader(data))
        self.schema = self.metadata.schema.to_arrow_schema()
        self.leaves: Dict[str, List[int]] = {}
        at = 0
        for field in self.schema:
            nr = _leaves(field.type)
            self.leaves.setdefault(field.name, []).extend(range(at, at + nr))
            at += nr
        self.known = at == self.metadata.num_columns  # otherwise groups are read whole

    def batch(self, index: int, offset: int, data: Any) -> Any:
        """A record batch of an Arrow file from its bytes, with the dictionaries that precede it."""
        import pyarrow.ipc
        return pyarrow.ipc.open_file(_Parts([*self._parts, (offset, data)], self.size)).get_batch(index)

    def ranges(self, group: int, columns: Sequence[str]) -> List[Tuple[int, int]]:
        """Where the chunks of these columns lie."""
        row_group, found = self.metadata.row_group(group), []
        for leaf in (leaf for name in columns for leaf in self.leaves[name]):
            chunk = row_group.column(leaf)
            # In a group without rows there may be no data page, and its offset is 0.
            start = min(filter(None, (chunk.data_page_offset, chunk.dictionary_page_offset)), default=0)
            if chunk.total_compressed_size:
                found.append((start, chunk.total_compressed_size))
        return found


class ShoalTables(ShoalDataset):
    """The row groups of Parquet files, or the record batches of Arrow files, as pyarrow tables.

    catalog: one with samples, index(..., samples="auto"). columns: the names of the columns to
    decode (default: all); of Parquet files only these are read. A transform gets the table.
    Everything else is as in ShoalDataset, which gives the undecoded bytes instead.

    A footer is read once: it is kept in a temporary file that all workers share, or with footers=
    in that file, for all ranks of a node and later runs with this catalog. Requires pyarrow.
    """

    def __init__(self, catalog: Any, transform: Any = None, *, columns: Optional[Sequence[str]] = None,
                 footers: Optional[str] = None, **options: Any) -> None:
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
        self._footers: "collections.OrderedDict[int, _Footer]" = collections.OrderedDict()
        if not self.catalog.info["extents"]:
            raise BadValueError(22, "the catalog does not know where row groups lie: index the files with samples=")
        self._shared = Footers(len(self.catalog), self._token(), footers)
        self.bytes_read = 0  # by this process, with footers

    def _token(self) -> str:
        """Of this catalog and its extents, which are no part of the digest."""
        try:
            found = os.stat(self.catalog.path)
            return hashlib.md5(b"%s %d %d" % (self.catalog.digest.encode(), found.st_size, found.st_mtime_ns)).hexdigest()
        except OSError:  # an object
            return self.catalog.digest

    def __getstate__(self) -> Dict[str, Any]:
        state = super().__getstate__()
        state["_footers"] = collections.OrderedDict()
        return state

    def _ranges(self, file: int, pairs: Sequence[Tuple[int, int]]) -> List[bytes]:
        found: List[bytes] = self._opened().ranges(file, pairs, self._in_flight or 16)
        self.bytes_read += sum(map(len, found))
        return found

    def _read_arrow(self, file: int, size: int) -> bytes:
        """What lies between the record batches of a file: dictionaries, and the footer at its end."""
        pairs, at = [], 0
        for sample in self.catalog.samples(file):
            offset, length, _ = self.catalog.extent(sample)
            if offset > at:
                pairs.append((at, offset - at))
            at = offset + length
        pairs.append((at, size - at))
        return b"".join(_PART.pack(offset, length) + data for (offset, length), data in zip(pairs, self._ranges(file, pairs)))

    def _read_footer(self, file: int) -> bytes:
        """The end of a Parquet file from its footer on; of an Arrow file all but its record batches."""
        size = self.catalog.size(file) or 0
        tail = self._ranges(file, [(size - min(size, TAIL), min(size, TAIL))])[0]
        if tail.endswith(b"ARROW1"):
            return self._read_arrow(file, size)
        need = int.from_bytes(tail[-8:-4], "little") + 8
        if need > size:
            raise DamagedError(74, "the footer of '%s' is longer than the file" % self.catalog.name(file))
        return tail[-need:] if need <= len(tail) else self._ranges(file, [(size - need, need)])[0]

    def _footer(self, file: int) -> _Footer:
        with _FOOTERS:
            return self._footer_locked(file)

    def _footer_locked(self, file: int) -> _Footer:
        found = self._footers.get(file)
        if found is None:
            data = self._shared.get(file, lambda: self._read_footer(file))
            found = self._footers[file] = _Footer(data, self.catalog.size(file) or 0)
            while len(self._footers) > 1 and sum(f.cost for f in self._footers.values()) > FOOTER_BYTES:
                self._footers.popitem(last=False)
        self._footers.move_to_end(file)
        return found

    def _check_columns(self, file: int, footer: _Footer) -> None:
        missing = [name for name in self.columns or () if name not in footer.schema.names]
        if missing:
            raise BadValueError(22, "'%s' has no column %r" % (self.catalog.name(file), missing[0]))

    def read(self, ids: Iterable[int]) -> List[Any]:
        """The bytes of these groups, without decoding: with columns a list of (offset, bytes)."""
        if self.columns is None:
            return super().read(ids)
        self._opened()
        found = []
        for sample in map(self._id, ids):
            file, index = self.catalog.locate(sample)
            footer = self._footer(file)
            self._check_columns(file, footer)
            if footer.arrow or not footer.known:
                found += super().read([sample])
                continue
            pairs = merged(footer.ranges(index, self.columns), GAP_OF_OBJECTS if self._remote else GAP)
            found.append(list(zip((offset for offset, _ in pairs), self._ranges(file, pairs))))
            if self._reads is not None:
                self._reads.note(1)
        return found

    def table(self, data: Any, sample: int) -> Any:
        """The table of a sample from its bytes, as read() returns them."""
        import pyarrow
        import pyarrow.parquet
        file, index = self.catalog.locate(sample)
        footer = self._footer(file)
        self._check_columns(file, footer)
        offset, _, rows = self.catalog.extent(sample)
        if footer.arrow:
            table = pyarrow.Table.from_batches([footer.batch(index, offset, data)])
        elif rows == 0:  # pyarrow itself writes such groups without a place, and would read the file's beginning
            table = footer.schema.empty_table()
        else:
            source = _Parts(data if isinstance(data, list) else [(offset, data)], footer.size)
            # pre_buffer: pyarrow takes the chunks at once, not one by one, which costs a third of the time.
            group = pyarrow.parquet.ParquetFile(source, metadata=footer.metadata, pre_buffer=True)
            # Threads of pyarrow cost half as much again, and workers have cores of their own.
            table = group.read_row_group(index, columns=self.columns, use_threads=torch.utils.data.get_worker_info() is None)
        return table if self.columns is None else table.select(self.columns)

    def _finish(self, data: Any, i: Any) -> Any:
        return super()._finish(self.table(data, self._id(i)), i)


def _flat(array: Any, words: str) -> Tuple[Any, List[int]]:
    """The elements of nested lists, and the length of the lists at each level."""
    import pyarrow
    kinds, width = pyarrow.types, []
    while True:
        if isinstance(array, pyarrow.ExtensionArray):
            array = array.storage
        fixed = kinds.is_fixed_size_list(array.type)
        if not (fixed or kinds.is_list(array.type) or kinds.is_large_list(array.type)):
            return array, width
        if array.null_count:
            raise BadValueError(22, words + " has lists that are null: fill them with a transform of the table")
        lengths = [array.type.list_size] if fixed else array.value_lengths().unique().to_pylist()
        if len(lengths) > 1:
            raise BadValueError(22, "%s has lists of different lengths, such as %d and %d, which are no tensor"
                                % (words, lengths[0], lengths[1]))
        width += lengths or [0]
        array = array.flatten()


def column_tensor(column: Any, name: str = "") -> torch.Tensor:
    """A column of numbers, or of lists of one length, as a tensor of its rows.

    The elements of a row's list, whatever its nesting, are the second dimension. A null among
    floating-point numbers becomes NaN; other nulls are an error.
    """
    import pyarrow
    words = "column %r" % name if name else "the column"
    rows = len(column)
    array = column
    if isinstance(column, pyarrow.ChunkedArray):
        array = column.combine_chunks()
        if isinstance(array, pyarrow.ChunkedArray):
            array = pyarrow.concat_arrays(array.chunks) if array.num_chunks else pyarrow.array([], column.type)
    array, width = _flat(array, words)
    if array.null_count and not pyarrow.types.is_floating(array.type):
        raise BadValueError(22, "%s of %s has nulls: fill them with a transform of the table" % (words, array.type))
    try:
        values = torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())
    except TypeError as e:
        raise BadValueError(22, "%s of %s cannot be a tensor: choose others with columns=, or cast it with a transform of the table"
                            % (words, array.type)) from e
    return values.view(rows, math.prod(width)) if width else values


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
            yield {name: column_tensor(part[name], name) for name in part.column_names}
        left = table.slice(whole) if whole < table.num_rows else None
    if left is not None and not drop_last:
        yield {name: column_tensor(left[name], name) for name in left.column_names}
