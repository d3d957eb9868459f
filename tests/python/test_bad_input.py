"""What makes no sense, or changes under its users: one exception that names it, no crash, and nothing left behind.

Without torch, so that the extension can be run under the address sanitizer with it.
"""
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import shoal
from conftest import content, make_files

NO_NUMBERS = [(-1, ValueError), (2**64, ValueError), (1.0, TypeError), ("1", TypeError), (None, TypeError),
              ([1], TypeError)]


def refused(use, kind, words):
    with pytest.raises(kind, match=words) as caught:
        use()
    assert len(str(caught.value)) > 20  # a sentence, not a code


# ---- Orders ----


@pytest.mark.parametrize("name", ["batch_size", "seed", "epoch", "rank", "world_size"])
@pytest.mark.parametrize("value, kind", NO_NUMBERS)
def test_what_is_no_number_is_named(name, value, kind):
    refused(lambda: shoal.Order(600, **{name: value}), kind, name)


@pytest.mark.parametrize("value, kind", NO_NUMBERS)
def test_an_epoch_that_there_is_not_leaves_the_order_where_it_was(files, value, kind):
    order = shoal.Order(600, epoch=7)
    refused(lambda: order.set_epoch(value), kind, "epoch must be")
    assert order.epoch == 7 and list(order) == list(shoal.Order(600, epoch=7))
    with shoal.Loader(files, 100) as loader:
        refused(lambda: loader.epoch(value), kind, "epoch must be")
        assert len(list(loader)) == 6


@pytest.mark.parametrize("arguments, words", [
    ({"mode": "random"}, "mode must be one of"), ({"remainder": "wrap"}, "remainder must be one of"), ({"rank": 1}, "no rank 1 of 1"),
    ({"batch_size": 0}, "batch_size must be at least 1"), ({"world_size": 0}, "world_size must be at least 1"),
    ({"unit": -1}, "unit"), ({"window": -1}, "window")])
def test_an_order_that_cannot_be_is_refused(arguments, words):
    refused(lambda: shoal.Order(600, **arguments), ValueError, words)


@pytest.mark.parametrize("nr", [0, -1, [], 2**64])
def test_an_order_of_nothing_is_refused(nr):
    refused(lambda: shoal.Order(nr), ValueError, "sample")


def test_a_path_stands_for_its_catalog_and_not_for_the_length_of_its_name(files):
    assert shoal.Order(files).state_dict() == shoal.Order(shoal.Catalog(files)).state_dict()
    assert len(shoal.Order(Path(files))) == len(shoal.Order(os.fsencode(files))) == 600
    refused(lambda: shoal.Order("train.cat"), FileNotFoundError, "train.cat")


def test_places_that_an_epoch_does_not_have_are_refused():
    order = shoal.Order(600, batch_size=100)
    for positions in ([1.5], [True], ["1"], [2**63], [numpy.uint64(2**63)]):
        refused(lambda: order.at(positions), TypeError, "whole numbers")
    for positions in ([-1], [600], [0, 600]):
        refused(lambda: order.at(positions), IndexError, "past the end")
    assert order.at([]).tolist() == [] and order.at(numpy.uint8(3)).tolist() == [order[3]]
    for sample in (-1, 600, 2**64):
        refused(lambda: order.position(sample), IndexError, "no sample %d of 600" % sample)
    refused(lambda: order.position(1.5), TypeError, "integer")
    refused(lambda: order.batch(6), IndexError, "no step 6 of 6")
    refused(lambda: order.batch(-1), ValueError, "step must be")
    refused(lambda: order.batch(0, rank=1), ValueError, "no rank 1 of 1")


# ---- States ----


def wrong_states(good):
    yield from (None, 5, "x", [], {}, {"version": 1}, [good])
    for key in ("seed", "epoch", "consumed", "world_size", "order"):
        for value in ("x", None, -1, 2**64, 1.5):
            yield dict(good, **{key: value})
    for value in (5, None, b"x", "x" * 1000, "x\0y", "0" * 32):
        yield dict(good, digest=value)
    yield dict(good, version=2)
    yield dict(good, version="1")
    yield dict(good, order=good["order"] ^ 1)
    yield dict(good, consumed=10**9)


def resumable(files, tmp_path):
    with shoal.ColumnWriter(tmp_path / "k.col", files, "keep", "bit") as writer:
        writer.append(numpy.ones(600))
    with shoal.ColumnWriter(tmp_path / "l.col", files, "length", "u8") as writer:
        writer.append(numpy.arange(600) % 100)
    return [shoal.Order(files, batch_size=10), shoal.Loader(files, 10),
            shoal.KeptOrder(files, tmp_path / "k.col", batch_size=10),
            shoal.Batches(shoal.Column(tmp_path / "l.col").sort(), batch_size=10)]


def test_a_state_that_is_none_or_of_something_else_is_refused_and_changes_nothing(files, tmp_path):
    for one in resumable(files, tmp_path):
        good = one.state_dict()
        for state in wrong_states(good):
            with pytest.raises(shoal.Error) as caught:
                one.load_state_dict(state)
            assert len(str(caught.value)) > 20, state
            assert one.state_dict() == good, state
        one.load_state_dict(good)


def test_a_state_after_more_steps_than_there_are_is_the_end(files):
    order = shoal.Order(files, batch_size=7)
    assert order.state_dict(2**63) == order.state_dict(order.steps)
    refused(lambda: order.state_dict(-1), ValueError, "steps must be")


# ---- Loaders ----


@pytest.mark.parametrize("name, value, kind", [
    ("in_flight", 2**40, ValueError), ("in_flight", 1.5, TypeError), ("prefetch", 2**40, ValueError), ("prefetch", "2", TypeError),
    ("memory", -1, ValueError), ("memory", 2**64, ValueError), ("memory", "1 GB of it", ValueError), ("memory", 4095, ValueError),
    ("slot", -1, ValueError), ("slot", 2**64, ValueError), ("slot", 1.5, TypeError), ("object_size", -1, ValueError),
    ("timeout", -1, ValueError), ("timeout", 0, ValueError), ("timeout", float("nan"), ValueError),
    ("timeout", float("inf"), ValueError), ("timeout", "0", ValueError), ("timeout", [5], TypeError), ("stall", -1, ValueError), ("stall", 1e300, ValueError),
    ("stall", None, TypeError), ("worker", 1, ValueError), ("workers", 0, ValueError), ("workers", "2", TypeError),
    ("data", 5, TypeError), ("engine", 1, ValueError), ("memory", "64 apples", ValueError), ("stall", "soon", ValueError)])
def test_an_option_of_a_loader_that_makes_no_sense_is_named(files, name, value, kind):
    words = {"data": "PathLike", "in_flight": "in.flight|in flight", "prefetch": "prefetch|ahead"}.get(name, name)
    refused(lambda: list(shoal.Loader(files, 10, **{name: value})), kind, words)


def test_batches_of_more_than_memory_are_refused(files):
    for size in (2**40, 2**62):
        refused(lambda: list(shoal.Loader(files, size)), (MemoryError, ValueError), "too large|smaller batch|lower the batch")


@pytest.mark.parametrize("remainder, lengths", [("keep", [600]), ("drop", []), ("pad", [1000])])
def test_a_batch_may_be_larger_than_the_dataset(files, remainder, lengths):
    with shoal.Loader(files, 1000, remainder=remainder) as loader:
        assert len(loader) == len(lengths)
        assert [len(batch) for batch in loader] == lengths
        assert loader.audit.exactly_once


def test_a_store_may_be_a_path(files):
    folder = Path(files).parent / "data"
    for store in (folder, str(folder), os.fsencode(folder)):
        with shoal.Loader(files, 600, data=store) as loader:
            assert len(list(loader)) == 1


def test_an_error_is_told_again_and_never_looks_like_the_end(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 30)
    catalog = shoal.index(tmp_path / "data", tmp_path / "c.cat")
    os.unlink(tmp_path / "data" / catalog[13])
    with shoal.Loader(catalog, 10, mode="sequential", rank=0, world_size=1) as loader:
        batches = loader.epoch(0)
        next(batches)
        for _ in range(3):
            refused(lambda: next(batches), FileNotFoundError, "f000013.bin")
        assert loader.audit is None and loader.state_dict()["consumed"] == 10
        (tmp_path / "data" / catalog[13]).write_bytes(content(13))
        assert len(list(loader.epoch(1))) == 3 and loader.audit.exactly_once


def test_one_iteration_in_two_threads_is_told_to_one_and_goes_on_in_the_other(files):
    loader = shoal.Loader(files, 100, data="null:size=10,delay_us=300000", object_size=10, engine="threads", in_flight=600,
                          prefetch=1)
    batches, told, taken = loader.epoch(0), [], []

    def take():
        while True:
            try:
                taken.append(next(batches).step)
            except StopIteration:
                return
            except RuntimeError as error:
                told.append(str(error))
                time.sleep(0.01)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(6)) and told and set(told) <= {
        "the loader is in use by another thread: open one for each"}


INTERRUPTED = """
import os, shoal, signal, threading
loader = shoal.Loader({files!r}, 50, data="null:size=10,delay_us=200000", object_size=10, in_flight=50, prefetch=1)
batches, ids, heard = loader.epoch(0), [], 0
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
while True:
    try:
        ids += next(batches).ids.tolist()
    except KeyboardInterrupt:
        heard += 1
    except StopIteration:
        break
print(heard, sorted(ids) == list(range(600)), loader.audit.exactly_once)
"""


def test_an_iteration_goes_on_after_ctrl_c(files):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(files=files)], timeout=60, check=True,
                          stdout=subprocess.PIPE, text=True)
    assert done.stdout == "1 True True\n"


# ---- Catalogs and columns ----


def test_what_a_catalog_does_not_have_is_told(files):
    catalog = shoal.Catalog(files)
    for sample in (-1, 600, 2**64):
        refused(lambda: catalog.locate(sample), IndexError, "sample %d of a catalog of 600" % sample)
    refused(lambda: catalog.locate(1.5), TypeError, "integer")
    refused(lambda: catalog.sizes(3), TypeError, "takes a slice")
    for name in (5, None, "\ud800", "a\0b", b"", "x" * 5000):
        assert name not in catalog and name not in catalog[:3]
    for path in (5, None, 1.5):
        refused(lambda: shoal.Catalog(path), TypeError, "PathLike")
    refused(lambda: shoal.Catalog("a\0b"), ValueError, "NUL")
    refused(lambda: shoal.Catalog(""), ValueError, "the path is empty")
    refused(lambda: catalog["a.jpg"], TypeError, r"find\('a.jpg'\) is the number")


def test_what_is_no_file_of_a_catalog_hangs_nothing(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/null"):
        refused(lambda: shoal.Catalog(path), OSError, str(path))
        refused(lambda: shoal.Column(path), OSError, str(path))
    (tmp_path / "loop").symlink_to("loop")
    refused(lambda: shoal.Catalog(tmp_path / "loop"), OSError, "loop")


def test_a_catalog_cut_anywhere_is_refused(files, tmp_path):
    whole = Path(files).read_bytes()
    for length in list(range(0, 200, 7)) + list(range(200, len(whole), 97)) + [len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(shoal.DamagedError, match="cut"):
            shoal.Catalog(tmp_path / "cut")


def test_a_catalog_that_is_written_over_under_its_user_is_an_error_and_no_death(tmp_path):
    """As cp does it, in place: the same file with other bytes."""
    numbers = random.Random(5)
    names = sorted({"%032x" % numbers.getrandbits(128) for _ in range(3000)})
    for at in list(range(0, 1000, 24)) + [numbers.randrange(60000) for _ in range(30)]:
        catalog = shoal.index(((name, i) for i, name in enumerate(names)), tmp_path / "c.cat", root="/r",
                              force=True)
        catalog.name(0)
        with open(tmp_path / "c.cat", "r+b") as file:
            file.seek(at % os.path.getsize(file.name))
            file.write(b"\xff" * 24)
        told = 0
        for use in [catalog.verify, lambda: list(catalog), catalog.largest] + [
                lambda i=i: (catalog.name(i), catalog.size(i), catalog.find(names[i])) for i in range(0, 3000, 500)]:
            try:
                use()
            except shoal.Error as error:
                assert len(str(error)) > 20
                told += 1
        assert told or at < 1000  # what only opening looks at may have been hit
        catalog.close()


def test_a_column_of_another_catalog_is_refused_however_that_is_named(files, pattern, tmp_path):
    with shoal.ColumnWriter(tmp_path / "k.col", files, "keep", "bit") as writer:
        writer.append(numpy.arange(600) % 2)
    other = pattern(600)
    assert len(shoal.KeptOrder(files, tmp_path / "k.col")) == 300 and len(shoal.Column(tmp_path / "k.col", files)) == 600
    for use in (lambda: shoal.KeptOrder(other, tmp_path / "k.col"), lambda: shoal.Column(tmp_path / "k.col", other),
                lambda: shoal.KeptOrder(shoal.Catalog(other), shoal.Column(tmp_path / "k.col"))):
        refused(use, shoal.StaleError, "digest")


def test_an_argument_of_a_column_that_makes_no_sense_is_named(files, tmp_path):
    with shoal.ColumnWriter(tmp_path / "c.col", files, "length", "u16") as writer:
        writer.append(numpy.arange(600))
    column = shoal.Column(tmp_path / "c.col").sort()
    for catalog in (5, [1, 2]):
        refused(lambda: shoal.ColumnWriter(tmp_path / "x", catalog, "x", "u8"), TypeError, "a Catalog")
    for more, words in (({"first": -1}, "first must be"), ({"nr": -1}, "nr must be"), ({"first": 601}, "601"),
                        ({"first": 1, "nr": 600}, "600")):
        refused(lambda: shoal.ColumnWriter(tmp_path / "x", files, "x", "u8", **more), ValueError, words)
    refused(lambda: shoal.Batches(tmp_path / "none.col", batch_size=2), FileNotFoundError, "none.col")
    refused(lambda: shoal.Batches(5, batch_size=2), TypeError, "PathLike")
    assert len(shoal.Batches(tmp_path / "c.col", batch_size=2)) == 300
    for more, words in (({"batch_size": -1}, "batch_size"), ({"max_tokens": -5}, "max_tokens"), ({}, "batch size is missing"),
                        ({"batch_size": 4, "group": -1}, "group"), ({"batch_size": 4, "rank": 2, "world_size": 2}, "no rank 2")):
        refused(lambda: shoal.Batches(column, **more), ValueError, words)
    for use in (lambda: column.kept([0]), lambda: column.rank(0)):
        refused(use, ValueError, "type bit")
    refused(lambda: column.kept([0.5]), TypeError, "whole numbers")
    for sample in (-1, 601):
        refused(lambda: column.rank(sample), IndexError, "sample %d" % sample)
    refused(lambda: column.sort(tmp_path / "y", keep=tmp_path / "none"), FileNotFoundError, "none")
    refused(lambda: column.sort(tmp_path / "y", keep=column), ValueError, "bit")
    refused(lambda: column.sort(tmp_path / "y", memory=-1), ValueError, "memory")
    assert sorted(os.listdir(tmp_path)) == ["c.col"]


def test_the_length_of_an_order_of_kept_samples_is_theirs(files, tmp_path):
    with shoal.ColumnWriter(tmp_path / "k.col", files, "keep", "bit") as writer:
        writer.append(numpy.arange(600) % 7 == 0)
    order = shoal.KeptOrder(files, tmp_path / "k.col", batch_size=10)
    assert len(order) == 86 == len(list(order)) and order.steps == 9 == len(list(order.batches()))
    for sample in (1, -7, 600):
        with pytest.raises(IndexError):
            order.position(sample)
    assert sorted(order.ids()) == list(range(0, 600, 7))


def test_an_empty_catalog_has_nothing_and_says_so(tmp_path):
    catalog = shoal.index([], tmp_path / "c.cat", root="/r", force=True)
    assert (len(catalog), list(catalog), list(catalog[:]), catalog.find("x"), "x" in catalog) == (0, [], [], None, False)
    assert catalog.sizes().tolist() == [] and catalog.nr_samples == 0
    for use in (lambda: catalog[0], lambda: catalog.name(-1), lambda: catalog.locate(0)):
        with pytest.raises(IndexError):
            use()
    for use in (lambda: shoal.Order(catalog), lambda: shoal.Loader(catalog, 1), lambda: shoal.Order(catalog.path)):
        refused(use, ValueError, "is empty")


# ---- Making catalogs ----


@pytest.mark.parametrize("arguments, kind, words", [
    ({"threads": -1}, ValueError, "threads"), ({"threads": 2**33}, ValueError, "threads"), ({"memory": -1}, ValueError, "memory"),
    ({"samples_per_file": -1}, ValueError, "samples_per_file"), ({"samples_per_file": 1.5}, TypeError, "samples_per_file"),
    ({"root": 5}, TypeError, "PathLike"), ({"include": [5]}, TypeError, "include must be a pattern"), ({"tmp_dir": 5}, TypeError, "PathLike")])
def test_an_option_of_indexing_that_makes_no_sense_is_named(files, tmp_path, arguments, kind, words):
    refused(lambda: shoal.index(Path(files).parent / "data", tmp_path / "x.cat", **arguments), kind, words)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("names", [[("a", 1.5)], [("a", "1")], [("a", -1)], [("a", 2**64)], [5], [("a", 1, -1)], [()], [None]])
def test_names_with_sizes_that_are_none_leave_nothing(tmp_path, names):
    with pytest.raises((TypeError, ValueError), match=r"not (5|None|\(\))$" if names[0] in (5, None, ()) else None):
        shoal.index(names, tmp_path / "x.cat", root="/r")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments", [{"count": -1}, {"count": 1, "first": -1}, {"count": 1, "size": -1}, {"count": 1.5},
                                       {"count": 2, "first": 2**64 - 1}, {"count": 5, "subfolders": -1}])
def test_a_pattern_of_impossible_numbers_leaves_nothing(tmp_path, arguments):
    with pytest.raises((TypeError, ValueError)) as caught:
        shoal.index_pattern("a{:03d}", output=tmp_path / "x.cat", root="/r", **arguments)
    assert len(str(caught.value)) > 20 and os.listdir(tmp_path) == []


# ---- What is left behind ----


def open_files():
    gc.collect()  # a traceback that pytest has kept may hold a loader
    return len(os.listdir("/proc/self/fd"))


def test_nothing_that_failed_or_was_left_keeps_a_file_open_or_a_thread(files, tmp_path):
    (tmp_path / "bad").write_bytes(b"x" * 5000)
    (tmp_path / "gone.cat").write_bytes(Path(files).read_bytes())

    def fail(use):
        with pytest.raises(Exception):
            use()

    def all_of_it():
        fail(lambda: shoal.Catalog(tmp_path / "bad"))
        fail(lambda: shoal.Column(tmp_path / "bad"))
        fail(lambda: shoal.index(["a\0b"], tmp_path / "x.cat", root="/r"))
        fail(lambda: shoal.index(tmp_path / "nowhere", tmp_path / "x.cat"))
        fail(lambda: list(shoal.Loader(files, 10, data="/nowhere")))
        next(shoal.Loader(files, 10).epoch(0))  # left in the middle, not closed
        with shoal.Loader(files, 10) as loader:
            next(loader.epoch(3))
            next(loader.epoch(4))
        shoal.ColumnWriter(tmp_path / "x.col", files, "x", "u8").append([1])  # never sealed

    all_of_it()
    before = open_files(), len(os.listdir("/proc/self/task"))
    for _ in range(5):
        all_of_it()
    assert (open_files(), len(os.listdir("/proc/self/task"))) == before
    assert sorted(os.listdir(tmp_path)) == ["bad", "gone.cat"]


def test_a_child_of_a_process_with_an_open_loader_ends_by_itself(files):
    """It neither waits for threads that it does not have, nor gives the parent's batches back."""
    loader = shoal.Loader(files, 10, prefetch=2)
    batches = loader.epoch(0)
    held = next(batches)
    child = os.fork()
    if child == 0:
        try:
            del held, batches, loader
            with shoal.Loader(files, 100) as own:
                os._exit(0 if sum(len(batch) for batch in own) == 600 else 1)
        finally:
            os._exit(2)
    until = time.monotonic() + 60
    done, status = 0, 0
    while not done and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)
    if not done:
        os.kill(child, signal.SIGKILL)
    assert done and os.waitstatus_to_exitcode(status) == 0
    assert bytes(held[0]) == content(held[0].id) and sum(len(batch) for batch in batches) == 590
