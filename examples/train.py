"""Train on a catalog with any number of ranks and workers, save where it is, and go on later: train.py CATALOG

    torchrun --nproc-per-node 4 examples/train.py train.cat
"""

import json
import os
import sys

import torch
import torch.distributed

from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset

STATE = "train-state.json"


def decode(data: bytes) -> torch.Tensor:
    """What a model would want of a file: here the mean of its bytes."""
    mean: torch.Tensor = torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8).float().mean()
    return mean


def main(path: str, epochs: int = 2) -> None:
    if "RANK" in os.environ:  # started by torchrun
        torch.distributed.init_process_group("gloo")
    dataset = ShoalDataset(path, decode)
    sampler = ShoalBatchSampler(dataset, batch_size=64, seed=7)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True)
    if os.path.exists(STATE):  # of a run that ended early, maybe with another number of ranks
        with open(STATE, encoding="utf-8") as file:
            loader.load_state_dict(json.load(file))
    for epoch in range(sampler.epoch, epochs):
        loader.set_epoch(epoch)
        total, nr = 0.0, 0
        for step, batch in enumerate(loader):
            total, nr = total + float(batch.sum()), nr + len(batch)
            if step % 100 == 0 and sampler.rank == 0:
                with open(STATE + ".new", "w", encoding="utf-8") as file:
                    json.dump(loader.state_dict(), file)
                os.replace(STATE + ".new", STATE)
        print("rank %d: epoch %d, %d samples, mean %.3f" % (sampler.rank, epoch, nr, total / max(1, nr)))
    if os.path.exists(STATE) and sampler.rank == 0:
        os.unlink(STATE)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
