import json
import os
import pickle
import random
import subprocess
import sys
import time
import warnings

import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import default_collate

import shoal
from conftest import SHOAL, content, make_files
from helpers import STARTS, as_it_is, fails_on_13, number, number_and_pid
from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler, reduce_audit

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def workers(start, nr):
    return dict(num_workers=nr, multiprocessing_context=start, persistent_workers=nr > 0)


# ---- The dataset ----

def test_items_are_bytes_tensors_or_what_the_transform_makes(files):
    dataset = ShoalDataset(files)
    assert len(dataset) == 600 and dataset[5] == content(5) and dataset[-1] == content(599)
    assert dataset.__getitems__([3, 1, 3]) == [content(3), content(1), content(3)]
    tensors = ShoalDataset(files, output="tensor")
    assert tensors[7].dtype == torch.uint8 and bytes(tensors[7].numpy()) == content(7)
    tensors[7].add_(1)  # its own memory
    assert ShoalDataset(files, number)[44] == 44
    assert ShoalDataset(files, with_name=True)[2] == (content(2), "d0/f000002.bin")
    assert ShoalDataset(files, lambda data, name: name, with_name=True)[2] == "d0/f000002.bin" == dataset.name(2)
    assert ShoalDataset(files, number, in_flight=8).__getitems__(list(range(100))) == list(range(100))
    for i in (600, -601):
        with pytest.raises(IndexError, match="600"):
            dataset[i]


def test_a_pickle_is_under_a_kilobyte_and_opens_nothing(pattern, tmp_path):
    dataset = ShoalDataset(pattern(10**7), number, data="null:size=100")
    dataset.read([9_999_999])
    kept = pickle.dumps(dataset)
    assert len(kept) < 1000
    again = pickle.loads(kept)
    assert again._catalog is None and len(again) == 10**7 and len(again.read([5])[0]) == 100


def test_empty_files_and_files_without_known_sizes_are_read(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 20)
    (tmp_path / "data" / "empty").touch()
    dataset = ShoalDataset(shoal.index(tmp_path / "data", tmp_path / "c.cat", sizes=False), output="tensor")
    assert len(dataset[20]) == 0 and bytes(dataset[3].numpy()) == content(3)
    assert ShoalDataset(tmp_path / "c.cat")[20] == b""


def test_a_file_that_changed_or_vanished_is_named(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 20)
    catalog = shoal.index(tmp_path / "data", tmp_path / "c.cat")
    dataset = ShoalDataset(catalog)
    path = tmp_path / "data" / catalog[4]
    path.write_bytes(content(4) + b"!")
    with pytest.raises(shoal.Error, match="sample 4: 'd0/f000004.bin' is larger"):
        dataset[4]
    path.write_bytes(content(4)[:-1])
    with pytest.raises(shoal.Error, match="sample 4: 'd0/f000004.bin' has"):
        dataset[4]
    path.unlink()
    for in_flight in (1, 8):
        with pytest.raises(FileNotFoundError, match="f000004.bin"):
            ShoalDataset(catalog, in_flight=in_flight).__getitems__(list(range(20)))


def test_a_transform_that_raises_names_the_sample(files):
    for nr in (0, 2):
        loader = TorchLoader(ShoalDataset(files, fails_on_13), num_workers=nr)
        with pytest.raises(shoal.TransformError, match="(?s)sample 13, 'd0/f000013.bin': KeyError: 'no such label'"):
            list(loader)
        loader = TorchLoader(ShoalIterable(files, 8, fails_on_13), batch_size=None, num_workers=nr, collate_fn=as_it_is)
        with pytest.raises(shoal.TransformError, match="(?s)sample 13, 'd0/f000013.bin': KeyError: 'no such label'"):
            list(loader)


# In a process of its own, which ends without cleaning up: a worker that is killed at a bad moment holds a lock of its
# queue for ever, and torch's own cleaning up may then wait for it.
KILLED = """
import os, sys
sys.path.insert(0, {here!r})
from helpers import as_it_is, dies_on_13, number
from torch.utils.data import DataLoader
from shoal.torch import ShoalDataset, ShoalIterable

try:
    for batch in DataLoader({dataset}, num_workers=2, collate_fn=as_it_is, **{more!r}):
        pass
except RuntimeError as error:
    print("told:", error)
whole = ShoalIterable({files!r}, 8, number)
print(sorted(i for batch in whole for i in batch) == list(range(600)), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("dataset, more", [("ShoalDataset({files!r}, dies_on_13)", {}),
                                           ("ShoalIterable({files!r}, 8, dies_on_13)", {"batch_size": None})])
def test_a_worker_that_is_killed_ends_the_loop_and_hangs_nothing(files, dataset, more):
    script = KILLED.format(here=os.path.dirname(__file__), files=files, dataset=dataset.format(files=files), more=more)
    done = subprocess.run([sys.executable, "-c", script], text=True, stdout=subprocess.PIPE, timeout=100, check=True)
    told, whole = done.stdout.strip().rsplit("\n", 1)
    assert "worker" in told.lower() and whole == "True"


# ---- Epochs through workers ----

@pytest.mark.parametrize("start, nr", STARTS)
def test_each_epoch_of_a_batch_sampler_is_whole_and_new(files, start, nr):
    dataset = ShoalDataset(files, number_and_pid)
    sampler = ShoalBatchSampler(dataset, 16, seed=1)
    loader = TorchLoader(dataset, batch_sampler=sampler, collate_fn=as_it_is, **workers(start, nr))
    pids, epochs = set(), []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        items = [item for batch in loader for item in batch]
        epochs.append([i for i, _ in items])
        pids |= {pid for _, pid in items}
    assert epochs == [list(shoal.Order(600, seed=1, epoch=e)) for e in range(3)]
    assert len(pids) == max(1, nr) and len(loader) == 38


@pytest.mark.parametrize("start, nr", STARTS)
def test_each_epoch_of_an_iterable_is_in_the_ranks_order_at_any_number_of_workers(files, start, nr):
    dataset = ShoalIterable(files, 16, number, seed=1, rank=1, world_size=2)
    loader = TorchLoader(dataset, batch_size=None, collate_fn=as_it_is, **workers(start, nr))
    for epoch in (0, 1, 5):
        dataset.set_epoch(epoch)
        assert dataset.audit() is None
        order = shoal.Order(600, batch_size=16, seed=1, epoch=epoch, rank=1, world_size=2, remainder="pad")
        assert list(loader) == [batch.tolist() for batch in order.batches()]
        assert dataset.audit().samples == 304 and len(loader) == 19
    assert dataset.audit().sum_ids != (0, 0)


def test_ranks_and_workers_of_an_iterable_prove_an_epoch_together(files):
    total = None
    for rank in range(3):
        dataset = ShoalIterable(files, 7, number, rank=rank, world_size=3, drop_last=rank < 0)
        list(TorchLoader(dataset, batch_size=None, num_workers=2, collate_fn=as_it_is))
        assert reduce_audit(dataset.audit()) == dataset.audit()
        total = dataset.audit() if total is None else total + dataset.audit()
    assert total.exactly_once and total.samples == total.expected_samples == 609


def test_a_file_that_is_rewritten_between_epochs_is_read_anew(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 40)
    catalog = shoal.index(tmp_path / "data", tmp_path / "c.cat")
    dataset = ShoalDataset(catalog)
    sampler = ShoalBatchSampler(dataset, 8)
    iterable = ShoalIterable(catalog, 8, output="bytes")
    loaders = [TorchLoader(dataset, batch_sampler=sampler, collate_fn=as_it_is, **workers("fork", 2)),
               TorchLoader(iterable, batch_size=None, collate_fn=as_it_is, **workers("fork", 2))]
    for epoch in range(3):
        for i, name in enumerate(catalog):
            (tmp_path / "data" / name).write_bytes(bytes([epoch]) * len(content(i)))
        sampler.set_epoch(epoch)
        iterable.set_epoch(epoch)
        for loader in loaders:
            assert {data[0] for batch in loader for data in batch} == {epoch}


def test_reading_an_epoch_again_is_told(files):
    sampler = ShoalSampler(600)
    assert list(sampler) != sorted(sampler.order)
    with pytest.warns(RuntimeWarning, match="epoch 0 is read again"):
        list(sampler)
    iterable = ShoalIterable(files, 100)
    list(iterable)
    with pytest.warns(RuntimeWarning, match="epoch 0 is read again"):
        list(iterable)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (sampler, iterable):
            source.set_epoch(1)
            list(source)


# ---- What comes out of an iterable ----

@pytest.mark.parametrize("nr", [0, 2])
def test_an_iterable_gives_tensors_a_stack_or_bytes(files, nr):
    def batches(**more):
        return list(TorchLoader(ShoalIterable(files, 50, shuffle=False, **more), batch_size=None, num_workers=nr))
    for batch, first in zip(batches(), range(0, 600, 50)):
        assert [bytes(t.numpy()) for t in batch] == [content(i) for i in range(first, first + 50)]
    rows, lengths = batches(output="stack")[1]
    assert rows.shape == (50, int(lengths.max())) and lengths.tolist() == [len(content(i)) for i in range(50, 100)]
    assert bytes(rows[3, :lengths[3]].numpy()) == content(53)
    assert batches(output="bytes")[2] == [content(i) for i in range(100, 150)]
    named = batches(with_name=True)[0]
    assert [name for _, name in named] == list(shoal.Catalog(files)[:50])
    with pytest.raises(ValueError, match="stack"):
        ShoalIterable(files, 8, number, output="stack")


def test_tensors_are_views_of_the_loaders_memory_for_as_long_as_they_live(files):
    kept = [batch[0] for batch in ShoalIterable(files, 10, shuffle=False)]
    assert [bytes(tensor.numpy()) for tensor in kept] == [content(i) for i in range(0, 600, 10)]


def test_an_iterable_that_was_read_here_works_in_forked_workers(files):
    dataset = ShoalIterable(files, 20, number)
    assert len(list(dataset)) == 30
    dataset.set_epoch(1)
    loader = TorchLoader(dataset, batch_size=None, num_workers=1, collate_fn=as_it_is)
    assert [i for batch in loader for i in batch] == list(shoal.Order(600, epoch=1))
    dataset.set_epoch(2)
    assert sorted(i for batch in dataset for i in batch) == list(range(600))


# ---- Ranks ----

def test_samplers_pad_drop_and_keep_as_torch_does(files):
    def got(cls, *args, **more):
        return [list(cls(600, *args, rank=r, world_size=7, **more)) for r in range(7)]
    padded = got(ShoalSampler)
    assert {len(part) for part in padded} == {86} and set(sum(padded, [])) == set(range(600))
    dropped = got(ShoalSampler, drop_last=True)
    assert {len(part) for part in dropped} == {85} and len(set(sum(dropped, []))) == 595
    kept = got(ShoalBatchSampler, 50, remainder="keep")
    assert sorted(i for part in kept for batch in part for i in batch) == list(range(600))
    assert sorted(map(len, kept)) == [1, 1, 2, 2, 2, 2, 2]
    assert [len(ShoalBatchSampler(600, 50, rank=r, world_size=7, remainder="keep")) for r in range(7)] == list(map(len, kept))
    assert list(ShoalSampler(600, shuffle=False)) == list(range(600))
    assert [len(b) for b in ShoalBatchSampler(600, 256)] == [256, 256, 88]
    assert [len(b) for b in ShoalBatchSampler(600, 256, drop_last=True)] == [256, 256]


def test_ranks_come_from_arguments_or_from_what_started_them(monkeypatch):
    for rank, size in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        with monkeypatch.context() as m:
            m.setenv(rank, "2")
            m.setenv(size, "3")
            sampler = ShoalSampler(600)
            assert (sampler.rank, sampler.world_size, len(sampler)) == (2, 3, 200)
            assert ShoalSampler(600, rank=0, world_size=2).rank == 0
            m.setenv(rank, "3")
            with pytest.raises(ValueError, match="no rank 3 of 3"):
                ShoalSampler(600)
            m.setenv(rank, "x")
            with pytest.raises(ValueError, match="should be numbers"):
                ShoalSampler(600)
    for wrong in (dict(rank=0), dict(world_size=2), dict(rank=2, world_size=2)):
        with pytest.raises(ValueError):
            ShoalSampler(600, **wrong)


def test_a_sampler_made_before_the_ranks_were_known_is_refused(tmp_path):
    early = ShoalSampler(600)
    batches = ShoalIterable(shoal.index_pattern("a{}", 600, tmp_path / "c.cat", root="/r", size=1), 8)
    torch.distributed.init_process_group("gloo", init_method="file://%s" % (tmp_path / "meet"), rank=0, world_size=1)
    try:
        assert len(list(early)) == 600
        os.environ.update(RANK="5", WORLD_SIZE="8")
        assert ShoalSampler(600).world_size == 1  # the group knows better than the environment
    finally:
        torch.distributed.destroy_process_group()
    try:
        for source in (early, batches):
            with pytest.raises(ValueError, match="rank 5 of 8 now, but was rank 0 of 1"):
                iter(source)
    finally:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]


# ---- Going on ----

def sources(files, size, rank, world):
    """Three ways to read the same, each with a loader that counts."""
    def make(kind, nr):
        start = "fork" if nr else None
        if kind == "iterable":
            return DataLoader(ShoalIterable(files, size, number, seed=3, rank=rank, world_size=world, remainder="keep"),
                              batch_size=None, collate_fn=as_it_is, num_workers=nr, multiprocessing_context=start)
        dataset = ShoalDataset(files, number)
        more = dict(seed=3, rank=rank, world_size=world, remainder="keep")
        if kind == "sampler":
            return DataLoader(dataset, batch_size=size, sampler=ShoalSampler(dataset, **more), collate_fn=as_it_is,
                              num_workers=nr, multiprocessing_context=start)
        return DataLoader(dataset, batch_sampler=ShoalBatchSampler(dataset, size, **more), collate_fn=as_it_is,
                          num_workers=nr, multiprocessing_context=start)
    return make


@pytest.mark.parametrize("kind", ["iterable", "sampler", "batches"])
@pytest.mark.parametrize("finished", [1, 4, 10])
def test_an_epoch_goes_on_with_other_ranks_workers_and_batches(files, kind, finished):
    read, states = [], []
    for rank in range(2):
        loader = sources(files, 30, rank, 2)(kind, 2)
        loader.set_epoch(3)
        batches = iter(loader)
        for _ in range(finished):
            read += next(batches)
        states.append(json.loads(json.dumps(loader.state_dict())))  # workers have read further than that
        del batches
    assert states[0] == states[1]
    rest, again = [], []
    for rank in range(3):
        loader = sources(files, 16, rank, 3)(kind, rank)  # 0, 1 and 2 workers
        loader.load_state_dict(states[0])
        loader.set_epoch(loader._source()[0].epoch)  # as training loops do: it stays where it is
        rest += [i for batch in loader for i in batch]
        again += [i for batch in loader for i in batch]  # the next epoch, whole
    if finished == 10:  # the epoch was at its end
        assert sorted(read) == sorted(rest) == list(range(600))
    else:
        assert sorted(read + rest) == list(range(600))
    assert sorted(again) == list(range(600))


def test_a_loader_goes_through_epochs_by_itself(files):
    loader = sources(files, 20, 0, 1)("iterable", 0)
    epochs = [[i for batch in loader for i in batch] for _ in range(3)]
    assert epochs == [list(shoal.Order(600, seed=3, epoch=e)) for e in range(3)]
    for batch in loader:
        break  # left early: the same epoch again
    assert [i for batch in loader for i in batch] == list(shoal.Order(600, seed=3, epoch=3))
    loader.set_epoch(0)
    assert [i for batch in loader for i in batch] == epochs[0]
    with pytest.raises(ValueError, match="batch_size=None"):
        DataLoader(ShoalIterable(files, 8))
    with pytest.raises(ValueError, match="use torch's DataLoader"):
        DataLoader(ShoalDataset(files))


def test_an_iterable_does_not_guess_how_far_the_loop_is(files):
    dataset = ShoalIterable(files, 10)
    with pytest.raises(ValueError, match="state_dict\\(batches=...\\)"):
        dataset.state_dict()
    state = dataset.state_dict(batches=7)
    assert state["consumed"] == 70
    with pytest.raises(shoal.StaleError):
        ShoalBatchSampler(600, 8).load_state_dict(state)


def test_a_resumed_sampler_resumes_again(files):
    sampler = ShoalBatchSampler(ShoalDataset(files), 10, seed=2)
    read = []
    for _ in range(5):
        batches = iter(sampler)
        for _ in range(7):
            read += next(batches)
        state = sampler.state_dict()
        sampler = ShoalBatchSampler(ShoalDataset(files), 10, seed=2)
        sampler.load_state_dict(state)
    read += [i for batch in sampler for i in batch]
    assert read == list(shoal.Order(600, seed=2))


# ---- Changes under a running job ----

def large_catalog(tmp_path):
    """Of names that take many pages."""
    numbers = random.Random(1)
    names = (("%032x" % numbers.getrandbits(128), 10) for _ in range(50_000))
    catalog = shoal.index(names, tmp_path / "c.cat", root="/r")
    assert os.path.getsize(tmp_path / "c.cat") > 100 * 4096
    return catalog


def test_a_catalog_that_is_replaced_or_removed_is_told_to_new_workers_only(files, tmp_path):
    path = tmp_path / "c.cat"
    path.write_bytes(open(files, "rb").read())
    dataset, iterable = ShoalDataset(path), ShoalIterable(path, 50, number)
    kept, kept_iterable = pickle.dumps(dataset), pickle.dumps(iterable)
    shoal.index_pattern("other{}", 600, tmp_path / "new.cat", root="/r", size=1)
    os.rename(tmp_path / "new.cat", path)
    assert dataset[3] == content(3) and len(list(iterable)) == 12
    for again in (lambda: pickle.loads(kept)[3], lambda: next(iter(pickle.loads(kept_iterable)))):
        with pytest.raises(shoal.StaleError, match="is not the catalog that"):
            again()
    path.unlink()
    assert dataset[3] == content(3)
    with pytest.raises(FileNotFoundError, match="c.cat"):
        pickle.loads(kept)[3]


@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_a_catalog_that_shrinks_is_an_error_in_workers_and_no_death(tmp_path, kind):
    catalog = large_catalog(tmp_path)
    store = "null:size=10"
    if kind == "map":
        loader = TorchLoader(ShoalDataset(catalog, data=store), batch_size=100, num_workers=1, collate_fn=as_it_is)
    else:
        loader = TorchLoader(ShoalIterable(catalog, 100, data=store, output="bytes"), batch_size=None,
                             num_workers=1, collate_fn=as_it_is)
    batches = iter(loader)
    next(batches)
    os.truncate(tmp_path / "c.cat", 100)
    with pytest.raises(shoal.Error):
        list(batches)


def test_default_collate_takes_what_comes_out(files):
    dataset = ShoalDataset(files, number)
    loader = TorchLoader(dataset, batch_sampler=ShoalBatchSampler(dataset, 60), collate_fn=default_collate)
    assert sorted(torch.cat(list(loader)).tolist()) == list(range(600))
    assert len(next(iter(TorchLoader(ShoalDataset(files), batch_size=4)))) == 4


def test_examples_run(files, tmp_path):
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
    ran = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            argument = "gathered" if name == "gather.py" else files  # that one writes what it is given
            done = subprocess.run([sys.executable, os.path.join(folder, name), argument], cwd=tmp_path, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            assert done.returncode == 0, name + "\n" + done.stdout
            ran += 1
    assert ran and SHOAL and time


# ---- In a group ----

def _read_as_a_rank(rank, world, files):
    dataset = ShoalDataset(files, number)
    sampler = ShoalBatchSampler(dataset, 32, seed=6)
    batches = ShoalIterable(files, 32, number, seed=6, remainder="keep")
    assert (sampler.rank, sampler.world_size) == (rank, world)
    ids = [i for batch in TorchLoader(dataset, batch_sampler=sampler, collate_fn=as_it_is) for i in batch]
    mine = [i for batch in batches for i in batch]
    audit = reduce_audit(batches.audit())
    return ids, mine, audit.exactly_once, audit.samples, batches.audit().exactly_once


def test_ranks_of_a_group_share_an_epoch_and_prove_it(files):
    from ranks import run_ranks
    results = run_ranks(3, _read_as_a_rank, files)
    assert {len(ids) for ids, *_ in results} == {224}
    assert set(sum((ids for ids, *_ in results), [])) == set(range(600))
    assert sorted(sum((mine for _, mine, *_ in results), [])) == list(range(600))
    assert [rest for _, _, *rest in results] == [[True, 600, False]] * 3


def test_a_rank_with_fewer_samples_gets_no_empty_batch(files):
    for rank in range(2):
        dataset = ShoalIterable(files, 350, rank=rank, world_size=2, remainder="keep", shuffle=False)
        sizes = [len(batch) for batch in dataset]
        assert 0 not in sizes and len(sizes) == len(dataset)
    dataset = ShoalIterable(files, 300, rank=2, world_size=3, remainder="keep", shuffle=False)
    assert list(dataset) == [] and len(dataset) == 0
