"""Loops that are not the user's own: they count batches instead of asking for the end, wrap samplers, and make them anew."""
import glob
import itertools
import os
import pickle
import sys
import types
import warnings

import pytest
import torch
from torch.utils.data import BatchSampler
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import SequentialSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import shoal
from helpers import as_it_is, number
from ranks import run_ranks
from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
KINDS = ["batches", "sampler", "iterable"]


def make(files, kind, loader=DataLoader, workers=0, size=20, **more):
    """A loader, and what has the epoch."""
    common = dict(collate_fn=as_it_is, num_workers=workers, multiprocessing_context="fork" if workers else None)
    if kind == "iterable":
        source = ShoalIterable(files, size, number, seed=3, **more)
        return loader(source, batch_size=None, **common), source
    dataset = ShoalDataset(files, number)
    if kind == "sampler":
        source = ShoalSampler(dataset, seed=3, **more)
        return loader(dataset, size, sampler=source, **common), source
    source = ShoalBatchSampler(dataset, size, seed=3, **more)
    return loader(dataset, batch_sampler=source, **common), source


def flat(batches):
    return [i for batch in batches for i in batch]


def order(epoch, seed=3):
    return list(shoal.Order(600, seed=seed, epoch=epoch))


def quietly(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function()


# ---- Loops that count ----

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
def test_a_loop_that_takes_as_many_batches_as_the_length_says_gets_a_new_epoch_each_time(files, kind, workers, persistent):
    loader, source = make(files, kind, lambda *args, **more: DataLoader(*args, persistent_workers=persistent, **more), workers)
    epochs = quietly(lambda: [flat(itertools.islice(loader, len(loader))) for _ in range(3)])
    assert epochs == [order(epoch) for epoch in range(3)]
    if kind == "iterable":
        assert source.audit().exactly_once


@pytest.mark.parametrize("kind", KINDS)
def test_in_torchs_loader_such_a_loop_is_told_that_it_reads_an_epoch_again(files, kind):
    loader, _ = make(files, kind, TorchLoader)
    assert flat(itertools.islice(loader, len(loader))) == order(0)
    with pytest.warns(RuntimeWarning, match="epoch 0 is read again"):
        flat(itertools.islice(loader, len(loader)))


def test_a_loop_that_stops_before_the_end_reads_the_same_epoch_again(files):
    for kind in KINDS:
        loader, _ = make(files, kind)
        for _ in range(2):
            assert flat(itertools.islice(loader, len(loader) - 1)) == order(0)[:580]


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_of_a_resumed_epoch_is_never_less_than_that_of_the_epochs_that_follow(files, kind):
    """Loops ask once, and stop there in all epochs. Some count from the step that they were at."""
    loader, source = make(files, kind, rank=0, world_size=2)
    assert len(loader) == 15
    flat(itertools.islice(loader, 5))
    state = loader.state_dict()
    for world, length, left in ((2, 15, 10), (1, 30, 20), (3, 12, 7)):
        again, source = make(files, kind, rank=0, world_size=world)
        again.load_state_dict(state)
        assert len(again) == length >= 5 + left or world == 3
        if world == 3 and kind != "sampler":
            assert len(again) == 5 + left
        assert len(list(again)) == left
        again.set_epoch(1)
        assert len(again) == len(list(again)) == -(-600 // (20 * world))


# ---- Epochs that are set at the wrong time ----

def test_an_iteration_keeps_its_epoch_when_another_is_set_meanwhile_and_tells(files):
    for cls in (lambda: ShoalBatchSampler(600, 20, seed=3), lambda: ShoalSampler(600, seed=3)):
        sampler = cls()
        running = iter(sampler)
        first = next(running)
        sampler.set_epoch(2)
        with pytest.warns(RuntimeWarning, match="continues in epoch 0, and the next one is in epoch 2"):
            rest = list(running)
        got = flat([first, *rest]) if isinstance(first, list) else [first, *rest]
        assert got == order(0)
        assert sampler.epoch == 2 and sampler.state_dict()["consumed"] == 0


def test_an_epoch_that_is_set_before_the_first_batch_is_asked_for_is_the_iterations(files):
    """As Lightning does it: iter(), then set_epoch()."""
    for kind in KINDS:
        loader, source = make(files, kind)
        batches = iter(loader)
        source.set_epoch(2)
        assert quietly(lambda: flat(batches)) == order(2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_leaving_a_loaded_state_for_another_epoch_is_told(files, kind, workers):
    loader, _ = make(files, kind, workers=workers)
    loader.set_epoch(3)
    flat(itertools.islice(loader, 5))
    state = loader.state_dict()
    loader, source = make(files, kind, workers=workers)
    loader.load_state_dict(state)
    with pytest.warns(RuntimeWarning, match=r"set_epoch\(0\) discards the state .* epoch 3 after 100 samples"):
        source.set_epoch(0)
    loader.load_state_dict(state)

    def go_on():
        loader.set_epoch(3)
        assert flat(loader) == order(3)[100:]
        loader.set_epoch(4)
        assert flat(loader) == order(4)

    quietly(go_on)


# ---- What is no dataset, no sampler, no batch ----

def test_a_sampler_of_a_sampler_or_a_loader_is_refused(files):
    dataset = ShoalDataset(files)
    for other in (DistributedSampler(dataset, num_replicas=2, rank=0), SequentialSampler(dataset), ShoalSampler(dataset),
                  BatchSampler(SequentialSampler(dataset), 4, False), TorchLoader(dataset)):
        for build in (lambda: ShoalBatchSampler(other, batch_size=8, drop_last=False), lambda: ShoalSampler(other)):
            with pytest.raises(TypeError, match="not for a dataset. In Lightning: use shoal.torch.DataLoader"):
                build()


def test_a_batch_sampler_given_as_a_sampler_is_told_apart(files):
    dataset = ShoalDataset(files)
    with pytest.raises(ValueError, match="batch_sampler="):
        DataLoader(dataset, sampler=ShoalBatchSampler(dataset, 8))
    for more in ({}, {"batch_size": None}):
        with pytest.raises(TypeError, match="is for DataLoader\\(batch_sampler=...\\)"):
            list(TorchLoader(dataset, sampler=ShoalBatchSampler(dataset, 8), **more))


def test_an_iterable_whose_batches_would_be_batched_again_is_refused(files):
    for workers in (0, 2):
        for size in (1, 4):
            with pytest.raises(ValueError, match="use DataLoader\\(..., batch_size=None\\)"):
                list(TorchLoader(ShoalIterable(files, 20, number), batch_size=size, num_workers=workers))


def test_the_number_of_ranks_may_be_called_as_distributed_sampler_calls_it(files):
    assert list(ShoalSampler(600, num_replicas=2, rank=1)) == list(ShoalSampler(600, 1, 2))
    assert list(ShoalBatchSampler(600, 8, num_replicas=2, rank=1)) == list(ShoalBatchSampler(600, 8, 1, 2))
    assert len(ShoalIterable(files, 10, num_replicas=2, rank=1)) == 30
    assert ShoalSampler(600, num_replicas=2, world_size=2, rank=1).num_replicas == 2
    with pytest.raises(ValueError, match="two names of one number"):
        ShoalSampler(600, num_replicas=2, world_size=3, rank=1)
    with pytest.raises(ValueError, match="both rank and world_size"):
        ShoalSampler(600, num_replicas=2)


def test_frameworks_see_a_distributed_sampler_in_shoals_loader(files):
    """Lightning and Ray Train leave such loaders as they are."""
    for kind in ("batches", "sampler"):
        loader, source = make(files, kind)
        assert loader.sampler is source and isinstance(source, DistributedSampler)
        assert source.sampler is source  # where Accelerate and Lightning look for set_epoch()
        assert len(pickle.dumps(source)) < 1000


def test_other_datasets_are_read_as_torch_reads_them(files):
    data = TensorDataset(torch.arange(100))
    loader = DataLoader(data, 10)
    assert torch.equal(torch.cat([x for x, in loader]), torch.arange(100)) and len(loader) == 10
    assert loader.state_dict() == {}
    loader.load_state_dict({})
    loader.set_epoch(3)
    with pytest.raises(ValueError, match="this loader has none"):
        loader.load_state_dict({"epoch": 1})
    sampler = DistributedSampler(data, num_replicas=2, rank=0)
    loader = DataLoader(data, 10, sampler=sampler, shuffle=False)
    loader.set_epoch(3)
    assert sampler.epoch == 3 and len(list(loader)) == 5
    assert sorted(torch.cat([x for x, in DataLoader(data, 10, True)]).tolist()) == list(range(100))


def test_shuffle_over_a_dataset_makes_the_sampler(files):
    dataset = ShoalDataset(files, number)
    loader = DataLoader(dataset, 20, shuffle=True, collate_fn=as_it_is)
    assert [flat(loader) for _ in range(2)] == [order(0, 0), order(1, 0)]
    assert flat(DataLoader(dataset, 20, shuffle=False, collate_fn=as_it_is)) == list(range(600))
    with pytest.raises(ValueError, match="shuffle=True or False"):
        DataLoader(dataset, 20)
    with pytest.raises(TypeError, match="at most"):
        DataLoader(dataset, *range(13))


# ---- Wrappers that divide again ----

ACCELERATE = """
class BatchSamplerShard:
    def __init__(self, batch_sampler, nr, index):
        self.batch_sampler, self.nr, self.index = batch_sampler, nr, index

    def __len__(self):
        return len(self.batch_sampler) // self.nr

    def __iter__(self):
        for i, batch in enumerate(self.batch_sampler):
            if i % self.nr == self.index:
                yield batch
"""


@pytest.fixture
def shard(monkeypatch):
    """Accelerate's wrapper, as far as it matters here. tests/python/frameworks has the real one."""
    module = types.ModuleType("accelerate.data_loader")
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", module)
    exec(ACCELERATE, module.__dict__)
    return module.BatchSamplerShard


@pytest.mark.parametrize("mode", ["global", "window", "local"])
def test_what_accelerate_divides_is_the_whole_order_and_not_one_ranks_share(files, shard, mode):
    for kind in ("batches", "sampler"):
        parts = []
        for rank in range(2):
            sampler = ShoalBatchSampler(600, 20, rank, 2, mode=mode)
            if kind == "sampler":
                sampler = BatchSampler(ShoalSampler(600, rank, 2, mode=mode), 20, False)
            sharded = shard(sampler, 2, rank)
            assert len(sharded) == 15
            parts.append(flat(sharded))
            assert len(parts[-1]) == 300
        assert sorted(sum(parts, [])) == list(range(600))


def test_a_state_of_a_sampler_that_accelerate_divides_counts_the_loops_steps(shard):
    read = []
    for rank in range(2):
        sampler = ShoalBatchSampler(600, 20, rank, 2, seed=3)
        steps = iter(shard(sampler, 2, rank))
        read.append([next(steps) for _ in range(4)])
        state = sampler.state_dict(4)
        assert state["consumed"] == 160
    after = ShoalBatchSampler(600, 20, 0, 1, seed=3)
    after.load_state_dict(state)
    assert flat(flat(zip(*read))) + flat(after) == order(0)


class EverySecond:
    """What some library might put between a sampler and its loader."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        return itertools.islice(self.sampler, 0, None, 2)


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_samples_that_something_leaves_out_are_told_with_their_number(files, start):
    dataset = ShoalDataset(files, number)
    sampler = ShoalBatchSampler(dataset, 20)
    loader = TorchLoader(dataset, batch_sampler=EverySecond(sampler), collate_fn=as_it_is, num_workers=1 if start else 0,
                         multiprocessing_context=start)
    assert len(flat(loader)) == 300
    sampler.set_epoch(1)
    with pytest.warns(RuntimeWarning, match="epoch 0 on rank 0 of 1: the sampler yielded 600 samples, but .* read 300"):
        flat(loader)


def test_a_dataset_that_is_read_without_the_sampler_that_was_made_over_it_is_told(files):
    dataset = ShoalDataset(files, number)
    ShoalBatchSampler(dataset, 20, rank=0, world_size=2)
    with pytest.warns(RuntimeWarning, match="300 samples were read, but none in the order of the sampler"):
        list(TorchLoader(dataset, 20))
    other = ShoalDataset(files, number)
    sampler = ShoalBatchSampler(other, 20)
    quietly(lambda: (other[0], flat(TorchLoader(other, batch_sampler=sampler)), list(TorchLoader(other, 20))))


# ---- Ranks that do not fit together ----

def _epochs_of_a_rank(rank, world, files, how):
    told = []
    for kind in KINDS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            more = {"rank": 0, "world_size": world} if how == "ranks" else {}
            loader, _ = make_with_seed(files, kind, rank) if how == "seeds" else make(files, kind, **more)
            for epoch in range(2):
                loader.set_epoch(epoch + (rank if how == "epochs" else 0))
                for _ in itertools.islice(loader, 5 if how == "early" and rank else None):
                    pass
            torch.distributed.barrier()
        told.append([str(w.message) for w in caught if "did not read the same epoch" in str(w.message)])
    return told


def make_with_seed(files, kind, seed):
    dataset = ShoalDataset(files, number)
    if kind == "iterable":
        source = ShoalIterable(files, 20, number, seed=seed)
        return DataLoader(source, batch_size=None, collate_fn=as_it_is, num_workers=1, multiprocessing_context="fork"), source
    source = ShoalSampler(dataset, seed=seed) if kind == "sampler" else ShoalBatchSampler(dataset, 20, seed=seed)
    more = {"batch_size": 20, "sampler": source} if kind == "sampler" else {"batch_sampler": source}
    return DataLoader(dataset, collate_fn=as_it_is, **more), source


@pytest.mark.parametrize("how, words", [
    ("well", None), ("early", None), ("seeds", "process 1 read rank 1's share of epoch 0, seed 1"),
    ("epochs", "process 0 read rank 0's share of epoch 0, seed 3, from sample 0 on; process 1 read rank 1's share of epoch 1"),
    ("ranks", "process 1 read rank 0's share of epoch 0, seed 3")])
def test_ranks_that_read_the_same_samples_or_leave_some_out_are_told(files, how, words):
    results = run_ranks(2, _epochs_of_a_rank, files, how)
    for told in zip(*results):
        told = sum(told, [])
        assert len(told) == (2 if words else 0) and (not words or any(words in one for one in told))


# ---- The page ----

def test_the_page_on_frameworks_shows_the_examples_that_are_tested():
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "docs", "frameworks.md"), encoding="utf-8") as file:
        page = file.read()
    examples = sorted(glob.glob(os.path.join(root, "examples", "frameworks", "*.py")))
    assert len(examples) == 4
    for path in examples:
        with open(path, encoding="utf-8") as file:
            assert "```python\n" + file.read() + "```" in page, os.path.basename(path)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_that_breaks_off_is_not_warned_of_what_workers_read_ahead(files, workers):
    loader, source = make(files, "batches", workers=workers, size=200)  # three batches, which workers take at once
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(3):
            source.set_epoch(epoch)
            for batch in loader:
                break
        source.set_epoch(3)
        assert len(flat(loader)) == 600


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_that_was_left_and_begins_again_is_told(files, kind):
    loader, source = make(files, kind)
    next(iter(loader))
    with pytest.warns(RuntimeWarning, match="epoch 0 was left before its end, and begins again"):
        next(iter(loader))
    source.set_epoch(1)
    quietly(lambda: next(iter(loader)))


def test_the_state_of_a_loader_over_torchs_batches_of_a_sampler_counts_samples(files):
    dataset = ShoalDataset(files, number)
    loader = DataLoader(dataset, batch_sampler=BatchSampler(ShoalSampler(dataset, seed=3), 8, False), collate_fn=as_it_is)
    first = flat(itertools.islice(loader, 5))
    state = loader.state_dict()
    assert state["consumed"] == 40
    again = DataLoader(dataset, batch_sampler=BatchSampler(ShoalSampler(dataset, seed=3), 8, False), collate_fn=as_it_is)
    again.load_state_dict(state)
    assert sorted(first + flat(again)) == list(range(600))


def test_a_sampler_of_another_dataset_is_refused(files, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_bytes(b"1")
    other = shoal.index(tmp_path / "x", tmp_path / "x.cat")
    for wrong, words in ((other, "another catalog"), (50, "50 samples, but the dataset has 600")):
        with pytest.raises(shoal.BadValueError, match=words):
            DataLoader(ShoalDataset(files), batch_sampler=ShoalBatchSampler(wrong, 8))


def test_ranks_whose_shares_differ_by_a_batch_end_an_epoch_alike(files):
    states = []
    for rank in range(2):
        sampler = ShoalBatchSampler(ShoalDataset(files), 599, rank=rank, world_size=2, remainder="keep")
        assert len(list(sampler)) == 1
        sampler = ShoalBatchSampler(ShoalDataset(files), 200, rank=rank, world_size=2, remainder="keep")
        assert len(list(sampler)) == 2 - rank
        states.append(sampler.state_dict())
    for state in states:
        again = ShoalBatchSampler(ShoalDataset(files), 7, rank=0, world_size=1)
        again.load_state_dict(state)
        assert again.epoch == 1


def test_steps_of_a_state_that_counts_samples_are_not_taken_for_batches(files):
    dataset = ShoalDataset(files)
    samples = ShoalSampler(dataset, rank=0, world_size=1, seed=3)
    steps = iter(samples)
    for _ in range(100):
        next(steps)
    batches = ShoalBatchSampler(dataset, 20, rank=0, world_size=1, seed=3)
    batches.load_state_dict(samples.state_dict())
    assert len(batches) == 30 and len(list(batches)) == 25
