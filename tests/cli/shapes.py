"""Sets of names of many shapes, the same in every run."""

import hashlib
import random
import uuid


def dlio(nr, nr_folders, prefix="train/img", suffix="jpeg"):
    """File names as DLIO's rule makes them (reference/dlio.md section 6.1), in order of their numbers."""
    names = []
    for i in range(nr):
        folder, _, stem = prefix.rpartition("/")
        path = folder + "/" if folder else ""
        if nr_folders > 1:
            path += "%0*d/" % (len(str(nr_folders)), i % nr_folders)
        names.append(("%s%s_%0*d_of_%d.%s" % (path, stem, len(str(nr)), i, nr, suffix)).encode())
    return names


def hexadecimal(nr, length, seed=0, prefix=b"", suffix=b""):
    rng = random.Random(seed)
    return [prefix + b"%0*x" % (length, rng.getrandbits(4 * length)) + suffix for _ in range(nr)]


def uuids(nr, seed=0):
    rng = random.Random(seed)
    return [str(uuid.UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(nr)]


def words(nr, seed=0):
    """Deep paths without a rule, such as a system's /usr."""
    rng = random.Random(seed)
    parts = [b"lib", b"share", b"python3", b"doc", b"man", b"x86_64", b"README", b"a", b"zz", b"icons", b"locale"]
    names = []
    for _ in range(nr):
        path = [rng.choice(parts) for _ in range(rng.randint(1, 9))]
        ending = b".%c%d" % (rng.choice(b"chpx"), rng.randint(0, 400))
        names.append(b"/".join(path) + ending)
    return names


def s3_keys(nr, seed=0):
    rng = random.Random(seed)
    return [b"events/year=%d/month=%02d/day=%02d/part-%05d-%016x.parquet"
            % (rng.randint(2019, 2024), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 300), rng.getrandbits(64))
            for _ in range(nr)]


def imagenet(nr, seed=0):
    """Class folders whose files' numbers have gaps."""
    rng = random.Random(seed)
    classes = [b"n%08d" % rng.randint(1440764, 15075141) for _ in range(max(1, nr // 100))]
    return [b"train/%s/%s_%d.JPEG" % (c, c, rng.randint(0, 30000)) for c in (rng.choice(classes) for _ in range(nr))]


def random_bits(nr, nr_bits, seed=0):
    """Names of nr_bits random bits, in bytes of which none is NUL."""
    rng = random.Random(seed)
    return [bytes(rng.randint(1, 255) for _ in range(nr_bits // 8)) for _ in range(nr)]


SHAPES = {
    "dlio flat": dlio(1000, 0),
    "dlio in 10 folders": dlio(1000, 10),
    "dlio in 7 folders, which do not divide the files": dlio(1000, 7),
    "dlio in more folders than files": dlio(50, 1000),
    "plain numbers before a dot": [b"img%d.jpg" % i for i in range(2500)],
    "plain numbers before an underscore": [b"img%d_x.jpg" % i for i in range(2500)],
    "plain numbers before nothing": [b"img%d" % i for i in range(2500)],
    "plain numbers that are the whole name": [b"%d" % i for i in range(1200)],
    "plain numbers with gaps": [b"s/%d.png" % random.Random(3 * i).randint(0, 10**9) for i in range(2000)],
    "plain numbers of 18 and 19 digits": [b"%d" % (10**18 + d) for d in range(-700, 700)],
    "padded numbers in steps of 3": [b"a-%06d.tar" % i for i in range(0, 9000, 3)],
    "padded numbers of 25 digits": [b"a-%025d.tar" % i for i in range(1500)],
    "padded numbers that overflow their width": [b"f%03d" % i for i in range(1500)],
    "hexadecimal, 16 digits": hexadecimal(3000, 16),
    "hexadecimal with a prefix and an ending": hexadecimal(3000, 12, 1, b"blobs/", b".bin"),
    "hexadecimal below a folder of its first digits": [b"%s/%s/%s" % (h[:2], h[2:4], h) for h in hexadecimal(2000, 16)],
    "base 64": [b"".join(bytes([random.Random(17 * i + k).choice(
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")]) for k in range(22)) for i in range(1500)],
    "uuid": uuids(3000),
    "sha-256": [hashlib.sha256(b"%d" % i).hexdigest().encode() for i in range(1500)],
    "sha-512": [hashlib.sha512(b"%d" % i).hexdigest().encode() for i in range(600)],
    "600 bits": random_bits(800, 600),
    "1100 bits": random_bits(300, 1104),
    "4 different bytes at each place": [bytes(random.Random(i * 40 + k).choice(b"ACGT") for k in range(40))
                                        for i in range(1500)],
    "deep paths without a rule": words(4000),
    "s3 keys": s3_keys(2500),
    "imagenet": imagenet(3000),
    "prefixes of each other": [b"a" * n for n in range(1, 400)],
    "prefixes of each other that end in every byte": [b"q" * n + bytes([b]) for n in range(1, 9) for b in range(1, 256)],
    "single bytes": [bytes([b]) for b in range(1, 256)],
    "pairs of bytes": [bytes([a, b]) for a in range(1, 256, 3) for b in range(1, 256, 5)],
    "three levels of numbered folders": [b"%02d/%03d/%04d.npy" % (a, b, c) for a in range(6) for b in range(9)
                                         for c in range(20)],
    "levels of plain numbers": [b"v%d/part%d/x%d" % (a, b, c) for a in range(4) for b in range(12) for c in range(15)],
    "shards of a total": [b"data/shard-%05d-of-01024.tar" % i for i in range(1024)],
    "two kinds in turn": [b"%06d.%s" % (i, e) for i in range(1200) for e in (b"jpg", b"json")],
    "mixed lengths": [b"x" * (i % 60 + 1) + b"%d" % i for i in range(2000)],
    "long names": [b"d/" * 1000 + b"%05d" % (i * i) + b"e" * 2000 for i in range(60)],
    "the longest names": [b"%04d" % i + b"n" * 4092 for i in range(40)],
    "names with tabs, newlines and other bytes that text has not": [b"a\tb", b"a\nb", b"\n", b"\t1", b"\r", b"\xff\xfe",
                                                                   b"\xc3\x28", b"\x01", b" ", b"-", b"--id", b"'\""],
    "one name": [b"only"],
    "none": [],
}

for _kind in list(SHAPES):
    # Everything after one another, so that segments of several kinds follow each other.
    if _kind in ("hexadecimal, 16 digits", "uuid", "plain numbers before a dot", "deep paths without a rule"):
        SHAPES.setdefault("many kinds in one catalog", []).extend(SHAPES[_kind][:700])


def shuffled(names, seed=1):
    names = list(names)
    random.Random(seed).shuffle(names)
    return names


def random_set(seed):
    """A small set of names that mixes shapes, of one letter words at times, so that names repeat and nest."""
    rng = random.Random(seed)
    kinds = [
        lambda: b"%d" % rng.randint(0, 10**rng.randint(1, 20)),
        lambda: b"%0*d" % (rng.randint(1, 12), rng.randint(0, 2000)),
        lambda: b"f%0*d.x" % (width, rng.randint(0, 300)),
        lambda: b"img%d%s" % (rng.randint(0, 150), ending),
        lambda: b"%0*x" % (width, rng.getrandbits(4 * width)),
        lambda: bytes(rng.choice(alphabet) for _ in range(rng.randint(1, 6))),
        lambda: bytes(rng.choice(alphabet) for _ in range(width)),
        lambda: bytes(rng.randint(1, 255) for _ in range(rng.randint(1, 20))),
        lambda: b"d%d/%0*d/%s" % (rng.randint(0, 3), width, rng.randint(0, 99), ending),
        lambda: b"a" * rng.randint(1, 40),
        lambda: b"p/" * rng.randint(0, 30) + b"%d" % rng.randint(0, 30),
    ]
    width = rng.randint(1, 20)
    ending = rng.choice([b"", b".jpg", b"_x", b"/y", b"A", b"\xff", b"\x01"])
    alphabet = rng.choice([b"ab", b"01", b"0123456789", b"-/0:9A", bytes(range(1, 256))])
    nr = rng.choice([1, 2, 3, 10, 40, 150, 500])
    chosen = rng.sample(kinds, rng.randint(1, 4))
    names = [rng.choice(chosen)() for _ in range(nr)]
    if rng.random() < 0.3:  # a run without a gap, which has its own coding
        start = rng.randint(0, 1000)
        names += [b"img%0*d%s" % (rng.choice([0, 6]), i, ending) for i in range(start, start + nr)]
    if rng.random() < 0.2:
        shared = bytes(rng.choice(b"xyz/") for _ in range(rng.randint(1, 60)))
        names = [shared + name for name in names]
    return [name for name in names if b"://" not in name]  # that would be a URI
