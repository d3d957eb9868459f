"""What all functions have in common, and the command: sizes and times with units, paths for catalogs, progress, and errors that
name the argument that was meant."""
import inspect
import re
import subprocess
import sys

import pytest

import shoal
from conftest import SHOAL
from shoal import _units


def command_help(command):
    return subprocess.run([SHOAL, command, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout


# ---- Units ----


@pytest.mark.parametrize("text, size", [("0", 0), (5, 5), ("64M", 64 << 20), ("64MB", 64 * 10**6), ("1.5GiB", 3 << 29), (" 2k ", 2048)])
def test_a_size_is_bytes_or_has_a_unit(text, size):
    assert _units.size_of("memory", text) == size


@pytest.mark.parametrize("value, kind", [("", ValueError), ("64 apples", ValueError), ("-1", ValueError), (-1, ValueError), (2**64, ValueError),
                                         ("99999999P", ValueError), (1.5, TypeError), (None, TypeError), (b"64M", TypeError)])
def test_what_is_no_size_is_refused_by_name(value, kind):
    with pytest.raises(kind, match="memory"):
        _units.size_of("memory", value)


@pytest.mark.parametrize("value, ms", [(30, 30000), (0.5, 500), ("30s", 30000), ("500ms", 500), ("10m", 600000), ("2h", 7200000), (1e-9, 1)])
def test_a_time_is_seconds_or_has_a_unit(value, ms):
    assert _units.milliseconds_of("timeout", value) == ms


@pytest.mark.parametrize("value, kind", [("soon", ValueError), ("0", ValueError), (0, ValueError), (-1, ValueError), (float("nan"), ValueError),
                                         (float("inf"), ValueError), (True, TypeError), (None, TypeError), ([1], TypeError)])
def test_what_is_no_time_is_refused_by_name(value, kind):
    with pytest.raises(kind, match="timeout"):
        _units.milliseconds_of("timeout", value)


def test_sizes_and_times_are_taken_with_units_everywhere(tmp_path):
    shoal.index(["a", "b"], tmp_path / "a.cat", root=tmp_path, memory="64M")
    assert len(shoal.index_pattern("f{}", 3, tmp_path / "p.cat", size="1.5K").sizes()) == 3
    assert shoal.Catalog(tmp_path / "p.cat").size(0) == 1536
    assert len(shoal.filter(tmp_path / "p.cat", tmp_path / "f.cat", min_size="1.5K", max_size="1MB")) == 3
    with pytest.raises(shoal.NotFoundError):
        shoal.filter(tmp_path / "p.cat", tmp_path / "f.cat", min_size="1.6K")
    loader = shoal.Loader(tmp_path / "p.cat", 1, data="null:size=1024", memory="64MB", slot="4K", object_size="1K", timeout="30s", stall="500ms")
    assert sum(len(batch) for batch in loader) == 3
    shoal.S3Config(timeout="1500ms", connect_timeout=0.5, backoff="300ms")
    for wrong in ({"timeout": "0"}, {"backoff": "x"}, {"connect_timeout": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            shoal.S3Config(**wrong)


# ---- One word for one thing ----


@pytest.mark.parametrize("function, words, meant", [
    (shoal.Loader, {"store": 1}, "data="), (shoal.Loader, {"on_error": "skip"}, "keep_going="), (shoal.Loader, {"batchsize": 1}, "batch_size="),
    (shoal.Catalog, {"copy": "x"}, "local_copy="), (shoal.index, {"memroy": 1}, "memory="), (shoal.manifest, {"prefix": "x"}, "list_prefix="),
    (shoal.filter, {"not_names": []}, "files_not_from="), (shoal.Catalog.verify, {"where": "x"}, "data="),
    (shoal.Loader, {"shuffle": True}, "mode="), (shoal.Order, {"drop_last": True}, "remainder="),
])
def test_an_argument_that_does_not_exist_is_answered_with_the_one_that_was_meant(function, words, meant):
    name = re.escape(next(iter(words)))
    with pytest.raises(TypeError, match=rf"has no argument {name}=; did you mean {meant}\?"):
        function("x", "y", **words)
    with pytest.raises(TypeError, match=r"has no argument zzzzz=$"):
        function("x", "y", zzzzz=1)


@pytest.mark.parametrize("function, command, same", [
    (shoal.Loader, "read", ["data", "keep_going", "in_flight", "threads", "prefetch", "slot", "memory", "engine", "direct", "timeout", "if_match", "object_size",
                            "seed", "mode", "window", "frozen", "lanes", "lane_batch", "steps"]),
    (shoal.index, "index", ["root", "include", "exclude", "follow", "one_file_system", "keep_going", "samples_per_file", "memory", "tmp_dir",
                            "threads", "update", "resume", "names_only", "null", "etags", "shard", "force", "endpoint", "samples", "format",
                            "columns", "progress"]),
    (shoal.list, "list", ["start_after", "end_before", "limit", "shard", "sizes", "etags", "include", "exclude", "regex", "min_size", "max_size",
                          "follow", "one_file_system", "keep_going", "threads", "tmp_dir", "endpoint", "progress"]),
    (shoal.filter, "filter", ["include", "exclude", "regex", "ignore_case", "min_size", "max_size", "files_from", "files_not_from",
                              "start_after", "end_before", "limit", "force", "progress"]),
    (shoal.merge, "merge", ["root", "repeated", "force", "progress"]), (shoal.split, "split", ["seed", "force", "progress"]),
    (shoal.manifest, "manifest", ["epoch", "epochs", "seed", "mode", "window", "frozen", "list_prefix", "paths", "null", "force", "lanes",
                                  "progress"]),
    (shoal.Catalog.verify, "verify", ["storage", "data", "memory", "tmp_dir", "threads", "keep_going", "progress"]),
    (shoal.Order, "order", ["seed", "epoch", "mode", "remainder", "rank", "window", "frozen", "lanes", "lane_batch"]),
])
def test_arguments_have_the_names_of_the_commands_options(function, command, same):
    parameters, text = inspect.signature(function).parameters, command_help(command)
    for word in same:
        assert word in parameters and re.search(rf"--{word.replace('_', '-')}\b", text), word


def test_a_batch_has_the_same_size_in_the_command_and_in_python(files):
    said = subprocess.run([SHOAL, "order", files, "--ranks", "3", "--rank", "1", "--seed", "5"], check=True, stdout=subprocess.PIPE, text=True).stdout
    order = shoal.Order(files, seed=5, rank=1, world_size=3)
    assert order.batch_size == 32 and list(order.ids()) == [int(line) for line in said.split()]
    assert inspect.signature(shoal.Loader).parameters["batch_size"].default == 32


# ---- A path for a catalog ----


def test_a_path_stands_for_its_catalog(files, tmp_path):
    half = shoal.filter(files, tmp_path / "half.cat", limit=300)
    rest = shoal.filter(files, tmp_path / "rest.cat", files_not_from=half)
    assert shoal.diff(tmp_path / "half.cat", str(tmp_path / "rest.cat")).missing == 300
    assert shoal.merge([tmp_path / "half.cat", rest], tmp_path / "all.cat") == shoal.Catalog(files)
    made = shoal.split(files, {"train": 0.5, "valid": 0.5}, tmp_path)
    assert len(made["train"]) + len(made["valid"]) == 600
    with pytest.raises(shoal.Error, match="is the catalog that is split"):
        shoal.split(tmp_path / "train.cat", {"valid": 0.5, "train": 0.5}, tmp_path)
    assert shoal.stat(files).files == shoal.stat(shoal.Catalog(files)).files == 600
    for use in (lambda: shoal.filter(7, tmp_path / "x"), lambda: shoal.diff(files, 7), lambda: shoal.merge([7], tmp_path / "x")):
        with pytest.raises(TypeError, match="a shoal.Catalog or the path of one is needed, not 7"):
            use()
    with pytest.raises(TypeError, match="not one"):
        shoal.merge(files, tmp_path / "x")
    with pytest.raises(TypeError, match="not a path"):
        shoal.filter(files, tmp_path / "x", files_from="names.txt")


# ---- Progress ----


def calls(files, tmp_path, progress):
    """Every function that takes a shoal.Progress, on a catalog of 600 files."""
    return {
        "filter": lambda: shoal.filter(files, tmp_path / "f.cat", progress=progress),
        "merge": lambda: shoal.merge([files], tmp_path / "m.cat", progress=progress),
        "split": lambda: shoal.split(files, {"a": 1.0}, tmp_path, progress=progress),
        "diff": lambda: shoal.diff(files, files, progress=progress),
        "list": lambda: list(shoal.list(tmp_path, progress=progress)),
        "count": lambda: shoal.count(tmp_path, progress=progress),
        "manifest": lambda: shoal.manifest(files, tmp_path / "lists", 2, progress=progress),
    }


@pytest.mark.parametrize("name", ["filter", "merge", "split", "diff", "list", "count", "manifest"])
def test_progress_is_reported_and_an_exception_of_it_ends_the_call(pattern, tmp_path, name):
    (tmp_path / "file").touch()
    seen, many = [], pattern(10**5)
    calls(many, tmp_path, seen.append)[name]()
    assert seen and all(isinstance(p, shoal.Progress) and p.what in ("names", "lists") for p in seen)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    total = {"manifest": 2, "filter": 10**5, "merge": 10**5, "split": 10**5}.get(name)
    assert all(p.total == total for p in seen)

    def stop(_):
        raise LookupError("enough")

    for path in tmp_path.glob("*.cat"):
        path.unlink()
    with pytest.raises(LookupError, match="enough"):
        calls(many, tmp_path, stop)[name]()
    assert not list(tmp_path.glob("[fma].cat")), "nothing half-written appears"


def test_ctrl_c_ends_a_merge(pattern, tmp_path):
    script = ("import signal, shoal\n"
              "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
              "def first(progress): signal.raise_signal(signal.SIGALRM)\n"
              "try: shoal.merge([%r, %r], %r, repeated='last', progress=first)\n"
              "except KeyboardInterrupt: print('heard')\n" % (pattern(10**5), pattern(10**5), str(tmp_path / "m.cat")))
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, text=True, check=False)
    assert done.stdout == "heard\n" and not (tmp_path / "m.cat").exists()
