"""The last line of defence: detect epochs that other code has divided wrongly, and raise a
RuntimeWarning with the numbers.

Three checks, each with a few numbers of memory for any number of samples:

- In each rank, the number of samples that its sampler yielded is compared with the number that its
  dataset read. Fewer means that something between them skips samples. Workers count in shared
  memory. Samples that they have not read when the sampler ends are read by the time its next
  iteration begins, so the two are compared then.
- In each process, whether a dataset is read for which a sampler was created that was never used: a
  framework has replaced it.
- Between ranks, whether all have finished the same epoch of the same order, each with a rank of its
  own. Then, and only then, was every sample read once, because each rank's share follows from
  these. Ranks reach the end of an epoch at different times, and some never do, so no collective
  operation is used: it could wait for ever, or interfere with one of the training loop. Each rank
  adds its numbers to counters in the store of torch.distributed, which answers at once, and the
  last rank finds them complete and compares them. If a rank is missing, nothing is compared.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import multiprocessing.context
import os
import warnings
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed
from torch.utils.data import get_worker_info

_GIVEN, _MAIN, _WORKERS = 0, 1, 2  # rows: whether a sampler was used; the process itself; its workers
_ROWS = _WORKERS + 256
_UNASKED_MIN, _UNASKED_MAX = 8, 1000  # samples that may be read without one, for inspection
_TOLD_MAX = 8  # ranks that a warning names

_ordinals: Dict[str, int] = {}


def _attached(rows: torch.Tensor, unasked: int) -> Reads:
    reads = Reads.__new__(Reads)
    reads._rows, reads._unasked, reads._here = rows, unasked, None
    return reads


class Reads:
    """The number of samples read from a dataset, in this process and in its workers."""

    _here: Optional[Tuple[int, Any, int]]

    def __init__(self, share: int) -> None:
        self._rows = torch.zeros(_ROWS, dtype=torch.int64).share_memory_()
        self._unasked = max(_UNASKED_MIN, min(share, _UNASKED_MAX))
        self._here = None

    def note(self, nr: int) -> None:
        """Called in the process that reads."""
        if self._here is None or self._here[0] != os.getpid():
            info = get_worker_info()
            row = _MAIN if info is None else _WORKERS + info.id % (_ROWS - _WORKERS)
            self._here = (os.getpid(), self._rows.numpy(), row)
        _, rows, row = self._here
        rows[row] += nr
        if not rows[_GIVEN] and rows[row] >= self._unasked:
            rows[_GIVEN] = 1  # one warning is enough
            warnings.warn("%d samples were read, but none in the order of the sampler that was made for this dataset. If a "
                          "framework has replaced it (Ray Train does that in torch's DataLoader over a batch sampler), use "
                          "shoal.torch.DataLoader, which it leaves unchanged. See docs/frameworks.md" % rows[row],
                          RuntimeWarning, stacklevel=4)

    def asked(self) -> None:
        """A sampler is the source of the current reads."""
        self._rows[_GIVEN] = 1

    def total(self) -> int:
        return int(self._rows[_MAIN:].sum())

    def __reduce__(self) -> Tuple[Any, ...]:
        """Started workers share the counters; a pickle for anything else has none."""
        if multiprocessing.context.get_spawning_popen() is None:
            return type(None), ()
        return _attached, (self._rows, self._unasked)


def watch_reads(dataset: Any, world_size: int) -> Optional[Reads]:
    """Start counting the dataset's reads; None if it is not a ShoalDataset."""
    if not hasattr(dataset, "_reads"):
        return None
    if dataset._reads is None:
        try:
            dataset._reads = Reads(-(-len(dataset) // world_size))
        except (OSError, RuntimeError):  # no shared memory is available: continue without
            return None
    reads: Optional[Reads] = dataset._reads
    return reads


def compare_reads(epoch: int, given: int, read: int, rank: int, world_size: int) -> None:
    """0 is not reported: a dataset in between may keep all samples in memory."""
    if 0 < read < given:
        warnings.warn("epoch %d on rank %d of %d: the sampler yielded %d samples, but the dataset read %d. Something "
                      "between them skipped %d (a second division among ranks?), or keeps samples itself (a cache), or the "
                      "loop was left early; the last two are harmless. See docs/frameworks.md" % (epoch, rank, world_size, given, read, given - read),
                      RuntimeWarning, stacklevel=4)


def _store(world_size: int) -> Any:
    """The store that connects as many ranks, if there is one and this is a rank's own process."""
    if world_size < 2 or get_worker_info() is not None or not torch.distributed.is_available():
        return None
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() != world_size:
        return None
    try:
        return torch.distributed.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        return None


class Ranks:
    """Compares what the ranks' samplers, or iterables, report at the end of each epoch."""

    def __init__(self, kind: str) -> None:
        self._kind = kind  # equal on all ranks, whatever else differs
        self._base: Optional[str] = None
        self._epochs = 0

    def finished(self, order: Any, rank: int, world_size: int, batch_size: Optional[int]) -> None:
        """This rank has finished an epoch of the order. Does not wait for other ranks."""
        store = _store(world_size)
        if store is None:
            return
        facts = dict(order.state_dict(0), batch_size=batch_size, rank=rank)
        try:
            said = self._compare(store, facts, world_size)
        # Of the store, whose rank may be gone: there is nothing to compare with, and training
        # continues.
        except Exception:
            return
        if said:
            warnings.warn("the %d ranks did not read the same epoch, each its own share, so some samples were read twice and "
                          "others never: %s. Give all ranks the same dataset, seed, batch size and set_epoch(), and each its own "
                          "rank" % (world_size, "; ".join(said)), RuntimeWarning, stacklevel=4)

    def _compare(self, store: Any, facts: Dict[str, Any], world_size: int) -> Optional[List[str]]:
        """The ranks' epochs as text, if they do not match; None if they do, or if ranks are
        missing.
        """
        if self._base is None:  # the first one to finish is the same on all ranks, whatever else they have created
            kind = "shoal/%s/%d" % (self._kind, world_size)
            _ordinals[kind] = _ordinals.get(kind, -1) + 1
            self._base = "%s/%d" % (kind, _ordinals[kind])
        rank, mine = facts.pop("rank"), json.dumps(facts, sort_keys=True, default=str)
        mark = int.from_bytes(hashlib.blake2b(mine.encode(), digest_size=5).digest(), "big")
        place = torch.distributed.get_rank()
        here = "%s/%d/" % (self._base, self._epochs)
        counters = [here + name for name in ("marks", "ranks", "squares", "count")]
        if self._epochs > 1:  # no rank is two epochs behind
            store.delete_key("%s/%d/%d" % (self._base, self._epochs - 2, place))
        self._epochs += 1
        store.set(here + str(place), json.dumps([rank, facts["epoch"], facts["seed"], facts["consumed"]]))
        for key, nr in zip(counters, (mark, rank, rank * rank)):
            store.add(key, nr)
        if store.add(counters[3], 1) != world_size:  # its last addition: the last rank sees all others'
            return None
        n = world_size
        if [store.add(key, 0) for key in counters[:3]] != [n * mark, n * (n - 1) // 2, n * (n - 1) * (2 * n - 1) // 6]:
            return self._words(store, here, world_size)
        for key in counters:
            store.delete_key(key)
        return None

    def _words(self, store: Any, here: str, world_size: int) -> List[str]:
        said = []
        for place in range(min(world_size, _TOLD_MAX)):
            # It exists; get() alone might wait for long.
            store.wait([here + str(place)], datetime.timedelta(seconds=1))
            rank, epoch, seed, consumed = json.loads(store.get(here + str(place)))
            said.append("process %d read rank %d's share of epoch %d, seed %d, from sample %d on"
                        % (place, rank, epoch, seed, consumed))
        return said + ["..."] * (world_size > _TOLD_MAX)
