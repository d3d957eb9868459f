"""Datasets in a bucket: the same classes, with many requests in flight."""
import errno
import os
import pickle
import sys

import pytest
from torch.utils.data import DataLoader

import shoal
from conftest import content
from helpers import as_it_is, number
from shoal.torch import ShoalBatchSampler, ShoalDataset, ShoalIterable

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "s3"))  # it has a conftest.py, too
from fault_server import FaultServer, error  # noqa: E402
from objects import ACCESS, SECRET, Objects, etag  # noqa: E402


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


def test_an_object_that_changed_is_refused_by_its_etag(bucket, tmp_path):
    server, without = bucket
    catalog = shoal.index("s3://bucket/train", tmp_path / "e.cat", etags=True)
    assert catalog.info["etags"] and catalog.made["nr_odd_etags"] == 0 and not without.info["etags"]
    assert catalog.etag(3) == etag(content(3)) and without.etag(3) is None
    with pytest.raises(IndexError):
        catalog.etag(90)
    with shoal.Loader(catalog, 8, if_match=True) as loader:
        assert sum(len(batch) for batch in loader) == 90
    server.objects[b"bucket", b"train/f013"] = b"?" * len(content(13))
    with pytest.raises(OSError, match="'f013' changed since it was listed") as raised:
        list(shoal.Loader(catalog, 8, if_match=True))
    assert raised.value.errno == errno.ESTALE
    with shoal.Loader(catalog, 8, if_match=True, keep_going=True) as loader:
        errors = {int(id): int(error) for batch in loader for id, error in zip(batch.ids, batch.errors) if error}
    assert errors == {13: errno.ESTALE}
    assert sum(len(batch) for batch in ShoalIterable(catalog, 8, output="bytes")) == 90
    dataset = ShoalDataset(catalog, number, if_match=True)
    assert dataset[12] == 12 and dataset.__getitems__([14, 15]) == [14, 15]
    for ask in (lambda: dataset[13], lambda: dataset.__getitems__([12, 13, 14])):
        with pytest.raises(OSError, match="sample 13: 'train/f013': object changed since it was listed") as raised:
            ask()
        assert raised.value.errno == errno.ESTALE and raised.value.hint == "etags"
    assert ShoalDataset(catalog)[13] == b"?" * len(content(13))
    with pytest.raises(ValueError, match="the catalog has no ETags to compare with; index the bucket again with etags=True"):
        ShoalDataset(without, if_match=True)[0]
    with pytest.raises(ValueError, match="the catalog has no ETags to compare with"):
        list(shoal.Loader(without, 8, if_match=True))
    with pytest.raises(ValueError, match="etags applies to a bucket"):
        shoal.index(tmp_path, tmp_path / "no.cat", etags=True)


# ---- Listing a bucket


@pytest.fixture
def keys(monkeypatch, tmp_path):
    for name, value in {"HOME": str(tmp_path), "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                        "SHOAL_S3_BACKOFF_MS": "20", "AWS_MAX_ATTEMPTS": "2", "no_proxy": "*"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # given back afterwards
    return [b"train/%05d" % i for i in range(2500)]


def test_a_bucket_is_listed_from_the_endpoint_that_is_given(keys, tmp_path):
    with FaultServer(keys) as server:
        catalog = shoal.index("s3://bucket/train", tmp_path / "c.cat", endpoint=server.url, exclude=["*7"])
        assert os.environ["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:1"  # as it was
    assert catalog.s3 == shoal.S3Config(endpoint=server.url)
    assert list(catalog) == ["%05d" % i for i in range(2500) if i % 10 != 7]
    assert catalog.root == "s3://bucket/train" and catalog.size(3) == len(b"train/00003")


def test_a_bucket_that_cannot_be_listed_is_told_and_leaves_nothing(keys, tmp_path):
    with FaultServer(keys, lambda *_: error(403, "AccessDenied")) as server:
        with pytest.raises(PermissionError):
            shoal.index("s3://bucket/train", tmp_path / "c.cat", endpoint=server.url)
        with pytest.raises(shoal.BadValueError, match="follow applies to a directory"):
            shoal.index("s3://bucket", tmp_path / "c.cat", follow=True)
    with pytest.raises(shoal.BadValueError, match="endpoint applies to a bucket"):
        shoal.index(tmp_path, tmp_path / "c.cat", endpoint="http://x")
    assert os.listdir(tmp_path) == []


# ---- The catalog itself in a bucket


@pytest.fixture
def kept(bucket):
    """The server, and the catalog where it was and as an object."""
    server, catalog = bucket
    with open(catalog.path, "rb") as f:
        server.objects[b"bucket", b"cats/c.cat"] = f.read()
    return server, catalog, "s3://bucket/cats/c.cat"


def test_a_catalog_is_opened_where_it_lies_in_a_bucket(kept):
    _, catalog, uri = kept
    remote = shoal.Catalog(uri)
    assert remote == catalog and remote.path == uri and list(remote) == list(catalog)
    assert pickle.loads(pickle.dumps(remote)) == catalog
    assert ShoalDataset(remote, number)[7] == 7


def test_a_bucket_is_listed_into_itself_without_the_catalog_of_before(bucket):
    server, catalog = bucket
    for _ in range(2):
        again = shoal.index("s3://bucket", "s3://bucket/own.cat")
        assert (b"bucket", b"own.cat") in server.objects
        assert b"own.cat" not in list(again) and len(again) == len(server.objects) - 1


def test_workers_that_are_spawned_open_it_there_too(kept):
    server, _, uri = kept
    dataset = ShoalDataset(uri, number)
    sampler = ShoalBatchSampler(dataset, 8)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, multiprocessing_context="spawn", collate_fn=as_it_is)
    server.log.clear()
    assert [i for batch in loader for i in batch] == list(shoal.Order(90))
    assert any("c.cat" in str(r) for r in server.log)  # by the workers


def test_a_copy_of_it_is_used_again(kept, tmp_path):
    server, catalog, uri = kept
    (tmp_path / "copies").mkdir()
    remote = shoal.Catalog(uri, local_copy=tmp_path / "copies")
    assert len(list((tmp_path / "copies").iterdir())) == 1
    server.log.clear()
    assert list(pickle.loads(pickle.dumps(remote))) == list(catalog)
    assert {r.method for r in server.log} == {"HEAD"}  # whether it is still the same, and no bytes


def test_another_catalog_under_the_name_is_noticed(kept, tmp_path):
    server, _, uri = kept
    pickled = pickle.dumps(shoal.Catalog(uri))
    shoal.index([("other", 1)], tmp_path / "other.cat", root="s3://bucket")
    server.objects[b"bucket", b"cats/c.cat"] = (tmp_path / "other.cat").read_bytes()
    with pytest.raises(shoal.StaleError, match="is not the catalog that"):
        pickle.loads(pickled)


def test_what_is_no_catalog_in_a_bucket_is_told(kept, monkeypatch):
    server, catalog, uri = kept
    with pytest.raises(FileNotFoundError, match="s3://bucket/cats/no.cat"):
        shoal.Catalog("s3://bucket/cats/no.cat")
    with pytest.raises(shoal.Error, match="has no name"):
        shoal.Catalog("s3://bucket")
    for body in (b"", b"x" * 5000, server.objects[b"bucket", b"cats/c.cat"][:-1]):
        server.objects[b"bucket", b"cats/bad"] = body
        with pytest.raises(shoal.Error, match="s3://bucket/cats/bad"):
            shoal.Catalog("s3://bucket/cats/bad")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(PermissionError, match="secret key does not belong to the access key") as caught:
        shoal.Catalog(uri)
    assert "another" not in str(caught.value)


def test_columns_of_a_catalog_in_a_bucket_are_files(kept, tmp_path):
    _, catalog, uri = kept
    with pytest.raises(FileNotFoundError):
        shoal.Column("length", shoal.Catalog(uri))


# ---- Several servers in one process


def _config(server, **more):
    return shoal.S3Config(endpoint=server.url, access_key=server.keys[0], secret_key=server.keys[1], backoff=0.02, **more)


def _aws():
    return {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "SHOAL_S3"))}


@pytest.fixture
def two(monkeypatch, tmp_path):
    """Two servers, each with keys and objects of its own, and an environment that knows neither."""
    for name in _aws():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    with Objects(keys=("AKONE", "secret-of-one")) as one, Objects(keys=("AKTWO", "secret-of-two")) as other:
        for nr, server in enumerate((one, other)):
            for i in range(20):
                server.objects[b"bucket", b"train/f%03d" % i] = content(100 * nr + i)
        before = _aws()
        yield one, other
        assert _aws() == before


def test_two_servers_with_keys_of_their_own_are_used_side_by_side(two, tmp_path):
    catalogs = [shoal.index("s3://bucket/train", tmp_path / ("%d.cat" % nr), s3=_config(server))
                for nr, server in enumerate(two)]
    loaders = [iter(shoal.Loader(catalog, 5, mode="sequential")) for catalog in catalogs]
    for step in range(4):  # by turns
        for nr, loader in enumerate(loaders):
            assert [bytes(s) for s in next(loader)] == [content(100 * nr + 5 * step + i) for i in range(5)]
    for nr, catalog in enumerate(catalogs):
        assert ShoalDataset(catalog)[3] == content(100 * nr + 3)
        assert list(ShoalIterable(catalog, 20, output="bytes", shuffle=False))[0][7] == content(100 * nr + 7)
    # The catalog of one, read from the other.
    catalog = shoal.index("s3://bucket/train", tmp_path / "2.cat", sizes=False, s3=_config(two[0]))
    assert ShoalDataset(catalog, s3=_config(two[1]))[3] == content(103)
    loader = shoal.Loader(catalog, 20, mode="sequential", slot=4096, s3=_config(two[1]))
    assert bytes(next(iter(loader))[4]) == content(104)
    for server in two:  # neither has seen the other's keys
        assert all("Credential=%s/" % server.keys[0] in r.headers["Authorization"] for r in server.log)


def test_a_catalog_takes_its_server_along_to_other_processes(two, tmp_path):
    for nr, server in enumerate(two):
        made = shoal.index("s3://bucket/train", "s3://bucket/cats/c.cat", s3=_config(server))
        assert made.s3 == _config(server) and (b"bucket", b"cats/c.cat") in server.objects
        again = pickle.loads(pickle.dumps(made))
        assert again.s3 == made.s3 and ShoalDataset(again)[2] == content(100 * nr + 2)
        dataset = ShoalDataset("s3://bucket/cats/c.cat", number, s3=_config(server))
        assert len(pickle.dumps(dataset)) < 1024
        loader = DataLoader(dataset, batch_size=10, num_workers=1, multiprocessing_context="spawn", collate_fn=as_it_is)
        assert [i for batch in loader for i in batch] == [100 * nr + i for i in range(20)]


def test_keys_are_of_the_server_that_they_were_given_for(two, tmp_path):
    wrong = shoal.S3Config(endpoint=two[0].url, access_key="AKONE", secret_key="secret-of-two")
    with pytest.raises(PermissionError) as caught:
        shoal.index("s3://bucket/train", tmp_path / "c.cat", s3=wrong)
    assert "secret-of" not in str(caught.value)
    with pytest.raises(shoal.Error, match="no keys"):
        shoal.index("s3://bucket/train", tmp_path / "c.cat", endpoint=two[0].url)
    assert not (tmp_path / "c.cat").exists()


def test_secrets_are_shown_nowhere():
    s3 = shoal.S3Config(endpoint="http://h", access_key="AKX", secret_key="very-secret", session_token="so-is-this")
    for text in (repr(s3), str(s3), "%s" % s3):
        assert "very-secret" not in text and "so-is-this" not in text and "http://h" in text
    with pytest.raises(TypeError) as caught:
        shoal.S3Config(access_key="AKX", secret_key=b"very-secret")
    assert "very-secret" not in str(caught.value) and "secret_key" in str(caught.value)
    for call in (lambda: shoal.Catalog("x", s3={"secret_key": "very-secret"}),
                 lambda: shoal.index([], "x", s3={"secret_key": "very-secret"})):
        with pytest.raises(TypeError, match="a shoal.S3Config, not dict") as caught:
            call()
        assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize("options, words", [
    ({"endpoint": "host"}, "is not an endpoint"),
    ({"endpoint": "http://user:very-secret@h"}, "must not contain a user and password"),
    ({"endpoint": ""}, "contains no endpoint"),
    ({"region": "a b"}, "is not a region"),
    ({"bucket_style": "odd"}, "not a way to address a bucket"),
    ({"max_tries": 101}, "max_tries must be 1 to 100"),
    ({"timeout": 0}, "timeout of an S3Config must be finite and more than 0"),
])
def test_a_configuration_that_makes_no_sense_is_refused_when_it_is_made(options, words):
    with pytest.raises(shoal.BadValueError, match=words) as caught:
        shoal.S3Config(**options)
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize("options", [{"access_key": "AKX"}, {"secret_key": "very-secret"}, {"session_token": "very-secret"}])
def test_keys_come_in_pairs(options):
    with pytest.raises(shoal.Error, match="is given") as caught:
        shoal.S3Config(**options)
    assert caught.value.errno == errno.ENOKEY and "very-secret" not in str(caught.value)


def test_shards_of_a_bucket_are_a_partition_of_it(bucket, tmp_path):
    found = [list(shoal.index("s3://bucket/train", tmp_path / "s.cat", shard=(k, 4))) for k in range(4)]
    assert sum(found, []) == ["f%03d" % i for i in range(90)]
    whole = [list(shoal.index("s3://bucket/train", tmp_path / "s.cat", shard=(0, 1)))]
    assert whole == [["f%03d" % i for i in range(90)]]


def test_a_shard_may_be_empty_and_a_prefix_may_not(bucket, tmp_path):
    server, _ = bucket
    server.objects[b"bucket", b"one/alone"] = b"x"
    assert sorted(len(shoal.index("s3://bucket/one", tmp_path / f"s{k}.cat", shard=(k, 3))) for k in range(3)) == [0, 0, 1]
    with pytest.raises(FileNotFoundError, match="none of the 90 files in 's3://bucket/train.*matches include 'x'"):
        shoal.index("s3://bucket/train", tmp_path / "n.cat", include="x")
    with pytest.raises(FileNotFoundError, match="there is no file in 's3://bucket/none"):
        shoal.index("s3://bucket/none", tmp_path / "n.cat")
    assert not (tmp_path / "n.cat").exists()


def test_a_bucket_that_changed_is_told_of(bucket, tmp_path):
    server, _ = bucket
    catalog = shoal.index("s3://bucket/train", tmp_path / "e.cat", etags=True)
    assert catalog.verify(storage=True).good
    server.objects[b"bucket", b"train/f013"] = b"?" * len(content(13))
    check = catalog.verify(storage=True)
    assert (check.same, check.changed) == (89, 1) and check.first[0].kind == "changed" and check.first[0].name == "f013"
