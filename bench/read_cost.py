#!/usr/bin/env python3
"""What a read costs, and what its bytes cost: up to how many bytes between two samples one read of both pays.

    bench/read_cost.py [--build DIR] [--work DIR] [--turns N]

Reads samples of several lengths with `shoal read`, from a file on a disk (direct, and from the page cache) and from a server of
ours (bench/list_server), by turns. A line through the least costs per sample, by length, gives the cost of a read that has
no bytes and the cost of a KiB; a gap pays up to their quotient. It is computed for the processor and for the clock: a
client has either too little of one or too much of the other. docs/design/load.md has the result."""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile

from common import table

LENGTHS = (4096, 16384, 65536, 262144, 1048576)
FILE = 512 << 20
SAMPLES = 1500


def line_through(points):
    """(value at 0, slope) by least squares, each point weighted by the square of what it should be: small ones count as much."""
    weight = [1 / y ** 2 for _, y in points]
    x = sum(w * x for w, (x, _) in zip(weight, points)) / sum(weight)
    y = sum(w * y for w, (_, y) in zip(weight, points)) / sum(weight)
    slope = sum(w * (a - x) * (b - y) for w, (a, b) in zip(weight, points)) / sum(w * (a - x) ** 2 for w, (a, _) in zip(weight, points))
    return y - slope * x, slope


class Reads:
    def __init__(self, build, work):
        self.shoal, self.build, self.work = os.path.join(build, "shoal"), build, work
        self.env = dict(os.environ, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y", AWS_REGION="default")

    def call(self, *arguments):
        return subprocess.run([self.shoal, *map(str, arguments)], env=self.env, check=True, capture_output=True, text=True).stdout

    def prepare_file(self):
        folder = os.path.join(self.work, "data")
        os.makedirs(folder)
        with open(os.path.join(folder, "a.bin"), "wb") as file:
            for _ in range(FILE >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        for length in LENGTHS:
            self.call("index", folder, "--samples", "fixed:%d" % length, "-q", "-o", os.path.join(self.work, "%d.cat" % length))

    def read(self, catalog, length, *options):
        """(microseconds of the clock, and of processors) per sample."""
        batch = max(1, min(64, (4 << 20) // length))
        text = self.call("read", catalog, "--mode", "global", "--batch", batch, "--steps", max(1, min(SAMPLES, FILE // length) // batch),
                         "--prefetch", 8, "--in-flight", 64, "--json", "-q", *options)
        facts = json.loads(text)
        return facts["seconds"] * 1e6 / facts["samples"], facts["cpu_us_per_sample"]

    def served(self, length, delay):
        server = subprocess.Popen([os.path.join(self.build, "bench", "list_server"), "--keys", "100000", "--bucket", "bucket", "--delay-ms", str(delay),
                                   "--size", str(length)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:" + server.stdout.readline().split()[1]
            catalog = os.path.join(self.work, "s3-%d.cat" % length)
            if not os.path.exists(catalog):
                self.call("index", "s3://bucket", "-q", "-o", catalog)
            return self.read(catalog, length)
        finally:
            server.stdin.close()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--work", metavar="DIR", help="on the disk to measure; default a temporary folder")
    parser.add_argument("--turns", type=int, default=7)
    args = parser.parse_args()
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    with tempfile.TemporaryDirectory(dir=args.work, prefix="shoal-cost-") as work:
        reads = Reads(os.path.abspath(args.build), work)
        reads.prepare_file()
        ways = {"disk, direct": lambda n: reads.read(os.path.join(work, "%d.cat" % n), n, "--direct"),
                "page cache": lambda n: reads.read(os.path.join(work, "%d.cat" % n), n),
                "S3": lambda n: reads.served(n, 0)}
        for _ in range(args.turns):
            for way, measure in ways.items():
                for length in LENGTHS:
                    found[way][length].append(measure(length))
    rows = []
    for way, lengths in found.items():
        for k, what in enumerate(("clock", "processor")):
            least = {length: min(values[k] for values in figures) for length, figures in lengths.items()}
            middle = statistics.median(values[k] for values in lengths[LENGTHS[0]])
            zero, slope = line_through([(length / 1024, cost) for length, cost in least.items()])
            rows.append([way, what, *least.values(), middle, zero, slope, zero / slope])
    table("Microseconds per read, the least of %d turns, load average %.1f" % (args.turns, os.getloadavg()[0]),
          ["", "by", *("%d KiB" % (length >> 10) for length in LENGTHS), "median of 4 KiB", "of a read", "of a KiB", "a gap of KiB pays"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
