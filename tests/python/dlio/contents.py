"""A small valid file of each format that DLIO's own readers decode, with one sample or several."""
import io
import struct
import zipfile

import numpy


def _image(kind):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(numpy.zeros((16, 16), dtype=numpy.uint8)).save(file, kind)
    return file.getvalue()


def _npy(samples):
    file = io.BytesIO()
    numpy.save(file, numpy.zeros((8, 8, samples), dtype=numpy.uint8))
    return file.getvalue()


def _npz(samples):
    file = io.BytesIO()
    numpy.savez(file, x=numpy.zeros((8, 8, samples), dtype=numpy.uint8), y=numpy.zeros(samples))
    assert zipfile.is_zipfile(file)
    return file.getvalue()


def _hdf5(samples):
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        for name in ("records", "records_0"):  # PyPI's and the newer ones' name of it
            h5.create_dataset(name, data=numpy.zeros((samples, 8, 8), dtype=numpy.uint8))
        h5.create_dataset("labels", data=numpy.zeros(samples))
    return file.getvalue()


def _csv(samples):
    return b"a,b,c,d\n" + b"1,2,3,4\n" * samples


CONTENTS = {
    "jpeg": lambda samples: _image("jpeg"), "png": lambda samples: _image("png"), "npy": _npy, "npz": _npz, "hdf5": _hdf5, "csv": _csv,
    "indexed_binary": lambda samples: bytes(64 * samples), "mmap_indexed_binary": lambda samples: bytes(64 * samples),
}


def index_files(samples):
    """The two files beside one of indexed_binary."""
    return {".off.idx": struct.pack("<%dq" % samples, *range(0, 64 * samples, 64)), ".sz.idx": struct.pack("<%dq" % samples, *[64] * samples)}
