import os
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
    script = ("import shoal, signal\n"
              "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
              "signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
              "try: shoal.index_pattern('img_{:09d}.jpg', 10**9, %r, root='/r')\n"
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
