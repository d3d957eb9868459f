"""Objects of all kinds, and what it means that two are the same."""
import sys

import numpy


class Point:
    def __init__(self, x, next=None):
        self.x, self.next = x, next

    def __eq__(self, other):
        return self is other or type(other) is Point and self.x == other.x

    __hash__ = object.__hash__


def random_object(rng, depth=0):
    torch = sys.modules.get("torch")  # where the test has it, tensors are objects too
    kinds = ["none", "int", "float", "str", "bytes", "point", "array", "big", "flat"] + ["tensor"] * (torch is not None)
    kinds += ["list", "tuple", "dict", "set"] * (2 if depth < 4 else 0)
    kind = rng.choice(kinds)
    few = range(rng.randrange(5))
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(random_object(rng, depth + 1) for _ in few)
    if kind == "dict":
        return {rng.choice([str, int])(i): random_object(rng, depth + 1) for i in few}
    return {
        "none": lambda: None,
        "int": lambda: rng.choice([0, -1, 2**70, rng.randrange(1000)]),
        "float": rng.random,
        "str": lambda: rng.choice(["", "é\U0001f41f", "x" * rng.randrange(200000)]),
        "bytes": lambda: rng.randbytes(rng.choice([0, 1, 70000, 300000])),
        "point": lambda: Point(random_object(rng, depth + 1)),
        "array": lambda: numpy.arange(rng.randrange(100000), dtype=rng.choice(["u1", "f8", "i4"])),
        "tensor": lambda: torch.arange(rng.randrange(50000)).to(rng.choice([torch.uint8, torch.bfloat16, torch.int64])),
        "big": lambda: [{"id": i, "box": [i, 0.5]} for i in range(9000)],
        "flat": lambda: [str(i) for i in range(rng.choice([0, 8191, 8192, 30000]))],
        "set": lambda: set(range(rng.randrange(20000))),
    }[kind]()


def same(a, b):
    """Equal, and of the same types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.flags.writeable == b.flags.writeable and numpy.array_equal(a, b)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Point):
        return same(a.x, b.x)
    return a == b
