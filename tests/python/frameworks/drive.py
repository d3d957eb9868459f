"""Runs an example of examples/frameworks/, or a variation of it, and writes down which samples each rank was given:
drive.py FRAMEWORK CATALOG FOLDER OPTIONS, with OPTIONS as JSON. Started once, or by what starts the ranks.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "..", "examples", "frameworks"), HERE]


def note(folder, rank, epoch, x, y):
    """One batch: the numbers of its samples, which are what the files begin with, and their classes."""
    ids = [int(bytes(int(c) for c in row)) for row in x.tolist()]
    with open(os.path.join(folder, "seen-%d" % rank), "a", encoding="utf-8") as file:
        file.write(json.dumps([epoch, ids, y.tolist()]) + "\n")


def loader_of(kind, plain, path, decode):
    """The loaders that users write: Shoal's or torch's over a batch sampler, a sampler or an iterable."""
    import torch.utils.data
    from shoal.torch import DataLoader, ShoalBatchSampler, ShoalDataset, ShoalIterable, ShoalSampler
    loader = torch.utils.data.DataLoader if plain else DataLoader
    if kind == "iterable":
        whole = torch.utils.data.default_collate
        return loader(ShoalIterable(path, 9, decode, output="bytes", with_name=True, seed=7), batch_size=None, collate_fn=whole)
    dataset = ShoalDataset(path, decode, with_name=True)
    if kind == "sampler":
        return loader(dataset, 9, sampler=ShoalSampler(dataset, seed=7))
    return loader(dataset, batch_sampler=ShoalBatchSampler(dataset, 9, seed=7))


def drive_lightning(path, folder, go_on=None, devices=2, kind=None, plain=False, **options):
    import with_lightning

    class Seen(with_lightning.Model):
        def training_step(self, batch, batch_idx):
            note(folder, self.global_rank, self.current_epoch, *batch)
            return super().training_step(batch, batch_idx)

    if kind is not None:
        with_lightning.Data.train_dataloader = lambda data: loader_of(kind, plain, path, with_lightning.decode)
    with_lightning.main(path, Seen(), devices, go_on, os.path.join(folder, "checkpoints"), enable_progress_bar=False,
                        logger=False, enable_model_summary=False, **options)


def drive_accelerate(path, folder, kind=None, plain=False, dispatch=None, **options):
    import accelerate
    import torch
    import with_accelerate
    learn = with_accelerate.learn

    def seen(accelerator, model, optimizer, epoch, batch):
        note(folder, accelerator.process_index, epoch, *batch)
        learn(accelerator, model, optimizer, epoch, batch)

    if kind is None:
        with_accelerate.learn = seen
        with_accelerate.main(path, os.path.join(folder, "state.json"), **options)
        return
    accelerator = accelerate.Accelerator(
        cpu=True, dataloader_config=accelerate.utils.DataLoaderConfiguration(dispatch_batches=dispatch))
    loader = accelerator.prepare(loader_of(kind, plain, path, with_accelerate.decode))
    for epoch in range(3):
        assert kind == "iterable" or len(loader) == 10, len(loader)
        for batch in loader:
            note(folder, accelerator.process_index, epoch, *batch)
    torch.distributed.destroy_process_group()


def drive_trainer(path, folder, own_sampler=False, prepared=False, **options):
    import torch
    import transformers
    import with_trainer
    from shoal.torch import ShoalSampler

    class Seen(with_trainer.ShoalTrainer):
        if own_sampler:
            get_train_dataloader = with_trainer.Trainer.get_train_dataloader

            def _get_train_sampler(self, *_):
                return ShoalSampler(self.train_dataset, seed=7)

        if prepared:
            def get_train_dataloader(self):
                return self.accelerator.prepare(super().get_train_dataloader())

        def training_step(self, model, inputs, *more):
            epoch = self.state.global_step // 10
            note(folder, int(os.environ.get("RANK", 0)), epoch, inputs["x"], inputs["labels"])
            return super().training_step(model, inputs, *more)

    if int(transformers.__version__.split(".")[0]) < 5:  # it cannot load its own optimizer's state on several ranks without GPUs
        options["save_only_model"] = True
    with_trainer.main(path, os.path.join(folder, "checkpoints"), Seen, disable_tqdm=True, **options)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def drive_ray(path, folder, workers=2, plain=False, **options):
    import ray
    import with_ray

    def seen(model, optimizer, epoch, batch):
        note(folder, ray.train.get_context().get_world_rank(), epoch, *batch)
        with_ray.learn(model, optimizer, epoch, batch)

    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=True,
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], *sys.path[:2]])}})
    if plain:
        def plain_train(config):
            import torch.utils.data
            import with_ray as there
            there.DataLoader = torch.utils.data.DataLoader
            there.train(config)

        with_ray.train = plain_train
    with_ray.main(path, os.path.join(folder, "state.json"), workers, learn=seen, **options)
    ray.shutdown()


if __name__ == "__main__":
    globals()["drive_" + sys.argv[1]](sys.argv[2], sys.argv[3], **json.loads(sys.argv[4]))
