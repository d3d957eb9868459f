"""Two hosts of two ranks: the same results as one, and an end with a message when a host is cut off, frozen or killed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, until

SHOAL = BUILD / "shoal"
WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 200, record_length_bytes: 100}
reader: {batch_size: 1, read_threads: 1}
train: {epochs: 1, computation_time: 0.01}
metric: {au: 0.01}
"""


def alone(*arguments):
    return subprocess.run([SHOAL, *map(str, arguments)], check=True, capture_output=True, timeout=120).stdout


@pytest.fixture
def tree(hosts):
    for i in range(200):
        path = hosts.shared / "tree" / f"{i % 7}" / f"{i:04}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
    (hosts.shared / "w.yaml").write_text(WORKLOAD)
    return hosts.shared / "tree"


def test_two_hosts_give_what_one_gives(hosts, mpi, tree):
    alone("index", tree, "-q", "-o", hosts.shared / "one.cat")
    for command in (["index", tree, "-q", "-o", "two.cat"],
                    ["read", "two.cat", "--batch", 7, "-q", "--json"],
                    ["run", "w.yaml", "--data", "two.cat", "--results", "results", "-q", "--json"]):
        job = hosts.mpirun(mpi, 2, SHOAL, *command)
        out, err = job.communicate(timeout=60)
        said = "".join(map(hosts.said, range(4)))
        # MPICH over TCP may hang in MPI_Finalize after all was done: the command leaves it then.
        assert job.returncode == 0 or "MPI did not shut down" in said, (out, err, said)
        if command[0] == "read":
            facts = json.loads(out)
            assert facts["audit"]["exactly_once"] is True and facts["samples"] == 200
    one, two = (json.loads(alone("info", hosts.shared / name, "--json"))["digest"] for name in ("one.cat", "two.cat"))
    assert one == two
    summary = json.loads((hosts.shared / "results" / "summary.json").read_text())
    assert summary["num_hosts"] == 2 and summary["num_accelerators"] == 4


def test_the_dlio_benchmark_of_shoal_runs_on_two_hosts(hosts, mpi):
    """Nothing but MPI's own variables gets to the second one, as under mlpstorage."""
    pytest.importorskip("yaml")
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "SHOAL": str(SHOAL)}
    subprocess.run([sys.executable, "-m", "shoal.dlio.shim", "install", hosts.shared / "bin"], env=environment, check=True, capture_output=True)
    (hosts.shared / "conf" / "workload").mkdir(parents=True)
    (hosts.shared / "conf" / "workload" / "small.yaml").write_text(WORKLOAD)
    job = hosts.mpirun(mpi, 2, hosts.shared / "bin" / "dlio_benchmark", "workload=small", "--config-dir=conf", "++hydra.run.dir=out",
                       "++hydra.output_subdir=dlio_config", "++workload.dataset.data_folder=data", "++workload.workflow.generate_data=True",
                       "++workload.dataset.record_length_bytes=1000")
    out, err = job.communicate(timeout=120)
    said = "".join(map(hosts.said, range(4)))
    assert job.returncode == 0 or "MPI did not shut down" in said, (out, err, said)
    summary = json.loads((hosts.shared / "out" / "summary.json").read_text())
    assert summary["num_hosts"] == 2 and summary["num_accelerators"] == 4 and summary["num_files_train"] == 200
    assert out.count("Starting epoch 1: 50 steps expected") == 1 and "[METRIC] Number of Simulated Accelerators: 4" in out
    assert {f"{rank}_output.json" for rank in range(4)} | {"dlio.log", "dlio_config"} <= set(os.listdir(hosts.shared / "out"))
    log = (hosts.shared / "out" / "dlio.log").read_text()
    assert log.count("Running DLIO [Training] with 4 process(es)") == 1


def survivors(hosts, how):
    return hosts.all if how == "cut" else hosts.all[:1]


@pytest.mark.parametrize("how", ["cut", "freeze", "kill"])
def test_a_host_that_is_lost_ends_the_job_with_a_message(hosts, mpi, tree, how):
    """Whether the launcher notices it or not: the ranks that are left miss the others, and say whom."""
    job = hosts.mpirun(mpi, 2, SHOAL, "run", "w.yaml", "--results", "results", "--data", "null", "-q", "--peer-timeout", 4,
                       "train.epochs=1000")
    logs = [hosts.shared / "results" / ".shoal-run" / f"steps.{rank}" for rank in range(4)]
    until(lambda: all(log.exists() and log.stat().st_size > 500 for log in logs) or job.poll() is not None, 40,
          "the ranks did not start")
    assert job.poll() is None, job.communicate()
    getattr(hosts.all[1], how)()
    began = time.monotonic()
    until(lambda: not any(host.processes("shoal") for host in survivors(hosts, how)), 40, "ranks are left")
    assert time.monotonic() - began < 40
    said = [hosts.said(rank) for rank in range(4)]
    # A launcher that notices the loss first kills the ranks, and prints its own message.
    launcher_noticed = how == "kill" and not any("has " in words for words in said)
    if not launcher_noticed:
        assert any("rank 2 (at 10.99.0.2) has " in words for words in said[:2]), said
    if how == "cut":
        assert any("rank 0 (at 10.99.0.1) has " in words for words in said[2:]), said
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)


def test_a_signal_ends_the_ranks_of_a_job_that_is_cut_in_two(hosts, mpi, tree):
    """Long before they would miss each other."""
    job = hosts.mpirun(mpi, 2, SHOAL, "run", "w.yaml", "--results", "results", "--data", "null", "-q", "--peer-timeout", 300,
                       "train.epochs=1000")
    logs = [hosts.shared / "results" / ".shoal-run" / f"steps.{rank}" for rank in range(4)]
    until(lambda: all(log.exists() and log.stat().st_size > 500 for log in logs) or job.poll() is not None, 40,
          "the ranks did not start")
    assert job.poll() is None, job.communicate()
    hosts.all[1].cut()
    for host in hosts.all:
        for pid in host.processes("shoal"):
            os.kill(pid, signal.SIGTERM)
    until(lambda: not any(host.processes("shoal") for host in hosts.all), 20, "ranks are left")
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
