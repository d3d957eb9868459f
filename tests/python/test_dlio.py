"""The plug-ins for DLIO, called as DLIO calls them. Where DLIO is not installed a stand-in has its base classes."""
import abc
import enum
import importlib.util
import logging
import os
import sys
import types

import numpy
import pytest

import shoal


class Settings:
    """What DLIO's ConfigArguments has, as far as the plug-ins look."""

    def __init__(self, folder, **changes):
        self.data_folder, self.format, self.framework = folder, "bin", "pytorch"
        self.my_rank, self.comm_size, self.read_threads, self.prefetch_size = 0, 1, 4, 2
        self.batch_size = self.batch_size_eval = 8
        self.num_files_train, self.num_files_eval, self.num_samples_per_file = 60, 0, 1
        self.total_samples_train, self.total_samples_eval = 60, 0
        self.sample_shuffle = self.file_shuffle = "seed"
        self.seed, self.seed_change_epoch = 1, True
        self.resized_image = numpy.zeros((4, 4), dtype=numpy.uint8)
        self.preprocess_time = self.preprocess_time_stdev = 0.0
        self.file_list_train = self.file_list_eval = ()
        self.train_file_map = self.val_file_map = self.train_global_index_map = self.val_global_index_map = {}
        self.__dict__.update(changes)


def stand_in(settings):
    """Modules with the names, arguments and abstract methods of DLIO's."""

    class Config:
        get_instance = staticmethod(lambda: settings[0])

    class DatasetType(enum.Enum):
        TRAIN, VALID = "train", "valid"

    class Shuffle(enum.Enum):
        OFF, SEED = "off", "seed"
        __str__ = lambda self: self.value

    class DataLoaderType(enum.Enum):
        PYTORCH = "pytorch"

    class BaseDataLoader(abc.ABC):
        def __init__(self, format_type, dataset_type, epoch_number, data_loader_type):
            self._args, self.dataset_type, self.epoch_number = Config.get_instance(), dataset_type, epoch_number
            self.batch_size = self._args.batch_size

        read = abc.abstractmethod(lambda self: None)
        next = abc.abstractmethod(lambda self: None)
        finalize = abc.abstractmethod(lambda self: None)

    class FormatReader(abc.ABC):
        def __init__(self, dataset_type, thread_index):
            self._args, self.thread_index, self.dataset_type = Config.get_instance(), thread_index, dataset_type
            self.batch_size = self._args.batch_size

        def preprocess(self, a=None):
            return a

    for name in ("open", "close", "get_sample", "next", "read_index", "finalize", "is_index_based", "is_iterator_based"):
        setattr(FormatReader, name, abc.abstractmethod(lambda self: None))
    abc.update_abstractmethods(FormatReader) if hasattr(abc, "update_abstractmethods") else None
    modules = {"dlio_benchmark": {}, "dlio_benchmark.common": {}, "dlio_benchmark.data_loader": {},
               "dlio_benchmark.reader": {},
               "dlio_benchmark.common.enumerations": {"DatasetType": DatasetType, "Shuffle": Shuffle,
                                                      "DataLoaderType": DataLoaderType},
               "dlio_benchmark.data_loader.base_data_loader": {"BaseDataLoader": BaseDataLoader},
               "dlio_benchmark.reader.reader_handler": {"FormatReader": FormatReader}}
    for name, contents in modules.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(contents)


SETTINGS = [None]


@pytest.fixture(scope="module")
def dlio():
    real = importlib.util.find_spec("dlio_benchmark") is not None
    if not real:
        stand_in(SETTINGS)
    import shoal.dlio

    yield shoal.dlio
    if not real:
        for name in [name for name in sys.modules if name.startswith("dlio_benchmark") or name == "shoal.dlio"]:
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train").mkdir()
    for i in range(60):
        (tmp_path / "train" / ("f%02d.bin" % i)).write_bytes(b"x" * (i + 1))
    return str(tmp_path)


def use(dlio, monkeypatch, folder, **changes):
    SETTINGS[0] = Settings(folder, **changes)
    for base in (dlio.BaseDataLoader, dlio.FormatReader):
        module = sys.modules[base.__module__]
        if hasattr(module, "ConfigArguments"):  # the real one
            monkeypatch.setattr(module.ConfigArguments, "get_instance", staticmethod(lambda: SETTINGS[0]))
    return dlio.DatasetType.TRAIN


def epoch_of(loader, steps):
    """As DLIO takes it: it leaves at the last step, before the loader ends."""
    for step, batch in enumerate(loader.next(), 1):
        assert tuple(batch.shape) == (8, 4, 4)
        if step == steps:
            break


def bytes_read(caplog):
    return [int(record.getMessage().split(" bytes")[0].split()[-1]) for record in caplog.records
            if record.getMessage().startswith("shoal:")]


def test_the_loader_reads_all_files_of_each_epoch_on_all_ranks(dlio, folder, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    by_rank = []
    for rank in range(3):
        train = use(dlio, monkeypatch, folder, my_rank=rank, comm_size=3, batch_size=8)
        loader = dlio.ShoalDataLoader("bin", train, 1)
        loader.read()
        caplog.clear()
        for _ in range(2):
            epoch_of(loader, 60 // 8 // 3)
            loader.finalize()
        by_rank.append(bytes_read(caplog))
    assert os.path.exists(os.path.join(folder, "train.cat"))
    assert [len(one) for one in by_rank] == [2, 2, 2] and by_rank[0][0] != by_rank[0][1]


def test_one_rank_reads_every_byte_and_the_next_epoch_is_another(dlio, folder, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    train = use(dlio, monkeypatch, folder, batch_size=8)
    loader = dlio.ShoalDataLoader("bin", train, 1)
    loader.read()
    orders = []
    for epoch in (1, 2):
        orders.append([sample for batch in loader._loader.epoch(epoch) for sample in batch.ids.tolist()])
    assert orders[0] != orders[1] and len(set(orders[0])) == 56
    train = use(dlio, monkeypatch, folder, batch_size=8, sample_shuffle="off", file_shuffle="off")
    loader = dlio.ShoalDataLoader("bin", train, 1)
    loader.read()
    caplog.clear()
    list(loader.next())
    assert bytes_read(caplog) == [sum(range(1, 57))]  # in the order of names, what fills batches


def test_the_reader_reads_each_index_once_and_again_in_the_next_epoch(dlio, folder, monkeypatch):
    train = use(dlio, monkeypatch, folder)
    for epoch in (1, 2):
        reader = dlio.ShoalReader(train, 0, epoch)
        for i in range(60):
            assert reader.read_index(i, 1).shape == (4, 4)
        assert reader.nr_bytes == sum(range(1, 61))
    readers = [dlio.ShoalReader(train, thread, 1) for thread in range(4)]
    assert sum(len(batch) for reader in readers for batch in reader.next()) == 56
    assert readers[0].is_index_based() and readers[0].is_iterator_based()


def test_a_catalog_may_be_named_and_must_have_enough_files(dlio, folder, monkeypatch, tmp_path):
    shoal.index(["a.bin"], tmp_path / "few-train.cat", root=folder, names_only=True)
    monkeypatch.setenv("SHOAL_CATALOG", str(tmp_path / "few-{dataset}.cat"))
    train = use(dlio, monkeypatch, folder)
    with pytest.raises(ValueError, match="has 1 files, and DLIO wants 60"):
        dlio.ShoalDataLoader("bin", train, 1).read()


def test_containers_are_refused_in_words(dlio, folder, monkeypatch):
    train = use(dlio, monkeypatch, folder, num_samples_per_file=4)
    with pytest.raises(ValueError, match="one sample"):
        dlio.ShoalDataLoader("bin", train, 1).read()
