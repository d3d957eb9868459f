"""Catalogs made of catalogs: merge, filter, split and diff."""

import json
import random
import subprocess

import pytest
from conftest import check_words, contents, lines

NAMES = [b"%s/img_%04d.%s" % ((b"train", b"tmp", b"test")[i % 3], i, b"txt" if i % 5 == 0 else b"jpg") for i in range(300)]
SIZES = [i * 3 for i in range(300)]


def facts(shoal, path):
    """All that a catalog says of its files."""
    return [json.loads(line) for line in lines(shoal.good("ls", path, "--json"))]


def whole(shoal):
    samples = [i % 4 + 1 for i in range(300)]
    return shoal.index(NAMES, sizes=SIZES, samples=samples)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("nr", [1, 2, 7])
def test_merged_parts_are_the_whole(shoal, tmp_path, nr, interleaved):
    want = sorted(NAMES)
    all_of_it = shoal.index(want)
    parts = []
    for k in range(nr):
        part = want[k::nr] if interleaved else want[len(want) * k // nr:len(want) * (k + 1) // nr]
        parts.append(shoal.index(part, to=tmp_path / f"part{k}"))
    assert b"%d file" % len(want) in shoal.good("merge", *parts, "-o", tmp_path / "all")
    assert shoal.info(tmp_path / "all")["digest"] == shoal.info(all_of_it)["digest"]
    shoal.good("verify", tmp_path / "all", "-q")


def test_merge_keeps_sizes_and_samples(shoal, tmp_path):
    path = whole(shoal)
    shoal.good("filter", path, "-o", tmp_path / "a", "--include", "*.txt", "-q")
    shoal.good("filter", path, "-o", tmp_path / "b", "--exclude", "*.txt", "-q")
    said = json.loads(shoal.good("merge", tmp_path / "b", tmp_path / "a", "-o", tmp_path / "c", "--json"))
    assert said["files"] == 300 and said["bytes"] == sum(SIZES)
    assert facts(shoal, tmp_path / "c") == facts(shoal, path)
    assert shoal.good("diff", path, tmp_path / "c") == b""


def test_names_that_repeat_are_an_error_or_the_last_ones(shoal, tmp_path, fails):
    a = shoal.index([b"a", b"b"], sizes=[1, 2], to=tmp_path / "a")
    b = shoal.index([b"b", b"c"], sizes=[20, 30], to=tmp_path / "b")
    fails(shoal("merge", a, b, "-o", tmp_path / "c"), 1, "'b' is in more than one of them")
    assert contents(tmp_path) == ["a", "b"]
    shoal.good("merge", a, b, "--repeated", "last", "-o", tmp_path / "c")
    assert [(f["name"], f["size"]) for f in facts(shoal, tmp_path / "c")] == [("a", 1), ("b", 20), ("c", 30)]


def test_catalogs_that_do_not_fit_are_refused(shoal, tmp_path, fails):
    a = shoal.index([b"a"], to=tmp_path / "a")
    other = shoal.index([b"b"], root="s3://other", to=tmp_path / "b")
    sized = shoal.index([b"c"], sizes=[1], to=tmp_path / "c")
    fails(shoal("merge", a, other, "-o", tmp_path / "x"), 1, "s3://bucket", "s3://other", "--root")
    fails(shoal("merge", a, sized, "-o", tmp_path / "x"), 1, "sizes")
    fails(shoal("merge", a, tmp_path / "none", "-o", tmp_path / "x"), 1, "none")
    fails(shoal("merge", a), 2, "-o FILE")
    fails(shoal("merge", a, "-o", "s3://bucket/x"), 1, "cannot write the catalog to s3://bucket/x: no keys found")
    fails(shoal("merge", a, other, "--root", "s3://both", "-o", tmp_path / "x"), 1,
          "the root of catalog 1, 's3://bucket', is not below 's3://both': its names cannot be relative to that")
    assert contents(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("root, wanted", [
    ("t/d", [b"a/1", b"a/b/1", b"a/b/2", b"ab/1"]), ("t/d/", [b"a/1", b"a/b/1", b"a/b/2", b"ab/1"]),
    ("t", [b"d/a/1", b"d/a/b/1", b"d/a/b/2", b"d/ab/1"]), ("t/d/a", None), ("t/d/abc", None)])
def test_catalogs_of_several_folders_are_joined_below_the_one_above_them(shoal, tmp_path, fails, root, wanted):
    """Every name of the catalog that is made is that of the file."""
    top = tmp_path / "t"
    for name in ("a/1", "a/b/1", "a/b/2", "ab/1"):
        (top / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        (top / "d" / name).write_bytes(b"x" * len(name))
    (top / "d" / "a" / "b").rename(top / "d" / "b")
    shoal.good("index", top / "d" / "a", "-q", "-o", tmp_path / "1.cat")
    (top / "d" / "b").rename(top / "d" / "a" / "b")
    for number, folder in ((2, "a/b"), (3, "ab")):
        shoal.good("index", top / "d" / folder, "-q", "-o", tmp_path / f"{number}.cat")
    result = shoal("merge", *(tmp_path / f"{i}.cat" for i in (1, 2, 3)), "--root", root, "-q", "-o", tmp_path / "all", cwd=tmp_path)
    if wanted is None:
        fails(result, 1, f"is not below 'file://{tmp_path}/{root}': its names cannot be relative to that")
        return
    assert shoal.names(tmp_path / "all") == wanted
    assert shoal.good("verify", "--storage", "-q", tmp_path / "all") == b""
    shoal.good("merge", tmp_path / "all", "--root", "/", "-q", "-o", tmp_path / "root.cat")
    assert shoal.names(tmp_path / "root.cat")[0] == bytes(top / "d/a/1")[1:]


def test_a_name_that_becomes_too_long_below_another_root_is_refused(shoal, tmp_path, fails):
    fits, deep = shoal.index([b"n" * 4094], root="/r/s", to=tmp_path / "a"), shoal.index([b"n" * 4095], root="/r/s", to=tmp_path / "b")
    shoal.good("merge", fits, "--root", "/r", "-q", "-o", tmp_path / "x")
    assert shoal.names(tmp_path / "x") == [b"s/" + b"n" * 4094]
    fails(shoal("merge", deep, "--root", "/r", "-q", "-o", tmp_path / "y"), 1, "has 4097 bytes: a name in a catalog has at most 4096")


def test_what_is_no_catalog_is_not_replaced(shoal, tmp_path, fails):
    path = whole(shoal)
    (tmp_path / "notes").write_text("precious")
    for command in (["merge", path], ["filter", path, "--limit", 3]):
        fails(shoal(*command, "-o", tmp_path / "notes"), 1, "not a catalog", "--force")
        assert (tmp_path / "notes").read_text() == "precious"
    shoal.good("filter", path, "--limit", 3, "--force", "-o", tmp_path / "notes")
    assert shoal.info(tmp_path / "notes")["files"] == 3


def test_a_filter_that_leaves_nothing_leaves_what_was_there(shoal, tmp_path, fails):
    path = whole(shoal)
    shoal.good("filter", path, "-o", tmp_path / "c", "--limit", 5, "-q")
    fails(shoal("filter", path, "-o", tmp_path / "c", "--include", "*.nothing"), 1, "no file", "--force")
    assert shoal.info(tmp_path / "c")["files"] == 5
    shoal.good("filter", path, "-o", tmp_path / "c", "--include", "*.nothing", "--force")
    assert shoal.info(tmp_path / "c")["files"] == 0


@pytest.mark.parametrize("options, wanted", [
    (["--include", "*.txt"], lambda n, s: n.endswith(b".txt")),
    (["--include", "train/*", "--exclude", "*1.jpg"], lambda n, s: n.startswith(b"train/") and not n.endswith(b"1.jpg")),
    (["--exclude", "tmp/"], lambda n, s: not n.startswith(b"tmp/")),
    (["--min-size", "100", "--max-size", "200"], lambda n, s: 100 <= s <= 200),
    (["--regex", r"_0[0-9]{2}7\.jpg$"], lambda n, s: n.endswith(b"7.jpg")),
    (["--regex", "TRAIN", "-i"], lambda n, s: n.startswith(b"train")),
    (["--start-after", "test/img_0100", "--end-before", "tmp/img_0200"], lambda n, s: b"test/img_0100" < n < b"tmp/img_0200"),
])
def test_a_filter_takes_what_it_says(shoal, tmp_path, options, wanted):
    path = whole(shoal)
    shoal.good("filter", path, "-o", tmp_path / "c", "-q", *options)
    want = sorted(n for n, s in zip(NAMES, SIZES) if wanted(n, s))
    assert shoal.names(tmp_path / "c") == want
    assert shoal.names(path, *options) == want, "ls selects alike"


def test_a_filter_by_a_list_of_names(shoal, tmp_path, fails):
    path = whole(shoal)
    some = random.Random(5).sample(NAMES, 50)
    (tmp_path / "list").write_bytes(b"\n".join(some) + b"\nnot/there\n")
    shoal.good("filter", path, "--files-from", tmp_path / "list", "-o", tmp_path / "c", "-q")
    assert shoal.names(tmp_path / "c") == sorted(some)
    shoal.good("filter", path, "--files-not-from", "-", "-0", "-o", tmp_path / "d", "-q", stdin=b"".join(n + b"\0" for n in some))
    assert shoal.names(tmp_path / "d") == sorted(set(NAMES) - set(some))
    fails(shoal("filter", path, "--files-from", tmp_path / "none", "-o", tmp_path / "e"), 1, "none", "cannot open")
    fails(shoal("filter", path, "--files-from", "a", "--files-not-from", "b", "-o", tmp_path / "e"), 2, "exclude each other")


def test_the_parts_of_a_split_are_disjoint_and_stay_when_the_dataset_grows(shoal, tmp_path, fails):
    names = [b"img_%06d" % i for i in range(10000)]
    path = shoal.index(names)
    fewer = shoal.index(names[::2], to=tmp_path / "fewer")
    parts = ["--part", "train=0.8", "--part", "valid=0.1", "--part", "test=0.1", "-q"]
    for of, folder in ((path, "all"), (fewer, "half")):
        (tmp_path / folder).mkdir()
        shoal.good("split", of, *parts, "-o", tmp_path / folder, "--seed", 7)
    found = {part: shoal.names(tmp_path / "all" / f"{part}.cat") for part in ("train", "valid", "test")}
    assert sorted(sum(found.values(), [])) == names
    assert all(abs(len(found[part]) - share) < 200 for part, share in (("train", 8000), ("valid", 1000), ("test", 1000)))
    for part in found:
        assert shoal.names(tmp_path / "half" / f"{part}.cat") == [n for n in found[part] if n in set(names[::2])]
    shoal.good("split", path, *parts, "-o", tmp_path / "half", "--seed", 8)
    assert shoal.names(tmp_path / "half" / "valid.cat") != found["valid"]
    fails(shoal("split", path, "--part", "a=0.7", "--part", "b=0.5"), 2, "more than 1")
    fails(shoal("split", path), 2, "--part")
    fails(shoal("split", path, "--part", "a"), 2, "NAME=SHARE")
    fails(shoal("split", path, "--part", "../a=0.5"), 2, "slash")
    fails(shoal("split", path, "--part", "a=0.5", "--part", "a=0.5"), 2, "twice")
    fails(shoal("split", path, "--part", "a=0.5", "-o", tmp_path / "none" / "deeper"), 1, "none")


@pytest.fixture
def thousand(shoal, tmp_path):
    """A catalog of a thousand names: merge, filter and split must not replace it by a tenth of them."""
    return shoal.index([b"img_%03d" % i for i in range(1000)], to=tmp_path / "a.cat")


@pytest.mark.parametrize("nr, replaced", [(500, True), (499, False)])
@pytest.mark.parametrize("command", ["merge", "filter", "filter itself"])
def test_a_catalog_is_not_replaced_by_one_of_less_than_half_of_its_names(shoal, fails, thousand, tmp_path, command, nr, replaced):
    few = shoal.index([b"img_%03d" % i for i in range(nr)], to=tmp_path / "few.cat")
    words = {"merge": ["merge", few], "filter": ["filter", few], "filter itself": ["filter", thousand, "--limit", nr]}[command]
    before = thousand.read_bytes()
    for more in (["--dry-run"], []):
        done = shoal(*words, "-o", thousand, *more)
        if replaced:
            assert (done.returncode, done.stderr) == (0, b"")
        else:
            fails(done, 1, f"a.cat' has 1000 names, and only {nr} were found now: it stays as it was; write it all the same with --force")
            assert thousand.read_bytes() == before
    if not replaced:
        shoal.good(*words, "-q", "-o", thousand, "--force")
    assert len(shoal.names(thousand)) == nr


def test_a_part_does_not_replace_a_catalog_that_has_more_than_twice_as_many_names(shoal, fails, thousand, tmp_path):
    before = thousand.read_bytes()
    source = tmp_path / "source"
    source.write_bytes(before)
    for more in (["--dry-run"], []):
        fails(shoal("split", source, "--part", "a=0.0001", "-o", tmp_path, *more), 1, "a.cat' has 1000 names", "--force")
    assert thousand.read_bytes() == before
    (tmp_path / "a.txt").write_text("my notes")
    (tmp_path / "notes.cat").write_text("my notes")
    fails(shoal("split", thousand, "--part", "notes=1", "-o", tmp_path), 1, "notes.cat' exists and is not a catalog; write it all the same")
    shoal.good("split", thousand, "--part", "b=0.0001", "-q", "-o", tmp_path)  # a new one may be empty
    assert shoal.names(tmp_path / "b.cat") == []
    shoal.good("split", thousand, "--part", "b=0.5", "--part", "c=0.5", "-q", "-o", tmp_path)
    shoal.good("split", tmp_path / "b.cat", "--part", "a=0.0001", "-q", "-o", tmp_path, "--force")
    assert shoal.names(thousand) == []


def test_either_all_parts_of_a_split_are_replaced_or_none(shoal, fails, tmp_path):
    """A part of the new split beside one of the old would have files in common with it."""
    source, out = shoal.pattern("f{:05d}", 10_000), tmp_path / "parts"
    shoal.good("split", source, "--part", "train=0.95", "--part", "valid=0.05", "-o", out, "-q")
    before = {name: (out / name).read_bytes() for name in contents(out)}
    again = ["split", source, "--part", "train=0.98", "--part", "valid=0.02", "-o", out, "-q"]
    fails(shoal(*again), 1, "valid.cat' has ", "--force")
    assert {name: (out / name).read_bytes() for name in contents(out)} == before
    full = ["bash", "-c", 'ulimit -f 2; trap "" XFSZ; exec "$@"', "-"]  # KiB: enough for the first part
    done = subprocess.run([*full, *shoal.arguments(["split", source, "--part", "valid=0.01", "--part", "train=0.99", "-o", out, "--force"])],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (1, b"") and b"train.cat" in done.stderr, done
    assert {name: (out / name).read_bytes() for name in contents(out)} == before
    shoal.good(*again, "--force")
    assert not set(shoal.names(out / "train.cat")) & set(shoal.names(out / "valid.cat")) and contents(out) == ["train.cat", "valid.cat"]


def test_a_damaged_or_empty_catalog_is_replaced_by_any(shoal, thousand, tmp_path):
    few = shoal.index([b"a"], to=tmp_path / "few.cat")
    for content in (b"", thousand.read_bytes()[:-1], thousand.read_bytes()[:100], b"\x89SHOAL\r\n"):
        thousand.write_bytes(content)
        shoal.good("merge", few, "-q", "-o", thousand)
        assert shoal.names(thousand) == [b"a"]


@pytest.mark.parametrize("command", [["index", "LIST", "--root", "/r"], ["merge", "CAT"], ["filter", "CAT"]])
def test_a_directory_as_output_is_named_first(shoal, fails, thousand, tmp_path, command):
    (tmp_path / "out").mkdir()
    (tmp_path / "list").write_bytes(b"a\n")
    words = [{"LIST": tmp_path / "list", "CAT": thousand}.get(word, word) for word in command]
    fails(shoal(*words, "-o", tmp_path / "out"), 1, f"shoal {command[0]}: '{tmp_path}/out' is a directory: name a file")


def test_differences_are_printed_in_order_and_tell_by_the_status(shoal, tmp_path):
    a = shoal.index([b"b", b"c", b"e", b"f"], sizes=[1, 1, 5, 1], to=tmp_path / "a")
    b = shoal.index([b"a", b"c", b"e\n", b"e", b"f"], sizes=[9, 1, 2, 6, 1], to=tmp_path / "b")
    done = shoal("diff", a, b)
    assert done.returncode == 1
    assert lines(done.stdout) == [b"new\ta\t-\t9", b"missing\tb\t1\t-", b"resized\te\t5\t6", b"new\te\\x0a\t-\t2"]
    assert b"1 missing, 2 new, 1 of another size" in done.stderr
    done = shoal("diff", a, b, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"equal": False, "same": 2, "missing": 1, "new": 2, "resized": 1, "changed": 0}
    assert shoal("diff", a, b, "-q").stdout == b"" and shoal.good("diff", a, a, "-q") == b""
    assert json.loads(shoal.good("diff", a, a, "--json"))["equal"] is True
    done = shoal("diff", a, b, "--limit", 1)
    assert (done.returncode, lines(done.stdout)) == (1, [b"new\ta\t-\t9"]), "of what differs, not of the catalogs"
    assert b"1 missing, 2 new, 1 of another size" in done.stderr
    done = shoal("diff", a, b, "--include", "f")
    assert (done.returncode, done.stdout) == (0, b"")
    check_words(shoal("diff", a, tmp_path / "none"), 1, "none")


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
def test_cat_prints_a_file_whole_or_refuses_it(shoal, fails, tmp_path, size):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "a").write_bytes(b"x" * size)
    shoal.good("index", tmp_path / "g", "-o", tmp_path / "g.cat", "-q")
    assert shoal.good("cat", tmp_path / "g.cat", "a") == b"x" * size
    (tmp_path / "g" / "a").write_bytes(b"x" * (size + 1))
    done = shoal("cat", tmp_path / "g.cat", "a")
    assert done.returncode == 1 and f"'a' is larger than the {size} bytes" in done.stderr.decode()


def test_more_lists_than_ranks_can_be_are_refused(shoal, fails, thousand, tmp_path):
    fails(shoal("manifest", thousand, "--ranks", 99999999999, "-o", tmp_path / "m"), 2, "--ranks 99999999999", "at most 10000000")


def test_a_split_does_not_replace_what_it_splits(shoal, fails, tmp_path):
    path = shoal.pattern("f{:04d}", 1000, to=tmp_path / "train.cat")
    before = path.read_bytes()
    parts = ["--part", "valid=0.1", "--part", "train=0.9"]
    fails(shoal("split", path, *parts, "-o", tmp_path), 1, "train.cat' is the catalog that is split", "-o", "--force")
    assert path.read_bytes() == before and contents(tmp_path) == ["train.cat"], "no part is written before"
    shoal.good("split", path, *parts, "-o", tmp_path / "parts", "-q")
    shoal.good("split", path, *parts, "-o", tmp_path, "-q", "--force")
    assert shoal.names(path) == shoal.names(tmp_path / "parts" / "train.cat")
