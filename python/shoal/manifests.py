"""Lists of the files that each rank reads, for programs that take a list."""

from __future__ import annotations

import os
from typing import Optional, Union

from . import _shoal
from ._errors import BadValueError
from .catalog import Catalog, Path
from .order import _number, make_spec, opened


def manifest(catalog: Union[Catalog, Path], output_dir: Path, world_size: int = 1, *, epochs: Union[int, range] = 1,
             seed: int = 0, mode: str = "global", window: Optional[int] = None, frozen: bool = False, prefix: str = "train",
             paths: bool = False, null: bool = False, force: bool = False, lanes: Optional[int] = None) -> int:
    """Write output_dir/train_epoch0000_rank00000.txt and so on: the URIs of the files that each
    rank reads, one per line, in the order in which it reads them. Returns the number of lists.

    The lists of an epoch together contain every file once: rank r has the files at positions r, r +
    world_size ... of the epoch's order. epochs: a number of epochs starting at 0, or a range.
    paths=True: plain paths instead of file:// URIs. null=True: NUL bytes instead of line ends.
    Memory does not grow with files, ranks or epochs. Ctrl-C keeps the lists made so far, each of
    them complete. A folder that has lists of another catalog or order with this prefix is
    refused; force=True removes them first.
    """
    catalog = opened(catalog)
    if not isinstance(catalog, Catalog):
        raise TypeError("a manifest is made from a Catalog or its path, not from %.100r" % (catalog,))
    if isinstance(epochs, range):
        if epochs.step != 1 or not epochs:
            raise BadValueError(22, "epochs must be a number or a range of consecutive epochs, not %r" % (epochs,))
        first, nr = _number("epochs", epochs.start), len(epochs)
    else:
        first, nr = 0, _number("epochs", epochs, 1)
    spec = make_spec((len(catalog), catalog.digest, 1), batch_size=1, seed=seed, mode=mode, remainder="keep",
                     world_size=world_size, unit=None, window=window, frozen=frozen, lanes=lanes)
    _shoal.manifest(catalog.handle, spec, os.fsencode(output_dir), os.fsencode(prefix), first, nr, paths, null, force)
    return nr * world_size
