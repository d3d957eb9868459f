"""shoal compare: what differs between two results, and whether that is more than chance; its exit status is for CI."""

import copy
import json
import shutil
import subprocess

import pytest

from conftest import binary

READ = {"version": "1", "ranks": 1, "samples_per_second": 100, "interrupted": False, "audit": {"exactly_once": True},
        "latency_us": {"p50": 1000}, "settings": {"in-flight": "8"}}


def read_result(path, rates, **more):
    result = {**copy.deepcopy(READ), "repeats": [{"samples_per_second": rate} for rate in rates], **more}
    path.write_text(json.dumps(result))
    return path


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a"
    subprocess.run([binary(), "run", "retinanet_b200", "--data", "null:size=1000,delay_us=100", "--results", folder, "-q",
                    "dataset.num_files_train=64", "dataset.record_length_bytes=1000", "dataset.record_length_bytes_stdev=0",
                    "train.epochs=3", "train.computation_time=0.002", "metric.au=0.01"], check=True, stdout=subprocess.DEVNULL)
    return folder


def test_a_regression_has_exit_status_1_and_chance_has_0(shoal, tmp_path):
    fast = read_result(tmp_path / "fast", [100, 101, 99])
    slow = read_result(tmp_path / "slow", [90, 91, 89], settings={"in-flight": "4"})
    noisy = read_result(tmp_path / "noisy", [80, 120, 95])
    worse = shoal("compare", fast, slow)
    assert worse.returncode == 1 and worse.stderr == b""
    assert b"setting   settings.in-flight: 8 -> 4\n" in worse.stdout and b"worse in 1 of 1" in worse.stdout
    assert b"-10.00%" in worse.stdout and b"too few   latency p50 ms has 1 and 1 values" in worse.stdout
    assert b"no significant regression in 1 figure, and better in some" in shoal.good("compare", slow, fast)
    assert b"same" in shoal.good("compare", fast, noisy)
    assert shoal("compare", fast, slow, "--least", 20).returncode == 0
    assert shoal("compare", fast, slow, "-q").stdout == b""


def test_json_has_all_of_it(shoal, tmp_path):
    fast, slow = read_result(tmp_path / "fast", [100, 101, 99]), read_result(tmp_path / "slow", [90, 91, 89])
    found = json.loads(shoal("compare", "--json", fast, slow).stdout)
    [rate, p50] = found["figures"]
    assert found["worse"] == 1 and found["tested"] == 1 and found["settings"] == [] and "Welch" in found["test"]
    assert rate["verdict"] == "worse" and rate["first"] == {"values": 3, "mean": 100, "deviation": 1} and 0 < rate["p"] < 0.001
    assert p50["verdict"] == "too few" and p50["p"] is None


def test_one_repeat_is_no_verdict(shoal, tmp_path):
    one, three = read_result(tmp_path / "one", [100]), read_result(tmp_path / "three", [50, 51, 49])
    done = shoal("compare", one, three)
    assert done.returncode == 1 and b"too few   samples/s has 1 and 3 values: two of each are needed\n" in done.stdout
    assert b"nothing could be tested" in done.stderr


def test_what_read_prints_can_be_compared(shoal, tmp_path):
    catalog = shoal.pattern("f{:04d}", 1000)
    for name, more in (("a", []), ("b", ["--batch", 16])):
        (tmp_path / name).write_bytes(shoal.good("read", catalog, "--data", "null:delay_us=100", "--object-size", 10, "--repeat", 3,
                                                 "--json", "--steps", 5, *more))
    found = json.loads(shoal("compare", "--json", "--level", 1, "--least", 1000, tmp_path / "a", tmp_path / "b").stdout)
    assert {"setting": "settings.batch", "first": "32", "second": "16"} in found["settings"]
    assert found["figures"][0]["figure"] == "samples/s" and found["figures"][0]["first"]["values"] == 3


def test_runs_are_compared_by_epochs_and_by_their_workload(shoal, run_folder, tmp_path):
    old, other = tmp_path / "a", tmp_path / "b"
    for folder, au in ((old, 90), (other, 10)):  # this machine may be busy: its own AU may be anything
        shutil.copytree(run_folder, folder)
        summary = json.loads((folder / "summary.json").read_text())
        for i, phase in enumerate(summary["shoal"]["phases"]):
            phase["au_percentage"] = au + i * 0.01
        (folder / "summary.json").write_text(json.dumps(summary))
    text = (other / "effective.yaml").read_text()
    (other / "effective.yaml").write_text(text.replace("computation_time: 0.002", "computation_time: 0.003"))
    done = shoal("compare", old, other)
    assert done.returncode == 1 and b"setting   train.computation_time: 0.002 -> 0.003\n" in done.stdout
    [au] = [line for line in done.stdout.decode().splitlines() if line.startswith("AU %")]
    assert au.endswith("worse")
    assert shoal.good("compare", run_folder, run_folder).count(b"same") >= 4


def test_a_configuration_that_cannot_be_read_is_an_error(shoal, run_folder, tmp_path):
    """Without it all settings would look as if they differed."""
    folder = tmp_path / "a"
    shutil.copytree(run_folder, folder)
    config = folder / "effective.yaml"
    config.write_bytes(config.read_bytes()[:-30] + b"\n  {")
    done = shoal("compare", run_folder, folder)
    assert done.returncode == 1 and b"effective.yaml" in done.stderr and not done.stdout
    config.unlink()
    config.mkdir()
    done = shoal("compare", run_folder, folder)
    assert done.returncode == 1 and b"effective.yaml': it is a directory" in done.stderr and not done.stdout
    config.rmdir()
    assert b"(none)" in shoal("compare", run_folder, folder).stdout


def test_crashed_truncated_and_foreign_results_are_named(shoal, run_folder, tmp_path):
    crashed = tmp_path / "crashed"
    shutil.copytree(run_folder, crashed)
    whole = (crashed / "summary.json").read_bytes()
    cases = [(None, "has no results of run, read, index or datagen"), (b"", "is empty"), (whole[:-20], "is not JSON"),
             (whole.replace(b"au_percentage\": ", b"au_percentage\": NaN, \"x\": ", 1), "is not JSON"),
             (b"[1, 2]", "not the results of a measurement"), (b"\xff\xfe\x00", "is not JSON")]
    for bytes_, why in cases:
        (crashed / "summary.json").unlink(missing_ok=True)
        if bytes_ is not None:
            (crashed / "summary.json").write_bytes(bytes_)
        done = shoal("compare", run_folder, crashed)
        assert done.returncode == 1 and why in done.stderr.decode() and b"crashed" in done.stderr, (why, done.stderr)
    (crashed / "summary.json").unlink()
    (crashed / "plan.json").write_text("{}")
    assert b"has a sweep, not the results of one command" in shoal("compare", run_folder, crashed).stderr
    (crashed / "plan.json").unlink()
    missing = shoal("compare", run_folder, tmp_path / "nowhere")
    assert missing.returncode == 1 and b"No such file" in missing.stderr
    read = read_result(tmp_path / "read", [1, 2])
    assert b"has results of 'run'" in shoal("compare", run_folder, read).stderr
    summary = json.loads(whole)
    summary["shoal"]["phases"] = summary["shoal"]["phases"][:1]
    summary["shoal"]["partial"] = True
    (crashed / "summary.json").write_text(json.dumps(summary))
    partial = shoal("compare", crashed, run_folder)
    assert partial.returncode == 1 and b"was interrupted" in partial.stderr and b"nothing could be tested" in partial.stderr


def test_whole_results_that_were_repeated_are_one_value_each(shoal, tmp_path):
    """Within a result the repeats are close, and differ by far more from result to result: that is chance."""
    old = [read_result(tmp_path / f"old{i}", [rate - 1, rate + 1]) for i, rate in enumerate((100, 140, 120))]
    new = [read_result(tmp_path / f"new{i}", [rate - 1, rate + 1]) for i, rate in enumerate((90, 131, 112))]
    assert b"worse in 1 of 1" in shoal("compare", old[0], new[0]).stdout  # as if it were certain
    all_of = ["--old", old[1], "--old", old[2], "--new", new[1], "--new", new[2]]
    found = json.loads(shoal.good("compare", "--json", old[0], new[0], *all_of))
    rate, p50 = found["figures"]
    assert rate["first"] == {"values": 3, "mean": 120, "deviation": 20} and rate["verdict"] == "same"
    assert p50["first"]["values"] == 3
    slow = [read_result(tmp_path / f"slow{i}", [rate - 1, rate + 1]) for i, rate in enumerate((40, 41, 39))]
    assert shoal("compare", old[0], slow[0], *all_of[:4], "--new", slow[1], "--new", slow[2]).returncode == 1
    # One result on a side is one value then, whatever it has inside.
    assert b"samples/s has 3 and 1 values" in shoal("compare", old[0], new[0], *all_of[:4]).stdout


def test_repeats_with_other_settings_or_of_another_command_are_told(shoal, run_folder, tmp_path, fails):
    old, new = read_result(tmp_path / "old", [100, 101]), read_result(tmp_path / "new", [100, 101])
    other = read_result(tmp_path / "other", [100, 101], settings={"in-flight": "9"})
    assert b"other' is no repeat of" in shoal("compare", old, new, "--old", other).stderr
    fails(shoal("compare", old, new, "--new", run_folder), 1, "has results of 'read'")


@pytest.mark.parametrize("command, figure", [("index", "names/s"), ("datagen", "files/s")])
def test_results_of_index_and_datagen_are_compared_if_they_were_repeated(shoal, tmp_path, command, figure):
    results = [tmp_path / f"r{i}" for i in range(4)]
    for i, folder in enumerate(results):
        words = ["-", "-o", tmp_path / f"c{i}"] if command == "index" else ["retinanet_b200", "--data", tmp_path / f"d{i}"]
        more = {"stdin": b"a\nb\n"} if command == "index" else {}
        small = [] if command == "index" else ["dataset.num_files_train=3", "dataset.record_length_bytes=1000", "dataset.record_length_bytes_stdev=0"]
        shoal.good(command, *words, "-q", "--results", folder, *small, **more)
    done = shoal("compare", "--json", results[0], results[1], "--old", results[2], "--new", results[3], "--least", 1000)
    assert done.returncode == 0, done.stderr
    found = {row["figure"]: row for row in json.loads(done.stdout)["figures"]}
    assert found[figure]["first"]["values"] == 2 and found[figure]["verdict"] == "same"
    alone = shoal("compare", results[0], results[1])
    assert alone.returncode == 1 and b"several results with --old and --new" in alone.stderr


def test_each_repeat_of_a_read_has_its_own_latency_and_cpu_time(shoal, tmp_path):
    catalog = shoal.pattern("f{:04d}", 1000)
    for name in ("a", "b"):
        shoal.good("read", catalog, "--data", "null:delay_us=2000", "--object-size", 10, "--repeat", 3, "--steps", 5, "-q",
                   "--results", tmp_path / name)
    repeats = json.loads((tmp_path / "a" / "read.json").read_text())["repeats"]
    assert len(repeats) == 3 and all(r["latency_us"]["p99"] >= r["latency_us"]["p50"] >= 1900 and r["cpu_us_per_sample"] > 0 for r in repeats)
    assert len({r["cpu_us_per_sample"] for r in repeats}) > 1
    found = {row["figure"]: row for row in json.loads(shoal.good("compare", "--json", "--least", 1000, tmp_path / "a", tmp_path / "b"))["figures"]}
    for figure in ("latency p50 ms", "latency p99 ms", "CPU us/sample"):
        assert found[figure]["first"]["values"] == 3, figure
