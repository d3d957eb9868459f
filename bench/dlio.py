#!/usr/bin/env python3
"""DLIO and Shoal on the same files, from the same workload file, on the same machine.

    bench/dlio.py [--build DIR] [--only compute,device,reads,files] [--runs N] [--at-once N] [--files N] [--many N] [--ranks N] [--threads N]

DLIO is what `pip install dlio_benchmark` gives, unmodified, in a virtual environment of its own below
the build folder, on the system's PyTorch; or the checkout that SHOAL_DLIO_MLCOMMONS names. All sets are
made by `shoal datagen`, and both write DLIO's summary.json, from which the figures are read.

compute, device and reads: AU where compute is the limit, samples per second where the bytes of the
device are, and AU where its reads per second are (bench/dlio_au.py). files: retinanet's sizes, and many
files of 2 KB for what the number of files costs;
each with the page cache dropped before. Memory is the peak of the summed PSS of all processes."""

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
from dlio_au import Utilisation, forget

# Without --no-deps pip would bring a PyTorch for GPUs, of 3 GB. The versions are the newest that
# go together on Python 3.11. What a checkout of MLCommons' imports differs.
TOGETHER = ["hydra-core==1.3.2", "tensorflow-cpu==2.15.1"]
PACKAGES = {"dlio": [["--no-deps", "dlio_benchmark==2.0.0", "pydftracer==1.0.9"], TOGETHER],
            "dlio-newer": [["--no-deps", "pydftracer==2.0.6"], TOGETHER]}
PARTS = ("compute", "device", "reads", "files")

WORKLOAD = "retinanet_b200"
STEPS = 20  # of an epoch of the many files: enough for the list to be made, cut, sent and used


def install(folder):
    """A Python that has DLIO."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(os.path.join(folder, "complete")):
        return python
    say("installing DLIO")
    run(["/usr/bin/python3", "-m", "venv", "--clear", "--system-site-packages", folder])
    for packages in PACKAGES[os.path.basename(folder)]:
        run([python, "-m", "pip", "install", "-q", *packages])
    open(os.path.join(folder, "complete"), "w").close()
    return python


class Bench:
    def __init__(self, args, work, results):
        self.args, self.work, self.results = args, work, results
        self.shoal = os.path.abspath(os.path.join(args.build, "shoal"))
        checkout = os.environ.get("SHOAL_DLIO_MLCOMMONS")
        self.dlio_name = "MLCommons" if checkout else "PyPI 2.0.0"
        python = install(os.path.abspath(os.path.join(args.build, "dlio-newer" if checkout else "dlio")))
        self.dlio_command = [python, "-c", "from dlio_benchmark.main import main; main()"]
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                        HYDRA_FULL_ERROR="1", PYTHONPATH=os.path.abspath(checkout) if checkout else "",
                        PATH=os.path.join(work, "bin") + os.pathsep + os.environ["PATH"])
        # MLCommons' empties the page cache of the whole machine by sudo.
        os.makedirs(os.path.join(work, "bin"))
        with open(os.open(os.path.join(work, "bin", "sudo"), os.O_CREAT | os.O_WRONLY, 0o755), "w") as file:
            file.write("#!/bin/sh\nexit 1\n")
        self.workload = self.workload_file(WORKLOAD)

    def workload_file(self, name):
        """One that Shoal ships, where DLIO looks for it."""
        path = os.path.join(self.work, "conf", "workload", name + ".yaml")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if not os.path.exists(path):  # sets that are measured side by side may need it at the same time
            shutil.copy(os.path.join(root, "workloads", name + ".yaml"), path + ".new")
            os.rename(path + ".new", path)
        return path

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
        command = [*self.dlio_command, "--config-dir=" + os.path.join(self.work, "conf"), "workload=" + WORKLOAD,
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
            forget(folder)
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

    def files(self):
        """What the number of files costs."""
        self.compare("Real sizes", self.args.files, 322_957, 0)
        few = self.compare("Few files", 2400, 2000, STEPS)
        many = self.compare("Many files", self.args.many, 2000, STEPS)
        more = self.args.many - 2400
        rows = [[tool, (many[tool]["pss"] - few[tool]["pss"]) / more] for tool in many]
        table("What a file more costs a node, all processes together", ["", "bytes a file"], rows)
        for tool, value in rows:
            self.results.add("dlio", tool + " bytes a file", self.args.many, value, "bytes")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS), help="of %s (default all)" % ", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=3, help="of each tool, for compute, device and reads (default 3)")
    parser.add_argument("--sets", metavar="NAMES", help="for compute, device and reads: retinanet, unet3d, resnet50, cosmoflow (default all)")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="sets that are measured side by side, for the same (default 1)")
    parser.add_argument("--files", type=int, default=5000, help="of 322,957 bytes (default 5000)")
    parser.add_argument("--many", type=int, default=200_000, help="of 2 KB (default 200000)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4, help="readers of a rank: DLIO's processes, Shoal's requests")
    parser.add_argument("--work", metavar="DIR", help="for the data; default a temporary folder")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    args.only = args.only.split(",")
    if not set(args.only) <= set(PARTS):
        parser.error("--only: of %s" % ", ".join(PARTS))
    results = Results()
    with tempfile.TemporaryDirectory(dir=args.work, prefix="shoal-dlio-") as work:
        try:
            bench = Bench(args, work, results)
            limits = [part for part in ("compute", "device", "reads") if part in args.only]
            if limits:
                Utilisation(bench).run(limits)
            if "files" in args.only:
                bench.files()
        except (Failed, TimeoutError) as e:
            print("bench/dlio.py: %s" % e, file=sys.stderr)
            return 1
    results.summary()
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results.figures, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
