"""The plug-in for DLIO, in the three DLIOs as they are, run by mpirun: what is read is counted by inotify."""
import os
import sys

import pytest

import shoal

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "dlio"))
sys.path.append(os.path.join(os.path.dirname(__file__), "..", "s3"))  # it has a conftest.py, too
import objects  # noqa: E402
from bucket import Bucket, of_others_unchecked  # noqa: E402
from real import DLIOS, NR_FILES, Dlio, Run, find, is_there  # noqa: E402

SEED = 123  # DLIO's default
THERE = [name for name in DLIOS if is_there(name)]
if not THERE:
    pytest.skip("no DLIO: make test-dlio installs PyPI's, and takes checkouts of the other two", allow_module_level=True)


@pytest.mark.parametrize("name", DLIOS)
def test_all_three_are_there(name):
    find(name)  # says how to get it


@pytest.fixture(params=THERE)
def dlio(request, tmp_path):
    return Dlio(request.param, tmp_path)


def expected(names, epoch, **order):
    """The files in the order in which one rank reads them, one after the other."""
    return [names[i] for i in shoal.Order(len(names), seed=SEED, epoch=epoch, **order)]


def in_train(names):
    return [os.path.join("train", name) for name in names]


def assert_one_catalog(dlio, nr):
    """The catalog has the files that DLIO takes, so that none of a part of it was needed."""
    assert [path.name for path in dlio.data.glob("*.cat")] == ["train.cat"] and len(shoal.Catalog(dlio.data / "train.cat")) == nr


def test_the_example_reads_each_file_once_in_each_epoch(dlio):
    names = in_train(dlio.make())
    epochs = dlio.run().epochs(NR_FILES)
    for epoch in epochs:
        assert sorted(epoch) == names
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_order_is_of_the_epoch_that_dlio_counts_also_with_evaluations_between(dlio):
    names, valid = in_train(dlio.make(nr=64)), dlio.make("valid", 16)
    alone = {"dataset__num_files_train": 64, "reader__batch_size": 8, "reader__read_threads": 1}
    orders = [expected(names, epoch) for epoch in (1, 2, 3)]
    assert dlio.run(1, **alone).epochs(64) == orders
    evaluated = dlio.run(1, workflow__evaluation=True, dataset__num_files_eval=16, reader__batch_size_eval=4, **alone).epochs(80)
    assert [epoch[:64] for epoch in evaluated] == orders
    assert [epoch[64:] for epoch in evaluated] == [
        [os.path.join("valid", name) for name in expected(valid, epoch)] for epoch in (1, 2, 3)]


def test_the_order_may_stay_or_be_that_of_the_names(dlio):
    names = in_train(dlio.make(nr=64))
    alone = {"dataset__num_files_train": 64, "reader__batch_size": 8, "reader__read_threads": 1}
    assert dlio.run(1, train__seed_change_epoch=False, **alone).epochs(64) == [expected(names, 1, frozen=True)] * 3
    assert dlio.run(1, reader__file_shuffle="'off'", reader__sample_shuffle="'off'", **alone).epochs(64) == [names] * 3


def test_the_first_num_files_train_are_read_and_no_others(dlio):
    names = in_train(dlio.make())
    few = {"dataset__num_files_train": 200}
    for epoch in dlio.run(reader__batch_size=20, **few).epochs(200):
        assert sorted(epoch) == names[:200]
    # 4 steps of 48: Argonne's leaves the last 8 of its list out, the others what comes last in the epoch.
    epochs = dlio.run(reader__batch_size=24, **few).epochs(192)
    assert all(len(set(epoch)) == 192 for epoch in epochs)
    assert set().union(*epochs) <= set(names[:192 if dlio.name == "argonne" else 200])
    if dlio.name != "argonne":
        assert len({frozenset(epoch) for epoch in epochs}) == 3


def test_so_are_the_first_num_files_eval(dlio):
    train = in_train(dlio.make(nr=96))
    valid = [os.path.join("valid", name) for name in dlio.make("valid", 96)]
    run = dlio.run(dataset__num_files_train=48, workflow__evaluation=True, dataset__num_files_eval=24, reader__batch_size_eval=6,
                   evaluation__epochs_between_evals=1)
    # A rank may begin to train while another still evaluates.
    trained, evaluated = (Run([name for name in run.names if name.startswith(part)], run.text, run.code) for part in ("train", "valid"))
    assert all(sorted(epoch) == train[:48] for epoch in trained.epochs(48))
    assert all(sorted(epoch) == valid[:24] for epoch in evaluated.epochs(24))


def test_nothing_is_read_past_the_last_step(dlio):
    names = in_train(dlio.make())
    run = dlio.run(train__total_training_steps=3, reader__batch_size=8, reader__prefetch_size=16)
    epochs = run.epochs(3 * 2 * 8)
    assert all(len(set(epoch)) == 48 and set(epoch) <= set(names) for epoch in epochs)


def test_files_that_dlio_does_not_take_are_not_read(dlio):
    names = in_train(dlio.make(nr=48))
    for other in ("notes.txt", "img_00.jpg", "img_00.jpeg.tmp", "more/img_000_of_048.jpeg", "aaa.JPEG"):
        (dlio.data / "train" / other).parent.mkdir(exist_ok=True)
        (dlio.data / "train" / other).write_bytes(b"?")
    # What DLIO lists first must be a file.
    listed = os.listdir(dlio.data / "train")
    if listed[0] == "more":
        (dlio.data / "train" / "more" / "img_000_of_048.jpeg").unlink()
        (dlio.data / "train" / "more").rmdir()
    for epoch in dlio.run(dataset__num_files_train=48, reader__batch_size=8).epochs(48):
        assert sorted(epoch) == names
    assert_one_catalog(dlio, 48)


@pytest.mark.parametrize("kind", ["npz", "indexed_binary"])
def test_the_names_of_each_format_are_found(dlio, kind):
    names = in_train(dlio.make(nr=16, ext=kind))
    for epoch in dlio.run(1, dataset__num_files_train=16, dataset__format=kind, reader__batch_size=8).epochs(16):
        assert sorted(epoch) == names
    assert_one_catalog(dlio, 16)


def test_the_dataset_is_below_storage_root(dlio):
    names = in_train(dlio.make(nr=48))
    dlio.environment["SHOAL_CATALOG"] = str(dlio.folder / "{dataset}-of-root.cat")
    run = dlio.run(storage__storage_root=dlio.folder, dataset__data_folder="data", dataset__num_files_train=48, reader__batch_size=8)
    for epoch in run.epochs(48):
        assert sorted(epoch) == names
    assert (dlio.folder / "train-of-root.cat").exists()


def test_files_in_subfolders_are_read(dlio):
    names = sorted(in_train(dlio.make(where=lambda i: "%d/" % (i % 4))))
    sub = {"dataset__num_subfolders_train": 4}
    for epoch in dlio.run(**sub).epochs(NR_FILES):
        assert sorted(epoch) == names
    # The first 200 of MLCommons' list are those of the first folders; in the others' lists every folder has some.
    first = names[:200] if dlio.name == "mlcommons" else sorted(sorted(names, key=os.path.basename)[:200])
    for _ in range(2):  # with catalogs that are made, and that are there
        for epoch in dlio.run(reader__batch_size=20, dataset__num_files_train=200, **sub).epochs(200):
            assert sorted(epoch) == first
    assert len(list(dlio.data.glob("*.cat"))) == (1 if dlio.name == "mlcommons" else 2)


def test_names_that_mlcommons_computes_are_read(tmp_path):
    dlio = Dlio("mlcommons", tmp_path)
    names = in_train(dlio.make(nr=480, where=lambda i: "%d/" % (i % 4)))
    run = dlio.run(dataset__skip_listing=True, dataset__num_subfolders_train=4)
    for epoch in run.epochs(480):
        assert sorted(epoch) == sorted(names)


def test_a_catalog_may_be_of_more_than_the_dataset(dlio):
    names, _ = in_train(dlio.make(nr=96)), dlio.make("valid", 20)
    path = dlio.folder / "both.cat"
    shoal.index(dlio.data, path)
    dlio.environment["SHOAL_CATALOG"] = str(path)
    for epoch in dlio.run(dataset__num_files_train=48, reader__batch_size=8).epochs(48):
        assert sorted(epoch) == names[:48]


def test_a_catalog_of_other_files_is_refused_on_all_ranks(dlio):
    dlio.make(nr=48)
    path = dlio.folder / "other.cat"
    dlio.environment["SHOAL_CATALOG"] = str(path)
    few = {"dataset__num_files_train": 48, "reader__batch_size": 8}
    shoal.index(("img_%03d_of_049.jpeg" % i for i in range(49)), path, root=dlio.data / "train", names_only=True)
    run = dlio.run(**few)
    assert run.code != 0 and run.names == [] and "a catalog of 49 files" in run.text and "remove the catalog" in run.text
    shoal.index(("img_%03d_of_48.jpeg" % i for i in range(48)), path, root=dlio.folder / "elsewhere", names_only=True)
    run = dlio.run(**few)
    assert run.code != 0 and run.names == [] and "elsewhere, but DLIO reads" in run.text


def test_containers_are_refused_in_words(dlio):
    dlio.make(nr=48)
    run = dlio.run(1, dataset__num_files_train=48, dataset__num_samples_per_file=4, reader__batch_size=1)
    assert run.code != 0 and run.names == [] and "ShoalDataLoader reads files of one sample, and num_samples_per_file is 4" in run.text


def test_objects_of_a_bucket_are_read(dlio, monkeypatch):
    if dlio.name == "pypi":
        pytest.skip("DLIO of PyPI lists a bucket through TensorFlow only")
    if not dlio.has("s3torchconnector"):
        pytest.skip("DLIO (%s) needs the package s3torchconnector for S3: make test-dlio installs it" % dlio.name)
    monkeypatch.setattr(objects, "wrong_signature", of_others_unchecked)
    with Bucket() as server:
        names = [b"set/train/img_%03d_of_96.npz" % i for i in range(96)]
        keys = [b"s3://bucket/" + name for name in names] if dlio.name == "argonne" else names
        for i, key in enumerate(keys):
            server.objects[b"bucket", key] = b"x" * (100 + i)
        dlio.environment.update(SHOAL_CATALOG=str(dlio.folder / "{dataset}.cat"), HOME=str(dlio.folder), no_proxy="*")
        where = {"argonne": {"dataset__data_folder": "s3://bucket/set"},
                 "mlcommons": {"dataset__data_folder": "set", "storage__storage_options__storage_library": "s3torchconnector"}}[dlio.name]
        run = dlio.run(storage__storage_type="s3", storage__storage_root="bucket", dataset__format="npz", reader__batch_size=8,
                       dataset__num_files_train=48, storage__storage_options__endpoint_url=server.url,
                       storage__storage_options__access_key_id=objects.ACCESS, storage__storage_options__secret_access_key="'%s'" % objects.SECRET,
                       storage__storage_options__region="us-east-1", storage__storage_options__s3_force_path_style="'true'",
                       **where)
        assert run.code == 0, run.text[-3000:]
        read = [r.key for r in server.log if r.method == "GET" and r.key in keys]
    assert len(read) == 3 * 48
    for at in range(0, 3 * 48, 48):
        assert sorted(read[at:at + 48]) == keys[:48]
