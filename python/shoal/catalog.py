"""Catalogs: sealed lists of names and sizes, mapped and shared."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, Iterator, Optional, Tuple, Union

import numpy

from . import _shoal
from ._errors import BadValueError, Error, StaleError

SIZE_UNKNOWN = 2**64 - 1


def local_path(path: Any) -> str:
    """The absolute path of a str, bytes, PathLike or file URI, whose path is taken as it is; an s3:// URI stays."""
    text = os.fsdecode(path)
    if "\0" in text:
        raise BadValueError(22, "%.100r has a NUL byte in it, which no path can have" % (path,))
    if text.startswith("s3://"):
        return text
    if text.startswith("file://"):
        if not text.startswith("file:///"):
            raise BadValueError(22, "'%s': a file URI has three slashes, as file:///data" % text)
        text = text[len("file://"):]
    return os.path.abspath(text)


class Names(Sequence):
    """Names of a catalog from a slice, made when they are asked for."""

    def __init__(self, catalog: Catalog, ids: range) -> None:
        self._catalog = catalog
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Names(self._catalog, self._ids[key])
        return self._catalog.name(self._ids[key])

    def __iter__(self) -> Iterator[str]:
        if self._ids.step == 1:
            for name in self._catalog.handle.cursor(self._ids.start, self._ids.stop):
                yield os.fsdecode(name)
        else:
            for i in self._ids:
                yield self._catalog.name(i)

    def __contains__(self, name: object) -> bool:
        return name in self._catalog and self._catalog.find(name) in self._ids

    def __eq__(self, other):
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None

    def __repr__(self):
        return "<shoal.Names: %d of %r>" % (len(self), self._catalog)


class Catalog(Sequence):
    """A sealed list of file names, sorted bytewise, and their sizes.

    The file is mapped: all processes of a machine share one copy of it, and a pickle holds only its
    path. A file's id is its place in the list. Names are str, with bytes that are no UTF-8 as in
    os.fsdecode(); name_bytes() gives them as they are.

    `copy` is a local directory through which a catalog on slow storage is read: the first process
    of a machine copies it there, named after its content.

    `path` may be an object, "s3://bucket/name", which is fetched when the catalog is opened, and again
    where it is unpickled: workers that are spawned share one with `copy`.
    """

    def __init__(self, path: Union[str, os.PathLike], copy: Union[str, os.PathLike, None] = None) -> None:
        self._path = local_path(path)
        self._copy = None if copy is None else os.fspath(copy)
        self._open()

    def _open(self):
        more = {} if self._copy is None else {"copy": self._copy}
        try:
            self.handle = _shoal.Catalog(self._path, **more)
        except Error as e:
            raise type(e)(e.errno, "'%s': %s" % (self._path, e)) from None
        self._info = self.handle.info()
        self._closed = False

    # ---- What it says of itself ----

    @property
    def path(self) -> str:
        """Where the catalog itself is."""
        return self._path

    @property
    def root(self) -> str:
        """The URI that the names are relative to."""
        return self._info["root"]

    @property
    def digest(self) -> str:
        """Of the names, sizes and numbers of samples; 32 hexadecimal digits."""
        return self._info["digest"]

    @property
    def nr_samples(self) -> int:
        """Samples in all files together."""
        return self._info["nr_samples"]

    @property
    def samples_per_file(self) -> Optional[int]:
        """How many samples a file has, or None when it differs from file to file."""
        return self._info["samples_per_file"] or None

    @property
    def nr_bytes(self) -> Optional[int]:
        """The sum of the sizes, or None when they are not known."""
        nr = self._info["nr_bytes"]
        return None if nr == SIZE_UNKNOWN else nr

    @property
    def info(self) -> dict[str, Any]:
        """All of it, as a dict."""
        return dict(self._info)

    def __repr__(self):
        return "shoal.Catalog(%r)" % self._path

    # ---- By id ----

    def __len__(self) -> int:
        if self._closed:
            raise ValueError("the catalog is closed")
        return self._info["nr_files"]

    def _id(self, i):
        nr = len(self)
        at = operator.index(i)
        if not -nr <= at < nr:
            raise IndexError("file %d of a catalog of %d" % (at, nr))
        return at + nr if at < 0 else at

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Names(self, range(*key.indices(len(self))))
        return self.name(key)

    def __iter__(self) -> Iterator[str]:
        return iter(Names(self, range(len(self))))

    def name(self, i: int) -> str:
        """The name of file i, as str."""
        return os.fsdecode(self.handle.name(self._id(i)))

    def name_bytes(self, i: int) -> bytes:
        """The name of file i, as the bytes it is."""
        return self.handle.name(self._id(i))

    def uri(self, i: int) -> str:
        """The root and the name of file i together."""
        return self.root.rstrip("/") + "/" + self.name(i)

    def size(self, i: int) -> Optional[int]:
        """The size of file i in bytes, or None when it is not known."""
        size = self.handle.size(self._id(i))
        return None if size == SIZE_UNKNOWN else size

    def etag(self, i: int) -> Optional[str]:
        """The ETag of object i when it was listed, in its quotes, or None where none is kept."""
        return self.handle.etag(self._id(i)) or None

    def sizes(self, key: slice = slice(None)) -> numpy.ndarray:
        """The sizes of a slice of files as an array of uint64."""
        if not isinstance(key, slice):
            raise TypeError("sizes() takes a slice, as sizes(slice(0, 10)), not %r: size(i) is for one file" % (key,))
        if self.nr_bytes is None and len(self):
            raise ValueError("the catalog has no sizes: index it with sizes")
        ids = range(*key.indices(len(self)))
        out = numpy.empty(len(ids), dtype=numpy.uint64)
        self.handle.sizes(ids.start, ids.step % 2**64, out)
        return out

    def largest(self) -> Optional[int]:
        """The size of the largest file, or None. Goes through all sizes."""
        size = self.handle.largest()
        return None if size == SIZE_UNKNOWN else size

    # ---- By name ----

    def find(self, name: Union[str, bytes], default: Any = None) -> Any:
        """The id of the file called name (str or bytes), or default."""
        i = self.handle.find(os.fsencode(name))
        return default if i is None else i

    def index(self, name: Union[str, bytes], start: int = 0, stop: Optional[int] = None) -> int:
        """The id of the file called name; ValueError when there is none."""
        i = self.find(name)
        if i is None or i not in range(*slice(start, stop).indices(len(self))):
            raise ValueError("no file is called %r" % (name,))
        return i

    def count(self, name: Any) -> int:
        return int(name in self)

    def lower_bound(self, name: Union[str, bytes]) -> int:
        """The first id whose name is not less than name bytewise; len() if there is none."""
        return self.handle.lower_bound(os.fsencode(name))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, (str, bytes)) and self.find(name) is not None
        except UnicodeEncodeError:  # half a character, which no file's name decodes to
            return False

    # ---- Samples ----

    def locate(self, sample: int) -> Tuple[int, int]:
        """(file, index): which file holds a sample, and which of its samples it is."""
        sample = operator.index(sample)
        if not 0 <= sample < self.nr_samples:
            raise IndexError("sample %d of a catalog of %d" % (sample, self.nr_samples))
        return self.handle.locate(sample)

    def samples(self, i: int) -> range:
        """The samples of file i, as a range of their ids."""
        first, count = self.handle.samples(self._id(i))
        return range(first, first + count)

    # ---- Its file ----

    def verify(self) -> None:
        """Read and check everything; DamagedError says where damage is."""
        self.handle.verify()

    def check_fresh(self) -> None:
        """StaleError when the file that was opened has another length now."""
        self.handle.check_fresh()

    def close(self) -> None:
        """Unmap it. Closing twice is fine; one that a loader or an iterator uses is refused: BufferError.

        What it said of itself (digest, info, a pickle) is still known; anything else raises ValueError."""
        self.handle.close()
        self._closed = True

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Copies in other processes: the path, and what must be found there ----

    def __getstate__(self):
        return {"path": self._path, "copy": self._copy, "digest": self.digest}

    def __setstate__(self, state):
        self._path, self._copy = state["path"], state["copy"]
        self._open()
        if self.digest != state["digest"]:
            raise StaleError(116, "'%s' is another catalog now than the one that was pickled: its "
                             "digest is %s, and was %s" % (self._path, self.digest, state["digest"]))

    def __eq__(self, other):
        return isinstance(other, Catalog) and self.digest == other.digest and self.root == other.root

    def __hash__(self):
        return hash(self.digest)
