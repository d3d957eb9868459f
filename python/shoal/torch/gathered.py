"""A file of objects that were gathered from ranks."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import struct
from typing import Any, BinaryIO, Callable, Iterator, List, Optional, Tuple, Union

from .. import _stream

# magic number, streams, an offset and a length per stream, footer
_MAGIC = b"\x89SHOALG1\r\n"
_ENTRY = struct.Struct("<QQ")
_FOOTER = struct.Struct("<QQ16s")  # offset of the index, number of objects, hash of the index


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def write_file(sources: Iterator[Tuple[int, Callable[[], Optional[memoryview]]]], file: BinaryIO) -> None:
    index = []
    with file:
        file.write(_MAGIC)
        for _, next_chunk in sources:
            start = file.tell()
            chunk = next_chunk()
            while chunk is not None:
                file.write(chunk)
                chunk = next_chunk()
            index.append(_ENTRY.pack(start, file.tell() - start))
        at, table = file.tell(), b"".join(index)
        file.write(table + _FOOTER.pack(at, len(index), _hash(table)))
        file.flush()
        os.fsync(file.fileno())


def target_of(path: str) -> str:
    """The file that a path leads to, if it may be replaced: never a device, a pipe or a directory.
    """
    target = os.path.realpath(path)
    try:
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise ValueError(f"'{os.fsdecode(path)}' exists and is not a file: choose another path")
    except FileNotFoundError:
        pass
    return target


class GatheredFile:
    """The objects of a gather(to=path): len(), [rank], iteration; each is read when it is
    requested.

    The file contains pickles: open only files that you trust.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = os.fspath(path)
        self._index: Optional[List[Tuple[int, int]]] = None

    def _load_index(self) -> List[Tuple[int, int]]:
        if self._index is not None:
            return self._index
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError(f"'{self.path}' is not a file of gathered objects")
            try:
                file.seek(size - _FOOTER.size)
                at, count, digest = _FOOTER.unpack(file.read(_FOOTER.size))
                if at + count * _ENTRY.size != size - _FOOTER.size:
                    raise ValueError
                file.seek(at)
                table = file.read(count * _ENTRY.size)
                if _hash(table) != digest:
                    raise ValueError
            except (OSError, OverflowError, MemoryError, ValueError, struct.error):
                raise ValueError(f"'{self.path}' is truncated or damaged: gather it again") from None
        self._index = [(start, left) for start, left in _ENTRY.iter_unpack(table)]
        return self._index

    def __len__(self) -> int:
        return len(self._load_index())

    def __getitem__(self, rank: int) -> Any:
        index = self._load_index()
        start, left = index[rank]
        with open(self.path, "rb") as file:
            file.seek(start)

            def next_chunk() -> Optional[memoryview]:
                nonlocal left
                data = file.read(min(left, 1 << 20))
                left -= len(data)
                return memoryview(data) if data else None

            try:
                return _stream.read(next_chunk)
            except (EOFError, pickle.UnpicklingError, MemoryError, OverflowError, struct.error) as error:
                raise ValueError(f"'{self.path}' is damaged at object {rank}: {error}") from error

    def __iter__(self) -> Iterator[Any]:
        return (self[rank] for rank in range(len(self)))

    def __repr__(self) -> str:
        return f"GatheredFile({self.path!r})"
