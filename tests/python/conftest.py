"""Small datasets, and catalogs of them."""
import os
import subprocess

import pytest

SHOAL = os.environ.get("SHOAL", os.path.join(os.path.dirname(__file__), "..", "..", "build", "shoal"))


def content(i):
    """What file i holds: its number, and a length that differs."""
    return b"%06d" % i + bytes([i % 251]) * (i % 17)


def make_files(folder, nr):
    """Files of which the i-th by name holds content(i)."""
    for i in range(nr):
        path = folder / ("d%d" % (i // 100)) / ("f%06d.bin" % i)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content(i))


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A catalog of 600 real files."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "data").mkdir()
    make_files(folder / "data", 600)
    subprocess.run([SHOAL, "index", "-q", folder / "data", "-o", folder / "files.cat"], check=True)
    return str(folder / "files.cat")


@pytest.fixture(scope="session")
def pattern(tmp_path_factory):
    """A catalog of names that no files have, made by make(count)."""
    folder = tmp_path_factory.mktemp("pattern")

    def make(count, size=100):
        path = folder / ("p%d_%d.cat" % (count, size))
        if not path.exists():
            subprocess.run([SHOAL, "index", "-q", "--pattern", "train/img_{:09d}.jpeg", "--count", str(count),
                            "--size", str(size), "--root", "/nowhere", "-o", path], check=True)
        return str(path)

    return make
