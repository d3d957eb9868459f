import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import shoal
from shoal import Audit
from conftest import content, make_files


def check(batch):
    for sample in batch:
        assert bytes(sample) == content(sample.id) and len(sample) == len(content(sample.id)) and sample.error == 0


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_each_epoch_is_whole_and_in_its_order(files, engine):
    order = shoal.Order(shoal.Catalog(files), seed=9)
    with shoal.Loader(files, 32, seed=9, engine=engine) as loader:
        digests = set()
        for epoch in (0, 1, 7):
            ids = []
            for step, batch in enumerate(loader.epoch(epoch)):
                assert batch.step == step
                check(batch)
                ids += batch.ids.tolist()
            order.set_epoch(epoch)
            assert ids == list(order)
            assert loader.audit.exactly_once and loader.audit.samples == 600
            digests.add(loader.audit.order_digest)
        assert len(digests) == 3 and len(loader) == 19
        assert loader.stats["bytes_delivered"] == loader.catalog.nr_bytes


def test_without_a_number_each_epoch_is_the_next(files):
    with shoal.Loader(files, 100) as loader:
        first, second = ([i for batch in loader for i in batch.ids] for _ in range(2))
        assert sorted(first) == sorted(second) == list(range(600)) and first != second
        assert second == list(shoal.Order(600, epoch=1))


def test_an_order_may_be_of_a_range_of_the_samples(files):
    with shoal.Loader(files, 16, seed=9, ids=range(100, 300)) as loader:
        for epoch in (0, 3):
            batches = list(loader.epoch(epoch))
            for batch in batches:
                check(batch)
            assert [i - 100 for batch in batches for i in batch.ids.tolist()] == list(shoal.Order(200, seed=9, epoch=epoch))
            assert loader.audit.exactly_once and loader.audit.samples == 200 and len(loader) == 13
        state = loader.state_dict()
    with shoal.Loader(files, 16, seed=9, ids=range(300, 500)) as other, pytest.raises(shoal.StaleError):
        other.load_state_dict(state)
    with shoal.Loader(files, 16, seed=9, ids=range(100, 300), world_size=2) as again:
        again.load_state_dict(state)
    for wrong in (range(0, 0), range(500, 601), range(-1, 5)):
        with pytest.raises(shoal.BadValueError, match="there are no samples"):
            shoal.Loader(files, 16, ids=wrong)
    for wrong in (200, [1, 2], range(0, 100, 2)):
        with pytest.raises(TypeError, match="ids must be a range"):
            shoal.Loader(files, 16, ids=wrong)


def test_nothing_is_read_for_steps_that_are_not_taken(files):
    with shoal.Loader(files, 10, prefetch=16, steps=3) as loader:
        assert len(loader) == 3
        for epoch in (0, 1):
            expected = list(shoal.Order(600, epoch=epoch))[:30]
            assert [i for batch in loader.epoch(epoch) for i in batch.ids.tolist()] == expected
            assert loader.audit.exactly_once and loader.audit.samples == 30
            assert loader.stats["bytes_asked"] == sum(len(content(i)) for i in expected)
    with shoal.Loader(files, 10, steps=100) as loader:
        assert len(loader) == 60 and sum(map(len, loader)) == 600
    with pytest.raises(shoal.BadValueError, match="steps must be at least 1"):
        shoal.Loader(files, 10, steps=0)


def test_views_keep_their_batch_and_the_loader_alive(files):
    loader = shoal.Loader(files, 10, prefetch=1)
    kept = {}
    for batch in loader.epoch(0):
        kept[int(batch.ids[3])] = numpy.frombuffer(batch[3], dtype=numpy.uint8)
    loader.close()
    del loader, batch
    gc.collect()
    assert len(kept) == 60
    for i, view in kept.items():
        assert view.tobytes() == content(i) and view.flags.writeable


def test_batches_are_lent_without_a_copy_until_too_many_are_held(files):
    loader = shoal.Loader(files, 10, prefetch=2)
    assert not any(batch.handle.copied for batch in loader.epoch(0))
    batches = list(loader.epoch(1))
    assert len(batches) == 60 and sum(batch.handle.copied for batch in batches) == 57
    for batch in batches:
        check(batch)
    assert sorted(i for batch in batches for i in batch.ids) == list(range(600))


def test_a_batch_stacks_into_rows(files):
    with shoal.Loader(files, 7, mode="sequential") as loader:
        batch = next(iter(loader))
        assert batch.lengths.tolist() == [len(content(i)) for i in range(7)]
        rows = batch.stack()
        assert rows.shape == (7, 12) and all(row.tobytes() == content(i).ljust(12, b"\0") for i, row in enumerate(rows))
        assert batch.stack(3).tobytes() == b"".join(content(i)[:3] for i in range(7))
        assert batch.stack(20, fill=255)[0].tobytes() == content(0) + b"\xff" * 14
        assert [array.tobytes() for array in batch.arrays()] == [content(i) for i in range(7)]
        assert [sample.id for sample in batch[2:4]] == [2, 3] and batch[-1].id == 6
        with pytest.raises(IndexError):
            batch[7]
        with pytest.raises(ValueError):
            batch.handle.stack(bytearray(10), 12, 0)


def test_samples_of_one_length_stack_without_a_copy(pattern):
    with shoal.Loader(pattern(100, 5000), 8, data="null:size=5000", prefetch=1) as loader:
        rows = []
        for batch in loader:
            stacked = batch.stack()
            first = numpy.frombuffer(batch[0], dtype=numpy.uint8)
            assert stacked.shape == (len(batch), 5000) and numpy.shares_memory(stacked, first)
            assert [row.tobytes() for row in stacked] == [bytes(sample) for sample in batch]
            rows.append((stacked, [bytes(sample) for sample in batch]))
            assert not numpy.shares_memory(batch.stack(4999), first) and batch.stack(6000).shape[1] == 6000
    del batch, stacked, first, loader
    for stacked, kept in rows:  # also the copies, and after all else is gone
        assert [row.tobytes() for row in stacked] == kept


@pytest.mark.parametrize("mode", ["global", "local", "window"])
@pytest.mark.parametrize("remainder", ["drop", "pad", "keep"])
def test_workers_share_a_rank_in_turn_and_audits_add_up(files, mode, remainder):
    def order(rank):
        return shoal.Order(600, batch_size=8, seed=2, mode=mode, remainder=remainder, rank=rank, world_size=3)
    total = None
    for rank in range(3):
        steps = {}
        for worker in range(4):
            with shoal.Loader(files, 8, seed=2, mode=mode, remainder=remainder, rank=rank, world_size=3, worker=worker,
                              workers=4) as loader:
                mine = [(batch.step, batch.ids.tolist()) for batch in loader.epoch(0)]
                assert [step % 4 for step, _ in mine] == [worker] * len(mine) and len(mine) == len(loader)
                steps.update(mine)
                total = loader.audit if total is None else total + loader.audit
        assert [steps[s] for s in range(len(steps))] == [batch.tolist() for batch in order(rank).batches()]
        assert len(steps) == order(rank).steps
    assert total.exactly_once
    short = Audit(total.samples - 1, *total._values()[1:])
    assert not short.exactly_once


def test_a_state_goes_on_in_another_loader(files):
    loader = shoal.Loader(files, 16, seed=3)
    batches = loader.epoch(4)
    read = [i for _ in range(5) for i in next(batches).ids]
    state = loader.state_dict()
    assert (state["epoch"], state["consumed"]) == (4, 80)
    other = shoal.Loader(files, 25)
    other.load_state_dict(state)
    assert len(other) == 21
    rest = [i for batch in other for i in batch.ids]
    assert sorted(read + rest) == list(range(600)) and other.audit.exactly_once and other.audit.samples == 520
    assert other.state_dict()["epoch"] == 5
    assert sorted(i for batch in other for i in batch.ids) == list(range(600))


class Ranges:
    """What a loader has announced, and has not taken back."""

    def __init__(self):
        self.now, self.nr = [], 0

    def register(self, address, length):
        self.now.append((address, length))
        self.nr += 1

    def unregister(self, address, length):
        self.now.remove((address, length))
        ctypes.memset(address, 0, length)  # it is still mapped

    def has(self, sample):
        view = numpy.frombuffer(sample, dtype=numpy.uint8)
        return any(at <= view.ctypes.data and view.ctypes.data + len(view) <= at + length for at, length in self.now)


def test_samples_lie_in_the_memory_that_was_announced(files):
    ranges = Ranges()
    loader = shoal.Loader(files, 16, seed=3, register=ranges.register, unregister=ranges.unregister)
    assert ranges.nr == 0  # nothing is open yet
    for epoch in range(2):
        for batch in loader.epoch(epoch):
            check(batch)
            assert all(ranges.has(sample) for sample in batch)
    assert ranges.nr == 1 and loader.stats["pool_bytes"] <= ranges.now[0][1]
    state = loader.state_dict()
    loader.load_state_dict(state)  # opens another, while a batch of the first is held
    held = next(loader.epoch(2))
    assert ranges.nr == 2 and len(ranges.now) == 2 and ranges.has(batch[0]) and ranges.has(held[0])
    loader.close()
    assert len(ranges.now) == 2
    del batch, held
    assert not ranges.now


def test_exceptions_of_what_registers_memory_are_raised(files):
    ranges = Ranges()

    def refuse(address, length):
        raise LookupError("no GPU")

    for _ in range(2):  # the loader stays usable
        with shoal.Loader(files, 16, register=refuse, unregister=ranges.unregister) as loader:
            with pytest.raises(LookupError, match="no GPU"):
                next(loader.epoch(0))
            with pytest.raises(LookupError, match="no GPU"):
                next(loader.epoch(0))
    with shoal.Loader(files, 16, data="/nowhere/at/all", object_size=5, register=ranges.register,
                      unregister=ranges.unregister) as loader, pytest.raises(shoal.Error):
        next(loader.epoch(0))
    assert ranges.nr == 1 and not ranges.now
    loader = shoal.Loader(files, 16, register=ranges.register, unregister=refuse)
    next(loader.epoch(0))
    with pytest.raises(LookupError, match="no GPU"):
        loader.close()
    loader.close()
    with pytest.raises(TypeError, match="together"):
        shoal.Loader(files, 16, register=refuse)
    with pytest.raises(TypeError, match="unregister must be a function"):
        shoal.Loader(files, 16, register=refuse, unregister=5)


def test_nothing_refers_to_what_registers_memory_after_the_loader(files):
    ranges = Ranges()
    before = sys.getrefcount(ranges)
    for _ in range(3):
        with shoal.Loader(files, 16, register=ranges.register, unregister=ranges.unregister) as loader:
            next(loader.epoch(0))
        del loader
    gc.collect()
    assert sys.getrefcount(ranges) == before and ranges.nr == 3 and not ranges.now


def test_what_cannot_be_read_is_named_or_skipped(tmp_path):
    (tmp_path / "data").mkdir()
    make_files(tmp_path / "data", 50)
    catalog = shoal.index(tmp_path / "data", tmp_path / "c.cat")
    os.unlink(tmp_path / "data" / catalog[7])
    with open(tmp_path / "data" / catalog[9], "ab") as file:
        file.write(b"more")
    os.truncate(tmp_path / "data" / catalog[11], 3)
    with shoal.Loader(catalog, 10, mode="sequential") as loader:
        with pytest.raises(FileNotFoundError, match="f000007.bin"):
            list(loader)
    with shoal.Loader(catalog, 10, mode="sequential", keep_going=True) as loader:
        errors = {int(i): int(e) for batch in loader for i, e in zip(batch.ids, batch.errors) if e}
        assert sorted(errors) == [7, 9, 11] and not loader.audit.exactly_once and loader.audit.errors == 3
        assert "f000009.bin" in loader.stats["first_errors"][1]


def test_an_epoch_may_be_left_for_another_and_an_old_iterator_says_so(files):
    with shoal.Loader(files, 10) as loader:
        old = loader.epoch(0)
        next(old)
        new = loader.epoch(0)
        ids = list(next(new).ids)
        with pytest.raises(RuntimeError, match="meanwhile"):
            next(old)
        ids += [i for batch in new for i in batch.ids]
        assert sorted(ids) == list(range(600))
    loader = shoal.Loader(files, 10)
    batches = loader.epoch(0)
    next(batches)
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(batches)


def test_a_closed_loader_is_not_opened_again(files):
    loader = shoal.Loader(files, 10)
    view = next(loader.epoch(0)).stack()
    waiting = loader.epoch(1)
    loader.close()
    loader.close()
    for use in (iter, lambda l: l.epoch(0), lambda l: l.stats, lambda l: next(waiting)):
        with pytest.raises(ValueError, match="the loader is closed"):
            use(loader)
    assert bytes(view[0][:6]).isdigit()  # good for as long as it is held


@pytest.mark.parametrize("in_flight", [0, -1])
def test_no_reads_in_flight_are_refused(files, in_flight):
    with pytest.raises(shoal.BadValueError, match="in_flight must be at least 1"):
        shoal.Loader(files, 10, in_flight=in_flight)


def test_the_number_of_reading_threads_can_be_set(files):
    with shoal.Loader(files, 10, threads=3) as loader:
        assert sum(len(batch) for batch in loader.epoch(0)) == len(loader.catalog)
        assert loader.audit.exactly_once
        assert loader.stats["engine"] == "threads"
        assert loader.stats["engine_detail"].startswith("3 threads with calls on ")
        assert "as requested" in loader.stats["engine_detail"]
    with pytest.raises(shoal.BadValueError, match="threads must be at least 1"):
        shoal.Loader(files, 10, threads=0)
    with pytest.raises(ValueError, match="257 threads: there must be 1 to 256"):
        list(shoal.Loader(files, 10, threads=257).epoch(0))


def test_a_loader_is_not_used_in_a_child_or_by_two_threads(files):
    loader = shoal.Loader(files, 10)
    batches = loader.epoch(0)
    next(batches)
    pid = os.fork()
    if pid == 0:
        try:
            next(batches)
        except RuntimeError as e:
            del batches, loader  # freed without waiting for a thread that is not here
            os._exit(42 if "another process" in str(e) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
    slow = shoal.Loader(files, 600, data="null:size=10,delay_us=3000000", object_size=10, engine="threads",
                        in_flight=600)
    raised = []

    def take(what):
        try:
            what()
        except RuntimeError as e:
            raised.append(str(e))

    thread = threading.Thread(target=take, args=(lambda: list(slow.epoch(0)),))
    thread.start()
    while slow.handle is None:  # until the other thread has opened the epoch
        time.sleep(0.01)
    take(lambda: slow.handle.next())  # whichever of the two comes second is refused
    thread.join()
    assert len(raised) == 1 and "another thread" in raised[0]


def test_ctrl_c_is_heard_while_a_read_hangs(files, tmp_path):
    script = ("import shoal, sys\n"
              "loader = shoal.Loader(%r, 10, data='null:size=10,delay_us=60000000', object_size=10, stall=0.1)\n"
              "print('begun', flush=True)\n"
              "try:\n    next(loader.epoch(0))\n"
              "except KeyboardInterrupt:\n    print('heard', flush=True)\n    import os; os._exit(0)\n" % files)
    child = subprocess.Popen([sys.executable, "-W", "always", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
    assert child.stdout.readline() == "begun\n"
    while "in flight for longer" not in (line := child.stderr.readline()):
        assert line, "it ended by itself"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "heard\n"


def test_what_makes_no_sense_is_said_in_words(files, tmp_path):
    for wrong, says in ((dict(batch_size=0), "batch_size"), (dict(engine="fast"), "engine must be one of"),
                        (dict(worker=3, workers=3), "no worker 3 of 3"),
                        (dict(prefetch=0), "prefetch"), (dict(rank=1), "no rank 1 of 1")):
        with pytest.raises(ValueError, match=says):
            shoal.Loader(files, **{**dict(batch_size=8), **wrong})
    with pytest.raises(shoal.Error, match="nowhere"):
        list(shoal.Loader(files, 8, data="/nowhere"))
    with pytest.raises(ValueError, match="no epoch"):
        shoal.Loader(files, 8).stats


def test_what_is_skipped_is_skipped_in_one_epoch_and_counts_in_the_state(files):
    loader = shoal.Loader(files, 100, mode="sequential")
    loader.seek(0, 0, 2)
    assert [batch.ids[0] for batch in loader.epoch(0)] == [200, 300, 400, 500] and loader.audit is None
    for epoch in (1, 2):
        assert [batch.ids[0] for batch in loader.epoch(epoch)] == [0, 100, 200, 300, 400, 500]
        assert loader.audit.exactly_once
    loader.seek(3, 0, 2)
    assert len(list(loader.epoch(4))) == 6  # another than the one that was meant
    loader.seek(0, 0, 2)
    states = [loader.state_dict()]
    batches = loader.epoch(0)
    for _ in range(3):
        next(batches)
        states.append(loader.state_dict())
    assert [state["consumed"] for state in states] == [200, 300, 400, 500]
    other = shoal.Loader(files, 100, mode="sequential")
    other.load_state_dict(states[1])
    assert [batch.ids[0] for batch in other] == [300, 400, 500]


def test_a_seek_ends_an_iteration_that_is_under_way_with_words(files):
    loader = shoal.Loader(files, 100, mode="sequential")
    for taken in (1, 6):  # also behind the last batch, where the end is still to come
        batches = loader.epoch(0)
        for _ in range(taken):
            next(batches)
        loader.seek(1, 0)
        with pytest.raises(RuntimeError, match="another epoch of it begun"):
            next(batches)
        assert [batch.ids[0] for batch in loader] == [0, 100, 200, 300, 400, 500] and loader.audit.exactly_once


def test_a_stall_is_told_of_names_that_are_cut_inside_a_character_or_are_no_text(tmp_path):
    for name in (b"a" + "\u00fc".encode() * 100, b"\xff" * 10):
        folder = tmp_path / str(len(name))
        folder.mkdir()
        path = os.path.join(os.fsencode(folder), name)
        open(path, "wb").write(b"x")
        catalog = shoal.index(str(folder), str(folder) + ".cat")
        loader = shoal.Loader(catalog, 1, data="null:size=1,delay_us=700000", object_size=1, stall=0.2)
        with pytest.warns(RuntimeWarning, match="in flight for longer"):
            assert len(list(loader.epoch(0))) == 1


def test_rows_with_gaps_are_no_contiguous_memory(tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(8):
        (tmp_path / "data" / str(i)).write_bytes(b"%d" % i * 100)
    catalog = shoal.index(str(tmp_path / "data"), str(tmp_path / "x.cat"))
    batch = next(shoal.Loader(catalog, 8, slot=5000, mode="sequential").epoch(0))
    view = memoryview(batch.handle)
    assert not view.c_contiguous and batch.stack()[3].tobytes() == b"3" * 100
    with pytest.raises(BufferError):
        ctypes_view(batch.handle)


def ctypes_view(handle):
    """A view as C code asks for it that knows no strides but wants rows: PyBUF_C_CONTIGUOUS."""
    view = ctypes.create_string_buffer(256)
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get(handle, view, 0x20 | 0x18)
    ctypes.pythonapi.PyBuffer_Release(view)


# ---- Memory ----


def buffers(catalog, ids):
    """Bytes of buffer that these samples need: whole pages, and room for one byte more."""
    return sum((catalog.size(i) + 4096) // 4096 * 4096 for i in ids)


@pytest.fixture(scope="module")
def outlier(tmp_path_factory):
    """A catalog of 600 small files and one that is 15,000 times as large."""
    folder = tmp_path_factory.mktemp("outlier")
    (folder / "data").mkdir()
    for i in range(600):
        (folder / "data" / ("%03d" % i)).write_bytes(b"%03d" % i * 333)
    (folder / "data" / "large").write_bytes(b"x" * 15_300_000)
    shoal.index(str(folder / "data"), str(folder / "x.cat"))
    return str(folder / "x.cat")


READ_OUTLIER = """
import re, sys, shoal
with shoal.Loader(sys.argv[1], 256, engine=sys.argv[2]) as loader:
    for epoch in range(2):
        for batch in loader.epoch(epoch):
            for sample in batch:
                assert len(sample) in (999, 15300000)
    pool = loader.stats["pool_bytes"]
print(pool, int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_one_large_file_does_not_make_all_buffers_large(outlier, engine):
    pool, peak = map(int, subprocess.check_output([sys.executable, "-c", READ_OUTLIER, outlier, engine]).split())
    sanitized = "libasan" in os.environ.get("LD_PRELOAD", "")  # which has memory of its own
    assert pool < 40e6 and (peak < 120e6 or sanitized)


def test_a_loop_ends_with_any_memory_that_holds_one_batch(outlier):
    catalog = shoal.Catalog(outlier)
    order = list(shoal.Order(catalog))
    needs = [buffers(catalog, order[i:i + 100]) for i in range(0, 601, 100)]
    step = needs.index(max(needs))
    with shoal.Loader(catalog, 100, memory=max(needs)) as loader:
        for epoch in range(2):
            for batch in loader.epoch(epoch):  # each is held while the next is taken
                assert all(len(sample) in (999, 15_300_000) for sample in batch)
            assert loader.audit.exactly_once
    with shoal.Loader(catalog, 100, memory=max(needs) - 1) as loader:
        taken = []
        with pytest.raises(MemoryError, match="the batch of step %d needs %d bytes of memory, and the limit is %d: raise "
                           "the memory limit or lower the batch size" % (step, max(needs), max(needs) - 1)):
            for batch in loader.epoch(0):
                taken.append(batch.step)
        assert taken == list(range(step))


def test_batches_that_are_kept_do_not_stop_a_loader_with_a_limit(files):
    with shoal.Loader(files, 10, memory=10 * 4096, prefetch=4) as loader:
        kept = list(loader.epoch(0))
        assert len(kept) == 60 and loader.audit.exactly_once
        for batch in kept:
            check(batch)


def test_the_limit_of_steps_counts_from_the_beginning_of_an_epoch_that_is_resumed(tmp_path):
    (tmp_path / "d").mkdir()
    make_files(tmp_path / "d", 200)
    catalog = shoal.index(tmp_path / "d", tmp_path / "c.cat")
    first = shoal.Loader(catalog, 4, seed=1, steps=20)
    batches = iter(first)
    for _ in range(12):
        next(batches)
    again = shoal.Loader(catalog, 4, seed=1, steps=20)
    again.load_state_dict(first.state_dict())
    assert len(again) == 8 and len(list(again)) == 8
    assert len(again) == 20 and len(list(again)) == 20
