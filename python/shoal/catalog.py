"""Catalogs: sealed lists of names and sizes, mapped and shared."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Literal, NamedTuple, Optional, overload, Sequence, Tuple, Union

import numpy
import numpy.typing

from . import _shoal
from ._errors import BadValueError, DamagedError, Error, StaleError
from ._keywords import explained
from ._store import S3Config, as_tuple, parse_uri
from ._units import Size, size_of

SIZE_UNKNOWN = 2**64 - 1
_MAGIC = b"\x89SHOAL\r\n"  # the start of every catalog file: docs/format/catalog.md

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

_KINDS: Tuple[Literal["missing", "new", "resized", "changed"], ...] = ("missing", "new", "resized", "changed")
_FIRST = 20  # differences that a StorageCheck keeps


def local_path(path: Path) -> str:
    """The absolute path of a str, bytes, PathLike or file URI (whose path is not %-decoded); the
    URI of an object is unchanged.
    """
    text = os.fsdecode(path)
    if not text:  # it would be the current directory
        raise BadValueError(22, "the path is empty: give that of a file, or a URI")
    if "\0" in text:
        raise BadValueError(22, "%.100r contains a NUL byte, which paths cannot have" % (path,))
    where = parse_uri(text)
    return text if where.objects else os.path.abspath(where.path or text)


@dataclass(frozen=True)
class Difference:
    """A file that differs from the catalog: "missing", "new", "resized", or "changed" (its ETag).
    """

    kind: Literal["missing", "new", "resized", "changed"]
    name: str
    was: Optional[int]  # the size in the catalog, if it has one
    now: Optional[int]  # the size in the store


@dataclass(frozen=True)
class StorageCheck:
    """How many files are as in the catalog, how many differ, and the first that differ, by name."""

    same: int
    missing: int
    new: int
    resized: int
    changed: int
    first: Tuple[Difference, ...]

    @property
    def good(self) -> bool:
        """Whether everything is as in the catalog."""
        return self.missing + self.new + self.resized + self.changed == 0

    def __str__(self) -> str:
        return ("%d missing, %d new, %d of another size, %d of another ETag, %d as they were"
                % (self.missing, self.new, self.resized, self.changed, self.same))


class Extent(NamedTuple):
    """Where a sample lies in its file, in bytes, and its rows."""

    offset: int
    length: int
    rows: int


class Names(Sequence[str]):
    """Names of a slice of a catalog, computed on access."""

    def __init__(self, catalog: Catalog, ids: range) -> None:
        self._catalog = catalog
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, key: int) -> str: ...

    @overload
    def __getitem__(self, key: slice) -> Names: ...

    def __getitem__(self, key: Union[int, slice]) -> Union[str, Names]:
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
        return isinstance(name, (str, bytes)) and name in self._catalog and self._catalog.find(name) in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<shoal.Names: %d of %r>" % (len(self), self._catalog)


class Catalog(Sequence[str]):
    """A sealed list of file names, sorted bytewise, and their sizes.

    The file is mapped: all processes of a machine share one copy of it, and a pickle contains only
    its path. A file's id is its index in the list. Names are str, decoded like os.fsdecode() if
    they are not UTF-8; name_bytes() returns the bytes.

    `local_copy` is a local directory for copies of catalogs on slow storage: the first process of a
    machine copies the catalog there, under a name that depends on its content, and all read the
    copy.

    `path` may be an object, "s3://bucket/name", which is fetched when the catalog is opened, and
    again when it is unpickled: spawned workers share one if `local_copy` is set.

    `s3` configures access to that bucket, and to the bucket of the files: loaders and datasets of
    this catalog use it. None: the environment's configuration.
    """

    made: dict[str, int]  # set by index(): counters of the listing

    @explained
    def __init__(self, path: Path, local_copy: Optional[Path] = None, s3: Optional[S3Config] = None) -> None:
        self._path = local_path(path)
        self._copy = None if local_copy is None else os.fsdecode(local_copy)
        self._s3 = s3
        self._open()

    def _open(self) -> None:
        more: dict[str, Any] = {} if self._copy is None else {"copy": self._copy}
        if self._s3 is not None:
            more["config"] = as_tuple(self._s3)
        try:
            self.handle = _shoal.Catalog(self._path, **more)
        except Error as e:
            raise type(e)(e.errno, "'%s': %s%s" % (self._path, e, self._hint(e))) from None
        self._info = self.handle.info()
        self._closed = False

    def _hint(self, error: Error) -> str:
        """What to do if a dataset was given in place of its catalog."""
        if os.path.isdir(self._path):
            return ": make a catalog of its files with shoal.index(%r, %r)" % (self._path, self._path + ".cat")
        if isinstance(error, DamagedError) and not self._starts_as_catalog():
            return ": if it is a list of names, make a catalog of them with shoal.index(%r, %r)" % (
                self._path, self._path + ".cat")
        return ""

    def _starts_as_catalog(self) -> bool:
        try:
            with open(self._path, "rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
        except OSError:
            return True  # there is no such file: it is in a bucket

    # ---- Properties ----

    @property
    def path(self) -> str:
        """The location of the catalog itself."""
        return self._path

    @property
    def s3(self) -> Optional[S3Config]:
        """The configuration of its bucket and of that of its files; None: the environment's."""
        return self._s3

    @property
    def root(self) -> str:
        """The URI that the names are relative to."""
        return str(self._info["root"])

    @property
    def digest(self) -> str:
        """The hash of the names, sizes and numbers of samples: 32 hexadecimal digits."""
        return str(self._info["digest"])

    @property
    def nr_samples(self) -> int:
        """The number of samples in all files."""
        return int(self._info["nr_samples"])

    @property
    def samples_per_file(self) -> Optional[int]:
        """The number of samples per file, or None if it differs from file to file."""
        return self._info["samples_per_file"] or None

    @property
    def nr_bytes(self) -> Optional[int]:
        """The sum of the sizes, or None if they are not known."""
        nr: int = self._info["nr_bytes"]
        return None if nr == SIZE_UNKNOWN else nr

    @property
    def info(self) -> dict[str, Any]:
        """All properties, as a dict."""
        return dict(self._info)

    def __repr__(self) -> str:
        return "shoal.Catalog(%r)" % self._path

    # ---- By id ----

    def __len__(self) -> int:
        if self._closed:
            raise ValueError("the catalog is closed")
        return int(self._info["nr_files"])

    def _id(self, i: Any) -> int:
        nr = len(self)
        if isinstance(i, (str, bytes)):
            raise TypeError("files are numbered: find(%r) is the number of the file with that name" % (i,))
        at = operator.index(i)
        if not -nr <= at < nr:
            raise IndexError("file %d of a catalog of %d" % (at, nr))
        return at + nr if at < 0 else at

    @overload
    def __getitem__(self, key: int) -> str: ...

    @overload
    def __getitem__(self, key: slice) -> Names: ...

    def __getitem__(self, key: Union[int, slice]) -> Union[str, Names]:
        if isinstance(key, slice):
            return Names(self, range(*key.indices(len(self))))
        return self.name(key)

    def __iter__(self) -> Iterator[str]:
        return iter(Names(self, range(len(self))))

    def name(self, i: int) -> str:
        """The name of file i, as str."""
        return os.fsdecode(self.handle.name(self._id(i)))

    def name_bytes(self, i: int) -> bytes:
        """The name of file i, as bytes."""
        return self.handle.name(self._id(i))

    def uri(self, i: int) -> str:
        """The root and the name of file i, joined."""
        return self.root + ("" if self.root.endswith("/") else "/") + self.name(i)

    def size(self, i: int) -> Optional[int]:
        """The size of file i in bytes, or None if it is not known."""
        size = self.handle.size(self._id(i))
        return None if size == SIZE_UNKNOWN else size

    def etag(self, i: int) -> Optional[str]:
        """The ETag of object i when it was listed, in quotes, or None if it was not recorded."""
        return self.handle.etag(self._id(i)) or None

    def sizes(self, key: slice = slice(None)) -> numpy.typing.NDArray[numpy.uint64]:
        """The sizes of a slice of files as an array of uint64."""
        if not isinstance(key, slice):
            raise TypeError("sizes() takes a slice, such as sizes(slice(0, 10)), not %r: use size(i) for one file" % (key,))
        if self.nr_bytes is None and len(self):
            raise ValueError("the catalog has no sizes: index it with sizes")
        ids = range(*key.indices(len(self)))
        out = numpy.empty(len(ids), dtype=numpy.uint64)
        self.handle.sizes(ids.start, ids.step % 2**64, out)
        return out

    def largest(self) -> Optional[int]:
        """The size of the largest file, or None. Reads all sizes."""
        size = self.handle.largest()
        return None if size == SIZE_UNKNOWN else size

    # ---- By name ----

    def find(self, name: Union[str, bytes], default: Any = None) -> Any:
        """The id of the file with this name (str or bytes), or default."""
        i = self.handle.find(os.fsencode(name))
        return default if i is None else i

    def index(self, name: Union[str, bytes], start: int = 0, stop: Optional[int] = None) -> int:
        """The id of the file with this name; ValueError if there is none."""
        i: Optional[int] = self.find(name)
        if i is None or i not in range(*slice(start, stop).indices(len(self))):
            raise ValueError("there is no file %r" % (name,))
        return i

    def count(self, name: Any) -> int:
        return int(name in self)

    def lower_bound(self, name: Union[str, bytes]) -> int:
        """The first id whose name is not less than name, bytewise; len() if there is none."""
        return self.handle.lower_bound(os.fsencode(name))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, (str, bytes)) and self.find(name) is not None
        except UnicodeEncodeError:  # half a surrogate pair, which no file's name decodes to
            return False

    # ---- Samples ----

    def locate(self, sample: int) -> Tuple[int, int]:
        """(file, index): the file that holds a sample, and the sample's index in it."""
        sample = operator.index(sample)
        if not 0 <= sample < self.nr_samples:
            raise IndexError("sample %d of a catalog of %d" % (sample, self.nr_samples))
        return self.handle.locate(sample)

    def extent(self, sample: int) -> Extent:
        """Where a sample lies in its file: (offset, length, rows). A row group or a record batch has
        rows; other samples have 1.
        """
        return Extent(*self.handle.extent(*self.locate(sample)))

    def samples(self, i: int) -> range:
        """The samples of file i, as a range of ids."""
        first, count = self.handle.samples(self._id(i))
        return range(first, first + count)

    # ---- Its file ----

    @overload
    def verify(self) -> None: ...

    @overload
    def verify(self, storage: Literal[False]) -> None: ...

    @overload
    def verify(self, storage: Literal[True], *, data: Optional[Path] = None,
               differs: Optional[Callable[[Difference], Any]] = None, memory: Optional[Size] = None,
               tmp_dir: Optional[Path] = None, threads: int = 0, keep_going: bool = False,
               progress: Optional[Callable[[Any], Any]] = None, warn: Optional[Callable[[str], Any]] = None) -> StorageCheck: ...

    @explained
    def verify(self, storage: bool = False, *, data: Optional[Path] = None,
               differs: Optional[Callable[[Difference], Any]] = None, memory: Optional[Size] = None,
               tmp_dir: Optional[Path] = None, threads: int = 0, keep_going: bool = False,
               progress: Optional[Callable[[Any], Any]] = None, warn: Optional[Callable[[str], Any]] = None
               ) -> Optional[StorageCheck]:
        """Read and check everything; DamagedError has the place of the damage.

        storage=True then lists the store, with the patterns that the catalog was made with, and
        compares names, sizes and, in a bucket, ETags, if the catalog has them. It returns a
        StorageCheck: how many files are missing, new or different, and the first 20 of them.
        `differs` is called with each Difference, in the order of names. data: the place to list
        instead of the root. memory, tmp_dir, threads, keep_going (files that cannot be read count
        as missing), progress and warn are those of index().
        """
        self.handle.verify()
        if not storage:
            wanted = {"data": data, "differs": differs, "memory": memory, "tmp_dir": tmp_dir, "threads": threads,
                      "keep_going": keep_going, "progress": progress, "warn": warn}
            for name, given in wanted.items():
                if given:
                    raise BadValueError(22, "%s is for verify(storage=True)" % name)
            return None
        from .indexing import callbacks, check_threads  # which imports Catalog itself

        first: List[Difference] = []

        def tell(kind: int, name: bytes, was: int, now: int) -> bool:
            found = Difference(_KINDS[kind], os.fsdecode(name), None if was == SIZE_UNKNOWN else was,
                               None if now == SIZE_UNKNOWN else now)
            if len(first) < _FIRST:
                first.append(found)
            if differs is not None:
                differs(found)
            return differs is not None or len(first) < _FIRST

        counts = _shoal.compare(self.handle, None if data is None else os.fsdecode(data), self._path,
                                None if tmp_dir is None else os.fsdecode(tmp_dir), size_of("memory", memory or 0),
                                check_threads(threads), keep_going, tell, *callbacks(progress, warn), as_tuple(self._s3))
        return StorageCheck(*counts, first=tuple(first))

    def check_fresh(self) -> None:
        """StaleError if the length of the file has changed since it was opened."""
        self.handle.check_fresh()

    def close(self) -> None:
        """Unmap it. Closing twice is allowed; BufferError if a loader or an iterator uses it.

        Its properties (digest, info) and pickling still work; anything else raises ValueError.
        """
        self.handle.close()
        self._closed = True

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Copies in other processes: the path, and the digest that must be found there ----

    def __getstate__(self) -> dict[str, Any]:
        state = {"path": self._path, "copy": self._copy, "digest": self.digest}
        return state if self._s3 is None else {**state, "s3": self._s3}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._path, self._copy, self._s3 = state["path"], state["copy"], state.get("s3")
        self._open()
        if self.digest != state["digest"]:
            raise StaleError(116, "'%s' is not the catalog that was pickled: its digest is "
                             "%s, not %s" % (self._path, self.digest, state["digest"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.digest == other.digest and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.digest)
