"""Any call of the system or for memory may fail: the command then gives its usual result, or fails with a message.

A few calls of each kind, spread over the run; `make torture` has every one of them fail (tools/campaign/calls.py).
"""

import pathlib
import sys

import pytest
from conftest import binary

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "campaign"))

import calls  # noqa: E402

SHIM = pathlib.Path(binary()).parent / "tests" / "failing_calls.so"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    if b"__asan_init" in pathlib.Path(binary()).read_bytes():
        pytest.skip("the address sanitizer has its own malloc")
    assert SHIM.exists()
    made = tmp_path_factory.mktemp("calls")
    calls.prepare(binary(), made)
    return made


# Some are left to make torture: Python itself takes a second to start, others call what those here do.
@pytest.mark.parametrize("kind", calls.KINDS)
@pytest.mark.parametrize("name", [name for name in calls.COMMANDS if name not in calls.LONG])
def test_a_call_that_fails_is_survived_or_reported(place, name, kind):
    if kind not in calls.kinds_of(name):
        return  # libfyaml crashes without memory: see docs/security.md
    sweep = calls.Sweep(binary(), SHIM, place, name, kind)
    numbers = {1, 2, sweep.nr // 3, sweep.nr // 2, sweep.nr - 1, sweep.nr} & set(range(1, sweep.nr + 1))
    for number in sorted(numbers):
        for on in (False, True) if number == 1 else (False,):
            assert sweep.try_one(number, on=on) is None


@pytest.mark.parametrize("name, kind", [("report", "calloc"), ("compare", "strdup"), ("compare", "open_memstream"), ("index a bucket", "asprintf")])
def test_each_lack_of_memory_that_was_not_survived_is(place, name, kind):
    """A report crashed where it could not divide the time of a run, a sweep and a comparison where a setting had no value, and a
    comparison ended well without its verdict."""
    sweep = calls.Sweep(binary(), SHIM, place, name, kind)
    assert sweep.nr > 0
    for number in range(1, min(sweep.nr, 40) + 1):
        assert sweep.try_one(number) is None


def test_success_with_another_result_is_noticed(place):
    """The check above can fail: against the result of another command it does."""
    sweep = calls.Sweep(binary(), SHIM, place, "index a list", "rename")
    sweep.good.made["out.cat"] = b"other"
    sweep.digests["out.cat"] = b"other"
    assert sweep.try_one(sweep.nr + 1).startswith("wrong")


def test_failure_without_a_message_is_noticed(place, monkeypatch):
    sweep = calls.Sweep(binary(), SHIM, place, "verify", "open")
    kept = calls.Attempt.__init__

    def quiet(self, *words, **more):
        kept(self, *words, **more)
        self.err = b""

    monkeypatch.setattr(calls.Attempt, "__init__", quiet)
    assert sweep.try_one(1).startswith("silent")
