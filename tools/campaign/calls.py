"""Failing calls: the Nth call of a kind fails, for every N. The command then gives its usual result, or fails with a message.

In commands that read a workload, in Python and under MPI memory fails for Shoal's own code only: libfyaml and others crash
without it (docs/security.md).
"""
import errno
import functools
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import patience

MEMORY = {name: errno.ENOMEM for name in ("malloc", "calloc", "realloc", "strdup", "asprintf", "open_memstream", "posix_memalign")}
FILES = {"open": errno.EMFILE, "openat": errno.EIO, "read": errno.EIO, "pread": errno.EIO, "write": errno.ENOSPC,
         "pwrite": errno.ENOSPC, "fsync": errno.EIO, "fdatasync": errno.EIO, "ftruncate": errno.EIO, "rename": errno.EIO,
         "renameat": errno.EIO, "unlink": errno.EACCES, "mkdirat": errno.ENOSPC, "fstat": errno.EIO, "fstatat": errno.EIO,
         "statx": errno.EIO, "mmap": errno.ENOMEM, "getrandom": errno.ENOSYS, "pthread_create": errno.EAGAIN, "syscall": errno.EIO}
RING = {"io_uring_init": errno.ENOMEM, "io_uring_submit": errno.EAGAIN, "io_uring_register": errno.ENOMEM}
NETWORK = {"socket": errno.EMFILE, "connect": errno.ECONNREFUSED, "send": errno.ECONNRESET, "recv": errno.ECONNRESET}
KINDS = {**MEMORY, **FILES, **RING, **NETWORK}
HUNG = 60  # seconds; only what hangs takes as long
WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 8, record_length_bytes: 1000}
reader: {batch_size: 1, read_threads: 1}
train: {epochs: 1, computation_time: 0.0001}
metric: {au: 0.0001}
"""
PYTHON = """
import shoal
catalog = shoal.Catalog("c")
loader = shoal.Loader(catalog, 8, seed=1, engine="threads", in_flight=1)
print(len(catalog), sorted(len(sample) for batch in loader.epoch(0) for sample in batch))
"""
COMMANDS = {
    "index a list": ["index", "list", "--root", "/r", "-q", "-o", "out.cat"],
    "index a directory": ["index", "tree", "-q", "--threads", "1", "-o", "out.cat"],
    "index and keep checkpoints": ["index", "tree", "-q", "--threads", "1", "--resume", "-o", "out.cat"],
    "index names that need a dictionary": ["index", "words", "--root", "/r", "-q", "-o", "out.cat"],
    "update a catalog": ["index", "tree", "-q", "--threads", "1", "--update", "c", "-o", "out.cat"],
    "merge": ["merge", "c", "d", "-q", "-o", "out.cat"],
    "filter": ["filter", "c", "--include", "*[13]", "-q", "-o", "out.cat"],
    "ls": ["ls", "c"],
    "find": ["find", "c", "1/001"],
    "info": ["info", "c"],
    "verify": ["verify", "c"],
    "verify the storage": ["verify", "--storage", "c", "-q"],
    "stat": ["stat", "c"],
    "diff": ["diff", "c", "c"],
    "list": ["list", "tree"],
    "cat": ["cat", "c", "1/001", "2/002"],
    "split": ["split", "c", "--part", "out.a=0.5", "--part", "out.b=0.5"],
    "index and look into files": ["index", "arrays", "--samples", "npy", "-q", "--threads", "1", "-o", "out.cat"],
    "index only below the root": ["index", "tree", "--beneath", "--follow", "-q", "--threads", "1", "-o", "out.cat"],
    "order": ["order", "c", "--batch", "4"],
    "read": ["read", "c", "--engine", "threads", "--in-flight", "1", "-q", "--json"],
    "read with io_uring": ["read", "c", "--engine", "uring", "--in-flight", "1", "-q", "--json"],
    "manifest": ["manifest", "c", "--ranks", "2", "-o", "out.lists"],
    "column": ["column", "sizes", "c", "--sort", "-q", "-o", "out.col"],
    "datagen": ["datagen", "w.yaml", "--data", "out.data", "-q", "--threads", "1"],
    "run": ["run", "w.yaml", "--data", "null", "--results", "out.results", "-q"],
    "import a column": ["column", "import", "c", "values.csv", "--field", "2", "-q", "-o", "out.col"],
    "verify a column": ["column", "verify", "c.col"],
    "index archives": ["index", "tars", "--samples", "webdataset", "-q", "--threads", "1", "-o", "out.cat"],
    "index archives and keep parts": ["index", "tars", "--samples", "tar", "--resume", "-q", "--threads", "1", "-o", "out.cat"],
    "read and record": ["read", "c", "--engine", "threads", "--in-flight", "1", "-q", "--json", "--trace", "out.trace", "--op-log", "out.log"],
    "replay": ["replay", "c.log", "--fast", "--engine", "threads", "--in-flight", "1", "-q", "--json"],
    "verify a dataset": ["datagen", "w.yaml", "--data", "made", "--verify", "-q", "--threads", "1"],
    "report": ["report", "results", "-q", "-o", "out.html"],
    "compare": ["compare", "results", "results"],
    "index a pattern": ["index", "--pattern", "f{:03d}", "--count", "300", "--root", "/r", "-q", "-o", "out.cat"],
    "index standard input": ["index", "-", "--root", "/r", "-q", "-o", "out.cat"],
    "index a bucket": ["index", "s3://bucket", "--endpoint", "SERVER", "--anonymous", "--connections", "1", "-q", "-o", "out.cat"],
    "read a bucket": ["read", "bucket.cat", "--endpoint", "SERVER", "--anonymous", "--in-flight", "1", "-q", "--json"],
    "index under MPI": ["index", "tree", "-q", "--threads", "1", "-o", "out.cat"],
    "datasize": ["datasize", "w.yaml", "--accelerators", "2", "--memory-per-host", "1G", "--hosts", "1", "--json"],
    "sweep": ["sweep", "--vary", "batch=1", "--repeat", "1", "--no-ceiling", "--results", "out.sweep", "-q", "--", "read", "c"],
    "Python": [sys.executable, "-c", PYTHON],
}
ENVIRONMENT = {"index under MPI": {"SHOAL_MPI": "openmpi"}, "index a bucket": {"SHOAL_S3_BACKOFF_MS": "1"},
               "read a bucket": {"SHOAL_S3_BACKOFF_MS": "1"}}
WORKLOADS = ("datagen", "run", "verify a dataset", "datasize")
SLOW = ("Python", "index under MPI", "sweep")
# What these call may not survive without memory.
FRAGILE = (*WORKLOADS, "Python", "sweep", "report", "compare", "index a bucket", "read a bucket")
TIMED = ("out.results/", "out.trace", "out.log", "out.html", "out.sweep/")  # have times in them
LONG = ("import a column", "verify a column", "index archives", "index archives and keep parts", "read and record", "replay",
        "verify a dataset", "report", "compare", "Python", "stat", "diff", "list", "cat", "split", "verify the storage", "index only below the root", "index a pattern", "index standard input", "index a bucket",
        "read a bucket", "index under MPI", "datasize", "sweep")  # for make torture only


def kinds_of(name):
    """What a command has no calls of costs one run."""
    return {**MEMORY, **FILES, **(RING if "io_uring" in name else {}), **(NETWORK if "bucket" in name else {})}


def own_calls_only(name, kind):
    """The environment that has only calls of Shoal's own code fail, where others would not survive it. MPI's start is not ours."""
    if name == "index under MPI" or (name in FRAGILE and kind in MEMORY):
        return {"FAIL_FROM": "_shoal." if name == "Python" else "shoal"}
    return {}


@functools.lru_cache(maxsize=None)
def server():
    """The address of a server of objects, which lives as long as this process."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "s3"))
    import objects
    made = objects.Objects(public=True)
    made.objects.update({(b"bucket", b"%d/%03d" % (i % 3, i)): b"x" * i for i in range(40)})
    made.__enter__()
    return made.url


def codes_of(kind):
    """The error of a kind that is likeliest, and others that take other ways through the code. Not ENOENT: a file that has
    vanished is left out of a listing, as it should be."""
    others = {"open": [errno.ENFILE, errno.EACCES], "openat": [errno.EMFILE, errno.EACCES], "read": [errno.EINTR],
              "pread": [errno.EINTR], "pwrite": [errno.EIO, errno.EINTR], "write": [errno.EIO], "mmap": [errno.EACCES],
              "statx": [errno.EACCES], "fsync": [errno.ENOSPC], "rename": [errno.ENOSPC]}
    return [KINDS[kind], *others.get(kind, [])]


def may_last(name, kind, code):
    """Whether a call and all after it may fail. No system interrupts calls for ever. Python's messages are written by the calls
    that fail. A sweep reads for so long that its threads wake each other by eventfd, from which a read never fails."""
    return code != errno.EINTR and (name, kind) not in (("Python", "write"), ("sweep", "read"))


def command(shoal, name):
    words = [server() if word == "SERVER" else word for word in COMMANDS[name]]
    return words if name == "Python" else [shoal, *words]


def prepare(shoal, place):
    """What the commands read."""
    (place / "list").write_bytes(b"".join(b"a/%05d\t%d\n" % (i * 7 % 3000, i) for i in range(3000)))
    (place / "words").write_bytes(b"".join(b"%s/%s of %d\t1\n" % (b"photograph", b"mountain lake evening".title()[i % 19:],
                                                                 i * 7919 % 100003) for i in range(6000)))
    for i in range(150):
        path = place / "tree" / str(i % 5) / f"{i:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * i)
    (place / "w.yaml").write_text(WORKLOAD)
    for i in range(6):
        path = place / "arrays" / f"{i}.npy"
        path.parent.mkdir(exist_ok=True)
        head = b"{'descr': '<u1', 'fortran_order': False, 'shape': (4, 8), }".ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(32))
    (place / "other").write_bytes(b"".join(b"z/%05d\t1\n" % i for i in range(100)))
    for i in range(3):
        (place / "tars").mkdir(exist_ok=True)
        with tarfile.open(place / "tars" / f"{i}.tar", "w") as tar:
            for j in range(4):
                for end in ("jpg", "cls"):
                    member = tarfile.TarInfo(f"{j:03}.{end}")
                    member.size = 100 * j
                    tar.addfile(member, io.BytesIO(bytes(member.size)))
    (place / "values.csv").write_text("".join(f"name{i},{i * 7 % 150}\n" for i in range(150)))
    subprocess.run([shoal, "index", "tree", "-q", "-o", "c"], cwd=place, check=True)
    subprocess.run([shoal, "index", "other", "--root", place / "tree", "-q", "-o", "d"], cwd=place, check=True)
    for words in (["column", "sizes", "c", "--sort", "-q", "-o", "c.col"], ["read", "c", "-q", "--op-log", "c.log"],
                  ["index", "s3://bucket", "--endpoint", server(), "--anonymous", "-q", "-o", "bucket.cat"],
                  ["datagen", "w.yaml", "--data", "made", "-q"], ["run", "w.yaml", "--data", "null", "--results", "results", "-q", "train.epochs=2"]):
        subprocess.run([shoal, *words], cwd=place, check=True, stdout=subprocess.DEVNULL)


def files_below(place):
    """What is there under a final name, and whether it can be compared byte by byte."""
    found = {}
    for top in place.glob("out.*"):
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(place).parts):
                found[str(path.relative_to(place))] = path.read_bytes()
    return found


class Attempt:
    """One run of a command, with a call that fails or with none."""

    def __init__(self, shoal, shim, place, name, **environment):
        for path in [*place.glob(".out.*"), *place.glob("out.*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.hung = None  # or its stacks
        try:
            with open(place / "list") as list_:
                done = patience.run(command(shoal, name), HUNG, cwd=place, stdin=list_,
                                    env={**os.environ, "LD_PRELOAD": str(shim), **ENVIRONMENT.get(name, {}), **environment})
            self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            self.hung, self.code, self.out, self.err = late.stacks, None, b"", late.stderr or b""
        self.shoal, self.place, self.made = shoal, place, files_below(place)

    def digest(self, name):
        done = subprocess.run([self.shoal, "info", name, "--json"], cwd=self.place, capture_output=True)
        return done.stdout.partition(b'"digest"')[2].partition(b",")[0] if done.returncode == 0 else None


class Sweep:
    """One command and one kind of call."""

    def __init__(self, shoal, shim, place, name, kind):
        self.shoal, self.shim, self.place, self.name, self.kind = shoal, shim, place, name, kind
        count = place / "count"
        count.unlink(missing_ok=True)
        self.own = own_calls_only(name, kind)
        self.good = Attempt(shoal, shim, place, name, FAIL_CALL=kind, FAIL_COUNT=str(count), **self.own)
        assert self.good.code == 0, self.good.err
        self.nr = int(count.read_text())
        self.digests = {file: self.good.digest(file) for file in self.good.made if file.endswith((".cat", ".shoal"))}

    def differs(self, attempt):
        """The first file that is not what it should be. Results of runs have times in them."""
        for file, content in attempt.made.items():
            if file.startswith(TIMED) or content == self.good.made.get(file):
                continue
            if file not in self.digests or attempt.digest(file) != self.digests[file]:
                return file
        return None

    def try_one(self, number, code=None, on=False):
        """What is wrong if call @number fails, with all later ones if @on, or None."""
        code = code or KINDS[self.kind]
        attempt = Attempt(self.shoal, self.shim, self.place, self.name, FAIL_CALL=self.kind, FAIL_N=str(number),
                          FAIL_ERRNO=str(code), **({"FAIL_ON": "1"} if on else {}), **self.own)
        where = (f"{self.name}: {self.kind} {number}{' and later' if on else ''} of {self.nr}, {errno.errorcode[code]}: "
                 f"status {attempt.code}, {attempt.err[-300:]!r}")
        if attempt.hung:
            return f"hung: {where} in {attempt.hung}"
        if attempt.code not in ((0, 1, 2) if self.name != "Python" else (0, 1, 120)):
            return f"crashed: {where}"
        if self.differs(attempt):
            return f"wrong: {self.differs(attempt)}: {where}"
        if attempt.code != 0:
            return None if attempt.err.strip() else f"silent: {where}"
        if self.name.startswith("read"):  # reads are recorded besides: what cannot be is reported
            right = b'"exactly_once": true' in attempt.out
        elif self.name in ("ls", "find", "info", "verify", "order", "stat", "diff", "list", "cat", "Python", "verify a column", "compare",
                           "datasize"):
            right = attempt.out == self.good.out
        else:
            left_out = {"out.results/series.0"} if self.name == "run" and b'"no_series_because": "' in \
                attempt.made.get("out.results/summary.json", b"") else set()
            right = set(attempt.made) | left_out == set(self.good.made)
        return None if right else f"wrong: success with another result: {where}"
