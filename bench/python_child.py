"""One measurement of bench/python.py, in a process of its own: python_child.py WHAT ARGUMENT...

Prints rows: name, n, value, unit. In a file, because spawned workers import what they run.
"""

import os
import pickle
import resource
import signal
import sys
import time
import warnings

import numpy
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import shoal
from shoal.torch import ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler

WORKERS = 8
BLOCK = 1024  # samples a worker touches at once
NULL = "null:size=1M,fill=none"  # names are measured, not bytes


# ---- Datasets: Shoal's, and what people use instead ----


class Names:
    """Names by a list of ids: how many bytes were touched, and of which samples."""

    def __getitem__(self, ids):
        return sum(len(self.paths[i]) for i in ids), len(ids), sum(ids)

    def __len__(self):
        return len(self.paths)


class ListOfStr(Names, Dataset):
    def __init__(self, catalog):
        self.paths = list(catalog)


class NumpyOfBytes(Names, Dataset):
    def __init__(self, catalog):
        width = max(len(os.fsencode(name)) for name in catalog)
        self.paths = numpy.empty(len(catalog), dtype="S%d" % width)
        for i, name in enumerate(catalog):
            self.paths[i] = os.fsencode(name)


class Touched(Dataset):
    """Shoal's: each sample is looked up and read, from a store that makes bytes up."""

    def __init__(self, catalog):
        self.dataset = ShoalDataset(catalog, data=NULL)

    def __getitem__(self, ids):
        return sum(map(len, self.dataset.read(ids))), len(ids), sum(ids)

    def __len__(self):
        return len(self.dataset)


KINDS = {"shoal": Touched, "list[str]": ListOfStr, "numpy": NumpyOfBytes}


def row(name, n, value, unit):
    print("%s\t%d\t%r\t%s" % (name, n, value, unit), flush=True)


def as_it_is(batch):
    return batch


def loader_of(dataset, start, workers=WORKERS):
    """Blocks of ids in Shoal's order, to any dataset: only what is held differs."""
    sampler = ShoalBatchSampler(len(dataset), BLOCK, rank=0, world_size=1)
    return sampler, DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=int(workers), persistent_workers=True,
                               multiprocessing_context=start, collate_fn=as_it_is)


def leave(loader):
    """At once: what workers still have to do is not wanted, and none may stay behind."""
    workers = loader._iterator._workers if loader.num_workers else []
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    os._exit(0)


# ---- Measurements ----


def measure_pickle(path, *kinds):
    catalog = shoal.Catalog(path)
    for kind in kinds:
        dataset = ShoalDataset(catalog) if kind == "shoal" else KINDS[kind](catalog)
        row("pickle " + kind, len(catalog), len(pickle.dumps(dataset, pickle.HIGHEST_PROTOCOL)), "bytes")


def measure_start(path, kind, start):
    catalog = shoal.Catalog(path)
    dataset = KINDS[kind](catalog)
    _, loader = loader_of(dataset, start)
    begun = time.monotonic()
    batches = iter(loader)
    next(batches)
    row("start " + kind, len(catalog), time.monotonic() - begun, "s")
    row("start cpu " + kind, len(catalog), tree_cpu(), "s")
    leave(loader)


def tree_pids():
    pids = {os.getpid()}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % entry, "rb") as f:
                if int(f.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    pids.add(int(entry))
        except OSError:
            continue
    return pids


def tree_cpu():
    ticks = 0
    for pid in tree_pids():
        with open("/proc/%d/stat" % pid, "rb") as f:
            ticks += sum(map(int, f.read().rpartition(b")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def tree_pss():
    total = 0
    for pid in tree_pids():
        try:
            with open("/proc/%d/smaps_rollup" % pid, "rb") as f:
                total += sum(int(line.split()[1]) * 1024 for line in f if line.startswith(b"Pss:"))
        except OSError:
            continue
    return total


def measure_memory(path, kind, start, epochs, workers=WORKERS):
    """PSS of this process and its workers, which live on, after they have touched every sample."""
    catalog = shoal.Catalog(path)
    dataset = KINDS[kind](catalog)
    sampler, loader = loader_of(dataset, start, workers)
    nr = len(catalog)
    for epoch in range(int(epochs)):
        sampler.set_epoch(epoch)
        _, count, ids = (sum(column) for column in zip(*loader))
        assert (count, ids) == (nr, nr * (nr - 1) // 2), "epoch %d is not complete" % epoch
    row("memory %s %s" % (kind, start), len(catalog), tree_pss(), "bytes")
    leave(loader)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_epoch(which, n):
    n = int(n)
    numbers = range(n)  # a dataset needs no more than a length here
    if which == "shoal":
        sampler = ShoalSampler(n, rank=3, world_size=8)
    else:
        sampler = DistributedSampler(numbers, rank=3, num_replicas=8, shuffle=True)
    before, times = peak(), []
    for epoch in range(1, 6 if which == "shoal" else 2):
        begun = time.monotonic()
        sampler.set_epoch(epoch)
        next(iter(sampler))
        times.append(time.monotonic() - begun)
    row("epoch " + which, n, min(times), "s")
    row("epoch memory " + which, n, peak() - before, "bytes")


class Files(Dataset):
    """As people write it."""

    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

    def __len__(self):
        return len(self.paths)


def measure_reading(path, kind, workers):
    catalog, batch = shoal.Catalog(path), 256
    workers = int(workers)
    more = dict(num_workers=workers, persistent_workers=workers > 0)
    if kind == "ShoalIterable":
        source = ShoalIterable(catalog, batch, output="stack")
        loader = DataLoader(source, batch_size=None, **more)
    elif kind == "ShoalDataset":
        dataset = ShoalDataset(catalog, output="tensor")
        source = ShoalBatchSampler(dataset, batch)
        loader = DataLoader(dataset, batch_sampler=source, **more)
    else:
        root = catalog.root[len("file://"):]
        source = None
        loader = DataLoader(Files([os.path.join(root, name) for name in catalog]), batch_size=batch, shuffle=True, **more)
    times, cpus = [], []
    for epoch in range(4):
        if source is not None:
            source.set_epoch(epoch)
        begun, cpu, nr = time.monotonic(), tree_cpu(), 0
        for data in loader:
            nr += len(data[0] if isinstance(data, (list, tuple)) else data)
        times.append(time.monotonic() - begun)
        cpus.append(tree_cpu() - cpu)
        assert nr == len(catalog)
    row("read %s %d" % (kind, workers), len(catalog), len(catalog) / min(times[1:]), "samples/s")
    row("read cpu %s %d" % (kind, workers), len(catalog), min(cpus[1:]) / len(catalog) * 1e6, "us")
    leave(loader)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    globals()["measure_" + sys.argv[1]](*sys.argv[2:])
