"""Shoal for PyTorch: datasets without a list, samplers without memory, epochs that reach every
worker.

    dataset = ShoalDataset("train.cat", transform=decode)
    sampler = ShoalBatchSampler(dataset, batch_size=64, seed=7)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=8, persistent_workers=True)

See docs/python.md.
"""

from .dataset import ShoalDataset, sample_rng
from .gather import GatheredFile, GatherError, gather_objects, iter_objects
from .iterable import ShoalIterable
from .loading import DataLoader
from .place import reduce_audit
from .samplers import ShoalBatchSampler, ShoalSampler
from .shared import TooManyErrors, skip_none

__all__ = ["DataLoader", "GatherError", "GatheredFile", "ShoalBatchSampler", "ShoalDataset", "ShoalIterable",
           "ShoalSampler", "TooManyErrors", "gather_objects", "iter_objects", "reduce_audit", "sample_rng", "skip_none"]
