"""Batches of similar length over samples that are loaded lazily: by_length.py CATALOG

The lengths are read once, each rank its part, and kept in a column beside the catalog.
"""

import os
import sys
from typing import List

import torch

import shoal
from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset


def tokens(data: bytes) -> torch.Tensor:
    """A sample's tokens: here simply its bytes."""
    found: torch.Tensor = torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8).long()
    return found


def pad(batch: List[torch.Tensor]) -> torch.Tensor:
    padded: torch.Tensor = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
    return padded


def main(path: str) -> None:
    dataset = ShoalDataset(path, tokens)
    if not os.path.exists(path + ".length.col"):
        shoal.scan(dataset, len, "length", workers=2)
    lengths = shoal.Column(path + ".length.col", dataset)
    sampler = ShoalBatchSampler(dataset, sort_by=lengths, max_tokens=max(16384, int(lengths.info["max"])), seed=7)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=pad, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        loader.set_epoch(epoch)
        real = padded = 0
        for batch in loader:
            real, padded = real + int((batch != 0).sum()), padded + batch.numel()
        print("epoch %d: %d batches, %.1f %% of the tokens are padding" % (
            epoch, len(sampler), 100 * (padded - real) / max(1, padded)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
