"""Where catalogs, columns and lists are, given as URIs: the same as by path, and refused before any work is done."""

import os

import pytest

from conftest import settle

LIST = b"a\t5\nb\t6\nc/d\t7\n"


@pytest.fixture
def catalog(shoal, tmp_path):
    (tmp_path / "list").write_bytes(LIST)
    shoal.good("index", tmp_path / "list", "--root", "/data", "-q", "-o", tmp_path / "x.cat")
    return tmp_path / "x.cat"


# The words of commands that write one output; CAT is a catalog.
WRITERS = [("index", "-", "--root", "/data"), ("index", "--pattern", "f{}", "--count", 3, "--root", "/data"),
           ("index", "-", "--root", "/data", "--format", "find"), ("merge", "CAT"), ("filter", "CAT", "--min-size", 6),
           ("column", "sizes", "CAT"), ("split", "CAT", "--part", "p=1")]


def words_of(writer, catalog):
    return [catalog if word == "CAT" else word for word in writer]


def name_of(writer):
    return "-".join(str(word) for word in writer if word != "CAT")


@pytest.mark.parametrize("writer", WRITERS, ids=name_of)
def test_an_output_by_its_uri_is_the_one_by_its_path(shoal, catalog, tmp_path, writer):
    given = b"5 a\n6 b\n" if "--format" in writer else LIST
    made = []
    for name, output in (("by path", tmp_path / "by path"), ("by uri", f"file://{tmp_path}/by uri")):
        done = shoal(*words_of(writer, catalog), "-q", "-o", output, stdin=given)
        assert (done.returncode, done.stderr) == (0, b"")
        path = tmp_path / name
        made.append((path / "p.cat" if path.is_dir() else path).read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("output, words", [
    ("null:", "nothing can be written to 'null:'"), ("gs://b/c", "'gs://' is not a kind of store"),
    ("s3://bucket", "'s3://bucket' has no name: write s3://bucket/name"), ("file://host/x", "file://host/x")])
@pytest.mark.parametrize("writer", WRITERS[:1] + WRITERS[3:5], ids=name_of)
def test_an_output_that_cannot_be_written_is_a_wrong_command_line(shoal, fails, catalog, tmp_path, writer, output, words):
    here = tmp_path / "here"
    here.mkdir()
    fails(shoal(*words_of(writer, catalog), "-o", output, stdin=LIST, cwd=here), 2, words, empty=here)


def test_a_column_is_not_written_to_a_bucket(shoal, fails, catalog, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    fails(shoal("column", "sizes", catalog, "-o", "s3://bucket/c", cwd=here), 2, "'s3://bucket/c' is not a file", empty=here)


def test_columns_are_opened_and_sorted_by_their_uris(shoal, catalog, tmp_path):
    shoal.good("column", "sizes", catalog, "-q", "-o", tmp_path / "c")
    uri = f"file://{tmp_path}/c"
    assert shoal.good("column", "info", uri) == shoal.good("column", "info", tmp_path / "c")
    shoal.good("column", "sort", uri)
    assert b"sorted          3 samples" in shoal.good("column", "info", uri)


def test_what_would_be_replaced_is_looked_at_by_its_uri_too(shoal, fails, catalog, tmp_path):
    (tmp_path / "text").write_bytes(b"text")
    for words in (("index", "-"), ("merge", catalog), ("filter", catalog), ("column", "sizes", catalog)):
        done = shoal(*words, "-o", f"file://{tmp_path}/text", stdin=LIST)
        fails(done, 1, f"/text' exists and is not a c")
    assert (tmp_path / "text").read_bytes() == b"text"


def test_a_list_is_read_by_its_uri(shoal, catalog, tmp_path):
    shoal.good("index", f"file://{tmp_path}/list", "--root", "/data", "-q", "-o", tmp_path / "y.cat")
    assert (tmp_path / "y.cat").read_bytes() == catalog.read_bytes()
    (tmp_path / "some").write_bytes(b"b\n")
    shoal.good("filter", catalog, "--files-from", f"file://{tmp_path}/some", "-q", "-o", tmp_path / "b.cat")
    assert shoal.names(tmp_path / "b.cat") == [b"b"]


def test_a_list_that_is_missing_is_named_as_it_was_given(shoal, fails, tmp_path):
    uri = f"file://{tmp_path}/none"
    fails(shoal("index", uri, "-o", tmp_path / "x"), 1, f"'{uri}': cannot open it: No such file", empty=tmp_path)


def test_a_catalog_is_updated_by_its_uri(shoal, tmp_path):
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    for name in ("a", "d/b"):
        (tree / name).write_bytes(b"12345")
    settle(tree)
    shoal.good("index", tree, "-q", "-o", tmp_path / "old.cat")
    done = shoal("index", tree, "--update", f"file://{tmp_path}/old.cat", "-o", tmp_path / "new.cat")
    assert done.returncode == 0 and b"directories not read because they had not changed" in done.stderr
    assert shoal.names(tmp_path / "new.cat") == [b"a", b"d/b"]


def test_a_catalog_without_files_is_told_from_one_that_cannot_be_written(shoal, fails, catalog, tmp_path):
    fails(shoal("filter", catalog, "--min-size", 100, "-o", tmp_path / "none"), 1, "no file is left", "--force")
    assert not (tmp_path / "none").exists()
    shoal.good("filter", catalog, "--min-size", 100, "-q", "--force", "-o", tmp_path / "none")
    assert shoal.names(tmp_path / "none") == []
    missing = tmp_path / "missing" / "x"
    done = shoal("filter", catalog, "-o", missing)
    fails(done, 1, "there is no directory")
    assert b"--force" not in done.stderr


def test_the_catalog_itself_is_not_listed_if_its_output_is_a_uri(shoal, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    for _ in range(2):
        shoal.good("index", tmp_path, "-q", "-o", f"file://{tmp_path}/x.cat")
        assert shoal.names(tmp_path / "x.cat") == [b"a"]
