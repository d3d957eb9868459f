import gc
import importlib.util
import os
import pickle
import subprocess

import numpy
import pytest

import shoal
from shoal import _shoal
from conftest import SHOAL


def test_ids_names_and_sizes_agree_with_the_files(files):
    catalog = shoal.Catalog(files)
    data = os.path.join(os.path.dirname(files), "data")
    assert len(catalog) == 600 == catalog.nr_samples
    assert catalog.root == "file://" + data
    for i in (0, 1, 99, 100, 599, -1, -600):
        assert catalog[i] == "d%d/f%06d.bin" % (i % 600 // 100, i % 600)
        assert catalog.size(i) == os.path.getsize(os.path.join(data, catalog[i]))
        assert catalog.uri(i) == "file://" + os.path.join(data, catalog[i])
    assert catalog.nr_bytes == sum(catalog.sizes()) == catalog.sizes().sum()
    assert catalog.largest() == 22
    assert catalog.locate(7) == (7, 0) and catalog.samples(7) == range(7, 8)


def test_a_damaged_copy_is_told_of_by_verify_and_made_anew(files, tmp_path):
    shoal.Catalog(files, local_copy=tmp_path).verify()
    (copy,) = tmp_path.iterdir()
    when = copy.stat()
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    os.utime(copy, ns=(when.st_atime_ns, when.st_mtime_ns))
    with pytest.raises(shoal.Error, match="its local copy '%s' is a damaged catalog.*is replaced" % copy):
        shoal.Catalog(files, local_copy=tmp_path).verify()
    with pytest.warns(RuntimeWarning, match="copy"):
        shoal.Catalog(files, local_copy=tmp_path).verify()
    shoal.Catalog(files, local_copy=tmp_path).verify()


def test_an_id_past_either_end_is_an_index_error(files):
    catalog = shoal.Catalog(files)
    for i in (600, -601, 2**63, 2**70):
        for ask in (catalog.name, catalog.size, catalog.name_bytes, catalog.samples):
            with pytest.raises(IndexError):
                ask(i)
    with pytest.raises(TypeError):
        catalog[1.5]
    assert catalog[numpy.uint64(3)] == catalog[3]


def test_slices_are_made_when_asked_for(files):
    catalog = shoal.Catalog(files)
    names = [catalog[i] for i in range(600)]
    for key in (slice(None), slice(10, 20), slice(20, 10), slice(None, None, -1), slice(599, None, -7), slice(-5, None),
                slice(0, 600, 3)):
        view = catalog[key]
        assert len(view) == len(names[key]) and list(view) == names[key] and view == names[key]
        assert list(catalog.sizes(key)) == [catalog.size(i) for i in range(*key.indices(600))]
    assert list(catalog[10:100][5:8]) == names[15:18]
    assert names[15] in catalog[10:20] and names[25] not in catalog[10:20]


def test_names_are_found(files):
    catalog = shoal.Catalog(files)
    for i in (0, 1, 300, 599):
        assert catalog.find(catalog[i]) == i == catalog.find(catalog.name_bytes(i)) == catalog.index(catalog[i])
        assert catalog[i] in catalog
    assert catalog.find("d0/nothing") is None and "d0/nothing" not in catalog and 3 not in catalog
    with pytest.raises(ValueError, match="nothing"):
        catalog.index("d0/nothing")
    assert catalog.lower_bound("d1/") == 100 and catalog.lower_bound("z") == 600


def test_names_of_any_bytes_come_back(tmp_path):
    names = [b"\xff\xfe", b"caf\xc3\xa9", b"new\nline", b"tab\tname"]
    made = subprocess.run([SHOAL, "index", "-q", "-0", "--names-only", "--root", "/r", "-o", tmp_path / "c.cat", "-"],
                          input=b"\0".join(names) + b"\0", check=True)
    assert made.returncode == 0
    catalog = shoal.Catalog(tmp_path / "c.cat")
    assert [catalog.name_bytes(i) for i in range(4)] == sorted(names)
    assert [os.fsencode(name) for name in catalog] == sorted(names)
    assert catalog.find(os.fsdecode(b"\xff\xfe")) == 3
    assert catalog.size(0) is None and catalog.nr_bytes is None and catalog.largest() is None
    with pytest.raises(ValueError, match="no sizes"):
        catalog.sizes()


def test_a_pickle_is_small_and_refuses_another_catalog(pattern, tmp_path):
    path = tmp_path / "moved.cat"
    path.write_bytes(open(pattern(10**7), "rb").read())
    kept = pickle.dumps(shoal.Catalog(path))
    assert len(kept) < 1000
    again = pickle.loads(kept)
    assert again == shoal.Catalog(path) and again[9_999_999] == "train/img_009999999.jpeg"
    path.unlink()
    with pytest.raises(FileNotFoundError, match="moved.cat"):
        pickle.loads(kept)
    path.write_bytes(open(pattern(5), "rb").read())
    with pytest.raises(shoal.StaleError, match="is not the catalog"):
        pickle.loads(kept)


def test_iterating_takes_no_memory(pattern):
    catalog = shoal.Catalog(pattern(10**7))
    names = iter(catalog)
    assert [next(names) for _ in range(3)] == ["train/img_%09d.jpeg" % i for i in range(3)]
    assert len(list(catalog[5_000_000:5_000_100])) == 100


def test_a_catalog_may_be_a_file_uri(files):
    assert shoal.Catalog("file://" + files) == shoal.Catalog(files) == shoal.Catalog(os.fsencode(files))
    assert shoal.Catalog("file://" + files).path == files
    with pytest.raises(shoal.BadValueError, match="three slashes"):
        shoal.Catalog("file://host" + files)
    with pytest.raises(shoal.NotFoundError):
        shoal.Catalog("file://" + files + "%41")


def test_nothing_but_what_it_said_of_itself_is_left_of_a_closed_catalog(files):
    catalog = shoal.Catalog(files)
    catalog.close()
    for use in (len, list, lambda c: c[0], lambda c: c[1:3], lambda c: c.find("x"), lambda c: "x" in c, shoal.Order,
                lambda c: shoal.Loader(c, 2), lambda c: c.verify(), lambda c: c.sizes()):
        with pytest.raises(ValueError, match="the catalog is closed"):
            use(catalog)
    catalog.close()
    assert catalog.digest == shoal.Catalog(files).digest


def test_an_empty_catalog_is_named(tmp_path):
    (tmp_path / "none").mkdir()
    catalog = shoal.index(tmp_path / "none", tmp_path / "e.cat", force=True)
    assert len(catalog) == 0 and list(catalog) == []
    for use in (shoal.Order, lambda c: shoal.Loader(c, 2)):
        with pytest.raises(shoal.BadValueError, match="e.cat' is empty"):
            use(catalog)


def test_a_closed_catalog_says_so_and_one_in_use_stays_open(files):
    with shoal.Catalog(files) as catalog:
        names = iter(catalog)
        next(names)
        with pytest.raises(BufferError, match="in use"):
            catalog.close()
        del names
    catalog.close()
    with pytest.raises(ValueError, match="closed"):
        catalog.name(0)


def test_what_is_no_catalog_is_named_in_words(tmp_path, files):
    for path, says in ((tmp_path / "none.cat", "No such file"), (tmp_path, "directory")):
        with pytest.raises(shoal.Error, match=says) as e:
            shoal.Catalog(path)
        assert str(path) in str(e.value)
    (tmp_path / "bad.cat").write_bytes(b"x" * 5000)
    with pytest.raises(shoal.DamagedError, match="bad.cat"):
        shoal.Catalog(tmp_path / "bad.cat")
    whole = open(files, "rb").read()
    (tmp_path / "cut.cat").write_bytes(whole[:-10])
    with pytest.raises(shoal.DamagedError):
        shoal.Catalog(tmp_path / "cut.cat")
    (tmp_path / "flipped.cat").write_bytes(whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1])
                                           + whole[len(whole) // 2 + 1:])
    with pytest.raises(shoal.DamagedError):
        shoal.Catalog(tmp_path / "flipped.cat").verify()


def test_a_file_that_shrinks_under_its_user_is_an_error_and_no_death(tmp_path, pattern):
    path = tmp_path / "shrinks.cat"
    with open(path, "wb") as out:
        subprocess.run(["seq", "-f", "%.0f.some.name", "100000", "300000"], stdout=out, check=True)
    subprocess.run([SHOAL, "index", "-q", path, "--root", "/r", "-o", tmp_path / "s.cat"], check=True)
    catalog = shoal.Catalog(tmp_path / "s.cat")
    os.truncate(tmp_path / "s.cat", 100)
    with pytest.raises(shoal.StaleError):
        catalog.check_fresh()
    with pytest.raises(shoal.Error):
        list(catalog)


def test_a_number_that_closes_the_catalog_or_empties_the_list_is_met_with_words(files):
    class Closes:
        def __index__(self):
            catalog.close()
            return 0

    for name in ("name", "size", "locate", "samples"):
        catalog = shoal.Catalog(files)
        with pytest.raises(ValueError, match="closed"):
            getattr(catalog.handle, name)(Closes())

    class Empties:
        def __index__(self):
            del ids[:]
            gc.collect()
            return 0

    catalog = shoal.Catalog(files)
    ids = [Empties()] + [1000 * 10**6 + i for i in range(1000)]
    with pytest.raises((IndexError, ValueError, OSError)):
        shoal._shoal.Reader(catalog.handle, None, False).read(ids, 1, False)


@pytest.mark.parametrize("root, uri", [
    ("/", "file:///a/b"),
    ("file:///", "file:///a/b"),
    ("/data", "file:///data/a/b"),
    ("s3://bucket", "s3://bucket/a/b"),
    ("s3://bucket/x", "s3://bucket/x/a/b"),
    ("s3://bucket/x/", "s3://bucket/x/a/b"),
])
def test_a_uri_is_the_root_a_slash_and_the_name(tmp_path, root, uri):
    assert shoal.index(["a/b"], tmp_path / "c.cat", root=root).uri(0) == uri


def test_who_gives_a_dataset_in_place_of_its_catalog_hears_of_index(tmp_path):
    (tmp_path / "names.txt").write_text("a\nb\n")
    for path, words in ((tmp_path, "make a catalog of its files"), (tmp_path / "names.txt", "if it is a list of names")):
        with pytest.raises(shoal.Error, match=words + r".* with shoal\.index\('%s', '%s\.cat'\)$" % (path, path)):
            shoal.Catalog(path)


def test_each_instance_of_the_module_has_types_of_its_own(files):
    spec = importlib.util.find_spec("shoal._shoal")
    second = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(second)
    assert second.Catalog is not shoal._shoal.Catalog
    path, catalog = os.fsencode(files), shoal.Catalog(files)
    with pytest.raises(TypeError, match="a catalog is needed, not Catalog"):
        second.Reader(shoal._shoal.Catalog(path), None, False)
    other = second.Catalog(path)
    assert second.Reader(other, None, False) and list(other.cursor(0, 1)) == [catalog.name_bytes(0)]


@pytest.mark.parametrize("samples", [1, 3])
def test_rows_of_files_with_the_same_number_are_computed(tmp_path, samples):
    """Not added up file by file: a small catalog of a pattern can have any number of files."""
    shoal.index_pattern("f{:07d}", 1000, tmp_path / "c", samples_per_file=samples)
    rows = _shoal.Rows(shoal.Catalog(tmp_path / "c").handle)
    assert len(rows) == 1000 * samples
    assert [rows.find(row) for row in range(len(rows))] == [(row, row, 1) for row in range(len(rows))]
    with pytest.raises(IndexError):
        rows.find(1000 * samples)
