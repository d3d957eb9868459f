"""mpirun -n A shoal datasize: the ranks are the accelerators, and the hosts' memory is measured."""

import json
import os
import subprocess

import pytest
from conftest import BUILD, environment, mpirun

MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def datasize(mpi, ranks, *args):
    command = [*mpirun(mpi, ranks), str(BUILD / "shoal"), "datasize", *map(str, args)]
    return subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)


def facts(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout[result.stdout.index("{"):])


@pytest.mark.parametrize("ranks", [2, 3])
def test_hosts_memory_and_accelerators_are_measured(mpi, ranks):
    f = facts(datasize(mpi, ranks, "retinanet_b200", "--json"))
    assert (f["hosts"], f["accelerators"], f["accelerators_per_host"]) == (1, ranks, ranks)
    assert (f["memory_bytes"], f["memory_measured"]) == (MEMORY, True)
    assert f["files"] == max(-(-5 * MEMORY // 322957), 500 * ranks * 24)


def test_memory_that_is_there_counts_where_less_was_declared(mpi):
    less = facts(datasize(mpi, 2, "retinanet_b200", "--memory-per-host", "1M", "--json"))
    assert (less["memory_bytes"], less["memory_measured"]) == (MEMORY, True)
    more = facts(datasize(mpi, 2, "retinanet_b200", "--memory-per-host", "64T", "--json"))
    assert (more["memory_bytes"], more["memory_measured"]) == (64 << 40, False)


def test_one_rank_speaks_of_what_is_wrong(mpi):
    result = datasize(mpi, 3, "retinanet_b2000")
    assert result.returncode != 0
    said = [line for line in result.stderr.splitlines() if line.startswith("shoal")]
    assert len(said) == 1 and "did you mean retinanet_b200?" in said[0]
