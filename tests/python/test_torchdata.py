"""Shoal's datasets and samplers in torchdata's StatefulDataLoader, which keeps the states itself."""
import importlib.util
import pickle

import pytest

import shoal
from helpers import STARTS, as_it_is, number
from shoal.torch import ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler

if importlib.util.find_spec("torchdata") is None:
    pytest.skip("torchdata is not installed here, and Debian has no package of it: make test-torchdata fetches it and runs "
                "these", allow_module_level=True)

from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

KINDS = ["iterable", "batches", "sampler"]

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def make(files, kind, start, nr, size=10, seed=4, **more):
    """A loader, and what has the epoch."""
    workers = dict(num_workers=nr, collate_fn=as_it_is, multiprocessing_context=start, persistent_workers=nr > 0)
    if kind == "iterable":
        source = ShoalIterable(files, size, number, seed=seed, **more)
        return StatefulDataLoader(source, batch_size=None, **workers), source
    dataset = ShoalDataset(files, number)
    if kind == "sampler":
        source = ShoalSampler(dataset, seed=seed, **more)
        return StatefulDataLoader(dataset, batch_size=size, sampler=source, **workers), source
    source = ShoalBatchSampler(dataset, size, seed=seed, **more)
    return StatefulDataLoader(dataset, batch_sampler=source, **workers), source


def ids_of(batches):
    return [i for batch in batches for i in batch]


def order(epoch):
    return list(shoal.Order(600, seed=4, epoch=epoch))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start, nr", STARTS)
def test_each_epoch_is_whole_and_new_in_workers_that_live_on(files, kind, start, nr):
    loader, source = make(files, kind, start, nr)
    for epoch in range(3):
        source.set_epoch(epoch)
        assert ids_of(loader) == order(epoch)
    if kind == "iterable":
        assert source.audit().exactly_once and source.audit().samples == 600


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start, nr", STARTS)
def test_an_epoch_goes_on_where_its_state_was_saved_and_the_next_follows(files, kind, start, nr):
    loader, source = make(files, kind, start, nr)
    source.set_epoch(1)
    batches = iter(loader)
    read = ids_of(next(batches) for _ in range(14))
    state = pickle.dumps(loader.state_dict())
    assert len(state) < 3000 + 1000 * nr
    del batches, loader
    loader, source = make(files, kind, start, nr)
    loader.load_state_dict(pickle.loads(state))
    source.set_epoch(1)  # as training loops do before each epoch
    assert read + ids_of(loader) == order(1)
    source.set_epoch(2)
    assert ids_of(loader) == order(2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nr", [0, 2])
@pytest.mark.parametrize("taken", [1, 59, 60, 61])
def test_a_state_of_the_first_the_last_and_after_the_last_batch_goes_on(files, kind, nr, taken):
    """61: the loop has also seen the end. Resumed it then gives the next epoch, as it does with torch's samplers."""
    start = "fork" if nr else None
    loader, source = make(files, kind, start, nr)
    source.set_epoch(3)
    batches = iter(loader)
    read = ids_of(next(batches) for _ in range(min(taken, 60)))
    if taken == 61:
        assert next(batches, None) is None
    state = loader.state_dict()
    del batches, loader
    loader, source = make(files, kind, start, nr)
    loader.load_state_dict(state)
    source.set_epoch(4 if taken == 61 else 3)
    rest = ids_of(loader)
    assert rest == order(4) if taken == 61 else read + rest == order(3)
    source.set_epoch(5)
    assert ids_of(loader) == order(5)


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_saved_and_loaded_again_and_again(files, kind):
    read, state = [], None
    for _ in range(6):
        loader, _ = make(files, kind, "fork", 2)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        read += ids_of(next(batches) for _ in range(9))
        state = loader.state_dict()
        del batches
    loader, _ = make(files, kind, "fork", 2)
    loader.load_state_dict(state)
    assert read + ids_of(loader) == order(0)


@pytest.mark.parametrize("kind", KINDS)
def test_with_shoals_own_state_an_epoch_goes_on_with_other_workers_ranks_and_batches(files, kind):
    """torchdata's own state is of as many workers as it was saved with."""
    taken, read, states = 7, [], []
    for rank in range(2):
        loader, source = make(files, kind, "fork", 2, rank=rank, world_size=2, remainder="keep")
        source.set_epoch(1)
        batches = iter(loader)
        read += ids_of(next(batches) for _ in range(taken))
        states.append(source.state_dict(taken * (10 if kind == "sampler" else 1)))
        del batches
    assert states[0] == states[1]
    rest = []
    for rank in range(3):
        loader, source = make(files, kind, "fork" if rank else None, rank, size=16, rank=rank, world_size=3, remainder="keep")
        source.load_state_dict(states[0])
        rest += ids_of(loader)
    assert sorted(read + rest) == list(range(600))


def test_a_state_of_another_number_of_workers_is_refused(files):
    loader, _ = make(files, "iterable", "fork", 2)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    del batches
    for nr in (0, 3):
        loader, _ = make(files, "iterable", "fork" if nr else None, nr)
        loader.load_state_dict(state)
        with pytest.raises((AssertionError, ValueError, KeyError)):  # torchdata's own words
            next(iter(loader))


def test_a_state_of_another_catalog_is_refused(files, pattern):
    for kind in KINDS:
        loader, _ = make(files, kind, None, 0)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        other, _ = make(pattern(600), kind, None, 0)
        other.load_state_dict(state)
        with pytest.raises(shoal.StaleError, match="digest|another"):
            next(iter(other))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nr", [0, 2])
def test_the_seed_is_the_states_also_in_the_epochs_that_follow(files, kind, nr):
    start = "fork" if nr else None
    loader, source = make(files, kind, start, nr)
    batches = iter(loader)
    read = ids_of(next(batches) for _ in range(5))
    state = loader.state_dict()
    del batches
    loader, source = make(files, kind, start, nr, seed=99)
    loader.load_state_dict(state)
    assert read + ids_of(loader) == order(0)
    source.set_epoch(1)
    assert ids_of(loader) == order(1)
