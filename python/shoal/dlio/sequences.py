"""DLIO's lists and maps as sequences: a path is computed from the catalog and the order when it is asked for.

Each of them is a catalog's path and a few numbers, whatever the number of files, also in a worker's pickle."""

from collections.abc import Mapping, Sequence

import numpy

from ..order import Order

_BLOCK = 4096  # positions computed at once while iterating


class Files(Sequence):
    """The paths of files first to first + nr - 1 of a catalog, in the order of an epoch; a slice is one, too.

    `folder` takes the place of the first `cut` characters of a name in the catalog. Epoch 0 is the order of the names.
    """

    def __init__(self, catalog, folder, cut, first, nr, seed, shuffled, frozen=False):
        self.catalog = catalog
        self._where = (folder, cut, first)
        self._nr, self._seed, self._shuffled, self._frozen = nr, seed, shuffled, frozen
        self._positions = range(nr)
        self.epoch = 0
        self._order = None

    def _like(self, positions, epoch):
        other = Files(self.catalog, *self._where, self._nr, self._seed, self._shuffled, self._frozen)
        other._positions, other.epoch = positions, epoch
        return other

    def of_epoch(self, epoch):
        """The same positions in another epoch's order."""
        return self if epoch == self.epoch else self._like(self._positions, epoch)

    def path(self, file):
        """The path of a file by its number in the order of names."""
        folder, cut, first = self._where
        return folder + self.catalog.name(first + file)[cut:]

    def at(self, positions):
        """The numbers of the files at these positions of the epoch, as an array."""
        if not self._shuffled or not self.epoch or not self._nr:
            return numpy.asarray(positions, dtype=numpy.int64)
        if self._order is None:
            self._order = Order(self._nr, seed=self._seed, epoch=self.epoch, frozen=self._frozen)
        return self._order.at(positions)

    def __len__(self):
        return len(self._positions)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return self._like(self._positions[key], self.epoch)
        return self.path(int(self.at([self._positions[key]])[0]))

    def numbers(self):
        """The numbers of these files, one by one, in order."""
        for start in range(0, len(self), _BLOCK):
            yield from self.at(self._positions[start:start + _BLOCK]).tolist()

    def __iter__(self):
        return map(self.path, self.numbers())

    def __repr__(self):
        return "<shoal.dlio: %d of %d files of '%s'>" % (len(self), self._nr, self.catalog.path)

    def __getstate__(self):
        return dict(self.__dict__, _order=None)

    def __setstate__(self, state):
        # In a worker that was spawned DLIO's modules are as they were installed.
        from .callback import install_in_worker

        self.__dict__.update(state)
        install_in_worker()


class Samples(Mapping):
    """DLIO's map from a sample to its file's path and its place in the file. The keys that DLIO asks for are those of Sampler."""

    def __init__(self, files, samples_per_file):
        self._files, self._samples_per_file = files.of_epoch(0), samples_per_file

    def __getitem__(self, sample):
        file, place = divmod(int(sample), self._samples_per_file)
        return self._files.path(file), place

    def __len__(self):
        return len(self._files) * self._samples_per_file

    def __iter__(self):
        return iter(range(len(self)))

    def __repr__(self):
        return "<shoal.dlio: %d samples of %r>" % (len(self), self._files)


class Sampler:
    """The samples of a rank's files, those of a file one after another: what DLIO's sampler yields, in the epoch that files() is of."""

    def __init__(self, files, samples_per_file, share):
        self._files, self._samples_per_file, self._share = files, samples_per_file, share

    def __len__(self):
        return len(self._share)

    def __iter__(self):
        files, per_file = self._files(), self._samples_per_file
        for start in range(0, len(self._share), _BLOCK):
            positions = numpy.asarray(self._share[start:start + _BLOCK], dtype=numpy.int64)
            yield from (files.at(positions // per_file) * per_file + positions % per_file).tolist()


class Entries(Sequence):
    """A worker's files as DLIO's iterable readers take them: (sample, path, place in the file)."""

    def __init__(self, files, samples_per_file):
        self._files, self._samples_per_file = files, samples_per_file

    def __len__(self):
        return len(self._files) * self._samples_per_file

    def __getitem__(self, at):
        file, place = divmod(range(len(self))[at], self._samples_per_file)
        return at, self._files[file], place

    def __iter__(self):
        for i, path in enumerate(self._files):
            for place in range(self._samples_per_file):
                yield i * self._samples_per_file + place, path, place
