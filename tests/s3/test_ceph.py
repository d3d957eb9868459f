"""The same on a real server: Ceph's gateway, which checks signatures by its own code."""

import json
import os

import pytest

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
    ceph_client.bad("ENOENT", "read", "k", 0, 1, uri="s3://no-such-bucket", words=["no bucket 'no-such-bucket'"])


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
