"""Row groups as tables, rows as batches of tensors, members of tar files as dictionaries."""

import io
import os
import pickle
import subprocess
import tarfile

import pytest
import shoal

torch = pytest.importorskip("torch", reason="torch is not installed")
from shoal.torch import ShoalDataset, ShoalTables, members, row_batches  # noqa: E402

SHOAL = os.environ.get("SHOAL", os.path.join(os.path.dirname(__file__), "..", "..", "build", "shoal"))


def generate(tmp_path, kind, *more):
    key = "arrow.generation_batch_size" if kind == "arrow" else "parquet.row_group_size"
    columns = "[{name: a, dtype: int32}, {name: b, dtype: int16, size: 3}, {name: c, dtype: int8}]"
    (tmp_path / "w.yaml").write_text(
        f"workflow: {{generate_data: true}}\ndataset: {{format: {kind}, num_files_train: 2, num_samples_per_file: 25, "
        f"record_length_bytes: 4096, {kind if kind != 'tar' else 'parquet'}: {{columns: {columns}}}}}\n")
    args = [] if kind == "tar" else [f"dataset.{key}=10"]
    subprocess.run([SHOAL, "datagen", tmp_path / "w.yaml", *args, "--data", tmp_path / "d", "-q", *more], check=True,
                   stdout=subprocess.DEVNULL)
    return sorted((tmp_path / "d/train").iterdir())


def test_index_takes_a_kind_of_samples(tmp_path):
    generate(tmp_path, "parquet")
    catalog = shoal.index(tmp_path / "d/train", tmp_path / "x.cat", samples="auto")
    assert (catalog.nr_samples, catalog.made["nr_samples"], catalog.info["extents"]) == (6, 6, True)
    assert [catalog.extent(i).rows for i in range(6)] == [10, 10, 5, 10, 10, 5]
    assert catalog.extent(0).offset == 4
    assert catalog.extent(1).offset == 4 + catalog.extent(0).length
    with pytest.raises(IndexError):
        catalog.extent(6)
    with pytest.raises(shoal.Error, match="unknown kind of samples 'perquet'"):
        shoal.index(tmp_path / "d/train", tmp_path / "y.cat", samples="perquet")
    with pytest.raises(TypeError, match='samples is "auto"'):
        shoal.index(tmp_path / "d/train", tmp_path / "y.cat", samples=True)


def test_a_list_of_uris_takes_a_kind_of_samples(tmp_path):
    files = generate(tmp_path, "parquet")
    catalog = shoal.from_uris([(str(f), f.stat().st_size) for f in files], samples="parquet")
    assert catalog.nr_samples == 6
    offset, length, _ = catalog.extent(4)
    assert bytes(ShoalDataset(catalog)[4]) == files[1].read_bytes()[offset:offset + length]
    assert shoal.from_uris((str(f) for f in files), samples="parquet") == catalog  # sizes are looked up


def test_members_of_a_stem_are_a_dictionary(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, content in [("x/1.jpg", b"one"), ("x/1.seg.png", b"two"), ("x/2.jpg", b"three")]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    dataset = ShoalDataset(shoal.index(tmp_path, tmp_path / "x.cat", samples="auto", include="*.tar"), members)
    assert [dataset[i] for i in range(len(dataset))] == [
        {"__key__": "x/1", "jpg": b"one", "seg.png": b"two"}, {"__key__": "x/2", "jpg": b"three"}]
    with pytest.raises(shoal.Error, match="not the members of a tar file"):
        members(b"x" * 512)


def archive(*names):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    return packed.getvalue()


def test_endings_of_members_are_those_of_webdataset(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.tar").write_bytes(archive("a.b/1.JPG", "a.b/README", "a.b/1.Seg.PNG", "a.b/2.jpg", "a.b/.hidden", "a.b/2.cls"))
    dataset = ShoalDataset(shoal.index(tmp_path / "d", tmp_path / "x.cat", samples="auto"), members)
    assert [dataset[i] for i in range(len(dataset))] == [
        {"__key__": "a.b/1", "jpg": b"a.b/1.JPG", "seg.png": b"a.b/1.Seg.PNG"}, {"__key__": "a.b/2", "jpg": b"a.b/2.jpg", "cls": b"a.b/2.cls"}]
    with pytest.raises(shoal.Error, match="two members of a sample are named 'x/1.jpg'"):
        members(archive("x/1.jpg", "x/1.JPG"))


def test_generated_members_are_a_dictionary(tmp_path):
    generate(tmp_path, "tar")
    dataset = ShoalDataset(tmp_path / "d/catalog.shoal", members)
    assert len(dataset) == 50
    assert set(dataset[49]) == {"__key__", "bin", "cls"}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_groups_are_the_tables_that_pyarrow_reads(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    files = generate(tmp_path, kind)
    want = pyarrow.concat_tables(
        [pyarrow.parquet.read_table(f) if kind == "parquet" else pyarrow.ipc.open_file(f).read_all() for f in files])
    for dataset in (ShoalTables(tmp_path / "d/catalog.shoal"),
                    pickle.loads(pickle.dumps(ShoalTables(tmp_path / "d/catalog.shoal")))):
        assert pyarrow.concat_tables([dataset[i] for i in range(6)]).equals(want)
    chosen = ShoalTables(tmp_path / "d/catalog.shoal", columns=["c", "a"])
    assert chosen[2].column_names == ["c", "a"]
    assert chosen[2].equals(want.select(["c", "a"]).slice(20, 5))
    with pytest.raises((shoal.Error, KeyError), match="nothing"):
        ShoalTables(tmp_path / "d/catalog.shoal", columns=["nothing"])[0]


def test_batches_with_dictionaries_are_the_tables_that_pyarrow_reads(tmp_path):
    """A dictionary lies between the batches, as do those that later batches add to it."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "d").mkdir()
    parts = [pa.record_batch([pa.DictionaryArray.from_arrays(ids, words), ids], ["w", "l"]) for ids, words in
             (([0, 1], ["a", "b"]), ([0, 2], ["a", "b", "c"]), ([3, 3], ["a", "b", "c", "d"]))]
    for name, options in (("a.arrow", {}), ("b.arrow", {"compression": "zstd"})):
        with pa.ipc.new_file(tmp_path / "d" / name, parts[0].schema, options=pa.ipc.IpcWriteOptions(
                emit_dictionary_deltas=True, **options)) as file:
            for part in parts:
                file.write_batch(part)
    shoal.index(tmp_path / "d", tmp_path / "x.cat", samples="auto")
    tables = ShoalTables(tmp_path / "x.cat")
    assert [tables[i].to_pydict() for i in (5, 0, 4, 1, 2, 3)] == [parts[i].to_pydict() for i in (2, 0, 1, 1, 2, 0)]
    assert ShoalTables(tmp_path / "x.cat", columns=["w"])[2]["w"].to_pylist() == ["d", "d"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_is_decoded_by_its_content_whatever_its_name(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    table = pyarrow.table({"a": range(10), "s": list("abcdefghij")})
    (tmp_path / "d").mkdir()
    with pyarrow.parquet.ParquetWriter(tmp_path / "d/a", table.schema) if kind == "parquet" else \
            pyarrow.ipc.new_file(tmp_path / "d/a", table.schema) as file:
        file.write_table(table)
    shoal.index(tmp_path / "d", tmp_path / "x.cat", samples=kind)
    assert ShoalTables(tmp_path / "x.cat")[0].equals(table)


@pytest.mark.parametrize("columns", [None, ["b", "s"]])
def test_groups_without_rows_are_empty_tables(tmp_path, columns):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    table = pyarrow.table({"a": range(10), "s": list("abcdefghij"), "b": [True] * 10})
    (tmp_path / "d").mkdir()
    with pyarrow.parquet.ParquetWriter(tmp_path / "d/a.parquet", table.schema) as file:
        for part in (table.slice(0, 0), table, table.slice(0, 0)):
            file.write_table(part)
    shoal.index(tmp_path / "d", tmp_path / "x.cat", samples="auto")
    tables, want = ShoalTables(tmp_path / "x.cat", columns=columns), table if columns is None else table.select(columns)
    assert [tables[i].equals(part) for i, part in enumerate((want.slice(0, 0), want, want.slice(0, 0)))] == [True] * 3
    from shoal.torch import ShoalRows
    rows = ShoalRows(tmp_path / "x.cat", batch_size=4, columns=["a", "b"])
    assert sorted(i for batch in rows for i in batch["a"].tolist()) == list(range(10))


def test_a_footer_is_read_once_per_process(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    files = generate(tmp_path, "parquet")
    dataset = ShoalTables(tmp_path / "d/catalog.shoal")
    opened = []
    original = dataset._read_footer
    dataset._read_footer = lambda file: opened.append(file) or original(file)
    for _ in range(2):
        for i in range(6):
            dataset[i]
    assert opened == [0, 1] and len(files) == 2


# Both sides of a boundary of groups, which have 10, 10 and 5 rows.
@pytest.mark.parametrize("batch", [1, 5, 7, 10, 11, 50, 51])
def test_rows_are_cut_from_groups_in_their_order(tmp_path, batch):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    want = pyarrow.concat_tables([pyarrow.parquet.read_table(f) for f in generate(tmp_path, "parquet")])
    dataset = ShoalTables(tmp_path / "d/catalog.shoal")
    got = list(row_batches((dataset[i] for i in range(6)), batch, ["a", "b"]))
    assert [len(b["a"]) for b in got] == [batch] * (50 // batch) + [50 % batch] * (50 % batch > 0)
    assert {b["b"].shape[1] for b in got} == {3}
    assert torch.cat([b["a"] for b in got]).tolist() == want["a"].to_pylist()
    assert len(list(row_batches((dataset[i] for i in range(6)), batch, drop_last=True))) == 50 // batch


COLUMNS = [
    ("list_({}, 2)", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ("list_({})", [[1], [2]], [[1], [2]]),
    ("large_list({})", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ("list_(pyarrow.list_({}, 2))", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[1, 2, 3, 4], [5, 6, 7, 8]]),
    ("dictionary(pyarrow.int8(), {})", [7, 9, 7], [7, 9, 7]),
    ("list_({})", [[1], [2, 3, 4]], "column 'x' has lists of different lengths"),
    ("large_list({})", [[1, 2], [], [3]], "column 'x' has lists of different lengths"),
    ("list_({}, 2)", [[1, 2], None, [3, 4]], "column 'x' has lists that are null"),
    ("list_({})", [[1, None], [3, 4]], "column 'x' of int32 has nulls"),
    ("int64()", [1, None], "column 'x' of int64 has nulls"),
    ("bool_()", [True, None], "column 'x' of bool has nulls"),
    ("string()", ["a"], "column 'x' of string cannot be a tensor"),
]


@pytest.mark.parametrize("kind, values, want", COLUMNS, ids=[f"{kind} {values}" for kind, values, _ in COLUMNS])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_column_is_a_tensor_of_its_rows_or_an_error(kind, values, want, parts):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    array = pyarrow.array(values * parts, eval("pyarrow." + kind.format("pyarrow.int32()")))
    table = pyarrow.table({"x": pyarrow.chunked_array([array.slice(i * len(values), len(values)) for i in range(parts)])})
    if isinstance(want, list):
        (batch,) = row_batches([table], 100)
        assert batch["x"].tolist() == want * parts
    else:
        with pytest.raises(shoal.BadValueError, match=want):
            list(row_batches([table], 100))


def test_nulls_among_floating_point_numbers_are_nan():
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (batch,) = row_batches([pyarrow.table({"x": pyarrow.array([1.5, None], pyarrow.float32())})], 2)
    assert batch["x"].dtype == torch.float32 and batch["x"][0] == 1.5 and torch.isnan(batch["x"][1])


def test_tables_need_a_catalog_with_samples(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    generate(tmp_path, "parquet")
    shoal.index(tmp_path / "d/train", tmp_path / "x.cat")
    with pytest.raises(shoal.Error, match="index the files with samples="):
        ShoalTables(tmp_path / "x.cat")
    with pytest.raises(TypeError, match="a list of names"):
        ShoalTables(tmp_path / "d/catalog.shoal", columns="a")
