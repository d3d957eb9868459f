"""Let ranks that share only a file system wait for each other.

An existing file may be left over from an earlier start, killed or not, and looks the same. So every
rank chooses a unique token, and trusts only files that contain it. Rank r writes its token to
PATH.meet-r. Rank 0 writes that token and its own to PATH.meet-r.answer. Rank r writes both to
PATH.meet-r, which proves to rank 0 that it is alive. Once all ranks have done so, rank 0 writes its
token to PATH.meet-0. Each rank removes its files when it leaves, rank 0 last.
"""

import os
import secrets
import time

from ._errors import NotFoundError


def publish(path: str, text: str) -> None:
    """Write a small file that appears completely or not at all."""
    partial = "%s.%s.partial" % (path, secrets.token_hex(4))
    try:
        with open(partial, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(partial, path)
    except BaseException:
        remove(partial)
        raise


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _words(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split()
    except OSError:  # missing or, on NFS, just replaced
        return []


class _Backoff:
    """Sleeps a little longer each time, and raises after the timeout."""

    def __init__(self, timeout):
        self._timeout, self._until, self._sleep = timeout, time.monotonic() + timeout, 0.01

    def wait_for(self, rank, path):
        if time.monotonic() > self._until:
            raise NotFoundError(2, "waited %g s for rank %d at '%s': is it still running?" % (
                self._timeout, rank, path))
        time.sleep(self._sleep)
        self._sleep = min(2 * self._sleep, 0.5)


def _come(path, rank, patience):
    own, word = "%s.meet-%d" % (path, rank), secrets.token_hex(8)
    call = None
    publish(own, word)
    try:
        while call is None or _words(path + ".meet-0") != [call]:
            answer = _words(own + ".answer")
            if len(answer) == 2 and answer[0] == word and answer[1] != call:
                call = answer[1]
                publish(own, word + " " + call)
            patience.wait_for(0, path)
    finally:
        remove(own)
        remove(own + ".answer")


def _call(path, world_size, patience):
    word = secrets.token_hex(8)
    missing = dict.fromkeys(range(1, world_size))  # rank: the token that was answered. About 100 bytes per rank
    came = {}  # rank: the token that it confirmed
    try:
        while missing:
            for rank, answered in list(missing.items()):
                own = "%s.meet-%d" % (path, rank)
                said = _words(own)
                if said[1:] == [word]:
                    del missing[rank]
                    came[rank] = said[0]
                elif said and said[0] != answered:
                    publish(own + ".answer", said[0] + " " + word)
                    missing[rank] = said[0]
            if missing:
                patience.wait_for(min(missing), path)
        publish(path + ".meet-0", word)
        for rank, theirs in came.items():
            own = "%s.meet-%d" % (path, rank)
            # Another token: that rank has left, and calls again.
            while os.path.exists(own) and _words(own)[:1] in ([], [theirs]):
                patience.wait_for(rank, path)
    finally:
        remove(path + ".meet-0")


def meet(path: str, rank: int, world_size: int, timeout: float) -> None:
    """Return once all ranks have called this. NotFoundError after ``timeout`` seconds."""
    patience = _Backoff(timeout)
    if rank == 0:
        _call(path, world_size, patience)
    else:
        _come(path, rank, patience)
