"""The Python package against what people use instead: Datasets over list[str] and NumPy strings, DistributedSampler,
DataLoader reading files. A part of bench/run.py; each figure is taken by python_child.py in a process of its own.
"""

import collections
import json
import os
import subprocess

from common import Failed, count, parse_rows, run, say, table

NAMES = 7_646_857
HUGE = 10**8
LIMIT = 900  # s: nothing here takes that long but what hangs

# peers: names in a list; memory: names whose PSS is taken; epoch: samples of DistributedSampler; files: of 16 KB.
Mode = collections.namedtuple("Mode", "huge peers memory epoch files tries epochs")
MODES = {
    "quick": Mode(10**7, 200_000, 10**6, 10**6, 5_000, 1, 1),
    "default": Mode(HUGE, 10**6, NAMES, 10**7, 20_000, 2, 3),
    "full": Mode(HUGE, 10**6, NAMES, HUGE, 20_000, 3, 3),
}
FILE_BYTES = 16384
SMALL = 1000


class Python:
    def __init__(self, bench, build):
        self.bench = bench
        self.mode = MODES[bench.mode.name]
        self.results = bench.results
        self.package = os.path.join(build, "python")
        self.child = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_child.py")
        self.rows = {}

    def measure(self, *args):
        say(" ".join(map(str, args)))
        env = dict(os.environ, PYTHONPATH=self.package)
        args = [str(arg) for arg in args]
        try:
            done = subprocess.run([self.python, self.child, *args], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise Failed("python_child.py %s: still running after %d s" % (" ".join(args), LIMIT)) from None
        if done.returncode != 0:
            raise Failed("python_child.py %s: %s" % (" ".join(args), done.stderr.decode(errors="replace").strip()))
        rows = parse_rows(done.stdout.decode())
        self.rows.update(rows)
        return rows

    # ---- Catalogs ----

    def pattern(self, n):
        path = os.path.join(self.bench.work, "pattern%d.cat" % n)
        if not os.path.exists(path):
            say("a pattern of %s names" % count(n))
            run([self.bench.shoal, "index", "-q", "--pattern", "train/img_{:09d}_of_100000000.jpeg", "--count", str(n),
                 "--size", "64", "--root", "/data", "-o", path])
        return path

    def real(self, n):
        """Names as ImageNet has them, with sizes: nothing that a rule could replace."""
        path = os.path.join(self.bench.work, "names%d.cat" % n)
        if not os.path.exists(path):
            say("%s names" % count(n))
            gen = subprocess.Popen([self.bench.tool["gen_names"], "imagenet", str(n), "--sizes", "300,80"],
                                   stdout=subprocess.PIPE)
            with gen:
                run([self.bench.shoal, "index", "-q", "--root", "/data/imagenet/train", "-o", path, "-"], stdin=gen.stdout)
        return path

    def files(self, n):
        folder = os.path.join(self.bench.work, "files")
        for i in range(n):
            path = os.path.join(folder, "%03d" % (i % 100), "f%06d.bin" % i)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(os.urandom(FILE_BYTES))
        run([self.bench.shoal, "index", "-q", folder, "-o", folder + ".cat"])
        return folder + ".cat"

    # ---- Figures ----

    def pickles(self):
        m, rows = self.mode, []
        for n in (NAMES, m.huge):
            size = self.measure("pickle", self.pattern(n), "shoal")["pickle shoal", n]
            rows.append(["ShoalDataset", count(n), size, self.results.judge("python", "pickle", n, size, "bytes", 1000)])
        peers = self.measure("pickle", self.real(m.peers), "list[str]", "numpy")
        for kind in ("list[str]", "numpy"):
            size = peers["pickle " + kind, m.peers]
            self.results.add("python", "pickle of " + kind, m.peers, size, "bytes")
            rows.append([kind, count(m.peers), size, ""])
        table("What is pickled to each spawned worker", ["dataset", "names", "bytes", ""], rows)

    def starts(self):
        """Alternating, as the machine is not always equally busy; judged by CPU time, which is less disturbed."""
        m, rows, best = self.mode, [], {}
        for _ in range(m.tries):
            for kind, n in (("shoal", SMALL), ("shoal", NAMES), ("list[str]", m.peers)):
                got = self.measure("start", self.real(n), kind, "spawn")
                for what in ("start ", "start cpu "):
                    best[what, kind, n] = min(best.get((what, kind, n), 1e9), got[what + kind, n])
        base = best["start cpu ", "shoal", SMALL]
        for kind, n in (("shoal", SMALL), ("shoal", NAMES), ("list[str]", m.peers)):
            wall, cpu = best["start ", kind, n], best["start cpu ", kind, n]
            self.results.add("python", "start with 8 spawned workers, " + kind, n, wall, "s", cpu=cpu)
            verdict = ""
            if n == NAMES:
                verdict = self.results.judge("python", "start against 1,000 names, CPU", n, cpu / base, "times", 1.1)
            rows.append([kind, count(n), wall, cpu, cpu / base, verdict])
        table("DataLoader with 8 spawned workers: from iter() to the first batch",
              ["dataset", "names", "s", "CPU s", "against 1,000", ""], rows, ["the least of %d" % m.tries])

    def memory(self):
        m, rows = self.mode, []
        plan = [("shoal", "fork", m.memory), ("shoal", "spawn", m.memory), ("list[str]", "fork", m.peers),
                ("numpy", "fork", m.peers)]
        for kind, start, n in plan:
            key = "memory %s %s" % (kind, start)
            base = self.measure("memory", self.real(SMALL), kind, start, m.epochs)[key, SMALL]
            grown = self.measure("memory", self.real(n), kind, start, m.epochs)[key, n] - base
            verdict = ""
            if kind == "shoal":
                verdict = self.results.judge("python", "PSS growth of 9 processes, " + start, n, grown / n, "bytes a file", 8)
            else:
                self.results.add("python", "PSS growth of 9 processes, %s, %s" % (kind, start), n, grown / n, "bytes a file")
            rows.append([kind, start, count(n), base / 2**20, grown / 2**20, grown / n, verdict])
        table("Memory of the main process and 8 workers that live on, after every sample was touched in %d epochs (PSS)"
              % m.epochs, ["dataset", "start", "names", "MiB at 1,000", "grown MiB", "bytes a file", ""], rows)

    def epochs(self):
        m, rows = self.mode, []
        for which, n in (("shoal", m.huge), ("DistributedSampler", m.epoch)):
            got = self.measure("epoch", which, str(n))
            seconds, grown = got["epoch " + which, n], got["epoch memory " + which, n]
            verdict = ""
            if which == "shoal":
                verdict = self.results.judge("python", "set_epoch and first id", n, seconds * 1e3, "ms", 1)
                self.results.judge("python", "memory of set_epoch", n, grown / n, "bytes a sample", 0.1)
            else:
                self.results.add("python", "set_epoch of " + which, n, seconds * 1e3, "ms", memory=grown / n)
            rows.append([which, count(n), seconds * 1e3, grown / n, verdict])
        table("set_epoch() and the first id", ["sampler", "samples", "ms", "bytes a sample", ""], rows)

    def reading(self):
        m, rows = self.mode, []
        catalog = self.files(m.files)
        plan = (("list[str]", 4), ("ShoalDataset", 4), ("ShoalIterable", 0), ("ShoalIterable", 2))
        for kind, workers in plan:
            got = self.measure("reading", catalog, kind, str(workers))
            rate, cpu = (got["read %s%s %d" % (what, kind, workers), m.files] for what in ("", "cpu "))
            base = self.rows["read list[str] 4", m.files]
            base_cpu = self.rows["read cpu list[str] 4", m.files]
            verdict = ""
            if (kind, workers) == ("ShoalIterable", 0):
                self.results.judge("python", "ShoalIterable against list[str] with 4 workers, CPU", m.files, base_cpu / cpu,
                                   "times", 5, at_least=True)
                verdict = self.results.judge("python", "ShoalIterable against list[str] with 4 workers", m.files, rate / base,
                                             "times", 5, at_least=True)
            self.results.add("python", "reading by %s, %d workers" % (kind, workers), m.files, rate, "samples/s", cpu=cpu)
            rows.append([kind, workers, rate, rate * FILE_BYTES / 1e6, rate / base, verdict, cpu, base_cpu / cpu])
        table("Files of 16 KB from the page cache to batches of 256",
              ["dataset", "workers", "samples/s", "MB/s", "times", "", "CPU us a sample", "times less"], rows,
              ["on a busy machine wall times favour who has more processes"])

    # ---- Gathering ----

    def gather_size(self):
        """MB a rank: all_gather_object of 4 x 200 MB of strings takes 13 GB in all."""
        if self.bench.mode.name == "quick":
            return 20
        with open("/proc/meminfo", encoding="utf-8") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
        return 200 if free > 18e9 else 50

    def gather(self, size, kind, to="all", only=None):
        """Rows of gather_torch.py by way."""
        script = os.path.join(os.path.dirname(self.child), "gather_torch.py")
        argv = [self.python, script, "--json", "--ranks", "4", "--size", str(size), "--kind", kind, "--to", to]
        say("gather 4 x %d MB of %s" % (size, kind))
        done = subprocess.run(argv + (["--only", only] if only else []), env=dict(os.environ, PYTHONPATH=self.package),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        if done.returncode != 0:
            raise Failed("gather_torch.py: " + done.stderr.decode(errors="replace").strip()[-2000:])
        return {row["way"]: row for row in map(json.loads, done.stdout.splitlines())}

    def gathers(self):
        size, rows, budgets = self.gather_size(), [], 2 * 64e6 / 2**20
        # Records are six times as large in memory as when pickled: four ranks' results must fit.
        for kind, of in (("bytes", size), ("strings", size), ("records", min(size, 50))):
            got = self.gather(of, kind)
            base = got["all_gather_object"]["seconds"]
            for way, row in got.items():
                verdict = ""
                if way == "gather_objects":
                    verdict = self.results.judge("python", "gather beyond the result, " + kind, of, row["beyond"], "MiB",
                                                 budgets)
                    self.results.judge("python", "gather against all_gather_object, " + kind, of, row["seconds"] / base,
                                       "times", 1.3)
                    self.results.judge("python", "gather against all_gather_object, CPU, " + kind, of,
                                       row["cpu"] / got["all_gather_object"]["cpu"], "times", 1.3)
                rows.append([way, "%d MB of %s" % (of, kind), row["seconds"], row["cpu"], row["result"],
                             row["peak"], row["beyond"], verdict])
        row = self.gather(size, "strings", "path", "gather_objects")["gather_objects"]
        verdict = self.results.judge("python", "gather to a file, peak", size, row["peak"], "MiB", budgets)
        rows.append(["gather_objects to a file", "%d MB of strings" % size, row["seconds"], row["cpu"], row["result"],
                     row["peak"], row["beyond"], verdict])
        table("Gathering from 4 ranks over gloo, budget 64 MB; MiB beside the own object",
              ["", "of each rank", "s", "CPU s", "result", "peak", "beyond the result", ""], rows)

    def run(self):
        tool = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "python")
        self.python = run([tool, "numpy", "torch"]).strip()
        if not os.path.isdir(self.package):
            raise Failed("%s is not there: build it with Python's headers installed" % self.package)
        self.pickles()
        self.epochs()
        self.reading()
        self.gathers()
        self.starts()
        self.memory()
