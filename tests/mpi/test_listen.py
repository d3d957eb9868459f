"""mpirun -n W shoal run --listen: the page and the metrics have what each rank does, also while one of them waits."""

import json
import re
import shutil
import tempfile
import time
import urllib.request

import pytest
from conftest import BUILD, mpirun
from test_index import Running
from test_read import FILES, tree  # noqa: F401, a fixture

SHOAL = BUILD / "shoal"
SMALL = ["dataset.num_files_train=60", "dataset.record_length_bytes=2000", "dataset.record_length_bytes_stdev=0",
         "train.computation_time=0.05", "reader.batch_size=4", "metric.au=0.01", "train.epochs=1000"]


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="shoal-mpi-")
    yield path
    shutil.rmtree(path)


def get(address, path):
    with urllib.request.urlopen(address + path, timeout=20) as answer:
        return answer.read().decode()


def seen(address, wanted):
    end = time.monotonic() + 40
    while time.monotonic() < end:
        run = json.loads(get(address, "data.json"))["runs"][0]
        if wanted(run):
            return run
        time.sleep(0.1)
    raise AssertionError(f"it never is: {json.dumps(run)[:2000]}")


def listening(mpi, ranks, *args):
    running = Running([*mpirun(mpi, ranks), str(SHOAL), *map(str, args), "--listen"])
    line = running.process.stderr.readline()
    while line and "http://" not in line:
        line = running.process.stderr.readline()
    return running, re.search(r"http://[\d.]+:\d+/", line)[0]


def test_a_run_of_three_ranks_is_seen_as_three(mpi, folder):
    running, address = listening(mpi, 3, "run", "retinanet_b200", "--data", "null", "--results", folder, "--progress=none", *SMALL)
    try:
        run = seen(address, lambda run: run["time"] and run["steps"]["epochs"] and len(json.loads(run["phases_text"])) > 0
                   and all(any(row) for row in run["time"]["rank_rates"]))
        assert run["now"]["ranks"] == run["time"]["ranks"] == run["steps"]["ranks"] == 3
        assert len(run["time"]["rank_rates"]) == len(run["steps"]["heat_ms"]) == 3
        assert json.loads(run["begin_text"])["ranks"] == 3
        text = get(address, "metrics")
        counts = [int(n) for n in re.findall(r'shoal_rank_samples_total\{rank="\d"\} (\d+)', text)]
        assert len(counts) == 3 and all(counts)
        assert "\nshoal_ranks 3\n" in text
    finally:
        running.kill()
        running.process.communicate()


def test_a_read_of_two_ranks_is_seen_as_two(mpi, tree, folder):  # noqa: F811
    running, address = listening(mpi, 2, "read", tree / "c", "--data", "null:size=1000,delay_us=20000", "--object-size", 1000,
                                 "--in-flight", 2, "--batch", 2, "--epochs", 10000, "--progress=none")
    try:
        run = seen(address, lambda run: run["time"] and all(any(row) for row in run["time"]["rank_rates"]))
        assert len(run["time"]["rank_rates"]) == 2 and run["steps"]["ranks"] == 2
        assert json.loads(run["begin_text"])["files"] == FILES
    finally:
        running.kill()
        running.process.communicate()
