"""A map-style dataset that holds no list."""

from __future__ import annotations

import operator
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils.data import Dataset

from .. import _shoal
from .._errors import BadValueError, DamagedError, Error, StaleError, TransformError
from .._keywords import explained
from .._store import S3Config, as_tuple, parse_uri
from ..catalog import Catalog, Path
from ..order import _number, sample_seed
from .shared import LeftOut, Skips, Words, make_left_out

OUTPUTS = ("bytes", "tensor")

# Readers of a forked process: they belong to the parent, and are left alone.
_INHERITED: List[Any] = []

_LEFT_OUT: Any = object()  # in place of a sample that could not be used


class SampleId(int):
    """A sample's id from a sampler that also provides the epoch."""

    epoch: int

    def __new__(cls, sample: int, epoch: int) -> SampleId:
        self = super().__new__(cls, sample)
        self.epoch = epoch
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return SampleId, (int(self), self.epoch)


def with_epoch(item: Union[int, List[int]], epoch: int) -> Union[int, List[SampleId]]:
    """The output of a sampler, an id or a list of ids, with the epoch attached to each."""
    return [SampleId(i, epoch) for i in item] if isinstance(item, list) else SampleId(item, epoch)


def sample_rng(seed: int, epoch: int, sample: int) -> torch.Generator:
    """A random number generator (CPU) for one sample in one epoch: the same on all ranks, in all
    workers, and after a resume.
    """
    return torch.Generator().manual_seed(sample_seed(seed, epoch, sample))


def as_tensor(data: Any) -> torch.Tensor:
    """A uint8 tensor over a writable buffer."""
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)


def _rebuild(flat: torch.Tensor, lengths: List[int]) -> Tensors:
    return Tensors(flat.split(lengths) if lengths else ())


class Tensors(List[torch.Tensor]):
    """One-dimensional tensors that are sent between processes as one: separately, each would take a
    file descriptor.
    """

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (torch.cat(tuple(self)) if self else torch.empty(0, dtype=torch.uint8), [len(t) for t in self])


def check_transform(transform: Optional[Callable[..., Any]]) -> Optional[Callable[..., Any]]:
    if transform is not None and not callable(transform):
        raise TypeError("transform must be a function of a sample, not %.100r" % (transform,))
    return transform


def apply(transform: Optional[Callable[..., Any]], data: Any, catalog: Catalog, sample: int, with_name: bool,
          epoch: Optional[int] = None) -> Any:
    """Call the user's transform with (data), (data, name), (data, id, epoch) or (data, name, id,
    epoch). An error names the sample.
    """
    if transform is None and not with_name and epoch is None:
        return data
    name = catalog.name(catalog.locate(sample)[0])
    arguments = (data,) + ((name,) if with_name else ()) + (() if epoch is None else (sample, epoch))
    if transform is None:
        return arguments
    try:
        return transform(*arguments)
    except Exception as e:
        raise TransformError(22, "the transform failed on sample %d, '%s': %s: %s"
                             % (sample, name, type(e).__name__, e)) from e


class ShoalDataset(Skips, Dataset):  # type: ignore[type-arg]
    """The samples of a catalog by id, read when they are requested.

    A pickle for a worker contains a path and a digest: less than 1 KB for any number of files. Each
    process opens the catalog when it first needs it, shares its pages with all others, and refuses
    another catalog that has replaced it meanwhile. Works with fork, spawn and forkserver.

    catalog: a Catalog, or a path. transform: a function of a sample's bytes (or uint8 tensor, with
    output="tensor"); with_name=True adds its file's name; with_id=True adds its id and the epoch at
    the end: transform(data), transform(data, name), transform(data, id, epoch) or transform(data,
    name, id, epoch). Without a transform, items are the bytes, or a tuple of these. data: read
    from this directory or URI instead of the catalog's root. in_flight: simultaneous reads for a
    batch (default 1 for files, 16 otherwise). if_match: an object whose ETag differs from the one
    in the catalog (index(..., etags=True)) is an error. s3: the configuration of the bucket if it
    differs from the catalog's.

    The epoch comes with each id from a Shoal sampler that was created with this dataset, such as
    ShoalBatchSampler(dataset, ...), even in persistent workers; with any other sampler, call
    set_epoch() of the dataset before each epoch. Otherwise BadValueError is raised.

    keep_going=True: a sample that cannot be read, or whose transform raises, is skipped. The batch
    is then shorter: torch 2 reads batches with __getitems__(), which skips it; dataset[i] is None,
    and collate_fn=skip_none skips that. `errors` counts such samples over all workers, each once,
    `first_errors` names some, a warning is raised for the first, and more than max_errors (None:
    any number) raise TooManyErrors.
    """

    _reads: Any = None  # counters for samplers: see watch.py

    @explained
    def __init__(self, catalog: Union[Catalog, Path], transform: Optional[Callable[..., Any]] = None, *, output: str = "bytes",
                 with_name: bool = False, with_id: bool = False, keep_going: bool = False, max_errors: Optional[int] = 1000,
                 data: Optional[Path] = None, in_flight: Optional[int] = None, local_copy: Optional[Path] = None,
                 if_match: bool = False, s3: Optional[S3Config] = None) -> None:
        if output not in OUTPUTS:
            raise BadValueError(22, "output must be one of %s, not %r" % (", ".join(OUTPUTS), output))
        self.transform = check_transform(transform)
        self.output = output
        self.with_name, self.with_id = bool(with_name), bool(with_id)
        self._left_out: Optional[LeftOut] = make_left_out(keep_going, max_errors)
        self._epoch = Words([-1]) if with_id else None
        self._store = None if data is None else os.fsdecode(data)
        self._in_flight = None if in_flight is None else _number("in_flight", in_flight, 1, 32)
        self._if_match = bool(if_match)
        self._pid: Optional[int] = None
        self._reader: Any = None
        self._catalog: Optional[Catalog] = catalog if isinstance(catalog, Catalog) else Catalog(catalog, local_copy, s3)
        self._path, self._copy, self._catalog_s3 = self._catalog.path, self._catalog._copy, self._catalog.s3
        self._s3 = self._catalog_s3 if s3 is None else s3
        self._digest, self._nr = self._catalog.digest, self._catalog.nr_samples

    @property
    def catalog(self) -> Catalog:
        """The catalog, opened in this process when needed."""
        if self._catalog is None:
            catalog = Catalog(self._path, self._copy, self._catalog_s3)
            if catalog.digest != self._digest:
                raise StaleError(116, "'%s' is not the catalog that the dataset was made with: its digest is %s, "
                                 "and was %s. Start again with the new one" % (self._path, catalog.digest, self._digest))
            self._catalog = catalog
        return self._catalog

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch, even in persistent workers: for transforms with_id if the sampler is
        not Shoal's.
        """
        if self._epoch is not None:
            self._epoch[0] = _number("epoch", epoch, 0, 62)

    def _epoch_of(self, i: Any) -> Optional[int]:
        if self._epoch is None:
            return None
        epoch = i.epoch if isinstance(i, SampleId) else self._epoch[0]
        if epoch < 0:
            raise BadValueError(22, "the transform takes the epoch (with_id=True), but no epoch was set: make the "
                                "sampler for this dataset, such as ShoalBatchSampler(dataset, ...), or call dataset.set_epoch()")
        return int(epoch)

    def _opened(self) -> Any:
        if self._pid != os.getpid():
            if self._reader is not None:
                _INHERITED.append(self._reader)
            catalog = self.catalog
            if torch.utils.data.get_worker_info() is not None:
                _shoal.catch_sigbus()  # torch has installed its own handler
            self._reader = _shoal.Reader(catalog.handle, self._store, self._if_match, as_tuple(self._s3))
            self._remote = not parse_uri(self._store or catalog.root).files
            self._pid = os.getpid()
        return self._reader

    def __len__(self) -> int:
        return self._nr

    def read(self, ids: Iterable[int]) -> List[Any]:
        """The bytes of these samples, without the transform."""
        reader = self._opened()
        in_flight = self._in_flight or (16 if self._remote else 1)
        numbers = [self._id(i) for i in ids]
        if self._reads is not None:
            self._reads.note(len(numbers))
        found: List[Any] = reader.read(numbers, in_flight, self.output == "tensor")
        return found

    def _id(self, i: Any) -> int:
        if isinstance(i, slice):
            raise TypeError("a dataset returns one sample at a time, not a slice: [dataset[i] for i in range(0, 4)], or "
                            "torch.utils.data.Subset(dataset, range(0, 4)) for a dataset that is a part of this one")
        if isinstance(i, (list, tuple)):
            raise TypeError("%.60r is a list, where the number of one sample is needed: a ShoalBatchSampler is for "
                            "DataLoader(batch_sampler=...), not for sampler=" % (i,))
        at = operator.index(i)
        if not -self._nr <= at < self._nr:
            raise IndexError("sample %d of a dataset of %d" % (at, self._nr))
        return at + self._nr if at < 0 else at

    def _finish(self, data: Any, i: Any) -> Any:
        epoch = self._epoch_of(i)
        if self.output == "tensor":
            data = as_tensor(data)
        if self.transform is None and not self.with_name and epoch is None:
            return data
        return apply(self.transform, data, self.catalog, int(self._id(i)), self.with_name, epoch)

    def _leave_out(self, i: Any, error: Error) -> Any:
        assert self._left_out is not None
        self._left_out.add(int(self._id(i)), error, self.catalog)
        return _LEFT_OUT

    def _try_to_read(self, ids: Sequence[int]) -> List[Any]:
        """Read all at once, and only after a failure one by one, to find the failing sample. A
        damaged catalog is not an error of a sample.
        """
        self._opened()
        try:
            return self.read(ids)
        except DamagedError:
            raise
        except Error:
            pass
        found = []
        for i in ids:
            try:
                found.append(self.read((i,))[0])
            except DamagedError:
                raise
            except Error as e:
                found.append(self._leave_out(i, e))
        return found

    def _try_to_finish(self, data: Any, i: Any) -> Any:
        if data is _LEFT_OUT:
            return data
        try:
            return self._finish(data, i)
        except TransformError as e:
            return self._leave_out(i, e)

    def __getitem__(self, i: Any) -> Any:
        if self._left_out is None:
            return self._finish(self.read((i,))[0], i)
        return (self.__getitems__((i,)) or [None])[0]

    def __getitems__(self, ids: Sequence[int]) -> List[Any]:
        if self._left_out is None:
            return [self._finish(data, i) for data, i in zip(self.read(ids), ids)]
        items = [self._try_to_finish(data, i) for data, i in zip(self._try_to_read(ids), ids)]
        return [item for item in items if item is not _LEFT_OUT]

    def name(self, i: int) -> str:
        """The name of the file that contains sample i."""
        return self.catalog.name(self.catalog.locate(self._id(i))[0])

    def __getstate__(self) -> Dict[str, Any]:
        state = self.__dict__.copy()
        for key in ("_catalog", "_reader", "_pid"):
            state[key] = None
        return state

    def __repr__(self) -> str:
        return "ShoalDataset(%r)" % self._path
