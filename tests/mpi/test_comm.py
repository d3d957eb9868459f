"""Ranks under a real MPI, both of them. The driver is tests/comm_driver.c of the build that SHOAL names, or of build/.

A thing that hangs fails by its time limit; nothing here takes more than a few seconds.
"""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import BUILD, environment, mpirun

LIMIT = 25  # seconds
SIZES = [1, 2, 3, 5]
NAMES = {"openmpi": "Open MPI v", "mpich": "MPICH "}


class Job:
    """What a run of the driver gave: exit code, lines of both outputs, seconds."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out.splitlines(), err.splitlines(), seconds

    def said(self, rank):
        """The words that a rank of the driver failed with."""
        start = f"comm_driver: rank {rank} says: "
        return [line[len(start):] for line in self.err if line.startswith(start)]


def start(mpi, ranks, *args, **more):
    command = [*mpirun(mpi, ranks), str(BUILD / "tests" / "comm_driver"), *map(str, args)]
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{command} still ran after {LIMIT} s: {out}{err}")
    return Job(process.returncode, out, err, time.monotonic() - started)


def good(job):
    assert (job.code, job.err) == (0, [])
    return job


def length_of(rank, unit):
    return 0 if rank % 4 == 2 else unit * (rank + 1) + rank


@pytest.mark.parametrize("ranks", SIZES)
def test_ranks_know_their_places_and_all_calls_work(mpi, ranks):
    unit = 70001
    job = good(start(mpi, ranks, "place", "+", "trees", "+", "gather", ranks - 1, 4096, unit, "+",
                     "gather", "all", 4096, unit, "+", "gather", 0, 1 << 20, 10 * unit, "+",
                     "gather", "all", 1 << 20, 10 * unit, "+",
                     "exchange", 4096, unit, "+", "exchange", 1 << 20, 10 * unit, "+", "mail", 60))
    for rank in range(ranks):
        place = f"rank {rank} of {ranks}, node 0 of 1, {rank} of {ranks} there, leader 0, {NAMES[mpi]}"
        assert sum(line.startswith(place) for line in job.out) == 1
    assert job.out.count(f"max {ranks - 1} 100") == ranks
    assert job.out.count("mail read") == ranks
    total = sum(length_of(rank, unit) for rank in range(ranks))
    assert job.out.count(f"gathered {total}") == ranks + 1


@pytest.mark.parametrize("where", ["barrier", "poll", "gather", "gather-all"])
def test_all_ranks_end_with_the_words_of_the_one_that_failed(mpi, where):
    job = start(mpi, 3, "fail", 1, where)
    words = "rank 1 has no room left" if where.startswith("gather") else "the words of rank 1"
    assert job.code == 1
    assert job.said(1) == [words]
    assert job.said(0) == job.said(2) == [f"rank 1: {words}"]
    assert job.seconds < 30


def test_a_rank_that_does_not_come_to_the_end_is_ended(mpi):
    job = start(mpi, 2, "absent")
    assert job.code != 0
    assert job.said(0) == ["the words of rank 0"]
    assert job.seconds < 30


def test_ranks_that_call_different_things_are_told(mpi):
    job = start(mpi, 3, "mismatch")
    assert job.code == 1
    assert re.match(r"rank 2 is at a reduce \(call \d+\), but rank 0 at a barrier", job.said(0)[0])
    assert job.said(1) == job.said(2) == ["rank 0: " + job.said(0)[0]]


def test_a_stop_on_one_rank_ends_all(mpi):
    job = start(mpi, 3, "stop")
    assert job.code != 0
    assert job.said(2) == ["stopped"]
    assert job.said(0) == ["rank 2: stopped"]
    assert job.seconds < 30


def test_a_killed_rank_ends_the_job(mpi):
    job = start(mpi, 3, "kill", 1, signal.SIGKILL.value)
    assert job.code != 0
    assert job.seconds < 30


def test_waiting_costs_little(mpi):
    job = good(start(mpi, 2, "cpu", 2000))
    waits = [re.fullmatch(r"waited ([\d.]+) cpu ([\d.]+)", line) for line in job.out]
    assert len(waits) == 2
    for wait in waits:
        assert float(wait[1]) >= 1.9
        assert float(wait[2]) < 0.3 * float(wait[1])


def test_none_makes_each_process_one_of_its_own(mpi):
    job = good(start(mpi, 2, "place", SHOAL_MPI="none"))
    assert job.out == ["rank 0 of 1, node 0 of 1, 0 of 1 there, leader 0, one process"] * 2


def test_a_missing_module_is_said_with_what_to_do(mpi, tmp_path):
    job = start(mpi, 1, "place", SHOAL_MODULE_DIR=str(tmp_path))
    words = "".join(line for line in job.err if line.startswith("comm_driver: "))
    assert job.code == 1
    for part in (f"says that {mpi} started", f"no shoal_mpi_{mpi}.so in {tmp_path}, ", "SHOAL_MPI=none"):
        assert part in words


def test_a_module_by_its_path(mpi):
    job = good(start(mpi, 2, "place", SHOAL_MPI=str(BUILD / f"shoal_mpi_{mpi}.so"), SHOAL_MODULE_DIR=""))
    assert len([line for line in job.out if NAMES[mpi] in line]) == 2


def test_the_wrong_mpi_is_not_taken_for_being_alone(mpi):
    other = "mpich" if mpi == "openmpi" else "openmpi"
    if not (BUILD / f"shoal_mpi_{other}.so").exists():
        pytest.skip(f"{BUILD} was configured without {other}")
    job = start(mpi, 2, "place", SHOAL_MPI=other)
    assert job.code != 0
    assert job.out == []
    assert "not the MPI that started them" in "".join(job.err)


def test_alone_no_mpi_is_loaded(tmp_path):
    done = subprocess.run([BUILD / "tests" / "comm_driver", "place", "+", "trees", "+", "mail", "20"], check=True,
                          env=environment(SHOAL_MODULE_DIR=str(tmp_path)), stdout=subprocess.PIPE, text=True,
                          timeout=LIMIT)
    assert done.stdout.splitlines()[0].endswith(", one process")


def test_programs_do_not_link_mpi():
    for program in (BUILD / "shoal", BUILD / "tests" / "comm_driver"):
        needed = subprocess.run(["readelf", "-d", program], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert "libmpi" not in needed
