"""Ranks whose peers were stopped, killed or never end: signals act, and the others end with a message."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import BUILD, environment, mpirun
from test_index import Running, alone, until

SHOAL = BUILD / "shoal"
LIMIT = 5  # seconds from the first signal to the end of a process, which the pages promise
SLACK = 4  # for a machine under load


def state(pid):
    try:
        return pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def ended(pid):
    return state(pid) in "XZ"


def by_rank(job, nr):
    """The process of each rank, once all are there and MPI has started them."""
    found = {}

    def all_there():
        found.clear()
        for pid in job.ranks():
            try:
                words = pathlib.Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for word in words:
                name, _, value = word.partition(b"=")
                if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                    found[int(value)] = pid
        return len(found) == nr

    until(all_there)
    return [found[rank] for rank in range(nr)]


WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 60, record_length_bytes: 1000}
reader: {batch_size: 1, read_threads: 1}
train: {epochs: 100, computation_time: 0.05}
"""


def has_open(pid, path):
    """Whether the process has @path open; what it closes while we look is not that."""
    for fd in pathlib.Path("/proc", str(pid), "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(fd) == str(path):
                return True
    return False


class Jobs:
    """Jobs of three ranks that would not end by themselves, each with a sign that all ranks are at work."""

    def __init__(self, mpi, folder):
        self.mpi, self.folder, self.jobs = mpi, folder, []
        self.fifo = None

    def start(self, what, *options, launcher=()):
        command = [*mpirun(self.mpi, 3), *launcher, str(SHOAL), *getattr(self, what)(), *options]
        job = Running(command)
        self.jobs.append(job)
        pids = by_rank(job, 3)
        getattr(self, what + "_works")(pids)
        return job, pids

    def run(self):
        (self.folder / "w.yaml").write_text(WORKLOAD)
        return ["run", str(self.folder / "w.yaml"), "--results", str(self.folder / "results"), "--data", "null", "-q"]

    def run_works(self, _):
        logs = [self.folder / "results" / ".shoal-run" / f"steps.{rank}" for rank in range(3)]
        until(lambda: all(log.exists() and log.stat().st_size > 200 for log in logs))

    def read(self):
        """The ranks' shares differ in nothing, and a stopped rank keeps the others from their end."""
        alone("index", "--pattern", "{:07d}", "--count", 3000, "--size", 1, "--root", self.folder, "-q", "-o",
              self.folder / "c")
        return ["read", str(self.folder / "c"), "--data", "null:size=1,delay_us=1000", "--in-flight", "1", "-q"]

    def read_works(self, pids):
        """MPI has started: the catalog is opened after that."""
        until(lambda: all(str(self.folder / "c") in pathlib.Path("/proc", str(p), "maps").read_text() for p in pids))

    def index(self):
        """A list that never ends: rank 0 reads it, the others wait for rank 0."""
        path = self.folder / "list"
        os.mkfifo(path)
        self.fifo = os.open(path, os.O_RDWR)
        return ["index", str(path), "--root", str(self.folder), "-q", "-o", str(self.folder / "o.cat")]

    def index_works(self, pids):
        until(lambda: has_open(pids[0], self.folder / "list"))
        time.sleep(0.3)  # for the others to come to their wait, which nothing shows

    def end(self):
        for job in self.jobs:
            job.kill()
            job.process.communicate()
        if self.fifo is not None:
            os.close(self.fifo)


@pytest.fixture
def jobs(mpi, tmp_path):
    all_jobs = Jobs(mpi, tmp_path)
    yield all_jobs
    all_jobs.end()


@pytest.mark.parametrize("what, number", [("run", signal.SIGTERM), ("run", signal.SIGINT), ("read", signal.SIGTERM),
                                          ("index", signal.SIGTERM)])
def test_a_signal_ends_a_rank_whose_peer_is_stopped(jobs, what, number):
    _, pids = jobs.start(what)
    stopped, others = pids[0 if what == "index" else 1], [p for p in pids if p != pids[0 if what == "index" else 1]]
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: state(stopped) == "T")
    for pid in others:
        os.kill(pid, number)
    until(lambda: all(map(ended, others)), LIMIT + SLACK)


def test_a_second_signal_ends_a_rank_at_once(jobs):
    _, pids = jobs.start("run")
    os.kill(pids[1], signal.SIGSTOP)
    until(lambda: state(pids[1]) == "T")
    os.kill(pids[2], signal.SIGTERM)
    time.sleep(0.2)  # the time after which it counts as a second one
    assert not ended(pids[2])  # it still waits for the others to agree
    os.kill(pids[2], signal.SIGTERM)
    until(lambda: ended(pids[2]), 2)


def test_a_signal_that_comes_twice_at_once_is_one(jobs):
    """As Ctrl-C does, which the terminal sends to all and a launcher passes on: the run ends after its step."""
    job, pids = jobs.start("run")
    for pid in pids:
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGINT)
    assert "continue with --resume" in job.finish().err
    assert (jobs.folder / "results" / "summary.json").exists()


@pytest.mark.parametrize("what, rank", [("run", 0), ("run", 1), ("read", 1), ("index", 0)])
def test_a_stopped_rank_is_missed_and_named(jobs, what, rank):
    job, pids = jobs.start(what, "--peer-timeout", "3")
    os.kill(pids[rank], signal.SIGSTOP)
    end = job.finish(40)  # the launcher kills the stopped one
    assert end.code != 0
    assert f"rank {rank} (at " in end.err and "has not answered for 3 s" in end.err, end.err


@pytest.mark.parametrize("what", ["run", "read"])
def test_a_killed_rank_is_missed_where_the_launcher_lets_the_others_go_on(jobs, what):
    if jobs.mpi == "mpich":
        pytest.skip("MPICH tells the others by a signal")
    job, pids = jobs.start(what, launcher=["--enable-recovery"])
    os.kill(pids[1], signal.SIGKILL)
    others = [pids[0], pids[2]]
    until(lambda: all(map(ended, others)), 30)
    job.kill()
    err = job.process.communicate()[1]
    assert "rank 1" in err, err


def test_a_rank_that_works_for_longer_is_not_missed(jobs):
    """Rank 0 reads a list that comes slowly, and calls nothing of MPI meanwhile."""
    job, _ = jobs.start("index", "--peer-timeout", "1")
    for i in range(3):
        os.write(jobs.fifo, b"a%d\n" % i)
        time.sleep(1.2)  # longer than it may be silent
    os.close(jobs.fifo)
    jobs.fifo = None
    assert job.finish().code == 0


@pytest.mark.parametrize("value", ["-1", "x", "", "604801", "1.5"])
def test_a_malformed_peer_timeout_is_refused(value):
    done = subprocess.run([SHOAL, "read", "c", "--peer-timeout", value], capture_output=True, text=True)
    assert done.returncode == 2 and "--peer-timeout" in done.stderr


# -------------------------------------------------------------------------- an MPI that does not come to its end


@pytest.fixture
def hanging(tmp_path):
    module = BUILD / "tests" / "hanging_transport.so"
    assert module.exists()
    (tmp_path / "list").write_text("a\n")
    return {"args": [str(SHOAL), "index", str(tmp_path / "list"), "--root", "/r", "-q", "-o", str(tmp_path / "c")],
            "env": environment(SHOAL_MPI=str(module)), "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL,
            "text": True}


def test_a_shutdown_that_hangs_is_left_after_a_while(hanging, tmp_path):
    process = subprocess.Popen(**hanging)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 0 and "MPI did not shut down" in err
    alone("verify", tmp_path / "c")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_shutdown_that_hangs_is_ended_by_one_signal(hanging, number):
    process = subprocess.Popen(**hanging)
    line = process.stderr.readline()
    assert line == "shutting down\n"
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number  # and not 0, as when it leaves by itself


def test_a_start_that_hangs_ends_with_a_message(hanging):
    """As MPI_Init does if a host is lost meanwhile. Takes five seconds: the least limit there is."""
    hanging["args"] += ["--peer-timeout", "1"]
    hanging["env"]["HANG_AT_START"] = "1"
    process = subprocess.Popen(**hanging)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "MPI did not start within 5 s" in err and "a process of this job is missing" in err
