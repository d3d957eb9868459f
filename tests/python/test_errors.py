"""What an exception says about a remedy: the keywords that it names exist, and the hint is there as a code."""
import errno
import inspect
import operator
import pickle
import re
from pathlib import Path

import pytest

import shoal
from shoal import _errors

HEADER = Path(__file__).resolve().parents[2] / "include" / "shoal.h"


def test_every_hint_of_the_library_has_words_in_python():
    known = {name.lower() for name in re.findall(r"SHOAL_HINT_(\w+) = \d+", HEADER.read_text())} - {"none"}
    assert set(_errors._HINTS) == known


@pytest.mark.parametrize("hint", sorted(_errors._HINTS))
def test_a_hint_names_only_keywords_that_its_functions_have(hint):
    functions, words = _errors._HINTS[hint]
    named = set(re.findall(r"(?<!-)\b([a-z_]+)=", words))
    assert not named or functions, "no function is said to have these"
    if any(name.startswith("torch.") for name in functions):
        pytest.importorskip("torch")
        __import__("shoal.torch")
    for name in functions:
        assert named <= set(inspect.signature(operator.attrgetter(name)(shoal)).parameters)


def test_an_exception_has_the_hint_as_a_code_and_its_words_at_the_end(files, tmp_path):
    (tmp_path / "list").write_bytes(b"a\nb\n")
    catalog = shoal.index(tmp_path / "list", tmp_path / "no-sizes.cat", root=tmp_path)
    with pytest.raises(shoal.Error) as caught:
        list(shoal.Loader(catalog, 1).epoch(0))
    assert caught.value.hint == "slot" and caught.value.errno == errno.EINVAL
    assert str(caught.value) == "the catalog has no sizes; set the largest size of a sample with slot="
    assert pickle.loads(pickle.dumps(caught.value)).hint == "slot"


def test_a_hint_with_a_number_names_it():
    made = _errors.error(errno.EFBIG, b"'a' has 7 bytes", "larger_slot", 7)
    assert type(made) is shoal.Error and str(made) == "'a' has 7 bytes; use slot=7 or more"


def test_an_exception_without_a_hint_has_none(tmp_path):
    with pytest.raises(shoal.NotFoundError) as caught:
        shoal.Catalog(tmp_path / "missing.cat")
    assert caught.value.hint is None
    assert shoal.BadValueError(errno.EINVAL, "x").hint is None
    assert _errors.error(errno.ENOMEM, b"no memory").hint is None


def test_a_hint_of_a_newer_library_is_kept_as_a_code():
    made = _errors.error(errno.EINVAL, b"words", "from_the_future", 1)
    assert made.hint == "from_the_future" and str(made) == "words"


def test_the_class_of_an_exception_comes_from_its_number():
    for number, kind in _errors._CLASSES.items():
        assert type(_errors.error(number, b"No such file, damaged, stale, permission denied")) is kind
