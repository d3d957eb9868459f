"""Train with Ray Train, save where it is, and go on with any number of workers: with_ray.py CATALOG"""

import json
import os
import sys

import ray
import ray.train.torch
import torch

from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset

CLASSES = ["cat", "dog", "zebra"]


def decode(data, name):
    """A file's first bytes, and the class that its folder names."""
    return torch.tensor(list(data[:6]), dtype=torch.float32), CLASSES.index(name.split("/")[0])


def learn(model, optimizer, epoch, batch):
    x, y = batch
    loss = torch.nn.functional.cross_entropy(model(x / 255), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(config):
    """Runs in each worker."""
    dataset = ShoalDataset(config["path"], decode, with_name=True)
    sampler = ShoalBatchSampler(dataset, batch_size=9, seed=7)
    loader = ray.train.torch.prepare_data_loader(DataLoader(dataset, batch_sampler=sampler))  # shoal.torch's
    model = ray.train.torch.prepare_model(torch.nn.Linear(6, len(CLASSES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if os.path.exists(config["state"]):  # of a run that ended early, with any number of workers
        with open(config["state"], encoding="utf-8") as file:
            sampler.load_state_dict(json.load(file))
    done = 0
    for epoch in range(sampler.epoch, config["epochs"]):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            config.get("learn", learn)(model, optimizer, epoch, batch)
            done += 1
            if done == config.get("stop_after"):
                torch.distributed.barrier()
                if sampler.rank == 0:
                    with open(config["state"], "w", encoding="utf-8") as file:
                        json.dump(sampler.state_dict(step + 1), file)  # steps that this loop has finished: Ray takes one ahead
                return


def main(path, state="state.json", workers=2, epochs=3, **more):
    config = {"path": os.path.abspath(path), "state": os.path.abspath(state), "epochs": epochs, **more}
    scaling = ray.train.ScalingConfig(num_workers=workers, use_gpu=torch.cuda.is_available())
    ray.train.torch.TorchTrainer(train, train_loop_config=config, scaling_config=scaling).fit()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
