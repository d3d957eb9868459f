"""The ranks of an epoch read every sample once, in an order that seed and epoch choose."""

import itertools
import json

import pytest
import shapes
from conftest import lines

MODES = ["sequential", "global", "files", "window", "local"]
REMAINDERS = ["drop", "pad", "keep"]


def catalog(shoal, nr_files, samples_per_file=1):
    return shoal.pattern("f{:07d}", nr_files, "--samples-per-file", samples_per_file)


def order(shoal, path, mode="global", remainder="keep", ranks=1, rank=0, batch=1, epoch=0, seed=0, more=()):
    return shoal.ids("order", path, "--mode", mode, "--remainder", remainder, "--ranks", ranks, "--rank", rank,
                     "--batch", batch, "--epoch", epoch, "--seed", seed, *more)


def all_ranks(shoal, path, ranks, **options):
    return [order(shoal, path, ranks=ranks, rank=rank, **options) for rank in range(ranks)]


def sample(ranks):
    """The ranks to look at where there are too many to run them all."""
    return sorted({0, 1, ranks // 2, ranks - 1} & set(range(ranks)))


# ------------------------------------------------------------------------------------------------------ whole epochs


def slices(epoch, ranks, rank, batch, remainder):
    """What a rank reads of an epoch's positions: docs/design/order.md section 3, for all modes but local."""
    step = ranks * batch
    steps = len(epoch) // step if remainder == "drop" else -(-len(epoch) // step)
    mine = [(t * ranks + rank) * batch + j for t in range(steps) for j in range(batch)]
    if remainder == "pad":
        return [epoch[p % len(epoch)] for p in mine]
    return [epoch[p] for p in mine if p < len(epoch)]


def local_slice(nr, ranks, rank, batch, remainder):
    """How many ids a rank reads in local mode, and out of which."""
    share = range(rank * nr // ranks, (rank + 1) * nr // ranks)
    smallest, largest = nr // ranks, -(-nr // ranks)
    if remainder == "drop":
        return smallest // batch * batch, share
    if remainder == "pad":
        return -(-largest // batch) * batch, share
    return len(share), share


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "local"])
@pytest.mark.parametrize("nr", [1, 2, 3, 7, 1000])
def test_ranks_take_batches_of_the_epoch_in_turn(shoal, nr, mode):
    path = catalog(shoal, nr)
    epoch = order(shoal, path, mode)
    assert sorted(epoch) == list(range(nr))
    for number, (ranks, batch) in enumerate(itertools.product([1, 2, 3, 24, 204], [1, 4])):
        for rank in sample(ranks)[:2 if nr < 1000 else 4]:
            # Each of the remainders with each of the sizes would be many runs that differ in nothing else.
            remainder = REMAINDERS[(number + rank) % 3]
            assert order(shoal, path, mode, remainder, ranks, rank, batch) == \
                slices(epoch, ranks, rank, batch, remainder), (ranks, rank, batch, remainder)


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("nr", [1, 2, 3, 7, 1000])
def test_the_union_over_few_ranks_is_the_dataset(shoal, nr, mode, remainder):
    path = catalog(shoal, nr)
    for ranks, batch in ((1, 3), (2, 1), (3, 2)):
        if mode == "local" and remainder == "pad" and nr < ranks:
            continue  # refused: see below
        check_union(nr, ranks, batch, mode, remainder,
                    all_ranks(shoal, path, ranks, batch=batch, mode=mode, remainder=remainder))


def test_without_remainder_every_sample_is_read_once(shoal):
    """The default keeps the last step, in order as in read, manifest and Python: 100 is no multiple of 24 * 4."""
    path = shoal.pattern("f{}", 100)
    ids = [shoal.ids("order", path, "--ranks", 24, "--rank", rank, "--batch", 4, "--epoch", 1) for rank in range(24)]
    assert sorted(sum(ids, [])) == list(range(100))


@pytest.mark.parametrize("nr, ranks, batch, mode, remainder", [
    (1000, 24, 1, "global", "keep"),
    (1000, 24, 5, "window", "drop"),
    (1000, 24, 7, "local", "pad"),
    (7, 24, 1, "files", "keep"),
    (7, 24, 2, "local", "keep"),
    (1000, 204, 1, "global", "drop"),
    (7, 204, 4, "local", "keep"),
])
def test_the_union_over_many_ranks_is_the_dataset(shoal, nr, ranks, batch, mode, remainder):
    path = catalog(shoal, nr)
    check_union(nr, ranks, batch, mode, remainder,
                all_ranks(shoal, path, ranks, batch=batch, mode=mode, remainder=remainder))


def check_union(nr, ranks, batch, mode, remainder, lists):
    """Every id once; less the dropped remainder; padded ones twice, and as often for all ranks."""
    union = sorted(itertools.chain.from_iterable(lists))
    lengths = {len(ids) for ids in lists}
    step = ranks * batch
    if mode == "local":
        for rank, ids in enumerate(lists):
            length, share = local_slice(nr, ranks, rank, batch, remainder)
            assert len(ids) == length
            assert set(ids) <= set(share)
    if remainder == "keep":
        assert union == list(range(nr))
        assert max(lengths) - min(lengths) <= batch
        return
    assert len(lengths) == 1, "all ranks read as many"
    if remainder == "drop":
        assert len(set(union)) == len(union)
        assert set(union) <= set(range(nr))
        if mode != "local":
            assert len(union) == nr // step * step
    else:
        assert set(union) == set(range(nr))
        if mode != "local":
            assert len(union) == -(-nr // step) * step
            times = {union.count(i) for i in set(union)}
            assert max(times) - min(times) <= 1


@pytest.mark.parametrize("ranks", [3, 24])
def test_the_ranks_of_millions_of_files_read_each_once(shoal, ranks):
    nr, batch = 7_646_857, 32
    path = catalog(shoal, nr)
    seen = bytearray(nr)
    total = 0
    for rank in range(ranks):
        told = shoal.good("order", path, "--ranks", ranks, "--rank", rank, "--batch", batch, "--seed", 7)
        ids = list(map(int, told.split()))
        total += len(ids)
        for i in ids:
            seen[i] = 1
    assert total == sum(seen) == nr


# ------------------------------------------------------------------------------------------------------ seeds and epochs


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "sequential"])
def test_epochs_and_seeds_differ(shoal, mode):
    path = catalog(shoal, 1000)
    orders = [tuple(order(shoal, path, mode, seed=seed, epoch=epoch))
              for seed, epoch in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2**64 - 1, 0), (0, 2**64 - 1))]
    assert len(set(orders)) == len(orders)
    assert all(sorted(ids) == list(range(1000)) for ids in orders)
    assert order(shoal, path, mode, seed=1, epoch=1) == list(orders[4]), "and each can be had again"


def test_sequential_order_is_that_of_the_catalog(shoal):
    path = catalog(shoal, 100)
    assert order(shoal, path, "sequential", epoch=3, seed=4) == list(range(100))


@pytest.mark.parametrize("mode", MODES)
def test_a_frozen_order_is_that_of_epoch_0_in_every_epoch(shoal, mode):
    path = catalog(shoal, 1000)
    first = order(shoal, path, mode, seed=5)
    assert order(shoal, path, mode, seed=5, more=["--frozen"]) == first
    assert order(shoal, path, mode, seed=5, epoch=9, more=["--frozen"]) == first


def test_the_order_does_not_depend_on_what_the_names_are(shoal, tmp_path):
    ids = order(shoal, catalog(shoal, 500), seed=3)
    assert order(shoal, shoal.index(shapes.uuids(500), to=tmp_path / "c"), seed=3) == ids


def test_by_default_there_is_one_rank_and_all_samples_are_shuffled(shoal):
    path = catalog(shoal, 300)
    assert shoal.ids("order", path) == order(shoal, path, "global", "drop")


# ------------------------------------------------------------------------------------------------ files and windows


def test_in_mode_files_the_samples_of_a_file_stay_together(shoal):
    ids = order(shoal, catalog(shoal, 50, 8), "files", seed=2)
    runs = [ids[i:i + 8] for i in range(0, 400, 8)]
    assert all(run == list(range(run[0], run[0] + 8)) and run[0] % 8 == 0 for run in runs)
    assert [run[0] for run in runs] != sorted(run[0] for run in runs)


@pytest.mark.parametrize("window", [1, 2, 16, 50, 1000])
def test_in_mode_window_samples_mix_within_a_window_of_files(shoal, window):
    path = catalog(shoal, 50, 8)
    files = order(shoal, path, "files", seed=2)
    mixed = order(shoal, path, "window", seed=2, more=["--window", window])
    size = 8 * window
    for start in range(0, 400, size):
        assert sorted(mixed[start:start + size]) == sorted(files[start:start + size])
    assert mixed != files


def test_the_default_window_is_16_files(shoal):
    path = catalog(shoal, 50, 8)
    assert order(shoal, path, "window") == order(shoal, path, "window", more=["--window", 16])


# --------------------------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "local"])
@pytest.mark.parametrize("first, then", [((2, 5), (3, 4)), ((3, 7), (1, 1)), ((1, 64), (24, 2)), ((24, 1), (2, 100))])
def test_a_run_resumed_with_other_ranks_goes_on_without_gap_or_repeat(shoal, mode, first, then):
    nr, steps = 1000, 4
    path = catalog(shoal, nr)
    epoch = order(shoal, path, mode, epoch=2, seed=9)
    ranks, batch = first
    read = steps * ranks * batch
    before = []
    for rank in range(ranks):
        before += order(shoal, path, mode, ranks=ranks, rank=rank, batch=batch, epoch=2, seed=9,
                        more=["--limit", steps * batch])
    assert sorted(before) == sorted(epoch[:read])
    ranks, batch = then
    after = []
    for rank in range(ranks):
        ids = order(shoal, path, mode, ranks=ranks, rank=rank, batch=batch, epoch=2, seed=9, more=["--consumed", read])
        assert ids == slices(epoch[read:], ranks, rank, batch, "keep")
        after += ids
    assert sorted(before + after) == list(range(nr))


def test_in_mode_local_the_batch_may_change_on_the_way(shoal):
    path = catalog(shoal, 1000)
    for rank in range(3):
        whole = order(shoal, path, "local", ranks=3, rank=rank, batch=7)
        rest = order(shoal, path, "local", ranks=3, rank=rank, batch=11, more=["--consumed", 3 * 140])
        assert whole[:140] + rest == whole


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize("consumed", [0, 1, 99, 100])
def test_consumed_positions_are_not_read_again(shoal, remainder, consumed):
    path = catalog(shoal, 100)
    epoch = order(shoal, path)
    ids = order(shoal, path, remainder=remainder, ranks=3, batch=4, more=["--consumed", consumed])
    if remainder == "pad":  # wraps round to the epoch's first positions, not to the first after consumed
        steps = -(-(100 - consumed) // 12)
        assert ids == [epoch[(consumed + t * 12 + j) % 100] for t in range(steps) for j in range(4)]
    else:
        assert ids == slices(epoch[consumed:], 3, 0, 4, remainder)


# ------------------------------------------------------------------------------------------------- parts of an epoch


@pytest.mark.parametrize("mode", MODES)
def test_from_step_starts_in_the_middle(shoal, mode):
    path = catalog(shoal, 100)
    whole = order(shoal, path, mode, ranks=2, rank=1, batch=8)
    for step in (0, 1, 5, 6, 7):
        assert order(shoal, path, mode, ranks=2, rank=1, batch=8, more=["--from-step", step]) == whole[8 * step:]


def test_a_step_past_the_end_is_refused(shoal, fails):
    path = catalog(shoal, 100)
    run = ["order", path, "--ranks", 2, "--batch", 8, "--remainder", "drop"]
    assert shoal.good(*run, "--from-step", 6) == b""
    fails(shoal(*run, "--from-step", 7), 1, "there is no step 7: the epoch has 6")


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 100, 2**64 - 1])
def test_a_limit_ends_what_is_printed(shoal, limit):
    path = catalog(shoal, 50)
    assert order(shoal, path, batch=8, more=["--limit", limit]) == order(shoal, path, batch=8)[:limit]


def test_names_are_those_of_the_ids(shoal):
    names = sorted(shapes.words(300))
    names = sorted(set(names))
    path = shoal.index(names)
    ids = shoal.ids("order", path, "--seed", 4)
    assert lines(shoal.good("order", path, "--seed", 4, "--names")) == [names[i] for i in ids]
    assert lines(shoal.good("order", path, "--seed", 4, "--names", "-0"), b"\0") == [names[i] for i in ids]


def test_names_have_the_sample_after_a_tab_where_files_hold_several(shoal):
    path = catalog(shoal, 20, 3)
    want = [b"f%07d\t%d" % divmod(i, 3) for i in order(shoal, path)]
    assert lines(shoal.good("order", path, "--names")) == want


def test_names_are_right_where_files_hold_different_numbers_of_samples(shoal):
    samples = [0, 3, 1, 0, 0, 500, 2, 1, 1, 0]
    names = [b"f%d" % i for i in range(10)]
    path = shoal.index(names, sizes=[1] * 10, samples=samples)
    flat = [b"%s\t%d" % (name, k) for name, nr in zip(names, samples) for k in range(nr)]
    ids = order(shoal, path)
    assert sorted(ids) == list(range(len(flat)))
    told = lines(shoal.good("order", path, "--names", "--remainder", "keep"))
    assert told == [flat[i] for i in ids]


def test_ids_can_end_in_nul(shoal):
    assert shoal.good("order", catalog(shoal, 3), "--mode", "sequential", "-0") == b"0\0" + b"1\0" + b"2\0"


def test_a_newline_in_a_name_is_not_printed_as_text(shoal):
    path = shoal.index([b"a\nb"])
    result = shoal("order", path, "--names")
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"name 0 contains a line end: use --null" in result.stderr
    assert shoal.good("order", path, "--names", "-0") == b"a\nb\0"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("nr, spf", [(7, 1), (1000, 1), (5000, 1), (100, 7)])
def test_position_inverts_the_order(shoal, nr, spf, mode):
    path = catalog(shoal, nr, spf)
    epoch = order(shoal, path, mode, epoch=1, seed=6, batch=3)
    for position in range(0, nr * spf, nr * spf // 7):
        assert order(shoal, path, mode, epoch=1, seed=6, batch=3, more=["--position", epoch[position]]) == [position]


def test_there_is_no_position_of_a_sample_past_the_end(shoal, fails):
    fails(shoal("order", catalog(shoal, 10), "--position", 10), 1, "there is no sample 10: it has 10")


# ------------------------------------------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("options, words", [
    (["--ranks", 0], "--ranks must be 1 or more"),
    (["--ranks", -1], "--ranks '-1' is not a whole number"),
    (["--ranks", "two"], "--ranks 'two' is not a whole number"),
    (["--ranks", ""], "--ranks '' is not a whole number"),
    (["--ranks", 2**64], "is too large"),
    (["--ranks", 3, "--rank", 3], "--rank 3 must be less than --ranks 3"),
    (["--ranks", 3, "--rank", 4], "--rank 4 must be less than --ranks 3"),
    (["--rank", 1], "--rank 1 must be less than --ranks 1"),
    (["--rank", 2**64 - 1], "must be less than --ranks 1"),
    (["--batch", 0], "--batch must be 1 to 16777216"),
    (["--batch", 16777217], "--batch must be 1 to 16777216"),
    (["--batch", "1e3"], "--batch '1e3' is not a whole number"),
    (["--mode", "random"], "--mode 'random' is not sequential, global, files, window or local"),
    (["--mode", ""], "--mode '' is not sequential"),
    (["--mode", "Global"], "--mode 'Global' is not sequential"),
    (["--remainder", "ignore"], "--remainder 'ignore' is not drop, pad or keep"),
    (["--window", 0], "--window must be 1 or more"),
    (["--seed", "x"], "--seed 'x' is not a whole number"),
    (["--epoch", "-3"], "--epoch '-3' is not a whole number"),
    (["--consumed", 11], "11 positions are consumed, but there are only 10"),
    (["--ranks", 2**40, "--batch", 2**20], "more than 2^48 samples in a step"),
    (["--mode", "local", "--ranks", 4, "--consumed", 6], "6 consumed positions cannot be divided equally among 4"),
    (["--mode", "local", "--ranks", 11, "--remainder", "pad"], "10 samples leave some of 11 ranks with nothing"),
    (["--limit"], "option '--limit' needs a value"),
    (["--bogus"], "unknown option '--bogus'"),
    (["--frozen=yes"], "option '--frozen=yes' takes no value"),
    (["-x"], "unknown option '-x'"),
    (["another"], "give one catalog"),
])
def test_numbers_that_make_no_sense_are_refused(shoal, fails, options, words):
    fails(shoal("order", catalog(shoal, 10), *options), 2, words)


def test_a_catalog_without_samples_has_no_order(shoal, fails):
    fails(shoal("order", shoal.index([])), 1, "the catalog lists no files: index a directory that has some")
    fails(shoal("order", shoal.index([b"a", b"b"], sizes=[1, 1], samples=[0, 0])), 1, "the catalog has no samples")


def test_drop_with_fewer_samples_than_a_step_prints_nothing(shoal):
    assert shoal.good("order", catalog(shoal, 7), "--ranks", 8, "--remainder", "drop") == b""


def test_by_default_the_union_over_the_ranks_is_every_sample_once(shoal):
    """As read, manifest and the Python package have it."""
    path = catalog(shoal, 1000)
    ids = [i for rank in range(24) for i in shoal.ids("order", path, "--ranks", 24, "--rank", rank, "--batch", 4)]
    assert sorted(ids) == list(range(1000))


def test_json_has_an_object_for_each_sample(shoal):
    path = catalog(shoal, 5, 2)
    facts = [json.loads(line) for line in lines(shoal.good("order", path, "--mode", "sequential", "--names", "--json"))]
    assert [(f["sample"], f["index"]) for f in facts] == [(i, i % 2) for i in range(10)]
    assert [f["name"].encode() for f in facts[::2]] == shoal.names(path)
    assert [json.loads(line) for line in lines(shoal.good("order", path, "--mode", "sequential", "--limit", 1, "--json"))] == [
        {"sample": 0}]
    assert json.loads(shoal.good("order", path, "--mode", "sequential", "--position", 3, "--json")) == {
        "sample": 3, "position": 3}
