"""The dlio_benchmark that Shoal serves, with command lines as mlpstorage 2.0 and 3.0 write them."""
import json
import os
import pathlib
import re
import shutil
import socket
import signal
import subprocess
import sys

import pytest
import yaml  # no reason to skip: the recorded lines are always run

SHOAL = os.environ.get("SHOAL", "shoal")
if not shutil.which(SHOAL):
    pytest.skip("no command 'shoal': it is named in SHOAL", allow_module_level=True)

# mlpstorage adds for each model a workload that only generates. Those of Parquet are shipped.
DATAGEN = {"unet3d": "npz", "retinanet": "jpeg", "resnet50": "tfrecord", "cosmoflow": "tfrecord"}
# What mlpstorage was seen to start, a line each: of 3.0.26 and 2.0 (caa90c9). {out}, {data} and {conf} stand for its folders.
with open(os.path.join(os.path.dirname(__file__), "dlio", "mlpstorage.jsonl"), encoding="utf-8") as _file:
    SEEN = [json.loads(_line) for _line in _file]
# The same forms to be filled in. The last are of --params.
RECORDED = [
    "workload={model}_datagen ++hydra.run.dir={out} ++hydra.output_subdir=dlio_config ++workload.dataset.num_files_train={files} "
    "++workload.dataset.data_folder={data}/{model} --config-dir={conf}",
    "workload={model}_{kind} ++hydra.run.dir={out} ++hydra.output_subdir=dlio_config ++workload.dataset.num_files_train={files} "
    "++workload.dataset.data_folder={data}/{model} ++workload.dataset.skip_listing=True ++workload.dataset.listing_validation_interval=1 "
    "++workload.train.epochs=2 ++workload.reader.batch_size=2 ++workload.train.computation_time=0.001 --config-dir={conf}",
]
SMALL = "++workload.dataset.record_length_bytes=4096 ++workload.dataset.record_length_bytes_stdev=0 ++workload.dataset.num_samples_per_file={samples}"


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    done = subprocess.run([sys.executable, "-m", "shoal.dlio.shim", "install", str(folder)], stdout=subprocess.PIPE, text=True, check=True)
    assert str(folder) in done.stdout
    return str(folder / "dlio_benchmark")


@pytest.fixture(scope="module")
def conf(tmp_path_factory):
    """A --config-dir with the workloads that Shoal ships, and mlpstorage's for data generation."""
    folder = tmp_path_factory.mktemp("conf")
    (folder / "workload").mkdir()
    for name in ("unet3d_b200", "unet3d_h100", "retinanet_b200", "retinanet_mi355", "resnet50_a100", "resnet50_h100", "cosmoflow_a100",
                 "cosmoflow_h100", "dlrm_datagen", "dlrm_b200", "flux_datagen", "flux_mi355"):
        text = subprocess.run([SHOAL, "workloads", name], stdout=subprocess.PIPE, text=True, check=True).stdout
        # The files of mlpstorage 3.0 for unet3d write no checkpoints, DLIO's and Shoal's of the same name do.
        (folder / "workload" / (name + ".yaml")).write_text(text.replace("  checkpoint: true\n", "  checkpoint: false\n"))
        model = name.split("_")[0]
        if model not in DATAGEN:
            continue
        (folder / "workload" / (model + "_datagen.yaml")).write_text(yaml.safe_dump({
            "model": {"name": model}, "framework": "pytorch", "workflow": {"generate_data": True, "train": False, "checkpoint": False},
            "dataset": {"data_folder": "data", "format": DATAGEN[model], "num_files_train": 8, "num_samples_per_file": 1,
                        "record_length_bytes": 1000}}))
    return folder


def start(command, line, ranks=1, where=None, mpirun="mpirun", **variables):
    mpirun = [mpirun, *([] if "mpich" in mpirun else ["--allow-run-as-root", "--oversubscribe"]), "-n", str(ranks)] if ranks > 1 else []
    env = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMIX_", "PMI_", "DLIO_"))}
    return subprocess.run([*mpirun, command, *line.split()], cwd=where, env={**env, "SHOAL": os.path.abspath(shutil.which(SHOAL)), **variables},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)


# What makes the datasets of the recorded lines small: these come last, as --params would.
_FEW = ["++workload.dataset.num_files_train=8", "++workload.train.epochs=2", "++workload.train.computation_time=0.001"]
_FIXED = ["++workload.dataset.record_length_bytes=4096", "++workload.dataset.record_length_bytes_stdev=0", "++workload.reader.batch_size=2"]
_SMALL = {"resnet50": [*_FIXED, "++workload.dataset.num_samples_per_file=4"],
          "dlrm": ["++workload.dataset.num_samples_per_file=64", "++workload.dataset.parquet.row_group_size=16", "++workload.reader.batch_size=16"],
          "flux": ["++workload.dataset.num_samples_per_file=2", "++workload.reader.batch_size=2"]}


def small(argv):
    model = argv[0].split("=")[1].split("_")[0]
    return [text for text in _FEW + _SMALL.get(model, _FIXED) if "_datagen" not in argv[0] or "dataset" in text]


def takes_o_direct(folder):
    path = os.path.join(folder, "probe")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
        return True
    except OSError:
        return False
    finally:
        os.remove(path)


def seen_line(seen, conf, folder, more=()):
    """A recorded command line with folders of this test, as a line."""
    argv = [text.format(out=folder / "out", data=folder / "data", conf=conf) for text in seen["argv"]]
    return " ".join([*argv, *small(argv), *more])


def assert_seen(seen, command, conf, folder, **variables):
    """Run a recorded line, after its data was generated, and look for all that mlpstorage expects of it."""
    variables = {**seen.get("environment", {}), **variables}
    generates = " datagen " in seen["from"]
    if not generates:
        made = start(command, seen_line(seen, conf, folder, ["++workload.workflow.generate_data=True", "++workload.workflow.train=False",
                                                             "++hydra.run.dir=%s" % (folder / "gen")]), **variables)
        assert made.returncode == 0, made.stderr
    done = start(command, seen_line(seen, conf, folder), **variables)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder / "out" / "dlio_config")) == ["config.yaml", "hydra.yaml", "overrides.yaml"]
    assert ("Generation done" in (folder / "out" / "dlio.log").read_text()) == generates
    if not generates:
        summary = json.loads((folder / "out" / "summary.json").read_text())
        assert len(summary["metric"]["train_au_percentage"]) == 2 and summary["num_files_train"] == 8
        assert {"0_output.json", "0_per_epoch_stats.json"} <= set(os.listdir(folder / "out"))


@pytest.mark.parametrize("seen", [seen for seen in SEEN if " object" not in seen["from"] or "uri_scheme=direct" in " ".join(seen["argv"])],
                         ids=lambda seen: seen["from"])
def test_each_command_line_that_mlpstorage_was_seen_to_start_is_served(command, conf, tmp_path, seen):
    if "=direct" in " ".join(seen["argv"]) and not takes_o_direct(tmp_path):
        pytest.skip("no O_DIRECT in '%s'" % tmp_path)
    (tmp_path / "data" / "data").mkdir(parents=True)
    assert_seen(seen, command, conf, tmp_path)
    files = [name for _, _, names in os.walk(tmp_path / "data") for name in names if re.fullmatch(r"img_\d_of_8\.[a-z0-9]+", name)]
    assert len(files) == 8


def fill(line, conf, folder, out, **fields):
    return line.format(conf=conf, data=folder / "data", out=out, **fields)


@pytest.mark.parametrize("model, kind, samples, ranks", [("unet3d", "b200", 1, 2), ("retinanet", "b200", 1, 1), ("resnet50", "h100", 4, 1),
                                                          ("cosmoflow", "h100", 1, 1)])
def test_what_mlpstorage_starts_writes_what_it_looks_for(command, conf, tmp_path, model, kind, samples, ranks):
    if ranks > 1 and not shutil.which("mpirun"):
        pytest.skip("no mpirun")
    fields = {"model": model, "kind": kind, "files": 16, "samples": samples}
    generated, ran = (fill(line + " " + SMALL, conf, tmp_path, tmp_path / out, **fields) for line, out in zip(RECORDED, ("gen", "run")))
    done = start(command, generated, ranks)
    assert done.returncode == 0, done.stderr
    assert len(os.listdir(tmp_path / "data" / model / "train")) == 16
    assert sorted(os.listdir(tmp_path / "gen")) == ["dlio.log", "dlio_config"]
    done = start(command, ran, ranks)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "run" / "dlio_config")) == ["config.yaml", "hydra.yaml", "overrides.yaml"]
    files = os.listdir(tmp_path / "run")
    assert {"dlio.log", "summary.json", *("%d_%s.json" % (r, name) for r in range(ranks) for name in ("output", "per_epoch_stats"))} <= set(files)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["num_accelerators"] == ranks and summary["num_files_train"] == 16 and len(summary["metric"]["train_au_percentage"]) == 2
    for text in (done.stdout, (tmp_path / "run" / "dlio.log").read_text()):
        for words in ("Running DLIO [Training] with %d process(es)" % ranks, "Starting epoch 2", "Ending epoch 2",
                      "[METRIC] Number of Simulated Accelerators: %d" % ranks, "[METRIC] Training Accelerator Utilization [AU] (%): ",
                      "train_au_meet_expectation: "):
            assert text.count(words) == 1, words


def test_the_configuration_is_as_it_was_asked_for(command, conf, tmp_path):
    line = fill(RECORDED[0], conf, tmp_path, tmp_path / "gen", model="unet3d", files=8) + " ++workload.reader.read_threads=3 +workload.train.seed=5"
    assert start(command, line + " ~workload.dataset.record_length_bytes ++workload.dataset.record_length_bytes='500'").returncode == 0
    config = yaml.safe_load((tmp_path / "gen" / "dlio_config" / "config.yaml").read_text())
    assert config["workload"]["dataset"] == {"data_folder": str(tmp_path / "data" / "unet3d"), "format": "npz", "num_files_train": 8,
                                             "num_samples_per_file": 1, "record_length_bytes": "500"}
    assert config["workload"]["reader"] == {"read_threads": 3} and config["workload"]["train"] == {"seed": 5}
    overrides = yaml.safe_load((tmp_path / "gen" / "dlio_config" / "overrides.yaml").read_text())
    assert overrides[0] == "workload=unet3d_datagen" and "++workload.reader.read_threads=3" in overrides
    assert not any("hydra" in text for text in overrides)
    hydra = yaml.safe_load((tmp_path / "gen" / "dlio_config" / "hydra.yaml").read_text())["hydra"]
    assert hydra["run"]["dir"] == str(tmp_path / "gen") and hydra["runtime"]["choices"]["workload"] == "unet3d_datagen"
    assert hydra["overrides"]["hydra"] == ["++hydra.run.dir=%s" % (tmp_path / "gen"), "++hydra.output_subdir=dlio_config"]


def test_hydras_own_places_and_a_config_of_ones_own(command, conf, tmp_path):
    (conf / "mine.yaml").write_text(yaml.safe_dump({"defaults": ["_self_", {"workload": "retinanet_datagen"}], "hydra": {"run": {"dir": "here"}},
                                                    "workload": {"dataset": {"num_files_train": 4, "data_folder": "files"}}}))
    assert start(command, "--config-dir %s --config-name mine" % conf, where=tmp_path).returncode == 0
    assert sorted(os.listdir(tmp_path / "here")) == [".hydra", "dlio.log"] and len(os.listdir(tmp_path / "files" / "train")) == 4
    line = "--config-dir %s workload=retinanet_datagen ++workload.output.folder=there ++workload.dataset.data_folder=more hydra.output_subdir=null" % conf
    assert start(command, line, where=tmp_path).returncode == 0
    assert os.listdir(tmp_path / "there") == ["dlio.log"]


@pytest.mark.parametrize("mpirun", [None, "mpirun.openmpi", "mpirun.mpich"])
def test_data_is_generated_and_then_read_in_one_start(command, conf, tmp_path, mpirun):
    """MPI starts once in a job: of several ranks the first generates alone."""
    if mpirun and not (shutil.which(mpirun) and (pathlib.Path(shutil.which(SHOAL)).parent / ("shoal_mpi_%s.so" % mpirun[7:])).exists()):
        pytest.skip("no %s, or no module for it" % mpirun)
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
    done = start(command, line + " ++workload.workflow.generate_data=True ++workload.dataset.skip_listing=False", 2 if mpirun else 1,
                 mpirun=mpirun)
    assert done.returncode == 0 and done.stdout.count("Generation done") == 1, done.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["num_accelerators"] == (2 if mpirun else 1)


def test_a_run_that_fails_is_told_by_its_status(command, conf, tmp_path):
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8)
    done = start(command, line)  # there is no data
    assert done.returncode == 1 and "shoal run:" in done.stderr and not (tmp_path / "run" / "summary.json").exists()


BASE = "--config-dir={conf} workload=retinanet_b200 hydra.run.dir={out} "


@pytest.mark.parametrize("line, words", [
    ("--config-dir={conf}", "workload: say which"),
    ("--config-dir={conf} workload=nothing", "workload=nothing: there is no such file in workload/"),
    ("--config-dir={conf}/none workload=retinanet_b200", "--config-dir: there is no directory"),
    ("--config-dir", "--config-dir: a value must follow"),
    ("--config-dir={conf} --config-name=none", "none.yaml: No such file"),
    (BASE + "--multirun", "--multirun: Shoal's dlio_benchmark has no such option"),
    (BASE + "--cfg=all", "--cfg: Shoal's dlio_benchmark shows the configuration of the job"),
    (BASE + "workload@other=x", "workload@other: Shoal's dlio_benchmark has one config group, workload=NAME"),
    (BASE + "hydra/launcher=submitit", "hydra/launcher: Shoal's dlio_benchmark has one config group, workload=NAME"),
    (BASE + "workload.train.epochs=1,2", "workload.train.epochs=1,2: a list of values needs brackets"),
    (BASE + "workload.train.epochs=range(1,3)", "workload.train.epochs=range(1,3): range() makes a sweep"),
    (BASE + "workload.train.wheels=1", "workload.train.wheels: the workload has no such key; ++workload.train.wheels=... adds it"),
    (BASE + "++workload.dataset.data_folder=${{workload.folder}}", "${workload.folder} of workload.dataset.data_folder: there is no 'workload.folder'"),
    (BASE + "++workload.train.epochs=[1", "workload.train.epochs=[1: a closing ] is missing"),
    (BASE + "++workload.train.epochs={{a:1", "workload.train.epochs={a:1: a closing } is missing"),
    (BASE + "++workload.reader[0]=x", "++workload.reader[0]=x: this is not an override of Hydra's"),
    (BASE + "storage=s3", "storage: Shoal's dlio_benchmark takes"),
    (BASE + "what", "what: this is not an override of Hydra's"),
    (BASE + "hydra.launcher.n_jobs=3", "hydra.launcher.n_jobs: Shoal's dlio_benchmark takes"),
    (BASE + "+hydra.callbacks.a._target_=b.C", "hydra.callbacks.a._target_: Shoal's"),
    (BASE + "model=other", "model: Shoal's dlio_benchmark takes"),
    (BASE + "++workload.workflow.checkpoint=True", "workload.workflow.checkpoint: Shoal writes no checkpoints"),
    (BASE + "++workload.workflow.profiling=true", "workload.workflow.profiling: Shoal has no profilers"),
    (BASE + "++workload.workflow.train=maybe", "workload.workflow.train: must be True or False"),
    (BASE + "++workload.workflow.train=False", "workload.workflow: neither generate_data nor train"),
    (BASE + "++workload.storage.storage_type=aistore", "workload.storage.storage_type: Shoal reads local_fs, direct_fs and s3, not aistore"),
    (BASE + "++workload.storage.wheels=4", "workload.storage.wheels: Shoal has no such key"),
    (BASE + "++workload.storage.storage_type=s3 ++workload.storage.storage_options.columns=a", "workload.storage.storage_options.columns: Shoal"),
    (BASE + "++workload.reader.data_loader_classname=a.B", "workload.reader.data_loader_classname: Shoal reads by itself"),
    (BASE + "~workload.reader.nothing", "~workload.reader.nothing: the workload has no such key"),
    (BASE + "workload.framework.name=a", "workload.framework.name: the workload has no section 'framework'"),
])
def test_what_shoal_cannot_do_is_refused_by_name(command, conf, tmp_path, line, words):
    done = start(command, line.format(conf=conf, out=tmp_path / "run"), where=tmp_path)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_key_that_shoal_does_not_know_is_refused_by_its_name(command, conf, tmp_path):
    done = start(command, (BASE + "++workload.dataset.wheels=4").format(conf=conf, out=tmp_path / "run"), where=tmp_path)
    assert done.returncode == 2 and "dataset.wheels" in done.stderr and not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize("override, words", [
    ("++workload.dataset.format=mkv", "override 'dataset.format': dataset.format must be one of tfrecord"),
    ("++workload.reader.batch_size=-1", "override 'reader.batch_size': reader.batch_size must be a whole number from 1"),
    ("++workload.train.epochs=abc", "override 'train.epochs': train.epochs must be a whole number from 1"),
])
def test_a_value_that_shoal_cannot_use_is_a_wrong_argument(command, conf, tmp_path, override, words):
    done = start(command, (BASE + override).format(conf=conf, out=tmp_path / "run"), where=tmp_path)
    assert done.returncode == 2 and words in done.stderr and not (tmp_path / "run" / "summary.json").exists()


def test_a_message_of_shoal_names_the_workload_and_no_file_that_is_gone(command, conf, tmp_path):
    text = (conf / "workload" / "retinanet_datagen.yaml").read_text()
    (conf / "workload" / "uneven.yaml").write_text(text.replace("  record_length_bytes: 1000", "  record_length_bytes: 1000\n  record_length_bytes_stdev: 90000"))
    done = start(command, "--config-dir=%s workload=uneven hydra.run.dir=%s" % (conf, tmp_path / "run"), where=tmp_path)
    assert done.returncode == 1 and "shoal datagen: uneven.yaml:" in done.stderr and "record_length_bytes_stdev 90000 is too large" in done.stderr
    assert "/uneven.yaml" not in done.stderr + done.stdout


@pytest.mark.parametrize("content, words", [(b"\xff\xfe", "it is not text in UTF-8"), (b"[1]", "it is not a mapping"), (b"a: [1", "it is not YAML"),
                                            (b"model: " + b"{a: " * 3000 + b"1" + b"}" * 3000, "it is nested too deeply")])
def test_a_workload_that_cannot_be_read_is_refused_by_its_path(command, conf, tmp_path, content, words):
    (conf / "workload" / "odd.yaml").write_bytes(content)
    done = start(command, "--config-dir=%s workload=odd hydra.run.dir=%s" % (conf, tmp_path / "run"))
    assert done.returncode == 2 and "odd.yaml: " + words in done.stderr and done.stderr.count("\n") == 1 and os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(command, conf, tmp_path):
    (tmp_path / "file").write_text("")
    done = start(command, BASE.format(conf=conf, out=tmp_path / "file"))
    assert done.returncode == 1 and done.stderr == "dlio_benchmark (Shoal): %s/.hydra: Not a directory\n" % (tmp_path / "file")


def test_a_run_whose_output_is_closed_ends_and_is_no_success(command, conf, tmp_path):
    """As of `dlio_benchmark ... | head -1`."""
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
    line += " ++workload.workflow.generate_data=True ++workload.dataset.skip_listing=False ++workload.train.computation_time=0.3"
    process = subprocess.Popen([command, *line.split()], env={**os.environ, "SHOAL": os.path.abspath(shutil.which(SHOAL))},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("Starting epoch 1" in printed for printed in process.stdout)
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(60) == 1 and "Traceback" not in said and "Broken pipe" in said, said
    summary = tmp_path / "run" / "summary.json"
    assert not summary.exists() or json.loads(summary.read_text())["metric"]["train_au_meet_expectation"] == "fail"


@pytest.mark.parametrize("given", ["/none/shoal", "shoal-that-is-not-there"])
def test_a_missing_command_is_refused_by_its_name(command, conf, tmp_path, given):
    done = start(command, BASE.format(conf=conf, out=tmp_path / "run"), where=tmp_path, SHOAL=given)
    assert done.returncode == 2 and "%s: there is no such command" % given in done.stderr and os.listdir(tmp_path) == []


def test_what_is_missing_on_another_host_is_told_once_with_its_name(command, conf, tmp_path):
    for local, said in ((0, "host %s: /none/shoal: there is no such command" % socket.gethostname()), (1, "")):
        done = start(command, BASE.format(conf=conf, out=tmp_path / "run"), where=tmp_path, SHOAL="/none/shoal", OMPI_COMM_WORLD_RANK="4",
                     OMPI_COMM_WORLD_LOCAL_RANK=str(local), OMPI_COMM_WORLD_SIZE="8")
        assert done.returncode == 2 and said in done.stderr and bool(done.stderr) == bool(said)


def test_folders_are_those_of_the_place_where_it_was_started(command, conf, tmp_path):
    line = ("--config-dir={conf} workload=retinanet_b200 hydra.run.dir=here ++workload.dataset.data_folder=there ++workload.dataset.num_files_train=8 "
            "++workload.reader.batch_size=2 ++workload.train.epochs=1 ++workload.workflow.generate_data=True").format(conf=conf)
    done = start(command, line + " " + SMALL.format(samples=1), where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "summary.json").exists() and len(os.listdir(tmp_path / "there" / "train")) == 8


def test_several_ranks_need_a_folder(command, conf, tmp_path):
    done = start(command, "--config-dir=%s workload=retinanet_b200" % conf, where=tmp_path, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    assert done.returncode == 2 and "hydra.run.dir: must be given for 2 ranks" in done.stderr


@pytest.mark.parametrize("overrides, options", [
    ("++workload.storage.storage_type=direct_fs ++workload.storage.storage_root=/d ++workload.dataset.data_folder=m "
     "++workload.storage.storage_options.uri_scheme=direct ++workload.storage.storage_options.storage_library=s3dlio",
     ["--data", "/d/m", "--results", "R", "--direct"]),
    ("++workload.storage.storage_type=s3 ++workload.storage.storage_root=bucket ++workload.dataset.data_folder=a/m "
     "++workload.storage.s3_force_path_style=true ++workload.storage.storage_options.endpoint_url=http://h:9",
     ["--data", "s3" + "://bucket/a/m", "--results", "R", "--endpoint", "http://h:9", "--bucket-style", "path"]),
    ("++workload.storage.storage_root=/d ++workload.dataset.data_folder=m", ["--data", "/d/m", "--results", "R"]),
    ("++workload.storage.storage_type=s3 ++workload.storage.storage_root=/d ++workload.dataset.data_folder=m "
     "++workload.storage.storage_options.uri_scheme=direct", ["--data", "/d/m", "--results", "R", "--direct"]),
    ("++workload.storage.storage_type=s3 ++workload.storage.storage_root=/d ++workload.dataset.data_folder=m "
     "++workload.storage.storage_options.uri_scheme=file", ["--data", "/d/m", "--results", "R"]),
])
def test_where_data_is_follows_from_the_storage_keys(conf, monkeypatch, overrides, options):
    from shoal.dlio import shim

    program = os.path.abspath(shutil.which(SHOAL))
    monkeypatch.setenv("SHOAL", program)
    monkeypatch.delenv("DLIO_DROP_CACHES_TIMEOUT", raising=False)
    plan = shim.Plan(shim.Arguments(["--config-dir=%s" % conf, "workload=retinanet_b200", "hydra.run.dir=R", *overrides.split()]))
    options = [os.path.abspath(option) if option == "R" else option for option in options]
    assert [command for _, command in shim._commands(plan, "W")] == [[program, "run", "W", *options]]
    assert "storage" not in plan.for_shoal() and "data_folder" not in plan.for_shoal()["dataset"]
    monkeypatch.setenv("DLIO_DROP_CACHES_TIMEOUT", "30")
    assert ("--drop-cache" in next(shim._commands(plan, "W"))[1]) == ("://" not in plan.data)


@pytest.mark.parametrize("overrides, drops", [("", False), ("++workload.dataset.skip_listing=True", True)])
def test_the_page_cache_is_dropped_where_the_dlio_of_mlpstorage_3_does(conf, monkeypatch, overrides, drops):
    from shoal.dlio import shim

    monkeypatch.setenv("SHOAL", os.path.abspath(shutil.which(SHOAL)))
    monkeypatch.delenv("DLIO_DROP_CACHES_TIMEOUT", raising=False)
    plan = shim.Plan(shim.Arguments(["--config-dir=%s" % conf, "workload=retinanet_b200", "hydra.run.dir=R", *overrides.split()]))
    assert ("--drop-cache" in next(shim._commands(plan, "W"))[1]) == drops


def test_the_configuration_is_shown_and_nothing_is_run(command, conf, tmp_path):
    done = start(command, (BASE + "++workload.train.epochs=3 --cfg job").format(conf=conf, out=tmp_path / "run"), where=tmp_path)
    assert done.returncode == 0 and yaml.safe_load(done.stdout)["workload"]["train"]["epochs"] == 3 and os.listdir(tmp_path) == []


def test_results_that_are_there_are_not_written_over(command, conf, tmp_path):
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
    assert start(command, line + " ++workload.workflow.generate_data=True").returncode == 0
    before = (tmp_path / "run" / "summary.json").read_bytes()
    done = start(command, line)
    assert done.returncode == 2 and "hydra.run.dir: '%s' has the results of another run" % (tmp_path / "run") in done.stderr
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_the_log_of_a_run_has_the_file_systems_of_data_and_results(command, conf, tmp_path):
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
    done = start(command, line + " ++workload.workflow.generate_data=True")
    block = done.stdout.split("Filesystem ", 1)[1].split("\n\n", 1)[0].splitlines()
    assert block[0].split() == ["1K-blocks", "Used", "Available", "Use%", "Mounted", "on"]
    assert 1 <= len(block[1:]) <= 2 and all(str(tmp_path).startswith(row.split()[5]) for row in block[1:])


def test_an_installed_dlio_is_not_written_over(tmp_path):
    (tmp_path / "dlio_benchmark").write_text("#!/bin/sh\n")
    done = subprocess.run([sys.executable, "-m", "shoal.dlio.shim", "install", str(tmp_path)], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "is there, and is not Shoal's" in done.stderr and (tmp_path / "dlio_benchmark").read_text() == "#!/bin/sh\n"


def test_a_folder_that_the_command_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run([sys.executable, "-m", "shoal.dlio.shim", "install", str(tmp_path / "file")], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "shoal.dlio.shim: %s: File exists\n" % (tmp_path / "file")


def begin(command, line):
    """Start it, and return once it has printed that the first epoch begins."""
    process = subprocess.Popen([command, *line.split()], env=dict(os.environ, SHOAL=os.path.abspath(shutil.which(SHOAL))),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = ""
    while "Starting block 1\n" not in seen:
        text = process.stdout.readline()
        assert text, process.communicate()[1]
        seen += text
    return process, seen


def slow_line(command, conf, tmp_path, seconds):
    """A run of two epochs of four steps, of which each computes for so long; its data is there."""
    line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
    made = start(command, line.replace(str(tmp_path / "run"), str(tmp_path / "gen")) + " ++workload.workflow.generate_data=True "
                 "++workload.workflow.train=False")
    assert made.returncode == 0, made.stderr
    return line + " ++workload.train.computation_time=%s" % seconds


def test_epochs_are_printed_while_the_run_goes_on_in_dlios_form(command, conf, tmp_path):
    process, seen = begin(command, slow_line(command, conf, tmp_path, 0.3))
    assert process.poll() is None and not (tmp_path / "run" / "summary.json").exists()
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "{" not in errors and "run: warning: " in errors, errors
    metric = json.loads((tmp_path / "run" / "summary.json").read_text())["metric"]
    for key, form in (("au_percentage", r"Utilization \[AU\] \(%\): ([\d.]+)$"), ("throughput_samples_per_second", r"Throughput \(samples/second\): ([\d.]+)$")):
        assert [float(text) for text in re.findall(r"(?m)^\[OUTPUT\] .* - Block 1 \[Training\] .*" + form, seen + rest)] == pytest.approx(
            metric["train_" + key], rel=1e-3)
    printed = [text for text in re.findall(r"(?m)^\[OUTPUT\] \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} (.*)$", seen + rest) if re.match("(Starting|Ending|Epoch) ", text)]
    forms = [form % {"n": n} for n in (1, 2) for form in (
        "Starting epoch %(n)d: 4 steps expected", "Starting block 1", r"Ending block 1 - 4 steps completed in [\d.]+ s",
        r"Epoch %(n)d - Block 1 \[Training\] Accelerator Utilization \[AU\] \(%%\): [\d.]+",
        r"Epoch %(n)d - Block 1 \[Training\] Throughput \(samples/second\): [\d.]+", r"Ending epoch %(n)d - 4 steps completed in [\d.]+ s")]
    assert len(printed) == len(forms) and all(re.fullmatch(form, text) for form, text in zip(forms, printed)), printed


def test_a_run_that_is_ended_ends_shoal_too_and_is_no_success(command, conf, tmp_path):
    process, _ = begin(command, slow_line(command, conf, tmp_path, 1))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode not in (0, -signal.SIGTERM)  # it waited for its child
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metric"].get("train_au_meet_expectation") != "success"


@pytest.mark.parametrize("seen", [seen for seen in SEEN if "storage_root=bucket" in " ".join(seen["argv"])], ids=lambda seen: seen["from"])
def test_each_command_line_for_objects_is_served(command, conf, tmp_path, seen):
    sys.path += [os.path.join(os.path.dirname(__file__), *where) for where in (("dlio",), ("..", "s3"))]
    import objects
    from bucket import Bucket

    with Bucket() as server:
        assert_seen(seen, command, conf, tmp_path, AWS_ACCESS_KEY_ID=objects.ACCESS, AWS_SECRET_ACCESS_KEY=objects.SECRET,
                    AWS_ENDPOINT_URL=server.url, no_proxy="*")
        assert len([key for bucket, key in server.objects if key.startswith(b"data/retinanet/train/img_")]) == 8


def test_objects_are_generated_and_read(command, conf, tmp_path):
    sys.path += [os.path.join(os.path.dirname(__file__), *where) for where in (("dlio",), ("..", "s3"))]
    import objects
    from bucket import Bucket

    with Bucket() as server:
        line = fill(RECORDED[1], conf, tmp_path, tmp_path / "run", model="retinanet", kind="b200", files=8) + " " + SMALL.format(samples=1)
        line = line.replace("data_folder=%s" % (tmp_path / "data"), "data_folder=set") + (
            " ++workload.workflow.generate_data=True ++workload.storage.storage_type=s3 ++workload.storage.storage_root=bucket"
            " ++workload.storage.s3_force_path_style=true ++workload.storage.storage_options.endpoint_url=%s" % server.url)
        done = start(command, line, AWS_ACCESS_KEY_ID=objects.ACCESS, AWS_SECRET_ACCESS_KEY=objects.SECRET, no_proxy="*")
        assert done.returncode == 0, done.stderr
        read = [r.key for r in server.log if r.method == "GET" and r.key.startswith(b"set/retinanet/train/img_")]
    assert len(set(read)) == 8 and len(read) == 16 and (tmp_path / "run" / "summary.json").exists()
