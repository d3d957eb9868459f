"""A second reader of the catalog file, written from docs/format/catalog.md alone.

It is meant to be read next to that page: each part below names the section it follows and uses the page's words. It
decodes literally, and whatever it decodes it also checks, so there is one path through the file and not two. Where the
page leaves a choice, a comment starting with "Choice:" says what was chosen.
"""

import bisect
import ctypes
import os
import re
import struct

# ---------------------------------------------------------------------------------------------------------- libraries


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def _bind(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function


_xxhash = ctypes.CDLL("libxxhash.so.0")
_zstd = ctypes.CDLL("libzstd.so.1")
_pointer, _size, _u64 = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64

xxh3 = _bind(_xxhash, "XXH3_64bits", _u64, _pointer, _size)
xxh128 = _bind(_xxhash, "XXH3_128bits_withSeed", _Hash128, _pointer, _size, _u64)

_is_error = _bind(_zstd, "ZSTD_isError", ctypes.c_uint, _size)
_frame_size = _bind(_zstd, "ZSTD_findFrameCompressedSize", _size, _pointer, _size)
_decompress = _bind(_zstd, "ZSTD_decompress", _size, _pointer, _size, _pointer, _size)
_decompress_dict = _bind(_zstd, "ZSTD_decompress_usingDict", _size,
                         ctypes.c_void_p, _pointer, _size, _pointer, _size, _pointer, _size)
_context = _bind(_zstd, "ZSTD_createDCtx", ctypes.c_void_p)()

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

# ------------------------------------------------------------------------------------------------------------- limits

MAX_NAME = 4096
MAX_ROOT = 4096
MAX_U64 = 2**64 - 1
PAGE = 1 << 14
MAX_PREAMBLE = 16384  # what a payload may hold before its arrays or its stored bytes


class Damaged(Exception):
    """The file breaks a rule of the page. The message begins with the words that section 1 wants told apart:
    "not a catalog", "newer", "truncated", "bytes after the end" or "damaged"."""


def need(condition, *message):
    """Raise Damaged unless condition holds. The message may be in pieces, so that good files pay for no formatting."""
    if not condition:
        raise Damaged("damaged: " + " ".join(map(str, message)))


# ------------------------------------------------------------------------------------------------- numbers and cursors


def hash64(data):
    return xxh3(data, len(data))


def ceil_div(a, b):
    return -(-a // b)


def bits(data, first, nr):
    """The nr bits from bit `first` on, least significant first (sections 4 and 5)."""
    start, end = first >> 3, (first + nr + 7) >> 3
    return int.from_bytes(data[start:end], "little") >> (first & 7) & ((1 << nr) - 1)


class Cursor:
    """Reads one payload from left to right and never past its end."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, nr, what):
        need(nr <= len(self.data) - self.at, what, "goes past the end of its payload")
        self.at += nr
        return self.data[self.at - nr:self.at]

    def byte(self, what):
        return self.take(1, what)[0]

    def varint(self, what, lowest=0, highest=MAX_U64):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            need(False, what, "is a varint of over 10 bytes")
        need(value <= MAX_U64, what, "is a varint of over 64 bits")
        need(lowest <= value <= highest, what, value, "is not in", lowest, "to", highest)
        return value

    def zigzag(self, what):
        value = self.varint(what)
        return value >> 1 ^ -(value & 1)

    def end_preamble(self):
        """Called where the arrays of section 4, or the stored bytes of FRONT, begin, or where there are none."""
        need(self.at <= MAX_PREAMBLE, "a payload has", self.at, "bytes before its arrays or stored bytes")

    def finish(self, what):
        need(self.at == len(self.data), what, "ends", len(self.data) - self.at, "bytes before its payload does")


def check_name(name, what):
    need(1 <= len(name) <= MAX_NAME, what, "has a length of", len(name))
    need(b"\0" not in name, what, "holds a NUL byte")


# ----------------------------------------------------------------------------------------------------- section 1: file

MAGIC = b"\x89SHOAL\r\n"
EXTENTS_BIT, SPARSE_BIT = 1, 2  # of incompat
HEADER = struct.Struct("<8s IIII QQQQQ QQ16s IIII QQQ Q104s Q")
ENTRY = struct.Struct("<4s4xQQ")
assert HEADER.size == 256


class Header:
    """The header's fields. Opening one makes the checks in the order that the page asks for."""

    def __init__(self, data):
        # Choice: fewer than 8 bytes start as the magic does when the magic begins with them; so does an empty file.
        if data[:8] != MAGIC[:len(data)]:
            raise Damaged("not a catalog")
        if len(data) < HEADER.size:
            raise Damaged("truncated: %d bytes are no whole header" % len(data))
        (_, self.version, self.header_length, self.incompat, self.compat,
         self.file_length, self.nr_files, self.nr_samples, self.nr_bytes, self.samples_per_file,
         self.lane0, self.lane1, self.digest,
         self.nr_sections, self.page_shift, self.key_skip, _,
         self.sums_offset, self.sums_hash, self.table_hash, self.largest, _, self.checksum) = HEADER.unpack_from(data)
        need(self.checksum == hash64(data[:248]), "the header does not match its checksum")
        # Choice: there is no version 0, so that is damage and not "newer".
        need(self.version >= 1, "version 0")
        if self.version > 1:
            raise Damaged("newer: version %d" % self.version)
        if self.incompat & ~(EXTENTS_BIT | SPARSE_BIT):
            raise Damaged("newer: incompat features %#x" % (self.incompat & ~(EXTENTS_BIT | SPARSE_BIT)))
        if len(data) < self.file_length:
            raise Damaged("truncated: %d bytes of %d" % (len(data), self.file_length))
        if len(data) > self.file_length:
            raise Damaged("bytes after the end: %d over %d" % (len(data) - self.file_length, self.file_length))
        need(self.header_length == HEADER.size, "header length", self.header_length)
        need(self.page_shift == 14, "page shift", self.page_shift)


def read_sections(data, header):
    """{name: bytes} in file order, after checking the table and that the parts of the file leave no holes."""
    table_end = HEADER.size + ENTRY.size * header.nr_sections
    need(table_end <= len(data), "the section table goes past the end of the file")
    table = data[HEADER.size:table_end]
    need(hash64(table) == header.table_hash, "the section table does not match its checksum")
    sections = {}
    place = table_end
    for name, offset, length in ENTRY.iter_unpack(table):
        need(name not in sections, "two sections are named", name)
        need(offset == place, "section", name, "starts at", offset, "and not at", place)
        need(length <= len(data) - place, "section", name, "goes past the end of the file")
        sections[name] = data[offset:offset + length]
        place += length
    need(header.sums_offset == place, "the page sums start at", header.sums_offset, "and not at", place)
    return sections


def pages(section):
    return [section[start:start + PAGE] for start in range(0, len(section), PAGE)]


def check_pages(data, header, sections):
    """Page sums run to the end of the file; there is one for each page of each section, unknown ones too."""
    sums = data[header.sums_offset:]
    need(hash64(sums) == header.sums_hash, "the page sums do not match their checksum")
    nr_pages = sum(ceil_div(len(section), PAGE) for section in sections.values())
    need(len(sums) == 8 * nr_pages, len(sums), "bytes of page sums for", nr_pages, "pages")
    stored = iter(struct.unpack("<%dQ" % nr_pages, sums))
    for name, section in sections.items():
        for number, page in enumerate(pages(section)):
            need(hash64(page) == next(stored), "page", number, "of section", name, "does not match its sum")


def read_table(section, layout, what):
    """The rows of a section that is an array of fixed-size records."""
    need(len(section) % layout.size == 0, what, "has", len(section), "bytes, no multiple of", layout.size)
    return list(layout.iter_unpack(section))


# --------------------------------------------------------------------------------------------------- section 4: values


class Linear:
    def __init__(self, cursor, count, x0, width):
        need(width <= 64, "LINEAR values of", width, "bits")
        self.x0 = cursor.varint("X_0")
        need(self.x0 == x0, "LINEAR values start at", self.x0, "and not at the first name's,", x0)
        self.stride = cursor.varint("stride")
        cursor.end_preamble()
        need(count == 1 or self.stride >= 1, "LINEAR values do not rise")
        need(x0 + (count - 1) * self.stride < 1 << width, "LINEAR values leave their", width, "bits")

    def at(self, i):
        return self.x0 + i * self.stride


SET_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]


def set_bit_positions(data):
    """Where the set bits are. Looking only at bytes other than 0 keeps sparse arrays fast."""
    return [8 * match.start() + bit for match in re.finditer(rb"[^\0]", data) for bit in SET_BITS[match.group()[0]]]


class EliasFano:
    def __init__(self, cursor, count, x0, width):
        need(count <= 2**20, "ELIAS-FANO with", count, "names")
        self.l = l = cursor.varint("l")
        need(l < width, "l is", l, "with values of", width, "bits")
        self.h = h = cursor.varint("h", 0, 2**28)
        # Choice: these bytes are a number and not an array, so bits of theirs over the width are not ignored.
        base = int.from_bytes(cursor.take(ceil_div(width - l, 8), "X_0 >> l"), "little")
        need(base == x0 >> l, "X_0 >> l is stored as", base, "where the first name has", x0 >> l)
        cursor.end_preamble()
        low = cursor.take(ceil_div(count * l, 8), "the low array")
        high = cursor.take(ceil_div(count + h, 8), "the high array")

        positions = set_bit_positions(high)
        while positions and positions[-1] >= count + h:  # bits that pad the array to a byte
            positions.pop()
        need(len(positions) == count, len(positions), "set bits in high for", count, "names")
        rises = [position - i for i, position in enumerate(positions)]
        need(rises[0] == 0, "H_0 is", rises[0], "and not 0")
        need(rises[-1] == h, "the last H is", rises[-1], "and not h,", h)
        if count + h > 2048:
            self._check_ones(cursor, positions)
            self._check_zeros(cursor, rises, h)

        self.x = [base + rise << l | bits(low, i * l, l) for i, rise in enumerate(rises)]
        need(self.x[0] == x0, "the low bits of X_0 are not those of the first name")
        need(all(a < b for a, b in zip(self.x, self.x[1:])), "ELIAS-FANO values do not rise")
        need(self.x[-1] < 1 << width, "ELIAS-FANO values leave their", width, "bits")

    @staticmethod
    def _check_ones(cursor, positions):
        for k in range(1, (len(positions) - 1) // 256 + 1):
            stored = int.from_bytes(cursor.take(4, "ones"), "little")
            need(stored == positions[256 * k], "ones:", stored, "for set bit", 256 * k, "at", positions[256 * k])

    @staticmethod
    def _check_zeros(cursor, rises, h):
        # Bit i of the set ones has H_i clear bits before it. So it comes before clear bit number z when H_i <= z, and
        # counting those gives the place of clear bit z without walking over all clear bits.
        for z in range(256, h, 256):  # k = 1 ... (h-1)/256, and none when h is 0
            position = z + bisect.bisect_right(rises, z)
            stored = int.from_bytes(cursor.take(4, "zeros"), "little")
            need(stored == position, "zeros:", stored, "for clear bit", z, "at", position)

    def at(self, i):
        return self.x[i]


def read_values(cursor, count, x0, width):
    coding = cursor.byte("the values' coding")
    need(coding in (0, 1), "unknown coding of values", coding)
    return (EliasFano if coding else Linear)(cursor, count, x0, width)


# ------------------------------------------------------------------------------------------------- section 2: segments


class Grid:
    def __init__(self, cursor, count, first):
        nr_fields = cursor.varint("nr_fields", 1, 8)
        self.widths = []
        self.between = []  # the unchanging bytes before each field, and those after the last
        self.starts = []  # the fields' values in the first name
        end = 0
        for _ in range(nr_fields):
            start = end + cursor.varint("gap")
            self.between.append(first[end:start])
            end = start + cursor.varint("width", 1, 18)
            need(end <= len(first), "a field goes past the end of the name")
            need(first[start:end].isdigit(), "a field is not all digits:", first[start:end])
            self.widths.append(end - start)
            self.starts.append(int(first[start:end]))
        self.between.append(first[end:])

        self.dims = []
        product = 1
        for _ in range(cursor.varint("nr_dims", 1, 4)):
            extent = cursor.varint("extent", 1)
            self.dims.append((extent, [cursor.zigzag("delta") for _ in range(nr_fields)]))
            product *= extent
        need(product == count, "the extents make", product, "names and not", count)

    def name(self, i):
        values = list(self.starts)
        for extent, deltas in self.dims:
            i, x = divmod(i, extent)
            for f, delta in enumerate(deltas):
                values[f] += x * delta
        pieces = []
        for before, value, width in zip(self.between, values, self.widths):
            value %= 2**64
            need(value < 10**width, "the value", value, "does not fit into a field of width", width)
            pieces.append(before)
            pieces.append(b"%0*d" % (width, value))
        pieces.append(self.between[-1])
        return b"".join(pieces)


def read_byte_set(cursor):
    """The bytes of lo..hi ranges, in order: a byte's digit is its place in them."""
    nr_ranges = cursor.byte("nr_ranges")
    need(1 <= nr_ranges <= 64, "nr_ranges is", nr_ranges)
    members = []
    for _ in range(nr_ranges):
        lo, hi = cursor.take(2, "a range")
        need(lo <= hi, "a range from", lo, "to", hi)
        need(not members or lo > members[-1] + 1, "ranges touch, overlap or fall")
        members.extend(range(lo, hi + 1))
    need(len(members) >= 2, "a radix of 1")
    return bytes(members)


class Limb:
    """Some bytes of the name, read as one mixed-radix number, most significant first."""

    def __init__(self, width):
        self.width = width
        self.digits = []  # (position in the name, byte set) of each byte, left to right
        self.product = 1

    def add(self, position, members):
        self.digits.append((position, members))
        self.product *= len(members)
        need(self.product <= 2**64, "the radices of a limb multiply to over 2^64")

    def check_width(self):
        width = (self.product - 1).bit_length()  # the smallest w with 2^w >= product
        need(self.width == width, "a limb says that it has", self.width, "bits and not", width)

    def number(self, name):
        v = 0
        for position, members in self.digits:
            digit = members.find(name[position])
            need(digit >= 0, "byte", position, "of the first name is not in its set")
            v = v * len(members) + digit
        return v

    def write(self, v, name):
        need(v < self.product, "a limb's number", v, "is not below its product of radices", self.product)
        for position, members in reversed(self.digits):
            v, digit = divmod(v, len(members))
            name[position] = members[digit]


MAX_PARTS = 128  # in all limbs of a segment


class Fixed:
    def __init__(self, cursor, count, first):
        self.first = first
        self.limbs = []
        end = 0
        parts_left = MAX_PARTS
        for _ in range(cursor.varint("nr_limbs", 1, 64)):
            limb = Limb(cursor.byte("a limb's width"))
            nr_parts = cursor.varint("nr_parts", 1, 64)
            parts_left -= nr_parts
            need(parts_left >= 0, "there are more than", MAX_PARTS, "parts in all limbs")
            for _ in range(nr_parts):
                end = self._read_part(cursor, limb, end)
            limb.check_width()
            self.limbs.append(limb)
        # (limb, width, mask) from the last limb, which has the least significant bits, to the first
        self.from_low = [(limb, limb.width, (1 << limb.width) - 1) for limb in reversed(self.limbs)]
        width = sum(limb.width for limb in self.limbs)
        need(width <= 512, "the limbs' widths add up to", width)
        self.values = read_values(cursor, count, self.x_of(first), width)

    def _read_part(self, cursor, limb, end):
        """Adds one part's bytes to the limb; returns where the part ends in the name."""
        start = end + cursor.varint("gap")
        end = start + cursor.varint("length", 1)
        need(end <= len(self.first), "a part goes past the end of the name")
        members = read_byte_set(cursor)
        for position in range(start, end):
            limb.add(position, members)
        return end

    def x_of(self, name):
        x = 0
        for limb in self.limbs:
            x = x << limb.width | limb.number(name)
        return x

    def name(self, i):
        x = self.values.at(i)
        name = bytearray(self.first)
        for limb, width, mask in self.from_low:
            limb.write(x & mask, name)
            x >>= width
        return bytes(name)


POWERS = [10**nr for nr in range(19)]
# 0, 1, 11, 111 …: the number of nodes of a tree of that many levels in which all have ten children
REPUNITS = [(10**nr - 1) // 9 for nr in range(19)]


class DecimalOrder:
    """The numbers 0 … top sorted as text, before or after the numbers that they are a prefix of.

    Both orders are walks over one tree: below 1 … 9 at the top, the children of n are 10n … 10n+9. Children first is
    the order for a suffix above '9'; parents first is the other. 0 has no children and is always the first of all.
    """

    def __init__(self, top, children_first):
        self.top = top
        self.children_first = children_first
        self.nr_digits = len(str(top))

    def rank(self, number):
        """Counts, for each number of digits, the numbers that come before this one."""
        if number == 0:
            return 0
        own = len(str(number))
        before = 1  # the number 0
        for nr_digits in range(1, self.nr_digits + 1):
            # Of the numbers of nr_digits digits, those from 10^(nr_digits-1) up to below `limit` come before.
            if nr_digits < own:  # its prefix of that length is one of them when parents come first
                limit = number // 10**(own - nr_digits) + (0 if self.children_first else 1)
            elif nr_digits == own:
                limit = number
            else:  # its own descendants are among them when children come first
                limit = (number + (1 if self.children_first else 0)) * 10**(nr_digits - own)
            before += max(0, min(limit, self.top + 1) - 10**(nr_digits - 1))
        return before

    def _tree_size(self, number, levels):
        """How many numbers up to top begin with this one's digits. It is on the first of `levels` levels.

        All levels but the last are whole, as they have fewer digits than top; the last is cut off after top.
        """
        row = POWERS[levels - 1]  # the numbers on the last level, if it were whole
        return REPUNITS[levels - 1] + max(0, min(row, self.top + 1 - number * row))

    def number(self, rank):
        """The number with this rank: walks down the tree, skipping whole subtrees."""
        if rank == 0:
            return 0
        rank -= 1
        child = 1
        for levels in range(self.nr_digits, 0, -1):
            # Whole subtrees come first and are all of one size, so they are skipped at once; then the one that top cuts
            # and those after it, one by one.
            whole = REPUNITS[levels]
            nr_whole = min(rank // whole, max(0, (self.top + 1) // POWERS[levels - 1] - child))
            rank -= nr_whole * whole
            child += nr_whole
            size = self._tree_size(child, levels)
            while rank >= size:
                rank -= size
                child += 1
                size = self._tree_size(child, levels)
            # The number is child or below it.
            if rank == (size - 1 if self.children_first else 0):
                return child
            if not self.children_first:
                rank -= 1
            child *= 10
        raise AssertionError("a rank above top")


class Decimal:
    def __init__(self, cursor, count, first):
        prefix_length = cursor.varint("prefix length")
        suffix_length = cursor.varint("suffix length")
        top = cursor.varint("max", 0, 10**18 - 1)
        need(prefix_length + suffix_length < len(first), "prefix and suffix leave no digits")
        suffix_start = len(first) - suffix_length
        self.prefix, self.suffix = first[:prefix_length], first[suffix_start:]
        digits = first[prefix_length:suffix_start]
        need(digits.isdigit(), "not digits:", digits)
        need(digits == b"0" or digits[:1] != b"0", "leading zeros in", digits)
        need(not self.suffix[:1].isdigit(), "the suffix starts with a digit")
        # The length is looked at first: int() is slow on long text.
        need(len(digits) <= 18 and int(digits) <= top, "the first number", digits, "is above max", top)
        self.order = DecimalOrder(top, children_first=self.suffix[:1] > b"9")
        self.values = read_values(cursor, count, self.order.rank(int(digits)), 64)
        need(self.values.at(count - 1) <= top, "a place in the list after max", top)

    def name(self, i):
        return b"%s%d%s" % (self.prefix, self.order.number(self.values.at(i)), self.suffix)


COMPRESSED, WITH_DICTIONARY = 1, 2


def decompress(stored, raw_length, dictionary):
    """The raw bytes of one zstd frame, with a dictionary unless that is None."""
    # zstd itself would also take several frames, and skippable ones; the page says one.
    need(stored[:4] == ZSTD_MAGIC, "the stored bytes are no zstd frame")
    need(_frame_size(stored, len(stored)) == len(stored), "the stored bytes are not one whole zstd frame")
    raw = ctypes.create_string_buffer(max(1, raw_length))
    if dictionary is None:
        size = _decompress(raw, raw_length, stored, len(stored))
    else:
        size = _decompress_dict(_context, raw, raw_length, stored, len(stored), dictionary, len(dictionary))
    need(not _is_error(size), "zstd cannot decompress a payload")
    need(size == raw_length, "a payload decompresses to", size, "bytes and not", raw_length)
    return raw.raw[:size]


class Front:
    def __init__(self, cursor, count, first, dictionary):
        need(count <= 1024, "FRONT with", count, "names")
        flags = cursor.byte("flags")
        need(flags in (0, COMPRESSED, COMPRESSED | WITH_DICTIONARY), "FRONT flags", flags)
        raw_length = cursor.varint("raw length", 0, 65536)
        stored_length = cursor.varint("stored length")
        cursor.end_preamble()
        stored = cursor.take(stored_length, "the stored bytes")
        if flags & WITH_DICTIONARY:
            need(dictionary is not None, "no dictionary serves this segment")
        if flags & COMPRESSED:
            raw = decompress(stored, raw_length, dictionary if flags & WITH_DICTIONARY else None)
        else:
            need(len(stored) == raw_length, "raw length", raw_length, "and stored length", len(stored), "differ")
            raw = stored
        self.names = self._expand(Cursor(raw), count, first)

    @staticmethod
    def _expand(cursor, count, name):
        names = [name]
        for _ in range(1, count):
            kept = cursor.varint("n", 0, len(name))
            name = name[:kept] + cursor.take(cursor.varint("m"), "the end of a name")
            names.append(name)
        cursor.finish("the list of names")
        return names

    def name(self, i):
        return self.names[i]


KINDS = {1: "GRID", 2: "FIXED", 3: "DECIMAL", 4: "FRONT"}


def read_start(cursor, count):
    """What all payloads start with: (kind, first name)."""
    kind = cursor.byte("kind")
    need(kind in KINDS, "unknown kind of segment", kind)
    stored_count = cursor.varint("count", 1)
    need(stored_count == count, "a payload of", stored_count, "names where the directory says", count)
    first = cursor.take(cursor.varint("first length", 1, MAX_NAME), "the first name")
    check_name(first, "a first name")
    return kind, first


def read_segment(payload, count, dictionary):
    """A decoded segment: count, first (its first name) and name(i)."""
    cursor = Cursor(payload)
    kind, first = read_start(cursor, count)
    if kind == 4:
        segment = Front(cursor, count, first, dictionary)
    else:
        segment = {1: Grid, 2: Fixed, 3: Decimal}[kind](cursor, count, first)
    if kind == 1:
        cursor.end_preamble()  # a GRID has no arrays, so this is all of it
    cursor.finish("a segment")
    segment.count, segment.first = count, first
    return segment


# -------------------------------------------------------------------------------------------------- section 5: columns

RUN = struct.Struct("<QQQI4x")
BLOCK = struct.Struct("<QQQ")
CONSTANT, BLOCKS = 0, 1
BLOCK_VALUES = 256
SPARSE = 128


class Column:
    """One unsigned number a file, out of the three sections of a column."""

    def __init__(self, name, runs, blocks, data, nr_files, sparse=False):  # or nr_files extents
        self.name = name
        self.sparse = sparse
        self.runs = read_table(runs, RUN, name + "RN")
        self.blocks = read_table(blocks, BLOCK, name + "BK")
        self.data = data
        self.nr_files = nr_files
        self._check_runs()

    def _check_runs(self):
        """Ids rise strictly from 0 to below the number of files, and blocks exist. Makes walking the runs safe."""
        need(bool(self.runs) == (self.nr_files > 0),
             self.name, "has", len(self.runs), "runs for", self.nr_files, "files")
        expected = 0
        for number, (first, _, what, kind) in enumerate(self.runs):
            need(first == 0 if number == 0 else first >= expected, self.name, "run", number, "starts at", first)
            need(first < self.nr_files, self.name, "run", number, "starts after the last file")
            need(kind in (CONSTANT, BLOCKS), self.name, "run", number, "has kind", kind)
            if kind == BLOCKS:
                nr_blocks = ceil_div(self._run_length(number), BLOCK_VALUES)
                need(what + nr_blocks <= len(self.blocks), self.name, "run", number, "has blocks that are not there")
            expected = first + 1

    def _run_length(self, number):
        """A run ends where the next begins, the last at the number of files."""
        end = self.runs[number + 1][0] if number + 1 < len(self.runs) else self.nr_files
        need(end > self.runs[number][0], self.name, "runs do not rise")
        return end - self.runs[number][0]

    def _block_values(self, index, nr):
        smallest, _, packed = self.blocks[index]
        offset, width = packed & (1 << 56) - 1, packed >> 56
        if self.sparse and width >= SPARSE:
            return self._sparse_values(index, nr, smallest, offset, width - SPARSE)
        need(width <= 64, self.name, "block", index, "has a width of", width)
        # This holds for blocks of width 0 too: their offsets are inside the data, or at its end.
        # Choice: blocks may leave holes in the data, share it, or stand in any order; the page only gives offsets.
        need(offset + ceil_div(nr * width, 8) <= len(self.data), self.name, "block", index, "goes past the data")
        if width == 0:
            return [smallest] * nr
        return [smallest + bits(self.data, 8 * offset + j * width, width) for j in range(nr)]

    def _sparse_values(self, index, nr, smallest, offset, width):
        need(1 <= width <= 64 and offset < len(self.data), self.name, "sparse block", index, "has a width of", width)
        count = self.data[offset]
        positions = self.data[offset + 1:offset + 1 + count]
        start = offset + 1 + count
        need(count >= 1 and start + ceil_div((count + 1) * width, 8) <= len(self.data), self.name, "sparse block", index,
             "goes past the data")
        # Choice: a block that no run uses has no values, and so no positions to compare with their number.
        need(nr == 0 or positions[-1] < nr, self.name, "sparse block", index, "has a position outside")
        need(all(a < b for a, b in zip(positions, positions[1:])), self.name, "sparse block", index, "has positions that do not rise")
        stored = [smallest + bits(self.data, 8 * start + i * width, width) for i in range(count + 1)]
        values = [stored[0]] * nr
        for position, value in zip(positions, stored[1:] if nr else ()):
            values[position] = value
        return values

    def _run_blocks(self, number):
        """(index, values) of each block of a run."""
        left = self._run_length(number)
        index = self.runs[number][2]
        while left > 0:
            nr = min(left, BLOCK_VALUES)
            yield index, self._block_values(index, nr)
            index += 1
            left -= nr

    def values(self):
        for number, (_, _, what, kind) in enumerate(self.runs):
            if kind == CONSTANT:
                for _ in range(self._run_length(number)):
                    yield what
            else:
                for _, values in self._run_blocks(number):
                    yield from values

    def check(self):
        """Compares every stored sum with the values; returns the sum of all."""
        total = 0
        for number, (_, before, what, kind) in enumerate(self.runs):
            need(before == total, self.name, "run", number, "stores", before, "as the sum before it and not", total)
            if kind == CONSTANT:
                total += what * self._run_length(number)
            else:
                total += self._check_run_blocks(number)
            need(total < MAX_U64, self.name, "sum reaches 2^64 - 1")
        # Choice: blocks that no run uses must have a width and an offset that a block of no values could have.
        for index in range(len(self.blocks)):
            self._block_values(index, 0)
        return total

    def _check_run_blocks(self, number):
        in_run = 0
        for index, values in self._run_blocks(number):
            smallest, before, _ = self.blocks[index]
            need(before == in_run, self.name, "block", index, "stores", before, "as the sum before it and not", in_run)
            need(min(values) == smallest, self.name, "block", index, "has no value", smallest, "that it calls smallest")
            in_run += sum(values)
        return in_run


# --------------------------------------------------------------------------------------------------- section 6: digest

P = 2**61 - 1
R0, R1 = 0x0D6E8FEB86659FD9, 0x05851F42D4C957F3
SIZE_FACTOR, SAMPLES_FACTOR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
UNKNOWN_SIZE = MAX_U64


class Digest:
    def __init__(self):
        self.lane0 = self.lane1 = self.nr_files = 0

    def add(self, name, size, samples):
        seed = (size * SIZE_FACTOR + samples * SAMPLES_FACTOR) & MAX_U64
        hashed = xxh128(name, len(name), seed)
        self.lane0 = (self.lane0 * R0 + (hashed.low >> 3) + 1) % P
        self.lane1 = (self.lane1 * R1 + (hashed.high >> 3) + 1) % P
        self.nr_files += 1

    def stored(self):
        """The 16 bytes of the header: low half, then high half."""
        hashed = xxh128(struct.pack("<QQQ", self.lane0, self.lane1, self.nr_files), 24, 0)
        return struct.pack("<QQ", hashed.low, hashed.high)


# --------------------------------------------------------------------------------------------------------- the catalog

DIRECTORY = struct.Struct("<QQQ")
DICTIONARY = struct.Struct("<QQQ")


def read_directory(section, nr_files, name_length):
    """(id of the first name, number of names, payload's offset, its end, key) of each segment."""
    rows = read_table(section, DIRECTORY, "NDIR")
    if not rows:
        need(nr_files == 0, "no segments for", nr_files, "files")
        need(name_length == 0, "NAME holds", name_length, "bytes of no segment")
        return []
    need(rows[0][:2] == (0, 0), "the first segment starts at id", rows[0][0], "and offset", rows[0][1])
    segments = []
    for (first, offset, key), (end, offset_end, _) in zip(rows, rows[1:] + [(nr_files, name_length, 0)]):
        need(first < end, "segment ids do not rise at", first)
        need(offset < offset_end, "payload offsets do not rise at", offset)
        segments.append((first, end - first, offset, offset_end, key))
    return segments


def key_of(name, skip):
    """Section 3: the first byte is most significant, with zeros where the name ends."""
    return int.from_bytes(name[skip:skip + 8].ljust(8, b"\0"), "big")


def read_dictionaries(table, content):
    """(first segment, dictionary) for each one, first segments rising strictly."""
    dictionaries, end = [], 0
    for first, offset, length in read_table(table, DICTIONARY, "DTAB"):
        need(not dictionaries or first > dictionaries[-1][0], "first segments in DTAB do not rise at", first)
        need(offset + length <= len(content), "a dictionary goes past the end of DICT")
        need(length <= 2**20, "a dictionary has", length, "bytes")
        need(offset >= end, "dictionaries overlap at", offset)
        end = offset + length
        dictionaries.append((first, content[offset:offset + length]))
    return dictionaries


def common_prefix_length(names):
    """All names lie between the smallest and the largest, so what those two share all share."""
    return len(os.path.commonprefix([min(names), max(names)]))


# ------------------------------------------------------------------------------------------------------- section 9: ETags

ETAG = struct.Struct("<16sI")


def etag_text(digest, number):
    """As the server said it, without quotes; None where none is kept."""
    if number == 2**32 - 1:
        return None
    return digest.hex() + ("-%d" % number if number else "")


# ---------------------------------------------------------------------------------------- section 10: samples inside files

EXTENTS = struct.Struct("<QQQ8x")
FORMAT = struct.Struct("<16sQQ")


def read_formats(section):
    """{name: (files, samples)} of the formats that follow the first 32 bytes of XHDR."""
    formats = {}
    for name, files, samples in read_table(section[32:], FORMAT, "XHDR"):
        text, _, zeros = name.partition(b"\0")
        need(re.fullmatch(rb"[A-Za-z0-9_]+", text) and len(text) < 16 and not zeros.strip(b"\0"), "a format's name is", name)
        need(text.decode() not in formats, "a format appears twice:", text)
        formats[text.decode()] = files, samples
    return formats


class Catalog:
    """A catalog file, from bytes or from a path.

    Opening checks the header, the section table, all page sums and the tables that hold ids and offsets, so that what
    the other methods use is what was written. They raise Damaged where a payload breaks a rule; check() looks at all.
    """

    def __init__(self, source):
        if isinstance(source, (bytes, bytearray, memoryview)):
            self.data = bytes(source)
        else:
            with open(source, "rb") as file:
                self.data = file.read()
        self.header = header = Header(self.data)
        self.sections = read_sections(self.data, header)
        check_pages(self.data, header, self.sections)
        self.nr_files = header.nr_files
        self.segments = read_directory(self._section(b"NDIR"), self.nr_files, len(self._section(b"NAME")))
        self._first_ids = [segment[0] for segment in self.segments]
        self._keys = [segment[4] for segment in self.segments]
        self.dictionaries = read_dictionaries(self._section(b"DTAB"), self._section(b"DICT"))
        self._open_columns()
        self._last = None, None  # number of the segment decoded last, and that segment

    def _section(self, name):
        return self.sections.get(name, b"")  # one that is not there counts as empty

    def _open_columns(self):
        """Which of sizes and samples are columns. The header and the sections must tell the same."""
        header = self.header
        self.sizes_known = header.nr_bytes != UNKNOWN_SIZE
        self._sizes = self._column("SZ", self.sizes_known)
        self._samples = self._column("SM", header.samples_per_file == 0)
        etags = read_table(self._section(b"ETGS"), ETAG, "ETGS")
        need(not etags or len(etags) == self.nr_files, len(etags), "ETags of", self.nr_files, "files")
        self._etags = etags
        self._open_extents()

    def _open_extents(self):
        self.has_extents = bool(self._section(b"XHDR"))
        need(self.has_extents or not self.header.incompat & SPARSE_BIT, "sparse blocks without extents")
        need(self.has_extents == bool(self.header.incompat & EXTENTS_BIT), "extents that the header does not announce, or none")
        if not self.has_extents:
            return
        header = self._section(b"XHDR")
        need(len(header) >= 32, "XHDR has only", len(header), "bytes")
        need(self.sizes_known, "there are extents but no sizes")
        self.nr_extents, self.longest, self.nr_uncut = EXTENTS.unpack(header[:32])
        self.formats = read_formats(header)
        sparse = bool(self.header.incompat & SPARSE_BIT)
        self._added, self._shared = [Column(name, *self._of_column(name), self.nr_files, sparse) for name in ("XN", "XS")]
        self._gaps, self._lengths, self._rows = [
            Column(name, *self._of_column(name), self.nr_extents, sparse) for name in ("XG", "XL", "XR")]

    def _of_column(self, name):
        return [self._section((name + part).encode()) for part in ("RN", "BK", "DT")]

    def _column(self, name, is_there):
        """The column, or None when the header says that there is none; then there may be no runs."""
        runs, blocks, data = self._of_column(name)
        if is_there:
            return Column(name, runs, blocks, data, self.nr_files)
        need(not runs, name + "RN is there though the header says that it is empty")
        # Choice: without runs, blocks and data are bytes that nothing uses; only the record's length is asked for.
        read_table(blocks, BLOCK, name + "BK")
        return None

    # -- what it holds

    @property
    def root(self):
        return self._section(b"ROOT")

    @property
    def digest(self):
        """The stored digest as it is printed: 32 hexadecimal digits, high half first."""
        low, high = struct.unpack("<QQ", self.header.digest)
        return "%016x%016x" % (high, low)

    def segment_kind(self, number):
        """GRID, FIXED, DECIMAL or FRONT, without decoding the segment."""
        kind = self._section(b"NAME")[self.segments[number][2]]
        need(kind in KINDS, "unknown kind of segment", kind)
        return KINDS[kind]

    def segment(self, number):
        if self._last[0] != number:
            _, count, offset, end, _ = self.segments[number]
            self._last = number, read_segment(self._section(b"NAME")[offset:end], count, self._dictionary(number))
        return self._last[1]

    def _dictionary(self, number):
        """The last one whose first segment is not after this one, or None."""
        serving = [content for first, content in self.dictionaries if first <= number]
        return serving[-1] if serving else None

    def name(self, i):
        if not 0 <= i < self.nr_files:
            raise IndexError(i)
        number = bisect.bisect_right(self._first_ids, i) - 1
        name = self.segment(number).name(i - self.segments[number][0])
        check_name(name, "a name")
        return name

    def first_name(self, number):
        """The first name of a segment, without decoding the rest."""
        _, count, offset, end, _ = self.segments[number]
        return read_start(Cursor(self._section(b"NAME")[offset:end]), count)[1]

    def _segment_of(self, name):
        """The number of the only segment that can hold this name, by the directory; None when it is before all."""
        if not self.segments:
            return None
        skip = self.header.key_skip
        common = self.first_name(0)[:skip]
        if name[:skip] < common:  # less, or shorter and equal so far
            return None
        if name[:skip] > common:
            return len(self.segments) - 1
        key = key_of(name, skip)
        number = bisect.bisect_right(self._keys, key) - 1  # the last segment whose key is not above
        while number >= 0 and self._keys[number] == key and self.first_name(number) > name:
            number -= 1
        return number if number >= 0 else None

    def find(self, name):
        """The id of a name, or None when there is no such name."""
        number = self._segment_of(name)
        if number is None:
            return None
        segment = self.segment(number)
        low, high = 0, segment.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if segment.name(middle) <= name:
                low = middle
            else:
                high = middle - 1
        return self.segments[number][0] + low if segment.name(low) == name else None

    def names(self):
        for number in range(len(self.segments)):
            segment = self.segment(number)
            for i in range(segment.count):
                name = segment.name(i)
                check_name(name, "a name")
                yield name

    def sizes(self):
        """An iterator over the sizes, or None when they are not known."""
        return self._sizes.values() if self.sizes_known else None

    def etags(self):
        """An iterator over the ETags, without quotes and None where there is none; or None when none is kept."""
        return (etag_text(*record) for record in self._etags) if self._etags else None

    def samples(self):
        """An iterator over the numbers of samples of each file."""
        if self._samples is not None:
            return self._samples.values()
        return (self.header.samples_per_file for _ in range(self.nr_files))

    def extents(self):
        """For each file a list of (offset, length, rows), one for each sample, or None if it has no extents; or None
        when there are no extents in the catalog."""
        return self._read_extents() if self.has_extents else None

    def _read_extents(self):
        gaps, lengths, rows = [list(column.values()) for column in (self._gaps, self._lengths, self._rows)]
        before = 0
        for added, shared, nr in zip(self._added.values(), self._shared.values(), self.samples()):
            need(added in (0, nr) and (added == 0 or shared == 0), "a file of", nr, "samples adds", added, "extents")
            need(shared <= before + 1, "a layout starts before the first extent")
            first = before - (shared - 1 if shared else 0)
            before += added
            need(before <= self.nr_extents and (not shared or first + nr <= before), "a layout ends after its extents")
            if added == 0 and shared == 0:
                yield None
                continue
            layout, at = [], 0
            for e in range(first, first + nr):
                layout.append((at + gaps[e], lengths[e], rows[e]))
                at += gaps[e] + lengths[e]
            yield layout
        need(before == self.nr_extents, "files add", before, "extents and not", self.nr_extents)

    # -- whether it holds together

    def check(self):
        """Checks all rules of the page that opening has not. Returns nothing; raises Damaged."""
        self._check_root()
        self._check_totals()
        self._check_names()
        self._check_keys()
        self._check_extents()

    def _check_extents(self):
        if not self.has_extents:
            return
        for column in (self._added, self._shared, self._gaps, self._lengths, self._rows):
            column.check()
        longest = 0
        for layout, size, nr in zip(self.extents(), self.sizes(), self.samples()):
            need(layout is not None or nr <= 1, "a file of", nr, "samples has no extents")
            for offset, length, _ in [(0, size, 1)][:nr] if layout is None else layout:
                need(offset + length <= size, "an extent ends at", offset + length, "in a file of", size)
                longest = max(longest, length)
        need(longest == self.longest, "the longest sample has", longest, "bytes and not", self.longest)

    def _check_root(self):
        need(1 <= len(self.root) <= MAX_ROOT, "the root has", len(self.root), "bytes")
        need(b"\0" not in self.root, "the root holds a NUL byte")
        try:
            self.root.decode("utf-8")
        except UnicodeDecodeError:
            need(False, "the root is not UTF-8")

    def _check_totals(self):
        header = self.header
        total_bytes = self._sizes.check() if self.sizes_known else UNKNOWN_SIZE
        need(header.nr_bytes == total_bytes, "the header's sum of sizes is", header.nr_bytes, "and not", total_bytes)
        if header.compat & 1 and self.sizes_known:
            largest = max(self.sizes(), default=0)
            need(header.largest == largest, "the header's largest size is", header.largest, "and not", largest)
        if self._samples is not None:
            nr_samples = self._samples.check()
        else:
            nr_samples = header.samples_per_file * self.nr_files
        need(header.nr_samples == nr_samples, "the header has", header.nr_samples, "samples and not", nr_samples)

    def _check_names(self):
        """Every name's limits, strict order (and so uniqueness), that name 0 is the first name, and the digest."""
        digest = Digest()
        sizes, samples = self.sizes(), self.samples()
        self._first_names = []
        before = b""
        for number, (id_, count, _, _, _) in enumerate(self.segments):
            segment = self.segment(number)
            self._first_names.append(segment.first)
            need(segment.name(0) == segment.first, "name", id_, "is not the first name of its segment")
            for i in range(count):
                name = segment.name(i)
                check_name(name, "a name")
                need(name > before, "name", id_ + i, name, "does not come after", before)
                digest.add(name, UNKNOWN_SIZE if sizes is None else next(sizes), next(samples))
                before = name
        header = self.header
        need(header.lane0 == digest.lane0, "lane 0 is", hex(digest.lane0), "and not", hex(header.lane0))
        need(header.lane1 == digest.lane1, "lane 1 is", hex(digest.lane1), "and not", hex(header.lane1))
        need(header.digest == digest.stored(), "the digest does not match its lanes")

    def _check_keys(self):
        skip = self.header.key_skip
        if not self._first_names:
            return
        # This is also damage when a first name is shorter than the key skip.
        need(skip <= common_prefix_length(self._first_names), "first names differ in their first", skip, "bytes")
        for number, name in enumerate(self._first_names):
            key = key_of(name, skip)
            need(self.segments[number][4] == key, "segment", number, "has key", hex(self.segments[number][4]),
                 "and not", hex(key))
