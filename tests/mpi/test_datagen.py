"""mpirun -n W shoal datagen: any number of ranks writes the same tree, one of them tells, and a failure of one ends all."""

import hashlib
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
KEYS = ["dataset.num_files_train=61", "dataset.num_files_eval=8", "dataset.record_length_bytes=9000",
        "dataset.record_length_bytes_stdev=900", "dataset.format=npz", "dataset.num_subfolders_train=4"]


@pytest.fixture
def place():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-datagen-", dir=base))
    yield path
    shutil.rmtree(path)


def start(mpi, ranks, *args):
    return Running([*mpirun(mpi, ranks), str(SHOAL), "datagen", "unet3d_h100", *map(str, args)])


def tree(path):
    return {str(file.relative_to(path)): hashlib.sha1(file.read_bytes()).hexdigest()
            for file in path.rglob("*") if file.is_file() and file.suffix != ".shoal"}


def ours(err):
    return [line for line in err.splitlines() if line.startswith("shoal")]


@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_writes_the_same(mpi, ranks, place):
    alone("datagen", "unet3d_h100", "--data", place / "one", "-q", *KEYS)
    process = start(mpi, ranks, "--data", place / "many", "--json", *KEYS).process
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    facts = json.loads(out[out.index("{"):])
    assert (facts["ranks"], facts["files"], facts["written"]) == (ranks, 69, 69)
    assert tree(place / "one") == tree(place / "many")
    digests = {json.loads(alone("info", place / name / "catalog.shoal", "--json"))["digest"] for name in ("one", "many")}
    assert len(digests) == 1


def test_ranks_share_a_check_and_name_what_is_wrong(mpi, place):
    alone("datagen", "unet3d_h100", "--data", place / "d", "-q", *KEYS)
    for name in sorted(tree(place / "d"))[5:9]:
        (place / "d" / name).unlink()
    process = start(mpi, 3, "--data", place / "d", "--verify", "--json", *KEYS).process
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    facts = json.loads(out[out.index("{"):out.rindex("}") + 1])
    assert (facts["missing"], facts["good"]) == (4, 65)
    assert len([line for line in ours(err) if "is missing" in line and "rank " in line]) == 4
    process = start(mpi, 2, "--data", place / "d", "--resume", "--json", *KEYS).process
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out[out.index("{"):])["written"] == 4


def test_a_rank_that_cannot_write_ends_all_with_one_sentence(mpi, place):
    (place / "train/2").mkdir(parents=True)
    (place / "train/2/img_06_of_61.npz").mkdir()  # is written by rank 0 of 2, or 0 of 3
    process = start(mpi, 2, "--data", place, "--force", "-q", *KEYS).process
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert len(ours(err)) == 1 and "img_06_of_61.npz" in ours(err)[0]
    assert not list(place.rglob("*.partial")) and not (place / "catalog.shoal").exists()


def test_a_rank_that_dies_ends_all_and_leaves_only_whole_files(mpi, place):
    # So many that they take seconds: on a busy machine this process may be late with its kill.
    big = ["dataset.num_files_train=20000", "dataset.record_length_bytes=2000", "dataset.record_length_bytes_stdev=0",
           "dataset.num_files_eval=0"]
    job = start(mpi, 2, "--data", place / "d", "-q", "--threads", 1, *KEYS, *big)
    until(lambda: len(job.ranks()) == 2)
    last = job.ranks()[1]
    while not (place / "d/train/2").exists() and job.process.poll() is None:
        time.sleep(0.001)
    os.kill(last, signal.SIGKILL)
    job.process.communicate(timeout=60)
    assert job.process.returncode != 0
    files = list((place / "d/train").rglob("img_*"))
    assert {file.stat().st_size for file in files} == {2000}
    assert len(files) < 20000 and not (place / "d/catalog.shoal").exists()
    facts = json.loads(alone("datagen", "unet3d_h100", "--data", place / "d", "-q", "--json", "--resume", *KEYS, *big))
    assert (facts["good"], facts["damaged"]) == (len(files), 0)
