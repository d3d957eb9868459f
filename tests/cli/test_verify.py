"""Damage of every kind is noticed, and each kind has its own words."""

import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import pytest
import shapes
from conftest import Shoal, check_words, lines, wait_until_it_has_worked
from shoalcat import ENTRY, HEADER, Catalog, hash64

HEADER_SUM = struct.Struct("<Q")


def mend_header(image):
    """The image with a header whose checksum is right again."""
    return image[:248] + HEADER_SUM.pack(hash64(image[:248])) + image[256:]


def patched(image, offset, data):
    return image[:offset] + data + image[offset + len(data):]


def flipped(image, bit):
    return patched(image, bit // 8, bytes([image[bit // 8] ^ 1 << bit % 8]))


def small_catalog(shoal):
    """Some hundred bytes with a few segments, sizes and samples, so that most sections are there."""
    names = shapes.dlio(20, 0)[:12] + shapes.hexadecimal(8, 12) + [b"README", b"a/b", b"zz\xff"]
    return shoal.index(names, sizes=[i * i for i in range(len(names))],
                       samples=[i % 3 for i in range(len(names))]).read_bytes()


@pytest.fixture(scope="module")
def large_image(tmp_path_factory):
    """A catalog in which every section is there and NAME has several pages, with dictionaries."""
    rng = random.Random(5)
    names = sorted({b"%s.%d" % (word, i % 9) for i, word in enumerate(shapes.words(65_000, 3))})
    return Shoal(tmp_path_factory.mktemp("large")).index(
        names, sizes=[rng.randint(100_000, 500_000) for _ in names],
        samples=[rng.randint(1, 9) for _ in names]).read_bytes()


@pytest.fixture(scope="module")
def hexadecimal_image(tmp_path_factory):
    """60,000 names that are printed slower than a pipe takes them."""
    rng = random.Random(9)
    names = shapes.hexadecimal(60_000, 16)
    return Shoal(tmp_path_factory.mktemp("hexadecimal")).index(
        names, sizes=[rng.getrandbits(19) for _ in names]).read_bytes()


def sections_of(image):
    """{name: (offset, length)} of a catalog's sections."""
    end = 256 + ENTRY.size * HEADER.unpack_from(image)[13]
    return {name: (start, length) for name, start, length in ENTRY.iter_unpack(image[256:end])}


BATCH = 250  # files in a run: as many as a process may have open, and more


@pytest.fixture
def verify_images(shoal):
    """verify_images(images) is {number of image: what verify says against it}. A good image is missing there.

    The images are files in memory, and many are checked in a run: a disk takes long to make and remove thousands.
    """
    files = [os.memfd_create("image") for _ in range(BATCH)]
    paths = ["/proc/self/fd/%d" % file for file in files]

    def verify(images):
        found = {}
        for start in range(0, len(images), BATCH):
            batch = images[start:start + BATCH]
            for file, image in zip(files, batch):
                os.ftruncate(file, 0)
                os.pwrite(file, image, 0)
            result = shoal("verify", *paths[:len(batch)], pass_fds=files)
            assert result.returncode == (1 if result.stderr else 0)
            assert result.stdout == b""
            for line in lines(result.stderr):
                path, what = re.fullmatch(b"shoal verify: '([^']*)': (.*)", line).groups()
                number = start + paths.index(path.decode())
                assert number not in found, "one line for each bad file"
                found[number] = what
        return found

    yield verify
    for file in files:
        os.close(file)


# ---------------------------------------------------------------------------------------------------------- good files


def test_every_catalog_that_is_good_gets_a_line(shoal, tmp_path):
    paths = [shoal.index(names, to=tmp_path / str(i)) for i, names in enumerate(shapes.SHAPES.values())]
    told = lines(shoal.good("verify", *paths))
    assert [line.split(b": good, ")[0] for line in told] == [os.fsencode(path) for path in paths]
    assert told[0].endswith(b"digest " + shoal.info(paths[0])["digest"].encode())
    assert shoal.good("verify", "-q", *paths) == b""


@pytest.mark.parametrize("command", ["info", "ls", "verify", "order", "stat"])
def test_every_command_reports_its_costs_when_asked(shoal, command):
    result = shoal(command, shoal.index([b"a", b"b"]), "-v")
    assert result.returncode == 0
    assert re.fullmatch(rb"%s: [0-9.]+ [mu]?s, [0-9.]+ [mu]?s of CPU, at most [0-9.]+ MB of memory\n" % command.encode(),
                        result.stderr)


def test_json_tells_of_good_and_bad_files(shoal, tmp_path):
    good = shoal.index([b"a"])
    (tmp_path / "bad").write_bytes(b"no")
    result = shoal("verify", "--json", good, tmp_path / "bad", good)
    assert result.returncode == 1
    told = json.loads(result.stdout)
    assert [entry["file"] for entry in told] == [str(good), str(tmp_path / "bad"), str(good)]
    assert [entry["good"] for entry in told] == [True, False, True]
    assert told[0]["damage"] is None and "not a catalog" in told[1]["damage"]


def test_json_is_json_also_for_file_names_that_are_not_text(shoal, tmp_path):
    bad = os.fsencode(tmp_path) + b"/caf\xe9"
    with open(bad, "wb") as file:
        file.write(b"no")
    good = shoal.index([b"a"], to=tmp_path / "good")
    result = shoal("verify", "--json", bad, good)
    told = json.loads(result.stdout)
    assert len(told) == 2
    assert [entry["good"] for entry in told] == [False, True]


def test_every_bad_file_is_told_not_only_the_first(shoal, tmp_path):
    good = shoal.index([b"a"])
    for name in ("x", "y"):
        (tmp_path / name).write_bytes(b"nothing")
    result = shoal("verify", tmp_path / "x", good, tmp_path / "missing", tmp_path / "y")
    assert result.returncode == 1
    said = lines(result.stderr)
    assert [path in line for path, line in zip((b"/x'", b"/missing'", b"/y'"), said)] == [True] * 3


# ----------------------------------------------------------------------------------------------- every place of damage


def test_every_truncation_is_told(shoal, verify_images):
    image = small_catalog(shoal)
    assert len(image) < 2500
    found = verify_images([image[:cut] for cut in range(len(image))])
    assert sorted(found) == list(range(len(image)))
    assert b"empty file" in found[0]
    for cut in range(1, len(image)):
        assert b"truncated catalog" in found[cut], cut
    for cut in range(256, len(image)):
        assert b"%d of %d bytes" % (cut, len(image)) in found[cut]


def test_every_flipped_bit_is_told(shoal, verify_images):
    image = small_catalog(shoal)
    found = verify_images([flipped(image, bit) for bit in range(8 * len(image))])
    missed = sorted(set(range(8 * len(image))) - set(found))
    assert missed == []
    for bit in range(64):
        assert b"not a catalog" in found[bit]
    for bit in range(64, 8 * 256):
        assert b"damaged catalog: header checksum" in found[bit]
    for bit in range(8 * 256, 8 * len(image)):
        assert b"damaged catalog" in found[bit]


def test_every_flipped_bit_of_a_pattern_catalog_is_told(shoal, verify_images):
    image = shoal.pattern("d/f{:03d}", 100, "--subfolders", 7).read_bytes()
    found = verify_images([flipped(image, bit) for bit in range(8 * len(image))])
    assert len(found) == 8 * len(image)


def test_bytes_after_the_end_are_told(shoal, verify_images):
    image = small_catalog(shoal)
    found = verify_images([image + b"\0" * more for more in (1, 8, 24, 5000)] + [image + image])
    assert len(found) == 5
    for what in found.values():
        assert b"but its header says %d" % len(image) in what


def test_damage_is_named_by_section_and_offset(large_image, verify_images):
    places = []
    for name, (start, length) in sections_of(large_image).items():
        # The first and last byte of the section, and both sides of the end of its first page.
        for offset in {0, length // 2, length - 1, 16383, 16384} & set(range(length)):
            places.append((name, start, offset))
    assert {name for name, _, _ in places} >= {b"ROOT", b"NAME", b"NDIR", b"DICT", b"DTAB", b"SZRN", b"SZBK", b"SZDT",
                                               b"SMRN", b"SMBK", b"SMDT"}
    found = verify_images([flipped(large_image, 8 * (start + offset) + 3) for _, start, offset in places])
    for number, (name, start, offset) in enumerate(places):
        page = offset // 16384 * 16384
        if name == b"ROOT":  # this one is looked at when the file is opened
            assert b"section ROOT" in found[number]
        else:
            assert b"section %s, offset %d (byte %d of the file)" % (name, page, start + page) in found[number]


def test_damage_at_the_root_is_named_by_offset_too(shoal, verify_images):
    image = small_catalog(shoal)
    start, _ = sections_of(image)[b"ROOT"]
    found = verify_images([flipped(image, 8 * start)])
    assert b"section ROOT, offset 0 (byte %d of the file)" % start in found[0]


def test_damage_in_the_tables_is_named(shoal, verify_images):
    image = small_catalog(shoal)
    sums_offset = HEADER.unpack_from(image)[17]
    found = verify_images([flipped(image, 8 * 256), flipped(image, 8 * sums_offset)])
    assert b"section table" in found[0]
    assert b"page checksums at offset %d" % sums_offset in found[1]


@pytest.mark.parametrize("command", [["info"], ["ls"], ["ls", "--id", "0"], ["ls", "--prefix", "a"], ["find", "a"],
                                     ["order"], ["order", "--names"], ["verify"]])
def test_no_command_uses_a_damaged_header(shoal, fails, tmp_path, command):
    path = tmp_path / "c"
    path.write_bytes(flipped(small_catalog(shoal), 8 * 40))
    fails(shoal(command[0], path, *command[1:]), 1, "damaged catalog: header checksum does not match")


@pytest.mark.parametrize("command", [["ls"], ["ls", "--id", "20000"], ["ls", "--prefix", "lib"], ["find", "lib/a-1"],
                                     ["order", "--names"]])
def test_no_command_uses_a_damaged_page_of_names(shoal, large_image, tmp_path, command):
    path = tmp_path / "c"
    image = bytearray(large_image)
    start, length = sections_of(large_image)[b"NAME"]
    for offset in range(100, length, 5000):
        image[start + offset] ^= 64
    path.write_bytes(image)
    result = shoal(command[0], path, *command[1:])
    assert result.returncode == 1
    assert len(lines(result.stderr)) == 1
    assert b"damaged catalog: section NAME, offset" in result.stderr


def test_a_damaged_page_does_no_harm_to_what_lies_elsewhere(shoal, large_image, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(large_image)
    info = shoal.info(path)
    first = shoal.names(path, "--limit", 5)
    start, length = sections_of(large_image)[b"NAME"]
    path.write_bytes(flipped(large_image, 8 * (start + length - 1)))
    assert shoal.info(path) == info
    assert shoal.names(path, "--limit", 5) == first
    assert b"section NAME" in shoal("verify", path).stderr


# ------------------------------------------------------------------------------------------------- files of other kinds


@pytest.mark.parametrize("content, words", [
    (b"", "empty file, not a catalog"),
    (b"\n", "not a catalog"),
    (b"a\nb\nc\n", "not a catalog"),
    (b"\x89PNG\r\n\x1a\n" + b"\0" * 1000, "not a catalog"),
    (b"\0" * 4096, "not a catalog"),
    (b"\x89SHOAL\n\n" + b"\0" * 1000, "not a catalog"),
    (b"\x89", "truncated catalog: only 1 bytes"),
    (b"\x89SHOAL\r\n", "truncated catalog: only 8 bytes"),
    (b"\x89SHOAL\r\n" + b"\0" * 1000, "damaged catalog: header checksum"),
])
@pytest.mark.parametrize("command", ["verify", "info", "ls", "order"])
def test_files_that_are_no_catalogs_have_their_own_words(shoal, fails, tmp_path, command, content, words):
    (tmp_path / "c").write_bytes(content)
    fails(shoal(command, tmp_path / "c"), 1, "/c': " + words)


@pytest.mark.parametrize("offset, data, words", [
    (8, struct.pack("<I", 2), "newer Shoal (format version 2"),
    (8, struct.pack("<I", 2**32 - 1), "newer Shoal (format version 4294967295"),
    (16, struct.pack("<I", 4), "feature bits 0x4"),
    (16, struct.pack("<I", 1 << 31), "feature bits 0x80000000"),
])
@pytest.mark.parametrize("command", ["verify", "info", "ls", "order"])
def test_a_catalog_of_a_newer_version_is_refused_as_newer(shoal, fails, tmp_path, command, offset, data, words):
    (tmp_path / "c").write_bytes(mend_header(patched(small_catalog(shoal), offset, data)))
    fails(shoal(command, tmp_path / "c"), 1, words, "newer", "reads version 1")


def test_a_newer_version_of_another_length_is_newer_and_not_truncated(shoal, fails, tmp_path):
    image = patched(small_catalog(shoal), 8, struct.pack("<I", 2))
    (tmp_path / "c").write_bytes(mend_header(patched(image, 24, struct.pack("<Q", 10**9))))
    fails(shoal("verify", tmp_path / "c"), 1, "newer Shoal")


def test_version_0_is_not_called_newer(shoal, tmp_path):
    (tmp_path / "c").write_bytes(mend_header(patched(small_catalog(shoal), 8, struct.pack("<I", 0))))
    result = shoal("verify", tmp_path / "c")
    assert result.returncode == 1
    assert b"newer" not in result.stderr


def test_features_that_a_reader_may_ignore_and_reserved_bytes_are_ignored(shoal, tmp_path):
    image = small_catalog(shoal)
    for offset in (21, 108, 144, 247):
        (tmp_path / "c").write_bytes(mend_header(patched(image, offset, b"\x01")))
        assert shoal.good("verify", "-q", tmp_path / "c") == b""


@pytest.mark.parametrize("offset, value, words", [
    (12, struct.pack("<I", 257), "header fields"),
    (32, struct.pack("<Q", 0), "damaged catalog"),
    (32, struct.pack("<Q", 22), "damaged catalog"),
    (32, struct.pack("<Q", 24), "damaged catalog"),
    (32, struct.pack("<Q", 2**64 - 1), "damaged catalog"),
    (40, struct.pack("<Q", 1), "samples"),
    (48, struct.pack("<Q", 1), "inconsistent counts"),
    (48, struct.pack("<Q", 10**4), "sizes add up to"),
    (48, struct.pack("<Q", 2**64 - 1), "damaged catalog"),
    (56, struct.pack("<Q", 1), "damaged catalog"),
    (64, b"\xff", "digest"),
    (80, b"\x55\x55", "digest"),
    (96, struct.pack("<I", 0), "damaged catalog"),
    (96, struct.pack("<I", 10**6), "damaged catalog"),
    (100, struct.pack("<I", 13), "header fields"),
    (104, struct.pack("<I", 1), "damaged catalog"),
    (104, struct.pack("<I", 5000), "damaged catalog"),
    (112, struct.pack("<Q", 0), "damaged catalog"),
])
def test_a_header_that_lies_with_a_good_checksum_is_damaged(shoal, fails, tmp_path, offset, value, words):
    image = patched(small_catalog(shoal), offset, value)
    (tmp_path / "c").write_bytes(mend_header(image))
    fails(shoal("verify", tmp_path / "c"), 1, words, "damaged")


@pytest.mark.parametrize("make, words", [
    (lambda path: path.mkdir(), "it is a directory, not a file"),
    (lambda path: os.mkfifo(path), "it is a device or pipe, not a file"),
    (lambda path: path.symlink_to("/dev/zero"), "it is a device or pipe, not a file"),
    (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    (lambda path: None, "No such file or directory"),
])
@pytest.mark.parametrize("command", ["verify", "info", "ls", "order"])
def test_what_is_no_file_is_refused_at_once(shoal, fails, tmp_path, command, make, words):
    make(tmp_path / "c")
    fails(shoal(command, tmp_path / "c"), 1, "/c': ", words)


# ---------------------------------------------------------------------------------------------------------- shrinking


SHRINKING = {
    "ls": ["ls"],
    "ls --sizes": ["ls", "--sizes"],
    "order --names": ["order", "--names", "--batch", 1000],
}


@pytest.mark.parametrize("length", [0, 5000, 65536])
@pytest.mark.parametrize("command", SHRINKING)
def test_a_file_that_shrinks_under_a_command_ends_it_with_a_sentence(shoal, hexadecimal_image, tmp_path, command, length):
    path = tmp_path / "c"
    path.write_bytes(hexadecimal_image)
    name, *options = SHRINKING[command]
    with shoal.start(name, path, *options, stdin=subprocess.DEVNULL) as process:
        process.stdout.read(1000)  # so it runs, and stops when the pipe is full
        os.truncate(path, length)
        rest, said = process.communicate(timeout=60)
    assert process.returncode == 1, (process.returncode, said)
    assert len(lines(said)) == 1
    assert b"shrank" in said or b"changed from" in said
    assert len(rest) < 17 * 60_000, "it did not print names that are not there"


def test_a_file_that_is_replaced_under_a_command_is_read_to_its_end(shoal, hexadecimal_image, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(hexadecimal_image)
    whole = shoal.good("ls", path)
    with shoal.start("ls", path, stdin=subprocess.DEVNULL) as process:
        first = process.stdout.read(1000)
        shoal.index([b"other"], to=path)
        rest, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
    assert first + rest == whole


def test_the_second_reader_tells_the_same_kinds_of_damage(shoal, tmp_path):
    """So that a flip that verify sees is not one that only verify sees."""
    image = small_catalog(shoal)
    Catalog(image).check()
    result = shoal("verify", tmp_path / "missing")
    check_words(result, 1, "No such file or directory")
    for bit in range(0, 8 * len(image), 37):
        with pytest.raises(Exception, match="damaged|not a catalog|newer|truncated|bytes after"):
            Catalog(flipped(image, bit)).check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_it_reads_a_catalog_of_very_many_names(shoal, tmp_path, number):
    """A few hundred bytes can name any number of files: to check them takes seconds to minutes, before anything is compared."""
    shoal.good("index", "--pattern", "f{:012d}", "--count", 5 * 10**7, "--root", tmp_path, "-q", "-o", tmp_path / "c")
    process = shoal.start("verify", "--storage", tmp_path / "c")
    end = time.monotonic() + 60
    while "c" not in [os.path.basename(line.split()[-1]) for line in open(f"/proc/{process.pid}/maps")]:
        assert process.poll() is None and time.monotonic() < end
    wait_until_it_has_worked(process)  # it has opened the catalog: now it reads it
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == -number


@pytest.mark.parametrize("offset", [40, 48], ids=["samples", "bytes"])
def test_a_catalog_without_files_that_claims_contents_is_refused(shoal, tmp_path, offset):
    golden = pathlib.Path(__file__).resolve().parents[1] / "golden" / "good-v1-empty.cat"
    shoal.good("verify", golden)
    (tmp_path / "c").write_bytes(mend_header(patched(golden.read_bytes(), offset, (5).to_bytes(8, "little"))))
    check_words(shoal("verify", tmp_path / "c"), 1, "inconsistent counts")
