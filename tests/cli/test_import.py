"""Lists that other tools write."""

import gzip
import random
import subprocess

import pytest
from conftest import contents


def test_what_find_prints_is_the_directory(shoal, tmp_path):
    (tmp_path / "d").mkdir()
    for i in range(50):
        (tmp_path / "d" / f"a b{i}").write_bytes(b"x" * i)
    listed = subprocess.run(["find", tmp_path / "d", "-type", "f", "-printf", "%s %p\\n"], stdout=subprocess.PIPE, check=True).stdout
    shoal.good("index", tmp_path / "d", "-q", "-o", tmp_path / "walked")
    shoal.good("index", "-", "--format", "find", "--root", tmp_path / "d", "-q", "-o", tmp_path / "listed", stdin=listed)
    assert shoal.info(tmp_path / "listed")["digest"] == shoal.info(tmp_path / "walked")["digest"]
    ended = listed.replace(b"\n", b"\0")
    shoal.good("index", "-", "-0", "--format", "find", "--root", tmp_path / "d", "-q", "-o", tmp_path / "null", stdin=ended)
    assert shoal.info(tmp_path / "null")["digest"] == shoal.info(tmp_path / "walked")["digest"]


def test_what_lfs_find_prints_is_the_directory(shoal, tmp_path):
    """Absolute paths; with -printf sizes before them, with -print0 NUL bytes after them."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    for i in range(20):
        (tmp_path / "d" / "e" / f"{i}").write_bytes(b"x" * i)
    shoal.good("index", tmp_path / "d", "--no-sizes", "-q", "-o", tmp_path / "walked")
    paths = [f"{tmp_path}/d/e/{i}".encode() for i in range(20)]
    for options, end in (([], b"\n"), (["-0"], b"\0")):
        shoal.good("index", "-", "--root", tmp_path / "d", "-q", "--force", "-o", tmp_path / "names", *options,
                   stdin=b"".join(path + end for path in paths))
        assert shoal.info(tmp_path / "names")["digest"] == shoal.info(tmp_path / "walked")["digest"]
    shoal.good("index", "-", "--format", "find", "--root", tmp_path / "d", "-q", "-o", tmp_path / "sized",
               stdin=b"".join(b"%d %s\n" % (i, path) for i, path in enumerate(paths)))
    shoal.good("diff", tmp_path / "walked", tmp_path / "sized")
    assert shoal.info(tmp_path / "sized")["bytes"] == sum(range(20))


@pytest.mark.parametrize("nr_files", [1, 3])
def test_a_compressed_inventory_in_one_file_or_several(shoal, tmp_path, nr_files):
    keys = [b"train/%07d.jpg" % i for i in range(100000)]
    random.Random(1).shuffle(keys)
    rows = [b'"bucket","%s","%d","2024-01-01T00:00:00.000Z","%032x"\n' % (key, i, i) for i, key in enumerate(keys)]
    parts = [gzip.compress(b"".join(rows[k::nr_files])) for k in range(nr_files)]
    (tmp_path / "inventory.csv.gz").write_bytes(b"".join(parts))
    shoal.good("index", tmp_path / "inventory.csv.gz", "--format", "inventory", "--columns",
               "Bucket, Key, Size, LastModifiedDate, ETag", "-q", "-o", tmp_path / "c")
    assert shoal.names(tmp_path / "c") == sorted(keys)
    info = shoal.info(tmp_path / "c")
    assert info["root"] == "s3://bucket" and info["bytes"] == sum(range(100000)) and info["etags"]
    wanted = dict(zip(keys, range(100000)))[b"train/0000007.jpg"]
    assert shoal.good("ls", tmp_path / "c", "--id", 7, "--sizes", "--etags") == b"train/0000007.jpg\t%d\t%032x\n" % (wanted, wanted)


def test_a_damaged_list_leaves_no_catalog(shoal, tmp_path, fails):
    whole = gzip.compress(b"".join(b"b,key%d,1\n" % i for i in range(1000)))
    broken = bytearray(whole)
    broken[len(broken) // 2] ^= 0xff
    for data, words in ((whole[:-20], "truncated"), (bytes(broken), "damaged"), (b"b,k\n", "line 1")):
        fails(shoal("index", "-", "--format", "inventory", "-o", tmp_path / "c", stdin=data), 1, words)
        assert contents(tmp_path) == []
    fails(shoal("index", "-", "--format", "find", "--columns", "Key", "-o", tmp_path / "c"), 2, "inventory")
    fails(shoal("index", "-", "--format", "csv", "-o", tmp_path / "c"), 2, "inventory")
