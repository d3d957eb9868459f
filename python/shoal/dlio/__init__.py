"""DLIO on Shoal's catalog and order, without changing DLIO, in three ways (docs/dlio.md):

`Callback` takes DLIO's list of files, its index maps and its reshuffle out of an installed DLIO, and leaves all else:

    dlio_benchmark ... +hydra.callbacks.shoal._target_=shoal.dlio.Callback
    python -m shoal.dlio ...

`ShoalDataLoader` reads with Shoal's engine in place of DLIO's workers and readers:

    reader:
      data_loader_classname: shoal.dlio.ShoalDataLoader
      data_loader_sampler: index

`shoal.dlio.shim` is a command `dlio_benchmark` that starts `shoal run` and `shoal datagen`. It needs no DLIO.

The files of an epoch are the first num_files_train below storage_root and data_folder, in a folder or a bucket. Each is read once
per epoch, but for those that do not fill a step of all ranks. The catalog is $SHOAL_CATALOG, in which {dataset} stands for train
or valid; by default train.cat and valid.cat in the data folder, which must be writable then. It is made if it is not there.
sample_shuffle and file_shuffle off read in the order of names; seed_change_epoch off repeats one order.
"""

import importlib

__all__ = ["Callback", "ShoalDataLoader"]

# Imported when they are asked for: the shim runs where there is no DLIO.
_WHERE = {"Callback": ".callback", "ShoalDataLoader": ".loader"}


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError("module 'shoal.dlio' has no attribute %r" % name)
    return getattr(importlib.import_module(_WHERE[name], __name__), name)


def __dir__():
    return sorted([*globals(), *_WHERE])
