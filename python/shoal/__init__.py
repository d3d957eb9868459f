"""Shoal: list, shard, shuffle and load datasets of hundreds of millions of files.

    catalog = shoal.Catalog("train.cat")
    print(len(catalog), catalog[0], catalog.size(0))

See docs/python.md.
"""

import importlib
from typing import TYPE_CHECKING, List

from ._errors import (AccessError, BadValueError, DamagedError, Error, NotFoundError, StaleError,
                      TransformError, WaitedTooLongError)

if TYPE_CHECKING:
    from ._shoal import version as __version__
    from ._progress import Progress
    from ._store import S3Config
    from .catalog import Catalog, Difference, Names, StorageCheck
    from .columns import Batches, Column, ColumnWriter, KeptOrder, join_columns
    from .indexing import IndexProgress, index, index_pattern
    from .listing import Entry, Listing, Stat, StatRow, count, diff, filter, from_uris, list, merge, split, stat
    from .loader import Audit, AuditError, Batch, Loader
    from .manifests import manifest
    from .order import Order, sample_seed
    from .parquet import to_parquet
    from .scanning import scan

# Modules are imported when a name of theirs is first used: commands that need none of them start
# without NumPy, which takes ten times as long as they do.
_NAMES = {
    "_shoal": (),
    "_progress": ("Progress",),
    "_store": ("S3Config",),
    "catalog": ("Catalog", "Difference", "Names", "StorageCheck"),
    "columns": ("Batches", "Column", "ColumnWriter", "KeptOrder", "join_columns"),
    "indexing": ("IndexProgress", "index", "index_pattern"),
    "listing": ("Entry", "Listing", "Stat", "StatRow", "count", "diff", "filter", "from_uris", "list", "merge", "split", "stat"),
    "loader": ("Audit", "AuditError", "Batch", "Loader"),
    "manifests": ("manifest",),
    "order": ("Order", "sample_seed"),
    "parquet": ("to_parquet",),
    "scanning": ("scan",),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # to which every name would be one of Any
    def _module(name):
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as e:
            if e.name != "numpy":
                raise
            raise ModuleNotFoundError("shoal needs NumPy: pip install numpy, or apt-get install python3-numpy", name="numpy") from None

    def __getattr__(name):
        if name in _NAMES:
            return _module(name)
        if name == "__version__":
            from ._shoal import version as value
        elif name in _WHERE:
            value = getattr(_module(_WHERE[name]), name)
        else:
            raise AttributeError("module 'shoal' has no attribute %r" % name)
        globals()[name] = value
        return value


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
    "Progress",
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
    "to_parquet",
]


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
