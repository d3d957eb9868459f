"""Lists of what each rank reads: the same that the command writes."""
import os
import subprocess
import sys

import pytest

import shoal
from conftest import SHOAL


def lists(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if not name.startswith(".")}


@pytest.mark.parametrize("options, words", [
    ({}, []),
    ({"world_size": 3, "seed": 7}, ["--ranks", "3", "--seed", "7"]),
    ({"world_size": 2, "epochs": 2}, ["--ranks", "2", "--epochs", "2"]),
    ({"epoch": 3, "epochs": 2, "frozen": True}, ["--epoch", "3", "--epochs", "2", "--frozen"]),
    ({"mode": "local", "world_size": 4}, ["--mode", "local", "--ranks", "4"]),
    ({"mode": "window", "window": 5, "list_prefix": "valid"}, ["--mode", "window", "--window", "5", "--list-prefix", "valid"]),
    ({"mode": "sequential", "paths": True, "null": True}, ["--mode", "sequential", "--paths", "-0"]),
])
def test_lists_are_those_of_the_command(files, tmp_path, options, words):
    nr = shoal.manifest(files, tmp_path / "here", **options)
    subprocess.run([SHOAL, "manifest", files, "-q", "-o", tmp_path / "there", *words], check=True)
    assert lists(tmp_path / "here") == lists(tmp_path / "there") and nr == len(lists(tmp_path / "here"))


def test_a_list_can_be_indexed_again(files, tmp_path):
    shoal.manifest(shoal.Catalog(files), str(tmp_path / "m"), 2)
    names = [line for rank in range(2) for line in
             (tmp_path / "m" / ("train_epoch0000_rank%05d.txt" % rank)).read_text().splitlines()]
    catalog = shoal.Catalog(files)
    assert sorted(names) == [catalog.uri(i) for i in range(600)]


@pytest.mark.parametrize("options, error, words", [
    ({"world_size": 0}, shoal.BadValueError, "world_size"),
    ({"epochs": 0}, shoal.BadValueError, "epochs"),
    ({"epochs": range(2)}, TypeError, "epochs must be a whole number"),
    ({"epoch": -1}, shoal.BadValueError, "epoch"),
    ({"epoch": 2**64 - 1, "epochs": 2}, shoal.BadValueError, "epoch"),
    ({"epochs": 10**7}, shoal.BadValueError, "1 to 1000000 epochs"),
    ({"epochs": "0..3"}, TypeError, "epochs"),
    ({"mode": "random"}, shoal.BadValueError, "mode"),
    ({"list_prefix": "a/b"}, shoal.BadValueError, "must be a name without a '/'"),
])
def test_what_makes_no_sense_is_refused(files, tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        shoal.manifest(files, tmp_path / "m", **options)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_written_is_told(files, tmp_path):
    shoal.manifest(files, tmp_path / "m", 3)
    with pytest.raises(shoal.Error, match=r"has lists of another order \(ranks 3, and not ranks 2\)"):
        shoal.manifest(files, tmp_path / "m", 2)
    with pytest.raises(FileNotFoundError, match="cannot create the directory"):
        shoal.manifest(files, tmp_path / "no" / "folder")
    with pytest.raises(shoal.Error, match="is not a local directory"):
        shoal.manifest(shoal.index(["a"], tmp_path / "s.cat", root="s3://b"), tmp_path / "s", paths=True)
    with pytest.raises(shoal.Error, match="name 0 contains a line end; use null=True"):
        shoal.manifest(shoal.index(["a\nb"], tmp_path / "n.cat", root="/r"), tmp_path / "n")
    with pytest.raises(shoal.Error, match="lists no files"):
        shoal.manifest(shoal.index([], tmp_path / "e.cat", root="/r", force=True), tmp_path / "e")
    with pytest.raises(TypeError, match="from a Catalog or its path"):
        shoal.manifest(600, tmp_path / "m")


def test_ctrl_c_leaves_whole_lists_only(pattern, tmp_path):
    script = ("import signal\nfrom shoal import manifest\n"
              "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
              "signal.setitimer(signal.ITIMER_REAL, 1)\n"
              "try: manifest(%r, %r, 4, epochs=10**5)\n"
              "except KeyboardInterrupt: print('heard')\n" % (pattern(20_000), str(tmp_path / "m")))
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, text=True, check=False)
    assert done.stdout == "heard\n"
    assert all(text.count(b"\n") == 5000 for text in lists(tmp_path / "m").values())
