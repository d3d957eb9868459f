"""shoal datagen: the same files whoever writes them, whole or not at all, and what is wrong is found and made good."""

import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest
from conftest import check_words, contents, lines, on_terminal, stop, views

SMALL = ["dataset.num_files_train=40", "dataset.num_files_eval=7", "dataset.record_length_bytes=5000"]


@pytest.fixture
def data(memory_dir, tmp_path_factory, request):
    """A directory that is not there yet, in memory."""
    return memory_dir / hashlib.sha1(request.node.nodeid.encode()).hexdigest()[:12]


@pytest.fixture
def workload(tmp_path):
    """The path of a workload file: workload(format="npz", num_files_train=3, ...)."""

    def make(**keys):
        keys = {"format": "jpeg", "num_files_train": 40, "num_files_eval": 7, "record_length_bytes": 5000, **keys}
        path = tmp_path / "w.yaml"
        path.write_text("workload:\n  model: {name: test}\n  framework: pytorch\n  dataset:\n" +
                        "".join(f"    {key}: {value}\n" for key, value in keys.items()) +
                        "  reader: {data_loader: pytorch, batch_size: 2}\n")
        return path

    return make


def tree(path):
    """{name: digest} of everything below, hidden files too."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = pathlib.Path(folder) / name
            found[str(file.relative_to(path))] = hashlib.sha1(file.read_bytes()).hexdigest()
    return found


def facts(output):
    return json.loads(output)


# ---------------------------------------------------------------------------------------------------------------- writing


def test_names_sizes_and_catalog_are_those_of_the_workload(shoal, workload, data):
    said = facts(shoal.good("datagen", workload(), "--data", data, "--json", "-q"))
    assert said["seconds"] > said["sync_seconds"] > 0
    assert (said["files"], said["written"], said["bytes_written"]) == (47, 47, 47 * 5000)
    want = [b"train/img_%02d_of_40.jpeg" % i for i in range(40)] + [b"valid/img_%d_of_7.jpeg" % i for i in range(7)]
    assert shoal.names(data / "catalog.shoal") == want
    assert shoal.names(data / "catalog-train.shoal") == want[:40]
    assert shoal.names(data / "catalog-valid.shoal") == want[40:]
    assert sorted(os.fsencode(name) for name in tree(data) if "/" in name) == want
    assert all(os.path.getsize(data / os.fsdecode(name)) == 5000 for name in want)
    assert shoal.info(data / "catalog.shoal")["bytes"] == 47 * 5000
    assert shoal.info(data / "catalog.shoal")["root"] == f"file://{data}"
    assert os.fsdecode(said["catalog"]) == str(data / "catalog.shoal")


@pytest.mark.parametrize("form", ["csv", "hdf5", "indexed_binary", "jpeg", "npy", "npz", "png", "tfrecord"])
def test_every_format_is_written_and_verified_and_damage_to_it_is_found(shoal, workload, data, form):
    path = workload(format=form, num_samples_per_file=1 if form in ("jpeg", "png") else 3, num_files_train=5)
    shoal.good("datagen", path, "--data", data, "-q")
    assert facts(shoal.good("datagen", path, "--data", data, "--verify", "--json"))["compared"] == 12
    for name in tree(data):
        if "/" not in name or "valid" in name:
            continue
        before = (data / name).read_bytes()
        (data / name).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        result = shoal("datagen", path, "--data", data, "--verify", "--json")
        assert (result.returncode, facts(result.stdout)["damaged"]) == (1, 1)
        check_words(result, 1, name, "has other content")
        (data / name).write_bytes(before)


def test_the_index_of_tfrecords_is_where_dali_looks_for_it(shoal, workload, data):
    shoal.good("datagen", workload(format="tfrecord", num_subfolders_train=3, num_samples_per_file=2), "--data", data, "-q")
    assert (data / "index/train/img_07_of_40.tfrecord.idx").read_text().split() == ["0", "5000", "5000", "5000"]
    assert (data / "train/1/img_07_of_40.tfrecord").exists()
    assert (data / "index/valid/img_3_of_7.tfrecord.idx").exists()


@pytest.mark.parametrize("folders", ["0", "1", "3", "[2, 3]"])
@pytest.mark.parametrize("stdev", [0, 700])
def test_the_catalog_is_what_a_listing_would_find(shoal, workload, data, folders, stdev):
    path = workload(num_subfolders_train=folders, record_length_bytes_stdev=stdev, num_files_eval=0)
    shoal.good("datagen", path, "--data", data, "-q", "--catalog", shoal.scratch / "made")
    shoal.good("index", data, "-q", "--include", "train/**", "-o", shoal.scratch / "listed")
    made, listed = shoal.info(shoal.scratch / "made"), shoal.info(shoal.scratch / "listed")
    assert made["digest"] == listed["digest"] and made["files"] == 40
    assert shoal.good("verify", "-q", shoal.scratch / "made") == b""


def test_sizes_have_the_asked_mean_and_deviation_and_threads_do_not_matter(shoal, workload, data):
    path = workload(num_files_train=400, num_files_eval=0, record_length_bytes_stdev=800, format="indexed_binary")
    shoal.good("datagen", path, "--data", data / "a", "-q", "--threads", 1)
    shoal.good("datagen", path, "--data", data / "b", "-q", "--threads", 9)
    assert tree(data / "a").items() >= {k: v for k, v in tree(data / "b").items() if not k.endswith(".shoal")}.items()
    sizes = [file.stat().st_size for file in (data / "a/train").glob("*.indexed_binary")]
    mean = sum(sizes) / 400
    deviation = (sum((size - mean) ** 2 for size in sizes) / 400) ** 0.5
    assert abs(mean - 5000) < 150 and abs(deviation - 800) < 120


def test_another_seed_gives_other_content(shoal, workload, data):
    shoal.good("datagen", workload(num_files_eval=0), "--data", data / "a", "-q")
    shoal.good("datagen", workload(num_files_eval=0), "--data", data / "b", "-q", "train.seed=7")
    a, b = tree(data / "a/train"), tree(data / "b/train")
    assert a.keys() == b.keys() and not set(a.values()) & set(b.values())


def test_overrides_change_the_workload_that_ships(shoal, data):
    said = facts(shoal.good("datagen", "retinanet_b200", "--data", data, "-q", "--json", "++workload.dataset.num_files_train=3",
                            "dataset.record_length_bytes=600"))
    assert (said["files"], said["bytes_written"]) == (3, 1800)


def test_the_catalog_is_written_to_a_uri_and_a_wrong_one_is_refused_first(shoal, workload, data, tmp_path):
    shoal.good("datagen", workload(), "--data", data, "-q", "--catalog", f"file://{tmp_path}/c.cat")
    assert shoal.info(tmp_path / "c.cat")["files"] == 47
    shutil.rmtree(data)
    check_words(shoal("datagen", workload(), "--data", data, "--catalog", "null:"), 2, "nothing can be written to 'null:'")
    assert not data.exists()


@pytest.mark.parametrize("options", [[], ["--no-catalog"]])
def test_braces_in_names_are_names_to_the_catalog_and_to_a_run(shoal, workload, data, tmp_path, options):
    path = workload(file_prefix="'a{b}{'", num_files_eval=0)
    shoal.good("datagen", path, "--data", data, "-q", *options)
    assert (data / "train/a{b}{_07_of_40.jpeg").exists()
    shoal.good("run", path, "--data", data, "--results", tmp_path / "results", "-q", "train.epochs=1", "metric.au=0")


def test_no_catalog_is_sealed_when_none_is_wanted(shoal, workload, data):
    assert facts(shoal.good("datagen", workload(), "--data", data, "-q", "--no-catalog", "--json"))["catalog"] is None
    assert contents(data) == [".shoal-dataset", "train", "valid"]


def test_what_is_written_to_nothing_is_counted(shoal, workload):
    said = facts(shoal.good("datagen", workload(), "--data", "null:", "-q", "--json"))
    assert (said["written"], said["catalog"]) == (47, None)


# ---------------------------------------------------------------------------------------------------- resuming, repairing


def test_resume_writes_what_is_missing_of_another_size_or_damaged(shoal, workload, data):
    shoal.good("datagen", workload(), "--data", data, "-q")
    want = tree(data)
    (data / "train/img_03_of_40.jpeg").unlink()
    (data / "train/img_04_of_40.jpeg").write_bytes(b"short")
    (data / "valid/img_2_of_7.jpeg").write_bytes(bytes(5000))
    (data / "catalog.shoal").unlink()
    result = shoal("datagen", workload(), "--data", data, "-q", "--resume", "--verify", "--json")
    said = facts(result.stdout)
    assert result.returncode == 0
    assert (said["written"], said["missing"], said["resized"], said["damaged"], said["good"]) == (3, 1, 1, 1, 44)
    assert tree(data) == want


def test_resume_of_a_whole_dataset_writes_nothing(shoal, workload, data):
    shoal.good("datagen", workload(num_files_train=300), "--data", data, "-q")
    before = {name: os.stat(data / name).st_ino for name in tree(data) if "/" in name}
    said = facts(shoal.good("datagen", workload(num_files_train=300), "--data", data, "-q", "--resume", "--json"))
    assert (said["written"], said["good"]) == (0, 307)
    assert 0 < said["compared"] < 40  # one in 64
    assert before == {name: os.stat(data / name).st_ino for name in before}


def test_resume_makes_missing_index_files(shoal, workload, data):
    path = workload(format="indexed_binary", num_samples_per_file=2)
    shoal.good("datagen", path, "--data", data, "-q")
    want = tree(data)
    (data / "train/img_03_of_40.indexed_binary.sz.idx").unlink()
    (data / "train/img_05_of_40.indexed_binary.off.idx").write_bytes(bytes(8))
    said = facts(shoal("datagen", path, "--data", data, "-q", "--resume", "--json").stdout)
    assert (said["written"], said["missing"], said["resized"]) == (2, 1, 1)
    assert tree(data) == want


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def whole_files(data):
    return [path for path in data.glob("train/*") if not path.name.startswith(".")] if data.exists() else []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_run_leaves_only_whole_files_and_resume_completes_it(shoal, workload, data, number):
    path = workload(num_files_train=800, num_files_eval=0, record_length_bytes=200_000)
    process = shoal.start("datagen", path, "--data", data, "-q", "--threads", 1, stdin=subprocess.DEVNULL)
    wait_until(lambda: len(whole_files(data)) > 30)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number
    files = whole_files(data)
    assert 30 < len(files) < 800
    assert {file.stat().st_size for file in files} == {200_000}
    assert not (data / "catalog.shoal").exists()
    if number == signal.SIGKILL:
        (data / "train/.img_000_of_800.jpeg.01234567.partial").write_bytes(b"half")  # in case that none was open
    else:
        assert len(lines(said)) == 1 and b"interrupted" in said and b"--resume" in said
        assert len(contents(data / "train")) == len(files)  # nothing hidden, either
    said = facts(shoal.good("datagen", path, "--data", data, "-q", "--resume", "--json"))
    assert (said["good"], said["missing"], said["damaged"]) == (len(files), 800 - len(files), 0)
    assert said["leftovers"] >= (number == signal.SIGKILL)
    assert len(contents(data / "train")) == 800  # leftovers are gone
    assert shoal.info(data / "catalog.shoal")["files"] == 800
    shutil.rmtree(data)


# ---------------------------------------------------------------------------------------------------------- other datasets


def test_a_directory_with_files_of_the_dataset_is_refused_without_resume(shoal, fails, workload, data):
    shoal.good("datagen", workload(), "--data", data, "-q")
    want = tree(data)
    fails(shoal("datagen", workload(), "--data", data, "-q"), 1, "already", "--resume", "--force")
    assert tree(data) == want
    shoal.good("datagen", workload(), "--data", data, "-q", "--force")
    assert tree(data) == want


@pytest.mark.parametrize("change, words", [
    ("num_files_train=41", "dataset.num_files_train=40"), ("record_length_bytes=6000", "dataset.record_length_bytes=5000"),
    ("num_subfolders_train=2", "num_subfolders_train"), ("format=png", "dataset.format=jpeg"),
    ("file_prefix=x", "dataset.file_prefix=img"), ("record_length_bytes_stdev=1", "stdev"),
])
@pytest.mark.parametrize("option", ["--resume", "--verify", None])
def test_another_dataset_in_the_directory_is_told_and_kept(shoal, fails, workload, data, change, words, option):
    shoal.good("datagen", workload(), "--data", data, "-q")
    want = tree(data)
    options = [option] if option else []
    fails(shoal("datagen", workload(), "--data", data, "-q", "dataset." + change, *options), 1, words)
    assert tree(data) == want


@pytest.mark.parametrize("name", ["train/img_00_of_41.jpeg", "train/3/img_00_of_40.jpeg", "valid/other.txt", "train/img_00_of_40.png"])
def test_files_that_are_not_of_the_dataset_are_told_also_without_a_note(shoal, fails, workload, data, name):
    (data / name).parent.mkdir(parents=True)
    (data / name).write_bytes(b"mine")
    for options in ([], ["--resume"]):
        fails(shoal("datagen", workload(), "--data", data, "-q", *options), 1, name, "not part of this dataset; choose another directory, or use --force")
        assert list(tree(data)) == [name]
    shoal.good("datagen", workload(), "--data", data, "-q", "--force")
    assert (data / name).read_bytes() == b"mine"
    assert len(whole_files(data)) >= 40


# -------------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("arguments, words", [
    ([], "give a workload"), (["retinanet_b200"], "give --data"), (["retinanet_b200", "x", "--data", "d"], "KEY=VALUE"),
    (["retinanet_b200", "--data", ""], "empty"), (["retinanet_b200", "--data", "d", "--threads", "0"], "--threads"),
    (["retinanet_b200", "--data", "d", "--verify", "--force"], "--force"), (["retinanet_b200", "--data"], "needs a value"),
])
def test_wrong_usage_is_told(shoal, fails, tmp_path, arguments, words):
    fails(shoal("datagen", *arguments, cwd=tmp_path), 2, words, empty=tmp_path)


@pytest.mark.parametrize("keys, words", [
    ({"record_length_bytes": 518}, "the least is 519"), ({"format": "npz", "record_length_bytes": 100}, "the least is 459"),
    ({"num_samples_per_file": 2}, "samples"), ({"num_files_train": 0, "num_files_eval": 0}, "num_files_train"),
    ({"record_length_bytes": 100_000_000_000_000}, "the most is"),
    ({"format": "npz", "record_length_bytes": 100_000_000_000_000}, "the most is 17592186044416"),
    ({"format": "synthetic"}, "synthetic"), ({"record_length_bytes": 1000, "record_length_bytes_stdev": 400}, "the least is 519"),
])
def test_what_cannot_be_made_is_told_before_anything_is_written(shoal, workload, data, keys, words):
    result = shoal("datagen", workload(**keys), "--data", data, "-q")
    assert result.returncode == 1
    assert len(lines(result.stderr)) == 1 and words.encode() in result.stderr
    assert not data.exists()


def test_more_files_than_there_are_inodes_is_told(shoal, fails, workload, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=30", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a file system")
    try:
        fails(shoal("datagen", workload(), "--data", disk, "-q"), 1, "inodes free", "the dataset has 47 files", "--force")
        assert contents(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_the_plan_is_that_of_datasize_and_run(shoal, workload, data):
    result = shoal("datagen", workload(), "--data", data, "--json")
    said = facts(result.stdout)
    assert (said["bytes_train"], said["bytes_valid"], said["steps_per_epoch"]) == (40 * 5000, 7 * 5000, 20)
    assert b"47 files, 235 KB; 20 steps per epoch on 1 accelerator" in result.stderr
    needed = facts(shoal.good("datasize", workload(), "--accelerators", 1, "--json"))["files"]
    warning, = [line for line in lines(result.stderr) if b"warning" in line]
    assert b"MLPerf requires %d here" % needed in warning
    assert b"warning" not in shoal("datagen", workload(), "--data", data, "--verify").stderr


def test_two_at_a_time_in_one_directory_are_refused(shoal, fails, workload, data):
    path = workload(num_files_train=20000)
    first = shoal.start("datagen", path, "--data", data, "-q", "--threads", 1)
    wait_until(lambda: (data / "train").exists() and len(contents(data / "train")) > 3)
    assert stop(first)
    before = len(contents(data / "train"))
    for option in (["--resume"], ["--force"], []):
        fails(shoal("datagen", path, "--data", data, "-q", *option), 1, "another datagen is writing")
    assert len(contents(data / "train")) == before
    first.send_signal(signal.SIGTERM)
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert not (data / ".shoal-lock").exists()
    assert shoal("datagen", path, "--data", data, "-q", "--resume", "dataset.num_files_generated=20000").returncode == 0


def test_verify_goes_on_where_something_else_is_in_place_of_a_file(shoal, workload, data):
    path = workload()
    shoal.good("datagen", path, "--data", data, "-q")
    folder, pipe, cut = (data / "train" / f"img_{i:02}_of_40.jpeg" for i in (3, 5, 30))
    for file in (folder, pipe):
        file.unlink()
    folder.mkdir()
    os.mkfifo(pipe)
    cut.write_bytes(b"")
    result = shoal("datagen", path, "--data", data, "-q", "--verify", "--json")
    assert result.returncode == 1
    assert (facts(result.stdout)["good"], facts(result.stdout)["damaged"], facts(result.stdout)["resized"]) == (44, 2, 1)
    for name, words in ((folder, "is not a file"), (pipe, "is not a file"), (cut, "has another size")):
        assert f"{name.name}' {words}".encode() in result.stderr
    folder.rmdir()
    result = shoal("datagen", path, "--data", data, "-q", "--resume", "--json")
    assert result.returncode == 0, result.stderr
    assert facts(result.stdout)["written"] == 3


def test_an_unknown_workload_is_told(shoal, fails, tmp_path):
    fails(shoal("datagen", "retinanet_b2000", "--data", tmp_path / "d"), 2, "retinanet_b2000", empty=tmp_path)


def test_a_file_where_the_directory_should_be_is_told(shoal, fails, workload, tmp_path):
    (tmp_path / "d").write_bytes(b"")
    fails(shoal("datagen", workload(), "--data", tmp_path / "d", "-q"), 1, str(tmp_path / "d"))
    fails(shoal("datagen", workload(), "--data", tmp_path / "d/x", "-q"), 1, str(tmp_path / "d"))
    (tmp_path / "e").mkdir()
    (tmp_path / "e/train").write_bytes(b"")
    fails(shoal("datagen", workload(), "--data", tmp_path / "e", "-q"), 1, "'train'", "is a file")


def test_verify_of_a_directory_that_is_not_there_is_told_and_makes_none(shoal, fails, workload, data):
    fails(shoal("datagen", workload(), "--data", data, "--verify"), 1, "there is no directory")
    assert not data.exists()


def test_a_full_disk_is_told_in_one_sentence_and_leaves_nothing_half(shoal, fails, workload, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a file system")
    try:
        path = workload(num_files_train=500, record_length_bytes=40_000)
        fails(shoal("datagen", path, "--data", disk, "-q"), 1, "has 1.05 MB free", "the dataset needs 20.3 MB", "--force")
        assert contents(disk) == []
        fails(shoal("datagen", path, "--data", disk, "-q", "--force"), 1, "No space left on device", "train/img_")
        files = contents(disk / "train")
        assert 5 < len(files) < 30 and not any(name.startswith(".") for name in files)
        assert {os.path.getsize(disk / "train" / name) for name in files} == {40_000}
        assert contents(disk) == [".shoal-dataset", "train"]
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        fails(shoal("datagen", path, "--data", disk, "-q", "--resume"), 1, "Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw,size=40m", disk], check=True)
        assert facts(shoal.good("datagen", path, "--data", disk, "-q", "--resume", "--json"))["good"] == len(files)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_that_may_not_grow_is_an_error_like_others(shoal, fails, workload, data):
    result = shoal("datagen", workload(), "--data", data, "-q",
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
    fails(result, 1, "File too large")
    assert tree(data).keys() == {".shoal-dataset"}


def test_a_catalog_that_cannot_be_written_is_told_and_the_files_stay(shoal, fails, workload, data):
    fails(shoal("datagen", workload(), "--data", data, "-q", "--catalog", "/no/such/folder/c"), 1, "/no/such/folder/c", "catalog")
    assert len(whole_files(data)) == 40


# --------------------------------------------------------------------------------------------------------------- the terminal


def test_a_terminal_shows_a_view_that_is_drawn_again_and_taken_away(shoal, workload, data):
    path = workload(format="csv", num_files_train=90, record_length_bytes=10_000_000)
    seen = on_terminal(shoal.arguments(["datagen", path, "--data", "null:", "--threads", 1]), 0)
    shown = views(seen)
    assert len(shown) >= 3 and shown[-1] == ""
    assert "of 97 files" in shown[1] and "ETA " in shown[-2] and "MB/s" in shown[-2]
    assert not data.exists()


def test_quiet_says_nothing_on_a_terminal(shoal, workload):
    path = workload(format="csv", num_files_train=30, record_length_bytes=10_000_000)
    assert on_terminal(shoal.arguments(["datagen", path, "--data", "null:", "--threads", 1, "-q"]), 0) == b""
