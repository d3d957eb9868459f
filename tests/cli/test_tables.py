"""Parquet, Arrow and tar files are generated with exact sizes, indexed as they were made, and run by groups of rows."""

import json
import shutil
import struct
import tarfile

import pytest

TYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
         "string"]
COLUMNS = ([{"name": kind, "dtype": kind} for kind in TYPES]
           + [{"name": f"list_of_{kind}", "dtype": kind, "size": 1 + i} for i, kind in enumerate(TYPES, 1)]
           + [{"name": "bytes", "dtype": "binary", "size": 17}, {"name": "long", "dtype": "float32", "size": 300000}])
ROWS = 25


def workload(tmp_path, kind, rows=ROWS, group=10, columns=COLUMNS, **more):
    inside = {"columns": columns, ("generation_batch_size" if kind == "arrow" else "row_group_size"): group}
    tree = {"model": {"name": "t"}, "framework": "pytorch", "workflow": {"generate_data": True, "train": True},
            "dataset": {"data_folder": "d", "format": kind, "num_files_train": 3, "num_samples_per_file": rows,
                        **({} if kind == "tar" else {kind: inside}), **more},
            "reader": {"data_loader": "pytorch", "batch_size": 4, "read_threads": 2, "file_shuffle": "seed"},
            "train": {"epochs": 1, "computation_time": 0.0001}, "metric": {"au": 0}}
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps(tree))
    return path


@pytest.fixture(params=["parquet", "arrow"])
def made(shoal, tmp_path, request):
    path = workload(tmp_path, request.param)
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    return request.param, path, tmp_path / "data"


def samples(shoal, catalog, strip=""):
    return [line.removeprefix(strip) for line in shoal.good("ls", "--extents", catalog).decode().splitlines()]


def test_a_catalog_of_generated_files_has_what_their_footers_say(shoal, tmp_path, made):
    _, _, data = made
    shoal.good("index", data / "train", "--samples", "auto", "-o", tmp_path / "read.cat", "-q")
    computed = samples(shoal, data / "catalog.shoal", "train/")
    assert computed == samples(shoal, tmp_path / "read.cat")
    assert [int(line.split("\t")[4]) for line in computed] == [10, 10, 5] * 3


def test_generated_files_are_those_of_their_workload(shoal, made):
    kind, path, data = made
    assert b"3 of 3 files good" in shoal.good("datagen", path, "--data", data, "--verify", "-q")
    file = next((data / "train").glob(f"*_1_of_3.{kind}"))
    byte = bytearray(file.read_bytes())
    byte[len(byte) // 2] ^= 1
    file.write_bytes(byte)
    assert shoal("datagen", path, "--data", data, "--verify", "-q").returncode == 1


def test_pyarrow_reads_all_types_and_values(made):
    """The oracle is not installed everywhere: what readers of this repository find is tested above in any case."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.compute")
    kind, _, data = made
    for file in sorted((data / "train").glob("*")):
        if kind == "parquet":
            import pyarrow.parquet
            table = pyarrow.parquet.read_table(file)
        else:
            table = pa.ipc.open_file(file).read_all()
        table.validate(full=True)
        assert (table.num_rows, table.num_columns) == (ROWS, len(COLUMNS))
        for column in COLUMNS:
            kinds = {"float16": "halffloat", "float32": "float", "float64": "double"}
            want = kinds.get(column["dtype"], column["dtype"])
            found = table.schema.field(column["name"]).type
            if column["dtype"] == "binary":
                assert found == pa.binary(17)
            elif column.get("size", 1) > 1:
                assert str(found.value_type) == want
                assert set(pa.compute.list_value_length(table[column["name"]]).to_pylist()) == {column["size"]}
            else:
                assert str(found) == want


def test_duckdb_reads_what_is_generated(shoal, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    shoal.good("datagen", workload(tmp_path, "parquet"), "--data", tmp_path / "data", "-q")
    found = duckdb.sql(f"select count(*), min(length(long)), max(length(long)), count(distinct string), min(int8) < 0 "
                       f"from '{tmp_path}/data/train/*.parquet'").fetchall()
    assert found == [(3 * ROWS, 300000, 300000, 3 * ROWS, True)]
    groups = duckdb.sql(f"select distinct row_group_id, row_group_num_rows from "
                        f"parquet_metadata('{tmp_path}/data/train/img_0_of_3.parquet') order by 1").fetchall()
    assert groups == [(0, 10), (1, 10), (2, 5)]


# Rows per step and group: whole groups, one and a half groups, a part of a group.
@pytest.mark.parametrize("batch, steps, groups", [(20, 12, 24), (15, 16, 24), (4, 60, 24), (7, 34, 24)])
def test_a_run_reads_each_group_once_whatever_its_batch(shoal, tmp_path, batch, steps, groups):
    path = workload(tmp_path, "parquet", rows=80, columns=[{"name": "a", "dtype": "float32", "size": 3}])
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    out = json.loads(shoal.good("run", path, f"reader.batch_size={batch}", "--data", tmp_path / "data", "--results",
                                tmp_path / "r", "--json", "-q"))
    epoch = out["shoal"]["phases"][0] if "shoal" in out else out["phases"][0]
    assert epoch["steps"] == steps
    assert (epoch["audit"]["samples"], epoch["audit"]["exactly_once"]) == (groups, True)
    assert epoch["audit"]["samples_left_over"] == 240 - steps * batch


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tar"])
def test_a_run_finds_the_groups_of_files_without_a_catalog(shoal, tmp_path, kind):
    columns = [{"name": "a", "dtype": "float32", "size": 3}]
    path = workload(tmp_path, kind, rows=80, columns=columns, record_length_bytes=4096)
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    (tmp_path / "data/catalog.shoal").unlink()
    said = []
    for i, more in enumerate([[], [] if kind == "tar" else [f"dataset.{kind}.columns=[{{name: other, dtype: int8}}]"]]):
        result = shoal("run", path, *more, "--data", tmp_path / "data", "--results", tmp_path / f"r{i}")
        assert result.returncode == 0, result.stderr
        said.append(result.stderr.decode())
    assert "computed names" in said[0]
    assert kind == "tar" or "listing them" in said[1]


def test_files_of_another_number_of_rows_are_refused(shoal, tmp_path):
    path = workload(tmp_path, "parquet", columns=[{"name": "a", "dtype": "float32"}])
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    result = shoal("run", path, "dataset.num_samples_per_file=26", "--data", tmp_path / "data", "--results", tmp_path / "r")
    assert result.returncode == 1
    assert b"26 samples per file, but 'train/img_0_of_3.parquet' has 25" in result.stderr


def test_a_tar_is_what_tarfile_reads(shoal, tmp_path):
    path = workload(tmp_path, "tar", rows=7, record_length_bytes=5000.3)
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    file = tmp_path / "data/train/img_2_of_3.tar"
    assert file.stat().st_size == round(7 * 5000.3)
    with tarfile.open(file) as tar:
        members = tar.getmembers()
        assert [m.name for m in members] == [f"{i:010d}.{end}" for i in range(7) for end in ("bin", "cls")]
        assert all(0 <= int(tar.extractfile(m).read()) < 1000 for m in members if m.name.endswith("cls"))
    shoal.good("index", tmp_path / "data/train", "--samples", "auto", "-o", tmp_path / "read.cat", "-q")
    assert samples(shoal, tmp_path / "read.cat") == samples(shoal, tmp_path / "data/catalog.shoal", "train/")


def test_a_footer_has_the_length_that_it_says(shoal, tmp_path):
    path = workload(tmp_path, "parquet", rows=1, group=1, columns=[{"name": "a", "dtype": "int8"}])
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    file = (tmp_path / "data/train/img_0_of_3.parquet").read_bytes()
    assert file[:4] == file[-4:] == b"PAR1"
    assert struct.unpack("<I", file[-8:-4])[0] < len(file) - 12


@pytest.mark.parametrize("columns, words", [
    ([{"name": "a", "dtype": "float8"}], "unknown dtype of a column: choose one of float16"),
    ([{"name": "a", "dtype": "int8", "size": 0}], "a column's size is a number from 1 to 2^30"),
    ([{"dtype": "int8"}], "a column has no name"),
    ([{"name": "a"}, {"name": "a"}], "two columns are called 'a'"),
    ([{"name": "a", "typ": "int8"}], "a column has name, dtype, size and read, not 'typ'"),
    (["a"], "a column is a map"),
    ("a", "must be a list of columns"),
])
def test_columns_that_make_no_sense_are_refused(shoal, tmp_path, columns, words):
    result = shoal("workloads", workload(tmp_path, "parquet", columns=columns))
    assert result.returncode == 1
    assert words.encode() in result.stderr


def test_a_file_of_one_group_that_fills_its_pages_is_read(shoal, tmp_path):
    """The group begins after four bytes, so that it takes a page more than its length."""
    path = workload(tmp_path, "parquet", rows=4, group=4, columns=[{"name": "a", "dtype": "binary", "size": 4096}])
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    off, length = map(int, samples(shoal, tmp_path / "data/catalog.shoal")[0].split("\t")[2:4])
    assert (off, -(-length // 4096)) == (4, 5)
    shoal.good("datagen", path, "dataset.parquet.columns=[{name: a, dtype: binary, size: 5114}]", "--data", tmp_path / "b", "-q")
    off, length = map(int, samples(shoal, tmp_path / "b/catalog.shoal")[0].split("\t")[2:4])
    assert (off + length) // 4096 > length // 4096, "not the case that is tested"
    assert b"every sample exactly once" in shoal.good("read", tmp_path / "b/catalog.shoal", "--batch", "1")


@pytest.mark.parametrize("name, ranks_of_files, changes, groups", [
    ("dlrm", ["b200", "mi355"], ["dataset.num_files_train=3", "dataset.num_samples_per_file=4096", "dataset.parquet.row_group_size=512"], 24),
    ("flux", ["b200", "mi355"], ["dataset.num_files_train=2", "dataset.num_samples_per_file=6", "dataset.parquet.row_group_size=2"], 6),
])
def test_workloads_of_mlperf_generate_and_run_as_they_ship(shoal, tmp_path, name, ranks_of_files, changes, groups):
    """But for fewer and smaller files and batches, and other compute times."""
    shoal.good("datagen", f"{name}_datagen", *changes, "--data", tmp_path / "data", "-q")
    for accelerator in ranks_of_files:
        batch = {"dlrm": {"b200": 1024, "mi355": 1536}, "flux": {"b200": 2, "mi355": 3}}[name][accelerator]
        shoal("run", f"{name}_{accelerator}", *changes[:2], f"reader.batch_size={batch}", "train.epochs=1",
              "train.computation_time=0.001", "--data", tmp_path / "data", "--results", tmp_path / accelerator, "-q")
        summary = json.loads((tmp_path / accelerator / "summary.json").read_text())
        audit = summary["shoal"]["phases"][0]["audit"]
        assert (audit["samples"], audit["exactly_once"]) == (groups, True)


def test_a_run_that_misses_its_au_says_what_the_limit_was(shoal, tmp_path):
    """dlrm's nominal compute time asks for more than any client reads."""
    changes = ["dataset.num_files_train=2", "dataset.num_samples_per_file=600"]
    shoal.good("datagen", "dlrm_datagen", *changes, "dataset.parquet.row_group_size=2", "--data", tmp_path / "data", "-q")
    shoal("run", "dlrm_b200", *changes, "reader.batch_size=2", "train.epochs=1", "reader.read_threads=1", "train.computation_time=0.00001", "metric.au=1",
          "--data", "null:size=2000000,delay_us=4000", "--catalog", tmp_path / "data" / "catalog.shoal", "--results", tmp_path / "r", "-q")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert "the limit was the storage" in summary["shoal"]["limit"]
    assert summary["shoal"]["phases"][0]["audit"]["exactly_once"]


def records(tmp_path, kind, rows, size):
    """A workload of 3 files of @kind with several samples each."""
    path = workload(tmp_path, kind, rows=rows, record_length_bytes=size)
    tree = json.loads(path.read_text())
    del tree["dataset"][kind]
    path.write_text(json.dumps(tree))
    return path


@pytest.mark.parametrize("kind", ["tfrecord", "npz", "npy", "hdf5", "csv"])
def test_samples_of_every_format_are_read_as_they_lie(shoal, tmp_path, kind):
    """By datagen's catalog, by computed names, by a listing, and by a catalog with samples: the same bytes, and no frames."""
    path, data = records(tmp_path, kind, 7, 3000), tmp_path / "data"
    shoal.good("datagen", path, "--data", data, "-q")
    shoal.good("index", data, "--samples", "auto", "--include", f"*.{kind}", "-o", tmp_path / "x.cat", "-q")
    want = samples(shoal, tmp_path / "x.cat")
    assert samples(shoal, data / "catalog.shoal") == want and len(want) == 21
    nr_bytes = sum(int(line.split("\t")[3]) for line in want)

    def delivered(where, *more):
        shoal("run", path, "--data", where, "--results", tmp_path / "r", "-q", "reader.batch_size=3", *more)
        audit = json.loads((tmp_path / "r" / "summary.json").read_text())["shoal"]["phases"][0]["audit"]
        shutil.rmtree(tmp_path / "r")
        assert audit["exactly_once"] and audit["samples"] == 21
        return audit["bytes_delivered"]

    assert delivered(data) == nr_bytes < sum(file.stat().st_size for file in data.rglob(f"*.{kind}"))
    assert delivered(tmp_path / "x.cat") == nr_bytes
    (data / "catalog.shoal").unlink()
    assert delivered(data) == nr_bytes
    for i, file in enumerate(sorted((data / "train").iterdir())):
        file.rename(file.parent / f"{i}.{kind}")
    assert delivered(data) == nr_bytes


def test_equal_parts_of_files_are_read_where_samples_are_interleaved_and_that_is_reported(shoal, tmp_path):
    numpy = pytest.importorskip("numpy")
    path, data = records(tmp_path, "npz", 5, 3000), tmp_path / "data" / "train"
    data.mkdir(parents=True)
    for i in range(3):
        numpy.savez(data / f"{i}.npz", x=numpy.zeros((50, 60, 5), dtype=numpy.uint8), y=numpy.zeros(5))
    done = shoal("run", path, "--data", tmp_path / "data", "--results", tmp_path / "r")
    assert b"reading equal parts of files instead" in done.stderr + done.stdout
    audit = json.loads((tmp_path / "r" / "summary.json").read_text())["shoal"]["phases"][0]["audit"]
    assert audit["exactly_once"] and audit["bytes_delivered"] > 3 * 4 * 3000


@pytest.mark.parametrize("shuffles", [[], ["reader.file_shuffle=seed"], ["reader.file_shuffle=seed", "reader.sample_shuffle=seed"]])
def test_samples_of_tfrecord_are_read_many_at_a_time_in_every_order(shoal, tmp_path, shuffles):
    path = records(tmp_path, "tfrecord", 201, 2000)
    tree = json.loads(path.read_text())
    tree["framework"], tree["reader"] = "tensorflow", {"data_loader": "tensorflow", "batch_size": 20, "read_threads": 2}
    path.write_text(json.dumps(tree))
    shoal.good("datagen", path, "--data", tmp_path / "data", "-q")
    shoal("run", path, *shuffles, "--data", tmp_path / "data", "--results", tmp_path / "r", "-q")
    audit = json.loads((tmp_path / "r" / "summary.json").read_text())["shoal"]["phases"][0]["audit"]
    assert audit["exactly_once"] and audit["samples"] == 600
    assert audit["opens"] <= 3 and audit["reads"] <= 6 + 3  # of 600 samples; 1.2 MB are five times 256 KiB
