"""Lightning, Accelerate, the Trainer of transformers and Ray Train, as they are, drive the examples that docs/frameworks.md shows:
every sample once in each epoch over all ranks, each epoch in its own order, and the middle of an epoch resumed exactly."""
import collections
import glob
import importlib.util
import json
import os
import signal
import shutil
import subprocess
import sys

import pytest

MISSING = [name for name in ("lightning", "accelerate", "transformers", "ray") if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip("%s: not installed here. make test-frameworks fetches them and runs these" % ", ".join(MISSING),
                allow_module_level=True)

import shoal  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = ("cat", "dog", "zebra")
NR, BATCH, SEED = 180, 9, 7


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """180 files in three folders. Each holds its number."""
    folder = tmp_path_factory.mktemp("classes")
    for i in range(NR):
        path = folder / "data" / CLASSES[i // 60] / ("%06d.jpg" % i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%06d" % i + bytes(i % 40))
    shoal.index(folder / "data", folder / "c.cat")
    return str(folder / "c.cat")


def drive(framework, catalog, folder, ranks=None, **options):
    """The exit status and the output; with ranks, started by torchrun."""
    start = [] if ranks is None else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    folder.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, *start, os.path.join(HERE, "drive.py"), framework, catalog, str(folder),
                           json.dumps(options)], cwd=folder, timeout=500, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
    return done.returncode, done.stdout


# What torch 2.15 sometimes prints when a process with gloo ends, without Shoal too: after all was done.
TORCHS_END = "terminate called without an active exception"


def works(*args, **options):
    code, output = drive(*args, **options)
    assert code == 0 or (code == -signal.SIGABRT and output.rstrip().endswith(TORCHS_END)), output[-4000:]
    for words in ("shoal", "docs/frameworks.md", "read again"):
        told = [line for line in output.split("\n") if "RuntimeWarning" in line and words in line]
        assert told == [], told
    return output


def refused(words, *args, **options):
    code, output = drive(*args, **options)
    assert code != 0 and words in output, output[-4000:]


def seen(folder):
    """By epoch, by rank: the batches. All classes were right."""
    epochs = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(glob.glob(str(folder / "seen-*"))):
        with open(path, encoding="utf-8") as file:
            for epoch, ids, classes in map(json.loads, file):
                assert classes == [i // 60 for i in ids]
                epochs[epoch][int(path.rsplit("-", 1)[1])].append(ids)
    return epochs


def together(ranks):
    """The epoch's order, when the ranks took batches in turn."""
    return [i for step in zip(*(ranks[rank] for rank in sorted(ranks))) for batch in step for i in batch]


def order(epoch):
    return list(shoal.Order(NR, seed=SEED, epoch=epoch))


def three_whole_epochs(folder, ranks=2, in_turn=True):
    epochs = seen(folder)
    assert sorted(epochs) == [0, 1, 2]
    for epoch in range(3):
        assert len(epochs[epoch]) == ranks
        got = together(epochs[epoch])
        assert sorted(got) == list(range(NR)), (epoch, len(got), len(set(got)))
        assert got == order(epoch) or not in_turn
    assert len({tuple(together(epochs[epoch])) for epoch in range(3)}) == 3


def goes_on(first, then):
    """Epoch 1 was left after 4 steps of two ranks, and the rest of it and all of epoch 2 came then."""
    before, after = together(seen(first)[1]), together(seen(then)[1])
    assert before == order(1)[:4 * 2 * BATCH]
    assert before + after == order(1), (len(after), len(set(before + after)))
    last = together(seen(then)[2])
    assert last[:NR] == order(2) and last[NR:] == order(2)[:len(last) - NR]  # ranks are filled up to whole steps
    assert len(last) < NR + 3 * BATCH and sorted(seen(then)) == [1, 2]


# ---- Lightning ----

@pytest.mark.parametrize("options, ranks", [
    ({}, 2), ({"devices": 1}, 1), ({"use_distributed_sampler": False}, 2), ({"kind": "batches"}, 2), ({"kind": "sampler"}, 2),
    ({"kind": "iterable"}, 2), ({"kind": "sampler", "plain": True}, 2),
    ({"kind": "batches", "plain": True, "use_distributed_sampler": False}, 2)])
def test_lightning_reads_every_sample_once_in_each_epoch(catalog, tmp_path, options, ranks):
    works("lightning", catalog, tmp_path, max_epochs=3, **options)
    three_whole_epochs(tmp_path, ranks, in_turn="sampler" != options.get("kind"))


def test_lightning_is_refused_a_batch_sampler_of_its_own_sampler(catalog, tmp_path):
    refused("use shoal.torch.DataLoader", "lightning", catalog, tmp_path, max_epochs=3, kind="batches", plain=True)
    assert not seen(tmp_path)


def test_an_iterable_in_torchs_loader_under_lightning_tells_that_its_order_repeats(catalog, tmp_path):
    code, output = drive("lightning", catalog, tmp_path, max_epochs=3, kind="iterable", plain=True)
    assert code == 0 and "epoch 0 is read again" in output


@pytest.fixture(scope="module")
def stopped_lightning(catalog, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lightning") / "first"
    works("lightning", catalog, folder, max_steps=14)
    return folder, glob.glob(str(folder / "checkpoints" / "*step=14*"))[0]


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_lightning_goes_on_in_the_middle_of_an_epoch_with_any_number_of_ranks(catalog, tmp_path, stopped_lightning, devices):
    first, checkpoint = stopped_lightning
    works("lightning", catalog, tmp_path, max_epochs=3, devices=devices, go_on=checkpoint)
    goes_on(first, tmp_path)


def test_lightning_is_told_when_it_would_stop_before_the_end_of_a_resumed_epoch(catalog, tmp_path, stopped_lightning):
    """Without the data module's own state it has counted the steps before it loads the loader's."""
    refused("4 steps of this epoch are done and 4 are left", "lightning", catalog, tmp_path, max_epochs=3, devices=3, kind="batches",
            go_on=stopped_lightning[1])
    assert not seen(tmp_path)


# ---- Accelerate ----

@pytest.mark.parametrize("options", [
    {}, {"kind": "batches"}, {"kind": "batches", "plain": True}, {"kind": "sampler"}, {"kind": "sampler", "plain": True},
    {"kind": "iterable"}, {"kind": "batches", "plain": True, "dispatch": True}])
def test_accelerate_reads_every_sample_once_in_each_epoch(catalog, tmp_path, options):
    works("accelerate", catalog, tmp_path, ranks=2, **options)
    three_whole_epochs(tmp_path)


@pytest.mark.parametrize("dispatch", [None, False])
def test_accelerate_is_refused_to_divide_an_iterable_again(catalog, tmp_path, dispatch):
    refused("Accelerate would divide", "accelerate", catalog, tmp_path, ranks=2, kind="iterable", plain=True, dispatch=dispatch)
    assert not seen(tmp_path)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_accelerate_goes_on_in_the_middle_of_an_epoch_with_any_number_of_ranks(catalog, tmp_path, ranks):
    first, then = tmp_path / "first", tmp_path / "then"
    works("accelerate", catalog, first, ranks=2, stop_after=14)
    then.mkdir()
    shutil.copy(first / "state.json", then)
    works("accelerate", catalog, then, ranks=ranks)
    goes_on(first, then)


# ---- The Trainer of transformers ----

@pytest.mark.parametrize("options", [{}, {"own_sampler": True}, {"prepared": True}])
def test_trainer_reads_every_sample_once_and_goes_on_in_the_middle_of_an_epoch(catalog, tmp_path, options):
    works("trainer", catalog, tmp_path / "whole", ranks=2, **options)
    three_whole_epochs(tmp_path / "whole")
    first, then = tmp_path / "first", tmp_path / "then"
    works("trainer", catalog, first, ranks=2, max_steps=14, **options)
    works("trainer", catalog, then, ranks=2, go_on=str(first / "checkpoints" / "checkpoint-14"), **options)
    goes_on(first, then)


def test_trainer_is_refused_a_checkpoint_of_another_number_of_ranks(catalog, tmp_path):
    """It finds its place by the number of steps, which is another place with other ranks."""
    works("trainer", catalog, tmp_path / "first", ranks=2, max_steps=14)
    checkpoint = str(tmp_path / "first" / "checkpoints" / "checkpoint-14")
    refused("was saved with 18 samples per step of all ranks, and there are 9 now", "trainer", catalog, tmp_path / "then",
            ranks=1, go_on=checkpoint)
    assert not seen(tmp_path / "then")


# ---- Ray Train ----

def test_ray_reads_every_sample_once_in_each_epoch(catalog, tmp_path):
    works("ray", catalog, tmp_path)
    three_whole_epochs(tmp_path)


def test_ray_tells_that_it_has_replaced_a_batch_sampler(catalog, tmp_path):
    code, output = drive("ray", catalog, tmp_path, plain=True)
    assert "not one in the order of the sampler" in output or code != 0, output[-4000:]


@pytest.mark.parametrize("workers", [1, 3])
def test_ray_goes_on_in_the_middle_of_an_epoch_with_another_number_of_workers(catalog, tmp_path, workers):
    first, then = tmp_path / "first", tmp_path / "then"
    works("ray", catalog, first, stop_after=14)
    then.mkdir()
    shutil.copy(first / "state.json", then)
    works("ray", catalog, then, workers=workers)
    goes_on(first, then)
