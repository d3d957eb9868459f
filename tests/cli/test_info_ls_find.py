"""What catalogs of many kinds of names say: they hold sorted(set(names)), whatever the shape of the names."""

import bisect
import json
import random

import pytest
import shapes
from conftest import lines

KINDS = pytest.mark.parametrize("kind", shapes.SHAPES)


def prefixes_to_try(names, rng):
    """Prefixes of names, of more than a name, between names, before all and after all."""
    some = rng.sample(names, min(len(names), 6))
    found = [name[:rng.randint(1, len(name))] for name in some]
    found += [name + extra for name in some for extra in (b"\x01", b"\xff", b"zzz", b"0")]
    found += [name[:-1] + bytes([min(255, name[-1] + 1)]) for name in some]
    found += [name[:-1] + bytes([max(1, name[-1] - 1)]) for name in some]
    found += [b"\x01", b"\xff", b"a", b"0", b"x" * 5000]
    return [prefix for prefix in dict.fromkeys(found) if prefix and not prefix.startswith(b"-")]


def check_lookups(shoal, path, want, rng, nr_ids, nr_prefixes):
    """ls by id, range and prefix, and find, against a sorted list."""
    assert shoal.names(path) == want
    found = shoal.good("find", path, "--", *want).split() if want else []
    assert [int(i) for i in found] == list(range(len(want)))
    for i in rng.sample(range(len(want)), min(len(want), nr_ids)):
        assert shoal.names(path, "--id", i) == [want[i]]
        nr = rng.choice([1, 2, 300, 10**9, 2**64 - 1])
        assert shoal.names(path, "--from", i, "--limit", nr) == want[i:i + nr]
    prefixes = prefixes_to_try(want, rng)
    for prefix in rng.sample(prefixes, min(len(prefixes), nr_prefixes)):
        expected = [name for name in want if name.startswith(prefix)]
        assert shoal.names(path, b"--prefix=" + prefix) == expected, prefix


@KINDS
def test_a_catalog_holds_the_sorted_set_of_its_names(shoal, kind):
    names = shapes.shuffled(shapes.SHAPES[kind])
    path = shoal.index(names)
    check_lookups(shoal, path, sorted(set(names)), random.Random(kind), nr_ids=2, nr_prefixes=8)
    assert shoal.good("verify", "-q", path) == b""


@KINDS
def test_names_that_are_not_there_are_not_found(shoal, kind):
    names = set(shapes.SHAPES[kind])
    path = shoal.index(sorted(names))
    rng = random.Random(kind)
    absent = {prefix for _ in range(4) for prefix in prefixes_to_try(sorted(names), rng)} - names
    result = shoal("find", path, "--json", "--", *absent)
    assert result.returncode == 1
    assert json.loads(result.stdout) == [None] * len(absent)


@pytest.mark.parametrize("block", range(10))
def test_random_sets_of_mixed_shapes_hold_their_sorted_set(shoal, block):
    for seed in range(16 * block, 16 * block + 16):
        names = shapes.random_set(seed)
        try:
            check_lookups(shoal, shoal.index(names), sorted(set(names)), random.Random(seed), nr_ids=1, nr_prefixes=2)
        except AssertionError as error:
            raise AssertionError("shapes.random_set(%d)" % seed) from error


def test_a_catalog_of_many_segments_finds_every_name(shoal):
    rng = random.Random(7)
    names = sorted({b"%s/%x" % (word, rng.getrandbits(64)) for word in shapes.words(30_000, 7)})
    path = shoal.index(shapes.shuffled(names))
    assert shoal.names(path) == names
    for start in range(0, len(names), 9000):  # as many as arguments can hold
        found = shoal.good("find", path, *names[start:start + 9000])
        assert found == b"".join(b"%d\n" % i for i in range(start, min(start + 9000, len(names))))
    for prefix in (b"lib", b"lib/", b"share/doc/", b"zz/zz/zz", b"m", b"python3/README"):
        low = bisect.bisect_left(names, prefix)
        high = bisect.bisect_left(names, prefix + b"\xff" * 300)
        assert shoal.names(path, "--prefix", prefix) == names[low:high]


# ----------------------------------------------------------------------------------------------------------------- info


def test_info_has_the_facts_as_json(shoal):
    names = shapes.dlio(100, 0)
    path = shoal.index(names, sizes=list(range(100)), samples=[3] * 100, root="s3://bucket/x")
    info = shoal.info(path)
    assert {key: info[key] for key in ("root", "files", "samples", "bytes", "file_bytes", "version")} == {
        "root": "s3://bucket/x", "files": 100, "samples": 300, "bytes": 4950, "file_bytes": path.stat().st_size,
        "version": 1}
    assert 0 < info["bytes_per_name"] < path.stat().st_size / 100
    assert len(info["digest"]) == 32 and int(info["digest"], 16)
    assert shoal.good("info", "--json", path) == shoal.good("info", path, "--json")


def test_bytes_per_name_leave_the_sizes_out(shoal, tmp_path):
    names = shapes.hexadecimal(1000, 16)
    rng = random.Random(0)
    without = shoal.info(shoal.index(names, to=tmp_path / "a"))
    with_sizes = shoal.info(shoal.index(names, sizes=[rng.getrandbits(20) for _ in names], to=tmp_path / "b"))
    assert without["bytes_per_name"] == pytest.approx(without["file_bytes"] / 1000)
    assert with_sizes["file_bytes"] > without["file_bytes"] + 2000
    assert with_sizes["bytes_per_name"] == pytest.approx(without["bytes_per_name"], abs=0.2)


def test_unknown_sizes_are_null(shoal):
    assert shoal.info(shoal.index([b"a"]))["bytes"] is None


def test_info_for_people_has_the_same_facts(shoal):
    path = shoal.index([b"a", b"b"], sizes=[5, 6])
    told = dict(line.split(None, 1) for line in lines(shoal.good("info", path)))
    info = shoal.info(path)
    for key in (b"root", b"files", b"samples", b"digest", b"version"):
        assert told[key].decode() == str(info[key.decode()])
    assert told[b"bytes"] == b"11 bytes" and told[b"file_bytes"] == b"%d bytes" % info["file_bytes"]


def test_numbers_are_readable_for_people_and_plain_in_json(shoal):
    path = shoal.pattern("f{:07d}", 1_234_567, "--size", 1000)
    told = dict(line.split(None, 1) for line in lines(shoal.good("info", path)))
    assert (told[b"files"], told[b"bytes"]) == (b"1,234,567", b"1.23 GB (1,234,567,000 bytes)")
    assert shoal.info(path)["bytes"] == 1_234_567_000


def test_info_for_people_says_when_sizes_are_not_known(shoal):
    assert b"bytes           not known\n" in shoal.good("info", shoal.index([b"a"]))


def test_the_root_may_need_escapes_in_json(shoal):
    root = 's3://b/"q"\\\u00e9\U0001f41f'
    assert shoal.info(shoal.index([b"a"], root=root))["root"] == root


# ------------------------------------------------------------------------------------------------------------------- ls


@pytest.mark.parametrize("options, ids", [
    ([], range(10)),
    (["--id", 0], [0]),
    (["--id", 9], [9]),
    (["--from", 3], range(3, 10)),
    (["--from", 10], []),
    (["--prefix", "", "--limit", 3], [0, 1, 2]),
    (["--from", 8, "--limit", 5], [8, 9]),
    (["--limit", 2], [0, 1]),
    (["--from", 4, "--limit", 2], [4, 5]),
    (["--from", 4, "--limit", 2**64 - 1], range(4, 10)),
    (["--prefix", ""], range(10)),
    (["--prefix", "n"], range(10)),
    (["--prefix", "n4"], [4]),
    (["--prefix", "n44"], []),
    (["--prefix", "n", "--include", "n[3-5]"], [3, 4, 5]),
    (["--prefix", "n4", "--include", "*"], [4]),
    (["--prefix", "n", "--exclude", "n[0-7]", "--limit", 1], [8]),
    (["--prefix", "n", "--start-after", "n6"], [7, 8, 9]),
    (["--prefix", "n5", "--start-after", "n2", "--end-before", "n7"], [5]),
    (["--prefix", "", "--regex", "[02]"], [0, 2]),
    (["--prefix", "z", "--include", "*"], []),
    (["--prefix", "a", "--include", "*"], []),
    (["--prefix", "m"], []),
    (["--prefix", "o"], []),
])
def test_ls_prints_the_names_that_were_asked_for(shoal, options, ids):
    path = shoal.index([b"n%d" % i for i in range(10)], sizes=[i * i for i in range(10)])
    assert shoal.good("ls", path, *options) == b"".join(b"n%d\n" % i for i in ids)
    assert shoal.good("ls", path, *options, "-0") == b"".join(b"n%d\0" % i for i in ids)
    assert shoal.good("ls", path, *options, "--sizes") == b"".join(b"n%d\t%d\n" % (i, i * i) for i in ids)
    assert shoal.good("ls", *options, "--null", "--sizes", path) == b"".join(b"n%d\t%d\0" % (i, i * i) for i in ids)


def test_ls_refuses_to_print_a_newline_in_a_name_as_text(shoal):
    path = shoal.index([b"a", b"b\nc", b"d"])
    result = shoal("ls", path)
    assert (result.returncode, result.stdout) == (1, b"a\n")
    assert b"name 1 contains a line end: use --null" in result.stderr
    assert shoal.good("ls", path, "--id", 0) == b"a\n"
    assert shoal.names(path) == [b"a", b"b\nc", b"d"]


@pytest.mark.parametrize("kind", ["constant", "rising", "random", "runs", "huge", "one differs", "zero"])
def test_ls_prints_the_sizes_that_the_list_had(shoal, kind):
    rng = random.Random(kind)
    nr = 3000
    sizes = {
        "constant": [12345] * nr,
        "rising": list(range(nr)),
        "random": [max(0, int(rng.gauss(300_000, 80_000))) for _ in range(nr)],
        "runs": [1000 * (i // 700) for i in range(nr)],
        "huge": [rng.getrandbits(51) for _ in range(nr)],
        "one differs": [7] * (nr - 1) + [2**50],
        "zero": [0] * nr,
    }[kind]
    names = shapes.hexadecimal(nr, 16)
    path = shoal.index(names, sizes=sizes)
    want = sorted(zip(names, sizes))
    assert shoal.good("ls", path, "--sizes") == b"".join(b"%s\t%d\n" % entry for entry in want)
    assert shoal.good("ls", path, "--sizes", "--from", 1500, "--limit", 2) == b"".join(
        b"%s\t%d\n" % entry for entry in want[1500:1502])
    assert shoal.info(path)["bytes"] == sum(sizes)


# ----------------------------------------------------------------------------------------------------------------- find


def test_find_prints_ids_in_the_order_asked(shoal):
    path = shoal.index([b"a", b"b", b"c"])
    assert shoal.good("find", path, "c", "a", "c") == b"2\n0\n2\n"
    assert json.loads(shoal.good("find", path, "--json", "c", "a")) == [2, 0]


def test_find_says_which_names_are_not_there_and_prints_the_others(shoal):
    path = shoal.index([b"a", b"b", b"c"])
    result = shoal("find", path, "x", "b", "a/", "")
    assert (result.returncode, result.stdout) == (1, b"1\n")
    said = lines(result.stderr)
    assert len(said) == 3
    for name, line in zip(("x", "a/", ""), said):
        assert ("there is no name '%s'" % name).encode() in line


def test_find_json_has_null_for_names_that_are_not_there(shoal):
    path = shoal.index([b"a", b"b", b"c"])
    result = shoal("find", path, "--json", "x", "b")
    assert (result.returncode, json.loads(result.stdout)) == (1, [None, 1])


def test_find_does_not_mind_names_longer_than_any(shoal):
    result = shoal("find", shoal.index([b"n" * 4096]), b"n" * 4097)
    assert result.returncode == 1
    assert b"there is no name" in result.stderr


def test_find_in_an_empty_catalog_finds_nothing(shoal):
    result = shoal("find", shoal.index([]), "a")
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"there is no name 'a'" in result.stderr


# ------------------------------------------------------------------------------------------------------------- the help


def test_help_goes_to_standard_output(shoal):
    for command in ("index", "info", "ls", "find", "verify", "order", "manifest"):
        told = shoal.good(command, "--help")
        assert told.startswith(b"usage: shoal " + command.encode())
        assert shoal.good(command, "-h") == told == shoal.good("help", command)
        assert command.encode() in shoal.good("--help")
    assert shoal.good("--help") == shoal.good("-h") == shoal.good("help")
    assert shoal.good("--version").startswith(b"shoal ")


def test_help_fits_a_terminal(shoal):
    for command in ("index", "info", "ls", "find", "verify", "order", "manifest"):
        assert max(map(len, lines(shoal.good(command, "--help")))) <= 100


def test_ls_prints_an_object_for_each_name(shoal):
    names = [b"a", b"b\xff", b"new\nline"]
    path = shoal.index(names, sizes=[5, 0, 7])
    facts = [json.loads(line) for line in lines(shoal.good("ls", path, "--json"))]
    assert facts == [{"id": 0, "name": "a", "size": 5, "samples": 1},
                     {"id": 1, "name": "b\ufffd", "name_hex": "62ff", "size": 0, "samples": 1},
                     {"id": 2, "name": "new\nline", "size": 7, "samples": 1}]
    assert json.loads(shoal.good("ls", shoal.index([b"x"]), "--json", "--etags")) == {
        "id": 0, "name": "x", "size": None, "samples": 1}
