"""Run the type checkers of this Python over the package, user_code.py and the examples: check.py PACKAGES (build/python)."""

import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
USERS = ["tests/python/typing/user_code.py", *sorted(os.path.relpath(path, ROOT) for path in
                                                     glob.glob(os.path.join(ROOT, "examples", "*.py")))]
# Modules whose types are in a stub: it must say what the code does.
STUBS = ["shoal.torch.%s" % name for name in ("iterable", "loading", "place", "samplers")]


def run(what, command, packages):
    print(what, flush=True)
    environment = {**os.environ, "MYPYPATH": packages, "PYTHONPATH": packages}
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode


def main(packages):
    packages = os.path.abspath(packages)
    cache = os.path.join(packages, ".mypy_cache")
    failed = run("mypy --strict: the package", ["mypy", "--cache-dir", cache, "-p", "shoal"], packages)
    failed |= run("mypy --strict: code of users", ["mypy", "--cache-dir", cache, *USERS], packages)
    failed |= run("stubtest", ["mypy.stubtest", "--mypy-config-file", "pyproject.toml", "--ignore-missing-stub", *STUBS], packages)
    failed |= run("pyright: code of users", ["pyright", "--pythonpath", sys.executable, *USERS], packages)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
