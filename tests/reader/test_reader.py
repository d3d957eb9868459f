"""Tests the reader on files that make.py wrote, good ones and broken ones. No other program is needed."""

import hashlib
import itertools
import os
import random
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import make  # noqa: E402
import shoalcat  # noqa: E402
from make import decimal, elias_fano, fixed, front, grid, linear, varint  # noqa: E402
from shoalcat import Catalog, Damaged  # noqa: E402

DIGITS = [(0x30, 0x39)]
HEX = [(0x30, 0x39), (0x61, 0x66)]


def hex_names(nr, length, prefix=b"", suffix=b""):
    """Names that look random and are the same in each run."""
    texts = {hashlib.sha512(b"%d" % i).hexdigest()[:length].encode() for i in range(nr)}
    return sorted(prefix + text + suffix for text in texts)


def damage(data):
    """What check() says against a file; None when it is good."""
    try:
        Catalog(data).check()
    except Damaged as error:
        return str(error)
    return None


def contents(data):
    catalog = Catalog(data)
    sizes = catalog.sizes()
    return list(catalog.names()), None if sizes is None else list(sizes), list(catalog.samples()), catalog.root


# ----------------------------------------------------------------------------------------------- segments that are fine

WORDS = sorted({b"alpha", b"alphabet", b"beta", b"b", b"gamma/x.tar", b"gamma/y.tar", b"\xff\x01", "naïve".encode()})


def low_bits(l):
    return lambda xs, width: elias_fano(xs, width, l)


def grid_one():
    return grid([b"a-%03d.tar" % i for i in range(5, 65, 3)], [(2, 3)], [(20, [3])])


def grid_two():
    # The number within the directory starts again at 0 in each: a negative step would be one more dimension's delta.
    names = [b"d%02d/f%04d" % (d, f) for d in range(4) for f in range(10, 15)]
    return grid(names, [(1, 2), (2, 4)], [(5, [0, 1]), (4, [1, 0])])


def grid_three():
    # A field with a total goes on falling while others rise, as in part-00001-of-9, and two fields touch.
    names = [b"e%d%02d-%02d-%02d" % (a, b, c, 99 - c) for a in range(2) for b in range(3) for c in range(4)]
    return grid(names, [(1, 1), (0, 2), (1, 2), (1, 2)],
                [(4, [0, 0, 1, -1]), (3, [0, 1, 0, 0]), (2, [1, 0, 0, 0])])


def fixed_two_limbs(coding=elias_fano):
    # 20 hexadecimal digits are 80 bits, too many for a limb, so they are two; the dash between is in neither.
    names = [text[:9] + b"-" + text[9:] + b".jpg" for text in hex_names(300, 20)]
    return fixed(names, [[(0, 9, HEX)], [(1, 11, HEX)]], coding)


def fixed_odd_radix():
    # Radix 3 · 3 · 7 = 63, so a limb of 6 bits; its two parts have bytes between them.
    names = [b"%c%c--%d" % (a, b, d) for a in b"ACd" for b in b"ACd" for d in range(2, 9)]
    return fixed(names, [[(0, 2, [(65, 65), (67, 67), (100, 100)]), (2, 1, [(0x32, 0x38)])]], linear)


def fixed_counting_to(last):
    """1024 names, with an h of last."""
    return fixed([b"%04d" % i for i in [*range(1023), last]], [[(0, 4, DIGITS)]], low_bits(0))


GOOD_SEGMENTS = {
    "a GRID of one dimension": grid_one,
    "a GRID of two dimensions": grid_two,
    "a GRID of three dimensions": grid_three,
    "a GRID of one name": lambda: grid([b"7"], [(0, 1)], [(1, [-3])]),
    "a GRID of the widest fields": lambda: grid([b"%018d" % (10**18 - 4 + i) for i in range(4)], [(0, 18)], [(4, [1])]),
    "FIXED with LINEAR values": lambda: fixed([b"x%02d" % i for i in range(3, 99, 4)], [[(1, 2, DIGITS)]], linear),
    "FIXED with ELIAS-FANO values": lambda: fixed(hex_names(200, 8, b"h"), [[(1, 8, HEX)]]),
    "FIXED with two limbs": fixed_two_limbs,
    "FIXED with more than 64 low bits": lambda: fixed_two_limbs(low_bits(71)),
    "FIXED with values of 512 bits": lambda: fixed(hex_names(50, 128), [[(0, 16, HEX)]] * 8),
    "FIXED with a radix of no power of two": fixed_odd_radix,
    "FIXED with a limb of exactly 2^64": lambda: fixed(hex_names(9, 16), [[(0, 16, HEX)]], low_bits(60)),
    "FIXED with 511 low bits": lambda: fixed(hex_names(50, 128), [[(0, 16, HEX)]] * 8, low_bits(511)),
    "FIXED with 64 limbs": lambda: fixed(hex_names(50, 64), [[(0, 1, HEX)]] * 64),
    "FIXED with 128 parts": lambda: fixed(hex_names(50, 128), [[(0, 1, HEX)] * 16] * 8),
    "FIXED with values of 1 bit": lambda: fixed([b"a", b"b"], [[(0, 1, [(97, 98)])]]),
    "FIXED with ones and zeros arrays": lambda: fixed(hex_names(3000, 5), [[(0, 5, HEX)]], low_bits(8)),
    "FIXED with zeros but no ones": lambda: fixed(hex_names(100, 6), [[(0, 6, HEX)]], low_bits(11)),
    "FIXED with ones and an h of 0": lambda: fixed([b"%04d" % i for i in range(2100)], [[(0, 4, DIGITS)]],
                                                   low_bits(13)),
    "FIXED with count + h of 2048, so no arrays": lambda: fixed_counting_to(1024),
    "FIXED with count + h of 2049, so arrays": lambda: fixed_counting_to(1025),
    "FIXED of one name": lambda: fixed([b"q7"], [[(1, 1, DIGITS)]]),
    "DECIMAL without a suffix": lambda: decimal(b"n", range(131), b"", 130),
    "DECIMAL with a suffix below 0": lambda: decimal(b"n", range(131), b".tar", 130),
    "DECIMAL with a suffix above 9": lambda: decimal(b"n", range(131), b"_x", 130),
    "DECIMAL with holes": lambda: decimal(b"", [n for n in range(1500) if n * n % 7 == 2], b".", 2000, elias_fano),
    "DECIMAL with holes and a suffix above 9": lambda: decimal(b"1", [n for n in range(1500) if n * n % 7 == 2], b"a",
                                                               1499, elias_fano),
    "DECIMAL with the largest max": lambda: (
        [b"0", b"100000000000000000", b"100000000000000001", b"100000000000000002"],
        decimal_of(4, b"0", 0, 0, 10**18 - 1, elias_fano([0, *range(18, 21)], 64, 0))),
    "DECIMAL with 63 low bits": lambda: decimal(b"n", [3, 5, 131], b"", 200, low_bits(63)),
    "DECIMAL with a stride": lambda: decimal(b"p", [int(t) for t in make.decimal_list(99, b"")[4::7]], b"", 99),
    "DECIMAL of one name, number 0": lambda: decimal(b"", [0], b"", 0),
    "FRONT not compressed": lambda: front(WORDS),
    "FRONT of one name": lambda: front([b"only"]),
    "FRONT of one name, compressed": lambda: front([b"only"], compressed=True),
    "FRONT compressed": lambda: front(hex_names(60, 7, b"some/dir/"), compressed=True),
    "FRONT of 1024 names": lambda: front(hex_names(1024, 9), compressed=True),
    "FRONT with the longest names": lambda: front([b"x" * 4095 + b"a", b"x" * 4095 + b"b"]),
}


@pytest.mark.parametrize("make_segment", GOOD_SEGMENTS.values(), ids=GOOD_SEGMENTS.keys())
def test_a_segment_gives_back_its_names(make_segment):
    names, payload = make_segment()
    data = make.catalog([(names, payload)])
    assert damage(data) is None
    catalog = Catalog(data)
    assert list(catalog.names()) == names
    assert catalog.name(len(names) - 1) == names[-1]
    assert catalog.sizes() is None
    assert catalog.segment_kind(0) == "GRID FIXED DECIMAL FRONT".split()[payload[0] - 1]


def mixed_segments():
    """One of each kind, in order of their names."""
    return [
        grid([b"a%02d" % i for i in range(4)], [(1, 2)], [(4, [1])]),
        fixed([b"b%d%d" % (i, i) for i in range(1, 9)], [[(1, 2, DIGITS)]], elias_fano),
        decimal(b"c", range(12), b"_", 11),
        front([b"da", b"dab", b"db"]),
        front([b"e/%d/file" % i for i in range(1, 4)], compressed=True),
    ]


SMALL_SIZES = [("constant", 5, 1000), ("blocks", [7, 9, 2**40, 8, 0]), ("constant", 20, 3)]
SMALL_SAMPLES = [("blocks", list(range(30)))]


def small_file(**options):
    return make.catalog(mixed_segments(), **{"sizes": SMALL_SIZES, "samples": SMALL_SAMPLES, **options})


def test_all_kinds_together_give_back_names_sizes_samples_and_root():
    data = small_file()
    assert damage(data) is None
    names = [name for segment, _ in mixed_segments() for name in segment]
    assert names == sorted(names) and len(names) == 30
    assert contents(data) == (names, make.column_values(SMALL_SIZES), list(range(30)), b"file:///data/")
    catalog = Catalog(data)
    assert [catalog.name(i) for i in reversed(range(30))] == names[::-1]
    with pytest.raises(IndexError):
        catalog.name(30)


def many_names(nr):
    return front([b"%05d" % i for i in range(nr)][:1024]) if nr <= 1024 else \
        grid([b"%05d" % i for i in range(nr)], [(0, 5)], [(nr, [1])])


RANDOM = random.Random(1)
COLUMNS = {
    "one constant": [("constant", 700, 12)],
    "constants next to each other": [("constant", 1, 5), ("constant", 698, 5), ("constant", 1, 0)],
    "full blocks and a short one": [("blocks", [RANDOM.randrange(5000) for _ in range(700)])],
    "just full blocks": [("blocks", [RANDOM.randrange(9) for _ in range(512)]), ("constant", 188, 2**40)],
    "blocks of width 0": [("blocks", [77] * 700)],
    "blocks of width 64": [("blocks", [2**64 - 2] + [0] * 699)],
    "both kinds by turns": [("constant", 100, 1), ("blocks", list(range(300))), ("constant", 1, 2**63),
                            ("blocks", [5, 6] * 149), ("blocks", [1])],
    "only zeros": [("constant", 700, 0)],
}


@pytest.mark.parametrize("runs", COLUMNS.values(), ids=COLUMNS.keys())
def test_a_column_gives_back_its_values(runs):
    data = make.catalog([many_names(700)], sizes=runs, samples=runs)
    assert damage(data) is None
    _, sizes, samples, _ = contents(data)
    assert sizes == samples == make.column_values(runs)


@pytest.mark.parametrize("others", [[(0, 4)], [(0, 0), (7, 2**64 - 300), (99, 9)], [(i, i) for i in range(100) if i != 50]])
def test_a_sparse_block_gives_back_its_values(others):
    column = shoalcat.Column("XG", *make.sparse_column(100, 1, others), 100, True)
    want = [dict(others).get(i, 1) for i in range(100)]
    assert list(column.values()) == want and column.check() == sum(want)
    with pytest.raises(Damaged, match="has a width of 1"):
        list(shoalcat.Column("XG", *make.sparse_column(100, 1, others), 100).values())  # the header has no bit for it


@pytest.mark.parametrize("others, words", [
    ([], "has a width of 0"), ([(100, 5)], "position outside"), ([(7, 5), (7, 5)], "positions that do not rise"),
    ([(8, 5), (7, 5)], "positions that do not rise"),
])
def test_a_broken_sparse_block_is_refused(others, words):
    with pytest.raises(Damaged, match=words):
        list(shoalcat.Column("XG", *make.sparse_column(100, 1, others), 100, True).values())


@pytest.mark.parametrize("cut", range(5))
def test_a_sparse_block_that_the_end_of_its_section_cuts_is_refused(cut):
    runs, blocks, data = make.sparse_column(100, 1, [(3, 5), (4, 7)])
    with pytest.raises(Damaged, match="sparse block"):
        list(shoalcat.Column("XG", runs, blocks, data[:cut], 100, True).values())


def test_samples_per_file_come_from_the_header_when_it_gives_them():
    catalog = Catalog(make.catalog([many_names(9)], samples=128))
    catalog.check()
    assert list(catalog.samples()) == [128] * 9
    assert catalog.header.nr_samples == 9 * 128


def test_dictionaries_serve_the_segments_from_their_first_on():
    ends = b"/images/validation/left-camera.jpeg"
    groups = [hex_names(80, 10, b"%d/" % i, ends) for i in range(5)]
    trained = make.train_dictionary([make.front_raw(hex_names(9, 10, b"%d/" % i, ends)[i % 8:]) for i in range(500)])
    assert trained[:4] == b"\x37\xa4\x30\xec"  # a whole zstd dictionary
    raw = b"any bytes can be a dictionary too" + ends
    segments = [front(groups[0], True), front(groups[1], True, raw), front(groups[2], True),
                front(groups[3], True, trained), front(groups[4], True, trained)]
    for raw_first in (0, 1):
        data = make.catalog(segments, dictionaries=[(raw_first, raw), (3, trained)])
        assert damage(data) is None
        assert list(Catalog(data).names()) == sum(groups, [])
    for raw_first, trained_first in [(0, 1), (2, 3), (1, 4)]:  # one takes over too early, or starts too late
        assert damage(make.catalog(segments, dictionaries=[(raw_first, raw), (trained_first, trained)])) is not None


@pytest.mark.parametrize("second, words", [
    ((1, 8, 8), None),
    ((1, 9, 7), None),  # a gap
    ((1, 16, 0), None),
    ((1, 7, 8), "dictionaries overlap at 7"),
    ((1, 0, 8), "dictionaries overlap at 0"),
])
def test_dictionaries_do_not_overlap(second, words):
    sections, fields = make.parts([many_names(2)])
    sections[b"DICT"], sections[b"DTAB"] = bytes(16), struct.pack("<QQQ", 0, 0, 8) + struct.pack("<QQQ", *second)
    said = damage(make.assemble([section for section in sections.items() if section[1]], **fields))
    assert said == (words and "damaged: " + words)


@pytest.mark.parametrize("length", [2**20, 2**20 + 1])
def test_a_dictionary_has_at_most_a_mebibyte(length):
    said = damage(make.catalog([many_names(2)], dictionaries=[(0, bytes(length))]))
    assert said == (None if length == 2**20 else f"damaged: a dictionary has {length} bytes")


def test_sections_longer_than_a_page_have_a_sum_for_each_page():
    names = hex_names(1000, 60)
    data = make.catalog([front(names[:500]), front(names[500:])])
    catalog = Catalog(data)
    assert len(catalog.sections[b"NAME"]) > 3 * 16384
    catalog.check()
    assert len(data) - catalog.header.sums_offset == 8 * (1 + 4 + 1)  # ROOT, NAME, NDIR


@pytest.mark.parametrize("samples_per_file", [0, 7])
@pytest.mark.parametrize("nr_bytes, sizes", [(0, []), (make.UNKNOWN, None)])
def test_a_catalog_of_no_files_is_good(nr_bytes, sizes, samples_per_file):
    catalog = Catalog(make.assemble([(b"ROOT", b"s3://b/")], nr_bytes=nr_bytes, samples_per_file=samples_per_file,
                                    key_skip=9))
    catalog.check()
    assert list(catalog.names()) == list(catalog.samples()) == []
    assert (None if catalog.sizes() is None else list(catalog.sizes())) == sizes
    assert catalog.find(b"a") is None


def test_a_catalog_of_no_files_has_no_runs_and_no_root_is_damage():
    run = make.column([("constant", 1, 1)])[0]
    for name, fields in [(b"SZRN", {}), (b"SZRN", {"nr_bytes": make.UNKNOWN}), (b"SMRN", {}),
                         (b"SMRN", {"samples_per_file": 2})]:
        said = damage(make.assemble([(b"ROOT", b"r"), (name, run)], **fields))
        assert said.startswith("damaged: " + name[:2].decode())
    assert damage(make.assemble([])) == "damaged: the root has 0 bytes"


def test_a_few_bytes_may_stand_for_2_to_the_60_names():
    # GRID and LINEAR values, with constant sizes and samples: nothing here may grow with the number of names.
    nr = 2**59
    first = b"a" + b"0" * 18
    payloads = [payload(1, nr, first, b"\1\1\x12" + b"\1" + varint(nr) + b"\2"),  # a field; a dimension, delta 1
                decimal_of(nr, b"b0", 1, 0, 10**18 - 1, b"\0\0\1")]
    directory = struct.pack("<6Q", 0, 0, make.key(first, 0), nr, len(payloads[0]), make.key(b"b0", 0))
    runs = struct.pack("<QQQII", 0, 0, 3, 0, 0)
    data = make.assemble([(b"ROOT", b"r"), (b"NAME", b"".join(payloads)), (b"NDIR", directory), (b"SZRN", runs),
                          (b"SMRN", runs)], nr_files=2 * nr, nr_bytes=6 * nr, nr_samples=6 * nr)
    assert len(data) < 1024
    catalog = Catalog(data)
    assert catalog.name(nr - 1) == b"a%018d" % (nr - 1)
    assert catalog.name(nr) == b"b0" and catalog.name(nr + 2) == b"b10"
    assert next(catalog.sizes()) == next(catalog.samples()) == 3
    for id_ in (0, 12345, nr - 1, nr, nr + 6, 2 * nr - 1):
        assert catalog.find(catalog.name(id_)) == id_
    assert catalog.find(b"b") is None


def test_unknown_sections_compat_bits_and_reserved_fields_are_ignored():
    sections, fields = make.parts(mixed_segments())
    extra = [(b"XTRA", b"whatever" * 5000)]
    data = bytearray(make.assemble(extra + list(sections.items()), compat=0x80000002, **fields))
    data[108] = data[140] = data[247] = 1  # reserved
    data[256 + 4] = 1  # in the table's first entry
    data[128:136] = struct.pack("<Q", make.xxh3(bytes(data[256:256 + 24 * (1 + len(sections))])))
    data[248:256] = struct.pack("<Q", make.xxh3(bytes(data[:248])))
    assert damage(data) is None


def test_a_path_is_read_as_well_as_bytes(tmp_path):
    (tmp_path / "x").write_bytes(small_file())
    for path in (tmp_path / "x", str(tmp_path / "x")):
        Catalog(path).check()


# -------------------------------------------------------------------------------------------------------------- digest


def test_the_digest_does_not_depend_on_segments_or_root():
    names = [b"a%02d" % i for i in range(10)]
    one = make.catalog([grid(names, [(1, 2)], [(10, [1])])], sizes=[("constant", 10, 4)])
    two = make.catalog([front(names[:3]), front(names[3:])], sizes=[("blocks", [4] * 10)],
                       samples=[("constant", 10, 1)], root=b"other")
    assert Catalog(one).digest == Catalog(two).digest
    other = make.catalog([front(names)], sizes=[("constant", 9, 4), ("constant", 1, 5)])
    assert Catalog(one).digest != Catalog(other).digest


def test_the_digest_is_printed_high_half_first():
    catalog = Catalog(small_file())
    stored = catalog.data[80:96]
    assert catalog.digest == stored[8:][::-1].hex() + stored[:8][::-1].hex()


def test_lanes_of_parts_combine():
    files = [(b"%d" % i, i, 1) for i in range(100, 130)]
    for at in (0, 1, 17, 30):
        a, b, both = make.lanes(files[:at]), make.lanes(files[at:]), make.lanes(files)
        for lane, factor in ((0, shoalcat.R0), (1, shoalcat.R1)):
            assert (a[lane] * pow(factor, 30 - at, shoalcat.P) + b[lane]) % shoalcat.P == both[lane]


# ------------------------------------------------------------------------------------------------------- DECIMAL ranks


@pytest.mark.parametrize("suffix", [b"", b".tar", b"_"], ids=["no suffix", "below 0", "above 9"])
def test_ranks_of_numbers_agree_with_sorting_them(suffix):
    for top in itertools.chain(range(0, 130), (199, 200, 989, 999, 1000, 1001, 1099, 1100, 2345)):
        order = shoalcat.DecimalOrder(top, children_first=suffix > b"9")
        numbers = [int(text[:len(text) - len(suffix)]) for text in make.decimal_list(top, suffix)]
        assert [order.rank(number) for number in numbers] == list(range(top + 1))
        assert [order.number(rank) for rank in range(top + 1)] == numbers


@pytest.mark.parametrize("children_first", [False, True])
def test_ranks_of_large_numbers_go_both_ways_and_keep_order(children_first):
    rng = random.Random(2)
    for top in (10**18 - 1, 10**17, 10**17 - 1, 123456789012345678, 10**9 + 7):
        order = shoalcat.DecimalOrder(top, children_first)
        numbers = {0, 1, 9, 10, top} | {rng.randrange(min(top + 1, 10**rng.randrange(1, 19))) for _ in range(300)}
        in_order = sorted(numbers, key=lambda number: b"%d%s" % (number, b"_" if children_first else b""))
        ranks = [order.rank(number) for number in in_order]
        assert all(a < b for a, b in zip(ranks, ranks[1:]))
        assert 0 <= ranks[0] and ranks[-1] <= top
        assert [order.number(rank) for rank in ranks] == in_order


# -------------------------------------------------------------------------------------------------------- damaged bytes


def test_every_truncation_is_noticed():
    data = small_file()
    for length in range(len(data)):
        words = damage(data[:length])
        assert words is not None and words.startswith("truncated"), length
    for other in (b"\x88", b"\x89SHOAX", b"\x89SHOAL\r\r", b"\x89SHOAL\n\n" + bytes(300)):
        assert damage(other) == "not a catalog"
    assert damage(data + b"\0").startswith("bytes after the end")


def test_every_flipped_bit_is_noticed():
    data = bytearray(small_file())
    for place in range(8 * len(data)):
        data[place // 8] ^= 1 << place % 8
        assert damage(data) is not None, divmod(place, 8)
        data[place // 8] ^= 1 << place % 8


def test_a_flipped_bit_under_repaired_sums_is_noticed_or_changes_nothing():
    """The sums do not protect from wrong writers. So with all sums made again, either a rule is broken or the catalog
    still holds the same; and nothing but Damaged is raised."""
    sections, fields = make.parts(mixed_segments(), sizes=SMALL_SIZES, samples=SMALL_SAMPLES)
    good = contents(make.assemble(list(sections.items()), **fields))
    noticed = unnoticed = 0
    for name in (b"NAME", b"NDIR", b"SZRN", b"SZBK", b"SZDT", b"SMRN", b"SMBK", b"SMDT"):
        for place in range(8 * len(sections[name])):
            spoiled = bytearray(sections[name])
            spoiled[place // 8] ^= 1 << place % 8
            data = make.assemble(list({**sections, name: bytes(spoiled)}.items()), **fields)
            if damage(data) is None:
                assert contents(data) == good, (name, divmod(place, 8))
                unnoticed += 1
            else:
                noticed += 1
    assert noticed > 20 * unnoticed  # reserved fields, padding bits, an unused stride


# ------------------------------------------------------------------------------------------------------- broken headers


def broken_header(**changes):
    sections, fields = make.parts(mixed_segments(), sizes=SMALL_SIZES, samples=SMALL_SAMPLES)
    return make.assemble(list(sections.items()), **{**fields, **changes})


@pytest.mark.parametrize("changes, words", [
    (dict(magic=b"\x89SHOAL\n\n"), "not a catalog"),
    (dict(magic=b"\x89SHOAL\n\n", version=2), "not a catalog"),
    (dict(version=2, file_length=7, header_length=512), "newer: version 2"),
    (dict(incompat=4, file_length=7), "newer: incompat"),
    (dict(version=0), "damaged: version 0"),
    (dict(file_length=10**6, page_shift=3), "truncated"),
    (dict(file_length=300), "bytes after the end"),
    (dict(header_length=255), "damaged: header length"),
    (dict(page_shift=12), "damaged: page shift"),
    (dict(nr_files=31), "damaged: the header's sum of sizes"),
    (dict(nr_files=29), "damaged"),
    (dict(nr_files=0), "damaged: segment ids"),
    (dict(nr_samples=5), "damaged: the header has 5 samples"),
    (dict(nr_bytes=5), "damaged: the header's sum of sizes"),
    (dict(nr_bytes=make.UNKNOWN), "damaged: SZRN is there though"),
    (dict(largest=5), "good"),  # without its bit
    (dict(compat=1, largest=5), "damaged: the header's largest size is 5"),
    (dict(samples_per_file=3), "damaged: SMRN is there though"),
    (dict(lane0=1), "damaged: lane 0"),
    (dict(lane1=1), "damaged: lane 1"),
    (dict(digest=bytes(16)), "damaged: the digest"),
    (dict(nr_sections=0), "damaged: the section table"),
    (dict(nr_sections=2**32 - 1), "damaged: the section table goes past"),
    (dict(key_skip=1), "damaged: first names differ"),
    (dict(sums_offset=0), "damaged: the page sums start"),
    (dict(sums_hash=0), "damaged: the page sums do not match"),
    (dict(table_hash=0), "damaged: the section table does not match"),
    (dict(sums=b""), "damaged: 0 bytes of page sums"),
], ids=str)
def test_a_broken_header_is_named(changes, words):
    assert (damage(broken_header(**changes)) or "good").startswith(words)


def test_a_header_with_a_wrong_checksum_is_damaged_before_it_is_newer():
    data = bytearray(small_file())
    data[8] = 2
    assert damage(data) == "damaged: the header does not match its checksum"


# ------------------------------------------------------------------------------------------------------ broken sections


def broken_section(**changes):
    """The small file with some sections' bytes changed, by functions, and all sums right."""
    sections, fields = make.parts(mixed_segments(), sizes=SMALL_SIZES, samples=SMALL_SAMPLES)
    for name, change in changes.items():
        sections[name.encode()] = change(sections[name.encode()])
    return make.assemble(list(sections.items()), **fields)


def put(offset, value):
    return lambda section: section[:offset] + struct.pack("<Q", value) + section[offset + 8:]


def become(content):
    return lambda _: content


@pytest.mark.parametrize("name, change, words", [
    ("ROOT", become(b""), "the root has 0 bytes"),
    ("ROOT", become(b"x" * 4097), "the root has 4097 bytes"),
    ("ROOT", become(b"a\0b"), "the root holds a NUL"),
    ("ROOT", become(b"\xff"), "the root is not UTF-8"),
    ("NDIR", lambda s: s[:-1], "NDIR has"),
    ("NDIR", lambda s: b"", "no segments for"),
    ("NDIR", put(0, 1), "the first segment starts"),
    ("NDIR", put(8, 1), "the first segment starts"),
    ("NDIR", put(24, 0), "segment ids do not rise"),
    ("NDIR", put(24, 3), "a payload of 4 names where the directory says 3"),
    ("NDIR", put(32, 10**6), "payload offsets do not rise"),
    ("NDIR", put(16, 0), "segment 0 has key"),
    ("NDIR", put(16, int.from_bytes(b"a00".ljust(8, b"\0"), "little")), "segment 0 has key"),  # bytes as in the name
    ("NAME", lambda s: s + b"\0", "a segment ends 1 bytes before"),
    ("NAME", lambda s: s[:-1], "the stored bytes goes past"),
    ("DTAB", become(bytes(23)), "DTAB has"),
    ("DTAB", become(struct.pack("<QQQ", 0, 0, 1)), "a dictionary goes past"),
    ("DTAB", become(bytes(48)), "first segments in DTAB"),
    ("DTAB", become(struct.pack("<QQQQQQ", 0, 0, 1, 1, 0, 1)), "a dictionary goes past"),
    ("SZRN", put(0, 1), "SZ run 0 starts at 1"),
    ("SZRN", put(32, 0), "SZ run"),
    ("SZRN", put(64, 30), "SZ"),
    ("SZRN", put(40, 1), "SZ run 1 stores 1"),
    ("SZRN", put(24, 2), "SZ run 0 has kind 2"),
    ("SZRN", put(48, 1), "SZ run 1 has blocks that are not there"),
    ("SZRN", put(80, 2**63), "SZ sum reaches 2^64 - 1"),
    ("SZRN", lambda s: s[:-32], "SZ block"),
    ("SZRN", lambda s: b"", "SZ has 0 runs for 30 files"),
    ("SZRN", lambda s: s[1:], "SZRN has"),
    ("SZBK", lambda s: s[1:], "SZBK has"),
    ("SZBK", put(0, 1), "the header's sum|SZ block 0 has no value|SZ run 2 stores"),
    ("SZBK", put(8, 1), "SZ block 0 stores 1"),
    ("SZBK", put(16, 65 << 56), "SZ block 0 has a width of 65"),
    ("SZBK", put(16, 41 << 56 | 1), "SZ block 0 goes past the data"),
    ("SZBK", lambda s: s + struct.pack("<QQQ", 0, 0, 99), "SZ block 1 goes past the data"),
    ("SMDT", become(b""), "SM block 0 goes past the data"),
    ("SMRN", become(b""), "SM has 0 runs for 30 files"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_broken_section_is_named(name, change, words):
    said = damage(broken_section(**{name: change})) or "good"
    assert any(said.startswith("damaged: " + word) for word in words.split("|")), said


def test_the_smallest_value_of_a_block_must_be_one_of_its_values():
    # All values are 1 above what the block calls the smallest, with bits to make up for it.
    sections, fields = make.parts([many_names(2)], sizes=[("blocks", [4, 4])])
    sections[b"SZBK"], sections[b"SZDT"] = struct.pack("<QQQ", 3, 0, 1 << 56), b"\x03"
    assert "that it calls smallest" in damage(make.assemble(list(sections.items()), **fields))


def test_sums_stay_below_what_an_unknown_size_is():
    for last, words in [(2**63 - 2, None), (2**63 - 1, "sum reaches 2^64 - 1"), (2**63, "sum reaches 2^64 - 1")]:
        for runs in ([("constant", 1, 2**63), ("constant", 1, last)], [("blocks", [2**63, last])]):
            # The header's field cannot hold more; the column is looked at before it is.
            for name, field in (("sizes", "nr_bytes"), ("samples", "nr_samples")):
                sections, fields = make.parts([many_names(2)], **{name: runs})
                fields[field] = min(fields[field], 2**64 - 2)
                said = damage(make.assemble(list(sections.items()), **fields))
                assert said is None if words is None else said.endswith(words), (runs, name)


def test_samples_of_the_header_are_multiplied_exactly():
    assert "the header has 0 samples" in damage(make.assemble(
        list(make.parts([many_names(2)])[0].items()), nr_files=2, nr_bytes=make.UNKNOWN, samples_per_file=2**63))


def test_offsets_lie_inside_the_data_also_where_the_width_is_0():
    for data, offset, words in [(b"", 0, None), (b"ab", 2, None), (b"", 1, "goes past"), (b"ab", 3, "goes past"),
                                (b"ab", 2**56 - 1, "goes past")]:
        sections, fields = make.parts([many_names(2)], sizes=[("blocks", [4, 4])])
        sections[b"SZBK"], sections[b"SZDT"] = struct.pack("<QQQ", 4, 0, offset), data
        said = damage(make.assemble(list(sections.items()), **fields))
        assert said is None if words is None else words in said, (data, offset)


@pytest.mark.parametrize("name", ["SZBK", "SMBK"])
def test_lengths_of_tables_that_nothing_uses_are_multiples_too(name):
    sections, fields = make.parts([many_names(2)])
    for length, words in [(24, None), (23, "damaged: %s has 23 bytes" % name)]:
        said = damage(make.assemble(list({**sections, name.encode(): bytes(length)}.items()), **fields))
        assert said is None if words is None else said.startswith(words)


def table_of(entries):
    return b"".join(name + bytes(4) + struct.pack("<QQ", offset, length) for name, offset, length in entries)


@pytest.mark.parametrize("entries, words", [
    ([(b"ROOT", 304, 3), (b"ROOT", 307, 0)], "two sections are named"),
    ([(b"ROOT", 305, 2), (b"NAME", 307, 0)], "section b'ROOT' starts at 305"),
    ([(b"ROOT", 304, 3), (b"NAME", 306, 1)], "section b'NAME' starts at 306"),
    ([(b"ROOT", 304, 2), (b"NAME", 306, 0)], "the page sums start at 307"),
    ([(b"ROOT", 304, 99), (b"NAME", 403, 0)], "section b'ROOT' goes past"),
    ([(b"ROOT", 304, 2**64 - 1), (b"NAME", 303, 0)], "section b'ROOT' goes past"),
], ids=str)
def test_a_broken_section_table_is_named(entries, words):
    data = make.assemble([(b"ROOT", b"abc"), (b"NAME", b"")], table=table_of(entries))
    assert damage(data).startswith("damaged: " + words)


# ------------------------------------------------------------------------------------------------------ broken payloads


def payload(kind, count, first, rest):
    return bytes([kind]) + varint(count) + varint(len(first)) + first + rest


def grid_of(count, first, fields, dims):
    return grid([first] * count, fields, dims)[1]


def fixed_of(count, first, nr_limbs, rest):
    return payload(2, count, first, varint(nr_limbs) + rest)


def decimal_of(count, first, prefix, suffix, top, rest):
    return payload(3, count, first, varint(prefix) + varint(suffix) + varint(top) + rest)


def front_of(count, first, raw, flags=0, raw_length=None, stored=None):
    stored = raw if stored is None else stored
    return payload(4, count, first, bytes([flags]) + varint(len(raw) if raw_length is None else raw_length) +
                   varint(len(stored)) + stored)


def digit_parts(*lengths, width=None):
    """One limb of parts of digits that follow each other."""
    if width is None:  # of parts that are no good there is none
        width = make.limb_width([(0, length, DIGITS) for length in lengths]) if sum(lengths) < 99 else 0
    parts = [b"\0" + varint(length) + b"\1\x30\x39" for length in lengths]
    return bytes([width]) + varint(len(parts)) + b"".join(parts)


def bit_parts(nr):
    """One limb of parts of one binary digit each."""
    return bytes([nr]) + varint(nr) + b"\0\1\1\x30\x31" * nr


def long_preamble(length):
    """A FIXED segment of one name that has `length` bytes before its arrays. Sets of as many ranges as there may be and
    a name as long as it may be do not get that far, so some varints are longer than they need to be."""
    wide = bytes([64]) + b"".join(bytes([byte, byte]) for byte in range(1, 129, 2))  # a radix of 64: 6 bits a part
    out = b""
    limbs = [10] * 8 + [5]
    # The values are of 510 bits; less an l of 502 that leaves one byte for X_0 >> l.
    spare = length - (1 + 1 + 2 + 4096 + 1 + 9 * 2 + 85 * (2 + len(wide)) + 4 + 1)
    for nr in limbs:
        out += bytes([6 * nr, nr])
        for _ in range(nr):
            for number in (0, 1):  # the gap and the length
                longer = min(9, spare)
                spare -= longer
                out += bytes([0x80 | number] + [0x80] * (longer - 1) + [0]) if longer else bytes([number])
            out += wide
    assert spare == 0
    made = fixed_of(1, b"\1" * 4096, len(limbs), out + b"\1" + varint(502) + b"\0" + b"\0")
    assert len(made) == length
    return made + bytes(63) + b"\1"


def sampled_values(k_ones=0, k_zeros=0):
    """600 values 0, 5, 10 …, all bits high, with one sample of each array moved by that many."""
    xs = list(range(0, 3000, 5))
    coded = elias_fano(xs, 14, 0)
    nr_ones, nr_zeros = 599 // 256, 2994 // 256
    arrays = list(struct.unpack("<%dI" % (nr_ones + nr_zeros), coded[-4 * (nr_ones + nr_zeros):]))
    arrays[nr_ones - 1] += k_ones
    arrays[-1] += k_zeros
    return coded[:-4 * len(arrays)] + struct.pack("<%dI" % len(arrays), *arrays)


LIMB2 = b"\7" + varint(1) + b"\0\2\1\x30\x39"  # two digits: a product of 100, so 7 bits
ONE_FRAME = make.compress(b"\0\1b")

BROKEN_PAYLOADS = [
    # what all segments share
    (1, payload(0, 1, b"a", b""), "unknown kind of segment 0"),
    (1, payload(5, 1, b"a", b""), "unknown kind of segment 5"),
    (1, payload(4, 0, b"a", b"\0\0\0"), "count 0 is not in"),
    (1, payload(4, 2, b"a", b"\0\0\0"), "a payload of 2 names"),
    (1, payload(4, 1, b"", b"\0\0\0"), "first length 0 is not in"),
    (1, payload(4, 1, b"a" * 4097, b"\0\0\0"), "first length 4097"),
    (1, payload(4, 1, b"a\0", b"\0\0\0"), "a first name holds a NUL"),
    (1, b"\4\1\x05abc", "the first name goes past"),
    (1, b"\4" + b"\x81" + b"\x80" * 9 + b"\0", "count is a varint of over 10 bytes"),
    (1, b"\4" + b"\x81" + b"\x80" * 8 + b"\2", "count is a varint of over 64 bits"),
    (1, b"\4", "count goes past"),
    # GRID
    (1, grid_of(1, b"a1", [], [(1, [])]), "nr_fields 0"),
    (1, grid_of(1, b"123456789", [(0, 1)] * 9, [(1, [0] * 9)]), "nr_fields 9"),
    (1, grid_of(1, b"a1", [(1, 0)], [(1, [0])]), "width 0"),
    (1, grid_of(1, b"1" * 19, [(0, 19)], [(1, [0])]), "width 19"),
    (1, grid_of(1, b"a1", [(1, 2)], [(1, [0])]), "a field goes past"),
    (1, grid_of(1, b"a1", [(2**64 - 1, 1)], [(1, [0])]), "a field goes past"),
    (1, grid_of(1, b"a1", [(0, 2)], [(1, [0])]), "a field is not all digits"),
    (1, grid_of(1, b"a1", [(1, 1)], []), "nr_dims 0"),
    (1, grid_of(1, b"a1", [(1, 1)], [(1, [0])] * 5), "nr_dims 5"),
    (1, grid_of(1, b"a1", [(1, 1)], [(0, [0])]), "extent 0"),
    (4, grid_of(4, b"a1", [(1, 1)], [(2, [1]), (3, [1])]), "the extents make 6"),
    (1, grid_of(1, b"a1", [(1, 1)], [(2**63, [1]), (2**63, [1]), (4, [1])]), "the extents make"),
    (3, grid_of(3, b"a8", [(1, 1)], [(3, [1])]), "the value 10 does not fit"),
    (3, grid_of(3, b"a1", [(1, 1)], [(3, [-1])]), "name 1 b'a0' does not come after"),
    (3, grid_of(3, b"a1b9", [(1, 1), (1, 1)], [(3, [1, -5])]), "the value 18446744073709551615 does not fit"),
    (2, grid_of(2, b"a1", [(1, 1)], [(2, [0])]), "name 1 b'a1' does not come after"),
    # FIXED
    (1, fixed_of(1, b"00", 0, b"\0\0\0"), "nr_limbs 0"),
    (1, fixed_of(1, b"0" * 65, 65, digit_parts(1) * 65 + b"\0\0\0"), "nr_limbs 65"),
    (1, fixed_of(1, b"00", 1, b"\7\0\0\0\0"), "nr_parts 0"),
    (1, fixed_of(1, b"0" * 65, 1, digit_parts(*[1] * 65) + b"\0\0\0"), "nr_parts 65"),
    (1, fixed_of(1, b"0" * 129, 9, bit_parts(16) * 8 + bit_parts(1) + b"\1\0\0" + bytes(17) + b"\1"),
     "there are more than 128 parts"),
    (1, fixed_of(1, b"00", 1, digit_parts(0) + b"\0\0\0"), "length 0"),
    (1, fixed_of(1, b"00", 1, digit_parts(3) + b"\0\0\0"), "a part goes past"),
    (1, fixed_of(1, b"00", 1, digit_parts(2**64 - 1) + b"\0\0\0"), "a part goes past"),
    (1, fixed_of(1, b"00", 2, digit_parts(2) + digit_parts(1) + b"\0\0\0"), "a part goes past"),
    (1, fixed_of(1, b"00", 1, b"\7\1\0\2\0\0\0\0"), "nr_ranges is 0"),
    (1, fixed_of(1, b"00", 1, b"\7\1\0\2\x41" + bytes(range(0, 130)) + b"\0\0\0"), "nr_ranges is 65"),
    (1, fixed_of(1, b"00", 1, b"\0\1\0\2\1\x30\x30\0\0\0"), "a radix of 1"),
    (1, fixed_of(1, b"00", 1, b"\7\1\0\2\1\x39\x30\0\0\0"), "a range from 57 to 48"),
    (1, fixed_of(1, b"00", 1, b"\7\1\0\2\2\x30\x35\x36\x39\0\0\0"), "ranges touch"),
    (1, fixed_of(1, b"00", 1, b"\7\1\0\2\2\x35\x39\x30\x33\0\0\0"), "ranges touch"),
    (1, fixed_of(1, b"0x", 1, digit_parts(2) + b"\0\0\0"), "byte 1 of the first name is not in its set"),
    (1, fixed_of(1, b"0" * 20, 1, digit_parts(20) + b"\0\0\0"), "the radices of a limb"),
    (1, fixed_of(1, b"00", 1, digit_parts(2, width=6) + b"\0\0\0"), "a limb says that it has 6 bits and not 7"),
    (1, fixed_of(1, b"00", 1, digit_parts(2, width=8) + b"\0\0\0"), "a limb says that it has 8 bits and not 7"),
    (1, fixed_of(1, b"00", 2, digit_parts(1, width=3) + digit_parts(1, width=5) + b"\0\0\0"),
     "a limb says that it has 3 bits and not 4"),
    (1, fixed_of(1, b"0" * 154, 9, digit_parts(18) * 8 + digit_parts(10) + b"\1\0\0" + bytes(65) + b"\1"),
     "the limbs' widths add up to 514"),
    (1, fixed_of(1, b"0" * 38, 2, digit_parts(19) * 2 + b"\0\0\0"), "LINEAR values of 128 bits"),
    (2, fixed_of(2, b"99", 1, LIMB2 + b"\0\x63\1"), "a limb's number 100"),
    (2, fixed_of(2, b"99", 1, LIMB2 + b"\0\x63\x64"), "LINEAR values leave their 7 bits"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\0\0\0"), "LINEAR values do not rise"),
    (2, fixed_of(2, b"01", 1, LIMB2 + b"\0\0\1"), "LINEAR values start at 0 and not at the first name's, 1"),
    (2, fixed_of(2, b"\1\1", 1, b"\2\1\0\2\1\0\1" + elias_fano([3, 4], 2, 0)), "ELIAS-FANO values leave their 2 bits"),
    (2, fixed_of(2, b"a\1", 1, b"\1\1\1\1\1\0\1" + b"\0\1\1"), "LINEAR values leave"),
    (3, fixed_of(3, b"\1\1", 1, b"\4\1\0\2\1\0\2" + b"\0\4\2"), "a name holds a NUL"),
    (1, long_preamble(16385), "a payload has 16385 bytes before its arrays"),
    # values
    (1, fixed_of(1, b"00", 1, LIMB2 + b"\2"), "unknown coding of values 2"),
    (1, fixed_of(1, b"00", 1, LIMB2 + b"\0\0"), "stride goes past"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\7\0" + b"\x80\0" + b"\3"), "l is 7"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0"), "X_0 >> l goes past"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\1\2\3"), "X_0 >> l is stored as 1"),
    (2, fixed_of(2, b"02", 1, LIMB2 + b"\1\1\0\0\2\3"), "X_0 >> l is stored as 0"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\x40\2\3"), "X_0 >> l is stored as 64"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\0\2"), "the high array goes past"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\0\3\3"), "the low bits of X_0"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\0\0\3"), "ELIAS-FANO values do not rise"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\6"), "H_0 is 1"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\3"), "the last H is 0"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\x09"), "1 set bits"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\7"), "3 set bits"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\1"), "1 set bits"),
    (2, fixed_of(2, b"00", 1, LIMB2 + b"\1\0" + varint(2**28 + 1)), "h 268435457 is not in"),
    (2**20 + 1, decimal_of(2**20 + 1, b"0", 0, 0, 2**21, b"\1\0\0"), "ELIAS-FANO with 1048577"),
    (2, decimal_of(2, b"0", 0, 0, 9, b"\1\x40\0"), "l is 64"),
    (600, fixed_of(600, b"0000", 1, digit_parts(4) + sampled_values(k_ones=1)), "ones:"),
    (600, fixed_of(600, b"0000", 1, digit_parts(4) + sampled_values(k_zeros=1)), "zeros:"),
    (600, fixed_of(600, b"0000", 1, digit_parts(4) + sampled_values()[:-4]), "zeros goes past"),
    (600, fixed_of(600, b"0000", 1, digit_parts(4) + sampled_values() + bytes(4)), "a segment ends 4 bytes before"),
    # DECIMAL
    (1, decimal_of(1, b"a1", 1, 1, 9, b"\0\0\0"), "prefix and suffix leave no digits"),
    (1, decimal_of(1, b"a1", 2**64 - 1, 2**64 - 1, 9, b"\0\0\0"), "prefix and suffix leave no digits"),
    (1, decimal_of(1, b"a1", 0, 0, 9, b"\0\0\0"), "not digits"),
    (1, decimal_of(1, b"a01", 1, 0, 9, b"\0\0\0"), "leading zeros"),
    (1, decimal_of(1, b"a00", 1, 0, 9, b"\0\0\0"), "leading zeros"),
    (1, decimal_of(1, b"a12", 1, 1, 99, b"\0\0\0"), "the suffix starts with a digit"),
    (1, decimal_of(1, b"a12", 1, 0, 11, b"\0\0\0"), "the first number"),
    (1, decimal_of(1, b"1" * 4000, 0, 0, 11, b"\0\0\0"), "the first number"),
    (1, decimal_of(1, b"1", 0, 0, 10**18, b"\0\0\0"), "max 1000000000000000000"),
    (12, decimal_of(12, b"0", 0, 0, 10, b"\0\0\1"), "a place in the list after max"),
    (2, decimal_of(2, b"x" * 4095 + b"1", 4095, 0, 10, b"\0\1\1"), "a name has a length of 4097"),
    (3, decimal_of(3, b"a10", 1, 0, 10, b"\0\1\1"), "LINEAR values start at 1 and not at the first name's, 2"),
    (1, decimal_of(1, b"a1", 1, 0, 9, b"\0\0\0"), "LINEAR values start at 0"),
    (2, decimal_of(2, b"a1", 1, 0, 9, b"\1\0\1" + b"\2" + bytes(7) + b"\5"), "X_0 >> l is stored as 2"),
    (2, decimal_of(2, b"a1", 1, 0, 9, b"\1\0\1\1"), "X_0 >> l goes past"),
    # FRONT
    (1, front_of(1, b"a", b"", flags=4), "FRONT flags 4"),
    (1, front_of(1, b"a", b"", flags=2), "FRONT flags 2"),
    (1025, front_of(1025, b"a", b""), "FRONT with 1025"),
    (2, front_of(2, b"a", b"\0\1b", raw_length=65537), "raw length 65537"),
    (2, front_of(2, b"a", b"\0\1b", raw_length=4), "raw length 4 and stored length 3 differ"),
    (2, front_of(2, b"a", b"\2\1b"), "n 2 is not in"),
    (2, front_of(2, b"a", b"\1\2b"), "the end of a name goes past"),
    (2, front_of(2, b"a", b"\0\1bb"), "the list of names ends 1 bytes"),
    (2, front_of(2, b"a", b""), "n goes past"),
    (2, front_of(2, b"a", b"\1\0"), "name 1 b'a' does not come after"),
    (2, front_of(2, b"b", b"\0\1a"), "name 1 b'a' does not come after"),
    (2, front_of(2, b"b", b"\0\0"), "a name has a length of 0"),
    (2, front_of(2, b"b", b"\1\1\0"), "a name holds a NUL"),
    (2, front_of(2, b"x" * 4096, b"\x80\x20\1y"), "a name has a length of 4097"),
    (2, front_of(2, b"a", b"\0\1b", flags=1), "the stored bytes are no zstd frame"),
    (2, front_of(2, b"a", b"\0\1b", flags=1, stored=ONE_FRAME[:-1]), "the stored bytes are not one whole"),
    (2, front_of(2, b"a", b"\0\1b", flags=1, stored=make.compress(b"\0\1") + make.compress(b"b")),
     "the stored bytes are not one whole"),
    (2, front_of(2, b"a", b"\0\1b", flags=1, stored=b"\x50\x2a\x4d\x18\0\0\0\0" + ONE_FRAME),
     "the stored bytes are no zstd frame"),
    (2, front_of(2, b"a", b"\0\1b", flags=1, raw_length=2, stored=ONE_FRAME), "zstd cannot decompress"),
    (2, front_of(2, b"a", b"\0\1b", flags=1, raw_length=4, stored=ONE_FRAME), "a payload decompresses to 3"),
    (2, front_of(2, b"a", b"\0\1b", flags=3, stored=ONE_FRAME), "no dictionary serves"),
]


@pytest.mark.parametrize("count, broken, words", BROKEN_PAYLOADS, ids=[words for _, _, words in BROKEN_PAYLOADS])
def test_a_broken_payload_is_named(count, broken, words):
    # The names given here only make a digest, which is looked at last.
    sections, fields = make.parts([([b"a"], broken)])
    data = make.assemble(list(sections.items()), **{**fields, "nr_files": count, "nr_samples": count})
    assert (damage(data) or "good").startswith("damaged: " + words)


def test_a_good_payload_made_by_hand_is_good():
    """What the broken payloads above are variations of; else they could be broken in more ways than meant."""
    values = list(range(0, 3000, 5))
    for names, good in [
        ([b"a1", b"a3"], grid_of(2, b"a1", [(1, 1)], [(2, [2])])),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\0\0\1")),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\0\2\3")),
        ([b"02", b"03"], fixed_of(2, b"02", 1, LIMB2 + b"\1\1\0\1\2\3")),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\5")),
        ([b"0" * 128], fixed_of(1, b"0" * 128, 8, bit_parts(16) * 8 + b"\1\0\0" + bytes(16) + b"\1")),
        ([b"\1" * 4096], long_preamble(16384)),
        ([b"a1"], decimal_of(1, b"a1", 1, 0, 9, b"\0\1\0")),
        ([b"a10", b"a2"], decimal_of(2, b"a10", 1, 0, 10, b"\0\2\1")),
        ([b"a1", b"a2"], decimal_of(2, b"a1", 1, 0, 9, b"\1\0\1" + b"\1" + bytes(7) + b"\5")),
        # a stride that is not used, varints that are longer than need be, and padding that is not zero
        ([b"00"], fixed_of(1, b"00", 1, LIMB2 + b"\0\0\0")),
        ([b"00"], fixed_of(1, b"00", 1, LIMB2 + b"\0\0\5")),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\0\x80\0\x81\x80\0")),
        ([b"00"], fixed_of(1, b"00", 1, LIMB2 + b"\0" + b"\x80" * 9 + b"\0\1")),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\1\1\0\0\xfe\xff")),
        ([b"00", b"01"], fixed_of(2, b"00", 1, LIMB2 + b"\1\0\1\0\x45")),
        ([b"%04d" % x for x in values], fixed_of(600, b"0000", 1, digit_parts(4) + sampled_values())),
        ([b"a", b"b"], front_of(2, b"a", b"\0\1b", flags=1, stored=ONE_FRAME)),
    ]:
        assert damage(make.catalog([(names, good)])) is None


@pytest.mark.parametrize("groups", [([b"b", b"c"], [b"a"]), ([b"a", b"b"], [b"b", b"c"]), ([b"a"], [b"a"])])
def test_order_is_kept_and_names_are_unique_over_segments_too(groups):
    said = damage(make.catalog([front(group) for group in groups]))
    assert "does not come after" in said


def test_key_skip_may_be_less_than_it_could_be_but_not_more():
    segments = [front([b"same/a", b"same/ab"]), front([b"same/b"]), front([b"same/bc"])]
    assert make.common_skip([b"same/a", b"same/b", b"same/bc"]) == 5
    for skip in range(6):
        assert damage(make.catalog(segments, key_skip=skip)) is None
    assert "first names differ in their first 6 bytes" in damage(make.catalog(segments, key_skip=6))


def test_a_first_name_may_end_where_the_key_skip_does_but_not_before():
    segments = [front([b"same"]), front([b"same/b"])]
    assert damage(make.catalog(segments, key_skip=4)) is None
    assert Catalog(make.catalog(segments, key_skip=4)).segments[0][4] == 0
    assert "first names differ" in damage(make.catalog(segments, key_skip=5))
    assert "first names differ" in damage(make.catalog([front([b"same"])], key_skip=5))


def test_the_first_byte_of_a_key_is_the_last_in_the_file():
    data = make.catalog([front([b"xabcdefghij"]), front([b"xb"])], key_skip=1)
    assert damage(data) is None
    assert Catalog(data).sections[b"NDIR"][16:24] == b"hgfedcba"
    assert Catalog(data).sections[b"NDIR"][40:48] == b"\0\0\0\0\0\0\0b"


def lookup_segments():
    # Names that are not first ones need not begin as those do; three segments have one key at the largest key skip.
    return [front([b"same/a", b"same/ab"]), front([b"same/b-long-one-1", b"same/b-long-one-10"]),
            front([b"same/b-long-one-2"]), front([b"same/b-long-one-3", b"same/b-long-one-4"]),
            front([b"same/c", b"samf", b"tzzz", b"u"])]


@pytest.mark.parametrize("skip", range(6))
def test_names_are_found_by_key_skip_key_and_first_name(skip):
    segments = lookup_segments()
    catalog = Catalog(make.catalog(segments, key_skip=skip))
    catalog.check()
    names = [name for segment, _ in segments for name in segment]
    for id_, name in enumerate(names):
        assert catalog.find(name) == id_
    for name in [b"a", b"s", b"same", b"same/", b"samd", b"same/B", b"same/b", b"same/b-long-one-",
                 b"same/b-long-one-0", b"same/b-long-one-11", b"same/b-long-one-5", b"same/d", b"samez",
                 b"t", b"z", b"\xff"]:
        assert catalog.find(name) is None


def test_all_kinds_find_their_names():
    catalog = Catalog(small_file())
    for id_, name in enumerate(catalog.names()):
        assert catalog.find(name) == id_
        assert catalog.find(name + b"~") is None


# ---------------------------------------------------------------------------------------------------------- the command


def dump(*arguments):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dump.py")
    done = subprocess.run([sys.executable, program, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr


def test_dump_prints_names_sizes_segments_and_damage(tmp_path):
    segments = [front([b"a", b"a\nb"]), grid([b"b1", b"b2"], [(1, 1)], [(2, [1])])]
    data = make.catalog(segments, sizes=[("constant", 4, 10)])
    path = tmp_path / "x"
    path.write_bytes(data)
    assert dump(path) == (0, b"a\na\nb\nb1\nb2\n", b"")
    assert dump(path, "--sizes", "-0") == (0, b"a\t10\0a\nb\t10\0b1\t10\0b2\t10\0", b"")
    assert dump(path, "--check") == (0, b"ok\n", b"")
    # kind, count, length, "a" (4 bytes); flags and two lengths (3); n, m, "\\nb" (4): 11. And 5 + 3 + 3 = 11.
    assert dump(path, "--segments") == (0, b"FRONT 0 2 11\nGRID 2 2 11\n", b"")
    path.write_bytes(data[:-1])
    assert dump(path, "--check") == (1, b"truncated: %d bytes of %d\n" % (len(data) - 1, len(data)), b"")
