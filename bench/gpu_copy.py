#!/usr/bin/env python3
"""Batches copied to a GPU: from memory that was registered with it, from memory that was not, and what Shoal has to do with it.

    bench/gpu_copy.py CATALOG DATA [--batch N] [--steps N] [--device cuda]

Compares samples on the device with the files. Prints GB/s: of the copies alone (the stream is waited for after each
batch), and of reading and copying.
"""

import argparse
import os
import time

import torch

import shoal


class Registered:
    """The functions of docs/python.md, and what they were called with."""

    def __init__(self, fake):
        self.fake, self.ranges = fake, {}

    def register(self, address, length):
        if not self.fake:
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(address, length, 0))
        self.ranges[address] = length

    def unregister(self, address, length):
        if not self.fake:
            torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(address))
        assert self.ranges.pop(address) == length


def views_of(batch):
    return [torch.frombuffer(sample, dtype=torch.uint8) for sample in batch]


def wait(device):
    if device != "cpu":
        torch.cuda.current_stream().synchronize()


def compare(catalog, data, device, options):
    """Whether what arrived on the device is what the files have, of some batches."""
    nr = 0
    with shoal.Loader(catalog, 16, **options) as loader:
        for step, batch in zip(range(20), loader.epoch(1)):
            there = [view.to(device, non_blocking=True) for view in views_of(batch)]
            wait(device)
            for sample, tensor in zip(batch, there):
                with open(os.path.join(data, os.fsdecode(loader.catalog[sample.id])), "rb") as f:
                    want = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)
                assert torch.equal(tensor.cpu(), want), "sample %d of step %d differs" % (sample.id, step)
                nr += 1
    return nr


def measure(catalog, device, options, args):
    """(bytes, seconds of copies, seconds of all), of an epoch after another that warms up."""
    with shoal.Loader(catalog, args.batch, prefetch=args.prefetch, memory=args.memory, steps=args.steps, **options) as loader:
        for epoch in (0, 1):
            copied = nr_bytes = pinned = nr = 0
            began = time.perf_counter()
            for batch in loader.epoch(epoch):
                start = time.perf_counter()
                views = views_of(batch)
                there = [view.to(device, non_blocking=True) for view in views]
                wait(device)
                copied += time.perf_counter() - start
                nr_bytes += sum(map(len, views))
                pinned += sum(view.is_pinned() for view in views[:4]) if device != "cpu" and epoch == 1 else 0
                nr += len(views[:4])
                del there, views, batch
            took = time.perf_counter() - began
    return nr_bytes, copied, took, pinned, nr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalog")
    parser.add_argument("data")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    fake = args.device == "cpu"
    print("torch %s, %s" % (torch.__version__, "no GPU" if fake else torch.cuda.get_device_name()))
    for words in ("not registered", "registered"):
        kept = Registered(fake)
        options = {} if words == "not registered" else {"register": kept.register, "unregister": kept.unregister}
        nr = compare(args.catalog, args.data, args.device, options)
        rows = [measure(args.catalog, args.device, options, args) for _ in range(3)]
        nr_bytes, copied, took, pinned, looked = min(rows, key=lambda row: row[2])
        assert not kept.ranges, "memory was not unregistered"
        print("%-15s %d samples as in their files; %d of %d views pinned; copies alone %.2f GB/s, with reading %.2f GB/s"
              % (words, nr, pinned, looked, nr_bytes / copied / 1e9, nr_bytes / took / 1e9))


if __name__ == "__main__":
    main()
