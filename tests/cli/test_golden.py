"""Files of format version 1 that every later version must read, and damaged ones that it must refuse.

A golden file that is missing is a failure. To make them anew (a visible change of the repository):
SHOAL_RENEW_GOLDEN=1 python3 -m pytest tests/cli/test_golden.py
"""
import os
import struct
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
sys.path.insert(0, str(GOLDEN.parent / "reader"))
import make  # noqa: E402
from shoalcat import Catalog, hash64  # noqa: E402

RENEW = bool(os.environ.get("SHOAL_RENEW_GOLDEN"))


def numbers(seed, nr, below):
    """The same on every Python: a linear congruential generator's high bits."""
    for _ in range(nr):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (seed >> 33) % below


def grid():
    return {b"train/%03d/img_%06d_of_120.jpeg" % (i % 7, i): None for i in range(120)}


def fixed():
    return {b"img/%08x-%04x.png" % pair: None for pair in zip(numbers(1, 300, 2**31), numbers(2, 300, 2**16))}


def decimal():
    chosen = set(numbers(3, 200, 1500))
    return {name: None for n in chosen for name in (b"n01440764/n01440764_%d.JPEG" % n, b"shard_%d_of_1500" % n)}


def front():
    words = [b"alpha", b"beta", b"Gamma", b"delta9", b"x", b"y z", b"\xc3\xa9t\xc3\xa9", b"\xff\xfe", b"readme", b"Makefile"]
    picks = list(numbers(4, 3 * 9000, len(words)))
    return {b"/".join([words[a], words[b] + b"%d" % (i % 97), words[c] + b"%x" % (i * i % 4099)]): None
            for i, (a, b, c) in enumerate(zip(picks[::3], picks[1::3], picks[2::3]))}


def columns():
    sizes = [7] * 5000 + list(numbers(5, 1000, 10**6)) + [2**40]
    samples = [3] * 10 + list(numbers(6, 5991, 9))
    return {b"f%05d" % i: pair for i, pair in enumerate(zip(sizes, samples))}


# name: (what it holds, its digest, which no version may change)
GOOD = {
    "good-v1-grid": (grid, "452bb099588d43d76bc55aebc3de84b2"),
    "good-v1-fixed": (fixed, "2dc404f35d68c995d7de7115daa6d2a9"),
    "good-v1-decimal": (decimal, "1092ffd294adf706ed06d4f30e2edf4a"),
    "good-v1-front": (front, "e7ca71c0c6938d09e22fa852605e17b4"),
    "good-v1-columns": (columns, "6612245ae616bf145e270b51f0e39182"),
    "good-v1-empty": (dict, "10e45c7ce2292320743df94ee4c78a2a"),
}


def line(name, pair):
    return name + (b"\t%d\t%d" % pair if pair else b"") + b"\0"


def truncated(data):
    return data[:-1]


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1:]


def newer(data):
    head = data[:8] + struct.pack("<I", 2) + data[12:248]
    return head + struct.pack("<Q", hash64(head)) + data[256:]


def unknown_feature(data):
    head = data[:16] + struct.pack("<I", 0x80) + data[20:248]
    return head + struct.pack("<Q", hash64(head)) + data[256:]


def foreign(_):
    return b"PK\x03\x04" + bytes(300)


def overlapping(_):
    """Two dictionaries that are the same bytes: 400 of 4 MB once took 1.6 GB of memory."""
    names = [[b"a%d" % i, b"a%d/x" % i] for i in range(2)]
    sections, fields = make.parts([make.front(group, True, b"abcdefgh") for group in names],
                                  dictionaries=[(0, b"abcdefgh"), (1, b"")])
    sections[b"DTAB"] = struct.pack("<QQQQQQ", 0, 0, 8, 1, 0, 8)
    return make.assemble([section for section in sections.items() if section[1]], **fields)


BAD = {
    "bad-v1-truncated": (truncated, b"truncated catalog"),
    "bad-v1-flipped": (flipped, b"checksum does not match"),
    "bad-v1-newer": (newer, b"made by a newer Shoal (format version 2"),
    "bad-v1-feature": (unknown_feature, b"feature bits 0x80"),
    "bad-v1-foreign": (foreign, b"not a catalog"),
    "bad-v1-dictionaries": (overlapping, b"two dictionaries overlap"),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_golden_catalog_holds_what_it_always_held(shoal, tmp_path, name):
    content, digest = GOOD[name]
    entries = content()
    path = GOLDEN / (name + ".cat")
    if RENEW:
        text = b"".join(line(*entry) for entry in entries.items())
        assert shoal("index", "-", "-0", "--root", "s3://golden/" + name, "-o", path, stdin=text).returncode == 0
    assert path.exists(), "a golden file is missing"
    assert shoal("verify", path).returncode == 0
    catalog = Catalog(path)
    catalog.check()
    assert catalog.digest == digest
    assert shoal("ls", path, "-0").stdout == b"".join(name + b"\0" for name in sorted(entries))
    if any(entries.values()):
        assert list(catalog.sizes()) == [entries[name][0] for name in sorted(entries)]
        assert list(catalog.samples()) == [entries[name][1] for name in sorted(entries)]


def lines():
    """Files of lines: each third has the layout of the one before it, each fifth is one sample, the text as a whole."""
    out = {}
    for i, (nr, length) in enumerate(zip(numbers(9, 60, 9), numbers(10, 60, 40))):
        i_like = i - (i % 3 == 1)
        name = b"f%02d.%s" % (i, b"txt" if i % 5 == 4 else b"jsonl")
        out[name] = b"".join(b"%d\n" % 10**((i_like * 7 + k * length) % 50) for k in range(nr if i % 3 != 1 else 3))
    return out


def test_a_golden_catalog_knows_where_samples_lie(shoal, tmp_path):
    files, path = lines(), GOLDEN / "good-v1-extents.cat"
    if RENEW:
        for name, content in files.items():
            (tmp_path / name.decode()).write_bytes(content)
        assert shoal("index", tmp_path, "--samples", "auto", "--root", "file:///golden", "-o", path).returncode == 0
    assert path.exists(), "a golden file is missing"
    assert shoal("verify", path).returncode == 0
    catalog = Catalog(path)
    catalog.check()
    want = []
    for name, layout, nr in zip(catalog.names(), catalog.extents(), catalog.samples()):
        parts = [files[name]] if name.endswith(b".txt") else files[name].splitlines(keepends=True)
        extents = [(0, len(files[name]), 1)][:nr] if layout is None else layout
        assert [files[name][off:off + length] for off, length, _ in extents] == parts
        want += [b"%s\t%d\t%d\t%d" % (name, *extent) for extent in extents]
    told = shoal("ls", "--extents", path).stdout.splitlines()
    assert [b"\t".join(line.split(b"\t")[:1] + line.split(b"\t")[2:]) for line in told] == want
    assert len(told) == catalog.header.nr_samples > catalog.nr_extents


def marked_lines():
    """Files of lines after a byte order mark: the gap before the first of each is 3, before all others 0."""
    return {b"f%02d.jsonl" % i: b"\xef\xbb\xbf" + b"".join(b"%d\n" % 10**((i * 5 + k * k) % 31) for k in range(20 + i)) for i in range(40)}


def test_a_golden_catalog_has_sparse_blocks(shoal, tmp_path):
    files, path = marked_lines(), GOLDEN / "good-v1-sparse.cat"
    if RENEW:
        for name, content in files.items():
            (tmp_path / name.decode()).write_bytes(content)
        assert shoal("index", tmp_path, "--samples", "auto", "--root", "file:///golden", "-o", path).returncode == 0
    assert path.exists(), "a golden file is missing"
    assert shoal("verify", path).returncode == 0
    catalog = Catalog(path)
    catalog.check()
    assert catalog.header.incompat == 3
    told = iter(shoal("ls", "--extents", path).stdout.splitlines())
    for name, layout in zip(catalog.names(), catalog.extents()):
        assert [files[name][off:off + length] for off, length, _ in layout] == files[name][3:].splitlines(keepends=True)
        assert [tuple(map(int, next(told).split(b"\t")[2:])) for _ in layout] == layout


def etags():
    """Of whole objects, of parts, and of none; more of them than a page holds."""
    kinds = zip(numbers(7, 900, 2**31), numbers(8, 900, 3))
    return {b"o%04d" % i: ["%032x" % (n * n), "%032x-%d" % (n * n, 1 + n % 10000), None][kind]
            for i, (n, kind) in enumerate(kinds)}


def test_a_golden_catalog_keeps_its_etags(shoal, monkeypatch):
    entries, path = etags(), GOLDEN / "good-v1-etags.cat"
    if RENEW:
        sys.path.insert(0, str(GOLDEN.parent / "s3"))
        from fault_server import Answer, FaultServer, page
        tags = [(tag or "odd").encode() for tag in entries.values()]
        with FaultServer([], lambda *_: Answer(body=page(list(entries), False, etags=tags))) as server:
            for name, value in {"AWS_ENDPOINT_URL": server.url, "SHOAL_S3_ANONYMOUS": "1"}.items():
                monkeypatch.setenv(name, value)
            assert shoal("index", "s3://golden", "--etags", "-o", path).returncode == 0
    assert path.exists(), "a golden file is missing"
    assert shoal("verify", path).returncode == 0
    catalog = Catalog(path)
    catalog.check()
    assert catalog.digest == "79167f2bfb36e551112ced16aa0f6711"
    assert list(catalog.etags()) == list(entries.values())
    shown = b"".join(name + b"\t" + (tag or "-").encode() + b"\n" for name, tag in entries.items())
    assert shoal("ls", path, "--etags").stdout == shown


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_golden_catalog_is_refused_in_words(shoal, name):
    damage, words = BAD[name]
    path = GOLDEN / (name + ".cat")
    if RENEW:
        path.write_bytes(damage((GOLDEN / "good-v1-fixed.cat").read_bytes()))
    assert path.exists(), "a golden file is missing"
    done = shoal("verify", path)
    assert done.returncode == 1
    assert words in done.stderr
