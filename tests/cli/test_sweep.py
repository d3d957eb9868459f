"""shoal sweep: every point as often as the others, a knee that is known is found, and a sweep that was killed goes on."""

import json
import os
import shutil
import signal
import time

import pytest

from conftest import TIMEOUT, wait_until_it_hears

# Eight reads at a time, each of 10 ms: 800 samples/s from eight in flight on, however slow this machine is.
DEVICE = "null:size=100,delay_us=10000,at_once=8,fill=none"
SHORT = ["--data", DEVICE, "--object-size", 100, "--duration", "0.3"]
READ = [*SHORT, "--batch", 32]

RUN = ["dataset.num_files_train=32", "dataset.record_length_bytes=1000", "dataset.record_length_bytes_stdev=0", "reader.batch_size=4",
       "train.epochs=1", "train.computation_time=0.001"]


@pytest.fixture
def catalog(shoal):
    return shoal.pattern("f{:06d}", 100000)


def results(folder):
    return json.loads((folder / "sweep.json").read_text())


def records(folder):
    return {path.name: path.read_bytes() for path in (folder / "jobs").iterdir()}


def test_the_knee_of_a_device_of_eight_channels_is_found(shoal, catalog, tmp_path):
    done = shoal("sweep", "--vary", "in-flight=2,8,32", "--repeat", 2, "--results", tmp_path / "s", "--within", 15, "--json", "--",
                 "read", catalog, *READ)
    assert done.returncode == 0, done.stderr
    found = results(tmp_path / "s")
    assert {key: value for key, value in found.items() if key not in ("version", "command", "launcher")} == json.loads(done.stdout)
    assert found["complete"] and found["jobs"] == 12 and [knee["in-flight"] for knee in found["knees"]] == ["8"]
    two, eight, many = found["points"]
    assert [p["values"]["in-flight"] for p in (two, eight, many)] == ["2", "8", "32"]
    assert [p["knee"] for p in (two, eight, many)] == [False, True, False]
    assert 2 * two["samples_per_second"]["median"] < eight["samples_per_second"]["median"] <= 800.5 * 1.05
    assert many["p50_ms"]["median"] > 2 * eight["p50_ms"]["median"] >= 20
    # Without storage the client does far more: it is not the limit.
    assert all(p["ceiling"] > 5 * p["samples_per_second"]["highest"] and p["client_bound"] is None for p in found["points"])
    assert all(p["runs"] == 2 and len(p["samples_per_second"]["all"]) == len(p["ceilings"]) == 2 for p in found["points"])
    assert b"sweep_text" in (tmp_path / "s" / "report.html").read_bytes()


def test_points_come_in_another_order_with_another_seed(shoal, catalog, tmp_path):
    def order(seed):
        out = shoal("sweep", "--vary", "in-flight=1..64", "--vary", "batch=8,16", "--seed", seed, "--repeat", 1, "--no-ceiling", "--dry-run",
                    "--results", tmp_path / "s", "--", "read", catalog, *SHORT)
        assert out.returncode == 0 and not (tmp_path / "s").exists()
        return out.stdout.splitlines()
    first, second = order(1), order(2)
    assert len(first) == 14 and first == order(1) != second and sorted(first) == sorted(second) != first


def test_force_replaces_a_sweep_only_once_a_measurement_was_made(shoal, catalog, tmp_path):
    command = ["--vary", "batch=4,8", "--repeat", 1, "--no-ceiling", "-q", "--results", tmp_path / "s", "--"]
    few = ["--object-size", 100, "--steps", 2]
    shoal.good("sweep", *command, "read", catalog, "--data", "null:size=100", *few)
    before = {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()}
    assert len(before) >= 5
    for words, status in (([catalog, "--data", "/there/is/none"], 1), ([tmp_path / "none"], 1), ([catalog, "--mistyped"], 2)):
        done = shoal("sweep", "--force", *command, "read", *words)
        assert done.returncode == status, done.stderr
        assert status == 2 or b"stays as it was" in done.stderr, done.stderr
        assert {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()} == before
    shoal.good("sweep", "--force", *command, "read", catalog, "--data", "null:size=200", *few)
    assert results(tmp_path / "s")["complete"] and "null:size=200" in (tmp_path / "s" / "plan.json").read_text()


def test_a_sweep_that_was_killed_goes_on_with_what_is_missing(shoal, catalog, tmp_path):
    command = ["sweep", "--vary", "in-flight=4,8", "--repeat", 2, "--no-ceiling", "--results", tmp_path / "s", "--", "read", catalog, *READ]
    process = shoal.start(*command)
    end = time.monotonic() + 60
    while not (tmp_path / "s" / "jobs").exists() or len([n for n in records(tmp_path / "s") if not n.startswith(".")]) < 1:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    before = records(tmp_path / "s")
    again = shoal(*command)
    assert again.returncode == 1 and b"holds a sweep already" in again.stderr and b"--resume" in again.stderr
    # A record that is damaged is measured again, like one that is missing.
    name = sorted(n for n in before if not n.startswith("."))[0]
    (tmp_path / "s" / "jobs" / name).write_bytes(before.pop(name)[:-5])
    done = shoal(*command[:1], "--resume", *command[1:])
    assert done.returncode == 0 and results(tmp_path / "s")["complete"]
    after = records(tmp_path / "s")
    assert len([n for n in after if n.endswith(".json")]) == 4
    assert all(after[n] == before[n] for n in before if n.endswith(".json"))
    # Nothing is left to do.
    before = records(tmp_path / "s")
    shoal.good(*command[:1], "--resume", "-q", *command[1:])
    assert records(tmp_path / "s") == before


def test_an_interrupted_sweep_reports_what_was_measured(shoal, catalog, tmp_path):
    process = shoal.start("sweep", "--vary", "in-flight=4,8", "--repeat", 50, "--no-ceiling", "--results", tmp_path / "s", "--",
                          "read", catalog, *READ)
    wait_until_it_hears(process, signal.SIGINT)
    end = time.monotonic() + 60
    while not (tmp_path / "s" / "jobs").exists() or not any(n.endswith(".json") for n in records(tmp_path / "s")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGINT
    assert b"of 100 measurements were made" in out and b"interrupted; go on with --resume" in err
    found = results(tmp_path / "s")
    assert not found["complete"] and 1 <= found["jobs_done"] < 100


def test_another_sweep_does_not_go_on(shoal, catalog, tmp_path):
    command = ["--vary", "in-flight=4", "--repeat", 1, "--no-ceiling", "--results", tmp_path / "s", "-q"]
    shoal.good("sweep", *command, "--", "read", catalog, *READ)
    other = shoal("sweep", "--resume", "--seed", 9, *command, "--", "read", catalog, *READ)
    assert other.returncode == 1 and b'another sweep: its plan.json has "seed": "1"' in other.stderr
    shoal.good("sweep", "--force", "--seed", 9, *command, "--", "read", catalog, *READ)
    assert results(tmp_path / "s")["seed"] == "9"


def test_a_measurement_that_fails_is_named_and_tried_again(shoal, catalog, tmp_path):
    (tmp_path / "data").mkdir()
    command = ["--vary", "batch=4,8", "--repeat", 1, "--no-ceiling", "--results", tmp_path / "s", "--", "read", catalog,
               "--data", tmp_path / "data", "--slot", 100, "--steps", 1]
    done = shoal("sweep", *command)
    assert done.returncode == 1 and b"does not exist" in done.stderr and b"some measurements failed" in done.stderr
    found = results(tmp_path / "s")
    assert found["complete"] and all("does not exist" in p["error"] and p["runs"] == 0 for p in found["points"])
    assert found["knees"][0]["kind"] == "unknown"
    assert b"already" not in shoal("sweep", "--resume", *command).stderr


def test_the_error_of_a_measurement_is_kept_whatever_its_launcher_prints(shoal, catalog, tmp_path):
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\n"$@"\nstatus=$?\necho "shoal read: of the launcher" >&2\nexit $status\n')
    launcher.chmod(0o755)
    done = shoal("sweep", "--vary", "batch=4", "--repeat", 1, "--no-ceiling", "--results", tmp_path / "s", "--launcher", launcher,
                 "--", "read", catalog, "--data", tmp_path / "none", "--slot", 100, "--steps", 1)
    assert done.returncode == 1
    assert "/none" in results(tmp_path / "s")["points"][0]["error"] and b"of the launcher" not in done.stderr


def test_the_cores_are_those_of_the_measurement(shoal, catalog, tmp_path):
    core = min(os.sched_getaffinity(0))
    for name, words in (("read", ["read", catalog, *READ]), ("run", ["run", "retinanet_b200", "--data", "null:size=1000", *RUN])):
        shoal.good("sweep", "--vary", "in-flight=4", "--repeat", 1, "--no-ceiling", "--results", tmp_path / name, "-q", "--launcher",
                   f"taskset -c {core}", "--", *words)
        found = results(tmp_path / name)
        assert found["points"][0]["cores"]["median"] == found["cores"] == 1


def test_a_sweep_of_what_is_in_the_page_cache_says_so(shoal, tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(64):
        (tmp_path / "data" / f"f{i:02d}").write_bytes(bytes(8192))
    shoal.good("index", tmp_path / "data", "-o", tmp_path / "c.shoal", "-q")
    out = shoal.good("sweep", "--vary", "in-flight=1,2", "--repeat", 1, "--no-ceiling", "--results", tmp_path / "s", "-q", "--", "read",
                     tmp_path / "c.shoal")
    assert [p["cached_percent"]["median"] for p in results(tmp_path / "s")["points"]] == [100, 100]
    assert b"at 2 points most bytes came from the page cache" in out and out.count(b"  page cache\n") == 2


@pytest.mark.parametrize("words, why", [
    (["--", "read", "x"], "say what to vary"),
    (["--vary", "in-flight=1"], "give the command after --"),
    (["--vary", "in-flight=1", "--", "index", "x"], "'index' cannot be swept"),
    (["--vary", "in-flihgt=1", "--", "read", "x"], "'read' has no option --in-flihgt"),
    (["--vary", "direct=1", "--", "read", "x"], "not an option to vary"),
    (["--vary", "reader.batch_size=1", "--", "read", "x"], "only 'run' has workload keys"),
    (["--vary", "in-flight=4..1", "--", "read", "x"], "is empty"),
    (["--vary", "in-flight=1", "--vary", "in-flight=2", "--", "read", "x"], "given twice"),
    (["--vary", "in-flight=1", "--vary", "batch=2", "--vary", "slot=3", "--", "read", "x"], "more than 2 times --vary"),
    (["--vary", "in-flight=1", "--", "read", "x", "--in-flight", "4"], "'--in-flight' cannot be given to the command"),
    (["--vary", "in-flight=1", "--", "read", "x", "--in-fl", "4"], "'--in-fl': write --in-flight; options of the command cannot be abbreviated"),
    (["--vary", "in-flight=1", "--", "read", "x", "--result", "y"], "'--result': write --results"),
    (["--vary", "in-flight=1", "--", "read", "x", "--eng=uring"], "'--eng=uring': write --engine"),
    (["--vary", "in-flight=1", "--", "read", "x", "--in-flight=4"], "'--in-flight=4' cannot be given to the command"),
    (["--vary", "reader.batch_size=1", "--", "run", "x", "++workload.reader.batch_size=4"], "because --vary reader.batch_size sets it"),
    (["--vary", "reader.batch_size=1", "--", "run", "x", "reader.batch_size=4"], "because --vary reader.batch_size sets it"),
    (["--vary", "in-flight=1", "--", "run", "x", "--results", "y"], "a folder of its own"),
    (["--vary", "ranks=0,1", "--", "read", "x"], "'0' is not a number of ranks"),
    (["--vary", "ranks=1K", "--", "read", "x"], "'1K' is not a number of ranks"),
    (["--vary", "ranks=two", "--", "read", "x"], "'two' is not a number of ranks"),
    (["--vary", "ranks=1,2", "--launcher", "mpirun -n 2", "--", "read", "x"], "'mpirun -n 2' has no {}"),
    (["--vary", "ranks=1,2", "--launcher", "", "--", "read", "x"], "has no {}"),
    (["--vary", "in-flight=0", "--", "read", "x"], "--in-flight must be 1 to 8192"),
])
def test_wrong_command_lines_are_refused_in_words(shoal, tmp_path, words, why):
    done = shoal("sweep", "--results", tmp_path / "s", *words)
    assert done.returncode == 2 and why in done.stderr.decode(), done.stderr


def test_a_refused_command_does_not_use_up_the_folder(shoal, catalog, tmp_path):
    sweep = ["sweep", "--no-ceiling", "--repeat", 1, "--results", tmp_path / "s", "-q"]
    done = shoal(*sweep, "--vary", "in-flight=0", "--", "read", catalog, *READ)
    assert done.returncode == 2 and b"the command is refused" in done.stderr
    shoal.good(*sweep, "--vary", "in-flight=8", "--", "read", catalog, *READ)
    assert results(tmp_path / "s")["complete"]


def test_runs_are_swept_over_a_workload_key_and_compute_is_the_clients_limit(shoal, tmp_path):
    small = ["dataset.num_files_train=32", "dataset.record_length_bytes=1000", "dataset.record_length_bytes_stdev=0",
             "train.epochs=1", "train.computation_time=0.02", "metric.au=0.99"]
    out = shoal.good("sweep", "--vary", "reader.batch_size=2,4", "--repeat", 1, "--results", tmp_path / "s", "-q", "--", "run",
                     "retinanet_b200", "--data", "null:size=1000,delay_us=100", *small)
    found = results(tmp_path / "s")
    assert all(p["runs"] == 1 and p["ceiling"] > 0 and p["client_bound"] == "own limit" for p in found["points"])
    assert b"client: own limit" in out and b"at 2 points the client is the limit" in out
    # More would gain nothing, and that says nothing about the storage.
    assert found["knees"][0]["kind"] == "limited by the client" and b"knee      not found: at reader.batch_size" in out
    assert len(list((tmp_path / "s" / "runs").glob("*/summary.json"))) == 4  # a folder per measurement


def test_points_that_the_launcher_started_with_other_ranks_fail(shoal, catalog, tmp_path):
    done = shoal("sweep", "--vary", "ranks=1,2", "--repeat", 1, "--no-ceiling", "--launcher", "env RANKS={}", "--results", tmp_path / "s",
                 "--", "read", catalog, "--in-flight", 4, *READ)
    assert done.returncode == 1 and b"ranks 2: the launcher started 1 rank\n" in done.stderr, done.stderr
    assert [(p["runs"], p["error"]) for p in results(tmp_path / "s")["points"]] == [(1, None), (0, "the launcher started 1 rank")]


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed; tools/install-deps test installs it")
def test_ranks_are_started_by_a_launcher(shoal, catalog, tmp_path):
    launcher = "mpirun --allow-run-as-root --oversubscribe -n {}"
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = shoal("sweep", "--vary", "ranks=1,2", "--repeat", 1, "--no-ceiling", "--launcher", launcher, "--results", tmp_path / "s", "-q",
                 "--", "read", catalog, "--in-flight", 4, *READ, env=env)
    assert done.returncode == 0, done.stderr
    one, two = results(tmp_path / "s")["points"]
    assert two["samples_per_second"]["median"] > 1.2 * one["samples_per_second"]["median"]  # each rank has a device
