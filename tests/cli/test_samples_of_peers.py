"""Files that other programs wrote: their samples are indexed, and are byte for byte what those programs read."""

import base64
import io
import json
import os
import struct
import subprocess
import tarfile

import pytest
from test_samples import rows, shoal


def samples_of(folder, tmp_path, kind="auto", *options):
    """[(name, offset, length, rows)] of a folder, and the bytes of each sample."""
    shoal("index", folder, "--samples", kind, *options, "-q", "-o", tmp_path / "x.cat")
    shoal("verify", tmp_path / "x.cat")
    found = rows(tmp_path / "x.cat")
    content = {name: (folder / name).read_bytes() for name, *_ in found}
    return found, [content[name][offset:offset + length] for name, offset, length, _ in found]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


# ------------------------------------------------------------------------------------- Parquet and Arrow


def row_group_places(metadata):
    """(offset, length, rows) of each row group, as the columns of pyarrow's metadata have them."""
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        columns = [group.column(i) for i in range(group.num_columns)]
        start = min(min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) for c in columns)
        end = max(min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size
                  for c in columns)
        yield start, end - start, group.num_rows


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "data_page_version": "2.0"}, {"write_page_index": True},
                                     {"use_dictionary": False, "write_statistics": False, "store_schema": False}])
def test_row_groups_of_pyarrow_are_where_pyarrow_finds_them(folder, tmp_path, options):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    table = pa.table({"a": range(1000), "s": [str(i) * (i % 5) for i in range(1000)],
                      "l": [[i] * (i % 3) for i in range(1000)], "n": [None if i % 7 else i for i in range(1000)]})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=77, **options)
    found, _ = samples_of(folder, tmp_path)
    assert [place[1:] for place in found] == list(row_group_places(pyarrow.parquet.read_metadata(folder / "a.parquet")))
    assert sum(nr for *_, nr in found) == 1000


def test_groups_without_rows_are_samples_without_rows(folder, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    table = pa.table({"a": range(10), "b": [True] * 10})
    with pyarrow.parquet.ParquetWriter(folder / "a.parquet", table.schema) as file:
        for part in (table, table.slice(0, 0), table, table.slice(0, 0)):
            file.write_table(part)
    pyarrow.parquet.write_table(table.slice(0, 0), folder / "b.parquet")
    found, _ = samples_of(folder, tmp_path)
    assert [(name, nr) for name, _, _, nr in found] == [("a.parquet", 10), ("a.parquet", 0), ("a.parquet", 10), ("a.parquet", 0),
                                                         ("b.parquet", 0)]
    places = list(row_group_places(pyarrow.parquet.read_metadata(folder / "a.parquet")))
    assert [found[0][1:], found[2][1:]] == [places[0], places[2]]


@pytest.mark.parametrize("plaintext_footer, words", [(False, "its footer is encrypted"), (True, "its columns are encrypted")])
def test_encrypted_files_of_pyarrow_are_refused(folder, tmp_path, plaintext_footer, words):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet
    import pyarrow.parquet.encryption as encryption

    class Keys(encryption.KmsClient):
        def __init__(self):
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key, name):
            return base64.b64encode(key)

    table = pa.table({"a": range(10), "b": range(10)})
    factory = encryption.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plaintext_footer))
    with pa.parquet.ParquetWriter(folder / "a.parquet", table.schema, encryption_properties=properties) as file:
        file.write_table(table)
    done = shoal("index", folder, "--samples", "auto", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and words in done.stderr


def test_row_groups_of_duckdb_are_where_duckdb_finds_them(folder, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    duckdb.sql(f"copy (select i a, 'x' || i s, i * 0.5 d from range(10000) t(i)) to '{folder}/a.parquet' "
               f"(format parquet, row_group_size 2048)")
    want = duckdb.sql(f"""
        with chunks as (select row_group_id, row_group_num_rows as n, total_compressed_size as len,
            least(data_page_offset, coalesce(nullif(dictionary_page_offset, 0), data_page_offset)) as start
            from parquet_metadata('{folder}/a.parquet'))
        select min(start), max(start + len) - min(start), any_value(n) from chunks group by row_group_id order by 1""").fetchall()
    found, _ = samples_of(folder, tmp_path)
    assert [place[1:] for place in found] == want and len(want) > 1


def test_record_batches_of_pyarrow_are_read_from_their_bytes(folder, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"a": range(1000), "s": [str(i) for i in range(1000)]})
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=77)
    found, parts = samples_of(folder, tmp_path)
    batches = [pa.ipc.read_record_batch(pa.py_buffer(part), table.schema) for part in parts]
    assert pa.Table.from_batches(batches).equals(table)
    assert [nr for *_, nr in found] == [batch.num_rows for batch in batches]


# ------------------------------------------------------------------------------------- tar


def test_shards_of_webdataset_are_the_samples_that_it_reads(folder, tmp_path):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    with webdataset.ShardWriter(str(folder / "s-%03d.tar"), maxcount=20, verbose=0) as shards:
        for i in range(50):
            shards.write({"__key__": f"k/{i:05}", "jpg": os.urandom(i * 37), "cls": i, "txt": "é" * i})
    _, parts = samples_of(folder, tmp_path)
    peers = [{key: value for key, value in sample.items() if key not in ("__url__", "__local_path__")} for sample in
             webdataset.WebDataset(sorted(map(str, folder.iterdir())), shardshuffle=False)]
    ours = []
    for part in parts:
        with tarfile.open(fileobj=io.BytesIO(part)) as tar:
            members = {member.name.split(".", 1)[1]: tar.extractfile(member).read() for member in tar}
            ours.append({"__key__": tar.getnames()[0].split(".")[0], **members})
    assert ours == peers and len(ours) == 50


# ------------------------------------------------------------------------------------- HDF5 and arrays


@pytest.mark.parametrize("chunk", [1, 3, 10, 64])
def test_records_of_h5py_in_chunks_of_the_first_dimension_are_its_rows(folder, tmp_path, chunk):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    records = numpy.random.default_rng(1).integers(0, 2**31, (64, 5, 7), dtype=numpy.int32)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("records", data=records, chunks=(chunk, 5, 7))
        file.create_dataset("labels", data=numpy.zeros(64))
    found, parts = samples_of(folder, tmp_path)
    assert parts == [record.tobytes() for record in records]


def test_many_chunks_are_found_through_all_levels_of_their_tree(folder, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    records = numpy.arange(20000, dtype=numpy.uint32).reshape(20000, 1)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("records", data=records, chunks=(1, 1))
    _, parts = samples_of(folder, tmp_path)
    assert b"".join(parts) == records.tobytes() and len(parts) == 20000


def test_the_only_dataset_of_a_file_may_have_any_name(folder, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("images", data=numpy.arange(12).reshape(3, 4))
    _, parts = samples_of(folder, tmp_path)
    assert parts == [row.tobytes() for row in numpy.arange(12).reshape(3, 4)]


@pytest.mark.parametrize("options", [{"chunks": (4, 2)}, {"chunks": (1, 4), "compression": "gzip"}, {"chunks": (1, 4), "shuffle": True}])
def test_chunks_that_are_no_records_are_one_sample(folder, tmp_path, options):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("records", data=numpy.arange(32).reshape(8, 4), **options)
    found, _ = samples_of(folder, tmp_path)
    assert found == [("a.h5", 0, (folder / "a.h5").stat().st_size, 1)]


def test_chunks_that_were_never_written_are_no_samples(folder, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(folder / "a.h5", "w") as file:
        dataset = file.create_dataset("records", (8, 4), "u4", chunks=(1, 4))
        for i in (0, 1, 3, 7):
            dataset[i] = i
    found, _ = samples_of(folder, tmp_path)
    assert found == [("a.h5", 0, (folder / "a.h5").stat().st_size, 1)]


def contents(file, h5py, kind):
    import numpy
    data = numpy.arange(32.0).reshape(8, 4)
    if kind == "several":
        file["a"], file["b"] = data, data
    elif kind == "in a group":
        file["g/records"] = data
    elif kind == "a link":
        file["x"] = data
        file["records"] = h5py.SoftLink("/x")
    elif kind == "nothing":
        pass
    elif kind == "never written":
        file.create_dataset("records", (8, 4), "f8")
    elif kind == "in another file":
        file.create_dataset("records", (8, 4), "f8", external=[("else.bin", 0, 256)])
    elif kind == "items of no bytes":
        file.create_dataset("records", (8, 0), "f8")
    elif kind == "strings":
        file.create_dataset("records", data=["a", "bb", "ccc"], dtype=h5py.string_dtype())
    elif kind == "sequences in chunks":
        records = file.create_dataset("records", (4,), h5py.vlen_dtype(numpy.uint8), chunks=(2,))
        for i in range(4):
            records[i] = numpy.arange(i)
    elif kind == "references":
        file["x"] = data
        file.create_dataset("records", data=[file["x"].ref] * 3, dtype=h5py.ref_dtype)
    elif kind == "tuples with strings":
        file["records"] = numpy.array([(1, 0.5, [1, 2], 1, "a")] * 3, [("n", "i4"), ("x", "f8"), ("array", "i2", (2,)), (
            "color", h5py.enum_dtype({"RED": 0, "GREEN": 1}, "u1")), ("s", h5py.string_dtype())])
    elif kind == "no extent":
        file["records"] = h5py.Empty("f8")
    else:
        file["records"] = data


@pytest.mark.parametrize("kind", ["several", "in a group", "a link", "nothing", "never written", "in another file", "items of no bytes",
                                  "no extent", "user block", "strings", "sequences in chunks", "references", "tuples with strings"])
@pytest.mark.parametrize("versions", ["earliest", "latest"])
def test_files_of_h5py_without_records_to_cut_are_one_sample(folder, tmp_path, kind, versions):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(folder / "a.h5", "w", libver=versions, **({"userblock_size": 1024} if kind == "user block" else {})) as file:
        contents(file, h5py, kind)
    found, _ = samples_of(folder, tmp_path)
    assert found == [("a.h5", 0, (folder / "a.h5").stat().st_size, 1)]
    assert json.loads(shoal("index", folder, "--samples", "auto", "-q", "--json", "-o", tmp_path / "y.cat").stdout)["uncut"] == 1


@pytest.mark.parametrize("versions", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("chunks", [None, (3,)])
def test_tuples_enumerations_and_arrays_of_h5py_are_cut(folder, tmp_path, versions, chunks):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    records = numpy.array([(i, 0.5, b"xyz", [1, 2], True, 1j, i % 2) for i in range(9)], [
        ("number", "i4"), ("x", "f8"), ("text", "S3"), ("array", "i2", (2,)), ("flag", "?"), ("complex", "c16"),
        ("color", h5py.enum_dtype({"RED": 0, "GREEN": 1}, "u1"))])
    with h5py.File(folder / "a.h5", "w", libver=versions) as file:
        file.create_dataset("records", data=records, chunks=chunks)
        file["time"] = records["x"].astype(h5py.opaque_dtype(numpy.dtype("M8[s]")))
    _, parts = samples_of(folder, tmp_path)
    assert parts == [records[i:i + 1].tobytes() for i in range(9)]


@pytest.mark.parametrize("what, words", [("group", "there is no group's tree at "), ("chunks", "there is no tree of chunks at "),
                                         ("header", "there is no continuation of a header at ")])
def test_a_cycle_in_hdf5_ends_with_a_sentence(folder, tmp_path, what, words):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    import numpy
    with h5py.File(folder / "a.h5", "w") as file:
        records = file.create_dataset("records", data=numpy.arange(3000.0).reshape(3000, 1), chunks=(1, 1))
        for i in range(20):
            records.attrs[f"attribute{i}"] = numpy.zeros(20)
        for i in range(200):
            file[f"z{i}"] = i
    data = bytearray((folder / "a.h5").read_bytes())
    if what == "header":  # a continuation becomes one of the block that it is in
        at = next(i for i in range(len(data)) if data[i:i + 8] == b"\x10\0\x10\0\0\0\0\0" and
                  data[int.from_bytes(data[i + 8:i + 16], "little"):][:1] != b"")
        data[at + 8:at + 24] = struct.pack("<QQ", at, 24)
    else:
        kind = 0 if what == "group" else 1
        at = next(i for i in range(len(data)) if data[i:i + 5] == b"TREE" + bytes([kind]) and data[i + 5] > 0)
        child = at + 24 + (8 if kind == 0 else 8 + 8 * 3)
        data[child:child + 8] = struct.pack("<Q", at)
    (folder / "a.h5").write_bytes(data)
    done = shoal("index", folder, "--samples", "auto", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and words in done.stderr


# ------------------------------------------------------------------------------------- with index files


def test_samples_with_an_index_of_offsets_and_sizes(folder, tmp_path):
    """As DLIO writes them: two files of 64-bit numbers beside the data."""
    lengths = [5, 0, 700, 1, 3000]
    data = os.urandom(sum(lengths))
    (folder / "a.indexed_binary").write_bytes(data)
    offsets = [sum(lengths[:i]) for i in range(5)]
    (folder / "a.indexed_binary.off.idx").write_bytes(struct.pack("<5Q", *offsets))
    (folder / "a.indexed_binary.sz.idx").write_bytes(struct.pack("<5Q", *lengths))
    for kind in ("auto", "indexed_binary"):
        found, parts = samples_of(folder, tmp_path, kind)
        assert [place[1:3] for place in found] == list(zip(offsets, lengths))
    info = json.loads(shoal("info", tmp_path / "x.cat", "--json").stdout)
    assert info["formats"]["indexed_binary"] == {"files": 1, "samples": 5}
    assert (info["files"], info["samples"]) == (3, 5)


@pytest.mark.parametrize("damage, words", [
    ("missing", "its index 'a.bin.off.idx' cannot be read"),
    ("short", "8 per sample"),
    ("outside", "lies outside the file"),
    ("overlap", "begins before the end of the one before it"),
])
def test_a_bad_index_is_an_error_with_the_name_of_its_file(folder, tmp_path, damage, words):
    (folder / "a.bin").write_bytes(bytes(100))
    (folder / "a.bin.off.idx").write_bytes(struct.pack("<2Q", 0, 10 if damage == "overlap" else 50))
    (folder / "a.bin.sz.idx").write_bytes(struct.pack("<2Q", 50, 51 if damage == "outside" else 50)[:15 if damage == "short" else 16])
    if damage == "missing":
        (folder / "a.bin.off.idx").unlink()
    done = shoal("index", folder, "--samples", "indexed_binary", "-o", tmp_path / "x.cat", check=False)
    assert done.returncode == 1 and words in done.stderr and "a.bin" in done.stderr
    assert not (tmp_path / "x.cat").exists()


def test_an_index_that_changed_is_read_again_by_an_update(folder, tmp_path):
    import time
    (folder / "a.bin").write_bytes(bytes(100))
    for split in (50, 20):
        (folder / "a.bin.off.idx").write_bytes(struct.pack("<2Q", 0, split))
        (folder / "a.bin.sz.idx").write_bytes(struct.pack("<2Q", split, 100 - split))
        time.sleep(0.12)
        old = ["--update", tmp_path / "old.cat"] if split == 20 else []
        found, _ = samples_of(folder, tmp_path, "indexed_binary", *old)
        assert [place[2] for place in found] == [split, 100 - split]
        os.replace(tmp_path / "x.cat", tmp_path / "old.cat")


def test_what_datagen_makes_as_indexed_binary_is_indexed(folder, tmp_path):
    subprocess.run([os.environ.get("SHOAL", "build/shoal"), "datagen", "/dev/stdin", "--data", folder / "d", "-q"], check=True,
                   stdout=subprocess.DEVNULL, text=True, input="""
workflow: {generate_data: true}
dataset: {format: indexed_binary, num_files_train: 2, num_samples_per_file: 7, record_length_bytes: 100}
""")
    found, _ = samples_of(folder / "d" / "train", tmp_path)
    assert [place[1:3] for place in found] == [(100 * i, 100) for i in range(7)] * 2
