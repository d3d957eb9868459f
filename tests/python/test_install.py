import os
import subprocess
import sys

import pytest

from conftest import SHOAL


def test_what_is_installed_is_whole(tmp_path):
    build = os.path.dirname(SHOAL)
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--tags", "python-runtime", "--destdir",
                    str(tmp_path)], check=True)
    found = [folder for folder, _, names in os.walk(tmp_path) if "py.typed" in names]
    assert len(found) == 1 and found[0].endswith("/shoal")
    names = {os.path.relpath(os.path.join(folder, name), found[0]) for folder, _, names in os.walk(found[0]) for name in names}
    built = os.path.join(build, "python", "shoal")
    for folder, folders, files in os.walk(built):
        folders[:] = [name for name in folders if not name.endswith((".p", "__pycache__"))]
        for name in files:
            assert os.path.relpath(os.path.join(folder, name), built) in names
    done = subprocess.run([sys.executable, "-c", "import shoal, shoal.torch; print(shoal.__file__)"], check=True, cwd=tmp_path,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(found[0])), stdout=subprocess.PIPE, text=True)
    assert done.stdout.startswith(found[0])


@pytest.mark.parametrize("module, use, words", [
    ("numpy", "import shoal; shoal.Catalog('x')", "shoal needs NumPy: pip install numpy"),
    ("numpy", "from shoal import index", "shoal needs NumPy: pip install numpy"),
    ("torch", "import shoal.torch", "shoal.torch needs PyTorch: pip install 'shoal[torch]'"),
])
def test_a_package_that_is_missing_is_named_with_what_installs_it(module, use, words):
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules[%r] = None; %s" % (module, use)], stderr=subprocess.PIPE,
                          text=True, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: " + words), done.stderr
