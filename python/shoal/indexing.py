"""Making catalogs."""

from __future__ import annotations

import contextlib
import operator
import os
import shutil
import stat
import tempfile
import threading
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional, Union

from . import _shoal
from ._errors import BadValueError, Error
from .catalog import SIZE_UNKNOWN, Catalog
from .order import _number

_THREADS_MAX = 1024  # as the command has it


@dataclass(frozen=True)
class IndexProgress:
    """How far it is: names so far, parts of the tree that nobody has begun, and the name listed last."""

    names: int
    pending: int
    where: str
    sealing: bool


def _options(output, root, tmp_dir, memory, samples_per_file, progress, warn):
    def tell(sealing, names, pending, where):
        progress(IndexProgress(names, pending, os.fsdecode(where), sealing))

    def tell_warning(words):
        warn(os.fsdecode(words))

    return (os.fsencode(output), root, None if tmp_dir is None else os.fsdecode(tmp_dir), _number("memory", memory or 0),
            _number("samples_per_file", samples_per_file or 0),
            tell if progress else None, tell_warning if warn else None)


def _name(name):
    """The bytes of a name; NUL is what separates names on the way, and no file has it in its name."""
    text = os.fsencode(name)
    if b"\0" in text:
        raise BadValueError(22, "the name %.100r has a NUL byte in it, which no file name can have" % (name,))
    return text


def _feed(names, fd, failed):
    """Write names, and sizes where they come, into a pipe; by a thread of its own."""
    try:
        with open(fd, "wb", closefd=True) as out:
            try:
                for item in names:
                    if isinstance(item, (str, bytes)):
                        out.write(_name(item) + b"\0")
                    else:
                        name, *numbers = item
                        out.write(b"\t".join([_name(name)] + [b"%d" % operator.index(n) for n in numbers]) + b"\0")
            except BrokenPipeError:
                raise
            except BaseException as e:  # the caller's iterable: raised again over there
                failed.append(e)
                out.write(b"\0" + b"x" * 2 * 4096 + b"\0")  # no name: so that nothing is sealed
    except BrokenPipeError:
        pass  # the reader has said why


def _index_names(names, options, names_only):
    """A catalog is sealed only when all names were there: what the iterable raises is raised here."""
    reading, writing = os.pipe()
    failed = []
    feeder = threading.Thread(target=_feed, args=(names, writing, failed), daemon=True)

    def checked(*progress):
        if failed:
            raise failed[0]
        if options[5]:
            options[5](*progress)

    try:
        feeder.start()
        return _shoal.index_list(reading, b"\0", names_only, options[:5] + (checked, options[6]))
    finally:
        os.close(reading)
        feeder.join()
        if failed:
            raise failed[0]


@contextlib.contextmanager
def _staged(output, tmp_dir):
    """Where to make the catalog: for a bucket in a file first, which is sent when it is sealed."""
    uri = os.fsdecode(output)
    if not uri.startswith("s3://"):
        yield output
        return
    folder = tempfile.mkdtemp(prefix="shoal-index-", dir=None if tmp_dir is None else os.fsdecode(tmp_dir))
    try:
        path = os.path.join(folder, "catalog")
        yield path
        try:
            _shoal.put_file(os.fsencode(path), os.fsencode(uri))
        except Error as e:
            raise type(e)(e.errno, "cannot write the catalog to %s: %s" % (uri, e)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def index(source: Union[str, os.PathLike, Iterable[Any]], output: Union[str, os.PathLike], *, root: Any = None,
          sizes: bool = True, include: Iterable[str] = (), exclude: Iterable[str] = (), follow: bool = False,
          one_file_system: bool = False, keep_going: bool = False, samples_per_file: Optional[int] = None,
          memory: Optional[int] = None, tmp_dir: Any = None, threads: int = 0, update: Any = None, resume: bool = False,
          names_only: bool = False, etags: bool = False, endpoint: Optional[str] = None, progress: Optional[Callable[[IndexProgress], Any]] = None,
          warn: Optional[Callable[[str], Any]] = None) -> Catalog:
    """Make the catalog `output`, a file or "s3://bucket/name", of all files below a directory, of a list of names, or of an
    iterable.

    source: a directory or file URI; a bucket or a prefix in one, "s3://bucket/prefix"; a file with a name on each line (after a tab its size, after another its
    number of samples); or an iterable of names, or of (name, size) or (name, size, samples). progress is
    called with an IndexProgress now and then, warn with what was left out under keep_going. Ctrl-C, or an
    exception in either, ends it and leaves nothing behind. Returns the open Catalog; its `made` says what
    was met on the way. Memory stays below `memory` bytes (256 MB) at any number of names.

    Of a bucket, etags=True keeps the ETag of each object, which Loader and ShoalDataset need for if_match=True; `made["nr_odd_etags"]` counts those that
    are no MD5, which are not kept.

    The usual AWS variables and files say where a bucket is and whose keys are used. endpoint, the server's URL, is put into
    AWS_ENDPOINT_URL_S3 of this process, so that what reads the catalog later, and its workers, ask the same server.
    """
    _check_bucket(source, endpoint, etags, {"follow": follow, "one_file_system": one_file_system, "update": update})
    if _number("threads", threads) > _THREADS_MAX:
        raise BadValueError(22, "threads must be at most %d, not %d" % (_THREADS_MAX, threads))
    if resume and os.fsdecode(output).startswith("s3://"):
        raise BadValueError(22, "resume is for a catalog that is a file: one for a bucket is made anew")
    root = None if root is None else os.fsdecode(root)
    with _staged(output, tmp_dir) as path:
        options = _options(path, root, tmp_dir, memory, samples_per_file, progress, warn)
        tree = (not sizes, follow, one_file_system, keep_going, tuple(map(os.fsencode, include)),
                tuple(map(os.fsencode, exclude)), threads, None if update is None else os.fsdecode(update), resume, etags)
        made = _make(source, tree, options, names_only)
    return _opened(output, made)


def _make(source, tree, options, names_only):
    if not isinstance(source, (str, bytes, os.PathLike)):
        return _index_names(source, options, names_only)
    if _is_list(source):
        with open(source, "rb", buffering=0) as file:
            return _shoal.index_list(file.fileno(), b"\n", names_only, options)
    return _shoal.index_tree(os.fsencode(source), tree, options)


def _check_bucket(source, endpoint, etags, of_directories):
    bucket = isinstance(source, (str, bytes)) and os.fsdecode(source).startswith("s3://")
    wrong = [name for name, given in of_directories.items() if given]
    if bucket and wrong:
        raise BadValueError(22, "%s is for a directory, not for a bucket" % wrong[0])
    if etags and not bucket:
        raise BadValueError(22, "etags is for a bucket, as s3://bucket/prefix")
    if endpoint is not None and not bucket:
        raise BadValueError(22, "endpoint is for a bucket, as s3://bucket/prefix")
    if endpoint is not None:
        os.environ["AWS_ENDPOINT_URL_S3"] = endpoint


def _is_list(source):
    try:
        return not stat.S_ISDIR(os.stat(source).st_mode)
    except OSError:
        return False  # a URI, or nothing: the library says which


def index_pattern(pattern: str, count: int, output: Union[str, os.PathLike], *, first: int = 0, subfolders: int = 0,
                  size: Optional[int] = None, root: Any = None, samples_per_file: Optional[int] = None) -> Catalog:
    """Make a catalog of the names that a pattern makes, such as "img_{:07d}.jpeg", without any list."""
    root = None if root is None else os.fsdecode(root)
    with _staged(output, None) as path:
        options = _options(path, root, None, None, samples_per_file, None, None)
        made = _shoal.index_pattern(os.fsencode(pattern), _number("first", first), _number("count", count),
                                    _number("subfolders", subfolders), SIZE_UNKNOWN if size is None else _number("size", size),
                                    options)
    return _opened(output, made)


def _opened(output, made):
    catalog = Catalog(output)
    catalog.made = made
    return catalog
