"""Sizes and times as people write them: the units are those of the command."""

from __future__ import annotations

import math
import operator
from typing import Any, Union

from . import _shoal
from ._errors import BadValueError

Size = Union[int, str]  # bytes, or such as "64M" (powers of 1024) or "64MB" (powers of 1000)
Seconds = Union[float, str]  # or such as "30s", "500ms", "10m"


def size_of(what: str, value: Any, least: int = 0) -> int:
    """A size in bytes."""
    if isinstance(value, str):
        try:
            number = _shoal.parse_size(value.strip())
        except OverflowError:
            raise BadValueError(22, "%s=%r is too large" % (what, value)) from None
        except ValueError:
            raise BadValueError(22, "%s=%r is not a size: give a number of bytes, or such as '64M' or '1.5GB'" % (what, value)) from None
    else:
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError("%s must be a whole number of bytes, or a size such as '64M', not %r" % (what, value)) from None
    if not least <= number < 2**64:
        raise BadValueError(22, "%s must be at least %d and below 2**64 bytes, not %r" % (what, least, value))
    return number


def milliseconds_of(what: str, value: Any) -> int:
    """A time of more than 0, in milliseconds, at least 1."""
    if isinstance(value, str):
        try:
            number = _shoal.parse_milliseconds(value.strip())
        except (OverflowError, ValueError):
            raise BadValueError(22, "%s=%r is not a time: give a number of seconds, or such as '30s', '500ms' or '10m'"
                                % (what, value)) from None
        value = number / 1000
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("%s must be a number of seconds, or a time such as '30s', not %r" % (what, value))
    if not (math.isfinite(value) and 0 < value < 2**40):
        raise BadValueError(22, "%s must be finite and more than 0 seconds, not %r" % (what, value))
    return max(1, int(value * 1000))
