"""Making catalogs."""

from __future__ import annotations

import dataclasses
import operator
import os
import stat
import threading
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple, Union, cast

from . import _shoal
from ._errors import BadValueError
from ._keywords import explained
from ._store import S3Config, as_tuple, parse_uri
from ._units import Size, size_of
from .catalog import SIZE_UNKNOWN, Catalog, Path
from .order import _choice, _number

_THREADS_MAX, _SHARDS_MAX = 1024, 65536  # as in the command

FORMATS = ("lines", "find", "gpfs", "inventory")  # "lines" is the package's own

Patterns = Union[Path, Iterable[Path]]


@dataclass(frozen=True)
class IndexProgress:
    """The progress: names so far, parts of the tree not yet begun, the name listed last, and names in all (0: not known)."""

    names: int
    pending: int
    where: str
    sealing: bool
    total: int


def callbacks(progress: Optional[Callable[[IndexProgress], Any]], warn: Optional[Callable[[str], Any]]
              ) -> Tuple[Optional[Callable[..., None]], Optional[Callable[..., None]]]:
    """The library's callbacks for the user's functions."""
    def tell(sealing: bool, names: int, pending: int, where: bytes, total: int) -> None:
        assert progress is not None
        progress(IndexProgress(names, pending, os.fsdecode(where), sealing, total))

    def tell_warning(words: bytes) -> None:
        assert warn is not None
        warn(os.fsdecode(words))

    return tell if progress else None, tell_warning if warn else None


def _options(output: Path, root: Optional[str], tmp_dir: Optional[Path], memory: Optional[Size],
             samples_per_file: Optional[int], progress: Optional[Callable[[IndexProgress], Any]],
             warn: Optional[Callable[[str], Any]], s3: Optional[S3Config], force: bool,
             samples: Optional[str] = None) -> Tuple[Any, ...]:
    return (os.fsencode(output), root, None if tmp_dir is None else os.fsdecode(tmp_dir), size_of("memory", memory or 0),
            _number("samples_per_file", samples_per_file or 0), *callbacks(progress, warn), as_tuple(s3), not force,
            _kind(samples))


def _kind(samples: Optional[str]) -> Optional[str]:
    if samples is not None and not isinstance(samples, str):
        raise TypeError('samples is "auto", or a kind such as "parquet", not %.100r' % (samples,))
    return samples


def _patterns(what: str, given: Optional[Patterns]) -> Tuple[bytes, ...]:
    """Patterns as bytes. A str is one pattern, not an iterable of its characters."""
    words = "%s must be a pattern, such as '*.jpg', or several, such as ['*.jpg', '*.png'], not %.100r"
    if given is None:
        return ()
    if isinstance(given, (str, bytes, os.PathLike)):
        given = (given,)
    try:
        several = tuple(given)
    except TypeError:
        raise TypeError(words % (what, given)) from None
    for one in several:
        if not isinstance(one, (str, bytes, os.PathLike)):
            raise TypeError(words % (what, one))
        if b"\0" in os.fsencode(one):
            raise BadValueError(22, "%s: the pattern %.100r contains a NUL byte, which names cannot have" % (what, one))
    return tuple(map(os.fsencode, several))


def _shard(shard: Optional[Tuple[int, int]]) -> Tuple[int, int]:
    """(k, n) as the library takes it: n is 0 for the whole store."""
    if shard is None:
        return 0, 0
    try:
        k, n = shard
    except (TypeError, ValueError):
        raise TypeError("shard must be (k, n), which is shard k of n, counted from 0, not %.100r" % (shard,)) from None
    k, n = _number("k of shard=(k, n)", k), _number("n of shard=(k, n)", n, 1)
    if k >= n or n > _SHARDS_MAX:
        raise BadValueError(22, "there is no shard %d of %d: shards are counted from 0, and there are at most %d"
                            % (k, n, _SHARDS_MAX))
    return k, n


def _name(name: Union[str, bytes]) -> bytes:
    """The bytes of a name. Names are separated by NUL on the way, and no file name contains one."""
    text = os.fsencode(name)
    if b"\0" in text:
        raise BadValueError(22, "the name %.100r contains a NUL byte, which file names cannot have" % (name,))
    return text


def _lines(names: Iterable[Any]) -> Iterator[bytes]:
    """Names, with sizes and numbers of samples if there are any, each ended by a NUL."""
    for item in names:
        if isinstance(item, (str, bytes)):
            yield _name(item) + b"\0"
        else:
            try:
                name, *numbers = item
            except (TypeError, ValueError):
                raise TypeError("a file is a name, (name, size) or (name, size, samples), not %.100r" % (item,)) from None
            yield b"\t".join([_name(name)] + [b"%d" % operator.index(n) for n in numbers]) + b"\0"


def _feed(lines: Iterator[bytes], fd: int, failed: List[BaseException]) -> None:
    """Write lines to a pipe; runs on a thread of its own."""
    try:
        with open(fd, "wb", closefd=True) as out:
            try:
                for line in lines:
                    out.write(line)
            except BrokenPipeError:
                raise
            except BaseException as e:  # raised by the caller's iterable, and raised again in the caller's thread
                failed.append(e)
                out.write(b"\0" + b"x" * 2 * 4096 + b"\0")  # an invalid name, so that nothing is sealed
    except BrokenPipeError:
        pass  # the reader reports the reason


def _through_pipe(lines: Iterator[bytes], options: Tuple[Any, ...],
                  make: Callable[[int, Tuple[Any, ...]], dict[str, int]]) -> dict[str, int]:
    """The catalog is sealed only if all lines arrived; an exception of the iterable is raised here."""
    reading, writing = os.pipe()
    failed: List[BaseException] = []
    feeder = threading.Thread(target=_feed, args=(lines, writing, failed), daemon=True)

    def checked(*progress: Any) -> None:
        if failed:
            raise failed[0]
        if options[5]:
            options[5](*progress)

    try:
        feeder.start()
        return make(reading, options[:5] + (checked,) + options[6:])
    finally:
        os.close(reading)
        feeder.join()
        if failed:
            raise failed[0]


@explained
def index(source: Union[Path, Iterable[Any]], output: Path, *, root: Optional[Path] = None,
          sizes: bool = True, include: Optional[Patterns] = (), exclude: Optional[Patterns] = (), follow: bool = False,
          one_file_system: bool = False, keep_going: bool = False, samples_per_file: Optional[int] = None,
          memory: Optional[Size] = None, tmp_dir: Optional[Path] = None, threads: int = 0, update: Optional[Path] = None,
          resume: bool = False, names_only: bool = False, null: bool = False, etags: bool = False,
          shard: Optional[Tuple[int, int]] = None, force: bool = False, endpoint: Optional[str] = None,
          s3: Optional[S3Config] = None, progress: Optional[Callable[[IndexProgress], Any]] = None,
          warn: Optional[Callable[[str], Any]] = None, samples: Optional[str] = None, format: str = "lines",
          columns: Optional[str] = None) -> Catalog:
    """Make the catalog `output`, a file or "s3://bucket/name", of all files below a directory, of a
    list of names, or of an iterable.

    source: a directory or file URI; a bucket or a prefix in one, "s3://bucket/prefix"; a file with
    one name per line (followed by a tab and its size, and another tab and its number of samples;
    null=True: ended by NUL bytes instead of line ends); or an iterable of names, (name, size) or
    (name, size, samples). progress is called with an IndexProgress now and then, warn with what
    keep_going left out. Ctrl-C, or an exception in either, ends the call and leaves nothing.
    Returns the open Catalog; its `made` has the counters of the listing. Memory stays below
    `memory` bytes (256 MB) for any number of names.

    format, for a file with a list: "lines", as above; "find" and "gpfs", as find -printf '%s %p\\n' and
    GPFS's mmapplypolicy write; "inventory", an S3 Inventory as CSV, or as Parquet, of one file or an
    iterable of several, if pyarrow is installed (pip install 'shoal[parquet]'). Lists may be compressed by gzip. columns: of an inventory
    as CSV, the fileSchema of its manifest.json (default "Bucket, Key, Size").

    include and exclude, for a directory or a bucket: a pattern or an iterable of patterns, of files
    to include (default: all) and of files and directories to exclude. '*' and '?' match anything
    but a slash, '**' also slashes, [a-z] one character of a set; {a,b} is not supported: use two
    patterns. A pattern without a slash is matched against the last part of a name, one with a slash
    against all of it.

    If nothing is found, or the patterns exclude everything, NotFoundError is raised and an existing
    catalog is left unchanged. A catalog with more than twice as many names as were found, and a
    file that is not a catalog, are not replaced either: Error with errno EEXIST. force=True makes
    the catalog in all these cases.

    samples="auto" opens each file once and stores where its samples lie: row groups of Parquet,
    record batches of Arrow, members of tar, records, lines; the kind is chosen by the end of a name,
    or given: samples="parquet". From then on a sample of the catalog is one of these. Sizes must be
    known. `made["nr_uncut"]` counts files that could not be divided and are one sample each.

    For a bucket, etags=True records the ETag of each object, which Loader and ShoalDataset need for
    if_match=True; `made["nr_odd_etags"]` counts the ETags that are not an MD5, which are not
    recorded. shard=(k, n) lists only part k, from 0 to n - 1, of n roughly equal ranges of keys.
    All processes compute the same ranges as long as the bucket does not change; a range may be
    empty. Each process makes a catalog of its own.

    The bucket's server and keys come from s3, a shoal.S3Config, and for values that it does not
    have from the usual AWS variables and files; endpoint is short for an S3Config with that
    endpoint. The Catalog keeps the configuration: its loaders and datasets, and their workers, use
    the same server and keys.
    """
    s3 = _with_endpoint(s3, endpoint)
    k, n = _shard(shard)
    patterns = _patterns("include", include), _patterns("exclude", exclude)
    _check_source(source, patterns, null)
    _check_bucket(source, endpoint, etags, n, {"follow": follow, "one_file_system": one_file_system,
                                               "update": update if not (samples and etags) else None})
    check_threads(threads)
    if resume and parse_uri(output).objects:
        raise BadValueError(22, "resume requires a catalog that is a file: one in a bucket is always made anew")
    root = None if root is None else os.fsdecode(root)
    options = _options(output, root, tmp_dir, memory, samples_per_file, progress, warn, s3, force, samples)
    tree = (not sizes, follow, one_file_system, keep_going, *patterns, threads,
            None if update is None else os.fsdecode(update), resume, etags, k, n)
    made = _make(source, tree, options, names_only, b"\0" if null else b"\n", _format(source, format, columns, names_only), columns)
    return _opened(output, made, s3)


def _format(source: Union[Path, Iterable[Any]], format: str, columns: Optional[str], names_only: bool) -> int:
    """The library's number of a format; -1 for lines."""
    number = _choice("format", format, FORMATS) - 1
    a_path = isinstance(source, (str, bytes, os.PathLike))
    if number >= 0 and (not _is_list(cast(Path, source)) if a_path else format != "inventory"):
        raise BadValueError(22, "format=%r applies to a file with a list" % format)
    if columns is not None and format != "inventory":
        raise BadValueError(22, 'columns applies to format="inventory"')
    if names_only and number >= 0:
        raise BadValueError(22, 'names_only applies to format="lines"')
    return number


def _is_parquet(path: Path) -> bool:
    from .parquet import MAGIC  # which imports this module

    if not os.path.isfile(path):  # reading a pipe would take what is in it
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _import(source: Union[Path, Iterable[Path]], format: int, null: bool, columns: Optional[str],
            options: Tuple[Any, ...]) -> dict[str, int]:
    """A list of another tool, or all Parquet files of an inventory."""
    paths = [source] if isinstance(source, (str, bytes, os.PathLike)) else list(source)
    if FORMATS[format + 1] == "inventory" and all(map(_is_parquet, paths)):
        from . import parquet

        rows = (row for path in paths for row in parquet.inventory_rows(path))
        return _through_pipe(parquet.csv_lines(rows), options,
                             lambda fd, options: _shoal.index_import(fd, format, False, parquet.COLUMNS, options))
    if len(paths) != 1:
        raise BadValueError(22, "several files of an inventory must all be Parquet; those of one as CSV can be joined to one file")
    with open(paths[0], "rb", buffering=0) as file:
        return _shoal.index_import(file.fileno(), format, null, columns, options)


def _make(source: Union[Path, Iterable[Any]], tree: Tuple[Any, ...], options: Tuple[Any, ...], names_only: bool,
          separator: bytes, format: int, columns: Optional[str]) -> dict[str, int]:
    if format >= 0:
        return _import(source, format, separator == b"\0", columns, options)
    if not isinstance(source, (str, bytes, os.PathLike)):
        return _through_pipe(_lines(source), options, lambda fd, options: _shoal.index_list(fd, b"\0", names_only, options))
    if _is_list(source):
        with open(source, "rb", buffering=0) as file:
            return _shoal.index_list(file.fileno(), separator, names_only, options)
    return _shoal.index_tree(os.fsencode(source), tree, options)


def _with_endpoint(s3: Optional[S3Config], endpoint: Optional[str]) -> Optional[S3Config]:
    as_tuple(s3)  # raises if it is invalid
    return s3 if endpoint is None else dataclasses.replace(s3 or S3Config(), endpoint=endpoint)


def check_threads(threads: int) -> int:
    if _number("threads", threads) > _THREADS_MAX:
        raise BadValueError(22, "threads must be at most %d, not %d" % (_THREADS_MAX, threads))
    return threads


def _check_source(source: Union[Path, Iterable[Any]], patterns: Tuple[Tuple[bytes, ...], ...], null: bool) -> None:
    a_list = isinstance(source, (str, bytes, os.PathLike)) and _is_list(source)
    for what, given in zip(("include", "exclude"), patterns):
        if given and (a_list or not isinstance(source, (str, bytes, os.PathLike))):
            raise BadValueError(22, "%s applies to a directory or a bucket, not to a list of names" % what)
    if null and not a_list:
        raise BadValueError(22, "null applies to a file of names")


def _check_bucket(source: Union[Path, Iterable[Any]], endpoint: Optional[str], etags: bool, nr_shards: int,
                  of_directories: dict[str, Any]) -> None:
    bucket = isinstance(source, (str, bytes)) and parse_uri(source).objects
    wrong = [name for name, given in of_directories.items() if given]
    if bucket and wrong:
        raise BadValueError(22, "%s applies to a directory, not to a bucket" % wrong[0])
    if etags and not bucket:
        raise BadValueError(22, "etags applies to a bucket, such as s3://bucket/prefix")
    if nr_shards and not bucket:
        raise BadValueError(22, "shard applies to a bucket, such as s3://bucket/prefix")
    if endpoint is not None and not bucket:
        raise BadValueError(22, "endpoint applies to a bucket, such as s3://bucket/prefix")


def _is_list(source: Path) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(source).st_mode)
    except OSError:
        return False  # a URI, or missing: the library raises the error


@explained
def index_pattern(pattern: Union[str, bytes], count: int, output: Path, *, first: int = 0, subfolders: int = 0,
                  size: Optional[Size] = None, root: Optional[Path] = None, samples_per_file: Optional[int] = None,
                  s3: Optional[S3Config] = None, progress: Optional[Callable[[IndexProgress], Any]] = None,
                  force: bool = False) -> Catalog:
    """Make a catalog of the names that a pattern generates, such as "img_{:07d}.jpeg", without any
    list. progress, force: see index().
    """
    root = None if root is None else os.fsdecode(root)
    options = _options(output, root, None, None, samples_per_file, progress, None, s3, force)
    made = _shoal.index_pattern(os.fsencode(pattern), _number("first", first), _number("count", count),
                                _number("subfolders", subfolders), SIZE_UNKNOWN if size is None else size_of("size", size),
                                options)
    return _opened(output, made, s3)


def _opened(output: Path, made: dict[str, int], s3: Optional[S3Config]) -> Catalog:
    catalog = Catalog(output, s3=s3)
    catalog.made = made
    return catalog
