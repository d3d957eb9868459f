"""--update OLD: what has not changed is not read again, and the catalog is the one that a fresh listing makes."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import binary, lines, settle


def put(tree, name, size=1):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.fixture
def tree(tmp_path):
    """Six directories with files, one of them the root, and two levels."""
    place = tmp_path / "tree"
    for name in ("r1", "a/1", "a/2", "a.b/1", "a0", "b/c/d/1", "b/c/d/2", "b/c/1", "b/1", "e/1"):
        put(place, name, len(name))
    settle(place)
    return place


@pytest.fixture
def update(shoal, tmp_path, tree):
    """update(*options): list afresh and by an update of `old`, see that both are the same; the update's JSON."""
    (tmp_path / "out").mkdir()

    def run(*options, old=tmp_path / "out" / "old", to=tmp_path / "out" / "new"):
        result = json.loads(shoal.good("index", tree, "-q", "--json", "-o", to, "--update", old, *options))
        shoal.good("index", tree, "-q", "-o", tmp_path / "out" / "fresh", *options)
        assert shoal.good("ls", to, "--sizes") == shoal.good("ls", tmp_path / "out" / "fresh", "--sizes")
        assert shoal.info(to)["digest"] == shoal.info(tmp_path / "out" / "fresh")["digest"]
        shoal.good("verify", to)
        assert result["files"] == shoal.info(to)["files"]
        return result

    run.old = tmp_path / "out" / "old"
    shoal.good("index", tree, "-q", "-o", run.old)
    return run


DIRECTORIES = 7  # of the tree, with its root: a, a.b, b, b/c, b/c/d, e


def test_an_unchanged_tree_is_taken_over_whole(update):
    result = update()
    assert (result["unchanged"], result["reused"], result["directories"]) == (DIRECTORIES, 10, 0)


def test_how_much_was_skipped_is_said(shoal, update, tree, tmp_path):
    result = shoal("index", tree, "-o", tmp_path / "out" / "c", "--update", update.old)
    assert result.returncode == 0
    (said,) = lines(result.stderr)
    assert b"%d directories not read because they had not changed" % DIRECTORIES in said
    assert b"10 names in them taken over" in said


def added(tree):
    put(tree, "a/3")


def removed(tree):
    (tree / "b" / "c" / "d" / "1").unlink()


def removed_last(tree):
    (tree / "e" / "1").unlink()


def renamed(tree):
    (tree / "a" / "1").rename(tree / "a" / "x")


def moved(tree):
    (tree / "a" / "1").rename(tree / "b" / "x")


def new_directory(tree):
    put(tree, "b/c/n/1")


def removed_directory(tree):
    shutil.rmtree(tree / "b" / "c")


def deep(tree):
    put(tree, "b/c/d/3")


def file_becomes_directory(tree):
    (tree / "a" / "1").unlink()
    put(tree, "a/1/inside")


def directory_becomes_file(tree):
    shutil.rmtree(tree / "e")
    put(tree, "e")


def in_the_root(tree):
    put(tree, "zzz")


# What is done, directories that are read for it, names reused.
CHANGES = [(added, 1, 8), (removed, 1, 8), (removed_last, 1, 9), (renamed, 1, 8), (moved, 2, 7), (new_directory, 2, 9),
           (removed_directory, 1, 6), (deep, 1, 8), (file_becomes_directory, 2, 8), (directory_becomes_file, 1, 7),
           (in_the_root, 1, 8)]


@pytest.mark.parametrize("change, nr_read, nr_reused", CHANGES, ids=[change[0].__name__ for change in CHANGES])
def test_only_changed_directories_are_read(update, tree, change, nr_read, nr_reused):
    change(tree)
    result = update()
    assert result["directories"] == nr_read
    assert result["reused"] == nr_reused


@pytest.mark.parametrize("change", [change[0] for change in CHANGES], ids=[change[0].__name__ for change in CHANGES])
def test_a_time_that_is_set_back_hides_no_change(update, tree, change):
    before = {path: path.stat() for path in [tree, *tree.rglob("*")] if path.is_dir()}
    change(tree)
    for path, was in before.items():
        if path.is_dir():
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    update()


def test_an_old_directory_that_comes_from_elsewhere_is_read(update, tree, tmp_path):
    put(tmp_path / "elsewhere", "old/1")
    settle(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "old").rename(tree / "old")
    assert update()["directories"] == 2


def test_directories_that_change_places_are_read(shoal, update, tree):
    put(tree, "x/sub/1")
    put(tree, "y/sub/2")
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    (tree / "x").rename(tree / "z")
    (tree / "y").rename(tree / "x")
    (tree / "z").rename(tree / "y")
    update()


def test_an_empty_directory_that_gets_files_later_is_found(shoal, update, tree):
    (tree / "b" / "empty" / "inside").mkdir(parents=True)
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    assert update()["reused"] == 9  # b is read, as the catalog knows nothing of b/empty
    put(tree, "b/empty/inside/1")
    update()


def test_a_directory_that_became_empty_gets_files_again(shoal, update, tree):
    (tree / "e" / "1").unlink()
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    put(tree, "e/2")
    update()


def test_sizes_of_files_rewritten_in_place_are_kept(shoal, update, tree, tmp_path):
    """As the help says."""
    (tree / "a" / "1").write_bytes(b"x" * 777)
    shoal.good("index", tree, "-q", "-o", tmp_path / "out" / "c", "--update", update.old)
    sizes = dict(line.split(b"\t") for line in lines(shoal.good("ls", tmp_path / "out" / "c", "--sizes")))
    assert sizes[b"a/1"] == b"3"
    put(tree, "a/new")  # now that directory is read again
    update()


def test_a_change_just_before_the_listing_is_not_lost(shoal, tree, tmp_path):
    """Times of files tick some milliseconds apart: what changed that late is read again."""
    for i in range(20):
        put(tree, "a/%d" % i)
        shoal.good("index", tree, "-q", "-o", tmp_path / "c", *(["--update", tmp_path / "c"] if i else []))
        put(tree, "b/%d" % i)
    shoal.good("index", tree, "-q", "-o", tmp_path / "c", "--update", tmp_path / "c")
    assert shoal.names(tmp_path / "c") == sorted(os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")
                                                 if path.is_file())


def test_the_old_catalog_may_be_the_new_one(update, tree):
    for i in range(3):
        put(tree, "b/%d" % (i + 5))
        update(to=update.old)


def test_updates_of_updates(update, tree):
    put(tree, "b/x")
    settle(tree)
    update(to=update.old)
    (tree / "b" / "x").unlink()
    assert update()["directories"] == 1


@pytest.mark.parametrize("options", [["--no-sizes"], ["--include", "*1"], ["--exclude", "b/c/", "--exclude", "a.b"],
                                     ["-x"], ["--samples-per-file", "3"], ["--root", "s3://bucket"]])
def test_with_the_same_options(shoal, update, tree, options):
    shoal.good("index", tree, "-q", "-o", update.old, *options)
    assert update(*options)["reused"] > 0
    put(tree, "b/c/d/new1")
    put(tree, "a.b/new1")
    update(*options)


@pytest.mark.parametrize("options", [["--no-sizes"], ["--include", "*1"], ["--exclude", "*1"], ["-x"]])
def test_other_options_are_refused(shoal, fails, update, tree, tmp_path, options):
    (tmp_path / "empty").mkdir()
    for first, second in ([], options), (options, []), (options, options + ["--exclude", "q"]):
        shoal.good("index", tree, "-q", "--force", "-o", update.old, *first)
        result = shoal("index", tree, "-q", "-o", tmp_path / "empty" / "c", "--update", update.old, *second)
        fails(result, 1, "cannot update '%s'" % update.old, "with other options", empty=tmp_path / "empty")


def refused(shoal, fails, tree, tmp_path, old, *words, options=()):
    (tmp_path / "empty").mkdir(exist_ok=True)
    result = shoal("index", tree, "-q", "-o", tmp_path / "empty" / "c", "--update", old, *options)
    fails(result, 1, *words, empty=tmp_path / "empty")


def test_links_that_are_followed_are_refused(shoal, fails, update, tree, tmp_path):
    (tmp_path / "empty").mkdir()
    for old in update.old, tmp_path / "none":
        result = shoal("index", tree, "-o", tmp_path / "empty" / "c", "--update", old, "--follow")
        fails(result, 2, "--update cannot be used with --follow", empty=tmp_path / "empty")


def test_a_catalog_of_another_root_is_refused(shoal, fails, update, tree, tmp_path):
    refused(shoal, fails, tree / "b", tmp_path, update.old, f"it lists 'file://{tree}', not 'file://{tree}/b'")


def test_a_catalog_that_no_listing_made_is_refused(shoal, fails, tree, tmp_path):
    old = shoal.index([b"a/1"], root=f"file://{tree}")
    refused(shoal, fails, tree, tmp_path, old, f"cannot update '{old}'", "not made by listing a directory")


def test_a_catalog_that_is_not_there_is_refused(shoal, fails, tree, tmp_path):
    refused(shoal, fails, tree, tmp_path, tmp_path / "no", "cannot update", "No such file")


def test_a_file_that_is_no_catalog_is_refused(shoal, fails, tree, tmp_path):
    (tmp_path / "text").write_bytes(b"some text\n" * 100)
    refused(shoal, fails, tree, tmp_path, tmp_path / "text", "cannot update", "catalog")


def test_damage_of_the_old_catalog_is_told_and_never_taken_over(shoal, update, tree, tmp_path):
    image = update.old.read_bytes()
    good = shoal.good("ls", update.old, "--sizes")
    (tmp_path / "empty").mkdir()
    new, old = tmp_path / "empty" / "c", tmp_path / "damaged"
    for at in [*range(0, len(image), 16), -1]:
        damaged = bytearray(image)
        damaged[at] ^= 0x10
        old.write_bytes(damaged)
        result = shoal("index", tree, "-q", "-o", new, "--update", old)
        if result.returncode == 0:  # bytes that nobody needs
            assert shoal.good("ls", new, "--sizes") == good
            new.unlink()
        else:
            assert result.returncode == 1
            (said,) = lines(result.stderr)
            assert said.startswith(b"shoal index: '%s': cannot update '%s': " % (os.fsencode(tree), os.fsencode(old)))
            assert b"catalog" in said.rpartition(b"': ")[2]
        assert os.listdir(tmp_path / "empty") == []


def test_many_files_in_one_directory(shoal, tree, update):
    for i in range(3000):
        put(tree, "many/%d" % (i * 7919 % 3000), i % 50)
    for i in range(300):
        put(tree, "wide/%d/x" % i)
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    assert update()["reused"] == 3310
    put(tree, "wide/150/y")
    result = update()
    assert (result["reused"], result["directories"]) == (3309, 1)


def test_directories_of_any_number_of_files_are_taken_over(shoal, tree, update):
    """Around 256, what is held before a directory is known to be unchanged, and 200, from which on what lies below a
    directory is not stepped over name by name."""
    sizes = (1, 198, 199, 200, 201, 202, 255, 256, 257, 513)
    for nr in sizes:
        for i in range(nr):
            put(tree, f"n{nr}/{i:03}", i % 7)
            put(tree, f"below/n{nr}/m/{i:03}", i % 5)
        put(tree, f"below/n{nr}.txt")
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    result = update()
    assert (result["reused"], result["directories"]) == (10 + 2 * sum(sizes) + len(sizes), 0)
    for nr in sizes:
        put(tree, f"n{nr}/more")
        (tree / f"below/n{nr}/m/000").unlink()
    result = update()
    assert result["directories"] == 2 * len(sizes)


def test_directories_of_many_directories_are_taken_over(shoal, tree, update):
    for i in range(1100):  # their paths are more than is held before a directory is known to be unchanged
        put(tree, f"wide/{i:030}/x")
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    assert update()["reused"] == 1110
    (tree / "wide/new").mkdir()
    result = update()
    assert (result["reused"], result["directories"]) == (1110, 2), "wide and new"


@pytest.mark.parametrize("length", [200, 255])
def test_long_names(shoal, tree, update, length):
    folder = tree
    while len(os.fspath(folder.relative_to(tree))) + length + 1 < 4000:
        folder = folder / ("d" * length)
    here = os.getcwd()
    try:  # paths this long can only be made in steps
        os.chdir(tree)
        for part in folder.relative_to(tree).parts:
            os.mkdir(part)
            os.chdir(part)
        pathlib.Path("f" * 80).write_bytes(b"12345")
    finally:
        os.chdir(here)
    settle(tree)
    shoal.good("index", tree, "-q", "-o", update.old)
    assert update()["reused"] == 11


@pytest.mark.skipif(not shutil.which("mpirun.mpich"), reason="there is no mpirun.mpich here")
def test_ranks_share_an_update(shoal, update, tree, tmp_path):
    put(tree, "b/c/d/3")
    new = tmp_path / "out" / "new"
    subprocess.run(["mpirun.mpich", "-n", "2", binary(), "index", tree, "-q", "-o", new, "--update", update.old],
                   check=True, timeout=60, stdin=subprocess.DEVNULL,
                   env=dict(os.environ, SHOAL_MODULE_DIR=os.path.dirname(binary()),
                            ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"))
    shoal.good("index", tree, "-q", "-o", tmp_path / "out" / "fresh")
    assert shoal.good("ls", new, "--sizes") == shoal.good("ls", tmp_path / "out" / "fresh", "--sizes")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_what_is_mounted_in_the_tree_is_read_and_cannot_be_updated(shoal, fails, tmp_path):
    tree, catalog = tmp_path / "t", tmp_path / "c"
    (tree / "x").mkdir(parents=True)
    (tree / "x" / "under").write_bytes(b"1")
    mount = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tree / "x"], check=False)
    if mount.returncode != 0:
        pytest.skip("mount is not allowed here")
    try:
        (tree / "x" / "over").write_bytes(b"2")
        settle(tree)
        shoal.good("index", tree, "-q", "-o", catalog)
        fails(shoal("index", tree, "-q", "-o", tmp_path / "d", "--update", catalog), 1, "several file systems")
    finally:
        subprocess.run(["umount", tree / "x"], check=True)
    shoal.good("index", tree, "-q", "-o", catalog)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tree / "x"], check=True)
    try:
        (tree / "x" / "over").write_bytes(b"2")
        os.utime(tree / "x", (1, 1))
        shoal.good("index", tree, "-q", "-o", tmp_path / "d", "--update", catalog)
        assert shoal.names(tmp_path / "d") == [b"x/over"]
    finally:
        subprocess.run(["umount", tree / "x"], check=True)
