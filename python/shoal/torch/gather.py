"""Gather Python objects from all ranks, in memory that is bounded in bytes.

``torch.distributed.all_gather_object`` pickles the whole object, pads it to the largest of all
ranks, receives all of them into one buffer (on the GPU with NCCL) and only then unpickles: (2 W +
2) times the object besides the object itself. ``gather_objects`` has the same result; each rank in
turn streams its object in chunks, which the others unpickle as they arrive (see _stream.py), so
that only a few chunks are held besides the result.
"""

from __future__ import annotations

import collections
import contextlib
import os
import struct
import sys
import threading
import weakref
from typing import Any, Callable, Deque, Dict, Generator, Iterator, List, Literal, Optional, Sequence, Tuple, Union, overload

import torch
import torch.distributed as dist

from .. import _stream
from .._errors import BadValueError
from .._units import size_of
from .gathered import GatheredFile, target_of, write_file

__all__ = ["GatherError", "GatheredFile", "gather_objects", "iter_objects"]

_CHUNK_MAX = 8 << 20
_BUFFERS = 5  # chunks that a rank may hold: three to send, two to receive
_TRAILER = 8  # after each chunk: the length of the next one
_END, _ABORTED = 0, -1
_WORDS_MAX = 4096  # maximum length of an error message, in bytes
_GREETING = 0x5368_6F61_6C47  # a rank that sends anything else is in another collective
_ALL, _FILE = -1, -2  # destinations other than ranks



class GatherError(RuntimeError):
    """One or more ranks failed inside a gather: raised on all of them. ``errors`` has the messages
    by rank; it is empty if a rank was lost, which cannot report anything.
    """

    def __init__(self, errors: Dict[int, str], lost: Optional[str] = None) -> None:
        self.errors, self._lost = dict(errors), lost
        words = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(self.errors.items()))
        super().__init__(f"gather_objects failed on {words}" if lost is None else
                         "gather_objects lost another rank: it has died, left the group, or does not answer. That rank's "
                         f"own output has the reason; start the ranks again. Seen here: {lost}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return GatherError, (self.errors, self._lost)


def _parse_budget(budget: Any) -> int:
    if isinstance(budget, float) and not 0 < budget < 2**62:
        raise BadValueError(22, f"budget {budget!r} is not a number of bytes")
    size = size_of("budget", int(budget) if isinstance(budget, float) else budget)  # such as 64e6
    if size < 1 << 16:
        raise BadValueError(22, f"budget {budget!r} is too small: give at least 64KiB")
    return min(size, 1 << 62)


def _parse_to(to: Any, size: int) -> int:
    """_ALL, _FILE or a rank of a group of this size."""
    if isinstance(to, bool) or not isinstance(to, (str, os.PathLike, int)):
        raise TypeError(f"to={to!r}: give 'all', a rank or a path")
    if isinstance(to, int):
        if not 0 <= to < size:
            raise ValueError(f"to={to} is not a rank of the group, which has {size}")
        return to
    if not os.fspath(to):
        raise ValueError("to='': give 'all', a rank or a path")
    return _ALL if to == "all" else _FILE


# ---- Between the ranks ----------------------------------------------------------------------------


def _takes_cpu(group: Any) -> bool:
    """Whether the group transfers tensors in main memory."""
    name = str(dist.get_backend(group)).lower()
    if name == "nccl":
        return False
    try:  # since torch 2.0 a group may have one backend per kind of device
        group._get_backend(torch.device("cpu"))
        return True
    except (AttributeError, RuntimeError):
        return "nccl" not in name or "cpu" in name


def _ranks_of(group: Any) -> List[int]:
    if group is None or group is dist.group.WORLD:
        return list(range(dist.get_world_size()))
    c10d: Any = dist.distributed_c10d
    if hasattr(c10d, "get_process_group_ranks"):
        return list(c10d.get_process_group_ranks(group))
    get = getattr(c10d, "get_global_rank", None) or c10d._get_global_rank
    return [get(group, rank) for rank in range(dist.get_world_size(group))]


def _cpu_group_like(group: Any) -> Any:
    """An existing group of the same ranks over main memory, or None. All ranks find the same one.
    """
    c10d: Any = dist.distributed_c10d
    known = getattr(getattr(c10d, "_world", c10d), "pg_map", None) or getattr(c10d, "_pg_map", {})
    ranks = _ranks_of(group)
    for other in known:
        if dist.get_world_size(other) == len(ranks) and _takes_cpu(other) and _ranks_of(other) == ranks:
            return other
    return None


class _History:
    """This process's gathers in a group: how many, and iterations that may be incomplete."""

    def __init__(self) -> None:
        self.count = 0
        self._iterations: weakref.WeakSet[_Iteration] = weakref.WeakSet()

    def next_number(self) -> int:
        self.count += 1
        return self.count

    def add(self, iteration: _Iteration) -> None:
        self._iterations.add(iteration)

    def end_before(self, number: int) -> None:
        """End earlier iterations that are incomplete: a later gather would receive their bytes."""
        for one in sorted(self._iterations, key=lambda one: one.number):
            if one.number < number:
                self._iterations.discard(one)
                one.end()


_histories: weakref.WeakKeyDictionary[Any, _History] = weakref.WeakKeyDictionary()  # of groups


def _history_of(group: Any) -> _History:
    return _histories.setdefault(group, _History())


class _Sent:
    """A transfer in progress. wait() ends it; with a GPU, that is when the bytes have been copied
    out.
    """

    def __init__(self, work: Any = None, wire: Optional[_Wire] = None, then: Optional[Callable[[], Any]] = None) -> None:
        self._work, self._wire, self._then = work, wire, then

    def wait(self) -> None:
        if self._work is not None and self._wire is not None:
            with self._wire.whole():
                self._work.wait()
            if self._then:
                self._then()
        self._work = self._then = None


class _Wire:
    """Small collectives, and one chunk at a time, in main memory or through one buffer on the GPU.
    """

    def __init__(self, group: Any) -> None:
        self.group = group
        self._device: Optional[torch.device] = None
        self._staging: Optional[torch.Tensor] = None
        self._lost: Optional[GatherError] = None
        if dist.get_rank(group) < 0:
            raise ValueError("this process is not in the group that it gathers in")
        if not _takes_cpu(group):
            other = _cpu_group_like(group)
            if other is not None:
                self.group = other
            else:
                self._device = torch.device("cuda", torch.cuda.current_device())
        self.rank = dist.get_rank(self.group)
        self.size = dist.get_world_size(self.group)
        self.history = _history_of(dist.group.WORLD if self.group is None else self.group)
        self._ranks = _ranks_of(self.group)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Around each call to the group. Once a rank is lost the others may have left: nothing more
        is waited for.
        """
        if self._lost is not None:
            raise self._lost
        try:
            yield
        except RuntimeError as error:
            self._lost = GatherError({}, str(error).strip())
            raise self._lost from error

    def take_memory(self, chunk: int) -> None:
        """Allocate the memory for chunks on a GPU. Numbers are exchanged without it, so that a
        failure can be reported.
        """
        if self._device is not None:
            self._staging = torch.empty(chunk + _TRAILER, dtype=torch.uint8, device=self._device)

    def all_gather(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        """One tensor of the same shape from each rank."""
        if self._device is not None:
            tensor = tensor.to(self._device)
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        with self.whole():
            dist.all_gather(found, tensor, group=self.group)
        return [one.cpu() for one in found]

    def numbers(self, *values: int) -> List[List[int]]:
        return [one.tolist() for one in self.all_gather(torch.tensor(values, dtype=torch.int64))]

    def send(self, tensor: torch.Tensor, dst: Optional[int]) -> _Sent:
        """To all, or to rank ``dst``; the tensor must be kept until wait()."""
        if self._staging is not None:
            tensor = self._staging[:tensor.numel()].copy_(tensor)
        if dst == self.rank:
            return _Sent()
        with self.whole():
            if dst is None:
                return _Sent(dist.broadcast(tensor, self._ranks[self.rank], group=self.group, async_op=True), self)
            return _Sent(dist.isend(tensor, self._ranks[dst], group=self.group), self)

    def receive(self, tensor: torch.Tensor, src: int, dst: Optional[int]) -> _Sent:
        into = tensor if self._staging is None else self._staging[:tensor.numel()]
        then = None if self._staging is None else lambda: tensor.copy_(into)
        with self.whole():
            if dst is None:
                return _Sent(dist.broadcast(into, self._ranks[src], group=self.group, async_op=True), self, then)
            return _Sent(dist.irecv(into, self._ranks[src], group=self.group), self, then)


class _Alone:
    """The same for a process without torch.distributed."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.history = _History()

    def take_memory(self, chunk: int) -> None:
        pass

    def numbers(self, *values: int) -> List[List[int]]:
        return [list(values)]

    def all_gather(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        return [tensor]

    def send(self, tensor: torch.Tensor, dst: Optional[int]) -> _Sent:
        return _Sent()


# ---- The sender -----------------------------------------------------------------------------------


class _Stopped(Exception):
    """The gather was aborted while this rank was still pickling."""


def _view(tensor: torch.Tensor) -> memoryview:
    array: Any = tensor.numpy()
    return memoryview(array)


class _Chunk:
    def __init__(self, size: int) -> None:
        self.tensor = torch.empty(size + _TRAILER, dtype=torch.uint8)
        self.view = _view(self.tensor)
        self.len = 0

    def with_trailer(self, following: int) -> torch.Tensor:
        self.view[self.len:self.len + _TRAILER] = struct.pack("<q", following)
        cut: torch.Tensor = self.tensor[:self.len + _TRAILER]
        return cut


class _Encoder:
    """Pickles in a thread of its own, a few chunks ahead, because pickle pushes and collectives
    have a fixed sequence.
    """

    def __init__(self, obj: Any, size: int) -> None:
        self._size, self._free = size, 3
        self._full: Deque[_Chunk] = collections.deque()
        self._pool: List[_Chunk] = []
        self._change = threading.Condition()
        self._stop = False
        self._current: Optional[_Chunk] = None
        self.error: Optional[BaseException] = None
        self._done = False
        self._thread = threading.Thread(target=self._run, args=(obj,), name="shoal-gather", daemon=True)
        self._thread.start()

    def _run(self, obj: Any) -> None:
        try:
            _stream.write(obj, self._sink)
            self._push()
        except _Stopped:
            pass
        except BaseException as error:  # reported to all ranks, even a SystemExit inside a __reduce__
            self.error = error
        with self._change:
            self._done = True
            self._change.notify_all()

    def _sink(self, data: Any) -> None:
        view = memoryview(data)
        while len(view):
            if self._current is None:
                self._current = self._take()
            chunk = self._current
            n = min(len(view), self._size - chunk.len)
            chunk.view[chunk.len:chunk.len + n] = view[:n]
            chunk.len += n
            view = view[n:]
            if chunk.len == self._size:
                self._push()

    def _take(self) -> _Chunk:
        with self._change:
            self._change.wait_for(lambda: self._pool or self._free or self._stop)
            if self._stop:
                raise _Stopped
            if self._pool:
                return self._pool.pop()
            self._free -= 1
        return _Chunk(self._size)

    def _push(self) -> None:
        if self._current is not None:
            with self._change:
                self._full.append(self._current)
                self._current = None
                self._change.notify_all()

    def peek(self, index: int) -> int:
        """The length of the next chunk, _END, or _ABORTED. Waits until it is known."""
        with self._change:
            self._change.wait_for(lambda: len(self._full) > index or self._done)
            if len(self._full) > index:
                return self._full[index].len
        return _ABORTED if self.error is not None else _END

    def pop(self) -> _Chunk:
        return self._full.popleft()

    def give_back(self, chunk: _Chunk) -> None:
        with self._change:
            chunk.len = 0
            self._pool.append(chunk)
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._stop = True
            self._change.notify_all()
        self._thread.join()


# ---- One object after the other -------------------------------------------------------------------


class _Outgoing:
    """This rank's turn: each chunk is sent, and lent to the caller meanwhile."""

    def __init__(self, wire: Union[_Wire, _Alone], encoder: _Encoder, dst: Optional[int]) -> None:
        self._wire, self._encoder, self._dst = wire, encoder, dst
        self._sent, self.aborted = _Sent(), False
        self._chunk: Optional[_Chunk] = None

    def next(self) -> Optional[memoryview]:
        self._sent.wait()
        if self._chunk is not None:
            self._encoder.give_back(self._chunk)
            self._chunk = None
        if self._encoder.peek(0) in (_END, _ABORTED):
            return None
        following = self._encoder.peek(1)
        self._chunk = self._encoder.pop()
        self._sent = self._wire.send(self._chunk.with_trailer(following), self._dst)
        return self._chunk.view[:self._chunk.len].toreadonly()


class _Incoming:
    """Another rank's turn: the next chunk is being received while the caller reads this one."""

    def __init__(self, wire: _Wire, src: int, dst: Optional[int], first: int, chunks: List[_Chunk]) -> None:
        self._wire, self._src, self._dst = wire, src, dst
        self._chunks, self._len, self.aborted = chunks, first, first == _ABORTED
        self._coming = self._start()

    def _start(self) -> Optional[_Sent]:
        if self._len <= 0:
            return None
        return self._wire.receive(self._chunks[0].tensor[:self._len + _TRAILER], self._src, self._dst)

    def next(self) -> Optional[memoryview]:
        if self._coming is None:
            return None
        self._coming.wait()
        chunk, size = self._chunks[0], self._len
        (self._len,) = struct.unpack("<q", chunk.view[size:size + _TRAILER])
        self.aborted = self._len == _ABORTED
        self._chunks.reverse()
        self._coming = self._start()
        return chunk.view[:size].toreadonly()


def _words_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its __str__() fails, too
        return f"{type(error).__name__}, without a message"


def _nth(count: int) -> str:
    return f"{count}{'th' if 10 < count % 100 < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(count % 10, 'th')}"


class _Gather:
    """One gather. Whatever fails here, the rank takes part in all messages to the end."""

    def __init__(self, obj: Any, group: Any, budget: Any, to: Any) -> None:
        initialised = dist.is_available() and dist.is_initialized()
        self.wire: Union[_Wire, _Alone] = _Wire(group) if initialised else _Alone()
        self.number = self.wire.history.next_number()
        self._obj, self.aborted, self._refused = obj, False, False
        self._encoder: Optional[_Encoder] = None
        self._chunks: List[_Chunk] = []
        self._error: Optional[BaseException] = None
        self._dst: Optional[int] = None
        self._budget = self._to = 0
        try:
            self._budget, self._to = _parse_budget(budget), _parse_to(to, self.wire.size)
        except Exception as error:  # of the arguments: the other ranks must be informed
            self._error, self._refused = error, True

    def begin(self) -> None:
        """Agree with the other ranks on the parameters; raise on all of them if they differ."""
        history = self.wire.history
        history.end_before(self.number)
        rows = self.wire.numbers(_GREETING, self.number, self._refused, self._budget, self._to)
        strangers = {rank: "it is in another collective: all ranks must gather at the same time"
                     for rank, row in enumerate(rows) if row[0] != _GREETING}
        if strangers:
            raise GatherError(strangers)
        _, numbers, refusals, budgets, targets = zip(*rows)
        history.count = max(history.count, *numbers)
        self._must_be_one(numbers, "this is its {} gather in this group, but rank 0's {}: it skipped one, or was interrupted "
                          "in one", _nth)
        if any(refusals):
            self._raise_refusal()
        self._must_be_one(targets, "it gathers to {}, and rank 0 to {}",
                          lambda to: {_ALL: "'all'", _FILE: "a path"}.get(to, f"rank {to}"))
        self._take(min(budgets))

    @staticmethod
    def _must_be_one(values: Sequence[int], words: str, name: Callable[[int], str]) -> None:
        """Every rank has all values, so all raise the same error."""
        errors = {rank: words.format(name(value), name(values[0]))
                  for rank, value in enumerate(values) if value != values[0]}
        if errors:
            raise GatherError(errors)

    def _raise_refusal(self) -> None:
        try:
            self.agree()
        except GatherError:
            if self._refused and self._error is not None:
                raise self._error from None
            raise

    def _take(self, budget: int) -> None:
        """Allocate the chunks, for the smallest budget of all ranks."""
        self._budget, self._size = budget, min(_CHUNK_MAX, budget // _BUFFERS)
        self._dst = {_ALL: None, _FILE: 0}.get(self._to, self._to)
        try:  # all memory now: once transfers have begun a rank cannot leave any more
            self.wire.take_memory(self._size)
            if self.wire.size > 1 and self._dst in (None, self.wire.rank):
                self._chunks = [_Chunk(self._size), _Chunk(self._size)]
            self._encoder = _Encoder(self._obj, self._size)
        except Exception as error:
            self.fail(error)
        self._obj = None  # the caller may keep or drop it

    @property
    def to_file(self) -> bool:
        return self._to == _FILE

    @property
    def receives(self) -> bool:
        return self._dst in (None, self.wire.rank)

    def fail(self, error: BaseException) -> None:
        self._error = error if self._error is None else self._error

    def _source(self, src: int, first: int) -> Union[_Outgoing, _Incoming, None]:
        wire = self.wire
        if src == wire.rank or isinstance(wire, _Alone):
            assert self._encoder is not None
            return _Outgoing(wire, self._encoder, self._dst)
        if self._dst not in (None, wire.rank):
            return None
        return _Incoming(wire, src, self._dst, first, self._chunks)

    def sources(self) -> Iterator[Tuple[int, Callable[[], Optional[memoryview]]]]:
        """(rank, function that returns chunks) for each rank whose stream passes here; discards
        what is left unread.
        """
        try:
            mine = (_ABORTED, _ABORTED) if self._error is not None or self._encoder is None else (self._encoder.peek(0), self._encoder.peek(1))
            heads = self.wire.numbers(*mine)
            firsts = [first for first, _ in heads]
            if any(_ABORTED in head for head in heads):
                self.aborted = True  # there will be no result: skip the transfers
            elif self._is_small(heads):
                yield from self._at_once(firsts)
            else:
                yield from self._in_turn(firsts)
        finally:
            if self._encoder is not None:
                self._encoder.close()

    def _in_turn(self, firsts: List[int]) -> Iterator[Tuple[int, Callable[[], Optional[memoryview]]]]:
        turns = iter(range(self.wire.size))
        try:
            for src in turns:
                yield from self._one_source(src, firsts[src])
        finally:  # the turns that the caller does not want: the other ranks continue
            for src in turns:
                for _ in self._one_source(src, firsts[src]):
                    pass

    def _one_source(self, src: int, first: int) -> Iterator[Tuple[int, Callable[[], Optional[memoryview]]]]:
        source = self._source(src, first)
        if source is None:
            return
        try:
            yield src, source.next
        finally:
            while source.next() is not None:
                pass
            self.aborted = self.aborted or source.aborted

    def _is_small(self, heads: List[List[int]]) -> bool:
        """Whether one collective is enough, of which torch may hold three copies."""
        largest = max(first for first, _ in heads)
        return (self._dst is None and all(second == _END for _, second in heads)
                and 3 * largest * self.wire.size <= self._budget)

    def _at_once(self, firsts: List[int]) -> Iterator[Tuple[int, Callable[[], Optional[memoryview]]]]:
        assert self._encoder is not None
        chunk = self._encoder.pop()
        for src, one in enumerate(self.wire.all_gather(chunk.tensor[:max(firsts)])):
            yield src, iter([_view(one)[:firsts[src]], None]).__next__

    def agree(self) -> None:
        """Raise the same error on all ranks if one rank has one."""
        error = self._error
        if error is None and self._encoder is not None:
            error = self._encoder.error
        words = _words_of(error).encode("utf-8", "replace")[:_WORDS_MAX] if error is not None else b""
        lens = [row[0] for row in self.wire.numbers(len(words))]
        if not any(lens):
            return
        mine = torch.zeros(max(lens), dtype=torch.uint8)
        mine[:len(words)] = torch.tensor(list(words), dtype=torch.uint8)
        texts = [bytes(one.tolist()) for one in self.wire.all_gather(mine)]
        errors = {rank: text[:n].decode("utf-8", "replace")
                  for rank, (text, n) in enumerate(zip(texts, lens)) if n}
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error  # SystemExit or KeyboardInterrupt, now that the others are informed
        raise GatherError(errors) from error


def _objects(gather: _Gather) -> Generator[Tuple[int, Any], None, None]:
    for src, next_chunk in gather.sources():
        if gather.aborted or gather._error is not None:
            continue
        try:
            obj = _stream.read(next_chunk)
        except _stream.EndedEarly:  # the sender has the message
            gather.aborted = True
            continue
        except BaseException as error:  # reported to all ranks at the end, even a SystemExit inside a __setstate__
            gather.fail(error)
            continue
        yield src, obj
        del obj


class _Iteration:
    """The result of iter_objects: an iterator that takes part in the transfers even if it is not
    used to its end.
    """

    def __init__(self, gather: _Gather) -> None:
        self.number, self._gather = gather.number, gather
        self._objects: Any = None  # a generator
        self._pid, self._ended = os.getpid(), False
        gather.wire.history.add(self)

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise RuntimeError("this iteration over gathered objects was ended by a later gather in the same group: "
                               "finish or close it first")
        if self._objects is None:
            self._objects = _yield_objects(self._gather)
        return next(self._objects)

    def close(self) -> None:
        """Take no more objects. This rank's own object is still sent, and the others' are received.
        """
        if self._objects is None:
            self._objects = _yield_nothing(self._gather)
            next(self._objects, None)
        self._objects.close()

    def end(self) -> None:
        """As close(), for the next gather in the group."""
        if self._objects is not None and self._objects.gi_frame is None:
            return  # it is complete
        self._ended = True
        try:
            self.close()
        except Exception:
            pass  # an error of an object that is not wanted here; ranks that want it get the error

    def __del__(self) -> None:
        if self._pid == os.getpid() and not sys.is_finalizing():
            self.close()


def _yield_nothing(gather: _Gather) -> Generator[Any, None, None]:
    """Only take part in the transfers."""
    gather.begin()
    for _ in gather.sources():
        pass
    gather.agree()
    yield from ()


def _yield_objects(gather: _Gather) -> Generator[Any, None, None]:
    gather.begin()
    objects = _objects(gather)
    try:
        for _, found in objects:
            yield found
            del found
    finally:
        objects.close()
        gather.agree()


def iter_objects(obj: Any, group: Any = None, budget: Union[int, float, str] = "64MB") -> _Iteration:
    """Yield the object of each rank in the order of ranks, holding one at a time. Collective.

    A rank that leaves the loop early, or drops the iterator unused, still takes part in the
    transfers, so the others continue. A rank that keeps the iterator ends it with its next gather
    in the group; other collectives must wait until it is complete, closed (``close()``) or dropped.
    GatherError at the end if a rank failed.
    """
    return _Iteration(_Gather(obj, group, budget, "all"))


@overload
def gather_objects(obj: Any, group: Any = None, budget: Union[int, float, str] = "64MB",
                   to: Literal["all"] = "all") -> List[Any]: ...


@overload
def gather_objects(obj: Any, group: Any = None, budget: Union[int, float, str] = "64MB", *,
                   to: int) -> Optional[List[Any]]: ...


@overload
def gather_objects(obj: Any, group: Any = None, budget: Union[int, float, str] = "64MB", *,
                   to: Union[str, os.PathLike[str]]) -> Union[List[Any], GatheredFile]: ...


def gather_objects(obj: Any, group: Any = None, budget: Union[int, float, str] = "64MB",
                   to: Union[str, int, os.PathLike[str]] = "all") -> Union[List[Any], GatheredFile, None]:
    """Gather one picklable object from each rank of a group. Collective: all ranks call it.

        to="all"
            every rank gets the list of all objects, as from all_gather_object.
        to=N
            rank N of the group gets the list, the others None.
        to="some/path"
            rank 0 writes the objects to that file (completely, or not at all), and every rank gets a
            GatheredFile, which reads them one at a time.

    A rank holds less than ``budget`` bytes besides its own object and its result; if ranks have
    different budgets, the smallest applies. The bytes are sent over the group if it uses main
    memory (gloo, MPI), over another group of the same ranks that does if there is one, and
    otherwise, with NCCL alone, through less than ``budget`` bytes of GPU memory.

    If an object cannot be pickled, an argument is invalid, ranks do not agree on ``to``, or
    anything else fails on one rank, all ranks raise GatherError with that rank's message (a rank
    with an invalid argument raises its own ValueError or TypeError).
    """
    gather = _Gather(obj, group, budget, to)
    gather.begin()
    if gather.to_file:
        assert not isinstance(to, int)
        return _gather_file(gather, os.fspath(to))
    return _gather_to(gather)


def _gather_to(gather: _Gather) -> Optional[List[Any]]:
    found: Optional[List[Any]]
    if gather.receives:
        found = [one for _, one in _objects(gather)]
    else:
        found = None
        for _ in gather.sources():  # draining it sends
            pass
    gather.agree()
    return found


def _gather_file(gather: _Gather, path: str) -> GatheredFile:
    partial, target, writes = "", "", gather.wire.rank == 0
    try:
        sources = gather.sources()
        try:
            if writes:
                target = os.fsdecode(target_of(path))
                name = f"{target}.partial-{os.getpid()}"
                file = open(name, "xb")  # an existing file is not ours, and is left alone
                partial = name
                write_file(sources, file)
        except Exception as error:
            gather.fail(error)
        for _ in sources:  # everything on the other ranks; on rank 0 what is left after an error
            pass
        gather.agree()
        try:
            if writes:
                target_of(path)
                os.replace(partial, target)
        except (OSError, ValueError) as error:
            gather.fail(error)
        gather.agree()
    except BaseException:
        if partial and os.path.exists(partial):
            os.unlink(partial)
        raise
    return GatheredFile(path)
