"""An installed DLIO without its list of files, its index maps and its reshuffle.

DLIO's own loop, data loader, workers, readers and metrics stay. Replaced are:

- the listing in DLIOBenchmark.initialize(), by the catalog: it is kept from listing, and derive_configurations() gets Files;
- ConfigArguments.reconfigure(), which made a map of all samples and, in MLCommons', exchanged the list among all ranks: it
  goes to the next epoch's order;
- dlio_sampler, by one that yields the order's sample numbers, in DLIO's main processes. So workers need no order, and one that
  lives for all epochs (Argonne's) reads what the epoch asks for;
- what iterable datasets (MLCommons', on S3) make of the list: their workers get the epoch through shared memory;
- what TensorFlow makes of the list of tfrecord files: it takes one path after another;
- what readers keep by path: dictionaries that grow with each file that was read, and the index files of all indexed_binary files.
"""

import contextlib
import functools
import math
import os
import sys

from .._errors import BadValueError, Error
from .._store import parse_uri
from ..catalog import Catalog
from . import pieces
from .sequences import Entries, Files, Sampler, Samples

_KEPT = 256  # files of which a reader may keep something; a batch does not need them
_CACHES = ("open_file_map", "_local_cache", "_object_cache", "file_map_ibr", "buffer_map")
_BLOCK = 4096  # files that an iterable reader gets at once

_installed = None  # the version that was replaced in this process


# ---- The dataset


def _by_tensorflow(args):
    """Files that DLIO hands to TensorFlow whole, and to nothing else."""
    return str(args.format) == "tfrecord" and str(args.data_loader) == "tensorflow"


def _check_settings(args):
    """Raise for settings that other code of DLIO's serves, which is not replaced."""
    for key, value, good in (("data_loader", args.data_loader, ("tensorflow" if str(args.format) == "tfrecord" else "pytorch",)),
                             ("data_loader_sampler", args.data_loader_sampler, ("iterative" if _by_tensorflow(args) else "index", "None")),
                             ("data_loader_classname", args.data_loader_classname, ("None",))):
        if str(value) not in good:
            raise BadValueError(22, "shoal.dlio.Callback serves reader.%s=%s, not %s: run this workload without it"
                                % (key, good[0].replace("None", "null"), value))


def _check_names(catalog, ids, takes, wanted):
    # Mapped by itself: all pages of it are touched, and would count as memory of this process and its workers.
    own = catalog if parse_uri(catalog.path).objects else Catalog(catalog.path)
    for name in own[ids.start:ids.stop]:
        if not takes(name):
            raise BadValueError(22, "'%s' has '%s', which DLIO does not read as %s: make the catalog without such files (shoal index "
                                "--include)" % (catalog.path, name, wanted))
    if own is not catalog:
        own.close()


def _takes(args, dataset_type, cut):
    """Whether DLIO's own listing would take a name."""
    from dlio_benchmark.common.enumerations import DatasetType

    kind, train = str(args.format), dataset_type is DatasetType.TRAIN
    if str(args.storage_type) != "local_fs":
        return lambda name: name.endswith(kind)
    if (args.num_subfolders_train if train else args.num_subfolders_eval) > 0:
        return lambda name: name.lower().endswith("." + kind) and name.count("/", cut) == 1
    return lambda name: name.endswith(kind) and "/" not in name[cut:]


def _files(args, dataset_type, nr):
    """The first nr files of a dataset, of whose names this rank checks a part. Collective over all ranks."""
    from . import dataset

    def look():
        catalog = dataset.open_catalog(args, dataset_type)
        storage = dataset.storage_of(args, dataset_type)
        prefix = dataset.prefix_in(catalog, storage)
        first = catalog.lower_bound(prefix) if prefix else 0
        last = catalog.lower_bound(prefix[:-1] + "0") if prefix else len(catalog)  # "0" follows "/"
        if last - first < nr:
            raise BadValueError(22, "dataset.num_files_%s is %d, and '%s' has %d files of %s: generate the others, or remove the catalog if it "
                                "is older than they are" % (dataset.config_name(dataset_type), nr, catalog.path, last - first, storage))
        mine = range(first + nr * args.my_rank // args.comm_size, first + nr * (args.my_rank + 1) // args.comm_size)
        _check_names(catalog, mine, _takes(args, dataset_type, len(prefix)), "a file of %s" % storage)
        return catalog, len(prefix), first

    if not nr:
        return ()
    found = []
    dataset.on_all_ranks(lambda: found.append(look()))
    catalog, cut, first = found[0]
    folder = dataset.data_folder(args, dataset_type)
    order = dataset.order_options(args)
    if str(args.storage_type) == "local_fs":
        folder = os.path.abspath(folder)
    return Files(catalog, folder.rstrip("/") + "/", cut, first, nr, args.seed, order["mode"] == "global", order["frozen"])


def _trimmed(args, nr, batch_size):
    """Argonne's cuts the list to whole steps of all ranks, counting files as samples."""
    step = args.num_samples_per_file * batch_size * args.comm_size
    return nr // step * step


def _share(args, files):
    """The positions of the epoch that a rank reads, in samples; as many on each."""
    if _pre_sharded(args):
        nr = len(files) * args.num_samples_per_file
        return range(args.my_rank * nr, (args.my_rank + 1) * nr)
    nr = len(files) * args.num_samples_per_file // args.comm_size
    return range(args.my_rank * nr, (args.my_rank + 1) * nr)


def _pre_sharded(args):
    return bool(getattr(args, "files_pre_sharded", False))


def _of_rank(args, files):
    """MLCommons' gives each rank its part of the list."""
    if not files or not _pre_sharded(args):
        return files
    nr = len(files) // args.comm_size
    return files[args.my_rank * nr:(args.my_rank + 1) * nr]


# ---- The main process


def _datasets(benchmark):
    """(files of train, files of valid), and DLIO's own counts of them set."""
    from dlio_benchmark.common.enumerations import DatasetType

    args = benchmark.args
    nr_train, nr_eval = benchmark.num_files_train, benchmark.num_files_eval if benchmark.do_eval else 0
    if _installed.startswith("Argonne"):
        nr_train, nr_eval = _trimmed(args, nr_train, benchmark.batch_size), _trimmed(args, nr_eval, benchmark.batch_size_eval)
        benchmark.num_files_train, benchmark.num_files_eval = nr_train, nr_eval
    if _installed.startswith("MLCommons"):
        args.files_pre_sharded = True
    return tuple(_of_rank(args, _files(args, kind, nr)) for kind, nr in ((DatasetType.TRAIN, nr_train), (DatasetType.VALID, nr_eval)))


@contextlib.contextmanager
def _not_listing(benchmark):
    """Keep initialize() from listing: it lists only to train, or finds an empty folder of which it wants no files (PyPI's)."""
    args, nr = benchmark.args, (benchmark.num_files_train, benchmark.num_files_eval)
    by_flag = not _installed.startswith("PyPI")
    if by_flag:
        args.do_train = False
    else:
        benchmark.storage.walk_node = lambda *_, **__: []
        benchmark.num_files_train = benchmark.num_files_eval = 0

    def end():
        if by_flag:
            args.do_train = True
        else:
            benchmark.storage.__dict__.pop("walk_node", None)
            benchmark.num_files_train, benchmark.num_files_eval = nr

    try:
        yield end
    finally:
        end()


def _wrap_initialize(original, config):
    @functools.wraps(original)
    def initialize(self):
        # PyPI's has no such flag, and trains unless it only generates.
        if self.generate_only or not getattr(self.args, "do_train", True):
            return original(self)
        _check_settings(self.args)
        if _by_tensorflow(self.args):
            _install_in_tensorflow()
        derive = type(self.args).derive_configurations
        with _not_listing(self) as listed:
            def derive_configurations(file_list_train=None, file_list_eval=None):
                if file_list_train is None:
                    return derive(self.args)
                listed()
                with _lazy_lists(config):
                    return derive(self.args, *_datasets(self))

            self.args.derive_configurations = derive_configurations
            try:
                return original(self)
            finally:
                del self.args.derive_configurations  # it is pickled for workers

    return initialize


class _Lazy(type):
    """A `list` for DLIO's modules that leaves what is computed as it is."""

    def __call__(cls, values=()):
        return values if isinstance(values, (Files, range)) else list(values)

    def __instancecheck__(cls, value):
        return isinstance(value, list)


class _LazyList(metaclass=_Lazy):
    pass


@contextlib.contextmanager
def _lazy_lists(module):
    module.list = _LazyList
    try:
        yield
    finally:
        del module.list


def _reconfigure(self, epoch_number):
    """In place of DLIO's: go to the order of an epoch."""
    self.file_list_train, self.file_list_eval = (files and files.of_epoch(epoch_number) for files in (self.file_list_train, self.file_list_eval))
    self.train_global_index_map, self.val_global_index_map = (
        Samples(files, self.num_samples_per_file) if files else {} for files in (self.file_list_train, self.file_list_eval))
    if _pre_sharded(self):  # as many on all ranks, so that none has to be asked
        self.training_steps = self.total_samples_train // self.batch_size
        self.eval_steps = self.total_samples_eval // self.batch_size_eval
    for words in _epochs:
        words[0] = epoch_number


_epochs = []  # of the iterable datasets of this process: two at most
_reading = None  # the loader that is being made


def _make_sampler(*_):
    """In place of dlio_sampler: of the dataset whose loader is being made."""
    from dlio_benchmark.common.enumerations import DatasetType

    # Not ConfigArguments.get_instance(): without workers that is a copy, which DLIO does not reconfigure.
    args = _reading._args
    attribute = "file_list_train" if _reading.dataset_type is DatasetType.TRAIN else "file_list_eval"
    files = getattr(args, attribute)
    return Sampler(lambda: getattr(args, attribute), args.num_samples_per_file, _share(args, files) if files else range(0))


def _wrap_read(original):
    @functools.wraps(original)
    def read(self):
        global _reading
        _reading = self
        result = original(self)
        data = self._dataset.dataset
        if type(data).__name__.startswith("TorchIterable"):
            from ..torch.shared import Words

            files = self._args.file_list_train
            data.shoal_epoch = Words([files.epoch if files else 1])
            _epochs.append(data.shoal_epoch)
        return result

    return read


# ---- Workers


def _wrap_getitem(original):
    """Forget files that were read: DLIO keeps an entry by path of each."""
    from dlio_benchmark.common.enumerations import ReadType

    @functools.wraps(original)
    def getitem(self, sample):
        item = original(self, sample)
        if self.reader._args.read_type is ReadType.ON_DEMAND:
            for name in _CACHES:
                kept = getattr(self.reader, name, None)
                if kept and len(kept) > _KEPT:
                    kept.clear()
        return item

    return getitem


def _wrap_rows(original):
    """Parquet: the worker's files are those of the epoch."""
    @functools.wraps(original)
    def rows(self):
        if self.reader is not None:
            self.reader._file_list = self.reader._file_list.of_epoch(self.shoal_epoch[0])
        return original(self)

    return rows


def _simple_iter(self):
    """In place of TorchIterableDatasetSimple.__iter__: the worker's files in blocks of whole batches."""
    from dlio_benchmark.utils.config import ConfigArguments
    from torch.utils.data import get_worker_info

    args, worker = ConfigArguments.get_instance(), get_worker_info()
    files = self.reader._file_list
    nr_all, files = len(files), files.of_epoch(self.shoal_epoch[0]) if files else files
    if worker is not None:
        files = files[worker.id::worker.num_workers]
    print("[ITER_SIMPLE] worker=%d reader=%s files_this_worker=%d total_files=%d"
          % (worker.id if worker else 0, type(self.reader).__name__, len(files), nr_all), flush=True)
    whole = self.batch_size // math.gcd(self.batch_size, args.num_samples_per_file)
    block = max(1, _BLOCK // whole) * whole
    for start in range(0, len(files), block):
        self.reader.file_map[self.reader.thread_index] = Entries(files[start:start + block], args.num_samples_per_file)
        for _ in self.reader.next():
            yield args.resized_image


def _tensorflow_next(self):
    """In place of TFReader.next(): the samples of the rank, of the epoch that is current when they are asked for."""
    import tensorflow as tf
    from dlio_benchmark.common.enumerations import DatasetType, Shuffle

    args = self._args
    attribute = "file_list_train" if self.dataset_type is DatasetType.TRAIN else "file_list_eval"
    nr_files, nr_ranks = len(getattr(args, attribute)), 1 if _pre_sharded(args) else args.comm_size
    if not nr_files:
        return []
    # As DLIO has it: of fewer files than ranks all read all, and each keeps its samples.
    by_files = nr_files >= nr_ranks

    def paths():
        files = getattr(args, attribute)
        return iter(files[args.my_rank::nr_ranks] if by_files and nr_ranks > 1 else files)

    data = tf.data.Dataset.from_generator(paths, output_signature=tf.TensorSpec((), tf.string))
    data = tf.data.TFRecordDataset(data, buffer_size=args.transfer_size, num_parallel_reads=args.read_threads)
    if args.sample_shuffle != Shuffle.OFF:
        data = data.shuffle(args.shuffle_size, seed=args.seed if args.sample_shuffle == Shuffle.SEED else None)
    if not by_files:
        data = data.shard(nr_ranks, args.my_rank)
    data = data.batch(self.batch_size, drop_remainder=True)
    data = data.map(lambda records: tf.py_function(self._parse_image, [records], [tf.uint8]), num_parallel_calls=args.computation_threads)
    # DLIO asks for these anew in each epoch.
    return data.take(nr_files * args.num_samples_per_file // nr_ranks // self.batch_size).prefetch(args.prefetch_size)


class _IndexFiles(dict):
    """The index files of an indexed_binary reader, each read when it is asked for."""

    def __init__(self, reader):
        super().__init__()
        self._reader = reader

    def __missing__(self, path):
        self._reader.file_map_ibr.pop(path, None)  # what load_index_file() asks whether it has both
        self._reader.load_index_file(None, path, None)
        return dict.__getitem__(self, path)


def _load_index(self):
    """In place of load_index(), which reads the index files of all files."""
    self.file_map_ibr = _IndexFiles(self)
    if hasattr(self, "buffer_map"):
        self.buffer_map = _IndexFiles(self)


# ---- To install


def _install_in_workers():
    from dlio_benchmark.data_loader import torch_data_loader as loader
    from dlio_benchmark.reader.indexed_binary_mmap_reader import IndexedBinaryMMapReader
    from dlio_benchmark.reader.indexed_binary_reader import IndexedBinaryReader

    loader.TorchDataset.__getitem__ = _wrap_getitem(loader.TorchDataset.__getitem__)
    IndexedBinaryReader.load_index = IndexedBinaryMMapReader.load_index = _load_index
    if hasattr(loader, "TorchIterableDatasetSimple"):
        loader.TorchIterableDatasetSimple.__iter__ = _simple_iter
        loader.TorchIterableDataset.__iter__ = _wrap_rows(loader.TorchIterableDataset.__iter__)
        loader.list = _LazyList


def _install_in_tensorflow():
    """In processes that need it: it imports TensorFlow."""
    from dlio_benchmark.reader.tf_reader import TFReader

    TFReader.next = _tensorflow_next


def install():
    """Replace the pieces in this process, once. Raises BadValueError, and replaces none, where the installed DLIO is not known."""
    global _installed
    if _installed:
        return
    version = pieces.version()
    from dlio_benchmark import main
    from dlio_benchmark.data_loader import torch_data_loader as loader
    from dlio_benchmark.utils import config

    main.DLIOBenchmark.initialize = _wrap_initialize(main.DLIOBenchmark.initialize, config)
    config.ConfigArguments.reconfigure = _reconfigure
    loader.dlio_sampler = _make_sampler
    loader.TorchDataLoader.read = _wrap_read(loader.TorchDataLoader.read)
    _install_in_workers()
    _installed = version


def install_in_worker():
    """Replace what workers use, in one that was spawned: its DLIO is the one that was checked where it was started from."""
    global _installed
    if not _installed:
        _install_in_workers()
        _installed = "a worker's"


def install_or_exit():
    """The same, with a sentence and exit status 1 where install() raises: Hydra only warns of what a callback raises."""
    try:
        install()
    except Error as e:
        print("shoal.dlio: %s" % e, file=sys.stderr)
        sys.exit(1)


class Callback:
    """For +hydra.callbacks.shoal._target_=shoal.dlio.Callback: DLIO without its list. Hydra calls it before DLIO starts."""

    def on_run_start(self, config, **_):
        install_or_exit()

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda **_: None
        raise AttributeError(name)
