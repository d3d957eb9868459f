"""shoal read: what an epoch took, in text and JSON, the proof that it was all there, and words for what was not."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import binary, wait_until_it_hears, wait_until_it_sleeps

SIZES = [0, 1, 4095, 4096, 4097, 20000, 300]
FILES = 50


def size(i):
    return SIZES[i % len(SIZES)]


TOTAL = sum(size(i) for i in range(FILES))


@pytest.fixture
def tree(tmp_path):
    """A directory of files on a disk."""
    root = tmp_path / "tree"
    (root / "d").mkdir(parents=True)
    for i in range(FILES):
        (root / "d" / f"{i:03}").write_bytes(os.urandom(size(i)))
    return root


@pytest.fixture
def catalog(shoal, tree):
    path = shoal.scratch / "tree.cat"
    shoal.good("index", tree, "-q", "-o", path)
    return path


def read(shoal, *args):
    """The facts, after checking that nothing was complained of."""
    return json.loads(shoal.good("read", *args, "--json"))


def parts(facts):
    return facts["audit"]["exactly_once"], facts["samples"], facts["bytes"], facts["errors"]


# ---------------------------------------------------------------------------------------------------------- what it says


def test_json_has_all_facts(shoal, catalog):
    facts = read(shoal, catalog)
    assert facts["samples"] == FILES
    assert facts["bytes"] == TOTAL
    assert facts["seconds"] > 0
    assert facts["engine"] in ("uring", "threads")
    assert facts["ranks"] == 1 and facts["epoch"] == 0 and facts["errors"] == 0
    assert facts["pool_bytes"] >= 3 * 32 * max(SIZES)
    latency = facts["latency_us"]
    assert set(latency) == {"p50", "p90", "p99", "p99.9", "max"}
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    for part in ("open_us", "read_us"):
        assert set(facts[part]) == set(latency) and 0 < facts[part]["p50"] <= facts[part]["max"] <= latency["max"]
    assert 0 < facts["first_batch_seconds"] < 60
    audit = facts["audit"]
    assert audit["exactly_once"] is True
    assert re.fullmatch("[0-9a-f]{32}", audit["order_digest"])
    assert audit["bytes_asked"] == audit["bytes_delivered"] == TOTAL
    assert audit["bytes_from_device"] is None or audit["bytes_from_device"] >= 0
    assert audit["cached_share"] is None or 0 <= audit["cached_share"] <= 1


def test_text_says_the_same(shoal, catalog):
    digest = read(shoal, catalog)["audit"]["order_digest"]
    said = shoal.good("read", catalog).decode().splitlines()
    assert len(said) == 5
    assert said[0].startswith(f"epoch 0: {FILES} samples, ") and " by 1 rank: " in said[0]
    assert [line.split()[0] for line in said[1:]] == ["engine", "latency", "audit", "bytes"]
    assert said[3] == f"audit     every sample exactly once; order {digest}"
    assert TOTAL == 228123 and said[4].startswith("bytes     228 KB asked, 228 KB delivered, ")


# --------------------------------------------------------------------------------- several epochs, for a time, repeatedly


@pytest.fixture
def pattern(shoal):
    """A catalog of 200 names, to be read from the null store."""
    return shoal.pattern("f{:05d}", 200, "--size", 1000)


def rates(figures):
    return figures["samples_per_second"], figures["bytes_per_second"]


def test_several_epochs_are_read_one_after_the_other(shoal, catalog):
    facts = read(shoal, catalog, "--epochs", 3, "--epoch", 4)
    assert parts(facts) == (True, 3 * FILES, 3 * TOTAL, 0)
    assert (facts["epoch"], facts["epochs"], facts["audit"]["whole"]) == (4, 3, True)
    digests = [int(read(shoal, catalog, "--epoch", e)["audit"]["order_digest"][:16], 16) for e in (4, 5, 6)]
    assert int(facts["audit"]["order_digest"][:16], 16) == sum(digests) % 2**64
    said = shoal.good("read", catalog, "--epochs", 3).decode()
    assert said.startswith(f"epochs 0 to 2: {3 * FILES} samples, ")
    assert "\naudit     every sample exactly once per epoch; order " in said


def test_steps_are_those_of_each_epoch(shoal, catalog):
    facts = read(shoal, catalog, "--epochs", 3, "--steps", 2, "--batch", 7)
    assert (facts["samples"], facts["audit"]["exactly_once"], facts["audit"]["whole"]) == (42, True, False)


def test_it_ends_when_the_time_is_up(shoal, pattern):
    """In the middle of an epoch that would take hours; without --epochs it reads any number of them."""
    facts = read(shoal, pattern, "--data", "null:size=1000,delay_us=20000", "--in-flight", 1, "--batch", 1, "--duration", 0.3)
    assert 0 < facts["samples"] < 200 and 0.3 <= facts["seconds"]
    assert facts["audit"]["exactly_once"] and not facts["audit"]["whole"] and facts["epochs"] == 1
    facts = read(shoal, pattern, "--data", "null", "--duration", 0.3)
    assert facts["samples"] > 200 and facts["epochs"] > 1 and facts["audit"]["exactly_once"]


def test_a_read_that_never_ends_ends_with_its_time(shoal, pattern):
    facts = read(shoal, pattern, "--data", "null:size=1,delay_us=3600000000", "--in-flight", 1, "--duration", 0.2)
    assert facts["samples"] == 0 and facts["seconds"] >= 0.2


def test_epochs_may_end_before_the_time(shoal, pattern):
    facts = read(shoal, pattern, "--data", "null", "--epochs", 2, "--duration", "1h")
    assert (facts["samples"], facts["epochs"], facts["audit"]["whole"]) == (400, 2, True)


def test_a_warm_up_is_read_and_not_counted(shoal, pattern):
    slow = ["--data", "null:size=1000,delay_us=10000", "--in-flight", 1, "--batch", 1]
    facts = read(shoal, pattern, *slow, "--warm-up", 0.5)
    assert 0 < facts["samples"] < 200 and facts["bytes"] == 1000 * facts["samples"]
    assert facts["audit"]["exactly_once"] and not facts["audit"]["whole"] and facts["warm_up_seconds"] == 0.5
    facts = read(shoal, pattern, "--data", "null", "--warm-up", 0.1, "--duration", 0.2)
    assert 0.2 <= facts["seconds"] and facts["audit"]["exactly_once"]
    said = shoal.good("read", pattern, *slow, "--warm-up", "500ms").decode()
    assert "\nwarm-up   0.5 s, not counted\n" in said and " of 200 samples, each exactly once; order " in said


def test_a_warm_up_that_takes_all_is_refused(shoal, pattern, fails):
    fails(shoal("read", pattern, "--data", "null", "--warm-up", 60, "--epochs", 2), 1,
          "within the warm-up of 60.00 s", "--epochs")


@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_spread_of_repeated_measurements_is_printed(shoal, pattern, times):
    facts = read(shoal, pattern, "--data", "null", "--repeat", times, "--epochs", 2)
    each = facts["repeats"]
    assert [f["samples"] for f in each] == times * [400] and facts["samples"] == times * 400
    assert math.isclose(facts["seconds"], sum(f["seconds"] for f in each), rel_tol=1e-6)
    for nr, name in enumerate(["samples_per_second", "bytes_per_second"]):
        values = sorted(rates(f)[nr] for f in each)
        middle = (values[(times - 1) // 2] + values[times // 2]) / 2
        spread = facts["spread"][name]
        assert math.isclose(spread["median"], middle, rel_tol=1e-4)
        assert (spread["lowest"], spread["highest"]) == (values[0], values[-1])
    said = shoal.good("read", pattern, "--data", "null", "--repeat", times).decode()
    assert said.count("\nrepeat ") == (times if times > 1 else 0)
    assert ("\nspread    samples/s: median " in said) == (times > 1)


def test_an_interrupted_repetition_is_not_in_the_spread(shoal, pattern):
    process = shoal.start("read", pattern, "--data", "null:size=1000,delay_us=1000", "--in-flight", 4, "--repeat", 9999,
                          "--json", "--progress", "json")
    assert b'"progress"' in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and b"interrupted: these figures" in err
    facts = json.loads(out)
    whole = [f for f in facts["repeats"] if not f["interrupted"]]
    assert facts["interrupted"] and 0 < len(whole) < 9999 and len(facts["repeats"]) - len(whole) <= 1
    assert facts["spread"]["samples_per_second"]["highest"] == max(f["samples_per_second"] for f in whole)
    assert facts["audit"]["exactly_once"]


# ------------------------------------------------------------------------------------------------------------- the order


def test_epoch_and_seed_change_the_order_and_nothing_else(shoal, catalog):
    runs = [["--epoch", 0], ["--epoch", 1], ["--epoch", 2], ["--seed", 1], ["--mode", "sequential"]]
    facts = [read(shoal, catalog, *options) for options in runs]
    assert {parts(f) for f in facts} == {(True, FILES, TOTAL, 0)}
    assert len({f["audit"]["order_digest"] for f in facts}) == len(runs)
    assert [f["epoch"] for f in facts] == [0, 1, 2, 0, 0]
    again = read(shoal, catalog, "--epoch", 1)
    assert again["audit"]["order_digest"] == facts[1]["audit"]["order_digest"]


def test_a_frozen_order_is_that_of_epoch_0(shoal, catalog):
    digests = [read(shoal, catalog, *options)["audit"]["order_digest"]
               for options in ([], ["--frozen", "--epoch", 7], ["--epoch", 7])]
    assert digests[0] == digests[1] != digests[2]


def test_how_it_is_read_does_not_change_the_order(shoal, catalog):
    ways = [[], ["--batch", 1], ["--batch", 7], ["--batch", 1000], ["--in-flight", 1], ["--prefetch", 1],
            ["--prefetch", 9, "--in-flight", 500], ["--engine", "threads"]]
    facts = [read(shoal, catalog, *options) for options in ways]
    assert {parts(f) for f in facts} == {(True, FILES, TOTAL, 0)}
    assert len({f["audit"]["order_digest"] for f in facts}) == 1


@pytest.mark.parametrize("mode", ["sequential", "global", "files", "window", "local"])
def test_every_mode_is_proven_whole_and_in_part(shoal, catalog, mode):
    assert parts(read(shoal, catalog, "--mode", mode, "--batch", 7)) == (True, FILES, TOTAL, 0)
    for steps in (1, 3, 7, 8, 9):  # the 8th is short, and there is no 9th
        facts = read(shoal, catalog, "--mode", mode, "--batch", 7, "--steps", steps)
        assert facts["samples"] == min(7 * steps, FILES)
        assert facts["audit"]["exactly_once"] is True


# --------------------------------------------------------------------------------------------------------------- engines


@pytest.mark.parametrize("direct", [[], ["--direct"]], ids=["buffered", "direct"])
@pytest.mark.parametrize("engine", ["uring", "threads", "auto"])
def test_engines_read_the_same(shoal, catalog, engine, direct):
    result = shoal("read", catalog, "--json", "--engine", engine, *direct)
    if result.returncode == 1 and re.search(rb"io_uring|O_DIRECT", result.stderr):
        pytest.skip(result.stderr.decode())
    assert (result.returncode, result.stderr) == (0, b"")
    facts = json.loads(result.stdout)
    assert parts(facts) == (True, FILES, TOTAL, 0)
    assert engine in ("auto", facts["engine"])
    assert ("direct" in facts["engine_detail"]) == bool(direct)


def test_records_are_samples_of_their_own(shoal, tree):
    path = shoal.scratch / "records.cat"
    shoal.good("index", tree, "-q", "--samples-per-file", 4, "-o", path)
    for options in ([], ["--engine", "threads"], ["--mode", "window"], ["--mode", "files", "--batch", 3]):
        assert parts(read(shoal, path, *options)) == (True, 4 * FILES, TOTAL, 0)


def test_another_directory_may_be_read(shoal, catalog, tree, tmp_path, fails):
    tree.rename(tmp_path / "moved")
    fails(shoal("read", catalog), 1, "tree")
    assert parts(read(shoal, catalog, "--data", tmp_path / "moved")) == (True, FILES, TOTAL, 0)
    assert parts(read(shoal, catalog, "--data", f"file://{tmp_path}/moved")) == (True, FILES, TOTAL, 0)


def test_the_null_store_needs_no_files(shoal):
    path = shoal.pattern("img_{:06d}", 100_000)
    facts = read(shoal, path, "--data", "null", "--object-size", 1000)
    assert parts(facts) == (True, 100_000, 100_000_000, 0)
    assert facts["audit"]["cached_share"] is None, "there is nothing to look at"
    assert facts["audit"]["bytes_asked"] == 100_000_000
    sized = shoal.pattern("img_{:06d}", 100, "--size", 77, to=shoal.scratch / "sized")
    assert read(shoal, sized, "--data", "null")["bytes"] == 7700
    assert read(shoal, sized, "--data", "null", "--object-size", 5)["bytes"] == 500


@pytest.mark.parametrize("store", ["null:", "null:delay_us=1", "null:fill=none", "null:fill=none,delay_us=1"])
def test_samples_of_a_null_store_that_is_not_told_their_size_have_the_catalog_s(shoal, catalog, store):
    assert parts(read(shoal, catalog, "--data", store)) == (True, FILES, TOTAL, 0)
    assert parts(read(shoal, catalog, "--data", store, "--object-size", "10")) == (True, FILES, 10 * FILES, 0)


def test_a_local_copy_is_read_as_well(shoal, catalog, tmp_path):
    (tmp_path / "copies").mkdir()
    assert parts(read(shoal, catalog, "--local-copy", tmp_path / "copies")) == (True, FILES, TOTAL, 0)
    assert len(os.listdir(tmp_path / "copies")) >= 1


# ---------------------------------------------------------------------------------------------------------------- errors


def test_what_cannot_be_read_ends_it_with_its_name(shoal, catalog, tree, fails):
    (tree / "d" / "007").unlink()
    fails(shoal("read", catalog), 1, "'d/007' does not exist")
    fails(shoal("read", catalog, "--json"), 1, "sample 7", "'d/007' does not exist")


TROUBLES = {
    "vanished": (lambda path: path.unlink(), "does not exist"),
    "shrunk": (lambda path: path.write_bytes(b"x" * 100), "has only 100 of the 20000 bytes in the catalog"),
    "grown": (lambda path: path.write_bytes(b"x" * 20001), "is larger than the 20000 bytes in the catalog"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "is a directory"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
}


@pytest.mark.parametrize("engine", ["threads", "auto"])
@pytest.mark.parametrize("make, words", TROUBLES.values(), ids=TROUBLES)
def test_what_is_skipped_is_counted_and_named(shoal, catalog, tree, make, words, engine):
    for i in 5, 12:
        make(tree / "d" / f"{i:03}")
    result = shoal("read", catalog, "--keep-going", "--json", "--engine", engine)
    assert result.returncode == 1, "not every sample was read"
    said = sorted(result.stderr.decode().splitlines())
    assert len(said) == 2
    for line, i in zip(said, (12, 5)):
        assert line.startswith(f"shoal read: sample {i}: ") and f"'d/{i:03}'" in line and words in line
    facts = json.loads(result.stdout)
    assert parts(facts) == (False, FILES - 2, TOTAL - 40000, 2)
    assert facts["audit"]["bytes_asked"] == TOTAL
    result = shoal("read", catalog, "--keep-going", "--engine", engine)
    assert result.returncode == 1
    assert b"NOT every sample exactly once" in result.stdout
    assert b"\nerrors    2 samples could not be read, and were left out\n" in result.stdout


def test_of_nothing_that_was_read_there_is_no_cpu_time(shoal, tmp_path):
    path = shoal.index([b"gone"], sizes=[5], root=tmp_path)
    result = shoal("read", path, "--keep-going")
    assert result.returncode == 1 and b"CPU" not in result.stdout and b"latency" not in result.stdout
    assert b"\nerrors    1 sample could not be read, and was left out\n" in result.stdout
    facts = json.loads(shoal("read", path, "--keep-going", "--json").stdout)
    assert facts["samples"] == 0 and facts["cpu_us_per_sample"] is None


def test_no_more_than_ten_are_named(shoal, catalog, tree):
    for i in range(30):
        (tree / "d" / f"{i:03}").unlink()
    result = shoal("read", catalog, "--keep-going", "--json")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 10
    assert json.loads(result.stdout)["errors"] == 30


def test_errors_behind_the_last_step_do_not_count(shoal, catalog, tree):
    (tree / "d" / "010").unlink()
    options = ["--mode", "sequential", "--batch", 5, "--steps", 2, "--prefetch", 5]
    for _ in range(5):
        assert read(shoal, catalog, *options)["samples"] == 10
        assert parts(read(shoal, catalog, *options, "--keep-going"))[:2] == (True, 10)


def test_a_catalog_without_sizes_needs_to_be_told(shoal, tree, fails):
    path = shoal.scratch / "names.cat"
    shoal.good("index", tree, "-q", "--no-sizes", "-o", path)
    fails(shoal("read", path), 1, "the catalog has no sizes", "--slot")
    facts = read(shoal, path, "--slot", 20000)
    assert parts(facts) == (True, FILES, TOTAL, 0)
    fails(shoal("read", path, "--slot", 19999), 1, "is larger than the 19999 bytes that there is room for")


def test_a_slot_that_is_too_small_is_said(shoal, catalog, fails):
    fails(shoal("read", catalog, "--slot", "4K"), 1, "bytes, and there is room for 4096; raise --slot to ", ", or use --pieces")


@pytest.mark.parametrize("engine, direct", [("uring", []), ("uring", ["--direct"]), ("threads", [])])
def test_samples_come_in_pieces_when_asked(shoal, catalog, engine, direct):
    whole = read(shoal, catalog, "--engine", engine, *direct)
    pieces = read(shoal, catalog, "--engine", engine, *direct, "--slot", "4K", "--pieces")
    assert parts(pieces) == (True, FILES, TOTAL, 0)
    assert pieces["audit"]["order_digest"] == whole["audit"]["order_digest"]
    assert pieces["pool_bytes"] < whole["pool_bytes"]
    some = read(shoal, catalog, "--engine", engine, *direct, "--slot", "4K", "--pieces", "--batch", 3, "--steps", 4)
    assert (some["samples"], some["audit"]["exactly_once"]) == (12, True)


def test_pieces_need_sizes(shoal, tree, fails):
    path = shoal.scratch / "no-sizes.cat"
    shoal.good("index", tree, "-q", "--no-sizes", "-o", path)
    fails(shoal("read", path, "--pieces", "--slot", "4K"), 1, "the number of pieces of a sample is unknown; index it again without --no-sizes")


# --------------------------------------------------------------------------------------------------------------- memory


# A small process in between: a child's peak begins with the size of the process that forked it, which may be pytest's.
MEASURE = """import os, resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)"""


def read_and_peak(*args):
    """The facts, and the most memory that the process had, in bytes."""
    done = subprocess.run([sys.executable, "-c", MEASURE, binary(), "read", "--json", "-q", *map(str, args)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    return json.loads(done.stdout), int(done.stderr) * 1024


def is_plain():
    """Whether the command is without a sanitizer, which has memory of its own."""
    return b"__asan_init" not in (said := open(binary(), "rb").read()) and b"__tsan_init" not in said


@pytest.mark.parametrize("engine, direct", [("uring", []), ("uring", ["--direct"]), ("threads", [])])
def test_one_large_file_does_not_make_all_buffers_large(shoal, tmp_path, engine, direct):
    (tmp_path / "tree").mkdir()
    for i in range(600):
        (tmp_path / "tree" / f"{i:03}").write_bytes(b"x" * 1000)
    (tmp_path / "tree" / "large").write_bytes(b"x" * 15_300_000)
    shoal.good("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    facts, peak = read_and_peak(tmp_path / "c", "--batch", 256, "--engine", engine, *direct)
    assert facts["samples"] == 601 and facts["audit"]["exactly_once"]
    assert facts["pool_bytes"] < 40e6
    assert peak < 120e6 or not is_plain()


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("batch, prefetch", [(4, 2), (16, 2), (16, 6)])
def test_memory_follows_the_bytes_in_flight(shoal, tmp_path, engine, batch, prefetch):
    draw = random.Random(5)
    sizes = [int(min(1e8, max(1e3, draw.lognormvariate(math.log(3e5), 2)))) for _ in range(160)]
    sizes[80] = 10**8
    (tmp_path / "tree").mkdir()
    for i, n in enumerate(sizes):
        with open(tmp_path / "tree" / f"{i:03}", "wb") as f:
            f.truncate(n)  # takes no disk
    shoal.good("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    steps = [sum(sizes[i:i + batch]) for i in range(0, 160, batch)]
    most = max(sum(steps[i:i + prefetch + 1]) for i in range(len(steps)))
    facts, peak = read_and_peak(tmp_path / "c", "--batch", batch, "--prefetch", prefetch, "--engine", engine, "--mode",
                                "sequential")
    assert facts["samples"] == 160 and facts["bytes"] == sum(sizes)
    assert facts["pool_bytes"] < 1.3 * most
    assert peak < 1.3 * most or not is_plain()


@pytest.mark.parametrize("engine", ["uring", "threads"])
def test_a_memory_limit_is_kept_or_the_step_that_exceeds_it_is_named(shoal, catalog, fails, engine):
    options = [catalog, "--batch", 5, "--prefetch", 8, "--engine", engine, "--mode", "sequential"]
    needs = [sum((size(i) + 4096) // 4096 * 4096 for i in range(first, first + 5)) for first in range(0, FILES, 5)]
    for memory in (max(needs), max(needs) + 4096, 3 * max(needs)):
        facts = read(shoal, *options, "--memory", memory)
        assert parts(facts) == (True, FILES, TOTAL, 0) and facts["pool_bytes"] <= memory
    fails(shoal("read", *options, "--memory", max(needs) - 1), 1,
          f"the batch of step {needs.index(max(needs))} needs {max(needs)} bytes of memory, and the limit is "
          f"{max(needs) - 1}: raise the memory limit or lower the batch size")
    facts = read(shoal, *options, "--memory", 8192, "--pieces", "--slot", "4K")
    assert parts(facts) == (True, FILES, TOTAL, 0) and facts["pool_bytes"] <= 8192


BAD = {
    "--batch": ["0", "x", "-1", "1.5", "1048577", ""],
    "--steps": ["0", "x"],
    "--in-flight": ["0", "8193", "x"],
    "--prefetch": ["0", "1025"],
    "--engine": ["posix", ""],
    "--object-size": ["0", "x"],
    "--slot": ["0", "-5"],
    "--memory": ["0", "-5", "x"],
    "--timeout": ["0", "x"],
    "--mode": ["random"],
    "--ranks": ["2", "x"],
}


@pytest.mark.parametrize("option, value", [(o, v) for o, values in BAD.items() for v in values])
def test_bad_values_are_refused(shoal, catalog, fails, option, value):
    fails(shoal("read", catalog, option, value), 2, option)


def test_other_bad_uses_are_refused(shoal, catalog, tmp_path, fails):
    fails(shoal("read"), 2, "give one catalog")
    fails(shoal("read", catalog, catalog), 2, "give one catalog")
    fails(shoal("read", catalog, "--what"), 2, "--what")
    fails(shoal("read", tmp_path / "none"), 1, "none", "No such file")
    fails(shoal("read", __file__), 1, "test_read.py")
    for store in [], ["--data", tmp_path]:
        fails(shoal("read", catalog, "--object-size", 5, *store), 2, "--object-size is for --data null")
    for store in "null", "null:size=5", "s3://bucket":
        fails(shoal("read", catalog, "--data", store, "--engine", "uring"), 2, "--engine uring reads files", store)
    for store, words in ("", "empty"), ("null:fill=all", "null:fill must be none"), ("null:size=x", "'x'"):
        fails(shoal("read", catalog, "--data", store), 2, "--data: ", words)
    fails(shoal("read", catalog, "--data", tmp_path / "none"), 1, str(tmp_path / "none"))
    fails(shoal("read", shoal.index([], to=tmp_path / "empty")), 1, "empty'", "the catalog lists no files: index a directory that has some")
    none = shoal.index([b"a"], sizes=[1], samples=[0], to=tmp_path / "none")
    fails(shoal("read", none), 1, "none'", "the catalog has no samples")


@pytest.mark.parametrize("options", [["--direct"], ["--drop-cache"], ["--direct", "--drop-cache"]])
def test_what_is_for_files_is_refused_for_a_bucket(shoal, catalog, options):
    bucket = shoal.index([b"a"], sizes=[1], root="s3://bucket/d")
    for path, store in (bucket, []), (catalog, ["--data", "s3://bucket"]):
        result = shoal("read", path, *options, *store)
        assert result.returncode == 2 and not result.stdout
        words = f"shoal read: '{path}': {options[0]} is for files: objects in a bucket are not in the page cache\n"
        assert result.stderr.decode() == words
    assert shoal("read", catalog, *options, "--data", "null").returncode == 0
    assert shoal("read", bucket, *options, "--data", shoal.scratch).returncode == 1, "it goes on to read files"


# -------------------------------------------------------------------------------------------------- stopping and stalling


def slow(shoal, *options):
    """Reading from a store that does not answer within an hour."""
    path = shoal.pattern("img_{:06d}", 1000, "--size", 10)
    return shoal.start("read", path, "--data", "null:size=10,delay_us=3600000000", *options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(shoal, number):
    process = slow(shoal)
    wait_until_it_hears(process, number)
    wait_until_it_sleeps(process)
    sent = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < 20
    assert (process.returncode, out, err) == (-number, b"", b"shoal read: interrupted\n")


def test_a_time_out_ends_it_and_names_a_sample(shoal):
    started = time.monotonic()
    process = slow(shoal, "--timeout", 1, "--mode", "sequential")
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 20
    assert (process.returncode, out) == (1, b"")
    assert err.count(b"\n") == 1
    assert b"64 samples are in flight for longer than 1 s, the oldest for 1." in err and b"'img_000000'" in err


# ---------------------------------------------------------------------------------------------------------------- limits

FORBID = """
import ctypes, os, struct, sys
# A filter, as containers have one: load the call's number; if it is io_uring_setup (425) EPERM, else go on.
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_where_io_uring_is_forbidden_threads_read_and_it_is_said(catalog):
    def start(*options):
        return subprocess.run([sys.executable, "-c", FORBID, binary(), "read", catalog, *options], capture_output=True,
                              timeout=60, check=False)
    done = start("--json")
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    facts = json.loads(done.stdout)
    assert parts(facts) == (True, FILES, TOTAL, 0)
    assert facts["engine"] == "threads" and "io_uring is not permitted here" in facts["engine_detail"]
    forced = start("--engine", "uring")
    assert forced.returncode == 1 and b"io_uring is not permitted here" in forced.stderr


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("nr", [4, 5, 6, 7, 8, 10, 16])
def test_few_descriptors_are_enough_or_it_is_said(catalog, engine, nr):
    # To look for leaks takes descriptors, too.
    env = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    done = subprocess.run(["bash", "-c", f"ulimit -n {nr}; exec \"$@\"", "x", binary(), "read", catalog, "--engine", engine,
                           "--json"], capture_output=True, timeout=60, check=False, env=env)
    if done.returncode == 0:
        assert parts(json.loads(done.stdout)) == (True, FILES, TOTAL, 0)
    else:
        assert nr < 10 and done.returncode in (1, 127) and len(done.stderr.splitlines()) == 1, done.stderr
