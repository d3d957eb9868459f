"""The three DLIOs, as they are, on small datasets: where they are, and how they are run."""
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from reads import Reads

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
NR_FILES = 480
_SECONDS = 900  # spawned workers import torch anew in each epoch: minutes on a busy machine

# How DLIO is started: the program, and overrides. Without the plug-in it has its own loader and readers.
_MAIN = ["-c", "from dlio_benchmark.main import main; main()"]
_OWN = ["~workload.reader.data_loader_classname", "~workload.reader.data_loader_sampler"]
PLUG_IN = [_MAIN]
PLAIN = [_MAIN, *_OWN]
CALLBACK = [_MAIN, "+hydra.callbacks.shoal._target_=shoal.dlio.Callback", *_OWN]
MODULE = [["-m", "shoal.dlio"], *_OWN]

# By name: the variable that says where it is, and how to get it.
DLIOS = {
    "pypi": ("SHOAL_DLIO_PYPI", "make test-dlio installs it below build/"),
    "argonne": ("SHOAL_DLIO_ARGONNE", "git clone https://github.com/argonne-lcf/dlio_benchmark, then "
                "make test-dlio SHOAL_DLIO_ARGONNE=that folder"),
    "mlcommons": ("SHOAL_DLIO_MLCOMMONS", "git clone https://github.com/mlcommons/DLIO_local_changes, then "
                  "make test-dlio SHOAL_DLIO_MLCOMMONS=that folder"),
}


def is_there(name):
    return bool(os.environ.get(DLIOS[name][0])) or name == "pypi" and importlib.util.find_spec("dlio_benchmark") is not None


def find(name):
    """(python, folder to import DLIO from or None): of an environment, or of a checkout."""
    variable, how = DLIOS[name]
    given = os.environ.get(variable)
    if given and os.path.exists(os.path.join(given, "dlio_benchmark", "main.py")):
        return os.environ.get("SHOAL_DLIO_PYTHON", sys.executable), os.path.abspath(given)
    if given:
        python = os.path.abspath(os.path.join(given, "bin", "python"))
        assert os.path.exists(python), "%s=%s is neither a checkout of DLIO nor an environment" % (variable, given)
        return python, None
    if is_there(name):
        return sys.executable, None
    pytest.skip("no DLIO (%s): %s" % (name, how))


class Run:
    """What a run read: `names` has the names of files in the order in which they were read, and `text` is what DLIO said."""

    def __init__(self, names, text, code):
        self.names, self.text, self.code = names, text, code

    def epochs(self, nr):
        """The files read in each of three epochs, in order, if each read this many and nothing else was read."""
        assert self.code == 0, self.text[-3000:]
        assert len(self.names) == 3 * nr, "%d files were read in three epochs" % len(self.names)
        return [self.names[at:at + nr] for at in range(0, 3 * nr, nr)]


class Dlio:
    """One of the three, with a dataset of 480 files below `folder`."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.python, self.checkout = find(name)
        self.data = folder / "data"
        self.environment = {}
        self.stand_in = True  # for TensorFlow
        (self.data / "valid").mkdir(parents=True)
        (folder / "conf" / "workload").mkdir(parents=True)
        shutil.copy(os.path.join(ROOT, "examples", "dlio.yaml"), folder / "conf" / "workload" / "dlio.yaml")
        # MLCommons' empties the page cache of the whole machine by sudo.
        (folder / "bin").mkdir()
        (folder / "bin" / "sudo").write_text("#!/bin/sh\nexit 1\n")
        (folder / "bin" / "sudo").chmod(0o755)

    def make(self, part="train", nr=NR_FILES, where=lambda i: "", ext="jpeg", content=None):
        """Files of different sizes, or of this content; the names as DLIO's generator makes them."""
        names = []
        for i in range(nr):
            names.append(where(i) + "img_%03d_of_%d.%s" % (i, nr, ext))
            path = self.data / part / names[-1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * (500 + i) if content is None else content)
        return names

    def has(self, module):
        """Whether it can import a module."""
        return subprocess.run([self.python, "-c", "import " + module], stderr=subprocess.DEVNULL, check=False).returncode == 0

    def command(self, ranks, how=PLUG_IN, **keys):
        keys = {"dataset__data_folder": self.data, "dataset__num_files_train": NR_FILES, "train__epochs": 3,
                "train__computation_time": 0.001, "output__folder": self.folder / "out", **keys}
        program, *overrides = how
        return ["mpirun", "-n", str(ranks), self.python, *program, "--config-dir",
                str(self.folder / "conf"), "workload=dlio", "hydra.run.dir=" + str(self.folder / "out"), *overrides,
                *("++workload.%s=%s" % (key.replace("__", "."), value) for key, value in keys.items())]

    def variables(self):
        """The environment that it runs in."""
        paths = [self.checkout, os.environ.get("PYTHONPATH"), os.path.join(HERE, "stand_in") if self.stand_in else None]
        return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HYDRA_FULL_ERROR="1",
                    OMPI_MCA_rmaps_base_oversubscribe="1", CUDA_VISIBLE_DEVICES="", DLIO_MAX_AUTO_THREADS="1",
                    PYTHONPATH=os.pathsep.join(filter(None, paths)),
                    PATH=str(self.folder / "bin") + os.pathsep + os.environ["PATH"], **self.environment)

    def run(self, ranks=2, watch=None, how=PLUG_IN, opens=False, **keys):
        """Run it; keys as dataset__num_files_train=200."""
        watched = watch or self.data
        with Reads(watched, opens) as reads:
            done = subprocess.run(self.command(ranks, how, **keys), cwd=self.folder, env=self.variables(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_SECONDS,
                                  check=False)
        names = [os.path.relpath(name, watched) for name in reads.names]
        return Run([name for name in names if ".cat" not in os.path.basename(name)], done.stdout, done.returncode)
