"""What shoal.dlio.Callback puts in place of DLIO's lists, and how it refuses a DLIO that it does not know. Without DLIO."""
import collections
import pickle
import types

import pytest

import shoal
from shoal.dlio import callback, pieces
from shoal.dlio.sequences import Entries, Files, Sampler, Samples

NR = 1000


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(callback, "install_in_worker", lambda: None)
    catalog = shoal.index(("other/x.jpeg", "z.txt", *("train/%04d.jpeg" % i for i in range(NR + 5))), tmp_path / "a.cat", root="/d",
                          names_only=True)
    return Files(catalog, "/mnt/train/", len("train/"), catalog.lower_bound("train/"), NR, seed=7, shuffled=True)


def paths(numbers):
    return ["/mnt/train/%04d.jpeg" % i for i in numbers]


def test_files_are_those_of_the_catalog_in_the_order_of_the_epoch(files):
    assert list(files) == paths(range(NR))
    for epoch in (1, 2):
        order = list(shoal.Order(NR, seed=7, epoch=epoch))
        of_epoch = files.of_epoch(epoch)
        assert list(of_epoch) == paths(order) and of_epoch[3] == paths(order)[3] and of_epoch[-1] == paths(order)[-1]
        assert len(of_epoch) == NR and list(of_epoch.numbers()) == order
    assert list(files.of_epoch(1)) != list(files.of_epoch(2))
    with pytest.raises(IndexError):
        files[NR]


def test_a_slice_of_files_stays_one_in_other_epochs(files):
    part = files.of_epoch(1)[100:200][3::4]
    assert list(part) == list(files.of_epoch(1))[100:200][3::4]
    assert list(part.of_epoch(2)) == list(files.of_epoch(2))[100:200][3::4]
    assert part.of_epoch(1) is part and len(part) == 25


def test_an_order_may_stay_or_be_that_of_the_names(files):
    frozen = Files(files.catalog, "/mnt/train/", 6, 1, NR, seed=7, shuffled=True, frozen=True)
    assert list(frozen.of_epoch(1)) == list(frozen.of_epoch(2)) != list(frozen)
    in_order = Files(files.catalog, "/mnt/train/", 6, 1, NR, seed=7, shuffled=False)
    assert list(in_order.of_epoch(5)) == paths(range(NR))


def test_a_pickle_is_a_path_and_numbers(files):
    list(files.of_epoch(3))
    kept = pickle.dumps((files.of_epoch(3), Samples(files, 4)))
    assert len(kept) < 800
    again, samples = pickle.loads(kept)
    assert list(again) == list(files.of_epoch(3)) and samples[4 * 17 + 3] == (paths([17])[0], 3)


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("pre_sharded", [False, True])
def test_the_ranks_read_each_sample_once(files, per_file, pre_sharded):
    nr_ranks, epoch, seen = 4, 2, []
    for rank in range(nr_ranks):
        args = types.SimpleNamespace(my_rank=rank, comm_size=nr_ranks, num_samples_per_file=per_file, files_pre_sharded=pre_sharded)
        mine = callback._of_rank(args, files.of_epoch(epoch))
        sampler, samples = Sampler(lambda mine=mine: mine, per_file, callback._share(args, mine)), Samples(mine, per_file)
        assert len(sampler) == NR * per_file // nr_ranks == len(list(sampler))
        seen += [samples[i] for i in sampler]
        if pre_sharded:  # what an iterable dataset reads are the same files
            assert collections.Counter(path for path, _ in (samples[i] for i in sampler)) == {path: per_file for path in mine}
    assert sorted(seen) == [(path, place) for path in paths(range(NR)) for place in range(per_file)]
    assert [path for path, _ in seen][::per_file] == list(files.of_epoch(epoch))  # the samples of a file follow each other


def test_a_sampler_follows_the_epoch(files):
    now = [files.of_epoch(1)]
    sampler = Sampler(lambda: now[0], 1, range(NR))
    first = list(sampler)
    now[0] = files.of_epoch(2)
    assert list(sampler) != first and sorted(sampler) == sorted(first)


def test_ranks_that_do_not_divide_the_files_have_equal_shares(files):
    for pre_sharded in (False, True):
        shares = []
        for rank in range(3):
            args = types.SimpleNamespace(my_rank=rank, comm_size=3, num_samples_per_file=1, files_pre_sharded=pre_sharded)
            shares.append(callback._share(args, callback._of_rank(args, files)))
        assert [len(share) for share in shares] == [333] * 3 and len({i for share in shares for i in share}) == 999


def test_entries_are_what_iterable_readers_take(files):
    entries = Entries(files[:3], 2)
    expected = [(i, path, i % 2) for i, path in enumerate(path for path in paths(range(3)) for _ in range(2))]
    assert list(entries) == expected == [entries[i] for i in range(len(entries))]


@pytest.mark.parametrize("nr, batch, per_file", [(10, 4, 1), (NR, 24, 1), (100, 6, 4), (NR, 7, 5), (10, 20000, 1)])
def test_an_iterable_reader_gets_blocks_of_whole_batches(files, monkeypatch, nr, batch, per_file):
    """It drops what does not fill a batch at the end of a block, which must not happen before the last."""
    pytest.importorskip("torch")
    read = []

    class Reader:
        thread_index, file_map, _file_list = 0, {}, files[:nr]

        def next(self):
            entries = list(self.file_map[0])
            read.extend(path for _, path, place in entries if place == 0)
            yield from range(len(entries) // batch)

    args = types.SimpleNamespace(num_samples_per_file=per_file, resized_image="image")
    config = types.ModuleType("dlio_benchmark.utils.config")
    config.ConfigArguments = types.SimpleNamespace(get_instance=lambda: args)
    for name in ("dlio_benchmark", "dlio_benchmark.utils"):
        monkeypatch.setitem(__import__("sys").modules, name, types.ModuleType(name))
    monkeypatch.setitem(__import__("sys").modules, config.__name__, config)
    monkeypatch.setattr(callback, "_BLOCK", 64)
    data = types.SimpleNamespace(reader=Reader(), shoal_epoch=[2], batch_size=batch)
    assert list(callback._simple_iter(data)) == ["image"] * (nr * per_file // batch)
    assert read == list(files[:nr].of_epoch(2))


def test_index_files_are_read_when_they_are_asked_for(files):
    class Reader:
        loaded = []

        def __init__(self):
            self.buffer_map = {}
            callback._load_index(self)

        def load_index_file(self, _, path, __):
            assert path not in self.file_map_ibr
            self.loaded.append(path)
            self.file_map_ibr[path], self.buffer_map[path] = ["offsets", "sizes"], "data"

    reader = Reader()
    assert reader.loaded == [] and reader.file_map_ibr["a"][1] == "sizes" and reader.buffer_map["a"] == "data" and reader.loaded == ["a"]
    reader.buffer_map.clear()
    assert reader.buffer_map["a"] == "data" and reader.loaded == ["a", "a"]


# ---- A DLIO that is not known


SOURCE = '''
class Sampler:
    # A comment.
    @decorated
    def order(self):
        return 1

    def length(self):
        return 2
'''


def test_the_text_of_a_piece_is_compared_without_comments():
    whole, order = pieces.digest(SOURCE, "Sampler"), pieces.digest(SOURCE, "Sampler.order")
    assert pieces.digest(SOURCE.replace("# A comment.", "# Another.\n\n"), "Sampler") == whole
    changed = SOURCE.replace("return 2", "return 3")
    assert pieces.digest(changed, "Sampler") != whole and pieces.digest(changed, "Sampler.order") == order
    assert pieces.digest(SOURCE.replace("@decorated", "@other"), "Sampler.order") != order
    assert pieces.digest(SOURCE, "Sampler.nothing") is None and pieces.digest(SOURCE, "Nothing.order") is None


@pytest.mark.parametrize("known", list(pieces.KNOWN))
def test_a_known_dlio_is_recognized_and_a_changed_one_is_refused_by_name(known):
    assert pieces.version(dict(pieces.KNOWN[known])) == known
    for piece in pieces.KNOWN[known]:
        for changed in ("0123456789abcdef", None):
            hashes = {**pieces.KNOWN[known], piece: changed}
            if changed is None:
                del hashes[piece]
            with pytest.raises(shoal.BadValueError, match="replaces nothing in it.*nearest known one is .*differ: dlio_benchmark.%s.%s. Install"
                               % piece):
                pieces.version(hashes)


def test_where_there_is_no_dlio_it_is_said():
    with pytest.raises(shoal.BadValueError, match="there is no DLIO here"):
        pieces.version({})


def test_the_callback_ends_the_process_where_it_refuses(monkeypatch, capsys):
    """Hydra only warns of an exception, and DLIO would run with its list."""
    def refuse():
        raise shoal.BadValueError(22, "unknown piece")

    monkeypatch.setattr(pieces, "version", refuse)
    monkeypatch.setattr(callback, "_installed", None)
    with pytest.raises(SystemExit) as ended:
        callback.Callback().on_run_start(config=None)
    assert ended.value.code == 1 and "shoal.dlio: unknown piece" in capsys.readouterr().err and callback._installed is None
    assert callback.Callback().on_job_end(config=None, job_return=None) is None


@pytest.mark.parametrize("key, value", [("data_loader", "tensorflow"), ("data_loader_sampler", "iterative"), ("data_loader_classname", "a.B")])
def test_settings_that_it_does_not_serve_are_named(key, value):
    good = {"format": "npz", "data_loader": "pytorch", "data_loader_sampler": None, "data_loader_classname": None}
    callback._check_settings(types.SimpleNamespace(**good))
    with pytest.raises(shoal.BadValueError, match="serves reader.%s=.*, not %s: run this workload without it" % (key, value)):
        callback._check_settings(types.SimpleNamespace(**{**good, key: value}))
