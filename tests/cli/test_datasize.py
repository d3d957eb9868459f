"""How much data a workload needs: the rule of MLPerf Storage, computed here a second time."""

import json
import os
from fractions import Fraction

import pytest
from conftest import check_words, lines
from test_workloads import MLPERF

GIB = 1 << 30


def ceil(value):
    return -(-value.numerator // value.denominator)


def datasize(shoal, *args):
    result = shoal("datasize", *args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def rule(name, hosts, gib, accelerators):
    """By hand: five times the memory, and 500 steps."""
    _, _, samples, record, _, batch, *_ = MLPERF[name]
    record = Fraction(str(record))
    by_memory = ceil(5 * hosts * gib * GIB / (samples * record))
    by_steps = ceil(Fraction(500 * accelerators * batch, samples))
    return by_memory, by_steps


@pytest.mark.parametrize("name", sorted(name for name in MLPERF if not name.endswith("_datagen")))
@pytest.mark.parametrize("hosts, gib, accelerators", [(1, 16, 1), (2, 256, 16), (51, 189, 204), (64, 2048, 1024)])
def test_the_rule(shoal, name, hosts, gib, accelerators):
    # bert stops after 1000 steps, which small clusters do not have
    more = ["train.total_training_steps=-1"] if name == "bert_v100" else []
    facts = datasize(shoal, name, "--hosts", hosts, "--memory-per-host", f"{gib}G", "--accelerators", accelerators, *more)
    by_memory, by_steps = rule(name, hosts, gib, accelerators)
    _, _, samples, record, _, batch, _, step, epochs, au = MLPERF[name]
    assert (facts["files_by_memory"], facts["files_by_steps"]) == (by_memory, by_steps)
    assert facts["files"] == max(by_memory, by_steps)
    assert facts["samples"] == facts["files"] * samples
    assert facts["bytes"] == pytest.approx(facts["samples"] * record, rel=1e-12, abs=1)
    assert facts["steps_per_epoch"] == facts["samples"] // (batch * accelerators) >= 500
    assert facts["epoch_seconds"] == pytest.approx(facts["steps_per_epoch"] * step, rel=1e-8)
    assert facts["epoch_seconds_at_au"] == pytest.approx(facts["steps_per_epoch"] * step / au, rel=1e-8)
    assert facts["total_seconds"] == pytest.approx(epochs * facts["epoch_seconds"], rel=1e-8)
    assert facts["samples_per_second"] == pytest.approx(accelerators * batch / step, rel=1e-8)
    assert facts["accelerators_per_host"] == -(-accelerators // hosts)
    assert facts["memory_bytes"] == hosts * gib * GIB and facts["memory_measured"] is False


def test_the_largest_job_known_had_as_many_files(shoal):
    """160,234,914 on 51 hosts with 189 GiB each, when the rule still rounded down."""
    facts = datasize(shoal, "retinanet_b200", "--hosts", 51, "--memory-per-host", "189G", "--accelerators", 204)
    assert facts["files"] == 160234914 + 1


def test_one_gib_needs_as_many_files_as_the_rules_say(shoal):
    facts = datasize(shoal, "retinanet_b200", "--memory-per-host", "1G", "--accelerators", 1)
    assert facts["files_by_memory"] == 16624
    assert facts["files"] == 16624


def test_overrides_change_the_result(shoal):
    facts = datasize(shoal, "retinanet_b200", "reader.batch_size=1000", "--memory-per-host", "1G", "--accelerators", 10)
    assert facts["files"] == facts["files_by_steps"] == 500 * 10 * 1000
    assert facts["steps_per_epoch"] == 500


def test_folders_are_suggested_above_ten_thousand_files(shoal):
    few = datasize(shoal, "unet3d_h100", "--memory-per-host", "16G", "--accelerators", 1)
    assert (few["files"], few["subfolders"]) == (3500, 0)
    many = datasize(shoal, "retinanet_b200", "--memory-per-host", "16G", "--accelerators", 1)
    assert many["subfolders"] == -(-many["files"] // 10000) > 1
    mine = datasize(shoal, "retinanet_b200", "dataset.num_subfolders_train=7", "--memory-per-host", "16G",
                    "--accelerators", 1)
    assert mine["subfolders"] == 7
    huge = datasize(shoal, "retinanet_b200", "--hosts", 64, "--memory-per-host", "2T", "--accelerators", 64)
    assert len(huge["subfolders"]) == 2
    assert huge["files"] / (huge["subfolders"][0] * huge["subfolders"][1]) <= 10000


@pytest.mark.parametrize("gib, folders", [("6", 11), ("60", 101), ("601", 1001), ("66", 110)])
def test_numbers_of_folders_that_dlio_cannot_find_are_not_suggested(shoal, gib, folders):
    """Its generator writes folders with the digits of n, and its skip_listing looks for those of n - 1."""
    facts = datasize(shoal, "retinanet_b200", "--memory-per-host", f"{gib}G", "--accelerators", 1)
    plain = -(-facts["files"] // 10000)
    assert facts["subfolders"] == folders and plain == (folders - 1 if gib != "66" else 110)


def test_a_workload_without_a_dataset_has_no_size(shoal, fails, tmp_path):
    path = tmp_path / "llama.yaml"
    path.write_text("model: {name: llama}\nworkflow: {train: false, checkpoint: true}\n")
    for args in (["datasize", path, "--accelerators", "8"], ["datagen", path, "--data", tmp_path / "d"]):
        result = shoal(*args)
        assert result.returncode == 1 and b"neither trains nor generates data" in lines(result.stderr)[-1]
    assert not (tmp_path / "d").exists()
    path.write_text("workflow: {train: false, generate_data: true}\n")
    assert shoal("datasize", path, "--accelerators", "8").returncode == 0


def test_a_cluster_with_uneven_hosts_is_warned_about(shoal):
    args = ["datasize", "retinanet_b200", "--memory-per-host", "16G", "--hosts", 2, "--accelerators"]
    check_words(shoal(*args, 3), 0, "warning: 3 accelerators on 2 hosts: MLPerf's rule 3.3.6 requires the same number")
    assert shoal(*args, 4).stderr == b""


def test_what_it_prints_can_be_given_back(shoal):
    said = shoal.good("datasize", "retinanet_b200", "--hosts", 2, "--memory-per-host", "256G", "--accelerators", 16)
    assert b"8,511,285: five times the memory are 8,511,285, 500 steps are 192,000" in said
    give = said.split(b"give ")[1].split()
    yaml = shoal.good("workloads", "retinanet_b200", *give)
    assert b"num_files_train: 8511285\n" in yaml and b"num_subfolders_train: 852\n" in yaml


def test_memory_of_shoal_itself_grows_with_ranks_and_not_with_files(shoal):
    small = datasize(shoal, "retinanet_b200", "--memory-per-host", "1G", "--accelerators", 12)
    large = datasize(shoal, "retinanet_b200", "--memory-per-host", "512G", "--accelerators", 12)
    assert large["files"] > 50 * small["files"]
    assert large["shoal_memory_per_host"] - small["shoal_memory_per_host"] < 100000
    assert small["shoal_memory_per_host"] == 12 * small["buffer_bytes_per_rank"] + small["catalog_bytes"]
    # Nine batches of 24 files of 323 KB: eight read ahead by eight workers, and the one in use.
    assert small["buffer_bytes_per_rank"] == pytest.approx(9 * 24 * 322957, rel=0.03)
    fewer = datasize(shoal, "retinanet_b200", "reader.read_threads=2", "--memory-per-host", "1G", "--accelerators", 12)
    assert fewer["buffer_bytes_per_rank"] == pytest.approx(3 * 24 * 322957, rel=0.03)


def test_without_memory_that_of_this_host_is_measured(shoal):
    facts = datasize(shoal, "retinanet_b200", "--accelerators", 1)
    assert facts["memory_measured"] is True
    assert facts["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_file_works_as_well_as_a_name(shoal, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: {record_length_bytes: 1024}\nreader: {batch_size: 2}\n")
    facts = datasize(shoal, path, "--memory-per-host", "1M", "--accelerators", 1)
    assert (facts["files"], facts["steps_per_epoch"]) == (5120, 2560)
    assert b"as fast as the storage is" in shoal.good("datasize", path, "--memory-per-host", "1M", "--accelerators", 1)


@pytest.mark.parametrize("args, words", [
    ([], ["give a workload"]),
    (["unet3d_h100", "--accelerators", "0"], ["--accelerators must be 1"]),
    (["unet3d_h100", "--accelerators", "x"], ["not a whole number"]),
    (["unet3d_h100", "--accelerators", "8", "--hosts", "0"], ["--hosts must be 1"]),
    (["unet3d_h100", "--accelerators", "8", "--memory-per-host", "256"], ["did you leave out the G?"]),
    (["unet3d_h100", "--accelerators", "8", "--memory-per-host", "-1"], ["not a size"]),
    (["unet3d_h100", "--accelerators", "8", "--memory-per-host", "2000T"], ["1M to 1024T"]),
    (["unet3d_h100"], ["--accelerators A"]),
    (["unet3d_h100", "--accelerators", "8", "--hosts", "4"], ["--memory-per-host 256G"]),
])
def test_wrong_arguments_are_told(shoal, fails, args, words):
    fails(shoal("datasize", *args), 2, *words)


def test_what_cannot_be_is_refused(shoal, fails):
    some = ["--memory-per-host", "1G", "--accelerators", "1"]
    fails(shoal("datasize", "nonsense", *some), 2, "there is no workload")
    fails(shoal("datasize", "unet3d_h100", "train.total_training_steps=99999999", *some), 1, "but there is data for")
    fails(shoal("datasize", "unet3d_h100", "--hosts", "8", *some), 1, "each host needs at least one")
    fails(shoal("datasize", "unet3d_h100", "dataset.record_length_bytes=1", "dataset.record_length_bytes_stdev=0",
                "--hosts", "100", "--memory-per-host", "1024T", "--accelerators", "100"), 1, "10^12")
    check_words(shoal("datasize", "bert_v100", *some), 0, "warning", "not used yet: ")
