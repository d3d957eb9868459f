"""Columns, scans that make them, and the orders and batches that come out of them."""
import collections
import os
import pickle
import signal
import threading
import time

import numpy
import pytest
import torch
from conftest import content
from ranks import run_ranks

import shoal
from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset, ShoalSampler


@pytest.fixture
def lengths(files, tmp_path):
    """A sorted column of 600 lengths, and the lengths."""
    values = numpy.random.default_rng(1).integers(1, 500, 600)
    with shoal.ColumnWriter(tmp_path / "l.col", shoal.Catalog(files), "length", "u32") as writer:
        writer.append(values)
    return shoal.Column(tmp_path / "l.col").sort(), values


@pytest.fixture
def keep(files, tmp_path):
    values = numpy.arange(600) % 3 == 0
    with shoal.ColumnWriter(tmp_path / "k.col", shoal.Catalog(files), "keep", "bit") as writer:
        writer.append(values)
    return shoal.Column(tmp_path / "k.col"), values


# ---- Columns ----


@pytest.mark.parametrize("type", ["bit", "u8", "u16", "u32", "u64", "i64", "f32", "f64"])
def test_a_column_gives_back_what_was_written(files, tmp_path, type):
    values = numpy.arange(600) % 200
    values = values % 2 if type == "bit" else values - 100 if type in ("i64", "f32", "f64") else values
    with shoal.ColumnWriter(tmp_path / "c", shoal.Catalog(files), "x", type) as writer:
        writer.append(values[:7])
        writer.append(values[7:].tolist())
    column = shoal.Column(tmp_path / "c", shoal.Catalog(files))
    assert (column[:] == values).all() and len(column) == 600 and list(column) == values.tolist()
    for key in (slice(5, 50), slice(-3, None), slice(None, None, 7), slice(50, 5, -3), slice(5, 5), slice(None, None, -1)):
        assert (column[key] == values[key]).all() and len(column[key]) == len(values[key])
    assert column[3] == values[3] and column[-1] == values[-1]
    with pytest.raises(IndexError):
        column[600]
    column.verify()


@pytest.mark.parametrize("type, value", [("u8", 256), ("u8", -1), ("u32", 1.5), ("u32", float("nan")), ("u64", -1),
                                         ("i64", 2**63), ("u16", 70000), ("u8", "x"), ("u8", [[1]])])
def test_a_value_that_does_not_fit_is_refused_and_leaves_nothing(files, tmp_path, type, value):
    with pytest.raises(ValueError):
        with shoal.ColumnWriter(tmp_path / "c", shoal.Catalog(files), "x", type) as writer:
            writer.append(value)
    assert os.listdir(tmp_path) == []


def test_values_that_are_missing_are_told(files, tmp_path):
    with pytest.raises(ValueError, match="only 5 values for 600"):
        with shoal.ColumnWriter(tmp_path / "c", shoal.Catalog(files), "x", "u8") as writer:
            writer.append([1] * 5)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a/b", "/", "", "a\0b", "x" * 300])
def test_a_name_that_no_column_can_have_is_refused_and_leaves_nothing(files, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="cannot be a column's name"):
        shoal.scan(shoal.Catalog(files), len, name)
    with pytest.raises(ValueError, match="cannot be a column's name"):
        shoal.ColumnWriter("c", shoal.Catalog(files), name, "u8")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("values", [[2], [0, 1, -1], [0.5], [float("nan")], numpy.array([1, 255], "u1")])
def test_a_bit_is_0_or_1(files, tmp_path, values):
    with shoal.ColumnWriter(tmp_path / "c", shoal.Catalog(files), "keep", "bit", 0, 6) as writer:
        with pytest.raises(ValueError, match="does not fit a column of type bit"):
            writer.append(values)
        writer.append([0, 1, True, False, 1.0, 0])
    assert shoal.Column(tmp_path / "c")[:].tolist() == [False, True, True, False, True, False]


def test_a_column_is_named_in_any_way_that_a_file_is(lengths):
    column, values = lengths
    for path in (column.path, os.fsencode(column.path), os.path.relpath(column.path), "file://" + column.path):
        assert shoal.Column(path)[3] == values[3] and shoal.Column(path).path == column.path
    with pytest.raises(TypeError):
        shoal.Column(5)


def test_a_closed_column_says_so(lengths, keep):
    column = lengths[0]
    column.close()
    column.close()
    for use in (lambda c: c[0], list, lambda c: c.sorted_ids(), lambda c: c.verify(),
                lambda c: shoal.Batches(c, batch_size=2)):
        with pytest.raises(ValueError, match="the column is closed"):
            use(column)
    assert column.name == "length"


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [True, False])
def test_kept_samples_are_dropped_or_padded_like_all_others(files, keep, world, drop_last):
    """200 of 600 are kept, in batches of 7."""
    dataset, column = ShoalDataset(files), keep[0]
    ranks = [ShoalBatchSampler(dataset, 7, keep=column, drop_last=drop_last, rank=r, world_size=world) for r in range(world)]
    batches = [list(sampler) for sampler in ranks]
    steps = 200 // (7 * world) if drop_last else -(-200 // (7 * world))
    assert [len(one) for one in batches] == [len(sampler) for sampler in ranks] == [steps] * world
    found = collections.Counter(int(i) for one in batches for batch in one for i in batch)
    assert all(i % 3 == 0 for i in found)
    if drop_last:
        assert max(found.values()) == 1 and sum(found.values()) == steps * 7 * world
    else:
        assert len(found) == 200 and max(found.values()) <= 2


def test_a_column_of_another_catalog_is_refused(lengths, pattern):
    column, _ = lengths
    other = shoal.Catalog(pattern(600))
    with pytest.raises(shoal.StaleError, match="digest"):
        shoal.Column(column.path, other)
    with pytest.raises(shoal.StaleError, match="digest"):
        ShoalBatchSampler(ShoalDataset(other), 4, sort_by=column)


def test_a_column_travels_as_its_path(lengths):
    column, values = lengths
    assert len(pickle.dumps(column)) < 1000
    assert (pickle.loads(pickle.dumps(column))[:] == values).all()
    data = pickle.dumps(column)
    os.replace(column.sort(column.path + "2").path, column.path)
    with open(column.path, "r+b") as file:
        file.truncate(100)
    with pytest.raises(shoal.DamagedError, match="truncated"):
        pickle.loads(data)


def test_sorted_samples_rise(lengths):
    column, values = lengths
    assert column.sorted_ids().tolist() == numpy.argsort(values, kind="stable").tolist()
    assert column.sorted_ids(5, 9).tolist() == numpy.argsort(values, kind="stable")[5:9].tolist()


# ---- Kept samples ----


def test_only_kept_samples_come_each_once(files, keep):
    column, values = keep
    dataset = ShoalDataset(files)
    samplers = [ShoalSampler(dataset, rank=r, world_size=3, keep=column, remainder="keep") for r in range(3)]
    epochs = []
    for epoch in range(2):
        for s in samplers:
            s.set_epoch(epoch)
        epochs.append([i for s in samplers for i in s])
        assert sorted(epochs[-1]) == numpy.flatnonzero(values).tolist()
    assert epochs[0] != epochs[1]


def test_an_order_of_kept_samples_knows_positions_and_resumes(files, keep, tmp_path):
    column, values = keep
    order = shoal.KeptOrder(shoal.Catalog(files), column, batch_size=7, seed=3)
    assert len(order) == 200
    assert all(order[order.position(i)] == i for i in numpy.flatnonzero(values))
    with pytest.raises(IndexError):
        order.position(1)
    rest = shoal.KeptOrder(shoal.Catalog(files), column, batch_size=3, world_size=2)
    rest.load_state_dict(order.state_dict(5))
    seen = [i for step in range(5) for i in order.batch(step)]
    seen += [i for step in range(rest.steps) for rank in range(2) for i in rest.batch(step, rank)]
    assert sorted(seen) == numpy.flatnonzero(values).tolist()
    with shoal.ColumnWriter(tmp_path / "other", shoal.Catalog(files), "keep", "bit") as writer:
        writer.append(numpy.arange(600) % 3 == 1)
    with pytest.raises(shoal.StaleError, match="keep"):
        shoal.KeptOrder(shoal.Catalog(files), tmp_path / "other").load_state_dict(order.state_dict(5))
    assert list(pickle.loads(pickle.dumps(order))) == list(order)


def test_a_column_that_keeps_nothing_or_is_no_flag_is_refused(files, tmp_path, lengths):
    with shoal.ColumnWriter(tmp_path / "none", shoal.Catalog(files), "keep", "bit") as writer:
        writer.append(numpy.zeros(600))
    with pytest.raises(ValueError, match="keeps no sample"):
        ShoalSampler(ShoalDataset(files), keep=tmp_path / "none")
    with pytest.raises(ValueError, match="not bit"):
        ShoalSampler(ShoalDataset(files), keep=lengths[0])


# ---- Batches by length ----


def all_batches(files, column, world, epoch, **options):
    found = []
    for rank in range(world):
        sampler = ShoalBatchSampler(ShoalDataset(files), rank=rank, world_size=world, sort_by=column, remainder="keep",
                                    **options)
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(sampler) == len(batches)
        found.append(batches)
    return found


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("options", [{"batch_size": 7}, {"max_tokens": 2000}, {"max_tokens": 2000, "batch_size": 5},
                                     {"batch_size": 8, "bucket": 16}, {"batch_size": 8, "shuffle": False}])
def test_an_epoch_of_batches_has_each_sample_once(files, lengths, world, options):
    column, values = lengths
    by_rank = all_batches(files, column, world, 1, **options)
    batches = [batch for one in by_rank for batch in one]
    assert sorted(i for batch in batches for i in batch) == list(range(600))
    if "max_tokens" in options:
        assert all(max(values[batch]) * len(batch) <= 2000 for batch in batches)
    assert all_batches(files, column, world, 1, **options) == by_rank  # the same again, on any rank
    assert (all_batches(files, column, world, 2, **options) == by_rank) == (options.get("shuffle") is False)


def test_lengths_in_a_batch_are_alike(files, lengths):
    column, values = lengths
    batches = all_batches(files, column, 1, 0, batch_size=8, bucket=32)[0]
    padded = sum(max(values[b]) * len(b) for b in batches)
    assert padded < 1.1 * values.sum()
    mixed = numpy.random.default_rng(0).permutation(600).reshape(-1, 8)
    assert sum(max(values[b]) * 8 for b in mixed) > 1.5 * values.sum()  # what it would be without


def test_batches_go_on_after_any_step_with_other_ranks(files, lengths):
    column, _ = lengths
    dataset = ShoalDataset(files)
    for taken in (0, 1, 5, 1000):
        seen = collections.Counter()
        samplers = [ShoalBatchSampler(dataset, 9, r, 2, sort_by=column, group=2, remainder="keep") for r in range(2)]
        for s in samplers:
            s.set_epoch(4)
            for _, batch in zip(range(taken), s):
                seen.update(batch)
        state = samplers[0].state_dict(taken)
        for r in range(3):
            s = ShoalBatchSampler(dataset, 9, r, 3, sort_by=column, group=2, remainder="keep")
            s.load_state_dict(state)
            if taken == 1000:
                assert s.epoch == 5
                continue
            seen.update(i for batch in s for i in batch)
        assert seen == collections.Counter(range(600))


def test_a_loader_with_living_workers_gets_batches_by_length_anew_each_epoch(files, lengths):
    column, values = lengths
    dataset = ShoalDataset(files, transform=lambda data: int(data[:6]))
    loader = DataLoader(dataset, batch_sampler=ShoalBatchSampler(dataset, sort_by=column, max_tokens=3000),
                        num_workers=2, persistent_workers=True)
    epochs = [[batch.tolist() for batch in loader] for _ in range(3)]
    for batches in epochs:
        assert sorted(i for batch in batches for i in batch) == list(range(600))
        assert all(max(values[batch]) * len(batch) <= 3000 for batch in batches)
    assert epochs[0] != epochs[1] != epochs[2]


def test_batches_leave_out_what_was_not_kept(files, lengths, keep, tmp_path):
    column = lengths[0].sort(tmp_path / "kept.col", keep=keep[0])
    batches = all_batches(files, column, 2, 0, batch_size=8)
    assert sorted(i for one in batches for b in one for i in b) == numpy.flatnonzero(keep[1]).tolist()


@pytest.mark.parametrize("options, words", [
    ({"sort_by": "l.col", "keep": "k.col"}, "combined with keep"), ({"max_tokens": 5}, "sort_by"), ({"bucket": 5}, "sort_by"),
    ({"sort_by": "l.col", "max_tokens": 100}, "raise max_tokens"), ({"sort_by": "u.col"}, "not sorted"),
    ({"sort_by": "l.col", "bucket": 2, "batch_size": 4}, "larger bucket"), ({"sort_by": "l.col"}, "batch size is missing")])
def test_what_makes_no_sense_is_told_in_words(files, lengths, keep, tmp_path, options, words):
    with shoal.ColumnWriter(tmp_path / "u.col", shoal.Catalog(files), "x", "u8") as writer:
        writer.append(numpy.ones(600))
    options = {key: tmp_path / value if isinstance(value, str) else value for key, value in options.items()}
    options.setdefault("batch_size", None if "sort_by" in options and "u.col" not in str(options["sort_by"]) else 4)
    with pytest.raises(ValueError, match=words):
        ShoalBatchSampler(ShoalDataset(files), **options)


# ---- Scans ----


def number_of(data):
    return int(data[:6])


def fails_at_77(data):
    if data[:6] == b"000077":
        raise KeyError("no such thing")
    return 1


def test_a_scan_makes_a_sorted_column_beside_the_catalog(files):
    column = shoal.scan(ShoalDataset(files), len, "length", progress=False)
    try:
        assert column.path == files + ".length.col" and column.is_sorted
        assert column[:].tolist() == [len(content(i)) for i in range(600)]
        sampler = ShoalBatchSampler(ShoalDataset(files), 8, sort_by="length")
        assert sum(map(len, sampler)) == 600
        assert [n for n in os.listdir(os.path.dirname(files)) if "part" in n] == []
    finally:
        os.unlink(column.path)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_scan_with_workers_gives_the_same(files, tmp_path, context):
    column = shoal.scan(shoal.Catalog(files), number_of, "n", path=tmp_path / "n", workers=2, context=context,
                        progress=False)
    assert column[:].tolist() == list(range(600))


def test_a_scan_that_raises_names_the_sample_and_leaves_nothing(files, tmp_path):
    for workers in (0, 2):
        with pytest.raises(shoal.TransformError, match="sample 77, .*f000077.bin.*no such thing"):
            shoal.scan(ShoalDataset(files), fails_at_77, path=tmp_path / "x", workers=workers, progress=False)
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="samples 256 to 511.*does not fit"):
        shoal.scan(ShoalDataset(files), number_of, path=tmp_path / "x", type="u8", progress=False)
    assert os.listdir(tmp_path) == []


def test_a_scan_tells_how_far_it_is(files, tmp_path, capsys):
    shoal.scan(ShoalDataset(files), number_of, "n", path=tmp_path / "n")
    assert "scan n: 600 of 600 samples (100 %)" in capsys.readouterr().err


def scan_in_ranks(rank, world, files, folder):
    column = shoal.scan(ShoalDataset(files), number_of, "n", path=os.path.join(folder, "n"), progress=False)
    values = column[:].tolist()
    torch.distributed.barrier()
    return values, sorted(os.listdir(folder))


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_scan_each_their_part(files, tmp_path, world):
    for values, left in run_ranks(world, scan_in_ranks, files, str(tmp_path)):
        assert values == list(range(600)) and left == ["n"]


def scan_that_fails(rank, world, files, folder):
    with pytest.raises(shoal.TransformError, match="sample 77"):
        shoal.scan(ShoalDataset(files), fails_at_77, path=os.path.join(folder, "x"), progress=False)
    return os.path.exists(os.path.join(folder, "x"))


def test_a_scan_that_raises_on_one_rank_raises_on_all(files, tmp_path):
    assert run_ranks(2, scan_that_fails, files, str(tmp_path)) == [False, False]


def test_a_scan_goes_on_with_the_parts_that_were_finished(files, tmp_path):
    def part(rank):
        try:
            return shoal.scan(ShoalDataset(files), number_of, "n", path=tmp_path / "n", rank=rank, world_size=2,
                              progress=False, timeout=0)
        except FileNotFoundError:
            return None

    assert part(1) is None and len(os.listdir(tmp_path)) == 1
    before = os.stat(tmp_path / "n.part-1-of-2").st_ino
    assert part(1) is None and os.stat(tmp_path / "n.part-1-of-2").st_ino == before
    assert part(0)[:].tolist() == list(range(600))
    assert os.listdir(tmp_path) == ["n"]


def dies_at_77(data):
    if data[:6] == b"000077":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def test_a_scan_whose_worker_is_killed_says_so_and_leaves_nothing(files, tmp_path):
    with pytest.raises(shoal.TransformError, match="a worker of the scan died"):
        shoal.scan(shoal.Catalog(files), dies_at_77, path=tmp_path / "x", workers=2, progress=False)
    assert os.listdir(tmp_path) == []


def in_process(function):
    """The pid of a child that exits 0 when the function gives something true."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = function()
        finally:
            os._exit(0 if good else 1)
    return child


def wait_until_it_sleeps(child):
    """Until a child process waits: in several looks in a row, because some waits are short."""
    end, asleep = time.monotonic() + 60, 0
    while asleep < 5:
        with open("/proc/%d/stat" % child) as file:
            asleep = asleep + 1 if file.read().rpartition(")")[2].split()[0] in "SZ" else 0
        assert time.monotonic() < end, "it never does"
        time.sleep(0.005)


def scan_as(files, folder, rank, world, fn, timeout=120):
    return shoal.scan(ShoalDataset(files), fn, "n", path=folder / "n", rank=rank, world_size=world, progress=False,
                      timeout=timeout)


def test_a_rank_that_comes_late_hears_of_one_that_failed_before(files, tmp_path):
    def hears(rank, first):
        while first and not os.path.exists(tmp_path / first):
            time.sleep(0.01)
        with pytest.raises(shoal.TransformError, match="rank 1: scan failed on sample 200"):
            scan_as(files, tmp_path, rank, 3, number_of)
        return True

    children = [in_process(lambda rank=rank, first=first: hears(rank, first)) for rank, first in ((0, None), (2, "n.meet-1"))]
    with pytest.raises(shoal.TransformError, match="sample 200"):
        scan_as(files, tmp_path, 1, 3, lambda data: 1 / 0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert not [name for name in os.listdir(tmp_path) if "meet" in name]


def test_a_rank_that_comes_late_gets_the_column_of_parts_that_were_there(files, tmp_path):
    scan_as(files, tmp_path, 0, 1, len)
    for rank in (0, 1):
        with pytest.raises(FileNotFoundError):
            scan_as(files, tmp_path, rank, 2, number_of, timeout=0)
    assert sorted(os.listdir(tmp_path)) == ["n", "n.part-0-of-2", "n.part-1-of-2"]
    child = in_process(lambda: scan_as(files, tmp_path, 0, 2, number_of)[:].tolist() == list(range(600)))
    wait_until_it_sleeps(child)
    assert scan_as(files, tmp_path, 1, 2, number_of)[:].tolist() == list(range(600))
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(tmp_path) == ["n"]


def test_a_part_of_another_scan_is_not_put_in(files, tmp_path):
    with pytest.raises(FileNotFoundError):
        shoal.scan(ShoalDataset(files), len, "n", type="u8", path=tmp_path / "n", rank=1, world_size=2, progress=False,
                   timeout=0)

    def slowly(data):
        time.sleep(0.002)
        return number_of(data)

    child = in_process(lambda: scan_as(files, tmp_path, 1, 2, slowly)[:].tolist() == list(range(600)))
    assert scan_as(files, tmp_path, 0, 2, number_of)[:].tolist() == list(range(600))
    assert os.waitpid(child, 0)[1] == 0


def test_what_fails_when_rank_0_joins_the_parts_is_heard_by_all(files, tmp_path):
    (tmp_path / "n" / "in the way").mkdir(parents=True)

    def hears():
        with pytest.raises(shoal.TransformError, match="rank 0: .*/n"):
            scan_as(files, tmp_path, 1, 2, number_of)
        return True

    child = in_process(hears)
    with pytest.raises(OSError):
        scan_as(files, tmp_path, 0, 2, number_of)
    assert os.waitpid(child, 0)[1] == 0


def test_ranks_that_do_not_come_are_named(files, tmp_path):
    for rank, missing in ((0, 1), (1, 0)):
        with pytest.raises(FileNotFoundError, match="waited 0.3 s for rank %d at" % missing):
            scan_as(files, tmp_path, rank, 3, number_of, timeout=0.3)
    assert os.listdir(tmp_path) == []


def test_what_an_earlier_meeting_left_is_not_believed(files, tmp_path):
    """Words of ranks that were killed: of one that waited, one that had answered, and rank 0's call."""
    def leave():
        for name, text in (("meet-0", "aa"), ("meet-1", "bb aa"), ("meet-1.answer", "bb aa"), ("meet-2", "cc"),
                           ("meet-2.answer", "cc aa")):
            (tmp_path / ("n." + name)).write_text(text)

    for rank in range(3):
        leave()
        with pytest.raises(FileNotFoundError, match="is it still running"):
            scan_as(files, tmp_path, rank, 3, number_of, timeout=0.3)
    for first in range(3):
        leave()
        children = {}
        for rank in sorted(range(3), key=lambda rank: rank != first):
            children[rank] = in_process(lambda: scan_as(files, tmp_path, rank, 3, number_of)[:].tolist() == list(range(600)))
            wait_until_it_sleeps(children[rank])
        assert [os.waitpid(child, 0)[1] for child in children.values()] == [0, 0, 0]
        assert os.listdir(tmp_path) == ["n"]


def test_ranks_that_come_again_at_once_meet_again(files, tmp_path):
    """Rank 1 has left and come again before rank 0 looks whether it has left."""
    from shoal._rendezvous import meet
    path = str(tmp_path / "n")

    def often(rank):
        for _ in range(6):
            meet(path, rank, 3, 120)
        return True

    children = [in_process(lambda rank=rank: often(rank)) for rank in (1, 2)]
    often(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert os.listdir(tmp_path) == []


def test_a_rank_without_a_group_does_not_take_an_older_column_for_the_new_one(files, tmp_path):
    def scan(rank, world, fn, timeout):
        return shoal.scan(ShoalDataset(files), fn, "n", path=tmp_path / "n", rank=rank, world_size=world,
                          progress=False, timeout=timeout)

    scan(0, 1, len, 0)
    (tmp_path / "n.failed").write_text("of long ago")
    with pytest.raises(FileNotFoundError, match="still running"):
        scan(1, 2, number_of, 0.5)
    child = os.fork()
    if child == 0:
        values = scan(1, 2, number_of, 120)
        os._exit(0 if values.is_sorted and values[:].tolist() == list(range(600)) else 1)
    wait_until_it_sleeps(child)
    assert scan(0, 2, number_of, 120)[:].tolist() == list(range(600))
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(tmp_path) == ["n"]


def test_a_bucket_of_more_than_all_samples_is_one_bucket(lengths):
    for bucket in (2**64 - 1, 2**64 - 8, 600):
        assert len(shoal.Batches(lengths[0], batch_size=8, bucket=bucket)) == 75


def test_a_column_is_not_given_up_while_another_thread_writes_it(pattern, tmp_path):
    nr = 4000000
    writer = shoal.ColumnWriter(tmp_path / "x", shoal.Catalog(pattern(nr)), "x", "u64")
    values, refused = numpy.zeros(nr, dtype=numpy.uint64), []
    thread = threading.Thread(target=lambda: writer._writer.append(values, nr))
    thread.start()
    while thread.is_alive():
        try:
            writer._writer.abort()
            break
        except RuntimeError as e:
            refused.append(str(e))
    thread.join()
    assert refused and "another thread" in refused[0]


def test_a_number_that_gives_the_column_up_is_met_with_words(files, tmp_path):
    class Evil:
        def __index__(self):
            writer._writer.abort()
            return 1

    writer = shoal.ColumnWriter(tmp_path / "x", shoal.Catalog(files), "x", "u64")
    with pytest.raises(ValueError, match="aborted"):
        writer._writer.append(numpy.zeros(1, dtype=numpy.uint64), Evil())
