"""mlpstorage as it is, driving the dlio_benchmark that Shoal serves: generate, run on two ranks, report.

SHOAL_MLPSTORAGE names a checkout of mlcommons/storage, 2.0 or 3.0, and SHOAL_MLPSTORAGE_PYTHON a Python that has what it imports."""
import json
import os
import shutil
import subprocess
import sys

import pytest

CHECKOUT = os.environ.get("SHOAL_MLPSTORAGE", "")
PYTHON = os.environ.get("SHOAL_MLPSTORAGE_PYTHON", sys.executable)
if not CHECKOUT:
    pytest.skip("no mlpstorage: git clone https://github.com/mlcommons/storage, then SHOAL_MLPSTORAGE=that folder; "
                "test_dlio_shim.py runs command lines that it was seen to write", allow_module_level=True)
NEWER = os.path.isdir(os.path.join(CHECKOUT, "mlpstorage_py"))  # 3.0

MODELS = [("retinanet", "b200", "open", 96), ("cosmoflow", "h100", "whatif", 16), ("resnet50", "h100", "whatif", 2)] if NEWER else [
    ("unet3d", "h100", "open", 16), ("resnet50", "h100", "open", 2), ("cosmoflow", "h100", "open", 16)]


class Mlpstorage:
    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "shoal.dlio.shim", "install", str(folder / "bin")], check=True, stdout=subprocess.DEVNULL)
        self.common = ["--hosts", "127.0.0.1", "--results-dir", str(folder / "results"), "--dlio-bin-path", str(folder / "bin"),
                       "--allow-run-as-root", "--oversubscribe", "--data-dir", str(folder / "data")]
        self.system = ["--systemname", "here"] if NEWER else []

    def start(self, *arguments):
        module = "mlpstorage_py.main" if NEWER else "mlpstorage.main"
        env = dict(os.environ, PYTHONPATH=CHECKOUT, HOME=str(self.folder), PATH="%s:%s" % (self.folder / "bin", os.environ["PATH"]),
                   SHOAL=os.path.abspath(shutil.which(os.environ.get("SHOAL", "shoal"))))
        done = subprocess.run([PYTHON, "-m", module, *map(str, arguments)], cwd=self.folder, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    def training(self, model, command, category, *arguments):
        if command == "datasize":  # it looks for dlio_benchmark in PATH
            common = [word for word in self.common if word not in ("--hosts", "127.0.0.1", "--dlio-bin-path", str(self.folder / "bin"))]
            return self.start(category, "training", model, command, *common, *self.system, *arguments)
        if NEWER:
            return self.start(category, "training", model, command, "file", *self.common, *self.system, *arguments)
        return self.start("training", command, "--model", model, *self.common, *arguments)

    def leaf(self, model, command):
        found, = (path for path in (self.folder / "results").glob("**/training/%s/%s/*" % (model, command)) if path.is_dir())
        return found


@pytest.mark.parametrize("model, accelerator, category, files", MODELS)
def test_mlpstorage_runs_shoal_and_reads_its_results(tmp_path, model, accelerator, category, files):
    tool = Mlpstorage(tmp_path)
    if NEWER:
        tool.start("init", "acme", tmp_path / "results")
    tool.training(model, "datagen", category, "--num-processes", 2, "--params" if NEWER else "--param", "dataset.num_files_train=%d" % files,
                  "dataset.record_length_bytes=4096", "dataset.record_length_bytes_stdev=0")
    assert {"dlio.log", "dlio_config"} <= set(os.listdir(tool.leaf(model, "datagen")))
    older = ["--open", "--param"] if not NEWER else ["-aip", "--params"]
    extra = ["--checkpoint-folder", tmp_path / "checkpoints"] if model == "unet3d" and not NEWER else []
    tool.training(model, "run", category, "--accelerator-type", accelerator, "--num-accelerators", 2, "--client-host-memory-in-gb", 1,
                  "--num-client-hosts", 1, *extra, *older, "dataset.num_files_train=%d" % files, "train.epochs=2",
                  *(["workflow.checkpoint=False"] if extra else []))
    leaf = tool.leaf(model, "run")
    assert sorted(os.listdir(leaf / "dlio_config")) == ["config.yaml", "hydra.yaml", "overrides.yaml"]
    assert {"dlio.log", "summary.json", "0_output.json", "1_output.json"} <= set(os.listdir(leaf))
    summary = json.loads((leaf / "summary.json").read_text())
    assert summary["num_accelerators"] == 2 and len(summary["metric"]["train_au_percentage"]) == 2
    if NEWER:
        sizes = tool.training(model, "datasize", category, "--max-accelerators", 2, "--accelerator-type", accelerator, "--client-host-memory-in-gb", 1,
                              "--num-client-hosts", 1)
        assert "num_files_train" in sizes
        assert "num_files_train" in tool.training(model, "configview", category, "--num-accelerators", 2, "--accelerator-type", accelerator,
                                                  "--client-host-memory-in-gb", 1, *older, "dataset.num_files_train=%d" % files)
        assert "training %s run" % model in tool.start("history", "show", "--results-dir", tmp_path / "results", *tool.system)
    if category == "whatif":
        return  # the report generator of 3.0 looks below closed and open only
    report = tool.start("reports", "reportgen", "--results-dir", tmp_path / "results", *tool.system)
    assert leaf.name in report and model in report
