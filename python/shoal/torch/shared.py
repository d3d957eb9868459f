"""Small numbers in shared memory, shared by a dataset and its copies in workers."""

from __future__ import annotations

import multiprocessing.context
import warnings
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch.utils.data import default_collate

from .. import _shoal
from .._errors import BadValueError, Error
from ..order import _number

if TYPE_CHECKING:
    from ..catalog import Catalog

_NR_FIRST = 16  # samples that are named: as many as note_sample() records
_ROOM = (1 << 11, 1 << 20)  # table sizes: the number of different samples that can be distinguished


class TooManyErrors(Error, RuntimeError):
    """More samples were skipped than max_errors allows; the message has their number and names the
    first.
    """


class Words:
    """64-bit numbers in shared memory. Started workers share them; any other pickle has a copy."""

    def __init__(self, values: Sequence[int]) -> None:
        self._tensor = torch.tensor(values, dtype=torch.int64).share_memory_()

    @classmethod
    def _attached(cls, tensor: torch.Tensor) -> Words:
        words = cls.__new__(cls)
        words._tensor = tensor
        return words

    def __getitem__(self, place: int) -> int:
        return int(self._tensor[place])

    def __setitem__(self, place: int, value: int) -> None:
        self._tensor[place] = value

    @property
    def buffer(self) -> Any:
        return self._tensor.numpy()

    def __reduce__(self) -> Tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is None:
            return Words, (self._tensor.tolist(),)
        return Words._attached, (self._tensor,)


class LeftOut:
    """The samples that could not be read or transformed: the number of different ones, over all
    processes, and the first.

    Memory: 8 bytes for each of twice as many as are allowed, at most 8 MB; beyond that, samples are
    counted each time they occur.
    """

    def __init__(self, limit: Optional[int]) -> None:
        self.limit = limit
        room = min(max(2 * (limit or 0), _ROOM[0]), _ROOM[1])
        self._words = Words([0] * (1 + _NR_FIRST + room))

    def __len__(self) -> int:
        return self._words[0]

    def first(self) -> List[int]:
        return [self._words[1 + k] - 1 for k in range(min(len(self), _NR_FIRST)) if self._words[1 + k]]

    def add(self, sample: int, error: BaseException, catalog: Catalog) -> None:
        """Record a sample. Raises if it is one too many; warns of the first."""
        nr = _shoal.note_sample(self._words.buffer, sample)
        if nr == 1:
            warnings.warn("skipped (keep_going=True); further samples are only counted: %s" % error, RuntimeWarning, stacklevel=4)
        if self.limit is not None and len(self) > self.limit:
            raise TooManyErrors(5, "%d samples were skipped, but max_errors allows %d. The first: %s. The last: %s" % (
                len(self), self.limit, ", ".join("%d '%s'" % (i, _name(catalog, i)) for i in self.first()), error)) from error

    def __reduce__(self) -> Tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is None:
            return LeftOut, (self.limit,)  # for another job, which counts separately
        return _shared, (self.limit, self._words)


def _shared(limit: Optional[int], words: Words) -> LeftOut:
    left_out = LeftOut.__new__(LeftOut)
    left_out.limit, left_out._words = limit, words
    return left_out


def _name(catalog: Catalog, sample: int) -> str:
    return catalog.name(catalog.locate(sample)[0])


def make_left_out(keep_going: bool, max_errors: Optional[int]) -> Optional[LeftOut]:
    """None if the first error ends the epoch."""
    if not keep_going:
        return None
    return LeftOut(None if max_errors is None else _number("max_errors", max_errors))


class Skips:
    """Properties of datasets with keep_going=True."""

    _left_out: Optional[LeftOut]

    @property
    def catalog(self) -> Catalog:
        raise NotImplementedError

    @property
    def errors(self) -> int:
        """The number of different samples that were skipped so far, in this process and its workers
        (keep_going=True).
        """
        return 0 if self._left_out is None else len(self._left_out)

    @property
    def first_errors(self) -> List[str]:
        """The names of the first 16 of them."""
        return [] if self._left_out is None else [_name(self.catalog, i) for i in self._left_out.first()]


def skip_none(batch: Sequence[Any], collate: Callable[[List[Any]], Any] = default_collate) -> Any:
    """A collate_fn that skips None, which dataset[i] returns with keep_going=True for a sample that
    could not be used.

    A batch without any samples is None.
    """
    left = [item for item in batch if item is not None]
    return collate(left) if left else None
