"""Detect the caller: what other libraries put between a sampler or an iterable and its data loader.

Accelerate wraps a given batch sampler in one that passes on every n-th batch, without informing the
wrapped sampler. A sampler that knows its own rank would then be divided twice, and most of the
epoch would never be read. The wrapper is visible only in the call stack: it is examined when an
iteration begins and when a length is requested, which takes microseconds. Cases that this misses
are detected afterwards: see watch.py.
"""

import sys
from types import FrameType
from typing import Any, Dict, Iterator, Optional

_DEPTH = 40


def _frames() -> Iterator[FrameType]:
    """The frames above the calling function, from the innermost outwards."""
    frame: Optional[FrameType] = sys._getframe(3)
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def accelerate_callers() -> Dict[str, Any]:
    """Accelerate's objects in the current call stack, by the names of their classes."""
    found: Dict[str, Any] = {}
    if "accelerate.data_loader" in sys.modules:
        for frame in _frames():
            if frame.f_globals.get("__name__") == "accelerate.data_loader":
                one = frame.f_locals.get("self")
                found.setdefault(type(one).__name__, one)  # its __class__ is that of the wrapped loader
    return found


def divides_batches(found: Dict[str, Any]) -> bool:
    """Whether one of them divides its input among the ranks."""
    return any(name in found for name in ("BatchSamplerShard", "IterableDatasetShard", "DataLoaderDispatcher"))


def called_by_lightning() -> bool:
    """Whether Lightning is restoring a checkpoint in the current call stack."""
    return any(frame.f_globals.get("__name__", "").split(".")[0] in ("lightning", "pytorch_lightning") for frame in _frames())


def batched_again() -> bool:
    """Whether torch's DataLoader is about to batch the output of an iterable."""
    for frame in _frames():
        if frame.f_globals.get("__name__") == "torch.utils.data._utils.fetch":
            return bool(getattr(frame.f_locals.get("self"), "auto_collation", False))
    return False
