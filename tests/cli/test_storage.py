"""verify --storage: what a catalog says, and what is there now."""

import json
import os
import signal
import subprocess

import pytest
from conftest import contents, lines


def put(tree, name, size=1):
    path = os.path.join(os.fsencode(tree), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


NAMES = ["a.b", "a/1", "a/2", "a0", "b/c/1", "z"]


@pytest.fixture
def tree(tmp_path):
    for i, name in enumerate(NAMES):
        put(tmp_path / "tree", name, i)
    return tmp_path / "tree"


@pytest.fixture
def catalog(shoal, tree, tmp_path):
    (tmp_path / "out").mkdir()
    shoal.good("index", tree, "-q", "-o", tmp_path / "out" / "c")
    return tmp_path / "out" / "c"


def differs(result, missing=0, new=0, resized=0, same=0):
    """It said so once, with these counts: the lines that it printed."""
    assert result.returncode == 1
    (said,) = lines(result.stderr)
    assert said.startswith(b"shoal verify: '")
    assert said.decode().endswith(f"' differs from the storage: {missing:,} missing, {new:,} new, {resized:,} with another size, {same:,} unchanged")
    return lines(result.stdout)


def test_the_same_is_quiet(shoal, catalog):
    assert shoal.good("verify", "-q", "--storage", catalog) == b""
    said = shoal("verify", "--storage", "--verbose", catalog).stdout
    assert said == b"%s: good, 6 files, nothing missing, digest %s\n" % (os.fsencode(catalog),
                                                                   shoal.info(catalog)["digest"].encode())


def test_missing(shoal, catalog, tree):
    (tree / "a" / "1").unlink()
    assert differs(shoal("verify", "--storage", catalog), missing=1, same=5) == [b"missing\ta/1"]


def test_new(shoal, catalog, tree):
    put(tree, "a/0/0")
    assert differs(shoal("verify", "--storage", catalog), new=1, same=6) == [b"new\ta/0/0"]


def test_resized(shoal, catalog, tree):
    put(tree, "b/c/1", 1 << 40)
    assert differs(shoal("verify", "--storage", catalog), resized=1, same=5) == [b"resized\tb/c/1\t4\t1099511627776"]


def test_all_at_once_in_the_order_of_names(shoal, catalog, tree):
    (tree / "a.b").unlink()
    put(tree, "a/2", 50)
    put(tree, "a/3")
    (tree / "z").unlink()
    put(tree, "zz")
    put(tree, "A")
    want = [b"new\tA", b"missing\ta.b", b"resized\ta/2\t2\t50", b"new\ta/3", b"missing\tz", b"new\tzz"]
    assert differs(shoal("verify", "--storage", catalog), missing=2, new=3, resized=1, same=3) == want


def test_everything_is_gone(shoal, catalog, tree):
    for name in NAMES:
        (tree / name).unlink()
    want = [b"missing\t" + name.encode() for name in NAMES]
    assert differs(shoal("verify", "--storage", catalog), missing=6) == want


def test_everything_is_new(shoal, tmp_path, tree):
    (tmp_path / "empty").mkdir()
    shoal.good("index", tmp_path / "empty", "-q", "--force", "-o", tmp_path / "c")
    want = [b"new\t" + name.encode() for name in NAMES]
    assert differs(shoal("verify", "--storage", tmp_path / "c", "--data", tree), new=6) == want


def test_nothing_and_nothing_are_the_same(shoal, tmp_path):
    (tmp_path / "empty").mkdir()
    shoal.good("index", tmp_path / "empty", "-q", "--force", "-o", tmp_path / "c")
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""


def test_a_file_that_became_a_directory(shoal, catalog, tree):
    (tree / "z").unlink()
    put(tree, "z/inside")
    assert differs(shoal("verify", "--storage", catalog), missing=1, new=1, same=5) == [b"missing\tz", b"new\tz/inside"]


def test_odd_names_take_one_line_each(shoal, catalog, tree):
    put(tree, b"new\nline")
    put(tree, b"tab\tbed")
    put(tree, b"\xff\xfe")
    got = differs(shoal("verify", "--storage", catalog), new=3, same=6)
    assert got == [b"new\tnew\\x0aline", b"new\ttab\\x09bed", b"new\t\xff\xfe"]


def test_odd_names_that_are_the_same(shoal, tmp_path):
    for name in (b"new\nline", b"\xff", b"n" * 255, b"d\x01/" + b"\x80" * 200):
        put(tmp_path / "tree", name)
    shoal.good("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""


def test_without_sizes_only_names_are_compared(shoal, tree, tmp_path):
    shoal.good("index", tree, "-q", "--no-sizes", "-o", tmp_path / "c")
    put(tree, "a/1", 12345)
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""
    (tree / "z").unlink()
    assert differs(shoal("verify", "--storage", tmp_path / "c"), missing=1, same=5) == [b"missing\tz"]


@pytest.mark.parametrize("options", [["--include", "[12]"], ["--exclude", "a*"], ["--exclude", "b/c/"],
                                     ["--include", "*", "--exclude", "z"]])
def test_what_the_patterns_leave_out_is_not_new(shoal, tree, tmp_path, options):
    shoal.good("index", tree, "-q", "-o", tmp_path / "c", *options)
    assert 0 < shoal.info(tmp_path / "c")["files"] < 6
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""


def test_what_the_patterns_take_in_is_new(shoal, tree, tmp_path):
    shoal.good("index", tree, "-q", "-o", tmp_path / "c", "--include", "[12]")
    put(tree, "q/2")
    put(tree, "q/3")
    assert differs(shoal("verify", "--storage", tmp_path / "c"), new=1, same=3) == [b"new\tq/2"]


def test_links_are_followed_as_they_were(shoal, tree, tmp_path):
    (tree / "link").symlink_to("b")
    shoal.good("index", tree, "-q", "-o", tmp_path / "c", "--follow")
    assert b"link/c/1" in shoal.names(tmp_path / "c")
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""
    shoal.good("index", tree, "-q", "-o", tmp_path / "c")
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c") == b""


def test_a_catalog_of_a_list(shoal, tree):
    catalog = shoal.index([b"a/1", b"a/2", b"q"], sizes=[1, 7, 0], root=f"file://{tree}")
    got = differs(shoal("verify", "--storage", catalog), missing=1, new=4, resized=1, same=1)
    assert got == [b"new\ta.b", b"resized\ta/2\t7\t2", b"new\ta0", b"new\tb/c/1", b"missing\tq", b"new\tz"]


def test_another_place(shoal, catalog, tree, tmp_path):
    for i, name in enumerate(NAMES):
        put(tmp_path / "copy", name, i)
    (tree / "z").unlink()
    assert shoal.good("verify", "-q", "--storage", "--data", tmp_path / "copy", catalog) == b""
    assert shoal.good("verify", "-q", "--storage", "--data", f"file://{tmp_path}/copy", catalog) == b""


def test_a_catalog_in_the_tree_is_no_part_of_it(shoal, tree):
    shoal.good("index", tree, "-q", "-o", tree / "a" / "catalog")
    assert shoal.good("verify", "-q", "--storage", tree / "a" / "catalog") == b""


# ------------------------------------------------------------------------------------------------------------- words


def test_a_root_that_is_gone(shoal, fails, catalog, tree):
    tree.rename(tree.parent / "elsewhere")
    fails(shoal("verify", "--storage", catalog), 1, f"'{catalog}'", f"there is no directory '{tree}'")


def test_a_root_that_cannot_be_listed(shoal, fails):
    catalog = shoal.index([b"a"], root="s3://bucket/x")
    fails(shoal("verify", "--storage", catalog), 1, f"'{catalog}'", "s3://bucket/x")


def test_a_place_that_is_a_file(shoal, fails, catalog, tree):
    fails(shoal("verify", "--storage", catalog, "--data", tree / "z"), 1, f"{tree}/z")


def test_a_damaged_catalog_is_not_compared(shoal, fails, catalog):
    image = bytearray(catalog.read_bytes())
    image[-30] ^= 1
    catalog.write_bytes(image)
    fails(shoal("verify", "--storage", catalog), 1, "damaged catalog")


@pytest.mark.parametrize("option", [["--data", "/"], ["--memory", "64M"], ["--tmp-dir", "/tmp"], ["--threads", "2"]])
def test_options_that_need_storage(shoal, fails, catalog, option):
    fails(shoal("verify", catalog, *option), 2, f"{option[0]} is for --storage")


@pytest.mark.parametrize("option, words", [(["--memory", "47M"], "--memory must be 48M or more"),
                                           (["--memory", "x"], "not a size"), (["--threads", "0"], "1 to 1024"),
                                           (["--threads", "1025"], "1 to 1024")])
def test_options_out_of_range(shoal, fails, catalog, option, words):
    fails(shoal("verify", "--storage", catalog, *option), 2, words)


def test_a_temporary_directory_that_is_not_there_matters_only_when_needed(shoal, catalog):
    result = shoal("verify", "--storage", catalog, "--tmp-dir", "/not/there")
    assert result.returncode in (0, 1) and len(lines(result.stderr)) == result.returncode


def test_several_catalogs(shoal, catalog, tree, tmp_path):
    shoal.good("index", tree / "b", "-q", "-o", tmp_path / "b")
    put(tree, "a/3")
    result = shoal("verify", "--storage", catalog, tmp_path / "b", tmp_path / "no")
    assert result.returncode == 1
    out = lines(result.stdout)
    assert out[0] == b"new\ta/3" and out[1].startswith(b"%s/b: good, " % os.fsencode(tmp_path)) and len(out) == 2
    said = lines(result.stderr)
    assert len(said) == 2 and b"1 new" in said[0] and b"No such file" in said[1]


def test_json_has_counts(shoal, catalog, tree):
    (report,) = json.loads(shoal.good("verify", "--storage", "--json", catalog))
    assert report == {"file": str(catalog), "good": True, "damage": None,
                      "storage": {"same": 6, "missing": 0, "new": 0, "resized": 0}}
    put(tree, "new")
    put(tree, "z", 99)
    (tree / "a" / "1").unlink()
    result = shoal("verify", "--storage", "--json", catalog)
    (report,) = json.loads(result.stdout)
    assert result.returncode == 1 and not report["good"] and report["damage"] is None
    assert report["storage"] == {"same": 4, "missing": 1, "new": 1, "resized": 1}


def test_json_of_what_could_not_be_compared(shoal, catalog, tree):
    tree.rename(tree.parent / "elsewhere")
    result = shoal("verify", "--storage", "--json", catalog)
    (report,) = json.loads(result.stdout)
    assert result.returncode == 1
    assert not report["good"] and "no directory" in report["damage"] and "storage" not in report


def test_quiet_says_only_that_it_differs(shoal, catalog, tree):
    assert shoal.good("verify", "--storage", "--quiet", catalog) == b""
    put(tree, "new")
    assert differs(shoal("verify", "--storage", "--quiet", catalog), new=1, same=6) == []


def test_an_unreadable_directory_ends_it(shoal, catalog, tree, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs another user")
    (tree / "b").chmod(0)
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o755)
    result = shoal("verify", "--storage", catalog, user=65534, group=65534, extra_groups=[])
    (tree / "b").chmod(0o755)
    assert result.returncode == 1
    (said,) = lines(result.stderr)
    assert b"cannot open directory 'b'" in said and b"Permission denied" in said, said
    assert result.stdout == b""


# ------------------------------------------------------------------------------------------------------------- large


@pytest.fixture(scope="module")
def large(memory_dir):
    """200,000 files with names of 80 bytes: more than 48 MB hold."""
    tree = memory_dir / "large"
    for folder in range(100):
        os.makedirs(tree / f"{folder:02d}")
        here = os.open(tree / f"{folder:02d}", os.O_RDONLY | os.O_DIRECTORY)
        for i in range(2000):
            os.mknod(f"{i * 7919 % 2000:04d}-" + "0123456789" * 7, dir_fd=here)
        os.close(here)
    return tree


def test_many_files_in_little_memory(shoal, large, tmp_path):
    shoal.good("index", large, "-q", "--no-sizes", "-o", tmp_path / "c")
    (tmp_path / "tmp").mkdir()
    options = ["--memory", "48M", "--tmp-dir", tmp_path / "tmp", "--quiet"]
    assert shoal.good("verify", "-q", "--storage", tmp_path / "c", *options) == b""
    extra = large / "50" / "0000-extra"
    extra.write_bytes(b"")
    result = shoal("verify", "--storage", tmp_path / "c", *options[:4])
    extra.unlink()
    assert differs(result, new=1, same=200_000) == [b"new\t50/0000-extra"]
    assert contents(tmp_path / "tmp") == []


def has_open(process, folder):
    """Whether a process has a directory of this tree open: it has checked the catalog, and lists."""
    fds = f"/proc/{process.pid}/fd"
    for fd in os.listdir(fds):
        try:
            if os.readlink(f"{fds}/{fd}").startswith(str(folder)):
                return True
        except FileNotFoundError:  # it was closed meanwhile
            pass
    return False


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=lambda sig: sig.name)
def test_interrupted_it_ends_soon_and_says_so(shoal, large, tmp_path, sig):
    shoal.good("index", large, "-q", "--no-sizes", "-o", tmp_path / "c")
    for _ in range(20):
        process = shoal.start("verify", "--storage", tmp_path / "c", "--threads", 1, "--data", large,
                              stdin=subprocess.DEVNULL)
        while process.poll() is None and not has_open(process, large):
            pass
        process.send_signal(sig)
        out, said = process.communicate(timeout=60)
        if process.returncode != 0:  # on a busy machine it may be through before the signal comes
            break
    assert process.returncode == -sig
    (line,) = lines(said)
    assert line == b"shoal verify: '%s': interrupted" % os.fsencode(tmp_path / "c")
    assert out == b""


def test_nobody_reads_the_differences(shoal, large, tmp_path):
    (tmp_path / "empty").mkdir()
    shoal.good("index", tmp_path / "empty", "-q", "--force", "-o", tmp_path / "c")
    process = shoal.start("verify", "--storage", tmp_path / "c", "--data", large, stdin=subprocess.DEVNULL)
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(timeout=60) == -signal.SIGPIPE
    assert said == b""


def test_a_full_temporary_disk_is_said(shoal, fails, large, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a file system")
    try:
        shoal.good("index", large, "-q", "--no-sizes", "-o", tmp_path / "c")
        fails(shoal("verify", "--storage", tmp_path / "c", "--memory", "48M", "--tmp-dir", place, "-q"), 1,
              "No space left on device", empty=place)
    finally:
        subprocess.run(["umount", place], check=True)
