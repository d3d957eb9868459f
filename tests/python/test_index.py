import os
import pathlib
import signal
import subprocess
import sys

import pytest

import shoal


def test_a_tree_a_list_and_an_iterable_make_the_same_catalog(files, tmp_path):
    root = os.path.join(os.path.dirname(files), "data")
    tree = shoal.index(root, tmp_path / "tree.cat")
    assert tree == shoal.Catalog(files) and tree.made["nr_names"] == 600 and tree.made["nr_directories"] == 7
    lines = ["%s\t%d\n" % (name, tree.size(i)) for i, name in enumerate(tree)]
    (tmp_path / "names.txt").write_text("".join(reversed(lines)))
    assert shoal.index(tmp_path / "names.txt", tmp_path / "list.cat", root=root) == tree
    pairs = ((name, tree.size(i)) for i, name in enumerate(tree))
    assert shoal.index(pairs, tmp_path / "pairs.cat", root=root) == tree
    names = shoal.index(iter(tree), tmp_path / "names.cat", root=root, names_only=True)
    assert list(names) == list(tree) and names.nr_bytes is None


def test_patterns_of_files_are_taken_and_left_out(files, tmp_path):
    root = os.path.join(os.path.dirname(files), "data")
    some = shoal.index(root, tmp_path / "some.cat", include=["*1.bin"], exclude=["d3/"], sizes=False)
    assert len(some) == 50 and some.nr_bytes is None and all(name.endswith("1.bin") for name in some)
    made = shoal.index_pattern("img_{:04d}.jpg", 100, tmp_path / "p.cat", root="/r", size=7, subfolders=10)
    assert len(made) == 100 and made[0] == "00/img_0000.jpg" and made.size(99) == 7


def test_progress_is_told_and_may_end_it(files, tmp_path):
    told = []
    shoal.index(os.path.dirname(files), tmp_path / "a.cat", progress=told.append)
    assert told and told[-1].names >= 600 and isinstance(told[-1].where, str)

    def enough(progress):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        shoal.index(os.path.dirname(files), tmp_path / "b.cat", progress=enough)
    assert sorted(os.listdir(tmp_path)) == ["a.cat"]


def test_progress_has_the_number_of_all_names_where_it_is_known(tmp_path):
    """Of a pattern from the beginning, whether its names are computed or sorted; of anything else while it is sealed."""
    for pattern, phases in (("f{:08d}", {False}), ("f{}", {False, True})):
        told = []
        shoal.index_pattern(pattern, 1_000_000, tmp_path / "p.cat", root="/r", progress=told.append, force=True)
        assert {p.sealing for p in told} == phases and {p.total for p in told} == {1_000_000}
        assert all(0 < p.names <= 1_000_000 for p in told)
    told = []
    shoal.index(("f%d" % i for i in range(200_000)), tmp_path / "l.cat", root="/r", progress=told.append)
    assert {p.total for p in told if not p.sealing} == {0} and {p.total for p in told if p.sealing} == {200_000}


@pytest.mark.parametrize("nr", [0, 3, 200_000])
def test_an_iterable_that_fails_leaves_no_catalog(tmp_path, nr):
    def names():
        yield from ("n%08d" % i for i in range(nr))
        raise LookupError("the database went away")

    with pytest.raises(LookupError, match="went away"):
        shoal.index(names(), tmp_path / "c.cat", root="/r")
    assert os.listdir(tmp_path) == []


def test_bad_names_and_missing_places_are_named(tmp_path):
    with pytest.raises(shoal.Error):
        shoal.index(["x" * 5000], tmp_path / "c.cat", root="/r")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        shoal.index(tmp_path / "nowhere", tmp_path / "c.cat")
    with pytest.raises(shoal.Error):
        shoal.index(["a"], tmp_path / "no" / "folder" / "c.cat", root="/r")
    with pytest.raises(shoal.Error):
        shoal.index_pattern("no number", 5, tmp_path / "c.cat")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a\0b", b"a\0b", ("a\0b", 5), "\0"])
def test_a_name_with_nul_is_refused_and_leaves_nothing(tmp_path, name):
    with pytest.raises(shoal.BadValueError, match="NUL"):
        shoal.index([("good", 5), name], tmp_path / "c.cat", root="/r")
    assert os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_pattern_and_leaves_nothing(tmp_path):
    script = ("import signal\nfrom shoal import index_pattern\n"
              "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
              "signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
              "try: index_pattern('img_{:09d}.jpg', 10**9, %r, root='/r')\n"
              "except KeyboardInterrupt: print('heard')\n" % str(tmp_path / "c.cat"))
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, text=True, check=False)
    assert done.stdout == "heard\n" and os.listdir(tmp_path) == []


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path):
    script = ("import shoal, itertools, os, signal\n"
              "def names():\n"
              "    for i in itertools.count():\n"
              "        if i == 300000: os.kill(os.getpid(), signal.SIGINT)\n"
              "        yield 'n%%012d' %% i\n"
              "        if i > 3000000: raise SystemExit('not heard')\n"
              "try: shoal.index(names(), %r, root='/r')\n"
              "except KeyboardInterrupt: print('heard')\n" % str(tmp_path / "c.cat"))
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, text=True, check=False)
    assert done.stdout == "heard\n" and os.listdir(tmp_path) == [] and signal.SIGINT


# ---- Patterns, and what is left of nothing ----


@pytest.fixture
def images(tmp_path):
    """Three kinds of files by their ends: 8, 2 and 1 of them."""
    folder = tmp_path / "images"
    (folder / "deep").mkdir(parents=True)
    for name in ["%d.jpg" % i for i in range(6)] + ["deep/6.jpg", "deep/7.jpg", "a.JPEG", "deep/b.JPEG", "notes.txt"]:
        (folder / name).write_bytes(b"x")
    return folder


@pytest.mark.parametrize("include, exclude, count", [
    ("*.jpg", (), 8),
    (b"*.jpg", (), 8),
    (pathlib.PurePath("*.jpg"), (), 8),
    (["*.jpg"], (), 8),
    (iter(["*.jpg", "*.JPEG"]), (), 10),
    ((), "*.jpg", 3),
    ((), b"deep/", 8),
    ("*.jpg", "deep/", 6),
    (None, None, 11),
])
def test_a_string_is_one_pattern_and_not_its_letters(images, tmp_path, include, exclude, count):
    assert len(shoal.index(images, tmp_path / "c.cat", include=include, exclude=exclude)) == count


@pytest.mark.parametrize("given", [7, ["*.jpg", 7], [["*.jpg"]], True])
@pytest.mark.parametrize("what", ["include", "exclude"])
def test_what_is_no_pattern_is_refused_by_name(images, tmp_path, what, given):
    with pytest.raises(TypeError, match=what + " must be a pattern, such as"):
        shoal.index(images, tmp_path / "c.cat", **{what: given})
    with pytest.raises(shoal.BadValueError, match="NUL"):
        shoal.index(images, tmp_path / "c.cat", **{what: "*.jpg\0x"})
    assert not (tmp_path / "c.cat").exists()


@pytest.mark.parametrize("what", ["include", "exclude"])
def test_patterns_are_not_for_lists_of_names(tmp_path, what):
    (tmp_path / "names.txt").write_text("a\nb\n")
    for source in (["a", "b"], tmp_path / "names.txt"):
        with pytest.raises(shoal.BadValueError, match=what + " applies to a directory or a bucket"):
            shoal.index(source, tmp_path / "c.cat", root="/r", **{what: "a"})


@pytest.mark.parametrize("patterns, words", [
    ({"include": "*.png"}, r"none of the 11 files in 'file:.*images' matches include '\*\.png'; write it all the same with force=True$"),
    ({"include": "*.{jpg,JPEG}"}, r"none of the 11 files .* include '\*\.\{jpg,JPEG\}': \{a,b\} is not a pattern here"),
    ({"include": ["p%d" % i for i in range(9)]}, r"include 'p0', 'p1', 'p2', 'p3' and others; write it all the same with force=True$"),
    ({"exclude": "*"}, r"9 files and directories are left out by exclude '\*'; write it all the same with force=True$"),
    ({"include": "*.txt", "exclude": "n*"}, r"left out by include '\*\.txt' and exclude 'n\*'; write it all the same with force=True$"),
])
@pytest.mark.parametrize("resume", [False, True])
def test_patterns_that_leave_nothing_make_no_catalog(images, tmp_path, patterns, words, resume):
    with pytest.raises(FileNotFoundError, match=words):
        shoal.index(images, tmp_path / "c.cat", resume=resume, **patterns)
    assert os.listdir(tmp_path) == ["images"]
    before = shoal.index(images, tmp_path / "c.cat").digest
    with pytest.raises(shoal.NotFoundError, match=words):
        shoal.index(images, tmp_path / "c.cat", resume=resume, **patterns)
    assert sorted(os.listdir(tmp_path)) == ["c.cat", "images"] and shoal.Catalog(tmp_path / "c.cat").digest == before
    empty = shoal.index(images, tmp_path / "c.cat", force=True, **patterns)
    assert len(empty) == 0 and empty.made["nr_filtered"] > 0


def test_an_empty_place_makes_no_catalog(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no file in '.*there'; write it all the same with force=True$"):
        shoal.index(tmp_path / "there", tmp_path / "c.cat")
    (tmp_path / "there" / "link").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="there is no file in '.*there', but 1 symbolic links"):
        shoal.index(tmp_path / "there", tmp_path / "c.cat")
    with pytest.raises(FileNotFoundError, match="no names to make a catalog of"):
        shoal.index([], tmp_path / "c.cat", root="/r")
    assert os.listdir(tmp_path) == ["there"]
    assert len(shoal.index(tmp_path / "there", tmp_path / "c.cat", force=True)) == 0
    assert len(shoal.index([], tmp_path / "c.cat", root="/r", force=True)) == 0


def test_a_good_catalog_and_other_files_are_not_replaced_by_accident(tmp_path):
    path = tmp_path / "c.cat"
    shoal.index(["a", "b", "c", "d", "e"], path, root="/r")
    with pytest.raises(shoal.Error, match="has 5 names, and only 2 were found now.*force=True"):
        shoal.index(["a", "b"], path, root="/r")
    with pytest.raises(shoal.Error, match="has 5 names"):
        shoal.index_pattern("{:03d}", 2, path, root="/r")
    assert len(shoal.Catalog(path)) == 5
    assert len(shoal.index_pattern("{:03d}", 2, path, root="/r", force=True)) == 2
    path.write_text("notes")
    with pytest.raises(shoal.Error, match="is not a catalog"):
        shoal.index(["a"], path, root="/r")
    assert path.read_text() == "notes"
    assert len(shoal.index(["a"], path, root="/r", force=True)) == 1


def test_a_list_may_be_separated_by_nul_bytes(tmp_path):
    (tmp_path / "names").write_bytes(b"a\nb\0c\0")
    with pytest.raises(shoal.Error, match="null=True"):
        shoal.index(tmp_path / "names", tmp_path / "c.cat", root="/r")
    assert list(shoal.index(tmp_path / "names", tmp_path / "c.cat", root="/r", null=True)) == ["a\nb", "c"]
    with pytest.raises(shoal.BadValueError, match="null applies to a file of names"):
        shoal.index(["a"], tmp_path / "c.cat", root="/r", null=True)


@pytest.mark.parametrize("shard, error, words", [
    ((0, 2), shoal.BadValueError, "shard applies to a bucket"),
    ((2, 2), shoal.BadValueError, "no shard 2 of 2: shards are counted from 0"),
    ((-1, 2), shoal.BadValueError, "k of shard"),
    ((0, 0), shoal.BadValueError, "n of shard"),
    ((0, 10**9), shoal.BadValueError, "at most 65536"),
    (3, TypeError, r"shard must be \(k, n\)"),
    ((1, 2, 3), TypeError, r"shard must be \(k, n\)"),
    ("1/2", TypeError, r"shard must be \(k, n\)"),
])
def test_a_shard_that_makes_no_sense_is_refused(tmp_path, shard, error, words):
    with pytest.raises(error, match=words):
        shoal.index(tmp_path, tmp_path / "c.cat", shard=shard)


@pytest.mark.parametrize("options, missing", [({"output": "no/such/x.cat"}, "no/such"), ({"tmp_dir": "missing"}, "missing"),
                                              ({"update": "missing.cat"}, "missing.cat")])
def test_a_missing_folder_is_not_taken_for_an_empty_dataset(tmp_path, options, missing):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_bytes(b"x")
    paths = {name: tmp_path / path for name, path in {"output": "x.cat", **options}.items()}
    with pytest.raises(OSError) as told:
        shoal.index(tmp_path / "d", paths.pop("output"), **paths)
    assert missing in str(told.value) and "there is no file" not in str(told.value)
