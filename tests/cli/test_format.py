"""Files that Shoal makes, opened by the readers that people have: PIL, numpy, h5py, zlib, and a TFRecord reader from the
format's description. The files come from tests/format_driver of the build that SHOAL names."""

import csv
import io
import os
import pathlib
import random
import struct
import subprocess
import zipfile
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = pathlib.Path(os.path.abspath(os.environ.get("SHOAL", ROOT / "build" / "shoal"))).parent / "tests" / "format_driver"

IMAGES = ("jpeg", "png")
CONTAINERS = ("csv", "hdf5", "indexed_binary", "npy", "npz", "tfrecord")
FORMATS = IMAGES + CONTAINERS
LEAST = {"csv": 4, "hdf5": 1306, "indexed_binary": 1, "jpeg": 519, "npy": 129, "npz": 459, "png": 84, "tfrecord": 73}
SIZES = [0, 1, 2, 3, 17, 63, 64, 65, 255, 256, 1000, 4095, 4096, 4097, 65534, 65535, 65536, 65600, 131100, 322957, 1_000_003]


def run(*arguments):
    return subprocess.run([DRIVER, *map(str, arguments)], capture_output=True)


def make(name, size, samples=1, key=1, part=0):
    result = run("make", name, size, samples, key, part)
    assert result.returncode == 0, result.stderr
    return result.stdout


def sizes_of(name):
    return [LEAST[name] + more for more in SIZES]


def need(module):
    """Readers that are no part of Shoal: a test that lacks one is skipped, and said to be."""
    return pytest.importorskip(module)


# ------------------------------------------------------------------------------------------------------------ all formats


@pytest.mark.parametrize("name", FORMATS)
def test_the_least_size_works_and_one_byte_less_is_refused_in_words(name):
    assert len(make(name, LEAST[name])) == LEAST[name]
    result = run("make", name, LEAST[name] - 1, 1, 1)
    assert result.returncode == 1
    assert b"too few for a %s file" % name.encode() in result.stderr
    assert b"the least is %d" % LEAST[name] in result.stderr


@pytest.mark.parametrize("name", FORMATS)
def test_sizes_are_exact(name):
    for size in sizes_of(name):
        assert len(make(name, size)) == size


@pytest.mark.parametrize("name", FORMATS)
def test_content_does_not_compress(name):
    """zlib finds what zstd finds in noise: nothing. Text is text: there all but the alphabet is noise."""
    data = make(name, 322957)
    ratio = len(zlib.compress(data, 9)) / len(data)
    zstd = subprocess.run(["zstd", "-q", "-3", "-c"], input=data, capture_output=True) if has_zstd() else None
    if zstd:
        ratio = min(ratio, len(zstd.stdout) / len(data))
    assert ratio > (0.78 if name == "csv" else 0.98)


def has_zstd():
    return any(os.access(os.path.join(folder, "zstd"), os.X_OK) for folder in os.environ["PATH"].split(":"))


@pytest.mark.parametrize("name", FORMATS)
def test_no_block_comes_twice(name):
    """Of three files, cut at 4 KB: what a deduplicating store would look for."""
    blocks = [data[at:at + 4096] for key in range(3) for data in [make(name, 322957, key=key)] for at in range(0, len(data), 4096)]
    assert len(set(blocks)) == len(blocks)


# ----------------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("name", IMAGES)
def test_images_open_in_pil_at_every_size(name):
    image = need("PIL.Image")
    for size in sizes_of(name):
        picture = image.open(io.BytesIO(make(name, size)))
        picture.load()
        assert picture.format == name.upper()
        assert min(picture.size) > 0


def test_a_jpeg_holds_noise_and_not_a_blank_picture():
    image, numpy = need("PIL.Image"), need("numpy")
    pixels = numpy.asarray(image.open(io.BytesIO(make("jpeg", 322957))))
    assert pixels.std() > 50
    assert pixels.size * 1.36 > 322957  # eleven bits a pixel, and little beside it


def jpeg_segments(data):
    """(marker, content) up to the scan, and then the scan's bytes."""
    assert data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9"
    at = 2
    while True:
        marker, length = struct.unpack(">HH", data[at:at + 4])
        yield marker, data[at + 4:at + 2 + length]
        at += 2 + length
        if marker == 0xffda:
            break
    yield None, data[at:-2]


def huffman(content):
    """Codes of a DHT segment: {(length, code): value}."""
    code, values, table = 0, iter(content[17:]), {}
    for length in range(1, 17):
        for _ in range(content[length]):
            table[length, code] = next(values)
            code += 1
        code <<= 1
    return table


def test_every_bit_of_a_jpegs_scan_is_decoded_as_the_standard_says():
    """A reader may hide damage: so this decodes the blocks itself, to the last bit."""
    segments = list(jpeg_segments(make("jpeg", 12345)))
    tables = [huffman(content) for marker, content in segments if marker == 0xffc4]
    height, width = next(struct.unpack(">HH", content[1:5]) for marker, content in segments if marker == 0xffc0)
    scan = segments[-1][1]
    assert b"\xff" not in scan
    bits = "".join(f"{byte:08b}" for byte in scan)
    at = 0

    def symbol(table):
        nonlocal at
        for length in range(1, 17):
            value = table.get((length, int(bits[at:at + length], 2)))
            if value is not None:
                at += length
                return value
        raise AssertionError("no code")

    for _ in range(width // 8 * height // 8):
        assert symbol(tables[0]) == 0
        for _ in range(63):
            size = symbol(tables[1])
            assert 1 <= size <= 10
            at += size
    assert at == len(bits)


def png_chunks(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at = 8
    while at < len(data):
        length = struct.unpack(">I", data[at:at + 4])[0]
        name, content = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        assert zlib.crc32(name + content) == struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0]
        yield name, content
        at += 12 + length


def test_a_pngs_checksums_and_pixels_are_right_at_every_size():
    for size in sizes_of("png"):
        chunks = list(png_chunks(make("png", size)))
        assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b"")
        width, height = struct.unpack(">II", chunks[0][1][:8])
        raw = zlib.decompress(b"".join(content for name, content in chunks if name == b"IDAT"))
        assert len(raw) == height * (1 + 3 * width)
        assert set(raw[::1 + 3 * width]) == {0}


# ----------------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("samples", [1, 2, 3, 100])
def test_npz_opens_in_numpy_with_its_checksums(samples):
    numpy = need("numpy")
    for more in SIZES:
        size = 454 + 5 * samples + more
        data = make("npz", size, samples)
        assert len(data) == size
        assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
        arrays = numpy.load(io.BytesIO(data))
        assert sorted(arrays) == ["x", "y"]
        assert arrays["x"].shape[2] == samples and arrays["x"].dtype == numpy.uint8
        assert arrays["y"].shape == (samples,)
        assert size - 65_000 - 454 - samples <= arrays["x"].size


def test_npz_has_its_checksums_in_the_local_headers_too():
    """For readers that go from front to back: no data descriptors."""
    data = make("npz", 100_000, 2)
    flags, method = struct.unpack("<HH", data[6:10])
    crc, packed, size = struct.unpack("<III", data[14:26])
    name, extra = struct.unpack("<HH", data[26:30])
    start = 30 + name + extra
    assert (flags, method, packed) == (0, 0, size)
    assert zlib.crc32(data[start:start + size]) == crc


@pytest.mark.parametrize("samples", [1, 2, 3, 100, 8192])
def test_npy_opens_in_numpy(samples):
    numpy = need("numpy")
    for more in SIZES:
        size = 128 + samples + more
        array = numpy.load(io.BytesIO(make("npy", size, samples)))
        assert array.shape[2] == samples and array.size + 128 <= size <= array.size + 128 + 8192


@pytest.mark.parametrize("samples", [1, 2, 3, 1000])
def test_hdf5_opens_in_h5py(samples):
    h5py = need("h5py")
    for more in SIZES:
        size = 1304 + 2 * samples + more
        with h5py.File(io.BytesIO(make("hdf5", size, samples)), "r") as file:
            assert sorted(file) == ["labels", "records"]
            assert file["records"].shape[0] == samples and file["labels"].shape == (samples,)
            assert len(set(file["records"][samples - 1].tobytes())) > (200 if more > 1_000_000 * samples else 0)


def places(name, path):
    """(offset, length) of each sample."""
    result = run("samples", name, path)
    assert result.returncode == 0, result.stderr
    return [tuple(map(int, line.split()[:2])) for line in result.stdout.splitlines()]


def test_samples_of_hdf5_are_where_h5py_has_them(tmp_path):
    (tmp_path / "f").write_bytes(make("hdf5", 50_000, 7))
    data = (tmp_path / "f").read_bytes()
    samples = need("h5py").File(tmp_path / "f", "r")["records"][:]
    assert [data[at:at + length] for at, length in places("hdf5", tmp_path / "f")] == [sample.tobytes() for sample in samples]
    assert len(samples) == 7


def test_samples_in_files_of_others_are_found(tmp_path):
    """What numpy and h5py themselves write."""
    numpy, h5py = need("numpy"), need("h5py")
    array = numpy.arange(5 * 6 * 7, dtype=numpy.int32).reshape(5, 6, 7)
    numpy.save(tmp_path / "a.npy", array)
    numpy.savez(tmp_path / "a.npz", y=numpy.zeros(5), x=array)
    numpy.savez(tmp_path / "one.npz", array)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for i in range(40):  # more than one leaf of the group's tree
            file.create_dataset(f"other{i}", data=[i])
        file.create_dataset("records", data=array)
    for file, name in [("a.npy", "npy"), ("a.npz", "npz"), ("one.npz", "npz"), ("a.hdf5", "hdf5")]:
        data = (tmp_path / file).read_bytes()
        assert [data[at:at + length] for at, length in places(name, tmp_path / file)] == [sample.tobytes() for sample in array]


@pytest.mark.parametrize("libver", ["v108", "v110", "latest"])
@pytest.mark.parametrize("nr, chunk, most", [
    (7, None, 7), (7, 7, 7), (7, 9, None), (7, 2, 7), (7, 2, 20), (7, 2, None),  # contiguous; one chunk; several
    (1024, 1, 1024), (1025, 1, 1025), (2049, 1, 5000),  # addresses in one block, and in pages
    (4, 1, None), (5, 1, None), (500, 1, None), (9000, 1, None), (300_000, 1, None),  # an array that grows, to its pages
])
def test_samples_in_hdf5_of_later_versions_are_where_h5py_has_them(tmp_path, libver, nr, chunk, most):
    numpy, h5py = need("numpy"), need("h5py")
    array = numpy.arange(nr * 3, dtype=numpy.int32).reshape(nr, 3)
    with h5py.File(tmp_path / "f", "w", libver=(libver, "latest")) as file:
        how = {"chunks": (chunk, 3), "maxshape": (most, 3)} if chunk else {}
        file.create_dataset("records", data=array, **how).attrs["a"] = "long" * 100
        file["labels"] = numpy.zeros(nr)
    data = (tmp_path / "f").read_bytes()
    found = places("hdf5", tmp_path / "f")
    assert len(found) == nr and b"".join(data[at:at + length] for at, length in found) == array.tobytes()


def test_samples_that_are_no_stretch_of_bytes_are_refused_in_words(tmp_path):
    numpy, h5py = need("numpy"), need("h5py")
    array = numpy.arange(5 * 6 * 7, dtype=numpy.int32).reshape(6, 7, 5)
    numpy.save(tmp_path / "c.npy", numpy.asfortranarray(array))
    numpy.savez_compressed(tmp_path / "c.npz", x=array)
    with h5py.File(tmp_path / "c.hdf5", "w") as file:
        file.create_dataset("records", data=numpy.moveaxis(array, 2, 0), chunks=(1, 3, 7))
    with h5py.File(tmp_path / "many.hdf5", "w", libver="latest") as file:
        for i in range(20):
            file[f"other{i}"] = i
        file.create_dataset("records", data=numpy.moveaxis(array, 2, 0))
    with h5py.File(tmp_path / "open.hdf5", "w", libver="latest") as file:
        file.create_dataset("records", data=array, chunks=(1, 7, 5), maxshape=(None, None, 5))
    with h5py.File(tmp_path / "part.hdf5", "w", libver="latest") as file:
        file.create_dataset("records", shape=(6, 7, 5), chunks=(1, 7, 5))[:3] = array[:3]
    for file, name, words in [("c.npy", "npy", b"interleaved"), ("c.npz", "npz", b"compressed"),
                              ("c.hdf5", "hdf5", b"chunks cut them"), ("many.hdf5", "hdf5", b"names are in a heap"),
                              ("open.hdf5", "hdf5", b"dimensions are unlimited"), ("part.hdf5", "hdf5", b"never written")]:
        result = run("samples", name, tmp_path / file)
        assert result.returncode == 1 and result.stderr.startswith(b"-95 ")  # ENOTSUP
        assert file == "part.hdf5" or result.stdout == b""
        assert words in result.stderr


# --------------------------------------------------------------------------------------------------------------- TFRecord


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = crc32c_table()


def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xff] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack("<QI", data[at:at + 12])
        assert masked(data[at:at + 8]) == check
        payload = data[at + 12:at + 12 + length]
        assert masked(payload) == struct.unpack("<I", data[at + 12 + length:at + 16 + length])[0]
        yield at, payload
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Of a protocol buffer message whose fields are all of a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2
        length, at = varint(data, at)
        assert at + length <= len(data)
        yield tag >> 3, data[at:at + length]
        at += length


def example(payload):
    """{feature: value} of a tf.train.Example."""
    (_, features), = fields(payload)
    result = {}
    for number, entry in fields(features):
        assert number == 1
        (_, key), (_, feature) = fields(entry)
        (kind, values), = fields(feature)
        (_, value), = fields(values)
        result[key.decode()] = value if kind == 1 else varint(value, 0)[0]
    return result


@pytest.mark.parametrize("samples", [1, 2, 3, 100])
def test_tfrecord_is_read_by_a_reader_of_its_own_with_its_checksums(samples):
    for more in [more for more in SIZES if more < 70_000]:
        size = 73 * samples + more
        found = list(records(make("tfrecord", size, samples)))
        assert len(found) == samples
        for _, payload in found:
            features = example(payload)
            assert sorted(features) == ["image", "size"]
            assert len(features["image"]) == len(payload) - 56
            assert features["size"] ** 2 <= len(features["image"]) < (features["size"] + 1) ** 2


def test_the_index_for_dali_names_each_record():
    data = make("tfrecord", 100_001, 31)
    index = [tuple(map(int, line.split())) for line in make("tfrecord", 100_001, 31, part=1).splitlines()]
    assert index == [(at, len(payload) + 16) for at, payload in records(data)]


# ------------------------------------------------------------------------------------------------------------------ others


@pytest.mark.parametrize("samples", [1, 3, 500])
def test_csv_has_a_row_for_each_sample_and_as_many_fields_in_each(samples):
    for more in SIZES:
        rows = list(csv.reader(io.StringIO(make("csv", 2 + 2 * samples + more, samples).decode("ascii"))))
        assert len(rows) == samples + 1
        assert rows[0] == [str(i) for i in range(len(rows[0]))]
        assert {len(row) for row in rows} == {len(rows[0])}
        assert all(field for row in rows for field in row)


def test_indexed_binary_says_where_its_samples_are():
    data = make("indexed_binary", 100_001, 31)
    offsets = struct.unpack("<31Q", make("indexed_binary", 100_001, 31, part=1))
    sizes = struct.unpack("<31Q", make("indexed_binary", 100_001, 31, part=2))
    assert [at + size for at, size in zip(offsets, sizes)] == [*offsets[1:], len(data)]
    assert offsets[0] == 0 and max(sizes) - min(sizes) <= 1


def test_samples_of_tfrecord_are_where_find_says(tmp_path):
    data = make("tfrecord", 50_000, 7)
    (tmp_path / "f").write_bytes(data)
    assert [data[at:at + length] for at, length in places("tfrecord", tmp_path / "f")] == [payload for _, payload in records(data)]


@pytest.mark.parametrize("name", ["hdf5", "npy", "npz", "tfrecord"])
def test_noise_is_told_from_a_file(name, tmp_path):
    (tmp_path / "f").write_bytes(random.Random(1).randbytes(5000))
    result = run("samples", name, tmp_path / "f")
    assert result.returncode == 1 and result.stderr.startswith(b"-74 ")  # EBADMSG
