#!/usr/bin/env python3
"""DLIO and Shoal on the same files, from the same workload file, on the same machine.

    bench/dlio.py [--build DIR] [--files N] [--many N] [--ranks N] [--threads N] [--work DIR]

DLIO is what `pip install dlio_benchmark` gives, unmodified, in a virtual environment of its own below
the build folder, on the system's PyTorch. Two sets, made by `shoal datagen`: one of real retinanet
sizes, for AU and samples a second, and one of many files of 2 KB, for what the number of files costs.
Each is run with the page cache dropped before; both write DLIO's summary.json, from which the figures
are read. Memory is the peak of the summed PSS of all processes."""

import argparse
import datetime
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pss
from common import Failed, Results, count, run, say, table

# Without --no-deps pip would bring a PyTorch for GPUs, of 3 GB. The versions are the newest that
# go together on Python 3.11.
PACKAGES = [["--no-deps", "dlio_benchmark==2.0.0", "pydftracer==1.0.9"],
            ["hydra-core==1.3.2", "tensorflow-cpu==2.15.1"]]

WORKLOAD = "retinanet_b200"
STEPS = 20  # of an epoch of the many files: enough for the list to be made, cut, sent and used


def install(folder):
    """A Python that has DLIO."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(os.path.join(folder, "complete")):
        return python
    say("installing DLIO")
    run(["/usr/bin/python3", "-m", "venv", "--clear", "--system-site-packages", folder])
    for packages in PACKAGES:
        run([python, "-m", "pip", "install", "-q", *packages])
    open(os.path.join(folder, "complete"), "w").close()
    return python


class Bench:
    def __init__(self, args, work, results):
        self.args, self.work, self.results = args, work, results
        self.shoal = os.path.abspath(os.path.join(args.build, "shoal"))
        self.python = install(os.path.abspath(os.path.join(args.build, "dlio")))
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                        HYDRA_FULL_ERROR="1")
        self.workload = os.path.join(work, "conf", "workload", WORKLOAD + ".yaml")
        os.makedirs(os.path.dirname(self.workload))
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        shutil.copy(os.path.join(root, "workloads", WORKLOAD + ".yaml"), self.workload)

    def data(self, nr, size):
        """A folder of @nr files of @size bytes."""
        folder = os.path.join(self.work, "data-%d" % nr)
        say("making %s files of %s bytes" % (count(nr), count(size)))
        run([self.shoal, "datagen", self.workload, "--data", folder, "-q", "dataset.num_files_train=%d" % nr,
             "dataset.record_length_bytes=%d" % size, "dataset.record_length_bytes_stdev=0"])
        os.makedirs(os.path.join(folder, "valid"), exist_ok=True)  # DLIO wants to list it, also when it is not used
        return folder

    def settings(self, nr, size, folder, steps):
        keys = {"dataset.num_files_train": nr, "dataset.record_length_bytes": size, "dataset.data_folder": folder,
                "reader.read_threads": self.args.threads, "train.epochs": 2}
        if steps:
            keys["train.total_training_steps"] = 2 * steps
        return keys

    def mpirun(self, command, log):
        with open(log, "wb") as file:
            started = time.time()
            peak = pss.measure(["mpirun", "-n", str(self.args.ranks), *command], interval=0.1, limit=900,
                               cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        # A run that misses its AU ends with 1, having written all its results.
        if peak.rc not in (0, 1):
            raise Failed("%s: status %d; the end of what was said: %s" % (command[0], peak.rc, end_of(log)))
        return peak, started

    def dlio(self, keys, results):
        command = [os.path.join(os.path.dirname(self.python), "dlio_benchmark"),
                   "--config-dir=" + os.path.join(self.work, "conf"), "workload=" + WORKLOAD,
                   "++workload.workflow.generate_data=False", "++workload.workflow.train=True",
                   "++workload.output.folder=" + results]
        log = results + ".log"
        peak, started = self.mpirun(command + ["++workload.%s=%s" % item for item in keys.items()], log)
        return self.figures(results, peak, first_step_of_dlio(log, started))

    def shoal_run(self, keys, results):
        command = [self.shoal, "run", self.workload, "--data", keys["dataset.data_folder"], "--results",
                   results]
        peak, _ = self.mpirun(command + ["%s=%s" % item for item in keys.items() if item[0] != "dataset.data_folder"],
                              results + ".log")
        figures = self.figures(results, peak, None)
        figures["first"] = figures["summary"].get("shoal", {})["seconds_to_first_batch"]
        return figures

    def figures(self, results, peak, first):
        paths = glob.glob(os.path.join(results, "**", "summary.json"), recursive=True)
        if not paths:
            raise Failed("no summary.json was written; the end of what was said: " + end_of(results + ".log"))
        with open(paths[0]) as file:
            summary = json.load(file)
        metric = summary["metric"]
        return {"summary": summary, "au": metric["train_au_mean_percentage"],
                "rate": metric["train_throughput_mean_samples_per_second"], "first": first,
                "seconds": peak.seconds, "pss": peak.total, "processes": len(peak.processes)}

    def compare(self, name, nr, size, steps):
        folder = self.data(nr, size)
        keys = self.settings(nr, size, folder, steps)
        rows = {}
        for tool, function in (("DLIO", self.dlio), ("Shoal", self.shoal_run)):
            say("%s on %s files" % (tool, count(nr)))
            drop_cache(folder)
            rows[tool] = function(keys, os.path.join(self.work, "%s-%d" % (tool, nr)))
            for figure in ("au", "rate", "first", "seconds", "pss"):
                self.results.add("dlio", "%s %s" % (tool, figure), nr, rows[tool][figure], "")
        table("%s: %s files of %s bytes, %d ranks x %d readers" % (
                  name, count(nr), count(size), self.args.ranks, self.args.threads),
              ["", "AU %", "samples/s", "first batch s", "whole run s", "peak MiB", "processes"],
              [[tool, row["au"], row["rate"], row["first"], row["seconds"], row["pss"] / 2**20, row["processes"]]
               for tool, row in rows.items()])
        shutil.rmtree(folder)
        return rows


def first_step_of_dlio(log, started):
    """Seconds from the start until a rank said that it had processed its first batch."""
    with open(log, errors="replace") as file:
        for line in file:
            found = re.search(r"(\d{4}-\d\d-\d\dT[\d:.]+) Rank \d+ step 1 processed", line)
            if found:
                return datetime.datetime.fromisoformat(found.group(1)).timestamp() - started
    return None


def end_of(log):
    with open(log, errors="replace") as file:
        return file.read()[-1500:].strip()


def drop_cache(folder):
    """Have the page cache forget the files of a folder, without being root."""
    os.sync()
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--files", type=int, default=5000, help="of 322,957 bytes (default 5000)")
    parser.add_argument("--many", type=int, default=200_000, help="of 2 KB (default 200000)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4, help="readers of a rank: DLIO's processes, Shoal's requests")
    parser.add_argument("--work", metavar="DIR", help="for the data; default a temporary folder")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(dir=args.work, prefix="shoal-dlio-") as work:
        try:
            bench = Bench(args, work, results)
            bench.compare("Real sizes", args.files, 322_957, 0)
            few = bench.compare("Few files", 2400, 2000, STEPS)
            many = bench.compare("Many files", args.many, 2000, STEPS)
        except (Failed, TimeoutError) as e:
            print("bench/dlio.py: %s" % e, file=sys.stderr)
            return 1
    more = args.many - 2400
    rows = [[tool, (many[tool]["pss"] - few[tool]["pss"]) / more] for tool in many]
    table("What a file more costs a node, all processes together", ["", "bytes a file"], rows)
    for tool, value in rows:
        results.add("dlio", tool + " bytes a file", args.many, value, "bytes")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results.figures, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
