"""What the command tests share: a way to run the command, to make catalogs, and to check how it fails.

The command is the one that the environment variable SHOAL names, or build/shoal. Everything goes through bytes, because
names are bytes.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reader"))

TIMEOUT = 120  # seconds; only a command that hangs takes as long


def binary():
    # Made absolute here, as tests run the command in other directories.
    return os.path.abspath(os.environ.get("SHOAL", ROOT / "build" / "shoal"))


def lines(output, end=b"\n"):
    """The lines of some output, each of which must have its end."""
    assert output == b"" or output.endswith(end)
    return output.split(end)[:-1]


def views(shown):
    """What a terminal showed, each time that it was drawn again in place, as text; first what came before."""
    return [part.decode() for part in re.split(rb"\r(?:\033\[\d+A)?\033\[J", shown)]


def terminal(columns):
    """A terminal of that width: our end, and the one for a command."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return here, there


def on_terminal(arguments, columns=80, ends=("stderr",), **more):
    """What a command that ends well writes to a terminal of that width, as its standard error or others of its streams."""
    here, there = terminal(columns)
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **more, **dict.fromkeys(ends, there)}
    seen = b""
    with subprocess.Popen(arguments, **streams) as process:
        os.close(there)
        try:
            while part := os.read(here, 65536):
                seen += part
        except OSError:  # the other end is closed
            os.close(here)
        said = process.stderr.read() if process.stderr else seen
    assert process.returncode == 0, said
    return seen


def is_being_written(path):
    """Whether a writer has taken the lock of a catalog's partial file: when it has only made it another may come first."""
    try:
        inode = os.stat(path.with_name(f".{path.name}.00000000.partial")).st_ino
    except FileNotFoundError:
        return False
    locks = pathlib.Path("/proc/locks").read_text().splitlines()
    return any(words[1] == "FLOCK" and words[5].endswith(f":{inode}") for words in map(str.split, locks))


def wait_until_it_hears(process, number):
    """Until a command that was started has said what a signal does, which otherwise ends it without a word."""
    end = time.monotonic() + 60
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        if int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1:
            return
        assert time.monotonic() < end, "it never does"
        time.sleep(0.001)


def settle(place, seconds=0.12):
    """Until all directories and files below a place were changed longer ago than an update needs to trust them."""
    changed = 0.0
    for _, _, names, fd in os.fwalk(place):  # whose paths may be longer than the system takes
        changed = max([changed, os.fstat(fd).st_ctime, *(os.lstat(name, dir_fd=fd).st_ctime for name in names)])
    while time.time() < changed + seconds:
        time.sleep(0.002)


def wait_until_it_has_worked(process, ticks=10):
    """Until it has used so many hundredths of a second of a core, however busy the machine is."""
    end = time.monotonic() + 60
    while process.poll() is None:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        if int(fields[11]) + int(fields[12]) >= ticks:
            return
        assert time.monotonic() < end, "it never does"
        time.sleep(0.001)


def wait_until_it_has_read(process, nr_bytes):
    end = time.monotonic() + 60
    while process.poll() is None:
        if int(re.search(r"rchar: (\d+)", pathlib.Path(f"/proc/{process.pid}/io").read_text())[1]) > nr_bytes:
            return
        assert time.monotonic() < end, "it never does"
        time.sleep(0.001)


def wait_until_it_sleeps(process):
    """Until all threads of a command wait: in several looks in a row, because some waits are short."""
    end, asleep = time.monotonic() + 60, 0
    while process.poll() is None and asleep < 5:
        try:
            tasks = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
            continue
        asleep = asleep + 1 if all("State:\tS" in task for task in tasks) else 0
        assert time.monotonic() < end, "it never does"
        time.sleep(0.002)


def stop(process):
    """Have all threads of a process stand still, until it is sent a SIGCONT. False when it has ended instead."""
    process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + 60
    while process.poll() is None:
        try:
            tasks = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
            continue
        if all("State:\tT" in task for task in tasks):
            return True
        assert time.monotonic() < end, "it does not stop"
        time.sleep(0.001)
    return False


class Shoal:
    """Runs the command. Arguments may be str, bytes, paths or numbers."""

    def __init__(self, scratch):
        self.scratch = scratch

    @staticmethod
    def arguments(args):
        return [binary()] + [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in args]

    def __call__(self, *args, stdin=b"", **options):
        """returncode, stdout and stderr of the command, whatever they are."""
        if "stdout" not in options:
            options["stdout"] = subprocess.PIPE
        return subprocess.run(self.arguments(args), input=stdin, stderr=subprocess.PIPE, timeout=TIMEOUT, **options)

    def start(self, *args, **options):
        """The running command, with a pipe without a buffer at each end."""
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen(self.arguments(args), bufsize=0, **options)

    def good(self, *args, **options):
        """What the command prints, after checking that it succeeds and complains of nothing."""
        result = self(*args, **options)
        assert (result.returncode, result.stderr) == (0, b"")
        return result.stdout

    def index(self, names, *options, sizes=None, samples=None, root="s3://bucket", to=None):
        """The path of a new catalog of these names, in the order in which they come."""
        path = self.scratch / "catalog.shoal" if to is None else to
        entries = [name + b"".join(b"\t%d" % column[i] for column in (sizes, samples) if column)
                   for i, name in enumerate(names)]
        plain = [] if sizes else ["--names-only"]
        self.good("index", "-", "-0", "-q", "--force", "--root", root, "-o", path, *plain, *options,
                  stdin=b"".join(entry + b"\0" for entry in entries))
        return path

    def pattern(self, pattern, count, *options, to=None):
        """The path of a new catalog of a pattern's names."""
        path = self.scratch / "pattern.shoal" if to is None else to
        self.good("index", "--pattern", pattern, "--count", count, "-q", "--force", "--root", "s3://bucket", "-o", path, *options)
        return path

    def names(self, path, *options):
        return lines(self.good("ls", path, "-0", *options), b"\0")

    def ids(self, command, path, *options):
        """The numbers that a command prints, one a line."""
        return [int(line) for line in lines(self.good(command, path, *options))]

    def info(self, path):
        return json.loads(self.good("info", path, "--json"))


@pytest.fixture
def shoal(tmp_path_factory):
    """The command. Catalogs go to a directory of their own, so that a test can see that its tmp_path stays empty."""
    return Shoal(tmp_path_factory.mktemp("catalogs"))


@pytest.fixture(scope="session")
def memory_dir():
    """A directory in memory, for trees of many files: a disk takes long to make and remove them."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-cli-", dir=base))
    yield path
    shutil.rmtree(path)


def check_words(result, status, *words):
    """It failed with this status, and said why in one sentence that holds all words."""
    assert result.returncode == status, result.stderr
    said = lines(result.stderr)
    for word in words:
        assert (word if isinstance(word, bytes) else word.encode()) in said[0]
    assert said[0].startswith(b"shoal") if status else b": warning: " in said[0]
    if status == 2:
        assert said[1:] and said[1].startswith(b"Try 'shoal "), "a usage error says how to get help"
        assert len(said) == 2
    else:
        assert len(said) == 1, "one sentence"


def contents(directory):
    """Everything in a directory, hidden files too; nothing if it was never made."""
    return sorted(os.listdir(directory)) if os.path.exists(directory) else []


@pytest.fixture
def fails():
    """fails(result, status, *words, empty=DIR): check_words(), nothing printed, and nothing left behind in DIR."""

    def check(result, status, *words, empty=None):
        check_words(result, status, *words)
        assert not result.stdout
        if empty is not None:
            assert contents(empty) == []

    return check
