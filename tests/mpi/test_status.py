"""Who works and who answers: what is not shared is done by rank 0 alone, and rank 0's status is the job's."""

import subprocess

import pytest
from conftest import BUILD, environment, mpirun

SHOAL = str(BUILD / "shoal")
RANK = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}"

WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 16, record_length_bytes: 1000}
reader: {batch_size: 4}
train: {epochs: 1, computation_time: 0.001}
metric: {au: 1.0}
"""


def run(mpi, *command, cwd, **env):
    return subprocess.run([*mpirun(mpi, 2), *command], cwd=cwd, env=environment(**env), capture_output=True, text=True,
                          timeout=120, check=False)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "names").write_text("a\nb\n")
    subprocess.run([SHOAL, "index", "names", "--root", "/r", "-q", "-o", "c"], cwd=tmp_path, env=environment(), check=True)
    return tmp_path


def test_what_is_not_shared_is_done_by_rank_0_alone(mpi, place):
    done = run(mpi, SHOAL, "ls", "c", cwd=place)
    assert (done.returncode, done.stdout) == (0, "a\nb\n")
    assert done.stderr.count("ls: rank 0 of 2 does all of this") == 1
    done = run(mpi, SHOAL, "filter", "c", "-q", "-o", "d", cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run(mpi, SHOAL, "ls", "nowhere", cwd=place).returncode == 1
    assert run(mpi, SHOAL, "ls", "--nonsense", cwd=place).stderr.count("unknown option") == 1


def test_what_a_program_of_a_rank_starts_works_by_itself(mpi, place):
    """Also with SHOAL_MPI=none, which a script sets that a launcher runs by exec."""
    done = run(mpi, "sh", "-c", f"{SHOAL} ls c; true", cwd=place)
    assert (done.stdout.count("a\n"), done.stderr) == (2, "")
    done = run(mpi, SHOAL, "ls", "c", cwd=place, SHOAL_MPI="none")
    assert (done.stdout.count("a\n"), done.stderr) == (2, "")


def test_of_a_result_that_is_not_good_only_rank_0_ends_with_1(mpi, place):
    subprocess.run([SHOAL, "datagen", "small.yaml", "--data", "d", "-q"], cwd=place, env=environment(), check=True,
                   stdout=subprocess.DEVNULL)
    status = f'; echo "rank {RANK} ended with $?" >> status'
    done = run(mpi, "sh", "-c", f"{SHOAL} run small.yaml --data d --results r -q{status}", cwd=place)
    assert done.stderr.count("below the workload's target") == 1, done.stderr
    (place / "d" / "train" / "img_00_of_16.npz").unlink()
    run(mpi, "sh", "-c", f"{SHOAL} read d/catalog.shoal --keep-going -q{status}", cwd=place)
    run(mpi, "sh", "-c", f"{SHOAL} datagen small.yaml --data d --verify -q{status}", cwd=place)
    assert sorted((place / "status").read_text().splitlines()) == ["rank 0 ended with 1"] * 3 + ["rank 1 ended with 0"] * 3
