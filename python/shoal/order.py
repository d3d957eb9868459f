"""Orders: which sample comes when, as a function instead of a list."""

from __future__ import annotations

import hashlib
import operator
import os
import struct
from typing import Any, Iterator, Optional, Sequence, Tuple, Union, overload

import numpy
import numpy.typing

from . import _shoal
from ._errors import BadValueError
from ._keywords import explained
from .catalog import Catalog

MODES = ("sequential", "global", "files", "window", "local")
REMAINDERS = ("drop", "pad", "keep")
STATE_VERSION = 1
BATCH = 32  # samples per rank and step, unless others are wanted: as in the command

# Number of ids computed at a time while iterating.
_BLOCK = 4096

Ids = numpy.typing.NDArray[numpy.int64]


def _choice(what: str, word: str, words: Sequence[str]) -> int:
    if word not in words:
        raise BadValueError(22, "%s must be one of %s, not %r" % (what, ", ".join(words), word))
    return words.index(word)


def _number(what: str, value: Any, least: int = 0, bits: int = 64) -> int:
    try:
        number: int = operator.index(value)
    except TypeError:
        raise TypeError("%s must be a whole number, not %r" % (what, value)) from None
    if not least <= number < 2**bits:
        raise BadValueError(22, "%s must be at least %d and below 2**%d, not %d" % (what, least, bits, number))
    return number


def ids_of(numbers: Any) -> Ids:
    """A copy of these integers as an array of int64. NumPy alone would truncate 1.5 to 1."""
    given = numpy.atleast_1d(numpy.asarray(numbers))
    if given.size and (given.dtype.kind not in "iu" or given.dtype.kind == "u" and given.max() >= 2**63):
        raise TypeError("whole numbers below 2**63 are needed, not %.100r" % (numbers,))
    return numpy.array(given, dtype=numpy.int64)


def sample_seed(seed: int, epoch: int, sample: int) -> int:
    """A 64-bit seed for the random numbers of one sample in one epoch: the same on all ranks, in
    all workers, and after a resume.

    It is the BLAKE2b hash, 8 bytes, of the three arguments as little-endian 64-bit numbers, read as
    a little-endian number: neighbours are unrelated, even in generators that use a seed without
    hashing it. For NumPy: numpy.random.default_rng(sample_seed(...)).
    """
    words = _number("seed", seed), _number("epoch", epoch), _number("sample", sample)
    return int.from_bytes(hashlib.blake2b(struct.pack("<3Q", *words), digest_size=8).digest(), "little")


def opened(dataset: Any) -> Any:
    """The catalog at a path; anything else is returned as it is."""
    return Catalog(dataset) if isinstance(dataset, (str, bytes, os.PathLike)) else dataset


def dataset_facts(dataset: Any) -> Tuple[int, str, int]:
    """(samples, digest, samples per file) of a catalog, its path, an object with a catalog, or a
    number.
    """
    if hasattr(dataset, "order_facts"):
        facts: Tuple[int, str, int] = dataset.order_facts
        return facts
    dataset = opened(dataset)  # otherwise the length of a path's text would be taken for a number of samples
    catalog = getattr(dataset, "catalog", dataset)
    if isinstance(catalog, Catalog):
        if not catalog.nr_samples:
            raise BadValueError(22, "the catalog '%s' is empty: there is nothing to order or load" % catalog.path)
        mean = -(-catalog.nr_samples // max(1, len(catalog)))
        return catalog.nr_samples, catalog.digest, catalog.samples_per_file or mean
    if hasattr(dataset, "__len__"):
        return len(dataset), "", 1
    return _number("the number of samples", dataset), "", 1


def make_spec(facts: Tuple[int, str, int], *, batch_size: int, seed: int, mode: str, remainder: str, world_size: int,
              unit: Optional[int], window: Optional[int], frozen: bool, lanes: Optional[int] = None,
              lane_batch: Optional[int] = None) -> Tuple[int, int, int, bool, int, int, int, int, int, int, int, int]:
    """The tuple that the library takes."""
    return (_choice("mode", mode, MODES), _choice("remainder", remainder, REMAINDERS),
            _number("seed", seed), bool(frozen), facts[0], _number("unit", facts[2] if unit is None else unit),
            _number("window", window or 0), _number("world_size", world_size, 1),
            _number("batch_size", batch_size, 1), 0, _number("lanes", lanes or 0), _number("lane_batch", lane_batch or 0))


def spec_from(spec: Tuple[Any, ...], consumed: int) -> Tuple[Any, ...]:
    """The spec, starting after these positions."""
    return spec[:9] + (consumed,) + spec[10:]


def check_rank(rank: int, world_size: int, what: str = "rank") -> int:
    """The rank as a number; an error if it does not exist."""
    rank = _number(what, rank)
    if rank >= world_size:
        raise BadValueError(22, "there is no %s %d of %d: %ss are counted from 0" % (what, rank, world_size, what))
    return rank


def state_to_dict(state: Tuple[Any, ...]) -> dict[str, Any]:
    names = ("version", "seed", "epoch", "consumed", "digest", "world_size", "order")
    lanes = {"lanes": state[6], "lane_batch": state[7]} if state[6] else {}
    return dict(zip(names, (STATE_VERSION,) + state), **lanes)


def state_from_dict(state: dict[str, Any]) -> Tuple[int, int, int, str, int, int, int, int]:
    """The tuple that the library takes, for a state that came from a file."""
    try:
        if state["version"] != STATE_VERSION:
            raise BadValueError(22, "the state has version %r, but this Shoal reads version %d: it was saved by another release"
                                % (state["version"], STATE_VERSION))
        numbers = [operator.index(state[key]) for key in ("seed", "epoch", "consumed", "world_size", "order")]
        numbers += [operator.index(state.get(key, 0)) for key in ("lanes", "lane_batch")]
        if not all(0 <= number < 2**64 for number in numbers) or len(state["digest"]) > 32 or "\0" in state["digest"]:
            raise KeyError
        seed, epoch, consumed, world_size, order, lanes, lane_batch = numbers
        return seed, epoch, consumed, "" + state["digest"], world_size, order, lanes, lane_batch
    except (KeyError, TypeError):
        raise BadValueError(22, "not a state of Shoal: %.100r" % (state,)) from None


class Order:
    """Which sample is at which position of an epoch; and which samples a rank takes in which step.

    `dataset` is a Catalog or its path, an object with a catalog, or a number of samples. As a
    sequence, an order consists of the epoch's sample ids: order[p] is computed from (seed, epoch,
    p) alone, for any p and any number of samples, and order.position(id) is the inverse. Ranks take
    batches: batch(step) and batches().

    mode: "global" (all samples permuted), "sequential", "files" (files permuted, their samples in
    order), "window" (samples shuffled within a window of files), "local" (each rank permutes its
    own share). remainder: what happens to samples that do not fill a step of all ranks: "keep" (a
    short or empty last batch), "drop", or "pad" (with samples from the beginning of the epoch).

    lanes cuts an epoch of mode "sequential", "files" or "window" into as many parts of equal
    length. With lanes=world_size each rank has files of its own; any number of ranks may resume
    such an order. lane_batch is the batch size for which the lanes are dealt (default: batch_size).
    """

    @explained
    def __init__(self, dataset: Any, *, batch_size: int = BATCH, seed: int = 0, epoch: int = 0, mode: str = "global",
                 remainder: str = "keep", rank: int = 0, world_size: int = 1, unit: Optional[int] = None,
                 window: Optional[int] = None, frozen: bool = False, lanes: Optional[int] = None,
                 lane_batch: Optional[int] = None) -> None:
        self._facts = dataset_facts(dataset)
        self._spec = make_spec(self._facts, batch_size=batch_size, seed=seed, mode=mode, remainder=remainder,
                               world_size=world_size, unit=unit, window=window, frozen=frozen, lanes=lanes,
                               lane_batch=lane_batch)
        self.rank = check_rank(rank, world_size)
        self._epoch = _number("epoch", epoch)
        self.handle = _shoal.Order(self._spec, self._epoch)

    # ---- The epoch as a sequence ----

    def __len__(self) -> int:
        return self._facts[0]

    @overload
    def __getitem__(self, key: int) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> Ids: ...

    def __getitem__(self, key: Union[int, slice]) -> Union[int, Ids]:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return self.at(numpy.arange(start, stop, step, dtype=numpy.int64))
        at = operator.index(key)
        if not -len(self) <= at < len(self):
            raise IndexError("position %d of an epoch of %d" % (at, len(self)))
        return int(self.at([at % len(self)])[0])

    def at(self, positions: Any) -> Ids:
        """The sample ids at these positions, as an array of int64."""
        ids = ids_of(positions)
        self.handle.at(ids)  # a negative position is past any end
        return ids

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start:start + _BLOCK].tolist()

    def position(self, sample: int) -> int:
        """The position of a sample in this epoch."""
        sample = operator.index(sample)
        if not 0 <= sample < len(self):
            raise IndexError("there is no sample %d of %d" % (sample, len(self)))
        return self.handle.position(sample)

    # ---- Steps of a rank ----

    @property
    def batch_size(self) -> int:
        return self._spec[8]

    @property
    def world_size(self) -> int:
        return self._spec[7]

    @property
    def seed(self) -> int:
        return self._spec[2]

    @property
    def consumed(self) -> int:
        """The number of positions that were read before step 0, by the job that saved the state."""
        return self.handle.spec()[9]

    @property
    def steps(self) -> int:
        """The number of steps to the end of the epoch: the same for all ranks."""
        return self.handle.steps()

    def batch(self, step: int, rank: Optional[int] = None) -> Ids:
        """The sample ids of a rank's batch in a step, as an array of int64."""
        step = _number("step", step)
        if step >= self.steps:
            raise IndexError("there is no step %d of %d: steps are counted from 0" % (step, self.steps))
        ids = numpy.empty(self.batch_size, dtype=numpy.int64)
        rank = self.rank if rank is None else check_rank(rank, self.world_size)
        return ids[:self.handle.batches(step, rank, ids)]

    def batches(self, first: int = 0) -> Iterator[Ids]:
        """The rank's batches, starting at a step."""
        for step in range(first, self.steps):
            yield self.batch(step)

    def ids(self, first: int = 0) -> Iterator[int]:
        """The rank's sample ids one by one, starting at a step. Fast even if a batch is one sample.
        """
        size = self.batch_size
        ids = numpy.empty(max(1, _BLOCK // size) * size, dtype=numpy.int64)
        for step in range(first, self.steps, max(1, _BLOCK // size)):
            yield from ids[:self.handle.batches(step, self.rank, ids)].tolist()

    # ---- Epochs and states ----

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the first position of an epoch. Takes microseconds for any number of samples."""
        self._epoch = _number("epoch", epoch)
        self.handle.set_epoch(self._epoch)

    def state_dict(self, steps: int = 0) -> dict[str, Any]:
        """The state to save after this many steps, counted from the start of this order."""
        return state_to_dict(self.handle.save(_number("steps", steps), self._facts[1]))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, possibly of another number of ranks or batch size."""
        kept = state_from_dict(state)
        self.handle = _shoal.resume(self._spec, kept, self._facts[1])
        self._epoch = kept[1]
        self._spec = spec_from(self.handle.spec(), 0)

    def __repr__(self) -> str:
        return "<shoal.Order: epoch %d of %d samples, %s, seed %d>" % (
            self._epoch, len(self), MODES[self._spec[0]], self.seed)

    def __getstate__(self) -> dict[str, Any]:
        return {"facts": self._facts, "spec": self.handle.spec(), "rank": self.rank, "epoch": self._epoch}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._facts, self.rank, self._epoch = state["facts"], state["rank"], state["epoch"]
        self._spec = spec_from(state["spec"], 0)
        self.handle = _shoal.Order(state["spec"], self._epoch)
