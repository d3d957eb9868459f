"""More hosts than two, and links that are slow and lose frames: one result."""

import json
import subprocess
import sys

import pytest
from conftest import BUILD, made_of, ns
from test_hosts import WORKLOAD, alone
from test_hosts_differ import digest, good

SHOAL = BUILD / "shoal"
GATHER = """
import sys
sys.path.insert(0, sys.argv[1])
import os
import torch.distributed
from shoal.torch import gather_objects
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
size = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["PMI_SIZE"])
torch.distributed.init_process_group("gloo", init_method="tcp://10.99.0.1:29512", rank=rank, world_size=size)
print(rank, sum(map(len, gather_objects(list(range(rank * 1000)), budget=1 << 20))), flush=True)
torch.distributed.destroy_process_group()
"""
REFUSED = """
import socket, time
began = time.monotonic()
socket.socket().connect_ex(("10.99.0.2", 1))
print(time.monotonic() - began)
"""


def make(hosts):
    for i in range(120):
        path = hosts.shared / "tree" / f"{i % 7}" / f"{i:04}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100 + i))
    (hosts.shared / "w.yaml").write_text(WORKLOAD.replace("200", "120").replace("bytes: 100", "bytes: 1000"))
    alone("index", hosts.shared / "tree", "-q", "-o", hosts.shared / "one.cat")


def everything(hosts, mpi):
    """Each command gives what one host gives."""
    good(hosts, hosts.mpirun(mpi, 1, SHOAL, "index", "tree", "-q", "-o", "all.cat"))
    assert digest(hosts.shared / "all.cat") == digest(hosts.shared / "one.cat")
    facts = json.loads(good(hosts, hosts.mpirun(mpi, 1, SHOAL, "read", "all.cat", "--batch", 7, "-q", "--json")))
    assert facts["audit"]["exactly_once"] is True and facts["samples"] == 120
    good(hosts, hosts.mpirun(mpi, 1, SHOAL, "run", "w.yaml", "--data", "all.cat", "--results", "results", "-q"))
    assert json.loads((hosts.shared / "results" / "summary.json").read_text())["num_hosts"] == len(hosts.all)
    good(hosts, hosts.mpirun(mpi, 1, SHOAL, "datagen", "w.yaml", "--data", "data", "-q"))
    alone("datagen", hosts.shared / "w.yaml", "--data", hosts.shared / "alone", "-q")
    assert digest(hosts.shared / "data" / "catalog.shoal") == digest(hosts.shared / "alone" / "catalog.shoal")


@pytest.mark.parametrize("nr, mpi", [(3, "openmpi"), (4, "mpich")], indirect=["mpi"])
def test_three_and_four_hosts_give_what_one_gives(mpi, nr):
    with made_of(nr) as hosts:
        make(hosts)
        everything(hosts, mpi)


def test_links_that_delay_and_lose_frames_change_no_result(mpi):
    """Ten milliseconds each way, and one frame in a hundred."""
    with made_of(2, (0.01, 0.01)) as hosts:
        make(hosts)
        answered = subprocess.run([*ns(hosts.all[0].pid, "-n"), sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True)
        assert float(answered.stdout) >= 0.02
        everything(hosts, mpi)


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # one is enough
def test_columns_and_objects_are_gathered_over_hosts(hosts, mpi):
    make(hosts)
    good(hosts, hosts.mpirun(mpi, 2, SHOAL, "column", "sizes", "one.cat", "-q", "-o", "sizes.col"))
    alone("column", "sizes", hosts.shared / "one.cat", "-q", "-o", hosts.shared / "alone.col")
    assert (hosts.shared / "sizes.col").read_bytes() == (hosts.shared / "alone.col").read_bytes()
    pytest.importorskip("torch", reason="torch is not installed")
    (hosts.shared / "gather.py").write_text(GATHER)
    out = good(hosts, hosts.mpirun(mpi, 2, sys.executable, "gather.py", BUILD / "python"))
    assert sorted(out.splitlines()) == [f"{rank} 6000" for rank in range(4)]
