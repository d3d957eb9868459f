"""mpirun -n W shoal index DIR: the same catalog as one process makes, one word of success or failure, and no hang."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import BUILD, environment, mpirun

SHOAL = BUILD / "shoal"
LIMIT = 40  # seconds; only what hangs takes as long
SIZES = [1, 2, 3, 5]


# ------------------------------------------------------------------------------------------------------- running it


class Job:
    """What a job gave. Of what is said, `ours` is Shoal's; the rest is the launcher's."""

    def __init__(self, code, out, err, seconds):
        self.code, self.err, self.seconds = code, err, seconds
        self.out = [line for line in out.splitlines() if line.startswith("{")]  # MPICH says there how a rank died
        self.ours = [line for line in err.splitlines() if line.startswith("shoal") or re.search(" names? in ", line)]


class Running:
    def __init__(self, command, **options):
        self.command, self.started = command, time.monotonic()
        self.process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                                        **options)

    def finish(self, limit=LIMIT):
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.process.communicate()
            pytest.fail(f"{self.command} still ran after {limit} s: {out}{err}")
        return Job(self.process.returncode, out, err, time.monotonic() - self.started)

    def ranks(self):
        """The process ids of the ranks that are there now, by what the launcher started."""
        below, found = {self.process.pid}, []
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = pathlib.Path("/proc", pid, "stat").read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            parents[int(pid)] = (int(rest[1]), name)
        grown = True
        while grown:
            more = {pid for pid, (parent, _) in parents.items() if parent in below} - below
            below |= more
            grown = bool(more)
        found = [pid for pid in below if pid in parents and parents[pid][1] == "shoal"]
        return sorted(found)

    def kill(self):
        """The ranks and the launcher; one that has just ended by itself is as good."""
        for pid in self.ranks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def start(mpi, ranks, *args, **options):
    return Running([*mpirun(mpi, ranks), str(SHOAL), "index", *map(str, args)], **options)


def index(mpi, ranks, *args, **options):
    return start(mpi, ranks, *args, **options).finish()


def good(job):
    assert job.code == 0, job.err
    return job


def alone(*args):
    return subprocess.run([SHOAL, *map(str, args)], check=True, env=environment(), stdout=subprocess.PIPE,
                          timeout=LIMIT).stdout


def listed(path):
    """All there is in a catalog: names and sizes, and the digest."""
    return alone("ls", path, "-0", "--sizes"), json.loads(alone("info", path, "--json"))["digest"]


def contents(directory):
    return sorted(os.listdir(directory))


def until(condition, limit=60):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.002)


# ------------------------------------------------------------------------------------------------------------- trees


def fill(directory, names, size=None):
    for i, name in enumerate(names):
        path = os.path.join(os.fsencode(directory), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(i % 5000 if size is None else size)


def shapes():
    """A bit of everything that could be cut in the wrong place."""
    yield from (b"a.b", b"a/b", b"a0", b"a-/x", b"b/a/b", b"b/a.b", b"b/a0", b"b/a-/x", b"\xff\xfe/\x80", b"n\nl/\n")
    yield from (b"flat/%05d" % i for i in range(3000))  # one flat directory
    yield from (b"skew/%02d/%02d/%03d" % (i % 20, i // 20 % 20, i) for i in range(6000))  # a large subtree
    yield from (b"few/%d/only" % i for i in range(9))
    yield b"/".join([b"deep"] * 300) + b"/end"  # a chain: only one rank has something to do
    yield b"long/" + b"n" * 255


@pytest.fixture(scope="session")
def scratch():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-mpi-", dir=base))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def mixed(scratch):
    """A tree, and what one process makes of it."""
    tree = scratch / "mixed"
    fill(tree, shapes())
    (tree / "empty" / "inside").mkdir(parents=True)
    time.sleep(0.2)  # an update trusts what is older than that
    alone("index", tree, "-q", "-o", scratch / "mixed.cat")
    return tree, listed(scratch / "mixed.cat")


@pytest.fixture(scope="session")
def large(scratch):
    """300,000 files with names so long that every rank's 48 MB are too few for its share."""
    tree, rng = scratch / "large", random.Random(3)
    for folder in range(150):
        os.makedirs(tree / f"{folder:03d}")
        here = os.open(tree / f"{folder:03d}", os.O_RDONLY | os.O_DIRECTORY)
        for i in range(2000):
            os.mknod(f"{rng.getrandbits(64):016x}-{i:04d}-" + "name" * 30, dir_fd=here)
        os.close(here)
    return tree


# --------------------------------------------------------------------------------------------------------- the same


@pytest.mark.parametrize("ranks", SIZES)
def test_names_sizes_and_digest_are_those_of_one_process(mpi, ranks, mixed, tmp_path):
    tree, want = mixed
    job = good(index(mpi, ranks, tree, "-o", tmp_path / "c", "--json"))
    assert listed(tmp_path / "c") == want
    assert contents(tmp_path) == ["c"]
    assert len(job.out) == 1 and len(job.ours) == 1, "one result for all ranks"
    assert json.loads(job.out[0])["files"] == want[0].count(b"\0")
    assert f"{want[0].count(0):,} names in " in job.ours[0]
    alone("verify", tmp_path / "c")


TREES = {"nothing": [], "fewer files than ranks": [b"a/1", b"b/2", b"c"]}


@pytest.mark.parametrize("names", TREES.values(), ids=TREES)
def test_less_than_there_are_ranks(mpi, names, tmp_path):
    (tmp_path / "tree").mkdir()
    fill(tmp_path / "tree", names, size=7)
    good(index(mpi, 5, tmp_path / "tree", "-q", "--force", "-o", tmp_path / "c"))
    alone("index", tmp_path / "tree", "-q", "--force", "-o", tmp_path / "one")
    assert listed(tmp_path / "c") == listed(tmp_path / "one")
    assert contents(tmp_path) == ["c", "one", "tree"]


OPTIONS = {"no sizes": ["--no-sizes"], "patterns, samples and a root": [
    "--include", "*[05]", "--exclude", "skew/0*/", "--samples-per-file", 3, "--root", "s3://bucket/x"]}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_mean_what_they_mean_to_one_process(mpi, options, mixed, tmp_path):
    good(index(mpi, 3, mixed[0], "-q", "-o", tmp_path / "c", *options))
    alone("index", mixed[0], "-q", "-o", tmp_path / "one", *options)
    assert listed(tmp_path / "c") == listed(tmp_path / "one")


def test_every_rank_spills_and_the_catalog_is_the_same(mpi, large, tmp_path):
    job = good(index(mpi, 3, large, "-o", tmp_path / "c", "--memory", "48M"))
    assert [line for line in job.ours if "each rank needs 48M" in line], "that is more than was given, and said"
    assert json.loads(alone("info", tmp_path / "c", "--json"))["files"] == 300_000
    alone("index", large, "-q", "-o", tmp_path / "one")
    assert listed(tmp_path / "c") == listed(tmp_path / "one")
    assert contents(tmp_path) == ["c", "one"]


def test_quiet_ranks_say_nothing_of_memory(mpi, tmp_path):
    fill(tmp_path / "tree", [b"a"])
    for quiet in [], ["-q"]:
        job = good(index(mpi, 2, tmp_path / "tree", "-o", tmp_path / "c", "--memory", "48M", *quiet))
        assert ["each rank needs 48M" in line for line in job.ours] == ([] if quiet else [True, False])


def test_a_catalog_in_the_tree_is_no_part_of_it(mpi, tmp_path):
    fill(tmp_path, [b"a/b", b"c"])
    for _ in range(2):
        good(index(mpi, 2, tmp_path, "-q", "-o", tmp_path / "a" / "catalog"))
    assert alone("ls", tmp_path / "a" / "catalog") == b"a/b\nc\n"


def test_an_update_is_shared_too(mpi, mixed, scratch, tmp_path):
    old = scratch / "mixed.cat"
    job = good(index(mpi, 3, mixed[0], "-q", "--json", "-o", tmp_path / "c", "--update", old))
    assert listed(tmp_path / "c") == mixed[1]
    result = json.loads(job.out[0])
    assert result["files"] == mixed[1][0].count(b"\0")
    assert 0 < result["reused"] <= result["files"]
    assert result["unchanged"] > 400


@pytest.mark.parametrize("what", ["list", "pattern"])
def test_a_list_and_a_pattern_are_one_ranks_work(mpi, what, tmp_path):
    if what == "list":
        (tmp_path / "list").write_bytes(b"b\na\n")
        args = [tmp_path / "list", "--root", "null:"]
    else:
        args = ["--pattern", "{:03d}", "--count", 2]
    job = good(index(mpi, 3, *args, "-o", tmp_path / "c", "--json"))
    assert len(job.out) == 1 and len(job.ours) == 1
    assert json.loads(job.out[0])["files"] == 2
    assert alone("ls", tmp_path / "c") == (b"a\nb\n" if what == "list" else b"000\n001\n")


# ------------------------------------------------------------------------------------------------------------ errors


def fails(job, *words):
    """All ranks ended, and one of them said why in one sentence."""
    assert job.code not in (0, None), job.err
    assert job.out == []
    assert len(job.ours) == 1, job.err
    for word in words:
        assert word in job.ours[0]


def test_a_path_that_is_not_there_is_said_once(mpi, tmp_path):
    fails(index(mpi, 3, tmp_path / "not", "-o", tmp_path / "c"), f"'{tmp_path}/not'", "No such file")
    assert contents(tmp_path) == []


def test_a_uri_that_is_not_there_is_said_once(mpi, tmp_path):
    fails(index(mpi, 3, f"file://{tmp_path}/not", "-o", tmp_path / "c"), f"'file://{tmp_path}/not': cannot open it: No such file")
    assert contents(tmp_path) == []


def test_an_output_that_cannot_be_written_is_said_once(mpi, mixed, tmp_path):
    fails(index(mpi, 3, mixed[0], "-o", tmp_path / "no" / "c"), f"there is no directory '{tmp_path}/no'")


@pytest.fixture
def unreadable(tmp_path):
    """Directories among which some cannot be read, and who to be that they cannot."""
    tmp_path.chmod(0o755)
    for above in reversed(tmp_path.parents):
        if above.stat().st_uid == os.getuid() and str(above).startswith("/tmp/"):
            above.chmod(above.stat().st_mode | 0o055)
    tree, out = tmp_path / "tree", tmp_path / "out"
    fill(tree, [b"%02d/%d/f" % (i, k) for i in range(40) for k in range(5)])
    out.mkdir()
    out.chmod(0o777)
    closed = [tree / "07" / "3", tree / "31" / "0"]
    for path in closed:
        path.chmod(0)
    yield tree, out, closed
    for path in closed:
        path.chmod(0o755)


def as_nobody():
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}


def test_a_directory_that_cannot_be_read_ends_all_ranks_with_its_name(mpi, unreadable):
    tree, out, closed = unreadable
    job = index(mpi, 3, tree, "-o", out / "c", **as_nobody())
    if "Permission" not in job.err and job.code == 0:
        pytest.skip("whoever runs this may read everything")
    # Two ranks may meet one each before they hear of each other.
    assert job.code == 1 or mpi == "openmpi" and job.code != 0, job.err
    assert 1 <= len(job.ours) <= 2, job.err
    for line in job.ours:
        assert "Permission denied" in line
        assert any(f"'{path.relative_to(tree)}'" in line for path in closed), line
    assert job.out == [] and contents(out) == []
    assert job.seconds < 30


def test_ranks_together_do_not_replace_a_catalog_by_less_than_half_of_it(mpi, tmp_path):
    tree, path = tmp_path / "tree", tmp_path / "c"
    for i in range(30):
        (tree / str(i)).mkdir(parents=True)
        (tree / str(i) / "f").touch()
    good(index(mpi, 3, tree, "-q", "-o", path))
    before = path.read_bytes()
    for options, words in (["--include", "x"], "none of the 30 files"), (["--include", "1*/f"], "has 30 names, and only 11 were found"):
        job = index(mpi, 3, tree, "-q", "-o", path, *options)
        assert job.code == 1 and len([line for line in job.ours if words in line and "--force" in line]) == 1, job.err
        assert path.read_bytes() == before and contents(tmp_path) == ["c", "tree"]
    good(index(mpi, 3, tree, "-q", "-o", path, "--force", "--include", "1*/f"))
    assert json.loads(alone("info", path, "--json"))["files"] == 11


def test_keep_going_leaves_out_what_cannot_be_read(mpi, unreadable):
    tree, out, closed = unreadable
    job = index(mpi, 3, tree, "-o", out / "c", "--keep-going", "--json", **as_nobody())
    result = json.loads(job.out[0])
    warned = [line for line in job.ours if "Permission denied" in line]
    assert result["files"] == 198 and result["unreadable"] == 2
    assert len(warned) == 2 and all(any(str(path.relative_to(tree)) in line for line in warned) for path in closed)
    assert job.code == 1, "something was left out"
    assert contents(out) == ["c"]


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a file system: " + mounted.stderr.decode())
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_temporary_disk_ends_all_ranks(mpi, large, small_disk, tmp_path):
    job = index(mpi, 3, large, "-q", "-o", tmp_path / "c", "--tmp-dir", small_disk)
    assert job.code not in (0, None)
    assert 1 <= len(job.ours) <= 3, job.err  # it is full for all of them
    for line in job.ours:
        assert f"in '{small_disk}': " in line and "No space left on device" in line
        assert line.endswith("; free some space, or choose another directory with --tmp-dir")
    assert contents(tmp_path) == ["small"] and contents(small_disk) == []
    assert job.seconds < 30


def test_a_full_disk_with_resume_says_how_to_go_on(mpi, large, small_disk, tmp_path):
    job = index(mpi, 3, large, "-q", "-o", small_disk / "c", "--tmp-dir", tmp_path, "--resume")
    assert job.code not in (0, None) and not (small_disk / "c").exists()
    assert 1 <= len(job.ours) <= 3, job.err
    for line in job.ours:
        assert f"'{small_disk}/.c." in line
        assert line.endswith("No space left on device; free some space, and repeat the command to continue")
    subprocess.run(["mount", "-o", "remount,size=100m", small_disk], check=True)
    done = good(index(mpi, 3, large, "-q", "-o", small_disk / "c", "--tmp-dir", tmp_path, "--resume", "--json"))
    assert json.loads(done.out[0])["files"] == 300_000
    assert contents(small_disk) == ["c"] and contents(tmp_path) == ["small"]


def test_a_full_disk_under_the_catalog_ends_all_ranks(mpi, large, small_disk, tmp_path):
    """Rank 0 alone writes there."""
    job = index(mpi, 3, large, "-q", "-o", small_disk / "c", "--tmp-dir", tmp_path)
    fails(job, "rank 0", "No space left on device")
    assert contents(small_disk) == [] and contents(tmp_path) == ["small"]


# ----------------------------------------------------------------------------------------------------------- signals


def start_and_stop_one(mpi, tree, out, which):
    """A job of three ranks that cannot come to its end, because the rank `which` is stopped midway: its process ids."""
    for _ in range(20):
        job = start(mpi, 3, tree, "-q", "-o", out, "--threads", 1)
        until(lambda: len(job.ranks()) == 3 or job.process.poll() is not None)
        ranks = job.ranks()
        while not (out.parent / f".{out.name}.00000000.partial").exists() and job.process.poll() is None:
            pass  # rank 0 begins; what follows takes a tenth of a second
        if len(ranks) == 3:
            signal_if_alive(ranks[which], signal.SIGSTOP)
            time.sleep(0.5)  # the others do what they can without it
            if job.process.poll() is None and not out.exists():
                return job, ranks
            signal_if_alive(ranks[which], signal.SIGCONT)
        good(job.finish())  # the signal came after its work was done: another try
        out.unlink()
    pytest.fail("the listing was always faster than the signal")


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def signal_if_alive(pid, sig):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


@pytest.mark.parametrize("which", [0, 2])
def test_a_killed_rank_ends_the_job_and_the_next_one_succeeds(mpi, large, which, tmp_path):
    running, ranks = start_and_stop_one(mpi, large, tmp_path / "c", which)
    started = time.monotonic()
    os.kill(ranks[which], signal.SIGKILL)
    job = running.finish()
    assert time.monotonic() - started < 30
    assert job.code != 0 and job.out == []
    assert len(job.ours) <= 1, job.err
    assert set(contents(tmp_path)) <= {".c.00000000.partial"}, "at most what the next one takes over"
    until(lambda: not any(map(is_alive, ranks)))
    alone("index", large, "-q", "--no-sizes", "-o", tmp_path / "c")
    assert contents(tmp_path) == ["c"]


def test_a_killed_rank_0_is_spoken_for(tmp_path, large):
    """By rank 1, which Open MPI tells to end; MPICH's launcher kills all that are left, and speaks itself."""
    for _ in range(5):  # on a busy machine it may be killed, too, before it has spoken
        running, ranks = start_and_stop_one("openmpi", large, tmp_path / "c", 0)
        os.kill(ranks[0], signal.SIGKILL)
        job = running.finish()
        if job.ours:
            break
    assert len(job.ours) == 1 and job.ours[0].endswith("rank 0 has died: nothing was written"), job.err
    assert contents(tmp_path) == []


def test_ctrl_c_leaves_nothing_behind(mpi, large, tmp_path):
    for _ in range(5):
        running, ranks = start_and_stop_one(mpi, large, tmp_path / "c", 1)
        started = time.monotonic()
        os.kill(running.process.pid, signal.SIGINT)
        while is_alive(ranks[0]):  # launchers let all go on first, and may see the job end well
            signal_if_alive(ranks[1], signal.SIGSTOP)
        signal_if_alive(ranks[1], signal.SIGCONT)
        job = running.finish()
        assert time.monotonic() - started < 30
        if not (tmp_path / "c").exists():
            break
        (tmp_path / "c").unlink()  # which is whole: the signal came too late
    assert (job.code != 0 or mpi == "mpich") and job.out == []  # MPICH's launcher was seen to end with 0 then
    assert len(job.ours) <= 1 and all("interrupted" in line for line in job.ours), job.err
    until(lambda: not any(map(is_alive, ranks)))
    # Open MPI was seen to kill rank 0 at once, without a signal that can be heard: then the next one takes over.
    assert contents(tmp_path) in ([[]] if job.ours else [[], [".c.00000000.partial"]])
    alone("index", large, "-q", "--no-sizes", "-o", tmp_path / "c")
    assert contents(tmp_path) == ["c"]


# ---------------------------------------------------------------------------------------------------------- resuming


def begin_and_kill(mpi, ranks, tree, out, which, after):
    """Start a listing that could be resumed, kill one rank some time after all have begun, and wait for the end."""
    running = start(mpi, ranks, tree, "-q", "-o", out, "--resume", "--threads", 1)
    until(lambda: (out.parent / f".{out.name}.resume").exists() or running.process.poll() is not None)
    time.sleep(after)
    pids = running.ranks()
    if len(pids) == ranks:
        signal_if_alive(pids[which], signal.SIGKILL)
        until(lambda: not any(map(is_alive, pids)), limit=30)
        try:
            running.process.wait(20)
        except subprocess.TimeoutExpired:  # its ranks are gone, and the launcher was seen to wait on for ever
            running.kill()
    job = running.finish()
    until(lambda: not any(map(is_alive, pids)))
    return job


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_listing_goes_on_after_ranks_were_killed(mpi, ranks, large, scratch, tmp_path):
    if not (scratch / "large.cat").exists():
        alone("index", large, "-q", "-o", scratch / "large.cat")
    cut = 0
    for i, after in enumerate([0.0, 0.05, 0.1, 0.15]):
        job = begin_and_kill(mpi, ranks, large, tmp_path / "c", i % ranks, after)
        if job.code == 0:
            (tmp_path / "c").unlink()
            continue
        cut += 1
        assert not (tmp_path / "c").exists()
        assert {".c.resume", *(f".c.resume.{r}-of-{ranks}" for r in range(1, ranks))} <= set(contents(tmp_path))
    assert cut > 0
    done = good(index(mpi, ranks, large, "-q", "--json", "-o", tmp_path / "c", "--resume"))
    assert json.loads(done.out[0])["files"] == 300_000
    assert contents(tmp_path) == ["c"], "nothing is left behind"
    assert listed(tmp_path / "c") == listed(scratch / "large.cat")


@pytest.fixture
def interrupted(mpi, large, tmp_path):
    for after in [0.0, 0.01, 0.02]:
        if begin_and_kill(mpi, 2, large, tmp_path / "c", 1, after).code != 0:
            return tmp_path / "c"
        (tmp_path / "c").unlink()
    pytest.fail("it always came to its end")


@pytest.mark.parametrize("others", [1, 3, 5])
def test_other_ranks_go_on_with_what_was_left(mpi, large, interrupted, scratch, others):
    if not (scratch / "large.cat").exists():
        alone("index", large, "-q", "-o", scratch / "large.cat")
    done = good(index(mpi, others, large, "-q", "--json", "-o", interrupted, "--resume"))
    assert json.loads(done.out[0])["files"] == 300_000
    assert contents(interrupted.parent) == ["c"], "nothing is left behind"
    assert listed(interrupted) == listed(scratch / "large.cat")


def test_a_missing_checkpoint_of_a_rank_is_said(mpi, large, interrupted):
    (interrupted.parent / ".c.resume.1-of-2").unlink()
    for ranks in 2, 3:
        job = index(mpi, ranks, large, "-q", "-o", interrupted, "--resume")
        assert job.code != 0 and any(".c.resume.1-of-2' is missing" in line for line in job.ours), job.err
    good(index(mpi, 2, large, "-q", "-o", interrupted))
    assert contents(interrupted.parent) == ["c"], "a whole listing needs none of it"
