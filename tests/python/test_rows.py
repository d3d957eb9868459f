"""Rows shuffled over row groups: every row once, in an order that ranks, batches and workers do not change."""

import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy
import pytest
import shoal

torch = pytest.importorskip("torch", reason="torch is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.parquet  # noqa: E402
from shoal.torch import ShoalRows, ShoalTables  # noqa: E402
from shoal.torch.containers import merged  # noqa: E402


def write(folder, groups, extra=0, kind="parquet"):
    """Files with these numbers of rows per group; column a numbers all rows. Returns how many rows."""
    folder.mkdir()
    at = 0
    for file, sizes in enumerate(groups):
        schema = pyarrow.schema([("a", pyarrow.int64()), ("l", pyarrow.list_(pyarrow.int32(), 2)),
                                 *((f"x{i}", pyarrow.float32()) for i in range(extra))])
        path = folder / f"{file:03}.{kind}"
        with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) if kind == "parquet" else \
                pyarrow.ipc.new_file(path, schema) as writer:
            for rows in sizes:
                ids = numpy.arange(at, at + rows)
                table = pyarrow.table({"a": ids, "l": [[i, -i] for i in ids],
                                       **{f"x{i}": numpy.full(rows, i, dtype=numpy.float32) for i in range(extra)}}, schema)
                writer.write_table(table)
                at += rows
    shoal.index(folder, str(folder) + ".cat", samples="auto")
    return at


GROUPS = {"equal": [[10, 10, 10]] * 4, "short ends": [[10, 10, 5]] * 5, "irregular": [[3, 17, 1], [8], [25, 2, 2, 9]],
          "one": [[7]]}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("shape", GROUPS)
@pytest.mark.parametrize("ranks, batch", [(1, 7), (3, 4)])
def test_every_row_comes_once_per_epoch_with_its_other_columns(tmp_path, kind, shape, ranks, batch):
    nr = write(tmp_path / "d", GROUPS[shape], kind=kind)
    seen = []
    for rank in range(ranks):
        rows = ShoalRows(tmp_path / "d.cat", batch_size=batch, window=2, seed=5, rank=rank, world_size=ranks)
        for got in rows:
            assert got["l"].tolist() == [[i, -i] for i in got["a"].tolist()]
            seen += got["a"].tolist()
    assert sorted(seen) == list(range(nr))


def test_order_is_that_of_the_mode_window_over_rows(tmp_path):
    nr = write(tmp_path / "d", GROUPS["equal"])
    rows = ShoalRows(tmp_path / "d.cat", batch_size=8, window=3, seed=9)
    got = [i for batch in rows for i in batch["a"].tolist()]
    assert got == list(shoal.Order(nr, batch_size=8, seed=9, mode="window", unit=10, window=3))
    assert [rows.order.position(i) for i in got] == list(range(nr))
    rows.set_epoch(1)
    again = [i for batch in rows for i in batch["a"].tolist()]
    assert again != got and sorted(again) == sorted(got)


def test_equal_groups_are_read_once_and_irregular_ones_at_most_twice(tmp_path):
    for shape, most in (("equal", 1), ("short ends", 2)):
        write(tmp_path / shape, GROUPS[shape] * 10)
        rows = ShoalRows(str(tmp_path / shape) + ".cat", batch_size=8, window=4, columns=["a"])
        assert sum(len(batch["a"]) for batch in rows) == rows.read["rows"] == len(rows.order)
        groups = sum(map(len, GROUPS[shape])) * 10
        assert groups <= rows.read["groups"] <= most * groups


@pytest.mark.parametrize("ranks, batch", [(1, 5), (3, 4), (4, 1)])
def test_a_state_in_the_middle_of_a_group_goes_on_with_other_ranks_and_batches(tmp_path, ranks, batch):
    nr = write(tmp_path / "d", GROUPS["short ends"])
    seen, states = [], []
    for rank in range(2):
        rows = ShoalRows(tmp_path / "d.cat", batch_size=7, window=2, seed=3, rank=rank, world_size=2)
        for _, got in zip(range(3), rows):
            seen += got["a"].tolist()
        states.append(rows.state_dict())
    assert states[0] == states[1] and states[0]["consumed"] == 42
    for rank in range(ranks):
        rows = ShoalRows(tmp_path / "d.cat", batch_size=batch, window=2, seed=3, rank=rank, world_size=ranks, lanes=2, lane_batch=7)
        rows.load_state_dict(json.loads(json.dumps(states[0])))
        for got in rows:
            seen += got["a"].tolist()
    assert sorted(seen) == list(range(nr))


RANK = """
import json, os, sys
from shoal.torch import ShoalRows
catalog, batch, state, steps = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
rows = ShoalRows(catalog, batch_size=batch, window=2, seed=3, rank=rank, world_size=ranks, lanes=2, lane_batch=7)
if state:
    rows.load_state_dict(state)
seen = []
for batch in rows:
    seen += batch["a"].tolist()
    steps -= 1
    if steps == 0:
        break
with open(sys.argv[5] + str(rank), "w") as out:
    json.dump([seen, rows.state_dict()], out)
"""


def test_ranks_of_mpirun_go_on_in_the_middle_of_a_group_with_another_number(tmp_path):
    if not shutil.which("mpirun.openmpi"):
        pytest.skip("no Open MPI")
    nr = write(tmp_path / "d", GROUPS["short ends"])
    seen, state = [], None
    for ranks, batch, steps in ((2, 7, 3), (3, 4, 2), (1, 5, -1)):
        out = tmp_path / f"{ranks}-"
        subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), sys.executable, "-c", RANK,
                        tmp_path / "d.cat", str(batch), json.dumps(state), str(steps), out], check=True)
        found = [json.loads(pathlib.Path(f"{out}{rank}").read_text()) for rank in range(ranks)]
        state = found[0][1]
        assert all(kept == state for _, kept in found)
        seen += [i for ids, _ in found for i in ids]
    assert sorted(seen) == list(range(nr))


def write_tables(folder, *tables):
    folder.mkdir()
    for i, table in enumerate(tables):
        pyarrow.parquet.write_table(table, folder / f"{i}.parquet")
    return shoal.index(folder, str(folder) + ".cat", samples="auto")


def test_groups_with_other_columns_are_never_one_batch(tmp_path):
    tables = [pyarrow.table({"a": range(4), "b": range(4)}), pyarrow.table({"a": range(4)}),
              pyarrow.table({"a": range(4), "b": [0.5] * 4}), pyarrow.table({"a": range(4), "b": [[1]] * 4})]
    for i, words in ((1, "not all groups have a column 'b'"), (2, "column 'b' differs between groups: "),
                     (3, "column 'b' differs between groups: ")):
        catalog = write_tables(tmp_path / str(i), tables[0], tables[i])
        with pytest.raises(shoal.BadValueError, match=words):
            list(ShoalRows(catalog, batch_size=8))
        assert sorted(i for batch in ShoalRows(catalog, batch_size=8, columns=["a"]) for i in batch["a"].tolist()) == sorted(2 * [0, 1, 2, 3])


def test_a_transform_of_tables_fills_nulls_and_casts(tmp_path):
    catalog = write_tables(tmp_path / "d", pyarrow.table({"a": [0, None, 2]}), pyarrow.table({"a": [3, 4, 5]}))
    with pytest.raises(shoal.BadValueError, match="column 'a' of int64 has nulls: fill them with a transform"):
        list(ShoalRows(catalog, batch_size=6))

    def filled(table):
        return pyarrow.table({"a": table["a"].fill_null(1).cast("int16")})

    (batch,) = ShoalRows(catalog, batch_size=6, transform=filled)
    assert batch["a"].dtype == torch.int16 and sorted(batch["a"].tolist()) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(shoal.BadValueError, match="the transform made 2 rows of the 3 of sample"):
        list(ShoalRows(catalog, batch_size=6, transform=lambda table: table.drop_null().slice(0, 2)))
    with pytest.raises(TypeError, match="ShoalRows has no option 'keep_going'"):
        ShoalRows(catalog, batch_size=6, keep_going=True)


def test_a_state_of_samples_is_refused(tmp_path):
    write(tmp_path / "d", GROUPS["equal"])
    rows = ShoalRows(tmp_path / "d.cat", batch_size=7)
    with pytest.raises(shoal.Error):
        rows.load_state_dict(shoal.Order(str(tmp_path / "d.cat"), mode="window", batch_size=7).state_dict(1))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_deliver_the_same_batches(tmp_path, start):
    write(tmp_path / "d", GROUPS["irregular"])
    rows = ShoalRows(tmp_path / "d.cat", batch_size=4, window=2)
    want = [batch["a"].tolist() for batch in rows]
    rows.set_epoch(0)
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2, multiprocessing_context=start)
    assert [batch["a"].tolist() for batch in loader] == want


# ------------------------------------------------------------------------------------- columns and footers


@pytest.mark.parametrize("ranges, gap, want", [
    ([], 0, []), ([(4, 6)], 0, [(4, 6)]), ([(10, 5), (4, 6)], 0, [(4, 11)]), ([(0, 4), (5, 1)], 0, [(0, 4), (5, 1)]),
    ([(0, 4), (5, 1)], 1, [(0, 6)]), ([(0, 10), (2, 3)], 0, [(0, 10)]), ([(0, 10), (2, 3), (9, 2)], 0, [(0, 11)]),
    # What is read in vain is at most a quarter of the bytes, and the nearest are joined first, or they are near.
    ([(0, 40000), (60000, 40000), (118000, 40000)], 32768, [(0, 40000), (60000, 98000)]), ([(0, 10), (15, 5)], 9, [(0, 20)]),
    ([(0, 10), (16394, 10), (32789, 10)], 32768, [(0, 16404), (32789, 10)]),
])
def test_ranges_with_a_small_gap_are_one_read(ranges, gap, want):
    assert merged(ranges, gap) == want


def test_only_the_chunks_of_chosen_columns_are_read(tmp_path):
    write(tmp_path / "d", [[20000] * 2], extra=20)
    chosen, everything = (ShoalTables(tmp_path / "d.cat", columns=columns) for columns in (["x7", "a"], None))
    assert chosen[1].column_names == ["x7", "a"]
    assert chosen[1].equals(everything[1].select(["x7", "a"]))
    metadata = pyarrow.parquet.read_metadata(tmp_path / "d" / "000.parquet")
    group = metadata.row_group(1)
    want = sum(group.column(i).total_compressed_size for i in range(group.num_columns)
               if group.column(i).path_in_schema in ("a", "x7"))
    assert sum(len(data) for _, data in chosen.read([1])[0]) <= want + 2 * 16384


def test_columns_with_dots_in_their_names_and_nested_ones_are_found(tmp_path):
    table = pyarrow.table({"a.b": range(10), "s": [{"x": i, "y": {"z": [i]}} for i in range(10)], "m": [[i] * i for i in range(10)],
                           "k": pyarrow.array([[(str(i), i)] for i in range(10)], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
                           "d": pyarrow.array(["x"] * 10).dictionary_encode(), "z": range(10)})
    (tmp_path / "d").mkdir()
    pyarrow.parquet.write_table(table, tmp_path / "d" / "a.parquet", row_group_size=5)
    catalog = shoal.index(tmp_path / "d", tmp_path / "x.cat", samples="auto")
    for names in (["s"], ["k", "z"], ["m", "d"], ["z"]):
        assert ShoalTables(catalog, columns=names)[1].to_pydict() == table.select(names).slice(5).to_pydict()


def test_a_footer_is_read_once_by_all_workers_and_with_a_path_once_for_all(tmp_path):
    write(tmp_path / "d", [[10, 10]] * 3)
    log = tmp_path / "read.log"

    class Counted(ShoalTables):
        def _read_footer(self, file):
            with open(log, "a") as out:
                out.write(f"{file}\n")
            return super()._read_footer(file)

    tables = Counted(tmp_path / "d.cat", lambda table: table["a"].to_pylist(), columns=["a"], footers=str(tmp_path / "x.footers"))
    for _ in range(2):
        loader = torch.utils.data.DataLoader(tables, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert sum(loader, []) == list(range(60))
    assert sorted(log.read_text().split()) == ["0", "1", "2"]  # although both workers need each at the same time
    before = log.read_text()
    pickle.loads(pickle.dumps(tables.__getstate__()["_shared"]))
    tables = Counted(tmp_path / "d.cat", footers=str(tmp_path / "x.footers"))
    tables[5]
    assert log.read_text() == before
    write(tmp_path / "e", [[1]])
    with pytest.raises(shoal.Error, match="does not have the footers of this catalog"):
        ShoalTables(tmp_path / "e.cat", footers=str(tmp_path / "x.footers"))


def test_a_dataset_leaves_no_temporary_file(tmp_path):
    write(tmp_path / "d", [[10]])
    code = ("import sys; from shoal.torch import ShoalTables; t = ShoalTables(sys.argv[1]); t[0]; "
            "import os; print(os.path.exists(t._shared.path), t._shared.path)")
    out = subprocess.run([sys.executable, "-c", code, tmp_path / "d.cat"], check=True, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "TMPDIR": str(tmp_path)}).stdout.split()
    assert out[0] == "True" and not os.path.exists(out[1])
