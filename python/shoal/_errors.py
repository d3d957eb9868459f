"""What can go wrong, as exceptions with words."""

import errno
import os


class Error(OSError):
    """An error of Shoal: `errno` says what kind, the text what happened, where, and what to do.

    The kinds that Python has classes for are of these too: a missing file is a
    FileNotFoundError, a bad argument a ValueError. `hint` is the name of the remedy that the text
    ends in, such as "larger_slot", or None.
    """

    hint = None

    def __str__(self):
        return self.strerror if self.strerror is not None else super().__str__()


class NotFoundError(Error, FileNotFoundError):
    """Something that should be there is not."""


class AccessError(Error, PermissionError):
    """Reading or writing is not permitted."""


class BadValueError(Error, ValueError):
    """What was asked for makes no sense."""


class DamagedError(Error):
    """A file is not what it should be: damaged, cut short, of another kind or a newer version."""


class StaleError(Error):
    """Something changed while it was in use, or belongs to another dataset."""


class WaitedTooLongError(Error, TimeoutError):
    """A read took longer than allowed."""


class TransformError(Error, RuntimeError):
    """The user's function failed on a sample, which the text names; __cause__ is what it raised."""


_CLASSES = {
    errno.ENOENT: NotFoundError,
    errno.ENOTDIR: NotFoundError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EINVAL: BadValueError,
    errno.ERANGE: BadValueError,
    errno.EBADMSG: DamagedError,
    errno.EPROTONOSUPPORT: DamagedError,
    errno.ESTALE: StaleError,
    errno.ETIMEDOUT: WaitedTooLongError,
}


# What to do about an error: for each hint of the library the functions whose keywords its words name (as `name=`),
# and the words. {} is the hint's number.
_HINTS = {
    "less_memory": (("index",), "lower memory="),
    "more_memory": (("index",), "give it memory={} or more"),
    "tmp_dir": (("index",), "free some space, or choose another directory with tmp_dir="),
    "free_space": (("index",), "free some space, and make the same call again to go on"),
    "same_call": (("index",), "make the same call again to go on"),
    "root": (("index", "index_pattern"), "give it another name with root="),
    "names_only": (("index",), "give all lines the same fields, or use names_only=True if tabs are part of the names"),
    "nul_ends": (("index", "manifest"), "give null=True if the names are to be separated by NUL bytes"),
    "sizes": (("index",), "index it again with sizes=True"),
    "etags": (("index",), "index the bucket again with etags=True"),
    "where": (("Catalog.verify",), "say what to compare it with: where="),
    "keep_going": (("index",), "leave it out with keep_going=True"),
    "samples_per_file": (("index", "index_pattern"), "index it again with another samples_per_file="),
    "sort_column": ((), "sort it first with Column.sort()"),
    "replace": (("index", "index_pattern", "manifest"), "write it all the same with force=True"),
    "slot": (("Loader",), "say how large a sample may be with slot="),
    "larger_slot": (("Loader",), "give it slot={} or more"),
    "if_match": (("Loader", "torch.ShoalDataset"), "leave out if_match="),
    "endpoint": (("index",), "if that server is to be trusted, name it with endpoint= or in AWS_ENDPOINT_URL_S3"),
    "ca": ((), "AWS_CA_BUNDLE names a file of certificates to trust"),
    "anonymous": ((), "for a public bucket, set SHOAL_S3_ANONYMOUS=1"),
    "force": ((), "choose another directory"),
    "complete": ((), "complete them, or choose another directory"),
    "generate": ((), "generate the rest of the dataset"),
    "resume": ((), "or continue that run"),
    "same_run": ((), "resume it with what it had, or start another"),
    "launcher": ((), "use srun --mpi=pmix for Open MPI or --mpi=pmi2 for MPICH, or set SHOAL_MPI=none to run each process alone"),
}


def error(number, words, hint=None, value=0):
    """The exception for an error number, words of the library, which are bytes, and the hint's name and number."""
    text = os.fsdecode(words) or os.strerror(number)
    if hint in _HINTS:
        text += "; " + _HINTS[hint][1].format(value)
    if number == errno.ENOMEM:
        made = MemoryError(text)
    else:
        made = _CLASSES.get(number, Error)(number, text)
    made.hint = hint
    return made
