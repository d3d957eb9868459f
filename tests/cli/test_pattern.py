"""Patterns make the names that DLIO makes (reference/dlio.md section 6.1)."""

import pytest
import shapes
from conftest import contents

COUNTS = [1, 2, 10, 999, 1000, 1001]
FOLDERS = [0, 1, 2, 7, 10, 1000, 1001]


def dlio_pattern(nr):
    return "train/img_{:0%dd}_of_%d.jpeg" % (len(str(nr)), nr)


@pytest.mark.parametrize("folders", FOLDERS)
@pytest.mark.parametrize("nr", COUNTS)
def test_a_pattern_makes_the_names_of_dlio(shoal, nr, folders):
    path = shoal.pattern(dlio_pattern(nr), nr, "--subfolders", folders)
    want = sorted(shapes.dlio(nr, folders))
    assert shoal.names(path) == want
    assert [int(i) for i in shoal.good("find", path, *want).split()] == list(range(nr))
    assert shoal.info(path)["files"] == nr
    assert shoal.good("verify", "-q", path) == b""


@pytest.mark.parametrize("folders", [0, 7, 1000])
@pytest.mark.parametrize("nr", [1, 10, 1001])
def test_a_pattern_and_a_list_have_the_same_digest(shoal, tmp_path, nr, folders):
    pattern = shoal.info(shoal.pattern(dlio_pattern(nr), nr, "--subfolders", folders))
    listed = shoal.info(shoal.index(shapes.shuffled(shapes.dlio(nr, folders)), to=tmp_path / "c"))
    assert pattern["digest"] == listed["digest"]


@pytest.mark.parametrize("folders", [0, 7])
def test_a_pattern_and_a_list_with_sizes_and_samples_have_the_same_digest(shoal, tmp_path, folders):
    pattern = shoal.info(shoal.pattern(dlio_pattern(500), 500, "--subfolders", folders, "--size", "300K",
                                       "--samples-per-file", 4))
    names = shapes.dlio(500, folders)
    listed = shoal.info(shoal.index(names, sizes=[300 * 1024] * 500, samples=[4] * 500, to=tmp_path / "c"))
    for key in ("digest", "bytes", "samples", "files"):
        assert pattern[key] == listed[key]
    assert pattern["samples_per_file"] == 4


@pytest.mark.parametrize("pattern, make", [
    ("{}", "%d"),
    ("x{}", "x%d"),
    ("{}.jpg", "%d.jpg"),
    ("a/{:d}/b", "a/%d/b"),
    ("img{}_x", "img%d_x"),
    ("{:03d}", "%03d"),
    ("{:03}", "%03d"),
    ("{:00d}", "%d"),
    ("{:01d}", "%d"),
    ("{:020d}", "%020d"),
    ("{:0255d}", "%0255d"),
    ("{{{:05d}}}", "{%05d}"),
    ("{{}}{}", "{}%d"),
    ("{}{{}}", "%d{}"),
    ("}}{:02d}{{", "}%02d{"),
    ("9{:04d}9", "9%04d9"),
    ("9{}9", "9%d9"),
    ("caf\u00e9/{}", "caf\u00e9/%d"),
    (" {} ", " %d "),
    ("%d{}%s", "%%d%d%%s"),
])
@pytest.mark.parametrize("first, nr", [(0, 1), (0, 1200), (95, 10), (7, 1000)])
def test_numbers_are_written_as_python_writes_them(shoal, pattern, make, first, nr):
    want = sorted((make % i).encode() for i in range(first, first + nr))
    assert want == sorted(pattern.format(i).encode() for i in range(first, first + nr)), "the table is right"
    path = shoal.pattern(pattern, nr, "--first", first)
    assert shoal.names(path) == want
    assert [int(i) for i in shoal.good("find", path, "--", *want).split()] == list(range(nr))


@pytest.mark.parametrize("pattern, first, nr, folders", [
    ("d/f{:04d}", 3, 100, 7),
    ("d/f{:04d}", 7, 100, 7),
    ("f{}", 0, 1234, 10),
    ("a/b/f{:02d}", 0, 250, 3),
    ("f{:06d}", 999_990, 30, 4),
    ("f{:06d}", 12, 1, 5),
])
def test_subfolders_take_the_number_modulo_their_count(shoal, pattern, first, nr, folders):
    folder, slash, stem = pattern.rpartition("/")
    want = sorted(("%s%s%0*d/%s" % (folder, slash, len(str(folders)), i % folders, stem.format(i))).encode()
                  for i in range(first, first + nr))
    assert shoal.names(shoal.pattern(pattern, nr, "--first", first, "--subfolders", folders)) == want


def test_a_pattern_takes_no_room_however_many_names_it_makes(shoal):
    nr = 3_000_000
    path = shoal.pattern("train/img_{:012d}.npz", nr, "--subfolders", 1000, "--size", 1)
    info = shoal.info(path)
    assert info["files"] == info["bytes"] == nr
    assert info["file_bytes"] < 2000
    assert shoal.names(path, "--id", nr - 1) == [b"train/0999/img_000002999999.npz"]
    assert shoal.good("find", path, "train/0001/img_000000000001.npz") == b"3000\n"


@pytest.mark.parametrize("size, number", [("0", 0), ("1", 1), ("1K", 1024), ("2MiB", 2 << 20), ("3kB", 3000), ("5b", 5),
                                          ("1T", 1 << 40)])
def test_every_file_gets_the_size(shoal, size, number):
    path = shoal.pattern("f{}", 2, "--size", size)
    assert shoal.good("ls", path, "--sizes") == b"f0\t%d\nf1\t%d\n" % (number, number)


def test_a_pattern_without_a_size_has_none(shoal):
    path = shoal.pattern("f{}", 1)
    assert shoal.info(path)["bytes"] is None
    assert shoal.good("ls", path, "--sizes") == b"f0\t-\n"


def test_json_tells_the_number_of_names(shoal, tmp_path):
    result = shoal("index", "--pattern", "{}", "--count", 12, "-o", tmp_path / "c", "--json", "-q")
    assert b'"files": 12' in result.stdout and b'"repeated": 0' in result.stdout


# ------------------------------------------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("pattern, words", [
    ("", "has no number"),
    ("abc", "has no number"),
    ("a{{}}b", "has no number"),
    ("{}{}", "more than one"),
    ("a{:03d}/{:03d}", "more than one"),
    ("a{", "has no '}'"),
    ("a{:03d", "has no '}'"),
    ("a}b{}", "has no '{'"),
    ("{:3d}", "write a number as"),
    ("{:03x}", "write a number as"),
    ("{i}", "write a number as"),
    ("{0}", "write a number as"),
    ("{:-3d}", "write a number as"),
    ("{:,}", "write a number as"),
    ("{:0256d}", "write a number as"),
    ("{:099999999999999999999d}", "write a number as"),
    ("../{}", "is not a name below the root"),
    ("x" * 4096 + "{}", "more than 4096 bytes"),
    ("x" * 5000 + "{}", "more than 4096 bytes"),
])
def test_a_bad_pattern_is_refused(shoal, fails, tmp_path, pattern, words):
    result = shoal("index", "--pattern", pattern, "--count", 3, "-o", tmp_path / "c")
    fails(result, 2, words, empty=tmp_path)


@pytest.mark.parametrize("options, words", [
    ([], "--count"),
    (["--count", "0"], "the count of names must be 1 or more"),
    (["--count", "-1"], "--count '-1' is not a whole number"),
    (["--count", "x"], "--count 'x' is not a whole number"),
    (["--count", "3.0"], "--count '3.0' is not a whole number"),
    (["--count", ""], "--count '' is not a whole number"),
    (["--count", "99999999999999999999"], "--count '99999999999999999999' is too large"),
    (["--count", str(2**48 + 1)], "too large"),
    (["--count", "3", "--first", str(10**18)], "too large"),
    (["--count", "3", "--subfolders", str(10**10)], "too large"),
    (["--count", "3", "--size", "many"], "--size 'many' is not a size"),
    (["--count", "3", "--size", "5X"], "--size '5X' is not a size"),
    (["--count", "3", "--size", "99999999999T"], "--size '99999999999T' is too large"),
    (["--count", "3", "-0"], "--null is for a LIST"),
    (["--count", "3", "--names-only"], "--names-only is for a LIST"),
    (["--count", "3", "list.txt"], "not two"),
])
def test_numbers_that_make_no_sense_with_a_pattern_are_refused(shoal, fails, tmp_path, options, words):
    fails(shoal("index", "--pattern", "a{}", "-o", tmp_path / "c", *options), 2, words, empty=tmp_path)


@pytest.mark.parametrize("option", ["--count", "--first", "--subfolders", "--size"])
def test_options_of_a_pattern_are_refused_with_a_list(shoal, fails, tmp_path, option):
    fails(shoal("index", "-", "-o", tmp_path / "c", option, 3, stdin=b"a\n"), 2, "is for --pattern", empty=tmp_path)


def test_with_subfolders_the_number_is_in_the_last_part(shoal, fails, tmp_path):
    result = shoal("index", "--pattern", "{}/x", "--count", 3, "--subfolders", 2, "-o", tmp_path / "c")
    fails(result, 2, "the last component of the pattern", empty=tmp_path)


def test_the_size_that_stands_for_an_unknown_one_is_refused(shoal, tmp_path):
    result = shoal("index", "--pattern", "{:04d}", "--count", 1, "--size", 2**64 - 1, "-q", "-o", tmp_path / "c")
    assert result.returncode in (1, 2)
    assert b"size" in result.stderr
    assert contents(tmp_path) == []


def test_sizes_whose_sum_has_no_64_bits_are_refused(shoal, fails, tmp_path):
    result = shoal("index", "--pattern", "{:04d}", "--count", 1000, "--size", 2**63, "-o", tmp_path / "c")
    fails(result, 1, "size", empty=tmp_path)


@pytest.mark.parametrize("pattern", ["{}", "{:06d}"])
def test_an_output_that_cannot_be_written_is_no_usage_error(shoal, fails, tmp_path, pattern):
    run = ["index", "--pattern", pattern, "--count", 3, "-o"]
    fails(shoal(*run, tmp_path / "missing" / "c"), 1, "there is no directory", empty=tmp_path)
    fails(shoal(*run, tmp_path), 1, "directory", empty=tmp_path)
    fails(shoal(*run, "/dev/null"), 1, "'/dev/null': it is not a regular file")


def test_a_pattern_replaces_a_catalog_atomically(shoal, tmp_path):
    shoal.pattern("a{}", 3, to=tmp_path / "c")
    shoal.pattern("b{:04d}", 2, to=tmp_path / "c")
    assert shoal.names(tmp_path / "c") == [b"b0000", b"b0001"]
    assert contents(tmp_path) == ["c"]


@pytest.mark.parametrize("pattern, root, first", [
    ("/data/x_{:03d}", None, b"data/x_000"),
    ("/data/x_{:03d}", "/data", b"x_000"),
    ("s3://bucket/p/x_{:03d}", None, b"p/x_000"),
    ("./x_{}", "s3://bucket", b"./x_0"),
    ("./x_{}", "/data", b"x_0"),
])
def test_a_pattern_is_made_relative_to_the_root_as_a_list_is(shoal, tmp_path, pattern, root, first):
    options = ["--root", root] if root else []
    shoal.good("index", "--pattern", pattern, "--count", 1, "-q", "-o", tmp_path / "p", *options)
    assert shoal.names(tmp_path / "p") == [first]
    shoal.good("index", "-", "-q", "-o", tmp_path / "l", *options, stdin=pattern.format(0).encode() + b"\n")
    assert shoal.names(tmp_path / "l") == [first]


def test_a_pattern_may_make_names_of_exactly_4096_bytes(shoal, fails, tmp_path):
    shoal.good("index", "--pattern", "a" * 4095 + "{}", "--count", 10, "-q", "-o", tmp_path / "c")
    result = shoal("index", "--pattern", "a" * 4095 + "{}", "--count", 11, "-o", tmp_path / "d")
    assert result.returncode == 2 and b"more than 4096 bytes" in result.stderr
