"""DLIO without its list: shoal.dlio.Callback in the three DLIOs as they are, with their own workers and readers."""
import collections
import json
import os
import shutil
import subprocess
import sys

import pytest

import shoal

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "dlio"))
sys.path.append(os.path.join(os.path.dirname(__file__), "..", "s3"))  # it has a conftest.py, too
import objects  # noqa: E402
from bucket import Bucket, of_others_unchecked  # noqa: E402
from contents import CONTENTS, index_files  # noqa: E402
from real import CALLBACK, DLIOS, MODULE, Dlio, is_there  # noqa: E402

THERE = [name for name in DLIOS if is_there(name)]
if not THERE:
    pytest.skip("no DLIO: make test-dlio installs PyPI's, and takes checkouts of the other two", allow_module_level=True)

NR, BATCH = 96, 8


@pytest.fixture(params=THERE)
def dlio(request, tmp_path):
    return Dlio(request.param, tmp_path)


def make(dlio, nr=NR, kind="jpeg", samples=1, **options):
    names = dlio.make(nr=nr, ext=kind, content=CONTENTS[kind](samples), **options)
    if "indexed" in kind:
        for name in names:
            for end, content in index_files(samples).items():
                (dlio.data / "train" / (name + end)).write_bytes(content)
    return [os.path.join("train", name) for name in names]


def run(dlio, ranks=2, how=CALLBACK, good=True, **keys):
    keys = {"dataset__num_files_train": NR, "reader__batch_size": BATCH, "reader__read_threads": 2, "reader__multiprocessing_context": "fork",
            "reader__prefetch_size": 2, **keys}
    done = dlio.run(ranks, how=how, opens=True, **keys)
    assert done.code == 0 or not good and "outputs saved" in done.text, done.text[-3000:]
    return [name for name in done.names if not name.endswith(".idx")]


def warm_up(dlio, ranks, workers):
    """How many files MLCommons' may read in addition: before each epoch, and after the last, it starts workers and drops them."""
    return 4 * ranks * BATCH * (max(workers, 1) + 1) if dlio.name == "mlcommons" else 0


def assert_three_epochs(dlio, read, names, ranks=2, workers=2):
    """Each file is opened once per epoch; and once more only in what MLCommons' reads to warm up."""
    opened = collections.Counter(read)
    assert set(opened) == set(names)
    assert 3 * len(names) <= len(read) <= 3 * len(names) + warm_up(dlio, ranks, workers)
    assert min(opened.values()) == 3
    if dlio.name != "mlcommons":
        epochs = [read[at:at + len(names)] for at in range(0, len(read), len(names))]
        assert all(sorted(epoch) == sorted(names) for epoch in epochs) and len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize("how", [CALLBACK, MODULE], ids=["override", "module"])
def test_each_file_is_opened_once_in_each_epoch(dlio, how):
    names = make(dlio)
    assert_three_epochs(dlio, run(dlio, how=how), names)
    summary = json.loads((dlio.folder / "out" / "summary.json").read_text())
    assert summary["num_accelerators"] == 2 and len(summary["metric"]["train_au_percentage"]) == 3


def test_spawned_workers_read_the_same(dlio):
    names = make(dlio)
    assert_three_epochs(dlio, run(dlio, reader__multiprocessing_context="spawn"), names)


def test_without_workers_the_order_is_that_of_the_epoch(dlio):
    # MLCommons' forgets MPI_Finalize() without workers, with and without the callback, which mpirun takes for a failure.
    names = make(dlio)
    epochs = [[names[i] for i in shoal.Order(NR, seed=123, epoch=epoch)] for epoch in (1, 2, 3, 4)]
    expected = sum(epochs[:3], [])
    if dlio.name == "mlcommons":  # its first batch is read twice in each epoch, and in a fourth that is not run
        expected = sum(([*epoch[:BATCH], *epoch] for epoch in epochs[:3]), []) + epochs[3][:BATCH]
    assert run(dlio, 1, good=dlio.name != "mlcommons", reader__read_threads=0) == expected


def test_without_shuffles_the_order_is_that_of_the_names(dlio):
    names = make(dlio)
    read = run(dlio, 1, good=dlio.name != "mlcommons", reader__read_threads=0, reader__file_shuffle="'off'", reader__sample_shuffle="'off'")
    assert [name for i, name in enumerate(read) if dlio.name != "mlcommons" or i % (NR + BATCH) >= BATCH] == names * 3


@pytest.mark.parametrize("kind", sorted(CONTENTS))
@pytest.mark.parametrize("samples", [1, 4])
def test_each_format_is_read_by_dlios_own_reader(dlio, kind, samples):
    if samples > 1 and kind in ("jpeg", "png"):
        pytest.skip("an image is one sample")
    names = make(dlio, nr=32, kind=kind, samples=samples)
    keys = {"dataset__format": kind, "dataset__num_files_train": 32, "dataset__num_samples_per_file": samples, "reader__batch_size": 4,
            "dataset__record_length_bytes": 64, "reader__read_threads": 1}
    opened = collections.Counter(run(dlio, 1, **keys))
    # A worker that lives for all epochs keeps what it mapped, of few files.
    assert set(opened) == set(names) and min(opened.values()) >= (1 if kind == "mmap_indexed_binary" else 3)


@pytest.mark.parametrize("ranks, nr", [(1, 32), (2, 32), (2, 1)])
def test_tensorflow_gets_one_path_after_another(dlio, ranks, nr):
    """Of one file, which two ranks read, each takes its samples."""
    if not dlio.has("tensorflow"):
        pytest.skip("DLIO reads tfrecord through TensorFlow: make test-dlio installs it")
    dlio.stand_in = False
    made = {"dataset.format": "tfrecord", "dataset.num_files_train": nr, "dataset.num_samples_per_file": 4, "dataset.record_length_bytes": 100}
    subprocess.run([os.environ.get("SHOAL", "shoal"), "datagen", "resnet50_h100", "--data", dlio.data, "--no-catalog", "-q",
                    *("%s=%d" % item if item[1] != "tfrecord" else "%s=%s" % item for item in made.items())], check=True)
    names = [os.path.join("train", name) for name in sorted(os.listdir(dlio.data / "train"))]
    read = run(dlio, ranks, framework="tensorflow", reader__data_loader="tensorflow", reader__batch_size=2, dataset__format="tfrecord",
               dataset__num_files_train=nr, dataset__num_samples_per_file=4, dataset__record_length_bytes=100, reader__read_threads=1)
    if nr < ranks and dlio.name != "pypi":
        assert not read  # of less than a step of all ranks the other two keep nothing
        return
    opened = collections.Counter(read)
    assert len(names) == nr and set(opened) == set(names), read
    if nr < ranks or dlio.name == "mlcommons":
        assert min(opened.values()) >= 3
        return
    # Its threads open the next file while one is read: neighbours may have changed places.
    epochs = [read[at:at + nr] for at in range(0, 3 * nr, nr)]
    assert all(sorted(epoch) == names for epoch in epochs) and len({tuple(epoch) for epoch in epochs}) == 3
    steps = json.loads((dlio.folder / "out" / "0_output.json").read_text())["1"]["load"]["block1"]
    assert len(steps) == nr * 4 // 2 // ranks


def test_files_in_subfolders_and_evaluation(dlio):
    names = make(dlio, where=lambda i: "%d/" % (i % 4))
    valid = [os.path.join("valid", name) for name in dlio.make("valid", 32, content=CONTENTS["jpeg"](1))]
    read = run(dlio, dataset__num_subfolders_train=4, workflow__evaluation=True, dataset__num_files_eval=32, reader__batch_size_eval=4)
    assert_three_epochs(dlio, [name for name in read if name.startswith("train")], names)
    assert collections.Counter(name for name in read if name.startswith("valid")) == {name: 3 for name in valid}


def test_the_first_num_files_train_are_read_and_no_others(dlio):
    names = make(dlio)
    assert_three_epochs(dlio, run(dlio, dataset__num_files_train=64), names[:64])


def test_dlio_generates_first(dlio):
    """The catalog is made after the files are. They are in a folder that no watch is on."""
    keys = {"workflow__generate_data": True, "dataset__format": "npz", "dataset__record_length_bytes": 64, "dataset__num_files_train": 32,
            "reader__batch_size": 4}
    shutil.rmtree(dlio.data)
    dlio.data.mkdir()
    done = dlio.run(how=CALLBACK, reader__read_threads=1, reader__multiprocessing_context="fork", **keys)
    assert done.code == 0, done.text[-3000:]
    assert len(shoal.Catalog(dlio.data / "train.cat")) == 32
    assert json.loads((dlio.folder / "out" / "summary.json").read_text())["num_files_train"] in (32, 16)  # MLCommons' counts the rank's


def test_too_few_files_and_other_files_are_refused_on_all_ranks(dlio):
    make(dlio)
    done = dlio.run(how=CALLBACK, dataset__num_files_train=NR + 32, reader__batch_size=BATCH)
    assert done.code != 0 and done.names == [] and "dataset.num_files_train is %d, and" % (NR + 32) in done.text
    path = dlio.folder / "all.cat"
    (dlio.data / "train" / "img_000_of_000.txt").write_bytes(b"?")
    shoal.index(dlio.data, path)
    dlio.environment["SHOAL_CATALOG"] = str(path)
    done = dlio.run(how=CALLBACK, dataset__num_files_train=NR, reader__batch_size=BATCH)
    assert done.code != 0 and done.names == [] and "img_000_of_000.txt', which DLIO does not read" in done.text


def test_a_dlio_with_a_changed_piece_is_refused_by_name_and_reads_nothing(dlio):
    if not dlio.checkout:
        pytest.skip("only a checkout can be changed")
    make(dlio)
    shutil.copytree(os.path.join(dlio.checkout, "dlio_benchmark"), dlio.folder / "changed" / "dlio_benchmark")
    config = dlio.folder / "changed" / "dlio_benchmark" / "utils" / "config.py"
    config.write_text(config.read_text().replace("def reconfigure(self, epoch_number):", "def reconfigure(self, epoch_number, more=0):"))
    dlio.checkout = str(dlio.folder / "changed")
    for how in (CALLBACK, MODULE):
        done = dlio.run(how=how, dataset__num_files_train=NR)
        assert done.code == 1 and done.names == []
        assert "differ: dlio_benchmark.utils.config.ConfigArguments.reconfigure. Install" in done.text


def test_objects_of_a_bucket_are_read_by_dlios_own_reader(dlio, monkeypatch):
    if dlio.name == "pypi":
        pytest.skip("DLIO of PyPI lists a bucket through TensorFlow only")
    if not dlio.has("s3torchconnector"):
        pytest.skip("DLIO (%s) needs the package s3torchconnector for S3: make test-dlio installs it" % dlio.name)
    monkeypatch.setattr(objects, "wrong_signature", of_others_unchecked)
    with Bucket() as server:
        names = [b"set/train/img_%03d_of_48.npz" % i for i in range(48)]
        keys = [b"s3://bucket/" + name for name in names] if dlio.name == "argonne" else names
        for key in keys:
            server.objects[b"bucket", key] = CONTENTS["npz"](1)
        dlio.environment.update(SHOAL_CATALOG=str(dlio.folder / "{dataset}.cat"), HOME=str(dlio.folder), no_proxy="*",
                                AWS_ACCESS_KEY_ID=objects.ACCESS, AWS_SECRET_ACCESS_KEY=objects.SECRET)
        where = {"argonne": {"dataset__data_folder": "s3://bucket/set"},
                 "mlcommons": {"dataset__data_folder": "set", "storage__storage_options__storage_library": "s3torchconnector"}}[dlio.name]
        run(dlio, storage__storage_type="s3", storage__storage_root="bucket", dataset__format="npz", reader__batch_size=4,
            dataset__num_files_train=48, storage__storage_options__endpoint_url=server.url, reader__multiprocessing_context="spawn",
            storage__storage_options__access_key_id=objects.ACCESS, storage__storage_options__secret_access_key="'%s'" % objects.SECRET,
            storage__storage_options__region="us-east-1", storage__storage_options__s3_force_path_style="'true'", **where)
        read = collections.Counter(r.key for r in server.log if r.method == "GET" and r.key in keys)
    assert set(read) == set(keys) and min(read.values()) >= 3 and sum(read.values()) <= 3 * 48 + (4 * 48 if dlio.name == "mlcommons" else 0)
