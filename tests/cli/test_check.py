"""Results as a tree for mlpstorage, and shoal check, which says what its submission checker would refuse.

Each way to break a tree has the rules that the checker of mlpstorage 3.0.26 was seen to name. Where SHOAL_MLPSTORAGE names a
checkout of mlcommons/storage, 3.0 or newer, that checker is run on the same trees; SHOAL_MLPSTORAGE_PYTHON is a Python that has
PyYAML and pydantic."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import contents, lines, wait_until_it_sleeps

LAYOUT = ["--results-layout", "mlpstorage", "--system", "box", "--organization", "acme"]
CHECKOUT = os.environ.get("SHOAL_MLPSTORAGE", "")
TIMES = ["20261118_0800%02d" % (10 * i) for i in range(6)]

WORKLOAD = """
model: {name: unet3d, type: cnn, model_size: 499153191}
framework: pytorch
workflow: {generate_data: false, train: true, checkpoint: false}
dataset: {format: npz, num_files_train: 8, num_samples_per_file: 1, record_length_bytes: 1000}
reader: {batch_size: 4, read_threads: 2, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 1, computation_time: 0.001}
metric: {au: 0.0}
"""

DESCRIPTION = {"system_under_test": {
    "solution": {"submission_name": "box", "friendly_description": "a box",
                 "architecture": {"storage_location": "local", "benchmark_API": "file", "product_API": "block",
                                  "client_footprint": "open_source", "client_installation": "in_box"},
                 "capabilities": {"multi_host": False, "simultaneous_write": False, "simultaneous_read": False, "remap_time_in_seconds": 30}},
    "deployment": "onprem", "total_rack_units": 0,
    "clients": [{"friendly_description": "client", "quantity": 1,
                 "chassis": {"model_name": "M", "rack_units": 1, "cpu_model": "C", "cpu_qty": 1, "cpu_cores": 2, "memory_capacity": 16,
                             "power": {"min_psus_active": 1, "psus_configured": [
                                 {"nameplate_power_watts": 500, "inlet_voltage": 120, "efficiency": "Platinum", "unit_count": 1}]}},
                 "drives": [{"vendor_name": "V", "model_name": "D", "interface": "nvme", "media_type": "TLC", "capacity_in_GB": 8000,
                             "unit_count": 1, "performance": {"seq_read_MBps": 1, "seq_write_MBps": 1, "random_read_IOPS": 1,
                                                              "random_write_IOPS": 1, "form_factor": "U.2",
                                                              "interface_speed": "PCIe Gen5 x4"}}],
                 "networking": [{"unit_count": 1, "type": "ethernet", "state": "up", "speed": 1, "traffic": ["management"]}],
                 "operating_system": {"name": "Debian", "version": "12"},
                 "environment": [{"name": "MPI", "value": "Open MPI 4.1.4"}]}]}}


def edit(path, change):
    """Change a JSON file by a function of its content."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def metadata(leaf):
    found, = leaf.glob("training_*_metadata.json")
    return found


class Tree:
    def __init__(self, root, division="closed"):
        self.root = root
        self.organization = root / division / "acme"
        self.model = self.organization / "results" / "box" / "training" / "unet3d"

    def runs(self):
        return sorted(path for path in (self.model / "run").iterdir() if path.is_dir())

    @property
    def datagen(self):
        found, = (self.model / "datagen").iterdir()
        return found


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A tree with the leaf of a real datagen, and that of a real run."""
    from conftest import Shoal

    shoal, folder = Shoal(tmp_path_factory.mktemp("catalogs")), tmp_path_factory.mktemp("tree")
    (folder / "small.yaml").write_text(WORKLOAD)
    shoal.good("datagen", folder / "small.yaml", "--data", folder / "data", "-q", "--results", folder / "tree", *LAYOUT)
    shoal.good("run", folder / "small.yaml", "--data", folder / "data", "-q", "--results", folder / "tree", *LAYOUT,
               "++workload.reader.read_threads=1", "dataset.num_files_train=8")
    return Tree(folder / "tree")


def enlarge(parameters):
    """What the rules ask for: 16 GiB of memory, five times as much data."""
    parameters["dataset"].update(num_files_train=90000, record_length_bytes=1000000)


@pytest.fixture
def tree(one, tmp_path):
    return six_runs(one, tmp_path / "tree")


def six_runs(one, root):
    """The same with six runs in a row, as large as the rules ask for, and all that the user has to add."""
    shutil.copytree(one.root, root)
    tree = Tree(root)
    first, = tree.runs()
    for number, name in enumerate(TIMES):
        leaf = tree.model / "run" / name
        shutil.copytree(first, leaf)
        metadata(leaf).rename(leaf / ("training_%s_metadata.json" % name))
        edit(metadata(leaf), lambda m, name=name: (enlarge(m["parameters"]), m["args"].update(data_dir="/somewhere"), m.update(run_datetime=name)))
        edit(leaf / "summary.json", lambda s, at=10 * number: s.update(
            start="2026-11-18T08:00:%02d.5" % at, end="2026-11-18T08:00:%02d" % (at + 9), host_memory_GB=[15.6]))
        log = leaf / "training_run.stdout.log"
        log.write_text(re.sub(r"(Mounted on\n)(.*\n)+?\n", r"\1/dev/a 1 1 1 1% /\n/dev/b 1 1 1 1% /somewhere\n\n", log.read_text()))
    shutil.rmtree(first)
    edit(metadata(tree.datagen), lambda m: enlarge(m["parameters"]))
    (tree.organization / "systems" / "box.yaml").write_text(yaml.safe_dump(DESCRIPTION))
    (tree.organization / "systems" / "box.pdf").write_bytes(b"%PDF-1.4\n")
    return tree


def said(shoal, tree, *options):
    """The rules that shoal check names; its status must fit."""
    done = shoal("check", tree.root, "--json", *options)
    found = [json.loads(line) for line in lines(done.stdout)]
    assert done.returncode == (1 if found else 0), done.stderr
    assert all(set(one) == {"rule", "path", "why"} and one["why"] for one in found)
    return {one["rule"] for one in found}


def refused(tree):
    """The rules that the real checker names in its errors."""
    done = subprocess.run([os.environ.get("SHOAL_MLPSTORAGE_PYTHON", sys.executable), "-m", "mlpstorage_py.submission_checker.main",
                           "--input", str(tree.root), "--csv", str(tree.root.parent / "s.csv")], cwd=CHECKOUT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    rules = set(re.findall(r"^\[ERROR\] \[([0-9.]+) ", done.stdout, re.M))
    assert ("submission looks OK" in done.stdout) == (done.returncode == 0) == (not rules), done.stdout[-3000:]
    return rules


# ---------------------------------------------------------------------------------------------------- what is written


def test_a_run_becomes_a_leaf_with_all_files_that_the_checker_asks_for(one):
    leaf, = one.runs()
    assert re.fullmatch(r"\d{8}_\d{6}", leaf.name)
    assert contents(leaf / "dlio_config") == ["config.yaml", "hydra.yaml", "overrides.yaml"]
    assert {"training_run.stdout.log", "training_run.stderr.log", "dlio.log", "summary.json", "0_output.json", "0_per_epoch_stats.json",
            "provenance.json", f"training_{leaf.name}_metadata.json"} <= set(contents(leaf))
    found = json.loads(metadata(leaf).read_text())
    assert found["parameters"]["dataset"]["record_length_bytes"] == 1000 and found["parameters"]["workflow"]["train"] is True
    assert found["override_parameters"] == {"reader.read_threads": "1", "dataset.num_files_train": "8"}
    assert found["args"]["results_dir"] == str(one.root) and found["args"]["hosts"] and found["command"] == "run"
    assert yaml.safe_load((leaf / "dlio_config" / "config.yaml").read_text())["workload"]["reader"]["read_threads"] == 1
    assert yaml.safe_load((leaf / "dlio_config" / "overrides.yaml").read_text())[1:] == [
        "++workload.reader.read_threads=1", "++workload.dataset.num_files_train=8"]
    assert yaml.safe_load((leaf / "dlio_config" / "hydra.yaml").read_text())["hydra"]["run"]["dir"] == [str(leaf)]
    row, = json.loads((leaf.parent / "results.json").read_text())
    assert row["run_datetime"] == leaf.name and row["train_au_meet_expectation"] == "success"
    assert re.search(r"^Filesystem\s+\S+\s+Used\s+Avail\w*\s+Use%\s+Mounted on\n\S+ +\d+ ", (leaf / "training_run.stdout.log").read_text(), re.M)


def test_every_place_says_that_it_is_no_submission(one):
    leaf, = one.runs()
    stamp = json.loads((leaf / "provenance.json").read_text())
    assert stamp["tool"]["name"] == "shoal" and "no submission" in stamp["notes"] and None not in stamp.values()
    assert stamp["schema"] == "mlps-run-provenance/1" and set(stamp["provenance"]) == {
        "rules_edition", "layout_version", "tool", "dlio", "storage_library", "core_config"}
    for text in (one.root / "NOT-A-SUBMISSION.txt", leaf / "dlio.log", leaf / "training_run.stdout.log", metadata(leaf)):
        assert "not the code of MLPerf Storage" in text.read_text()


def test_the_hash_of_the_code_is_the_md5_of_its_paths_and_contents(one):
    code = one.organization / "code"
    expected = hashlib.md5(b"SHOAL.txt" + (code / "SHOAL.txt").read_bytes()).hexdigest()
    assert json.loads((code / ".code-hash.json").read_text())["hash"] == expected


@pytest.mark.parametrize("workload, files, override, core", [
    ("unet3d_b200", 7, "reader.read_threads=3", "0d3ad0dec188becd"), ("retinanet_b200", 24, "reader.read_threads=3", "20c73f53486caba0"),
    ("retinanet_mi355", 36, "reader.prefetch_size=1", "66c43604eb650987"), ("resnet50_a100", 1, "reader.read_threads=3", "4a03838105aa5808"),
    ("cosmoflow_h100", 4, "reader.read_threads=3", "4b7b36339a2a5b0d"), ("retinanet_b200", 24, "train.epochs=1", None)])
def test_the_hash_of_the_configuration_is_upstreams_unless_a_key_that_counts_is_changed(shoal, tmp_path, workload, files, override, core):
    shoal("run", workload, "--data", "null", "--results", tmp_path, *LAYOUT, "-q", "dataset.num_files_train=%d" % files, override)
    stamp, = tmp_path.glob("closed/acme/results/box/training/*/run/*/provenance.json")
    found = json.loads(stamp.read_text())["core_config"]["hash"]
    assert found == core if core else re.fullmatch("[0-9a-f]{16}", found) and found != "20c73f53486caba0"


def test_several_runs_in_a_row_get_a_leaf_each(shoal, one, tmp_path):
    done = shoal("run", one.root.parent / "small.yaml", "--data", one.root.parent / "data", "--results", tmp_path, *LAYOUT, "--runs", "2")
    tree = Tree(tmp_path)
    assert done.returncode == 0 and len(tree.runs()) == 2 and b"run 2 of 2" in done.stderr
    assert [row["run_datetime"] for row in json.loads((tree.model / "run" / "results.json").read_text())] == [leaf.name for leaf in tree.runs()]


def test_newer_rules_get_a_leaf_of_datasize(shoal, one, tmp_path):
    shoal.good("run", one.root.parent / "small.yaml", "--data", one.root.parent / "data", "-q", "--results", tmp_path,
               "--results-layout", "mlpstorage-2026-09", "--system", "box")
    leaf, = tmp_path.glob("closed/unknown/results/box/training/unet3d/datasize/*")
    assert json.loads(metadata(leaf).read_text())["command"] == "datasize"


def test_an_interrupted_run_is_not_taken_for_a_whole_one(shoal, one, tmp_path):
    process = shoal.start("run", one.root.parent / "small.yaml", "--data", one.root.parent / "data", "--results", tmp_path, *LAYOUT, "-q",
                          "train.computation_time=5")
    wait_until_it_sleeps(process)
    process.terminate()
    _, words = process.communicate(timeout=60)
    assert process.returncode != 0 and (b"remove that directory" in words or b"nothing was measured" in words)
    assert not list(tmp_path.glob("**/*_metadata.json"))


def test_a_run_that_never_began_leaves_no_leaf(shoal, tmp_path):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    done = shoal("run", tmp_path / "small.yaml", "--data", tmp_path / "nothing", "--results", tmp_path / "tree", *LAYOUT)
    assert done.returncode == 1 and not list((tmp_path / "tree").glob("**/run/*"))


# ---------------------------------------------------------------------------------------------------- what is refused


def move(path, name):
    path.rename(path.with_name(name))


BROKEN = {
    "nothing": (set(), lambda t: None),
    "another directory at the top": ({"2.1.2"}, lambda t: (t.root / "more").mkdir()),
    "the tree is one level deeper": ({"2.1.2"}, lambda t: move(t.root / "closed", "submission")),
    "no code": ({"2.1.5", "2.1.6"}, lambda t: shutil.rmtree(t.organization / "code")),
    "the code was changed": ({"2.1.6", "3.6.1"}, lambda t: (t.organization / "code" / "more.txt").write_text("x")),
    "no hash of the code": ({"2.1.6", "3.6.1"}, lambda t: (t.organization / "code" / ".code-hash.json").unlink()),
    "no description of the system": ({"2.1.7", "2.1.8"}, lambda t: (t.organization / "systems" / "box.yaml").unlink()),
    "no page on the system": ({"2.1.7", "2.1.8"}, lambda t: (t.organization / "systems" / "box.pdf").unlink()),
    "a system of another name": ({"2.1.8"}, lambda t: (t.organization / "systems" / "box.yaml").write_text(
        yaml.safe_dump(DESCRIPTION).replace("submission_name: box", "submission_name: other"))),
    "a stray file beside the systems": ({"2.1.7"}, lambda t: (t.organization / "systems" / "x.txt").write_text("")),
    "two hosts in the summary": ({"2.1.9", "3.3.6", "3.1.2"}, lambda t: edit(t.runs()[2] / "summary.json", lambda s: s.update(num_hosts=2))),
    "another memory than described": ({"2.1.9"}, lambda t: edit(t.runs()[0] / "summary.json", lambda s: s.update(host_memory_GB=[8]))),
    "another kind of benchmark": ({"2.1.10"}, lambda t: (t.model.parents[1] / "other").mkdir()),
    "another model": ({"2.1.11"}, lambda t: move(t.model, "resnet50")),
    "a leaf of datasize": ({"2.1.12"}, lambda t: (t.model / "datasize").mkdir()),
    "no datagen": ({"2.1.12"}, lambda t: shutil.rmtree(t.model / "datagen")),
    "two of datagen": ({"2.1.13"}, lambda t: shutil.copytree(t.datagen, t.model / "datagen" / "20261118_075959")),
    "datagen without its log": ({"2.1.14"}, lambda t: (t.datagen / "dlio.log").unlink()),
    "datagen without metadata": ({"2.1.14"}, lambda t: metadata(t.datagen).unlink()),
    "a stray file in datagen's configuration": ({"2.1.15"}, lambda t: (t.datagen / "dlio_config" / "x").write_text("")),
    "no results.json": ({"2.1.16"}, lambda t: (t.model / "run" / "results.json").unlink()),
    "five runs": ({"2.1.17"}, lambda t: shutil.rmtree(t.runs()[5])),
    "a run that is named otherwise": ({"2.1.17", "2.1.18"}, lambda t: move(t.runs()[5], "last")),
    "a pause before the last run": ({"2.1.18"}, lambda t: move(t.runs()[5], "20261118_090000")),
    "a run without its output": ({"2.1.19"}, lambda t: (t.runs()[1] / "0_output.json").unlink()),
    "a run without its log": ({"2.1.19"}, lambda t: (t.runs()[1] / "dlio.log").unlink()),
    "a run without a summary": ({"2.1.18", "2.1.19"}, lambda t: (t.runs()[1] / "summary.json").unlink()),
    "a run without its configuration": ({"2.1.19", "2.1.20"}, lambda t: shutil.rmtree(t.runs()[1] / "dlio_config")),
    "too few files": ({"3.1.2"}, lambda t: edit(metadata(t.runs()[0]), lambda m: m["parameters"]["dataset"].update(num_files_train=80000))),
    "less data than is read": ({"3.2.1"}, lambda t: edit(metadata(t.datagen), lambda m: m["parameters"]["dataset"].update(num_files_train=8))),
    "no number of files": ({"3.3.1"}, lambda t: edit(t.runs()[0] / "summary.json", lambda s: s.pop("num_files_eval"))),
    "a low AU": ({"3.3.2"}, lambda t: edit(t.runs()[3] / "summary.json", lambda s: s["metric"].update(train_au_meet_expectation="fail"))),
    "no place of the data": ({"3.4.1"}, lambda t: edit(metadata(t.runs()[0]), lambda m: m["args"].pop("data_dir"))),
    "data and results on one disk": ({"3.4.2"}, lambda t: edit(metadata(t.runs()[0]), lambda m: m["args"].update(data_dir="/elsewhere"))),
    "a key that CLOSED does not allow": ({"3.6.2"}, lambda t: edit(metadata(t.runs()[0]), lambda m: m["override_parameters"].update(
        {"train.epochs": "5"}))),
    "a key that OPEN does not allow": ({"3.6.3"}, lambda t: edit(metadata(t.runs()[0]), lambda m: (
        m.update(verification="open"), m["override_parameters"].update({"train.epochs": "5", "reader.data_loader": "x"})))),
}
# The checker has these under two numbers, or the loss of a file hides what depends on it; Shoal has one finding.
OTHERWISE = {"no code": {"2.1.5", "2.1.6"}, "the code was changed": {"2.1.6"}, "no hash of the code": {"2.1.6"},
             "no datagen": {"2.1.12"}, "a run that is named otherwise": {"2.1.17"}, "two hosts in the summary": {"2.1.9", "3.1.2", "3.3.6"}}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_tree_is_refused_by_the_rules_that_it_breaks(shoal, tree, what):
    rules, broken = BROKEN[what]
    broken(tree)
    assert said(shoal, tree) == OTHERWISE.get(what, rules)
    if CHECKOUT:
        assert refused(tree) == rules


@pytest.mark.skipif(not CHECKOUT, reason="no mlpstorage: git clone https://github.com/mlcommons/storage, then SHOAL_MLPSTORAGE=that folder")
def test_the_real_report_generator_takes_the_tree(tree):
    done = subprocess.run([os.environ.get("SHOAL_MLPSTORAGE_PYTHON", sys.executable), "-m", "mlpstorage_py.main", "reports", "reportgen",
                           "--results-dir", str(tree.root), "--systemname", "box"], cwd=tree.root.parent,
                          env=dict(os.environ, PYTHONPATH=CHECKOUT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert all(name in done.stdout for name in TIMES), done.stdout[-3000:]


def test_findings_are_lines_with_rule_place_and_reason(shoal, tree):
    (tree.runs()[1] / "dlio.log").unlink()
    done = shoal("check", str(tree.root) + "/")
    assert done.returncode == 1
    assert lines(done.stdout) == [b"2.1.19 closed/acme/results/box/training/unet3d/run/20261118_080010: there is no file 'dlio.log'"]
    assert lines(done.stderr) == [b"shoal check: the checker would refuse '%s': 1 finding" % os.fsencode(tree.root)]
    tree.runs()[1].joinpath("dlio.log").write_text("")
    assert shoal.good("check", tree.root) == b"nothing that the checker would refuse\n"


# ---------------------------------------------------------------------------------------------------- newer rules


@pytest.fixture(scope="module")
def one_newer(tmp_path_factory):
    """What the newer layout makes of a datagen and a run."""
    from conftest import Shoal

    shoal, folder = Shoal(tmp_path_factory.mktemp("catalogs")), tmp_path_factory.mktemp("tree")
    (folder / "small.yaml").write_text(WORKLOAD)
    options = ["--data", folder / "data", "-q", "--results", folder / "tree", "--results-layout", "mlpstorage-2026-09", *LAYOUT[2:]]
    shoal.good("datagen", folder / "small.yaml", *options)
    shoal.good("run", folder / "small.yaml", *options)
    return Tree(folder / "tree")


@pytest.fixture
def newer(one_newer, tmp_path):
    """Six of these runs, of a workload that has a class."""
    tree = six_runs(one_newer, tmp_path / "newer")
    for leaf in tree.runs():
        edit(metadata(leaf), lambda m: m.update(accelerator="b200"))
        edit(leaf / "provenance.json", lambda p: p["core_config"].update(hash="0d3ad0dec188becd"))
    return tree


def test_newer_trees_share_their_code_and_each_leaf_names_it(one_newer):
    code, = (one_newer.root / "code-images").glob("code-*")
    digest = json.loads((code / ".code-hash.json").read_text())["hash"]
    assert digest == hashlib.md5(b"SHOAL.txt" + (code / "SHOAL.txt").read_bytes()).hexdigest() and code.name == "code-" + digest[:8]
    assert (one_newer.root / "code-images" / ".mlps-image-pool").exists() and contents(one_newer.organization) == ["results", "systems"]
    leaves = [path for phase in ("datasize", "datagen", "run") for path in (one_newer.model / phase).iterdir() if path.is_dir()]
    assert len(leaves) == 3
    for leaf in leaves:
        assert (leaf / ".mlps-code-image").read_text() == "md5-tree-v2:%s\n" % digest
        assert json.loads((leaf / "provenance.json").read_text())["tool"]["code_image"] == "md5-tree-v2:" + digest


def image(tree):
    found, = (tree.root / "code-images").glob("code-*")
    return found


def stamp(number, change):
    return lambda t: edit(t.runs()[number] / "provenance.json", change)


def point(tree, text):
    (tree.runs()[3] / ".mlps-code-image").write_text(text)


def manifest(tree, change=lambda m: None):
    """submission.yaml as mlpstorage's report generator writes it."""
    leaves = sorted(str(path.relative_to(tree.organization)) for path in tree.organization.glob("results/*/*/*/*/*") if path.is_dir())
    found = {"schema": "mlps-submission-manifest/1", "orgname": "acme", "mode": "closed", "rules_edition": "3.0", "layout_version": 3,
             "runs": [{"leaf": leaf, "benchmark": "training", "model": "unet3d", "rules_edition": "3.0"} for leaf in leaves]}
    change(found)
    (tree.organization / "submission.yaml").write_text(yaml.safe_dump(found, sort_keys=False))
    return leaves


def tables(tree, whole, part):
    """The table of the organization, and that of the workload."""
    for folder, names in (tree.organization / "results", whole), (tree.model / "run", part):
        (folder / "results.json").write_text(json.dumps([{"Public ID": name, "au": 99.5} for name in names]))


def stray(path):
    path.mkdir(parents=True)
    return path


# As upstream's checker of September 2026 has them, by its text: it was not there as a whole.
NEWER = {
    "nothing": (set(), lambda t: None),
    "a list of all leaves": (set(), manifest),
    "a list without one leaf": ({"PROV-02"}, lambda t: manifest(t, lambda m: m["runs"].pop())),
    "a list with a leaf that is gone": ({"PROV-02"}, lambda t: manifest(t, lambda m: m["runs"].append({"leaf": "results/box/gone"}))),
    "a list that names no leaf": ({"PROV-02"}, lambda t: manifest(t, lambda m: m["runs"].append({}))),
    "a list that is none": ({"PROV-02"}, lambda t: manifest(t, lambda m: m.update(runs=None))),
    "a list of another kind": ({"PROV-02"}, lambda t: manifest(t, lambda m: m.update(schema="mlps-submission-manifest/2"))),
    "a list of another edition": ({"PROV-02"}, lambda t: manifest(t, lambda m: m.update(rules_edition="2.0"))),
    "a list with an edition that is a number": ({"PROV-02"}, lambda t: manifest(t, lambda m: m.update(rules_edition=3.0))),
    "a list without an edition": ({"PROV-02"}, lambda t: manifest(t, lambda m: m.pop("rules_edition"))),
    "a list of an edition that there is not": ({"PROV-02", "EDN-01"}, lambda t: manifest(t, lambda m: m.update(rules_edition="9.9"))),
    "a leaf whose model has no phases": ({"2.1.12"}, lambda t: (manifest(t), stray(t.model / "20261118_080000"))),
    "a leaf of another benchmark": ({"PROV-02"}, lambda t: (manifest(t), stray(t.model.parents[1] / "checkpointing" / "llama3-8b" / "20261118_080000"))),
    "links that lead back": (set(), lambda t: (manifest(t), [(t.runs()[0] / ("l%d" % i)).symlink_to(".") for i in range(60)])),
    "tables that agree": (set(), lambda t: tables(t, ["a", "b", ""], ["b", "a", "a"])),
    "a run that is in the first table alone": ({"RPT-01"}, lambda t: tables(t, ["a", "b"], ["a"])),
    "a run that is not in the first table": ({"RPT-01"}, lambda t: tables(t, ["a"], ["a", "b"])),
    "no table of the organization": (set(), lambda t: (tables(t, [], ["a"]), (t.organization / "results" / "results.json").unlink())),
    "a table that is no list": ({"RPT-01"}, lambda t: (t.organization / "results" / "results.json").write_text("{}")),
    "a pool of the organization": (set(), lambda t: move(t.root / "code-images", "acme")),
    "code beside the results": ({"2.1.5", "CHECK-04"}, lambda t: shutil.copytree(image(t), t.organization / "code")),
    "another directory at the top": ({"2.1.2"}, lambda t: (t.root / "more").mkdir()),
    "no pool": ({"CHECK-01"}, lambda t: shutil.rmtree(t.root / "code-images")),
    "no mark of the pool": ({"CHECK-01", "CHECK-04"}, lambda t: (t.root / "code-images" / ".mlps-image-pool").unlink()),
    "no code in the pool": ({"CHECK-01"}, lambda t: shutil.rmtree(image(t))),
    "no pointer": ({"CHECK-01"}, lambda t: (t.runs()[3] / ".mlps-code-image").unlink()),
    "a malformed pointer": ({"CHECK-01"}, lambda t: point(t, "md5-tree-v2:123")),
    "a pointer to other code": ({"CHECK-01", "PROV-01"}, lambda t: point(t, "md5-tree-v2:" + "a" * 32)),
    "the code was changed": ({"CHECK-02", "CHECK-03"}, lambda t: (image(t) / "more.txt").write_text("x")),
    "code of another name": ({"CHECK-01", "CHECK-02"}, lambda t: move(image(t), "code-00000000")),
    "code that no leaf uses": ({"CHECK-03"}, lambda t: unused(t)),
    "no datasize": ({"3.1.1"}, lambda t: shutil.rmtree(t.model / "datasize")),
    "no stamp": ({"PROV-01"}, lambda t: (t.runs()[0] / "provenance.json").unlink()),
    "a stamp of datasize that has no schema": ({"PROV-01"}, lambda t: edit(
        next((t.model / "datasize").iterdir()) / "provenance.json", lambda p: p.pop("schema"))),
    "a stamp with null": ({"PROV-01"}, stamp(1, lambda p: p["dlio"].update(commit=None))),
    "a stamp with a key too many": ({"PROV-01"}, stamp(1, lambda p: p.update(more="x"))),
    "a stamp with a key too many in a section": ({"PROV-01"}, stamp(1, lambda p: p["tool"].update(more="x"))),
    "a stamp whose edition is a number": ({"PROV-01"}, stamp(1, lambda p: p.update(rules_edition=3.0))),
    "a stamp whose layout is a text": ({"PROV-01"}, stamp(1, lambda p: p.update(layout_version="3"))),
    "a stamp that says how in other words": ({"PROV-01"}, stamp(1, lambda p: p["provenance"].update(tool="guessed"))),
    "a stamp with a library of no version": ({"PROV-01"}, stamp(1, lambda p: p.update(storage_library={"name": "s3dlio"}))),
    "a stamp whose notes are null": ({"PROV-01"}, stamp(1, lambda p: p.update(notes=None))),
    "a stamp without keys": ({"PROV-01"}, stamp(1, lambda p: p["core_config"].pop("keys"))),
    "an edition that there is not": ({"EDN-01"}, stamp(2, lambda p: p.update(rules_edition="9.9"))),
    "another edition": ({"EDN-02"}, stamp(2, lambda p: p.update(rules_edition="2.0"))),
    "another configuration": ({"EDN-02"}, stamp(2, lambda p: p["core_config"].update(hash="00000000000000aa"))),
    "the configuration of another model": ({"EDN-02"}, stamp(2, lambda p: p["core_config"].update(hash="20c73f53486caba0"))),
    "another accelerator": ({"EDN-02"}, lambda t: edit(metadata(t.runs()[2]), lambda m: m.update(accelerator="h100"))),
    "a configuration that is not known": (set(), stamp(2, lambda p: p["core_config"].update(hash="unknown"))),
    "no number of files": (set(), lambda t: edit(t.runs()[0] / "summary.json", lambda s: s.pop("num_files_eval"))),
    "one file system, by the log": ({"3.4.2"}, lambda t: edit(metadata(t.runs()[0]), lambda m: m["args"].update(data_dir="/elsewhere"))),
    "one file system, by what mlpstorage found out": ({"3.4.2"}, lambda t: (t.runs()[0] / "fs_separation.json").write_text(
        '{"same_filesystem": true}')),
}


def unused(tree):
    code = tree.root / "code-images" / "more"
    code.mkdir()
    (code / "a").write_text("b")
    digest = hashlib.md5(b"ab").hexdigest()
    (code / ".code-hash.json").write_text(json.dumps({"hash": digest}))
    move(code, "code-" + digest[:8])


@pytest.mark.parametrize("what", NEWER)
def test_a_broken_tree_is_refused_by_the_newer_rules_that_it_breaks(shoal, newer, what):
    rules, broken = NEWER[what]
    broken(newer)
    assert said(shoal, newer, "--rules", "2026-09") == rules


def test_what_mlpstorage_found_out_counts_more_than_the_log(shoal, newer):
    edit(metadata(newer.runs()[0]), lambda m: m["args"].update(data_dir="/elsewhere"))
    (newer.runs()[0] / "fs_separation.json").write_text('{"same_filesystem": false}')
    assert said(shoal, newer, "--rules", "2026-09") == set()


def test_an_open_tree_is_accepted_by_newer_rules(shoal, newer):
    move(newer.root / "closed", "open")
    for leaf in Tree(newer.root, "open").runs():
        edit(metadata(leaf), lambda m: m.update(verification="open"))
    assert said(shoal, newer, "--rules", "2026-09") == set()


def test_a_tree_of_older_rules_has_no_pool(shoal, tree):
    assert said(shoal, tree, "--rules", "2026-09") == {"2.1.5", "3.1.1", "CHECK-01", "CHECK-04", "EDN-02"}


def test_the_files_of_a_missing_rank_are_missed(shoal, tree):
    edit(tree.runs()[4] / "summary.json", lambda s: s.update(num_accelerators=2))
    done = shoal("check", tree.root)
    assert b"the summary is of 2 accelerators, and '1_output.json' is missing" in done.stdout


@pytest.mark.parametrize("rules", ["3.0.26", "2026-09"])
@pytest.mark.parametrize("name", ["summary.json", "provenance.json", "metadata", "code", "system", "list", "table"])
def test_a_damaged_document_is_a_finding_and_no_crash(shoal, tree, newer, name, rules):
    if rules == "2026-09":
        tree = newer
    elif name in ("provenance.json", "list", "table"):
        return  # those rules do not read it
    leaf = tree.runs()[0]
    code = image(tree) if rules == "2026-09" else tree.organization / "code"
    path = {"metadata": metadata(leaf), "code": code / ".code-hash.json", "system": tree.organization / "systems" / "box.yaml",
            "list": tree.organization / "submission.yaml", "table": tree.organization / "results" / "results.json"}.get(name, leaf / name)
    for damage in (b"", b"{", b'{"a": 1}' if name == "table" else b"[1, 2]", b"\xff\xfe", b"{" * 40, b"null", b"x" * (1 << 21)):
        path.write_bytes(damage)
        done = shoal("check", tree.root, "--rules", rules)
        assert done.returncode == 1 and b"cannot be read" in done.stdout, damage[:9]


@pytest.mark.parametrize("arguments, words", [
    (["check"], b"give the top directory"),
    (["check", "{here}/none"], b"cannot read"),
    (["check", "{here}", "--rules", "2.0"], b"--rules"),
    (["run", "unet3d_b200", "--data", "x", "--results", "{here}/r", "--runs", "6"], b"--runs needs --results-layout mlpstorage"),
    (["run", "unet3d_b200", "--data", "x", "--results", "{here}/r", "--results-layout", "mlpstorage"], b"needs --system NAME"),
    (["run", "unet3d_b200", "--data", "x", "--results", "{here}/r", "--system", "a"], b"are for --results-layout mlpstorage"),
    (["run", "unet3d_b200", "--data", "x", "--results", "{here}/r", "--results-layout", "mlpstorage", "--system", "a/b"], b"'a/b' cannot be the name"),
    (["run", "unet3d_b200", "--data", "x", "--results", "{here}/r", *LAYOUT, "--resume"], b"--resume cannot be combined"),
    (["datagen", "unet3d_b200", "--data", "{here}/x", "--results-layout", "mlpstorage", "--system", "box"], b"needs --results"),
    (["datagen", "unet3d_b200", "--data", "{here}/x", "--results", "{here}/r", *LAYOUT, "--verify"], b"--verify writes no files"),
])
def test_bad_arguments_are_refused_in_words_and_nothing_is_written(shoal, tmp_path, arguments, words):
    done = shoal(*[argument.format(here=tmp_path) for argument in arguments])
    assert done.returncode in (1, 2) and words in done.stderr and contents(tmp_path) == []
