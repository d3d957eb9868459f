"""mpirun -n W shoal index DIR --samples: one catalog for any number of ranks, updated and resumed with others."""

import json
import pathlib
import time

import pytest
from test_index import SIZES, alone, good, index

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "corpus"
FILES = 120


@pytest.fixture
def tree(tmp_path):
    """Parquet files of two layouts, lines of many lengths, and files that are samples as a whole."""
    parquet = (CORPUS / "parquet" / "three-groups").read_bytes()
    for i in range(FILES):
        folder = tmp_path / "tree" / str(i % 7)
        folder.mkdir(parents=True, exist_ok=True)
        name, content = [("p.parquet", parquet), ("l.jsonl", b"".join(b"%d\n" % 10**k for k in range(i % 11))),
                         ("t.txt", b"x" * i)][i % 3]
        (folder / f"{i:03}-{name}").write_bytes(content)
    time.sleep(0.12)
    return tmp_path / "tree"


def facts(catalog):
    alone("verify", catalog)
    info = json.loads(alone("info", catalog, "--json"))
    return info["digest"], info["formats"], alone("ls", "--extents", catalog)


@pytest.mark.parametrize("ranks", SIZES)
def test_any_number_of_ranks_finds_the_same_samples(mpi, ranks, tree, tmp_path):
    alone("index", tree, "--samples", "auto", "-q", "-o", tmp_path / "one")
    good(index(mpi, ranks, tree, "--samples", "auto", "-q", "-o", tmp_path / "c"))
    assert facts(tmp_path / "c") == facts(tmp_path / "one")
    job = good(index(mpi, ranks, tree, "--samples", "auto", "-q", "--json", "-o", tmp_path / "u", "--update", tmp_path / "c"))
    assert json.loads(job.out[0])["not_opened"] == FILES * 2 // 3
    assert facts(tmp_path / "u") == facts(tmp_path / "one")


def test_damaged_files_of_all_ranks_are_named_counted_and_recorded(mpi, tree, tmp_path):
    damaged = sorted(tree.glob("*/*.parquet"))[::10]
    for path in damaged:
        path.write_bytes(b"PAR1 no footer")
    job = index(mpi, 3, tree, "--samples", "auto", "--keep-going", "-o", tmp_path / "c")
    assert job.code != 0
    for path in damaged:
        assert str(path.relative_to(tree)) in job.err
    assert f"{len(damaged)} unreadable left out" in job.err
    assert json.loads(alone("info", tmp_path / "c", "--json"))["files"] == FILES - len(damaged)
    job = index(mpi, 2, tree, "--samples", "auto", "-o", tmp_path / "u", "--update", tmp_path / "c")
    assert job.code != 0 and f"{len(damaged)} items could not be read when it was made" in job.err


@pytest.mark.parametrize("before, after", [(3, 2), (1, 3), (2, 1)])
def test_a_run_goes_on_with_another_number_of_ranks(mpi, before, after, tree, tmp_path):
    last = sorted(tree.glob("*/*.jsonl"))[-1]
    damaged = last.with_suffix(".parquet")
    damaged.write_bytes(b"PAR1 no footer")
    catalog = tmp_path / "out" / "c"
    catalog.parent.mkdir()
    job = index(mpi, before, tree, "--samples", "auto", "--resume", "-o", catalog)
    assert job.code != 0 and damaged.name in job.err
    damaged.write_bytes(next(tree.glob("*/*-p.parquet")).read_bytes())
    job = good(index(mpi, after, tree, "--samples", "auto", "--resume", "-q", "--json", "-o", catalog))
    assert json.loads(job.out[0])["not_opened"] > 0
    alone("index", tree, "--samples", "auto", "-q", "-o", tmp_path / "one")
    assert facts(catalog) == facts(tmp_path / "one")
    assert [path.name for path in catalog.parent.iterdir()] == ["c"]
