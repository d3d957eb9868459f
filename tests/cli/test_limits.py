"""Limits of the process: what can be done within them is done, else one sentence says which limit it is."""

import os
import resource
import struct
import subprocess

import pytest
import shapes
from conftest import binary, check_words, contents, lines

import make  # of tests/reader, which conftest adds


def limited(**limits):
    """For preexec_fn: both limits, as a shell's ulimit sets them."""
    def set_them():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    return set_them


def is_plain():
    """Whether the command is a plain build: sanitizers take more of a stack than there is."""
    with open(binary(), "rb") as file:
        return b"__asan_init" not in file.read()


# ------------------------------------------------------------------------------------------------------------- stack


def names():
    """Every way in which names are kept, and long ones: each has code of its own."""
    long = [b"%s/%06d" % (b"d" * 200, i) for i in range(3_000)]
    return {"hash": shapes.hexadecimal(20_000, 32), "numbers": [b"f%d" % i for i in range(20_000)], "long": long,
            "words": sorted({b"%x/%s" % (i * i % 977, b"w" * (i % 50) + b"%d" % (i * 7919)) for i in range(20_000)})}


@pytest.mark.parametrize("stack", [64, 128, 256])
@pytest.mark.parametrize("shape", names())
def test_a_small_stack_is_enough(shoal, tmp_path, stack, shape):
    if not is_plain():
        stack *= 8  # sanitizers put space around everything
    small = {"preexec_fn": limited(STACK=stack << 10)}
    want = sorted(names()[shape])
    path = tmp_path / "c"
    shoal.good("index", "-", "-0", "-q", "--names-only", "--root", "/", "-o", path, stdin=b"".join(n + b"\0" for n in want),
               **small)
    assert lines(shoal.good("ls", path, "-0", **small), b"\0") == want
    assert shoal.good("find", path, want[-1], **small) == b"%d\n" % (len(want) - 1)
    shoal.good("verify", path, **small)


@pytest.mark.parametrize("stack", [64, 128])
def test_a_tree_is_listed_with_a_small_stack(shoal, memory_dir, tmp_path, stack):
    stack *= 1 if is_plain() else 8
    small = {"preexec_fn": limited(STACK=stack << 10)}
    place = memory_dir / f"stack{stack}"
    for i in range(50):
        os.makedirs(place / ("%02x" % i) / ("y" * 200))
        for name in shapes.hexadecimal(40, 16):
            os.mknod(os.path.join(os.fsencode(place / ("%02x" % i)), name))
    for options in [], ["--update", tmp_path / "c"], ["--no-sizes"], ["--resume"], ["--follow"]:
        shoal.good("index", place, "-q", "-o", tmp_path / "c", *options, **small)
        assert shoal.info(tmp_path / "c")["files"] == 2000
    shoal.good("read", tmp_path / "c", "-q", "--slot", "1K", **small)


# ------------------------------------------------------------------------------------------------------- open files


@pytest.fixture
def tree(tmp_path):
    for i in range(40):
        (tmp_path / "tree" / str(i) / "below").mkdir(parents=True)
        for j in range(5):
            (tmp_path / "tree" / str(i) / "below" / str(j)).write_bytes(b"x")
    (tmp_path / "out").mkdir()
    return tmp_path / "tree"


@pytest.mark.parametrize("options", [[], ["--threads", 64], ["--resume"], ["--tmp-dir", "."]])
@pytest.mark.parametrize("files", [16, 20, 64])
def test_few_open_files_are_enough_to_list(shoal, tree, tmp_path, files, options):
    shoal.good("index", tree, "-q", "-o", tmp_path / "out" / "c", *options, preexec_fn=limited(NOFILE=files), cwd=tmp_path)
    assert shoal.info(tmp_path / "out" / "c")["files"] == 200
    assert contents(tmp_path / "out") == ["c"]


@pytest.mark.parametrize("files", range(4, 16))
def test_too_few_open_files_are_said_or_are_enough(shoal, fails, tree, tmp_path, files):
    for command in ["index", tree, "-q", "-o", tmp_path / "out" / "c"], ["index", tree, "-o", tmp_path / "out" / "c", "-q",
                                                                     "--resume", "--keep-going"]:
        result = shoal(*command, preexec_fn=limited(NOFILE=files))
        if result.returncode == 0:
            assert shoal.info(tmp_path / "out" / "c")["files"] == 200
            assert contents(tmp_path / "out") == ["c"]
            (tmp_path / "out" / "c").unlink()
        elif files >= 5:  # below that the program cannot be loaded
            fails(result, 1, "Too many open files", f"may have {files} (ulimit -n): allow it more")
            assert "--resume" in command or contents(tmp_path / "out") == []


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("files", [6, 8, 10, 12, 16, 32])
def test_reading_with_few_open_files(shoal, tree, tmp_path, files, engine):
    shoal.good("index", tree, "-q", "-o", tmp_path / "c")
    result = shoal("read", tmp_path / "c", "-q", "--engine", engine, preexec_fn=limited(NOFILE=files))
    if result.returncode == 0:
        assert b"every sample exactly once" in result.stdout
    else:
        assert result.returncode == 1 and len(lines(result.stderr)) == 1
        assert b"ulimit -n" in result.stderr and files < 16, result.stderr


# ------------------------------------------------------------------------------------------------------------ threads


def few_threads(nr):
    """For preexec_fn: a user who may have this many threads. Root may have any number."""
    def set_them():
        resource.setrlimit(resource.RLIMIT_NPROC, (nr, nr))
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
    return set_them


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without other processes")
@pytest.mark.skipif(not is_plain(), reason="built with a sanitizer, which needs more")
@pytest.mark.parametrize("nr", [2, 3, 4, 30])
@pytest.mark.parametrize("engine", ["uring", "threads"])
def test_reading_with_few_threads(shoal, tree, tmp_path, nr, engine):
    """The engine takes all that it gets, after the loader has its own thread."""
    shoal.good("index", tree, "-q", "-o", tmp_path / "c")
    for folder in [tmp_path, *list(tmp_path.parents)[:2]]:
        folder.chmod(folder.stat().st_mode | 0o055)
    result = shoal("read", tmp_path / "c", "-q", "--engine", engine, preexec_fn=few_threads(nr))
    if nr == 2 and engine == "threads":  # one for the loader, and none to read
        assert result.returncode == 1 and b"cannot start a reading thread" in result.stderr
    else:
        assert result.returncode == 0, result.stderr
        assert b"every sample exactly once" in result.stdout


# ------------------------------------------------------------------------------------------------------- dictionaries


def dictionary_catalog(path, nr, length, overlap=False):
    """nr segments, each with a dictionary of its own, or (overlap) all with the same bytes."""
    content = bytes(range(256)) * (length // 256)
    names, payload = make.front([b"%05d" % 0, b"%05d/x" % 0], True, content)
    segments = [([name.replace(b"00000", b"%05d" % i) for name in names], payload.replace(b"00000", b"%05d" % i))
                for i in range(nr)]
    sections, fields = make.parts(segments)
    sections[b"DICT"] = content if overlap else content * nr
    sections[b"DTAB"] = b"".join(struct.pack("<QQQ", i, 0 if overlap else i * length, length) for i in range(nr))
    path.write_bytes(make.assemble([section for section in sections.items() if section[1]], **fields))


@pytest.mark.skipif(not is_plain(), reason="built with a sanitizer, which needs more")
@pytest.mark.parametrize("command", ["ls", "verify"])
@pytest.mark.parametrize("nr, length", [(70, 2**20), (1700, 2**14)], ids=["long", "many"])
def test_dictionaries_take_a_bounded_amount_of_memory(shoal, tmp_path, command, nr, length):
    dictionary_catalog(tmp_path / "c", nr, length)
    done = subprocess.run(["sh", "-c", 'ulimit -d 65536; exec "$@"', "sh", binary(), command, str(tmp_path / "c")],
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == (2 * nr if command == "ls" else 1)


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_dictionaries_that_overlap_are_refused(shoal, tmp_path, command):
    dictionary_catalog(tmp_path / "c", 3, 4096, overlap=True)
    check_words(shoal(command, tmp_path / "c"), 1, "two dictionaries overlap")


@pytest.mark.parametrize("length", [2**20, 2**20 + 256])
def test_a_dictionary_of_more_than_a_mebibyte_is_refused(shoal, tmp_path, length):
    dictionary_catalog(tmp_path / "c", 1, length)
    done = shoal("verify", tmp_path / "c")
    assert (done.returncode, b"too long" in done.stderr) == ((0, False) if length == 2**20 else (1, True))
