"""Two hosts of a Slurm of their own: srun starts the same jobs as mpirun, and a rank or a host that is lost ends them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BUILD, until
from test_hosts import WORKLOAD, alone
from test_hosts_differ import digest, good

SHOAL = BUILD / "shoal"
SETTINGS = """ClusterName=hosts
SlurmctldHost={names[0]}({addresses[0]})
AuthInfo=socket={shared}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={shared}/state
SlurmctldPidFile={shared}/slurmctld.pid
SlurmctldLogFile={shared}/slurmctld.log
SlurmdSpoolDir=/tmp/slurmd
SlurmdPidFile=/tmp/slurmd.pid
SlurmdLogFile={shared}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# What srun offers to a rank, and what a rank runs first: hosts of one kernel must not seem to share memory.
START = {"openmpi": ("pmix", ":"), "mpich": ("pmi2", "export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0")}


class Slurm:
    """The daemons of Slurm on hosts; they end with them."""

    def __init__(self, hosts):
        self.hosts, shared = hosts, hosts.shared
        (shared / "state").mkdir()
        (shared / "slurm.conf").write_text(SETTINGS.format(
            shared=shared, names=[host.name for host in hosts.all], addresses=[host.address for host in hosts.all],
            nodes="\n".join(f"NodeName={host.name} NodeAddr={host.address} CPUs=8" for host in hosts.all)))
        key = shared / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        first = hosts.all[0]
        self.daemon(first, "munged", "--foreground", "--force", *(f"--{word}={shared}/munge.{end}" for word, end in (
            ("socket", "sock"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))))
        until((shared / "munge.sock").exists, 20, "munged did not start")
        self.daemon(first, "slurmctld", "-D")
        for host in hosts.all:
            self.daemon(host, "slurmd", "-D", "-N", host.name)
        until(lambda: self.command("sinfo", "-h", "-o", "%t %D").communicate()[0] == f"idle {len(hosts.all)}\n", 40,
              "Slurm did not start")

    def daemon(self, host, *words):
        host.start(["env", f"SLURM_CONF={self.hosts.shared}/slurm.conf", *words], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(self, *words):
        return self.hosts.all[0].start(["env", f"SLURM_CONF={self.hosts.shared}/slurm.conf", *words], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def srun(self, mpi, *words):
        """Two ranks per host."""
        (kind, before), nr = START[mpi], len(self.hosts.all)
        return self.command("srun", f"--mpi={kind}", f"-N{nr}", f"-n{2 * nr}", *self.hosts.ranked(before), *words)


@pytest.fixture
def slurm(hosts):
    for tool in ("munged", "slurmctld", "slurmd", "srun"):
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool} here")
    (hosts.shared / "w.yaml").write_text(WORKLOAD)
    for i in range(200):
        path = hosts.shared / "tree" / f"{i % 7}" / f"{i:04}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
    return Slurm(hosts)


def test_srun_gives_what_one_process_gives(slurm, hosts, mpi):
    alone("index", hosts.shared / "tree", "-q", "-o", hosts.shared / "one.cat")
    good(hosts, slurm.srun(mpi, SHOAL, "index", "tree", "-q", "-o", "two.cat"))
    assert digest(hosts.shared / "two.cat") == digest(hosts.shared / "one.cat")
    facts = json.loads(good(hosts, slurm.srun(mpi, SHOAL, "read", "two.cat", "--batch", 7, "-q", "--json")))
    assert facts["audit"]["exactly_once"] is True and facts["samples"] == 200
    good(hosts, slurm.srun(mpi, SHOAL, "run", "w.yaml", "--data", "two.cat", "--results", "results", "-q"))
    summary = json.loads((hosts.shared / "results" / "summary.json").read_text())
    assert summary["num_hosts"] == 2 and summary["num_accelerators"] == 4


def at_work(slurm, hosts, mpi):
    """A job that would not end by itself."""
    job = slurm.srun(mpi, SHOAL, "run", "w.yaml", "--results", "results", "--data", "null", "-q", "--peer-timeout", 4,
                     "train.epochs=1000")
    logs = [hosts.shared / "results" / ".shoal-run" / f"steps.{rank}" for rank in range(4)]
    until(lambda: all(log.exists() and log.stat().st_size > 500 for log in logs) or job.poll() is not None, 40,
          "the ranks did not start")
    assert job.poll() is None, job.communicate()
    return job


def stop(job, seconds=10):
    """What srun printed, once all ranks have ended. It may not know that they have."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(timeout=seconds)
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    return job.communicate()[1]


def test_a_killed_rank_ends_the_others(slurm, hosts, mpi):
    """With PMIx Slurm ends them. Otherwise it lets them go on (--kill-on-bad-exit=0), and they miss it by themselves."""
    job = at_work(slurm, hosts, mpi)
    os.kill(hosts.all[1].processes("shoal")[0], signal.SIGKILL)
    until(lambda: not any(host.processes("shoal") for host in hosts.all), 40, "ranks are left")
    said = [hosts.said(rank) for rank in range(4)]
    assert mpi == "openmpi" or any(f"rank {rank} (at 10.99.0.2) has ended unexpectedly" in "".join(said) for rank in (2, 3)), said
    assert "Killed" in stop(job)


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # one is enough
def test_a_host_that_is_cut_off_ends_the_ranks_on_both_sides(slurm, hosts, mpi):
    job = at_work(slurm, hosts, mpi)
    hosts.all[1].cut()
    until(lambda: not any(host.processes("shoal") for host in hosts.all), 40, "ranks are left")
    said = [hosts.said(rank) for rank in range(4)]
    assert any("rank 2 (at 10.99.0.2) has " in words for words in said[:2]), said
    assert any("rank 0 (at 10.99.0.1) has " in words for words in said[2:]), said
    stop(job, 0)


def test_scancel_ends_a_job_that_can_be_resumed(slurm, hosts, mpi):
    """It sends SIGTERM to all ranks, and SIGKILL 30 s later."""
    job = at_work(slurm, hosts, mpi)
    began = time.monotonic()
    assert slurm.command("scancel", "--full", "--user=root").wait(timeout=20) == 0
    until(lambda: not any(host.processes("shoal") for host in hosts.all), 20, "ranks are left")
    assert time.monotonic() - began < 20
    assert (hosts.shared / "results" / ".shoal-run" / "state").exists()
    stop(job)
