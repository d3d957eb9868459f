"""What is in a directory, in order, without a catalog; figures about a catalog; the bytes of its samples."""

import json
import os
import random
import subprocess

import pytest
from conftest import binary, contents, lines


@pytest.fixture(scope="module")
def tree(memory_dir):
    """A tree of names that sort otherwise than directories do."""
    folder = memory_dir / "list"
    found = {}
    for i, a in enumerate((b"a", b"a-b", b"a.c", b"a0", b"\xff", b"new\nline")):
        for k in range(50):
            name = b"%s/%d/%d.bin" % (a, k % 9, k)
            path = os.fsencode(folder) + b"/" + name
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"x" * (i * k))
            found[name] = i * k
    return folder, dict(sorted(found.items()))


def listed(shoal, *args):
    return lines(shoal.good("list", "-0", *args), b"\0")


def test_a_directory_is_listed_in_order(shoal, tree):
    folder, sizes = tree
    names = list(sizes)
    for threads in (1, 2, 16):
        assert listed(shoal, folder, "--threads", threads) == names
    assert listed(shoal, folder, "--sizes") == [b"%s\t%d" % pair for pair in sizes.items()]
    assert listed(shoal, folder, "--start-after", names[7], "--end-before", names[99], "--limit", 50) == names[8:58]
    assert listed(shoal, folder, "--include", "*7.bin", "--exclude", "a/") == [
        n for n in names if n.endswith(b"7.bin") and not n.startswith(b"a/")]
    assert sorted(sum((listed(shoal, folder, "--shard", f"{k}/3") for k in range(3)), [])) == names
    assert shoal.good("list", folder, "--total", "--sizes") == b"%d\t%d\n" % (len(sizes), sum(sizes.values()))
    assert json.loads(shoal.good("list", folder, "--total", "--json")) == {"files": len(sizes), "bytes": sum(sizes.values())}


def test_the_list_and_the_catalog_agree(shoal, tree, tmp_path):
    shoal.good("index", tree[0], "-q", "-o", tmp_path / "c")
    assert listed(shoal, tree[0]) == shoal.names(tmp_path / "c")
    without_ids = [json.loads(line) for line in lines(shoal.good("ls", tmp_path / "c", "--json"))]
    for entry in without_ids:
        del entry["id"]
    assert [json.loads(line) for line in lines(shoal.good("list", tree[0], "--json"))] == without_ids


def test_a_directory_that_exceeds_memory_is_sorted_in_a_file(shoal, memory_dir, tmp_path):
    """More names in one directory than the list keeps in memory."""
    folder = memory_dir / "flat"
    folder.mkdir()
    names = [b"a-rather-long-name-so-that-fewer-of-them-are-enough-%06d" % i for i in range(150000)]
    random.Random(3).shuffle(names)
    fd = os.open(folder, os.O_RDONLY)
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    trace = subprocess.run(["strace", "-f", "-e", "trace=openat", "-o", tmp_path / "trace", binary(), "list", folder, "--tmp-dir",
                            tmp_path], stdout=subprocess.PIPE, check=True,
                           # A tracer of its own cannot follow another one.
                           env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}) if os.path.exists("/usr/bin/strace") else None
    got = lines(trace.stdout if trace else shoal.good("list", folder, "--tmp-dir", tmp_path))
    assert got == sorted(names)
    if trace:
        assert str(tmp_path) in (tmp_path / "trace").read_text().split(str(folder), 1)[1]
        os.unlink(tmp_path / "trace")
    assert contents(tmp_path) == []


def test_formats(shoal, tmp_path):
    (tmp_path / "d").mkdir()
    for name in (b"plain", b'a,"b"', b"new\nline", b"\xff"):
        with open(os.fsencode(tmp_path / "d") + b"/" + name, "wb") as file:
            file.write(b"xy")
    assert shoal.good("list", tmp_path / "d", "--csv") == (
        b'name,size,samples,etag\n"a,""b""",2,1,\n"new\nline",2,1,\nplain,2,1,\n\xff,2,1,\n')
    last = json.loads(lines(shoal.good("list", tmp_path / "d", "--json"))[-1])
    assert last == {"name": "\ufffd", "name_hex": "ff", "size": 2, "samples": 1}
    done = shoal("list", tmp_path / "d")
    assert done.returncode == 1 and b"--null" in done.stderr


def test_what_cannot_be_listed_is_said(shoal, tree, tmp_path, fails):
    fails(shoal("list", tmp_path / "none"), 1, "none")
    fails(shoal("list", tree[0], "--etags"), 1, "ETags")
    fails(shoal("list", tree[0], "--json", "--csv"), 2, "exclude each other")
    fails(shoal("list", tree[0], "--regex", "("), 2, "regular expression", "malformed")
    fails(shoal("list", tree[0], "--shard", "3/3"), 2, "counted from 0")
    fails(shoal("list", tree[0], "--include", "[a"), 2, "[")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_left_out_on_request(shoal, tmp_path, fails):
    (tmp_path / "d" / "no").mkdir(parents=True)
    (tmp_path / "d" / "yes").write_bytes(b"")
    (tmp_path / "d" / "no").chmod(0)
    fails(shoal("list", tmp_path / "d"), 1, "no")
    done = shoal("list", tmp_path / "d", "--keep-going")
    assert (done.returncode, done.stdout) == (0, b"yes\n") and b"no" in done.stderr


def test_a_reader_that_goes_away_ends_it(tree):
    done = subprocess.run(["sh", "-c", f"{binary()} list '{tree[0]}' -0 | head -c 10"], stdout=subprocess.PIPE, check=True)
    assert len(done.stdout) == 10


# ---- ls and find ----


def test_files_drawn_at_random_are_of_the_catalog_each_once(shoal):
    names = [b"n%04d" % i for i in range(1000)]
    path = shoal.index(names)
    some = shoal.names(path, "--random", 100)
    assert len(set(some)) == 100 and set(some) <= set(names) and some != sorted(some)
    assert shoal.names(path, "--random", 100) == some != shoal.names(path, "--random", 100, "--seed", 1)
    assert sorted(shoal.names(path, "--random", 5000)) == names
    counts = [0] * 10
    for seed in range(50):
        for name in shoal.names(path, "--random", 20, "--seed", seed):
            counts[int(name[1:]) // 100] += 1
    assert min(counts) > 50, "all parts of the catalog are drawn"


def test_names_that_match_are_found_with_their_ids(shoal, fails):
    names = sorted(b"d%d/f%03d.%s" % (i % 4, i, b"jpg" if i % 3 else b"txt") for i in range(200))
    path = shoal.index(names)
    want = [b"%d\t%s" % (i, n) for i, n in enumerate(names) if n.endswith(b".txt") and n.startswith(b"d1/")]
    assert lines(shoal.good("find", path, "--include", "d1/*.txt")) == want
    assert lines(shoal.good("find", path, "--regex", r"^d1/.*\.txt$")) == want
    found = [json.loads(line) for line in lines(shoal.good("find", path, "--regex", r"^d1/.*\.txt$", "--json"))]
    assert [b"%d\t%s" % (f["id"], f["name"].encode()) for f in found] == want
    fails(shoal("find", path), 2, "names")
    fails(shoal("find", path, "a", "--regex", "b"), 2, "names")
    fails(shoal("ls", path, "--id", 1, "--random", 2), 2, "exclude")
    fails(shoal("ls", path, "--id", 1, "--include", "x"), 2, "--include")


# ---- stat ----


def test_figures_of_a_catalog(shoal):
    names = [b"a/%03d.jpg" % i for i in range(100)] + [b"b/c/%03d.tar.gz" % i for i in range(10)] + [b"readme"]
    path = shoal.index(names, sizes=[10] * 100 + [1000] * 10 + [0])
    found = json.loads(shoal.good("stat", path, "--json"))
    assert (found["files"], found["bytes"], found["nr_folders"], found["nr_extensions"]) == (111, 11000, 3, 3)
    assert found["folders"] == [{"name": "b", "files": 10, "bytes": 10000}, {"name": "a", "files": 100, "bytes": 1000},
                                {"name": "", "files": 1, "bytes": 0}]
    assert found["extensions"][0] == {"name": ".gz", "files": 10, "bytes": 10000}
    assert found["largest"][0]["bytes"] == 1000 and len(found["largest"]) == 10
    assert found["sizes"] == [{"from": 0, "files": 1, "bytes": 0}, {"from": 8, "files": 100, "bytes": 1000},
                              {"from": 512, "files": 10, "bytes": 10000}]
    assert found["depth"] == [1, 100, 10]
    deeper = json.loads(shoal.good("stat", path, "--json", "--depth", 2, "--include", "b/**"))
    assert deeper["folders"] == [{"name": "b/c", "files": 10, "bytes": 10000}]
    text = shoal.good("stat", path).decode()
    assert "11.0 KB (11,000 bytes)" in text and "(in no folder)" in text and ".tar.gz" not in text.split("extensions: ")[1].split("\n\n")[0]
    assert json.loads(shoal.good("stat", shoal.index(names), "--json"))["bytes"] is None
    assert json.loads(shoal.good("stat", shoal.index([]), "--json"))["files"] == 0


# ---- cat ----


def test_the_bytes_of_samples(shoal, tmp_path, fails):
    (tmp_path / "data").mkdir()
    big = random.Random(1).randbytes(3 << 20)
    for name, content in (("1", b"digits"), ("a", b"0123456789"), ("big", big), ("empty", b"")):
        (tmp_path / "data" / name).write_bytes(content)
    path = shoal.index([b"1", b"a", b"big", b"empty"], sizes=[6, 10, len(big), 0], root="/nowhere")
    data = ["--data", tmp_path / "data"]
    assert shoal.good("cat", path, 2, *data) == big
    assert shoal.good("cat", path, "a", "empty", "0", *data) == b"0123456789digits"
    assert shoal.good("cat", path, "1", *data) == b"0123456789" and shoal.good("cat", path, "1", "--names", *data) == b"digits"
    two = shoal.index([b"a"], "--samples-per-file", 2, sizes=[10], root=tmp_path / "data", to=tmp_path / "two")
    assert shoal.good("cat", two, 0) == b"01234" and shoal.good("cat", two, 1) == b"56789"
    assert shoal.good("cat", two, "a") == b"0123456789"
    fails(shoal("cat", two, 2), 1, "no sample 2")
    fails(shoal("cat", two, "b"), 1, "no name 'b'")
    fails(shoal("cat", path, 1), 1, "/nowhere")
    (tmp_path / "data" / "a").write_bytes(b"0123")
    done = shoal("cat", two, "a")
    assert done.returncode == 1 and b"bytes in the catalog" in done.stderr
    unsized = shoal.index([b"big"], root=tmp_path / "data", to=tmp_path / "unsized")
    assert shoal.good("cat", unsized, "big") == big
