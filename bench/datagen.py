"""Writing a dataset: shoal datagen against fio, the same number of files of the same size by as many
threads, on the same disk in turn; and what making and checksumming the bytes costs. A part of
bench/run.py.

Files go to $BENCH_DIR, or else below the build directory, and are removed at once; and to memory
(/dev/shm), where there is no disk to wait for and what counts is the CPU.
"""

import json
import os
import shutil
import tempfile

from common import Failed, median_usage, run, run_measured, say, table

SIZE = 322_957  # retinanet's
THREADS = 4
TIME_LIMIT = 600  # s
FILES = {"quick": 500, "default": 8000, "full": 20_000}
TRIES = 3
SPEED_SECONDS = 1  # of CPU, for each format
FORMATS = ("indexed_binary", "npy", "npz", "tfrecord", "hdf5", "png", "jpeg", "csv")
LARGE = 100_000_000


class Datagen:
    def __init__(self, bench, build):
        self.bench = bench
        self.driver = os.path.join(build, "tests", "format_driver")
        self.files = FILES[bench.mode.name]

    def fio(self, place):
        """One file after the other by each thread, made when it is opened, as datagen does."""
        return ["fio", "--name=w", "--directory=" + place, "--rw=write", "--bs=%d" % SIZE,
                "--filesize=%d" % SIZE, "--nrfiles=%d" % (self.files // THREADS),
                "--numjobs=%d" % THREADS, "--thread", "--create_on_open=1", "--openfiles=1",
                "--file_service_type=sequential", "--ioengine=psync", "--fallocate=none"]

    def shoal(self, place):
        # Nor does fio wait for the disk.
        return [self.bench.shoal, "datagen", "retinanet_b200", "--data", place, "-q", "--no-sync", "--threads",
                str(THREADS), "dataset.num_files_train=%d" % self.files,
                "dataset.record_length_bytes=%d" % SIZE]

    def once(self, command, base):
        """What it took. Of fio the time that it wrote, without its start and its end."""
        place = tempfile.mkdtemp(prefix="datagen-", dir=base)
        log = self.bench.path("fio.json")
        os.sync()  # what the one before left to be written is not this one's
        try:
            if command == self.shoal:
                return run_measured(command(place), limit=TIME_LIMIT)
            used = run_measured(command(place) + ["--output-format=json", "--output=" + log],
                                limit=TIME_LIMIT)
            with open(log, encoding="utf-8") as f:
                wrote = max(job["write"]["runtime"] for job in json.load(f)["jobs"])
            return used._replace(wall=wrote / 1e3)
        finally:
            shutil.rmtree(place)
            self.bench.remove(log)

    def against_fio(self):
        if not shutil.which("fio"):
            print("\nno fio here: writing is not compared")
            return
        lines = []
        places = [("disk", self.bench.work)]
        if os.access("/dev/shm", os.W_OK):
            places.append(("memory", "/dev/shm"))
        for name, base in places:
            usages = {"fio": [], "shoal": []}
            for attempt in range(TRIES):  # in turn, as the disk's mood changes
                say("writing %d files, %s, %d of %d" % (self.files, name, attempt + 1, TRIES))
                usages["fio"].append(self.once(self.fio, base))
                usages["shoal"].append(self.once(self.shoal, base))
            fio, shoal = (median_usage(usages[who]) for who in ("fio", "shoal"))
            ratio = fio.wall / shoal.wall
            verdict = self.bench.results.judge("datagen against fio", name, self.files, ratio, "x",
                                               0.8, at_least=True, fio_wall=fio.wall,
                                               shoal_wall=shoal.wall, fio_cpu=fio.cpu,
                                               shoal_cpu=shoal.cpu)
            gigabytes = self.files * SIZE * 1e-9
            lines.append([name, self.files, shoal.wall, fio.wall, ratio, 0.8, verdict,
                          gigabytes * 1e3 / shoal.wall, gigabytes * 1e3 / fio.wall,
                          shoal.cpu / gigabytes, fio.cpu / gigabytes])
        table("Writing %d JPEG files of %d bytes by %d threads, and their catalog" % (
            self.files, SIZE, THREADS),
              ["to", "files", "shoal s", "fio s", "fio/shoal", "target", "", "shoal MB/s",
               "fio MB/s", "shoal CPU s/GB", "fio CPU s/GB"], lines,
              ["Not synced, by either. fio repeats a buffer; shoal makes every byte anew."])

    def making(self):
        if not os.access(self.driver, os.X_OK):
            raise Failed("%s is not there: build it first" % self.driver)
        cost, lines = {}, []
        for name in FORMATS:
            say("making %s" % name)
            cost[name] = [float(run([self.driver, "speed", name, str(size), "1",
                                     str(SPEED_SECONDS)])) for size in (SIZE, LARGE)]
        for name in FORMATS:
            small, large = cost[name]
            sums, verdict, target = None, "", None
            if name in ("npz", "tfrecord"):  # the same noise, and beside it only the checksum
                sums, target = 100 * (small - cost["indexed_binary"][0]), 10
                verdict = self.bench.results.judge("checksum CPU at 1 GB/s", name, SIZE, sums, "%",
                                                   target)
            self.bench.results.add("making a file", name, SIZE, small, "ns/B", large=large)
            lines.append([name, small, large, 1 / small, sums, target, verdict])
        table("Making files, one thread: CPU ns a byte, at %d and at %d bytes" % (SIZE, LARGE),
              ["format", "small", "large", "GB/s", "sums, % of a core at 1 GB/s", "target", ""],
              lines)

    def run(self):
        self.making()
        self.against_fio()
