"""What a report costs: the size of the page of an hour with 24 ranks and how fast a browser opens
it; the time series, the view and --listen, as CPU time on the null store beside runs without them.
A part of bench/run.py. Readings keep to one core, so that what else the machine does moves their CPU
time less.

The hour has random values everywhere: a real one compresses better, and has fewer digits.
"""

import ctypes
import os
import pty
import random
import re
import shutil
import statistics
import subprocess
import threading
import time
import urllib.request
from struct import pack

from common import run, say, table

RANKS, SECONDS, SEED = 24, 3600, 1
# Samples of a reading that costs are told apart by, and readings of each kind.
MODES = {"quick": (2_000_000, 3), "default": (10_000_000, 9), "full": (30_000_000, 7)}
SCRAPE = 5  # s, between two looks of a client, as Prometheus does


def summed(body, xxh3):
    return body + pack("<Q", xxh3(body, ctypes.c_size_t(len(body))))


def seconds_record(chance, at, width, rank, xxh3):
    """A record of docs/format/series.md, whose intervals double every 1,024 records."""
    ns, rate = 10**9, chance.randrange(2000, 6000)
    fields = [at * ns, width * ns, at * 4, width * 4, rate * width, rate * width * chance.randrange(10**5, 2 * 10**5),
              chance.randrange(width * ns), chance.randrange(ns // 2), chance.randrange(width * ns), 0,
              rate * width * chance.randrange(10**6, 10**7), chance.randrange(width * ns), chance.randrange(10**8, 10**9),
              chance.randrange(1000), chance.randrange(10), 0, chance.randrange(10**6, 3 * ns), at * ns + chance.randrange(ns),
              chance.randrange(10**9)]
    counts = [chance.randrange(rate * width) // 20 if 8 <= place < 48 else 0 for place in range(64)]
    name = b"train/%03d/sample_%012d.npz" % (rank, chance.randrange(10**12))
    name += b"\0" * (8 - len(name) % 8)
    body = pack("<19Q", *fields) + pack("<64I", *counts) + name
    return summed(pack("<IIII", 1, len(body) + 24, 1 + at // 600, 0) + body, xxh3)


def steps_record(chance, first, width, xxh3):
    ns = 10**9
    body = pack("<9Q", first * ns // 4, width * ns // 4, first, width, 100 * width, 10**7 * width, chance.randrange(width * ns // 4),
                chance.randrange(ns // 4), chance.randrange(width * ns // 4))
    return summed(pack("<IIII", 2, len(body) + 24, 1, 0) + body, xxh3)


def an_hour(folder, rank):
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    xxh3.restype = ctypes.c_uint64
    chance, at, nr = random.Random(SEED + rank), 0, 0
    with open(os.path.join(folder, "series.%d" % rank), "wb") as out:
        out.write(summed(b"\x89SHSER\r\n" + pack("<IIQQQIIII", 1, 64, 1, 1790000000 * 10**9, 10**9, rank, RANKS, 1, 0), xxh3))
        while at < SECONDS:
            width = 2 ** (nr // 1024)
            out.write(seconds_record(chance, at, width, rank, xxh3))
            at, nr = at + width, nr + 1
        step, nr = 0, 0
        while step < 4 * SECONDS:
            width = 2 ** (nr // 1024)
            out.write(steps_record(chance, step, width, xxh3))
            step, nr = step + width, nr + 1


def opened_ms(page, work):
    """From the start of the navigation until all plots are drawn, as the page itself measures it."""
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                           "--user-data-dir=" + os.path.join(work, "browser"), "--timeout=8000", "--dump-dom", "file://" + page],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=120)
    return int(re.search(r'data-opened="(\d+)"', done.stdout)[1])


def cpu_of(process):
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


class Report:
    def __init__(self, mode, build, work, results):
        self.samples, self.tries = MODES[mode.name]
        self.shoal = os.path.join(build, "shoal")
        self.work, self.results = work, results

    def page(self):
        say("report: an hour of %d ranks" % RANKS)
        folder, page = os.path.join(self.work, "hour"), os.path.join(self.work, "hour.html")
        os.mkdir(folder)
        for rank in range(RANKS):
            an_hour(folder, rank)
        start = time.monotonic()
        run([self.shoal, "report", folder, "-o", page])
        took, size = time.monotonic() - start, os.path.getsize(page)
        self.results.judge("report", "page", RANKS, size / 1e6, "MB", 1.5)
        self.results.add("report", "written", RANKS, took, "s")
        rows = [["the page", "%.2f MB" % (size / 1e6)], ["written in", "%.2f s" % took]]
        if shutil.which("chromium"):
            opened = statistics.median(opened_ms(page, self.work) for _ in range(self.tries))
            self.results.judge("report", "opened", RANKS, opened, "ms", 1000)
            rows.append(["all plots drawn", "%d ms after the navigation began" % opened])
        table("Report of an hour with %d ranks, random values" % RANKS, ["", ""], rows)

    # -- What it costs meanwhile

    def one(self, name, number):
        """(CPU seconds, seconds) of a reading: plain, or with something to look at."""
        words = [self.shoal, "read", self.catalog, "--data", "null:size=1000,fill=none", "--batch", "1024", "--in-flight", "16",
                 "--epochs", str(max(1, self.samples // 1_000_000))]
        folder = os.path.join(self.work, "read-%s-%d" % (name, number))
        words += {"series": ["--results", folder], "listen": ["--listen", "--results", folder]}.get(name, [])
        here = there = None
        if name == "view":
            here, there = pty.openpty()
            threading.Thread(target=self.drain, args=(here,), daemon=True).start()
        else:
            words.append("--progress=none")
        start = time.monotonic()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=there or subprocess.PIPE, preexec_fn=self.keep_to_a_core,
                                   env=dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8"))
        if there:
            os.close(there)
        if name == "listen":
            address = re.search(rb"http://[\d.:]+/", process.stderr.readline())[0].decode()
            threading.Thread(target=self.scrape, args=(address, process), daemon=True).start()
        return cpu_of(process), time.monotonic() - start

    @staticmethod
    def keep_to_a_core():
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    @staticmethod
    def drain(end):
        try:
            while os.read(end, 65536):
                pass
        except OSError:  # the other end is closed
            os.close(end)

    @staticmethod
    def scrape(address, process):
        while process.returncode is None:
            try:
                with urllib.request.urlopen(address + "metrics", timeout=5) as answer:
                    answer.read()
            except OSError:  # it has ended
                return
            time.sleep(SCRAPE)

    def costs(self):
        say("report: what it costs meanwhile")
        self.catalog = os.path.join(self.work, "names.shoal")
        run([self.shoal, "index", "--pattern", "f{:07d}", "--count", "1000000", "--size", "1000", "--root", "/r", "-q", "-o", self.catalog])
        names, used = ("plain", "series", "listen", "view"), {}
        for number in range(self.tries):
            for name in names[number % len(names):] + names[:number % len(names)]:  # none is always the first
                used.setdefault(name, []).append(self.one(name, number))
        plain = statistics.median(cpu for cpu, _ in used["plain"])
        samples = max(1, self.samples // 1_000_000) * 1_000_000
        rate = samples / statistics.median(seconds for _, seconds in used["plain"])
        rows = [["none", "%.3f" % plain, "", "", ""]]
        for name in names[1:]:
            # Each beside the plain one of its round, so that a drift of the machine hits both.
            extra = [cpu - used["plain"][i][0] for i, (cpu, _) in enumerate(used[name])]
            middle = statistics.median(extra)
            spread = "%.3f to %.3f" % (min(extra), max(extra))
            if name == "series":
                share = 100 * middle / samples * 100_000
                self.results.judge("report", name, samples, share, "% of a core at 100,000 samples/s", 0.5)
            else:
                share = 100 * middle / statistics.median(seconds for _, seconds in used[name])
                self.results.judge("report", name, samples, share, "% of a core", 1)
            rows.append([name, "%.3f" % statistics.median(cpu for cpu, _ in used[name]), "%+.3f" % middle, spread, "%.2f" % share])
        table("Reading %d million samples of the null store at %.2f million/s, CPU seconds" % (samples // 1_000_000, rate / 1e6),
              ["with", "CPU s", "more than without", "lowest to highest", "% of a core"], rows,
              ["The share of the series is at 100,000 samples/s, that of the others at the rate that was reached.",
               "With --listen a client reads the metrics every %d seconds; it has a series, too." % SCRAPE])
