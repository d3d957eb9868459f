"""Shoal: list, shard, shuffle and load datasets of hundreds of millions of files.

    catalog = shoal.Catalog("train.cat")
    print(len(catalog), catalog[0], catalog.size(0))

See docs/python.md.
"""

from ._errors import (AccessError, BadValueError, DamagedError, Error, NotFoundError, StaleError,
                      TransformError, WaitedTooLongError)
from ._shoal import version as __version__
from .catalog import Catalog, Names

__all__ = [
    "AccessError",
    "BadValueError",
    "Catalog",
    "DamagedError",
    "Error",
    "Names",
    "NotFoundError",
    "StaleError",
    "TransformError",
    "WaitedTooLongError",
    "__version__",
]
