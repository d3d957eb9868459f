#!/usr/bin/env python3
"""What each file of the dataset costs DLIO in memory, over all its processes: plain, and with shoal.dlio.Callback.

    SHOAL_DLIO_MLCOMMONS=DIR bench/dlio_memory.py mlcommons --workers 4 --files 20000 1000000

The files are links to one small JPEG: 1,000 hard links in each of as many folders as it takes, so that DLIO reads a real file behind
each name. PSS of all processes of mpirun is summed again and again while the steps of the epochs run; the largest sum counts.
The growth per file is the difference of two sizes, by which the interpreters and torch cancel out."""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python", "dlio"))
import contents  # noqa: E402
import real  # noqa: E402

import shoal  # noqa: E402

PER_FOLDER = 1000  # a file system allows some ten thousand links to one file


def make(folder, nr):
    """nr files in folders, as DLIO's own generator would name them, unless they are there; the number of folders."""
    train, digits = folder / "train", len(str(nr))
    nr_folders = nr // PER_FOLDER
    if (folder / "train.cat").exists():
        return nr_folders
    (folder / "valid").mkdir(parents=True)
    for sub in range(nr_folders):
        below = train / str(sub).zfill(len(str(nr_folders)))
        below.mkdir(parents=True)
        first = below / ("img_%s_of_%d.jpeg" % (str(sub).zfill(digits), nr))
        first.write_bytes(contents.CONTENTS["jpeg"](1))
        for i in range(sub + nr_folders, nr, nr_folders):
            os.link(first, below / ("img_%s_of_%d.jpeg" % (str(i).zfill(digits), nr)))
    # Made beforehand: the buffers of a listing, which are bounded, would stay in the rank that makes it.
    shoal.index(train, folder / "train.cat", include=["*/*.jpeg"])
    return nr_folders


def processes(root):
    """A process and all below it."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry, encoding="utf-8", errors="replace") as file:
                    children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass  # it ended
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def pss(pids):
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total


def first_batch(log, output, started):
    """Seconds from the start to the first batch that rank 0 has in the loop: when its first block begins, and how long it waits then."""
    began = re.search(r"(\d{4}-\d\d-\d\dT[\d:.]+) Starting block 1", log)
    if not began:
        sys.exit("DLIO did not say when its first block began:\n" + log[-2000:])
    with open(output, encoding="utf-8") as file:
        waited = json.load(file)["1"]["load"]["block1"][0]
    return datetime.datetime.fromisoformat(began.group(1)).timestamp() - started + waited


def measure(options, how, data, nr, nr_folders):
    """(largest sum of PSS in bytes, processes then, seconds to the first batch)"""
    folder = pathlib.Path(tempfile.mkdtemp(dir=options.scratch))
    try:
        dlio = real.Dlio(options.dlio, folder)
        command = dlio.command(options.ranks, how, dataset__data_folder=data, dataset__num_files_train=nr, dataset__num_subfolders_train=nr_folders,
                               train__epochs=options.epochs, train__total_training_steps=options.steps, reader__batch_size=8,
                               reader__read_threads=options.workers, reader__multiprocessing_context=options.context, reader__prefetch_size=2,
                               train__computation_time=0.05)
        started, most, nr_most = time.time(), 0, 0
        log = folder / "out.txt"
        with open(log, "w", encoding="utf-8") as out:
            job = subprocess.Popen(command, cwd=folder, env=dlio.variables(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            while job.poll() is None:
                began, pids = time.monotonic(), processes(job.pid)
                if not options.no_memory:
                    most, nr_most = max((most, nr_most), (pss(pids), len(pids)))
                time.sleep(max(0.3, 4 * (time.monotonic() - began)))  # the kernel walks all pages for a sum
        text = log.read_text(errors="replace")
        if job.returncode:
            sys.exit(text[-2000:])
        return most, nr_most, first_batch(text, folder / "out" / "0_output.json", started)
    finally:
        shutil.rmtree(folder)


def print_growth(options, found):
    for how in options.how:
        (nr_a, a), (nr_b, b) = ((nr, max(most for most, _, _ in found[how, nr])) for nr in options.files)
        first = [[f for _, _, f in found[how, nr]] for nr in options.files]
        print("%s %s, %s, %d ranks x %d workers: %.1f bytes per file" % (options.dlio, how, options.context, options.ranks, options.workers,
                                                                       (b - a) / (nr_b - nr_a)))
        print("  first batch, medians of %d: %s, %.2f s apart; load average %.1f" % (
            options.runs, " and ".join("%.2f s [%.2f..%.2f]" % (statistics.median(f), min(f), max(f)) for f in first),
            statistics.median(first[1]) - statistics.median(first[0]), os.getloadavg()[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dlio", choices=real.DLIOS)
    parser.add_argument("--files", type=int, nargs=2, default=[20000, 1000000])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1, help="of each, by turns (default 1)")
    parser.add_argument("--context", default="fork", help="or spawn, for which an epoch starts all workers anew: minutes")
    parser.add_argument("--how", nargs="+", default=["plain", "callback"])
    parser.add_argument("--scratch", default=None, help="where the files are made")
    parser.add_argument("--keep", action="store_true", help="leave the files in --scratch, and use those that are there")
    parser.add_argument("--only-make", action="store_true", help="make the files, and measure nothing")
    parser.add_argument("--no-memory", action="store_true", help="sum no PSS, which takes time: for the first batch alone")
    options = parser.parse_args()
    scratch = pathlib.Path(options.scratch) if options.keep else pathlib.Path(tempfile.mkdtemp(dir=options.scratch))
    found = {}
    try:
        sets = [(nr, scratch / str(nr), make(scratch / str(nr), nr)) for nr in options.files]
        for how, _ in itertools.product(options.how, range(0 if options.only_make else options.runs)):
            for nr, data, nr_folders in sets:
                most, nr_processes, first = measure(options, getattr(real, how.upper()), data, nr, nr_folders)
                found.setdefault((how, nr), []).append((most, nr_processes, first))
                print("%s %s: %d files, %d processes, %.0f MB, first batch after %.2f s"
                      % (options.dlio, how, nr, nr_processes, most / 1e6, first), flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(scratch)
    if found:
        print_growth(options, found)


if __name__ == "__main__":
    main()
