"""Listing a directory tree: shoal index DIR against find, fd, bfs and Python, on the same tree in
the same run, and its memory over all processes. A part of bench/run.py.

Trees are made in $BENCH_TREES, and stay there for the next time; or else in the work directory, and
are removed. $BENCH_SHOAL is another shoal to measure than the build's.
"""

import collections
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys

import pss
from common import M, Failed, count, number, run, run_measured, say, table

MEAN, DEV = 300_000, 80_000  # bytes of a file
TIME_LIMIT = 900  # s: nothing here takes that long but what hangs
MEMORY = "256M"
MEMORY_LIMIT = 256 * 2**20 + 32 * 10**6  # bytes, over all processes of a run
GATHER_RANKS, GATHER_BYTES, GATHER_BUDGET = 4, 1_000_000_000, 16 << 20

Tree = collections.namedtuple("Tree", "name files folders")  # 0 folders: flat
# What a mode does. memory: trees whose listing is watched, with that many ranks.
Mode = collections.namedtuple("Mode", "timed tries cold_tries memory ranks")
QUICK = (Tree("flat100k", 100_000, 0), Tree("dirs100k", 100_000, 100))
TREES = (Tree("flat1m", M, 0), Tree("dirs1m", M, 1000))
BIG = (Tree("big", 8_345_048, 1000), Tree("bigflat", 4 * M, 0))
MODES = {
    "quick": Mode(QUICK, 3, 1, QUICK, (1, 2)),
    "default": Mode(TREES, 3, 2, TREES, (1, 2)),
    "full": Mode(TREES, 3, 2, BIG, (1, 2, 3, 5)),
}

# How many times as fast as the fastest peer of a kind Shoal shall be.
TARGETS = {
    ("shoal names", "unsorted", "warm"): 1.0, ("shoal names", "unsorted", "cold"): 1.0,
    ("shoal names", "sorted", "warm"): 3.0, ("shoal names", "sorted", "cold"): 3.0,
    ("shoal sizes", "find sizes", "warm"): 2.0, ("shoal sizes", "find sizes", "cold"): 1.3,
}

# What Open MPI needs to start ranks for root, more of them than cores, and with threads that may
# use any core; first as 4 reads it, then as 5 does. Others do not look at it.
MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}

# As DLIO does it: the whole list as strings, sorted.
SCANDIR_CHILD = """
import os, sys
def walk(path, prefix, names):
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                walk(entry.path, prefix + entry.name + "/", names)
            elif entry.is_file(follow_symlinks=False):
                names.append(prefix + entry.name)
names = []
walk(sys.argv[1], "", names)
sys.stdout.writelines(name + "\\n" for name in sorted(names))
"""

# A way to list a tree. `shell` has {dir} and {out}; `kind` says what it is compared as.
Way = collections.namedtuple("Way", "title kind shell")
# What a way took: Usages of each state.
Taken = collections.namedtuple("Taken", "warm cold")


def peers(work):
    """Ways of the peers that are installed, and the names of those that are not."""
    fd = next((name for name in ("fdfind", "fd") if shutil.which(name)), "fd")
    names = {
        "find": "find {dir} -type f -printf '%P\\n'",
        "fd": fd + " --type f -u --base-directory {dir}",
        "bfs": "bfs {dir} -type f -printf '%P\\n'",
    }
    sizes = {
        "find": "find {dir} -type f -printf '%s %P\\n'",
        "fd": "(cd {dir} && %s --type f -u -0 | xargs -0 stat -c '%%s %%n')" % fd,
        "bfs": "bfs {dir} -type f -printf '%s %P\\n'",
    }
    missing = [name for name, shell in names.items() if not shutil.which(shell.split()[0])]
    here = [name for name in names if name not in missing]
    sort = " | sort -S 256M -T %s > {out}" % shlex.quote(work)
    ways = [Way(name, "unsorted", names[name] + " > {out}") for name in here]
    ways += [Way(name + " | sort", "sorted", names[name] + sort) for name in here]
    ways += [Way("Python scandir, sorted()", "sorted", "%s -c %s {dir} > {out}" % (
        shlex.quote(sys.executable), shlex.quote(SCANDIR_CHILD)))]
    ways += [Way("fd -0 | xargs -0 stat" if name == "fd" else name + ", sizes",
                 "find sizes" if name == "find" else "other sizes", sizes[name] + " > {out}")
             for name in here]
    return ways, missing


def drop_caches():
    os.sync()  # what is dirty cannot be dropped
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
        f.write("3\n")


def can_drop_caches():
    return os.geteuid() == 0 and os.access("/proc/sys/vm/drop_caches", os.W_OK)


def count_lines(path):
    with open(path, "rb") as f:
        return sum(part.count(b"\n") for part in iter(lambda: f.read(1 << 20), b""))


def shell(command, **paths):
    """The argument vector of a command in which {dir}, {out} stand for paths."""
    for name, path in paths.items():
        command = command.replace("{%s}" % name, shlex.quote(path))
    return ["bash", "-c", "set -o pipefail; " + command]


class Listing:
    """The part; @bench is run.py's Bench."""

    def __init__(self, bench, build):
        self.mode = MODES[bench.mode.name]
        self.results = bench.results
        self.shoal = os.environ.get("BENCH_SHOAL") or bench.shoal
        self.make_tree, self.getdents_loop = (os.path.join(build, "bench", name)
                                              for name in ("make_tree", "getdents_loop"))
        self.gather_program = os.path.join(build, "tests", "comm_driver")
        self.work = os.path.join(bench.work, "listing")
        self.trees = os.environ.get("BENCH_TREES") or os.path.join(self.work, "trees")
        self.out, self.empty = (os.path.join(self.work, name) for name in ("out", "empty"))
        self.expected = {}  # by tree and whether with sizes: the sorted list that find makes
        self.mpi = bool(shutil.which("mpirun"))
        self.notes = []

    # -- trees

    def make(self, tree):
        """The path of a tree, which is made unless it is there; None when there is no room."""
        path = os.path.join(self.trees, tree.name)
        room = os.statvfs(self.trees)
        if not os.path.exists(path) and room.f_files and room.f_favail < tree.files * 1.05:
            print("\n%s: skipped: it needs %s inodes, and %s has %s left; set BENCH_TREES"
                  % (tree.name, count(tree.files), self.trees, count(room.f_favail)))
            return None
        say("making %s, %s files" % (tree.name, count(tree.files)))
        run([self.make_tree, path, str(tree.files), str(tree.folders), "--size", str(MEAN),
             "--dev", str(DEV)])
        return path

    def remove_tree(self, path):
        """A tree in the work directory: the next one may need its inodes."""
        if path.startswith(self.work):
            run(["rm", "-rf", path, path + ".tree"])

    # -- ways to list

    def mpirun(self, ranks):
        return "mpirun -n %d " % ranks if ranks > 1 else ""

    def shoal_ways(self):
        ways = []
        for ranks in (1, 2) if self.mpi else (1,):
            for title, option in (("names", "--no-sizes "), ("sizes", "")):
                way = ("shoal %s" % title if ranks == 1
                       else "mpirun -n %d shoal, %s" % (ranks, title))
                ways.append(Way(way, way, "%s%s index {dir} %s--quiet -o {out}" % (
                    self.mpirun(ranks), shlex.quote(self.shoal), option)))
        return ways

    def limit(self):
        """What the kernel alone takes to tell the names, with a thread for each core."""
        return Way("getdents64 alone, thrown away", "limit", "%s %d {dir} > {out}" % (
            shlex.quote(self.getdents_loop), min(len(os.sched_getaffinity(0)), 64)))

    def is_shoal(self, way):
        return "shoal" in way.title

    def run_way(self, way, path):
        if os.path.exists(self.out):
            os.unlink(self.out)
        os.sync()  # nobody pays for what another has written
        return run_measured(shell(way.shell, dir=path, out=self.out),
                            dict(MPI_ENV, LC_ALL="C"), TIME_LIMIT)

    def run_cold(self, way, path):
        """With nothing of the tree in memory, but with the programs, which is why each lists an
        empty directory first. Who fails there may still do well here."""
        drop_caches()
        try:
            self.run_way(way, self.empty)
        except Failed:
            pass
        return self.run_way(way, path)

    # -- checks

    def expect(self, path, sizes):
        key = path, sizes
        if key not in self.expected:
            say("the list to check against")
            self.expected[key] = os.path.join(self.work, "expected-%d" % len(self.expected))
            # By name alone: with the sizes behind them names could compare otherwise.
            run_measured(shell("find {dir} -type f -printf %s | sort -t '\t' -k1,1 -S 256M"
                               " -T {work} > {out}" % ("'%P\\t%s\\n'" if sizes else "'%P\\n'"),
                               dir=path, work=self.work, out=self.expected[key]),
                         {"LC_ALL": "C"}, TIME_LIMIT)
        return self.expected[key]

    def forget(self):
        """The lists to check against, when their tree has been."""
        for path in self.expected.values():
            os.unlink(path)
        self.expected = {}

    def check_catalog(self, what, path, sizes):
        """See that the catalog in `out` has the names, and sizes, that find finds, in order."""
        expected = self.expect(path, sizes)
        say("checking " + what)
        with subprocess.Popen([self.shoal, "ls", *(["--sizes"] if sizes else []), self.out],
                              stdout=subprocess.PIPE) as ls:
            done = subprocess.run(["cmp", "-", expected], stdin=ls.stdout, stderr=subprocess.STDOUT,
                                  stdout=subprocess.PIPE, check=False)
        if done.returncode != 0 or ls.returncode != 0:
            raise Failed("%s of %s: its catalog is not what find and sort give: %s"
                         % (what, path, done.stdout.decode(errors="replace").strip()))

    def check(self, way, tree, path):
        if self.is_shoal(way):
            self.check_catalog(way.title, path, "sizes" in way.title)
            return
        with open(self.out, encoding="ascii", errors="replace") as f:
            names = int(f.read()) if way.kind == "limit" else count_lines(self.out)
        if names != tree.files:
            raise Failed("%s: %d names in %s, which has %d" % (way.title, names, path, tree.files))

    # -- time

    def time_tree(self, tree):
        path = self.make(tree)
        if not path:
            return
        ways = peers(self.work)[0] + [self.limit()] + self.shoal_ways()
        taken = {way.title: Taken([], []) for way in ways}
        for way in ways:  # not timed: brings the tree into memory
            say("%s, warming up, %s" % (tree.name, way.title))
            self.run_way(way, path)
            self.check(way, tree, path)
        self.forget()
        for _ in range(self.mode.tries):  # in turn, so that other work here hits all alike
            for way in ways:
                say("%s, warm, %s" % (tree.name, way.title))
                taken[way.title].warm.append(self.run_way(way, path))
        if can_drop_caches():
            for _ in range(self.mode.cold_tries):
                for way in ways:
                    say("%s, cold, %s" % (tree.name, way.title))
                    taken[way.title].cold.append(self.run_cold(way, path))
        self.time_table(tree, ways, taken)
        self.ratio_table(tree, ways, taken)

    def time_table(self, tree, ways, taken):
        lines = []
        for way in ways:
            line = [way.title]
            for state in ("warm", "cold"):
                usages = getattr(taken[way.title], state)
                if not usages:
                    line += [None] * 4
                    continue
                walls = [used.wall for used in usages]
                best, median = min(walls), statistics.median(walls)
                cpu = min(used.cpu for used in usages)
                line += [best, median, cpu, tree.files / best / M]
                self.results.add("listing, " + state, "%s, %s" % (tree.name, way.title), tree.files,
                                 best, "s", median=median, cpu=cpu, tries=len(walls),
                                 command=way.shell)
            lines.append(line)
        table("Listing %s files %s, s" % (count(tree.files), "in one directory" if not tree.folders
                                          else "in %s directories" % count(tree.folders)),
              ["", "warm best", "median", "CPU", "M names/s", "cold best", "median", "CPU",
               "M names/s"], lines, self.notes)

    def ratio_table(self, tree, ways, taken):
        lines = []
        for (title, kind, state), target in TARGETS.items():
            rivals = [way.title for way in ways if way.kind == kind]
            walls = {name: [used.wall for used in getattr(taken[name], state)]
                     for name in [title, *rivals]}
            if not rivals or not walls[title]:
                continue
            rival = min(rivals, key=lambda name: min(walls[name]))
            ratio = min(walls[rival]) / min(walls[title])
            medians = statistics.median(walls[rival]) / statistics.median(walls[title])
            verdict = self.results.judge(
                "listing, times as fast", "%s %s, %s against %s" % (tree.name, state, title, rival),
                tree.files, ratio, "x", target, at_least=True, median=medians)
            peer = rival if kind == "find sizes" else "fastest %s: %s" % (kind, rival)
            lines.append(["%s, %s" % (title, state), peer, ratio, medians, target, verdict])
        table("Shoal, sorted and sealed, against peers on %s: times as fast" % tree.name,
              ["", "peer", "best", "median", "asked for", ""], lines)

    # -- memory

    def watch(self, tree, path, ranks, sizes):
        """List a tree under --memory, and see what all processes have together."""
        title = "%s, %s, %s" % (tree.name, "names and sizes" if sizes else "names",
                                "1 process" if ranks == 1 else "mpirun -n %d" % ranks)
        say("memory, " + title)
        if os.path.exists(self.out):
            os.unlink(self.out)
        argv = [*self.mpirun(ranks).split(), self.shoal, "index", path, "--memory", MEMORY,
                "--quiet", "-o", self.out, *([] if sizes else ["--no-sizes"])]
        try:
            peak = pss.measure(argv, limit=TIME_LIMIT, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env=dict(os.environ, **MPI_ENV))
        except TimeoutError as e:
            raise Failed(str(e)) from e
        if peak.rc != 0:
            raise Failed("%s: status %d" % (" ".join(argv), peak.rc))
        self.check_catalog(title, path, sizes)
        # The largest, not the sum: a rank that was seen before its exec has the launcher's name.
        launcher = max((p.peak for p in peak.processes
                        if p.name.startswith(("mpi", "prte", "orted", "hydra"))), default=0)
        largest = peak.processes[0].peak if peak.processes else 0
        verdict = self.results.judge("listing, peak memory of all processes", title, tree.files,
                                     peak.total / 1e6, "MB", MEMORY_LIMIT / 1e6,
                                     largest=largest, launcher=launcher, samples=peak.samples,
                                     seconds=peak.seconds,
                                     processes=[p._asdict() for p in peak.processes])
        return [title, peak.total / 1e6, MEMORY_LIMIT / 1e6, verdict, largest / 1e6,
                launcher / 1e6 if launcher else None, peak.seconds, peak.samples]

    def watch_all(self):
        lines = []
        for tree in self.mode.memory:
            path = self.make(tree)
            if not path:
                continue
            lines.append(self.watch(tree, path, 1, sizes=False))
            for ranks in self.mode.ranks if self.mpi else (1,):
                lines.append(self.watch(tree, path, ranks, sizes=True))
            self.forget()
            if tree not in self.mode.timed:
                self.remove_tree(path)
        table("Listing with --memory %s: peak of the sum of Pss, MB, sampled each %d ms"
              % (MEMORY, pss.INTERVAL * 1000),
              ["", "all", "asked for", "", "largest", "mpirun itself", "s", "samples"], lines,
              ["Asked for: the limit and 32 MB, over all processes, mpirun's own among them."])

    # -- the part

    def run(self):
        _, missing = peers(self.work)
        self.notes = [
            "Peers write text and do not sync; shoal sorts, encodes, checksums and syncs.",
            "getdents64 alone: a thread a core (one for one directory) counts names and keeps none.",
            "fd tells no sizes: stat looks every name up again, so that row is not compared with."]
        if os.environ.get("BENCH_SHOAL"):
            self.notes.append("NOTE: shoal is here $BENCH_SHOAL, %s." % self.shoal)
        if missing:
            self.notes.append("Not installed and left out: %s." % ", ".join(missing))
        if not self.mpi:
            self.notes.append("mpirun is not installed: only one process.")
        if not can_drop_caches():
            self.notes.append("Cold was skipped: only root can empty the caches.")
        if not os.access(self.make_tree, os.X_OK):
            raise Failed("%s is not there: build it first (meson setup, ninja)" % self.make_tree)
        for path in (self.work, self.trees, self.empty):
            os.makedirs(path, exist_ok=True)
        try:
            for tree in self.mode.timed:
                self.time_tree(tree)
            self.watch_all()
        finally:
            subprocess.run(["rm", "-rf", self.work], check=False)  # much faster than rmtree()

    def gather(self):
        """1 GB from four ranks, with a budget of 16 MiB: how long, and how much memory beyond their own data."""
        if not self.mpi or not os.access(self.gather_program, os.X_OK):
            print("\nGathering over ranks: skipped: %s" % (
                "mpirun is not installed" if not self.mpi else "comm_driver is not built"))
            return
        say("gathering over ranks")
        try:
            text = run(["mpirun", "-n", str(GATHER_RANKS), self.gather_program, "bench",
                        str(GATHER_BYTES // GATHER_RANKS), str(GATHER_BUDGET)],
                       timeout=TIME_LIMIT, stdin=subprocess.DEVNULL,
                       env=dict(os.environ, SHOAL_MODULE_DIR=os.path.dirname(os.path.dirname(self.gather_program)),
                                **MPI_ENV))
        except subprocess.TimeoutExpired as e:
            raise Failed(str(e)) from e
        worst = {}
        for name, took, more in re.findall(r"^(.+?) +rank \d+: ([\d.]+) s, (\d+) KiB", text, re.M):
            seconds, kib = worst.get(name, (0, 0))
            worst[name] = max(seconds, float(took)), max(kib, int(more))
        lines = []
        for name, (seconds, kib) in worst.items():
            part = "gather, %d ranks" % GATHER_RANKS
            self.results.add(part, name, GATHER_BYTES, seconds, "s")
            self.results.add(part, name + ", memory", GATHER_BYTES, kib, "KiB")
            lines.append([name, number(seconds), number(kib / 1024), number(2 * GATHER_BUDGET / (1 << 20))])
        table("Gathering %s bytes from %d ranks, budget 16 MiB" % (count(GATHER_BYTES), GATHER_RANKS),
              ["", "seconds", "MiB above own data, worst rank", "asked: at most"], lines)
