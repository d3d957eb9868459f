"""What a command shows of its progress: on a terminal, in a log and for a tool; what remains of a command that was
interrupted; and that a reader which leaves ends a command quietly."""

import json
import os
import re
import signal
import struct
import subprocess
import fcntl
import termios
import time

import pytest

from conftest import binary, lines, on_terminal, stop, terminal, views, wait_until_it_has_worked


@pytest.fixture
def catalog(shoal, tmp_path):
    """Of 4,000 names, to be read from the null store."""
    return shoal.pattern("f{:05d}", 4000, "--size", 1000)


SLOW = ["--data", "null:size=1000,delay_us=20000", "--in-flight", 20, "--batch", 20]  # four seconds


def shown_on_terminal(arguments, columns=80, **env):
    return on_terminal(arguments, columns, env={**os.environ, "TERM": "xterm", **env})


@pytest.mark.parametrize("columns", [12, 60, 80, 200])
def test_read_shows_how_far_it_is_on_a_terminal(shoal, catalog, columns):
    shown = views(shown_on_terminal(shoal.arguments(["read", catalog, *SLOW]), columns, LC_ALL="C.UTF-8"))
    assert len(shown) >= 4 and shown[0] == "" and shown[-1] == ""
    assert all(len(line) < columns for view in shown for line in view.split("\r\n"))
    assert shown[-2].startswith("ETA 0:00:0") and "\033" not in "".join(shown)
    if columns >= 60:
        assert "%  [" in shown[-2] and "#" in shown[-2] and " of 4,000 samples" in shown[-2] and "MB/s" in shown[-2]
        assert "\u2588" in shown[-2].split("\r\n")[-1] and "/s at most" in shown[-2]  # the sparkline
        assert len(shown[-2].split("\r\n")) <= 4


def views_until(arguments, columns, wanted, **options):
    """The views of a command that works for ever, until they are as wanted."""
    here, there = terminal(columns)
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=there, env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}, **options)
    os.close(there)
    seen, end = b"", time.monotonic() + 60
    try:
        while True:
            seen += os.read(here, 4096)
            shown = views(seen)
            if wanted(shown[:-1]):
                return shown[:-1]  # the last may not be whole
            assert time.monotonic() < end, shown[-3:]
    finally:
        process.kill()
        process.communicate()
        os.close(here)


SMALL_RUN = ["dataset.num_files_train=64", "dataset.record_length_bytes=1000", "dataset.record_length_bytes_stdev=0", "train.epochs=10000",
             "reader.batch_size=4"]
FOR_EVER = {
    "run": (["run", "retinanet_b200", "--data", "null:size=1000,delay_us=1000", *SMALL_RUN, "train.computation_time=0.01"],
            ["epoch ", "/10000, step ", "samples/s", "AU "]),
    "index": (["index", "-", "-o", "c.shoal"], [" names", "/s"]),
    "datagen": (["datagen", "retinanet_b200", "--data", "d", "dataset.num_files_train=1000000", *SMALL_RUN[1:3]], [" of 1,000,000 files", "MB/s"]),
}


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("command", FOR_EVER)
def test_run_index_and_datagen_have_a_view_that_fits_the_window(shoal, tmp_path, command, columns):
    words, there = FOR_EVER[command]
    words = [*words, "--results", "r"]
    options = {"cwd": tmp_path}
    if command == "index":  # names that never end
        options["stdin"] = subprocess.Popen(["yes", "a/name"], stdout=subprocess.PIPE).stdout
    shown = views_until(shoal.arguments(words), columns, lambda seen: len([one for one in seen if all(word in one for word in there)]) >= 3, **options)
    assert all(len(line) < columns for view in shown for line in view.split("\r\n") if "\n" not in line)
    of_view = lambda view: [line for line in view.split("\r\n") if not re.match(r"epoch \d+/\d+: AU", line)]  # of an epoch that is over
    assert all(len(of_view(view)) <= 4 for view in shown if there[0] in view)


def test_a_view_says_for_how_long_nothing_has_come(shoal, tmp_path):
    hanging = [*FOR_EVER["run"][0][:3], "null:size=1000,delay_us=100000000", *SMALL_RUN, "--results", "r"]
    shown = views_until(shoal.arguments(hanging), 80, lambda seen: any("nothing for 3 s" in view for view in seen), cwd=tmp_path)
    assert not any("nothing for 0" in view or "nothing for 1 " in view for view in shown)


def test_the_sparkline_of_a_run_has_its_rate_though_epochs_are_short(shoal, tmp_path):
    """Epochs of 16 steps, 0.2 s: what was done in them adds up to the rate of each second."""
    words = [*FOR_EVER["run"][0], "--results", "r"]
    shown = views_until(shoal.arguments(words), 80, lambda seen: any(re.search("\u2588.{2,} [\\d,]+/s at most", view) for view in seen), cwd=tmp_path)
    rates, tops = ([int(rate.replace(",", "")) for view in shown for rate in re.findall(pattern, view)]
                   for pattern in (r"([\d,]+) samples/s  ", r"([\d,]+)/s at most"))
    assert tops[-1] > 0.7 * sorted(rates)[len(rates) // 2], (rates, tops)


def test_without_utf8_the_sparkline_is_plain(shoal, catalog):
    shown = views(shown_on_terminal(shoal.arguments(["read", catalog, *SLOW]), 80, LC_ALL="C", NO_COLOR="1"))
    assert "@" in shown[-2] and "".join(shown).isascii()


def test_a_window_that_becomes_narrower_is_drawn_over(shoal, catalog):
    """Its lines are folded: the next view begins above all of their rows."""
    here, there = terminal(200)
    process = subprocess.Popen(shoal.arguments(["read", catalog, *SLOW]), stdout=subprocess.DEVNULL, stderr=there,
                               env={**os.environ, "TERM": "xterm"})
    seen = os.read(here, 4096)
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    os.close(there)
    try:
        while part := os.read(here, 4096):
            seen += part
    except OSError:  # the other end is closed
        os.close(here)
    assert process.wait() == 0
    drawn = re.findall(rb"([^\r\n\033]*)\r\033\[(\d+)A\033\[J([^\r\n\033]*)", seen)
    assert any(len(before) >= 40 > len(after) and int(up) >= len(before) // 40 for before, up, after in drawn)


@pytest.mark.parametrize("options, env", [(["-q"], {}), (["--progress=none"], {})])
def test_a_quiet_command_shows_nothing(shoal, catalog, options, env):
    assert shown_on_terminal(shoal.arguments(["read", catalog, *SLOW, *options]), **env) == b""


def test_a_dumb_terminal_gets_no_control_characters(shoal, catalog):
    assert b"\033" not in shown_on_terminal(shoal.arguments(["read", catalog, *SLOW]), TERM="dumb")


def test_a_tool_gets_a_document_a_line(shoal, catalog):
    result = shoal("read", catalog, *SLOW, "--progress", "json", "--json")
    shown = [json.loads(line) for line in lines(result.stderr)]
    assert result.returncode == 0 and len(shown) >= 2
    assert [d["done"] for d in shown] == sorted(d["done"] for d in shown)
    assert all(d["progress"] == "read" and d["total"] == 4000 and d["eta_seconds"] >= 0 and d["bytes"] > 0 for d in shown)
    assert json.loads(result.stdout)["interrupted"] is False


LONG = 4_000_000


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A catalog of names that take a while."""
    folder = tmp_path_factory.mktemp("long")
    run = [binary(), "index", "--pattern", "f{:08d}", "--count", str(LONG), "--size", "7", "--root", "/r", "-q", "-o"]
    subprocess.run([*run, folder / "c"], check=True)
    subprocess.run([binary(), "index", "--pattern", "g{:08d}", "--count", str(LONG), "--size", "7", "--root", "/r/s", "-q", "-o", folder / "d"],
                   check=True)
    return folder


# A document is due after a second. The command stands still for that long, so that it need not take so long.
@pytest.mark.parametrize("arguments, what, total", [
    (["verify", "c"], "names checked", LONG), (["stat", "c"], "names", LONG), (["diff", "c", "c"], "names", LONG), (["ls", "c", "--include", "*"], "names", None),
    (["ls", "c"], "names", None),
    (["filter", "c", "--exclude", "f*", "-o", "filtered", "--force"], "names", LONG),
    (["split", "c", "--part", "a=0.5", "-o", "."], "names", LONG), (["merge", "c", "d", "--root", "/r", "-o", "m"], "names", 2 * LONG)])
def test_what_takes_long_shows_how_far_it_is(shoal, long, arguments, what, total):
    process = shoal.start(*arguments, "--progress", "json", cwd=long, stdout=subprocess.DEVNULL)
    wait_until_it_has_worked(process)  # a quarter of what it needs
    assert stop(process), "it has ended already"
    time.sleep(1.1)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    shown = [json.loads(line) for line in lines(err) if line.startswith(b"{")]
    assert shown and all(d["what"] == what and d.get("total") == total for d in shown), err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_read_that_is_interrupted_reports_what_it_read(shoal, catalog, as_json):
    options = ["--progress", "json"] + (["--json"] if as_json else [])
    process = shoal.start("read", catalog, *SLOW, *options)
    assert b'"progress"' in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert json.loads(lines(err)[-1]) == {"message": "interrupted: these figures are of the part that was read", "command": "read"}
    if as_json:
        facts = json.loads(out)
        assert facts["interrupted"] and 0 < facts["samples"] < 4000 and facts["audit"]["exactly_once"]
    else:
        assert b"of 4,000 samples, each exactly once" in out


@pytest.mark.parametrize("words, status, error", [
    (["ls", "no\nsuch"], 1, "'no\nsuch': cannot open it: No such file or directory"),
    (["ls"], 2, "give one catalog; patterns for names are given with --include"), (["ls", "--nothing"], 2, "unknown option '--nothing'"),
    (["ls", "--nothing", "--progress=json"], 2, "unknown option '--nothing'"),
    (["ls", "-Z", "--progress", "json"], 2, "unknown option '-Z'")])
def test_a_tool_gets_errors_as_documents_too(shoal, words, status, error):
    """Wherever the option stands: also behind the error."""
    result = shoal(words[0], *([] if any("json" in word for word in words) else ["--progress", "json"]), *words[1:])
    assert result.returncode == status and result.stdout == b""
    assert [json.loads(line) for line in lines(result.stderr)] == [{"message": error, "command": "ls"}]


RUN = ["dataset.num_files_train=24", "dataset.record_length_bytes=3000", "dataset.record_length_bytes_stdev=0", "train.epochs=1",
       "train.computation_time=0.001", "metric.au=0"]


@pytest.mark.parametrize("arguments", [
    ["datagen", "retinanet_b200", "--data", "made", *RUN], ["index", "d", "-o", "x", "-v"], ["index", "d", "-o", "x", "--dry-run"],
    ["run", "retinanet_b200", "--data", "null:size=3000", "--results", "r", *RUN], ["diff", "c", "e"], ["merge", "c", "-v", "-o", "y"],
    ["run", "retinanet_b200", "--data", "null:size=3000", "--results", "r", "--dry-run", *RUN], ["manifest", "c", "-o", "lists"],
    ["index", "README", "-o", "z"], ["read", "c", "--dry-run"], ["read", "c", "--listen"], ["column", "sizes", "c", "-o", "s"],
    ["datasize", "unet3d_h100", "--hosts", "2", "--accelerators", "3", "--memory-per-host", "9G"],
    ["sweep", "--vary", "in-flight=1,2", "--repeat", "1", "--no-ceiling", "--results", "sw", "--", "read", "c", "--steps", "1"],
], ids=" ".join)
def test_a_tool_gets_documents_only(shoal, tmp_path, arguments):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("a")
    (tmp_path / "README").write_text("no list\n")
    shoal.good("index", "d", "-q", "-o", "c", cwd=tmp_path)
    shoal.good("index", "-", "-q", "-o", "e", stdin=b"b\n", cwd=tmp_path)
    done = shoal(arguments[0], "--progress", "json", *arguments[1:], cwd=tmp_path)
    told = [json.loads(line) for line in lines(done.stderr)]
    assert told and all(set(one) & {"progress", "note", "warning"} for one in told)
    assert done.returncode == (1 if arguments[0] == "diff" else 0), done


def test_a_result_that_cannot_be_written_has_its_reason_whatever_was_printed_before(shoal, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("a")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([binary(), "index", tmp_path / "d", "-o", tmp_path / "x", "--json"], stdout=full, stderr=subprocess.PIPE,
                              check=False)
    assert done.returncode == 1 and lines(done.stderr)[-1] == b"shoal index: cannot write to standard output: No space left on device"


def test_a_reader_that_leaves_ends_verify_quietly(shoal, tmp_path):
    """As it ends ls and order: by SIGPIPE."""
    (tmp_path / "d").mkdir()
    catalog = shoal.pattern("f{:07d}", 300_000, "--root", tmp_path / "d")
    process = shoal.start("verify", "--storage", "--progress=none", catalog)
    assert process.stdout.readline() == b"missing\tf0000000\n"
    process.stdout.close()
    process.wait(timeout=60)
    assert process.returncode == -signal.SIGPIPE
    assert process.stderr.read() == b""
