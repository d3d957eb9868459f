"""The reader in Python, written from the format's page alone, reads the same from every catalog as the command."""

import json
import random

import pytest
import shapes
from conftest import lines
from shoalcat import Catalog

ROOT = b"s3://bucket"


def check_agrees(shoal, path, names, sizes=None, samples=None):
    """The second reader finds no fault, and both readers find what was written."""
    catalog = Catalog(path)
    catalog.check()
    order = sorted(range(len(names)), key=names.__getitem__)
    names = [names[i] for i in order]
    info = shoal.info(path)
    assert list(catalog.names()) == names == shoal.names(path)
    assert catalog.digest == info["digest"]
    assert catalog.root == ROOT == info["root"].encode()
    assert (catalog.nr_files, catalog.header.nr_samples) == (info["files"], info["samples"]) == \
        (len(names), sum(samples) if samples else len(names))
    assert list(catalog.samples()) == ([samples[i] for i in order] if samples else [1] * len(names))
    if sizes:
        sizes = [sizes[i] for i in order]
        assert list(catalog.sizes()) == sizes
        assert info["bytes"] == sum(sizes)
        told = lines(shoal.good("ls", path, "--sizes", "-0"), b"\0")
        assert [int(line.rpartition(b"\t")[2]) for line in told] == sizes
    else:
        assert info["bytes"] is None
        assert catalog.sizes() is None
    assert info["segments"] == len(catalog.segments)


@pytest.mark.parametrize("kind", shapes.SHAPES)
def test_both_readers_agree_on_names_of_every_shape(shoal, kind):
    names = list(dict.fromkeys(shapes.SHAPES[kind]))
    check_agrees(shoal, shoal.index(names), names)


@pytest.mark.parametrize("block", range(5))
def test_both_readers_agree_on_random_sets_of_mixed_shapes(shoal, block):
    for seed in range(1000 + 15 * block, 1000 + 15 * block + 15):
        names = list(dict.fromkeys(shapes.random_set(seed)))
        try:
            check_agrees(shoal, shoal.index(names), names)
        except Exception as error:
            raise AssertionError("shapes.random_set(%d)" % seed) from error


def numbers(kind, nr, most):
    """A column of numbers; their sum fits into 64 bits."""
    rng = random.Random(kind)
    return {
        "constant": lambda: [most // 3] * nr,
        "zero": lambda: [0] * nr,
        "rising": lambda: list(range(nr)),
        "random": lambda: [rng.randint(0, most) for _ in range(nr)],
        "normal": lambda: [max(0, int(rng.gauss(most / 2, most / 9))) for _ in range(nr)],
        "two values": lambda: [rng.choice([1, most]) for _ in range(nr)],
        "long runs": lambda: [(i // 700) % 3 * 5 + 1 for i in range(nr)],
        "runs and noise": lambda: [7 if i % 2000 < 1000 else rng.randint(0, most) for i in range(nr)],
        "one is large": lambda: [5] * (nr - 1) + [most],
        "the first is large": lambda: [most] + [5] * (nr - 1),
        "blocks of 256 end": lambda: [i // 256 for i in range(nr)],
    }[kind]()


COLUMNS = ["constant", "zero", "rising", "random", "normal", "two values", "long runs", "runs and noise", "one is large",
           "the first is large", "blocks of 256 end"]


@pytest.mark.parametrize("nr", [1, 256, 257, 3000])
@pytest.mark.parametrize("kind", COLUMNS)
def test_both_readers_agree_on_sizes(shoal, kind, nr):
    names = [b"n%05d" % i for i in range(nr)]
    sizes = numbers(kind, nr, 2**50)
    check_agrees(shoal, shoal.index(names, sizes=sizes), names, sizes)


@pytest.mark.parametrize("nr", [1, 257, 3000])
@pytest.mark.parametrize("kind", COLUMNS)
def test_both_readers_agree_on_samples(shoal, kind, nr):
    names = shapes.hexadecimal(nr, 16)
    samples = numbers(kind, nr, 2**30)
    sizes = numbers("random", nr, 2**20)
    check_agrees(shoal, shoal.index(names, sizes=sizes, samples=samples), names, sizes, samples)


@pytest.mark.parametrize("sizes", [[2**64 - 2], [0], [2**63, 2**63 - 2], [2**64 - 3, 1], [1, 0, 2**62]])
def test_both_readers_agree_on_the_largest_sizes(shoal, sizes):
    names = [b"%d" % i for i in range(len(sizes))]
    path = shoal.index(names, sizes=sizes)
    catalog = Catalog(path)
    catalog.check()
    assert list(catalog.sizes()) == sizes
    assert shoal.good("ls", path, "--sizes") == b"".join(b"%s\t%d\n" % entry for entry in zip(names, sizes))


@pytest.mark.parametrize("pattern, nr, folders", [
    ("train/img_{:07d}_of_20000.jpeg", 20000, 0),
    ("train/img_{:05d}_of_3000.jpeg", 3000, 1000),
    ("train/img_{:05d}_of_3000.jpeg", 3000, 7),
    ("f{}", 5000, 0),
    ("f{}.npz", 5000, 13),
    ("a/{:020d}", 3000, 3),
    ("{:03d}", 2000, 0),
])
def test_both_readers_agree_on_patterns(shoal, tmp_path, pattern, nr, folders):
    path = shoal.pattern(pattern, nr, "--subfolders", folders, "--size", 77)
    catalog = Catalog(path)
    catalog.check()
    names = list(catalog.names())
    assert names == shoal.names(path)
    assert len(set(names)) == nr
    assert list(catalog.sizes()) == [77] * nr
    assert catalog.digest == shoal.info(path)["digest"]
    listed = shoal.index(shapes.shuffled(names), sizes=[77] * nr, to=tmp_path / "c")
    assert Catalog(listed).digest == catalog.digest


def test_both_readers_find_every_name(shoal):
    names = sorted(set(shapes.SHAPES["many kinds in one catalog"]))
    path = shoal.index(names)
    catalog = Catalog(path)
    rng = random.Random(1)
    asked = rng.sample(names, 200) + [name + b"x" for name in rng.sample(names, 50)] + [b"\x01", b"\xff"]
    found = shoal("find", path, "--json", "--", *asked).stdout
    assert json.loads(found) == [catalog.find(name) for name in asked]


def test_both_readers_agree_on_a_catalog_that_was_sorted_on_disk(shoal, tmp_path):
    names = shapes.hexadecimal(45_000, 16, 2, b"d" * 200)  # halves of 8 MB hold fewer
    spilled = Catalog(shoal.index(names, "--memory", "48M"))
    spilled.check()
    whole = Catalog(shoal.index(sorted(names), to=tmp_path / "c"))
    assert spilled.digest == whole.digest
    assert list(spilled.names()) == list(whole.names())


def test_dictionaries_are_used_and_agreed_on(shoal):
    names = sorted({b"%s.%d" % (word, i % 9) for i, word in enumerate(shapes.words(65_000, 3))})
    path = shoal.index(names)
    catalog = Catalog(path)
    catalog.check()
    assert catalog.dictionaries
    assert list(catalog.names()) == names == shoal.names(path)


def test_all_kinds_of_segments_are_among_the_shapes(shoal):
    kinds = set()
    for names in shapes.SHAPES.values():
        catalog = Catalog(shoal.index(names))
        kinds.update(catalog.segment_kind(number) for number in range(len(catalog.segments)))
    assert kinds == {"GRID", "FIXED", "DECIMAL", "FRONT"}
