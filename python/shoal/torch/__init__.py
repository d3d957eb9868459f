"""Shoal for PyTorch: datasets without a list, samplers without memory, epochs that reach every
worker.

    dataset = ShoalDataset("train.cat", transform=decode)
    sampler = ShoalBatchSampler(dataset, batch_size=64, seed=7)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=8, persistent_workers=True)

See docs/python.md.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise
    raise ModuleNotFoundError("shoal.torch needs PyTorch: pip install 'shoal[torch]', or pip install torch", name="torch") from None

from .containers import ShoalTables, members, row_batches
from .dataset import ShoalDataset, sample_rng
from .gather import GatheredFile, GatherError, gather_objects, iter_objects
from .iterable import ShoalIterable
from .loading import DataLoader
from .place import reduce_audit
from .rows import ShoalRows
from .samplers import ShoalBatchSampler, ShoalSampler
from .shared import TooManyErrors, skip_none

__all__ = ["DataLoader", "GatherError", "GatheredFile", "ShoalBatchSampler", "ShoalDataset", "ShoalIterable",
           "ShoalRows", "ShoalSampler", "ShoalTables", "TooManyErrors", "gather_objects", "iter_objects", "members", "reduce_audit",
           "row_batches", "sample_rng", "skip_none"]
