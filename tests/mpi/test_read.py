"""mpirun -n W shoal read: the ranks share an epoch, one of them tells of it, and a failure of one ends all."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

import pytest
from conftest import BUILD, mpirun
from test_index import Running, alone, until

SHOAL = BUILD / "shoal"
SIZES = [1, 2, 3, 5]
FILES = 203  # which neither of them divides
TOTAL = sum(range(FILES))


def start(mpi, ranks, *args):
    return Running([*mpirun(mpi, ranks), str(SHOAL), "read", *map(str, args)])


def read(mpi, ranks, *args):
    """The facts, which are several lines of JSON."""
    process = start(mpi, ranks, *args, "--json").process
    out, err = process.communicate(timeout=40)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if line.startswith("shoal")] == []
    return json.loads(out[out.index("{"):])


@pytest.fixture(scope="module")
def tree():
    """A tree of files with sizes from 0 on, and its catalog beside it."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-mpi-", dir=base))
    (path / "tree").mkdir()
    for i in range(FILES):
        (path / "tree" / f"{i:04}").write_bytes(bytes(i))
    alone("index", path / "tree", "-q", "-o", path / "c")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def digest(tree):
    """That of the order when one process reads it."""
    return json.loads(alone("read", tree / "c", "--epoch", 3, "--json"))["audit"]["order_digest"]


# Positions do not depend on ranks or batch: so the digest of a whole epoch is the same for any number of either.
@pytest.mark.parametrize("ranks, batch", list(zip(SIZES, [50, 4, 32, 100])))
def test_the_ranks_read_each_sample_once(mpi, ranks, batch, tree, digest):
    facts = read(mpi, ranks, tree / "c", "--epoch", 3, "--batch", batch)
    assert (facts["ranks"], facts["samples"], facts["bytes"], facts["errors"]) == (ranks, FILES, TOTAL, 0)
    assert facts["audit"]["exactly_once"] is True
    assert facts["audit"]["bytes_asked"] == facts["audit"]["bytes_delivered"] == TOTAL
    assert facts["audit"]["order_digest"] == digest


def test_ranks_that_permute_their_own_have_another_order(mpi, tree, digest):
    facts = read(mpi, 3, tree / "c", "--mode", "local", "--epoch", 3)
    assert (facts["samples"], facts["audit"]["exactly_once"]) == (FILES, True)
    assert facts["audit"]["order_digest"] != digest


def test_a_part_of_an_epoch_is_proven_too(mpi, tree):
    facts = read(mpi, 3, tree / "c", "--batch", 5, "--steps", 4)
    assert (facts["samples"], facts["audit"]["exactly_once"]) == (60, True)


def test_more_ranks_than_samples(mpi, tmp_path):
    (tmp_path / "two").mkdir()
    for name in "ab":
        (tmp_path / "two" / name).write_bytes(b"12345")
    alone("index", tmp_path / "two", "-q", "-o", tmp_path / "c")
    facts = read(mpi, 5, tmp_path / "c", "--batch", 1)
    assert (facts["samples"], facts["bytes"], facts["audit"]["exactly_once"]) == (2, 10, True)


def test_the_ranks_end_when_the_time_is_up_and_what_they_read_is_proven(mpi, tree):
    facts = read(mpi, 3, tree / "c", "--data", "null:delay_us=1000", "--batch", 5, "--in-flight", 2,
                 "--warm-up", 0.2, "--duration", 0.4, "--repeat", 2)
    assert len(facts["repeats"]) == 2 and all(f["seconds"] >= 0.3 and f["samples"] > 0 for f in facts["repeats"])
    assert facts["audit"]["exactly_once"] is True


def test_the_ranks_read_several_epochs(mpi, tree):
    facts = read(mpi, 3, tree / "c", "--epochs", 2, "--repeat", 2)
    assert (facts["samples"], facts["audit"]["exactly_once"], facts["audit"]["whole"]) == (4 * FILES, True, True)


# ---------------------------------------------------------------------------------------------------------------- errors


@pytest.fixture
def broken(tree):
    """The catalog, while a file of it is missing."""
    path = tree / "tree" / "0100"
    path.rename(tree / "aside")
    yield tree / "c"
    (tree / "aside").rename(path)


def test_a_file_that_is_missing_ends_all_with_one_sentence(mpi, broken):
    job = start(mpi, 3, broken).finish()
    assert job.code != 0
    assert len(job.ours) == 1, job.err
    assert "'0100' does not exist" in job.ours[0] and ": rank " in job.ours[0]
    assert job.seconds < 30


def test_a_file_that_is_skipped_is_named_by_its_rank(mpi, broken):
    job = start(mpi, 3, broken, "--keep-going", "--json").finish()
    assert job.code != 0
    assert len(job.out) == 1, "the figures of all"
    assert len(job.ours) == 1 and "sample 100: '0100' does not exist" in job.ours[0], job.err


def test_what_fails_on_all_ranks_is_said_once(mpi, tmp_path):
    job = start(mpi, 3, tmp_path / "none").finish()
    assert job.code != 0
    assert len(job.ours) == 1 and "none" in job.ours[0], job.err


@pytest.mark.parametrize("who", ["one rank", "all ranks"])
def test_what_was_read_is_reported_when_a_rank_is_interrupted(mpi, tmp_path, who):
    alone("index", "--pattern", "{:07d}", "--count", 500_000, "--size", 1, "--root", tmp_path, "-q", "-o",
          tmp_path / "c")
    running = start(mpi, 2, tmp_path / "c", "--data", "null:size=1,delay_us=2000", "--in-flight", 4, "--json",
                    "--progress", "json")
    assert '"progress"' in running.process.stderr.readline()  # all read
    for pid in running.ranks()[0 if who == "all ranks" else 1:]:
        os.kill(pid, signal.SIGINT)
    job = running.finish()
    assert job.code != 0
    facts = json.loads(job.out[0])
    assert facts["interrupted"] and 0 < facts["samples"] < 500_000 and facts["audit"]["exactly_once"]
    said = [json.loads(line) for line in job.err.splitlines() if '"message"' in line]
    assert said == [{"message": "interrupted: these figures are of the part that was read", "command": "read"}]


def test_progress_has_the_bytes_of_all_ranks_where_samples_differ(mpi, tmp_path):
    """Rank 0 reads samples of one byte, rank 1 of 10,000."""
    (tmp_path / "tree").mkdir()
    for i in range(200):
        (tmp_path / "tree" / f"{i:03}").write_bytes(bytes(10_000 if i % 2 else 1))
    alone("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    job = start(mpi, 2, tmp_path / "c", "--mode", "sequential", "--batch", 1, "--duration", 2.5, "--progress", "json").finish()
    assert job.code == 0, job.err
    shown = [json.loads(line) for line in job.err.splitlines() if '"progress"' in line]
    assert shown and 4000 < shown[-1]["bytes"] / shown[-1]["done"] < 6000, shown


@pytest.fixture
def dead(tmp_path):
    """Options for a job whose reads never end."""
    alone("index", "--pattern", "{:07d}", "--count", 500_000, "--size", 1, "--root", tmp_path, "-q", "-o", tmp_path / "c")
    return tmp_path / "c", "--data", "null:size=1,delay_us=3600000000", "--in-flight", 4


@pytest.fixture
def leased(tmp_path):
    """A catalog of two files: the first cannot be opened, as somebody keeps it for himself, the second is gone."""
    (tmp_path / "tree").mkdir()
    for name in "ab":
        (tmp_path / "tree" / name).write_bytes(b"12345")
    alone("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    (tmp_path / "tree" / "b").unlink()
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # which asks to give the file up
    with open(tmp_path / "tree" / "a", "r+b") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as e:
            pytest.skip(f"no leases here: {e}")
        yield tmp_path / "c"
    signal.signal(signal.SIGIO, before)


def test_a_rank_that_waits_for_a_dead_read_hears_another_fail(mpi, leased):
    job = start(mpi, 2, leased, "--mode", "sequential", "--batch", 1).finish()
    assert job.code != 0
    assert len(job.ours) == 1 and ": rank 1: " in job.ours[0] and "'b' does not exist" in job.ours[0], job.err
    assert job.seconds < 30


def test_a_rank_that_is_killed_ends_the_others(mpi, dead):
    """Whoever started them says which one it was: MPICH on standard output, Open MPI on standard error."""
    running = start(mpi, 3, *dead, "--json")
    until(lambda: len(running.ranks()) == 3)
    # MPI has started: the catalog is opened after that.
    until(lambda: all(str(dead[0]) in pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in running.ranks()))
    begun = time.monotonic()
    os.kill(running.ranks()[1], signal.SIGKILL)
    job = running.finish()
    assert job.code != 0 and job.out == []
    assert time.monotonic() - begun < 30


def test_a_rank_whose_read_times_out_ends_one_that_waits(mpi, dead):
    job = start(mpi, 3, *dead, "--timeout", 1).finish()
    assert job.code != 0
    assert len(job.ours) == 1 and "in flight for longer than 1 s" in job.ours[0], job.err
    assert job.seconds < 30
