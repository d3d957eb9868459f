"""What shoal.dlio says when it cannot go on. DLIO's own modules are stood in for here; test_dlio.py runs DLIO itself."""
import enum
import importlib
import os
import shutil
import sys
import tempfile
import types

import pytest

import shoal


class DatasetType(enum.Enum):
    TRAIN, VALID = "train", "valid"


class Ranks:
    """An allgather of two ranks, of which the other says this."""

    def __init__(self, other=(None, None)):
        self.other = other

    def allgather(self, mine):
        return [mine, self.other]


@pytest.fixture
def dlio():
    ranks = [Ranks()]
    mpi = types.SimpleNamespace(get_instance=lambda: types.SimpleNamespace(comm=lambda: ranks[0]))
    modules = {"dlio_benchmark": {}, "dlio_benchmark.common": {}, "dlio_benchmark.data_loader": {}, "dlio_benchmark.utils": {},
               "dlio_benchmark.storage": {"__path__": []},
               "dlio_benchmark.common.enumerations": {"DatasetType": DatasetType, "DataLoaderType": None, "Shuffle": None},
               "dlio_benchmark.data_loader.base_data_loader": {"BaseDataLoader": object},
               "dlio_benchmark.utils.utility": {"DLIOMPI": mpi}}
    before = {name: module for name, module in sys.modules.items() if name.startswith("dlio_benchmark") or name == "shoal.dlio.dataset"}
    for name, contents in modules.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(contents)
    sys.modules.pop("shoal.dlio.dataset", None)
    dataset = importlib.import_module("shoal.dlio.dataset")
    dataset.ranks = ranks
    yield dataset
    for name in [*modules, "shoal.dlio.dataset"]:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def settings(folder, **changes):
    return types.SimpleNamespace(**{
        "data_folder": str(folder), "storage_root": "./", "storage_type": "local_fs", "format": "jpeg", "num_samples_per_file": 1,
        "num_subfolders_train": 0, "num_subfolders_eval": 0, "my_rank": 0, "comm_size": 1, "file_list_train": [], **changes})


def test_a_dataset_that_may_not_be_written_to_asks_for_a_place(dlio, monkeypatch):
    monkeypatch.delenv("SHOAL_CATALOG", raising=False)
    folder = tempfile.mkdtemp()
    try:
        os.mkdir(os.path.join(folder, "train"))
        with open(os.path.join(folder, "train", "a.jpeg"), "wb") as file:
            file.write(b"x")
        os.chmod(folder, 0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)  # root may write anywhere
        try:
            with pytest.raises(PermissionError, match="train.cat' cannot be made: cannot write .*SHOAL_CATALOG=/path/{dataset}.cat"):
                dlio.open_catalog(settings(folder), DatasetType.TRAIN)
        finally:
            if root:
                os.seteuid(0)
        assert os.listdir(folder) == ["train"]
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


def test_a_bucket_needs_a_place_for_its_catalog(dlio, monkeypatch):
    monkeypatch.delenv("SHOAL_CATALOG", raising=False)
    bucket = settings("set", storage_type="s3", storage_root="bucket")
    with pytest.raises(ValueError, match="with storage_type s3, set the path of the catalog, which is made if it is missing: SHOAL_CATALOG="):
        dlio.open_catalog(bucket, DatasetType.TRAIN)
    assert dlio.data_folder(bucket, DatasetType.VALID) == "s3://bucket/set/valid"


def test_other_kinds_of_storage_are_refused(dlio, tmp_path):
    with pytest.raises(ValueError, match="storage_type local_fs and s3, not direct_fs"):
        dlio.open_catalog(settings(tmp_path, storage_type="direct_fs"), DatasetType.TRAIN)


def test_what_fails_on_one_rank_fails_on_all(dlio):
    dlio.ranks[0] = Ranks((None, "there is no such file"))
    with pytest.raises(shoal.Error, match="rank 1: there is no such file"):
        dlio.on_all_ranks(lambda: 1)
    dlio.ranks[0] = Ranks((2, None))
    assert dlio.on_all_ranks(lambda: 1) == [1, 2]
    with pytest.raises(KeyError):
        dlio.on_all_ranks(lambda: {}["a"])


def test_a_part_of_a_catalog_is_made_once_and_has_the_sizes(dlio, tmp_path, monkeypatch):
    import numpy

    (tmp_path / "train").mkdir()
    for i in range(20):
        (tmp_path / "train" / ("%02d.jpeg" % i)).write_bytes(b"x" * i)
    whole = shoal.index(tmp_path / "train", tmp_path / "train.cat")
    part = dlio._open_part(whole, numpy.array([3, 5, 8]))
    assert list(part) == ["03.jpeg", "05.jpeg", "08.jpeg"] and part.sizes().tolist() == [3, 5, 8] and part.root == whole.root
    monkeypatch.setattr(dlio, "index", None)
    assert dlio._open_part(whole, numpy.array([3, 5, 8])) == part
    with pytest.raises(TypeError):
        dlio._open_part(whole, numpy.array([3, 5, 9]))
