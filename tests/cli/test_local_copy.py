"""--local-copy DIR: a copy of the catalog is made once, used by all, and never believed when it is damaged."""

import os
import signal
import subprocess

import pytest
import shapes
from conftest import contents, lines, wait_until_it_hears

USES = {"info": ["info", "CAT"], "ls": ["ls", "CAT"], "find": ["find", "CAT", "f000007"],
        "order": ["order", "CAT", "--seed", "3", "--ranks", "2", "--rank", "1", "--batch", "4"],
        "manifest": ["manifest", "CAT", "-q", "--ranks", "2", "-o", "OUT"]}


@pytest.fixture
def catalog(shoal):
    return shoal.pattern("f{:06d}", 1000)


@pytest.fixture
def copies(tmp_path):
    place = tmp_path / "copies"
    place.mkdir()
    return place


def run(shoal, use, catalog, tmp_path, *options):
    """What a command prints; for a manifest, what it writes."""
    out = tmp_path / "manifest"
    args = [catalog if arg == "CAT" else out if arg == "OUT" else arg for arg in USES[use]]
    printed = shoal.good(*args, *options)
    if use == "manifest":
        printed = [(path.name, path.read_bytes()) for path in sorted(out.iterdir())]
    return printed


@pytest.mark.parametrize("use", USES)
def test_the_copy_says_the_same_and_is_made_once(shoal, catalog, copies, tmp_path, use):
    want = run(shoal, use, catalog, tmp_path)
    inodes = set()
    for _ in range(3):
        assert run(shoal, use, catalog, tmp_path, "--local-copy", copies) == want
        (name,) = contents(copies)
        inodes.add((copies / name).stat().st_ino)
    assert len(inodes) == 1
    assert (copies / name).read_bytes() == catalog.read_bytes()


def test_all_commands_share_one_copy(shoal, catalog, copies, tmp_path):
    for use in USES:
        run(shoal, use, catalog, tmp_path, "--local-copy", copies)
    assert len(contents(copies)) == 1


def test_many_processes_at_once_make_one_copy(shoal, copies):
    catalog = shoal.index(shapes.hexadecimal(60_000, 16))
    want = shoal.good("find", catalog, shoal.names(catalog)[777])
    processes = [shoal.start("find", catalog, shoal.names(catalog)[777] if i == 0 else "x", "--local-copy", copies,
                             stdin=subprocess.DEVNULL) for i in range(16)]
    outs = [process.communicate(timeout=60) for process in processes]
    assert outs[0] == (want, b"")
    for process, (_, said) in zip(processes[1:], outs[1:]):
        assert process.returncode == 1 and len(lines(said)) <= 1 and b"copy" not in said
    assert len(contents(copies)) == 1
    (name,) = contents(copies)
    shoal.good("verify", copies / name)


@pytest.mark.parametrize("how", ["cut", "empty", "header", "other", "longer"])
def test_a_damaged_copy_is_replaced(shoal, catalog, copies, how):
    want = shoal.good("ls", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    image = catalog.read_bytes()
    bad = {"cut": image[:-1], "empty": b"", "header": image[:40] + b"\xff" + image[41:], "longer": image + b"\0",
           "other": shoal.index([b"x"]).read_bytes()}[how]
    (copies / name).write_bytes(bad)
    replaced(shoal, catalog, copies, name, want)
    assert contents(copies) == [name]
    assert (copies / name).read_bytes() == image


def replaced(shoal, catalog, copies, name, want):
    """The copy was bad: that is said of it, once, and all is well."""
    result = shoal("ls", catalog, "--local-copy", copies)
    assert (result.returncode, result.stdout) == (0, want)
    assert lines(result.stderr) == [os.fsencode(f"shoal: '{catalog}': its local copy '{copies}/{name}' was damaged and has "
                                                "been replaced")]
    assert shoal.good("ls", catalog, "--local-copy", copies) == want


def test_another_catalog_of_the_same_length_is_no_copy(shoal, copies, tmp_path):
    one, other = shoal.index([b"a"], to=tmp_path / "one"), shoal.index([b"b"], to=tmp_path / "other")
    shoal.good("ls", one, "--local-copy", copies)
    (name,) = contents(copies)
    assert len(one.read_bytes()) == len(other.read_bytes())
    (copies / name).write_bytes(other.read_bytes())
    replaced(shoal, one, copies, name, b"a\n")


@pytest.fixture
def damaged(shoal, copies):
    """A catalog, its copy with a bit flipped in the middle, and what should be printed."""
    catalog = shoal.index(shapes.hexadecimal(5_000, 16))
    want = shoal.good("ls", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    image = bytearray(catalog.read_bytes())
    image[len(image) // 2] ^= 1
    (copies / name).write_bytes(image)
    return catalog, copies / name, want


def test_a_copy_that_was_touched_is_read_whole_and_replaced(shoal, copies, damaged):
    catalog, copy, want = damaged
    replaced(shoal, catalog, copies, copy.name, want)
    assert copy.read_bytes() == catalog.read_bytes()


def test_a_copy_that_was_touched_but_is_good_is_kept(shoal, copies, catalog):
    want = shoal.good("ls", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    inode = (copies / name).stat().st_ino
    os.utime(copies / name)
    assert shoal.good("ls", catalog, "--local-copy", copies) == want
    assert (copies / name).stat().st_ino == inode
    assert (copies / name).stat().st_mtime_ns == catalog.stat().st_mtime_ns


def test_damage_that_nobody_did_is_said_of_the_copy_and_healed_the_next_time(shoal, fails, copies, damaged):
    """A disk that loses a bit does not change the time: a copy is not read whole at each start."""
    catalog, copy, want = damaged
    time = catalog.stat().st_mtime_ns
    os.utime(copy, ns=(time, time))
    result = shoal("ls", catalog, "--local-copy", copies)
    assert result.returncode == 1
    assert lines(result.stderr)[0].startswith(os.fsencode(f"shoal ls: '{catalog}': its local copy '{copy}' is a damaged catalog: "))
    assert lines(result.stderr)[0].endswith(b"; it is replaced when it is next opened")
    replaced(shoal, catalog, copies, copy.name, want)


def test_a_copy_is_not_blamed_for_a_damaged_original(shoal, fails, copies, damaged):
    catalog, copy, _ = damaged
    catalog.write_bytes(copy.read_bytes())
    result = shoal("ls", catalog, "--local-copy", copies)
    assert result.returncode == 1
    (words,) = lines(result.stderr)
    assert words.startswith(os.fsencode(f"shoal: '{catalog}': damaged catalog")) or \
        words.startswith(os.fsencode(f"shoal ls: '{catalog}': damaged catalog"))


def test_a_changed_catalog_has_another_copy(shoal, copies):
    catalog = shoal.index([b"a"])
    assert shoal.good("ls", catalog, "--local-copy", copies) == b"a\n"
    shoal.index([b"a", b"b"], to=catalog)
    assert shoal.good("ls", catalog, "--local-copy", copies) == b"a\nb\n"
    assert len(contents(copies)) == 2


def test_what_a_killed_process_left_is_taken_over(shoal, catalog, copies):
    shoal.good("ls", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    (copies / name).rename(copies / f".{name}.00000000.partial")
    os.truncate(copies / f".{name}.00000000.partial", 100)
    shoal.good("ls", catalog, "--local-copy", copies)
    assert contents(copies) == [name]


def test_a_directory_that_is_not_there(shoal, fails, catalog, tmp_path):
    for use in ("info", "ls"):
        fails(shoal(use, catalog, "--local-copy", tmp_path / "no"), 1, f"'{catalog}'", f"'{tmp_path}/no", "No such file")
    assert contents(tmp_path) == []


def test_a_file_for_a_directory(shoal, fails, catalog, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    fails(shoal("ls", catalog, "--local-copy", tmp_path / "file"), 1, "Not a directory")


def test_a_directory_that_may_not_be_written(shoal, fails, catalog, copies, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs another user")
    for above in (catalog.parent, tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o755)
    copies.chmod(0o555)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    fails(shoal("ls", catalog, "--local-copy", copies, **nobody), 1, f"'{copies}", "Permission denied", empty=copies)
    want = shoal.good("ls", catalog, "--local-copy", copies)  # root may
    assert shoal.good("ls", catalog, "--local-copy", copies, **nobody) == want  # and now it is there


def test_a_catalog_that_is_not_there(shoal, fails, copies, tmp_path):
    fails(shoal("ls", tmp_path / "no", "--local-copy", copies), 1, f"'{tmp_path}/no'", "No such file", empty=copies)


def test_a_damaged_catalog_is_not_copied(shoal, fails, catalog, copies):
    catalog.write_bytes(catalog.read_bytes()[:-1])
    fails(shoal("ls", catalog, "--local-copy", copies), 1, f"'{catalog}'", "truncated catalog", empty=copies)


def test_a_full_disk_is_said_once_and_nothing_stays(shoal, fails, copies):
    catalog = shoal.index(shapes.hexadecimal(60_000, 32))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", copies], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a file system")
    try:
        fails(shoal("ls", catalog, "--local-copy", copies), 1, f"'{catalog}'", "No space left on device", empty=copies)
    finally:
        subprocess.run(["umount", copies], check=True)


def test_an_option_without_a_value(shoal, fails, catalog):
    fails(shoal("ls", catalog, "--local-copy"), 2, "needs a value")


@pytest.mark.parametrize("use", ["verify", "index"])
def test_it_is_not_for_those_who_read_once(shoal, fails, catalog, use):
    fails(shoal(use, catalog, "--local-copy", "/tmp"), 2, "unknown option")


def test_waiting_for_anothers_copy_can_be_interrupted(shoal, catalog, copies):
    """Another one has begun, and does not come to its end."""
    shoal.good("ls", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    (copies / name).rename(copies / f".{name}.00000000.partial")
    lock = subprocess.Popen(["flock", copies / f".{name}.00000000.partial", "-c", "echo; cat"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    lock.stdout.read(1)
    process = shoal.start("ls", catalog, "--local-copy", copies, stdin=subprocess.DEVNULL)
    wait_until_it_hears(process, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    lock.communicate()
    assert process.returncode == -signal.SIGINT
    assert lines(said) == [b"shoal ls: '%s': interrupted" % os.fsencode(catalog)]


def test_a_link_in_the_place_of_the_copy_is_not_followed(shoal, catalog, copies, tmp_path):
    shoal.good("info", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (copies / name).unlink()
    (copies / name).symlink_to(victim)
    shoal.good("info", catalog, "--local-copy", copies)
    assert victim.read_bytes() == b"precious"
    assert not (copies / name).is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
def test_files_of_another_user_are_not_used(shoal, fails, catalog, copies, tmp_path):
    shoal.good("info", catalog, "--local-copy", copies)
    (name,) = contents(copies)
    os.chown(copies / name, 65534, 65534)
    fails(shoal("info", catalog, "--local-copy", copies), 1, "belongs to another user")
    partial = tmp_path / ".c.00000000.partial"
    partial.write_bytes(b"")
    os.chown(partial, 65534, 65534)
    fails(shoal("index", "-", "-o", tmp_path / "c", stdin=b"a\n"), 1, "belongs to another user")
