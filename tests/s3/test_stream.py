"""Buckets as streams: in order, by several connections, without a catalog."""

import json

from objects import etag

KEYS = sorted(b"%s/%05d" % ((b"a", b"b", b"c.d")[i % 3], i * 7919 % 100000) for i in range(12000))


def listed(client, *args):
    done = client.shoal("list", *args)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.split(b"\n")[:-1]


def test_a_bucket_is_listed_in_order_by_any_number_of_connections(client, server):
    for i, key in enumerate(KEYS):
        server.objects[b"bucket", key] = b"x" * (i % 5)
    for threads in (1, 4, 32):
        assert listed(client, "s3://bucket", "--threads", threads) == KEYS
    assert listed(client, "s3://bucket/b") == [key[2:] for key in KEYS if key.startswith(b"b/")]
    assert listed(client, "s3://bucket", "--start-after", KEYS[99], "--end-before", KEYS[7000]) == KEYS[100:7000]
    assert listed(client, "s3://bucket", "--limit", 10) == KEYS[:10]
    assert sum((listed(client, "s3://bucket", "--shard", f"{k}/4") for k in range(4)), []) == KEYS
    assert listed(client, "s3://bucket", "--sizes", "--etags", "--limit", 2) == [
        b"%s\t%d\t%s" % (key, i % 5, etag(b"x" * (i % 5)).strip('"').encode()) for i, key in enumerate(KEYS[:2])]
    assert listed(client, "s3://bucket", "--total") == [b"12000"]


def test_catalogs_of_shards_are_joined_with_their_etags(client, server, tmp_path):
    for i, key in enumerate(KEYS[:3000]):
        server.objects[b"bucket", key] = b"x" * (i % 5)
    parts = []
    for k in range(3):
        parts.append(tmp_path / f"part{k}")
        assert client.shoal("index", "s3://bucket", "--etags", "--shard", f"{k}/3", "-q", "-o", parts[-1]).returncode == 0
    assert client.shoal("index", "s3://bucket", "--etags", "-q", "-o", tmp_path / "all").returncode == 0
    for order in (parts, parts[::-1]):
        done = client.shoal("merge", *order, "-o", tmp_path / "joined", "-q")
        assert (done.returncode, done.stderr) == (0, b"")
        every = [client.shoal("ls", tmp_path / name, "--json").stdout for name in ("all", "joined")]
        assert every[0] == every[1] and b'"etag"' in every[0]
        assert client.shoal("diff", tmp_path / "all", tmp_path / "joined").returncode == 0
    server.objects[b"bucket", KEYS[5]] = b"another"
    server.objects[b"bucket", KEYS[7]] = b"yy"
    assert client.shoal("index", "s3://bucket", "--etags", "-q", "-o", tmp_path / "later").returncode == 0
    done = client.shoal("diff", tmp_path / "all", tmp_path / "later", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["resized"] == 1 and json.loads(done.stdout)["changed"] == 1


def test_the_bytes_of_an_object(client, server, tmp_path):
    server.objects[b"bucket", b"d/x"] = b"content"
    assert client.shoal("index", "s3://bucket/d", "--etags", "-q", "-o", tmp_path / "c").returncode == 0
    assert client.shoal("cat", tmp_path / "c", "x", "--if-match").stdout == b"content"
    server.objects[b"bucket", b"d/x"] = b"CONTENT"
    done = client.shoal("cat", tmp_path / "c", 0, "--if-match")
    assert done.returncode == 1 and b"--etags" in done.stderr
    assert client.shoal("cat", tmp_path / "c", 0).stdout == b"CONTENT"
