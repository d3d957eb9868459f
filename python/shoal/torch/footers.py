"""Footers of files, kept in a file that all workers share, so that each is read once."""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
import threading
import weakref
import zlib
from typing import Any, Callable, Optional

from .._errors import StaleError

_MAGIC = b"SHOALFT2"
_HEAD = struct.Struct("<8s32s")
_PLACE = struct.Struct("<QQ")  # offset and length; zeros: not kept yet


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        try:
            os.unlink(path)
        except OSError:
            pass


class Footers:
    """Some bytes for each of `nr` files, read by one process and used by all.

    A temporary file, removed with its owner, or with a path one that stays, for all ranks and later
    runs of the same catalog (`token`). It has a place per file, of which only those in use take
    room, and compressed bytes. What cannot be kept is only read again.
    """

    def __init__(self, nr: int, token: str, path: Optional[str] = None) -> None:
        self._nr, self._token = nr, token.encode()
        self._fd: Optional[int] = None
        self._pid = 0
        self._lock = threading.Lock()
        if path is None:
            fd, self.path = tempfile.mkstemp(prefix="shoal-footers-")
            os.close(fd)
            weakref.finalize(self, _remove, self.path, os.getpid())
        else:
            self.path = os.path.abspath(path)
        self._open(os.O_CREAT if path is not None else 0)

    def _open(self, more: int = 0) -> None:
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | more, 0o600)
        self._pid = os.getpid()
        fcntl.lockf(self._fd, fcntl.LOCK_EX, _HEAD.size, 0)
        try:
            head = os.pread(self._fd, _HEAD.size, 0)
            if not head:
                os.ftruncate(self._fd, _HEAD.size + self._nr * _PLACE.size)
                os.pwrite(self._fd, _HEAD.pack(_MAGIC, self._token), 0)
            elif head != _HEAD.pack(_MAGIC, self._token):
                os.close(self._fd)
                self._fd = None
                raise StaleError(116, "'%s' does not have the footers of this catalog: remove it, or give another path" % self.path)
        finally:
            if self._fd is not None:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, _HEAD.size, 0)

    def _file(self) -> Optional[int]:
        """A descriptor of this process: after a fork, one that locks for itself."""
        if self._pid != os.getpid():
            self._fd, self._pid, self._lock = None, os.getpid(), threading.Lock()
            try:
                self._open()
            except OSError:  # it was removed, or this is another machine
                pass
        return self._fd

    def get(self, file: int, read: Callable[[], bytes]) -> bytes:
        """The footer of a file, which read() returns if no process has kept it yet."""
        with self._lock:
            fd = self._file()
            place = _HEAD.size + file * _PLACE.size
            found = None if fd is None else self._kept(fd, place)
            if fd is None or found is not None:
                return read() if found is None else found
            fcntl.lockf(fd, fcntl.LOCK_EX, _PLACE.size, place)  # another process may be reading it
            try:
                found = self._kept(fd, place)
                if found is None:
                    found = read()
                    self._keep(fd, place, zlib.compress(found, 1))
                return found
            finally:
                fcntl.lockf(fd, fcntl.LOCK_UN, _PLACE.size, place)

    @staticmethod
    def _kept(fd: int, place: int) -> Optional[bytes]:
        offset, length = _PLACE.unpack(os.pread(fd, _PLACE.size, place))
        try:
            return zlib.decompress(os.pread(fd, length, offset)) if length else None
        except zlib.error:
            return None

    @staticmethod
    def _keep(fd: int, place: int, data: bytes) -> None:
        fcntl.lockf(fd, fcntl.LOCK_EX, _HEAD.size, 0)
        try:
            end = os.fstat(fd).st_size
            if os.pwrite(fd, data, end) == len(data):
                os.pwrite(fd, _PLACE.pack(end, len(data)), place)
        except OSError:  # no space
            pass
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN, _HEAD.size, 0)

    def __getstate__(self) -> Any:
        return self.path, self._nr, self._token

    def __setstate__(self, state: Any) -> None:
        self.path, self._nr, self._token = state
        self._fd, self._pid, self._lock = None, 0, threading.Lock()
