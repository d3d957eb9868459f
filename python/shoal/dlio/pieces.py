"""The pieces of DLIO that Callback replaces or relies on, and what they must be.

DLIO has no interface for what is replaced, so that the text of each piece is compared: without comments and blank lines, by a
hash. A DLIO with any other text is refused before anything is replaced. `python -m shoal.dlio.pieces` prints the hashes of the
installed one, for a new entry here, which needs a run of `make test-dlio`.
"""

import ast
import hashlib
import importlib.util

from .._errors import BadValueError

_MAIN, _CONFIG = "main", "utils.config"
_LOADER, _HANDLER = "data_loader.torch_data_loader", "reader.reader_handler"
_BINARY, _MAPPED = "reader.indexed_binary_reader", "reader.indexed_binary_mmap_reader"
_TENSORFLOW, _RECORDS = "data_loader.tf_data_loader", "reader.tf_reader"
_LOCAL, _OBJECTS = "reader._local_fs_iterable_mixin", "reader._s3_iterable_mixin"

# By version: module, class or method, and the hash of its text.
KNOWN = {
    "PyPI's 2.0.0": {
        (_MAIN, "DLIOBenchmark.initialize"): "a89f1087a899adc7",
        (_MAIN, "DLIOBenchmark.run"): "0a3bf15bde31c1d5",
        (_MAIN, "DLIOBenchmark._train"): "84071e03b9d126ed",
        (_MAIN, "DLIOBenchmark._eval"): "8228511d6850c33e",
        (_CONFIG, "ConfigArguments.__setstate__"): "659c67c1a7b8b72a",
        (_CONFIG, "ConfigArguments.derive_configurations"): "4cbabafc6fcfae5c",
        (_CONFIG, "ConfigArguments.reconfigure"): "fc7c46c0c34e49dc",
        (_LOADER, "TorchDataset"): "3d5b118922fcc23d",
        (_LOADER, "dlio_sampler"): "d1c84fec722048f0",
        (_LOADER, "TorchDataLoader"): "a32240e4e852b102",
        (_TENSORFLOW, "TFDataLoader"): "73dd3a65cfebf9f1",
        (_RECORDS, "TFReader"): "379bb1d08c7cc10d",
        (_HANDLER, "FormatReader"): "029af6ebd79616ca",
        (_BINARY, "IndexedBinaryReader"): "97d84f42ae11331b",
        (_MAPPED, "IndexedBinaryMMapReader"): "5fddf8ba13ddcf89",
    },
    "Argonne's e1919d7": {
        (_MAIN, "DLIOBenchmark.initialize"): "20c9778c7c6d039d",
        (_MAIN, "DLIOBenchmark.run"): "932a25312c053036",
        (_MAIN, "DLIOBenchmark._train"): "379cc1dc7f276580",
        (_MAIN, "DLIOBenchmark._eval"): "ce3d8cbc9fe178e0",
        (_CONFIG, "ConfigArguments.__setstate__"): "361dc5a5461b8248",
        (_CONFIG, "ConfigArguments.derive_configurations"): "93d6161bdb21d137",
        (_CONFIG, "ConfigArguments.reconfigure"): "27f34f4cd8e779b4",
        (_LOADER, "TorchDataset"): "a57e1a92f7fb0c95",
        (_LOADER, "dlio_sampler"): "4a80188ced8e24ca",
        (_LOADER, "TorchDataLoader"): "6bc8bf242b1533b4",
        (_TENSORFLOW, "TFDataLoader"): "0c9ef810c299e110",
        (_RECORDS, "TFReader"): "07c638359ebc8ea5",
        (_HANDLER, "FormatReader"): "eb8652f6fcf9d8f4",
        (_BINARY, "IndexedBinaryReader"): "d3683aa03b420981",
        (_MAPPED, "IndexedBinaryMMapReader"): "5b97448f2d08dadc",
    },
    "MLCommons' f6796ed": {
        (_MAIN, "DLIOBenchmark.initialize"): "771259755189e682",
        (_MAIN, "DLIOBenchmark.run"): "cb2194a443895dfc",
        (_MAIN, "DLIOBenchmark._train"): "51acc9d5e0714ce7",
        (_MAIN, "DLIOBenchmark._eval"): "d6fec877b01c139d",
        (_CONFIG, "ConfigArguments.__setstate__"): "361dc5a5461b8248",
        (_CONFIG, "ConfigArguments.derive_configurations"): "b5ad360eab874a5b",
        (_CONFIG, "ConfigArguments.reconfigure"): "1317983a205755c7",
        (_LOADER, "TorchDataset"): "735b792bccb02034",
        (_LOADER, "TorchIterableDataset"): "d561257fd0a6302a",
        (_LOADER, "TorchIterableDatasetSimple"): "5eae1d89bf356f1d",
        (_LOADER, "dlio_sampler"): "205d7fd39556609b",
        (_LOADER, "TorchDataLoader"): "524bdb9fc3f4ef51",
        (_TENSORFLOW, "TFDataLoader"): "0c9ef810c299e110",
        (_RECORDS, "TFReader"): "07c638359ebc8ea5",
        (_HANDLER, "FormatReader"): "32b3cb4975ec4894",
        (_BINARY, "IndexedBinaryReader"): "d3683aa03b420981",
        (_MAPPED, "IndexedBinaryMMapReader"): "5b97448f2d08dadc",
        (_LOCAL, "_LocalFSIterableMixin"): "2aa0d86fed40f387",
        (_OBJECTS, "_S3IterableMixin"): "a8aabb3b4c18b71e",
    },
}
# Of June 2026, with which results of MLPerf Storage 3.0 were made, too.
KNOWN["MLCommons' 252a54b"] = {**KNOWN["MLCommons' f6796ed"], (_LOCAL, "_LocalFSIterableMixin"): "897773ab554ed31e"}


def _text(module):
    """The source of a module of DLIO, which is not imported for it. None: there is none."""
    try:
        spec = importlib.util.find_spec("dlio_benchmark." + module)
        return spec.loader.get_source(spec.name) if spec else None
    except ModuleNotFoundError:
        return None


def _piece(tree, name):
    for part in name.split("."):
        tree = next((node for node in tree.body if getattr(node, "name", None) == part), None)
        if tree is None:
            return None
    return tree


def digest(text, name):
    """The hash of a class or method in this source. None: it is not there."""
    piece = _piece(ast.parse(text), name)
    if piece is None:
        return None
    first = min([piece.lineno] + [decorator.lineno for decorator in piece.decorator_list])
    lines = (line.strip() for line in text.split("\n")[first - 1:piece.end_lineno])
    return hashlib.sha256("\n".join(line for line in lines if line and not line.startswith("#")).encode()).hexdigest()[:16]


def _names():
    return sorted({piece for pieces in KNOWN.values() for piece in pieces})


def found(names=None, text_of=_text):
    """The hash of each piece in the installed DLIO; without those that are not there."""
    texts, hashes = {}, {}
    for module, name in names or _names():
        if module not in texts:
            texts[module] = text_of(module)
        value = texts[module] and digest(texts[module], name)
        if value:
            hashes[module, name] = value
    return hashes


def version(hashes=None):
    """Which of the known DLIOs the installed one is. Raises BadValueError with the names of what differs."""
    hashes = found() if hashes is None else hashes
    if not hashes:
        raise BadValueError(22, "there is no DLIO here: install dlio_benchmark where this Python finds it")

    def differing(name):
        return [piece for piece in sorted({*KNOWN[name], *hashes}) if KNOWN[name].get(piece) != hashes.get(piece)]

    nearest = min(KNOWN, key=lambda name: len(differing(name)))
    changed = differing(nearest)
    if changed:
        raise BadValueError(22, "shoal.dlio.Callback does not know this DLIO, and replaces nothing in it. The nearest known one is %s, in which "
                            "differ: %s. Install a known one (%s), or use shoal.dlio.ShoalDataLoader, which asks less of it"
                            % (nearest, ", ".join("dlio_benchmark.%s.%s" % piece for piece in changed), ", ".join(KNOWN)))
    return nearest


if __name__ == "__main__":
    for (_module, _name), _value in found().items():
        print("%s %s %s" % (_module, _name, _value))
