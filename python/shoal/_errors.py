"""What can go wrong, as exceptions with words."""

import errno
import os
import re


class Error(OSError):
    """An error of Shoal: `errno` says what kind, the text what happened, where, and what to do.

    The kinds that Python has classes for are of these too: a missing file is a
    FileNotFoundError, a bad argument a ValueError.
    """

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


# What the library calls by the options of the command, and what that is in Python.
_IN_PYTHON = {"--anonymous": "SHOAL_S3_ANONYMOUS=1", "--ca FILE": "AWS_CA_BUNDLE", "--count": "count", "--endpoint": "endpoint",
              "--etags": "etags=True", "--follow": "follow", "--if-match": "if_match", "--memory": "memory",
              "--names-only": "names_only=True", "--root": "root", "--slot": "slot", "--subfolders": "subfolders",
              "--update": "update"}
_OPTION = re.compile("(?<=[ (])(%s)(?=[ ,.:;)]|$)" % "|".join(_IN_PYTHON))


def error(number, words):
    """The exception for an error number and words of the library, which are bytes."""
    text = _OPTION.sub(lambda found: _IN_PYTHON[found[0]], os.fsdecode(words)) or os.strerror(number)
    if number == errno.ENOMEM:
        return MemoryError(text)
    return _CLASSES.get(number, Error)(number, text)
