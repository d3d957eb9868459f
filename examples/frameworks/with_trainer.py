"""Train with the Trainer of transformers, and go on from a checkpoint: torchrun --nproc-per-node 2 with_trainer.py CATALOG"""

import sys

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset

CLASSES = ["cat", "dog", "zebra"]


def decode(data, name):
    """What a model of transformers takes: a dictionary of its arguments."""
    return {"x": torch.tensor(list(data[:6]), dtype=torch.float32), "labels": CLASSES.index(name.split("/")[0])}


class ShoalTrainer(Trainer):
    def get_train_dataloader(self):
        """Without accelerator.prepare(): the sampler makes the ranks' shares, and Trainer moves the batches."""
        sampler = ShoalBatchSampler(self.train_dataset, self.args.train_batch_size, seed=self.args.seed)
        return DataLoader(self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator,
                          num_workers=self.args.dataloader_num_workers)


class SameSteps(TrainerCallback):
    """Trainer finds its place by counting steps: with other ranks or batches that would be another place."""

    def on_train_begin(self, args, state, control, **more):
        now = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
        for entry in state.log_history:  # a checkpoint has it
            if entry.get("samples_per_step", now) != now:
                raise ValueError("the checkpoint was saved with %d samples per step of all ranks, and there are %d now: go on with "
                                 "as many ranks, samples per batch and accumulated batches" % (entry["samples_per_step"], now))
        state.log_history.append({"samples_per_step": now, "step": state.global_step})


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, len(CLASSES))

    def forward(self, x, labels):
        logits = self.layer(x / 255)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def main(path, folder="checkpoints", trainer=ShoalTrainer, go_on=None, **options):
    """go_on: a checkpoint's folder, or True for the last one, of as many ranks as there are now."""
    arguments = TrainingArguments(folder, per_device_train_batch_size=9, num_train_epochs=3, save_steps=14, seed=7,
                                  dataloader_num_workers=2, use_cpu=not torch.cuda.is_available(), report_to=[],
                                  remove_unused_columns=False, **options)
    dataset = ShoalDataset(path, decode, with_name=True)
    trainer(model=Model(), args=arguments, train_dataset=dataset, callbacks=[SameSteps()]).train(resume_from_checkpoint=go_on)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
