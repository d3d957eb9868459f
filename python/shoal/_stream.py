"""Objects as a stream of bytes that neither side ever holds as a whole.

``pickle.dumps`` needs memory for the whole pickle besides the object, and for its memo, about 40
bytes for every string in it. Here an object becomes a sequence of records, each with a kind (1
byte), a length (8 bytes) and that many bytes:

- parts: large containers whose items are *plain* (strings, numbers, and tuples, lists, dicts and
  sets of those, in which no mutable object occurs twice) are sent first, in pieces of about a
  megabyte. Each piece is a pickle of its own, so that the memo never holds more than a piece;
- the rest: one pickle, which refers to the parts by number. If parts have a tail, a pickle of the
  tails precedes it. Buffers (NumPy arrays, tensors, bytearrays) have records of their own, and are
  received directly into their final memory.

Cutting a container into pieces must not be visible afterwards. It would be if two places shared a
mutable object, so an item is sent in a piece only if each mutable object in it has one reference.
From the first item on for which that is not so, the container's tail is sent with the rest, which
preserves sharing and loops, at the price of the memo. (Tuples and frozensets, which cannot be
filled later, are cut as a whole or not at all.)
"""

import collections
import io
import itertools
import pickle
import struct
import sys
from typing import Any, Callable, Optional

import numpy

from . import _shoal

_RECORD = struct.Struct("<BQ")
_PICKLE, _BUFFER, _PART, _PIECE, _TAIL = 1, 2, 3, 4, 5

_PIECE_BYTES = 1 << 20  # target size of a piece
_PART_MIN = 8192  # containers with fewer elements are not worth cutting
_PROBE = 1024  # items that must be plain for a container to be worth cutting
_NODES_MAX = 4096  # containers visited while searching for large ones

_ATOMS = frozenset(kind for kind in numpy.sctypeDict.values() if issubclass(kind, (numpy.number, numpy.bool_)))
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})
_FROZEN = frozenset({tuple, frozenset})


# ---- Which containers can be cut ------------------------------------------------------------------


def _walk(container):
    """A function of a count that gives the next items as a list; of a dict, pairs."""
    walk = iter(container.items() if type(container) is dict else container)
    return lambda count: list(itertools.islice(walk, count))


def _nr_plain(items, kind):
    return _shoal.count_plain(items, kind is dict, _ATOMS)


def _is_worth_cutting(container):
    kind, take = type(container), _walk(container)
    if len(container) < _PART_MIN:
        return False
    items = take(_PROBE)
    while _nr_plain(items, kind) == len(items):
        if kind not in _FROZEN:
            return True
        items = take(_PROBE)
        if not items:
            return True
    return False


def _search(queue, items):
    """Search the first of these for large containers, too. The queue never exceeds the number
    visited.
    """
    few = (item for item in itertools.islice(items, _NODES_MAX) if type(item) in _CONTAINERS)
    queue.extend(itertools.islice(few, max(0, _NODES_MAX - len(queue))))


# ---- Writing --------------------------------------------------------------------------------------


def _tensor_reduce(obj):
    """A tensor as a buffer, because torch's own pickling would copy it twice; None if torch must do
    it.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(obj) is not torch.Tensor:
        return None
    if (obj.layout is not torch.strided or obj.device.type != "cpu" or obj.requires_grad or obj.is_quantized
            or not obj.is_contiguous() or obj.is_conj() or obj.is_neg() or obj.numel() == 0 or vars(obj)):
        return None
    return _tensor_of, (pickle.PickleBuffer(obj.reshape(-1).view(torch.uint8).numpy()), obj.dtype,
                        tuple(obj.shape))


def _tensor_of(buffer, dtype, shape):
    import torch

    return torch.frombuffer(buffer, dtype=dtype).reshape(shape)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj):
        reduced = _tensor_reduce(obj)
        return NotImplemented if reduced is None else reduced


class _PartsPickler(_Pickler):
    """Calls back for every object, so it is used only if parts were found and the rest is small."""

    parts = {}  # id of a part: its number

    def persistent_id(self, obj):
        return self.parts.get(id(obj)) if type(obj) in _CONTAINERS else None


class _Writer:
    """The pickler's file: writes become records."""

    def __init__(self, sink):
        self._sink = sink

    def record(self, kind, data):
        view = memoryview(data).cast("B")
        self._sink(_RECORD.pack(kind, len(view)))
        self._sink(view)

    def write(self, data):
        self.record(_PICKLE, data)
        return len(data)

    def buffer(self, buffer):
        with buffer.raw() as view:
            self.record(_BUFFER, view)


def _write_part(part, writer):
    """Write the plain items, in slices that pickle to about _PIECE_BYTES each. Returns the tail, a
    list.
    """
    kind, take, count = type(part), _walk(part), _PROBE
    writer.record(_PART, pickle.dumps((kind.__name__, len(part)), 5))
    while True:
        items = take(count)
        # A container that cannot be filled later was checked as a whole before, and other threads
        # may have taken references to items since.
        nr = len(items) if kind in _FROZEN else _nr_plain(items, kind)
        if nr < len(items):
            tail = items[nr:] + take(None)
            del items[nr:]
        else:
            tail = []
        if items:
            data = pickle.dumps(items, 5)
            writer.record(_PIECE, data)
            count = max(64, min(4 * count, count * _PIECE_BYTES // max(len(data), 1)))
        if tail or not items:
            return tail


def _write_parts(obj, writer):
    """Find the large containers by visiting at most a few thousand others: [(part, tail), ...]."""
    parts, seen, queue = [], set(), collections.deque([obj])
    while queue and len(seen) < _NODES_MAX:
        node = queue.popleft()
        if type(node) not in _CONTAINERS or id(node) in seen:
            continue
        seen.add(id(node))
        if not _is_worth_cutting(node):
            _search(queue, node.values() if type(node) is dict else node)
            continue
        tail = _write_part(node, writer)
        if tail:
            writer.record(_TAIL, b"")
            _search(queue, (value for _, value in tail) if type(node) is dict else tail)
        parts.append((node, tail))
    return parts


def write(obj: Any, sink: Callable[[Any], Any]) -> None:
    """Pass the stream of an object to ``sink``, a function of bytes, which must not keep them after
    it returns.
    """
    writer = _Writer(sink)
    parts = _write_parts(obj, writer)
    kind = _PartsPickler if parts else _Pickler
    pickler = kind(writer, 5, buffer_callback=writer.buffer)
    pickler.parts = {id(part): number for number, (part, _) in enumerate(parts)}
    tails = [tail for _, tail in parts if tail]
    if tails:
        pickler.dump(tails)
    pickler.dump(obj)


# ---- Reading --------------------------------------------------------------------------------------


class EndedEarly(EOFError):
    """A stream ended before the object was complete."""


class _Chunks:
    """Bytes from consecutive chunks. A chunk is valid only until the next is requested."""

    def __init__(self, next_chunk):
        self._next = next_chunk
        self._view = memoryview(b"")

    def _some(self, size):
        """At least one and at most ``size`` bytes, lent."""
        while not self._view:
            self._view = self._next()
            if self._view is None:
                self._view = memoryview(b"")
                raise EndedEarly("the stream of an object is truncated")
        view, self._view = self._view[:size], self._view[size:]
        return view

    def into(self, target):
        done = 0
        while done < len(target):
            view = self._some(len(target) - done)
            target[done:done + len(view)] = view
            done += len(view)

    def take(self, size):
        """Bytes that are lent until the next call."""
        if size <= len(self._view):
            return self._some(size) if size else memoryview(b"")
        whole = bytearray(size)
        self.into(memoryview(whole))
        return memoryview(whole)

    def record(self):
        return _RECORD.unpack(self.take(_RECORD.size))


class _File:
    """The unpickler's file: the bytes of pickle records; buffers between them are stored for it."""

    def __init__(self, chunks, left):
        self._chunks = chunks
        self._left = left  # bytes left in the record
        self._buffers = collections.deque()

    def buffers(self):
        while True:
            yield self._buffers.popleft()

    def _fill(self):
        while not self._left:
            kind, self._left = self._chunks.record()
            if kind == _BUFFER:
                # The object keeps it: this is the only copy.
                self._buffers.append(bytearray(self._left))
                self._chunks.into(memoryview(self._buffers[-1]))
                self._left = 0
            elif kind != _PICKLE:
                raise pickle.UnpicklingError(f"a record of kind {kind} inside a pickle")

    def readinto(self, target):
        view, done = memoryview(target).cast("B"), 0
        while done < len(view):
            self._fill()
            n = min(self._left, len(view) - done)
            self._chunks.into(view[done:done + n])
            self._left -= n
            done += n
        return done

    def read(self, size):
        if 0 < size <= self._left:
            self._left -= size
            return bytes(self._chunks.take(size))
        data = bytearray(size)
        self.readinto(data)
        return bytes(data)

    def readline(self):
        line = io.BytesIO()
        while not line.getvalue().endswith(b"\n"):
            line.write(self.read(1))
        return line.getvalue()


class _Unpickler(pickle.Unpickler):
    parts = ()

    def persistent_load(self, number):
        return self.parts[number]


def _read_part(chunks, size):
    """A part, and the header of the record after it."""
    name, count = pickle.loads(chunks.take(size))
    whole = [None] * count if name in ("list", "tuple") else {} if name == "dict" else set()
    at = 0
    while True:
        kind, size = chunks.record()
        if kind != _PIECE:
            break
        piece = pickle.loads(chunks.take(size))
        if isinstance(whole, list):
            whole[at:at + len(piece)] = piece
        else:
            whole.update(piece)
        at += len(piece)
    if name == "tuple":
        whole = tuple(whole)
    elif name == "frozenset":
        whole = frozenset(whole)
    return whole, kind, size


def _add_tail(part, tail):
    if isinstance(part, list):
        part[len(part) - len(tail):] = tail
    else:
        part.update(tail)


def read(next_chunk: Callable[[], Optional[memoryview]]) -> Any:
    """Read the object of a stream; ``next_chunk()`` returns a memoryview, valid until its next
    call, or None at the end.
    """
    chunks = _Chunks(next_chunk)
    kind, size = chunks.record()
    parts, with_tails = [], []
    while kind == _PART:
        part, kind, size = _read_part(chunks, size)
        parts.append(part)
        if kind == _TAIL:
            with_tails.append(part)
            kind, size = chunks.record()
    file = _File(_Pushed(chunks, kind, size), 0)
    unpickler = _Unpickler(file, buffers=file.buffers())
    unpickler.parts = parts
    for part, tail in zip(with_tails, unpickler.load() if with_tails else ()):
        _add_tail(part, tail)
    return unpickler.load()


class _Pushed:
    """Chunks preceded by the header of one record, which was read already."""

    def __init__(self, chunks, kind, size):
        self._first = (kind, size)
        self._chunks = chunks
        self.into = chunks.into
        self.take = chunks.take

    def record(self):
        first, self._first = self._first, None
        return first or self._chunks.record()
