"""The same on a real server: Ceph's gateway, which checks signatures by its own code."""

import hashlib
import json
import os
import shutil
import time

import pytest

from conftest import Client, binary
from test_objects import MIB

ODD = [b"a b", b"a+b", b"100%", b"%20", b"a&b=c?d#e", b"<tag>", b"it's \"quoted\"", "ünïcode/日本/😀".encode(), b"ends/", b"a//b", b"a/../b",
       b"/front", b"~*()!$,;:@[]{}|\\^`", b"control\x01", b"line\nend", b"k" * 1000]


@pytest.fixture
def bucket(ceph_client):
    ceph_client.good("make", uri="s3://objects")
    return "s3://objects"


def test_odd_keys_are_written_read_and_removed(ceph_client, bucket):
    for key in ODD:
        ceph_client.good("write", key, uri=bucket, stdin=b"x" + key)
        assert ceph_client.good("read", key, 0, 5000, uri=bucket).stdout == b"x" + key
        assert ceph_client.good("stat", key, uri=bucket).stdout == b"%d\n" % (1 + len(key))
        ceph_client.good("remove", key, uri=bucket)
        ceph_client.bad("ENOENT", "stat", key, uri=bucket)


def test_ranges_end_where_the_object_does(ceph_client, bucket):
    ceph_client.good("write", "r", uri=bucket, stdin=b"0123456789")
    ceph_client.good("write", "e", uri=bucket)
    for key, off, length, want in [("r", 0, 11, b"0123456789"), ("r", 9, 9, b"9"), ("r", 10, 1, b""), ("e", 0, 5, b""), ("r", 0, 0, b"")]:
        assert ceph_client.good("read", key, off, length, uri=bucket).stdout == want


def test_large_objects_go_in_parts(ceph_client, bucket):
    body = os.urandom(MIB) * 17 + b"end"
    done = ceph_client.good("write", "big", uri=bucket, stdin=body)
    assert done.counts["requests"] == 4
    assert ceph_client.good("read", "big", 0, len(body), uri=bucket).stdout == body
    ceph_client.good("abort", "gone", uri=bucket, stdin=body)
    ceph_client.bad("ENOENT", "stat", "gone", uri=bucket)


def test_it_says_what_is_wrong(ceph_client, bucket):
    ceph_client.bad("EACCES", "read", "k", 0, 1, uri=bucket, AWS_SECRET_ACCESS_KEY="other", words=["SignatureDoesNotMatch"])
    ceph_client.bad("EACCES", "read", "k", 0, 1, uri=bucket, AWS_ACCESS_KEY_ID="other", words=["InvalidAccessKeyId"])
    ceph_client.bad("EACCES", "read", "k", 0, 1, uri=bucket, SHOAL_S3_ANONYMOUS="1", words=["AccessDenied"])
    ceph_client.bad("ENXIO", "read", "k", 0, 1, uri="s3://no-such-bucket", words=["no bucket 'no-such-bucket'"])


def test_a_dataset_is_listed_read_and_its_catalog_kept(ceph_client, bucket):
    """Written, listed and read by us, with the catalog in the bucket, too."""
    sizes = {b"set/d%d/x y%d.bin" % (i % 3, i): i * 1000 for i in range(30)}
    for key, size in sizes.items():
        ceph_client.good("write", key, uri=bucket, stdin=bytes(size))
    done = ceph_client.shoal("index", f"{bucket}/set", "-q", "-o", f"{bucket}/cats/set.cat")
    assert (done.returncode, done.stderr) == (0, b"")
    done = ceph_client.shoal("read", f"{bucket}/cats/set.cat", "--json", "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    result = json.loads(done.stdout)
    assert result["samples"] == 30 and result["bytes"] == sum(sizes.values()) and result["audit"]["exactly_once"]
    done = ceph_client.shoal("verify", "--storage", f"{bucket}/cats/set.cat", "-q")
    assert (done.returncode, done.stderr) == (0, b"")


def test_objects_that_changed_since_they_were_listed_are_told_by_their_etags(ceph_client, tmp_path):
    uri = "s3://etags"
    ceph_client.good("make", uri=uri)
    bodies = {b"set/f %02d" % i: bytes([i]) * (i * 100) for i in range(20)}
    bodies[b"set/parts"] = b"p" * (17 * MIB)  # uploaded in two
    for key, body in bodies.items():
        ceph_client.good("write", key, uri=uri, stdin=body)
    catalog = tmp_path / "c"
    done = ceph_client.shoal("index", uri + "/set", "-q", "--etags", "-o", catalog)
    assert (done.returncode, done.stderr) == (0, b"")
    shown = dict(line.split(b"\t") for line in ceph_client.shoal("ls", catalog, "--etags").stdout.splitlines())
    assert shown[b"parts"].endswith(b"-2") and len(shown) == 21
    for key, body in bodies.items():
        if key != b"set/parts":
            assert shown[key[4:]].decode() == hashlib.md5(body).hexdigest()

    def read(*options):
        return ceph_client.shoal("read", catalog, "-q", "--if-match", *options)

    for options in ([], ["--engine", "threads"], ["--pieces", "--slot", "1M"]):
        done = read(*options)
        assert (done.returncode, done.stderr) == (0, b""), "also of an empty object, and of one in parts"
    assert ceph_client.shoal("verify", "--storage", catalog).returncode == 0
    for name, body in {b"f 00": b"x", b"f 03": b"y" * 300, b"f 04": b"y" * 7, b"parts": b"q" * (17 * MIB)}.items():
        ceph_client.good("write", b"set/" + name, uri=uri, stdin=body)
        for options in ([], ["--engine", "threads"], ["--pieces", "--slot", "1M"]):
            done = read(*options)
            assert done.returncode == 1 and done.stderr.count(b"\n") == 1
            assert b"'%s' changed since it was listed (ETag mismatch)" % name in done.stderr
        ceph_client.good("write", b"set/" + name, uri=uri, stdin=bodies[b"set/" + name])
        assert read().returncode == 0, "the same bytes have the same ETag"
    ceph_client.good("write", b"set/f 03", uri=uri, stdin=b"y" * 300)
    done = ceph_client.shoal("verify", "--storage", catalog)
    assert (done.returncode, done.stdout) == (1, b"changed\tf 03\n")
    done = ranks(ceph_client, 3, "index", uri + "/set", "-q", "--etags", "-o", tmp_path / "three")
    assert done.returncode == 0, done.stderr
    assert digest(ceph_client, catalog) == digest(ceph_client, tmp_path / "three")
    done = ranks(ceph_client, 3, "read", tmp_path / "three", "-q", "--if-match")
    assert done.returncode == 0, done.stderr


# ---- A workload, end to end

SET = ["dataset.num_files_train=300", "dataset.record_length_bytes=5000", "dataset.num_subfolders_train=3"]
RUN = ["train.epochs=2", "reader.batch_size=8", "reader.read_threads=4", "train.computation_time=0.001", "metric.au=0.0001"]


@pytest.fixture(scope="module")
def retina(ceph, tmp_path_factory):
    """A client, and the dataset of a workload in a bucket."""
    client = Client(tmp_path_factory.mktemp("retina"), None)
    client.env.update(ceph)
    client.good("make", uri="s3://set")
    done = client.shoal("datagen", "retinanet_b200", "--data", "s3://set/retina", "-q", *SET)
    assert (done.returncode, done.stderr) == (0, b"")
    return client


def ranks(client, nr, *args):
    mpirun = shutil.which("mpirun.openmpi")
    if not mpirun:
        pytest.skip("there is no mpirun.openmpi here")
    # MPI gives some memory back never, and the sanitizer would say so for it.
    return client.run(mpirun, "--oversubscribe", "-n", nr, binary(), *args, OMPI_ALLOW_RUN_AS_ROOT="1",
                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SHOAL_MODULE_DIR=str(binary().parent),
                      ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def digest(client, catalog):
    return json.loads(client.shoal("info", catalog, "--json").stdout)["digest"]


def test_datagen_leaves_a_catalog_in_the_bucket_that_is_what_is_there(retina, tmp_path):
    catalog = "s3://set/retina/catalog.shoal"
    done = retina.shoal("index", "s3://set/retina", "-q", "-o", tmp_path / "listed", "--include", "train/**")
    assert (done.returncode, done.stderr) == (0, b"")
    assert digest(retina, catalog) == digest(retina, tmp_path / "listed")
    assert retina.shoal("verify", "--storage", tmp_path / "listed", "-q").returncode == 0
    done = retina.shoal("manifest", catalog, "--ranks", 2, "-o", tmp_path / "lists", "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line for path in (tmp_path / "lists").glob("*.txt") for line in path.read_text().splitlines()]
    assert len(set(lines)) == len(lines) == 300 and all(line.startswith("s3://set/retina/train/") for line in lines)


def test_what_was_lost_is_written_again(retina):
    retina.good("remove", "retina/train/1/img_100_of_300.jpeg", uri="s3://set")
    arguments = ["datagen", "retinanet_b200", "--data", "s3://set/retina", "-q", "--json", *SET]
    assert json.loads(retina.shoal(*arguments, "--verify").stdout)["missing"] == 1
    again = json.loads(retina.shoal(*arguments, "--resume").stdout)
    assert (again["written"], again["good"], again["catalog"]) == (1, 299, "s3://set/retina/catalog.shoal")
    assert retina.shoal(*arguments, "--verify").returncode == 0


def test_three_ranks_list_what_one_lists(retina, tmp_path):
    retina.shoal("index", "s3://set/retina", "-q", "-o", tmp_path / "one")
    done = ranks(retina, 3, "index", "s3://set/retina", "-q", "-o", tmp_path / "three")
    assert done.returncode == 0, done.stderr
    assert digest(retina, tmp_path / "one") == digest(retina, tmp_path / "three")
    assert retina.shoal("verify", "--storage", tmp_path / "three").returncode == 0


@pytest.mark.parametrize("data", ["s3://set/retina", "s3://set/retina/catalog.shoal"])
def test_two_ranks_run_two_epochs_and_prove_it(retina, tmp_path, data):
    done = ranks(retina, 2, "run", "retinanet_b200", "--data", data, "--results", tmp_path / "r", "-q", *SET, *RUN)
    assert done.returncode == 0, done.stderr
    phases = json.loads((tmp_path / "r/summary.json").read_text())["shoal"]["phases"]
    assert [p["audit"]["exactly_once"] for p in phases] == [True, True]
    assert phases[0]["audit"]["order_digest"] != phases[1]["audit"]["order_digest"]
    for phase in phases:
        asked = phase["requests"]
        assert asked["sent"] - asked["retries"] == phase["audit"]["samples"] == 18 * 16
        assert asked["bytes"] == phase["audit"]["bytes_delivered"] == 18 * 16 * 5000
        assert 0 < asked["first_byte_us"]["p50"] <= asked["total_us"]["max"]


WRONG = {
    "keys": ({"AWS_SECRET_ACCESS_KEY": "quite-another-secret"}, "set", "SignatureDoesNotMatch"),
    "bucket": ({}, "no-such-bucket", "no bucket 'no-such-bucket'"),
    "endpoint": ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "2"}, "set", "cannot connect to 127.0.0.1:9"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", [
    ["index", "s3://BUCKET/retina", "-o", "TMP/x.cat"],
    ["index", "s3://BUCKET/retina", "-o", "s3://BUCKET/x.cat"],
    ["info", "s3://BUCKET/retina/catalog.shoal"],
    ["read", "s3://BUCKET/retina/catalog.shoal"],
    ["verify", "s3://BUCKET/retina/catalog.shoal"],
    ["manifest", "s3://BUCKET/retina/catalog.shoal", "-o", "TMP/lists"],
    ["datagen", "retinanet_b200", "--data", "s3://BUCKET/new", "-q", *SET],
    ["run", "retinanet_b200", "--data", "s3://BUCKET/retina", "--results", "TMP/r", "-q", *SET, *RUN],
], ids=lambda c: c[0] + ("-bucket" if "s3://BUCKET/x.cat" in c else ""))
def test_what_is_wrong_is_one_sentence_soon(retina, tmp_path, what, command):
    env, bucket, words = WRONG[what]
    start = time.monotonic()
    done = retina.shoal(*(a.replace("BUCKET", bucket).replace("TMP", str(tmp_path)) for a in command), **env)
    told = done.stderr.decode()
    assert done.returncode == 1 and done.stdout == b"" and time.monotonic() - start < 100
    assert len(told.splitlines()) == 1 and words in told, told
    assert retina.env["AWS_SECRET_ACCESS_KEY"] not in told and "quite-another-secret" not in told
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []
