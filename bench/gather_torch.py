#!/usr/bin/env python3
"""shoal.torch.gather_objects beside torch.distributed.all_gather_object: time, peak of resident memory, and
with NCCL the peak of device memory.

  gather_torch.py --ranks 4 --size 200 --kind strings          four processes over gloo
  gather_torch.py --ranks 1 --backend nccl --size 200          one GPU (NCCL wants one for each rank)
  gather_torch.py --ranks 4 --to path                          into a file

A line for each way of gathering: "result" is what the rank holds afterwards, "beyond" how far the peak was
above that, both in MiB beside what it had before (its own object). The largest of all ranks."""
import argparse
import json
import os
import sys
import tempfile
import time

# The package as it was built here, when it was; else the installed one.
BUILT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "python")
if os.path.isdir(BUILT):
    sys.path.insert(0, BUILT)

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def status(field):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def make_object(kind, megabytes, rank):
    size = megabytes * 10**6
    if kind == "bytes":
        return os.urandom(1 << 20) * (size >> 20)
    if kind == "strings":  # paths of 59 characters, as baseline measurements had them
        return [f"/data/retinanet/train/rank{rank:05d}/img_{i:07d}_of_1170301.jpeg" for i in range(size // 62)]
    if kind == "records":
        return [{"image_id": i, "bbox": [i * 0.5, 1.0, 2.0, 3.0], "score": i * 0.25} for i in range(size // 90)]
    import numpy

    return numpy.random.default_rng(rank).integers(0, 256, size, dtype=numpy.uint8)


def torch_way(obj, _):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, obj)
    return found


def shoal_way(obj, options):
    from shoal.torch.gather import gather_objects, iter_objects

    if options.to == "iterate":
        for one in iter_objects(obj, budget=options.budget):
            del one
        return None
    to = os.path.join(options.folder, "gathered") if options.to == "path" else options.to
    return gather_objects(obj, budget=options.budget, to=to)


def settle():
    """Give freed memory back to the system, so that the next way starts as the first did."""
    import ctypes
    import gc

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def measure(way, obj, options):
    settle()
    dist.barrier()
    before = status("VmRSS")
    reset_peak()
    cuda = options.backend == "nccl"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
    start, cpu = time.monotonic(), time.process_time()
    found = way(obj, options)
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    after, peak = status("VmRSS"), status("VmHWM")
    device = (torch.cuda.max_memory_allocated() - allocated) / 2**20 if cuda else 0.0
    del found
    return {"seconds": seconds, "cpu": cpu, "result": after - before, "peak": peak - before,
            "beyond": peak - after, "device": device}


def run(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    if options.backend == "nccl":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(options.backend, rank=rank, world_size=options.ranks)
    obj = make_object(options.kind, options.size, rank)
    ways = {"all_gather_object": torch_way, "gather_objects": shoal_way}
    torch_way(b"warm", options)
    for name in options.only or list(ways):
        best = {}
        for _ in range(options.repeat):
            rows = [None] * options.ranks
            dist.all_gather_object(rows, measure(ways[name], obj, options))
            row = {key: max(one[key] for one in rows) for key in rows[0]}
            best = {key: min(row[key], best.get(key, row[key])) for key in row}
        if rank == 0:
            report(name, best, options)
    dist.barrier()
    dist.destroy_process_group()


def report(name, row, options):
    if options.json:
        print(json.dumps({"way": name, "kind": options.kind, "ranks": options.ranks, "megabytes": options.size,
                          "budget": options.budget, "to": options.to, "backend": options.backend, **row}))
        return
    print(f"{name:18} {options.ranks} x {options.size} MB {options.kind:8} {row['seconds']:7.2f} s  cpu "
          f"{row['cpu']:6.2f} s  result {row['result']:7.0f}  peak {row['peak']:7.0f}  beyond {row['beyond']:6.0f}"
          f"  device {row['device']:6.1f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--size", type=int, default=200, help="of each rank's object when pickled, in MB")
    parser.add_argument("--kind", choices=["bytes", "strings", "records", "array"], default="strings")
    parser.add_argument("--budget", default="64MB")
    parser.add_argument("--to", default="all", choices=["all", "path", "iterate"])
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl"])
    parser.add_argument("--only", action="append", choices=["all_gather_object", "gather_objects"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--port", type=int, default=29533)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as options.folder:
        mp.spawn(run, (options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
