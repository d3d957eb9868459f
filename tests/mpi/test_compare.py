"""Ranks that were told different things: they find out before they start, and one of them says in what they differ."""

import json

import pytest
from conftest import BUILD, mpirun
from test_index import Running

SHOAL = str(BUILD / "shoal")
WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 40, record_length_bytes: 1000}
reader: {batch_size: 4, read_threads: 3}
train: {epochs: 2, computation_time: 0.002}
metric: {au: 0}
"""


def differ(mpi, common, *others):
    """One rank with the arguments alone, and one with each of the others."""
    command = [*mpirun(mpi, 1), SHOAL, *map(str, common)]
    for more in others:
        command += [":", *mpirun(mpi, 1)[1:], SHOAL, *map(str, [*common, *more])]
    process = Running(command).process
    out, err = process.communicate(timeout=60)
    return process.returncode, [line for line in err.splitlines() if line.startswith("shoal")]


def check(answer, command, rank, has, root):
    code, said = answer
    assert code != 0 and len(said) == 1, said
    assert said[0].startswith(f"shoal {command}: rank 0: ")
    assert f"the ranks are about to do different things: rank {rank} has '{has}', and rank 0 has '{root}'; " in said[0]


@pytest.fixture
def workload(tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    return tmp_path / "w.yaml"


@pytest.mark.parametrize("more, has, root", [
    (["reader.batch_size=7"], "batch_size: 7", "batch_size: 4"),
    (["train.seed=5"], "seed: 5", "seed: 123"),
    (["train.epochs=3"], "epochs: 3", "epochs: 2"),
    (["--accelerators-per-rank", 2], "accelerators: 2", "accelerators: 1"),
    (["--prefetch", 9], "prefetch: 9", "prefetch: 0"),
])
def test_ranks_of_a_run_that_differ_end_with_a_sentence(mpi, workload, tmp_path, more, has, root):
    common = ["run", workload, "--data", "null", "--results", tmp_path / "r", "-q"]
    check(differ(mpi, common, [], more), "run", 2, has, root)
    assert not (tmp_path / "r" / "summary.json").exists()


def test_ranks_of_a_run_with_other_catalogs_under_one_name_are_told(mpi, workload, tmp_path):
    """As on nodes that have copies of their own."""
    for name, size in (("a", 1000), ("b", 999)):
        for i in range(40):
            path = tmp_path / name / "train" / f"img_{i:02}_of_40.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(size))
        assert Running([SHOAL, "index", str(tmp_path / name), "-q", "-o", str(tmp_path / name / "c")]).process.wait() == 0
    digest = {name: json.loads(Running([SHOAL, "info", "--json", str(tmp_path / name / "c")]).process.communicate()[0])["digest"]
              for name in "ab"}
    program = [SHOAL, "run", str(workload), "--results", str(tmp_path / "r"), "-q", "--data", "c"]
    process = Running([*mpirun(mpi, 1), "-wdir", str(tmp_path / "a"), *program, ":",
                       *mpirun(mpi, 1)[1:], "-wdir", str(tmp_path / "b"), *program]).process
    err = process.communicate(timeout=60)[1]
    said = [line for line in err.splitlines() if line.startswith("shoal")]
    check((process.returncode, said), "run", 1, f"catalog: {digest['b']} of 40 files", f"catalog: {digest['a']} of 40 files")


@pytest.mark.parametrize("more, has, root", [
    (["--seed", 7], "seed: 7", "seed: 0"), (["--epoch", 1], "epoch: 1", "epoch: 0"),
    (["--batch", 3], "batch: 3", "batch: 32"), (["--keep-going"], "keep-going: 1", "keep-going: 0"),
])
def test_ranks_that_read_differently_end_with_a_sentence(mpi, tmp_path, more, has, root):
    (tmp_path / "d").mkdir()
    for i in range(64):
        (tmp_path / "d" / str(i)).write_bytes(bytes(10))
    assert Running([SHOAL, "index", str(tmp_path / "d"), "-q", "-o", str(tmp_path / "c")]).process.wait() == 0
    check(differ(mpi, ["read", tmp_path / "c", "-q"], more), "read", 1, has, root)


def test_ranks_that_index_differently_end_with_a_sentence(mpi, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"1")
    common = ["index", tmp_path / "d", "-q", "-o", tmp_path / "c"]
    check(differ(mpi, common, ["--no-sizes"]), "index", 1, "no-sizes: 1", "no-sizes: 0")
    assert not (tmp_path / "c").exists()
