#!/usr/bin/env python3
"""What 1, 2, 4, 8, 16 ... cores do with the same work, as far as this machine has them: lists, trees, updates,
checks, files in memory and objects of a bucket. A part of bench/run.py, and a program of its own:

    bench/scaling.py [--build DIR] [--work DIR] [--names N] [--files N] [--folders N] [--only ROW]... [--tries N]

Each command runs with taskset on as many cores, different cores before second threads of one. The fastest of
some tries counts. One more run, which is not timed, tells what was the limit:

    cores       the command used at least 80 % of the cores
    one thread  one of its threads had a core for itself for at least 80 % of the time, and the others waited
    device      bytes came from a disk
    server      the programs that it asked used the cores
    other work  no core was idle, and other programs had a fifth of them or more
    waiting     none of these: locks, memory, the kernel

A peer that does only what the kernel must do runs on the same cores: getdents64 (and statx) in
bench/getdents_loop.c, open and pread in bench/pread_loop.c.
"""

import argparse
import collections
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types

import s3
from common import M, Failed, Results, count, number, run, run_measured, say, table

CORES = (1, 2, 4, 8, 16, 32, 64, 128)
TIMES_ASKED = 6  # from 1 to 8 cores
BUSY = 0.8  # of the cores, or of one thread
LOOK = 0.01  # s between looks at the threads of a command
SETTLED = 0.3  # s after which a change is older than a listing, for --update

# names of a list; files and folders of a tree; files that are read: how many, of how many bytes; objects.
Mode = collections.namedtuple("Mode", "names files folders reads objects tries")
MODES = {
    "quick": Mode(M, 100_000, 100, ((4_000, 16_384), (600, 300_000)), 4_000, 2),
    "default": Mode(10 * M, M, 1_000, ((40_000, 16_384), (4_000, 300_000)), 20_000, 3),
    "full": Mode(100 * M, 4 * M, 1_000, ((40_000, 16_384), (4_000, 300_000)), 40_000, 3),
}

# A row. argv: of a number of cores; n: what it does n of; rate: of what it prints, None: n by its time;
# peer: argv and rate; before: is called before each run; same: what its runs must agree in.
Row = collections.namedtuple("Row", "key title n argv rate peer before same env", defaults=(None, None, None, None, None))
# What it did per second with each number of cores, and the peer; seconds; what limited it with the most cores.
Scale = collections.namedtuple("Scale", "rates seconds peer limit")


def cores_in_order():
    """The cores that may be used: one thread of each before the second ones."""
    cores, first, second = sorted(os.sched_getaffinity(0)), [], []
    for core in cores:
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % core, encoding="ascii") as f:
                (first if int(f.read().replace("-", ",").split(",")[0]) == core else second).append(core)
        except (OSError, ValueError):
            first.append(core)
    return first + second


def pinned(nr, argv):
    return ["taskset", "-c", ",".join(map(str, cores_in_order()[:nr])), *map(str, argv)]


def busy_time():
    """Seconds that the cores of this machine were busy, all together."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _idle, _wait, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def thread_times(pid):
    """Seconds on a core of each thread of a process."""
    times = {}
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, thread), encoding="ascii") as f:
                times[thread] = int(f.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        pass  # it has ended
    return times


def what_limits(nr, argv, env, servers=()):
    """Run it once more, looking at its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = sum(sum(thread_times(pid).values()) for pid in servers)
    start, busiest, busy = time.monotonic(), {}, busy_time()
    with subprocess.Popen(pinned(nr, argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=dict(os.environ, **(env or {}))) as child:
        done = threading.Event()

        def look():
            while not done.wait(LOOK):
                busiest.update(thread_times(child.pid))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        child.wait()
        wall = time.monotonic() - start
        busy = busy_time() - busy
        done.set()
        watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    one = max(busiest.values(), default=0) / wall
    served = (sum(sum(thread_times(pid).values()) for pid in servers) - asked) / wall
    others = (busy - cpu) / wall - served
    used = "%.1f of %d cores busy" % (cpu / wall, nr)
    if cpu / wall >= BUSY * nr:
        return "cores", used
    if servers and served >= BUSY * min(len(servers), len(cores_in_order()) - cpu / wall):
        return "server", "%s, servers %.1f" % (used, served)
    if others > (1 - BUSY) * os.cpu_count() and busy / wall >= BUSY * os.cpu_count():
        return "other work", "%s, other programs used %.1f" % (used, others)
    if one >= BUSY:
        return "one thread", "%s, one thread %.0f %%" % (used, one * 100)
    if after.ru_inblock > before.ru_inblock + 2048:
        return "device", "%s, %.0f MB from a disk" % (used, (after.ru_inblock - before.ru_inblock) * 512 / M)
    return "waiting", "%s, busiest thread %.0f %%" % (used, one * 100)


class Scaling:
    """The part; @bench is run.py's Bench, or what main() has in its place."""

    def __init__(self, bench, build, mode=None):
        self.mode = mode or MODES[bench.mode.name]
        self.results, self.build = bench.results, build
        self.shoal = os.environ.get("BENCH_SHOAL") or os.path.join(build, "shoal")
        self.tool = {name: os.path.join(build, "bench", name)
                     for name in ("gen_names", "make_tree", "getdents_loop", "pread_loop")}
        self.work = os.path.join(bench.work, "scaling")
        self.cores = [nr for nr in CORES if nr <= len(cores_in_order())]
        self.servers = []
        self.limits, self.peaks = [], {}

    def path(self, name):
        return os.path.join(self.work, name)

    def out(self, name):
        return ["-q", "-o", self.path(name), "--tmp-dir", self.work]

    # -- rows

    def list_row(self):
        """Names in a pseudo-random order, made by as many generators as there are cores."""
        n, parts, path = self.mode.names, max(self.cores), self.path("names")
        say("making %s names" % count(n))
        with open(path, "wb") as f:
            makers = [subprocess.Popen(["bash", "-c", "'%s' hex %d --shuffle --seed %d > '%s.%d'" % (
                self.tool["gen_names"], n // parts + (i < n % parts), i + 1, path, i)]) for i in range(parts)]
            for i, maker in enumerate(makers):
                if maker.wait() != 0:
                    raise Failed("gen_names failed")
                with open("%s.%d" % (path, i), "rb") as part:
                    shutil.copyfileobj(part, f, 1 << 24)
                os.unlink("%s.%d" % (path, i))
        return [Row("list", "text list, shuffled, to a catalog, 256 MB", n,
                    lambda nr: [self.shoal, "index", path, "--root", "/x", "--memory", "256M", *self.out("list.cat")],
                    same="list.cat"),
                Row("verify", "verify of that catalog", n, lambda nr: [self.shoal, "verify", "-q", self.path("list.cat")])]

    def tree(self):
        say("making a tree of %s files" % count(self.mode.files))
        path = self.path("tree")
        run([self.tool["make_tree"], path, str(self.mode.files), str(self.mode.folders), "--size", "300000",
             "--dev", "80000", "--threads", str(min(64, 2 * max(self.cores)))])
        return path

    def change(self, tree, share):
        """Touch the folders that come first, without another name in them."""
        for i in range(max(1, int(self.mode.folders * share))):
            name = os.path.join(tree, "%04d" % i, "changed")
            with open(name, "w", encoding="ascii"):
                pass
            os.unlink(name)

    def tree_rows(self):
        tree, n, old = self.tree(), self.mode.files, self.path("old.cat")
        time.sleep(SETTLED)
        run([self.shoal, "index", tree, "-q", "-o", old])
        changed = []

        def change_once():
            if not changed:
                changed.append(True)
                time.sleep(SETTLED)
                self.change(tree, 0.01)
                time.sleep(SETTLED)

        def loop(*more):
            return lambda nr: [self.tool["getdents_loop"], nr, tree, *more]

        def index(name, *more):
            return lambda nr: [self.shoal, "index", tree, *more, *self.out(name)]

        return [Row("names", "names of a tree", n, index("names.cat", "--no-sizes"), peer=loop(), same="names.cat"),
                Row("sizes", "names and sizes of a tree", n, index("sizes.cat"), peer=loop("statx"), same="sizes.cat"),
                Row("update", "--update of it, nothing changed", n, index("update.cat", "--update", old), same="update.cat"),
                Row("update1", "--update of it, 1 % of folders changed", n, index("update.cat", "--update", old),
                    before=change_once)]

    def read_rows(self):
        rows = []
        for files, size in self.mode.reads:
            folder, listed = self.path("read%d" % size), self.path("read%d.list" % size)
            if shutil.disk_usage(self.work).free < 2.2 * files * size:
                print("\nReading files of %d bytes: skipped: not enough room in %s" % (size, self.work))
                continue
            say("making %s files of %d bytes" % (count(files), size))
            noise = os.urandom(size + 4096)
            with open(listed, "w", encoding="ascii") as f:
                for i in range(files):
                    name = os.path.join(folder, "%03d" % (i // 1000), "%07d" % i)
                    if i % 1000 == 0:
                        os.makedirs(os.path.dirname(name))
                    with open(name, "wb") as data:
                        data.write(noise[i % 4096:i % 4096 + size])
                    f.write("%s\t%d\n" % (name, size))
            catalog = folder + ".cat"
            run([self.shoal, "index", folder, "-q", "-o", catalog])
            rows.append(Row(
                "read%d" % size, "files of %s bytes in memory, read" % count(size), files,
                lambda nr, catalog=catalog: [self.shoal, "read", catalog, "--json", "-q"], rate=self.read_rate,
                peer=lambda nr, listed=listed: ["bash", "-c", "'%s' %d buffered < '%s'" % (
                    self.tool["pread_loop"], nr, listed)]))
        return rows

    def read_rate(self, text, n):
        """Of shoal read --json or of pread_loop."""
        if text[:1] != "{":
            return float(text.split()[0])
        facts = json.loads(text)
        if not facts["audit"]["exactly_once"] or facts["samples"] != n:
            raise Failed("shoal read did not read every sample once")
        return n / facts["seconds"]

    def bucket_rows(self):
        """As many servers as half of the cores: the other half reads."""
        rows, n, nr = [], self.mode.objects, max(1, max(self.cores) // 2)
        for size in s3.SIZES:
            objects = s3.how_many(n, size)
            servers = [s3.Computed(self.build, objects, "hex", size=size) for _ in range(nr)]
            self.servers += servers
            env = dict(servers[0].env, AWS_ENDPOINT_URL=",".join(server.url for server in servers), no_proxy="*")
            catalog = self.path("bucket%d.cat" % size)
            run_measured([self.shoal, "index", "s3://bench", "-q", "-o", catalog], env=env)
            rows.append(Row("objects%d" % size, "objects of %s bytes, servers here: %d" % (count(size), nr), objects,
                            lambda nr, catalog=catalog: [self.shoal, "read", catalog, "--json", "-q", "--in-flight", 64],
                            rate=self.read_rate, env=env))
        return rows

    # -- measuring

    def once(self, row, argv, rate, nr):
        if row.before:
            row.before()
        os.sync()  # nobody pays for what another has written
        with tempfile.TemporaryFile() as out:
            used = run_measured(pinned(nr, argv), env=row.env, out=out)
            self.peaks[argv[0], row.key] = max(used.rss, self.peaks.get((argv[0], row.key), 0))
            out.seek(0)
            return (rate(out.read().decode(), row.n) if rate else row.n / used.wall), used.wall

    def contents(self, row):
        """Of a list, the bytes of its catalog; that of a tree also has the time at which it was listed."""
        if row.same and row.key == "list":
            return run(["sha256sum", self.path(row.same)])
        if row.same:
            facts = json.loads(run([self.shoal, "info", "--json", self.path(row.same)]))
            return facts["digest"], facts["file_bytes"]
        return None

    def scale(self, row):
        rates, seconds, peers, seen = [], [], [], set()
        for nr in self.cores:
            say("%s, %d core%s" % (row.title, nr, "" if nr == 1 else "s"))
            tries = [self.once(row, row.argv(nr), row.rate, nr) for _ in range(self.mode.tries)]
            rates.append(max(rate for rate, _ in tries))
            seconds.append(min(wall for _, wall in tries))
            seen.add(self.contents(row))
            if row.peer:
                peers.append(max(self.once(row, row.peer(nr), row.rate, nr)[0] for _ in range(self.mode.tries)))
        if len(seen) != 1:
            raise Failed("%s: its catalog is another one with another number of cores" % row.title)
        pids = [server.process.pid for server in self.servers] if row.env else ()
        kind, why = what_limits(self.cores[-1], row.argv(self.cores[-1]), row.env, pids)
        self.limits.append("%s: %s; at most %.0f MB of memory with any number of cores"
                           % (row.title, why, self.peaks[self.shoal, row.key] / M))
        self.add(row, rates, seconds, peers, kind)
        return Scale(rates, seconds, peers, kind)

    def add(self, row, rates, seconds, peers, kind):
        for i, nr in enumerate(self.cores):
            self.results.add("scaling", row.title, row.n, rates[i], "per second", cores=nr, seconds=seconds[i],
                             peer=peers[i] if peers else None, limit=kind if nr == self.cores[-1] else None)

    def verdict(self, row, rates):
        if 8 not in self.cores:
            return "-"
        return self.results.judge("scaling from 1 to 8 cores", row.title, row.n,
                                  rates[self.cores.index(8)] / rates[0], "x", TIMES_ASKED, at_least=True)

    def lines(self, row, scale):
        line = [row.title, *(rate / M for rate in scale.rates), scale.rates[-1] / scale.rates[0],
                self.verdict(row, scale.rates), scale.limit]
        if not scale.peer:
            return [line]
        return [line, ["  the kernel's part alone", *(rate / M for rate in scale.peer),
                       scale.peer[-1] / scale.peer[0], "-", "-"]]

    def updates(self, scales):
        """An update beside listing anew, with the same cores."""
        lines = []
        for key, asked in (("update", 3), ("update1", 2)):
            if key not in scales or "sizes" not in scales:
                continue
            times = [a / b for a, b in zip(scales["sizes"].seconds, scales[key].seconds)]
            verdict = self.results.judge("update, times as fast as listing anew", key, self.mode.files, times[-1],
                                         "x", asked, at_least=True)
            lines.append(["nothing changed" if key == "update" else "1 % of folders changed", *times, asked, verdict])
        if lines:
            table("--update: times as fast as listing the same tree anew", ["cores", *map(str, self.cores), "asked", ""],
                  lines)

    def measure(self, only=None):
        os.makedirs(self.work, exist_ok=True)
        lines, scales = [], {}
        for rows in (self.list_row, self.tree_rows, self.read_rows, self.bucket_rows):
            if only and not any(key in only for key in KEYS[rows.__name__]):
                continue
            for row in rows():
                if not only or row.key in only:
                    scales[row.key] = self.scale(row)
                    lines += self.lines(row, scales[row.key])
        table("Scaling on %d cores, million per second" % self.cores[-1],
              ["", *("%d core%s" % (nr, "" if nr == 1 else "s") for nr in self.cores),
               "times, 1 to %d" % self.cores[-1], "%d times, 1 to 8" % TIMES_ASKED, "limited by"], lines,
              ["Which limit with %d cores:" % self.cores[-1], *self.limits])
        self.updates(scales)

    def run(self, only=None):
        try:
            self.measure(only)
        finally:
            for server in self.servers:
                server.__exit__()
            subprocess.run(["rm", "-rf", self.work], check=False)


KEYS = {"list_row": ("list", "verify"), "tree_rows": ("names", "sizes", "update", "update1"),
        "read_rows": ("read16384", "read300000"), "bucket_rows": ("objects16384", "objects300000")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = MODES["default"]
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--work", default=tempfile.gettempdir(), metavar="DIR")
    for name in ("names", "files", "folders", "objects", "tries"):
        parser.add_argument("--" + name, type=int, default=getattr(default, name), metavar="N")
    parser.add_argument("--cores", type=lambda text: [int(nr) for nr in text.split(",")], metavar="N,N...")
    parser.add_argument("--only", action="append", metavar="ROW", choices=sum(KEYS.values(), ()),
                        help="only this row, or these: " + ", ".join(sum(KEYS.values(), ())))
    args = parser.parse_args()
    mode = default._replace(**{name: getattr(args, name) for name in ("names", "files", "folders", "objects", "tries")})
    with tempfile.TemporaryDirectory(prefix="scaling-", dir=args.work) as work:
        scaling = Scaling(types.SimpleNamespace(work=work, results=Results()), args.build, mode)
        if args.cores:
            scaling.cores = args.cores
        scaling.run(args.only)
        scaling.results.summary()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit("bench/scaling.py: %s" % e)
