"""Full disks, signals, other writers and readers that go away: nothing is left behind, and nothing half done."""

import os
import random
import resource
import signal
import subprocess
import time

import pytest
import shapes
from conftest import check_words, contents, is_being_written, lines, wait_until_it_has_worked


def wait_until(condition):
    """Wait for something that another process does soon."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


def start_index(shoal, directory, *options):
    """An index command that has begun to write directory/c, and waits for more of its list."""
    process = shoal.start("index", "-", "-q", "-o", directory / "c", *options)
    process.stdin.write(b"first\n")
    wait_until(lambda: is_being_written(directory / "c"))
    return process


def write_all(pipe, data):
    """Write to a pipe without a buffer, which may take less than all."""
    data = memoryview(data)
    while data:
        data = data[pipe.write(data):]


@pytest.fixture(scope="module")
def long_list(tmp_path_factory):
    """A list that takes a good part of a second to sort and encode."""
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("list") / "long.txt"
    path.write_bytes(b"".join(b"%x/%x\n" % (rng.getrandbits(40), rng.getrandbits(60)) for _ in range(600_000)))
    return path


# --------------------------------------------------------------------------------------------------------- full disks


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a file system: " + mounted.stderr.decode())
    yield place
    subprocess.run(["umount", place], check=True)


def hex_list(nr):
    return b"".join(name + b"\n" for name in shapes.hexadecimal(nr, 32))


def test_index_on_a_full_disk_says_so_and_cleans_up(shoal, fails, small_disk):
    result = shoal("index", "-", "-q", "-o", small_disk / "c", stdin=hex_list(80_000))
    fails(result, 1, "No space left on device", empty=small_disk)


def test_index_that_spills_to_a_full_disk_says_so_and_cleans_up(shoal, fails, small_disk, long_list):
    result = shoal("index", long_list, "-q", "--memory", "48M", "-o", small_disk / "c")
    fails(result, 1, "temporary file", "No space left on device", empty=small_disk)


def test_index_that_spills_to_another_full_disk_says_so_and_cleans_up(shoal, fails, small_disk, tmp_path, long_list):
    result = shoal("index", long_list, "-q", "--memory", "48M", "--tmp-dir", small_disk, "-o", tmp_path / "c")
    fails(result, 1, "in '%s': " % small_disk, "No space left on device; free some space, or choose another directory with --tmp-dir", empty=small_disk)
    assert contents(tmp_path) == ["small"]


def test_an_old_catalog_survives_a_full_disk(shoal, fails, small_disk):
    path = shoal.index([b"old"], to=small_disk / "c")
    fails(shoal("index", "-", "-q", "-o", path, stdin=hex_list(80_000)), 1, "No space left on device")
    assert contents(small_disk) == ["c"]
    assert shoal.names(path) == [b"old"]


def test_manifest_on_a_full_disk_says_so_and_leaves_no_part_of_a_list(shoal, fails, small_disk):
    path = shoal.pattern("f{:06d}", 60_000)  # lists of some 240 kB each: three fit
    result = shoal("manifest", path, "--ranks", 6, "-o", small_disk / "m")
    fails(result, 1, "No space left on device")
    for name in set(contents(small_disk / "m")) - {".train.shoal-manifest"}:
        assert name.startswith("train_")
        assert len(lines((small_disk / "m" / name).read_bytes())) == 10_000


def limit_files(nr_bytes):
    """Files of this process may not grow past a size. The command must not die of the signal for that."""

    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (nr_bytes, nr_bytes))

    return apply


@pytest.mark.parametrize("nr_bytes", [0, 300, 10_000, 500_000])
def test_a_file_that_may_not_grow_is_told_of_and_removed(shoal, fails, tmp_path, nr_bytes):
    result = shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=hex_list(40_000), preexec_fn=limit_files(nr_bytes))
    fails(result, 1, "File too large", empty=tmp_path)


@pytest.mark.parametrize("nr_bytes", [0, 300, 600])
def test_a_small_catalog_that_may_not_grow_is_told_of_and_removed(shoal, fails, tmp_path, nr_bytes):
    result = shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=b"a\t1\nb\t2\n", preexec_fn=limit_files(nr_bytes))
    fails(result, 1, "File too large", empty=tmp_path)


@pytest.mark.parametrize("nr_bytes", [0, 100, 300])
def test_a_pattern_catalog_that_may_not_grow_is_told_of_and_removed(shoal, fails, tmp_path, nr_bytes):
    result = shoal("index", "--pattern", "{:09d}", "--count", 1000, "-o", tmp_path / "c",
                   preexec_fn=limit_files(nr_bytes))
    fails(result, 1, "File too large", empty=tmp_path)


def test_a_temporary_file_that_may_not_grow_is_told_of(shoal, fails, tmp_path, long_list):
    result = shoal("index", long_list, "-q", "--memory", "48M", "-o", tmp_path / "c",
                   preexec_fn=limit_files(2_000_000))
    fails(result, 1, "temporary file", "File too large", empty=tmp_path)


def test_a_list_of_a_manifest_that_may_not_grow_is_told_of_and_removed(shoal, fails, tmp_path):
    path = shoal.pattern("f{:06d}", 60_000)
    result = shoal("manifest", path, "-o", tmp_path / "m", preexec_fn=limit_files(100_000))
    fails(result, 1, "File too large", empty=tmp_path / "m")


# ---------------------------------------------------------------------------------------------------- standard output


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--id", "0"], ["info"], ["info", "--json"], ["find", "a"],
                                       ["order"], ["verify", "-v"], ["verify", "--json"], ["ls", "--help"]])
def test_standard_output_that_is_full_is_told(shoal, arguments):
    path = shoal.index([b"a"])
    with open("/dev/full", "wb") as full:
        result = shoal(arguments[0], path, *arguments[1:], stdout=full)
    check_words(result, 1, "cannot write to standard output: No space left on device")


@pytest.mark.parametrize("arguments", [["ls"], ["order"], ["order", "--names"]])
def test_much_standard_output_that_is_full_is_told(shoal, arguments):
    path = shoal.pattern("f{:06d}", 100_000)
    with open("/dev/full", "wb") as full:
        result = shoal(arguments[0], path, *arguments[1:], stdout=full)
    check_words(result, 1, "cannot write to standard output: No space left on device")


def test_json_of_index_to_a_full_output_is_told(shoal, tmp_path):
    with open("/dev/full", "wb") as full:
        result = shoal("index", "-", "-q", "--json", "-o", tmp_path / "c", stdin=b"a\n", stdout=full)
    check_words(result, 1, "cannot write to standard output")


@pytest.mark.parametrize("arguments", [["ls"], ["order"], ["order", "--names"]])
def test_a_reader_that_goes_away_ends_it_quietly(shoal, arguments):
    path = shoal.pattern("f{:07d}", 2_000_000)
    with shoal.start(arguments[0], path, *arguments[1:], stdin=subprocess.DEVNULL) as process:
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert said == b""
    assert process.returncode == -signal.SIGPIPE


@pytest.mark.parametrize("arguments", [["read", "c"], ["read", "c", "--json"], ["verify", "--storage", "-v", "c"], ["info", "c"],
                                       ["index", "d", "-q", "--json", "-o", "x"], ["verify", "--storage", "other"], ["stat", "c"],
                                       ["diff", "c", "other"], ["list", "d"], ["workloads"], ["--help"], ["read", "--help"]],
                         ids=lambda a: " ".join(a))
def test_a_reader_that_has_left_ends_every_command_quietly(shoal, tmp_path, arguments):
    """Also those that ignore the signal meanwhile, and those whose output failed before the end."""
    (tmp_path / "d").mkdir()
    for i in range(3):
        (tmp_path / "d" / str(i)).write_bytes(b"12")
    shoal.good("index", "d", "-q", "-o", "c", cwd=tmp_path)
    shoal.good("filter", "c", "--limit", 1, "-q", "-o", "other", cwd=tmp_path)
    there, here = os.pipe()
    os.close(there)
    done = shoal(*arguments, cwd=tmp_path, stdout=here)
    os.close(here)
    assert b"standard output" not in done.stderr and b"Broken" not in done.stderr
    assert done.returncode == -signal.SIGPIPE


def test_a_reader_that_goes_away_is_an_error_where_sigpipe_is_ignored(shoal):
    path = shoal.pattern("f{:07d}", 2_000_000)
    began = time.monotonic()
    with shoal.start("ls", path, stdin=subprocess.DEVNULL, restore_signals=False) as process:
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert process.returncode == 1
    assert lines(said) == [b"shoal ls: cannot write to standard output: Broken pipe"]
    assert time.monotonic() - began < 20


# -------------------------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_waits_for_its_list_leaves_nothing(shoal, tmp_path, number):
    process = start_index(shoal, tmp_path)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number
    assert lines(said) == [b"shoal index: interrupted: nothing was written"]
    assert contents(tmp_path) == []


def is_caught(pid, number):
    with open("/proc/%d/status" % pid) as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_name_leaves_nothing(shoal, tmp_path, number):
    process = shoal.start("index", "-", "-q", "-o", tmp_path / "c")
    wait_until(lambda: is_caught(process.pid, number))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert contents(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("memory", ["256M", "48M"])
def test_a_signal_while_names_are_read_leaves_nothing(shoal, tmp_path, long_list, number, memory):
    process = start_index(shoal, tmp_path, "--memory", memory)
    write_all(process.stdin, long_list.read_bytes())
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert contents(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("memory", ["256M", "48M"])
@pytest.mark.parametrize("delay", [0, 0.05])
def test_a_signal_while_names_are_sorted_leaves_nothing_or_all(shoal, tmp_path, long_list, number, memory, delay):
    process = start_index(shoal, tmp_path, "--memory", memory)
    write_all(process.stdin, long_list.read_bytes())
    process.stdin.close()
    time.sleep(delay)
    process.send_signal(number)
    said = process.stderr.read()
    process.stdout.close()
    assert process.wait(60) in (-number, 0)
    if process.returncode == 0:  # a fast machine was done before the signal came
        assert shoal.info(tmp_path / "c")["files"] == 600_001
        assert contents(tmp_path) == ["c"]
    else:
        assert lines(said) == [b"shoal index: interrupted: nothing was written"]
        assert contents(tmp_path) == []


@pytest.mark.parametrize("pattern", ["f{:012d}", "f{}"])
def test_a_signal_while_a_pattern_is_written_leaves_nothing(shoal, tmp_path, pattern):
    process = shoal.start("index", "--pattern", pattern, "--count", 10**11, "-q", "-o", tmp_path / "c",
                          "--tmp-dir", shoal.scratch)
    wait_until(lambda: contents(tmp_path) != [])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert contents(tmp_path) == []


def test_a_signal_leaves_the_old_catalog(shoal, tmp_path):
    path = shoal.index([b"old"], to=tmp_path / "c")
    process = shoal.start("index", "-", "-q", "-o", path)
    process.stdin.write(b"new\n")
    wait_until(lambda: len(contents(tmp_path)) > 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert contents(tmp_path) == ["c"]
    assert shoal.names(path) == [b"old"]


def test_hangup_is_ignored_under_nohup(shoal, tmp_path):
    process = shoal.start("index", "-", "-q", "-o", tmp_path / "c",
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdin.write(b"first\n")
    wait_until(lambda: contents(tmp_path) != [])
    process.send_signal(signal.SIGHUP)
    process.communicate(b"second\n", timeout=60)
    assert process.returncode == 0
    assert shoal.names(tmp_path / "c") == [b"first", b"second"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_lists_are_written_leaves_only_whole_ones(shoal, tmp_path, number):
    path = shoal.pattern("f{:09d}", 2_000_000)
    process = shoal.start("manifest", path, "--ranks", 8, "-q", "-o", tmp_path / "m")
    wait_until(lambda: (tmp_path / "m").exists() and contents(tmp_path / "m") != [])
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number
    assert len(lines(said)) == 1 and b"interrupted" in said
    for name in contents(tmp_path / "m"):
        assert name.startswith("train_")
        assert (tmp_path / "m" / name).stat().st_size == 250_000 * len("s3://bucket/f000000000\n")


@pytest.mark.parametrize("options", [["--ranks", 10**7], ["--epochs", 10**6]])
def test_a_signal_ends_a_manifest_of_very_many_lists(shoal, tmp_path, options):
    """Also where lists are empty, and while it looks for lists that an earlier run left."""
    process = shoal.start("manifest", shoal.index([b"a", b"b"]), "-q", "-o", tmp_path / "m", *options)
    try:
        wait_until(lambda: (tmp_path / "m").exists())
        wait_until_it_has_worked(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGINT
    assert not [name for name in contents(tmp_path / "m") if name.endswith(".partial")]


def test_a_signal_while_a_list_has_stalled_ends_the_command(shoal, tmp_path):
    """Also when it comes just before the command waits again: many tries, at different moments."""
    for delay in range(12):
        process = shoal.start("index", "-", "-q", "-o", tmp_path / "c")
        process.stdin.write(hex_list(6000))
        time.sleep(delay * 0.002)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=10)
        finally:
            process.kill()
        process.stdin.close()
        assert process.returncode == -signal.SIGINT
        assert contents(tmp_path) == []


# -------------------------------------------------------------------------------------------------------- other writers


def test_a_second_writer_is_told_and_the_first_is_not_harmed(shoal, fails, tmp_path):
    first = start_index(shoal, tmp_path)
    before = contents(tmp_path)
    for _ in range(3):
        result = shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=b"x\n")
        fails(result, 1, "another process is writing '%s' now" % (tmp_path / "c"))
        assert contents(tmp_path) == before
    first.communicate(b"second\n", timeout=60)
    assert first.returncode == 0
    assert shoal.names(tmp_path / "c") == [b"first", b"second"]
    assert contents(tmp_path) == ["c"]
    shoal.index([b"later"], to=tmp_path / "c")
    assert shoal.names(tmp_path / "c") == [b"later"]


def test_a_second_writer_through_a_link_is_told_too(shoal, fails, tmp_path):
    shoal.index([b"old"], to=tmp_path / "c")
    (tmp_path / "link").symlink_to("c")
    process = shoal.start("index", "-", "-q", "-o", tmp_path / "link")
    process.stdin.write(b"new\n")
    wait_until(lambda: is_being_written(tmp_path / "c"))
    fails(shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=b"x\n"), 1, "another process is writing")
    process.communicate(timeout=60)
    assert shoal.names(tmp_path / "c") == [b"new"]


def test_a_pattern_is_a_second_writer_like_any_other(shoal, fails, tmp_path):
    first = start_index(shoal, tmp_path)
    result = shoal("index", "--pattern", "{:03d}", "--count", 5, "-q", "-o", tmp_path / "c")
    fails(result, 1, "another process is writing")
    first.communicate(timeout=60)
    assert shoal.names(tmp_path / "c") == [b"first"]


def test_writers_of_different_files_do_not_mind_each_other(shoal, tmp_path):
    first = start_index(shoal, tmp_path)
    shoal.index([b"other"], to=tmp_path / "d")
    first.communicate(timeout=60)
    assert contents(tmp_path) == ["c", "d"]


def test_many_writers_of_one_file_leave_one_whole_catalog(shoal, tmp_path):
    processes = [shoal.start("index", "--pattern", "w%d-{:06d}" % i, "--count", 1000 + i, "-q", "-o", tmp_path / "c")
                 for i in range(12)]
    said = [process.communicate(timeout=60)[1] for process in processes]
    winners = [i for i, process in enumerate(processes) if process.returncode == 0]
    assert winners
    for i, process in enumerate(processes):
        if i not in winners:
            assert process.returncode == 1
            assert len(lines(said[i])) == 1 and b"another process is writing" in said[i]
    assert contents(tmp_path) == ["c"]
    assert shoal.good("verify", "-q", tmp_path / "c") == b""
    assert shoal.info(tmp_path / "c")["files"] - 1000 in winners


def test_what_a_killed_writer_left_is_taken_over(shoal, tmp_path):
    process = start_index(shoal, tmp_path)
    left = contents(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert contents(tmp_path) == left and "c" not in left
    (tmp_path / left[0]).write_bytes(b"x" * 100_000)  # it had come further
    shoal.index([b"next"], to=tmp_path / "c")
    assert shoal.names(tmp_path / "c") == [b"next"]
    assert shoal.good("verify", "-q", tmp_path / "c") == b""
    assert contents(tmp_path) == ["c"]


def test_the_name_of_the_partial_file_is_no_trap(shoal, tmp_path):
    """Where the partial file's name is a link, what the link points to must not be written to."""
    process = start_index(shoal, tmp_path)
    (partial,) = contents(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    (tmp_path / partial).unlink()
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / partial).symlink_to("precious")
    result = shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=b"a\n")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert result.returncode in (0, 1)
    assert len(lines(result.stderr)) <= 1


def test_a_partial_file_with_several_names_is_not_taken(shoal, fails, tmp_path):
    (tmp_path / "precious").write_bytes(b"mine")
    os.link(tmp_path / "precious", tmp_path / ".c.00000000.partial")
    fails(shoal("index", "-", "-q", "-o", tmp_path / "c", stdin=b"a\n"), 1, "has several names")
    assert (tmp_path / "precious").read_bytes() == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
@pytest.mark.parametrize("mode, owner, follows", [
    (0o1777, 65534, False), (0o1777, 0, True), (0o755, 65534, True), (0o1775, 65534, True), (0o777, 65534, True)])
def test_another_users_link_is_not_followed_where_anyone_may_write(shoal, fails, tmp_path, mode, owner, follows):
    """As fs.protected_symlinks has it, which does not protect who reads the link himself."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "precious").write_bytes(b"mine")
    (shared / "c").symlink_to(tmp_path / "precious")
    os.chown(shared / "c", owner, owner, follow_symlinks=False)
    shared.chmod(mode)
    result = shoal("index", "-", "-q", "--force", "-o", shared / "c", stdin=b"a\n")
    if follows:
        assert result.returncode == 0, result.stderr
        assert shoal.names(tmp_path / "precious") == [b"a"]
    else:
        fails(result, 1, "another user's symbolic link")
        assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_list_may_come_slowly(shoal, tmp_path):
    process = shoal.start("index", "-", "-q", "-o", tmp_path / "c")
    for piece in (b"a", b"b", b"\n", b"c", b"\nd\n\n", b"e"):
        process.stdin.write(piece)
        time.sleep(0.005)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert shoal.names(tmp_path / "c") == [b"ab", b"c", b"d", b"e"]


def test_standard_input_that_is_closed_is_told(shoal, tmp_path):
    result = subprocess.run(["sh", "-c", 'exec "$0" index - -q -o "$1" <&-', shoal.arguments([])[0],
                             os.fspath(tmp_path / "c")], capture_output=True)
    assert result.returncode == 1
    assert len(lines(result.stderr)) == 1 and b"cannot read the list" in result.stderr
    assert contents(tmp_path) == []
