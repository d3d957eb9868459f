"""What a command replaces, and what it refuses to: a typing error must not cost a good catalog or a file of the user's. Also
what is never taken for data: the files that Shoal itself writes."""

import os
import time

import pytest
from conftest import lines

WORKLOAD = """
workflow: {generate_data: True, train: True}
dataset: {format: npz, num_files_train: 8, num_samples_per_file: 1, record_length_bytes: 1000}
reader: {batch_size: 1}
train: {epochs: 1, computation_time: 0.0}
"""


@pytest.fixture
def tree(tmp_path):
    """A folder with ten files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(10):
        (folder / f"{i}.jpg").write_bytes(b"x" * i)
    return folder


@pytest.fixture
def catalog(shoal, tree, tmp_path):
    path = tmp_path / "good.cat"
    shoal.good("index", tree, "-q", "-o", path)
    return path


@pytest.mark.parametrize("options, words", [
    (["--include", "*.jpgg"], "none of the 10 files"),
    (["--exclude", "*"], "nothing is left of"),
    (["--include", "*.{jpg,jpeg}"], "{a,b} is not a pattern here"),
])
def test_a_pattern_that_leaves_nothing_does_not_replace_a_catalog(shoal, fails, tree, catalog, options, words):
    before = catalog.read_bytes()
    fails(shoal("index", tree, *options, "-o", catalog), 1, words, "write it all the same with --force")
    assert catalog.read_bytes() == before
    shoal.good("index", tree, *options, "-q", "--force", "-o", catalog)
    assert shoal.info(catalog)["files"] == 0


def test_an_empty_folder_makes_a_catalog_only_by_force(shoal, fails, tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "out").mkdir()
    fails(shoal("index", tmp_path / "none", "-o", tmp_path / "out" / "c"), 1, "there is no file in", "--force",
          empty=tmp_path / "out")
    said = shoal("index", tmp_path / "none", "--force", "-o", tmp_path / "out" / "c")
    assert said.returncode == 0
    assert b"the catalog is empty" in said.stderr


@pytest.mark.parametrize("left, replaced", [(5, True), (4, False)])
def test_a_catalog_is_replaced_by_one_with_at_least_half_of_its_names(shoal, fails, tree, catalog, left, replaced):
    for i in range(left, 10):
        (tree / f"{i}.jpg").unlink()
    said = shoal("index", tree, "-q", "-o", catalog)
    if replaced:
        assert (said.returncode, said.stderr) == (0, b"")
    else:
        fails(said, 1, "has 10 names, and only 4 were found now: it stays as it was; write it all the same with --force")
    assert shoal.info(catalog)["files"] == (left if replaced else 10)
    shoal.good("index", tree, "-q", "-o", catalog, "--force")
    assert shoal.info(catalog)["files"] == left


def test_a_list_and_a_pattern_are_as_careful(shoal, fails, catalog):
    fails(shoal("index", "-", "--root", "/r", "-o", catalog, stdin=b"a\nb\n"), 1, "has 10 names", "--force")
    fails(shoal("index", "-", "--root", "/r", "-o", catalog, stdin=b""), 1, "there are no names", "--force")
    fails(shoal("index", "--pattern", "f{:03d}", "--count", 4, "-o", catalog), 1, "has 10 names", "--force")
    shoal.good("index", "--pattern", "f{:03d}", "--count", 5, "-q", "-o", catalog)
    assert shoal.info(catalog)["files"] == 5


@pytest.mark.parametrize("content", [b"my notes\n", b"\x89SHCOL\r\n", b"x"])
def test_a_file_that_is_not_a_catalog_is_not_replaced(shoal, fails, tree, tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    fails(shoal("index", tree, "-o", path), 1, "exists and is not a catalog; write it all the same with --force")
    assert path.read_bytes() == content
    shoal.good("index", tree, "-q", "--force", "-o", path)
    assert shoal.info(path)["files"] == 10


def test_an_empty_file_and_a_damaged_catalog_are_replaced(shoal, tree, catalog, tmp_path):
    (tmp_path / "empty").touch()
    shoal.good("index", tree, "-q", "-o", tmp_path / "empty")
    catalog.write_bytes(catalog.read_bytes()[:100])
    shoal.good("index", tree, "-q", "-o", catalog)
    assert shoal.info(catalog)["files"] == 10


@pytest.mark.parametrize("options", [[], ["--null"], ["--names-only"]])
def test_a_catalog_is_not_taken_for_a_list_of_names(shoal, fails, catalog, tmp_path, options):
    fails(shoal("index", catalog, *options, "-o", tmp_path / "x.cat"), 1, "it is a catalog already, not a list of names")
    assert not (tmp_path / "x.cat").exists()


# ---- Lists ----


def test_lists_of_two_catalogs_are_not_mixed_in_one_folder(shoal, fails, catalog, tmp_path):
    out, other = tmp_path / "lists", tmp_path / "other.cat"
    shoal.good("index", "-", "--root", "s3://bucket/x", "-q", "-o", other, stdin=b"a\nb\nc\n")
    shoal.good("manifest", catalog, "-q", "--ranks", 2, "--epochs", 2, "-o", out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    fails(shoal("manifest", other, "--ranks", 2, "-o", out), 1, "has lists of another catalog", "--force")
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    shoal.good("manifest", other, "-q", "--list-prefix", "valid", "-o", out)  # of another kind: beside them
    shoal.good("manifest", catalog, "-q", "--ranks", 2, "--epoch", 2, "-o", out)
    shoal.good("manifest", other, "-q", "--ranks", 1, "--force", "-o", out)
    assert sorted(p.name for p in out.iterdir() if not p.name.startswith(".")) == [
        "train_epoch0000_rank00000.txt", "valid_epoch0000_rank00000.txt"]


def test_force_removes_lists_only_once_there_are_others(shoal, fails, catalog, tmp_path):
    out, bad = tmp_path / "lists", tmp_path / "bad.cat"
    shoal.good("index", "-", "--null", "--root", "/r", "-q", "-o", bad, stdin=b"two\nlines\0")
    shoal.good("manifest", catalog, "-q", "--ranks", 2, "-o", out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    fails(shoal("manifest", bad, "--force", "-o", out), 1, "contains a line end")
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    shoal.good("manifest", catalog, "-q", "--ranks", 1, "--force", "-o", out)
    assert len(os.listdir(out)) == 2


def test_a_catalog_of_the_same_names_with_another_root_is_another_catalog(shoal, fails, tmp_path):
    for name, root in (("a", "/one"), ("b", "/two")):
        shoal.good("index", "-", "--root", root, "-q", "-o", tmp_path / name, stdin=b"x\ny\n")
    shoal.good("manifest", tmp_path / "a", "-q", "-o", tmp_path / "m")
    fails(shoal("manifest", tmp_path / "b", "-o", tmp_path / "m"), 1, "has lists of another catalog")


# ---- What Shoal writes ----


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(WORKLOAD)
    return path


def test_what_shoal_writes_into_a_dataset_is_never_listed(shoal, workload, tmp_path):
    data = tmp_path / "data"
    shoal.good("datagen", workload, "--data", data, "-q", "--json")
    assert {".shoal-dataset", "catalog.shoal"} <= set(os.listdir(data))
    (data / "train" / ".img_1.npz.0123abcd.partial").touch()
    (data / "train" / ".img_1.npz.0123abc.partial").touch()  # seven digits: not ours
    (data / "train" / "my-catalog.shoal").touch()
    shoal.good("index", data, "-q", "-o", tmp_path / "c")
    names = shoal.names(tmp_path / "c")
    assert [n for n in names if not n.endswith(b".npz")] == [b"train/.img_1.npz.0123abc.partial", b"train/my-catalog.shoal"]
    assert len(names) == 10


def test_catalogs_columns_and_lists_beside_the_data_are_never_listed(shoal, tree, tmp_path):
    """By their content, or the note beside them: a file of another program with such a name is data."""
    (tree / "sub").mkdir()
    for name in ("a.cat", "sub/b.cat", "sub/c.shoal"):
        shoal.good("index", tree, "-q", "-o", tree / name)
    shoal.good("column", "sizes", tree / "a.cat", "-q", "-o", tree / "sub" / "len.col")
    shoal.good("manifest", tree / "a.cat", "-q", "--ranks", 2, "-o", tree / "lists")
    (tree / "sub" / "train_epoch0000_rank00000.txt").write_text("no note is beside it")
    (tree / "sub" / "kitten.cat").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tree / "empty.col").touch()
    data = sorted([b"%d.jpg" % i for i in range(10)] + [b"empty.col", b"sub/kitten.cat", b"sub/train_epoch0000_rank00000.txt"])
    shoal.good("index", tree, "-q", "-o", tmp_path / "c")
    assert shoal.names(tmp_path / "c") == data
    assert lines(shoal.good("list", tree)) == data
    assert shoal.good("verify", "--storage", "-q", tmp_path / "c") == b""
    (tree / "lists" / ".train.shoal-manifest").unlink()
    assert len(lines(shoal.good("list", tree))) == len(data) + 2


RESULTS = ["begin.json", "config.yaml", "effective.yaml", "summary.json", "0_output.json", "0_per_epoch_stats.json", "series.0"]
RUN = ["dataset.num_files_train=24", "dataset.num_files_eval=0", "dataset.record_length_bytes=3000", "dataset.record_length_bytes_stdev=0",
       "train.epochs=1", "train.computation_time=0.001", "metric.au=0", "workflow.evaluation=False"]


@pytest.fixture
def results(shoal, tmp_path):
    """A dataset with all that commands leave who are told to write into it, and the names that a listing must have."""
    data = tmp_path / "data"
    shoal.good("datagen", "retinanet_b200", "--data", data, "--results", data / "made", "-q", *RUN)
    names = [b"train/" + name.encode() for name in sorted(os.listdir(data / "train"))]
    shoal.good("index", data, "--results", data / "r" / "index", "-q", "-o", tmp_path / "c.cat")
    assert shoal.names(tmp_path / "c.cat") == names  # while it writes there
    shoal.good("read", tmp_path / "c.cat", "--results", data / "r" / "read", "--trace", data / "r" / "trace.json", "--op-log",
               data / "r" / "reads.oplog", "-q")
    shoal.good("run", "retinanet_b200", "--data", data, "--results", data / "r" / "run", "-q", *RUN)
    shoal.good("sweep", "--vary", "batch=2,4", "--repeat", 1, "--no-ceiling", "-q", "--results", data / "s", "--", "read", tmp_path / "c.cat")
    shoal.good("sweep", "--vary", "reader.batch_size=2,4", "--repeat", 1, "--no-ceiling", "-q", "--results", data / "t", "--", "run",
               "retinanet_b200", "--data", data, *RUN)
    shoal.good("report", data / "r" / "run", data / "r" / "read", "-o", data / "r" / "my-report.html")
    shoal.good("report", data / "r" / "run", "-o", data / "r" / "run" / "report.html")
    assert set(RESULTS) < set(os.listdir(data / "r" / "run")) and len(names) == 24
    return data, names


def test_what_commands_leave_inside_the_data_is_never_listed(shoal, results, tmp_path):
    data, names = results
    shoal.good("index", data, "-q", "-o", tmp_path / "d.cat")
    assert shoal.names(tmp_path / "d.cat") == names
    shoal.good("index", data, "-q", "--update", tmp_path / "c.cat", "-o", tmp_path / "u.cat")
    shoal.good("index", data, "-q", "--memory", "48M", "--no-sizes", "--threads", 1, "-o", tmp_path / "n.cat")
    assert shoal.names(tmp_path / "u.cat") == shoal.names(tmp_path / "n.cat") == names
    assert lines(shoal.good("list", data)) == names
    assert shoal.good("verify", "--storage", "-q", tmp_path / "d.cat") == b""
    parts = []
    for k in range(3):
        parts += lines(shoal.good("list", data, "--shard", f"{k}/3"))
    assert sorted(parts) == names


def test_results_and_catalogs_inside_the_data_are_no_foreign_files_to_datagen(shoal, results):
    data = results[0]
    shoal.good("index", data, "-q", "-o", data / "mine.cat")
    shoal.good("datagen", "retinanet_b200", "--data", data, "--resume", "-q", *RUN)


def test_files_with_the_names_of_results_are_data_without_a_mark_of_shoal(shoal, results, fails, tmp_path):
    """All of them: the mark is moved away, or another program's."""
    data, names = results
    run = data / "r" / "run"
    mark = (run / "begin.json").read_bytes()
    others = b'{"version": "1.0", "command": "reset", "hostname": "robot"}'
    for content in (None, b"", b"{}", b"x" * 5000, others, mark[:20]):
        (run / "begin.json").unlink(missing_ok=True)
        if content is not None:
            (run / "begin.json").write_bytes(content)
        listed = lines(shoal.good("list", data))
        left = [name for name in sorted(os.listdir(run)) if name not in ("report.html", "train.shoal", "valid.shoal", "catalog.shoal")]
        assert listed == sorted(names + [b"r/run/" + name.encode() for name in left])
    (run / "begin.json").write_bytes(mark)
    for name in ("images.json", "config.yml", "series.x", "0_output.jsonl", "own.html", "sub/summary.json", "jobs/1.json"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("{}")
    (data / "trace.json").write_text('{"name": "of another program"}')
    profile = '{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": []}'  # as that of PyTorch
    (data / "w0.pt.trace.json").write_text(profile)
    (data / "x.oplog").write_text("text")
    (data / "report.html").write_text("<title>Report</title>")
    mine = [b"r/run/" + name for name in (b"images.json", b"config.yml", b"series.x", b"0_output.jsonl", b"own.html", b"sub/summary.json",
                                          b"jobs/1.json")]
    assert lines(shoal.good("list", data)) == sorted(names + mine + [b"trace.json", b"w0.pt.trace.json", b"x.oplog", b"report.html"])
    fails(shoal("read", tmp_path / "c.cat", "-q", "--trace", data / "w0.pt.trace.json"), 1, "exists and is not a trace")
    assert (data / "w0.pt.trace.json").read_text() == profile


def test_what_an_interrupted_run_leaves_inside_the_data_is_never_listed(shoal, tmp_path):
    data = tmp_path / "data"
    shoal.good("datagen", "retinanet_b200", "--data", data, "-q", *RUN)
    process = shoal.start("run", "retinanet_b200", "--data", data, "--results", data / "r", "-q", *RUN, "train.computation_time=5")
    end = time.monotonic() + 60
    begun = {"begin.json", "config.yaml", "effective.yaml", ".shoal-run"}  # and complete
    while not begun <= (there := set(os.listdir(data / "r") if (data / "r").exists() else [])) or any("partial" in name for name in there):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert len(lines(shoal.good("list", data))) == 24
    shoal.good("index", data, "-q", "-o", tmp_path / "c.cat")
    assert shoal.info(tmp_path / "c.cat")["files"] == 24


@pytest.mark.parametrize("option, name, end", [("--trace", "t.json", "trace.json"), ("--op-log", "log", ".oplog")])
@pytest.mark.parametrize("command", ["read", "run"])
def test_what_listings_would_not_recognise_is_not_written_into_the_data(shoal, results, fails, tmp_path, command, option, name, end):
    data = results[0]
    os.symlink(data, tmp_path / "link")
    words = {"read": ["read", tmp_path / "c.cat"], "run": ["run", "retinanet_b200", "--data", data, "--results", tmp_path / "r", *RUN]}[command]
    for place in (data / "r" / name, tmp_path / "link" / name):
        for more in ([], ["--dry-run"]):
            fails(shoal(*words, option, place, "-q", *more), 1, f"'{place}' lies inside the data", f"a name that ends in '{end}'")
            assert not place.exists()
    shoal.good(*words, option, tmp_path / name, "-q")


def test_a_trace_goes_anywhere_if_the_list_has_absolute_names(shoal, tree, tmp_path):
    shoal.good("index", "-", "-q", "-o", tmp_path / "c.cat", stdin=b"".join(b"%s\n" % os.fsencode(path) for path in tree.iterdir()))
    assert shoal.info(tmp_path / "c.cat")["root"] == "file:///"
    shoal.good("read", tmp_path / "c.cat", "--slot", 100, "--op-log", tmp_path / "log", "--trace", tmp_path / "t.json", "-q")
    assert (tmp_path / "log").exists() and (tmp_path / "t.json").exists()


@pytest.mark.parametrize("command", [["run", "--dry-run"], ["datagen"]])
@pytest.mark.parametrize("where", ["tree", "no/such/tree", "."])
def test_a_tree_of_results_is_not_written_into_the_data(shoal, fails, tmp_path, command, where):
    data = tmp_path / "data"
    (data / "tree").mkdir(parents=True)
    result = shoal(command[0], "retinanet_b200", "--data", data, "--results", where, "--results-layout", "mlpstorage", "--system", "s",
                   *command[1:], cwd=data)
    fails(result, 1, f"'{where}' lies inside the data", "choose another folder")
    assert os.listdir(data) == ["tree"] and not os.listdir(data / "tree")


def test_a_catalog_inside_the_data_that_listings_will_not_recognise_is_named(shoal, tree):
    for name, told in (("mine", True), ("mine.cat", False), ("mine.shoal", False)):
        done = shoal("index", tree, "-o", tree / name, "--progress", "none")
        assert done.returncode == 0 and (b"other listings will take it for a file of the dataset" in done.stderr) == told, done.stderr
        (tree / name).unlink()


@pytest.mark.parametrize("foreign", ["a.txt", "other/b.txt", "zzz/deep/c.txt"])
def test_datagen_does_not_write_among_foreign_files(shoal, fails, workload, tmp_path, foreign):
    data = tmp_path / "data"
    (data / foreign).parent.mkdir(parents=True)
    (data / foreign).touch()
    fails(shoal("datagen", workload, "--data", data, "-q"), 1, f"contains '{foreign}', which is not part of this dataset", "--force")
    assert not (data / "train").exists()
    shoal.good("datagen", workload, "--data", data, "--force", "-q", "--json")
    (data / "catalog.shoal").unlink()
    shoal.good("datagen", workload, "--data", data, "--resume", "-q", "--json")  # it is known whose this is
