"""What the tests under a real MPI share: both mpiruns, as far as they are here, and what to start them with.

The programs are of the build that the environment variable SHOAL names, or of build/.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.path.abspath(os.environ.get("SHOAL", ROOT / "build" / "shoal"))).parent


def environment(**more):
    env = {name: value for name, value in os.environ.items() if not re.match("(OMPI|PMIX?|MPI|SHOAL)_", name)}
    # MPI gives some memory back never, and the sanitizer would say so for it.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SHOAL_MODULE_DIR=str(BUILD))
    env.update(more)
    return env


@functools.lru_cache(maxsize=None)
def launcher(mpi):
    """Debian has both MPIs by names of their own; elsewhere there is mpirun, of one of them. None: it is not here."""
    own = shutil.which(f"mpirun.{mpi}")
    if own or not shutil.which("mpirun"):
        return own
    version = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return shutil.which("mpirun") if ("Open MPI" in version) == (mpi == "openmpi") else None


def mpirun(mpi, ranks):
    return [launcher(mpi)] + (["--oversubscribe"] if mpi == "openmpi" else []) + ["-n", str(ranks)]


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    if not launcher(request.param):
        pytest.skip(f"there is no mpirun of {request.param} here")
    if not (BUILD / f"shoal_mpi_{request.param}.so").exists():
        pytest.skip(f"{BUILD} was configured without {request.param}")
    return request.param
