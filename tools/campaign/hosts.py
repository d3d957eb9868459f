"""Hosts that are cut off, frozen or killed while a job of four ranks works on two of them: every process that is left ends,
with a message, in bounded time. Hosts are those of tests/hosts; they need root."""
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import time

import patience

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 90  # seconds from the loss to the end of the last process: 8 of waiting for peers, 40 for MPI's start, the rest for a busy machine
NAMES = ("run", "read", "datagen")
HOWS = ("cut", "freeze", "kill")
MPIS = ("openmpi", "mpich")
WORKLOAD = """
model: {name: hosts}
framework: pytorch
dataset: {format: npz, num_files_train: 200, record_length_bytes: 100}
reader: {batch_size: 1, read_threads: 1}
train: {epochs: 1000, computation_time: 0.01}
"""


def harness():
    spec = importlib.util.spec_from_file_location("hosts_conftest", ROOT / "tests" / "hosts" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def why_not():
    reason = harness().why_not()
    missing = [mpi for mpi in MPIS if not shutil.which(f"mpirun.{mpi}")]
    return reason or (f"there is no {missing[0]} here" if missing else None)


def wait_until(condition, limit):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def command_of(name, shoal):
    """A command of so many steps that it does not end by itself, and the sign that all ranks are at work."""
    if name == "run":
        return [shoal, "run", "w.yaml", "--results", "results", "--data", "null", "-q", "--peer-timeout", 8]
    if name == "datagen":
        return [shoal, "datagen", "w.yaml", "--data", "made", "-q", "--no-sync", "--peer-timeout", 8, "dataset.num_files_train=200000",
                "dataset.record_length_bytes=500"]
    return [shoal, "read", "names.cat", "--data", "null:size=64", "--epochs", 1000, "--batch", 64, "-q", "--peer-timeout", 8]


def at_work(hosts, name):
    if name == "run":
        logs = [hosts.shared / "results" / ".shoal-run" / f"steps.{rank}" for rank in range(4)]
        return all(log.exists() and log.stat().st_size > 100 for log in logs)
    if name == "datagen":
        return (hosts.shared / "made" / "train").exists() and len(os.listdir(hosts.shared / "made" / "train")) > 20
    return sum(len(host.processes("shoal")) for host in hosts.all) == 4


def one(rng, how, mpi, name):
    """Lose a host once. Returns the seconds until all that was left had ended, and what was wrong or None."""
    made = harness()
    try:
        hosts = made.Hosts(2)
    except (AssertionError, subprocess.SubprocessError) as error:
        return 0, f"not started: {error}"
    try:
        (hosts.shared / "w.yaml").write_text(WORKLOAD)
        shoal = made.BUILD / "shoal"
        if name == "read":
            made.run(shoal, "index", "--pattern", "{:09d}", "--count", 4_000_000, "--size", 64, "--root", hosts.shared, "-q", "-o",
                     hosts.shared / "names.cat")
        job = hosts.mpirun(mpi, 2, *command_of(name, shoal))
        if not wait_until(lambda: at_work(hosts, name) or job.poll() is not None, 60) or job.poll() is not None:
            return 0, f"not started: {name} under {mpi}: {[hosts.said(rank)[-200:] for rank in range(4)]}"
        time.sleep(rng.uniform(0, 1))
        getattr(hosts.all[1], how)()
        began = time.monotonic()
        left = hosts.all if how == "cut" else hosts.all[:1]
        ended = wait_until(lambda: not any(host.processes("shoal") for host in left), LIMIT)
        took = time.monotonic() - began
        where = [] if ended else [patience.stacks(pid) for host in left for pid in host.processes("shoal")]
        said = [hosts.said(rank)[-200:] for rank in range(4)]
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        if not ended:
            return took, f"hung: {name} under {mpi}, host {how}: {said} {where}"
        if how == "freeze" and not any(said[:2]):
            return took, f"silent: {name} under {mpi}, host {how}"
        return took, None
    except (AssertionError, subprocess.SubprocessError) as error:
        return 0, f"not started: {error}"
    finally:
        hosts.end()
