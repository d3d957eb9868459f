"""Code as users write it, which `mypy --strict` and pyright must accept: tools/test-types. It is not run."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import pathlib
from typing import Any, Dict, List, Optional, Tuple

import numpy
import numpy.typing
import torch
import torch.utils.data

import shoal
import shoal.torch


def make(folder: pathlib.Path) -> shoal.Catalog:
    def told(progress: shoal.IndexProgress) -> None:
        print(progress.names, progress.where)

    one = shoal.index(folder, folder / "one.cat", include="*.jpg", exclude=["*.tmp", b"x"], progress=told, warn=print)
    shoal.index([("a", 5), ("b", 6)], "two.cat", root="/data", force=True)
    shoal.index("s3://bucket/train", b"three.cat", shard=(0, 4), etags=True)
    shoal.index_pattern("img_{:07d}.jpeg", 100, "four.cat", size=5, progress=told)
    made: Dict[str, int] = one.made
    print(made["nr_names"])
    return one


def look(catalog: shoal.Catalog) -> None:
    name: str = catalog[0]
    names: shoal.Names = catalog[3:7]
    size: Optional[int] = catalog.size(0)
    sizes: numpy.typing.NDArray[numpy.uint64] = catalog.sizes()
    check: shoal.StorageCheck = catalog.verify(storage=True, differs=lambda one: print(one.kind, one.name))
    first: Tuple[shoal.Difference, ...] = check.first
    lists: int = shoal.manifest(catalog, "lists", world_size=8, epoch=1, epochs=3, seed=7)
    catalog.verify()
    print(name, names, size, sizes, first, lists, check.good)
    for each in catalog:
        print(each.upper())


def order(catalog: shoal.Catalog) -> None:
    epoch = shoal.Order(catalog, seed=7, batch_size=64)
    one: int = epoch[0]
    some: numpy.typing.NDArray[numpy.int64] = epoch[10:20]
    state: Dict[str, Any] = epoch.state_dict(3)
    seed: int = shoal.sample_seed(7, epoch.epoch, one)
    print(one, some, state, seed)


def decode(data: bytes, name: str, sample: int, epoch: int) -> Tuple[torch.Tensor, int]:
    generator: torch.Generator = shoal.torch.sample_rng(7, epoch, sample)
    return torch.rand(3, generator=generator), len(data) + len(name)


def train(path: str) -> None:
    dataset = shoal.torch.ShoalDataset(path, decode, with_name=True, with_id=True, keep_going=True, max_errors=10)
    sampler = shoal.torch.ShoalBatchSampler(dataset, batch_size=64, seed=7, drop_last=True)
    loader = shoal.torch.DataLoader(dataset, batch_sampler=sampler, num_workers=8, persistent_workers=True,
                                    collate_fn=shoal.torch.skip_none)
    plain = torch.utils.data.DataLoader(dataset, batch_size=8, sampler=shoal.torch.ShoalSampler(dataset, rank=0, world_size=1))
    for epoch in range(sampler.epoch, 3):
        loader.set_epoch(epoch)
        for batch in loader:
            print(batch)
        for batch in plain:
            print(batch)
    left_out: int = dataset.errors
    names: List[str] = dataset.first_errors
    state: Dict[str, Any] = loader.state_dict()
    loader.load_state_dict(state)
    print(left_out, names, len(dataset), len(loader), dataset.catalog.root, dataset.read([1, 2]))


def iterate(path: str) -> None:
    dataset = shoal.torch.ShoalIterable(path, 256, lambda tensor: tensor.float(), seed=7, prefetch=4)
    for batch in shoal.torch.DataLoader(dataset, batch_size=None):
        print(batch)
    audit: Optional[shoal.Audit] = dataset.audit()
    assert audit is not None and shoal.torch.reduce_audit(audit).exactly_once


def read(path: str) -> None:
    with shoal.Loader(path, batch_size=256) as loader:
        for batch in loader.epoch(0):
            print(batch.stack().sum(), batch.ids[0])


def columns(path: str) -> None:
    lengths: shoal.Column = shoal.scan(path, len, "length", workers=2)
    some: numpy.typing.NDArray[Any] = lengths[3:5]
    places: numpy.typing.NDArray[numpy.int64] = lengths.sorted_ids(0, 10)
    print(lengths[3], some, places, lengths.sort(keep="keep").dtype)
    with shoal.ColumnWriter("c.col", path, "label", "u8") as writer:
        writer.append([1, 2, 3])
    shoal.join_columns("c.col", ["a.col", pathlib.Path("b.col")])
    for ids in shoal.Batches(lengths, max_tokens=4096):
        print(ids.tolist())
    print(shoal.KeptOrder(path, "keep", seed=3)[0])


def lists(whole: shoal.Catalog) -> None:
    listing: shoal.Listing = shoal.list("/data", start_after="a", limit=5, shard=(0, 2), sizes=True)
    print([entry for entry in listing], shoal.count("/data", include="*.jpg"))
    some: shoal.Catalog = shoal.filter(whole, "some.cat", regex="jpg$", files_from=["a", "b"], min_size="1K",
                                       progress=lambda p: print(p.what, p.done, p.total))
    rows: int = shoal.to_parquet("some.cat", "some.parquet") + shoal.to_parquet(shoal.list("/data", sizes=True), "x.parquet")
    parts: Dict[str, shoal.Catalog] = shoal.split(whole, {"train": 0.9}, pathlib.Path("splits"), seed=1)
    print(shoal.merge([some, *parts.values()], "all.cat", repeated="last"), shoal.diff(whole, some).good)
    print(rows, shoal.index("list", "i.cat", format="inventory", columns="Bucket, Key").made, shoal.diff("a.cat", whole).good)
    figures: shoal.Stat = shoal.stat(whole, depth=2)
    print(figures.folders[0].name, shoal.from_uris(["s3://b/a"]).root)


def gather(records: List[Dict[str, float]]) -> None:
    everywhere: List[Any] = shoal.torch.gather_objects(records, budget="16MB")
    on_one: Optional[List[Any]] = shoal.torch.gather_objects(records, to=0)
    print(everywhere, on_one, [len(one) for one in shoal.torch.iter_objects(records)])
    print([len(one) for one in shoal.torch.GatheredFile("all.bin")])


def mistakes(catalog: shoal.Catalog) -> None:
    """What a checker must refuse: an ignored line without an error is an error itself."""
    shoal.index("/data", "c.cat", include=5)  # type: ignore
    shoal.index("/data", "c.cat", shard="1/2")  # type: ignore
    catalog.verify(storage=False, data="/x")  # type: ignore
    catalog.name("a")  # type: ignore
    shoal.torch.ShoalDataset(5)  # type: ignore
    shoal.torch.ShoalBatchSampler(catalog, batch_size="64")  # type: ignore
    shoal.torch.ShoalIterable(catalog, 64, with_ids="yes", rank="0")  # type: ignore
    shoal.scan(catalog, 5)  # type: ignore
    shoal.torch.gather_objects([1], budget=None)  # type: ignore
