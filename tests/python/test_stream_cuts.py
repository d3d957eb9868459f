"""Cutting large containers out of a stream: what others do meanwhile, and what the search for them takes."""
import tracemalloc

import pytest

from shoal import _stream


def test_a_tuple_whose_items_are_taken_hold_of_while_it_is_written_comes_whole():
    obj = tuple([i] for i in range(30000))
    parts, held = [], []

    def sink(data):
        held.extend(obj)  # as another thread might
        parts.append(bytes(data))

    _stream.write(obj, sink)
    got = _stream.read(iter([memoryview(b"".join(parts)), None]).__next__)
    assert type(got) is tuple and got == obj


@pytest.mark.parametrize("make", [lambda: [["a"] * 4000 for _ in range(500)], lambda: [[[]] * 4000 for _ in range(500)],
                                  lambda: {i: {j: [] for j in range(500)} for i in range(500)}])
def test_the_search_for_large_containers_takes_little_memory(make):
    obj = make()
    tracemalloc.start()
    assert _stream._write_parts(obj, _stream._Writer(len)) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_large_container_is_found_behind_many_small_ones():
    large = [str(i) for i in range(10000)]
    for before in (4000, 5000):  # a few thousand are looked at, and no more
        parts = _stream._write_parts([["a", 1] for _ in range(before)] + [large], _stream._Writer(len))
        assert [part for part, _ in parts] == ([large] if before == 4000 else [])
