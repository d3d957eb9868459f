"""A map-style dataset that holds no list."""

import operator
import os

import torch
from torch.utils.data import Dataset

from .. import _shoal
from .._errors import BadValueError, StaleError, TransformError
from ..catalog import Catalog
from ..order import _number

OUTPUTS = ("bytes", "tensor")

# Readers of a process that was forked: what they hold is their parent's, and is left alone.
_INHERITED = []


def as_tensor(data):
    """A uint8 tensor over a writable buffer."""
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)


def _rebuild(flat, lengths):
    return Tensors(flat.split(lengths) if lengths else ())


class Tensors(list):
    """Tensors of one dimension. They travel between processes as one: each alone would take a file descriptor."""

    def __reduce__(self):
        return _rebuild, (torch.cat(tuple(self)) if self else torch.empty(0, dtype=torch.uint8), [len(t) for t in self])


def check_transform(transform):
    if transform is not None and not callable(transform):
        raise TypeError("transform is a function of a sample, not %.100r" % (transform,))
    return transform


def apply(transform, data, catalog, sample, with_name):
    """What the user makes of a sample. An error names it."""
    if transform is None and not with_name:
        return data
    name = catalog.name(catalog.locate(sample)[0])
    if transform is None:
        return data, name
    try:
        return transform(data, name) if with_name else transform(data)
    except Exception as e:
        raise TransformError(22, "the transform failed on sample %d, '%s': %s: %s"
                             % (sample, name, type(e).__name__, e)) from e


class ShoalDataset(Dataset):
    """The samples of a catalog by id, read from where they are when they are asked for.

    What is pickled to a worker is a path and a digest: under 1 KB at any number of files. Each process opens
    the catalog when it first needs it, shares its pages with all others, and refuses another catalog that was
    put in its place meanwhile. Works with fork, spawn and forkserver.

    catalog: a Catalog, or a path. transform: a function of a sample's bytes (or uint8 tensor, with
    output="tensor"), and with_name=True also of its file's name; without one items are the bytes, or (bytes,
    name). store: read from this directory or URI instead of the catalog's root. in_flight: reads at once for a
    batch (default 1 for files, 16 elsewhere). if_match: only objects that have the ETag which the catalog keeps
    (index(..., etags=True)); one that changed is an error.
    """

    def __init__(self, catalog, transform=None, *, output="bytes", with_name=False, store=None, in_flight=None,
                 copy=None, if_match=False):
        if output not in OUTPUTS:
            raise BadValueError(22, "output is one of %s, not %r" % (", ".join(OUTPUTS), output))
        self.transform = check_transform(transform)
        self.output = output
        self.with_name = with_name
        self._store = None if store is None else os.fsdecode(store)
        self._in_flight = None if in_flight is None else _number("in_flight", in_flight, 1, 32)
        self._if_match = bool(if_match)
        self._pid = None
        self._reader = None
        self._catalog = catalog if isinstance(catalog, Catalog) else Catalog(catalog, copy)
        self._path, self._copy = self._catalog.path, self._catalog._copy
        self._digest, self._nr = self._catalog.digest, self._catalog.nr_samples

    @property
    def catalog(self):
        """The catalog, opened in this process when need be."""
        if self._catalog is None:
            catalog = Catalog(self._path, self._copy)
            if catalog.digest != self._digest:
                raise StaleError(116, "'%s' is another catalog now than when the dataset was made: its digest is %s, "
                                 "and was %s. Start again with the new one" % (self._path, catalog.digest, self._digest))
            self._catalog = catalog
        return self._catalog

    def _opened(self):
        if self._pid != os.getpid():
            if self._reader is not None:
                _INHERITED.append(self._reader)
            catalog = self.catalog
            if torch.utils.data.get_worker_info() is not None:
                _shoal.catch_sigbus()  # torch has put its own handler there
            self._reader = _shoal.Reader(catalog.handle, self._store, self._if_match)
            self._remote = not (self._store or catalog.root).startswith(("file:", "/", "."))
            self._pid = os.getpid()
        return self._reader

    def __len__(self):
        return self._nr

    def read(self, ids):
        """The bytes of these samples, without the transform."""
        reader = self._opened()
        in_flight = self._in_flight or (16 if self._remote else 1)
        return reader.read([self._id(i) for i in ids], in_flight, self.output == "tensor")

    def _id(self, i):
        at = operator.index(i)
        if not -self._nr <= at < self._nr:
            raise IndexError("sample %d of a dataset of %d" % (at, self._nr))
        return at + self._nr if at < 0 else at

    def _finish(self, data, i):
        if self.output == "tensor":
            data = as_tensor(data)
        if self.transform is None and not self.with_name:
            return data
        return apply(self.transform, data, self.catalog, self._id(i), self.with_name)

    def __getitem__(self, i):
        return self._finish(self.read((i,))[0], i)

    def __getitems__(self, ids):
        return [self._finish(data, i) for data, i in zip(self.read(ids), ids)]

    def name(self, i):
        """The name of the file that sample i is in."""
        return self.catalog.name(self.catalog.locate(self._id(i))[0])

    def __getstate__(self):
        state = self.__dict__.copy()
        for key in ("_catalog", "_reader", "_pid"):
            state[key] = None
        return state

    def __repr__(self):
        return "ShoalDataset(%r)" % self._path
