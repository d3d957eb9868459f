"""Which files of a tree are read, in order, by whoever it is. inotify also sees what io_uring does, which strace does not; and unlike
opens, reads do not count those who only look whether a file is in the page cache."""
import ctypes
import os
import select
import struct
import threading

_IN_ACCESS, _IN_OPEN, _IN_ISDIR, _IN_Q_OVERFLOW = 0x1, 0x20, 0x40000000, 0x4000


class Reads:
    """with Reads(folder) as reads: ...; then reads.names has a name for each read of a file. Small files take one. Or for each open."""

    def __init__(self, folder, opens=False):
        self.names = []
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watches, self._ended = {}, threading.Event()
        for path, _, _ in os.walk(folder):
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_OPEN if opens else _IN_ACCESS)
            if watch < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", path)
            self._watches[watch] = path
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self):
        while select.select([self._fd], [], [], 0.05)[0] or not self._ended.is_set():
            try:
                data = os.read(self._fd, 1 << 20)
            except BlockingIOError:
                continue
            while data:
                watch, mask, _, length = struct.unpack_from("iIII", data)
                name, data = data[16:16 + length].rstrip(b"\0"), data[16 + length:]
                assert not mask & _IN_Q_OVERFLOW, "more was read than could be counted"
                if not mask & _IN_ISDIR:
                    self.names.append(os.path.join(self._watches[watch], os.fsdecode(name)))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        os.close(self._fd)
