"""--resume: an interrupted listing goes on, ends with the catalog of a fresh one, and leaves nothing behind."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import Shoal, contents, is_being_written, lines, stop

from shoalcat import hash64  # of tests/reader, which conftest adds

LEFT = [".c.resume", ".c.runs"]


class Tree(pathlib.PosixPath):
    """A directory that knows the digest of a fresh listing."""

    digest = None


@pytest.fixture(scope="module")
def tree(memory_dir):
    """60,000 files in 400 directories: a tenth of a second's work."""
    base = memory_dir / "resume"
    base.mkdir()
    place, rng = Tree(base / "tree"), random.Random(1)
    for folder in range(400):
        here = place / ("%x" % (folder % 20)) / ("%03d" % folder)
        os.makedirs(here)
        fd = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
        for i in range(150):
            os.mknod("%08x" % rng.getrandbits(32), dir_fd=fd)
        os.close(fd)
    shoal = Shoal(base)
    shoal.good("index", place, "-q", "-o", base / "fresh")
    place.digest = shoal.info(base / "fresh")["digest"]
    return place


def interrupted(shoal, tree, out, *options, after=None, sig=signal.SIGINT):
    """Start a listing and end it by a signal some time after it began. Whether it was in time, and what was said."""
    before = contents(out.parent)
    process = shoal.start("index", tree, "-q", "-o", out, *options, stdin=subprocess.DEVNULL)
    partial = out.parent / f".{out.name}.00000000.partial"
    while not partial.exists() and process.poll() is None:
        pass
    if after:
        time.sleep(after)
    process.send_signal(sig)
    said = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -sig)
    if after and "--resume" in options and b"nothing was written" in said:  # before it found anything
        assert contents(out.parent) == before
        return interrupted(shoal, tree, out, *options, after=2 * after, sig=sig)
    return process.returncode != 0, said


def cut_short(shoal, tree, out, *options, after=None, sig=signal.SIGINT):
    """The same, again until the signal was in time, which on a busy machine it may not be. What was said."""
    was = out.read_bytes() if out.exists() else None
    for _ in range(20):
        cut, said = interrupted(shoal, tree, out, *options, after=after, sig=sig)
        if cut:
            return said
        out.unlink()
        if was is not None:
            out.write_bytes(was)
        after = after / 2 if after else None
    pytest.fail("it is through before a signal comes")


def finish(shoal, tree, out, *options):
    """Go on, successfully: the JSON of it."""
    result = json.loads(shoal.good("index", tree, "-q", "--json", "-o", out, "--resume", *options))
    assert shoal.info(out)["digest"] == tree.digest
    shoal.good("verify", out)
    assert result["files"] == 60_000
    assert contents(out.parent) == [out.name], "nothing is left behind"
    return result


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("after", [0, 0.02, 0.05, 0.1])
def test_what_was_interrupted_goes_on(shoal, tree, tmp_path, threads, after):
    out = tmp_path / "c"
    cut, said = interrupted(shoal, tree, out, "--resume", "--threads", threads, after=after)
    if cut:
        assert not out.exists()
        (words,) = lines(said)
        if after == 0 and words == b"shoal index: interrupted: nothing was written":  # before it found anything
            assert contents(tmp_path) == []
        else:
            assert words == b"shoal index: interrupted; repeat the command to continue"
            assert contents(tmp_path) == LEFT
    result = finish(shoal, tree, out, "--threads", threads)
    if cut and after >= 0.02:
        assert 0 < result["resumed"] <= 60_000


def test_it_may_be_interrupted_again_and_again(shoal, tree, tmp_path):
    out, had, cuts = tmp_path / "c", 0, 0
    while cuts < 8:
        cut, _ = interrupted(shoal, tree, out, "--resume", "--threads", 1 + cuts % 3, after=0.01)
        if not cut:
            break
        cuts += 1
        assert contents(tmp_path) == LEFT
    if contents(tmp_path) == LEFT:
        had = finish(shoal, tree, out)["resumed"]
        assert had > 0
    assert shoal.info(out)["digest"] == tree.digest


def test_how_much_had_been_listed_is_said(shoal, tree, tmp_path):
    cut_short(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, after=0.03)
    result = shoal("index", tree, "-o", tmp_path / "c", "--resume")
    assert result.returncode == 0
    assert b" of them listed before it was interrupted" in result.stderr


@pytest.mark.parametrize("after", [0, 0.01, 0.05])
def test_killed_before_a_checkpoint_it_starts_afresh(shoal, tree, tmp_path, after):
    cut, _ = interrupted(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, after=after, sig=signal.SIGKILL)
    if cut:
        assert set(contents(tmp_path)) <= {".c.00000000.partial", ".c.resume", "..c.resume.00000000.partial", ".c.runs"}
    finish(shoal, tree, tmp_path / "c")


def test_killed_after_a_checkpoint_it_goes_on_from_there(shoal, tree, tmp_path):
    cut_short(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, after=0.03)
    state = {name: (tmp_path / name).read_bytes() for name in LEFT}
    for after in (0.02, 0.01, 0, 0, 0, 0):
        if interrupted(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, after=after, sig=signal.SIGKILL)[0]:
            break
        (tmp_path / "c").unlink()
        for name in LEFT:
            (tmp_path / name).write_bytes(state[name])
    else:
        pytest.fail("it is through before a signal comes")
    (tmp_path / ".c.runs").open("ab").write(b"what was written after the checkpoint")
    assert finish(shoal, tree, tmp_path / "c")["resumed"] > 0


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU],
                         ids=lambda sig: sig.name)
def test_without_it_nothing_is_left_behind(shoal, tree, tmp_path, sig):
    said = cut_short(shoal, tree, tmp_path / "c", "--threads", 1, sig=sig)
    assert lines(said) == [b"shoal index: interrupted: nothing was written"]
    assert contents(tmp_path) == []


def test_uninterrupted_it_leaves_nothing_behind_and_memory_is_bounded(shoal, tree, tmp_path):
    assert finish(shoal, tree, tmp_path / "c", "--memory", "48M")["resumed"] == 0


@pytest.mark.parametrize("options", [["--resume"], []], ids=["resuming", "afresh"])
def test_what_other_numbers_of_ranks_left_is_swept_up(shoal, tree, tmp_path, options):
    mine = [".c.resume.1-of-2", ".c.resume.1-of-3", ".c.runs.11-of-4096"]
    others = [".c.resume.1-of-2x", ".c.resume.x1-of-2", ".c.runs.", ".c.runs.1-of-", ".cc.runs.1-of-2", "c.runs.1-of-2",
              ".c.runs.1-of--2", ".c.runs.1-of- 2", ".c.runs.1-of-+2", ".c.runs.-1-of-2", ".c.runs.1-of-99999999999999999999999"]
    for name in mine + others:
        (tmp_path / name).touch()
    shoal.good("index", tree, "-q", "-o", tmp_path / "c", *options)
    assert contents(tmp_path) == sorted(others + ["c"])


def test_an_old_catalog_stays_until_the_new_one_is_whole(shoal, tree, tmp_path):
    shoal.index([b"old"], to=tmp_path / "c")
    cut_short(shoal, tree, tmp_path / "c", "--resume", "--threads", 1)
    assert shoal.names(tmp_path / "c") == [b"old"]
    finish(shoal, tree, tmp_path / "c")


# ------------------------------------------------------------------------------------------- one large directory


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    """A directory of 60,000 files on a disk, where the system keeps it by a hash of the names."""
    place = tmp_path_factory.mktemp("flat")
    kind = subprocess.run(["stat", "-f", "-c", "%T", place], stdout=subprocess.PIPE, check=True).stdout
    if kind.strip() != b"ext2/ext3":
        pytest.skip("temporary files are not on ext4")
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    os.mknod("0", dir_fd=fd)
    for i in range(1, 60_000):  # links, which take no room
        os.link("0", "%d" % i, src_dir_fd=fd, dst_dir_fd=fd)
    os.close(fd)
    yield place
    shutil.rmtree(place)


def test_a_large_directory_goes_on_where_it_was(shoal, flat, tmp_path):
    """Names that were listed, and are listed again, are as many as one read of the directory brings."""
    out, after = tmp_path / "c", 0.005
    for _ in range(25):
        cut, _ = interrupted(shoal, flat, out, "--resume", "--threads", 1, after=after)
        if not cut:
            after *= 0.7
            out.unlink()
            continue
        result = json.loads(shoal.good("index", flat, "-q", "--json", "-o", out, "--resume"))
        assert result["files"] == 60_000 and contents(tmp_path) == ["c"]
        assert result["repeated"] <= 2 * (128 << 10) // 24
        shoal.good("verify", "--storage", out)
        if 5_000 < result["resumed"] < 60_000:  # and not when all was listed and it was being sealed
            return
        after *= 1.4 if result["resumed"] < 60_000 else 0.7  # until it is midway
        out.unlink()
    pytest.fail("it never kept what it had listed of the directory")


# ------------------------------------------------------------------------------------------------- something else


@pytest.fixture
def left(shoal, tree, tmp_path):
    """A directory with what an interrupted listing left."""
    cut_short(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, after=0.02)
    return tmp_path


@pytest.mark.parametrize("options", [["--no-sizes"], ["--include", "*0"], ["--exclude", "*0"], ["-x"], ["--follow"],
                                     ["--root", "s3://bucket"]])
def test_other_options_are_refused_and_the_same_ones_still_work(shoal, fails, tree, left, options):
    fails(shoal("index", tree, "-q", "-o", left / "c", "--resume", *options), 1, f"'{left}/.c.resume'",
          "with other options", "remove that file")
    assert contents(left) == LEFT
    assert finish(shoal, tree, left / "c")["resumed"] > 0


def test_another_directory_is_refused(shoal, fails, tree, left):
    fails(shoal("index", tree / "0", "-q", "-o", left / "c", "--resume"), 1, "a listing of something else")
    assert finish(shoal, tree, left / "c")["resumed"] > 0


def test_another_directory_of_the_same_root_is_refused(shoal, fails, tree, tmp_path):
    """Nothing in the catalog tells the two apart."""
    cut_short(shoal, tree, tmp_path / "c", "--resume", "--threads", 1, "--root", "s3://bucket", after=0.01)
    fails(shoal("index", tree / "0", "-q", "-o", tmp_path / "c", "--resume", "--root", "s3://bucket"), 1,
          "a listing of something else")


def test_another_output_has_nothing_to_do_with_it(shoal, tree, left):
    result = json.loads(shoal.good("index", tree, "-q", "--json", "-o", left / "d", "--resume"))
    assert result["resumed"] == 0
    assert contents(left) == LEFT + ["d"]


def test_two_at_once(shoal, fails, tree, left):
    first = shoal.start("index", tree, "-q", "-o", left / "c", "--resume", "--threads", 1, stdin=subprocess.DEVNULL)
    while not is_being_written(left / "c") and first.poll() is None:
        pass
    if stop(first) and not (left / "c").exists():
        fails(shoal("index", tree, "-q", "-o", left / "c", "--resume"), 1, "another process is writing")
    first.send_signal(signal.SIGCONT)
    said = first.communicate(timeout=60)[1]
    assert (first.returncode, said) == (0, b"")
    assert shoal.info(left / "c")["digest"] == tree.digest
    assert contents(left) == ["c"]


# ------------------------------------------------------------------------------------------------------------ damage


def tries(shoal, tree, left):
    """Go on after something was done to what was left: the sentence, or None when the catalog is right."""
    result = shoal("index", tree, "-q", "-o", left / "c", "--resume")
    if result.returncode == 0:
        assert shoal.info(left / "c")["digest"] == tree.digest
        return None
    assert result.returncode == 1 and not (left / "c").exists()
    (said,) = lines(result.stderr)
    return said.decode()


def test_a_damaged_checkpoint_is_refused(shoal, tree, left):
    """Every byte of it: test_provenance.c."""
    image = (left / ".c.resume").read_bytes()
    for bad in image[:-1], image[:8], image[:7], b"", image + b"\0", b"x" + image[1:], image[:20] + b"\x7f" + image[21:]:
        (left / ".c.resume").write_bytes(bad)
        assert "cannot continue from '" in tries(shoal, tree, left)
    (left / ".c.resume").unlink()  # as it says
    assert finish(shoal, tree, left / "c")["resumed"] == 0


@pytest.mark.parametrize("version", [b"4", b"6"])
def test_a_checkpoint_of_another_version_is_refused(shoal, tree, left, version):
    image = (left / ".c.resume").read_bytes()
    (left / ".c.resume").write_bytes(image[:7] + version + image[8:])
    assert "is a checkpoint of another version of Shoal: remove it to start anew" in tries(shoal, tree, left)
    assert (left / ".c.runs").exists()
    (left / ".c.resume").write_bytes(image)
    assert finish(shoal, tree, left / "c")["resumed"] > 0


@pytest.mark.parametrize("how", ["missing", "empty", "cut"])
def test_runs_that_do_not_fit_are_refused(shoal, tree, left, how):
    runs = left / ".c.runs"
    if how == "missing":
        runs.unlink()
    else:
        os.truncate(runs, 0 if how == "empty" else runs.stat().st_size // 2)
    said = tries(shoal, tree, left)
    assert ".c.runs' is damaged, or does not belong to '" in said and "remove both" in said
    for name in (".c.resume", ".c.runs"):
        if (left / name).exists():
            (left / name).unlink()
    finish(shoal, tree, left / "c")


def test_runs_that_were_changed_are_noticed(shoal, tree, left):
    image, state = (left / ".c.runs").read_bytes(), (left / ".c.resume").read_bytes()
    rng = random.Random(4)
    for _ in range(20):
        bad = bytearray(image)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        (left / ".c.runs").write_bytes(bad)
        (left / ".c.resume").write_bytes(state)
        said = tries(shoal, tree, left)
        assert "remove both" in said


def test_a_link_in_the_place_of_the_runs_is_no_trap(shoal, fails, tree, tmp_path):
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / ".c.runs").symlink_to("precious")
    fails(shoal("index", tree, "-q", "-o", tmp_path / "c", "--resume"), 1, f"cannot write '{tmp_path}/.c.runs'")
    assert (tmp_path / "precious").read_bytes() == b"mine"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@needs_root
@pytest.mark.parametrize("name", LEFT)
def test_files_of_another_user_are_not_taken(shoal, fails, tree, left, name):
    os.chown(left / name, 65534, 65534)
    fails(shoal("index", tree, "-q", "-o", left / "c", "--resume"), 1, f"'{left}/{name}' belongs to another user")
    assert contents(left) == LEFT
    os.chown(left / name, 0, 0)
    assert finish(shoal, tree, left / "c")["resumed"] > 0


@pytest.mark.parametrize("name", LEFT)
def test_files_with_several_names_are_not_taken(shoal, fails, tree, left, name):
    os.link(left / name, left / "other")
    fails(shoal("index", tree, "-q", "-o", left / "c", "--resume"), 1, f"'{left}/{name}' has several names")
    (left / "other").unlink()
    assert finish(shoal, tree, left / "c")["resumed"] > 0


def test_a_link_in_the_place_of_a_checkpoint_is_not_followed(shoal, fails, tree, left):
    (left / ".c.resume").rename(left / "elsewhere")
    (left / ".c.resume").symlink_to("elsewhere")
    fails(shoal("index", tree, "-q", "-o", left / "c", "--resume"), 1, f"'{left}/.c.resume' is a symbolic link")


@pytest.mark.parametrize("start", [b"../00/", b"/a000/", b"0/\x0000/", b"0/000/"], ids=["up", "absolute", "nul", "good"])
def test_names_from_runs_are_checked(shoal, fails, tree, left, start):
    """All sums are right, so that only the name itself can be noticed."""
    runs, state = (left / ".c.runs").read_bytes(), (left / ".c.resume").read_bytes()
    name = re.search(rb"[0-9a-f]/\d{3}/[0-9a-f]{8}", runs)
    if start == b"0/000/":
        start = name[0][:6]
    bad = runs[:name.start()] + start + runs[name.start() + 6:]
    old, new = (struct.pack("<Q", hash64(data)) for data in (runs, bad))
    assert state.count(old) == 1
    state = state[:-8].replace(old, new)
    (left / ".c.runs").write_bytes(bad)
    (left / ".c.resume").write_bytes(state + struct.pack("<Q", hash64(state)))
    if start == name[0][:6]:
        assert finish(shoal, tree, left / "c")["resumed"] > 0
    else:
        fails(shoal("index", tree, "-q", "-o", left / "c", "--resume"), 1, "it has a name that no listing finds")
        assert not (left / "c").exists()


# ----------------------------------------------------------------------------------------------------------- changes


def test_files_that_come_and_go_between_the_runs(shoal, tmp_path):
    """What had not been listed yet is listed as it is; what had been listed stays."""
    place, out = tmp_path / "tree", tmp_path / "out" / "c"
    out.parent.mkdir()
    for folder in range(300):
        os.makedirs(place / ("%03d" % folder))
        for i in range(40):
            (place / ("%03d" % folder) / ("%d" % i)).write_bytes(b"x")
    cut_short(shoal, place, out, "--resume", "--threads", 1, after=0.005)
    for folder in range(300):
        (place / ("%03d" % folder) / "0").unlink()
        (place / ("%03d" % folder) / "new").write_bytes(b"")
    shutil.rmtree(place / "299")
    shutil.rmtree(place / "000")
    result = json.loads(shoal.good("index", place, "-q", "--json", "-o", out, "--resume"))
    names = set(shoal.names(out))
    shoal.good("verify", out)
    for folder in range(1, 299):
        assert {b"%03d/%d" % (folder, i) for i in range(1, 40)} <= names
    either = sum((b"%03d/0" % i in names) + (b"%03d/new" % i in names) for i in range(1, 299))
    assert 298 <= either <= 2 * 298
    assert result["files"] == len(names)
    assert contents(out.parent) == ["c"]


def test_what_was_left_is_no_part_of_the_dataset(shoal, tmp_path):
    """The output lies in the tree that is listed."""
    for folder in range(200):
        os.makedirs(tmp_path / ("%03d" % folder))
        for i in range(50):
            (tmp_path / ("%03d" % folder) / ("%d" % i)).write_bytes(b"x")
    interrupted(shoal, tmp_path, tmp_path / "c", "--resume", "--threads", 1, after=0.005)
    shoal.good("index", tmp_path, "-q", "-o", tmp_path / "c", "--resume")
    assert shoal.info(tmp_path / "c")["files"] == 10_000
