import json
import pickle

import numpy
import pytest

import shoal


def test_an_epoch_is_a_sequence_with_a_way_back(files):
    order = shoal.Order(shoal.Catalog(files), seed=5)
    ids = list(order)
    assert len(order) == 600 and sorted(ids) == list(range(600)) and ids != sorted(ids)
    assert [order[p] for p in (0, 599, -1)] == [ids[0], ids[599], ids[599]]
    assert order[10:20].tolist() == ids[10:20] and order[::-7].tolist() == ids[::-7]
    assert order.at([5, 5, 0]).tolist() == [ids[5], ids[5], ids[0]]
    assert all(order.position(ids[p]) == p for p in range(0, 600, 37))
    for p in (600, -601):
        with pytest.raises(IndexError):
            order[p]
    for bad in ([600], [-1]):
        with pytest.raises(IndexError):
            order.at(bad)
    with pytest.raises(IndexError):
        order.position(600)


def test_the_command_gives_the_same_order(files):
    import subprocess
    from conftest import SHOAL
    out = subprocess.run([SHOAL, "order", files, "--seed", "5", "--epoch", "3", "--limit", "600"], check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert out.returncode == 0, out.stderr
    told = [int(line.split()[-2 if len(line.split()) > 2 else -1]) for line in out.stdout.splitlines() if line[:1].isdigit()]
    assert told == list(shoal.Order(shoal.Catalog(files), seed=5, epoch=3))


@pytest.mark.parametrize("mode", ["sequential", "global", "files", "window", "local"])
@pytest.mark.parametrize("remainder, steps, total", [("drop", 7, 560), ("pad", 8, 640), ("keep", 8, 600)])
def test_ranks_share_an_epoch(mode, remainder, steps, total):
    orders = [shoal.Order(600, batch_size=20, seed=1, mode=mode, remainder=remainder, rank=r, world_size=4, unit=10,
                          window=3) for r in range(4)]
    got = [i for order in orders for batch in order.batches() for i in batch]
    assert [order.steps for order in orders] == [steps] * 4 and len(got) == total
    assert len(set(got)) == min(total, 600)
    assert got == [i for order in orders for i in order.ids()]
    with pytest.raises(IndexError):
        orders[0].batch(steps)


def test_epochs_differ_unless_frozen():
    order = shoal.Order(10_000, seed=1)
    first = list(order)
    order.set_epoch(1)
    assert order.epoch == 1 and list(order) != first
    order.set_epoch(0)
    assert list(order) == first
    frozen = shoal.Order(10_000, seed=1, frozen=True, epoch=9)
    assert list(frozen) == first


@pytest.mark.parametrize("steps", [0, 1, 5, 9, 10])
@pytest.mark.parametrize("world, batch", [(1, 1), (2, 7), (3, 20), (5, 4)])
def test_a_state_goes_on_with_other_ranks_and_batches(files, steps, world, batch):
    catalog = shoal.Catalog(files)
    before = [shoal.Order(catalog, seed=4, epoch=2, batch_size=15, rank=r, world_size=4) for r in range(4)]
    assert before[0].steps == 10
    read = [i for order in before for step in range(steps) for i in order.batch(step)]
    state = json.loads(json.dumps(before[0].state_dict(steps)))
    after = [shoal.Order(catalog, batch_size=batch, rank=r, world_size=world) for r in range(world)]
    for order in after:
        order.load_state_dict(state)
        assert (order.epoch, order.seed, order.consumed) == (2, 4, steps * 60)
    rest = [i for order in after for b in order.batches() for i in b]
    assert sorted(read + rest) == list(range(600))


def test_a_state_of_another_dataset_or_order_is_refused(files, pattern):
    order = shoal.Order(shoal.Catalog(files), batch_size=10)
    other = shoal.Order(shoal.Catalog(pattern(600)), batch_size=10)
    with pytest.raises(shoal.StaleError):
        other.load_state_dict(order.state_dict(3))
    with pytest.raises(shoal.Error):
        shoal.Order(shoal.Catalog(files), mode="sequential").load_state_dict(order.state_dict(3))
    for bad in ({}, {"version": 1}, None, dict(order.state_dict(), version=99)):
        with pytest.raises(ValueError, match="state"):
            order.load_state_dict(bad)


def test_what_makes_no_sense_is_said_in_words():
    for wrong, says in ((dict(mode="random"), "mode must be one of"), (dict(remainder="x"), "remainder must be one of"),
                        (dict(rank=2, world_size=2), "no rank 2 of 2"), (dict(batch_size=0), "batch_size must"),
                        (dict(seed=-1), "seed must"), (dict(rank=-1), "rank must")):
        with pytest.raises(ValueError, match=says):
            shoal.Order(100, **wrong)
    with pytest.raises(TypeError):
        shoal.Order(100, seed=1.5)


def test_an_order_is_pickled_where_it_stands():
    order = shoal.Order(10**12, seed=3, batch_size=8, rank=1, world_size=2)
    order.load_state_dict(order.state_dict(1000))
    again = pickle.loads(pickle.dumps(order))
    assert again.consumed == 16000 and numpy.array_equal(again.batch(5), order.batch(5))
    assert len(pickle.dumps(order)) < 1000
