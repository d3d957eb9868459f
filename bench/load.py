"""Loading files: shoal read against fio, a hand-written pread loop, xargs cat and PyTorch's
DataLoader, on the same files in the same run; the loader itself on a store that makes bytes up; its
memory over all processes; and the time to its first batch. A part of bench/run.py.

Sets of files are made in $BENCH_TREES, and stay there for the next time; or else in the work
directory, and are removed. $BENCH_SETS has only some of them read: "16k,140m". Before each run the
files' own pages are dropped from the page cache, which needs no root; names and inodes stay. fio reads a file of its own with as many bytes, in
requests of a file's size: with so many files it would be busy choosing one.
"""

import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

import pss
from common import Failed, count, run, run_measured, say, table
from listing import MPI_ENV

TIME_LIMIT = 600  # s: nothing here takes that long but what hangs
SEED = 1

Set = collections.namedtuple("Set", "name files size")
# names: for memory and the first batch; node_names: of the run with many ranks.
Mode = collections.namedtuple("Mode", "sets tries names node_names null_samples")
SETS = (Set("16k", 200_000, 16 << 10), Set("300k", 20_000, 300_000), Set("140m", 16, 140_000_000))
QUICK = (Set("16k-quick", 4_000, 16 << 10), Set("300k-quick", 600, 300_000),
         Set("140m-quick", 3, 140_000_000))
MODES = {
    "quick": Mode(QUICK, 2, (10_000, 10**8), 1_000_000, 300_000),
    "default": Mode(SETS, 3, (10_000, 10**8), 7_646_857, 3_000_000),
    "full": Mode(SETS, 5, (10_000, 10**8), 7_646_857, 3_000_000),
}
RANKS, RANK_IN_FLIGHT = 12, 16
NODE_BASE = 100_000  # names that are few, but take long enough to be seen
LOAD_THREADS = (1, 2, 4, 8, 16, 32)
WORKERS = (2, 4, 8)
LARGE = 1 << 20  # bytes: larger samples are read in pieces of this

# Which python3 has torch: Debian's, whatever started this.
TORCH_PYTHON = "/usr/bin/python3"
TORCH_CHILD = """
import resource, sys, time
import torch.utils.data
class Files(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        with open(self.paths[i], "rb") as f:
            return f.read()
def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
paths = [line.split("\\t")[0] for line in open(sys.argv[1])]
loader = torch.utils.data.DataLoader(Files(paths), batch_size=int(sys.argv[3]), collate_fn=list,
                                     num_workers=int(sys.argv[2]))
before, start, nr, size = cpu(), time.monotonic(), 0, 0
for batch in loader:
    nr += len(batch)
    size += sum(map(len, batch))
seconds = time.monotonic() - start
del loader, batch
print(nr / seconds, size / seconds / 1e6, (cpu() - before) / nr * 1e6)
"""

# What a way took: files a second, MB a second, microseconds of CPU a file.
Took = collections.namedtuple("Took", "rate mb cpu")
# kind: what it is compared as. cold: the files' pages are dropped first.
Way = collections.namedtuple("Way", "title kind take")


def best(took):
    """The fastest try's rate, and the least CPU of any: other work only adds to either."""
    return Took(max(t.rate for t in took), max(t.mb for t in took), min(t.cpu for t in took))


class Load:
    """The part; @bench is run.py's Bench."""

    def __init__(self, bench, build):
        self.mode = MODES[bench.mode.name]
        self.results = bench.results
        self.shoal = os.environ.get("BENCH_SHOAL") or bench.shoal
        self.pread_loop = os.path.join(build, "bench", "pread_loop")
        self.gen_names = os.path.join(build, "bench", "gen_names")
        self.work = os.path.join(bench.work, "load")
        self.trees = os.environ.get("BENCH_TREES") or os.path.join(self.work, "trees")
        self.fio_file = os.path.join(self.work, "fio")
        self.notes = []

    # -- sets of files

    def make(self, files):
        """The directory of a set, which is made unless it is there; None when there is no room."""
        path = os.path.join(self.trees, "load-" + files.name)
        done = os.path.join(path, ".done")
        room = os.statvfs(self.trees)
        if os.path.exists(done):
            return path
        if room.f_files and room.f_favail < files.files * 1.05:
            print("\n%s: skipped: it needs %s inodes, and %s has %s left; set BENCH_TREES"
                  % (files.name, count(files.files), self.trees, count(room.f_favail)))
            return None
        if room.f_bavail * room.f_frsize < 2.2 * files.files * files.size:
            print("\n%s: skipped: not enough room in %s; set BENCH_TREES" % (files.name, self.trees))
            return None
        say("making %s: %s files of %s bytes" % (files.name, count(files.files), count(files.size)))
        noise = os.urandom((64 << 20) + 4099)
        for i in range(files.files):
            if i % 1000 == 0:
                folder = os.path.join(path, "%04d" % (i // 1000))
                os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%06d.bin" % i), "wb") as f:
                left = files.size
                while left > 0:
                    begin = (i * 4099 + left) % (len(noise) // 2)
                    left -= f.write(noise[begin:begin + min(left, len(noise) // 2)])
        with open(done, "w", encoding="ascii"):
            pass
        os.sync()
        return path

    def list_files(self, path):
        """'path<tab>size' lines in a random order, and the paths."""
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(path)
                 for name in names if name != ".done"]
        random.Random(SEED).shuffle(paths)
        listed = os.path.join(self.work, "list")
        with open(listed, "w", encoding="utf-8") as f:
            for name in paths:
                f.write("%s\t%d\n" % (name, os.path.getsize(name)))
        with open(listed + "0", "w", encoding="utf-8") as f:
            f.writelines(name + "\0" for name in paths)
        return listed, paths

    def drop(self, paths):
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    # -- ways to read

    def take_shoal(self, catalog, files, *options):
        facts = json.loads(run([self.shoal, "read", catalog, "--json", "-q",
                                *(["--pieces", "--slot", "1M", "--batch", "16"] if files.size > LARGE else []),
                                *options],
                               timeout=TIME_LIMIT))
        audit = facts["audit"]
        if not audit["exactly_once"] or facts["samples"] != files.files:
            raise Failed("shoal read did not read every sample once: %s" % facts)
        if "--direct" in options and audit["bytes_from_device"] is not None and \
                audit["bytes_from_device"] < facts["bytes"]:
            raise Failed("shoal read --direct had fewer bytes from the device than it delivered")
        return Took(facts["samples"] / facts["seconds"], facts["bytes"] / facts["seconds"] / 1e6,
                    facts["cpu_us_per_sample"])

    def take_pread(self, listed, threads, how):
        with open(listed, encoding="utf-8") as f:
            return Took(*map(float, run([self.pread_loop, str(threads), how], stdin=f,
                                        timeout=TIME_LIMIT).split()))

    def take_cat(self, listed, files):
        used = run_measured(["bash", "-c", "xargs -0 -n 500 cat < '%s0' > /dev/null" % listed],
                            limit=TIME_LIMIT)
        return Took(files.files / used.wall, files.files * files.size / used.wall / 1e6,
                    used.cpu / files.files * 1e6)

    def take_torch(self, listed, workers, files):
        batch = 32 if files.size <= LARGE else 1
        return Took(*map(float, run([TORCH_PYTHON, "-c", TORCH_CHILD, listed, str(workers), str(batch)],
                                    timeout=TIME_LIMIT, stdin=subprocess.DEVNULL).split()))

    def take_fio(self, files, paths, engine, direct):
        """A request is a file, or a MiB of one; CPU and rates are of files."""
        large = files.size > LARGE
        block = LARGE if large else -(-files.size // 4096) * 4096
        argv = ["fio", "--bs=%d" % block, "--direct=%d" % direct, "--group_reporting",
                "--output-format=json", "--invalidate=1"]
        argv += (["--ioengine=io_uring", "--iodepth=64", "--fixedbufs", "--registerfiles"]
                 if engine == "io_uring" else ["--ioengine=psync", "--thread"])
        if not large:
            argv += ["--name=x", "--filename=" + self.fio_file, "--size=%d" % (files.files * block),
                     "--rw=randread", "--norandommap", "--randrepeat=0"]
            if engine == "psync":
                argv += ["--numjobs=16", "--io_size=%d" % (files.files * block // 16)]
        elif engine == "io_uring":
            argv += ["--name=x", "--rw=read", "--filename=" + ":".join(paths)]
        else:  # a thread for each file
            argv += ["--rw=read"] + [word for i, path in enumerate(paths)
                                     for word in ("--name=x%d" % i, "--filename=" + path)]
        facts = json.loads(run(argv, timeout=TIME_LIMIT))
        job = facts["jobs"][0]
        read = job["read"]
        seconds = read["runtime"] / 1e3
        per_file = max(files.size / block, 1) if large else 1
        nr = read["total_ios"] / per_file
        busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
        return Took(nr / seconds, read["bw_bytes"] / 1e6 * (files.size / block if not large else 1),
                    busy / nr * 1e6)

    def ways(self, files, catalog, listed, paths):
        ways = {"direct": [], "buffered": []}
        for how in ways:
            option = ["--direct"] if how == "direct" else []
            for engine, in_flight in (("uring", 16), ("uring", 64), ("uring", 128), ("threads", 16)):
                ways[how].append(Way("shoal, %s %d" % (engine, in_flight), "shoal", lambda o=(
                    "--engine", engine, "--in-flight", str(in_flight), "--prefetch", "4", *option):
                                     self.take_shoal(catalog, files, *o)))
            if shutil.which("fio"):
                for engine in ("io_uring", "psync"):
                    ways[how].append(Way("fio %s" % engine, "fio", lambda e=engine, d=how == "direct":
                                         self.take_fio(files, paths, e, d)))
            for threads in LOAD_THREADS:
                ways[how].append(Way("pread loop, %d" % threads, "pread", lambda t=threads, h=how:
                                     self.take_pread(listed, t, h)))
        ways["buffered"].append(Way("xargs cat", "cat", lambda: self.take_cat(listed, files)))
        if self.torch:
            for workers in WORKERS:
                ways["buffered"].append(Way("DataLoader, %d workers" % workers, "torch",
                                            lambda w=workers: self.take_torch(listed, w, files)))
        return ways

    # -- speed

    def time_cached(self, files, catalog, listed):
        """Files in the page cache: the disk, which gives all readers the same, is not what is measured."""
        if not self.torch:
            return
        ways = [Way("shoal, %s" % engine, "shoal", lambda e=engine: self.take_shoal(
            catalog, files, "--engine", e, "--batch", "256", "--prefetch", "4")) for engine in ("uring", "threads")]
        ways += [Way("pread loop, %d" % threads, "pread", lambda t=threads: self.take_pread(listed, t, "buffered"))
                 for threads in (1, 2, 4)]
        ways += [Way("DataLoader, %d workers" % workers, "torch", lambda w=workers: self.take_torch(listed, w, files))
                 for workers in WORKERS]
        run(["bash", "-c", "xargs -0 -n 500 cat < '%s0' > /dev/null" % listed], timeout=TIME_LIMIT)
        took = {way.title: [] for way in ways}
        for attempt in range(self.mode.tries):
            for way in ways:
                if way.kind != "torch" or attempt < 2:
                    say("%s, cached, %s" % (files.name, way.title))
                    took[way.title].append(way.take())
        self.speed_table(files, "cached", ways, {title: best(t) for title, t in took.items()})

    def tries(self, files):
        """Few files take a second only, in which the disk's moods tell more than who reads."""
        return self.mode.tries if files.files > 100 else 2 * self.mode.tries + 1

    def time_set(self, files):
        path = self.make(files)
        if not path:
            return
        catalog = os.path.join(self.work, "catalog")
        run([self.shoal, "index", path, "-q", "--exclude", ".done", "-o", catalog])
        listed, paths = self.list_files(path)
        tries = self.tries(files)
        for how, ways in self.ways(files, catalog, listed, paths).items():
            took = {way.title: [] for way in ways}
            for attempt in range(tries):  # in turn, so that other work here hits all alike
                # And back: disks that are lent out are fast for some gigabytes, and then not.
                for way in ways if attempt % 2 == 0 else reversed(ways):
                    if way.kind == "torch" and attempt > 1:
                        continue  # it takes as long as all others together
                    say("%s, %s, %s" % (files.name, how, way.title))
                    self.drop(paths)
                    took[way.title].append(way.take())
            self.speed_table(files, how, ways, {title: best(t) for title, t in took.items()})
        if files.name.startswith("16k"):
            self.time_cached(files, catalog, listed)
        if path.startswith(self.work):
            run(["rm", "-rf", path])
        for name in (self.fio_file, catalog):
            if os.path.exists(name):
                os.unlink(name)

    def speed_table(self, files, how, ways, took):
        group = "loading, " + how
        lines = []
        for way in ways:
            t = took[way.title]
            lines.append([way.title, t.rate, t.mb, t.cpu])
            self.results.add(group, "%s, %s" % (files.name, way.title), files.files, t.rate, "files/s",
                             mb=t.mb, cpu_us=t.cpu)
        table("Loading %s files of %s bytes, %s: best of %d"
              % (count(files.files), count(files.size), "from the page cache" if how == "cached" else how + ", data not in memory",
                 self.tries(files)),
              ["", "files/s", "MB/s", "CPU us/file"], lines, self.notes)
        self.judge_set(files, how, ways, took)

    def judge_set(self, files, how, ways, took):
        """The issue's figures: against the fastest of each kind of peer."""
        def top(kind):
            names = [way.title for way in ways if way.kind == kind]
            return max(names, key=lambda name: took[name].rate) if names else None
        shoal, lines = top("shoal"), []

        def judge(what, value, unit, target, at_least):
            verdict = self.results.judge("loading, " + how, "%s, %s" % (files.name, what), files.files,
                                         value, unit, target, at_least=at_least)
            lines.append([what, value, unit, ("at least " if at_least else "at most ") + str(target), verdict])

        kind = files.name.split("-")[0]
        if how == "direct" and top("fio"):
            judge("share of fio's rate (%s)" % top("fio"), took[shoal].rate / took[top("fio")].rate, "",
                  0.6 if kind == "16k" else 0.95, True)
        if how == "direct" and kind in ("16k", "300k"):
            cpu = min(took[way.title].cpu for way in ways if way.title.startswith("shoal, uring"))
            judge("CPU a file", cpu, "us", 8 if kind == "16k" else 15, False)
        if how == "buffered":
            judge("share of the best pread loop (%s)" % top("pread"),
                  took[shoal].rate / took[top("pread")].rate, "", 1, True)
        if how != "direct" and kind == "16k" and top("torch"):
            torch = took[top("torch")]
            judge("times DataLoader's rate (%s)" % top("torch"), took[shoal].rate / torch.rate, "x", 5, True)
            if top("fio"):
                lines.append(["times DataLoader's rate that the disk gives (%s)" % top("fio"),
                              took[top("fio")].rate / torch.rate, "x", "", ""])
            judge("share of DataLoader's CPU", took[shoal].cpu / torch.cpu, "", 0.25, False)
        if lines:
            table("", ["asked for", "", "", "", ""], lines)

    # -- the loader itself

    def pattern(self, names):
        """A catalog of so many names that are nowhere."""
        path = os.path.join(self.work, "names-%d" % names)
        if not os.path.exists(path):
            run([self.shoal, "index", "--pattern", "img_{:09d}.jpeg", "--count", str(names), "--size", "300000",
                 "--root", "/nowhere", "-q", "-o", path])
        return path

    def sized(self, names):
        """One with sizes that differ, as real ones do."""
        path = os.path.join(self.work, "sized-%d" % names)
        if not os.path.exists(path):
            say("a catalog of %s names with sizes" % count(names))
            run(["bash", "-c", "'%s' dlio %d --sizes 300000,80000 | '%s' index - -q --root /nowhere -o '%s'"
                 % (self.gen_names, names, self.shoal, path)])
        return path

    def read_null(self, catalog, *options):
        return json.loads(run([self.shoal, "read", catalog, "--json", "-q", "--data", "null", *options],
                              timeout=TIME_LIMIT))

    def time_null(self):
        lines = []
        for size in (1000, 16384):
            facts = [self.read_null(self.pattern(self.mode.null_samples), "--object-size", str(size),
                                    "--batch", "256") for _ in range(self.mode.tries)]
            cpu = min(fact["cpu_us_per_sample"] for fact in facts)
            wall = max(fact["samples"] / fact["seconds"] for fact in facts)
            verdict = None
            if size == 1000:
                verdict = self.results.judge("loading", "null store, samples/s a core", self.mode.null_samples,
                                             1e6 / cpu, "/s", 300_000, at_least=True)
            lines.append(["%s bytes" % count(size), 1e6 / cpu, wall, cpu, verdict])
        table("The loader itself: %s samples that a store makes up" % count(self.mode.null_samples),
              ["", "samples/s a core", "samples/s", "CPU us", "asked: 300,000"], lines)

    def time_first(self):
        lines = []
        for title, make in (("equal sizes", self.pattern), ("different sizes", self.sized)):
            for names in self.mode.names:
                catalog = make(names)
                first = [self.read_null(catalog, "--steps", "1", "--object-size", "300000")["first_batch_seconds"] * 1e3
                         for _ in range(2 * self.mode.tries + 1)]
                median = statistics.median(first[1:])
                verdict = self.results.judge("loading", "time to the first batch, " + title, names, median, "ms", 100)
                lines.append(["%s names, %s" % (count(names), title), median, min(first), first[0], verdict])
        table("From the start of the command to the first batch of 32 samples of 300 KB, ms",
              ["", "median", "least", "first try", "asked: 100"], lines)

    # -- memory

    def watch(self, argv):
        peak = pss.measure(argv, 0.02, TIME_LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           env=dict(os.environ, **MPI_ENV))
        if peak.rc != 0:
            raise Failed("%s: status %d" % (" ".join(argv), peak.rc))
        return peak

    def watch_one(self):
        lines = []
        for names in self.mode.names:
            steps = ["--object-size", "300000", "--steps", "400"]
            pool = self.read_null(self.pattern(names), *steps)["pool_bytes"]
            peak = self.watch([self.shoal, "read", self.pattern(names), "--json", "--data", "null", *steps])
            over = (peak.total - pool) / 1e6
            verdict = self.results.judge("loading", "memory of a rank beyond its pool", names, over, "MB", 8)
            lines.append(["%s names" % count(names), peak.total / 1e6, pool / 1e6, over, verdict])
        table("Memory of one rank, MB: peak of Pss", ["", "all", "pool", "beyond it", "asked: 8"], lines)

    def watch_node(self):
        """Many ranks, few names and many: what the names cost on a node, catalog and all."""
        if not shutil.which("mpirun"):
            print("\nMemory of a node: skipped: mpirun is not installed")
            return
        totals = []
        for names in (NODE_BASE, self.mode.node_names):
            say("%d ranks, %s names" % (RANKS, count(names)))
            totals.append(self.watch(["mpirun", "-n", str(RANKS), self.shoal, "read", self.sized(names), "--json", "-q",
                                      "--data", "null", "--object-size", "4096", "--batch", "16", "--in-flight",
                                      str(RANK_IN_FLIGHT)]).total)
        a_file = (totals[1] - totals[0]) / (self.mode.node_names - NODE_BASE)
        verdict = self.results.judge("loading", "memory a file, %d ranks x %d in flight" % (RANKS, RANK_IN_FLIGHT),
                                     self.mode.node_names, a_file, "bytes", 8)
        table("Memory of a node, %d ranks with %d samples in flight each, whole epochs: peak of the sum of Pss"
              % (RANKS, RANK_IN_FLIGHT), ["", "MB", "bytes a file", "asked: 8"],
              [["%s names" % count(NODE_BASE), totals[0] / 1e6, None, None],
               ["%s names" % count(self.mode.node_names), totals[1] / 1e6, a_file, verdict]])

    # -- the part

    def run(self):
        self.torch = os.access(TORCH_PYTHON, os.X_OK) and subprocess.run(
            [TORCH_PYTHON, "-c", "import torch"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        self.notes = ["fio reads one file of the same length in requests of a file's size, and opens nothing;"
                      " large files it reads in requests of 1 MiB.",
                      "DataLoader's dataset returns the bytes of the file; CPU is of all its processes; it is tried twice."]
        missing = [name for name, there in (("fio", shutil.which("fio")), ("torch", self.torch)) if not there]
        if missing:
            self.notes.append("Not installed and left out: %s." % ", ".join(missing))
        if not os.access(self.pread_loop, os.X_OK):
            raise Failed("%s is not there: build it first (meson setup, ninja)" % self.pread_loop)
        for path in (self.work, self.trees):
            os.makedirs(path, exist_ok=True)
        chosen = os.environ.get("BENCH_SETS", "")
        try:
            if not chosen:
                self.time_null()
                self.time_first()
                self.watch_one()
                self.watch_node()
            for files in self.mode.sets:
                if not chosen or files.name in chosen.split(","):
                    self.time_set(files)
        finally:
            subprocess.run(["rm", "-rf", self.work], check=False)  # much faster than rmtree()
        sys.stdout.flush()
