"""What transforms are given, and samples that cannot be used."""
import functools
import os
import pickle
import shutil
import statistics
import warnings

import numpy
import pytest
import torch
import torch.utils.data

import shoal
from conftest import make_files
from helpers import as_it_is, number
from shoal.torch import (DataLoader, ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler, TooManyErrors, sample_rng,
                         skip_none)

STARTS = [(None, 0), ("fork", 2), ("spawn", 2)]


def what_it_gets(*arguments):
    return arguments[1:]


def number_id_epoch(data, sample, epoch):
    return number(data), sample, epoch


def fails_on_every_tenth(data):
    if number(data) % 10 == 3:
        raise KeyError("no such label")
    return number(data)


def drawn(data, sample, epoch):
    return sample, int(torch.randint(2**62, (), generator=sample_rng(7, epoch, sample)))


def loader_of(kind, start, dataset, **options):
    context, workers = start
    options.update(num_workers=workers, multiprocessing_context=context, persistent_workers=workers > 0)
    return kind(dataset, **{"collate_fn": as_it_is, **options})


@pytest.fixture
def damaged(files, tmp_path):
    """A catalog of 600 files of which three are gone: 5, 77 and 300."""
    shutil.copytree(os.path.join(os.path.dirname(files), "data"), tmp_path / "data")
    for i in (5, 77, 300):
        os.unlink(tmp_path / "data" / ("d%d" % (i // 100)) / ("f%06d.bin" % i))
    return shoal.Catalog(files), str(tmp_path / "data")


GONE = {5, 77, 300}


# ---- The id and the epoch ----


@pytest.mark.parametrize("options, after_data", [
    ({}, ()),
    ({"with_name": True}, ("d0/f000007.bin",)),
    ({"with_id": True}, (7, 3)),
    ({"with_name": True, "with_id": True}, ("d0/f000007.bin", 7, 3)),
])
def test_a_transform_gets_data_name_id_epoch_in_this_order(files, options, after_data):
    dataset = ShoalDataset(files, what_it_gets, **options)
    dataset.set_epoch(3)
    assert dataset[7] == dataset.__getitems__([7])[0] == after_data and dataset[-593] == after_data
    iterable = ShoalIterable(files, 600, what_it_gets, shuffle=False, **options)
    iterable.set_epoch(3)
    assert next(iter(iterable))[7] == after_data
    plain = ShoalDataset(files, **options)
    plain.set_epoch(3)
    assert (plain[7] if options else (plain[7],))[1:] == after_data


@pytest.mark.parametrize("kind", [DataLoader, torch.utils.data.DataLoader])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("batches", [True, False])
def test_the_epoch_of_the_sampler_reaches_transforms_in_workers_that_live_on(files, kind, start, batches):
    dataset = ShoalDataset(files, number_id_epoch, with_id=True)
    sampler = ShoalBatchSampler(dataset, 50, seed=2) if batches else ShoalSampler(dataset, seed=2)
    how = {"batch_sampler": sampler} if batches else {"sampler": sampler, "batch_size": 50}
    loader = loader_of(kind, start, dataset, **how)
    for epoch in (0, 1, 5):
        sampler.set_epoch(epoch)
        got = [item for batch in loader for item in batch]
        assert got == [(i, i, epoch) for i in shoal.Order(files, seed=2, epoch=epoch)]


def test_two_loaders_of_one_dataset_have_their_own_epochs(files):
    dataset = ShoalDataset(files, number_id_epoch, with_id=True)
    samplers = [ShoalSampler(dataset, seed=k) for k in (0, 1)]
    loaders = [loader_of(torch.utils.data.DataLoader, ("fork", 1), dataset, sampler=s, batch_size=8) for s in samplers]
    for sampler, epoch in zip(samplers, (3, 9)):
        sampler.set_epoch(epoch)
    for ours, theirs in zip(*loaders):
        assert {epoch for _, _, epoch in ours} == {3} and {epoch for _, _, epoch in theirs} == {9}


def test_an_epoch_that_nobody_has_said_is_no_guess(files):
    dataset = ShoalDataset(files, number_id_epoch, with_id=True)
    for use in (lambda: dataset[0], lambda: next(iter(torch.utils.data.DataLoader(dataset, sampler=ShoalSampler(files))))):
        with pytest.raises(ValueError, match=r"with_id=True.*ShoalBatchSampler\(dataset, ...\), or call dataset.set_epoch"):
            use()


@pytest.mark.parametrize("start", STARTS)
def test_an_epoch_that_is_said_to_the_dataset_reaches_workers_that_live_on(files, start):
    dataset = ShoalDataset(files, number_id_epoch, with_id=True)
    loader = loader_of(torch.utils.data.DataLoader, start, dataset, batch_size=100)
    for epoch in (4, 2):
        dataset.set_epoch(epoch)
        assert [item for batch in loader for item in batch] == [(i, i, epoch) for i in range(600)]


@pytest.mark.parametrize("start", STARTS)
def test_the_epoch_of_an_iterable_reaches_its_transforms(files, start):
    dataset = ShoalIterable(files, 50, number_id_epoch, with_id=True, seed=2)
    loader = loader_of(DataLoader, start, dataset, batch_size=None)
    for epoch in (0, 1, 5):
        dataset.set_epoch(epoch)
        got = [item for batch in loader for item in batch]
        assert got == [(i, i, epoch) for i in shoal.Order(files, seed=2, epoch=epoch)]


def test_random_numbers_by_epoch_and_sample_are_the_same_everywhere(files):
    def epoch_of(dataset, workers, epoch):
        kind = {"batch_size": None}
        if isinstance(dataset, ShoalDataset):
            kind = {"batch_sampler": ShoalBatchSampler(dataset, 32)}
            kind["batch_sampler"].set_epoch(epoch)
        else:
            dataset.set_epoch(epoch)
        loader = loader_of(torch.utils.data.DataLoader, ("fork" if workers else None, workers), dataset, **kind)
        return dict(item for batch in loader for item in batch)

    mapped, iterable = ShoalDataset(files, drawn, with_id=True), ShoalIterable(files, 48, drawn, with_id=True)
    first = epoch_of(mapped, 0, 1)
    assert first == epoch_of(mapped, 3, 1) == epoch_of(iterable, 0, 1) == epoch_of(iterable, 2, 1)
    assert len(set(first.values()) | set(epoch_of(mapped, 0, 2).values())) == 1200


def test_seeds_of_neighbours_have_nothing_in_common():
    assert shoal.sample_seed(7, 3, 5) == 0x0ef6dec60a1c0f4f
    seeds = [shoal.sample_seed(s, e, i) for s in range(4) for e in range(4) for i in range(64)]
    assert len(set(seeds)) == 1024 and max(seeds) >= 2**63
    flips = [bin(a ^ b).count("1") for a, b in zip(seeds, seeds[1:])]
    assert 31 < statistics.mean(flips) < 33
    assert shoal.sample_seed(1, 2, 3) != shoal.sample_seed(3, 2, 1) and numpy.random.default_rng(seeds[0])
    for wrong in ((-1, 0, 0), (0, 2**64, 0)):
        with pytest.raises(ValueError):
            shoal.sample_seed(*wrong)


# ---- What cannot be used ----


@pytest.mark.parametrize("start", STARTS)
def test_samples_that_cannot_be_read_or_transformed_are_left_out_and_counted_once(damaged, start):
    catalog, store = damaged
    dataset = ShoalDataset(catalog, fails_on_every_tenth, data=store, keep_going=True)
    left = [i for i in range(600) if i not in GONE and i % 10 != 3]
    sampler = ShoalBatchSampler(dataset, 50)
    loader = loader_of(DataLoader, start, dataset, batch_sampler=sampler, collate_fn=functools.partial(skip_none, collate=list))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            batches = list(loader)
            assert sorted(i for batch in batches for i in batch) == left and len(batches) == 12
    assert dataset.errors == 63 and len(dataset.first_errors) == 16 and set(dataset.first_errors) <= set(catalog)


def test_one_sample_is_none_a_batch_is_shorter_and_the_first_is_warned_of(damaged):
    catalog, store = damaged
    dataset = ShoalDataset(catalog, number, data=store, keep_going=True)
    with pytest.warns(RuntimeWarning, match="skipped.*sample 77"):
        assert dataset[77] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dataset.__getitems__([76, 77, 78, 5]) == [76, 78] and dataset[76] == 76
    assert (dataset.errors, dataset.first_errors) == (2, ["d0/f000077.bin", "d0/f000005.bin"])
    assert skip_none([None, torch.tensor(1), None, torch.tensor(2)]).tolist() == [1, 2] and skip_none([None]) is None
    with pytest.raises(IndexError):
        dataset[600]
    with pytest.raises(FileNotFoundError):
        ShoalDataset(catalog, number, data=store)[77]


@pytest.mark.parametrize("iterable", [False, True])
@pytest.mark.parametrize("start", STARTS)
def test_too_many_end_it_with_their_number_and_names(damaged, iterable, start):
    catalog, store = damaged
    options = {"data": store, "keep_going": True, "max_errors": 20}
    if iterable:
        dataset = ShoalIterable(catalog, 50, fails_on_every_tenth, **options)
        loader = loader_of(DataLoader, start, dataset, batch_size=None)
    else:
        dataset = ShoalDataset(catalog, fails_on_every_tenth, **options)
        loader = loader_of(DataLoader, start, dataset, batch_sampler=ShoalBatchSampler(dataset, 50),
                           collate_fn=functools.partial(skip_none, collate=list))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TooManyErrors, match=r"2\d samples were skipped, but max_errors allows 20. The first: \d+ 'd"):
            list(loader)
    assert dataset.errors > 20


@pytest.mark.parametrize("start", STARTS)
def test_the_audit_of_an_iterable_counts_what_was_left_out(damaged, start):
    catalog, store = damaged
    dataset = ShoalIterable(catalog, 50, fails_on_every_tenth, data=store, keep_going=True, max_errors=None)
    loader = loader_of(DataLoader, start, dataset, batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert sum(len(batch) for batch in loader) == 537
            audit = dataset.audit()
            assert (audit.samples, audit.errors, audit.expected_samples) == (537, 63, 600) and not audit.exactly_once
    assert dataset.errors == 63


def test_rows_of_samples_that_cannot_be_read_are_not_in_a_stack(damaged):
    catalog, store = damaged
    dataset = ShoalIterable(catalog, 100, shuffle=False, data=store, keep_going=True, output="stack")
    with pytest.warns(RuntimeWarning, match="sample 5, 'd0/f000005.bin'"):
        rows, lengths = next(iter(dataset))
    assert [number(row.numpy()) for row in rows] == [i for i in range(100) if i not in GONE] and len(lengths) == 98
    assert lengths.min() >= 6


def test_what_is_not_a_samples_fault_is_not_left_out(damaged, tmp_path):
    catalog, store = damaged
    copy = tmp_path / "c.cat"
    copy.write_bytes(open(catalog.path, "rb").read())
    dataset = pickle.loads(pickle.dumps(ShoalDataset(str(copy), number, data=store, keep_going=True)))
    make_files(tmp_path / "data", 10)
    shoal.index(tmp_path / "data", copy)
    with pytest.raises(shoal.StaleError):
        dataset[0]
    for wrong in ({"keep_going": True, "max_errors": 2**64}, {"keep_going": True, "max_errors": -1}):
        with pytest.raises(ValueError):
            ShoalDataset(catalog, **wrong)
        with pytest.raises(ValueError):
            ShoalIterable(catalog, 5, **wrong)


def test_a_pickle_for_another_job_counts_for_itself_and_stays_small(damaged):
    catalog, store = damaged
    dataset = ShoalDataset(catalog, number, data=store, keep_going=True, with_id=True)
    dataset.set_epoch(2)
    assert len(pickle.dumps(dataset)) < 1000
    with pytest.warns(RuntimeWarning):
        assert dataset[5] is None
    other = pickle.loads(pickle.dumps(dataset))
    assert (dataset.errors, other.errors) == (1, 0)


def test_a_slice_is_told_what_to_use_instead(files):
    for dataset in (ShoalDataset(files), ShoalDataset(files, keep_going=True)):
        with pytest.raises(TypeError, match="not a slice: .*Subset"):
            dataset[0:4]


def test_a_scan_takes_no_dataset_that_leaves_samples_out(damaged):
    catalog, store = damaged
    with pytest.raises(shoal.BadValueError, match="number for each sample"):
        shoal.scan(ShoalDataset(catalog, number, data=store, keep_going=True), int, "number")
    assert not os.path.exists(catalog.path + ".number.col")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_many_samples_as_max_errors_says_may_be_left_out_and_not_one_more(files):
    tenths = [3, 13, 23]
    dataset = ShoalDataset(files, fails_on_every_tenth, keep_going=True, max_errors=2)
    assert [dataset[i] for i in tenths[:2]] == [None, None] and dataset.errors == 2
    assert dataset[tenths[0]] is None and dataset.errors == 2  # each counts once
    with pytest.raises(TooManyErrors, match="3 samples were skipped, but max_errors allows 2"):
        dataset[tenths[2]]
