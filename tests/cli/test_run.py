"""shoal run: what it reads, what it measures, what it writes, and what it says of bad input."""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest
import yaml
from conftest import contents, lines, on_terminal, views, wait_until_it_sleeps

SCRIPT = pathlib.Path(__file__).with_name("read_dlio_summary.py")

WORKLOAD = """
model: {name: small}
framework: pytorch
dataset: {format: npz, num_files_train: 40, record_length_bytes: 1000}
reader: {batch_size: 4, read_threads: 3, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 2, computation_time: 0.002}
metric: {au: 0.05}
"""

TOTAL = 40 * 1000


def write_files(folder, names, size=1000):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size(name) if callable(size) else size))


def dlio_names(count, of=None, ending="npz"):
    of = of or count
    return [f"train/img_{i:0{len(str(of))}}_of_{of}.{ending}" for i in range(count)]


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(WORKLOAD)
    return path


@pytest.fixture(scope="module")
def data(memory_dir):
    folder = memory_dir / "dlio"
    write_files(folder, dlio_names(40))
    return folder


@pytest.fixture
def run(shoal, workload, tmp_path):
    """run(*args): shoal run of the small workload, with results in a folder of the test."""

    def go(*args, results=None, **options):
        return shoal("run", workload, "--results", results or tmp_path / "results", *args, **options)

    return go


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def phases(folder):
    return summary(folder)["shoal"]["phases"]


# ---------------------------------------------------------------------------------------------------- what it does


def test_dlio_names_are_computed_and_looked_for(run, data, tmp_path):
    done = run("--data", data)
    assert done.returncode == 0, done.stderr
    assert b"computed names, of which up to 64 were checked" in done.stderr
    facts = summary(tmp_path / "results")
    assert facts["shoal"]["partial"] is False
    for number, phase in enumerate(facts["shoal"]["phases"], 1):
        assert (phase["epoch"], phase["kind"], phase["steps"]) == (number, "train", 10)
        assert phase["audit"]["exactly_once"] is True
        assert phase["audit"]["samples"] == 40 and phase["audit"]["errors"] == 0
        assert phase["audit"]["bytes_asked"] == phase["audit"]["bytes_delivered"] == TOTAL
        assert phase["latency_us"]["total"]["p50"] <= phase["latency_us"]["total"]["max"]
        assert phase["latency_us"]["open"]["p50"] > 0 and phase["latency_us"]["read_and_close"]["p50"] > 0
    digests = [phase["audit"]["order_digest"] for phase in facts["shoal"]["phases"]]
    assert digests[0] != digests[1]
    assert contents(tmp_path / "results") == sorted(
        ["0_output.json", "0_per_epoch_stats.json", "begin.json", "config.yaml", "effective.yaml", "series.0",
         "summary.json", "train.shoal"])


def test_less_data_than_the_rule_asks_for_is_told_unless_quiet(run, data, tmp_path):
    done = run("--data", data)
    few, steps = [line for line in lines(done.stderr) if b"MLPerf requires" in line]
    assert few.startswith(b"run: warning: 40 files") and b"500 steps on 1 accelerator" in few
    assert steps == b"run: warning: an epoch has 10 steps: MLPerf requires 500"
    assert run("--data", data, "-q", results=tmp_path / "quiet").stderr == b""
    assert b"MLPerf" not in run("--data", "null", results=tmp_path / "null").stderr


def test_files_of_another_size_than_the_workload_says_are_told(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "other-sizes"
    write_files(folder, dlio_names(40), size=3000)
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    done = run("--data", tmp_path / "c")
    assert b"samples have 3000 bytes here, but dataset.record_length_bytes is 1000" in done.stderr
    assert abs(summary(tmp_path / "results")["data_size_per_host_GB"] * 2**30 - 40 * 3000) < 1
    done = run("--data", tmp_path / "c", "dataset.record_length_bytes=3000", results=tmp_path / "right")
    assert b"samples have" not in done.stderr


def test_the_summary_is_read_by_a_script_that_knows_only_dlio(run, data, tmp_path):
    assert run("--data", data, "dataset.num_files_eval=0").returncode == 0
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "results"], stdout=subprocess.PIPE, text=True, check=True)
    values = json.loads(done.stdout)
    metric = summary(tmp_path / "results")["metric"]
    assert values["accelerators"] == 1
    assert values["au"] == pytest.approx(metric["train_au_mean_percentage"], rel=1e-6)
    assert values["samples_per_second"] == pytest.approx(metric["train_throughput_mean_samples_per_second"], rel=1e-6)


def test_the_configuration_is_what_was_asked_for_and_the_effective_one_what_was_used(run, shoal, data, tmp_path):
    done = run("--data", data, "--prefetch", 7, "reader.odirect=false", "++workload.train.epochs=1",
               "dataset.record_length_bytes=1e3", "storage.storage_options.secret_key=x", "workflow.checkpoint=true")
    results = tmp_path / "results"
    asked = yaml.safe_load((results / "config.yaml").read_text())["workload"]
    want = yaml.safe_load(WORKLOAD)
    want["train"]["epochs"] = 1
    want["reader"]["odirect"] = False
    want["dataset"]["record_length_bytes"] = "1e3"  # as PyYAML, and so Hydra, reads it
    want["storage"] = {"storage_options": {"secret_key": "***"}}
    want["workflow"] = {"checkpoint": True}
    assert asked == want, done.stderr
    used = yaml.safe_load((results / "effective.yaml").read_text())
    assert used["reader"]["prefetch_size"] == 7 and used["reader"]["read_threads"] == 3
    assert used["workflow"]["checkpoint"] is False and used["dataset"]["data_folder"] == f"file://{data}"
    assert used["train"]["seed"] == 123 and used["train"]["seed_change_epoch"] is True  # a default
    for name in ("config.yaml", "effective.yaml"):
        assert shoal("workloads", results / name).returncode == 0


def test_references_stay_references_in_the_configuration(run, workload, tmp_path):
    workload.write_text(WORKLOAD + "output: {folder: '${model.name}/x', log_file: \"a: 'b' #c\"}\n")
    assert run("--data", "null").returncode == 0
    asked = yaml.safe_load((tmp_path / "results" / "config.yaml").read_text())["workload"]
    assert asked["output"] == {"folder": "${model.name}/x", "log_file": "a: 'b' #c"}


def test_several_accelerators_have_files_of_their_own(run, data, tmp_path):
    assert run("--data", data, "--accelerators-per-rank", 3, "--in-flight", 8).returncode == 0
    results = tmp_path / "results"
    facts = summary(results)
    assert (facts["num_accelerators"], facts["shoal"]["ranks"]) == (3, 1)
    assert [phase["steps"] for phase in facts["shoal"]["phases"]] == [3, 3]
    for rank in range(3):
        output = json.loads((results / f"{rank}_output.json").read_text())
        stats = json.loads((results / f"{rank}_per_epoch_stats.json").read_text())
        assert len(output["2"]["load"]["block1"]) == 3 and output["2"]["end"] == stats["2"]["end"]
    done = subprocess.run([sys.executable, SCRIPT, results], stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout)["au"] == pytest.approx(facts["metric"]["train_au_mean_percentage"], rel=1e-6)


@pytest.mark.parametrize("loader, read_threads, prefetch_size, ahead", [
    ("framework=pytorch", 4, 2, 4), ("framework=pytorch", 8, 2, 8), ("framework=pytorch", 1, 2, 2),
    ("framework=pytorch", 4, 4, 4), ("framework=pytorch", 4, 5, 8), ("framework=pytorch", 3, 0, 6),
    ("framework=tensorflow", 4, 2, 2), ("framework=tensorflow", 4, 0, 1),
    ("reader.data_loader=tensorflow", 4, 2, 2), ("reader.data_loader=dali", 4, 2, 2),
    ("reader.data_loader=pytorch", 4, 2, 4)])
def test_as_many_batches_are_read_ahead_as_in_dlio(run, tmp_path, loader, read_threads, prefetch_size, ahead):
    """PyTorch reads ahead per worker: read_threads * ceil(prefetch_size / read_threads), or twice read_threads."""
    done = run("--data", "null", loader, f"reader.read_threads={read_threads}", f"reader.prefetch_size={prefetch_size}",
               "train.computation_time=0", "train.epochs=1", "metric.au=0")
    assert b", %d batches ahead, " % ahead in done.stdout, done
    facts = summary(tmp_path / "results")["shoal"]
    assert (facts["prefetch_batches"], facts["read_threads_per_accelerator"]) == (ahead, read_threads)


def test_batches_ahead_may_be_set_by_hand(run, tmp_path):
    run("--data", "null", "--prefetch", 3, "reader.read_threads=8", "train.computation_time=0", "metric.au=0")
    assert summary(tmp_path / "results")["shoal"]["prefetch_batches"] == 3


def test_the_table_and_the_json_on_standard_output(run, data, tmp_path):
    done = run("--data", data, "-q", results=tmp_path / "a")
    assert done.returncode == 0 and done.stderr == b""
    assert b"AU " in done.stdout and b"once" in done.stdout and b"\033" not in done.stdout
    done = run("--data", data, "-q", "--json", results=tmp_path / "b")
    printed, written = json.loads(done.stdout), summary(tmp_path / "b")
    for facts in (printed, written):  # what the machine says of itself changes by the moment
        del facts["host_meminfo"], facts["host_cpuinfo"]
    assert printed == written


@pytest.mark.parametrize("batch, left, words", [(4, 0, None), (39, 1, b"1 sample fills no step and is left over"),
                                                (7, 5, b"5 samples fill no step and are left over in each epoch")])
def test_samples_that_fill_no_step_are_told(run, data, tmp_path, batch, left, words):
    done = run("--data", data, "-q", f"reader.batch_size={batch}", "metric.au=0")
    for phase in phases(tmp_path / "results"):
        assert phase["audit"]["exactly_once"] is True and phase["audit"]["samples_left_over"] == left
        assert phase["audit"]["samples"] == 40 - left
    assert (b"left over" in done.stdout) == bool(left) and (words or b"AU") in done.stdout


def test_a_tool_is_shown_where_each_epoch_begins_and_ends(shoal, workload, data, tmp_path):
    result = shoal("run", workload, "--data", data, "--results", tmp_path / "of-tool", "--progress", "json")
    shown = [json.loads(line) for line in lines(result.stderr)]
    shown = [d for d in shown if d.get("progress") == "run"]
    assert [(d["epoch"], d["step"]) for d in shown if d["step"] in (0, 10)] == [(1, 0), (1, 10), (2, 0), (2, 10)]
    assert all((d["au"] is None) == (d["step"] == 0) and d["steps"] == 10 and d["ended"] == (d["step"] == 10) for d in shown)


def test_a_tool_gets_the_figures_of_the_results_where_an_epoch_ends(shoal, workload, data, tmp_path):
    """Not those of the steps so far, which count the first step's time."""
    result = shoal("run", workload, "--data", data, "--results", tmp_path / "of-tool", "--progress", "json", "train.computation_time=0.005")
    ends = [d for d in map(json.loads, (line for line in lines(result.stderr) if line[:1] == b"{")) if d.get("ended")]
    metric = json.loads((tmp_path / "of-tool" / "summary.json").read_text())["metric"]
    assert [d["au"] for d in ends] == pytest.approx(metric["train_au_percentage"], abs=0.01)
    assert [d["samples_per_second"] for d in ends] == pytest.approx(metric["train_throughput_samples_per_second"], rel=1e-4)


def test_the_time_of_an_epoch_is_told_in_four_parts(run, tmp_path):
    """10 steps of 4 samples, 2 at a time, each taking 20 ms: 40 ms per step, of which 10 ms are computed meanwhile."""
    done = run("--data", "null:size=1T,delay_us=20000", "--in-flight", 2, "--engine", "threads", "--prefetch", 1,
               "train.computation_time=0.01", "metric.au=0")
    assert done.returncode == 0, done.stderr
    names = ("compute_planned", "woken_late", "waiting_for_data", "waiting_for_ranks")
    for phase in phases(tmp_path / "results"):
        parts = [phase["time"][f"{name}_seconds"] for name in names]
        assert sum(parts) == pytest.approx(phase["seconds"], rel=1e-9) and min(parts) >= 0
        assert parts[0] == pytest.approx(10 * 0.01, rel=1e-9)
        assert parts[2] == pytest.approx(phase["wait_share"] * phase["seconds"], rel=1e-6)
        assert parts[2] > 0.2
    line, = [line for line in lines(done.stdout) if line.startswith(b"time ")]
    assert b"s: compute " in line and b"%, waiting for data " in line and b"%, other " in line
    several = run("--data", "null:size=1T", "--accelerators-per-rank", 2, "metric.au=0", results=tmp_path / "several")
    assert b"%, waiting for other ranks " in several.stdout


def test_results_beside_the_data_are_warned_about(run, data, memory_dir, tmp_path):
    words = b"run: warning: data and results are on one file system: MLPerf's rule 3.4.2 requires two"
    same = os.stat(data).st_dev == os.stat(tmp_path).st_dev
    assert (words in lines(run("--data", data).stderr)) == same
    assert words in lines(run("--data", data, results=memory_dir / "beside").stderr)
    assert words not in lines(run("--data", "null", results=tmp_path / "null").stderr)


def test_a_catalog_is_taken_as_it_is(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "own"
    write_files(folder, [f"{i % 4}/x{i}.npz" for i in range(45)], size=lambda name: 100 + len(name))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    done = run("--data", tmp_path / "c", "dataset.num_files_train=40")
    assert done.returncode == 0, done.stderr
    audit = phases(tmp_path / "results")[0]["audit"]
    assert audit["samples"] == 40 and audit["exactly_once"] is True, "the first 40 of 45"
    assert "train.shoal" not in contents(tmp_path / "results")


def test_other_names_or_sizes_are_listed(run, memory_dir, tmp_path):
    for i, (names, size) in enumerate([([f"train/x{i}.npz" for i in range(40)], 1000), (dlio_names(40), 1001)]):
        folder = memory_dir / f"listed{i}"
        write_files(folder, names, size)
        done = run("--data", folder, results=tmp_path / str(i))
        assert done.returncode == 0, done.stderr
        assert b"listing" in done.stderr and b"can be given as the data next time" in done.stderr
        assert phases(tmp_path / str(i))[0]["audit"]["bytes_delivered"] == 40 * size
        done = run("--data", tmp_path / str(i) / "train.shoal", results=tmp_path / f"{i}b")
        assert done.returncode == 0, done.stderr


def write_indexed_binary(folder):
    names = [f"train/x{i:02}.indexed_binary" for i in range(40)]
    write_files(folder, names)
    write_files(folder, [name + ending for name in names for ending in (".off.idx", ".sz.idx")], size=8)
    write_files(folder, ["README.txt", "train/labels.csv"], size=5)


def test_only_files_of_the_format_are_listed(run, memory_dir, tmp_path):
    folder = memory_dir / "indexed"
    write_indexed_binary(folder)
    done = run("--data", folder, "dataset.format=indexed_binary")
    assert done.returncode == 0, done.stderr
    for phase in phases(tmp_path / "results"):
        assert phase["audit"]["samples"] == 40 and phase["audit"]["bytes_delivered"] == TOTAL


@pytest.mark.parametrize("format", ["tfrecord", "csv", "npz", "npy", "hdf5", "jpeg", "png", "indexed_binary",
                                    "mmap_indexed_binary"])
def test_files_of_every_format_are_found_by_their_ending(run, memory_dir, tmp_path, format):
    folder = memory_dir / f"ending-{format}"
    write_files(folder, [f"train/x{i:02}.{format}" for i in range(40)])
    write_files(folder, [f"train/x{i:02}.{format}.idx" for i in range(40)], size=8)
    done = run("--data", folder, "-q", f"dataset.format={format}", "train.epochs=1")
    assert done.returncode == 0, done.stderr
    phase, = phases(tmp_path / "results")
    assert phase["audit"]["samples"] == 40 and phase["audit"]["bytes_delivered"] == TOTAL


def test_endings_may_be_spelt_in_other_ways(run, memory_dir, tmp_path):
    folder = memory_dir / "spelt"
    write_files(folder, [f"train/x{i}.{ending}" for i, ending in enumerate(["jpg", "JPEG", "jpeg", "Jpg"] * 10)])
    write_files(folder, [f"train/x{i}.jpg.txt" for i in range(10)])
    assert run("--data", folder, "dataset.format=jpeg").returncode == 0
    assert phases(tmp_path / "results")[0]["audit"]["bytes_delivered"] == TOTAL


def test_a_catalog_with_other_files_between_is_refused(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "between"
    write_indexed_binary(folder)
    shoal.good("index", folder, "-q", "--exclude", "*.csv", "-o", tmp_path / "c")
    refused(run("--data", tmp_path / "c", "dataset.format=indexed_binary"), b"reads indexed_binary files", b".idx'")


@pytest.mark.parametrize("way", ["computed", "one catalog"])
def test_evaluations_read_the_other_folder(run, shoal, memory_dir, tmp_path, way):
    folder = memory_dir / f"both {way}"
    write_files(folder, dlio_names(40) + [name.replace("train", "valid").replace("_of_40", "_of_12")
                                          for name in dlio_names(12, 40)])
    args = ["workflow.evaluation=true", "dataset.num_files_eval=12", "evaluation.eval_time=0.001",
            "reader.batch_size_eval=3"]
    where = folder
    if way == "one catalog":  # in which the samples of valid do not start at 0
        where = tmp_path / "c"
        shoal.good("index", folder, "-q", "-o", where)
    assert run("--data", where, *args).returncode == 0
    assert all(phase["audit"]["exactly_once"] for phase in phases(tmp_path / "results"))
    kinds = [(phase["epoch"], phase["kind"], phase["steps"], phase["audit"]["samples"])
             for phase in phases(tmp_path / "results")]
    assert kinds == [(1, "train", 10, 40), (1, "eval", 4, 12), (2, "train", 10, 40), (2, "eval", 4, 12)]
    assert len(summary(tmp_path / "results")["metric"]["eval_au_percentage"]) == 2
    stats = json.loads((tmp_path / "results" / "0_per_epoch_stats.json").read_text())
    assert {"block1", "eval", "start", "end", "duration"} == set(stats["2"])


def test_the_page_cache_is_dropped_before_every_epoch(run, tmp_path):
    folder = tmp_path / "disk"  # what is in memory cannot be dropped
    write_files(folder, dlio_names(40))
    os.sync()
    assert run("--data", folder, "--drop-cache").returncode == 0
    for phase in phases(tmp_path / "results"):
        assert phase["audit"]["files_dropped_from_cache"] + phase["audit"]["files_kept_in_cache"] == 40
        if subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout != "tmpfs\n":
            assert phase["audit"]["files_dropped_from_cache"] > 0
            assert phase["audit"]["cached_share"] is None or phase["audit"]["cached_share"] < 1


@pytest.fixture
def disk(tmp_path):
    """A folder on a file system whose files leave the page cache when told to, and whose reads are accounted."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout.strip()
    if kind not in ("ext2/ext3", "xfs", "btrfs", "f2fs"):
        pytest.skip(f"needs a file system on a disk, not {kind}")
    return tmp_path / "disk"


def drop(path, length=0):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, length, os.POSIX_FADV_DONTNEED)


def test_readahead_is_not_taken_for_data_that_was_cached_before(run, disk, tmp_path):
    """Samples of a container, in order: the kernel has read the next one when it is asked for."""
    write_files(disk, [f"train/img_{i}_of_4.tfrecord" for i in range(4)], size=11466 * 200)
    os.sync()
    done = run("--data", disk, "--drop-cache", "dataset.format=tfrecord", "dataset.num_samples_per_file=200",
               "dataset.num_files_train=4", "dataset.record_length_bytes=11466", "reader.file_shuffle=off",
               "reader.sample_shuffle=off", "reader.batch_size=50", "train.epochs=1", "metric.au=0")
    assert done.returncode == 0, done.stderr
    audit = phases(tmp_path / "results")[0]["audit"]
    if audit["files_kept_in_cache"]:
        pytest.skip("the kernel kept pages of these files")
    assert audit["cached_share"] < 0.1 and audit["cached_share_from"] == "device bytes"
    assert b"not the storage's speed" not in done.stdout


@pytest.mark.parametrize("shuffle", ["off", "seed"])
def test_a_container_is_opened_once_and_read_in_a_row_as_dlio_does(run, memory_dir, tmp_path, shuffle):
    """MLPerf's resnet50 shuffles no samples within files; DLIO streams such a file in pieces of 256 KiB."""
    folder = memory_dir / ("rows-" + shuffle)
    write_files(folder, [f"train/img_{i}_of_4.tfrecord" for i in range(4)], size=11466 * 200)
    done = run("--data", folder, "framework=tensorflow", "dataset.format=tfrecord", "dataset.num_samples_per_file=200", "dataset.num_files_train=4",
               "dataset.record_length_bytes=11466", f"reader.file_shuffle={shuffle}", "reader.sample_shuffle=off",
               "reader.batch_size=50", "train.epochs=1", "metric.au=0")
    assert done.returncode == 0, done.stderr
    audit = phases(tmp_path / "results")[0]["audit"]
    assert audit["opens"] <= 8 and audit["reads"] <= 80
    assert audit["bytes_delivered"] == 4 * 200 * (11466 - 16) and audit["bytes_read"] < 4 * 200 * 11466  # without frames
    shutil.rmtree(folder)


def test_files_that_are_cached_but_for_their_beginning_are_noticed(run, disk, tmp_path):
    names = [f"train/img_{i}_of_4.npz" for i in range(4)]
    write_files(disk, names, size=24 << 20)
    os.sync()
    for name in names:
        (disk / name).read_bytes()
        drop(disk / name, length=4 << 20)
    done = run("--data", disk, "dataset.num_files_train=4", f"dataset.record_length_bytes={24 << 20}",
               "reader.batch_size=1", "train.epochs=1", "metric.au=0")
    assert done.returncode == 0, done.stderr
    audit = phases(tmp_path / "results")[0]["audit"]
    assert audit["cached_share"] > 0.5
    assert b"of the bytes came from memory: this is not the storage's speed; DLIO 3 drops" in done.stdout
    assert summary(tmp_path / "results")["shoal"]["page_cache_dropped_before_each_epoch"] is False


def test_a_catalog_without_files_is_told(run, shoal, fails, tmp_path):
    empty = shoal.index([], to=tmp_path / "empty.cat")
    fails(run("--data", empty, "-q"), 1, "the catalog '%s' lists no files: index a directory that has some" % empty)


def test_a_catalog_is_read_from_where_the_data_is_now(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "before"
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    folder.rename(memory_dir / "after")
    assert run("--catalog", tmp_path / "c", "-q", results=tmp_path / "a").returncode == 1
    done = run("--catalog", tmp_path / "c", "--data", memory_dir / "after", "-q", "metric.au=0", results=tmp_path / "b")
    assert done.returncode == 0, done.stderr


def test_samples_that_cannot_be_read_may_be_skipped(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "holes"
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    (folder / dlio_names(40)[7]).unlink()
    done = run("--data", tmp_path / "c", "--keep-going")
    assert done.returncode == 1
    assert b"not every sample was read exactly once: 2 could not be read" in done.stderr
    assert done.stderr.count(b"'%s'" % os.fsencode(dlio_names(40)[7])) == 2, done.stderr  # of each epoch
    facts = summary(tmp_path / "results")["shoal"]
    assert [phase["audit"]["errors"] for phase in facts["phases"]] == [1, 1]
    assert facts["errors"]["samples"] == 2 and len(facts["errors"]["first"]) == 2
    assert all(dlio_names(40)[7] in words for words in facts["errors"]["first"])
    assert b"2 samples could not be read" in done.stdout and os.fsencode(dlio_names(40)[7]) in done.stdout


def test_a_sample_left_out_before_a_run_was_resumed_is_not_forgotten(run, shoal, workload, memory_dir, tmp_path):
    folder, results = memory_dir / "hole-before", tmp_path / "results"
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    (folder / dlio_names(40)[0]).unlink()
    args = ["--data", tmp_path / "c", "--keep-going", "-q", "reader.file_shuffle=off", "reader.sample_shuffle=off",
            "train.computation_time=0.05", "train.epochs=1"]
    process = shoal.start("run", workload, "--results", results, *args)
    until(lambda: steps_recorded(results) >= 2)
    process.kill()
    process.communicate()
    done = run(*args, "--resume")
    assert done.returncode == 1 and b"NOT ONCE" in done.stdout
    assert b"not every sample was read exactly once: 1 could not be read" in done.stderr
    phase, = phases(results)
    assert phase["steps_before_resume"] >= 2 and phase["audit"]["errors"] == 1
    assert phase["audit"]["exactly_once"] is False
    assert summary(results)["metric"]["train_au_meet_expectation"] == "fail"


@pytest.mark.parametrize("args, reason", [
    ([], None),
    (["--data", "null"], "the bytes are synthetic"),
    (["workflow.checkpoint=true"], "the workload's checkpoints were not written"),
])
def test_only_a_whole_run_that_read_storage_is_a_success(run, data, tmp_path, args, reason):
    done = run("--data", data, *args)
    assert done.returncode == 0, done.stderr
    assert (b"checkpoints (workflow.checkpoint) are not written" in done.stderr) == ("checkpoint=true" in str(args))
    facts = summary(tmp_path / "results")
    assert facts["metric"]["train_au_mean_percentage"] > 5
    assert facts["metric"]["train_au_meet_expectation"] == ("fail" if reason else "success")
    assert facts["shoal"]["not_a_success_because"] == reason
    said, = [line for line in lines(done.stdout) if line.startswith(b"AU")]
    if reason:
        assert said.endswith(b"above the bar of 5 %%, but this does not count as a success: %s" % reason.encode())
    else:
        assert said.endswith(b"meets the bar of 5 %")


def test_a_resumed_run_is_no_success(shoal, run, workload, data, tmp_path):
    results, args = tmp_path / "results", ["--data", data, "-q", "train.computation_time=0.05"]
    process = shoal.start("run", workload, "--results", results, *args)
    until(lambda: steps_recorded(results) >= 2)
    process.kill()
    process.communicate()
    done = run(*args, "--resume")
    assert done.returncode == 0 and b"but this does not count as a success: the run was interrupted and resumed" in done.stdout
    assert summary(results)["metric"]["train_au_meet_expectation"] == "fail"


def test_samples_that_were_not_read_are_in_no_rate(run, shoal, memory_dir, tmp_path):
    folder = memory_dir / "mostly-gone"
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    for name in dlio_names(40)[10:]:
        (folder / name).unlink()
    done = run("--data", tmp_path / "c", "--keep-going", "output.metric.exclude_start_steps=0")
    assert done.returncode == 1
    for phase in phases(tmp_path / "results"):
        assert phase["audit"]["errors"] == 30
        # All steps count, so that the rate is that of the 10 that were read.
        assert abs(phase["throughput_samples_per_second"] * phase["seconds"] - 10) < 1e-3


def test_the_memory_is_what_was_taken_while_reading(run, memory_dir, tmp_path):
    folder = memory_dir / "larger"
    write_files(folder, dlio_names(40), size=500_000)
    done = run("--data", folder, "dataset.record_length_bytes=500000", "reader.batch_size=8",
               "reader.prefetch_size=3")
    assert done.returncode == 0, done.stderr
    node, = summary(tmp_path / "results")["shoal"]["memory_per_node"]
    assert node["pool_bytes"] >= 4 * 8 * 500_000
    assert node["pss_bytes"] > node["pool_bytes"]


def test_buffers_that_were_not_touched_are_not_called_a_part_of_the_memory(run, tmp_path):
    """Buffers far larger than the process, also than one with a sanitizer that shares its library with no other."""
    done = run("--data", "null:size=50000000,fill=none", "dataset.record_length_bytes=50000000", "metric.au=0")
    node, = summary(tmp_path / "results")["shoal"]["memory_per_node"]
    assert node["pool_bytes"] > 2 * node["pss_bytes"]
    line, = [line for line in lines(done.stdout) if line.startswith(b"memory")]
    assert b" MB used on " in line and b"; there is room for %.0f MB in buffers" % (node["pool_bytes"] * 1e-6) in line


@pytest.mark.parametrize("args, most", [
    (["--accelerators-per-rank", 2, "reader.read_threads=5"], 10),
    (["--accelerators-per-rank", 3, "--in-flight", 7], 7),
    (["--accelerators-per-rank", 4000, "reader.batch_size=1", "dataset.num_files_train=4000", "reader.read_threads=8192",
      "--prefetch", 2], 8192),
])
def test_the_results_say_how_many_were_really_in_flight(run, tmp_path, args, most):
    assert run("--data", "null", "train.epochs=1", "metric.au=0", *args).returncode == 0
    assert summary(tmp_path / "results")["shoal"]["in_flight_per_rank"] == most


def test_threads_that_are_not_given_are_a_share_of_the_machines(shoal, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD.replace("read_threads: 3, ", ""))
    shoal("run", path, "--results", tmp_path / "results", "--data", "null")
    cpus = len(os.sched_getaffinity(0))
    assert summary(tmp_path / "results")["shoal"]["in_flight_per_rank"] == max(1, min(cpus, 8))


# ---------------------------------------------------------------------------------------------------- the bar


def test_a_utilisation_below_the_bar_is_a_failure(run, tmp_path):
    done = run("--data", "null:size=1T,delay_us=30000", "metric.au=0.9", "-q")
    assert done.returncode == 1
    said = lines(done.stderr)
    assert len(said) == 1 and b"below the workload's target of 90 %" in said[0]
    assert b"MISSES" in done.stdout
    facts = summary(tmp_path / "results")
    assert facts["metric"]["train_au_meet_expectation"] == "fail"
    assert facts["metric"]["train_au_mean_percentage"] < 50


# ---------------------------------------------------------------------------------------------------- bad input


def refused(done, *words, status=1):
    assert done.returncode == status, done.stderr
    said = [line for line in lines(done.stderr) if line.startswith(b"shoal")]
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0], said
    assert done.stdout == b""


@pytest.mark.parametrize("args, words", [
    ([], b"give a workload"),
    (["W"], b"--results"),
    (["W", "--results", "R"], b"--data"),
    (["W", "--results", "R", "--data", "D", "epochs"], b"is not KEY=VALUE"),
    (["W", "--results", "R", "--data", "D", "--accelerators-per-rank", "0"], b"--accelerators-per-rank must be"),
    (["W", "--results", "R", "--data", "D", "--engine", "steam"], b"--engine"),
])
def test_wrong_use_is_told(shoal, args, words, tmp_path):
    done = shoal("run", *args, cwd=tmp_path)
    refused(done, words, status=2)
    assert contents(tmp_path) == []


def test_fewer_files_than_the_workload_reads(run, memory_dir, tmp_path):
    folder = memory_dir / "few"
    write_files(folder, [f"x{i}.npz" for i in range(39)])
    refused(run("--data", folder), b"reads 40 files, but there are 39", b"dataset.num_files_train=39")
    assert "summary.json" not in contents(tmp_path / "results")


def test_files_of_a_set_of_another_number(run, memory_dir):
    folder = memory_dir / "other"
    write_files(folder, dlio_names(20))
    refused(run("--data", folder), b"there are 20 of a set of 20", b"_of_20.npz", b"dataset.num_files_train=20")


@pytest.mark.parametrize("way", ["without", "with"])
def test_files_of_a_larger_set_are_refused_unless_its_size_is_said(run, shoal, memory_dir, tmp_path, way):
    folder = memory_dir / f"larger-set-{way}"
    write_files(folder, dlio_names(50))
    where = folder
    if way == "with":
        where = tmp_path / "c"
        shoal.good("index", folder, "-q", "-o", where)
    refused(run("--data", where, "-q"), b"'train/img_00_of_50.npz' belongs to a set of 50 files, but the workload has 40",
            b"dataset.num_files_generated=50")
    done = run("--data", where, "-q", "dataset.num_files_generated=50")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "results")["num_files_train"] == 40


def test_without_a_step_that_counts_there_is_no_utilisation(run, tmp_path):
    done = run("--data", "null", "-q", "output.metric.exclude_start_steps=6", "output.metric.exclude_end_steps=4")
    assert done.returncode == 1
    assert b"AU is unknown: all steps of an epoch are excluded" in done.stderr
    assert b"AU        unknown" in done.stdout
    slow = run("--data", "null:size=1T,delay_us=20000", "--prefetch", 1, "output.metric.exclude_start_steps=10", results=tmp_path / "slow")
    assert slow.returncode == 1 and b"AU        unknown" in slow.stdout and b"were read" not in slow.stdout  # no rate is known
    assert run("--data", "null", "-q", "output.metric.exclude_start_steps=5", "output.metric.exclude_end_steps=4",
               results=tmp_path / "one").returncode == 0


def test_a_set_that_lacks_files(run, memory_dir):
    folder = memory_dir / "lacks"
    write_files(folder, dlio_names(35, 40))
    refused(run("--data", folder), b"the first file exists", b"'shoal datagen --resume'")


def test_files_of_another_format(run, memory_dir):
    folder = memory_dir / "jpegs"
    write_files(folder, dlio_names(40, ending="jpeg"))
    refused(run("--data", folder), b"reads npz files", b"there are none")


def test_a_batch_larger_than_there_are_samples(run, data):
    refused(run("--data", data, "reader.batch_size=41"), b"41")


def test_more_steps_than_the_data_has(run, data):
    refused(run("--data", data, "train.total_training_steps=11"), b"11")


def test_no_steps_at_all(run, data):
    refused(run("--data", data, "train.total_training_steps=0", "-q"), b"train.total_training_steps", b"or -1 for none", status=2)


def test_an_empty_name_of_the_results(shoal, workload, data):
    done = shoal("run", workload, "--data", data, "--results", "")
    assert done.returncode == 2 and b"--results is empty" in done.stderr


def test_a_compute_time_longer_than_any_clock(run, data):
    refused(run("--data", data, "train.computation_time={type: gamma, shape: 1e6, scale: 1e6}"), b"shape times scale", status=2)


def test_a_workload_that_does_not_train(run, data):
    refused(run("--data", data, "workflow.train=false"), b"workflow.train")


def test_data_generated_by_shoal_is_read_by_its_catalog(run, shoal, workload, memory_dir, tmp_path):
    folder = memory_dir / "made"
    shoal.good("datagen", workload, "--data", folder, "-q", "dataset.num_subfolders_train=3")
    moved = memory_dir / "moved"
    folder.rename(moved)  # the catalog's root is the place where it was made
    done = run("--data", moved, "dataset.num_subfolders_train=3")
    assert done.returncode == 0, done.stderr
    facts = summary(tmp_path / "results")["shoal"]
    assert "catalog.shoal" in facts["catalog"] and "train.shoal" not in contents(tmp_path / "results")
    assert facts["phases"][0]["audit"]["exactly_once"] is True


def test_data_that_is_not_there(run, tmp_path):
    refused(run("--data", tmp_path / "nothing"), b"nothing")


def test_results_where_nothing_can_be_written(run, data, tmp_path):
    (tmp_path / "file").write_text("")
    refused(run("--data", data, results=tmp_path / "file" / "results"), b"cannot create the folder")
    refused(run("--data", data, results="/proc/results"), b"/proc/results")


def test_a_disk_that_is_full(run, data, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    refused(run("--data", data, preexec_fn=small_files), b"File too large")
    assert "summary.json" not in contents(tmp_path / "results")


def test_results_that_cannot_be_written_are_shown_and_written_by_resume(run, data, tmp_path):
    def shown(done):
        return [line for line in lines(done.stdout) if line.startswith((b"1 ", b"2 ", b"AU", b"reading", b"first"))]

    results = tmp_path / "results"
    (results / "0_output.json").mkdir(parents=True)  # as good as a disk that is full at the end
    done = run("--data", data, "-q")
    assert done.returncode == 1
    said, = lines(done.stderr)
    assert b"the results were not written" in said and b"0_output.json': Is a directory" in said
    assert b"write them with --resume" in said
    assert len(shown(done)) == 5 and "summary.json" not in contents(results)
    (results / "0_output.json").rmdir()
    again = run("--data", data, "-q", "--resume")
    assert again.returncode == 0, again.stderr
    assert shown(again) == shown(done)
    assert summary(results)["shoal"]["partial"] is False and ".shoal-run" not in contents(results)
    assert summary(results)["metric"]["train_au_meet_expectation"] == "success"  # all of it was one run


def test_a_run_that_was_killed_before_it_had_a_record_of_steps_is_resumed(shoal, run, workload, tmp_path):
    args = ["--data", "null", "-q", "train.epochs=1", "train.computation_time=0.05"]
    process = shoal.start("run", workload, "--results", tmp_path / "results", *args)
    log = tmp_path / "results" / ".shoal-run" / "steps.0"
    end = time.monotonic() + 60
    while not log.exists() and time.monotonic() < end:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    log.unlink()  # as if the signal had come a moment earlier
    done = run(*args, "--resume")
    assert done.returncode == 0, done.stderr
    assert [phase["steps"] for phase in phases(tmp_path / "results")] == [10]


def test_a_run_without_a_time_series_says_so(run, data, tmp_path):
    (tmp_path / "results" / "series.0").mkdir(parents=True)
    done = run("--data", data, "-q")
    assert done.returncode == 0, done.stderr
    assert b"note      no time series: " in done.stdout and b"series.0': File exists" in done.stdout
    assert "series.0': File exists" in summary(tmp_path / "results")["shoal"]["no_series_because"]


def test_a_disk_that_becomes_full_shows_the_epochs_that_were_finished(run, tmp_path):
    args = ["--data", "null", "-q", "train.epochs=4", "--accelerators-per-rank", 4, "reader.batch_size=1", "metric.au=0",
            "train.computation_time=0", "dataset.num_files_train=800"]
    of_an_epoch = 40 * (2 + 4 * 200)  # bytes of the record
    room = 5 * of_an_epoch // 2
    done = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
    assert done.returncode == 1
    said = [line for line in lines(done.stderr) if line.startswith(b"shoal")]
    assert b"cannot write the record of steps: File too large" in said[0]
    assert b"AU        " in done.stdout and b"partial" in done.stdout
    assert [phase["steps"] for phase in phases(tmp_path / "results")] == [200, 200]
    done = run(*args, "--resume")
    assert done.returncode == 0, done.stderr
    assert [phase["steps"] for phase in phases(tmp_path / "results")] == [200] * 4
    assert phases(tmp_path / "results")[2]["steps_before_resume"] == (room - 2 * of_an_epoch - 80) // 160


@pytest.mark.parametrize("listed", [False, True])
def test_a_start_that_fails_leaves_nothing(run, data, memory_dir, tmp_path, listed):
    folder = data
    if listed:
        folder = memory_dir / "listed-and-refused"
        write_files(folder, [f"a/{i}.npz" for i in range(40)])
    refused(run("--data", folder, "-q", "train.total_training_steps=100"), b"data for 10 steps")
    assert not (tmp_path / "results").exists()
    refused(run("--data", folder, "-q", "--resume"), b"no run to resume")
    assert not (tmp_path / "results").exists()


def test_a_start_that_fails_removes_only_what_it_made(run, data, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    for name in ("valid.shoal", "catalog.shoal"):
        (results / name).write_text("mine")
    refused(run("--data", data, "-q", "train.total_training_steps=100"), b"data for 10 steps")
    assert contents(results) == ["catalog.shoal", "valid.shoal"]
    refused(run("--data", tmp_path / "nothing", "-q"), b"nothing")
    assert contents(results) == ["catalog.shoal", "valid.shoal"]


def test_a_run_is_not_resumed_on_other_data(shoal, run, workload, data, memory_dir, tmp_path):
    """Neither on a catalog that is left of something else, nor with other data named."""
    results, other = tmp_path / "results", memory_dir / "other"
    write_files(other, dlio_names(40), size=999)
    shoal.good("index", data, "-q", "-o", tmp_path / "c")
    slow = ["train.computation_time=0.2", "-q"]
    process = shoal.start("run", workload, "--results", results, "--data", tmp_path / "c", *slow)
    until(lambda: steps_recorded(results) >= 1)
    process.kill()
    process.communicate()
    for name in (other, data, tmp_path):
        refused(run("--data", name, *slow, "--resume"), b"read '%s'" % os.fsencode(tmp_path / "c"),
                b"not '%s'; resume it with" % os.fsencode(name), b"--data")
        assert contents(results) == [".shoal-run", "begin.json", "config.yaml", "effective.yaml", "series.0"]
    # A catalog of other files, which somebody left there, says nothing.
    shoal.good("index", other, "-q", "-o", results / "train.shoal")
    done = run("--data", tmp_path / "c", *slow, "--resume")
    assert done.returncode == 0, done.stderr
    assert all(phase["audit"]["bytes_delivered"] % 1000 == 0 for phase in phases(results))


def test_a_folder_is_locked_until_all_is_written(shoal, workload, tmp_path):
    results = tmp_path / "results"
    lock = results / ".shoal-run" / "lock"
    process = shoal.start("run", workload, "--results", results, "-q", "--accelerators-per-rank", 400, "reader.batch_size=1",
                          "dataset.num_files_train=4000", "train.epochs=1", "metric.au=0", "--data", "null")
    until(lambda: (results / "0_output.json").exists())
    while process.poll() is None and not (results / "summary.json").exists():
        try:
            with open(lock, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                assert (results / "summary.json").exists(), "nobody holds the lock"
        except BlockingIOError:
            pass
        except FileNotFoundError:  # it goes last of all
            assert (results / "summary.json").exists(), "the lock is gone before all is written"
            break
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_results_of_another_run_are_not_written_over(run, data, tmp_path):
    assert run("--data", data, "-q").returncode == 0
    before = (tmp_path / "results" / "summary.json").read_bytes()
    refused(run("--data", data), b"results of another run")
    refused(run("--data", data, "--resume"), b"nothing to resume")
    assert (tmp_path / "results" / "summary.json").read_bytes() == before
    refused(run("--data", data, "--resume", results=tmp_path / "fresh"), b"no run to resume")


@pytest.mark.parametrize("change", ["missing", "shorter", "longer"])
def test_a_dataset_that_changed_since_it_was_indexed(run, shoal, memory_dir, tmp_path, change):
    folder = memory_dir / change
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    victim = folder / dlio_names(40)[11]
    if change == "missing":
        victim.unlink()
    else:
        victim.write_bytes(bytes(999 if change == "shorter" else 1001))
    refused(run("--data", tmp_path / "c"), b"img_11_of_40.npz", b"changed since they were indexed")
    assert "summary.json" not in contents(tmp_path / "results")


def test_a_failure_in_a_later_epoch_keeps_the_earlier_ones(workload, shoal, memory_dir, tmp_path):
    folder = memory_dir / "later"
    write_files(folder, dlio_names(40))
    shoal.good("index", folder, "-q", "-o", tmp_path / "c")
    process = shoal.start("run", workload, "--data", tmp_path / "c", "--results", tmp_path / "results",
                          "train.computation_time=0.03", "train.epochs=50", "-q")
    until(lambda: steps_recorded(tmp_path / "results") > 10 + 2)  # in the second epoch
    (folder / dlio_names(40)[3]).unlink()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"AU        " in out
    assert b"img_03_of_40.npz" in err and b"marked as partial" in err
    facts = summary(tmp_path / "results")
    assert facts["shoal"]["partial"] is True and "img_03" in facts["shoal"]["why_partial"]
    assert 1 <= len(facts["metric"]["train_au_percentage"]) < 50

# ---------------------------------------------------------------------------------------------------- interruptions


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def steps_recorded(results):
    path = results / ".shoal-run" / "steps.0"
    return (path.stat().st_size - 80) // 40 if path.exists() else 0


def steps_of_series(path):
    """The steps of the records of docs/format/series.md."""
    data, at, steps = path.read_bytes(), 64, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        steps += struct.unpack_from("<9Q", data, at + 16)[3] if kind == 2 else 0
        at += length
    return steps


SLOW = ["train.computation_time=0.02", "--data", "null"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_partial_and_can_be_resumed(shoal, run, workload, tmp_path, number):
    results = tmp_path / "results"
    process = shoal.start("run", workload, "--results", results, *SLOW)
    until(lambda: steps_recorded(results) >= 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert b"partial" in err and b"--resume" in err and b"partial" in out
    facts = summary(results)
    assert facts["shoal"]["partial"] is True and facts["shoal"]["phases"][-1]["partial"] is True
    before = facts["shoal"]["phases"][0]["steps"]
    assert 3 <= before
    assert facts["epochs"] == len(facts["metric"]["train_au_percentage"]) == 1 and facts["shoal"]["epochs_due"] == 2
    refused(run(*SLOW), b"continue it with --resume")
    for other in (["--in-flight", 9], ["--prefetch", 5], ["--keep-going"], ["--drop-cache"],
                  ["--engine", "threads"], ["--data", "null:size=1T,delay_us=1"]):
        refused(run(*SLOW, *other, "--resume"), b"other options for reading", b"--in-flight")
    done = run(*SLOW, "--resume", "-q")
    assert done.returncode == 0, done.stderr
    facts = summary(results)
    first = facts["shoal"]["phases"][0]
    assert facts["shoal"]["partial"] is False and facts["shoal"]["resumed"] == 1
    assert (first["steps"], first["steps_before_resume"]) == (10, before)
    audit = first["audit"]  # the first part's was kept
    assert audit["exactly_once"] is True and audit["samples"] == 40 and audit["bytes_delivered"] == TOTAL
    assert (audit["covers_from_step"], audit["covers_whole_epoch"]) == (0, True)
    assert b" once\n" in done.stdout and b"once (rest)" not in done.stdout
    assert run(*SLOW, "-q", results=tmp_path / "at-once").returncode == 0
    assert audit["order_digest"] == phases(tmp_path / "at-once")[0]["audit"]["order_digest"]
    output = json.loads((results / "0_output.json").read_text())
    assert (len(output["1"]["load"]["block1"]), len(output["1"]["load"]["block2"])) == (before, 10 - before)
    assert ".shoal-run" not in contents(results)
    assert steps_of_series(results / "series.0") == 20  # of both parts


def test_what_a_resumed_run_finds_instead_of_its_time_series_stays(shoal, run, workload, tmp_path):
    results = tmp_path / "results"
    process = shoal.start("run", workload, "--results", results, *SLOW, "-q")
    until(lambda: steps_recorded(results) >= 3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    (results / "series.0").write_bytes(b"my notes\n" * 20)
    done = run(*SLOW, "--resume", "-q")
    assert done.returncode == 0, done.stderr
    assert (results / "series.0").read_bytes() == b"my notes\n" * 20
    assert "series.0': it is not a time series" in summary(results)["shoal"]["no_series_because"]


def test_an_interrupted_run_whose_results_cannot_be_written_does_not_say_that_all_was_run(shoal, run, workload, tmp_path):
    results = tmp_path / "results"
    (results / "0_output.json").mkdir(parents=True)
    process = shoal.start("run", workload, "--results", results, *SLOW, "-q")
    until(lambda: steps_recorded(results) >= 3)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM and b"partial" in out
    said, = lines(err)
    assert b"interrupted, but the results were not written" in said and b"0_output.json': Is a directory" in said
    assert said.endswith(b"continue with --resume")
    assert summary(results)["shoal"]["partial"] is True, "it comes first: a launcher kills soon after the signal"
    (results / "0_output.json").rmdir()
    assert run(*SLOW, "-q", "--resume").returncode == 0
    assert [phase["steps"] for phase in phases(results)] == [10, 10]


def test_a_signal_ends_a_run_at_once_though_the_storage_hangs(shoal, workload, tmp_path):
    process = shoal.start("run", workload, "--results", tmp_path / "results", "--data", "null:size=1T,delay_us=25000000")
    until(lambda: (tmp_path / "results" / ".shoal-run" / "steps.0").exists())
    wait_until_it_sleeps(process)
    process.send_signal(signal.SIGTERM)
    since = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and time.monotonic() - since < 15


def test_a_partial_summary_does_not_wait_for_reads(shoal, workload, tmp_path):
    results = tmp_path / "results"
    process = shoal.start("run", workload, "--results", results, "--data", "null:size=1T,delay_us=4000000",
                          "--in-flight", 4)
    until(lambda: steps_recorded(results) >= 1)
    process.send_signal(signal.SIGTERM)
    since = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and time.monotonic() - since < 3.5
    assert summary(results)["shoal"]["phases"][0]["steps"] == 1


def test_a_folder_is_of_one_run_at_a_time(shoal, run, workload, tmp_path):
    results = tmp_path / "results"
    process = shoal.start("run", workload, "--results", results, "train.computation_time=0.2", "--data", "null", "-q")
    until(lambda: steps_recorded(results) >= 2)
    refused(run("train.computation_time=0.2", "--data", "null", "--resume"), b"another run is writing")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [phase["audit"]["exactly_once"] for phase in phases(results)] == [True, True]


def test_a_last_part_of_one_step_does_not_lower_the_utilisation(shoal, run, workload, tmp_path):
    results = tmp_path / "results"
    args = ["train.computation_time=0.1", "train.epochs=1", "--data", "null", "-q"]
    process = shoal.start("run", workload, "--results", results, *args)
    until(lambda: steps_recorded(results) >= 9)
    process.kill()
    process.communicate()
    assert run(*args, "--resume").returncode == 0
    first = phases(results)[0]
    assert first["steps_before_resume"] == 9
    whole = json.loads((results / "0_output.json").read_text())["1"]["au"]["block1"]
    assert first["au_percentage"] == pytest.approx(whole, rel=1e-9)
    subprocess.run([sys.executable, SCRIPT, results], stdout=subprocess.DEVNULL, check=True)


def test_a_killed_run_is_resumed_behind_its_last_step(shoal, run, workload, tmp_path):
    results = tmp_path / "results"
    process = shoal.start("run", workload, "--results", results, *SLOW)
    until(lambda: steps_recorded(results) >= 4)
    process.kill()
    process.communicate()
    assert "summary.json" not in contents(results)
    before = steps_recorded(results)
    done = run(*SLOW, "--resume", "-q")
    assert done.returncode == 0, done.stderr
    first = phases(results)[0]
    assert (first["steps"], first["steps_before_resume"]) == (10, before)
    audit = first["audit"]  # a kill leaves none of the first part
    assert audit["exactly_once"] is True and audit["samples"] == 4 * (10 - before)
    assert (audit["covers_from_step"], audit["covers_whole_epoch"]) == (before, False)
    assert b"once (rest)" in done.stdout
    refused(run(*SLOW, "--resume"), b"nothing to resume")


# ---------------------------------------------------------------------------------------------------- the terminal


def run_on_terminal(shoal, *args, **env):
    """What a terminal gets: standard output and error."""
    return on_terminal(shoal.arguments(args), 0, ["stdin", "stdout", "stderr"], env=dict(os.environ, **env))


def test_no_au_is_shown_while_steps_are_excluded(shoal, workload, tmp_path):
    got = run_on_terminal(shoal, "run", workload, "--data", "null", "train.computation_time=0.1", "train.epochs=1",
                          "output.metric.exclude_start_steps=6", "--results", tmp_path / "a")
    assert b"AU -" in got and b"AU 0.0 %" not in got


def test_a_terminal_shows_a_view_that_is_drawn_again(shoal, workload, tmp_path):
    args = ["run", workload, "--data", "null", "train.computation_time=0.03"]
    got = run_on_terminal(shoal, *args, "--results", tmp_path / "a")
    shown = views(got)
    assert len(shown) > 2 and "ETA 0:00:0" in shown[1] and "epoch 1/2, step " in shown[1] and "samples/s" in shown[1]
    assert any(view.startswith("epoch 1/2: AU ") for view in shown)  # it stays
    assert b"\033[1mAU" in got
    got = run_on_terminal(shoal, *args, "--results", tmp_path / "b", NO_COLOR="1")
    assert b"\033[1m" not in got and b"\033[3" not in got


def test_steps_that_do_not_count_have_no_utilisation(shoal, workload, tmp_path):
    got = run_on_terminal(shoal, "run", workload, "--data", "null", "train.computation_time=0.25", "train.epochs=1",
                          "dataset.num_files_train=12", "--results", tmp_path / "a")
    assert b"step 1/3" in got and b"AU -" in got and b"AU 0.0" not in got


def test_a_read_that_takes_long_is_told(shoal, workload, tmp_path):
    process = shoal.start("run", workload, "--results", tmp_path / "results", "--data",
                          "null:size=1T,delay_us=3000000", "--timeout", 1)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and out == b""
    assert b"in flight for longer than 1 s" in err and b"img_" in err
