"""A catalog compared with what is there now."""
import os

import pytest

import shoal
from conftest import make_files


@pytest.fixture
def dataset(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 300)
    return tmp_path / "data", shoal.index(tmp_path / "data", tmp_path / "c.cat", exclude="*.tmp")


def change(folder):
    (folder / "d0" / "f000003.bin").unlink()
    (folder / "d1" / "f000111.bin").write_bytes(b"short")
    (folder / "d2" / "new.bin").write_bytes(b"12345678")
    (folder / "d2" / "left out.tmp").write_bytes(b"")


def test_what_is_as_it_was_is_good(dataset):
    _, catalog = dataset
    assert catalog.verify() is None and catalog.verify(False) is None
    check = catalog.verify(storage=True)
    assert check.good and check == shoal.StorageCheck(300, 0, 0, 0, 0, ())
    assert str(check) == "0 missing, 0 new, 0 of another size, 0 of another ETag, 300 as they were"


def test_what_is_missing_new_or_of_another_size_is_counted_and_named(dataset):
    folder, catalog = dataset
    change(folder)
    told = []
    check = catalog.verify(storage=True, differs=told.append)
    assert not check.good and (check.same, check.missing, check.new, check.resized, check.changed) == (298, 1, 1, 1, 0)
    assert check.first == tuple(told) == (shoal.Difference("missing", "d0/f000003.bin", catalog.size(3), None),
                                          shoal.Difference("resized", "d1/f000111.bin", catalog.size(111), 5),
                                          shoal.Difference("new", "d2/new.bin", None, 8))


def test_of_many_differences_the_first_are_held_and_all_are_told(dataset):
    folder, catalog = dataset
    for i in range(100, 200):
        os.unlink(folder / "d1" / ("f%06d.bin" % i))
    check = catalog.verify(storage=True)
    assert (check.same, check.missing) == (200, 100)
    assert [one.name for one in check.first] == ["d1/f%06d.bin" % i for i in range(100, 120)]
    names = []
    assert catalog.verify(storage=True, differs=lambda one: names.append(one.name)) == check
    assert names == ["d1/f%06d.bin" % i for i in range(100, 200)]


def test_what_the_callbacks_raise_ends_it(dataset):
    folder, catalog = dataset
    change(folder)

    def enough(_):
        raise LookupError("enough")

    for name in ("differs", "progress"):
        with pytest.raises(LookupError, match="enough"):
            catalog.verify(storage=True, **{name: enough})
    assert catalog.verify(storage=True).missing == 1


def test_it_can_look_elsewhere_and_needs_to_below_the_root_of_all(dataset, tmp_path):
    folder, catalog = dataset
    (tmp_path / "copy").mkdir()
    make_files(tmp_path / "copy", 299)
    check = catalog.verify(storage=True, data=tmp_path / "copy")
    assert (check.same, check.missing) == (299, 1)
    everything = shoal.index([str(folder / "d0" / "f000003.bin")], tmp_path / "root.cat", root="/")
    with pytest.raises(shoal.BadValueError, match="choose what to compare it with: data="):
        everything.verify(storage=True)


@pytest.mark.parametrize("options, error, words", [
    ({"data": "/x"}, shoal.BadValueError, r"data is for verify\(storage=True\)"),
    ({"threads": 3}, shoal.BadValueError, r"threads is for verify\(storage=True\)"),
    ({"storage": True, "threads": 5000}, shoal.BadValueError, "threads must be at most"),
    ({"storage": True, "memory": 5}, shoal.BadValueError, "are too few; use memory="),
    ({"storage": True, "data": "/no/such"}, FileNotFoundError, "/no/such"),
])
def test_what_makes_no_sense_is_refused(dataset, options, error, words):
    with pytest.raises(error, match=words):
        dataset[1].verify(**options)
