"""Catalogs that are kept in a bucket."""

import json
import os

import pytest

from objects import Handler, error

LIST = b"".join(b"dir/%d.bin\t%d\n" % (i * i, i) for i in range(20000))


def index(client, uri, *options, stdin=LIST, **env):
    return client.shoal("index", "-", "-q", "--root", "s3://bucket/data", "-o", uri, *options, stdin=stdin, **env)


@pytest.fixture
def stored(client, tmp_path):
    """The URI of a catalog, and its digest."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    client.env["TMPDIR"] = str(tmp)
    done = index(client, "s3://bucket/cats/x y.cat")
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.listdir(tmp) == []
    index(client, tmp_path / "same.cat")
    return "s3://bucket/cats/x y.cat", json.loads(client.shoal("info", tmp_path / "same.cat", "--json").stdout)["digest"]


def good(done):
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def says(done, *words):
    assert done.returncode == 1 and not done.stdout
    lines = done.stderr.decode().split("\n")[:-1]
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0]


def test_a_catalog_is_written_to_a_bucket_and_used_from_there(server, client, stored, tmp_path):
    uri, digest = stored
    assert list(server.objects) == [(b"bucket", b"cats/x y.cat")]
    assert json.loads(good(client.shoal("info", uri, "--json")))["digest"] == digest
    assert good(client.shoal("verify", "-q", uri)) == b""
    assert len(good(client.shoal("ls", uri)).split(b"\n")) == 20001
    assert good(client.shoal("find", uri, "dir/9.bin")).strip().isdigit()
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("root, key", [("s3://bucket", b"zz.cat"), ("s3://bucket/data", b"data/c/zz.cat")])
def test_a_catalog_in_the_bucket_that_it_lists_is_no_part_of_it(server, client, root, key):
    for name in (b"data/a", b"data/zz.cat2", b"zz.cat2"):
        server.objects[b"bucket", name] = b"12345"
    uri = "s3://bucket/" + key.decode()
    for _ in range(2):
        good(client.shoal("index", root, "-q", "-o", uri))
        names = good(client.shoal("ls", uri)).split()
        assert len(names) == (3 if root == "s3://bucket" else 2) and all(not name.endswith(b"zz.cat") for name in names)
        assert (b"bucket", key) in server.objects
        assert good(client.shoal("verify", "-q", "--storage", uri)) == b""


def test_other_catalogs_in_the_bucket_are_no_part_of_it_either(server, client, stored):
    """They are told by their first bytes, which are asked for of such names only."""
    for name in (b"cats/a", b"cats/kitten.cat", b"cats/empty.col", b"cats/train_epoch0000_rank00000.txt"):
        server.objects[b"bucket", name] = b"" if b"empty" in name else b"12345678"
    data = [b"cats/a", b"cats/empty.col", b"cats/kitten.cat", b"cats/train_epoch0000_rank00000.txt"]
    server.log.clear()
    good(client.shoal("index", "s3://bucket", "-q", "-o", "s3://bucket/all.cat"))
    assert good(client.shoal("ls", "s3://bucket/all.cat")).split() == data
    assert good(client.shoal("list", "s3://bucket")).split() == data
    server.objects[b"bucket", b"cats/.train.shoal-manifest"] = b"note"
    assert good(client.shoal("list", "s3://bucket")).split() == data[:-1]


@pytest.mark.parametrize("command", ["index", "import", "pattern", "merge", "filter", "split"])
def test_an_object_is_replaced_as_carefully_as_a_file(server, client, stored, tmp_path, command):
    """One that is not a catalog, or a catalog of more than twice as many names, only with --force."""
    few = b"".join(b"%d.bin\n" % i for i in range(9999))
    (tmp_path / "few.txt").write_bytes(few)
    (tmp_path / "few.tsv").write_bytes(b"".join(b"5 %d.bin\n" % i for i in range(9999)))
    good(index(client, tmp_path / "few.cat", stdin=few))
    words = {"index": ["index", tmp_path / "few.txt", "--root", "/r"], "merge": ["merge", tmp_path / "few.cat"],
             "import": ["index", tmp_path / "few.tsv", "--format", "find", "--root", "/r"],
             "pattern": ["index", "--pattern", "f{}", "--count", 9999, "--root", "/r"],
             "filter": ["filter", tmp_path / "few.cat"], "split": ["split", tmp_path / "few.cat", "--part", "x y=1"]}[command]
    target, notes = stored[0], "s3://bucket/cats/x y.cat"
    output = "s3://bucket/cats" if command == "split" else target
    before = dict(server.objects)
    says(client.shoal(*words, "-o", output), f"'{target}' has 20000 names, and only 9999 were found now", "--force")
    assert server.objects == before
    good(client.shoal(*words, "-o", output, "-q", "--force"))
    assert json.loads(client.shoal("info", target, "--json").stdout)["files"] == 9999
    server.objects[b"bucket", b"cats/x y.cat"] = b"my notes"
    says(client.shoal(*words, "-o", output), f"'{notes}' exists and is not a catalog; write it all the same with --force")
    assert server.objects[b"bucket", b"cats/x y.cat"] == b"my notes"
    server.objects[b"bucket", b"cats/x y.cat"] = b""
    good(client.shoal(*words, "-o", output, "-q"))
    assert json.loads(client.shoal("info", target, "--json").stdout)["files"] == 9999


def test_a_bucket_that_is_listed_to_an_object_is_as_careful(server, client, stored):
    server.objects[b"bucket", b"data/a"] = b"1"
    server.objects[b"bucket", b"notes.txt"] = b"mine"
    says(client.shoal("index", "s3://bucket/data", "-o", stored[0]), "has 20000 names, and only 1 was found now")
    says(client.shoal("index", "s3://bucket/data", "-o", "s3://bucket/notes.txt"), "'s3://bucket/notes.txt' exists and is not a catalog")
    says(client.shoal("index", "s3://bucket/data", "-o", "s3://bucket/notes.txt", "--dry-run"), "is not a catalog")
    done = client.shoal("index", "s3://bucket/data", "-o", stored[0], "--dry-run")
    assert done.returncode == 1 and b"instead of one of 20,000 names" in done.stderr and b"less than half" in done.stderr
    assert server.objects[b"bucket", b"notes.txt"] == b"mine"


def test_only_the_beginning_of_what_would_be_replaced_is_fetched(server, client, stored):
    """A catalog may have gigabytes."""
    server.log.clear()
    good(client.shoal("index", "--pattern", "f{}", "--count", 10000, "--root", "/r", "-q", "-o", stored[0]))
    assert [r.headers["Range"] for r in server.log if r.method == "GET"] == ["bytes=0-255"]


def test_a_directory_is_listed_into_a_bucket_without_what_is_made_on_the_way(server, client, tmp_path):
    (tmp_path / "tree").mkdir()
    client.env["TMPDIR"] = str(tmp_path / "tree")
    for name in "ab":
        (tmp_path / "tree" / name).touch()
    good(client.shoal("index", tmp_path / "tree", "-q", "-o", "s3://bucket/tree.cat"))
    assert good(client.shoal("ls", "s3://bucket/tree.cat")).split() == [b"a", b"b"]
    assert good(client.shoal("verify", "-q", "--storage", "s3://bucket/tree.cat")) == b""


def test_a_large_catalog_comes_in_ranges(server, client, tmp_path):
    names = b"".join(b"%s\n" % os.urandom(40).hex().encode() for _ in range(400000))
    good(index(client, "s3://bucket/big.cat", stdin=names))
    assert len(server.objects[b"bucket", b"big.cat"]) > 9 << 20
    server.log.clear()
    assert json.loads(good(client.shoal("info", "s3://bucket/big.cat", "--json")))["files"] == 400000
    gets = [r for r in server.log if r.method == "GET"]
    assert len(gets) >= 2 and all(r.headers["If-Match"] for r in gets)
    assert good(client.shoal("verify", "-q", "s3://bucket/big.cat")) == b""


def test_a_copy_is_fetched_once_and_again_when_the_catalog_changes(server, client, stored, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    server.log.clear()
    for _ in range(2):
        good(client.shoal("info", stored[0], "--local-copy", copies))
    assert [r.method for r in server.log if r.method in ("GET", "HEAD")] == ["HEAD", "GET", "HEAD"]
    assert len(os.listdir(copies)) == 1
    good(index(client, stored[0], "--force", stdin=b"other\t1\n"))
    assert json.loads(good(client.shoal("info", stored[0], "--json", "--local-copy", copies)))["files"] == 1
    assert len(os.listdir(copies)) == 2


def test_a_damaged_copy_is_made_again(server, client, stored, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    good(client.shoal("info", stored[0], "--local-copy", copies))
    (copy,) = copies.iterdir()
    copy.chmod(0o644)
    image = copy.read_bytes()
    anew = f"its local copy '{copy}' was damaged and has been replaced\n"
    for bad in b"x" * len(image), image[:-1]:
        copy.write_bytes(bad)
        done = client.shoal("info", stored[0], "--local-copy", copies)
        assert done.returncode == 0 and done.stderr.decode() == f"shoal: '{stored[0]}': {anew}"
        good(client.shoal("info", stored[0], "--local-copy", copies))


def test_damage_inside_a_copy_is_said_of_the_copy_and_healed_the_next_time(server, client, stored, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    want = good(client.shoal("ls", stored[0], "--local-copy", copies))
    (copy,) = copies.iterdir()
    image = bytearray(copy.read_bytes())
    image[len(image) // 2] ^= 1
    copy.write_bytes(image)
    done = client.shoal("ls", stored[0], "--local-copy", copies)
    assert done.returncode == 1 and f"its local copy '{copy}' is a damaged catalog" in done.stderr.decode()
    done = client.shoal("ls", stored[0], "--local-copy", copies)
    assert done.returncode == 0 and done.stdout == want and b"has been replaced" in done.stderr
    assert good(client.shoal("ls", stored[0], "--local-copy", copies)) == want


def test_a_catalog_that_is_none_is_said(server, client, stored):
    says(client.shoal("info", "s3://bucket/no.cat"), "s3://bucket/no.cat", "does not exist")
    says(client.shoal("info", "s3://bucket"), "s3://bucket/name")
    server.objects[b"bucket", b"text"] = b"hello"
    says(client.shoal("info", "s3://bucket/text"), "s3://bucket/text")
    server.objects[b"bucket", b"empty"] = b""
    says(client.shoal("info", "s3://bucket/empty"), "s3://bucket/empty")


def test_a_catalog_that_changes_while_it_is_fetched_is_said(server, client, stored):
    server.fault(error(412, "PreconditionFailed"), 1, "GET")
    says(client.shoal("info", stored[0]), "changed")


def test_a_fetch_that_breaks_off_is_tried_again(server, client, stored):
    server.fault(Handler.cut, 2, "GET")
    assert json.loads(good(client.shoal("info", stored[0], "--json")))["digest"] == stored[1]


def test_a_catalog_that_cannot_be_sent_leaves_nothing(server, client, tmp_path):
    client.env["TMPDIR"] = str(tmp_path)
    server.fault(error(403, "QuotaExceeded", "full"), 99, "PUT")
    says(index(client, "s3://bucket/x.cat"), "s3://bucket/x.cat", "quota")
    server.faults.clear()
    says(index(client, "s3://nobody/x.cat"), "s3://nobody/x.cat", "no bucket")
    assert not server.objects and os.listdir(tmp_path) == []


def test_resuming_needs_a_file(client, tmp_path):
    done = client.shoal("index", tmp_path, "--resume", "-o", "s3://bucket/x.cat")
    assert done.returncode == 2 and b"--resume" in done.stderr


def test_a_directory_is_updated_with_a_catalog_of_a_bucket(server, client, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"12345")
    good(client.shoal("index", tree, "-q", "-o", "s3://bucket/old.cat"))
    good(client.shoal("index", tree, "-q", "--update", "s3://bucket/old.cat", "-o", tmp_path / "new.cat"))
    assert good(client.shoal("ls", tmp_path / "new.cat")) == b"a\n"
    says(client.shoal("index", tree, "-q", "--update", "s3://bucket/none.cat", "-o", tmp_path / "x.cat"),
         "cannot update 's3://bucket/none.cat'")


def test_lists_of_other_tools_become_catalogs_in_a_bucket(server, client, tmp_path):
    good(client.shoal("index", "-", "--format", "find", "--root", "/data", "-q", "-o", "s3://bucket/found.cat",
                      stdin=b"5 a\n6 b\n"))
    assert good(client.shoal("ls", "s3://bucket/found.cat")) == b"a\nb\n"
