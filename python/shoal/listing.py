"""Lists as streams: what a store or a catalog holds, in order, and what is made of it."""

from __future__ import annotations

import builtins
import errno
import math
import os
import shutil
import tempfile
import time
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _shoal
from ._errors import BadValueError, Error
from ._keywords import explained
from ._progress import Progress, shown
from ._store import S3Config, as_tuple, parse_uri
from ._units import Size, size_of
from .catalog import _FIRST, _KINDS, SIZE_UNKNOWN, Catalog, Difference, Path, StorageCheck
from .indexing import Patterns, _patterns, _shard, _with_endpoint, check_threads, index
from .order import _number

_BATCH = 1024  # names that are taken from the library at once


class Entry(NamedTuple):
    """A file of a list: its name, relative to what was listed, and what is known of it."""

    name: str
    size: Optional[int]
    etag: Optional[str]
    samples: int


class Listing(Iterator[Any]):
    """An iterator over a list. Closing or dropping it ends its threads. It is of the process that made it."""

    def __init__(self, handle: _shoal.List, names_only: bool, progress: Optional[Callable[[int, int], Any]] = None) -> None:
        self._progress, self._done, self._shown = progress, 0, 0.0
        self._handle: Optional[_shoal.List] = handle
        self._names_only = names_only
        self._rows: Iterator[Tuple[bytes, int, int, str]] = iter(())
        self._want = 1  # the first name comes at once, later ones by many

    @property
    def root(self) -> str:
        """The URI that the names are relative to."""
        if self._handle is None:
            raise BadValueError(22, "the list is closed")
        return os.fsdecode(self._handle.info()[0])

    def __iter__(self) -> Listing:
        return self

    def __next__(self) -> Any:
        for name, size, samples, etag in self._rows:
            if self._names_only:
                return os.fsdecode(name)
            return Entry(os.fsdecode(name), None if size == SIZE_UNKNOWN else size, etag or None, samples)
        rows = self._handle.next(self._want) if self._handle else []
        if not rows:
            self.close()
            raise StopIteration
        self._want = min(2 * self._want, _BATCH)
        self._done += len(rows)
        if self._progress is not None and time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._progress(self._done, 0)
        self._rows = iter(rows)
        return self.__next__()

    def close(self) -> None:
        self._rows = iter(())
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


def _text(name: Optional[Path]) -> Optional[str]:
    """As the library takes it; a NUL byte is refused there."""
    return None if name is None else os.fsdecode(name)


def _select(include: Optional[Patterns] = None, exclude: Optional[Patterns] = None, regex: Optional[str] = None,
            ignore_case: bool = False, min_size: Optional[Size] = None, max_size: Optional[Size] = None,
            start_after: Optional[Path] = None, end_before: Optional[Path] = None, limit: Optional[int] = None,
            names: Optional[Catalog] = None, not_in: bool = False, share: Tuple[float, float] = (0.0, 0.0),
            seed: int = 0) -> Tuple[Any, ...]:
    """What the C side takes."""
    return (_patterns("include", include), _patterns("exclude", exclude), regex, ignore_case,
            size_of("min_size", min_size or 0), size_of("max_size", max_size or 0), _text(start_after), _text(end_before),
            _number("limit", 0 if limit is None else limit), None if names is None else names.handle, not_in, *share,
            _number("seed", seed))


@explained
def list(uri: Path, *, start_after: Optional[Path] = None, end_before: Optional[Path] = None, limit: Optional[int] = None,
         shard: Optional[Tuple[int, int]] = None, sizes: bool = False, etags: bool = False,
         include: Optional[Patterns] = None, exclude: Optional[Patterns] = None, regex: Optional[str] = None,
         min_size: Optional[Size] = None, max_size: Optional[Size] = None, follow: bool = False,
         one_file_system: bool = False, keep_going: bool = False, warn: Optional[Callable[[str], Any]] = None,
         threads: int = 0, tmp_dir: Optional[Path] = None, s3: Optional[S3Config] = None,
         endpoint: Optional[str] = None, progress: Optional[Callable[[Progress], Any]] = None) -> Listing:
    """The files below uri, a directory or a bucket, in bytewise order of their names, without a catalog.

        for name in shoal.list("s3://bucket/train", start_after="n01440764", limit=1000):
            ...

    An iterator over names relative to uri (str); with sizes=True or etags=True over Entry(name, size, etag, samples).
    Memory does not grow with the number of files: threads list ahead, up to a limit, and a directory that is too large is
    sorted in a temporary file. An iterator that is dropped, closed or left by an exception ends its threads.

    shard=(k, n) delivers part k of n disjoint parts: of a bucket an interval of keys, of a directory the names with that
    hash. include, exclude: as for index(). regex: POSIX extended, found somewhere in the name. min_size, max_size: bytes, and need
    sizes, which are then requested. keep_going leaves out what cannot be read, and calls warn with the reason. progress is
    called with a Progress about ten times per second.
    """
    if limit is not None and _number("limit", limit) == 0:
        raise BadValueError(22, "limit must be 1 or more; leave it out for all files")
    select = _select(include, exclude, regex, False, min_size, max_size, start_after, end_before, limit)
    k, n = _shard(shard)
    by_size = bool(select[4] or select[5])
    options = (not (sizes or by_size), etags, follow, one_file_system, keep_going, check_threads(threads), k, n, _text(tmp_dir))

    def tell(words: bytes) -> None:
        assert warn is not None
        warn(os.fsdecode(words))

    handle = _shoal.list_store(os.fsencode(uri), select, options, tell if warn else None, as_tuple(_with_endpoint(s3, endpoint)))
    return Listing(handle, not (sizes or etags), shown(progress, "names"))


def count(uri: Path, **options: Any) -> int:
    """How many files list(uri, ...) delivers: without making their names in Python."""
    with list(uri, **options) as listing:
        if listing._progress is not None:
            return sum(1 for _ in listing)
        assert listing._handle is not None
        return listing._handle.count()[0]


def from_uris(uris: Iterable[Any], output: Optional[Path] = None, **options: Any) -> Catalog:
    """A Catalog of the files whose URIs, or absolute paths, an iterable yields: for Loader, ShoalDataset and all others.

        dataset = ShoalDataset(shoal.from_uris(open("uris.txt").read().split()), decode)

    Items are URIs, or (uri, size), or (uri, size, samples). With samples="auto" or a kind, files without a size are asked for
    it. They need not be sorted, and are never all in memory. The root is the bucket or the directory "/", unless root= is
    given; other options are those of index(). Without output the catalog is a temporary file, which is removed when the
    Catalog is dropped by the process that made it.
    """
    if isinstance(uris, (str, bytes, os.PathLike)):
        raise TypeError("uris is an iterable of URIs, not one; index() lists what is below a URI")
    if output is not None:
        return index(uris, output, **options)
    folder = tempfile.mkdtemp(prefix="shoal-uris-")
    try:
        catalog = index(uris, os.path.join(folder, "uris.cat"), **options)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(catalog, _remove_of, os.getpid(), folder)
    return catalog


def _remove_of(pid: int, folder: str) -> None:
    if os.getpid() == pid:  # a forked worker must not remove what others use
        shutil.rmtree(folder, ignore_errors=True)


# ---- Catalogs of catalogs ----


def _catalog(catalog: Union[Catalog, Path], s3: Optional[S3Config] = None) -> Catalog:
    """A path stands for its catalog."""
    if not isinstance(catalog, (Catalog, str, bytes, os.PathLike)):
        raise TypeError("a shoal.Catalog or the path of one is needed, not %.100r" % (catalog,))
    return catalog if isinstance(catalog, Catalog) else Catalog(catalog, s3=s3)


@explained
def merge(catalogs: Iterable[Union[Catalog, Path]], output: Path, *, root: Optional[Path] = None, repeated: str = "fail",
          force: bool = False, s3: Optional[S3Config] = None, progress: Optional[Callable[[Progress], Any]] = None) -> Catalog:
    """Join catalogs, or their files, to one, such as those of the shards of a bucket.

    They have the same root, or root= is a place above all of their roots, which names become relative to. A name in several catalogs is an error; with repeated="last" the last
    one's entry is taken. Sizes, samples per file and ETags are kept. Names that come in order, as those of shards
    do, are copied without decoding them. force: also replace a file that is not a catalog, or a catalog of more than twice
    as many files, and write a catalog without files.
    """
    if repeated not in ("last", "fail"):
        raise BadValueError(22, "repeated is 'last' or 'fail', not %.100r" % (repeated,))
    if isinstance(catalogs, (str, bytes, os.PathLike)):
        raise TypeError("catalogs is an iterable of catalogs, not one: %.100r" % (catalogs,))
    opened = [_catalog(catalog, s3) for catalog in catalogs]
    _shoal.merge_catalogs(tuple(catalog.handle for catalog in opened), repeated == "fail", os.fsencode(output), _text(root),
                          not force, as_tuple(s3), shown(progress, "names"))
    return Catalog(output, s3=s3)


def _write(catalog: Catalog, select: Tuple[Any, ...], output: Path, force: bool, s3: Optional[S3Config],
           progress: Optional[Callable[[Progress], Any]], may_be_empty: bool = False) -> Catalog:
    handle = _shoal.list_catalog(catalog.handle, select)
    try:
        handle.write(os.fsencode(output), None, 0, not (force or may_be_empty), not force, as_tuple(s3),
                     shown(progress, "names"))
    finally:
        handle.close()
    return Catalog(output, s3=s3)


@explained
def filter(catalog: Union[Catalog, Path], output: Path, *, include: Optional[Patterns] = None, exclude: Optional[Patterns] = None,
           regex: Optional[str] = None, ignore_case: bool = False, min_size: Optional[Size] = None,
           max_size: Optional[Size] = None, files_from: Optional[Union[Catalog, Iterable[Any]]] = None,
           files_not_from: Optional[Union[Catalog, Iterable[Any]]] = None, start_after: Optional[Path] = None,
           end_before: Optional[Path] = None, limit: Optional[int] = None, force: bool = False,
           s3: Optional[S3Config] = None, progress: Optional[Callable[[Progress], Any]] = None) -> Catalog:
    """Make a catalog of some files of another one; sizes, samples per file and ETags are kept.

    All conditions must hold. files_from, files_not_from: a Catalog, or an iterable of names, of which the files are taken or
    left out. progress is called with a Progress about ten times per second.
    If nothing is left, or output is a file that is not a catalog, or a catalog of more than twice as many files, it is an
    error, and output stays as it was, without force.
    """
    if files_from is not None and files_not_from is not None:
        raise BadValueError(22, "give files_from or files_not_from, not both")
    catalog = _catalog(catalog, s3)
    chosen = files_from if files_from is not None else files_not_from
    if isinstance(chosen, (str, bytes, os.PathLike)):
        raise TypeError("files_from takes a Catalog or an iterable of names, not a path: open(%r).read().split()" % (chosen,))
    if chosen is not None and not isinstance(chosen, Catalog):
        chosen = from_uris(chosen, root=catalog.root, names_only=True, force=True)
    select = _select(include, exclude, regex, ignore_case, min_size, max_size, start_after, end_before, limit, chosen,
                     files_not_from is not None)
    return _write(catalog, select, output, force, s3, progress)


def _make_directory(path: Path) -> None:
    text = os.fsdecode(path)
    where = parse_uri(text)
    if not where.objects:
        os.makedirs(where.path or text, exist_ok=True)


@explained
def split(catalog: Union[Catalog, Path], parts: Mapping[str, float], outputs: Union[Path, Mapping[str, Path]], *,
          seed: int = 0, force: bool = False, s3: Optional[S3Config] = None,
          progress: Optional[Callable[[Progress], Any]] = None) -> Dict[str, Catalog]:
    """Split a catalog into parts by share, such as {"train": 0.9, "valid": 0.1}: a Catalog for each.

    Where a file goes depends on its name and the seed alone, so that it stays in its part when the dataset grows or
    shrinks; the shares hold about, not exactly. outputs: a directory, which is made, for DIR/train.cat and so on, or a path for
    each part.
    A file that is not a catalog, or a catalog of more than twice as many files, is replaced only with force.
    """
    if not parts:
        raise BadValueError(22, "there is no part to split into")
    shares = [float(share) for share in parts.values()]
    if not all(share > 0 for share in shares) or math.fsum(shares) > 1 + 1e-9:
        raise BadValueError(22, "the shares of all parts must be positive, and add up to at most 1: not %r" % (dict(parts),))
    catalog = _catalog(catalog, s3)
    paths = outputs if isinstance(outputs, Mapping) else {part: os.path.join(os.fsdecode(outputs), part + ".cat") for part in parts}
    for path in paths.values():
        if not force and os.path.exists(path) and os.path.exists(catalog.path) and os.path.samefile(path, catalog.path):
            raise Error(errno.EEXIST, "'%s' is the catalog that is split: name other outputs, or replace it by its part with force=True"
                        % os.fsdecode(path))
    if not isinstance(outputs, Mapping):
        _make_directory(outputs)
    made, end = {}, 0.0
    for (part, path), share in zip(((part, paths[part]) for part in parts), shares):
        begin, end = end, 1.0 if end + share > 1 - 1e-9 else end + share  # nothing is lost to rounding: as the command
        made[part] = _write(catalog, _select(share=(begin, end), seed=seed), path, force, s3, progress, may_be_empty=True)
    return made


@explained
def diff(old: Union[Catalog, Path], new: Union[Catalog, Path], differs: Optional[Callable[[Difference], Any]] = None, *,
         progress: Optional[Callable[[Progress], Any]] = None) -> StorageCheck:
    """Compare two catalogs: names, and sizes and ETags where both have them. differs is called with each Difference."""
    catalogs = _catalog(old), _catalog(new)
    first: builtins.list[Difference] = []

    def tell(what: int, name: bytes, was: int, now: int) -> bool:
        difference = Difference(_KINDS[what], os.fsdecode(name), None if was == SIZE_UNKNOWN else was,
                                None if now == SIZE_UNKNOWN else now)
        if len(first) < _FIRST:
            first.append(difference)
        if differs is not None:
            differs(difference)
        return differs is not None or len(first) < _FIRST

    before, after = (_shoal.list_catalog(catalog.handle, _select()) for catalog in catalogs)
    try:
        counts = _shoal.diff_lists(before, after, tell, shown(progress, "names"))
    finally:
        before.close()
        after.close()
    return StorageCheck(*counts, tuple(first))


# ---- Figures ----


class StatRow(NamedTuple):
    """A folder ("": files in none), an extension ("": none) or a file; bytes is None if sizes are not known."""

    name: str
    files: int
    bytes: Optional[int]


@dataclass(frozen=True)
class Stat:
    """Figures about a dataset. Rows are sorted, largest first, and at most 100 of each."""

    files: int
    samples: int
    bytes: Optional[int]
    nr_folders: int
    nr_extensions: int
    folders: Tuple[StatRow, ...]
    extensions: Tuple[StatRow, ...]
    largest: Tuple[StatRow, ...]
    sizes: Sequence[int]  # files of 0 bytes, then of 2**(i - 1) up to 2**i - 1
    depth: Sequence[int]  # files by the slashes in their names
    min_size: Optional[int]
    max_size: Optional[int]
    longest_name: int


def stat(source: Union[Catalog, Path], *, depth: int = 1, **options: Any) -> Stat:
    """Totals by folder (of the first `depth` parts of the path) and extension, sizes, depths and the largest files.

    Of a Catalog or its file, or of what list(source, ...) delivers for a directory or a bucket. In memory that does not grow
    with the number of files.
    """
    if not isinstance(source, Catalog) and not parse_uri(source).objects and os.path.isfile(source):
        source = Catalog(source)
    if isinstance(source, Catalog):
        handle = _shoal.list_catalog(source.handle, _select(**options))
    else:
        options.setdefault("sizes", True)
        listing = list(source, **options)
        assert listing._handle is not None
        handle = listing._handle
    try:
        sized = handle.info()[1]
        found = handle.stat(_number("depth", depth, 1))
    finally:
        handle.close()

    def rows(which: str) -> Tuple[StatRow, ...]:
        return tuple(StatRow(os.fsdecode(name), files, size if sized else None) for name, files, size in found[which])

    files, samples, size = found["totals"]
    return Stat(files, samples, size if sized else None, found["nr_folders"], found["nr_extensions"], rows("folders"),
                rows("extensions"), rows("largest"), tuple(found["sizes"]), tuple(found["depth"][: found["max_depth"] + 1]),
                found["min_size"] if sized else None, found["max_size"] if sized else None, found["longest_name"])
