"""Train with Accelerate, save where it is, and go on with any number of ranks: accelerate launch with_accelerate.py CATALOG"""

import json
import os
import sys

import accelerate
import torch

from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset

CLASSES = ["cat", "dog", "zebra"]


def decode(data, name):
    """A file's first bytes, and the class that its folder names."""
    return torch.tensor(list(data[:6]), dtype=torch.float32), CLASSES.index(name.split("/")[0])


def learn(accelerator, model, optimizer, epoch, batch):
    x, y = batch
    loss = torch.nn.functional.cross_entropy(model(x / 255), y)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()


def main(path, state_path="state.json", epochs=3, stop_after=None):
    accelerator = accelerate.Accelerator(cpu=not torch.cuda.is_available())  # first: then the ranks are known
    dataset = ShoalDataset(path, decode, with_name=True)
    sampler = ShoalBatchSampler(dataset, batch_size=9, seed=7)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True)
    model = torch.nn.Linear(6, len(CLASSES))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)
    if os.path.exists(state_path):  # of a run that ended early, with any number of ranks
        with open(state_path, encoding="utf-8") as file:
            sampler.load_state_dict(json.load(file))
    done = 0
    for epoch in range(sampler.epoch, epochs):
        loader.set_epoch(epoch)
        for step, batch in enumerate(loader):
            learn(accelerator, model, optimizer, epoch, batch)
            done += 1
            if done == stop_after:
                state = sampler.state_dict(step + 1)  # the steps that this loop has finished
                if accelerator.is_main_process:
                    with open(state_path, "w", encoding="utf-8") as file:
                        json.dump(state, file)
                return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
