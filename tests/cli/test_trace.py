"""--trace, --op-log and replay: what is recorded is bounded, complete and readable; a replay reads the same bytes again."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import TIMEOUT, binary, wait_until_it_hears

MPI = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed; tools/install-deps test installs it")
ROOT_MAY = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@pytest.fixture
def files(shoal, tmp_path):
    """A catalog of 200 files of 1 to 200 bytes."""
    (tmp_path / "data").mkdir()
    for i in range(200):
        (tmp_path / "data" / f"f{i:03d} <>\"").write_bytes(bytes(i + 1))
    shoal.good("index", tmp_path / "data", "-o", tmp_path / "c.shoal", "-q")
    return tmp_path / "c.shoal"


def events(path, kind="X"):
    trace = json.loads(path.read_text())
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def mpirun(number, *command):
    # Open MPI leaves memory behind, which the address sanitizer would report
    env = {**ROOT_MAY, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    return subprocess.run(["mpirun", "-n", str(number), binary(), *map(str, command)], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIMEOUT)


def test_a_trace_has_reads_on_lanes_and_waits(shoal, files, tmp_path):
    shoal.good("read", files, "--batch", 10, "--in-flight", 8, "--trace", tmp_path / "t.json", "-q")
    found = events(tmp_path / "t.json")
    reads, waits = ([e for e in found if (e["cat"] == "read") == is_read] for is_read in (True, False))
    assert len(reads) == 200 and len(waits) == 20 and {e["tid"] for e in waits} == {0} and {e["pid"] for e in found} == {0}
    assert sorted(e["args"]["bytes"] for e in reads) == list(range(1, 201))
    assert reads[0]["name"].endswith(' <>"')
    for tid in {e["tid"] for e in reads}:  # nothing overlaps on a lane
        lane = sorted((e["ts"], e["dur"]) for e in reads if e["tid"] == tid)
        assert all(a + d <= b + 0.002 for (a, d), (b, _) in zip(lane, lane[1:]))
    names = {(e["tid"], e["args"]["name"]) for e in events(tmp_path / "t.json", "M") if e["name"] == "thread_name"}
    assert (0, "waiting for batches") in names and {tid for tid, _ in names} == {e["tid"] for e in found}


@pytest.mark.parametrize("option, what", [("--trace", "a trace"), ("--op-log", "a log of operations")])
def test_only_files_of_the_same_kind_are_replaced(shoal, fails, files, tmp_path, option, what):
    before, other, own, empty = files.read_bytes(), tmp_path / "notes", tmp_path / "own", tmp_path / "empty"
    other.write_text("mine")
    empty.touch()
    for path in (files, other):
        fails(shoal("read", files, option, path, "-q"), 1, f"'{path}' exists and is not {what}", "choose another file")
    assert (files.read_bytes(), other.read_text()) == (before, "mine")
    for path in (own, own, empty):
        shoal.good("read", files, option, path, "-q")
    assert own.stat().st_size > 1000 and empty.stat().st_size > 1000


def test_a_trace_that_cannot_be_written_does_not_use_up_the_folder_of_results(shoal, fails, files, tmp_path):
    fails(shoal("read", files, "--trace", tmp_path / "no" / "t", "--results", tmp_path / "results", "-q"), 1, "no/t")
    assert not (tmp_path / "results").exists()
    shoal.good("read", files, "--trace", tmp_path / "t", "--results", tmp_path / "results", "-q")


def test_a_long_trace_is_bounded_and_has_the_stalls(shoal, tmp_path):
    catalog = shoal.pattern("f{:06d}", 100000)
    shoal.good("read", catalog, "--data", "null:fill=none", "--object-size", 10, "--trace", tmp_path / "t.json", "-q")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["otherData"]["reads"] == 100000 and trace["otherData"]["one_read_in"] >= 16
    assert 4000 <= len(events(tmp_path / "t.json")) <= 2 * (8192 + 256) and (tmp_path / "t.json").stat().st_size < 5e6
    shoal.good("read", catalog, "--data", "null:delay_us=20000", "--object-size", 10, "--batch", 4, "--steps", 4, "-q",
               "--trace", tmp_path / "t.json")
    assert any(e["cat"] == "stall" and e["dur"] >= 10000 for e in events(tmp_path / "t.json"))


def test_a_log_is_replayed_with_the_same_bytes(shoal, files, tmp_path):
    shoal.good("read", files, "--op-log", tmp_path / "log", "-q")
    for more in ([], ["--fast"], ["--engine", "threads"], ["--in-flight", 1, "--memory", 1]):
        found = json.loads(shoal.good("replay", tmp_path / "log", "--json", *more))
        assert found["recorded"]["operations"] == found["replayed"]["operations"] == 200
        assert found["bytes"] == 200 * 201 // 2 and found["failed"] == found["other_length"] == 0
        assert found["fast"] == ("--fast" in more) and found["replayed"]["latency_us"]["p50"] > 0
    assert found["in_flight"] == 1
    text = shoal.good("replay", tmp_path / "log")
    assert b"200 operations" in text and b"recorded      replayed" in text


def test_recorded_times_are_kept_and_fast_is_faster(shoal, tmp_path):
    catalog = shoal.pattern("f{:03d}", 40)
    shoal.good("read", catalog, "--data", "null:delay_us=10000", "--object-size", 10, "--in-flight", 1, "--engine", "threads", "-q",
               "--op-log", tmp_path / "log")
    slow = json.loads(shoal.good("replay", tmp_path / "log", "--data", "null:size=10", "--json"))
    fast = json.loads(shoal.good("replay", tmp_path / "log", "--data", "null:size=10", "--json", "--fast"))
    assert slow["recorded"]["seconds"] >= 0.4 and slow["replayed"]["seconds"] >= 0.38  # the last read begins there
    assert fast["replayed"]["seconds"] < slow["replayed"]["seconds"]


def test_a_run_is_recorded_too(shoal, tmp_path):
    small = ["dataset.num_files_train=60", "dataset.record_length_bytes=2000", "dataset.record_length_bytes_stdev=0",
             "train.epochs=2", "train.computation_time=0.001", "reader.batch_size=4", "metric.au=0.01"]
    shoal.good("datagen", "retinanet_b200", "--data", tmp_path / "data", "-q", *small)
    done = shoal("run", "retinanet_b200", "--data", tmp_path / "data", "--results", tmp_path / "r", "-q", *small,
                 "--op-log", tmp_path / "log", "--trace", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(shoal.good("replay", tmp_path / "log", "--fast", "--json"))
    assert found["replayed"]["operations"] == 120 and found["bytes"] == 240000 and found["failed"] == 0
    assert len([e for e in events(tmp_path / "t.json") if e["cat"] == "read"]) == 120
    refused = shoal("run", "retinanet_b200", "--data", "null", "--results", tmp_path / "q", "--results-layout", "mlpstorage",
                    "--runs", 2, "--trace", tmp_path / "x")
    assert refused.returncode == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_a_replay_shows_how_far_it_is_and_dies_of_a_signal(shoal, files, tmp_path, as_json):
    shoal.good("read", files, "-q", "--json", "--op-log", tmp_path / "log")
    slow = ["--data", "null:size=10,delay_us=20000", "--in-flight", 1, "--fast"]  # four seconds
    process = shoal.start("replay", tmp_path / "log", *slow, "--progress", "json", *["--json"][:as_json])
    shown = json.loads(process.stderr.readline())
    assert (shown["progress"], shown["what"], shown["total"]) == ("replay", "operations", 200) and 0 < shown["done"] < 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert b"interrupted: these figures are of the part that was done" in err
    if as_json:
        found = json.loads(out)
        assert found["interrupted"] and 0 < found["replayed"]["operations"] < 200
    else:
        assert b" operations, " in out


@MPI
def test_ranks_record_into_one_file_and_any_number_replays(shoal, files, tmp_path):
    done = mpirun(2, "read", files, "--batch", 10, "--op-log", tmp_path / "log", "--trace", tmp_path / "t.json", "-q")
    assert done.returncode == 0, done.stderr
    found = events(tmp_path / "t.json")
    assert {e["pid"] for e in found} == {0, 1} and len([e for e in found if e["cat"] == "read"]) == 200
    for replayed in (shoal("replay", tmp_path / "log", "--json", "--fast"), mpirun(2, "replay", tmp_path / "log", "--json")):
        assert replayed.returncode == 0, replayed.stderr
        facts = json.loads(replayed.stdout)
        assert facts["replayed"]["operations"] == 200 and facts["bytes"] == 200 * 201 // 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.shoal", "data", "log", "t.json"]


def test_damaged_logs_and_missing_files_are_named(shoal, files, tmp_path):
    shoal.good("read", files, "--op-log", tmp_path / "log", "-q")
    whole = (tmp_path / "log").read_bytes()
    cases = [(b"", "not a log of operations"), (whole[:-1], "damaged, or ends early"), (whole[:5000], "damaged, or ends early"),
             (whole[:1000] + b"x" + whole[1001:], "damaged"), (whole[:8] + b"\2" + whole[9:], "of version 2"),
             (whole + b"12345678", "damaged")]
    for bytes_, why in cases:
        (tmp_path / "bad").write_bytes(bytes_)
        done = shoal("replay", tmp_path / "bad")
        assert done.returncode == 1 and why in done.stderr.decode() and done.stdout == b"", (why, done.stderr)
    (tmp_path / "data" / 'f007 <>"').unlink()
    (tmp_path / "data" / 'f100 <>"').write_bytes(b"short")
    done = shoal("replay", tmp_path / "log", "--fast")
    assert done.returncode == 1 and b"f007" in done.stderr and b"1 operation failed" in done.stderr
    assert b"1 delivered another number of bytes" in done.stdout
    # Without a read that succeeded there is no latency.
    (tmp_path / "none").mkdir()
    done = shoal("replay", tmp_path / "log", "--fast", "--data", tmp_path / "none")
    assert done.returncode == 1 and re.search(rb"\np99 .* [a-z]+ +-\n", done.stdout), done.stdout
    done = shoal("replay", tmp_path / "log", "--fast", "--json", "--data", tmp_path / "none")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["replayed"]["latency_us"] is None and found["recorded"]["latency_us"]["p99"] > 0


def test_files_that_cannot_be_written_end_it_before_it_begins(shoal, files, tmp_path):
    for option in ("--trace", "--op-log"):
        done = shoal("read", files, option, tmp_path / "no" / "where")
        assert done.returncode == 1 and done.stdout == b"" and b"No such file or directory" in done.stderr
    assert shoal("read", files, "--trace", "x", "--op-log", "x").returncode == 2
    assert shoal("read", files, "--trace", "").returncode == 2


def test_an_interrupted_read_writes_what_it_recorded(shoal, tmp_path):
    catalog = shoal.pattern("f{:06d}", 100000)
    process = shoal.start("read", catalog, "--data", "null:delay_us=1000", "--object-size", 10, "--op-log", tmp_path / "log")
    wait_until_it_hears(process, signal.SIGINT)
    try:
        process.communicate(timeout=0.3)
    except subprocess.TimeoutExpired:
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGINT
    if (tmp_path / "log").exists():  # it may have been interrupted before it began
        assert json.loads(shoal.good("replay", tmp_path / "log", "--fast", "--json"))["failed"] == 0
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
