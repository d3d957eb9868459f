"""Shoal: list, shard, shuffle and load datasets of hundreds of millions of files.

    catalog = shoal.Catalog("train.cat")
    print(len(catalog), catalog[0], catalog.size(0))

See docs/python.md.
"""

from ._errors import (AccessError, BadValueError, DamagedError, Error, NotFoundError, StaleError,
                      TransformError, WaitedTooLongError)
from ._shoal import version as __version__
from .catalog import Catalog, Names
from .columns import Batches, Column, ColumnWriter, KeptOrder, join_columns
from .indexing import IndexProgress, index, index_pattern
from .loader import Audit, AuditError, Batch, Loader
from .order import Order
from .scanning import scan

__all__ = [
    "AccessError",
    "Audit",
    "AuditError",
    "BadValueError",
    "Batch",
    "Batches",
    "Catalog",
    "Column",
    "ColumnWriter",
    "DamagedError",
    "Error",
    "IndexProgress",
    "KeptOrder",
    "Loader",
    "Names",
    "NotFoundError",
    "Order",
    "StaleError",
    "TransformError",
    "WaitedTooLongError",
    "__version__",
    "index",
    "index_pattern",
    "join_columns",
    "scan",
]
