"""What `shoal run` itself costs: the start, the loop and its barrier, and memory, on stores that take no time."""

import json
import os
import shutil
import statistics
import subprocess

import pss
from common import Failed, number, say, table

FILES_START = 8_345_048
FILES_MEMORY = 7_646_857
START_TARGET = 2.0  # s
AU_TARGET = 95.0  # percent
RANK_TARGET = 5.0  # percent of a core, of a rank that waits
PER_CORE_TARGET = 100  # accelerators
BYTES_TARGET = 8.0  # a file a node
TIME_LIMIT = 300  # s

WORKLOAD = "retinanet_b200"
BATCH, COMPUTE = 24, 0.04755  # of that workload
DEMAND = BATCH / COMPUTE  # samples/s of one accelerator

INSTANT = "null:size=1T,fill=none"  # not even bytes are made

MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
}


class Running:
    def __init__(self, mode, build, work, results):
        self.mode, self.results = mode, results
        self.shoal = os.path.abspath(os.path.join(build, "shoal"))
        self.work = os.path.join(work, "run")
        os.makedirs(self.work)
        self.mpi = bool(shutil.which("mpirun"))
        self.nr = 0

    def argv(self, ranks, *args):
        """The command, with a fresh folder for its results."""
        self.nr += 1
        self.folder = os.path.join(self.work, "results%d" % self.nr)
        mpirun = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        return [*mpirun, self.shoal, "run", WORKLOAD, "--results", self.folder, "--quiet", "metric.au=0",
                *map(str, args)]

    def run(self, ranks, *args, before=()):
        """The summary of a run."""
        argv = [*before, *self.argv(ranks, *args)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT,
                              env=dict(os.environ, **MPI_ENV), check=False)
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(argv), done.stderr.decode(errors="replace").strip()))
        return self.summary()

    def summary(self):
        with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as f:
            facts = json.load(f)
        shutil.rmtree(self.folder)
        for phase in facts["shoal"]["phases"]:
            if phase["audit"]["exactly_once"] is not True:
                raise Failed("not every sample was read exactly once")
        return facts

    def catalog(self, files):
        path = os.path.join(self.work, "%d.shoal" % files)
        if not os.path.exists(path):
            width = len(str(files))
            subprocess.run([self.shoal, "index", "--pattern",
                            "train/img_{:0%dd}_of_%d.jpeg" % (width, files), "--count", str(files), "--size", "322957",
                            "--root", "null:size=1T", "-q", "-o", path], check=True)
        return path

    # -- the parts

    def start(self):
        ranks = 12 if self.mpi else 1
        rows = []
        for files in (1000 * ranks, FILES_START):
            say("start at %d files" % files)
            times = []
            for _ in range(3):
                facts = self.run(ranks, "--catalog", self.catalog(files), "--data", INSTANT, "train.epochs=1",
                                 "dataset.num_files_train=%d" % files, "train.total_training_steps=3")
                times.append(facts["shoal"]["seconds_to_first_batch"])
            seconds = statistics.median(times)
            rows.append([str(ranks), "{:,}".format(files), seconds, max(times)])
        verdict = self.results.judge("run", "start to first batch, 12 ranks", FILES_START, seconds, "s", START_TARGET)
        table("From the start of the program to the first batch on all ranks, with a catalog",
              ["ranks", "files", "s, median of 3", "s, worst"], rows,
              ["Target at %s files: %s s: %s" % ("{:,}".format(FILES_START), number(START_TARGET), verdict)])

    def loop(self):
        if not self.mpi:
            return
        say("24 ranks")
        steps = 60 if self.mode.name == "quick" else 200
        files = 24 * BATCH * steps
        facts = self.run(24, "--data", INSTANT, "train.epochs=1", "dataset.num_files_train=%d" % files)
        phase = facts["shoal"]["phases"][0]
        rank = 100 * phase["cpu_us_per_sample"] * 1e-6 * phase["audit"]["samples"] / phase["seconds"] / 24
        verdicts = [self.results.judge("run", "AU of 24 ranks, instant store", 24, phase["au_planned_percentage"], "%",
                                       AU_TARGET, at_least=True),
                    self.results.judge("run", "CPU of a rank that waits", 24, rank, "% of a core", RANK_TARGET)]
        table("24 ranks on %d cores, %d steps of retinanet's compute time, an instant store"
              % (len(os.sched_getaffinity(0)), steps),
              ["AU %", "AU %, by planned times", "% of a core a rank", "wait %"],
              [[phase["au_percentage"], phase["au_planned_percentage"], rank, 100 * phase["wait_share"]]],
              ["AU at least %s: %s; CPU at most %s: %s" % (number(AU_TARGET), verdicts[0], number(RANK_TARGET),
                                                           verdicts[1])])

    def accelerators(self):
        rows, best = [], 0
        for nr in (50, 100, 200, 400, 800):
            say("%d accelerators on a core" % nr)
            facts = self.run(1, "--data", INSTANT, "--accelerators-per-rank", nr, "train.epochs=1",
                             "dataset.num_files_train=%d" % (nr * BATCH * 40), before=["taskset", "-c", str(self.core())])
            phase = facts["shoal"]["phases"][0]
            core = phase["cpu_us_per_sample"] * 1e-6 * nr * DEMAND
            if phase["au_planned_percentage"] >= 85:
                best = nr
            rows.append([str(nr), phase["au_percentage"], phase["au_planned_percentage"],
                         phase["throughput_samples_per_second"], phase["cpu_us_per_sample"], 100 * core,
                         int(nr / core)])
        by_cpu = max(row[-1] for row in rows)
        verdict = self.results.judge("run", "accelerators a core, by CPU", by_cpu, by_cpu, "accelerators",
                                     PER_CORE_TARGET, at_least=True)
        self.results.add("run", "accelerators a core that kept AU over 85", best, best, "accelerators")
        table("Simulated accelerators (retinanet) in one process on one core, an instant store",
              ["accelerators", "AU %", "by planned times", "samples/s", "us of CPU a sample", "% of the core at 100 % AU",
               "fit by CPU"], rows, ["At least %d a core, by CPU: %s; AU over 85 was kept with %d"
                                     % (PER_CORE_TARGET, verdict, best)])

    @staticmethod
    def core():
        return max(os.sched_getaffinity(0))

    def memory(self):
        ranks = 12 if self.mpi else 1
        rows = []
        for files in (1000, FILES_MEMORY):
            say("memory at %d files" % files)
            argv = self.argv(ranks, "--catalog", self.catalog(files), "--data", "null", "--in-flight", 16,
                             "dataset.num_files_train=%d" % files,
                             *(["train.epochs=7"] if files == 1000 else ["train.epochs=1",
                                                                         "train.total_training_steps=21"]))
            peak = pss.measure(argv, limit=TIME_LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               env=dict(os.environ, **MPI_ENV))
            if peak.rc != 0:
                raise Failed("%s: status %d" % (" ".join(argv), peak.rc))
            node = self.summary()["shoal"]["memory_per_node"][0]
            rows.append([str(ranks), "{:,}".format(files), peak.total / 1e6, node["pss_bytes"] / 1e6,
                         node["pool_bytes"] / 1e6, node["catalog_bytes"] / 1e6])
        more = (rows[1][2] - rows[0][2]) * 1e6 / FILES_MEMORY
        verdict = self.results.judge("run", "memory above 1,000 files, 12 ranks", FILES_MEMORY, more, "bytes a file",
                                     BYTES_TARGET)
        table("Memory of a node, MB: 16 samples in flight and 72 slots of 323 KB a rank",
              ["ranks", "files", "peak Pss with mpirun", "Pss at the end", "buffers", "catalog"], rows,
              ["Above that of 1,000 files: %s bytes a file, target %s: %s"
               % (number(more), number(BYTES_TARGET), verdict)])
