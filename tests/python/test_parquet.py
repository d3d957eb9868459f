"""Lists that other tools write, and Parquet, both ways. Conversions are tested without pyarrow, files with it."""
import gzip
import os

import pytest

import shoal
from shoal import parquet

KEYS = ["train/a b+%41,\"c\".jpg", "train/x.jpg", "train/\u00e4.jpg"]
ROWS = [{"bucket": "b", "key": key, "size": i + 1, "is_latest": True, "is_delete_marker": False, "e_tag": "%032x" % i}
        for i, key in enumerate(KEYS)]
GONE = [{"bucket": "b", "key": "old", "size": 1, "is_latest": False, "is_delete_marker": False, "e_tag": "0" * 32},
        {"bucket": "b", "key": "gone", "size": None, "is_latest": True, "is_delete_marker": True, "e_tag": None}]


# ---- index(format=) ----


@pytest.mark.parametrize("format, text", [
    ("lines", b"/d/b\t2\n/d/a\t1\n"), ("find", b"2 /d/b\n1 /d/a\n"), ("gpfs", b"1 0 0  2 -- /d/b\n2 0 0  1 -- /d/a\n"),
    ("inventory", b'"d","b","2"\n"d","a","1"\n'),
])
def test_lists_of_other_tools_become_catalogs(tmp_path, format, text):
    (tmp_path / "list").write_bytes(text)
    root = None if format == "inventory" else "/d"
    catalog = shoal.index(tmp_path / "list", tmp_path / "c.cat", format=format, root=root)
    assert list(catalog) == ["a", "b"] and catalog.sizes().tolist() == [1, 2]
    assert catalog.root == ("s3://d" if format == "inventory" else "file:///d")
    if format != "lines":
        (tmp_path / "list.gz").write_bytes(gzip.compress(text))
        assert shoal.index(tmp_path / "list.gz", tmp_path / "z.cat", format=format, root=root) == catalog


def test_the_columns_of_an_inventory_are_those_of_its_manifest(tmp_path):
    (tmp_path / "list").write_bytes(b'"7","b","k%20k"\n')
    catalog = shoal.index(tmp_path / "list", tmp_path / "c.cat", format="inventory", columns="Size, Bucket, Key")
    assert list(catalog) == ["k k"] and catalog.size(0) == 7


@pytest.mark.parametrize("options, error, words", [
    ({"format": "xml"}, shoal.BadValueError, "format must be one of lines, find, gpfs, inventory"),
    ({"columns": "Key"}, shoal.BadValueError, 'columns applies to format="inventory"'),
    ({"format": "find", "names_only": True}, shoal.BadValueError, 'names_only applies to format="lines"'),
    ({"format": "find"}, shoal.Error, "line 1"),
])
def test_a_format_that_does_not_fit_is_refused(tmp_path, options, error, words):
    (tmp_path / "list").write_bytes(b"nonsense\n")
    with pytest.raises(error, match=words):
        shoal.index(tmp_path / "list", tmp_path / "c.cat", **options)
    with pytest.raises(shoal.BadValueError, match="applies to a file with a list"):
        shoal.index(tmp_path, tmp_path / "c.cat", format="find")
    assert os.listdir(tmp_path) == ["list"]


# ---- Without pyarrow ----


def test_rows_of_an_inventory_become_lines_that_index_reads(tmp_path):
    (tmp_path / "list").write_bytes(b"".join(parquet.csv_lines(ROWS + GONE)))
    catalog = shoal.index(tmp_path / "list", tmp_path / "c.cat", format="inventory", columns=parquet.COLUMNS)
    assert list(catalog) == sorted(KEYS, key=str.encode) and catalog.nr_bytes == 6


def test_rows_of_catalogs_and_listings_have_all_that_is_known(tmp_path):
    catalog = shoal.index([(b"\xff\xfe", 3), ("a", 1), ("line\nend", 2)], tmp_path / "c.cat", root=tmp_path)
    assert list(parquet._rows_of(catalog)) == [[(b"a", 1, 1, None), (b"line\nend", 2, 1, None), (b"\xff\xfe", 3, 1, None)]]
    assert list(parquet._rows_of(shoal.index(["a"], tmp_path / "n.cat", root=tmp_path))) == [[(b"a", None, 1, None)]]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"12345")
    assert list(parquet._rows_of(shoal.list(tmp_path / "d", sizes=True))) == [[(b"f", 5, 1, None)]]
    with pytest.raises(shoal.BadValueError, match="sizes=True"):
        list(parquet._rows_of(shoal.list(tmp_path / "d")))
    with pytest.raises(shoal.BadValueError, match="not UTF-8: binary=True"):
        parquet._texts([b"a", b"\xff"])


def test_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "list").write_bytes(b"PAR1....")
    for use in (lambda: shoal.to_parquet(shoal.index(["a"], tmp_path / "a.cat", root="/r"), tmp_path / "x.parquet"),
                lambda: shoal.index(tmp_path / "list", tmp_path / "c.cat", format="inventory")):
        with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'shoal\[parquet\]'"):
            use()
    assert sorted(os.listdir(tmp_path)) == ["a.cat", "list"]


# ---- With pyarrow ----


@pytest.fixture
def pyarrow():
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet

    return pyarrow


def test_an_inventory_in_parquet_becomes_a_catalog(pyarrow, tmp_path):
    schema = pyarrow.schema([("bucket", "string"), ("key", "string"), ("size", "int64"), ("is_latest", "bool"), ("is_delete_marker", "bool"),
                             ("e_tag", "string")])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS + GONE, schema), tmp_path / "i.parquet", row_group_size=2)
    catalog = shoal.index(tmp_path / "i.parquet", tmp_path / "c.cat", format="inventory")
    assert list(catalog) == sorted(KEYS, key=str.encode) and catalog.root == "s3://b" and catalog.nr_bytes == 6
    parts = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for part, rows in zip(parts, (ROWS[:1] + GONE, ROWS[1:])):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), part)
    assert shoal.index(parts, tmp_path / "both.cat", format="inventory") == catalog
    (tmp_path / "csv").write_text("b,k,1\n")
    with pytest.raises(shoal.BadValueError, match="must all be Parquet"):
        shoal.index([parts[0], tmp_path / "csv"], tmp_path / "bad.cat", format="inventory")
    pyarrow.parquet.write_table(pyarrow.table({"key": KEYS}), tmp_path / "bad.parquet")
    with pytest.raises(shoal.BadValueError, match="is no S3 Inventory: it has no column 'bucket'"):
        shoal.index(tmp_path / "bad.parquet", tmp_path / "bad.cat", format="inventory")
    assert not (tmp_path / "bad.cat").exists()


def test_a_list_in_parquet_has_every_file_and_replaces_nothing_else(pyarrow, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_ROWS", 2)
    catalog = shoal.index([("c", 3), ("a", 1), ("b", 2)], tmp_path / "c.cat", root=tmp_path)
    seen = []
    assert shoal.to_parquet(catalog.path, tmp_path / "l.parquet", progress=seen.append) == 3 and [p.done for p in seen] == [2, 3]
    table = pyarrow.parquet.read_table(tmp_path / "l.parquet")
    assert table.to_pydict() == {"name": ["a", "b", "c"], "size": [1, 2, 3], "samples": [1] * 3, "etag": [None] * 3}
    odd = shoal.index([b"\xff"], tmp_path / "odd.cat", root=tmp_path)
    with pytest.raises(shoal.BadValueError, match="binary=True"):
        shoal.to_parquet(odd, tmp_path / "l.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "l.parquet").num_rows == 3, "what was there stays"
    shoal.to_parquet(odd, tmp_path / "l.parquet", binary=True)
    assert pyarrow.parquet.read_table(tmp_path / "l.parquet")["name"].to_pylist() == [b"\xff"]
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(shoal.Error, match="is not a Parquet file"):
        shoal.to_parquet(odd, tmp_path / "notes", binary=True)
    assert sorted(os.listdir(tmp_path)) == ["c.cat", "l.parquet", "notes", "odd.cat"]
