"""A writer of tiny catalogs, literally from docs/format/catalog.md, to test the reader with.

It shares no decoding with the reader: names are given to it, numbers are ranked by sorting a list, and bits are written
one by one. It checks next to nothing, so that tests can write broken files with it.

A segment is (names, payload), as grid(), fixed(), decimal() and front() return it. A column is a list of runs: either
("constant", how many files, value) or ("blocks", [values]).
"""

import ctypes
import struct

_zstd = ctypes.CDLL("libzstd.so.1")
_xxhash = ctypes.CDLL("libxxhash.so.0")


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


for _name in ("ZSTD_compress", "ZSTD_compress_usingDict", "ZSTD_compressBound", "ZDICT_trainFromBuffer"):
    getattr(_zstd, _name).restype = ctypes.c_size_t
_zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_128bits_withSeed.restype = _Hash128

UNKNOWN = 2**64 - 1


def xxh3(data):
    return _xxhash.XXH3_64bits(data, ctypes.c_size_t(len(data)))


def xxh128(data, seed):
    hashed = _xxhash.XXH3_128bits_withSeed(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))
    return hashed.high, hashed.low


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint((value << 1 ^ value >> 63) & 2**64 - 1)


def pack_bits(numbers, width):
    """Numbers of `width` bits each, one after the other, least significant bit first."""
    out = bytearray((len(numbers) * width + 7) // 8)
    for j, number in enumerate(numbers):
        for bit in range(width):
            if number >> bit & 1:
                out[(j * width + bit) // 8] |= 1 << (j * width + bit) % 8
    return bytes(out)


# --------------------------------------------------------------------------------------------------- section 4: values


def linear(xs, _):
    """The coding for values that all lie one stride apart."""
    return b"\0" + varint(xs[0]) + varint(xs[1] - xs[0] if len(xs) > 1 else 0)


def elias_fano(xs, width, l=None):
    """The coding for any rising values of `width` bits. Without l, about as many low bits as make it smallest."""
    if l is None:
        l = max(0, ((xs[-1] - xs[0]) // len(xs)).bit_length() - 1)
    base = pack_bits([xs[0] >> l], width - l)
    highs = [(x >> l) - (xs[0] >> l) for x in xs]
    h = highs[-1]
    length = len(xs) + h
    line = [0] * length
    for i, high in enumerate(highs):
        line[high + i] = 1
    out = b"\1" + varint(l) + varint(h) + base + pack_bits([x & (1 << l) - 1 for x in xs], l) + pack_bits(line, 1)
    if length > 2048:
        for wanted in (1, 0):
            places = [place for place, bit in enumerate(line) if bit == wanted]
            out += b"".join(struct.pack("<I", place) for place in places[256::256])
    return out


# ------------------------------------------------------------------------------------------------- section 2: segments


def start(kind, names):
    return bytes([kind]) + varint(len(names)) + varint(len(names[0])) + names[0]


def grid(names, fields, dims):
    """fields: (gap, width) each; dims: (extent, [delta of each field]) each."""
    out = start(1, names) + varint(len(fields))
    for gap, width in fields:
        out += varint(gap) + varint(width)
    out += varint(len(dims))
    for extent, deltas in dims:
        out += varint(extent) + b"".join(zigzag(delta) for delta in deltas)
    return names, out


def limb_width(parts):
    """Found by counting up, as the page defines it."""
    product, width = 1, 0
    for _, length, ranges in parts:
        product *= sum(hi - lo + 1 for lo, hi in ranges)**length
    while 2**width < product:
        width += 1
    return width


def fixed_values(names, limbs):
    """X of each name."""
    xs = []
    for name in names:
        x, end = 0, 0
        for parts in limbs:
            v = 0
            for gap, length, ranges in parts:
                members = [byte for lo, hi in ranges for byte in range(lo, hi + 1)]
                for byte in name[end + gap:end + gap + length]:
                    v = v * len(members) + members.index(byte)
                end += gap + length
            x = x * 2**limb_width(parts) + v
        xs.append(x)
    return xs


def fixed(names, limbs, coding=elias_fano):
    """limbs: a list of parts each; a part is (gap, length, [(lo, hi), …])."""
    out = start(2, names) + varint(len(limbs))
    for parts in limbs:
        out += bytes([limb_width(parts)]) + varint(len(parts))
        for gap, length, ranges in parts:
            out += varint(gap) + varint(length) + bytes([len(ranges)]) + b"".join(bytes(pair) for pair in ranges)
    return names, out + coding(fixed_values(names, limbs), sum(map(limb_width, limbs)))


def decimal_list(top, suffix):
    """The list that X is a place in: the numbers 0 … top with the suffix, sorted bytewise."""
    return sorted(b"%d%s" % (number, suffix) for number in range(top + 1))


def decimal(prefix, numbers, suffix, top, coding=linear):
    places = {text: place for place, text in enumerate(decimal_list(top, suffix))}
    xs = sorted(places[b"%d%s" % (number, suffix)] for number in numbers)
    names = sorted(b"%s%d%s" % (prefix, number, suffix) for number in numbers)
    return names, start(3, names) + varint(len(prefix)) + varint(len(suffix)) + varint(top) + coding(xs, 64)


def front_raw(names):
    out = b""
    for before, name in zip(names, names[1:]):
        n = 0
        while n < len(before) and n < len(name) and before[n] == name[n]:
            n += 1
        out += varint(n) + varint(len(name) - n) + name[n:]
    return out


def compress(raw, dictionary=None):
    room = _zstd.ZSTD_compressBound(ctypes.c_size_t(len(raw)))
    out = ctypes.create_string_buffer(room)
    size = ctypes.c_size_t
    if dictionary is None:
        length = _zstd.ZSTD_compress(out, size(room), raw, size(len(raw)), 3)
    else:
        length = _zstd.ZSTD_compress_usingDict(ctypes.c_void_p(_zstd.ZSTD_createCCtx()), out, size(room), raw,
                                               size(len(raw)), dictionary, size(len(dictionary)), 3)
    assert length <= room
    return out.raw[:length]


def train_dictionary(samples, room=4096):
    lengths = (ctypes.c_size_t * len(samples))(*map(len, samples))
    out = ctypes.create_string_buffer(room)
    length = _zstd.ZDICT_trainFromBuffer(out, ctypes.c_size_t(room), b"".join(samples), lengths, len(samples))
    assert length <= room, "zstd cannot train on these samples"
    return out.raw[:length]


def front(names, compressed=False, dictionary=None):
    raw = front_raw(names)
    stored = compress(raw, dictionary) if compressed else raw
    flags = (1 if compressed else 0) | (2 if dictionary is not None else 0)
    return names, start(4, names) + bytes([flags]) + varint(len(raw)) + varint(len(stored)) + stored


# -------------------------------------------------------------------------------------------------- section 5: columns


def column_values(runs):
    out = []
    for run in runs:
        out += [run[2]] * run[1] if run[0] == "constant" else run[1]
    return out


def column(runs):
    """The three sections of a column."""
    table, blocks, data = b"", b"", b""
    first = total = 0
    for run in runs:
        values = column_values([run])
        if run[0] == "constant":
            table += struct.pack("<QQQII", first, total, run[2], 0, 0)
        else:
            table += struct.pack("<QQQII", first, total, len(blocks) // 24, 1, 0)
            for at in range(0, len(values), 256):
                block = values[at:at + 256]
                width = (max(block) - min(block)).bit_length()
                blocks += struct.pack("<QQQ", min(block), sum(values[:at]), len(data) | width << 56)
                data += pack_bits([value - min(block) for value in block], width)
        first += len(values)
        total += sum(values)
    return table, blocks, data


def sparse_column(nr, most, others):
    """A column of one sparse block: the value `most`, but others = [(position, value), …]. Data may be wrong on purpose."""
    values = [most, *(value for _, value in others)]
    width = (max(values) - min(values)).bit_length()
    data = bytes([len(others)]) + bytes(position for position, _ in others) + pack_bits([value - min(values) for value in values], width)
    return struct.pack("<QQQII", 0, 0, 0, 1, 0), struct.pack("<QQQ", min(values), 0, (128 + width) << 56), data


# --------------------------------------------------------------------------------------------------- section 6: digest


def lanes(files):
    """files: (name, size, samples) each."""
    lane0 = lane1 = 0
    for name, size, samples in files:
        seed = (size * 0x9E3779B97F4A7C15 + samples * 0xC2B2AE3D27D4EB4F) % 2**64
        high, low = xxh128(name, seed)
        lane0 = (lane0 * 0x0D6E8FEB86659FD9 + (low >> 3) + 1) % (2**61 - 1)
        lane1 = (lane1 * 0x05851F42D4C957F3 + (high >> 3) + 1) % (2**61 - 1)
    return lane0, lane1


# ----------------------------------------------------------------------------------------------------- section 1: file


def key(name, skip):
    return int.from_bytes((name[skip:] + bytes(8))[:8], "big")


def common_skip(first_names):
    skip = 0
    while first_names and all(len(name) > skip and name[:skip + 1] == first_names[0][:skip + 1]
                              for name in first_names):
        skip += 1
    return skip


def assemble(sections, **fields):
    """A whole file from [(name, bytes), …] and header fields, all sums made here. Fields overrule what is made here."""
    table, sums = b"", b""
    offset = 256 + 24 * len(sections)
    for name, content in sections:
        table += name + bytes(4) + struct.pack("<QQ", offset, len(content))
        offset += len(content)
        for at in range(0, len(content), 16384):
            sums += struct.pack("<Q", xxh3(content[at:at + 16384]))
    table, sums = fields.get("table", table), fields.get("sums", sums)
    body = table + b"".join(content for _, content in sections) + sums
    values = dict(magic=b"\x89SHOAL\r\n", version=1, header_length=256, incompat=0, compat=0,
                  file_length=256 + len(body), nr_files=0, nr_samples=0, nr_bytes=0, samples_per_file=0, lane0=0,
                  lane1=0, nr_sections=len(sections), page_shift=14, key_skip=0, sums_offset=offset,
                  sums_hash=xxh3(sums), table_hash=xxh3(table), largest=0)
    values.update(fields)
    if "digest" not in values:
        high, low = xxh128(struct.pack("<QQQ", values["lane0"], values["lane1"], values["nr_files"]), 0)
        values["digest"] = struct.pack("<QQ", low, high)
    v = values
    header = v["magic"] + struct.pack("<IIII", v["version"], v["header_length"], v["incompat"], v["compat"])
    header += struct.pack("<QQQQQ", v["file_length"], v["nr_files"], v["nr_samples"], v["nr_bytes"],
                          v["samples_per_file"])
    header += struct.pack("<QQ", v["lane0"], v["lane1"]) + v["digest"]
    header += struct.pack("<IIII", v["nr_sections"], v["page_shift"], v["key_skip"], 0)
    header += struct.pack("<QQQ", v["sums_offset"], v["sums_hash"], v["table_hash"]) + struct.pack("<Q", v["largest"]) + bytes(104)
    return header + struct.pack("<Q", xxh3(header)) + body


def parts(segments, sizes=None, samples=1, root=b"file:///data/", dictionaries=(), key_skip=None):
    """({section: bytes}, {header field: value}) of a catalog, for tests that want to spoil one of them.

    sizes: runs, or None when not known. samples: runs, or one number for all files.
    dictionaries: (first segment, bytes).
    """
    names = [name for segment, _ in segments for name in segment]
    firsts = [segment[0] for segment, _ in segments]
    skip = common_skip(firsts) if key_skip is None else key_skip
    directory, payloads, id_ = b"", b"", 0
    for segment, payload in segments:
        directory += struct.pack("<QQQ", id_, len(payloads), key(segment[0], skip))
        payloads += payload
        id_ += len(segment)
    content, table = b"", b""
    for first, dictionary in dictionaries:
        table += struct.pack("<QQQ", first, len(content), len(dictionary))
        content += dictionary
    size_of = [UNKNOWN] * len(names) if sizes is None else column_values(sizes)
    samples_of = [samples] * len(names) if isinstance(samples, int) else column_values(samples)
    lane0, lane1 = lanes(zip(names, size_of, samples_of))
    szrn, szbk, szdt = column(sizes or [])
    smrn, smbk, smdt = column([] if isinstance(samples, int) else samples)
    sections = {b"ROOT": root, b"NAME": payloads, b"NDIR": directory, b"DICT": content, b"DTAB": table, b"SZRN": szrn,
                b"SZBK": szbk, b"SZDT": szdt, b"SMRN": smrn, b"SMBK": smbk, b"SMDT": smdt}
    fields = dict(nr_files=len(names), nr_samples=sum(samples_of), nr_bytes=UNKNOWN if sizes is None else sum(size_of),
                  samples_per_file=samples if isinstance(samples, int) else 0, lane0=lane0, lane1=lane1, key_skip=skip)
    return sections, fields


def catalog(segments, **options):
    sections, fields = parts(segments, **options)
    return assemble([section for section in sections.items() if section[1]], **fields)
