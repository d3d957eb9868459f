"""Results on a terminal fit its window: a line that is too long goes on below its text, the table of a run leaves out
columns, and no line is cut by the terminal in the middle of a word."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from conftest import Shoal

WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 40, record_length_bytes: 1000}
reader: {batch_size: 4}
train: {epochs: 2, computation_time: 0.001}
metric: {au: 0.05}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workload, its files with their catalog, and the names that are listed."""
    here = tmp_path_factory.mktemp("place")
    (here / "small.yaml").write_text(WORKLOAD)
    subprocess.run(Shoal.arguments(["datagen", "small.yaml", "--data", "d", "-q"]), cwd=here, check=True,
                   stdout=subprocess.DEVNULL)
    return here


def screen(columns, arguments, cwd, **env):
    """What standard output is on a terminal of that width, and the exit status."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(Shoal.arguments(arguments), cwd=cwd, stdin=subprocess.DEVNULL, stdout=there,
                               stderr=subprocess.PIPE, env={**os.environ, "TERM": "xterm", **env})
    os.close(there)
    seen = b""
    while True:
        try:
            part = os.read(here, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(here)
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0, said
    return seen.decode()


def plain(text):
    return re.sub("\x1b\\[[0-9]*m", "", text).split("\r\n")


COMMANDS = [
    ["run", "small.yaml", "--data", "d", "--results", "r", "--force"],
    ["read", "d/catalog.shoal", "--epochs", "2", "--repeat", "2", "--drop-cache"],
    ["datagen", "small.yaml", "--data", "d", "--resume"],
    ["datagen", "small.yaml", "--data", "d", "--verify"],
    ["datasize", "retinanet_b200", "--accelerators", "24", "--hosts", "3", "--memory-per-host", "256G"],
    ["workloads"],
    ["stat", "d/catalog.shoal"],
    ["info", "d/catalog.shoal"],
]


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("arguments", COMMANDS, ids=[" ".join(c[:1] + c[-1:]) for c in COMMANDS])
def test_a_result_fits_the_window(place, arguments, columns):
    seen = plain(screen(columns, arguments, place))
    # A path has no place to break it.
    long = [line for line in seen if len(line) >= columns and "/" not in line]
    assert long == [] and len(seen) > 1


@pytest.mark.parametrize("columns, heads", [
    (60, "epoch AU % samples/s MB/s p99 ms cached audit"),
    (80, "epoch steps seconds AU % samples/s MB/s wait % p99 ms cached audit"),
    (120, "epoch steps seconds AU % samples/s MB/s wait % p50 ms p99 ms cached depth CPU us audit"),
])
def test_the_table_of_a_run_leaves_out_columns_in_a_narrow_window(place, columns, heads):
    seen = plain(screen(columns, COMMANDS[0], place))
    at = next(i for i, line in enumerate(seen) if line.startswith("epoch "))
    assert " ".join(seen[at].split()) == heads
    for epoch, line in ((1, seen[at + 1]), (2, seen[at + 2])):
        assert line.startswith(str(epoch)) and line.endswith("once") and line.index("once") == seen[at].index("audit")
    assert any(line.startswith("AU   ") for line in seen) and any(line.startswith("memory   ") for line in seen)


def test_a_long_line_goes_on_below_its_text_and_keeps_units_beside_their_numbers(place):
    seen = plain(screen(60, ["datasize", "unet3d_h100", "--accelerators", "8", "--memory-per-host", "64G"], place))
    more = [line for line in seen if line.startswith(" ")]
    assert more and all(line.startswith(" " * 13) and line[13] not in " %" for line in more)
    assert not any(re.match(" *[KMGT]B", line) for line in more)
    seen = plain(screen(60, COMMANDS[2], place))
    assert re.match(r"0 files, 0 bytes written in [0-9.]+ s by 1 rank", seen[0]), seen


def test_a_dumb_terminal_and_no_color_get_no_colours(place):
    assert "\x1b[1m" in screen(80, COMMANDS[0], place)
    for env in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        assert "\x1b" not in screen(80, COMMANDS[0], place, **env)


def test_a_pipe_gets_whole_lines_and_all_columns(place):
    said = subprocess.run(Shoal.arguments(COMMANDS[0]), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True).stdout.decode()
    assert re.search("^epoch +steps .* depth +CPU us  audit$", said, re.M)
    assert not [line for line in said.splitlines() if line.startswith(" ")]
