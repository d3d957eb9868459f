"""Objects as streams of bytes: what comes out is what went in. Without torch, for the address sanitizer."""
import gc
import pickle
import random

import numpy
import pytest

from any_objects import Point, random_object, same
from shoal import _shoal, _stream


def through(obj, size=1000):
    """An object as it comes out of a stream cut into chunks."""
    parts = []
    _stream.write(obj, lambda data: parts.append(bytes(data)))
    whole = b"".join(parts)
    chunks = [memoryview(whole[at:at + size]) for at in range(0, len(whole), size)]
    return _stream.read(iter(chunks + [None]).__next__)


@pytest.mark.parametrize("seed", range(25))
def test_an_object_is_the_same_after_its_stream_was_cut_anywhere(seed):
    rng = random.Random(seed)
    obj = [random_object(rng) for _ in range(4)]
    assert same(through(obj, rng.choice([1000, 4093, 1 << 20])), pickle.loads(pickle.dumps(obj)))


def test_chunks_of_one_byte_are_enough():
    obj = {"a": [1, b"xyz", numpy.arange(3)], "t": numpy.ones(2)}
    assert same(through(obj, 1), obj)


def test_objects_that_share_and_loop_share_and_loop_afterwards():
    inner = [1]
    shared = [inner] * 10000
    loop = Point(1)
    loop.next = loop
    big = [str(i) for i in range(10000)]
    got_shared, got_loop, first, second = through([shared, loop, big, big])
    assert all(one is got_shared[0] for one in got_shared)
    assert got_loop.next is got_loop
    assert first is second and first == big


def cuts(obj):
    """Of each part that was cut off: its items, and those of them that went with the rest."""
    return [(len(part), len(tail)) for part, tail in _stream._write_parts(obj, _stream._Writer(len))]


def test_plain_containers_are_cut_and_those_that_share_are_not():
    plain = [{"id": i, "box": [i]} for i in range(10000)]
    assert cuts(plain) == [(10000, 0)]
    plain[9500]["box"] = plain[9501]["box"]
    assert cuts(plain) == [(10000, 500)]
    plain[5]["box"] = plain[6]["box"]
    assert cuts(plain) == []
    assert cuts([str(i) for i in range(8191)]) == [] and cuts([str(i) for i in range(8192)]) == [(8192, 0)]
    assert cuts([Point(i) for i in range(10000)]) == []
    numbers = {i: numpy.float32(i) for i in range(10000)}
    assert cuts(Point(numbers)) == [] and cuts((numbers, set(range(9000)))) == [(10000, 0), (9000, 0)]
    assert cuts(tuple([i] for i in range(10000))) == [(10000, 0)]
    kept = [[i] for i in range(10000)]
    assert cuts(tuple(kept)) == []


def test_what_is_deep_is_not_cut():
    def nested(depth):
        return [i for i in range(3)] if depth == 0 else [nested(depth - 1)]

    for depth, found in ((15, [(8192, 0)]), (16, [])):
        deep = [nested(depth) for _ in range(8192)]
        assert cuts(deep) == found
        assert through(deep) == deep


def test_lists_in_tuples_that_are_shared_stay_shared():
    inner = ([1],)
    first, second = through([[inner] * 20000, {i: inner for i in range(20000)}])
    assert all(one[0] is first[0][0] for one in first) and all(one[0] is first[0][0] for one in second.values())


@pytest.mark.parametrize("at", [1024, 5000, 9999])
def test_what_shares_at_the_end_of_a_container_goes_with_the_rest(at):
    shared, loop = [7], []
    loop.append(loop)
    records = [{"id": [i]} for i in range(10000)]
    records[at]["id"] = shared
    by_name = {str(i): [i] for i in range(10000)}
    by_name[str(at)] = shared
    points = {Point.__new__(Point) for _ in range(3)} | set(range(10000))
    got = through([records, by_name, points, shared, loop, records])
    assert got[0] is got[5] and got[0] == records
    assert got[0][at]["id"] is got[3] and got[1][str(at)] is got[3]
    assert list(got[1].items()) == list(by_name.items())
    assert len(got[2]) == 10003 and set(range(10000)) <= got[2]
    assert got[4][0] is got[4]


def test_a_large_part_is_written_in_small_pieces():
    longest = 0

    def sink(data):
        nonlocal longest
        longest = max(longest, len(data))

    _stream.write([f"{i:060d}" for i in range(300000)], sink)  # 18 MB
    assert longest < 4 << 20


def test_a_stream_that_ends_early_says_so():
    parts = []
    _stream.write(list(range(20000)), lambda data: parts.append(bytes(data)))
    whole = b"".join(parts)
    for cut in (0, 1, 9, 100, len(whole) // 2, len(whole) - 1):
        with pytest.raises(EOFError):
            _stream.read(iter([memoryview(whole[:cut]), None]).__next__)


@pytest.mark.parametrize("kind", ["list", "dict", "keys"])
def test_garbage_that_is_collected_on_the_way_may_change_what_is_looked_at(kind):
    """Finalizers are anybody's code, and run where Python allocates: before 3.12 also in the middle of this."""
    items = []

    class Clears:
        def __init__(self):
            self.loop = self

        def __del__(self):
            items.clear()

    def nest():
        inner = [{i} for i in range(10)] + [[frozenset([i])] for i in range(10)]
        return {"list": [inner], "dict": dict(enumerate(inner)), "keys": {(frozenset([i]),): [{i}] for i in range(10)}}[kind]

    before = gc.get_threshold()
    gc.disable()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            items.extend(nest() for _ in range(3))
            copy, atoms = [items], frozenset()
            Clears()
            gc.enable()
            nr = _shoal.count_plain(copy, False, atoms)
            gc.disable()
            assert 0 <= nr <= 1
            items.clear()
            gc.collect()
    finally:
        gc.set_threshold(*before)
        gc.enable()
