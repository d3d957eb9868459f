"""Shoal's exceptions, and the messages for the library's hints."""

import errno
import os


class Error(OSError):
    """An error of Shoal: `errno` has its kind; the message has what failed, on what, and what to
    do.

    Errors for which Python has a class are instances of it, too: a missing file raises a
    FileNotFoundError, an invalid argument a ValueError. `hint` is the name of the remedy at the end
    of the message, such as "larger_slot", or None.
    """

    hint = None

    def __str__(self):
        return self.strerror if self.strerror is not None else super().__str__()


class NotFoundError(Error, FileNotFoundError):
    """Something that should exist does not."""


class AccessError(Error, PermissionError):
    """Reading or writing is not permitted."""


class BadValueError(Error, ValueError):
    """An argument is invalid."""


class DamagedError(Error):
    """A file is damaged, truncated, of another kind or of a newer version."""


class StaleError(Error):
    """Something changed while it was in use, or belongs to another dataset."""


class WaitedTooLongError(Error, TimeoutError):
    """An operation took longer than allowed."""


class TransformError(Error, RuntimeError):
    """The user's function failed on a sample, which the message names; __cause__ is the exception.
    """


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


# The remedy per hint of the library: the functions that have the keyword arguments which it names
# (as `name=`), and the text. {} is the hint's number.
_HINTS = {
    "less_memory": (("index",), "lower memory="),
    "more_memory": (("index",), "use memory={} or more"),
    "tmp_dir": (("index",), "free some space, or choose another directory with tmp_dir="),
    "free_space": (("index",), "free some space, and make the same call again to continue"),
    "same_call": (("index",), "make the same call again to continue"),
    "root": (("index", "index_pattern"), "set another name with root="),
    "names_only": (("index",), "give all lines the same fields, or use names_only=True if tabs are part of the names"),
    "nul_ends": (("index", "manifest"), "use null=True to separate names by NUL bytes"),
    "sizes": (("index",), "index it again with sizes=True"),
    "etags": (("index",), "index the bucket again with etags=True"),
    "where": (("Catalog.verify",), "choose what to compare it with: data="),
    "keep_going": (("index",), "leave it out with keep_going=True"),
    "samples_per_file": (("index", "index_pattern"), "index it again with another samples_per_file="),
    "sort_column": ((), "sort it first with Column.sort()"),
    "replace": (("filter", "index", "index_pattern", "manifest", "merge", "split"), "write it all the same with force=True"),
    "repeated": (("merge",), 'take the last one with repeated="last"'),
    "slot": (("Loader",), "set the largest size of a sample with slot="),
    "larger_slot": (("Loader",), "use slot={} or more"),
    "if_match": (("Loader", "torch.ShoalDataset"), "leave out if_match="),
    "endpoint": (("index",), "if that server is to be trusted, name it with endpoint= or in AWS_ENDPOINT_URL_S3"),
    "ca": ((), "AWS_CA_BUNDLE names a file of certificates to trust"),
    "anonymous": ((), "for a public bucket, set SHOAL_S3_ANONYMOUS=1"),
    "force": ((), "choose another directory"),
    "complete": ((), "complete them, or choose another directory"),
    "generate": ((), "generate the rest of the dataset"),
    "resume": ((), "or continue that run"),
    "same_run": ((), "resume it with its own settings, or start another"),
    "launcher": ((), "use srun --mpi=pmix for Open MPI or --mpi=pmi2 for MPICH, or set SHOAL_MPI=none to run each process alone"),
}


def error(number, words, hint=None, value=0):
    """The exception for an error number, the library's message (bytes), and the hint's name and
    number.
    """
    text = os.fsdecode(words) or os.strerror(number)
    if hint in _HINTS:
        text += "; " + _HINTS[hint][1].format(value)
    if number == errno.ENOMEM:
        made = MemoryError(text)
    else:
        made = _CLASSES.get(number, Error)(number, text)
    made.hint = hint
    return made
