"""Samples inside objects: shoal index s3://... --samples, and reading them."""

import json
import pathlib

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "corpus"


def test_samples_inside_objects_are_found_and_read(server, client, tmp_path):
    parquet = (CORPUS / "parquet" / "three-groups").read_bytes()
    for name, body in {b"a.parquet": parquet, b"b.jsonl": b"1\n22\n", b"c.bin": b"x" * 100}.items():
        server.objects[b"bucket", b"data/" + name] = body
    catalog = tmp_path / "x.cat"
    done = client.shoal("index", "s3://bucket/data", "--samples", "auto", "-q", "-o", catalog)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = client.shoal("ls", "--extents", catalog).stdout.decode().splitlines()
    assert [line.split("\t") for line in lines] == [
        ["a.parquet", "0", "4", "163", "4"], ["a.parquet", "1", "167", "163", "4"], ["a.parquet", "2", "330", "148", "2"],
        ["b.jsonl", "3", "0", "2", "1"], ["b.jsonl", "4", "2", "3", "1"], ["c.bin", "5", "0", "100", "1"]]
    done = client.shoal("read", catalog, "--json", "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["samples"] == 6


def test_a_list_of_objects_without_sizes_has_their_samples_and_sizes(server, client, tmp_path):
    parquet = (CORPUS / "parquet" / "three-groups").read_bytes()
    server.objects[b"bucket", b"data/a.parquet"] = parquet
    server.objects[b"bucket", b"data/c.bin"] = b"x" * 100
    names, catalog = tmp_path / "names", tmp_path / "x.cat"
    names.write_text("s3://bucket/data/c.bin\ns3://bucket/data/a.parquet\n")
    how = ["index", names, "--root", "s3://bucket/data", "--samples", "auto", "-q", "-o", catalog]
    done = client.shoal(*how)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [line.split("\t")[:4] for line in client.shoal("ls", "--extents", catalog).stdout.decode().splitlines()] == [
        ["a.parquet", "0", "4", "163"], ["a.parquet", "1", "167", "163"], ["a.parquet", "2", "330", "148"], ["c.bin", "3", "0", "100"]]
    assert json.loads(client.shoal("info", "--json", catalog).stdout)["bytes"] == len(parquet) + 100
    names.write_text(names.read_text() + "s3://bucket/data/missing.parquet\n")
    done = client.shoal(*how)
    assert done.returncode == 1 and b"'missing.parquet': " in done.stderr and b"not exist" in done.stderr


def test_a_damaged_object_is_an_error_with_its_name(server, client, tmp_path):
    server.objects[b"bucket", b"data/a.parquet"] = b"PAR1 and no footer"
    done = client.shoal("index", "s3://bucket/data", "--samples", "auto", "-q", "-o", tmp_path / "x.cat")
    assert done.returncode == 1 and b"'a.parquet': not a Parquet file, or truncated" in done.stderr
    assert not (tmp_path / "x.cat").exists()


def test_an_update_opens_only_objects_with_another_etag(server, client, tmp_path):
    parquet = (CORPUS / "parquet" / "three-groups").read_bytes()
    for name in (b"a.parquet", b"b.parquet", b"c.parquet"):
        server.objects[b"bucket", b"data/" + name] = parquet
    how = ["index", "s3://bucket/data", "--samples", "auto", "--etags", "-q", "--json", "-o"]
    assert client.shoal(*how, tmp_path / "old.cat").returncode == 0
    server.objects[b"bucket", b"data/b.parquet"] = parquet[:20] + bytes([parquet[20] ^ 1]) + parquet[21:]
    done = client.shoal(*how, tmp_path / "new.cat", "--update", tmp_path / "old.cat")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["not_opened"] == 2
    fresh = client.shoal(*how, tmp_path / "fresh.cat")
    assert fresh.returncode == 0
    assert client.shoal("ls", "--extents", tmp_path / "new.cat").stdout == client.shoal(
        "ls", "--extents", tmp_path / "fresh.cat").stdout
    done = client.shoal("index", "s3://bucket/data", "--samples", "auto", "-o", tmp_path / "new.cat", "--update",
                        tmp_path / "old.cat")
    assert done.returncode == 2 and b"With --samples and --etags" in done.stderr
