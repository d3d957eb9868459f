"""Lists of the files that each rank reads, for programs that take a list."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

from . import _shoal
from ._keywords import explained
from ._progress import Progress, shown
from .catalog import Catalog, Path
from .order import _number, make_spec, opened


@explained
def manifest(catalog: Union[Catalog, Path], output_dir: Path, world_size: int = 1, *, epoch: int = 0, epochs: int = 1,
             seed: int = 0, mode: str = "global", window: Optional[int] = None, frozen: bool = False, list_prefix: str = "train",
             paths: bool = False, null: bool = False, force: bool = False, lanes: Optional[int] = None,
             progress: Optional[Callable[[Progress], Any]] = None) -> int:
    """Write output_dir/train_epoch0000_rank00000.txt and so on: the URIs of the files that each
    rank reads, one per line, in the order in which it reads them. Returns the number of lists.

    The lists of an epoch together contain every file once: rank r has the files at positions r, r +
    world_size ... of the epoch's order. epochs: how many epochs, from `epoch` on. list_prefix: the
    start of the lists' names. progress is called with a Progress now and then, on another thread.
    paths=True: plain paths instead of file:// URIs. null=True: NUL bytes instead of line ends.
    Memory does not grow with files, ranks or epochs. Ctrl-C keeps the lists made so far, each of
    them complete. A folder that has lists of another catalog or order with this prefix is
    refused; force=True removes them first.
    """
    catalog = opened(catalog)
    if not isinstance(catalog, Catalog):
        raise TypeError("a manifest is made from a Catalog or its path, not from %.100r" % (catalog,))
    first, nr = _number("epoch", epoch), _number("epochs", epochs, 1)
    spec = make_spec((len(catalog), catalog.digest, 1), batch_size=1, seed=seed, mode=mode, remainder="keep",
                     world_size=world_size, unit=None, window=window, frozen=frozen, lanes=lanes)
    _shoal.manifest(catalog.handle, spec, os.fsencode(output_dir), os.fsencode(list_prefix), first, nr, paths, null, force,
                    shown(progress, "lists"))
    return nr * world_size
