"""Directory trees become catalogs: every regular file below a directory, once for each of its names."""

import json
import os
import pathlib
import pty
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

import pytest
from conftest import check_words, contents, is_being_written, lines, views, wait_until_it_has_worked

NOBODY = 65534
NAME_MAX = 4096  # bytes, of a name in a catalog


# ------------------------------------------------------------------------------------------------------- what they share


def listing(root, follow=False):
    """Names and sizes of all regular files, by a walk of one thread that opens one step at a time."""
    found = {}

    def visit(fd, prefix, above):
        here = os.fstat(fd)
        above = above + [(here.st_dev, here.st_ino)]
        for name in os.listdir(fd):
            name = os.fsencode(name)
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=follow)
            except OSError:
                continue  # a link that leads nowhere
            if stat.S_ISDIR(status.st_mode):
                linked = stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
                if linked and (status.st_dev, status.st_ino) in above:
                    continue
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
                visit(below, prefix + name + b"/", above)
            elif stat.S_ISREG(status.st_mode):
                found[prefix + name] = status.st_size
        os.close(fd)

    visit(os.open(root, os.O_RDONLY | os.O_DIRECTORY), b"", [])
    return found


def make(root, *names, size=None):
    """Files of these names, with the directories they need. Each has its own size, or the one given."""
    for i, name in enumerate(names):
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(i + 1 if size is None else size)


def make_deep(root, parts, names=()):
    """Directories in each other, however deep, with files in the innermost one."""
    fd = os.open(root, os.O_RDONLY)
    for part in parts:
        os.mkdir(part, dir_fd=fd)
        below = os.open(part, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)


def parts_of(nr_bytes):
    """Directory names whose path has this many bytes."""
    parts = []
    while nr_bytes > 255:
        parts.append(b"d" * min(255, nr_bytes - 2))  # leave room for a slash and a byte
        nr_bytes -= len(parts[-1]) + 1
    return parts + [b"d" * nr_bytes]


def sizes_of(shoal, path):
    """Names and sizes of a catalog."""
    entries = (entry.rsplit(b"\t", 1) for entry in lines(shoal.good("ls", path, "-0", "--sizes"), b"\0"))
    return {name: int(size) for name, size in entries}


class Trees:
    """Indexes trees into a catalog that lies elsewhere."""

    def __init__(self, shoal):
        self.shoal = shoal
        self.path = shoal.scratch / "tree.shoal"

    def __call__(self, where, *options, **run):
        """The catalog's names and sizes, after a run that complains of nothing."""
        assert self.shoal.good("index", where, "-q", "--force", "-o", self.path, *options, **run) == b""
        assert self.shoal.good("verify", "-q", self.path) == b""
        return sizes_of(self.shoal, self.path)

    def names(self, where, *options, **run):
        self.shoal.good("index", where, "-q", "--force", "-o", self.path, *options, **run)
        return self.shoal.names(self.path)

    def told(self, where, *options, **run):
        """What --json tells."""
        return json.loads(self.shoal.good("index", where, "-q", "--force", "--json", "-o", self.path, *options, **run))

    def digest(self, where, *options, **run):
        self.names(where, *options, **run)
        return self.shoal.info(self.path)["digest"]


@pytest.fixture
def tree(shoal):
    return Trees(shoal)


@pytest.fixture
def nobody(shoal, tmp_path):
    """Runs the command as somebody whom permissions stop."""

    def run(*args, **options):
        if os.geteuid() != 0:
            return shoal(*args, **options)
        for directory in (shoal.scratch, tmp_path):
            os.chmod(directory, 0o777)
            for parent in list(directory.parents)[:2]:
                os.chmod(parent, os.stat(parent).st_mode | 0o055)
        try:
            return shoal(*args, user=NOBODY, group=NOBODY, extra_groups=[], **options)
        except PermissionError:
            pytest.skip("cannot run the command as another user")

    return run


@pytest.fixture
def locked():
    """locked(path, mode): takes permissions away until the test has ended."""
    paths = []

    def lock(path, mode=0):
        paths.append(path)
        os.chmod(path, mode)

    yield lock
    for path in paths:
        os.chmod(path, 0o755)


def mount_tmpfs(place, size):
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a file system: " + mounted.stderr.decode())


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def memory_dir():
    """A directory where many files are made quickly."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix="shoal-tree-", dir=base)
    yield path
    shutil.rmtree(path)


NR_FLAT = 300_000


@pytest.fixture(scope="module")
def flat(memory_dir):
    """One directory of many files: links to a few, which are made faster and count as much."""
    path = os.path.join(memory_dir, "flat")
    os.mkdir(path)
    fd = os.open(path, os.O_RDONLY)
    for i in range(NR_FLAT):
        name = "file-%08x-with-a-name-of-some-length" % (i * 2654435761 % 2**32)
        if i % 50_000 == 0:
            first = name
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        else:
            os.link(first, name, src_dir_fd=fd, dst_dir_fd=fd)
    os.close(fd)
    return path


@pytest.fixture(scope="module")
def flat_names(flat):
    return sorted(map(os.fsencode, os.listdir(flat)))


@pytest.fixture
def endless(tmp_path):
    """Directories that all have links to each other: with --follow as many paths as there are permutations."""
    root = tmp_path / "endless"
    for i in range(14):
        make(root, "%02d/file" % i)
        for other in range(14):
            (root / ("%02d" % i) / ("to-%02d" % other)).symlink_to("../%02d" % other)
    return root


# ------------------------------------------------------------------------------------------------------ names and sizes


def test_an_empty_directory_makes_an_empty_catalog(tree, tmp_path):
    assert tree(tmp_path) == {}
    assert tree.told(tmp_path)["directories"] == 1


@pytest.mark.parametrize("names", [
    ["one"],
    ["a/b/c/d/e/f"],
    ["a", "b/a", "b/b", "c/c/c", "b!", "b.", "b0"],
    [".hidden", ".dir/.x", ".dir/y", "..x", "...", "a/.b/c"],
    [b"new\nline", b"tab\there", b"\t", b"\n", b"cr\r", b" ", b"'", b'"', b"-", b"--help", b"*", b"\\", b"\x01", b"\x7f"],
    [b"\xff\xfe", b"\xc3\x28", b"caf\xc3\xa9", b"d\xff/\xfe/x", b"\x80"],
    [b"n" * 255, b"d" * 255 + b"/" + b"e" * 255 + b"/" + b"f" * 255, b"m" * 254, b"\xff" * 255],
    ["%d/%d" % (i % 17, i) for i in range(500)],
])
def test_names_and_sizes_are_those_of_a_plain_walk(tree, tmp_path, names):
    make(tmp_path, *names)
    want = listing(tmp_path)
    assert len(want) == len(names)
    assert tree(tmp_path) == want
    assert sorted(want) == tree.names(tmp_path)


def test_empty_directories_are_no_names(tree, tmp_path):
    make(tmp_path, "a/b/c")
    (tmp_path / "a" / "empty" / "also").mkdir(parents=True)
    assert tree.names(tmp_path) == [b"a/b/c"]
    assert tree.told(tmp_path)["directories"] == 5


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**40])
def test_sizes_are_what_a_file_has_also_where_it_has_holes(tree, tmp_path, size):
    make(tmp_path, "f", size=size)
    assert tree(tmp_path) == {b"f": size}


def test_hard_links_are_as_many_files_as_they_have_names(tree, shoal, tmp_path):
    make(tmp_path, "a", "d/b", size=7)
    os.link(tmp_path / "a", tmp_path / "d" / "a2")
    assert tree(tmp_path) == {b"a": 7, b"d/a2": 7, b"d/b": 7}
    assert shoal.info(tree.path)["bytes"] == 21


def test_without_sizes_there_are_the_same_names(tree, shoal, tmp_path):
    make(tmp_path, "a", "b/c", ".d")
    os.symlink("a", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo")
    assert tree.names(tmp_path, "--no-sizes") == sorted(listing(tmp_path))
    assert shoal.info(tree.path)["bytes"] is None


def test_samples_per_file_count_for_all(tree, shoal, tmp_path):
    make(tmp_path, "a", "b", "c")
    tree(tmp_path, "--samples-per-file", 5)
    info = shoal.info(tree.path)
    assert (info["files"], info["samples"], info["samples_per_file"]) == (3, 15, 5)


def test_a_tree_and_a_list_of_its_names_have_the_same_digest(tree, shoal, tmp_path):
    make(tmp_path, "a", "b/c", "b/d")
    want = listing(tmp_path)
    path = shoal.index(list(want), sizes=list(want.values()))
    assert tree.digest(tmp_path) == shoal.info(path)["digest"]


# ------------------------------------------------------------------------------------------------------------ long names


def test_a_name_of_4096_bytes_is_taken_and_found(tree, shoal, tmp_path):
    parts = parts_of(3900)
    name = b"n" * (NAME_MAX - 3901)
    make_deep(tmp_path, parts, [name, b"m"])
    full = b"/".join(parts) + b"/" + name
    assert len(full) == NAME_MAX
    assert tree(tmp_path) == {full: 0, b"/".join(parts) + b"/m": 0}
    assert shoal.good("find", tree.path, "--", full) == b"1\n"


def test_a_name_of_4097_bytes_is_named_and_nothing_is_written(tree, shoal, fails, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    make(root, "a")
    make_deep(root, parts_of(3900), [b"n" * (NAME_MAX + 1 - 3901)])
    out = tmp_path / "out"
    out.mkdir()
    result = shoal("index", root, "-q", "-o", out / "c")
    fails(result, 1, "'" + "d" * 200 + "...' has 4097 bytes", "at most 4096", empty=out)
    result = shoal("index", root, "--keep-going", "--json", "-o", out / "c")
    assert result.returncode == 1
    assert (json.loads(result.stdout)["files"], json.loads(result.stdout)["unreadable"]) == (1, 1)
    said = lines(result.stderr)
    assert len(said) == 2 and b"has 4097 bytes" in said[0] and b"1 unreadable left out" in said[1]
    assert shoal.names(out / "c") == [b"a"]
    assert tree.names(root, "--exclude", "n*") == [b"a"], "what is left out may be as long as it likes"


@pytest.mark.parametrize("nr_bytes", [4095, 4096, 4097, 4400])
def test_a_directory_in_which_every_name_is_too_long_says_so(tree, shoal, fails, tmp_path, nr_bytes):
    root = tmp_path / "root"
    root.mkdir()
    make(root, "a")
    make_deep(root, parts_of(nr_bytes), [b"n"])
    result = shoal("index", root, "-q", "-o", tree.path)
    fails(result, 1, "directory 'd", "bytes: names below it would exceed the maximum of 4096 in a catalog")
    result = shoal("index", root, "-q", "--keep-going", "-o", tree.path)
    assert result.returncode == 1 and len(lines(result.stderr)) == 1
    assert shoal.names(tree.path) == [b"a"]


def test_a_directory_of_4094_bytes_holds_names_of_one_byte(tree, tmp_path):
    make_deep(tmp_path, parts_of(4094), [b"x", b"y"])
    assert [len(name) for name in tree(tmp_path)] == [NAME_MAX, NAME_MAX]


@pytest.fixture
def far_below(tmp_path):
    """The path of a directory that is longer than any path may be, from a directory where one can start."""
    parts = [b"p" * 200] * 25
    make_deep(tmp_path, parts, [b"f"])

    def enter():
        os.chdir(tmp_path)
        for part in parts:
            os.chdir(part)

    return enter


def test_a_root_beyond_the_longest_path_needs_a_root_that_fits(tree, shoal, fails, far_below):
    result = shoal("index", ".", "-q", "-o", tree.path, preexec_fn=far_below)
    fails(result, 1, "'.'", "the root has more than 4096 bytes")
    assert tree(".", "--root", "s3://bucket", preexec_fn=far_below) == {b"f": 0}
    assert shoal.info(tree.path)["root"] == "s3://bucket"


# ----------------------------------------------------------------------------------------------------------------- links


def test_symbolic_links_are_left_out_and_counted(tree, tmp_path):
    make(tmp_path, "d/f")
    os.symlink("d/f", tmp_path / "to-file")
    os.symlink("d", tmp_path / "to-dir")
    os.symlink("nowhere", tmp_path / "to-nothing")
    os.symlink("itself", tmp_path / "itself")
    assert tree.names(tmp_path) == [b"d/f"]
    told = tree.told(tmp_path)
    assert (told["links"], told["loops"], told["directories"]) == (4, 0, 2)


def test_with_follow_links_are_what_they_lead_to(tree, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    root = tmp_path / "root"
    make(tmp_path / "elsewhere", "e/one", "two", size=11)
    make(root, "d/f", size=5)
    os.symlink("d/f", root / "to-file")
    os.symlink("d", root / "to-dir")
    os.symlink("../elsewhere", root / "out")
    os.symlink("to-file", root / "twice")
    os.symlink("nowhere", root / "to-nothing")
    os.symlink("d/f/x", root / "through-a-file")
    want = {b"d/f": 5, b"to-file": 5, b"to-dir/f": 5, b"out/e/one": 11, b"out/two": 11, b"twice": 5}
    assert tree(root, "--follow") == want == listing(root, follow=True)
    assert sorted(want) == tree.names(root, "--follow", "--no-sizes")
    told = tree.told(root, "--follow")
    assert (told["links"], told["loops"], told["vanished"]) == (2, 0, 0)


def test_a_root_that_is_a_link_is_followed(tree, tmp_path):
    make(tmp_path / "real", "a/b")
    os.symlink("real", tmp_path / "link")
    assert tree(tmp_path / "link") == tree(str(tmp_path / "link") + "/") == {b"a/b": 1}


@pytest.mark.parametrize("links, loops", [
    ({"a/self": "self"}, 1),
    ({"a/x": "y", "a/y": "x"}, 2),
    ({"a/here": "."}, 1),
    ({"a/up": ".."}, 1),
    ({"a/b/up": "../.."}, 1),
    ({"a/b/up": ".."}, 1),
    ({"a/to-c": "../c", "c/to-a": "../a"}, 2),
    ({"top": "."}, 1),
])
def test_links_that_lead_in_circles_end(tree, tmp_path, links, loops):
    make(tmp_path, "a/b/f", "c/g")
    for link, target in links.items():
        os.symlink(target, tmp_path / link)
    assert tree(tmp_path) == {b"a/b/f": 1, b"c/g": 2}
    assert tree(tmp_path, "--follow") == listing(tmp_path, follow=True)
    assert tree.told(tmp_path, "--follow")["loops"] == loops


def test_links_all_over_give_every_path_once(tree, tmp_path):
    for i in range(4):
        make(tmp_path, "%d/f" % i)
        for other in range(4):
            os.symlink("../%d" % other, tmp_path / str(i) / ("to%d" % other))
    want = listing(tmp_path, follow=True)
    assert len(want) == 4 + 4 * 3 + 4 * 3 * 2 + 4 * 3 * 2
    assert tree(tmp_path, "--follow", "--threads", 8) == want


def test_sockets_and_pipes_are_left_out_and_counted(tree, tmp_path):
    make(tmp_path, "f")
    os.mkfifo(tmp_path / "fifo")
    os.symlink("fifo", tmp_path / "to-fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(tmp_path)  # the address of a socket is short
    try:
        server.bind("socket")
    finally:
        os.chdir(here)
        server.close()
    assert tree(tmp_path) == {b"f": 1}
    assert tree.told(tmp_path)["special"] == 2
    assert tree.told(tmp_path, "--follow")["special"] == 3


# -------------------------------------------------------------------------------------------------------------- patterns


FILES = ["a.jpg", "b.txt", "d/a.jpg", "d/e/a.jpg", "d/e/b.txt", "tmp/x.jpg", "d/tmp/y.jpg", "d/tmp2", ".git/c", "e/a.jpg"]


@pytest.mark.parametrize("options, left", [
    (["--include", "*.jpg"], ["a.jpg", "d/a.jpg", "d/e/a.jpg", "tmp/x.jpg", "d/tmp/y.jpg", "e/a.jpg"]),
    (["--include", "/*.jpg"], ["a.jpg"]),
    (["--include", "a.*", "--include", "c"], ["a.jpg", "d/a.jpg", "d/e/a.jpg", "e/a.jpg", ".git/c"]),
    (["--include", "d/*"], ["d/a.jpg", "d/tmp2"]),
    (["--include", "d/**"], ["d/a.jpg", "d/e/a.jpg", "d/e/b.txt", "d/tmp/y.jpg", "d/tmp2"]),
    (["--include", "d/**/a.jpg"], ["d/a.jpg", "d/e/a.jpg"]),
    (["--include", "**/e/*"], ["d/e/a.jpg", "d/e/b.txt", "e/a.jpg"]),
    (["--include", "**e/a.jpg"], ["d/e/a.jpg", "e/a.jpg"]),
    (["--include", "e/a.jpg"], ["e/a.jpg"]),
    (["--include", "*/a.jpg"], ["d/a.jpg", "e/a.jpg"]),
    (["--include", "[a-b].[!t]*"], ["a.jpg", "d/a.jpg", "d/e/a.jpg", "e/a.jpg"]),
    (["--include", "?.txt"], ["b.txt", "d/e/b.txt"]),
    (["--include", "\\a.jpg", "--exclude", "d"], ["a.jpg", "e/a.jpg"]),
    (["--include", "d"], []),
    (["--exclude", "*"], []),
    (["--exclude", "**"], []),
    (["--exclude", "tmp", "--exclude", ".git"], ["a.jpg", "b.txt", "d/a.jpg", "d/e/a.jpg", "d/e/b.txt", "d/tmp2", "e/a.jpg"]),
    (["--exclude", "/tmp"], [name for name in FILES if name != "tmp/x.jpg"]),
    (["--exclude", "tmp*/"], [name for name in FILES if "tmp/" not in name]),
    (["--exclude", "tmp2/"], FILES),
    (["--exclude", "d/"], ["a.jpg", "b.txt", "tmp/x.jpg", ".git/c", "e/a.jpg"]),
    (["--exclude", "d/e"], [name for name in FILES if not name.startswith("d/e/")]),
    (["--exclude", "d/**"], ["a.jpg", "b.txt", "tmp/x.jpg", ".git/c", "e/a.jpg"]),
    (["--exclude", "**/e"], [name for name in FILES if "e/" not in name]),
    (["--exclude", ".*"], [name for name in FILES if name != ".git/c"]),
    (["--include", "*.jpg", "--exclude", "a*"], ["tmp/x.jpg", "d/tmp/y.jpg"]),
    (["--include", "nothing"], []),
    (["--exclude", "nothing"], FILES),
])
@pytest.mark.parametrize("sizes", [True, False])
def test_patterns_take_in_and_leave_out(tree, tmp_path, options, left, sizes):
    make(tmp_path, *FILES)
    assert tree.names(tmp_path, *options, *([] if sizes else ["--no-sizes"])) == sorted(map(os.fsencode, left))


def test_patterns_are_asked_of_what_links_lead_to_as_well(tree, tmp_path):
    make(tmp_path, "d/f.jpg", "d/f.txt")
    os.symlink("d", tmp_path / "l")
    os.symlink("d/f.txt", tmp_path / "l.jpg")
    os.symlink("d/f.jpg", tmp_path / "plain")
    assert tree.names(tmp_path, "--follow", "--include", "*.jpg") == [b"d/f.jpg", b"l.jpg", b"l/f.jpg"]
    assert tree.names(tmp_path, "--follow", "--exclude", "l*") == [b"d/f.jpg", b"d/f.txt", b"plain"]
    assert tree.names(tmp_path, "--follow", "--exclude", "d/") == [b"l.jpg", b"l/f.jpg", b"l/f.txt", b"plain"]


def test_what_patterns_leave_out_is_counted_and_not_looked_into(tree, nobody, shoal, locked, tmp_path):
    make(tmp_path, "a", "b", "secret/c")
    locked(tmp_path / "secret")
    result = nobody("index", tmp_path, "--exclude", "secret", "--exclude", "b", "-o", tree.path)
    assert result.returncode == 0
    assert result.stderr.startswith(b"1 name in ") and result.stderr.endswith(b", 2 left out by patterns\n")
    assert shoal.names(tree.path) == [b"a"]


@pytest.mark.parametrize("option, pattern, words", [
    ("--include", "a[", "the pattern 'a[' has a '[' without a ']'"),
    ("--exclude", "[]", "the pattern '[]' has a '['"),
    ("--exclude", "[!]", "the pattern '[!]' has a '['"),
    ("--exclude", "", "a pattern is empty"),
    ("--include", "", "a pattern is empty"),
    ("--exclude", "/", "the pattern '/' cannot match"),
    ("--exclude", "./a", "the pattern './a' cannot match"),
    ("--include", "d/", "the pattern 'd/' matches directories, but only files can be included: write 'd/**'"),
])
def test_a_pattern_that_cannot_match_is_a_usage_error(shoal, fails, tmp_path, option, pattern, words):
    fails(shoal("index", tmp_path, option, pattern, "-o", tmp_path / "c"), 2, words, empty=tmp_path)


@pytest.mark.parametrize("pattern", ["\\[", "[]]", "[!]]", "\\"])
def test_a_pattern_with_an_odd_but_whole_end_is_taken(tree, tmp_path, pattern):
    make(tmp_path, b"[", b"]", b"\\", b"a")
    want = {"\\[": [b"["], "[]]": [b"]"], "[!]]": [b"[", b"\\", b"a"], "\\": [b"\\"]}[pattern]
    assert tree.names(tmp_path, "--include", pattern) == want


def test_there_may_be_64_patterns_of_a_kind_and_no_more(tree, shoal, fails, tmp_path):
    make(tmp_path, "a", "p63", "p64")
    many = [word for i in range(64) for word in ("--exclude", "p%d" % i)]
    assert tree.names(tmp_path, *many) == [b"a", b"p64"]
    fails(shoal("index", tmp_path, *many, "--exclude", "p64", "-o", tree.path), 2, "more than 64 times --exclude")


# ----------------------------------------------------------------------------------------------------- other file systems


@pytest.mark.parametrize("option", ["-x", "--one-file-system"])
def test_one_file_system_stays_on_the_root_s(tree, tmp_path, option):
    make(tmp_path, "here/f")
    mount_tmpfs(tmp_path / "other", "1m")
    try:
        make(tmp_path, "other/g", "other/d/h")
        assert tree.names(tmp_path) == [b"here/f", b"other/d/h", b"other/g"]
        assert tree.names(tmp_path, option) == [b"here/f"]
        assert tree.told(tmp_path, option)["other_file_systems"] == 1
        assert tree.names(tmp_path / "other", option) == [b"d/h", b"g"]
    finally:
        subprocess.run(["umount", tmp_path / "other"], check=True)


# --------------------------------------------------------------------------------------------------------------- threads


def test_the_number_of_threads_does_not_show(tree, tmp_path):
    make(tmp_path, *("%d/%d/%d" % (i % 7, i % 31, i) for i in range(3000)))
    digests = {tree.digest(tmp_path, "--threads", nr) for nr in (1, 2, 8, 1024)}
    assert digests == {tree.digest(tmp_path)}
    assert len(tree(tmp_path)) == 3000


@pytest.mark.parametrize("value, words", [
    ("0", "--threads must be 1 to 1024"),
    ("1025", "--threads must be 1 to 1024"),
    ("-1", "--threads"),
    ("two", "--threads"),
    ("", "--threads"),
    ("99999999999999999999", "--threads"),
])
def test_a_bad_number_of_threads_is_refused(shoal, fails, tmp_path, value, words):
    fails(shoal("index", tmp_path, "--threads", value, "-o", tmp_path / "c"), 2, words, empty=tmp_path)


# ------------------------------------------------------------------------------------------------------------ where it is


def test_a_path_and_a_uri_are_the_same_place(tree, shoal, tmp_path):
    make(tmp_path / "root", "a/b")
    images = set()
    for where in (tmp_path / "root", str(tmp_path / "root") + "//", "file://%s" % (tmp_path / "root")):
        assert tree(where) == {b"a/b": 1}
        assert shoal.info(tree.path)["root"] == "file://%s" % os.path.realpath(tmp_path / "root")
        images.add(shoal.info(tree.path)["digest"])
    for where in ("root", "./root", "root/"):
        assert tree(where, cwd=tmp_path) == {b"a/b": 1}
        images.add(shoal.info(tree.path)["digest"])
    assert tree(".", cwd=tmp_path / "root") == {b"a/b": 1}
    assert len(images | {shoal.info(tree.path)["digest"]}) == 1


def test_the_root_may_be_given_another_name(tree, shoal, tmp_path):
    make(tmp_path, "a")
    assert tree(tmp_path, "--root", "s3://bucket/data/") == {b"a": 1}
    assert shoal.info(tree.path)["root"] == "s3://bucket/data"


def test_a_root_that_is_no_text_needs_another_name(tree, shoal, fails, tmp_path):
    root = os.fsencode(tmp_path) + b"/bad\xff"
    make(root, "a")
    fails(shoal("index", root, "-o", tree.path), 1, "the root must be UTF-8")
    assert tree(root, "--root", "s3://bucket") == {b"a": 1}


@pytest.mark.parametrize("where, status, words", [
    ("missing", 1, "'missing': cannot open it: No such file or directory"),
    ("file:///no/such/place", 1, "'file:///no/such/place': cannot open it: No such file or directory"),
    ("file://data", 1, "a file URI has three slashes"),
    ("s3:///data", 2, "has no bucket"),
    ("nfs://host/x", 1, "'nfs://' is not a kind of store"),
])
def test_a_place_that_cannot_be_listed_is_told(shoal, fails, tmp_path, where, status, words):
    make(tmp_path, "file")
    out = tmp_path / "out"
    out.mkdir()
    result = shoal("index", where.format(tmp_path), "-o", out / "c", cwd=tmp_path)
    fails(result, status, words.format(tmp_path), empty=out)


@pytest.mark.parametrize("option", ["--no-sizes", "--follow", "-x", "--keep-going", "--threads=2", "--include=*",
                                    "--exclude=x"])
def test_options_of_a_directory_are_refused_for_others(shoal, fails, tmp_path, option):
    (tmp_path / "list").write_bytes(b"a\n")
    out = tmp_path / "out"
    out.mkdir()
    name = {"-x": "--one-file-system"}.get(option, option.split("=")[0])
    for source, kind in (([tmp_path / "list"], "LIST"), (["-"], "LIST"), (["--pattern", "{}", "--count", "3"], "--pattern")):
        fails(shoal("index", *source, option, "-o", out / "c", stdin=b"a\n"), 2,
              "%s is for a directory, not for a %s" % (name, kind), empty=out)
    fails(shoal("index", tmp_path / "missing", option, "-o", out / "c"), 1, "No such file or directory", empty=out)


@pytest.mark.parametrize("options, words", [
    (["-0"], "--null is for a LIST, not for a directory"),
    (["--names-only"], "--names-only is for a LIST, not for a directory"),
    (["--count", "3"], "--count is for --pattern"),
    (["--size", "3"], "--size is for --pattern"),
    (["--pattern", "{}", "--count", "3"], "give a directory, a LIST or a --pattern, not two"),
    (["extra"], "give one directory or LIST"),
])
def test_options_of_others_are_refused_for_a_directory(shoal, fails, tmp_path, options, words):
    fails(shoal("index", tmp_path, *options, "-o", tmp_path / "c"), 2, words, empty=tmp_path)


# ---------------------------------------------------------------------------------------------------- what cannot be read


def test_an_unreadable_directory_is_named_and_nothing_is_written(nobody, fails, locked, tmp_path):
    make(tmp_path, "root/a", "root/d/secret/b", "root/z")
    locked(tmp_path / "root" / "d" / "secret")
    (tmp_path / "out").mkdir(mode=0o777)
    os.chmod(tmp_path / "out", 0o777)
    for options in ([], ["--no-sizes"]):
        result = nobody("index", tmp_path / "root", "-o", tmp_path / "out" / "c", *options)
        fails(result, 1, "root': cannot open directory 'd/secret': Permission denied", empty=tmp_path / "out")


def test_with_keep_going_an_unreadable_directory_is_left_out_with_a_warning(nobody, shoal, tree, locked, tmp_path):
    make(tmp_path, "a", "d/secret/b", b"d/new\nline/c", "z")
    locked(tmp_path / "d" / "secret")
    locked(tmp_path / "d" / "new\nline")
    result = nobody("index", tmp_path, "--keep-going", "--json", "-o", tree.path)
    assert result.returncode == 1
    said = lines(result.stderr)
    assert sorted(said[:2]) == [b"shoal index: cannot open directory 'd/new\\x0aline': Permission denied",
                                b"shoal index: cannot open directory 'd/secret': Permission denied"]
    assert said[2].endswith(b", 2 unreadable left out") and len(said) == 3
    assert json.loads(result.stdout)["unreadable"] == 2
    assert shoal.names(tree.path) == [b"a", b"z"]


@pytest.mark.parametrize("nr", [9, 10, 11, 30])
def test_ten_warnings_are_shown_and_all_are_counted(nobody, shoal, tree, locked, tmp_path, nr):
    make(tmp_path, "a", *("%02d/x" % i for i in range(nr)))
    for i in range(nr):
        locked(tmp_path / ("%02d" % i))
    result = nobody("index", tmp_path, "--keep-going", "--force", "-o", tree.path)
    assert result.returncode == 1
    said = lines(result.stderr)
    assert sum(b"cannot open directory" in line for line in said) == min(nr, 10)
    assert said.count(b"shoal index: further warnings suppressed; they are counted at the end") == (1 if nr > 10 else 0)
    assert said[-1].endswith(b", %d unreadable left out" % nr)
    assert len(said) == min(nr, 10) + (nr > 10) + 1
    assert shoal.names(tree.path) == [b"a"]


def test_a_directory_that_may_be_read_but_not_entered_gives_names_without_sizes(nobody, shoal, tree, fails, locked,
                                                                                tmp_path):
    make(tmp_path, "d/a", "d/b")
    locked(tmp_path / "d", 0o744)
    fails(nobody("index", tmp_path, "-q", "-o", tree.path), 1, "cannot stat 'd/", "Permission denied")
    assert nobody("index", tmp_path, "-q", "--no-sizes", "-o", tree.path).returncode == 0
    assert shoal.names(tree.path) == [b"d/a", b"d/b"]
    result = nobody("index", tmp_path, "--keep-going", "--force", "-o", tree.path)
    assert result.returncode == 1 and result.stderr.endswith(b", 2 unreadable left out\n")


def test_a_root_that_cannot_be_read_is_told_also_with_keep_going(nobody, tree, fails, locked, tmp_path):
    make(tmp_path, "root/a")
    locked(tmp_path / "root")
    for options in ([], ["--keep-going"]):
        fails(nobody("index", tmp_path / "root", "-o", tree.path, *options), 1, "root': no permission to read")


# ------------------------------------------------------------------------------------------------------- its own catalog


@pytest.mark.parametrize("output", ["c", "d/c", ".hidden", "x" * 255, "d/" + "y" * 246])
def test_a_catalog_in_the_tree_is_not_in_its_own_list(shoal, tmp_path, output):
    make(tmp_path, "a", "d/b", "d/c2", ".c", "d/.c.part")
    want = sorted(listing(tmp_path))
    for _ in range(2):
        result = shoal("index", tmp_path, "-o", tmp_path / output)
        assert result.returncode == 0
        assert b"left out" not in result.stderr, "no pattern was given"
        assert shoal.names(tmp_path / output) == want
    shoal.good("index", ".", "-q", "-o", output, cwd=tmp_path)
    assert shoal.names(tmp_path / output) == want


def test_a_catalog_of_the_same_name_elsewhere_is_a_file_like_any_other(shoal, tmp_path):
    make(tmp_path, "a", "d/c", "c/c")
    shoal.good("index", tmp_path, "-q", "-o", tmp_path / "c2")
    shoal.good("index", tmp_path / "d", "-q", "--force", "-o", tmp_path / "d" / "c")
    assert shoal.names(tmp_path / "c2") == [b"a", b"c/c", b"d/c"]
    assert shoal.names(tmp_path / "d" / "c") == []


def test_a_catalog_that_a_link_puts_into_the_tree_is_not_in_its_own_list(shoal, tmp_path):
    make(tmp_path / "root", "a")
    os.symlink("root/c", tmp_path / "link")
    for _ in range(2):
        shoal.good("index", tmp_path / "root", "-q", "-o", tmp_path / "link")
        assert shoal.names(tmp_path / "link") == [b"a"]
    os.symlink(tmp_path, tmp_path / "around")
    shoal.good("index", tmp_path / "root", "-q", "-o", tmp_path / "around" / "root" / "c")
    assert shoal.names(tmp_path / "root" / "c") == [b"a"]


def test_the_company_of_a_catalog_that_is_a_link_is_not_listed(shoal, tmp_path):
    """What --resume writes lies beside the link, and the rest where it leads to."""
    root, big = tmp_path / "root", tmp_path / "big"
    make(root, "a", "b")
    big.mkdir()
    os.symlink(big / "real", root / "cat")
    shoal("index", root, "--resume", "-q", "-o", root / "cat")
    assert shoal("ls", root / "cat").stdout == b"a\nb\n"
    assert sorted(os.listdir(root)) == ["a", "b", "cat"] and os.listdir(big) == ["real"]


@pytest.mark.parametrize("options", [[], ["--no-sizes"], ["--resume"]])
def test_a_catalog_is_not_in_its_own_list_by_whatever_way_it_is_reached(shoal, tmp_path, options):
    """By links to its directory, to it, and by what an interrupted run left there."""
    root = tmp_path / "root"
    make(root, "a", "out/b", "out/.c.00000000.partial", "out/.shoal-spill-Xy12Zz", "out/.nfs000000000012345600000001",
         "elsewhere/c", "elsewhere/.c.partial", "elsewhere/.shoal-spill-1", "elsewhere/.nfs000000000012345600000001")
    os.symlink("out", root / "link")
    os.symlink("../out", root / "elsewhere" / "up")
    os.symlink("out/c", root / "latest")
    os.symlink("out/b", root / "other")
    for _ in range(2):
        (root / "out" / ".c.00000000.partial").write_bytes(b"left by a run that was killed")
        shoal.good("index", root, "-q", "--follow", "-o", root / "out" / "c", *options)
        assert shoal.names(root / "out" / "c") == [
            b"a", b"elsewhere/.c.partial", b"elsewhere/.nfs000000000012345600000001", b"elsewhere/.shoal-spill-1",
            b"elsewhere/c", b"elsewhere/up/b", b"link/b", b"other", b"out/b"]
    shoal.good("verify", "--storage", root / "out" / "c")


def test_temporary_files_in_the_tree_are_not_listed(shoal, tmp_path):
    make(tmp_path, "a", "tmp/b", "tmp/.shoal-spill-Xy12Zz", "d/.shoal-spill-Xy12Zz")
    shoal.good("index", tmp_path, "-q", "--tmp-dir", tmp_path / "tmp", "-o", tmp_path / "c")
    assert shoal.names(tmp_path / "c") == [b"a", b"d/.shoal-spill-Xy12Zz", b"tmp/b"]


def test_a_catalog_is_not_listed_where_entries_are_shared_out(shoal, memory_dir):
    """A directory large enough that threads take parts of it, on a file system where they cannot read parts."""
    root = pathlib.Path(memory_dir, "own")
    root.mkdir()
    for i in range(20_000):
        os.mknod(root / ("%05d" % i))
    for i in range(2):
        shoal.good("index", root, "-q", "--no-sizes", "--threads", 8, "-o", root / "c")
        assert shoal.info(root / "c")["files"] == 20_000
    shutil.rmtree(root)


# ---------------------------------------------------------------------------------------------- a tree that does not stay


def test_what_comes_and_goes_while_listing_is_no_error(tree, tmp_path):
    stays = ["%d/stay%d" % (i % 10, i) for i in range(200)]
    make(tmp_path, *stays)
    end = threading.Event()

    def change():
        for i in range(10**9):
            if end.is_set():
                return
            where = tmp_path / str(i % 10)
            for k in range(20):
                make(where, "go%d" % k, "dir%d/go" % k)
            os.symlink("go1", where / "link")
            for k in range(20):
                shutil.rmtree(where / ("dir%d" % k))
                os.unlink(where / ("go%d" % k))
            os.unlink(where / "link")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for i in range(25):
            options = [["--threads", 1 + i % 8], ["--no-sizes"], ["--follow"]][i % 3]
            names = set(tree.names(tmp_path, *options))
            assert names >= set(map(os.fsencode, stays))
            assert all(b"stay" in name or b"go" in name or b"link" in name for name in names)
    finally:
        end.set()
        thread.join()


# ------------------------------------------------------------------------------------------------------------------ large


def test_a_flat_directory_in_little_memory_gives_the_same_catalog(tree, shoal, flat, flat_names, tmp_path):
    digest = tree.digest(flat, "--memory", "256M")
    assert shoal.names(tree.path) == flat_names
    assert tree.digest(flat, "--memory", "48M", "--tmp-dir", tmp_path) == digest
    assert contents(tmp_path) == []
    assert tree.told(flat, "--memory", "48M", "--threads", 3)["directories"] == 1
    assert shoal.info(tree.path)["digest"] == digest


def test_very_many_directories_are_listed(tree, memory_dir):
    """Their names take more than the memory for units that wait, with one thread that reads the root first."""
    path = os.path.join(memory_dir, "wide")
    os.mkdir(path)
    fd = os.open(path, os.O_RDONLY)
    os.close(os.open("first", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    names = ["%05d-%s" % (i, "directory" * 10) for i in range(50_000)]
    for name in names:
        os.mkdir(name, dir_fd=fd)
        os.link("first", name + "/f", src_dir_fd=fd, dst_dir_fd=fd)
    os.close(fd)
    want = sorted([b"first"] + [name.encode() + b"/f" for name in names])
    for threads in (1, 4):
        assert tree.names(path, "--threads", threads, "--no-sizes") == want
    assert tree.told(path)["directories"] == 50_001
    shutil.rmtree(path)


def test_a_full_temporary_disk_is_told_and_nothing_is_left(shoal, fails, flat, tmp_path):
    small, out = tmp_path / "small", tmp_path / "out"
    out.mkdir()
    mount_tmpfs(small, "1m")
    try:
        result = shoal("index", flat, "-q", "--memory", "48M", "--tmp-dir", small, "-o", out / "c")
        fails(result, 1, "flat': in '%s': " % small, "temporary file", "No space left on device", empty=out)
        assert contents(small) == []
    finally:
        subprocess.run(["umount", small], check=True)


# -------------------------------------------------------------------------------------------------------------- processes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("threads", [1, 8])
def test_a_signal_while_it_lists_leaves_nothing(shoal, endless, tmp_path, number, threads):
    out = tmp_path / "out"
    out.mkdir()
    process = shoal.start("index", endless, "--follow", "--threads", threads, "--memory", "48M", "-o", out / "c")
    wait_until(lambda: contents(out) != [])
    wait_until_it_has_worked(process)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number
    assert lines(said) == [b"shoal index: interrupted: nothing was written"]
    assert contents(out) == []


def test_many_threads_get_by_with_few_addresses(shoal, tmp_path):
    """A heap for each of them would not."""

    def limited(megabytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    if shoal("--version", preexec_fn=limited(100)).returncode != 0:
        pytest.skip("built with a sanitizer, which needs more")
    for i in range(50_000):
        if i % 500 == 0:
            folder = tmp_path / "root" / str(i)
            folder.mkdir(parents=True)
        os.mknod(folder / str(i))
    for megabytes in (250, 400):  # with less, it depends on how many threads list at the same time
        shoal.good("index", tmp_path / "root", "-q", "-o", tmp_path / "c", "--threads", 64, "--memory", "48M",
                   preexec_fn=limited(megabytes))
        assert shoal.info(tmp_path / "c")["files"] == 50_000


def test_a_second_writer_is_told_while_the_first_lists(shoal, fails, endless, tmp_path):
    out = tmp_path / "out"
    make(tmp_path, "root/a")
    out.mkdir()
    first = shoal.start("index", endless, "--follow", "-q", "-o", out / "c")
    try:
        wait_until(lambda: is_being_written(out / "c"))
        before = contents(out)
        fails(shoal("index", tmp_path / "root", "-o", out / "c"), 1, "another process is writing '%s' now" % (out / "c"))
        assert contents(out) == before and first.poll() is None
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    shoal.good("index", tmp_path / "root", "-q", "-o", out / "c")
    assert shoal.names(out / "c") == [b"a"]


def test_two_writers_at_once_leave_one_whole_catalog(shoal, tmp_path):
    make(tmp_path, *("root/%d" % i for i in range(300)))
    for _ in range(10):
        processes = [shoal.start("index", tmp_path / "root", "-q", "-o", tmp_path / "c") for _ in range(2)]
        said = [process.communicate(timeout=60)[1] for process in processes]
        assert 0 in [process.returncode for process in processes]
        for process, words in zip(processes, said):
            assert process.returncode == 0 or b"another process is writing" in words
        assert len(shoal.names(tmp_path / "c")) == 300
        assert contents(tmp_path) == ["c", "root"]


# ---------------------------------------------------------------------------------------------------------- what it tells


def test_json_tells_all_counts(shoal, tmp_path, tree):
    make(tmp_path, "a", "d/b", "d/x")
    os.symlink("a", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo")
    result = shoal("index", tmp_path, "--json", "--exclude", "x", "-o", tree.path)
    told = json.loads(result.stdout)
    assert told.pop("seconds") >= 0 and told.pop("names_per_second") > 0
    catalog = {key: told.pop(key) for key in ("catalog", "written", "digest", "catalog_bytes", "bytes")}
    assert (catalog["catalog"], catalog["written"]) == (str(tree.path), True)
    assert told == {"files": 2, "directories": 2, "resumed": 0, "unchanged": 0, "reused": 0, "repeated": 0, "blank": 0, "odd_etags": 0, "unreadable": 0, "vanished": 0, "not_opened": 0, "links": 1,
                    "loops": 0, "special": 1, "other_file_systems": 0, "filtered": 1, "samples": 0, "uncut": 0, "seal_threads": 1}
    assert result.stderr.startswith(b"2 names in ")
    assert result.stderr.endswith(b", 1 symbolic link left out, 1 socket, pipe or device left out, "
                                  b"1 left out by patterns\n")


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet_says_nothing(shoal, tree, tmp_path, quiet):
    make(tmp_path, "a")
    os.symlink("a", tmp_path / "link")
    assert shoal.good("index", tmp_path, quiet, "-o", tree.path) == b""


def on_terminal(shoal, *args):
    """The running command with a terminal of 80 columns as its standard error, and the terminal's other end."""
    ours, theirs = pty.openpty()
    process = shoal.start(*args, stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    return process, ours


def read_terminal(fd, until=None):
    """What comes until the end, or until some words have come."""
    seen = b""
    while until is None or until not in seen:
        assert select.select([fd], [], [], 60)[0], "nothing came: %r" % seen
        try:
            more = os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        seen += more
    return seen


def test_a_terminal_shows_a_line_that_goes_away(shoal, endless, tmp_path, tree):
    process, terminal = on_terminal(shoal, "index", endless, "--follow", "--memory", "48M", "-o", tree.path)
    seen = read_terminal(terminal, until=b" MB")
    process.send_signal(signal.SIGINT)
    seen += read_terminal(terminal)
    process.wait(60)
    os.close(terminal)
    assert process.returncode == -signal.SIGINT
    shown = views(seen)
    assert shown[0] == "", "nothing before the first view"
    for line in shown[1:-1]:
        assert " names  " in line and "/s" in line and all(len(part) <= 80 for part in line.split("\r\n"))
    assert " MB of memory, " in shown[1], "it says where it is"
    assert shown[-1] == "shoal index: interrupted: nothing was written\r\n"


def test_a_terminal_ends_with_the_result(shoal, flat, tree):
    process, terminal = on_terminal(shoal, "index", flat, "--threads", 1, "-o", tree.path)
    seen = read_terminal(terminal)
    process.wait(60)
    os.close(terminal)
    assert process.returncode == 0
    last = views(seen)[-1]
    assert last.startswith("300,000 names in ") and last.endswith("s\r\n")


def test_a_quiet_terminal_stays_empty(shoal, flat, tree):
    process, terminal = on_terminal(shoal, "index", flat, "-q", "--threads", 1, "-o", tree.path)
    assert read_terminal(terminal) == b""
    process.wait(60)
    os.close(terminal)
    assert process.returncode == 0


def test_a_pipe_gets_a_line_every_few_seconds(shoal, endless, tmp_path, tree):
    process = shoal.start("index", endless, "--follow", "--memory", "48M", "-o", tree.path, stdin=subprocess.DEVNULL)
    began = time.monotonic()
    line = b""
    while not line.endswith(b"\n"):
        line += process.stderr.read(1)
    assert time.monotonic() - began > 4
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert b" names, " in line and b" MB of memory" in line and b"\x1b" not in line and b"\r" not in line
    assert said == b"shoal index: interrupted: nothing was written\n"
