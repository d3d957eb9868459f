"""Ranks that only a file system connects wait for each other.

A file that is there may be of an earlier start, killed or not, and looks the same. So every rank brings a word that nobody
had before, and believes only what answers that word. Rank r writes its word to PATH.meet-r; rank 0 puts it with its own
into PATH.meet-r.answer; rank r writes both to PATH.meet-r, which proves to rank 0 that it is alive; and once all have done
so, rank 0 writes its word to PATH.meet-0. Each rank removes its files as it leaves, rank 0 last.
"""

import os
import secrets
import time

from ._errors import NotFoundError


def publish(path: str, text: str) -> None:
    """A small file, whole under its name or not there at all."""
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
    except OSError:  # not there yet or, on NFS, just replaced
        return []


class _Patience:
    """Sleeps a little longer each time, and raises when it is over."""

    def __init__(self, timeout):
        self._timeout, self._until, self._sleep = timeout, time.monotonic() + timeout, 0.01

    def wait_for(self, rank, path):
        if time.monotonic() > self._until:
            raise NotFoundError(2, "waited %g s for rank %d to come to '%s': is it still running?" % (
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
    missing = dict.fromkeys(range(1, world_size))  # rank: the word that was answered. Some 100 bytes a rank
    came = {}  # rank: the word with which it did
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
            while os.path.exists(own) and _words(own)[:1] in ([], [theirs]):  # another word: it has been here, and calls again
                patience.wait_for(rank, path)
    finally:
        remove(path + ".meet-0")


def meet(path: str, rank: int, world_size: int, timeout: float) -> None:
    """Nobody returns before all ranks have called this. NotFoundError after ``timeout`` seconds."""
    patience = _Patience(timeout)
    if rank == 0:
        _call(path, world_size, patience)
    else:
        _come(path, rank, patience)
