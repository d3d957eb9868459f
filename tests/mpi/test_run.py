"""mpirun -n W shoal run: ranks that meet after every step, one result of all, and no hang whatever happens."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import BUILD, mpirun
from test_index import Running, until

SHOAL = BUILD / "shoal"
SCRIPT = pathlib.Path(__file__).parents[1] / "cli" / "read_dlio_summary.py"
SIZES = [1, 2, 3, 5]
FILES = 61  # which none of them divides, nor do their batches

WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: %d, record_length_bytes: 1000}
reader: {batch_size: 3, read_threads: 3, file_shuffle: seed}
train: {epochs: 2, computation_time: {mean: 0.004, stdev: 0.002, type: normal}}
metric: {au: 0.01}
""" % FILES


@pytest.fixture(scope="module")
def place():
    """A folder with data and a workload, in memory."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-mpi-", dir=base))
    (path / "data" / "train").mkdir(parents=True)
    for i in range(FILES):
        (path / "data" / "train" / f"img_{i:02}_of_{FILES}.npz").write_bytes(bytes(1000))
    (path / "w.yaml").write_text(WORKLOAD)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(mpi, place, tmp_path):
    def go(ranks, *args, results=None):
        return Running([*mpirun(mpi, ranks), str(SHOAL), "run", str(place / "w.yaml"), "--results",
                        str(results or tmp_path / "results"), *map(str, args)])

    return go


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def ours(job):
    return [line for line in job.err.splitlines() if line.startswith("shoal")]


@pytest.mark.parametrize("ranks", SIZES)
def test_the_ranks_share_every_epoch(start, place, tmp_path, ranks):
    job = start(ranks, "--data", place / "data", "-q").finish()
    assert job.code == 0 and ours(job) == [], job.err
    facts = summary(tmp_path / "results")
    assert (facts["num_accelerators"], facts["shoal"]["ranks"], facts["num_hosts"]) == (ranks, ranks, 1)
    for phase in facts["shoal"]["phases"]:
        steps = FILES // (3 * ranks)
        assert phase["steps"] == steps
        assert phase["audit"]["exactly_once"] is True and phase["audit"]["samples"] == steps * 3 * ranks
        assert 0 < phase["au_percentage"] <= 100.01
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "results"], stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout)["accelerators"] == ranks


def test_ranks_of_several_accelerators_read_what_single_ones_do(start, place, tmp_path):
    digests = []
    for ranks, accelerators in [(4, 1), (2, 2), (1, 4)]:
        results = tmp_path / str(ranks)
        job = start(ranks, "--data", place / "data", "-q", "--accelerators-per-rank", accelerators, results=results).finish()
        assert job.code == 0, job.err
        facts = summary(results)
        assert facts["num_accelerators"] == 4
        digests.append([phase["audit"]["order_digest"] for phase in facts["shoal"]["phases"]])
        assert sum(name.name.endswith("_output.json") for name in results.iterdir()) == 4
    assert digests[0] == digests[1] == digests[2]


def test_a_folder_is_listed_by_all_ranks(start, place, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for i in range(FILES):
        (other / f"x{i}.npz").write_bytes(bytes(500 + i))
    job = start(3, "--data", other, "-q").finish()
    assert job.code == 0, job.err
    assert (tmp_path / "results" / "train.shoal").exists()
    assert summary(tmp_path / "results")["shoal"]["phases"][0]["audit"]["exactly_once"] is True


def test_what_is_wrong_is_said_once(start, place, tmp_path):
    for args, words in [(["--data", place / "data", "dataset.num_files_train=99"], "99 files"),  # rank 0 finds it
                        (["--data", place / "data", "reader.batch_size=50"], "50")]:  # all ranks do
        job = start(3, *args).finish()
        assert job.code != 0
        assert len(ours(job)) == 1 and words in ours(job)[0], job.err
        assert job.seconds < 30
        shutil.rmtree(tmp_path / "results", ignore_errors=True)


def test_a_file_that_vanishes_ends_all_ranks_with_one_sentence(start, place, tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copytree(place / "data" / "train", tmp_path / "data" / "train")
    (tmp_path / "data" / "train" / f"img_17_of_{FILES}.npz").unlink()
    job = start(3, "--data", tmp_path / "data", "-q").finish()
    assert job.code != 0 and len(ours(job)) == 1, job.err
    assert "img_17" in ours(job)[0]
    assert job.seconds < 30


def recorded(results, rank):
    path = results / ".shoal-run" / f"steps.{rank}"
    return (path.stat().st_size - 80) // 40 if path.exists() else 0


SLOW = ["train.computation_time=0.1", "--data", "null"]


def test_a_signal_to_one_rank_ends_all_after_the_step_and_is_resumed(start, tmp_path):
    results = tmp_path / "results"
    running = start(3, *SLOW)
    until(lambda: recorded(results, 0) >= 2)
    os.kill(running.ranks()[1], signal.SIGINT)
    job = running.finish()
    assert job.code != 0 and job.seconds < 30
    facts = summary(results)
    assert facts["shoal"]["partial"] is True
    before = facts["shoal"]["phases"][-1]["steps"]
    assert 2 <= before <= 6
    job = start(3, *SLOW, "--resume").finish()
    assert job.code == 0, job.err
    facts = summary(results)
    assert facts["shoal"]["partial"] is False
    assert [phase["steps"] for phase in facts["shoal"]["phases"]] == [6, 6]
    assert facts["shoal"]["phases"][0]["steps_before_resume"] == before
    assert all(phase["audit"]["exactly_once"] for phase in facts["shoal"]["phases"])
    # Though ranks were stopped in the middle of a step, some after they had taken its batch.
    assert all(phase["audit"]["covers_whole_epoch"] for phase in facts["shoal"]["phases"])


def test_all_ranks_of_a_resumed_run_know_the_epochs_before(start, tmp_path):
    results = tmp_path / "results"
    args = ["train.computation_time=0.05", "train.epochs=3", "metric.au=0.75", "--data", "null", "-q"]
    running = start(2, *args)
    until(lambda: recorded(results, 0) >= 10 + 2 + 2)  # of the second epoch
    os.kill(running.ranks()[0], signal.SIGTERM)
    running.finish()
    before = summary(results)["shoal"]["phases"]
    assert [phase["partial"] for phase in before] == [False] * (len(before) - 1) + [True] and len(before) >= 2
    job = start(2, *args, "--resume").finish()
    assert job.code == 0 and ours(job) == [], job.err  # the launcher's code is that of any rank that fails
    facts = summary(results)
    assert facts["metric"]["train_au_mean_percentage"] >= 75
    assert [phase["steps"] for phase in facts["shoal"]["phases"]] == [10, 10, 10]


def test_a_rank_that_dies_ends_the_job_and_leaves_no_summary(start, tmp_path):
    results = tmp_path / "results"
    running = start(3, *SLOW)
    until(lambda: recorded(results, 0) >= 2)
    os.kill(running.ranks()[2], signal.SIGKILL)
    job = running.finish()
    assert job.code != 0 and job.seconds < 30
    assert not (results / "summary.json").exists()
    done = min(recorded(results, rank) for rank in range(3))
    job = start(3, *SLOW, "--resume", "-q").finish()
    assert job.code == 0, job.err
    first = summary(results)["shoal"]["phases"][0]
    assert (first["steps"], first["steps_before_resume"]) == (6, done)


def test_a_run_is_resumed_with_as_many_ranks(start, tmp_path):
    results = tmp_path / "results"
    running = start(2, *SLOW)
    until(lambda: recorded(results, 0) >= 1)
    os.kill(running.ranks()[0], signal.SIGTERM)
    running.finish()
    job = start(3, *SLOW, "--resume").finish()
    assert job.code != 0 and len(ours(job)) == 1, job.err
    assert "had 2 ranks of 1 accelerator; resume it with the same ranks" in ours(job)[0]


def test_waiting_ranks_sleep(start, tmp_path):
    """Three ranks that sleep in computing, and wait for each other, use less than a tenth of a core each."""
    running = start(3, "train.computation_time=0.3", "--data", "null")
    until(lambda: recorded(tmp_path / "results", 0) >= 1)
    pids = running.ranks()
    since = time.monotonic()
    before = {pid: cpu(pid) for pid in pids}
    time.sleep(1.5)
    used = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            used.append(cpu(pid) - before[pid])
    passed = time.monotonic() - since
    job = running.finish()
    assert job.code == 0, job.err
    assert used and max(used) < 0.1 * passed, (used, passed)


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
