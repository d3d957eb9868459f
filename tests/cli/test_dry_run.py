"""--dry-run: says what would be written and where, and writes nothing."""

import json

import pytest

from conftest import lines

WORKLOAD = """model: {name: x}
framework: pytorch
workflow: {train: true}
dataset: {format: npz, num_files_train: 8, record_length_bytes: 3000}
reader: {batch_size: 2}
train: {epochs: 2, computation_time: 0.001}
"""


@pytest.fixture
def place(shoal, tmp_path):
    """A directory d of three files, a catalog of it, a sorted column and a workload."""
    (tmp_path / "d").mkdir()
    for i in range(3):
        (tmp_path / "d" / f"f{i}").write_bytes(b"x" * i)
    shoal.good("index", tmp_path / "d", "-q", "-o", tmp_path / "c.cat")
    shoal.good("column", "sizes", tmp_path / "c.cat", "-q")
    shoal.good("manifest", tmp_path / "c.cat", "-q", "-o", tmp_path / "lists")
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "read.json").write_text("{}")
    return tmp_path


def everything(place):
    return {path: path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


COMMANDS = {
    "index of a directory": (["index", "d", "-o", "new.cat"], "a catalog of 3 names, of ", "'new.cat'"),
    "index over a catalog": (["index", "d", "-o", "c.cat"], "'c.cat', instead of one of 3 names"),
    "index of a list": (["index", "-", "--root", "/r", "-o", "new.cat"], "a catalog of 2 names", "'new.cat'"),
    "index of a pattern": (["index", "--pattern", "{:03d}", "--count", "7", "--root", "/r", "-o", "new.cat"], "7 names"),
    "index --update": (["index", "d", "--update", "c.cat", "-o", "c.cat"], "a catalog of 3 names"),
    "merge": (["merge", "c.cat", "-o", "new.cat"], "new.cat: would have 3 files"),
    "filter": (["filter", "c.cat", "--include", "f[12]", "-o", "new.cat"], "new.cat: would have 2 files"),
    "split": (["split", "c.cat", "--part", "a=1", "-o", "."], "./a.cat: would have 3 files"),
    "column sizes": (["column", "sizes", "c.cat", "-o", "x.col"], "3 values of type u64 would be written to 'x.col'"),
    "column sort": (["column", "sort", "c.cat.size.col"], "3 values and their order would be written to 'c.cat.size.col'"),
    "manifest": (["manifest", "c.cat", "--ranks", "2", "-o", "more"], "would be written to 'more'"),
    "datagen": (["datagen", "w.yaml", "--data", "new"], "8 files", "written to 'new'", "'new/catalog.shoal' would be written"),
    "datagen --catalog": (["datagen", "w.yaml", "--data", "new", "--catalog", "x.cat"], "'x.cat' would be written"),
    "read": (["read", "c.cat", "--results", "r", "--trace", "t.json"], "3 samples of 3 files", "'r' would be", "'t.json' would be"),
    "run": (["run", "w.yaml", "--data", "d", "--results", "r"], "2 epochs of 8 files on 1 accelerator", "'r'"),
}


@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["", "quiet"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_dry_run_says_what_would_be_written_and_writes_nothing(shoal, place, what, quiet):
    arguments, *words = COMMANDS[what]
    before = everything(place)
    result = shoal(*arguments, "--dry-run", *quiet, stdin=b"a\nb\n", cwd=place)
    said = (result.stdout + result.stderr).decode()
    assert result.returncode == 0, said
    assert all(word in said for word in words), said
    assert everything(place) == before


@pytest.mark.parametrize("arguments, words", [
    (["index", "d", "--include", "x", "-o", "new.cat"], "without --force"),
    (["index", "d", "--include", "f1", "-o", "c.cat"], "less than half of the names"),
    (["index", "d", "-o", "w.yaml"], "is not a catalog"),
    (["merge", "c.cat", "-o", "w.yaml"], "is not a catalog"),
    (["filter", "c.cat", "--include", "x", "-o", "new.cat"], "no file is left"),
    (["filter", "none.cat", "-o", "new.cat"], "none.cat"),
    (["datagen", "w.yaml", "--data", "d"], "which is not part of this dataset"),
    (["manifest", "c.cat", "--seed", "1", "-o", "lists"], "lists of another order"),
    (["manifest", "c.cat", "-o", "w.yaml"], "is not a directory"),
    (["read", "none.cat", "--results", "r"], "none.cat"),
    (["read", "c.cat", "--results", "w.yaml"], "'w.yaml' is a file: results need a folder"),
    (["read", "c.cat", "--results", "measured"], "has results already"),
    (["read", "c.cat", "--trace", "w.yaml"], "exists and is not a trace"),
    (["read", "c.cat", "--op-log", "c.cat"], "exists and is not a log of operations"),
    (["read", "c.cat", "--op-log", "none/log"], "none"),
])
def test_a_dry_run_is_refused_as_the_command_itself_would_be(shoal, place, arguments, words):
    before = everything(place)
    result = shoal(*arguments, "--dry-run", cwd=place)
    assert result.returncode == 1 and words in result.stderr.decode()
    assert everything(place) == before


def test_a_dry_run_says_in_json_that_nothing_was_written(shoal, place):
    for arguments in (["merge", "c.cat", "-o", "n"], ["manifest", "c.cat", "-o", "n"]):
        assert json.loads(shoal.good(*arguments, "--dry-run", "--json", cwd=place))["written"] is False
    facts = lines(shoal.good("split", "c.cat", "--part", "a=1", "-o", ".", "--json", cwd=place))
    assert json.loads(facts[0])["written"] is True


def test_force_replaces_the_results_of_another_run(shoal, place):
    options = ["w.yaml", "--data", "null", "--results", "r", "-q", "--json"]
    shoal("run", *options, cwd=place)
    (place / "r" / "mine.txt").write_text("kept")
    (place / "r" / "7_output.json").write_text("of more ranks")
    for more in ([], ["--dry-run"]):
        refused = shoal("run", *options, *more, cwd=place)
        assert refused.returncode == 1 and b"--force removes them first" in refused.stderr
    again = shoal("run", *options, "--force", cwd=place)
    assert b"another run" not in again.stderr and json.loads(again.stdout)
    assert (place / "r" / "mine.txt").exists() and not (place / "r" / "7_output.json").exists()
    assert shoal("run", *options, "--force", "--resume", cwd=place).returncode == 2


def test_force_removes_nothing_if_the_run_cannot_begin(shoal, place):
    """A typing error must not cost results that took hours."""
    def run(data, *more):
        return shoal("run", "w.yaml", "--data", data, "--results", "r", "-q", "--force", *more, cwd=place)

    (place / "files").mkdir()
    for i in range(8):  # neither names nor sizes of the workload's: they are listed into the results
        (place / "files" / f"{i}.npz").write_bytes(b"x" * 3000)
    run("files", "reader.batch_size=1", "--json")
    before = everything(place)
    assert place / "r" / "summary.json" in before and place / "r" / "train.shoal" in before
    for refused in (run("flies"), run("d"), run("null", "--op-log", "w.yaml"), run("files", "train.epochs=none")):
        assert refused.returncode in (1, 2), refused
        assert everything(place) == before
    run("null")
    assert everything(place)[place / "r" / "summary.json"] != before[place / "r" / "summary.json"]


def test_a_report_is_checked_and_not_written_by_a_dry_run(shoal, place):
    shoal("run", "w.yaml", "--data", "null", "--results", "r", "-q", cwd=place)
    before = everything(place)
    done = shoal("report", "r", "--dry-run", cwd=place)
    assert done.returncode == 0 and b"a page with 1 run would be written to 'report.html'" in done.stderr
    for arguments, words in ((["d"], b"has no results"), (["r", "-o", "d"], b"is a directory")):
        refused = shoal("report", *arguments, "--dry-run", cwd=place)
        assert refused.returncode == 1 and words in refused.stderr
    assert everything(place) == before


@pytest.mark.parametrize("arguments, words", [
    (["run", "w.yaml", "--data", "d", "--results", "new/sub"], "there are none"),
    (["run", "w.yaml", "--data", "d", "--results", "old/sub/"], "there are none"),
    (["datagen", "w.yaml", "dataset.num_files_train=100000000000", "--data", "new/sub"], "free"),
])
def test_a_refused_command_leaves_no_folder(shoal, place, arguments, words):
    (place / "old").mkdir()
    before = everything(place)
    refused = shoal(*arguments, cwd=place)
    assert refused.returncode == 1 and words in refused.stderr.decode()
    assert everything(place) == before


@pytest.mark.parametrize("arguments, kind", [
    (["report", "r", "-o"], "a report"),
    (["column", "sizes", "c.cat", "-o"], "a column"),
    (["column", "sort", "c.cat.size.col", "-o"], "a column"),
], ids=["report", "column sizes", "column sort"])
@pytest.mark.parametrize("content", [b"my notes\n", b"", None], ids=["notes", "empty", "of its kind"])
def test_only_a_file_of_its_kind_is_replaced_without_force(shoal, place, arguments, kind, content):
    shoal("run", "w.yaml", "--data", "null", "--results", "r", "-q", cwd=place)
    path = place / "out"
    if content is None:
        shoal.good(*arguments, path, "-q", cwd=place)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    for more in (["--dry-run"], []):
        done = shoal(*arguments, path, *more, cwd=place)
        assert (done.returncode == 1) == (content == b"my notes\n"), done.stderr
    if content == b"my notes\n":
        assert f"' exists and is not {kind}; write it all the same with --force" in done.stderr.decode()
        assert path.read_bytes() == before
        shoal.good(*arguments, path, "--force", "-q", cwd=place)
    assert len(path.read_bytes()) > 100
