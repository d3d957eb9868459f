"""Samples inside files: indexing Parquet, reading row groups, columns and rows, and members of tar files,
against pyarrow, s3dlio, webdataset and fio on the same files in the same run. A part of bench/run.py.

Files are made by shoal datagen in the work directory, and removed. Peers come from PyPI: pyarrow and webdataset by
tools/oracles below the build directory, s3dlio into the work directory. Before each run that reads data the files' own
pages are dropped from the page cache, except where a table says "cached". Ways take turns; best of the tries.
"""

import collections
import json
import os
import random
import shutil
import subprocess

from common import M, Failed, Usage, run, run_measured, say, table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"  # the one with torch
TIME_LIMIT = 1800
PEER_PROCESSES = 8
IN_FLIGHT = 32

# small: files of one and of ten groups; wide: dlrm's 200 columns, groups of few rows: all footer; flux and dlrm: files;
# shards: of tar, MB each; synthetic: row groups that exist only in a catalog.
Mode = collections.namedtuple("Mode", "small wide dlrm flux shards shard_mb synthetic tries")
MODES = {
    "quick": Mode(2_000, 4, 2, 2, 10, 20, 10**6, 2),
    "default": Mode(100_000, 20, 4, 4, 30, 50, 10**9, 3),
    "full": Mode(100_000, 100, 8, 8, 100, 100, 10**9, 5),
}

SMALL = """
workflow: {generate_data: true}
dataset: {format: parquet, num_subfolders_train: 100, num_files_train: %d, num_samples_per_file: %d,
          parquet: {row_group_size: 8, columns: [{name: a, dtype: int64}, {name: b, dtype: float32, size: 4},
                                                 {name: c, dtype: float64}]}}
"""
TAR = """
workflow: {generate_data: true}
dataset: {format: tar, num_files_train: %d, num_samples_per_file: %d, record_length_bytes: 100000}
"""

# What a script took from start() on, as its last line: without the start of Python, and of torch.
CLOCK = """
import os, time
def now():
    used = os.times()  # with the workers that have ended
    return time.monotonic(), used.user + used.system + used.children_user + used.children_system
def took(since):
    print(*(after - before for after, before in zip(now(), since)))
"""
READ_METADATA = """
import sys, multiprocessing
import pyarrow.parquet as pq
def one(path):
    m = pq.read_metadata(path)
    return sum(m.row_group(i).num_rows >= 0 for i in range(m.num_row_groups))
if __name__ == "__main__":
    paths = open(sys.argv[1]).read().split("\\n")[:-1]
    with multiprocessing.Pool(int(sys.argv[2])) as pool:
        print(sum(pool.imap_unordered(one, paths, 256)))
"""
# Each row group's bytes, in a random order, by threads: the best that Python does.
RAW = """
import sys, os, concurrent.futures
places = [line.rstrip("\\n").split("\\t") for line in open(sys.argv[1])]
def one(place):
    fd = os.open(place[0], os.O_RDONLY)
    try:
        return len(os.pread(fd, int(place[2]), int(place[1])))
    finally:
        os.close(fd)
with concurrent.futures.ThreadPoolExecutor(int(sys.argv[2])) as pool:
    print(sum(pool.map(one, places)))
"""
PYARROW_GROUPS = CLOCK + """
import sys, random, pyarrow as pa, pyarrow.parquet as pq
pa.set_io_thread_count(int(sys.argv[2]))
start = now()
columns = sys.argv[3].split(",") if len(sys.argv) > 3 else None
files = [pq.ParquetFile(p, pre_buffer=True) for p in open(sys.argv[1]).read().split("\\n")[:-1]]
groups = [(f, g) for f in files for g in range(f.num_row_groups)]
random.Random(1).shuffle(groups)
print(sum(f.read_row_group(g, columns=columns).num_rows for f, g in groups))
took(start)
"""
PYARROW_DATASET = CLOCK + """
import sys, pyarrow.dataset as ds
start = now()
d = ds.dataset(open(sys.argv[1]).read().split("\\n")[:-1], format="parquet")
print(sum(b.num_rows for b in d.to_batches(columns=sys.argv[2].split(",") if len(sys.argv) > 2 else None)))
took(start)
"""
SHOAL_TABLES = CLOCK + """
import sys, torch
from shoal.torch import ShoalTables, ShoalBatchSampler
import pyarrow.parquet
if __name__ == "__main__":
    start = now()
    columns = sys.argv[3].split(",") if len(sys.argv) > 3 and sys.argv[3] else None
    tables = ShoalTables(sys.argv[1], lambda t: t.num_rows, columns=columns)
    loader = torch.utils.data.DataLoader(tables, batch_sampler=ShoalBatchSampler(tables, batch_size=2), collate_fn=sum,
                                         num_workers=int(sys.argv[2]))
    print(sum(loader))
    took(start)
"""
COLUMN_BYTES = CLOCK + """
import sys
from shoal.torch import ShoalTables
import pyarrow.parquet
start = now()
t = ShoalTables(sys.argv[1], columns=sys.argv[2].split(",") if sys.argv[2] else None)
nr = 0
for i in range(len(t)):
    for data in t.read([i]):
        nr += sum(len(d) for _, d in data) if isinstance(data, list) else len(data)
stop = now()
places = [t.catalog.locate(i) for i in range(len(t))]
print(nr, sum(length for file, group in places for _, length in t._footer(file).ranges(group, t.columns)) if t.columns else 0)
print(*(after - before for after, before in zip(stop, start)))
"""
S3DLIO_GROUPS = """
import sys, s3dlio
loader = s3dlio.create_async_loader("file://" + sys.argv[1], {"format": "parquet", "decode": "raw", "prefetch": int(sys.argv[2]),
                                                                "footer_cap": 16 << 20})
nr = 0
for item in loader:
    for one in item if isinstance(item, list) else [item]:
        nr += len(one["data"] if isinstance(one, dict) else one)
print(nr)
"""
WEBDATASET = """
import sys, webdataset
paths = open(sys.argv[1]).read().split("\\n")[:-1]
print(sum(len(s["bin"]) for s in webdataset.WebDataset(paths, shardshuffle=len(paths)).shuffle(1000)))
"""
SYNTHETIC = """
import sys, time
import shoal
start = time.monotonic()
catalog = shoal.Catalog(sys.argv[1])
order = shoal.Order(catalog, batch_size=64, mode="window", window=16, seed=1)
for sample in order.batch(0):
    catalog.extent(int(sample))
first = time.monotonic() - start
for step in range(1, 20000, 7):
    for sample in order.batch(step * (order.steps // 20000))[:4]:
        catalog.extent(int(sample))
def private():
    with open("/proc/self/smaps_rollup") as f:
        return sum(int(l.split()[1]) for l in f if l.startswith("Private_Dirty"))
print(catalog.nr_samples, first * 1000, private() / 1024)
"""


class Containers:
    """The part; @bench is run.py's Bench."""

    def __init__(self, bench, build):
        self.mode, self.results, self.shoal, self.build = MODES[bench.mode.name], bench.results, bench.shoal, build
        self.work = os.path.join(bench.work, "containers")
        self.peers = bench.buckets.others

    # -- helpers

    def datagen(self, name, workload, *more):
        """The folder of its files."""
        place = os.path.join(self.work, name)
        shutil.rmtree(place, ignore_errors=True)
        if "\n" in workload:
            with open(self.path(name + ".yaml"), "w", encoding="ascii") as f:
                f.write(workload)
            workload = self.path(name + ".yaml")
        say("making files: " + name)
        used = run_measured([self.shoal, "datagen", workload, "--data", place, "-q", "--no-sync", "--force", *more], limit=TIME_LIMIT)
        os.sync()
        return os.path.join(place, "train"), used

    def path(self, name):
        os.makedirs(self.work, exist_ok=True)
        return os.path.join(self.work, name)

    def files(self, folder):
        return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)

    def listed(self, name, lines):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lines)
        return self.path(name)

    def drop(self, paths):
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    def index(self, folder, name):
        catalog = self.path(name + ".cat")
        used = run_measured([self.shoal, "index", folder, "--samples", "auto", "-q", "--force", "-o", catalog], limit=TIME_LIMIT)
        return catalog, used, json.loads(run([self.shoal, "info", "--json", catalog]))

    def places(self, catalog, folder):
        """[path, offset, length] of all samples, in a random order."""
        rows = [line.split("\t") for line in run([self.shoal, "ls", "--extents", catalog]).splitlines()]
        rows = [(os.path.join(folder, name), int(offset), int(length)) for name, _, offset, length, _ in rows]
        random.Random(1).shuffle(rows)
        return rows

    def python(self, code, *arguments):
        packages = run([os.path.join(ROOT, "tools", "oracles"), self.build]).strip()
        env = {"PYTHONPATH": os.pathsep.join([os.path.join(self.build, "python"), packages])}
        return [PYTHON, "-c", code, *map(str, arguments)], env

    def take(self, ways, paths=None, inside=False):
        """Best of the tries of each way, {name: Usage}; files are dropped from memory before each. With @inside by what the script
        itself printed last."""
        found = {}
        for attempt in range(self.mode.tries):
            for name, (argv, env) in list(ways.items()) if attempt % 2 == 0 else reversed(list(ways.items())):
                say(name)
                if paths:
                    self.drop(paths)
                try:
                    if inside:
                        words = run(argv, env=dict(os.environ, **(env or {})), timeout=TIME_LIMIT).split()
                        used = Usage(float(words[-2]), float(words[-1]), 0)
                    else:
                        used = run_measured(argv, env=env, limit=TIME_LIMIT)
                except Failed as error:
                    if name.startswith("shoal"):
                        raise
                    found[name] = str(error)[-100:]
                    continue
                old = found.get(name)
                found[name] = used if old is None or isinstance(old, str) else used._replace(
                    wall=min(used.wall, old.wall), cpu=min(used.cpu, old.cpu))
        missing = [name for name, used in found.items() if isinstance(used, str)]
        for name in missing:
            print("\n%s did not run: %s" % (name, found.pop(name)))
        return found

    # -- indexing

    def indexing(self):
        rows = []
        for groups in (1, 10):
            folder, _ = self.datagen("small", SMALL % (self.mode.small, 8 * groups))
            paths = self.listed("paths", self.files(folder))
            catalog = self.path("small.cat")
            took = self.take({
                "shoal": ([self.shoal, "index", folder, "--samples", "auto", "-q", "--force", "-o", catalog], None),
                "pyarrow": self.python(READ_METADATA, paths, PEER_PROCESSES)})
            info = json.loads(run([self.shoal, "info", "--json", catalog]))
            if info["samples"] != self.mode.small * groups:
                raise Failed("the catalog has %d groups" % info["samples"])
            ratio = took["pyarrow"].wall / took["shoal"].wall if "pyarrow" in took else None
            verdict = "-" if ratio is None else self.results.judge(
                "containers", "times read_metadata in 8 processes, %d groups per file" % groups, self.mode.small, ratio, "x", 5, True)
            self.results.judge("containers", "catalog bytes per equal group, %d per file" % groups, info["samples"],
                               info["extent_bytes"] / info["samples"], "bytes", 0.05)
            rows += [["%s, %d groups per file" % (name, groups), used.wall, used.cpu, used.rss / M,
                      verdict if name == "shoal" else ""] for name, used in took.items()]
            shutil.rmtree(os.path.dirname(folder))
        table("Indexing %d small Parquet files, cached; pyarrow's read_metadata in %d processes" % (self.mode.small, PEER_PROCESSES),
              ["", "wall s", "CPU s", "peak MB", "5 times"], rows)

    def footers(self):
        nr = self.mode.wide
        folder, _ = self.datagen("wide", "dlrm_datagen", "dataset.num_files_train=%d" % nr, "dataset.num_samples_per_file=500",
                                 "dataset.parquet.row_group_size=2")
        size = sum(int.from_bytes(open(path, "rb").read()[-8:-4], "little") for path in self.files(folder))
        paths = self.listed("paths", self.files(folder))
        took = self.take({"shoal": ([self.shoal, "index", folder, "--samples", "auto", "-q", "--force", "-o", self.path("w.cat")], None),
                          "pyarrow": self.python(READ_METADATA, paths, 1)})
        verdict = self.results.judge("containers", "footers scanned", nr, size / M / took["shoal"].cpu, "MB/s of CPU", 300, True)
        table("Footers of dlrm's 200 columns and 250 groups, %.0f MB in %d files, cached" % (size / M, nr),
              ["", "MB/s of CPU", "300 MB/s"], [[name, size / M / used.cpu, verdict if name == "shoal" else ""]
                                                for name, used in took.items()],
              ["the start of Python, and of reading the list, is in pyarrow's"])
        shutil.rmtree(os.path.dirname(folder))

    def irregular(self):
        """Groups of random lengths: what a catalog takes for each."""
        path = self.path("irregular")
        os.makedirs(path, exist_ok=True)
        noise = random.Random(3)
        nr, groups = 200, 1000
        for i in range(nr):
            with open(os.path.join(path, "%d.jsonl" % i), "wb") as f:
                f.write(b"\n".join(b"x" * noise.randrange(100, 2100) for _ in range(groups)))
        _, _, info = self.index(path, "irregular")
        each = info["extent_bytes"] / info["samples"]
        self.results.judge("containers", "catalog bytes per irregular group", info["samples"], each, "bytes", 3.5)
        table("Catalog, bytes per sample", ["", "bytes"], [["lengths of 100 to 2,100 at random", each]])
        shutil.rmtree(path)

    # -- row groups

    def fio(self, name, places, direct):
        """The same extents, rounded out to blocks, in the same order, by io_uring."""
        log = ["fio version 2 iolog", *("%s add" % path for path in sorted({p for p, _, _ in places})),
               *("%s open" % path for path in sorted({p for p, _, _ in places}))]
        for path, off, length in places:
            start, end = off // 4096 * 4096, min(-(-(off + length) // 4096) * 4096, os.path.getsize(path) // 4096 * 4096)
            log.append("%s read %d %d" % (path, start, end - start))
        log += ["%s close" % path for path in sorted({p for p, _, _ in places})]
        return ["fio", "--name=x", "--read_iolog=" + self.listed(name + ".iolog", log), "--replay_no_stall=1", "--ioengine=io_uring",
                "--iodepth=%d" % IN_FLIGHT, "--direct=%d" % direct, "--output=/dev/null"], None

    def groups(self, name, workload, *more):
        folder, made = self.datagen(name, workload, *more)
        paths = self.files(folder)
        size = sum(map(os.path.getsize, paths))
        catalog, _, info = self.index(folder, name)
        places = self.places(catalog, folder)
        lines = self.listed("places", ["%s\t%d\t%d" % place for place in places])
        listed = self.listed("paths", paths)
        read = [self.shoal, "read", catalog, "-q", "--batch", "4", "--in-flight", str(IN_FLIGHT), "--prefetch", "8"]
        ways = {"shoal": (read, None), "shoal --direct": ([*read, "--direct"], None),
                "python, 32 threads of pread": self.python(RAW, lines, IN_FLIGHT),
                "pyarrow, decoded": self.python(PYARROW_GROUPS, listed, IN_FLIGHT)}
        if shutil.which("fio"):
            ways["fio"], ways["fio --direct"] = self.fio(name, places, 0), self.fio(name, places, 1)
        if self.peers.s3dlio:
            ways["s3dlio, raw"] = [self.peers.s3dlio, "-c", S3DLIO_GROUPS, folder + "/", str(IN_FLIGHT)], None
        took = self.take(ways, paths)
        rows = [[way, size / M / used.wall, used.cpu / size * 1e9, used.rss / M] for way, used in took.items()]
        table("Reading %d row groups of %s, %.1f GB, in a random order, not in memory" % (info["samples"], name, size / 1e9),
              ["", "MB/s", "CPU s per GB", "peak MB"], rows)
        best = min(took["shoal"].wall, took["shoal --direct"].wall)
        cpu = min(took["shoal"].cpu, took["shoal --direct"].cpu)
        n = info["samples"]
        if "fio" in took and "fio --direct" in took:
            self.results.judge("containers", name + ", share of fio's rate", n, min(took["fio"].wall, took["fio --direct"].wall) / best,
                               "", 0.95, True)
        for peer in ("python, 32 threads of pread", "pyarrow, decoded", "s3dlio, raw"):
            if peer in took:
                self.results.judge("containers", "%s, times %s" % (name, peer), n, took[peer].wall / best, "x", 1, True)
                self.results.judge("containers", "%s, share of CPU of %s" % (name, peer), n, cpu / took[peer].cpu, "", 1 / 3)
        self.decoded(name, catalog, listed, paths, size)
        return folder, catalog, paths, listed, made

    def decoded(self, name, catalog, listed, paths, size):
        took = self.take({"shoal, 2 workers": self.python(SHOAL_TABLES, catalog, 2),
                          "pyarrow.dataset": self.python(PYARROW_DATASET, listed)}, paths, inside=True)
        if "pyarrow.dataset" in took:
            self.results.judge("containers", name + ", decoded, times pyarrow.dataset", len(paths),
                               took["pyarrow.dataset"].wall / took["shoal, 2 workers"].wall, "x", 1, True)
        table("Decoding %s with pyarrow; of shoal in a random order" % name, ["", "MB/s", "CPU s"],
              [[way, size / M / used.wall, used.cpu] for way, used in took.items()])

    def columns(self, catalog, listed, paths):
        names = [11, 17, 18, 20, 25, 31, 41, 43, 49, 53, 58, 59, 67, 68, 71, 74, 75, 88, 90, 91, 92, 93, 94, 96, 97, 116, 117, 137, 141,
                 147, 154, 155, 158, 160, 162, 169, 180, 186, 189, 195]  # those that MLPerf's dlrm reads
        names = ",".join("feature_%03d" % i for i in names)
        argv, env = self.python(COLUMN_BYTES, catalog, names)
        read, held = map(int, run(argv, env=dict(os.environ, **env)).split()[:2])
        took = self.take({"shoal, 40 of 200 columns": self.python(COLUMN_BYTES, catalog, names),
                          "shoal, whole groups": self.python(COLUMN_BYTES, catalog, ""),
                          "pyarrow, 40 columns, decoded": self.python(PYARROW_GROUPS, listed, IN_FLIGHT, names),
                          "shoal, 40 columns, decoded": self.python(SHOAL_TABLES, catalog, 0, names)}, paths, inside=True)
        self.results.judge("containers", "bytes read per byte of 40 columns", len(paths), read / held, "x", 1.3)
        self.results.judge("containers", "40 columns, time of whole groups", len(paths),
                           took["shoal, 40 of 200 columns"].wall / took["shoal, whole groups"].wall, "", 1)
        table("40 of dlrm's 200 columns: %.1f MB read for %.1f MB of chunks, not in memory" % (read / M, held / M),
              ["", "wall s", "CPU s"], [[way, used.wall, used.cpu] for way, used in took.items()])

    # -- tar

    def tar(self):
        folder, _ = self.datagen("tar", TAR % (self.mode.shards, self.mode.shard_mb * 10))
        paths = self.files(folder)
        catalog, _, info = self.index(folder, "tar")
        size, listed = sum(map(os.path.getsize, paths)), self.listed("paths", paths)
        read = [self.shoal, "read", catalog, "-q", "--batch", "64", "--in-flight", "64"]
        ways = {"shoal, every member at random": (read, None), "shoal --direct": ([*read, "--direct"], None),
                "webdataset, in sequence": self.python(WEBDATASET, listed)}
        loose = os.path.join(self.work, "loose")
        run([self.shoal, "datagen", self.path("tar.yaml"), "--data", loose, "-q", "--force", "dataset.format=indexed_binary",
             "dataset.num_samples_per_file=1", "dataset.num_subfolders_train=10",
             "dataset.num_files_train=%d" % info["samples"]], timeout=TIME_LIMIT)
        ways["shoal, files of that size"] = [self.shoal, "read", loose + "/catalog.shoal", *read[3:]], None
        loose_files = self.files(os.path.join(loose, "train"))
        took = self.take(ways, paths + loose_files)
        best = min(took[name].wall for name in ("shoal, every member at random", "shoal --direct"))
        self.results.judge("containers", "tar, times webdataset", info["samples"], took["webdataset, in sequence"].wall / best, "x", 2, True)
        self.results.judge("containers", "tar, time of loose files", info["samples"],
                           best / took["shoal, files of that size"].wall, "x", 1.05)
        table("%d members of %d shards, %.1f GB, not in memory" % (info["samples"], len(paths), size / 1e9), ["", "MB/s", "CPU s"],
              [[way, size / M / used.wall, used.cpu] for way, used in took.items()])
        for place in (loose, os.path.dirname(folder)):
            shutil.rmtree(place)

    # -- many groups

    def synthetic(self):
        rows = []
        for nr in (self.mode.synthetic // 1000, self.mode.synthetic):
            catalog = self.path("synthetic.cat")
            run([os.path.join(self.build, "bench", "many_groups"), catalog, str(nr // 100), "100"], timeout=TIME_LIMIT)
            argv, env = self.python(SYNTHETIC, catalog)
            groups, first, private = map(float, run(argv, env=dict(os.environ, **env)).split())
            rows.append([int(groups), os.path.getsize(catalog) / M, first, private])
        self.results.judge("containers", "first sample of %d row groups, ms" % rows[1][0], rows[1][0], rows[1][2], "ms", 100)
        self.results.judge("containers", "private memory, more groups against fewer", rows[1][0], rows[1][3] - rows[0][3], "MB", 2)
        table("Row groups of a synthetic catalog, 100 per file, irregular lengths", ["groups", "catalog MB", "first batch ms", "private MB"],
              rows, ["from opening the catalog to the places of the 64 samples of the first batch; then 11,000 more at random"])

    # -- making files

    def writing(self, made, paths):
        """fio writes as many bytes in files of that size, as many at once; once each, in turn."""
        size = sum(map(os.path.getsize, paths))
        place = self.path("fio")
        os.makedirs(place, exist_ok=True)
        os.sync()
        used = run_measured(["fio", "--name=w", "--directory=" + place, "--rw=write", "--bs=1M", "--filesize=%d" % (size // len(paths)),
                             "--nrfiles=1", "--numjobs=%d" % len(paths), "--thread", "--create_on_open=1", "--ioengine=psync",
                             "--fallocate=none", "--output=/dev/null"], limit=TIME_LIMIT)
        shutil.rmtree(place)
        self.results.judge("containers", "generating Parquet, share of fio's write speed", len(paths), used.wall / made.wall, "", 0.8, True)
        table("Generating %.1f GB of Parquet" % (size / 1e9), ["", "MB/s", "CPU s"],
              [["shoal datagen", size / M / made.wall, made.cpu], ["fio", size / M / used.wall, used.cpu]])

    def run(self):
        try:
            self.indexing()
            self.footers()
            self.irregular()
            self.synthetic()
            folder, catalog, paths, listed, made = self.groups(
                "dlrm", "dlrm_datagen", "dataset.num_files_train=%d" % self.mode.dlrm, "dataset.num_samples_per_file=368640")
            self.columns(catalog, listed, paths)
            if shutil.which("fio"):
                self.writing(made, paths)
            shutil.rmtree(os.path.dirname(folder))
            folder, *_ = self.groups("flux", "flux_datagen", "dataset.num_files_train=%d" % self.mode.flux)
            shutil.rmtree(os.path.dirname(folder))
            self.tar()
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
