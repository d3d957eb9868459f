"""Two hosts whose data is on a network file system: sshfs, over the link between them, with caches of its own on each host."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, until
from test_hosts import WORKLOAD, alone
from test_hosts_differ import digest, good

SHOAL = BUILD / "shoal"
SFTP = "/usr/lib/openssh/sftp-server"
PORT = 9002
# Each connection has a server of its own, as under sshd.
SERVER = f"""
import socket, subprocess
with socket.create_server(("10.99.0.1", {PORT})) as listener:
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        subprocess.Popen(["{SFTP}"], stdin=connection, stdout=connection)
        connection.close()
"""


@pytest.fixture
def net(hosts):
    """A directory of host 1, which host 2 reaches through the network."""
    for tool in ("sshfs", SFTP):
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool} here")
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse here")
    folder = hosts.shared / "net"
    folder.mkdir()
    server = hosts.all[0].start([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    client = hosts.all[1].start(["sshfs", "-f", "-o", f"directport={PORT}", f"10.99.0.1:{folder}", folder], stderr=subprocess.PIPE)
    mounts = pathlib.Path(f"/proc/{hosts.all[1].pid}/mounts")
    until(lambda: "fuse.sshfs" in mounts.read_text() or client.poll() is not None, 20, "sshfs did not start")
    assert client.poll() is None, client.stderr.read()
    hosts.client = client
    return folder


@pytest.fixture
def tree(net):
    for i in range(200):
        path = net / "tree" / f"{i % 7}" / f"{i:04}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100 + i))
    (net / "w.yaml").write_text(WORKLOAD.replace("bytes: 100", "bytes: 1000"))
    return net / "tree"


def test_a_network_file_system_gives_what_a_local_disk_gives(hosts, mpi, net, tree):
    """Rank 0, which writes catalogs, is on the host that has the disk; the second time on the one that has not."""
    alone("index", tree, "-q", "-o", hosts.shared / "one.cat")
    alone("datagen", net / "w.yaml", "--data", hosts.shared / "alone", "-q")
    for turn in ("first", "second"):
        good(hosts, hosts.mpirun(mpi, 2, SHOAL, "index", tree, "-q", "-o", net / f"{turn}.cat"))
        assert digest(net / f"{turn}.cat") == digest(hosts.shared / "one.cat")
        facts = json.loads(good(hosts, hosts.mpirun(mpi, 2, SHOAL, "read", net / f"{turn}.cat", "--batch", 7, "-q", "--json")))
        assert facts["audit"]["exactly_once"] is True and facts["samples"] == 200
        data, results = net / f"{turn}.data", net / f"{turn}.results"
        good(hosts, hosts.mpirun(mpi, 2, SHOAL, "datagen", net / "w.yaml", "--data", data, "-q"))
        assert digest(data / "catalog.shoal") == digest(hosts.shared / "alone" / "catalog.shoal")
        good(hosts, hosts.mpirun(mpi, 2, SHOAL, "run", net / "w.yaml", "--data", data, "--results", results, "-q"))
        assert json.loads((results / "summary.json").read_text())["num_hosts"] == 2
        hosts.all.reverse()


def test_ranks_whose_file_system_is_cut_off_end(hosts, net, tree):
    """Those of host 2 wait for answers that do not come. FUSE lets nobody leave such a wait, not even by SIGKILL: these end with
    the file system."""
    alone("index", tree, "-q", "-o", net / "tree.cat")
    job = hosts.mpirun("openmpi", 2, SHOAL, "read", net / "tree.cat", "--epochs", 100000, "--drop-cache", "-q", "--peer-timeout", 4)
    until(lambda: sum(len(host.processes("shoal")) for host in hosts.all) == 4 or job.poll() is not None, 40, "the ranks did not start")
    time.sleep(1)
    assert job.poll() is None, job.communicate()
    hosts.all[1].cut()
    until(lambda: not hosts.all[0].processes("shoal"), 60, "ranks are left on the host with the disk")
    hosts.client.kill()
    os.kill(hosts.all[1].processes("sshfs")[0], signal.SIGKILL)
    until(lambda: not hosts.all[1].processes("shoal"), 60, "ranks are left on the host that is cut off")
    said = [hosts.said(rank) for rank in range(4)]
    assert any("rank 2 (at 10.99.0.2) has " in words for words in said[:2]), said
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
