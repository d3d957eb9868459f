"""gather_objects beside all_gather_object, over gloo; what fails, fails on all ranks, and none hangs."""
import os
import pickle
import random
import signal
import socket
import threading

import pytest
import torch.distributed as dist
from any_objects import random_object, same
from ranks import ends_of_ranks, run_ranks

from shoal.torch import gather
from shoal.torch.gather import GatheredFile, GatherError, gather_objects, iter_objects


class Late:
    """Fails to pickle after many bytes of it have been sent."""

    def __init__(self, size):
        self.size = size

    def __reduce__(self):
        return list, ([bytes(self.size), threading.Lock()],)


class Bomb:
    """Pickles, but does not come back on the rank that has BOMB set."""

    def __reduce__(self):
        return explode, ()


def explode():
    if os.environ.get("BOMB"):
        raise ZeroDivisionError("it went off")
    return 1


# ---- Between ranks ----


def compare(rank, world, seeds):
    for seed in seeds:
        rng = random.Random(1000 * seed + rank)
        obj = random_object(rng) if rank or seed % 3 else None
        expected = [None] * world
        dist.all_gather_object(expected, obj)
        budget = ["64MB", "400KB", 70000][seed % 3]
        assert same(gather_objects(obj, budget=budget), expected), seed
        assert same(list(iter_objects(obj, budget=budget)), expected), seed
        got = gather_objects(obj, budget=budget, to=world - 1)
        assert got is None if rank != world - 1 else same(got, expected), seed


@pytest.mark.parametrize("world", [2, 4])
def test_the_result_is_that_of_all_gather_object(world):
    run_ranks(world, compare, range(8))


def uneven(rank, world):
    for size in (0, 1, 10**6):
        obj = bytes(size * rank) if rank % 2 else None
        expected = [None] * world
        dist.all_gather_object(expected, obj)
        assert gather_objects(obj, budget="1MB") == expected


@pytest.mark.parametrize("world", [1, 2, 4])
def test_uneven_and_empty_objects_come_through(world):
    run_ranks(world, uneven)


def in_a_part_of_the_ranks(rank, world):
    group = dist.new_group([1, 3])
    if rank in (1, 3):
        assert gather_objects(rank * b"x" * 10**6, group=group, budget="1MB") == [b"x" * 10**6, b"x" * 3 * 10**6]
        assert gather_objects([rank], group=group, to=1) == ([[1], [3]] if rank == 3 else None)


def test_a_group_may_be_a_part_of_the_ranks():
    run_ranks(4, in_a_part_of_the_ranks)


def failing(rank, world, make, budget):
    with pytest.raises(GatherError) as caught:
        gather_objects(make(rank), budget=budget)
    assert list(caught.value.errors) == [1]
    assert "rank 1" in str(caught.value)
    return caught.value.errors[1]


def lock_on_rank_1(rank):
    return threading.Lock() if rank == 1 else bytes(10)


def late_on_rank_1(rank):
    return Late(3 * 10**6) if rank == 1 else bytes(10**6)


def bomb_on_rank_1(rank):
    if rank == 1:
        os.environ["BOMB"] = "1"
    return [Bomb() if rank == 0 else 2, bytes(10**6)]


@pytest.mark.parametrize("make, words", [(lock_on_rank_1, "pickle"), (late_on_rank_1, "pickle"),
                                         (bomb_on_rank_1, "it went off")])
@pytest.mark.parametrize("budget", ["500KB", "64MB"])
def test_what_fails_on_one_rank_is_told_on_all(make, words, budget):
    assert all(words in found for found in run_ranks(4, failing, make, budget))


class Quits:
    def __setstate__(self, state):
        if dist.get_rank() == 1:
            raise SystemExit("no more")

    def __getstate__(self):
        return {"x": 1}


class NoWords(Exception):
    def __str__(self):
        raise ValueError("none")


class Unspeakable:
    def __reduce__(self):
        raise NoWords


def quitting(rank, world):
    with pytest.raises(SystemExit if rank == 1 else GatherError, match="no more"):
        gather_objects(Quits())
    with pytest.raises(GatherError, match="rank 0: NoWords"):
        gather_objects(Unspeakable() if rank == 0 else 5)
    return gather_objects(rank)


def test_errors_that_are_no_exceptions_or_have_no_words_are_told_on_all():
    assert run_ranks(2, quitting) == [[0, 1]] * 2


def without_memory(rank, world, budget):
    if rank == 1:
        def fail(size):
            if threading.current_thread() is threading.main_thread():  # to receive; what is sent has room
                raise MemoryError("no room for a chunk")
            return real(size)

        gather._Chunk, real = fail, gather._Chunk
    with pytest.raises(GatherError, match="rank 1: MemoryError: no room"):
        gather_objects(bytes(10**6), budget=budget)
    if rank == 1:
        gather._Chunk = real
    return gather_objects(rank)


@pytest.mark.parametrize("budget", ["500KB", "64MB"])
def test_a_rank_without_memory_is_told_on_all(budget):
    assert run_ranks(2, without_memory, budget) == [[0, 1]] * 2


def failing_twice(rank, world):
    with pytest.raises(GatherError):
        gather_objects(lock_on_rank_1(rank))
    assert gather_objects(rank) == list(range(world))


def test_a_group_is_good_again_after_an_error():
    run_ranks(2, failing_twice)


def leaving(rank, world):
    for number, one in enumerate(iter_objects([rank] * 10**6, budget="1MB")):
        assert one[0] == number
        if rank == 1:
            break
    dist.barrier()
    return number


def test_a_rank_that_leaves_the_iteration_does_not_stop_the_others():
    assert run_ranks(4, leaving) == [3, 0, 3, 3]


def never_begun(rank, world, keep):
    iteration = iter_objects([rank] * 10**6, budget="1MB")
    first = [one[0] for one in iteration] if rank != 1 else None
    if not keep:
        del iteration
    return first, gather_objects(bytes([rank]) * 10**6, budget="1MB")[1][:2]


@pytest.mark.parametrize("keep", [True, False])
def test_an_iteration_that_a_rank_never_begins_spoils_nothing(keep):
    found = run_ranks(3, never_begun, keep)
    assert [first for first, _ in found] == [[0, 1, 2], None, [0, 1, 2]]
    assert [then for _, then in found] == [b"\1\1"] * 3


def kept_half_way(rank, world):
    iteration = iter_objects([rank] * 10**6, budget="1MB")
    first = next(iteration)[0] if rank == 1 else [one[0] for one in iteration]
    then = gather_objects(rank)
    with pytest.raises(RuntimeError if rank == 1 else StopIteration, match="ended by a later gather" if rank == 1 else ""):
        next(iteration)
    return first, then


def test_an_iteration_that_is_kept_half_way_ends_with_the_next_gather():
    assert run_ranks(3, kept_half_way) == [([0, 1, 2], [0, 1, 2]), (0, [0, 1, 2]), ([0, 1, 2], [0, 1, 2])]


def closed_unused(rank, world):
    iteration = iter_objects(rank)
    if rank == 0:
        iteration.close()
        assert list(iteration) == []
    else:
        assert list(iteration) == [0, 1]
    iteration.close()


def test_an_iteration_may_be_closed_before_it_is_used():
    run_ranks(2, closed_unused)


def interrupted(rank, world):
    if rank == 1:  # as after a gather that was begun and never met the other ranks
        gather._history_of(dist.group.WORLD).next_number()
    with pytest.raises(GatherError, match="rank 1: this is its 2nd gather in this group, but rank 0's 1st"):
        gather_objects(rank)
    return gather_objects(rank)


def test_ranks_that_are_in_different_gathers_are_told_and_meet_again():
    assert run_ranks(2, interrupted) == [[0, 1]] * 2


def dying(rank, world):
    if rank == 1:
        raise SystemExit("gone")
    with pytest.raises(RuntimeError):
        gather_objects(bytes(10**7), budget="1MB")


def test_a_rank_that_dies_is_an_error_for_the_others():
    with pytest.raises(AssertionError, match="gone"):
        run_ranks(2, dying)


class Dies:
    """Kills its rank in the middle of its stream."""

    def __init__(self, size):
        self.size = size

    def __reduce__(self):
        return list, ([bytes(self.size), Killer()],)


class Killer:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def killed_inside(rank, world, to, folder):
    """What a rank heard goes to a file: there is no group any more to tell it."""
    try:
        gather_objects(Dies(3 * 10**6) if rank == 1 else bytes(10**6), budget="500KB", to=to)
        words = "nothing"
    except GatherError as error:
        words = str(error)
        assert error.errors == {} and str(pickle.loads(pickle.dumps(error))) == words
    with open(os.path.join(folder, "told%d" % rank), "w") as file:
        file.write(words)
    os._exit(7)  # as a program that ends by what it was told


@pytest.mark.parametrize("to", ["all", 0, "path"])
def test_a_rank_that_is_killed_inside_a_gather_is_told_to_the_others_and_none_hangs(to, tmp_path):
    path = str(tmp_path / "all") if to == "path" else to
    assert ends_of_ranks(3, killed_inside, path, str(tmp_path)) == [7, -signal.SIGKILL, 7]
    told = {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)}
    assert set(told) == {"told0", "told2"}
    assert all("gather_objects lost another rank" in words for words in told.values()), told


# ---- What ranks must agree on ----


def with_budgets(rank, world, budgets):
    objects = [bytes([r]) * 3 * 10**6 for r in range(world)]
    for to in ("all", 1):
        found = gather_objects(objects[rank], budget=budgets[rank], to=to)
        assert found == (objects if to == "all" or rank == 1 else None)
    assert list(iter_objects(objects[rank], budget=budgets[rank])) == objects
    assert gather_objects(rank, budget=budgets[rank]) == [0, 1]


@pytest.mark.parametrize("budgets", [("64MB", "1MB"), ("200KB", "8MB")])
def test_of_different_budgets_the_least_counts(budgets):
    run_ranks(2, with_budgets, budgets)


class Unusual:
    def __fspath__(self):
        raise ZeroDivisionError("no path")


BAD = [({"budget": "x"}, "budget='x' is not a size"), ({"budget": None}, "budget must be a whole number of bytes"), ({"to": 99}, "to=99 is not a rank"),
       ({"to": 1.5}, "to=1.5"), ({"to": ""}, "to=''"), ({"budget": float("nan")}, "budget nan"),
       ({"to": Unusual()}, "ZeroDivisionError: no path")]


def with_bad(rank, world, arguments, words, iterate):
    given = arguments if rank == 1 else {}
    with pytest.raises((ValueError, TypeError, ZeroDivisionError) if rank == 1 else GatherError) as caught:
        list(iter_objects(rank, **given)) if iterate else gather_objects(rank, **given)
    if rank != 1:
        assert words in caught.value.errors[1] and list(caught.value.errors) == [1]
    return gather_objects(rank)


@pytest.mark.parametrize("arguments, words", BAD)
def test_a_bad_argument_on_one_rank_is_told_on_all(arguments, words):
    assert run_ranks(3, with_bad, arguments, words, False) == [[0, 1, 2]] * 3


def test_a_bad_argument_of_an_iteration_is_told_on_all():
    assert run_ranks(3, with_bad, *BAD[0], True) == [[0, 1, 2]] * 3


def to_different(rank, world, targets):
    with pytest.raises(GatherError, match="it gathers to .*, and rank 0 to"):
        gather_objects(rank, to=targets[rank])
    return gather_objects(rank)


@pytest.mark.parametrize("targets", [("all", 0), (1, 0), (0, "path")])
def test_ranks_that_gather_to_different_places_are_told(targets):
    assert run_ranks(2, to_different, targets) == [[0, 1]] * 2


def in_a_group_of_others(rank, world):
    group = dist.new_group([0])
    if rank == 1:
        with pytest.raises(ValueError, match="not in the group"):
            gather_objects(1, group=group)


def test_a_process_that_is_not_in_the_group_is_told():
    run_ranks(2, in_a_group_of_others)


# ---- Into a file ----


def into_file(rank, world, path):
    obj = [f"{rank}/{i}" for i in range(20000 * rank)]
    found = gather_objects(obj, to=path, budget="1MB")
    assert len(found) == world
    assert found[world - 1][0] == f"{world - 1}/0"
    assert [len(one) for one in found] == [20000 * r for r in range(world)]
    return sorted(os.listdir(os.path.dirname(path)))


def test_a_file_has_all_objects_and_nothing_is_left_beside_it(tmp_path):
    assert run_ranks(4, into_file, str(tmp_path / "all"))[0] == ["all"]


def into_nowhere(rank, world, path):
    with pytest.raises(GatherError, match="No such file"):
        gather_objects(rank, to=path)


def test_a_file_that_cannot_be_written_is_told_on_all(tmp_path):
    run_ranks(2, into_nowhere, str(tmp_path / "no" / "all"))


def onto(rank, world, path):
    with pytest.raises(GatherError, match="rank 0: ValueError: .* is not a file"):
        gather_objects(rank, to=path)


@pytest.mark.parametrize("kind", ["directory", "fifo", "socket"])
def test_what_is_not_a_file_is_not_replaced(kind, tmp_path):
    # Only what this test has made itself: code that fails it does replace what it is given.
    path = tmp_path / "there"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    before = os.stat(path)
    run_ranks(2, onto, path)
    assert os.path.samestat(os.stat(path), before)
    assert os.listdir(tmp_path) == ["there"]


def test_a_link_to_a_file_stays_one(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    assert gather_objects("new", to=tmp_path / "link")[0] == "new"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]
    assert (tmp_path / "link").is_symlink() and GatheredFile(tmp_path / "file")[0] == "new"


def failing_into_file(rank, world, path):
    with pytest.raises(GatherError):
        gather_objects(lock_on_rank_1(rank), to=path)
    dist.barrier()
    return os.listdir(os.path.dirname(path))


def test_a_gather_that_fails_leaves_no_file(tmp_path):
    assert run_ranks(2, failing_into_file, str(tmp_path / "all")) == [[], []]


def test_a_damaged_file_is_told_in_words(tmp_path):
    path = tmp_path / "all"
    gather_objects(list(range(100000)), to=path)  # one process is a group of its own
    whole = path.read_bytes()
    assert GatheredFile(path)[0] == list(range(100000))
    for cut in (0, 5, 10, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="truncated|not a file"):
            len(GatheredFile(path))
    for length in (2**62, 2**64 - 1):  # of the first record, after its kind
        path.write_bytes(whole[:11] + length.to_bytes(8, "little") + whole[19:])
        with pytest.raises(ValueError, match="damaged at object 0"):
            GatheredFile(path)[0]
    path.write_bytes(whole[:-20] + b"xxxx" + whole[-16:])
    with pytest.raises(ValueError, match="damaged"):
        len(GatheredFile(path))


def test_the_unfinished_file_of_another_stays(tmp_path):
    other = tmp_path / ("all.partial-%d" % os.getpid())
    other.write_text("mine")
    with pytest.raises(GatherError, match="FileExistsError"):
        gather_objects(1, to=tmp_path / "all")
    assert other.read_text() == "mine"


# ---- Arguments ----


@pytest.mark.parametrize("budget", ["", "x", "12 parsecs", "64 XB", "1", 0, 1, -5, -1.5, "-64MB", "63KiB", float("inf"), "1e999MB"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match="budget"):
        gather_objects(1, budget=budget)


@pytest.mark.parametrize("to, error", [(1, ValueError), (-1, ValueError), (None, TypeError), (True, TypeError)])
def test_a_destination_that_is_none_is_refused(to, error):
    with pytest.raises(error):
        gather_objects(1, to=to)


def test_without_a_group_there_is_one_object():
    obj = {"a": [1, 2]}
    found = gather_objects(obj)
    assert found == [obj] and found[0] is not obj


def peaks(rank, world, budget):
    obj = [f"{rank:05d}/{i:054d}" for i in range(400000)]  # 25 MB, 44 MB as strings

    def field(name):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))

    gather_objects([str(i) for i in range(9000)])  # what torch and threads take once
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    found = gather_objects(obj, budget=budget)
    return field("VmHWM") - field("VmRSS"), len(found)


def test_the_peak_is_the_result_and_two_budgets():
    for beyond, _ in run_ranks(4, peaks, 10 * 10**6):
        assert beyond <= 2 * 10 * 10**6
