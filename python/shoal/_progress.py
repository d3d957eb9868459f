"""What callbacks for progress are called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional


@dataclass(frozen=True)
class Progress:
    """How much is done, of how much, and of what: the fields of the command's --progress json."""

    what: str  # "names" or "lists"
    done: int
    total: Optional[int]  # None: not known


def shown(progress: Optional[Callable[[Progress], Any]], what: str) -> Optional[Callable[[int, int], Any]]:
    """The C module's callback for the user's function."""
    if progress is None:
        return None
    call = progress
    return lambda done, total: call(Progress(what, done, total or None))
