"""Datasets in a bucket: the same classes, with many requests in flight."""
import os
import sys

import pytest
from torch.utils.data import DataLoader

import shoal
from conftest import content
from helpers import as_it_is, number
from shoal.torch import ShoalBatchSampler, ShoalDataset, ShoalIterable

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "s3"))
from objects import ACCESS, SECRET, Objects  # noqa: E402


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """A catalog of 90 objects."""
    with Objects() as server:
        for name, value in {"HOME": str(tmp_path), "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS,
                            "AWS_SECRET_ACCESS_KEY": SECRET, "SHOAL_S3_BACKOFF_MS": "20", "no_proxy": "*"}.items():
            monkeypatch.setenv(name, value)
        names = ["train/f%03d" % i for i in range(90)]
        for i, name in enumerate(names):
            server.objects[b"bucket", name.encode()] = content(i)
        yield server, shoal.index(((name, len(content(i))) for i, name in enumerate(names)), tmp_path / "c.cat",
                                  root="s3://bucket")


def test_objects_are_read_by_id_also_after_a_fork(bucket):
    _, catalog = bucket
    dataset = ShoalDataset(catalog, number)
    assert dataset[7] == 7 and dataset.__getitems__(list(range(90))) == list(range(90))
    sampler = ShoalBatchSampler(dataset, 8)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True, collate_fn=as_it_is)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert [i for batch in loader for i in batch] == list(shoal.Order(90, epoch=epoch))
    assert dataset[8] == 8


def test_objects_come_through_the_loader_each_once(bucket):
    _, catalog = bucket
    dataset = ShoalIterable(catalog, 8, number)
    for nr in (0, 2):
        loader = DataLoader(dataset, batch_size=None, num_workers=nr, collate_fn=as_it_is)
        dataset.set_epoch(nr)
        assert [i for batch in loader for i in batch] == list(shoal.Order(90, epoch=nr))
        assert dataset.audit().exactly_once


def test_an_object_that_is_missing_is_named(bucket):
    server, catalog = bucket
    del server.objects[b"bucket", b"train/f013"]
    with pytest.raises(FileNotFoundError, match="f013"):
        ShoalDataset(catalog)[13]
    with pytest.raises(FileNotFoundError, match="f013"):
        list(shoal.Loader(catalog, 8))
    assert ShoalDataset(catalog, number)[14] == 14
