"""Which code a measurement is of."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ("src", "include", "python", "fuzz")


def commit():
    """The last commit of the code, with a + if files differ from it. Without a repository, SHOAL_COMMIT."""
    if "SHOAL_COMMIT" in os.environ:
        return os.environ["SHOAL_COMMIT"]

    def git(*words):
        return subprocess.run(["git", *words, "--", *CODE], cwd=ROOT, capture_output=True, text=True).stdout

    return git("log", "-1", "--format=%h", "--abbrev=12").strip() + ("+" if git("status", "--porcelain").strip() else "")
