"""Shoal: list, shard, shuffle and load datasets of hundreds of millions of files.

    catalog = shoal.Catalog("train.cat")
    print(len(catalog), catalog[0], catalog.size(0))

See docs/python.md.
"""

from ._errors import (AccessError, BadValueError, DamagedError, Error, NotFoundError, StaleError,
                      TransformError, WaitedTooLongError)
from ._shoal import version as __version__
from ._store import S3Config
from .catalog import Catalog, Difference, Names, StorageCheck
from .columns import Batches, Column, ColumnWriter, KeptOrder, join_columns
from .indexing import IndexProgress, index, index_pattern
from .listing import Entry, Listing, Stat, StatRow, count, diff, filter, from_uris, list, merge, split, stat
from .loader import Audit, AuditError, Batch, Loader
from .manifests import manifest
from .order import Order, sample_seed
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
    "Difference",
    "Entry",
    "Error",
    "IndexProgress",
    "KeptOrder",
    "Listing",
    "Loader",
    "Names",
    "NotFoundError",
    "Order",
    "S3Config",
    "StaleError",
    "Stat",
    "StatRow",
    "StorageCheck",
    "TransformError",
    "WaitedTooLongError",
    "__version__",
    "count",
    "diff",
    "filter",
    "from_uris",
    "index",
    "index_pattern",
    "join_columns",
    "list",
    "manifest",
    "merge",
    "sample_seed",
    "scan",
    "split",
    "stat",
]
