"""What makes no sense, dies or changes under PyTorch's workers and samplers: one exception that names it, no hang, and no
process left behind."""
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader

import shoal
from conftest import content
from helpers import as_it_is, fails_on_13, number
from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler, reduce_audit

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

NO_EPOCHS = [(-1, ValueError), (2**64, ValueError), (1.0, TypeError), ("1", TypeError), (None, TypeError)]


def refused(use, kind, words):
    with pytest.raises(kind, match=words) as caught:
        use()
    assert len(str(caught.value)) > 20  # a sentence, not a code


# ---- Numbers ----


@pytest.mark.parametrize("value, kind", NO_EPOCHS)
def test_an_epoch_that_there_is_not_changes_nothing(files, value, kind):
    for source in (ShoalSampler(600), ShoalBatchSampler(600, 10), ShoalIterable(files, 10),
                   DataLoader(ShoalIterable(files, 10), batch_size=None)):
        source.set_epoch(3)
        refused(lambda: source.set_epoch(value), kind, "epoch must be")
        assert getattr(source, "dataset", source).epoch == 3


def test_an_epoch_that_shared_memory_has_no_room_for_is_refused(files):
    iterable = ShoalIterable(files, 600, number)
    refused(lambda: iterable.set_epoch(2**63), ValueError, "epoch must be at least 0 and below 2")
    refused(lambda: iterable.load_state_dict(dict(iterable.state_dict(0), epoch=2**63)), ValueError, "epoch must be")
    iterable.set_epoch(2**62 - 1)
    assert sorted(i for batch in iterable for i in batch) == list(range(600)) and iterable.audit().exactly_once


@pytest.mark.parametrize("more, kind, words", [
    ({"rank": 0.0, "world_size": 2}, TypeError, "rank must be a whole number"),
    ({"rank": 0, "world_size": 2.0}, TypeError, "world_size must be a whole number"),
    ({"rank": "0", "world_size": "2"}, TypeError, "must be a whole number"), ({"rank": -1, "world_size": 2}, ValueError, "rank"),
    ({"rank": 2, "world_size": 2}, ValueError, "no rank 2 of 2"), ({"rank": 0}, ValueError, "both rank and world_size"),
    ({"seed": -1}, ValueError, "seed"), ({"seed": 0.5}, TypeError, "seed"), ({"remainder": "wrap"}, ValueError, "remainder"),
    ({"mode": "fast"}, ValueError, "mode")])
def test_an_argument_that_makes_no_sense_is_named(files, more, kind, words):
    for make in (lambda: ShoalSampler(600, **more), lambda: ShoalBatchSampler(600, 10, **more),
                 lambda: ShoalIterable(files, 10, **more)):
        refused(make, kind, words)


def test_an_argument_of_a_dataset_that_makes_no_sense_is_named(files):
    for in_flight in (0, -1, 2**32):
        refused(lambda: ShoalDataset(files, in_flight=in_flight), ValueError, "in_flight must be at least 1")
    for make in (lambda: ShoalDataset(files, "tensor"), lambda: ShoalIterable(files, 8, "tensor")):
        refused(make, TypeError, "transform must be a function")
    refused(lambda: ShoalDataset(files, output="arrays"), ValueError, "output must be one of")
    refused(lambda: ShoalDataset(files, data="/nowhere")[0], shoal.Error, "nowhere")
    dataset = ShoalDataset(files)
    for i in (1.0, "1", None):
        refused(lambda: dataset[i], TypeError, "integer")
    refused(lambda: dataset[:3], TypeError, "not a slice")
    assert dataset[torch.tensor(3)] == dataset[numpy.int32(3)] == content(3)
    for batch_size in (0, -1, 2.5, None):
        refused(lambda: ShoalBatchSampler(dataset, batch_size), (TypeError, ValueError), "batch_size")
        refused(lambda: ShoalIterable(files, batch_size), (TypeError, ValueError), "batch_size")
    refused(lambda: ShoalIterable(files, 8, prefetch=0), ValueError, "prefetch")
    refused(lambda: ShoalIterable(files, 8, no_such_option=1), TypeError, "no_such_option")


def test_a_sampler_of_a_path_is_one_of_its_catalog(files):
    assert list(ShoalSampler(files)) == list(ShoalSampler(ShoalDataset(files)))
    assert ShoalBatchSampler(Path(files), 8).state_dict() == ShoalBatchSampler(shoal.Catalog(files), 8).state_dict()
    refused(lambda: ShoalSampler("train.cat"), FileNotFoundError, "train.cat")


def test_a_batch_may_be_larger_than_the_dataset(files):
    dataset = ShoalDataset(files, number)
    for more, lengths in (({}, [600]), ({"drop_last": True}, [])):
        sampler, iterable = ShoalBatchSampler(dataset, 1000, **more), ShoalIterable(files, 1000, number, **more)
        assert len(sampler) == len(iterable) == len(lengths)
        assert [len(ids) for ids in sampler] == [len(batch) for batch in iterable] == lengths


def test_the_length_of_a_sampler_with_a_filter_is_what_it_gives(files, tmp_path):
    with shoal.ColumnWriter(tmp_path / "k.col", files, "keep", "bit") as writer:
        writer.append(numpy.arange(600) % 7 == 0)
    for rank in range(4):
        for more in ({}, {"drop_last": True}, {"remainder": "keep"}):
            one = ShoalSampler(files, rank, 4, keep=tmp_path / "k.col", **more)
            some = ShoalBatchSampler(files, 5, rank, 4, keep=tmp_path / "k.col", **more)
            assert len(one) == len(list(one)) and len(some) == len(list(some))
    refused(lambda: ShoalSampler(files, keep="nothing"), FileNotFoundError, "nothing")
    refused(lambda: ShoalSampler(600, keep=5), TypeError, "PathLike")


def test_an_empty_catalog_is_an_empty_dataset_and_has_no_order(tmp_path):
    catalog = shoal.index([], tmp_path / "c.cat", root=tmp_path, force=True)
    dataset = ShoalDataset(catalog)
    assert len(dataset) == 0 and dataset.__getitems__([]) == []
    refused(lambda: dataset[0], IndexError, "sample 0 of a dataset of 0")
    for make in (lambda: ShoalSampler(dataset), lambda: ShoalBatchSampler(dataset, 8), lambda: ShoalIterable(catalog, 8)):
        refused(make, ValueError, "is empty")


# ---- States ----


def test_a_state_of_garbage_or_another_catalog_is_refused_and_changes_nothing(files, pattern):
    def all_of(path):
        dataset = ShoalDataset(path)
        return [ShoalSampler(dataset), ShoalBatchSampler(dataset, 10), ShoalIterable(path, 10),
                DataLoader(dataset, batch_sampler=ShoalBatchSampler(dataset, 10)),
                DataLoader(ShoalIterable(path, 10), batch_size=None)]

    for one, other in zip(all_of(files), all_of(pattern(600))):
        read = (lambda: one.state_dict(0)) if not isinstance(one, DataLoader) else one.state_dict
        good = read()
        for state in (None, 5, "x", [], {"version": 1}, dict(good, seed="x"), dict(good, epoch=-1), dict(good, consumed=601)):
            refused(lambda: one.load_state_dict(state), ValueError, "state|consumed|position")
        refused(lambda: other.load_state_dict(good), shoal.StaleError, "digest|another")
        assert read() == good


def test_a_state_saved_before_the_first_batch_of_an_epoch_is_its_beginning(files):
    """Not where the epoch before has ended."""
    for make in (lambda: DataLoader(ShoalIterable(files, 10, number), batch_size=None, collate_fn=as_it_is),
                 lambda: DataLoader(ShoalDataset(files, number), batch_sampler=ShoalBatchSampler(files, 10), collate_fn=as_it_is)):
        loader = make()
        assert len(list(loader)) == 60
        loader.set_epoch(1)
        state = loader.state_dict()
        assert (state["epoch"], state["consumed"]) == (1, 0)
        again = make()
        again.load_state_dict(state)
        assert [i for batch in again for i in batch] == list(shoal.Order(600, epoch=1))


def test_an_iteration_that_failed_is_not_taken_for_a_whole_epoch(files):
    loader = DataLoader(ShoalIterable(files, 10, fails_on_13), batch_size=None, collate_fn=as_it_is)
    with pytest.raises(shoal.TransformError):
        list(loader)
    assert loader.dataset.audit() is None
    refused(lambda: reduce_audit(loader.dataset.audit()), ValueError, "rank 0 has no audit")
    with pytest.raises(shoal.TransformError):
        list(loader)  # the same epoch, not the next
    assert loader.dataset.epoch == 0


# ---- Workers ----


def test_a_transform_that_raises_in_a_spawned_worker_names_the_sample(files):
    more = dict(num_workers=1, collate_fn=as_it_is)  # one: each imports torch
    for loader in (TorchLoader(ShoalDataset(files, fails_on_13), batch_size=8, multiprocessing_context="spawn", **more),
                   TorchLoader(ShoalIterable(files, 8, fails_on_13), batch_size=None, multiprocessing_context="forkserver", **more)):
        with pytest.raises(shoal.TransformError, match="(?s)sample 13, 'd0/f000013.bin': KeyError: 'no such label'"):
            list(loader)


def test_a_transform_that_does_not_pickle_is_told(files):
    loader = TorchLoader(ShoalDataset(files, lambda data: 1), num_workers=2, multiprocessing_context="spawn")
    with pytest.raises(Exception, match="pickle"):
        next(iter(loader))


def test_a_catalog_that_was_replaced_or_cut_is_told_by_spawned_workers(files, tmp_path):
    path = tmp_path / "c.cat"
    path.write_bytes(Path(files).read_bytes())
    more = dict(num_workers=1, multiprocessing_context="spawn", collate_fn=as_it_is)
    loaders = [TorchLoader(ShoalDataset(path, number), batch_size=8, **more),
               TorchLoader(ShoalIterable(path, 8, number), batch_size=None, **more)]
    shoal.index_pattern("other{}", 600, tmp_path / "new.cat", root="/r", size=1)
    os.rename(tmp_path / "new.cat", path)
    with pytest.raises(shoal.StaleError, match="is not the catalog that"):
        list(loaders[0])
    path.write_bytes(Path(files).read_bytes()[:1000])
    with pytest.raises(shoal.DamagedError, match="c.cat"):
        list(loaders[1])


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from helpers import as_it_is, dies_on_13
from torch.utils.data import DataLoader
from shoal.torch import ShoalDataset, ShoalIterable

if __name__ == "__main__":
    try:
        for batch in DataLoader({dataset}, num_workers=1, collate_fn=as_it_is, multiprocessing_context={start!r},
                                persistent_workers=True, **{more!r}):
            pass
    except RuntimeError as error:
        print("told:", error, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("start, dataset, more", [
    ("spawn", "ShoalDataset({files!r}, dies_on_13)", {}),
    ("forkserver", "ShoalIterable({files!r}, 8, dies_on_13)", {"batch_size": None})])
def test_a_spawned_worker_that_is_killed_ends_the_loop(files, tmp_path, start, dataset, more):
    script = tmp_path / "killed.py"
    script.write_text(KILLED.format(here=os.path.dirname(__file__), dataset=dataset.format(files=files), more=more,
                                    start=start))
    done = subprocess.run([sys.executable, script], text=True, stdout=subprocess.PIPE, timeout=100, check=True)
    assert "told: DataLoader worker" in done.stdout


CTRL_C = """
import os, sys, time
sys.path.insert(0, {here!r})
from helpers import as_it_is, number
from torch.utils.data import DataLoader
from shoal.torch import ShoalDataset, ShoalIterable

loader = DataLoader({dataset}, num_workers=2, collate_fn=as_it_is, persistent_workers=True, **{more!r})
try:
    for count, batch in enumerate(loader):
        if count == 0:
            print("begun", flush=True)
        time.sleep(0.5)
except KeyboardInterrupt:
    print("heard", flush=True)
"""


@pytest.mark.parametrize("dataset, more", [("ShoalDataset({files!r}, number)", {}),
                                           ("ShoalIterable({files!r}, 2, number)", {"batch_size": None})])
def test_ctrl_c_ends_a_loop_and_all_its_workers(files, dataset, more):
    """As a terminal sends it: to all processes of the group."""
    script = CTRL_C.format(here=os.path.dirname(__file__), dataset=dataset.format(files=files), more=more)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          start_new_session=True) as child:
        try:
            assert child.stdout.readline() == "begun\n"
            os.killpg(child.pid, signal.SIGINT)
            assert child.stdout.readline() == "heard\n"
            child.wait(60)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                try:
                    os.killpg(child.pid, 0)
                except ProcessLookupError:
                    break  # the workers are gone, too
                time.sleep(0.05)
            else:
                pytest.fail("workers are left")
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_workers_that_come_and_go_leave_no_file_open(files):
    dataset, iterable = ShoalDataset(files, number), ShoalIterable(files, 50, number)

    def epoch(number_of_it):
        iterable.set_epoch(number_of_it)
        for loader in (TorchLoader(dataset, batch_size=50, num_workers=2, collate_fn=as_it_is),
                       TorchLoader(iterable, batch_size=None, num_workers=2, collate_fn=as_it_is)):
            batches = iter(loader)
            next(batches)
            if number_of_it % 2:
                list(batches)
            del batches, loader
        gc.collect()

    for number_of_it in range(2):
        epoch(number_of_it)
    before = len(os.listdir("/proc/self/fd"))
    for number_of_it in range(2, 6):
        epoch(number_of_it)
    assert len(os.listdir("/proc/self/fd")) <= before


# ---- Scans ----


@pytest.mark.parametrize("use, kind, words", [
    (lambda f, p: shoal.scan(f, 5, path=p), TypeError, "fn must be a function"),
    (lambda f, p: shoal.scan(5, len, path=p), TypeError, "needs a ShoalDataset"),
    (lambda f, p: shoal.scan(f, len, path=p, workers=-1), ValueError, "workers"),
    (lambda f, p: shoal.scan(f, len, path=p, workers=1.5), TypeError, "workers"),
    (lambda f, p: shoal.scan(f, len, path=p, type="u128"), ValueError, "type is one of"),
    (lambda f, p: shoal.scan(f, len, path=p, keep="nothing", progress=False), FileNotFoundError, "nothing"),
    (lambda f, p: shoal.scan(f, str, path=p, progress=False), shoal.TransformError, "sample 0"),
    (lambda f, p: shoal.scan(f, lambda data: None, path=p, progress=False), shoal.TransformError, "sample 0"),
    (lambda f, p: shoal.scan(f, lambda data: 1, path=p, workers=2, context="spawn", progress=False), Exception, "pickle")])
def test_a_scan_that_cannot_be_is_refused_and_leaves_nothing(files, tmp_path, use, kind, words):
    before = len(multiprocessing.active_children())
    with pytest.raises(kind, match=words):
        use(files, tmp_path / "x")
    assert os.listdir(tmp_path) == [] and len(multiprocessing.active_children()) == before


def test_a_function_that_cannot_be_sent_is_told_before_a_worker_starts(files, tmp_path, monkeypatch):
    def no_pool(*_):
        pytest.fail("a pool was made, which may wait for ever for what it cannot send")

    monkeypatch.setattr(shoal.scanning.concurrent.futures, "ProcessPoolExecutor", no_pool)
    for context in ("fork", "spawn"):
        with pytest.raises(Exception, match="pickle"):
            shoal.scan(files, lambda data: 1, path=tmp_path / "x", workers=2, context=context, progress=False)
    assert os.listdir(tmp_path) == []


def test_a_scan_leaves_out_what_a_column_by_name_or_path_does_not_keep(files, tmp_path):
    (tmp_path / "c.cat").write_bytes(Path(files).read_bytes())
    keep = shoal.scan(tmp_path / "c.cat", lambda data: number(data) % 3 == 0, "keep", type="bit", progress=False)
    for given in ("keep", keep, keep.path):
        column = shoal.scan(tmp_path / "c.cat", len, "length", keep=given, progress=False)
        assert sorted(column.sorted_ids()) == list(range(0, 600, 3)) and len(column) == 600
