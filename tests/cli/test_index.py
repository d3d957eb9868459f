"""Lists of names become catalogs."""

import json
import os
import random
import re
import stat
import subprocess

import signal

import pytest
import shapes
from conftest import contents, lines, wait_until_it_has_read, wait_until_it_hears


def index_text(shoal, text, *options, **run):
    """A catalog of a text list: its path."""
    path = shoal.scratch / "catalog.shoal"
    result = shoal("index", "-", "-q", "--force", "-o", path, *options, stdin=text, **run)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    return path


# ------------------------------------------------------------------------------------------------------ where names are


def test_a_text_file_and_standard_input_make_the_same_catalog(shoal, tmp_path):
    (tmp_path / "list.txt").write_bytes(b"b\na\nc\n")
    result = shoal("index", tmp_path / "list.txt", "-q", "-o", tmp_path / "file.shoal")
    assert (result.returncode, result.stderr) == (0, b"")
    path = index_text(shoal, b"b\na\nc\n", cwd=tmp_path)
    assert shoal.names(tmp_path / "file.shoal") == [b"a", b"b", b"c"] == shoal.names(path)
    assert shoal.info(tmp_path / "file.shoal")["digest"] == shoal.info(path)["digest"]
    assert contents(tmp_path) == ["file.shoal", "list.txt"]


def test_options_may_follow_the_list_or_come_before_it(shoal, tmp_path):
    for i, order in enumerate((["-", "-o", "c"], ["-o", "c", "-"], ["--output=c", "-"])):
        shoal.good("index", *order, "-q", cwd=tmp_path, stdin=b"%d\n" % i)
        assert shoal.names(tmp_path / "c") == [b"%d" % i]


@pytest.mark.parametrize("text, names", [
    (b"a\nb\n", [b"a", b"b"]),
    (b"a\nb", [b"a", b"b"]),
    (b"b\na", [b"a", b"b"]),
    (b"\n\na\n\n\nb\n\n", [b"a", b"b"]),
    (b" a\nb \n", [b" a", b"b "]),
    (b"a\xff\na\x80\nA\n", [b"A", b"a\x80", b"a\xff"]),
    (b"a\rb\n", [b"a\rb"]),
    (b"a/b\na!b\na\n", [b"a", b"a!b", b"a/b"]),
    (b"", []),
    (b"\n\n", []),
])
def test_lines_of_a_text_list_are_names(shoal, text, names):
    assert shoal.names(index_text(shoal, text, "--root", "s3://b")) == names


@pytest.mark.parametrize("name", [b"a\nb", b"\n", b"a\tb", b"\t", b"a\r", b"\xff\xfe\xfd", b"\xc3\x28", b"caf\xc3\xa9",
                                  b"\x01", b"a b", b" ", b"'", b"-", b"--help", b"x" * 4096, b"/" * 300])
def test_a_nul_separated_list_takes_any_byte(shoal, name):
    path = shoal.index([b"m", name])
    assert shoal.names(path) == sorted([b"m", name])
    assert shoal.good("find", path, "--", name) == b"%d\n" % sorted([b"m", name]).index(name)


def test_the_last_name_of_a_nul_separated_list_needs_no_end(shoal, tmp_path):
    shoal.good("index", "-", "-0", "-q", "-o", tmp_path / "c", stdin=b"a\0\0b")
    assert shoal.names(tmp_path / "c") == [b"a", b"b"]


def test_an_empty_list_makes_an_empty_catalog(shoal):
    path = index_text(shoal, b"")
    info = shoal.info(path)
    assert (info["files"], info["samples"], info["bytes_per_name"]) == (0, 0, 0)
    assert shoal.names(path) == []
    assert shoal.names(path, "--prefix", "a") == []
    assert shoal.good("verify", "-q", path) == b""


# ---------------------------------------------------------------------------------------------------- sizes and samples


def test_a_number_after_a_tab_is_the_size(shoal):
    path = index_text(shoal, b"b\t20\na\t1\nc\t0\n")
    assert shoal.good("ls", path, "--sizes") == b"a\t1\nb\t20\nc\t0\n"
    assert (shoal.info(path)["bytes"], shoal.info(path)["samples"]) == (21, 3)


def test_a_number_after_a_second_tab_is_the_number_of_samples(shoal):
    path = index_text(shoal, b"b\t20\t3\na\t1\t0\nc\t0\t7\n")
    assert shoal.good("ls", path, "--sizes") == b"a\t1\nb\t20\nc\t0\n"
    info = shoal.info(path)
    assert (info["bytes"], info["samples"], info["samples_per_file"]) == (21, 10, None)
    assert lines(shoal.good("order", path, "--mode", "sequential", "--names")) == \
        [b"b\t0", b"b\t1", b"b\t2"] + [b"c\t%d" % i for i in range(7)]


def test_a_first_name_that_is_absolute_asks_all_to_be(shoal, fails, tmp_path):
    result = shoal("index", "-", "-o", "c", cwd=tmp_path, stdin=b"/a/b\nrel\n")
    fails(result, 1, "line 2: 'rel' is not a name below the root 'file:///'", empty=tmp_path)


def test_endless_blank_names_can_be_interrupted(shoal, tmp_path):
    process = shoal.start("index", "/dev/zero", "-0", "-q", "-o", tmp_path / "c")
    wait_until_it_hears(process, signal.SIGTERM)
    wait_until_it_has_read(process, 1 << 20)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_names_only_takes_tabs_as_part_of_the_name(shoal):
    path = index_text(shoal, b"a\t5\nb\nc\t\n", "--names-only")
    assert shoal.names(path) == [b"a\t5", b"b", b"c\t"]
    assert shoal.info(path)["bytes"] is None


@pytest.mark.parametrize("size", [0, 1, 2**32, 2**63, 2**64 - 2])
def test_sizes_have_64_bits(shoal, size):
    path = index_text(shoal, b"a\t%d\n" % size)
    assert shoal.good("ls", path, "--sizes") == b"a\t%d\n" % size
    assert shoal.good("verify", "-q", path) == b""


def test_info_tells_large_sums_of_sizes(shoal):
    assert shoal.info(index_text(shoal, b"a\t%d\nb\t1\n" % (2**62)))["bytes"] == 2**62 + 1


def test_info_tells_sums_of_sizes_past_the_signed_range(shoal):
    assert shoal.info(index_text(shoal, b"a\t%d\nb\t1\n" % (2**63)))["bytes"] == 2**63 + 1


def test_samples_per_file_counts_for_all(shoal):
    path = index_text(shoal, b"a\nb\n", "--samples-per-file", 12)
    assert (shoal.info(path)["samples"], shoal.info(path)["samples_per_file"]) == (24, 12)


# ------------------------------------------------------------------------------------------------- order and repetition


def test_of_repeated_names_the_last_counts_and_the_others_are_counted(shoal, tmp_path):
    result = shoal("index", "-", "--json", "-q", "-o", tmp_path / "c", stdin=b"b\t1\na\t1\nb\t2\nb\t3\na\t9\nc\t4\n")
    assert result.stderr == b""
    told = json.loads(result.stdout)
    assert (told["files"], told["repeated"], told["blank"]) == (3, 3, 0)
    assert told["seconds"] >= 0
    assert shoal.good("ls", tmp_path / "c", "--sizes") == b"a\t9\nb\t3\nc\t4\n"


def test_names_that_become_the_same_below_the_root_are_repeated(shoal):
    path = index_text(shoal, b"a\t1\n./a\t2\n/data/a\t3\nfile:///data/a\t4\n././a\t5\n", "--root", "/data")
    assert shoal.good("ls", path, "--sizes") == b"a\t5\n"


def test_the_catalog_does_not_depend_on_the_order_of_the_list(shoal):
    names = shapes.SHAPES["deep paths without a rule"]
    images = {shoal.index(order).read_bytes() for order in (names, sorted(names), names[::-1], shapes.shuffled(names))}
    assert len(images) == 1


def test_the_digest_tells_names_sizes_and_samples_apart_but_not_roots(shoal):
    def digest(text, *options):
        return shoal.info(index_text(shoal, text, *options))["digest"]

    different = [digest(b""), digest(b"a\n"), digest(b"b\n"), digest(b"a\nb\n"), digest(b"ab\n"), digest(b"a\t0\n"),
                 digest(b"a\t1\n"), digest(b"a\t1\t2\n"), digest(b"a\n", "--samples-per-file", 2)]
    assert len(set(different)) == len(different)
    assert digest(b"a\n", "--root", "s3://x") == digest(b"a\n", "--root", "/y/z")
    # Samples in each line, all the same, are the same dataset as samples given once.
    assert digest(b"a\t1\t2\nb\t1\t2\n") == digest(b"a\t1\nb\t1\n", "--samples-per-file", 2)


def test_a_list_that_does_not_fit_in_memory_is_sorted_on_disk(shoal, tmp_path):
    rng = random.Random(48)
    names = [b"a/folder/whose/name/is/long/%x-%d" % (rng.getrandbits(50), i % 7) for i in range(250_000)]
    names += names[:20_000]  # repeated ones, whose copies meet only when runs are merged
    sizes = {}
    text = []
    for i, name in enumerate(names):
        sizes[name] = i
        text.append(b"%s\t%d\n" % (name, i))
    result = shoal("index", "-", "--memory", "48M", "-q", "--json", "-o", tmp_path / "c", stdin=b"".join(text))
    assert (result.returncode, result.stderr) == (0, b"")
    told = json.loads(result.stdout)
    assert (told["files"], told["repeated"]) == (len(sizes), len(names) - len(sizes))
    want = b"".join(b"%s\t%d\n" % (name, sizes[name]) for name in sorted(sizes))
    assert shoal.good("ls", tmp_path / "c", "--sizes") == want
    assert shoal.good("verify", "-q", tmp_path / "c") == b""
    assert contents(tmp_path) == ["c"]


def test_the_same_list_makes_the_same_file_with_any_cores_and_memory(shoal, tmp_path):
    cores = os.sched_getaffinity(0)
    rng = random.Random(18)
    text = b"".join(b"a/folder/whose/name/is/long/%d/%016x\t%d\n" % (i % 9, rng.getrandbits(64), i % 4000) for i in range(300_000))
    files = set()
    for name, may_use, memory in (("one", {min(cores)}, "256M"), ("all", cores, "256M"), ("little", cores, "48M")):
        result = shoal("index", "-", "-q", "--memory", memory, "-o", tmp_path / name, stdin=text,
                       preexec_fn=lambda may_use=may_use: os.sched_setaffinity(0, may_use))
        assert (result.returncode, result.stderr) == (0, b"")
        files.add((tmp_path / name).read_bytes())
    assert len(files) == 1


def test_long_names_that_do_not_fit_in_memory_are_sorted_on_disk(shoal, tmp_path):
    rng = random.Random(4096)
    names = {b"%016x/" % rng.getrandbits(64) + b"n" * 3800 for _ in range(9_000)}
    shoal.index(shapes.shuffled(sorted(names)), "--memory", "48M", to=tmp_path / "c")
    assert shoal.names(tmp_path / "c") == sorted(names)


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_temporary_files_do_not_go_into_a_file(shoal, fails, tmp_path, mode):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "file").chmod(mode)
    for source in "-", tmp_path:
        result = shoal("index", source, "--tmp-dir", tmp_path / "file", "-o", tmp_path / "c", "-q", stdin=b"one\n")
        fails(result, 1, "cannot write temporary files to '%s': it is not a directory" % (tmp_path / "file"))
    assert contents(tmp_path) == ["file"]


def test_temporary_files_go_where_tmp_dir_says(shoal, tmp_path):
    missing = tmp_path / "missing"
    names = [b"%s%d" % (b"n" * 900, i) for i in range(20_000)]
    text = b"".join(name + b"\n" for name in shapes.shuffled(names))
    result = shoal("index", "-", "--memory", "48M", "--tmp-dir", missing, "-o", tmp_path / "c", "-q", stdin=text)
    assert result.returncode == 1
    assert str(missing).encode() in result.stderr
    assert contents(tmp_path) == []
    result = shoal("index", "-", "--tmp-dir", missing, "-o", tmp_path / "c", "-q", stdin=b"one\n")
    assert result.returncode == 1 and str(missing).encode() in result.stderr  # also where none are needed
    (tmp_path / "there").mkdir()
    shoal.good("index", "-", "--memory", "48M", "--tmp-dir", tmp_path / "there", "-o", tmp_path / "c", "-q", stdin=text)
    assert shoal.names(tmp_path / "c") == sorted(names)
    assert contents(tmp_path / "there") == []


# ------------------------------------------------------------------------------------------------------------- the root


@pytest.mark.parametrize("given, root", [
    ("/data", "file:///data"),
    ("/data/", "file:///data"),
    ("/data///", "file:///data"),
    ("/", "file:///"),
    ("file:///data/x", "file:///data/x"),
    ("file:///", "file:///"),
    ("s3://bucket", "s3://bucket"),
    ("s3://bucket/", "s3://bucket"),
    ("s3://bucket/a/b", "s3://bucket/a/b"),
    ("gs+http://x", "gs+http://x"),
    ("/caf\u00e9/\u6570", "file:///caf\u00e9/\u6570"),
])
def test_the_root_is_a_uri_or_a_path(shoal, given, root):
    assert shoal.info(index_text(shoal, b"a\n", "--root", given))["root"] == root


@pytest.mark.parametrize("given, below", [("sub", "/sub"), ("./sub", "/sub"), ("sub/deep/", "/sub/deep"), (".", ""),
                                          ("./", "")])
def test_a_relative_root_is_below_the_current_directory(shoal, tmp_path, given, below):
    path = index_text(shoal, b"a\n", "--root", given, cwd=tmp_path)
    assert shoal.info(path)["root"] == "file://" + os.path.realpath(tmp_path) + below


@pytest.mark.parametrize("first, root, name", [
    (b"a/b", None, b"a/b"),
    (b"./a/b", None, b"a/b"),
    (b"/a/b", "file:///", b"a/b"),
    (b"file:///a/b", "file:///", b"a/b"),
    (b"s3://bucket/a/b", "s3://bucket", b"a/b"),
    (b"https://host:80/a", "https://host:80", b"a"),
])
def test_without_a_root_the_first_name_gives_it(shoal, tmp_path, first, root, name):
    path = index_text(shoal, first + b"\n", cwd=tmp_path)
    assert shoal.info(path)["root"] == (root or "file://" + os.path.realpath(tmp_path))
    assert shoal.names(path) == [name]


@pytest.mark.parametrize("root, line, name", [
    ("/data", b"/data/x", b"x"),
    ("/data/", b"/data/x/y", b"x/y"),
    ("/data", b"file:///data/x", b"x"),
    ("/data", b"x", b"x"),
    ("/data", b"./x", b"x"),
    ("/data", b"/data/./x", b"x"),
    ("/", b"/x", b"x"),
    ("/", b"x", b"x"),
    ("s3://b", b"s3://b/x", b"x"),
    ("s3://b/p", b"s3://b/p/x", b"x"),
    ("s3://b", b"x", b"x"),
    ("s3://b", b"./x", b"./x"),
    ("/data", b".x", b".x"),
    ("/data", b"..x", b"..x"),
])
def test_names_are_made_relative_to_the_root(shoal, root, line, name):
    assert shoal.names(index_text(shoal, line + b"\n", "--root", root)) == [name]


@pytest.mark.parametrize("root", ["s3://", "s3:///", "s3:///prefix"])
def test_a_root_without_its_bucket_is_refused(shoal, fails, tmp_path, root):
    out = tmp_path / "out"
    out.mkdir()
    fails(shoal("index", "-", "--root", root, "-o", out / "c", stdin=b"a\n"), 2, "has no bucket", empty=out)
    fails(shoal("index", "--pattern", "a{}", "--count", "3", "--root", root, "-o", out / "c"), 2, "has no bucket",
          empty=out)


@pytest.mark.parametrize("root, line", [
    ("/data", b"/other/x"),
    ("/data", b"/database/x"),
    ("/data", b"/data"),
    ("/data", b"/data/"),
    ("/data", b"/dat"),
    ("/data", b"s3://b/x"),
    ("/data", b"file:///other/x"),
    ("/data", b"./"),
    ("/data", b"../x"),
    ("/data", b"a/../../etc/x"),
    ("/data", b"/data/a/../b"),
    ("/data", b"a/.."),
    ("s3://b", b"s3://bb/x"),
    ("s3://b", b"s3://b"),
    ("s3://b/p", b"s3://b/x"),
    ("s3://b", b"gs://b/x"),
])
def test_names_outside_the_root_are_refused_with_their_line(shoal, fails, tmp_path, root, line):
    result = shoal("index", "-", "-q", "--root", root, "-o", tmp_path / "c", stdin=b"a\n\nb\n" + line + b"\n")
    fails(result, 1, "line 4: '%s' is not a name below the root" % line.decode(), root.rstrip("/"), empty=tmp_path)


# ------------------------------------------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("text, words", [
    (b"a\nb\r\n", ["line 2 ends in CR LF"]),
    (b"\r\n", ["line 1 ends in CR LF"]),
    (b"a\nb\r", ["line 2 ends in CR LF"]),
    (b"a\t5\r\nb\t6\r\n", ["line 1 ends in CR LF"]),
    (b"a\nb\0c\n", ["line 2 contains a NUL byte", "--null"]),
    (b"a\0b\0", ["line 1 contains a NUL byte", "--null"]),
    (b"a\t5\n\nb\n", ["line 3 has no size", "line 1 has a size"]),
    (b"\na\nb\t5\n", ["line 3 has a size", "line 2 has no size"]),
    (b"a\t5\nb\t5\t1\n", ["line 2 has a size and samples", "line 1 has a size"]),
    (b"a\t5\t1\nb\t5\n", ["line 2 has a size after", "line 1 has a size and samples"]),
    (b"a\t5\nb\t-5\n", ["line 2: the text after a tab is not a size"]),
    (b"a\t\n", ["line 1: the text after a tab is not a size"]),
    (b"a\t12KB\n", ["line 1: the text after a tab is not a size", "--names-only"]),
    (b"a\tb\t5\n", ["line 1: the text after a tab is not a size"]),
    (b"a\t1\t2\t3\n", ["line 1: the text after a tab is not a size"]),
    (b"a\t99999999999999999999\n", ["line 1: the text after a tab is too large"]),
    (b"\xef\xbb\xbfa\n", ["line 1 starts with a byte order mark"]),
    (b"a\t%d\n" % (2**64 - 1), ["line 1", "size", "too large"]),
    (b"a\t1\nb\t%d\n" % 2**64, ["line 2"]),
    (b"a\t%d\nb\t1\n" % (2**64 - 2), ["sizes"]),
    (b"a\n" + b"x" * 4097 + b"\n", ["line 2: a name has 4097 bytes, but at most 4096 are allowed"]),
    (b"a\n" + b"x" * 12000 + b"\n", ["line 2: a name has 12000 bytes"]),
    (b"x" * 3_000_000, ["line 1 is longer than any name"]),
    (b"x\0" * 1_500_000, ["line 1", "NUL", "--null"]),
    (b"\t5\n", ["line 1", "''"]),
], ids=lambda value: repr(value)[:60])  # it goes into the environment, which holds no 3 MB
def test_a_bad_line_is_named_and_nothing_is_written(shoal, fails, tmp_path, text, words):
    fails(shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=text), 1, "'-'", *words, empty=tmp_path)


def lines_in_blocks(separator=b"\n", sizes=False):
    """More than one thread reads at once: 9 MB."""
    rng = random.Random(7)
    lines = []
    for i in range(180_000):
        name = b"folder-%03d/%016x%s" % (i % 500, rng.getrandbits(40), b"n" * (i % 40))
        lines.append(b"%s\t%d" % (name, i) if sizes else name)
    lines += lines[:20_000] if not sizes else [line.split(b"\t")[0] + b"\t7" for line in lines[:20_000]]
    lines[777] = b""  # blank
    return [line + separator for line in lines]


@pytest.mark.parametrize("separator, sizes", [(b"\n", False), (b"\n", True), (b"\0", False), (b"\0", True)])
@pytest.mark.parametrize("last_ends", [True, False])
def test_a_list_in_a_file_and_from_a_pipe_are_one_dataset(shoal, tmp_path, separator, sizes, last_ends):
    text = b"".join(lines_in_blocks(separator, sizes))
    text = text if last_ends else text[:-1]
    (tmp_path / "list").write_bytes(text)
    null = ["-0"] if separator == b"\0" else []
    told = []
    for n, source in enumerate([tmp_path / "list", "-"]):
        result = shoal("index", source, *null, "-q", "--root", "/x", "--json", "-o", tmp_path / f"{n}",
                       stdin=text if n else b"")
        assert (result.returncode, result.stderr) == (0, b"")
        told.append([json.loads(result.stdout)[key] for key in ("files", "repeated", "blank")])
        told[n].append(json.loads(shoal.good("info", tmp_path / f"{n}", "--json"))["digest"])
    assert told[0] == told[1]
    assert shoal.good("ls", tmp_path / "0", "--sizes") == shoal.good("ls", tmp_path / "1", "--sizes")
    with open(tmp_path / "list", "rb") as f:  # as standard input, from the second line on
        f.seek(len(text.split(separator)[0]) + 1)
        result = subprocess.run(shoal.arguments(["index", "-", *null, "-q", "--root", "/x", "-o", tmp_path / "2"]), stdin=f)
        assert (result.returncode, f.tell()) == (0, len(text))
    assert shoal.names(tmp_path / "2") == shoal.names(tmp_path / "0")  # the first comes again later


@pytest.mark.parametrize("at", [1, 60_000, 130_000, 199_999])
@pytest.mark.parametrize("bad", [b"nul\0inside\t1\n", b"cr\t1\r\n", b"no size\n", b"x\tMB\n", b"../up\t1\n",
                                 b"n" * 5000 + b"\t1\n", b"n" * 70_000 + b"\t1\n", b"n" * 2_500_000],
                         ids=["NUL", "CR", "no size", "wrong size", "up", "5 KB", "70 KB", "2.5 MB"])
def test_a_bad_line_in_a_file_is_the_one_that_a_pipe_has(shoal, fails, tmp_path, at, bad):
    lines = lines_in_blocks(sizes=True)
    lines[at] = bad
    for later in range(at + 1, len(lines), 9_000):
        lines[later] = b"later\n"
    (tmp_path / "list").write_bytes(b"".join(lines))
    empty = tmp_path / "empty"
    empty.mkdir()
    result = shoal("index", tmp_path / "list", "-q", "--root", "/x", "-o", empty / "c")
    fails(result, 1, f"line {at + 1}", empty=empty)
    piped = shoal("index", "-", "-q", "--root", "/x", "-o", empty / "c", stdin=b"".join(lines))
    if len(bad) < 12_000:  # of a longer line it may be said in two ways that it is too long
        assert result.stderr.split(b": ", 2)[2] == piped.stderr.split(b": ", 2)[2]


@pytest.mark.parametrize("length, prefix", [(4096, b""), (4096, b"./"), (4096, b"/data/"), (1, b""), (2048, b"")])
def test_a_name_of_up_to_4096_bytes_is_taken(shoal, length, prefix):
    name = b"n" * length
    path = index_text(shoal, prefix + name + b"\nz\n", "--root", "/data")
    assert shoal.names(path) == [name, b"z"]
    assert shoal.good("find", path, name) == b"0\n"


@pytest.mark.parametrize("prefix", [b"", b"./", b"/data/"])
def test_a_name_of_4097_bytes_below_the_root_is_refused(shoal, fails, tmp_path, prefix):
    result = shoal("index", "-", "-0", "-q", "--root", "/data", "-o", tmp_path / "c", stdin=prefix + b"n" * 4097 + b"\0")
    fails(result, 1, "line 1: a name has 4097 bytes", empty=tmp_path)


@pytest.mark.parametrize("root, words", [
    ("", "--root is empty"),
    ("file://data", "three slashes"),
    (b"/bad\xff", "must be UTF-8"),
    ("/new\nline", "control characters"),
    ("/" + "x" * 5000, "4096"),
])
def test_a_bad_root_is_refused(shoal, fails, tmp_path, root, words):
    result = shoal("index", "-", "-q", "--root", root, "-o", tmp_path / "c", stdin=b"a\n")
    fails(result, 2, "--root", words, empty=tmp_path)


def test_a_list_that_is_missing_is_named(shoal, fails, tmp_path):
    result = shoal("index", tmp_path / "missing.txt", "-o", tmp_path / "c")
    fails(result, 1, "missing.txt': cannot open it: No such file", empty=tmp_path)


def test_a_list_that_cannot_be_read_is_named(shoal, fails, tmp_path):
    listing = tmp_path / "secret.txt"
    listing.write_bytes(b"a\n")
    listing.chmod(0)
    if os.access(listing, os.R_OK):  # root reads everything, but not as nobody
        os.chmod(shoal.scratch, 0o777)
        os.chmod(tmp_path, 0o777)
        for parent in list(tmp_path.parents)[:2]:
            os.chmod(parent, os.stat(parent).st_mode | 0o055)
        try:
            result = shoal("index", listing, "-o", tmp_path / "c", user=65534, group=65534, extra_groups=[])
        except PermissionError:
            pytest.skip("cannot become another user")
    else:
        result = shoal("index", listing, "-o", tmp_path / "c")
    fails(result, 1, "secret.txt': cannot open it: Permission denied")
    assert contents(tmp_path) == ["secret.txt"]


# ----------------------------------------------------------------------------------------------------- what it tells


def test_it_tells_names_repeated_and_blank_on_standard_error(shoal, tmp_path):
    result = shoal("index", "-", "--root", "/nowhere", "-o", tmp_path / "c", stdin=b"a\n\nb\na\n")
    assert (result.returncode, result.stdout) == (0, b"")
    assert result.stderr.startswith(b"2 names in ")
    assert b"1 repeated" in result.stderr and b"1 blank" in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_it_tells_nothing_of_repeated_and_blank_when_there_are_none(shoal, tmp_path):
    result = shoal("index", "-", "-o", tmp_path / "c", stdin=b"a\nb\n")
    assert b"repeated" not in result.stderr and b"blank" not in result.stderr


def test_one_is_not_called_many(shoal, tmp_path):
    result = shoal("index", "-", "--root", "/nowhere", "-o", tmp_path / "c", stdin=b"a\n\na\n")
    assert re.fullmatch(rb"1 name in [\d.]+ [mu]?s, 1 repeated dropped, 1 blank line\n", result.stderr)
    result = shoal("index", "-", "--root", "/nowhere", "-o", tmp_path / "c", stdin=b"a\n\n\nb\n")
    assert re.fullmatch(rb"2 names in [\d.]+ [mu]?s, 2 blank lines\n", result.stderr)


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["words", "json"])
def test_that_there_was_nothing_is_said(shoal, tmp_path, json):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    result = shoal("index", tmp_path / "empty", "--force", "-o", tmp_path / "c", *json)
    said = lines(result.stderr)
    assert result.returncode == 0 and len(said) == 2 and said[1].startswith(b"0 names in ")
    assert said[0] == b"shoal index: no files under '%s': the catalog is empty" % bytes(tmp_path / "empty")
    result = shoal("index", "-", "--force", "-o", tmp_path / "c", *json, stdin=b"\n")
    assert result.returncode == 0 and lines(result.stderr)[0] == b"shoal index: '-' has no names: the catalog is empty"
    for source in tmp_path / "empty", "-":
        result = shoal("index", source, "-q", "--force", "-o", tmp_path / "c", *json)
        assert (result.returncode, result.stderr) == (0, b"")
    assert shoal.info(tmp_path / "c")["files"] == 0


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet_prints_nothing(shoal, tmp_path, quiet):
    assert shoal.good("index", "-", quiet, "-o", tmp_path / "c", stdin=b"a\n\na\n") == b""


def test_json_keeps_the_words_for_people_on_standard_error(shoal, tmp_path):
    result = shoal("index", "-", "--json", "-o", tmp_path / "c", stdin=b"a\n")
    assert json.loads(result.stdout)["files"] == 1
    assert result.stderr.startswith(b"1 name in ") or result.stderr == b""


# ---------------------------------------------------------------------------------------------------- where it is written


def test_a_link_keeps_pointing_at_the_file_that_is_replaced(shoal, tmp_path):
    (tmp_path / "real").mkdir()
    shoal.index([b"old"], to=tmp_path / "real" / "c")
    (tmp_path / "link").symlink_to("real/c")
    shoal.index([b"new"], to=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert shoal.names(tmp_path / "real" / "c") == [b"new"]
    assert contents(tmp_path) == ["link", "real"]
    assert contents(tmp_path / "real") == ["c"]


def test_a_link_to_nothing_yet_is_kept_and_what_it_names_is_made(shoal, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/c")
    shoal.index([b"new"], to=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert shoal.names(tmp_path / "real" / "c") == [b"new"]


def test_an_old_catalog_stays_readable_while_it_is_replaced(shoal, tmp_path):
    path = shoal.index([b"old"], to=tmp_path / "c")
    before = os.open(path, os.O_RDONLY)
    image = path.read_bytes()
    shoal.index([b"new"], to=path)
    assert os.read(before, 10**6) == image, "the old file must not be written to"
    assert os.fstat(before).st_ino != path.stat().st_ino
    os.close(before)
    assert shoal.names(path) == [b"new"]
    assert contents(tmp_path) == ["c"]


def test_a_failing_run_leaves_the_old_catalog_alone(shoal, fails, tmp_path):
    path = shoal.index([b"old"], to=tmp_path / "c")
    image = path.read_bytes()
    fails(shoal("index", "-", "-o", path, stdin=b"a\nb\r\n"), 1, "CR LF")
    assert path.read_bytes() == image
    assert contents(tmp_path) == ["c"]


def test_the_catalog_gets_the_mode_that_the_umask_gives(shoal, tmp_path):
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        shoal.good("index", "-", "-q", "-o", tmp_path / "c", stdin=b"a\n", umask=mask)
        assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == mode
        (tmp_path / "c").unlink()


def test_output_that_is_a_directory_is_refused(shoal, fails, tmp_path):
    for output in (tmp_path, str(tmp_path) + "/", str(tmp_path) + "/x/", "."):
        result = shoal("index", "-", "-q", "-o", output, stdin=b"a\n", cwd=tmp_path)
        fails(result, 1, "directory", empty=tmp_path)


def test_output_to_a_device_is_refused_and_the_device_stays(shoal, fails):
    fails(shoal("index", "-", "-q", "-o", "/dev/null", stdin=b"a\n"), 1, "cannot write '/dev/null': it is not a regular file")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not [name for name in os.listdir("/dev") if name.endswith(".partial")]


def test_output_to_a_pipe_is_refused(shoal, fails, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    fails(shoal("index", "-", "-q", "-o", tmp_path / "fifo", stdin=b"a\n"), 1, "fifo': it is not a regular file")
    assert contents(tmp_path) == ["fifo"]


def test_output_in_a_missing_directory_is_refused(shoal, fails, tmp_path):
    result = shoal("index", "-", "-q", "-o", tmp_path / "missing" / "c", stdin=b"a\n")
    fails(result, 1, "cannot write", "there is no directory", empty=tmp_path)


def test_an_empty_output_name_is_refused(shoal, fails, tmp_path):
    result = shoal("index", "-", "-q", "-o", "", stdin=b"a\n", cwd=tmp_path)
    fails(result, 2, "--output is empty", empty=tmp_path)


def test_the_output_may_have_the_longest_name_of_the_file_system(shoal, tmp_path):
    path = shoal.index([b"a"], to=tmp_path / ("c" * 255))
    assert shoal.names(path) == [b"a"]
    assert contents(tmp_path) == ["c" * 255]


@pytest.mark.parametrize("source", ["none", "none.txt"])
def test_a_source_that_is_missing_does_not_use_up_the_folder_of_results(shoal, fails, tmp_path, source):
    fails(shoal("index", source, "-o", "c", "--results", "results", cwd=tmp_path), 1,
          f"'{source}': cannot open it: No such file or directory", empty=tmp_path)
