"""Results on a terminal fit its window: a line that is too long goes on below its text, the table of a run leaves out
columns, and no line is cut by the terminal in the middle of a word."""

import fcntl
import functools
import os
import re
import signal
import subprocess
import termios

import pytest

from conftest import Shoal, on_terminal, terminal

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
    return on_terminal(Shoal.arguments(arguments), columns, ["stdout"], cwd=cwd, stderr=subprocess.PIPE,
                       env={**os.environ, "TERM": "xterm", **env}).decode()


def final_screen(seen, columns):
    """The lines that a terminal without end shows once all of that was printed: what erases is carried out."""
    lines, row, column = [[]], 0, 0
    for escape, char in re.findall("\x1b\\[([0-9;]*[A-Za-z])|(.)", seen, re.S):
        if escape.endswith("A"):
            row -= int(escape[:-1] or 1)
        elif escape == "J":
            del lines[row + 1:], lines[row][column:]
        elif escape == "K":
            del lines[row][column:]
        elif char == "\r":
            column = 0
        elif char == "\n" or (char and column == columns):
            row, column = row + 1, 0 if char != "\n" else column
            lines += [[]] * (row == len(lines))
        if char and char not in "\r\n":
            lines[row] += " " * (column - len(lines[row]))
            lines[row][column:column + 1] = char
            column += 1
    return ["".join(line) for line in lines]


def interrupted(columns, arguments, cwd, until):
    """The final screen of a command that has both outputs on one terminal, and gets Ctrl-C once it has shown @until."""
    here, there = terminal(columns)
    process = subprocess.Popen(Shoal.arguments(arguments), cwd=cwd, stdin=there, stdout=there, stderr=there,
                               preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
                               env={**os.environ, "TERM": "xterm", "LC_ALL": "C"})
    os.close(there)
    seen, sent = b"", False
    try:
        while part := os.read(here, 4096):
            seen += part
            if not sent and re.search(until, seen):
                os.write(here, b"\x03")
                sent = True
    except OSError:  # the other end is closed
        os.close(here)
    assert process.wait() == -signal.SIGINT, seen
    return final_screen(seen.decode(), columns)


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
    assert re.match(r"0 files, 0 bytes written in [0-9.]+ [mu]?s by 1 rank", seen[0]), seen


def test_a_digest_is_not_torn_at_the_edge_of_the_window(place):
    for options in ([], ["--storage"]):
        seen = plain(screen(60, ["verify", *options, "d/catalog.shoal"], place))
        assert len(seen) > 2 and any(re.search(r"\b[0-9a-f]{32}$", line) for line in seen), seen


def test_a_dumb_terminal_and_no_color_get_no_colours(place):
    assert "\x1b[1m" in screen(80, COMMANDS[0], place)
    for env in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        assert "\x1b" not in screen(80, COMMANDS[0], place, **env)


def test_a_pipe_gets_whole_lines_and_all_columns(place):
    said = subprocess.run(Shoal.arguments(COMMANDS[0]), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True).stdout.decode()
    assert re.search("^epoch +steps .* depth +CPU us  audit$", said, re.M)
    assert not [line for line in said.splitlines() if line.startswith(" ")]


@pytest.mark.parametrize("columns", [60, 120])
def test_the_report_of_an_interrupted_run_is_neither_glued_to_its_progress_nor_erased_with_it(place, columns):
    shown = interrupted(columns, [*COMMANDS[0], "train.computation_time=0.2", "train.epochs=3"], place, b"ETA 0:00:0[^;]*ETA")
    assert not [line for line in shown if "ETA" in line], "\n".join(shown)
    text = "\n".join(shown)
    assert text.index("\nsmall.yaml: 1 accelerator") < text.index("AU   ") < text.index("memory  ") < text.index("* interrupted")
    assert re.search(r"shoal run: interrupted: '.*--resume", " ".join(shown)) and shown[-1] == ""
    assert all(len(line) < columns for line in shown)
    assert re.search(r"^AU        [0-9.]+ %", text, re.M) and not re.search("^ {1,9}[^ ]", text, re.M), text


@pytest.mark.parametrize("columns", [40, 80])
def test_errors_and_notes_are_folded_between_words(place, columns):
    """On a terminal; whoever reads a pipe gets one line."""
    here, there = terminal(columns)
    for arguments, status in ((["order", "d/catalog.shoal", "--mode", "shuffle"], 2), (["index", "d", "-o", "c", "--force"], 0)):
        process = subprocess.Popen(Shoal.arguments(arguments), cwd=place, stdout=subprocess.DEVNULL, stderr=there)
        assert process.wait() == status
        seen = os.read(here, 8192).decode()
        said = subprocess.run(Shoal.arguments(arguments), cwd=place, stderr=subprocess.PIPE, check=False).stderr.decode()
        shown = final_screen(seen, columns)
        assert all(len(line) < columns for line in shown)
        mask = functools.partial(re.sub, "[0-9.]+ [mu]?s", "T")
        assert mask(" ".join(shown).strip()) == mask(said.replace("\n", " ").strip())
        assert "\x1b" not in said and len(said.splitlines()) == (2 if status == 2 else 1)
    os.close(there)
    os.close(here)
