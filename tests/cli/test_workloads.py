"""The workloads that ship are MLPerf's, and a workload file says where it is wrong."""

import hashlib
import json
import os
import subprocess

import pytest
import yaml
from conftest import ROOT, binary, check_words

# name: format, files, samples a file, bytes a sample, deviation, batch, threads, seconds a step, epochs, utilisation.
MLPERF = {
    "unet3d_v100": ("npz", 168, 1, 146600628, 68341808, 4, 4, 1.3604, 5, 0.90),
    "unet3d_a100": ("npz", 168, 1, 146600628, 68341808, 7, 4, 0.636, 5, 0.90),
    "unet3d_h100": ("npz", 168, 1, 146600628, 68341808, 7, 4, 0.323, 5, 0.90),
    "unet3d_b200": ("npz", 7200, 1, 146600628, 68341808, 7, 4, 0.162, 5, 0.90),
    "retinanet_b200": ("jpeg", 1170301, 1, 322957, 0, 24, 8, 0.04755, 8, 0.85),
    "retinanet_mi355": ("jpeg", 1170301, 1, 322957, 0, 36, 8, 0.071325, 8, 0.85),
    "resnet50_v100": ("tfrecord", 1024, 1251, 114660.07, 0, 64, 8, 0.195, 5, 0.90),
    "resnet50_a100": ("tfrecord", 1024, 1251, 114660.07, 0, 400, 8, 0.435, 5, 0.90),
    "resnet50_h100": ("tfrecord", 1024, 1251, 114660.07, 0, 400, 8, 0.224, 5, 0.90),
    "cosmoflow_v100": ("tfrecord", 524288, 1, 2828486, 71311, 1, 4, 0.00936, 5, 0.90),
    "cosmoflow_a100": ("tfrecord", 524288, 1, 2828486, 71311, 1, 4, 0.00551, 5, 0.70),
    "cosmoflow_h100": ("tfrecord", 524288, 1, 2828486, 71311, 1, 4, 0.00350, 5, 0.70),
    "dlrm_b200": ("parquet", 1024, 1536000, 761, 0, 12288, 0, 0.000375, 2, 0.70),
    "dlrm_mi355": ("parquet", 1024, 1536000, 761, 0, 18432, 4, 0.0005625, 1, 0.70),
    "dlrm_datagen": ("parquet", 1024, 1536000, 761, 0, 1, 0, 0, 1, 0.90),
    "flux_b200": ("parquet", 4296, 288, 2164832, 0, 48, 8, 1.35, 1, 0.90),
    "flux_mi355": ("parquet", 4296, 288, 2164832, 0, 72, 8, 2.025, 1, 0.90),
    "flux_datagen": ("parquet", 4296, 288, 2164832, 0, 1, 0, 0, 1, 0.90),
    "bert_v100": ("tfrecord", 500, 313532, 2500, 0, 48, 1, 0.968, 1, 0.90),
}
FACTS = ("format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev", "batch", "read_threads",
         "computation_seconds", "epochs", "au")


def write(tmp_path, text):
    path = tmp_path / "my.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def resolved(output):
    """The keys of resolved YAML as {"dataset.format": "jpeg"}, read without a YAML library."""
    keys, above = {}, []
    for line in output.decode().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        key, value = line.strip().split(":", 1)
        above = above[:depth] + [key]
        if value:
            keys[".".join(above)] = value.strip().strip('"')
    return keys


# --------------------------------------------------------------------------------------------------- those that ship


def test_the_workloads_of_mlperf_ship_with_their_figures(shoal):
    found = json.loads(shoal.good("workloads", "--json"))
    assert [w["name"] for w in found] == sorted(MLPERF)
    for w in found:
        assert tuple(w[fact] for fact in FACTS) == MLPERF[w["name"]], w["name"]


# The classes of MLPerf Storage's rules, by the first 64 bits of the hash of what they fix; for those that have no class
# (v100, dlrm, flux), the hash of DLIO's own file, or of the keys that it has.
CLASSES = {
    "unet3d_v100": "657e7268f9e10a01", "unet3d_a100": "691cea309c4f2f52", "unet3d_h100": "0f3dd7a4bf6433a3",
    "unet3d_b200": "0d3ad0dec188becd", "retinanet_b200": "20c73f53486caba0", "retinanet_mi355": "66c43604eb650987",
    "resnet50_v100": "235a7706b29c660a", "resnet50_a100": "4a03838105aa5808", "resnet50_h100": "03a7be3df904e1e7",
    "cosmoflow_v100": "6c630a7c4be15fd1", "cosmoflow_a100": "b49b896e947a408b", "cosmoflow_h100": "4b7b36339a2a5b0d",
    "bert_v100": "bf9d518c364d89cc",
    "dlrm_b200": "844d7654f6cc8af5", "dlrm_mi355": "87d4928cdb468a7f", "dlrm_datagen": "bfe27bfb77c2b2e7",
    "flux_b200": "6ed017e93211fc2a", "flux_mi355": "6922bdb04d612efa", "flux_datagen": "8241c613b587a902",
}
HASHED = {"framework", "metric.au", "dataset.format", "dataset.num_samples_per_file", "reader.data_loader",
          "reader.batch_size", "reader.file_shuffle", "reader.sample_shuffle", "reader.shuffle_size", "train.epochs",
          "train.computation_time", "train.computation_time_stdev", "train.total_training_steps"}
HASHED_SECTIONS = ("model.", "workflow.", "checkpoint.", "dataset.record_length")


def flat(tree, above=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def plain(value):
    """Texts of booleans and numbers are these; a number without a fraction is an integer."""
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        for kind in (int, float):
            try:
                value = kind(value)
                break
            except ValueError:
                pass
    return int(value) if isinstance(value, float) and value.is_integer() else value


def comparability_hash(text):
    """core-config-v1 of mlpstorage, for training."""
    tree = yaml.safe_load(text)
    keys = {key: plain(value) for key, value in flat(tree.get("workload", tree))
            if (key in HASHED or key.startswith(HASHED_SECTIONS)) and key != "checkpoint.checkpoint_folder"}
    return hashlib.sha256(json.dumps(keys, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", sorted(MLPERF))
def test_each_is_of_the_class_of_the_same_name(name):
    assert comparability_hash((ROOT / "workloads" / f"{name}.yaml").read_text()) == CLASSES[name]


def test_a_run_is_of_its_class_until_something_that_counts_is_changed(shoal, tmp_path):
    args = ["run", "retinanet_b200", "--data", "null", "-q", "dataset.num_files_train=24", "reader.read_threads=2"]
    for name, more, same in [("a", [], True), ("b", ["train.epochs=1"], False)]:
        shoal(*args, *more, "--direct", "--results", tmp_path / name)
        assert (comparability_hash((tmp_path / name / "config.yaml").read_text()) == CLASSES["retinanet_b200"]) is same


@pytest.mark.parametrize("text", [
    "reader: {multiprocessing_context: spawn, computation_threads: 8, dont_use_mmap: true}",
    "model: {name: unet3d, type: cnn, model_size: 499153191}\nworkflow: {train: true, checkpoint: true}\n"
    "checkpoint: {checkpoint_folder: c, checkpoint_after_epoch: 5, epochs_between_checkpoints: 2}",
])
def test_keys_of_mlperfs_files_are_no_reason_for_a_warning(shoal, tmp_path, text):
    result = shoal("workloads", write(tmp_path, text))
    assert (result.returncode, result.stderr) == (0, b"")


def test_the_list_has_a_line_for_each(shoal):
    said = shoal.good("workloads").decode().splitlines()
    assert [line.split()[0] for line in said] == ["workload", *sorted(MLPERF)]
    assert max(map(len, said)) < 80


@pytest.mark.parametrize("name", sorted(MLPERF))
def test_each_is_printed_resolved_and_loads_to_the_same(shoal, tmp_path, name):
    result = shoal("workloads", name)
    assert result.returncode == 0
    # Only bert asks for something that is not there yet: reads of another size.
    assert (b"not used yet: reader.transfer_size\n" in result.stderr) == (name == "bert_v100")
    assert result.stderr == b"" or name == "bert_v100"
    again = shoal("workloads", write(tmp_path, result.stdout))
    assert (again.returncode, again.stdout) == (0, result.stdout)
    assert resolved(result.stdout)["dataset.format"] == MLPERF[name][0]


def test_a_model_may_be_its_name_alone(shoal, tmp_path):
    for model in ("unet3d", "'7'"):
        result = shoal("workloads", write(tmp_path, f"model: {model}\nreader: {{multiprocessing_context: fork}}\n"))
        assert (result.returncode, result.stderr) == (0, b"")
        assert resolved(result.stdout)["model.name"] == model.strip("'")
    result = shoal("workloads", write(tmp_path, "model: unet3d\n"), "model.name=other")
    assert resolved(result.stdout)["model.name"] == "other"


def test_shuffles_are_those_of_mlperf(shoal):
    for name in MLPERF:
        keys = resolved(shoal("workloads", name).stdout)
        want = "off" if name.startswith("resnet50") or name == "cosmoflow_v100" else "seed"
        rows = name.startswith(("dlrm", "flux"))  # row groups are read in order
        both = (("off" if name.endswith("_datagen") else "seed"), "off") if rows else (want, want)
        assert (keys["reader.file_shuffle"], keys["reader.sample_shuffle"]) == both, name
        assert keys["train.seed_change_epoch"] == ("false" if name == "bert_v100" else "true")


def test_the_files_in_the_tree_are_those_of_the_build(shoal):
    shipped = {path.stem for path in (ROOT / "workloads").glob("*.yaml")}
    assert shipped == set(MLPERF)
    listed = (ROOT / "workloads" / "meson.build").read_text()
    assert all(f"'{name}'" in listed for name in shipped), "a workload that is not installed"


def test_another_folder_of_workloads_can_be_named(shoal, tmp_path):
    (tmp_path / "mine.yaml").write_text("dataset: {num_files_train: 77}\n")
    (tmp_path / "not a workload.txt").write_text("x")
    environment = dict(os.environ, SHOAL_WORKLOADS=str(tmp_path))
    found = json.loads(shoal.good("workloads", "--json", env=environment))
    assert [(w["name"], w["files"]) for w in found] == [("mine", 77)]
    assert json.loads(shoal.good("workloads", "mine", "--json", env=environment))["files"] == 77


def test_a_folder_of_workloads_that_is_not_there_is_told(shoal, tmp_path, fails):
    for where in (tmp_path / "no", write(tmp_path, "x")):
        fails(shoal("workloads", env=dict(os.environ, SHOAL_WORKLOADS=str(where))), 1, "SHOAL_WORKLOADS", str(where))


def test_a_bad_workload_does_not_hide_the_others(shoal, tmp_path):
    (tmp_path / "a.yaml").write_text("dataset: [\n")
    (tmp_path / "b.yaml").write_text("{}\n")
    result = shoal("workloads", env=dict(os.environ, SHOAL_WORKLOADS=str(tmp_path)))
    check_words(result, 1, "a:2:1")
    assert [line.split()[0] for line in result.stdout.splitlines()] == [b"workload", b"b"]
    (tmp_path / "c.yaml").write_text("{}\n")
    result = shoal("workloads", "--json", env=dict(os.environ, SHOAL_WORKLOADS=str(tmp_path)))
    check_words(result, 1, "a:2:1")
    assert [one["name"] for one in json.loads(result.stdout)] == ["b", "c"]


@pytest.mark.parametrize("name, words", [
    ("retinanet", ["did you mean retinanet_b200, retinanet_mi355?"]),
    ("retinanet_b20", ["did you mean retinanet_b200?"]),
    ("frobnicate", ["there is no workload 'frobnicate'", "'shoal workloads' lists"]),
    ("dlrm_b20", ["did you mean", "dlrm_b200"]),
    ("flux", ["did you mean", "flux_b200", "flux_mi355"]),
    ("./none.yaml", ["cannot open './none.yaml': No such file"]),
    ("none.yaml", ["cannot open 'none.yaml'"]),
    ("/", ["Is a directory"]),
])
def test_a_workload_that_is_not_there_is_told(shoal, fails, name, words):
    """A word that is none of those known is a wrong command line, as a KEY is; a file that is not there is a failure."""
    named = "/" not in name and not name.endswith(".yaml")
    fails(shoal("workloads", name), 2 if named else 1, *words)


# -------------------------------------------------------------------------------------------------------------- files


def test_overrides_change_what_is_printed(shoal):
    keys = resolved(shoal.good("workloads", "unet3d_h100", "dataset.num_files_train=5000",
                               "++workload.reader.batch_size=3", "+workload.train.epochs=2", "workload.metric.au=0.5",
                               "dataset.num_subfolders_train=[10,100]"))
    assert keys["dataset.num_files_train"] == "5000"
    assert keys["reader.batch_size"] == "3"
    assert keys["train.epochs"] == "2"
    assert keys["metric.au"] == "0.5"
    assert keys["dataset.num_subfolders_train"] == "[10, 100]"
    assert keys["train.computation_time"] == "0.323"


@pytest.mark.parametrize("text, words", [
    ("dataset:\n  num_files_train: [1\n", ["my.yaml:3:1", "not valid YAML"]),
    ("dataset:\n\tformat: npz\n", ["my.yaml:2:1", "tab"]),
    ("dataset:\n  num_files_train: -5\n", ["my.yaml:2:3", "dataset.num_files_train", "not '-5'"]),
    ("dataset:\n  record_length_bytes: -1\n", ["my.yaml:2:3", "dataset.record_length_bytes", "not '-1'"]),
    ("dataset:\n  num_files_train: lots\n", ["my.yaml:2:3", "whole number", "not 'lots'"]),
    ("dataset:\n  format: hdf5_opt\n", ["my.yaml:2:3", "hdf5_opt is not supported"]),
    ("train: {computation_time: -0.5}\n", ["my.yaml:1:9", "train.computation_time"]),
    ("", ["my.yaml", "empty"]),
    (b"\x00", ["my.yaml:1:1", "not valid YAML"]),
    (b"\xff\xfea\x00:\x00", ["my.yaml:1:1", "not valid YAML"]),
    (b"a: b\nc: \xc3\x28\n", ["my.yaml:2:4", "not valid YAML"]),
])
def test_a_bad_file_is_told_with_line_and_column(shoal, tmp_path, fails, text, words):
    fails(shoal("workloads", write(tmp_path, text)), 1, *words)


def test_misspelt_keys_are_a_warning_with_the_right_one(shoal, tmp_path):
    result = shoal("workloads", write(tmp_path, "dataset:\n  num_file_train: 5\nreader:\n  file_shuffle: off\n"))
    check_words(result, 0, "warning", "my.yaml:2:3", "did you mean dataset.num_files_train?")
    assert resolved(result.stdout)["dataset.num_files_train"] == "8"


def test_misspelt_overrides_are_an_error(shoal, fails):
    fails(shoal("workloads", "unet3d_h100", "dataset.num_file_train=5"), 2, "did you mean dataset.num_files_train?")
    fails(shoal("workloads", "unet3d_h100", "num_files_train"), 2, "section.key=value")


def test_secrets_in_a_file_are_not_printed(shoal, tmp_path):
    path = write(tmp_path, "storage: {storage_options: {secret_access_key: hush, region: here}}\n")
    result = shoal("workloads", path, "storage.storage_options.access_key_id=hush")
    assert result.returncode == 0
    assert b"hush" not in result.stdout + result.stderr
    assert b"here" in result.stdout


def test_a_list_that_nobody_reads_is_an_error(shoal):
    with open("/dev/full", "wb") as full:
        check_words(shoal("workloads", stdout=full), 1, "No space left")


def test_options_that_are_none_are_told(shoal, fails):
    fails(shoal("workloads", "--frobnicate"), 2, "unknown option '--frobnicate'")


FAIL_NTH_MALLOC = r"""
#include <errno.h>
#include <stdlib.h>
void *__libc_malloc(size_t size);
void *malloc(size_t size)
{
	static int left = -1;
	if (left < 0)
		left = atoi(getenv("FAIL_NTH"));
	if (left > 0 && --left == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}
"""


def test_memory_that_fails_never_makes_another_workload(shoal, tmp_path):
    """Of the program or of its libraries. libfyaml crashes at some; what must not be is success with other values."""
    if b"libasan" in subprocess.run(["ldd", binary()], capture_output=True).stdout:
        pytest.skip("the address sanitizer has a malloc of its own")
    (tmp_path / "fail.c").write_text(FAIL_NTH_MALLOC)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "fail.so", tmp_path / "fail.c"], check=True)
    env = dict(os.environ, LD_PRELOAD=str(tmp_path / "fail.so"))

    def workload(nth):
        return shoal("workloads", "retinanet_b200", "dataset.num_files_train=5", env=dict(env, FAIL_NTH=str(nth)))

    whole = workload(0)
    assert whole.returncode == 0
    failed = 0
    for nth in range(1, 320):  # more than there are
        result = workload(nth)
        failed += result.returncode != 0
        if result.returncode == 0:
            assert result.stdout == whole.stdout, nth
        elif result.returncode > 0:
            assert result.returncode == 1 and b"\nshoal workloads: " in b"\n" + result.stderr, nth
    assert failed > 50
