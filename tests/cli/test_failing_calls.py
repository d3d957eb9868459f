"""Any call of the system or for memory may fail: the command then gives the result of always, or fails with a message.

By default a few calls of each kind, spread over the run; SHOAL_TORTURE=1 (make torture) has every one of them fail.
Workloads are left out: libfyaml crashes without memory.
"""

import errno
import os
import pathlib
import subprocess

import pytest
from conftest import binary

SHIM = pathlib.Path(binary()).parent / "tests" / "failing_calls.so"
ALL = bool(os.environ.get("SHOAL_TORTURE"))
KINDS = {"malloc": errno.ENOMEM, "calloc": errno.ENOMEM, "realloc": errno.ENOMEM, "open": errno.EMFILE,
         "openat": errno.EIO, "read": errno.EIO, "pread": errno.EIO, "pwrite": errno.ENOSPC, "fsync": errno.EIO,
         "ftruncate": errno.EIO, "rename": errno.EIO, "mmap": errno.ENOMEM}
COMMANDS = {
    "index a list": ["index", "list", "--root", "/r", "-q", "-o", "out.cat"],
    "index a directory": ["index", "tree", "-q", "--threads", "1", "-o", "out.cat"],
    "index and keep checkpoints": ["index", "tree", "-q", "--threads", "1", "--resume", "-o", "out.cat"],
    "ls": ["ls", "c"],
    "verify": ["verify", "c"],
    "read": ["read", "c", "--engine", "threads", "--in-flight", "1", "-q", "--json"],
    "manifest": ["manifest", "c", "--ranks", "2", "-o", "lists"],
}


@pytest.fixture
def place(shoal, tmp_path):
    if b"__asan_init" in pathlib.Path(binary()).read_bytes():
        pytest.skip("the address sanitizer has its own malloc")
    assert SHIM.exists()
    (tmp_path / "list").write_bytes(b"".join(b"a/%05d\t%d\n" % (i * 7 % 3000, i) for i in range(3000)))
    for i in range(60):
        path = tmp_path / "tree" / str(i % 5) / f"{i:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * i)
    shoal.good("index", tmp_path / "tree", "-q", "-o", tmp_path / "c")
    return tmp_path


def attempt(place, command, **environment):
    for path in [*place.glob(".out.cat*"), *place.glob("out.cat"), *place.glob("lists/*")]:
        path.unlink()
    done = subprocess.run([binary(), *command], cwd=place, capture_output=True, timeout=60,
                          env={**os.environ, "LD_PRELOAD": str(SHIM), **environment})
    made = place / "out.cat"
    lists = {path.name: path.read_bytes() for path in place.glob("lists/[!.]*")}
    return done, made.read_bytes() if made.exists() else None, lists


def digest(shoal, place):
    return shoal.info(place / "out.cat")["digest"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_fails_is_survived_or_reported(shoal, place, name, kind):
    command = COMMANDS[name]
    good, catalog, lists = attempt(place, command, FAIL_CALL=kind, FAIL_COUNT=str(place / "count"))
    assert good.returncode == 0, good.stderr
    wanted = digest(shoal, place) if catalog else None
    nr = int((place / "count").read_text())
    numbers = range(1, nr + 1) if ALL else sorted({1, 2, nr // 3, nr // 2, nr - 1, nr} & set(range(1, nr + 1)))
    for number in numbers:
        done, made, made_lists = attempt(place, command, FAIL_CALL=kind, FAIL_N=str(number), FAIL_ERRNO=str(KINDS[kind]))
        where = f"{kind} {number} of {nr}: {done.returncode} {done.stderr}"
        assert done.returncode in (0, 1), where
        if made is not None:
            assert digest(shoal, place) == wanted, where
        assert all(made_lists[path] == lists[path] for path in made_lists), where
        if done.returncode == 1:
            assert b"shoal" in done.stderr, where
        elif name in ("ls", "verify"):
            assert done.stdout == good.stdout, where
        elif name == "read":
            assert b'"exactly_once": true' in done.stdout, where
        else:
            assert (made is None) == (catalog is None) and set(made_lists) == set(lists), where
