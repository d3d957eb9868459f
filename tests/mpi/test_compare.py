"""Ranks that were told different things: they find out before they start, and one of them says in what they differ."""

import json
import pathlib

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
    (["--prefetch", 9], "prefetch: 9", "prefetch: default"),
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
    (["--batch", 3], "batch: 3", "batch: 32"), (["--keep-going"], "keep-going: yes", "keep-going: no"),
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


@pytest.mark.parametrize("more, has, root", [
    (["--results", "there"], "results: there", "results: none"), (["--op-log", "log"], "op-log: log", "op-log: none"),
    (["--trace", "t"], "trace: t", "trace: none"), (["--listen=127.0.0.1:0"], "listen: 127.0.0.1:0", "listen: none"),
])
def test_ranks_that_read_alike_but_keep_other_things_end_with_a_sentence(mpi, tmp_path, monkeypatch, more, has, root):
    """Before any of them does what the others would not take part in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    for i in range(64):
        (tmp_path / "d" / str(i)).write_bytes(bytes(10))
    assert Running([SHOAL, "index", "d", "-q", "-o", "c"]).process.wait() == 0
    check(differ(mpi, ["read", "c", "-q"], more), "read", 1, has, root)


@pytest.mark.parametrize("more, has, root", [
    (["--dry-run"], "dry-run: 1", "dry-run: 0"), (["--op-log", "log"], "op-log: log", "op-log: none"),
    (["--listen=127.0.0.1:0"], "listen: 127.0.0.1:0", "listen: none"), (["--force"], "force: 1", "force: 0"),
])
def test_ranks_of_a_run_that_keep_other_things_end_with_a_sentence(mpi, workload, tmp_path, monkeypatch, more, has, root):
    monkeypatch.chdir(tmp_path)
    check(differ(mpi, ["run", workload, "--data", "null", "--results", "r", "-q"], more), "run", 1, has, root)


@pytest.mark.parametrize("more, has, root", [
    (["--listen=127.0.0.1:0"], "listen: 127.0.0.1:0", "listen: none"), (["--results", "r"], "results: r", "results: none"),
    (["--dry-run"], "dry-run: 1", "dry-run: 0"),
])
def test_ranks_of_an_index_that_keep_other_things_end_with_a_sentence(mpi, tmp_path, monkeypatch, more, has, root):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"1")
    check(differ(mpi, ["index", "d", "-q", "-o", "c"], more), "index", 1, has, root)


@pytest.mark.parametrize("more, has, root", [
    (["dataset.num_files_train=41"], "num_files_train: 41", "num_files_train: 40"), (["--dry-run"], "dry-run: 1", "dry-run: 0"),
    (["--force"], "force: 1", "force: 0"), (["--no-catalog"], "catalog: ", "catalog: beside the data"),
])
def test_ranks_that_would_make_other_data_end_with_a_sentence(mpi, workload, tmp_path, more, has, root):
    check(differ(mpi, ["datagen", workload, "--data", tmp_path / "data", "-q"], more), "datagen", 1, has, root)
    assert not list(tmp_path.glob("data/train/*"))


@pytest.mark.parametrize("more, has, root", [
    (["reader.batch_size=7"], "batch_size: 7", "batch_size: 4"), (["--accelerators", 9], "accelerators: 9", "accelerators: 0"),
])
def test_ranks_that_compute_other_sizes_end_with_a_sentence(mpi, workload, more, has, root):
    code, said = differ(mpi, ["datasize", workload], more)
    assert code != 0 and len(said) == 1, said
    assert f"rank 1 has '{has}', and rank 0 has '{root}'; " in said[0]


def test_ranks_that_replay_other_logs_end_with_a_sentence(mpi, tmp_path):
    """As on nodes that have files of their own under one name."""
    (tmp_path / "d").mkdir()
    for i in range(64):
        (tmp_path / "d" / str(i)).write_bytes(bytes(10))
    assert Running([SHOAL, "index", str(tmp_path / "d"), "-q", "-o", str(tmp_path / "c")]).process.wait() == 0
    for name in "ab":
        (tmp_path / name).mkdir()
        assert Running([SHOAL, "read", str(tmp_path / "c"), "-q", "--op-log", str(tmp_path / name / "log")]).process.wait() == 0
    program = [SHOAL, "replay", "log", "--fast"]
    process = Running([*mpirun(mpi, 1), "-wdir", str(tmp_path / "a"), *program, ":",
                       *mpirun(mpi, 1)[1:], "-wdir", str(tmp_path / "b"), *program]).process
    err = process.communicate(timeout=60)[1]
    said = [line for line in err.splitlines() if line.startswith("shoal")]
    assert process.returncode != 0 and len(said) == 1 and "rank 1 has 'log: " in said[0], said
    code, said = differ(mpi, ["replay", tmp_path / "a" / "log"], ["--fast"])
    assert code != 0 and len(said) == 1 and "rank 1 has 'fast: 1', and rank 0 has 'fast: 0'" in said[0], said


@pytest.mark.parametrize("more, usage", [(["--no-such-option"], "unknown option '--no-such-option'"),
                                         (["--batch", "x"], "--batch 'x' is not a whole number")])
def test_a_rank_with_a_wrong_command_line_does_not_keep_the_others_waiting(mpi, tmp_path, more, usage):
    """They wait in MPI's start, which a rank that ends before it lets MPICH's do for ever."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"1")
    assert Running([SHOAL, "index", str(tmp_path / "d"), "-q", "-o", str(tmp_path / "c")]).process.wait() == 0
    code, said = differ(mpi, ["read", tmp_path / "c", "-q"], more)
    assert code != 0 and any(usage in line for line in said), said
    assert any("rank 1: it could not begin; its own message says why" in line for line in said), said


def test_another_version_of_shoal_on_one_host_is_named(mpi, workload, tmp_path):
    """The version is text in the program; the MPI modules of this build serve both."""
    other, own = tmp_path / "shoal", pathlib.Path(SHOAL).read_bytes()
    version = Running([SHOAL, "--version"]).process.communicate()[0].split()[1]
    assert version.encode() + b"\0" in own
    other.write_bytes(own.replace(version.encode() + b"\0", version[:-1].encode() + b"x\0"))
    other.chmod(0o755)
    arguments = list(map(str, ["run", workload, "--data", "null", "--results", tmp_path / "r", "-q"]))
    process = Running([*mpirun(mpi, 1), SHOAL, *arguments, ":", *mpirun(mpi, 1)[1:], str(other), *arguments]).process
    said = [line for line in process.communicate(timeout=60)[1].splitlines() if line.startswith("shoal")]
    check((process.returncode, said), "run", 1, "version: %sx" % version[:-1], "version: " + version)
    assert not (tmp_path / "r" / "summary.json").exists()
