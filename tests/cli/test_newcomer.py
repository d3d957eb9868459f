"""What people do who have never read the manual: empty variables, closed streams, names that a terminal would interpret,
Ctrl-C at any time, and folders that do not exist yet."""

import fcntl
import json
import pathlib
import re
import signal
import subprocess
import time

import pytest

from conftest import Shoal, contents, lines, on_terminal

NAMES = [b"a b", b"line\nend", b"red\x1b[31m", b"tab\there", b"\xc3\xa4", b"\xff"]


# ---------------------------------------------------------------------------------------------------- empty arguments


@pytest.mark.parametrize("arguments, words", [
    (["info", ""], b"the first argument is empty"),
    (["index", "", "-o", "x"], b"the first argument is empty"),
    (["index", "d", "-o", ""], b"--output is empty"),
    (["split", "c.cat", "--part", "a=0.5", "-o", ""], b"--output is empty"),
    (["manifest", "c.cat", "--output="], b"--output is empty"),
    (["read", "c.cat", "--local-copy", ""], b"--local-copy is empty"),
])
def test_a_variable_that_is_not_set_is_not_a_path(shoal, fails, tmp_path, arguments, words):
    """An empty directory, for example, would be the root of the file system."""
    fails(shoal(*arguments, cwd=tmp_path), 2, words, empty=tmp_path)


@pytest.mark.parametrize("option, value, words", [
    ("--regex", "((", b"the regular expression '((' is malformed"),
    ("--include", "[", b"has a '[' without a ']'"),
    ("--exclude", "a[", b"has a '[' without a ']'"),
])
@pytest.mark.parametrize("command", [["ls"], ["list"], ["stat"], ["filter", "-o", "x"]], ids=lambda c: c[0])
def test_a_malformed_pattern_is_a_wrong_command_line_everywhere(shoal, fails, tmp_path, command, option, value, words):
    fails(shoal(*command, "nothing", option, value, cwd=tmp_path), 2, words, empty=tmp_path)


# ---------------------------------------------------------------------------------------------------- closed streams


def closed(arguments, cwd, which):
    """Start the command with these standard streams closed. The shell opens nothing in their place."""
    redirect = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in which)
    return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirect}', *Shoal.arguments(arguments)], cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


@pytest.mark.parametrize("which", [(0, 1, 2), (1, 2), (0, 2)], ids=str)
def test_messages_are_not_written_into_files_where_standard_streams_are_closed(shoal, tmp_path, which):
    """The first file that is opened would be standard output or standard error."""
    workload = tmp_path / "w.yaml"
    workload.write_text("model: {name: x}\ndataset: {format: npz, num_files_train: 8, record_length_bytes: 1000}\n"
                        "reader: {batch_size: 2}\ntrain: {epochs: 1, computation_time: 0.001}\nmetric: {au: 0}\n")
    run = ["run", workload, "--data", "null", "--results", "r", "-v", "--progress", "plain"]
    closed(run, tmp_path, which)
    assert {"config.yaml", "summary.json", "0_output.json"} <= set(contents(tmp_path / "r"))
    json.loads((tmp_path / "r" / "summary.json").read_text())
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").touch()
    closed(["index", "d", "-o", "c.cat", "-v"], tmp_path, which)
    assert shoal("verify", tmp_path / "c.cat").returncode == 0


def test_a_result_that_cannot_be_printed_is_an_error_with_the_right_reason(shoal, tmp_path):
    catalog = shoal.index([b"a"])
    done = closed(["info", catalog], tmp_path, (1,))
    assert done.returncode == 1 and done.stderr == b"shoal info: cannot write to standard output: Bad file descriptor\n"
    done = closed(["index", "-", "-o", "x"], tmp_path, (0,))
    assert done.returncode == 1 and b"cannot read the list: Bad file descriptor" in done.stderr
    assert contents(tmp_path) == []


# ---------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("command", [["ls"], ["find"], ["order", "--names", "--mode", "sequential"]], ids=lambda c: c[0])
def test_a_terminal_gets_no_control_characters_of_names(shoal, command):
    options = ["--include", "*"] if command == ["find"] else []
    catalog = shoal.index(NAMES)
    seen = lines(on_terminal(Shoal.arguments([command[0], catalog, *command[1:], *options]), 0, ["stdout"]).replace(b"\r\n", b"\n"))
    assert [line.split(b"\t")[-1] for line in seen] == [
        b"a b", b"line\\x0aend", b"red\\x1b[31m", b"tab\\x09here", b"\xc3\xa4", b"\xff"]
    if command != ["find"]:  # a program gets them as they are
        assert shoal.good(command[0], catalog, *command[1:], "-0").split(b"\0")[:-1] == sorted(NAMES)


def test_a_manifest_beside_the_data_is_not_listed(shoal, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"1")
    (tmp_path / "d" / ".hidden-manifest").write_bytes(b"1")
    shoal.good("index", tmp_path / "d", "-q", "-o", tmp_path / "c.cat")
    shoal.good("manifest", tmp_path / "c.cat", "-q", "-o", tmp_path / "d")
    assert ".train.shoal-manifest" in contents(tmp_path / "d")
    listed = lines(shoal.good("list", tmp_path / "d"))
    assert listed == [b".hidden-manifest", b"a"]
    shoal.good("index", tmp_path / "d", "-q", "-o", tmp_path / "again.cat")
    assert shoal.names(tmp_path / "again.cat") == listed


# ---------------------------------------------------------------------------------------------------- interruptions


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A catalog whose names take long to look at."""
    path = tmp_path_factory.mktemp("large") / "large.cat"
    subprocess.run(Shoal.arguments(["index", "--pattern", "f{:08d}", "--count", "5000000", "--root", "/r", "-q", "-o", path]),
                   check=True)
    return path


def interrupt(arguments, cwd):
    """Start it, send a signal as soon as it is caught, and return the exit status and standard error."""
    process = subprocess.Popen(Shoal.arguments(arguments), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not is_caught(process.pid, signal.SIGTERM):
        time.sleep(0.001)
    if arguments[0] == "list":
        wait_for_full(process.stdout)
    process.send_signal(signal.SIGTERM)
    err = process.stderr.read()
    process.wait(timeout=60)
    process.stdout.close()
    process.stderr.close()
    return process.returncode, err


def is_caught(pid, number):
    caught, = [line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return int(caught.split()[1], 16) & 1 << number - 1


@pytest.mark.parametrize("arguments", [
    ["diff", "large.cat", "large.cat"],
    ["filter", "large.cat", "--regex", "7", "-o", "x.cat", "--force"],
    ["split", "large.cat", "--part", "a=0.5", "-o", "parts"],
    ["merge", "large.cat", "other.cat", "--repeated", "last", "-o", "x.cat"],
    ["list", "tree"],
], ids=lambda a: a[0])
def test_an_interrupted_command_dies_of_the_signal_and_leaves_nothing(large, tmp_path, arguments):
    """A status of 1 would say, of diff, that the catalogs differ."""
    (tmp_path / "large.cat").symlink_to(large)
    (tmp_path / "other.cat").symlink_to(large)
    (tmp_path / "tree").mkdir()
    for i in range(3000):  # more than a pipe holds
        (tmp_path / "tree" / f"{'x' * 100}{i}").touch()
    before = contents(tmp_path)
    for _ in range(10):
        status, err = interrupt(arguments, tmp_path)
        if status != 0:  # it had not come to its end yet
            break
    assert status == -signal.SIGTERM, err
    assert b"standard output" not in err and set(contents(tmp_path)) - {"x.cat", "parts"} == set(before)


def wait_for_full(pipe):
    """The writer has filled what the pipe holds."""
    end = time.monotonic() + 60
    size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    held = bytearray(4)
    while int.from_bytes(held, "little") < size - 4096:
        fcntl.ioctl(pipe, 0x541B, held)  # FIONREAD
        assert time.monotonic() < end
        time.sleep(0.001)


def test_split_makes_its_directory_and_a_dry_run_does_not(shoal, fails, tmp_path):
    catalog = shoal.pattern("f{:05d}", 100)
    split = ["split", catalog, "--part", "train=0.9", "--part", "valid=0.1", "-o", tmp_path / "parts"]
    assert b"would have" in shoal.good(*split, "--dry-run") and contents(tmp_path) == []
    shoal.good(*split)
    assert contents(tmp_path / "parts") == ["train.cat", "valid.cat"]
    fails(shoal(*split[:-1], tmp_path / "no" / "parts"), 1, b"cannot create the directory")
    (tmp_path / "file").write_bytes(b"1")
    fails(shoal(*split[:-1], tmp_path / "file"), 1, b"file")


def test_a_file_that_cannot_be_written_is_named_as_the_user_has_named_it(shoal, fails, tmp_path):
    catalog = shoal.index([b"a"], sizes=[1])
    fails(shoal("column", "sizes", catalog, "-o", tmp_path / "no" / "c.col"), 1, tmp_path.joinpath("no", "c.col").as_posix())
    said = shoal("column", "sizes", catalog, "-o", "/proc/c.col").stderr
    assert b"'/proc/c.col'" in said and b".partial" not in said


# ---- Answers to slips ----


@pytest.fixture
def place(shoal, tmp_path):
    """A directory d with a file, a catalog c of it, and a text."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.jpg").write_bytes(b"x")
    (tmp_path / "README.md").write_text("# A heading\n\nSome words.\n* a point\n")
    shoal.good("index", "d", "-q", "-o", "c", cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments, words", [
    (["read", "d"], "make a catalog of it with 'shoal index'"),
    (["verify", "d"], "make a catalog of it with 'shoal index'"),
    (["ls", "d"], "make a catalog of it with 'shoal index'"),
    (["read", "s3:/b/c"], "did you mean 's3://b/c'?"),
    (["info", "README.md"], "shoal info: 'README.md': not a catalog"),
    (["find", "c", "*.jpg"], "there is no name '*.jpg'; a pattern is given with --include"),
    (["find", "c", "b.jpg"], "there is no name 'b.jpg'\n"),
])
def test_a_slip_is_answered_with_what_was_meant(shoal, place, arguments, words):
    done = shoal(*arguments, cwd=place)
    assert done.returncode == 1 and words in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_catalog_whose_data_has_moved_is_compared_elsewhere_with_data(shoal, place):
    (place / "d").rename(place / "moved")
    done = shoal("verify", "--storage", "c", cwd=place)
    assert done.returncode == 1 and b"there is no directory" in done.stderr and b"--data" in done.stderr
    assert b"good" in shoal.good("verify", "--storage", "--data", "moved", "c", cwd=place)


def test_a_text_that_is_no_list_is_noticed_by_names_that_are_not_there(shoal, place):
    done = shoal("index", "README.md", "-o", "x", cwd=place)
    assert done.returncode == 0 and b"warning: '%s' has none of the names" % bytes(place) in done.stderr
    piped = shoal("index", "-", "-o", "p", stdin=b"a.jpg\n", cwd=place)  # names relative to d, and no --root
    assert b"warning: '%s' has none of the names" % bytes(place) in piped.stderr and b"is standard input a list" in piped.stderr
    assert b"warning" not in shoal("index", "-", "-o", "p", "--root", "d", stdin=b"a.jpg\n", cwd=place).stderr
    (place / "list").write_text("nowhere\nd/a.jpg\n")
    for options in ([], ["--root", "/nowhere"], ["--root", "s3://bucket"]):  # another machine's, perhaps
        assert b"warning" not in shoal("index", "list", "-o", "x", *options, cwd=place).stderr
    assert shoal("index", "README.md", "-q", "-o", "x", cwd=place).stderr == b""


def test_a_listing_reports_the_catalog_that_it_made(shoal, place):
    facts = json.loads(shoal.good("index", "d", "-q", "--json", "-o", "x", cwd=place))
    info = shoal.info(place / "x")
    assert (facts["catalog"], facts["written"], facts["bytes"]) == ("x", True, 1)
    assert (facts["digest"], facts["catalog_bytes"]) == (info["digest"], (place / "x").stat().st_size)
    done = shoal("index", "d", "-q", "--json", "-o", "y", "--dry-run", cwd=place)
    facts = json.loads(done.stdout)
    assert (facts["catalog"], facts["written"], facts["digest"]) == ("y", False, info["digest"])


def test_numbers_of_workloads_are_printed_as_they_were_written(shoal):
    text = shoal.good("workloads", "--json").decode()
    assert not re.search(r"\d\.\d{14}", text), re.search(r".*\d\.\d{14}.*", text)[0]
