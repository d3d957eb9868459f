"""Train with Lightning on any number of ranks, and go on from a checkpoint in the middle: with_lightning.py CATALOG"""

import sys

import lightning
import torch

from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset

CLASSES = ["cat", "dog", "zebra"]


def decode(data, name):
    """A file's first bytes, and the class that its folder names."""
    return torch.tensor(list(data[:6]), dtype=torch.float32), CLASSES.index(name.split("/")[0])


class Data(lightning.LightningDataModule):
    def __init__(self, path, batch_size=9):
        super().__init__()
        self.path, self.batch_size, self.state, self.loader = path, batch_size, None, None

    def train_dataloader(self):  # here, and not in __init__: only now are the ranks known
        dataset = ShoalDataset(self.path, decode, with_name=True)
        sampler = ShoalBatchSampler(dataset, self.batch_size, seed=7)
        self.loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True)  # shoal.torch's
        if self.state is not None:
            self.loader.load_state_dict(self.state)
        return self.loader

    def state_dict(self):  # of the checkpoint
        return {} if self.loader is None else self.loader.state_dict()

    def load_state_dict(self, state):  # before train_dataloader(), so that Lightning finds the right number of steps
        self.state = state or None


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, len(CLASSES))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.layer(x / 255), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main(path, model, devices=2, go_on=None, folder="checkpoints", **options):
    """go_on: a checkpoint, saved with any number of ranks."""
    every = lightning.pytorch.callbacks.ModelCheckpoint(folder, every_n_train_steps=14, save_top_k=-1)
    trainer = lightning.Trainer(accelerator="cpu", devices=devices, strategy="ddp", callbacks=[every], **options)
    trainer.fit(model, Data(path), ckpt_path=go_on)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1], Model(), max_epochs=3)
