#!/usr/bin/env python3
"""Compare Shoal with its peers, and its figures with their targets.

    bench/run.py [--quick | --full] [--only PART]... [--build DIR] [--json FILE]

The default takes sets of 1 and 10 million names, and lists trees of 1 million files; --quick only 1
million names and 100,000 files; --full adds 100 million names, which need about 10 GB of disk, and
the memory of listing 8.3 million files. Lists, catalogs and trees go to a directory made in
$BENCH_DIR, or else in the build directory, and removed at the end; trees in $BENCH_TREES are kept.

CPU-bound figures are judged by CPU time, which other work on the machine disturbs less than wall
time; both are printed. The exit status says whether everything ran, not whether targets are met.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import containers
import datagen
import listing
import load
import python
import report
import running
import s3
import scaling
from common import (M, Failed, Results, count, median_usage, number, parse_rows, run, run_measured,
                    say, table)

KINDS = ("dlio", "dlio1k", "imagenet", "hex", "uuid", "s3")
PATTERN_KINDS = ("dlio", "dlio1k")  # repetitive, so zstd is quick and depends on the length
SIZES_OPTION = "300000,80000"
SIZES_FLOOR = 2.29  # bytes: log2(80000 * sqrt(2 pi e)) / 8
PEER_NAMES = 1 * M  # names in a Python list: what one costs does not depend on how many
PERM_SIZES = (7_646_857, 10**8, 10**9, 10**12)
NUMPY_TARGET_N = 64 * M

# What a mode does. zstd_*: consecutive names given to zstd -19 (None: all).
Mode = collections.namedtuple(
    "Mode", "name sizes big zstd_pattern zstd_random sort_n sort_tries perm_tries numpy_sizes disk")
MODES = {
    "quick": Mode("quick", (M,), None, 100_000, 20_000, M, 3, 2, (7_646_857,), 0.5e9),
    "default": Mode("default", (M, 10 * M), None, M, 200_000, 10 * M, 3, 3,
                    (7_646_857, NUMPY_TARGET_N), 2.5e9),
    "full": Mode("full", (M, 10 * M), 100 * M, None, M, 10 * M, 3, 3,
                 (7_646_857, NUMPY_TARGET_N), 10.5e9),
}


# ---- Peers in Python, each in a process of its own ----------------------------------------------

LIST_CHILD = """
import os, pickle, sys
def memory():
    with open("/proc/self/smaps_rollup") as f:
        return {l.split()[0]: int(l.split()[1]) * 1024 for l in f if l[0] in "RP" and "kB" in l}
path, separator, limit = sys.argv[1], bytes([int(sys.argv[2])]), int(sys.argv[3])
def lines(f):
    rest = b""
    while True:
        part = f.read(1 << 16)
        if not part:
            return
        *whole, rest = (rest + part).split(separator)
        yield from whole
before = memory()
names = []
with open(path, "rb", buffering=0) as f:
    for name in lines(f):
        names.append(os.fsdecode(name))
        if len(names) == limit:
            break
after = memory()
rss, pss = (after[k] - before[k] for k in ("Rss:", "Pss:"))
size = len(pickle.dumps([n.encode("utf-8", "surrogateescape").decode("latin-1") if not n.isascii()
                         else n for n in names], pickle.HIGHEST_PROTOCOL))
n = len(names)
print("rss\\t%d\\t%r\\tB/name" % (n, rss / n))
print("pss\\t%d\\t%r\\tB/name" % (n, pss / n))
print("pickle\\t%d\\t%r\\tB/name" % (n, size / n))
"""

# As a training program does it: once an epoch, and all of it before the first index.
NUMPY_CHILD = """
import sys, time
import numpy
def memory():
    with open("/proc/self/status") as f:
        return {l.split()[0]: int(l.split()[1]) * 1024 for l in f if l.startswith("Vm")}
n = int(sys.argv[1])
base = memory()["VmRSS:"]
start, cpu = time.perf_counter(), time.process_time()
order = numpy.random.default_rng(1).permutation(n)
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
print("wall\\t%d\\t%r\\ts" % (n, wall))
print("cpu\\t%d\\t%r\\ts" % (n, cpu))
print("memory\\t%d\\t%d\\tbytes" % (n, memory()["VmHWM:"] - base))
"""


def python_list(path, separator="\n", limit=PEER_NAMES):
    """Bytes a name of a list of str in memory (RSS, PSS), and pickled."""
    rows = parse_rows(run([sys.executable, "-c", LIST_CHILD, path, str(ord(separator)), str(limit)]))
    return {name: value for (name, _n), value in rows.items()}


def numpy_version():
    try:
        return run([sys.executable, "-c", "import numpy; print(numpy.__version__)"]).strip()
    except Failed:
        return None


def zstd_bytes(path):
    """Bytes of the file at @path after zstd -19, which may take a minute."""
    packed = path + ".zst"
    run(["zstd", "-q", "-19", "-f", path, "-o", packed])
    size = os.path.getsize(packed)
    os.unlink(packed)
    return size


# ---- The benchmark ------------------------------------------------------------------------------


class Bench:
    def __init__(self, mode, build, work):
        self.mode, self.build = mode, build
        self.work = work
        self.shoal = os.path.join(build, "shoal")
        self.tool = {name: os.path.join(build, "bench", name)
                     for name in ("gen_names", "bench_catalog", "bench_order", "front")}
        for path in [self.shoal, *self.tool.values()]:
            if not os.access(path, os.X_OK):
                raise Failed("%s is not there: build it first (meson setup, ninja)" % path)
        self.results = Results()
        self.lister = listing.Listing(self, build)
        self.generator = datagen.Datagen(self, build)
        self.loader = load.Load(self, build)
        self.package = python.Python(self, build)
        self.buckets = s3.Buckets(self, build)
        self.inside = containers.Containers(self, build)
        self.cores = scaling.Scaling(self, build)

    def path(self, name):
        return os.path.join(self.work, name)

    def remove(self, *paths):
        for path in paths:
            if os.path.exists(path):
                os.unlink(path)

    def generate(self, kind, n, path, *options):
        """Write a list; returns the entropy floor in bytes a name."""
        with open(path, "wb") as f:
            done = subprocess.run([self.tool["gen_names"], kind, str(n), "--floor", *options],
                                  stdout=f, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed("gen_names: " + done.stderr.decode())
        return parse_rows(done.stderr.decode())["floor", n]

    def info(self, catalog):
        return json.loads(run([self.shoal, "info", "--json", catalog]))

    def catalog_rows(self, catalog, *lists):
        rows = parse_rows(run([self.tool["bench_catalog"],
                               *(["--quick"] if self.mode.name == "quick" else []),
                               catalog, *lists]))
        return {name: value for (name, _n), value in rows.items()}

    def front(self, path, *options):
        return next(iter(parse_rows(run([self.tool["front"], *options, path])).values()))

    # -- sets of one kind

    def sample(self, kind, n, path):
        """The first names of a list in a file of their own, for zstd."""
        limit = self.mode.zstd_pattern if kind in PATTERN_KINDS else self.mode.zstd_random
        if limit is None or limit >= n:
            limit = n
        part = self.path("sample-%s-%d" % (kind, n))
        with open(path, "rb") as f, open(part, "wb") as to:
            to.writelines(itertools.islice(f, limit))
        return part, limit

    def one_set(self, kind, n):
        """Everything about one list: figures in a dict."""
        names, catalog = self.path("names"), self.path("catalog")
        row = {"kind": kind, "n": n, "floor": self.generate(kind, n, names)}
        row["raw"] = os.path.getsize(names) / n
        row.update((name, value) for (name, _n), value in parse_rows(
            run([self.tool["bench_catalog"], "--encode", names, catalog])).items())
        row.update(self.catalog_rows(catalog, names))
        row["catalog"] = self.info(catalog)["file_bytes"] / n
        row["front"] = self.front(names)
        if n == min(self.mode.sizes):
            row.update(python_list(names))
        row["sample"], row["sampled"] = self.sample(kind, n, names)
        self.remove(names, catalog)
        return row

    def big_set(self, kind, n):
        """As one_set(), for a list that is too large to keep: through a pipe, without peers."""
        catalog = self.path("catalog")
        gen = subprocess.Popen([self.tool["gen_names"], kind, str(n), "--floor"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with gen:
            try:
                run([self.tool["bench_catalog"], "--stream", catalog], stdin=gen.stdout)
            except BaseException:
                gen.kill()
                raise
            floor = parse_rows(gen.stderr.read().decode())["floor", n]
        if gen.returncode != 0:
            raise Failed("gen_names failed")
        row = {"kind": kind, "n": n, "floor": floor}
        row.update(self.catalog_rows(catalog))
        row["catalog"] = self.info(catalog)["file_bytes"] / n
        self.remove(catalog)
        return row

    def compress_samples(self, rows):
        """zstd -19 of the samples: on all cores, because only the size counts."""
        todo = [row for row in rows if "sample" in row]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for row, size in zip(todo, pool.map(zstd_bytes, [row["sample"] for row in todo])):
                row["zstd"] = size / row["sampled"]
                self.remove(row["sample"])

    def sets(self):
        rows = []
        for n in self.mode.sizes:
            for kind in KINDS:
                say("%s names, %s" % (count(n), kind))
                rows.append(self.one_set(kind, n))
        if self.mode.big:
            for kind in KINDS:
                say("%s names, %s" % (count(self.mode.big), kind))
                rows.append(self.big_set(kind, self.mode.big))
        say("zstd -19")
        self.compress_samples(rows)
        lists = {row["kind"]: row for row in rows if "rss" in row}
        for row in rows:
            for peer in ("rss", "pss", "pickle"):
                row[peer] = lists[row["kind"]][peer]
        self.sizes_table(rows)
        self.encode_table([row for row in rows if "encode" in row])
        self.lookup_table(rows)

    def sizes_table(self, rows):
        lines = []
        for row in rows:
            kind, n, floor, size = row["kind"], row["n"], row["floor"], row["catalog"]
            if kind in PATTERN_KINDS:
                target = 0.01
            elif kind == "imagenet":
                target = 0.85
            else:
                target = 1.05 * floor
            peers = {peer: row.get(peer) for peer in ("raw", "zstd", "front", "rss", "pss",
                                                      "pickle")}
            verdict = self.results.judge("bytes a name", kind, n, size, "B", target, floor=floor,
                                         zstd_names=row.get("sampled"), **peers)
            lines.append([kind, count(n), size, floor, size / floor if floor else "-",
                          target, verdict, row.get("zstd"), row.get("front"), row["rss"],
                          row["pickle"], row.get("raw"),
                          "{:,.0f}x".format(row["rss"] / size)])
        table("Catalog, bytes a name, without sizes",
              ["kind", "names", "shoal", "floor", "/floor", "target", "", "zstd -19", "front 32",
               "list[str]", "pickle", "text", "list/shoal"], lines,
              ["zstd -19: no random access; of %s (dlio, dlio1k) and %s consecutive names (others)."
               % tuple("all" if limit is None else count(limit) for limit in
                       (self.mode.zstd_pattern, self.mode.zstd_random)),
               "list[str] (growth of the resident set) and pickle: at %s names."
               % count(PEER_NAMES)])

    def encode_table(self, rows):
        lines = []
        for row in rows:
            speed, wall = 1e3 / row["encode"], 1e3 / row["encode_wall"]
            verdict = self.results.judge("encode a sorted stream", row["kind"], row["n"], speed,
                                         "M names/s", 5, at_least=True, wall=wall)
            lines.append([row["kind"], count(row["n"]), speed, wall, 5, verdict,
                          row["encode"], int(row["segments"])])
        table("Encoding a sorted list in memory, one thread, sealed and synced",
              ["kind", "names", "M names/s CPU", "wall", "target", "", "ns a name",
               "segments"], lines)

    def lookup_table(self, rows):
        lines, opens = [], []
        for row in rows:
            n, kind = row["n"], row["kind"]
            large = n > 10 * M
            by_id = 100 if kind in PATTERN_KINDS else 1000 if large else 500
            by_name = 2000 if large else 1000
            lines.append([
                kind, count(n), row["id_to_name"], row["id_to_name_wall"], by_id,
                self.results.judge("id to name", kind, n, row["id_to_name"], "ns", by_id,
                                   wall=row["id_to_name_wall"]),
                row["name_to_id"], row["name_to_id_wall"], by_name,
                self.results.judge("name to id", kind, n, row["name_to_id"], "ns", by_name,
                                   wall=row["name_to_id_wall"]),
                row["walk"], row["verify"]])
            for name in ("walk", "verify"):
                self.results.add(name, kind, n, row[name], "ns/name", wall=row[name + "_wall"])
            opens.append([kind, count(n), row["open_wall"], 10_000,
                          self.results.judge("open", kind, n, row["open_wall"], "us", 10_000)])
        table("Lookups, ns, random over the whole file, one thread, pages in memory",
              ["kind", "names", "id->name CPU", "wall", "target", "", "name->id CPU", "wall",
               "target", "", "walk/name", "verify/name"], lines)
        table("Opening a catalog, us (the target is for 100 M names)",
              ["kind", "names", "open", "target", ""], opens)

    # -- other lists

    def real_paths(self):
        """/usr: names that follow no pattern."""
        say("paths of /usr")
        root = b"/usr"
        paths = sorted(os.path.relpath(os.path.join(folder, name), root)
                       for folder, _folders, names in os.walk(root) for name in names)
        if not paths:
            print("\n/usr has no files: skipped")
            return
        n, names, catalog = len(paths), self.path("usr"), self.path("catalog")
        with open(names, "wb") as f:
            f.writelines(path + b"\0" for path in paths)
        raw = os.path.getsize(names) / n
        del paths
        run([self.shoal, "index", "-q", "-0", "--names-only", "--root", "/usr", "-o", catalog,
             names])
        row = self.catalog_rows(catalog)
        size = self.info(catalog)["file_bytes"] / n
        front, packed = self.front(names, "-0"), zstd_bytes(names) / n
        peers = python_list(names, "\0", n)
        verdicts = [self.results.judge("bytes a name", "/usr", n, size, "B", 8, zstd=packed,
                                       front=front, raw=raw, **peers),
                    self.results.judge("bytes a name", "/usr, against front coding", n, size, "B",
                                       front)]
        for name in ("id_to_name", "name_to_id", "walk", "verify"):
            self.results.add(name, "/usr", n, row[name], "ns", wall=row[name + "_wall"])
        table("Real paths: files of /usr, bytes a name",
              ["names", "shoal", "target", "", "front 32", "not worse", "zstd -19", "list[str]",
               "pickle", "text"],
              [[count(n), size, 8, verdicts[0], front, verdicts[1], packed, peers["rss"],
                peers["pickle"], raw]],
              ["Lookups (no target): id->name %s ns, name->id %s ns, walk %s ns, verify %s ns."
               % tuple(number(row[name]) for name in ("id_to_name", "name_to_id", "walk",
                                                      "verify"))])
        self.remove(names, catalog)

    def file_sizes(self):
        lines = []
        for n in self.mode.sizes:
            say("%s sizes" % count(n))
            names, catalog = self.path("sizes"), self.path("catalog")
            self.generate("dlio", n, names, "--sizes", SIZES_OPTION)
            run([self.shoal, "index", "-q", "--root", "/bench", "-o", catalog, names])
            row = self.catalog_rows(catalog)
            size = row["size_bytes"]
            verdict = self.results.judge("bytes of a size", "300 kB +- 80 kB", n, size, "B", 2.6,
                                         floor=SIZES_FLOOR)
            lines.append([count(n), size, SIZES_FLOOR, size / SIZES_FLOOR, 2.6, verdict, 3.0,
                          row["id_to_size"]])
            self.remove(names, catalog)
        table("Sizes of 300 kB +- 80 kB, bytes a file",
              ["files", "shoal", "floor", "/floor", "target", "", "varint", "id->size ns"], lines)

    # -- unsorted names

    def unsorted_names(self, n, tries):
        """shoal index, which sorts, encodes and seals, against sort, which only sorts."""
        say("%s unsorted names" % count(n))
        names, catalog, out = self.path("unsorted"), self.path("catalog"), self.path("sorted")
        self.generate("hex", n, names, "--shuffle")
        commands = {
            "shoal": [self.shoal, "index", "-q", "--root", "/bench", "--memory", "256M",
                      "--tmp-dir", self.work, "-o", catalog, names],
            "sort": ["sort", "-S256M", "--parallel=2", "-T", self.work, "-o", out, names],
        }
        usages = {name: [] for name in commands}
        for _ in range(tries):
            for name, command in commands.items():
                self.remove(catalog, out)
                os.sync()  # neither pays for what the other has written
                usages[name].append(run_measured(command, {"LC_ALL": "C"}))
                if name == "shoal":
                    files = self.info(catalog)["files"]
        if files != n:
            raise Failed("shoal index: %d names of %d" % (files, n))
        self.remove(names, catalog, out)
        shoal, peer = (median_usage(usages[name]) for name in ("shoal", "sort"))
        verdicts = [self.results.judge("seal unsorted names, wall against sort", "hex", n,
                                       shoal.wall, "s", peer.wall, cpu=shoal.cpu,
                                       sort_cpu=peer.cpu, sort_rss=peer.rss, tries=tries),
                    self.results.judge("peak memory of shoal index", "hex", n, shoal.rss / 2**20,
                                       "MiB", 256)]
        return [["%s, %s" % (count(n), name), used.wall, used.cpu, used.rss / 2**20, verdict,
                 peer.wall / used.wall, peer.cpu / used.cpu] for name, used, verdict in (
                     ("shoal index --memory 256M", shoal, ", ".join(verdicts)),
                     ("sort -S256M --parallel=2", peer, ""))]

    def sorting(self):
        lines = self.unsorted_names(self.mode.sort_n, self.mode.sort_tries)
        if self.mode.big:
            lines += self.unsorted_names(self.mode.big, 1)
        table("Unsorted hex names to a sealed catalog, against only sorting them",
              ["names, command", "wall s", "CPU s", "peak MiB", "faster, <= 256 MiB",
               "sort/wall", "sort/CPU"], lines,
              ["shoal sorts, encodes, checksums, syncs and publishes; sort writes sorted text and"
               " does not sync."])

    # -- permutation

    def permutation(self):
        say("permutation")
        version = numpy_version()
        orders, peers = [], {n: [] for n in self.mode.numpy_sizes}
        for _ in range(self.mode.perm_tries):
            orders.append(parse_rows(run([self.tool["bench_order"]])))
            for n in peers if version else ():
                peers[n].append(parse_rows(run([sys.executable, "-c", NUMPY_CHILD, str(n)])))
        row = {key: min(order[key] for order in orders) for key in orders[0]}
        lines = []
        for n in PERM_SIZES:
            lines.append([
                count(n), row["one_by_one", n], 40,
                self.results.judge("permutation, one by one", "global", n, row["one_by_one", n],
                                   "ns", 40),
                row["batch_global", n], 8,
                self.results.judge("permutation, in batches", "global", n, row["batch_global", n],
                                   "ns", 8),
                row["batch_files", n], row["batch_window", n], row["batch_local", n],
                row["inverse", n], self.epoch_start(row, n), row["memory", n] / 1e3])
        table("Order, ns an index, one thread (CPU time, the least of several tries in %d runs)"
              % len(orders),
              ["samples", "one by one", "target", "", "batches", "target", "", "files", "window",
               "local", "inverse", "epoch start ns", "order kB"], lines,
              ["batches: 256 of mode global for 24 ranks; files, window and local are other modes.",
               "Epoch start: the slowest mode; target 1 ms."])
        self.numpy_table(version, peers, row)

    def epoch_start(self, row, n):
        ns = max(row["epoch_" + mode, n] for mode in ("global", "files", "window", "local"))
        verdict = self.results.judge("epoch start", "slowest mode", n, ns, "ns", 1e6)
        return "%s %s" % (number(ns), verdict)

    def numpy_table(self, version, peers, row):
        if not version:
            print("\nnumpy cannot be imported by %s: its shuffle is not measured." % sys.executable)
            return
        lines = []
        batch = row["batch_global", PERM_SIZES[0]]
        epoch = row["epoch_global", PERM_SIZES[0]]
        for n, tries in peers.items():
            wall, cpu, memory = (statistics.median(t[name, n] for t in tries)
                                 for name in ("wall", "cpu", "memory"))
            self.results.add("numpy permutation", "int64", n, wall, "s", cpu=cpu, memory=memory,
                             version=version)
            lines.append([count(n), wall, cpu, wall * 1e9 / n, batch, memory / 1e6,
                          "{:,.0f}x".format(wall * 1e9 / epoch)])
        table("numpy %s, default_rng().permutation(n) of int64, before the first index" % version,
              ["samples", "wall s", "CPU s", "ns an index", "shoal ns", "memory MB",
               "start against shoal's"], lines)


    # -- buckets: s3.py

    def s3(self):
        self.buckets.run()

    # -- samples inside files: containers.py

    def containers(self):
        self.inside.run()

    # -- directory trees: listing.py

    def listing(self):
        self.lister.run()

    def gather(self):
        self.lister.gather()

    # -- writing datasets: datagen.py

    def datagen(self):
        self.generator.run()

    # -- loading files: load.py

    def load(self):
        self.loader.run()

    # -- the Python package: python.py

    def python(self):
        self.package.run()

    # -- the benchmark's own loop: running.py

    def run(self):
        runner = running.Running(self.mode, self.build, self.work, self.results)
        for part in (runner.start, runner.loop, runner.accelerators, runner.memory):
            part()

    # -- one core and more: scaling.py

    def scaling(self):
        self.cores.run()

    # -- the report page, and what it takes to have one: report.py

    def report(self):
        reporter = report.Report(self.mode, self.build, self.work, self.results)
        for part in (reporter.page, reporter.costs):
            part()


# ---- The program --------------------------------------------------------------------------------


def first_line(argv):
    try:
        return run(argv).splitlines()[0].strip()
    except (Failed, OSError, IndexError):
        return "not found"


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def build_type(build):
    """What meson was told, because figures of another build than a release say little."""
    try:
        with open(os.path.join(build, "meson-info", "intro-buildoptions.json"),
                  encoding="utf-8") as f:
            options = {option["name"]: option["value"] for option in json.load(f)}
        return "-O%s, sanitizers %s" % (options["optimization"], options["b_sanitize"])
    except (OSError, ValueError, KeyError):
        return "unknown"


def machine(build, work):
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * page / 1e9, 1),
        "kernel": platform.release(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "build": build_type(build),
        "work": work,
        "work_free_gb": round(shutil.disk_usage(work).free / 1e9, 1),
        "python": platform.python_version(),
        "zstd": first_line(["zstd", "--version"]),
        "sort": first_line(["sort", "--version"]),
        "find": first_line(["find", "--version"]),
        "fd": first_line(["fdfind" if shutil.which("fdfind") else "fd", "--version"]),
        "bfs": first_line(["bfs", "--version"]),
        "mpirun": first_line(["mpirun", "--version"]),
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def print_machine(facts, mode):
    print("Shoal benchmark, mode %s" % mode)
    for name, value in facts.items():
        if isinstance(value, list):
            value = " ".join(str(item) for item in value)
        print("  %-13s %s" % (name.replace("_", " "), value))
    if facts["build"] not in ("-O2, sanitizers none", "-O3, sanitizers none"):
        print("  NOTE: this build is not for measuring; the times say little.")
    if facts["load_average"][0] > facts["cores"] / 2:
        print("  NOTE: the machine is busy; wall times are too long, and CPU times may be.")
    sys.stdout.flush()


PARTS = ("permutation", "sets", "real_paths", "file_sizes", "sorting", "listing", "gather", "load", "datagen", "python",
         "run", "s3", "containers", "report", "scaling")


def measure(mode, build, work, only):
    free = shutil.disk_usage(work).free
    if free < mode.disk:
        raise Failed("mode %s needs %.1f GB in %s, which has %.1f; set BENCH_DIR"
                     % (mode.name, mode.disk / 1e9, work, free / 1e9))
    for program in ("zstd", "sort"):
        if not shutil.which(program):
            raise Failed("%s is not installed" % program)
    bench = Bench(mode, build, work)
    facts = machine(build, work)
    print_machine(facts, mode.name)
    took = {}
    for part in only or PARTS:
        start = time.monotonic()
        getattr(bench, part)()
        took[part] = round(time.monotonic() - start, 1)
    say("done")
    bench.results.summary()
    print("Took %.0f s: %s" % (sum(took.values()), ", ".join("%s %.0f" % item
                                                             for item in took.items())))
    return {"mode": mode.name, "machine": facts, "seconds": took, "figures": bench.results.figures}


def arguments():
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick",
                      help="1 million names, 100,000 files only")
    mode.add_argument("--full", dest="mode", action="store_const", const="full",
                      help="also 100 million names: 10 GB of disk; and 8.3 million files")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART",
                        help="only this part, or these: " + ", ".join(PARTS))
    parser.add_argument("--build", default=os.path.join(source, "build"), metavar="DIR",
                        help="where meson has built (default: build)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    parser.set_defaults(mode="default")
    return parser.parse_args()


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the work is removed
    try:
        base = os.environ.get("BENCH_DIR") or args.build
        if not os.path.isdir(base):
            raise Failed("%s is no directory" % base)
        with tempfile.TemporaryDirectory(prefix="bench-", dir=base) as work:
            measured = measure(MODES[args.mode], args.build, work, args.only)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(measured, f, indent=1)
                f.write("\n")
    except (Failed, OSError) as e:
        print("bench/run.py: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
