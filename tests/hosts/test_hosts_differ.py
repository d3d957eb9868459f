"""Two hosts that are not alike: in ranks, clocks, disks, and in what they have. One result, or an end with a message."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, ns, run, until

SHOAL = BUILD / "shoal"
WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 64, record_length_bytes: 20000}
reader: {batch_size: 1, read_threads: 1}
train: {epochs: 1, computation_time: 0.001}
metric: {au: 0.0001}
"""
SERVER = """
import socket, sys
sys.path.insert(0, sys.argv[1])
import fault_server
server = fault_server.FaultServer([b"k/%05d" % i for i in range(3000)])
server.listener.close()
server.listener = socket.create_server(("10.99.0.1", 9000), backlog=128)
server.accept()
"""


def alone(*arguments, cwd=None):
    done = subprocess.run([SHOAL, *map(str, arguments)], capture_output=True, timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def digest(path):
    return json.loads(alone("info", path, "--json"))["digest"]


def finish(hosts, job):
    """Its status and what was printed and said. The first ranks' words are in err.N."""
    out, err = job.communicate(timeout=90)
    said = err + "".join(map(hosts.said, range(4)))
    return job.returncode, out, said


def good(hosts, job):
    code, out, said = finish(hosts, job)
    # MPICH over TCP may hang in MPI_Finalize after all was done: the command leaves it then.
    assert code == 0 or "MPI did not shut down" in said, (out, said)
    return out


@pytest.fixture
def tree(hosts):
    for i in range(100):
        path = hosts.shared / "tree" / f"{i % 7}" / f"{i:04}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
    alone("index", hosts.shared / "tree", "-q", "-o", hosts.shared / "one.cat")
    (hosts.shared / "w.yaml").write_text(WORKLOAD)
    return hosts.shared / "tree"


def test_different_numbers_of_ranks_and_clocks_that_differ_change_nothing(hosts, mpi, tree):
    """Host 2 is ten minutes ahead, and has three ranks of four."""
    ahead = f"if [ $(hostname) = host2 ]; then export CLOCK_SHIFT=600 LD_PRELOAD={BUILD}/tests/shifted_clock.so; fi"
    good(hosts, hosts.mpirun(mpi, [1, 3], SHOAL, "index", tree, "-q", "-o", "two.cat", before=ahead))
    assert digest(hosts.shared / "two.cat") == digest(hosts.shared / "one.cat")
    (tree / "0" / "new").write_bytes(b"new")
    good(hosts, hosts.mpirun(mpi, [1, 3], SHOAL, "index", tree, "-q", "--update", "two.cat", "-o", "three.cat", before=ahead))
    alone("index", tree, "-q", "-o", hosts.shared / "fresh.cat")
    assert digest(hosts.shared / "three.cat") == digest(hosts.shared / "fresh.cat")
    facts = json.loads(good(hosts, hosts.mpirun(mpi, [3, 1], SHOAL, "read", "three.cat", "--batch", 3, "-q", "--json", before=ahead)))
    assert facts["audit"]["exactly_once"] is True and facts["samples"] == 101


def test_a_list_of_a_bucket_is_shared_by_the_hosts(hosts, mpi):
    server = hosts.all[0].start([sys.executable, "-c", SERVER, ROOT / "tests" / "s3"], stderr=subprocess.PIPE)
    reach = ns(hosts.all[0].pid, "-n")
    until(lambda: subprocess.run([*reach, sys.executable, "-c",
                                  "import socket; socket.create_connection(('10.99.0.1', 9000))"],
                                 capture_output=True).returncode == 0 or server.poll() is not None, 20, "no server")
    good(hosts, hosts.mpirun(mpi, 2, SHOAL, "index", "s3://bucket", "--endpoint", "http://10.99.0.1:9000", "--anonymous", "-q",
                             "-o", "s3.cat"))
    assert json.loads(alone("info", hosts.shared / "s3.cat", "--json"))["files"] == 3000


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # one is enough
def test_each_host_has_its_own_copy_of_the_catalog(hosts, mpi, tree):
    facts = json.loads(good(hosts, hosts.mpirun(mpi, 2, SHOAL, "read", "one.cat", "--local-copy", "/tmp/copies", "-q", "--json",
                                                before="mkdir -p /tmp/copies")))
    assert facts["audit"]["exactly_once"] is True
    for host in hosts.all:
        assert len(list(pathlib.Path(f"/proc/{host.pid}/root/tmp/copies").glob("[!.]*"))) == 1


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # one is enough
def test_a_host_without_the_catalog_ends_the_job_with_a_message(hosts, mpi, tree):
    first = pathlib.Path(f"/proc/{hosts.all[0].pid}/root/tmp/only.cat")
    first.write_bytes((hosts.shared / "one.cat").read_bytes())
    code, _, said = finish(hosts, hosts.mpirun(mpi, 2, SHOAL, "read", "/tmp/only.cat", "-q", "--peer-timeout", 20))
    assert code != 0 and "only.cat" in said and "No such file" in said


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # one is enough
def test_a_host_without_the_data_ends_the_job_with_a_message(hosts, mpi, tree):
    run(*ns(hosts.all[1].pid, "-m"), "mount", "-t", "tmpfs", "tmpfs", tree)  # empty there
    code, _, said = finish(hosts, hosts.mpirun(mpi, 2, SHOAL, "read", "one.cat", "-q", "--peer-timeout", 20))
    assert code != 0 and ".npz' does not exist" in said


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # one is enough
def test_data_is_made_by_all_hosts_and_a_full_disk_on_one_ends_all(hosts, mpi, tree):
    words = [SHOAL, "datagen", "w.yaml", "--data", "data", "-q", "--peer-timeout", 20]
    good(hosts, hosts.mpirun(mpi, 2, *words))
    alone("datagen", "w.yaml", "--data", "alone", "-q", cwd=hosts.shared)
    assert digest(hosts.shared / "data" / "catalog.shoal") == digest(hosts.shared / "alone" / "catalog.shoal")
    (hosts.shared / "full" / "train").mkdir(parents=True)
    run(*ns(hosts.all[1].pid, "-m"), "mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", hosts.shared / "full" / "train")
    code, _, said = finish(hosts, hosts.mpirun(mpi, 2, *words[:4], "full", *words[5:]))
    assert code != 0 and "No space left on device" in said
    assert not (hosts.shared / "full" / "catalog.shoal").exists()
