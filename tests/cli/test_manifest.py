"""Manifests: one list of URIs for each rank and epoch, together a partition of the dataset."""

import itertools
import json
import os

import pytest
import shapes
import conftest
from conftest import lines

MODES = ["sequential", "global", "files", "window", "local"]


def manifest(shoal, path, directory, *options):
    assert shoal.good("manifest", path, "-o", directory, "-q", *options) == b""


def contents(directory):
    """What is in it, without the note that says which catalog the lists are of."""
    return [name for name in conftest.contents(directory) if not name.endswith(".shoal-manifest")]


def read_lists(directory, end=b"\n"):
    """{file name: its lines}"""
    return {name: lines((directory / name).read_bytes(), end) for name in contents(directory)}


def list_names(ranks, epochs=(0,), prefix="train"):
    return sorted("%s_epoch%04d_rank%05d.txt" % (prefix, epoch, rank) for epoch in epochs for rank in range(ranks))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("nr, ranks", [(1, 1), (1, 3), (7, 1), (7, 2), (7, 7), (7, 24), (1000, 3), (2500, 1), (5000, 24)])
def test_the_lists_of_an_epoch_are_a_partition(shoal, tmp_path, nr, ranks, mode):
    path = shoal.pattern("f{:05d}", nr)
    manifest(shoal, path, tmp_path / "m", "--ranks", ranks, "--mode", mode, "--seed", 3)
    lists = read_lists(tmp_path / "m")
    assert sorted(lists) == list_names(ranks)
    every = list(itertools.chain.from_iterable(lists.values()))
    assert sorted(every) == [b"s3://bucket/f%05d" % i for i in range(nr)]
    lengths = [len(uris) for uris in lists.values()]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "local"])
def test_ranks_take_the_files_of_the_epoch_in_turn(shoal, tmp_path, mode):
    path = shoal.pattern("f{:05d}", 3000)
    manifest(shoal, path, tmp_path / "one", "--mode", mode, "--epoch", 2, "--seed", 8)
    manifest(shoal, path, tmp_path / "many", "--mode", mode, "--epoch", 2, "--seed", 8, "--ranks", 7)
    (whole,) = read_lists(tmp_path / "one").values()
    for rank, name in enumerate(list_names(7, [2])):
        assert read_lists(tmp_path / "many")[name] == whole[rank::7]


def test_a_manifest_has_the_order_that_the_order_command_prints(shoal, tmp_path):
    path = shoal.pattern("f{:05d}", 3000)
    manifest(shoal, path, tmp_path / "m", "--epoch", 4, "--seed", 5, "--ranks", 2)
    for rank, uris in enumerate(read_lists(tmp_path / "m").values()):
        names = lines(shoal.good("order", path, "--names", "--epoch", 4, "--seed", 5, "--ranks", 2, "--rank", rank,
                                   "--batch", 1))
        assert uris == [b"s3://bucket/" + name for name in names]


def test_in_mode_local_a_rank_has_a_share_of_its_own(shoal, tmp_path):
    path = shoal.pattern("f{:05d}", 5003)
    manifest(shoal, path, tmp_path / "m", "--mode", "local", "--ranks", 3)
    for rank, uris in enumerate(read_lists(tmp_path / "m").values()):
        share = range(rank * 5003 // 3, (rank + 1) * 5003 // 3)
        assert sorted(uris) == [b"s3://bucket/f%05d" % i for i in share]
        assert uris != sorted(uris)


def test_files_count_once_however_many_samples_they_hold(shoal, tmp_path):
    path = shoal.pattern("f{}", 10, "--samples-per-file", 100)
    manifest(shoal, path, tmp_path / "m", "--ranks", 3)
    assert sum(len(uris) for uris in read_lists(tmp_path / "m").values()) == 10


# ---------------------------------------------------------------------------------------------------------------- epochs


@pytest.mark.parametrize("options, epochs", [
    ([], [0]),
    (["--epoch", 3], [3]),
    (["--epoch", 12345], [12345]),
    (["--epochs", 1], [0]),
    (["--epochs", 3], [0, 1, 2]),
    (["--epoch", 2, "--epochs", 4], [2, 3, 4, 5]),
    (["--epochs", 4, "--epoch", 9998], [9998, 9999, 10000, 10001]),
])
def test_there_is_a_list_for_each_epoch_and_rank(shoal, tmp_path, options, epochs):
    path = shoal.pattern("f{:05d}", 500)
    manifest(shoal, path, tmp_path / "m", "--ranks", 2, *options)
    lists = read_lists(tmp_path / "m")
    assert sorted(lists) == list_names(2, epochs)
    for epoch in epochs:
        every = sum((lists[name] for name in list_names(2, [epoch])), [])
        assert sorted(every) == [b"s3://bucket/f%05d" % i for i in range(500)]
    assert len({tuple(uris) for uris in lists.values()}) == len(lists), "epochs differ"


def test_several_epochs_give_the_same_lists_as_one_epoch_at_a_time(shoal, tmp_path):
    path = shoal.pattern("f{:05d}", 500)
    manifest(shoal, path, tmp_path / "range", "--ranks", 2, "--epochs", 4)
    for epoch in range(4):
        manifest(shoal, path, tmp_path / "single", "--ranks", 2, "--epoch", epoch)
    assert read_lists(tmp_path / "range") == read_lists(tmp_path / "single")


@pytest.mark.parametrize("options", [["--epoch", 2**64 - 1], ["--epoch", 2**64 - 1, "--epochs", 1]])
def test_the_last_epoch_that_has_a_number_ends(shoal, tmp_path, options):
    process = shoal.start("manifest", shoal.index([b"a", b"b"]), "-q", "-o", tmp_path / "m", *options)
    try:
        assert process.communicate(timeout=5) == (b"", b"")
    finally:
        process.kill()
        process.wait()
    assert sorted(read_lists(tmp_path / "m")) == list_names(1, [2**64 - 1])


def test_frozen_epochs_have_the_same_lists(shoal, tmp_path):
    path = shoal.pattern("f{:05d}", 500)
    manifest(shoal, path, tmp_path / "m", "--epochs", 3, "--frozen")
    assert len({tuple(uris) for uris in read_lists(tmp_path / "m").values()}) == 1


# ----------------------------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize("root, start", [
    ("s3://bucket/x", b"s3://bucket/x/"),
    ("/data", b"file:///data/"),
    ("/", b"file:///"),
])
def test_lines_are_uris_below_the_root(shoal, tmp_path, root, start):
    manifest(shoal, shoal.index([b"a", b"b/c"], root=root), tmp_path / "m", "--mode", "sequential")
    assert read_lists(tmp_path / "m") == {list_names(1)[0]: [start + b"a", start + b"b/c"]}


@pytest.mark.parametrize("root, start", [("/data", b"/data/"), ("/", b"/")])
def test_paths_are_uris_without_their_scheme(shoal, tmp_path, root, start):
    manifest(shoal, shoal.index([b"a", b"b/c"], root=root), tmp_path / "m", "--mode", "sequential", "--paths")
    assert read_lists(tmp_path / "m") == {list_names(1)[0]: [start + b"a", start + b"b/c"]}


def test_prefix_starts_the_names_of_the_lists(shoal, tmp_path):
    manifest(shoal, shoal.index([b"a"]), tmp_path / "m", "--list-prefix", "valid", "--ranks", 2)
    assert contents(tmp_path / "m") == list_names(2, prefix="valid")


def test_nul_ends_lines_when_asked(shoal, tmp_path):
    names = sorted(shapes.SHAPES["names with tabs, newlines and other bytes that text has not"])
    manifest(shoal, shoal.index(names), tmp_path / "m", "--mode", "sequential", "-0")
    assert read_lists(tmp_path / "m", b"\0")[list_names(1)[0]] == [b"s3://bucket/" + name for name in names]


def test_a_name_with_a_newline_is_refused_without_nul(shoal, fails, tmp_path):
    path = shoal.index([b"a", b"b\nc", b"d"])
    result = shoal("manifest", path, "-o", tmp_path / "m", "--mode", "sequential")
    fails(result, 1, "name 1 contains a line end; use --null", empty=tmp_path / "m")


def test_no_list_is_cut_short_by_a_name_with_a_newline(shoal, tmp_path):
    path = shoal.index([b"%d" % i for i in range(20)] + [b"9\n"])
    result = shoal("manifest", path, "-o", tmp_path / "m", "--mode", "sequential", "--ranks", 4, "-q")
    assert result.returncode == 1
    for name, uris in read_lists(tmp_path / "m").items():
        assert name in list_names(4)
        assert len(uris) >= 5


# ------------------------------------------------------------------------------------------------------- the directory


def test_it_tells_how_many_lists_it_wrote(shoal, tmp_path):
    result = shoal("manifest", shoal.index([b"a", b"b"]), "-o", tmp_path / "m", "--ranks", 2, "--epochs", 3)
    assert (result.returncode, result.stdout) == (0, b"")
    assert lines(result.stderr) == [b"6 lists of 2 files in '%s'" % os.fsencode(tmp_path / "m")]


def test_the_directory_may_be_there(shoal, tmp_path):
    (tmp_path / "other.txt").write_bytes(b"mine")
    manifest(shoal, shoal.index([b"a"]), tmp_path)
    assert contents(tmp_path) == ["other.txt"] + list_names(1)
    assert (tmp_path / "other.txt").read_bytes() == b"mine"


def test_lists_of_another_seed_or_more_ranks_replace_those_in_a_folder_by_force(shoal, tmp_path):
    path = shoal.pattern("f{}", 100)
    manifest(shoal, path, tmp_path, "--ranks", 2, "--seed", 1)
    before = read_lists(tmp_path)
    manifest(shoal, path, tmp_path, "--ranks", 2, "--seed", 2, "--force")
    assert read_lists(tmp_path) != before
    manifest(shoal, path, tmp_path, "--ranks", 5, "--force")
    assert sum(len(uris) for uris in read_lists(tmp_path).values()) == 100


@pytest.mark.parametrize("more, words", [
    (["--ranks", 3], "ranks 2, and not ranks 3"),
    (["--ranks", 1], "ranks 2, and not ranks 1"),
    (["--seed", 2], "seed 1, and not seed 2"),
    (["--mode", "sequential"], "mode window, and not mode sequential"),
    (["--window", 17], "window 16, and not window 17"),
    (["--lanes", 2], "lanes 1, and not lanes 2"),
    (["--frozen"], "frozen 0, and not frozen 1"),
])
def test_lists_of_another_order_are_not_mixed_with_those_in_a_folder(shoal, fails, tmp_path, more, words):
    path = shoal.pattern("f{}", 100)
    same = [path, "-o", tmp_path, "--ranks", 2, "--seed", 1, "--mode", "window"]
    shoal.good("manifest", *same, "-q", "--epochs", 2)
    before = read_lists(tmp_path)
    for epoch in (0, 2):
        fails(shoal("manifest", *same, "--epoch", epoch, *more), 1, f"another order ({words})", "--force")
    assert read_lists(tmp_path) == before, "nothing was written"
    shoal.good("manifest", *same, "-q", "--epoch", 2, "--window", 16)  # the default
    assert len(contents(tmp_path)) == 6
    shoal.good("manifest", *same, "-q", *more, "--force")
    assert {name[:15] for name in contents(tmp_path)} == {"train_epoch0000"}


def test_lists_of_other_epochs_or_another_prefix_are_beside_one_another(shoal, tmp_path):
    path = shoal.pattern("f{}", 100)
    manifest(shoal, path, tmp_path, "--ranks", 3, "--epoch", 1)
    manifest(shoal, path, tmp_path, "--ranks", 3, "--epoch", 0)
    manifest(shoal, path, tmp_path, "--ranks", 2, "--epoch", 1, "--list-prefix", "valid")
    assert len(contents(tmp_path)) == 8


@pytest.mark.parametrize("make, words", [
    (lambda place: place.write_bytes(b"mine"), "is not a directory"),
    (lambda place: place.symlink_to("nowhere"), "is not a directory"),
])
def test_a_directory_that_cannot_be_made_is_told(shoal, fails, tmp_path, make, words):
    make(tmp_path / "m")
    fails(shoal("manifest", shoal.index([b"a"]), "-o", tmp_path / "m"), 1, words, "/m'")
    assert contents(tmp_path) == ["m"]


def test_only_one_level_of_directories_is_made(shoal, fails, tmp_path):
    result = shoal("manifest", shoal.index([b"a"]), "-o", tmp_path / "x" / "y")
    fails(result, 1, "cannot create the directory", "No such file or directory", empty=tmp_path)


def test_a_list_that_cannot_be_written_is_told(shoal, fails, tmp_path):
    (tmp_path / list_names(2)[1]).mkdir()
    result = shoal("manifest", shoal.index([b"a", b"b"]), "-o", tmp_path, "--ranks", 2)
    fails(result, 1, "train_epoch0000_rank00001.txt' is a directory")
    assert not [name for name in contents(tmp_path) if name.startswith(".")]


# ------------------------------------------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("options, words", [
    (["--ranks", 0], "--ranks must be 1 or more"),
    (["--ranks", "x"], "--ranks 'x' is not a whole number"),
    (["--mode", "x"], "--mode 'x' is not sequential"),
    (["--epochs", "x"], "--epochs 'x' is not a whole number"),
    (["--epochs", "0..4"], "--epochs '0..4' is not a whole number"),
    (["--epochs", 0], "--epochs must be 1 to 1000000"),
    (["--epochs", 1000001], "--epochs must be 1 to 1000000"),
    (["--epoch", 2**64 - 1, "--epochs", 2], "epoch"),
    (["--prefix", "a"], "--list-prefix is the start"),
    (["--list-prefix", "a/b"], "must be a name without a '/'"),
    (["--window", 0], "--window must be 1 or more"),
    (["--batch", 3], "unknown option '--batch'"),
    (["second"], "give one catalog"),
])
def test_arguments_that_make_no_sense_are_refused(shoal, fails, tmp_path, options, words):
    result = shoal("manifest", shoal.index([b"a"]), "-o", tmp_path / "m", *options)
    fails(result, 2, words, empty=tmp_path)


def test_where_to_write_must_be_said(shoal, fails):
    fails(shoal("manifest", shoal.index([b"a"])), 2, "say where to write the lists")


def test_paths_need_a_root_of_files(shoal, fails, tmp_path):
    result = shoal("manifest", shoal.index([b"a"], root="s3://b"), "-o", tmp_path / "m", "--paths")
    fails(result, 1, "the root 's3://b' is not a local directory", empty=tmp_path)


def test_a_catalog_without_files_has_no_manifest(shoal, fails, tmp_path):
    fails(shoal("manifest", shoal.index([]), "-o", tmp_path / "m"), 1, "the catalog lists no files", empty=tmp_path)


def test_a_bad_catalog_makes_no_directory(shoal, fails, tmp_path):
    bad = shoal.scratch / "bad"
    bad.write_bytes(b"no catalog")
    fails(shoal("manifest", bad, "-o", tmp_path / "m"), 1, "not a catalog", empty=tmp_path)


def test_a_dry_run_writes_nothing_and_json_has_the_counts(shoal, tmp_path):
    path = shoal.index([b"a", b"b", b"c"])
    said = json.loads(shoal.good("manifest", path, "--ranks", 2, "--epochs", 3, "-o", tmp_path / "m", "--dry-run", "--json"))
    assert said == {"directory": str(tmp_path / "m"), "lists": 6, "files": 3, "written": False}
    assert not (tmp_path / "m").exists()
    said = json.loads(shoal.good("manifest", path, "--ranks", 2, "-o", tmp_path / "m", "--json"))
    assert said["written"] and said["lists"] == len(contents(tmp_path / "m")) == 2


def test_force_removes_the_lists_of_more_ranks(shoal, tmp_path):
    (tmp_path / "d").mkdir()
    for name in "abc":
        (tmp_path / "d" / name).write_bytes(b"x")
    shoal.good("index", tmp_path / "d", "-q", "-o", tmp_path / "c.cat")
    make = ["manifest", tmp_path / "c.cat", "-q", "-o", tmp_path / "lists"]
    shoal.good(*make, "--ranks", 2)
    refused = shoal(*make, "--ranks", 1)
    assert refused.returncode == 1 and b"--force removes them first" in refused.stderr
    shoal.good(*make, "--ranks", 1, "--force")
    assert [path.name for path in (tmp_path / "lists").glob("*.txt")] == ["train_epoch0000_rank00000.txt"]
