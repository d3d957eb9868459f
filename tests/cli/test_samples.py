"""shoal index --samples: where the samples inside files lie, compared with the readers that people have."""

import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import zlib
from random import Random

import pytest
from conftest import settle

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOAL = os.environ.get("SHOAL", str(ROOT / "build" / "shoal"))
CORPUS = ROOT / "fuzz" / "corpus"
sys.path.insert(0, str(ROOT / "tests" / "reader"))


def shoal(*arguments, check=True):
    done = subprocess.run([SHOAL, *map(str, arguments)], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done


def rows(catalog):
    """(name, offset, length, rows) of each sample, in order."""
    out = []
    for number, line in enumerate(shoal("ls", "--extents", catalog).stdout.splitlines()):
        name, sample, offset, length, nr = line.split("\t")
        assert int(sample) == number
        out.append((name, int(offset), int(length), int(nr)))
    return out


def write_tar(path, format):
    with tarfile.open(path, "w", format=format) as archive:
        for i in range(20):
            name = f"d/{'long' * 40 if format != tarfile.USTAR_FORMAT and i % 3 == 0 else ''}{i:03}"
            for suffix in (".jpg", ".cls", ".seg.png")[:i % 3 + 1]:
                member = tarfile.TarInfo(name + suffix)
                member.size = (0, 1, 511, 512, 513, 3000)[i % 6]
                if format == tarfile.PAX_FORMAT and i % 4 == 0:
                    member.pax_headers = {"comment": "é" * 30}
                archive.addfile(member, io.BytesIO(os.urandom(member.size)))


@pytest.fixture
def data(tmp_path):
    """A directory with files of most kinds, some of them written by pyarrow."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.parquet").write_bytes((CORPUS / "parquet" / "three-groups").read_bytes())
    (folder / "b.parquet").write_bytes((CORPUS / "parquet" / "three-groups").read_bytes())
    (folder / "c.arrow").write_bytes((CORPUS / "arrow" / "three-batches").read_bytes())
    (folder / "d.jsonl").write_text('{"a": 1}\n\n{"b": 2}')
    (folder / "e.csv").write_text('a,b\n1,"x\ny"\n2,z\n')
    (folder / "f.txt").write_text("text")
    return folder


EXPECTED = [("a.parquet", 4, 163, 4), ("a.parquet", 167, 163, 4), ("a.parquet", 330, 148, 2),
            ("b.parquet", 4, 163, 4), ("b.parquet", 167, 163, 4), ("b.parquet", 330, 148, 2),
            ("c.arrow", 184, 288, 4), ("c.arrow", 472, 256, 4), ("c.arrow", 728, 240, 2),
            ("d.jsonl", 0, 9, 1), ("d.jsonl", 10, 8, 1), ("e.csv", 4, 8, 1), ("e.csv", 12, 4, 1), ("f.txt", 0, 4, 1)]


def test_samples_are_found_by_the_ends_of_names_and_equal_layouts_are_stored_once(data, tmp_path):
    catalog = tmp_path / "x.cat"
    assert "14 samples in them" in shoal("index", data, "--samples", "auto", "-o", catalog).stderr
    assert rows(catalog) == EXPECTED
    shoal("verify", catalog)
    info = json.loads(shoal("info", catalog, "--json").stdout)
    assert (info["samples"], info["extents"], info["longest_sample"]) == (14, 10, 288)
    assert info["formats"]["parquet"] == {"files": 2, "samples": 6}
    assert "parquet         2 files, 6 samples" in shoal("info", catalog).stdout


def test_a_list_of_names_without_sizes_gives_the_same_catalog(data, tmp_path):
    shoal("index", data, "--samples", "auto", "-o", tmp_path / "x.cat")
    names = tmp_path / "names"
    names.write_text("".join(f"{path}\n" for path in sorted(data.iterdir(), reverse=True)))
    shoal("index", names, "--root", data, "--samples", "auto", "-o", tmp_path / "y.cat")
    assert rows(tmp_path / "y.cat") == EXPECTED
    digest = [json.loads(shoal("info", tmp_path / name, "--json").stdout)["digest"] for name in ("x.cat", "y.cat")]
    assert digest[0] == digest[1]
    names.write_text(names.read_text() + f"{data}/missing.parquet\n")
    done = shoal("index", names, "--root", data, "--samples", "auto", "-o", tmp_path / "z.cat", check=False)
    assert done.returncode == 1 and "'missing.parquet': cannot stat it: No such file" in done.stderr
    (data / "missing.parquet").mkdir()
    done = shoal("index", names, "--root", data, "--samples", "auto", "-o", tmp_path / "z.cat", check=False)
    assert done.returncode == 1 and "'missing.parquet': it is not a regular file" in done.stderr
    assert not (tmp_path / "z.cat").exists()


def test_the_second_reader_sees_the_same_extents(data, tmp_path):
    import shoalcat
    shoal("index", data, "--samples", "auto", "-o", tmp_path / "x.cat")
    catalog = shoalcat.Catalog(tmp_path / "x.cat")
    catalog.check()
    seen = [(name.decode(), *extent) for name, layout, size in zip(catalog.names(), catalog.extents(), catalog.sizes())
            for extent in ([(0, size, 1)] if layout is None else layout)]
    assert seen == EXPECTED
    assert catalog.formats["parquet"] == (2, 6)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_and_groups_of_a_tar_are_those_of_tarfile(format, tmp_path):
    (tmp_path / "data").mkdir()
    write_tar(tmp_path / "data" / "a.tar", format)
    with tarfile.open(tmp_path / "data" / "a.tar") as archive:
        members = archive.getmembers()
    shoal("index", tmp_path / "data", "--samples", "tar", "-o", tmp_path / "x.cat")
    assert rows(tmp_path / "x.cat") == [("a.tar", member.offset_data, member.size, 1) for member in members]
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    content = (tmp_path / "data" / "a.tar").read_bytes()
    groups = []
    for _, offset, length, _ in rows(tmp_path / "x.cat"):  # a group is an archive of its own
        with tarfile.open(fileobj=io.BytesIO(content[offset:offset + length])) as group:
            groups.append(group.getnames())
    assert sum(groups, []) == [member.name for member in members]
    assert len(groups) == 20
    assert all(len({name.split(".")[0] for name in group}) == 1 for group in groups)


def test_samples_are_read_as_they_lie_in_their_files(data, tmp_path):
    shoal("index", data, "--samples", "auto", "-o", tmp_path / "x.cat")
    done = shoal("read", tmp_path / "x.cat", "--batch", 3)
    assert "every sample exactly once" in done.stdout + done.stderr
    want = sum(length for _, _, length, _ in EXPECTED)
    assert f"{want} bytes delivered" in done.stdout + done.stderr


def test_a_damaged_file_is_an_error_with_its_name_and_nothing_is_written(data, tmp_path):
    (data / "b.parquet").write_bytes((data / "a.parquet").read_bytes()[:-1])
    done = shoal("index", data, "--samples", "auto", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1
    assert "'b.parquet': not a Parquet file, or truncated" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["data"]
    done = shoal("index", data, "--samples", "auto", "--keep-going", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1
    assert "'b.parquet': not a Parquet file" in done.stderr and "1 unreadable left out" in done.stderr
    assert rows(tmp_path / "x.cat") == [row for row in EXPECTED if row[0] != "b.parquet"]


def test_what_cannot_be_cut_is_one_sample(tmp_path):
    numpy = pytest.importorskip("numpy")
    (tmp_path / "data").mkdir()
    numpy.savez_compressed(tmp_path / "data" / "a.npz", x=numpy.zeros((5, 4)))
    numpy.savez(tmp_path / "data" / "b.npz", x=numpy.arange(20.0).reshape(5, 4), y=numpy.zeros(5))
    done = shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert "1 file that cannot be cut, taken as one sample" in done.stderr
    found = rows(tmp_path / "x.cat")
    assert found[0] == ("a.npz", 0, (tmp_path / "data" / "a.npz").stat().st_size, 1)
    content = (tmp_path / "data" / "b.npz").read_bytes()
    parts = [content[offset:offset + length] for _, offset, length, _ in found[1:]]
    assert b"".join(parts) == numpy.arange(20.0).tobytes() and len(parts) == 5


def test_compressed_files_are_one_sample_each_and_the_first_is_named(tmp_path):
    (tmp_path / "data").mkdir()
    write_tar(tmp_path / "x.tar", tarfile.PAX_FORMAT)
    content = (tmp_path / "x.tar").read_bytes()
    for name, packed in (("1.tar", gzip.compress(content)), ("2.tar", bz2.compress(content)), ("3.tar", lzma.compress(content)),
                         ("4.tar", b"\x28\xb5\x2f\xfd" + b"as zstd begins"), ("5.tfrecord", gzip.compress(content)),
                         *(("6-%d.tfrecord" % level, zlib.compress(tfrecord(content), level)) for level in (1, 6, 9))):
        (tmp_path / "data" / name).write_bytes(packed)
    done = shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert "'1.tar' is taken as one sample: it is compressed" in done.stderr and "'2.tar'" not in done.stderr
    assert "8 files that cannot be cut, each taken as one sample" in done.stderr
    assert [row[1:3] for row in rows(tmp_path / "x.cat")] == [(0, path.stat().st_size) for path in sorted((tmp_path / "data").iterdir())]


def test_a_damaged_length_of_a_record_does_not_make_a_compressed_file(tmp_path):
    (tmp_path / "data").mkdir()
    content = bytearray(tfrecord(bytes(300)) * 200)
    content[:2] = b"\x78\x9c"  # as ZLIB begins
    (tmp_path / "data" / "a.tfrecord").write_bytes(content)
    done = shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and "the length of the record at 0 does not match its checksum" in done.stderr


@pytest.mark.parametrize("size, change", [(0, 1), (100, -1), (100, 1), (16383, -1), (16383, 1), (16384, -1), (16384, 1), (70000, 1)])
def test_a_file_of_another_size_than_listed_is_refused(size, change, tmp_path):
    """The size is compared with a read where the file is small, and with fstat(2) otherwise."""
    (tmp_path / "data").mkdir()
    line = b'{"a": 1}\n'
    (tmp_path / "data" / "a.jsonl").write_bytes((line * (size + 1))[:size + change])
    (tmp_path / "names").write_text("a.jsonl\t%d\n" % size)
    for kind in ("jsonl", "parquet", "index"):
        done = shoal("index", tmp_path / "names", "--root", tmp_path / "data", "--samples", kind, "-o", tmp_path / "x.cat", check=False)
        assert done.returncode == 1, done.stdout
        assert "'a.jsonl': it has %d bytes, but had %d when it was listed" % (size + change, size) in done.stderr


def test_many_files_are_looked_into_by_any_number_of_threads(tmp_path):
    """Threads take several files at once; what they find is written in the order of names."""
    folder, noise, want = tmp_path / "data", Random(7), []
    for i in range(1500):
        path = folder / ("%02d" % (i % 20)) / ("%04d.jsonl" % i)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [b"x" * noise.randrange(1, 60) + b"\n" for _ in range(noise.randrange(0, 30) if i % 200 else 9000)]
        path.write_bytes(b"".join(lines))
        want.append((str(path.relative_to(folder)), [len(line) for line in lines]))
    for threads in ([], ["--threads", "1"], ["--threads", "3"], ["--threads", "40"]):
        shoal("index", folder, "--samples", "auto", "--force", *threads, "-o", tmp_path / "x.cat")
        found = {}
        for name, _, length, _ in rows(tmp_path / "x.cat"):
            found.setdefault(name, []).append(length)
        assert list(found.items()) == [(name, lengths) for name, lengths in sorted(want) if lengths]


def test_a_file_of_more_irregular_lines_than_are_kept_in_memory(tmp_path):
    """Where its lines lie goes to a temporary file, also when it is compared, updated and resumed."""
    (tmp_path / "data").mkdir()
    noise = Random(5)
    lengths = [noise.randrange(1, 200) for _ in range(120_000)]
    for name in ("a", "b"):
        (tmp_path / "data" / (name + ".jsonl")).write_bytes(b"\n".join(b"x" * (length - 1) for length in lengths) + b"\n")
    lengths = [length for length in lengths if length > 1]  # a line that is empty is no sample
    settle(tmp_path / "data")
    shoal("index", tmp_path / "data", "--samples", "auto", "--resume", "-o", tmp_path / "x.cat")
    found = rows(tmp_path / "x.cat")
    assert [length for _, _, length, _ in found] == lengths * 2
    assert json.loads(shoal("info", "--json", tmp_path / "x.cat").stdout)["extents"] == len(lengths)  # equal files: stored once
    shoal("verify", "--storage", "--extents", tmp_path / "x.cat")
    assert indexed(tmp_path / "data", tmp_path / "y.cat", "--update", tmp_path / "x.cat")["not_opened"] == 2
    assert rows(tmp_path / "y.cat") == found


def test_a_full_disk_for_temporary_files_is_named_and_leaves_no_file_out(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "tmp").mkdir()
    noise = Random(5)
    (tmp_path / "data" / "a.jsonl").write_bytes(b"".join(b"x" * noise.randrange(1, 50) + b"\n" for _ in range(150_000)))
    command = "ulimit -f 256 && exec %s index %s --samples auto --keep-going --tmp-dir %s -o %s" % (
        SHOAL, tmp_path / "data", tmp_path / "tmp", tmp_path / "x.cat")
    done = subprocess.run(["bash", "-c", "trap '' XFSZ; " + command], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "cannot write a temporary file in '%s'" % (tmp_path / "tmp") in done.stderr, done.stderr
    assert not (tmp_path / "x.cat").exists()


@pytest.mark.parametrize("name, kind", [("a.jsonl", "auto"), ("a.csv", "auto"), ("a.jsonl.gz", "jsonl"), ("a.csv.gz", "csv")])
def test_compressed_text_is_not_cut_into_lines(name, kind, tmp_path):
    (tmp_path / "data").mkdir()
    text = b"".join(b'{"number": %d, "text": "%d"}\n' % (i, i * i) for i in range(3000))
    packed = gzip.compress(text)
    assert packed.count(b"\n") > 1
    (tmp_path / "data" / name).write_bytes(packed)
    done = shoal("index", tmp_path / "data", "--samples", kind, "-o", tmp_path / "x.cat")
    assert f"'{name}' is taken as one sample: it is compressed" in done.stderr
    assert rows(tmp_path / "x.cat") == [(name, 0, len(packed), 1)]


def test_names_and_lengths_that_look_like_a_compressed_file_do_not_make_one(tmp_path):
    (tmp_path / "data").mkdir()
    with tarfile.open(tmp_path / "data" / "1.tar", "w") as archive:
        member = tarfile.TarInfo("BZh91AY&SY.txt")
        archive.addfile(member)
    payload = bytes(0x088b1f)
    (tmp_path / "data" / "2.tfrecord").write_bytes(tfrecord(payload) + tfrecord(b"x"))
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert [row[:3] for row in rows(tmp_path / "x.cat")] == [
        ("1.tar", 0, 512), ("2.tfrecord", 12, len(payload)), ("2.tfrecord", 28 + len(payload), 1)]


def test_lines_of_spaces_are_no_samples(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_bytes(b' \n\t\r\n{"a": 1}\n  \n"b" \n ')
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert [row[1:3] for row in rows(tmp_path / "x.cat")] == [(5, 9), (17, 5)]


def test_a_byte_order_mark_is_part_of_no_field(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_bytes(b'\xef\xbb\xbf"a\nx",b\n1,2\n')  # the name of the first column has two lines
    (tmp_path / "data" / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n2')
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert [row[1:3] for row in rows(tmp_path / "x.cat")] == [(11, 4), (3, 9), (12, 1)]


@pytest.mark.parametrize("name, content, words", [
    ("a.csv", b"a,b\r1,2\r3,4\r", "its lines end in carriage returns alone"),
    ("a.jsonl", b'{"a": 1}\r{"b": 2}', "its lines end in carriage returns alone"),
    ("a.csv", "a,b\n\u0a0a,2\n".encode("utf-16"), "its text is UTF-16"),
    ("a.jsonl", b"\xfe\xff" + '{"a": "\u0a0a"}\n'.encode("utf-16-be"), "its text is UTF-16"),
    ("a.jsonl", '{"a": "\u0a0a"}\n'.encode("utf-16-be"), "it contains zeros, and so is no text"),
])
def test_text_that_has_no_lines_of_utf_8_is_one_sample(name, content, words, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(content)
    done = shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert words in done.stderr
    assert rows(tmp_path / "x.cat") == [(name, 0, len(content), 1)]


@pytest.mark.parametrize("name, content", [("a.csv", b"a\n1\r2\n3\r\n"), ("a.jsonl", b'1\n{"a":\r2}\n3\r')])
def test_a_carriage_return_in_a_line_does_not_end_it(name, content, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(content)
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    lines = content.split(b"\n")
    assert [length for _, _, length, _ in rows(tmp_path / "x.cat")] == (
        [len(line) + 1 for line in lines[1:3]] if name == "a.csv" else [len(lines[0]) + 1, len(lines[1]) + 1, len(lines[2])])


def masked_crc(data):
    """TFRecord's, bit by bit."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tfrecord(payload, length=None, flip=0):
    """A record; an index does not read the payload, so a long one needs no checksum of its own."""
    head = struct.pack("<Q", len(payload) if length is None else length)
    sum = masked_crc(payload) if len(payload) < 10000 else 0
    return head + struct.pack("<I", masked_crc(head) ^ flip) + payload + struct.pack("<I", sum)


def words_of(content, name, tmp_path):
    """The sentence that a bad file is refused with."""
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / name).write_bytes(content)
    done = shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and not (tmp_path / "x.cat").exists()
    assert done.stderr.count("\n") == 1 and f"'{name}': " in done.stderr
    return done.stderr.split(f"'{name}': ")[1].strip()


@pytest.mark.parametrize("content, words", [
    (tfrecord(b"abc") + tfrecord(b"def", flip=1), "the length of the record at 19 does not match its checksum"),
    (tfrecord(b"abc", length=2**63), "the record at 0 of 9223372036854775808 bytes extends past the end of the file"),
    (tfrecord(b"abc", length=2**64 - 16), "the record at 0 of 18446744073709551600 bytes extends past the end of the file"),
])
def test_a_bad_record_is_refused(content, words, tmp_path):
    assert words_of(content, "a.tfrecord", tmp_path) == words


def varint(v):
    return bytes((v >> 7 * i & 127) | 128 for i in range((max(v.bit_length(), 1) - 1) // 7)) + bytes([v >> 7 * ((max(v.bit_length(), 1) - 1) // 7)])


def parquet(groups, more=b"", column=b"", length=None, count=None):
    """A file of 100 bytes of data and groups (start, bytes, rows) of one column, with fields that are added by hand."""
    def number(v):
        return varint(v << 1)

    body = b"\x36" + number(sum(rows for *_, rows in groups) if count is None else count) + b"\x19" + bytes([len(groups) << 4 | 12])
    for start, size, nr in groups:
        body += b"\x19\x1c" + b"\x3c\x76" + number(size) + b"\x26" + number(start) + b"\0" + column + b"\0" + b"\x26" + number(nr) + b"\0"
    body += more + b"\0"
    return b"PAR1" + bytes(96) + body + struct.pack("<I", len(body) if length is None else length) + b"PAR1"


@pytest.mark.parametrize("arguments, words", [
    (dict(groups=[(4, 50, 1), (53, 10, 1)]), "sample 1 at 53 begins before the end of the one before it, at 54"),
    (dict(groups=[(4, 50, 1), (4, 50, 1)]), "sample 1 at 4 begins before the end of the one before it, at 54"),
    (dict(groups=[(4, 2**62, 1)]), "damaged footer: a column that lies outside the data at"),
    (dict(groups=[(2**62, 2**62, 1)]), "damaged footer: a column that lies outside the data at"),
    (dict(groups=[(4, 9, 2**62), (13, 9, 2**62), (22, 9, 2**62), (31, 9, 2**62), (40, 9, 2**62)], count=0),
     "damaged footer: a row group without a number of rows at"),
    (dict(groups=[(4, 9, 3)], count=4), "damaged footer: its row groups have 3 rows, but it says 4"),
    (dict(groups=[(4, 9, 1)], length=1000), "damaged footer: its length of 1000 bytes does not fit the file of"),
    (dict(groups=[(4, 9, 1)], length=2**32 - 1), "damaged footer: its length of 4294967295 bytes does not fit the file of"),
    (dict(groups=[(4, 9, 1)], more=b"\x16" + b"\xff" * 10), "damaged footer: a number that is too long at"),
    (dict(groups=[(4, 9, 1)], more=b"\x19\xfc" + b"\xff" * 8 + b"\x7f"), "damaged footer: a list that is longer than the footer at"),
    (dict(groups=[(4, 9, 1)], more=b"\x5c" + b"\x1c" * 40), "damaged footer: structures nested too deeply at"),
    (dict(groups=[(4, 9, 1)], more=b"\x4c\x1c\0\0"), "its columns are encrypted"),
    (dict(groups=[(4, 9, 1)], column=b"\x5c\x1c\0\0"), "its columns are encrypted"),
])
def test_a_footer_that_lies_is_refused(arguments, words, tmp_path):
    assert words_of(parquet(**arguments), "a.parquet", tmp_path).startswith(words)


def parquet_columns(columns, room=96):
    """A file of one group with columns (start, bytes), whose data are @room bytes."""
    def number(v):
        return varint(v << 1)

    body = b"\x36" + number(1) + b"\x19\x1c" + b"\x19\xfc" + varint(len(columns))
    for start, size in columns:
        body += b"\x3c\x76" + number(size) + b"\x26" + number(start) + b"\0\0"
    body += b"\x26" + number(1) + b"\0\0"
    return b"PAR1" + bytes(room) + body + struct.pack("<I", len(body)) + b"PAR1"


def test_columns_of_a_group_that_overlap_are_refused_in_any_order(tmp_path):
    random, overlap, nr = Random(19), {}, 0
    (tmp_path / "data").mkdir()
    for i in range(600):
        cuts = sorted(random.sample(range(4, 101), 2 * random.randint(2, 6)))
        columns = [(a, b - a) for a, b in zip(cuts[::2], cuts[1::2])]  # none overlap
        if i % 2:  # no gaps
            columns = [(a, b - a) for a, b in zip(cuts, cuts[1:])]
        if i % 3 == 0:
            at = random.randrange(len(columns))
            columns[at] = (columns[at][0] - random.randint(0, min(3, columns[at][0] - 4)), columns[at][1] + random.randint(0, 1))
        ends = sorted((start, start + size) for start, size in columns)
        columns.append((random.randint(4, 100), 0))  # a column without bytes overlaps none
        random.shuffle(columns)
        if ends[-1][1] > 100:
            continue
        overlap[f"{i:03}.parquet"] = any(a[1] > b[0] for a, b in zip(ends, ends[1:]))
        (tmp_path / "data" / f"{i:03}.parquet").write_bytes(parquet_columns(columns))
    done = shoal("index", tmp_path / "data", "--samples", "auto", "--keep-going", "-o", tmp_path / "x.cat", check=False)
    assert set(re.findall(r"damaged footer: (.*) at", done.stderr)) == {"a column that overlaps another one"}
    refused = set(overlap) - {name for name, *_ in rows(tmp_path / "x.cat")}
    assert refused == {name for name, bad in overlap.items() if bad}
    assert 50 < len(refused) < len(overlap) / 2


def test_columns_with_more_gaps_than_are_remembered_are_refused_if_they_have_too_many_bytes(tmp_path):
    apart = [(4 + 20 * i, 10) for i in range(500)]
    Random(19).shuffle(apart)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").write_bytes(parquet_columns(apart, 10000))
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert rows(tmp_path / "x.cat") == [("a.parquet", 4, 9990, 1)]
    (tmp_path / "x.cat").unlink()
    assert words_of(parquet_columns(apart * 3, 10000), "a.parquet", tmp_path).startswith("damaged footer: a column that overlaps")


def test_groups_without_rows_or_pages_are_samples_of_no_rows(tmp_path):
    """pyarrow gives an empty group no data page, whose offset is then 0."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").write_bytes(parquet([(4, 9, 3), (0, 0, 0), (13, 9, 2)]))
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    assert rows(tmp_path / "x.cat") == [("a.parquet", 4, 9, 3), ("a.parquet", 13, 0, 0), ("a.parquet", 13, 9, 2)]


def test_other_files_of_arrow_are_named_as_what_they_are(tmp_path):
    assert words_of(b"\xff" * 4 + bytes(100), "a.arrow", tmp_path).startswith("an Arrow IPC stream, which has no index")
    assert words_of(b"FEA1" + bytes(100), "a.arrow", tmp_path).startswith("a Feather file of version 1")


@pytest.mark.parametrize("arguments, words", [
    (["--samples", "parket"], "unknown kind of samples 'parket'"),
    (["--samples", "fixed:x"], "give the bytes per record"),
    (["--samples", "auto", "--no-sizes"], "--samples cannot be used with --no-sizes"),
    (["--samples", "auto", "--samples-per-file", "3"], "--samples cannot be used with --samples-per-file"),
])
def test_senseless_options_are_refused(arguments, words, data, tmp_path):
    done = shoal("index", data, "-o", tmp_path / "x.cat", *arguments, check=False)
    assert done.returncode == 2 and words in done.stderr


def test_catalogs_are_merged_with_their_extents_and_not_filtered_without(data, tmp_path):
    for name, pattern in (("1.cat", "[ab].*"), ("2.cat", "[c-f].*")):
        shoal("index", data, "--samples", "auto", "--include", pattern, "-o", tmp_path / name)
    shoal("merge", tmp_path / "1.cat", tmp_path / "2.cat", "-o", tmp_path / "x.cat")
    assert rows(tmp_path / "x.cat") == EXPECTED
    shoal("verify", tmp_path / "x.cat")
    done = shoal("filter", tmp_path / "x.cat", "--include", "*.csv", "-o", tmp_path / "y.cat", check=False)
    assert done.returncode == 1 and "where samples lie inside files, which would be lost" in done.stderr


# ------------------------------------------------------------------------------------- what has not changed


def indexed(folder, catalog, *options):
    """The counts of an index; the catalog is then compared with a fresh one."""
    counts = json.loads(shoal("index", folder, "--samples", "auto", "-q", "--json", "-o", catalog, *options).stdout)
    fresh = catalog.with_suffix(".fresh")
    shoal("index", folder, "--samples", "auto", "-q", "-o", fresh)
    assert rows(catalog) == rows(fresh)
    assert (json.loads(shoal("info", catalog, "--json").stdout)["digest"] ==
            json.loads(shoal("info", fresh, "--json").stdout)["digest"])
    shoal("verify", catalog)
    return counts


@pytest.fixture
def settled(data):
    """The same directory, with files that are older than the clock's steps."""
    settle(data)
    return data


def test_an_update_opens_no_file_that_has_not_changed(settled, tmp_path):
    old, new = tmp_path / "old.cat", tmp_path / "new.cat"
    assert indexed(settled, old)["not_opened"] == 0
    assert indexed(settled, new, "--update", old)["not_opened"] == 5  # f.txt is a sample as a whole
    assert "5 files not opened again" in shoal("index", settled, "--samples", "auto", "--update", old, "-o", new).stderr


def test_an_update_opens_what_was_rewritten_in_place_or_replaced_or_is_new(settled, tmp_path):
    old, new = tmp_path / "old.cat", tmp_path / "new.cat"
    indexed(settled, old)
    with open(settled / "a.parquet", "r+b") as same_size:
        same_size.write(b"PAR1")
    assert indexed(settled, new, "--update", old)["not_opened"] == 4
    (settled / "d.jsonl").write_text("1\n2\n3\n")  # another size, and the directory has not changed
    (settled / "g.jsonl").write_text("1\n2\n")
    (settled / "f.txt").write_text("another length")
    os.remove(settled / "e.csv")
    assert indexed(settled, new, "--update", old)["not_opened"] == 2  # b.parquet and c.arrow
    shoal("verify", "--storage", new)


def test_an_update_of_a_catalog_with_other_samples_opens_everything(settled, tmp_path):
    old, new = tmp_path / "old.cat", tmp_path / "new.cat"
    shoal("index", settled, "-q", "-o", old)
    assert indexed(settled, new, "--update", old)["not_opened"] == 0
    shoal("index", settled, "--samples", "fixed:1", "-q", "-o", old)
    assert indexed(settled, new, "--update", old)["not_opened"] == 0


def test_files_that_cannot_be_cut_are_known_as_such(tmp_path):
    numpy = pytest.importorskip("numpy")
    (tmp_path / "data").mkdir()
    numpy.savez_compressed(tmp_path / "data" / "a.npz", x=numpy.zeros((5, 4)))
    (tmp_path / "data" / "b.jsonl").write_text("1")
    settle(tmp_path / "data")
    indexed(tmp_path / "data", tmp_path / "old.cat")
    counts = indexed(tmp_path / "data", tmp_path / "new.cat", "--update", tmp_path / "old.cat")
    assert (counts["not_opened"], counts["uncut"]) == (2, 1)


def test_a_catalog_without_its_damaged_files_is_not_updated(settled, tmp_path):
    (settled / "b.parquet").write_bytes(b"PAR1 damaged PAR1")
    shoal("index", settled, "--samples", "auto", "--keep-going", "-q", "-o", tmp_path / "old.cat", check=False)
    done = shoal("index", settled, "--samples", "auto", "--update", tmp_path / "old.cat", "-o", tmp_path / "new.cat",
                 check=False)
    assert done.returncode == 1 and "1 item could not be read when it was made" in done.stderr


def test_an_interrupted_look_inside_goes_on_after_the_files_that_it_had_opened(settled, tmp_path):
    whole = (settled / "c.arrow").read_bytes()
    (settled / "c.arrow").write_bytes(whole[:-10])
    catalog = tmp_path / "out" / "x.cat"
    catalog.parent.mkdir()
    done = shoal("index", settled, "--samples", "auto", "--resume", "-o", catalog, check=False)
    assert done.returncode == 1 and "'c.arrow'" in done.stderr
    assert any(".x.cat.runs.inside-" in name for name in os.listdir(catalog.parent))
    (settled / "c.arrow").write_bytes(whole)  # of another size than was listed
    counts = indexed(settled, catalog, "--resume")
    assert (counts["resumed"], counts["not_opened"]) == (6, 2)  # a.parquet and b.parquet
    assert sorted(os.listdir(catalog.parent)) == ["x.cat", "x.fresh"]


def test_parts_that_are_not_this_users_alone_are_refused(settled, tmp_path):
    whole = (settled / "c.arrow").read_bytes()
    (settled / "c.arrow").write_bytes(whole[:-10])
    catalog = tmp_path / "x.cat"
    shoal("index", settled, "--samples", "auto", "--resume", "-o", catalog, check=False)
    (settled / "c.arrow").write_bytes(whole)
    (part,) = tmp_path.glob(".x.cat.runs.inside-*")
    other = tmp_path / "other"

    def refused(why):
        done = shoal("index", settled, "--samples", "auto", "--resume", "-o", catalog, check=False)
        assert done.returncode == 1 and f"'{part}' {why}" in done.stderr, done.stderr
        assert not catalog.exists()

    os.link(part, other)
    refused("has several names")
    part.unlink()
    part.symlink_to(other)
    refused("is a symbolic link")
    other.rename(part)
    if os.geteuid() == 0:  # only root can give a file away
        os.chown(part, 65534, 65534)
        refused("belongs to another user")
        os.chown(part, 0, 0)
    assert indexed(settled, catalog, "--resume")["not_opened"] == 2


def test_damaged_parts_of_an_interrupted_run_are_not_used(settled, tmp_path):
    whole = (settled / "c.arrow").read_bytes()
    (settled / "c.arrow").write_bytes(whole[:-10])
    catalog = tmp_path / "x.cat"
    shoal("index", settled, "--samples", "auto", "--resume", "-o", catalog, check=False)
    (part,) = tmp_path.glob(".x.cat.runs.inside-*")
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    (settled / "c.arrow").write_bytes(whole)
    assert indexed(settled, catalog, "--resume")["not_opened"] == 0


def test_verify_names_files_whose_samples_lie_elsewhere_now(data, tmp_path):
    catalog = tmp_path / "x.cat"
    shoal("index", data, "--samples", "auto", "-q", "-o", catalog)
    good = json.loads(shoal("verify", "--storage", "--extents", "--json", catalog).stdout)
    assert good[0]["storage"] == {"same": 6, "missing": 0, "new": 0, "resized": 0, "inside": 0}
    (data / "d.jsonl").write_text('{"a": 12}\n{"b": 2}')  # of the same size
    (data / "b.parquet").write_bytes(b"PAR1" + bytes((data / "b.parquet").stat().st_size - 4))
    shoal("verify", "--storage", catalog)
    done = shoal("verify", "--storage", "--extents", catalog, check=False)
    assert done.returncode == 1 and done.stdout == "inside\td.jsonl\n"
    assert "'b.parquet': not a Parquet file" in done.stderr
    assert "2 with other samples inside, 4 unchanged" in done.stderr


@pytest.mark.parametrize("kind", ["tfrecord", "npz"])
def test_verify_names_files_whose_contents_do_not_match_their_checksums(kind, tmp_path):
    (tmp_path / "data").mkdir()
    if kind == "npz":
        numpy = pytest.importorskip("numpy")
        numpy.savez(tmp_path / "data" / "a.npz", x=numpy.arange(5000.0))
        numpy.savez(tmp_path / "data" / "b.npz", x=numpy.arange(5000.0))
    else:
        for name in ("a", "b"):
            (tmp_path / "data" / f"{name}.tfrecord").write_bytes(tfrecord(b"x" * 5000) + tfrecord(b"") + tfrecord(b"y" * 4096))
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "x.cat")
    shoal("verify", tmp_path / "x.cat", "--storage", "--extents")
    path = tmp_path / "data" / f"b.{kind}"
    content = bytearray(path.read_bytes())
    content[4500] ^= 1
    path.write_bytes(content)
    shoal("index", tmp_path / "data", "--samples", "auto", "-o", tmp_path / "y.cat")  # it reads no contents
    done = shoal("verify", tmp_path / "x.cat", "--storage", "--extents", check=False)
    assert done.returncode == 1 and f"'b.{kind}': the " in done.stderr and "does not match its checksum" in done.stderr
    assert f"'a.{kind}'" not in done.stderr


def test_verify_does_not_open_what_is_missing_or_has_another_size(data, tmp_path):
    catalog = tmp_path / "x.cat"
    shoal("index", data, "--samples", "auto", "-q", "-o", catalog)
    os.remove(data / "a.parquet")
    (data / "b.parquet").write_bytes(b"PAR1")
    done = shoal("verify", "--storage", "--extents", "--json", catalog, check=False)
    assert done.returncode == 1 and "parquet" not in done.stderr
    assert json.loads(done.stdout)[0]["storage"] == {"same": 4, "missing": 1, "new": 0, "resized": 1, "inside": 0}


def test_verify_refuses_to_compare_samples_that_a_catalog_does_not_have(data, tmp_path):
    shoal("index", data, "-q", "-o", tmp_path / "x.cat")
    done = shoal("verify", "--storage", "--extents", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and "has no extents of samples inside files" in done.stderr
    done = shoal("verify", "--extents", tmp_path / "x.cat", check=False)
    assert done.returncode == 2 and "--extents is for --storage" in done.stderr


SMALL = {"parquet": "parquet/three-groups", "arrow": "arrow/three-batches"}


@pytest.mark.parametrize("kind", [*SMALL, "tar", "npz", "npy", "hdf5", "hdf5 in-chunks", "hdf5 newer-fixed", "tfrecord"])
def test_a_file_cut_at_any_byte_is_refused_in_one_sentence(kind, tmp_path):
    """The command ends with 1 and a sentence with the name, whichever byte is the last one."""
    (tmp_path / "data").mkdir()
    if kind in SMALL:
        content = (CORPUS / SMALL[kind]).read_bytes()
    elif kind == "tar":
        with tarfile.open(tmp_path / "x.tar", "w") as archive:
            for name in ("a.txt", "b.txt"):
                member = tarfile.TarInfo(name)
                member.size = 100
                archive.addfile(member, io.BytesIO(b"x" * 100))
        content = (tmp_path / "x.tar").read_bytes()[:2 * 1024]  # without the blocks of zeros behind the members
    elif kind == "npz":
        numpy = pytest.importorskip("numpy")
        numpy.savez(tmp_path / "x.npz", x=numpy.arange(6.0))
        content = (tmp_path / "x.npz").read_bytes()
    elif kind == "npy":
        numpy = pytest.importorskip("numpy")
        numpy.save(tmp_path / "x.npy", numpy.arange(6.0))
        content = (tmp_path / "x.npy").read_bytes()
    elif kind.startswith("hdf5"):
        content = (CORPUS / "hdf5" / (kind[5:] or "h5py")).read_bytes()
        kind = "hdf5"
    else:
        content = (CORPUS / "tfrecord" / "made3").read_bytes()
    for length in range(1, len(content)):
        (tmp_path / "data" / f"{length:05}.{kind}").write_bytes(content[:length])
    done = shoal("index", tmp_path / "data", "--samples", kind, "--keep-going", "--force", "--json", "-o",
                 tmp_path / "x.cat", check=False)
    counts = json.loads(done.stdout)
    assert done.returncode == 1 and counts["unreadable"] + counts["files"] == len(content) - 1
    # A tar archive, and records, may end behind any member or record; the last block of a member may be short.
    whole = {"tar": {*range(612, 1025), *range(1636, 2048)}}.get(kind, set())
    if kind == "tfrecord":
        whole = {int(name.split(".")[0]) for name, *_ in rows(tmp_path / "x.cat")}
        assert len(whole) == 2  # behind the first and the second of its three records
    elif counts["files"]:
        assert {int(name.split(".")[0]) for name, *_ in rows(tmp_path / "x.cat")} <= whole
    else:
        assert not whole


@pytest.mark.parametrize("name", ["newer-contiguous", "newer-extensible", "newer-fixed", "newer-implicit", "newer-single"])
def test_no_changed_byte_of_newer_hdf5_leads_to_other_bytes(name, tmp_path):
    """Its structures have checksums: a file with another byte is refused, or has its samples where they were."""
    content = (CORPUS / "hdf5" / name).read_bytes()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "whole").write_bytes(content)
    for at in range(len(content)):
        (tmp_path / "data" / f"{at:05}").write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1:])
    done = shoal("index", tmp_path / "data", "--samples", "hdf5", "--keep-going", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and "does not match its checksum" in done.stderr
    found = {}
    for path, *extent in rows(tmp_path / "x.cat"):
        found.setdefault(path, []).append(extent)
    assert len(found["whole"]) > 1
    for path, extents in found.items():
        assert extents in (found["whole"], [[0, len(content), 1]]), path


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("end", ["cut off", "zeros"])
def test_an_archive_that_ends_behind_a_long_name_is_refused(format, end, tmp_path):
    (tmp_path / "data").mkdir()
    with tarfile.open(tmp_path / "x.tar", "w", format=format) as archive:
        for name in ("a.txt", "b" * 200 + ".txt"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    content = (tmp_path / "x.tar").read_bytes()[:2 * 512 + 2 * 512]  # a.txt, and the header and the text of the name
    (tmp_path / "data" / "a.tar").write_bytes(content + (bytes(1024) if end == "zeros" else b""))
    for kind in ("tar", "webdataset"):
        done = shoal("index", tmp_path / "data", "--samples", kind, "-o", tmp_path / "x.cat", check=False)
        assert done.returncode == 1
        assert "'a.tar': no member, which a long name or pax header announces, at 2048" in done.stderr


@pytest.mark.parametrize("kind, content", [("jsonl", '{"a": 1}\n\n{"b": [2,\t3]}\r\n"é"'), ("csv", 'a,b\n1,"x\ny""z"\n2,\n,'),
                                           ("fixed:5", "12345" * 4)])
def test_lines_and_records_cut_at_any_byte_end_with_their_file(kind, content, tmp_path):
    """A text that was cut is a text: its last sample is shorter. In a quoted field, or in a record, it is refused."""
    content = content.encode()
    (tmp_path / "data").mkdir()
    for length in range(1, len(content) + 1):
        (tmp_path / "data" / f"{length:05}").write_bytes(content[:length])
    done = shoal("index", tmp_path / "data", "--samples", kind, "--keep-going", "--json", "-o", tmp_path / "x.cat", check=False)
    refused = {length for length in range(1, len(content) + 1) if
               (content[:length].count(b'"') % 2 if kind == "csv" else length % 5 if kind != "jsonl" else 0)}
    assert json.loads(done.stdout)["unreadable"] == len(refused)
    ends = {}
    for name, offset, length, _ in rows(tmp_path / "x.cat"):
        ends[int(name)] = offset + length
    assert not refused & set(ends)
    for name, end in ends.items():
        assert content[end:name].strip() == b""
