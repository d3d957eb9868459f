"""shoal column: sizes, imports, sorting, info and verify, and what is told when they cannot."""

import array
import json
import random
import struct

import pytest
from conftest import ROOT

NAMES = [b"train/%04d.bin" % i for i in range(500)]
SIZES = [100 + i * 37 % 91 for i in range(500)]


@pytest.fixture
def catalog(shoal):
    return shoal.index(NAMES, sizes=SIZES)


def read(path, letter, nr):
    """The values of a column file, by its specification."""
    data = path.read_bytes()
    values = array.array(letter)
    values.frombytes(data[256:256 + nr * values.itemsize])
    return values.tolist()


def npy(descr, shape, data, version=1, fortran="False"):
    text = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)).encode()
    head = b"\x93NUMPY" + bytes([version, 0])
    size = 2 if version == 1 else 4
    text += b" " * (-(len(head) + size + len(text) + 1) % 64) + b"\n"
    return head + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def fails(shoal, *args, words, code=1):
    result = shoal("column", *args)
    assert result.returncode == code and result.stdout == b"", result
    assert result.stderr.startswith(b"shoal column: ") and words.encode() in result.stderr, result.stderr
    return result


def info(shoal, path):
    return json.loads(shoal.good("column", "info", path, "--json"))


# ---- Sizes ----


def test_sizes_become_a_column_beside_the_catalog(shoal, catalog):
    result = shoal("column", "sizes", catalog)
    path = catalog.with_name(catalog.name + ".size.col")
    assert result.returncode == 0 and b"500 values of type u64" in result.stderr
    assert read(path, "Q", 500) == SIZES
    assert info(shoal, path) == {"name": "size", "type": "u64", "first": 0, "values": 500, "samples": 500,
                                 "min": min(SIZES), "max": max(SIZES), "sorted": None,
                                 "file_bytes": path.stat().st_size,
                                 "catalog": json.loads(shoal.good("info", catalog, "--json"))["digest"]}


@pytest.mark.parametrize("type, letter", [("u8", "B"), ("u16", "H"), ("u32", "I"), ("i64", "q"), ("f32", "f"), ("f64", "d")])
def test_sizes_have_the_type_that_was_asked_for(shoal, catalog, tmp_path, type, letter):
    shoal.good("column", "sizes", catalog, "-q", "--type", type, "--name", "bytes", "-o", tmp_path / "c")
    assert read(tmp_path / "c", letter, 500) == SIZES
    assert info(shoal, tmp_path / "c")["name"] == "bytes"


def test_samples_of_a_file_share_its_size(shoal, tmp_path):
    catalog = shoal.index([b"a", b"b", b"c"], sizes=[10, 9, 7], samples=[2, 4, 0])
    shoal.good("column", "sizes", catalog, "-q", "-o", tmp_path / "c")
    assert read(tmp_path / "c", "Q", 6) == [5, 5, 3, 3, 3, 3]


def test_a_catalog_without_sizes_has_no_sizes_to_give(shoal, tmp_path):
    fails(shoal, "sizes", shoal.index(NAMES), "-o", tmp_path / "c", words="no sizes")
    assert not (tmp_path / "c").exists()


def test_a_size_that_does_not_fit_is_told(shoal, tmp_path):
    fails(shoal, "sizes", shoal.index([b"a", b"b"], sizes=[255, 256]), "--type", "u8", "-o", tmp_path / "c",
          words="file 1: the number does not fit type u8: use --type")
    assert not (tmp_path / "c").exists()


# ---- Sorting ----


def test_a_sorted_column_has_the_samples_by_value(shoal, catalog, tmp_path):
    shoal.good("column", "sizes", catalog, "-q", "--type", "u32", "--sort", "-o", tmp_path / "c")
    order = array.array("I")
    order.frombytes((tmp_path / "c").read_bytes()[256 + 2000:256 + 4000])
    assert order.tolist() == sorted(range(500), key=lambda i: SIZES[i])
    assert info(shoal, tmp_path / "c")["sorted"] == {"samples": 500, "kept_only": False}
    assert shoal.good("column", "verify", tmp_path / "c") == b"%s: good\n" % bytes(tmp_path / "c")


def test_sorting_leaves_out_what_is_not_kept(shoal, catalog, tmp_path):
    (tmp_path / "keep.csv").write_text("".join("%d\n" % (i % 4 == 0) for i in range(500)))
    shoal.good("column", "import", catalog, tmp_path / "keep.csv", "-q", "--type", "bit", "--name", "keep", "-o", tmp_path / "k")
    assert info(shoal, tmp_path / "k")["ones"] == 125
    shoal.good("column", "sizes", catalog, "-q", "-o", tmp_path / "c")
    shoal.good("column", "sort", tmp_path / "c", "--keep", tmp_path / "k", "-o", tmp_path / "s")
    assert info(shoal, tmp_path / "s")["sorted"] == {"samples": 125, "kept_only": True}
    assert info(shoal, tmp_path / "c")["sorted"] is None
    fails(shoal, "sort", tmp_path / "c", "--keep", tmp_path / "c", words="not bit")


# ---- CSV ----


def test_numbers_come_from_csv_in_the_order_of_samples(shoal, catalog, tmp_path):
    (tmp_path / "v.csv").write_text("".join("%d\r\n\n" % i for i in range(500)))
    shoal.good("column", "import", catalog, tmp_path / "v.csv", "-q", "--type", "u16", "-o", tmp_path / "c")
    assert read(tmp_path / "c", "H", 500) == list(range(500))
    shoal.good("column", "import", catalog, "-", "-q", "-o", tmp_path / "c", stdin=(tmp_path / "v.csv").read_bytes())
    assert read(tmp_path / "c", "d", 500) == list(range(500))


@pytest.mark.parametrize("options", [("--by-name", "file", "--field", "n tokens"), ("--by-name", "2", "--field", "3", "--header")])
def test_numbers_come_from_csv_by_name_in_any_order(shoal, catalog, tmp_path, options):
    order = random.Random(1).sample(range(500), 500)
    rows = ['x,"file","n tokens"\n'] + ['"a ""b"", c",%s,%d\n' % (NAMES[i].decode(), i * 3) for i in order]
    (tmp_path / "v.csv").write_text("".join(rows))
    shoal.good("column", "import", catalog, tmp_path / "v.csv", "-q", "--type", "i64", "-o", tmp_path / "c", *options)
    assert read(tmp_path / "c", "q", 500) == [3 * i for i in range(500)]


GOOD = ["%s,%d" % (name.decode(), i) for i, name in enumerate(NAMES)]


@pytest.mark.parametrize("lines, options, words", [
    (GOOD[:499], (), "only 499 lines for 500 samples"),
    (GOOD + ["x,1"], (), "more than 500 lines"),
    (GOOD[:499] + ["x,one"], (), "line 500: 'one' is not a number"),
    (GOOD[:499] + ['x,"1'], (), "line 500: a quote is not closed"),
    (GOOD[:499] + ['x,"1"2'], (), "line 500: a quote is not closed, or text follows it"),
    (GOOD[:499] + ["x,-1"], ("--type", "u8"), "line 257: the number does not fit type u8"),
    (GOOD, ("--field", "9"), "line 1: it has only 2 fields"),
    (GOOD, ("--field", "size"), "no field of the first line is named 'size'"),
    (GOOD[:499], ("--by-name", "1"), "no line for file 499, 'train/0499.bin'"),
    (GOOD[:499] + GOOD[:1], ("--by-name", "1"), "line 500: 'train/0000.bin' is repeated"),
    (GOOD[:499] + ["nobody,1"], ("--by-name", "1"), "line 500: the catalog has no file named 'nobody'"),
    ([], (), "the file has no lines"),
    (["1" * 70000], (), "line 1 is longer than"),
    ([","] * 500, (), "line 1: '' is not a number"),
    ([",".join("1" * 300)], (), "too many fields"),
])
def test_what_is_wrong_with_a_line_is_told_with_its_number(shoal, catalog, tmp_path, lines, options, words):
    (tmp_path / "v.csv").write_text("".join(line + "\n" for line in lines))
    fails(shoal, "import", catalog, tmp_path / "v.csv", "-o", tmp_path / "c", *options, words=words)
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("v.csv", catalog.name)] == []


# ---- NumPy ----


@pytest.mark.parametrize("descr, letter, type, values", [
    ("|b1", "B", "bit", [1, 0] * 250), ("|u1", "B", "u8", [255, 0] * 250), ("<u2", "H", "u16", [65535, 1] * 250),
    ("<u4", "I", "u32", [2**32 - 1, 1] * 250), ("<u8", "Q", "u64", [2**64 - 1, 1] * 250),
    ("|i1", "b", "i64", [-128, 127] * 250), ("<i2", "h", "i64", [-2**15, 5] * 250), ("<i4", "i", "i64", [-2**31, -1] * 250),
    ("<i8", "q", "i64", [-2**63, 2**63 - 1] * 250), ("<f4", "f", "f32", [0.5, -1e30] * 250),
    ("<f8", "d", "f64", [0.1, float("inf")] * 250)])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_numbers_come_from_numpy_arrays_of_any_type(shoal, catalog, tmp_path, descr, letter, type, values, version):
    (tmp_path / "v.npy").write_bytes(npy(descr, "(500,)", array.array(letter, values).tobytes(), version))
    shoal.good("column", "import", catalog, tmp_path / "v.npy", "-q", "-o", tmp_path / "c")
    assert info(shoal, tmp_path / "c")["type"] == type
    shoal.good("column", "verify", "-q", tmp_path / "c")
    if type != "bit":
        assert read(tmp_path / "c", "q" if type == "i64" else letter, 500) == array.array(letter, values).tolist()
    else:
        assert (tmp_path / "c").read_bytes()[256:256 + 62] == b"\x55" * 62


WHOLE = npy("|u1", "(500,)", bytes(500))


@pytest.mark.parametrize("data, words", [
    (b"", "not a NumPy file"), (b"\x93NUMPX" + WHOLE[6:], "not a NumPy file"), (WHOLE[:9], "not a NumPy file"),
    (WHOLE[:50], "truncated"), (WHOLE[:-1], "truncated"), (WHOLE[:6] + b"\4" + WHOLE[7:], "version 4"),
    (npy(">u4", "(500,)", bytes(2000)), "little-endian"), (npy("<U3", "(500,)", bytes(6000)), "little-endian"),
    (npy("|u1", "(250, 2)", bytes(500)), "one dimension"), (npy("|u1", "()", bytes(1)), "one dimension"),
    (npy("|u1", "(99999999999999999999,)", bytes(1)), "one dimension"),
    (npy("|u1", "(499,)", bytes(499)), "499 values, but the catalog has 500 samples")])
def test_an_array_that_cannot_be_taken_is_told(shoal, catalog, tmp_path, data, words):
    (tmp_path / "v.npy").write_bytes(data)
    fails(shoal, "import", catalog, tmp_path / "v.npy", "-o", tmp_path / "c", words=words)
    assert not (tmp_path / "c").exists()


# ---- Files of version 1, for ever ----


def test_golden_columns_hold_what_they_always_held(shoal):
    golden = ROOT / "tests" / "golden"
    keep, kept = golden / "good-v1-column-bit.col", golden / "good-v1-column-kept.col"
    shoal.good("column", "verify", "-q", keep, kept)
    assert info(shoal, keep) == {"name": "keep", "type": "bit", "first": 0, "values": 300, "samples": 300, "min": 0, "max": 1,
                                 "ones": 100, "sorted": None, "file_bytes": 312, "catalog": "92cfaa71664ebbd92644983a2354d4cc"}
    flags = keep.read_bytes()[256:256 + 38]
    assert [flags[i // 8] >> i % 8 & 1 for i in range(300)] == [int((i + 1) % 3 == 0) for i in range(300)]
    assert info(shoal, kept)["sorted"] == {"samples": 100, "kept_only": True}
    assert read(kept, "f", 300) == [7] * 300
    order = array.array("I")
    order.frombytes(kept.read_bytes()[256 + 1200:256 + 1200 + 400])
    assert order.tolist() == [i for i in range(300) if (i + 1) % 3 == 0]


# ---- Bad input ----


@pytest.mark.parametrize("args, words", [
    ((), "give an action"), (("sizes",), "give sizes"), (("grow", "x"), "give sizes"), (("info", "a", "b"), "give sizes"),
    (("sizes", "x", "--type", "u7"), "--type 'u7' is not bit")])
def test_usage_is_told(shoal, args, words):
    fails(shoal, *args, words=words, code=2)


def test_every_truncation_of_a_column_is_refused(shoal, catalog, tmp_path):
    shoal.good("column", "sizes", catalog, "-q", "--type", "u8", "-o", tmp_path / "c")
    whole = (tmp_path / "c").read_bytes()
    for cut in [0, 1, 7, 8, 100, 255, 256, 300, len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:cut])
        fails(shoal, "info", tmp_path / "cut", words="empty file" if cut == 0 else "truncated")
    (tmp_path / "cut").write_bytes(whole[:400] + b"x" + whole[401:])
    fails(shoal, "verify", tmp_path / "cut", words="checksum of the page at byte 256")
    fails(shoal, "info", catalog, words="not a column")
    fails(shoal, "info", tmp_path / "nothing", words="No such file")


def test_two_processes_do_not_write_one_column(shoal, catalog, tmp_path):
    writer = shoal.start("column", "import", catalog, "-", "-q", "-o", tmp_path / "c")
    writer.stdin.write(b"1\n")
    while not list(tmp_path.glob(".c.00000000.partial*")):
        assert writer.poll() is None
    fails(shoal, "sizes", catalog, "-o", tmp_path / "c", words="another process is writing")
    writer.stdin.write(b"1\n" * 499)
    writer.stdin.close()
    assert writer.wait() == 0
    assert info(shoal, tmp_path / "c")["max"] == 1


def test_a_name_that_is_too_long_is_refused(shoal, catalog, tmp_path):
    fails(shoal, "sizes", catalog, "--name", "x" * 64, "-o", tmp_path / "c", words="1 to 63 bytes")
    shoal.good("column", "sizes", catalog, "-q", "--name", "x" * 63, "-o", tmp_path / "c")


def test_verify_sizes_and_sort_print_json(shoal, catalog, tmp_path):
    made = json.loads(shoal.good("column", "sizes", catalog, "--json", "-o", tmp_path / "s.col"))
    assert made["name"] == "size" and made["sorted"] is None
    assert json.loads(shoal.good("column", "sort", tmp_path / "s.col", "--json"))["sorted"]["samples"] == made["samples"]
    (tmp_path / "bad.col").write_bytes(b"no column")
    result = shoal("column", "verify", "--json", tmp_path / "s.col", tmp_path / "bad.col")
    good, bad = json.loads(result.stdout)
    assert result.returncode == 1 and good["good"] and good["damage"] is None
    assert not bad["good"] and bad["damage"]


def test_a_column_takes_the_options_for_buckets(shoal, fails):
    fails(shoal("column", "sizes", "s3://bucket/c.cat", "--endpoint", "http://127.0.0.1:1", "--anonymous", "-o", "x"), 1,
          "127.0.0.1:1")
