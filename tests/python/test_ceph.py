"""Datasets in a bucket of a real server, Ceph's, which checks signatures by its own code: see tools/s3-server."""
import os
import pickle
import subprocess
import traceback

import pytest
from torch.utils.data import DataLoader

import shoal
from conftest import SHOAL, content
from helpers import as_it_is, number
from shoal.torch import ShoalBatchSampler, ShoalDataset, ShoalIterable

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "s3-server")
ODD = ["a b", "a+b", "100%", "it's", "ünï/日本", "~*()"]
NAMES = sorted(["d%d/f%03d.bin" % (i % 3, i) for i in range(84)] + ODD, key=str.encode)
CATALOG = "s3://python/cats/set.cat"


def driver(*args, stdin=b""):
    """The store's own driver: it makes buckets and writes objects."""
    path = os.path.join(os.path.dirname(SHOAL), "tests", "s3_driver")
    done = subprocess.run([path, "s3://python", *args], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def ceph(tmp_path_factory):
    """The environment of a server with a bucket of 90 objects, of which the i-th by name holds content(i)."""
    folder = tmp_path_factory.mktemp("ceph") / "server"
    started = subprocess.run([TOOL, "start", folder, "--memory"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=300, check=False)
    assert started.returncode == 0, started.stderr
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "SHOAL_S3"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(folder))
        patch.setenv("no_proxy", "*")
        environment = dict(line.split("=", 1) for line in started.stdout.split("\n") if line)
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            driver("make")
            for i, name in enumerate(NAMES):
                driver("write", "set/" + name, stdin=content(i))
            yield environment
        finally:
            subprocess.run([TOOL, "stop", folder], timeout=60, check=True)


@pytest.fixture(scope="module")
def catalog(ceph, tmp_path_factory):
    return shoal.index("s3://python/set", tmp_path_factory.mktemp("catalog") / "c.cat")


def order(epoch=0):
    return list(shoal.Order(90, epoch=epoch))


def test_a_bucket_is_listed_into_a_file_and_into_the_bucket(ceph, catalog):
    assert list(catalog) == NAMES and catalog.root == "s3://python/set"
    assert catalog.sizes().tolist() == [len(content(i)) for i in range(90)]
    assert catalog.uri(0) == "s3://python/set/" + NAMES[0]
    kept = shoal.index("s3://python/set", CATALOG)
    assert kept.path == CATALOG and kept == catalog == shoal.Catalog(CATALOG)
    kept.verify()


def test_the_loader_gives_each_object_once(catalog):
    with shoal.Loader(catalog, 8, in_flight=16) as loader:
        for epoch in range(2):
            got = [(sample.id, bytes(sample)) for batch in loader.epoch(epoch) for sample in batch]
            assert got == [(i, content(i)) for i in order(epoch)]
            assert loader.audit.exactly_once and loader.stats["engine"] == "s3"


@pytest.mark.parametrize("path", ["file", CATALOG])
def test_a_dataset_is_read_by_spawned_workers_each_object_once(catalog, path):
    dataset = ShoalDataset(catalog if path == "file" else path, number)
    assert len(pickle.dumps(dataset)) < 1000
    sampler = ShoalBatchSampler(dataset, 8)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, multiprocessing_context="spawn", collate_fn=as_it_is,
                        persistent_workers=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert [i for batch in loader for i in batch] == order(epoch)
    assert ShoalDataset(path if path == CATALOG else catalog).__getitems__(list(range(90))) == [content(i) for i in range(90)]


@pytest.mark.parametrize("start, nr", [(None, 0), ("spawn", 2)])
def test_an_iterable_gives_each_object_once(ceph, catalog, start, nr):
    dataset = ShoalIterable(CATALOG, 8, number)
    loader = DataLoader(dataset, batch_size=None, num_workers=nr, multiprocessing_context=start, collate_fn=as_it_is)
    dataset.set_epoch(nr)
    assert [i for batch in loader for i in batch] == order(nr)
    assert dataset.audit().exactly_once and dataset.audit().samples == 90


def test_an_object_that_is_gone_is_named_or_skipped(ceph, catalog):
    driver("remove", "set/" + NAMES[13])
    try:
        for use in (lambda: ShoalDataset(catalog)[13], lambda: list(shoal.Loader(catalog, 8))):
            with pytest.raises(FileNotFoundError) as caught:
                use()
            assert NAMES[13] in str(caught.value)
        with shoal.Loader(catalog, 8, keep_going=True) as loader:
            assert sorted(int(i) for batch in loader for i in batch.ids[batch.errors == 0]) == [i for i in range(90) if i != 13]
            assert loader.audit.errors == 1
    finally:
        driver("write", "set/" + NAMES[13], stdin=content(13))


def test_no_secret_is_in_what_is_printed_or_pickled(ceph, catalog, monkeypatch, tmp_path):
    secret, other = ceph["AWS_SECRET_ACCESS_KEY"], "quite-another-secret"
    remote = shoal.Catalog(CATALOG)
    dataset, iterable, loader = ShoalDataset(remote), ShoalIterable(remote, 8), shoal.Loader(remote, 8)
    dataset[0], next(iter(iterable)), next(iter(loader))
    said = [repr(one) for one in (remote, dataset, iterable, loader, loader.stats, remote.info, ShoalBatchSampler(dataset, 8))]
    said += [repr(pickle.dumps(one)) for one in (remote, dataset, iterable, shoal.Order(remote))]
    loader.close()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", other)
    for use in (lambda: shoal.Catalog(CATALOG), lambda: shoal.index("s3://python/set", tmp_path / "x.cat"),
                lambda: shoal.index("s3://python/set", "s3://python/x.cat"), lambda: list(shoal.Loader(catalog, 8)),
                lambda: ShoalDataset(catalog)[0], lambda: next(iter(ShoalIterable(catalog, 8)))):
        with pytest.raises(PermissionError, match="secret key is not the access key's|SignatureDoesNotMatch") as caught:
            use()
        error = caught.value
        said += [str(error), repr(error), repr(pickle.dumps(error)),
                 "".join(traceback.format_exception(type(error), error, error.__traceback__))]
    assert os.listdir(tmp_path) == []
    assert not [text for text in said if secret in text or other in text]
