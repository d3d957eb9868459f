#!/usr/bin/env python3
"""What an unmodified mlpstorage costs around Shoal: the whole command, beside the same command with a dlio_benchmark that does
nothing, and beside `mpirun shoal run` alone, by turns.

    SHOAL_MLPSTORAGE=DIR bench/mlpstorage.py [--build DIR] [--runs N] [--json FILE]

DIR is a checkout of mlcommons/storage, 3.0 or newer; SHOAL_MLPSTORAGE_PYTHON is a Python that has what it imports. Two ranks read
retinanet's workload with small files, so that starting is nearly all that there is. mlpstorage collects facts about the hosts before
and after, which takes seconds whatever it starts: so the figure is what is left of its time without that and without `shoal run`."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from common import Failed, Results, median_usage, run, run_measured, say, table

RANKS, FILES = 2, 2400
MORE_SECONDS = 2.0  # that may be left
KEYS = ["dataset.num_files_train=%d" % FILES, "train.epochs=1"]
SMALL = ["dataset.record_length_bytes=4096", "dataset.record_length_bytes_stdev=0"]
MPI = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")


class Bench:
    def __init__(self, build, work):
        self.work, self.shoal = work, os.path.abspath(os.path.join(build, "shoal"))
        self.python = os.environ.get("SHOAL_MLPSTORAGE_PYTHON", sys.executable)
        self.checkout = os.path.abspath(os.environ["SHOAL_MLPSTORAGE"])
        self.conf = os.path.join(self.checkout, "configs", "dlio", "workload")
        self.make_commands(build)
        run([self.shoal, "datagen", "retinanet_b200", "--data", os.path.join(work, "data", "retinanet"), "--no-catalog", "-q", *KEYS, *SMALL])
        self.mlpstorage("init", "acme", os.path.join(work, "results"))

    def make_commands(self, build):
        """The two that mlpstorage is given as dlio_benchmark: Shoal's, and one that does nothing."""
        env = dict(os.environ, PYTHONPATH=os.path.abspath(os.path.join(build, "python")), SHOAL=self.shoal)
        run([sys.executable, "-m", "shoal.dlio.shim", "install", os.path.join(self.work, "shoal")], env=env)
        os.mkdir(os.path.join(self.work, "nothing"))
        with open(os.open(os.path.join(self.work, "nothing", "dlio_benchmark"), os.O_CREAT | os.O_WRONLY, 0o755), "w") as file:
            file.write("#!/bin/sh\nexit 0\n")

    def mlpstorage(self, *words):
        env = dict(MPI, PYTHONPATH=self.checkout)
        return run_measured([self.python, "-m", "mlpstorage_py.main", *words], env=env, limit=300)

    def training(self, which):
        """mlpstorage, which starts one of the two commands."""
        used = self.mlpstorage("open", "training", "retinanet", "run", "file", "--hosts", "127.0.0.1", "--results-dir", os.path.join(self.work, "results"),
                               "--systemname", "here", "--allow-run-as-root", "--oversubscribe", "--data-dir", os.path.join(self.work, "data"),
                               "--dlio-bin-path", os.path.join(self.work, which), "--accelerator-type", "b200", "--num-accelerators", str(RANKS),
                               "--client-host-memory-in-gb", "1", "--num-client-hosts", "1", "-aip", "--params", *KEYS)
        runs = os.path.join(self.work, "results", "open", "acme", "results", "here", "training", "retinanet", "run")
        last = max(name for name in os.listdir(runs) if os.path.isdir(os.path.join(runs, name)))
        if os.path.exists(os.path.join(runs, last, "summary.json")) != (which == "shoal"):
            raise Failed("mlpstorage did not start the command that it was given")
        return used

    def alone(self):
        results = os.path.join(self.work, "alone")
        shutil.rmtree(results, ignore_errors=True)
        return run_measured(["mpirun", "-n", str(RANKS), "--bind-to", "none", self.shoal, "run", os.path.join(self.conf, "retinanet_b200.yaml"), "--data",
                             os.path.join(self.work, "data", "retinanet"), "--results", results, "-q", "--drop-cache", "metric.au=0", *KEYS], env=MPI, limit=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--runs", type=int, default=5, help="of each (default 5)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.environ.get("SHOAL_MLPSTORAGE"):
        parser.error("SHOAL_MLPSTORAGE must name a checkout of mlcommons/storage")
    results, found = Results(), {"mlpstorage, nothing": [], "mlpstorage, Shoal": [], "shoal run alone": []}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="shoal-mlpstorage-") as work:
        try:
            bench = Bench(args.build, work)
            for turn in range(args.runs):
                for name, measure in zip(found, (lambda: bench.training("nothing"), lambda: bench.training("shoal"), bench.alone)):
                    say("%s, run %d of %d" % (name, turn + 1, args.runs))
                    found[name].append(measure())
        except (Failed, subprocess.SubprocessError) as e:
            print("bench/mlpstorage.py: %s" % e, file=sys.stderr)
            return 1
    nothing, shoal, alone = (median_usage(usages) for usages in found.values())
    verdict = results.judge("mlpstorage", "seconds beyond what it takes by itself and shoal run", FILES, shoal.wall - nothing.wall - alone.wall, "s", MORE_SECONDS)
    table("mlpstorage and Shoal, %d ranks, %d files, medians of %d by turns" % (RANKS, FILES, args.runs), ["", "wall s", "least", "most", "CPU s"],
          [[name, median_usage(usages).wall, min(u.wall for u in usages), max(u.wall for u in usages), median_usage(usages).cpu] for name, usages in found.items()],
          ["beyond mlpstorage by itself and shoal run alone: %.2f s, %s" % (shoal.wall - nothing.wall - alone.wall, verdict),
           "load average %.1f before, %.1f after" % (load, os.getloadavg()[0])])
    results.summary()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results.figures, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
