#!/usr/bin/env python3
"""A long run with everything at once: soak.py BUILD [--seconds N] [--names N] [--keep FILE.json]

Three processes load epoch after epoch the whole time, with bytes that the null store makes: parts of ten million names; all of
a catalog that is replaced meanwhile, and opened anew now and then; and all of it from a store that takes its time. Beside them
the real tree changes and is listed anew and updated under their catalog's name; listings are killed and resumed; benchmark runs
are killed and resumed, and their audits looked at. Each catalog is compared with a fresh one, each epoch proves that every sample came
once, and the memory, the files and the threads of the readers are watched: they must not grow.

Ends with a table, and with status 1 if anything was wrong.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measured import commit

READER = """
import sys, shoal
path, data, steps, keep = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def load():
    return shoal.Loader(shoal.Catalog(path), 256, seed=1, data=data, object_size=512, steps=steps or None)

loader = load()
for number in range(1 << 40):
    if number % keep == keep - 1:  # what is there now: it may have been replaced
        loader = load()
    samples = sum(len(batch) for batch in loader.epoch(number))
    if not steps and not loader.audit.exactly_once:
        sys.exit("epoch %d did not have every sample once" % number)
    print(number, samples, flush=True)
"""
WORKLOAD = """
model: {name: soak}
framework: pytorch
dataset: {format: npz, num_files_train: 400, record_length_bytes: 1000}
reader: {batch_size: 4, read_threads: 2}
train: {epochs: 3, computation_time: 0.002}
metric: {au: 0.0001}
"""
HUNG = 300  # seconds; only what hangs takes as long


def proven(summary):
    """Whether no audit of a run's summary says that an epoch was not read once. A killed run may not cover one."""
    if isinstance(summary, dict):
        return summary.get("exactly_once") is not False and all(map(proven, summary.values()))
    return all(map(proven, summary)) if isinstance(summary, list) else True


class Soak:
    def __init__(self, build, folder, names, rng):
        self.shoal, self.folder, self.rng = build / "shoal", folder, rng
        self.tree, self.catalog = folder / "tree", folder / "tree.shoal"
        self.names = folder / "names.shoal"
        self.table = collections.defaultdict(collections.Counter)
        self.wrong = []
        for i in range(20_000):
            self.add_file(i)
        (folder / "w.yaml").write_text(WORKLOAD)
        self.run("index", "--pattern", "{:09d}.npz", "--count", names, "--size", 512, "--root", folder, "-q", "-o", self.names)
        self.run("index", self.tree, "-q", "-o", self.catalog)

    def add_file(self, number):
        path = self.tree / f"{number % 97:02}" / f"{number:07}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number % 3000))

    # ---- Commands ----

    def start(self, *words):
        return subprocess.Popen([self.shoal, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def finish(self, process, what):
        """What it said and its status; one that does not end is counted, and killed."""
        try:
            out, err = process.communicate(timeout=HUNG)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fault(what, "hung", err)
        return process.returncode, out, err

    def run(self, *words):
        code, out, err = self.finish(self.start(*words), words[0])
        if code != 0:
            raise SystemExit(f"soak: shoal {' '.join(map(str, words))}: {err}")
        return out

    def fault(self, what, kind, words):
        self.table[what][kind] += 1
        self.wrong.append(f"{what}: {kind}: {words.strip()[:500]}")
        print(self.wrong[-1], file=sys.stderr)

    def good(self, what, is_good, words=""):
        self.table[what]["times"] += 1
        if not is_good:
            self.fault(what, "wrong", words)

    def digest(self, catalog):
        return json.loads(self.run("info", catalog, "--json"))["digest"]

    # ---- What is done, at random ----

    def change_and_update(self):
        for _ in range(self.rng.randrange(1, 50)):
            number = self.rng.randrange(40_000)
            path = self.tree / f"{number % 97:02}" / f"{number:07}.bin"
            if number >= 20_000 and path.exists():
                path.unlink()
            elif number >= 20_000:
                self.add_file(number)
        time.sleep(0.3)  # an update trusts only what is older than that
        self.run("index", self.tree, "-q", "--update", self.catalog, "-o", self.catalog)
        self.run("index", self.tree, "-q", "-o", self.folder / "fresh.shoal")
        self.good("update under readers", self.digest(self.catalog) == self.digest(self.folder / "fresh.shoal"))

    def kill_and_resume_listing(self):
        out = self.folder / "killed.shoal"
        sig = self.rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        words = ["index", self.tree, "-q", "--resume", "-o", out]
        process = self.start(*words)
        time.sleep(self.rng.uniform(0, 0.15))
        process.send_signal(sig)
        self.finish(process, "listing killed and resumed")
        code, _, err = self.finish(self.start(*words), "listing killed and resumed")
        self.run("index", self.tree, "-q", "-o", self.folder / "fresh.shoal")
        same = code == 0 and self.digest(out) == self.digest(self.folder / "fresh.shoal")
        self.good("listing killed and resumed", same, err)
        out.unlink(missing_ok=True)

    def kill_and_resume_run(self):
        results = self.folder / "results"
        words = ["run", "w.yaml", "--results", results, "--data", "null", "-q"]
        process = self.start(*words)
        time.sleep(self.rng.uniform(0, 0.8))
        process.send_signal(self.rng.choice([signal.SIGKILL, signal.SIGTERM]))
        killed, _, _ = self.finish(process, "run killed and resumed")
        state = results / ".shoal-run" / "state"
        more = ["--resume"] if state.exists() else []
        if killed != 0 or not (results / "summary.json").exists():
            if not more:
                shutil.rmtree(results, ignore_errors=True)
            code, _, err = self.finish(self.start(*words, *more), "run killed and resumed")
            summary = results / "summary.json"
            self.good("run killed and resumed", code == 0 and summary.exists() and proven(json.loads(summary.read_text())), err)
        shutil.rmtree(results, ignore_errors=True)

    def read_real_files(self):
        words = ["read", self.catalog, "--json", "-q", "--epoch", self.rng.randrange(1000), "--engine",
                 self.rng.choice(["auto", "uring", "threads"]), "--keep-going"]
        code, out, err = self.finish(self.start(*words), "epoch of real files")
        facts = json.loads(out) if out else {}
        # The tree may have lost files since the catalog was made: those are errors with names, never wrong data.
        self.good("epoch of real files", bool(facts) and (facts["errors"] > 0 or facts["audit"]["exactly_once"] is True) and
                  code in (0, 1), err)

    # ---- All of it ----

    def go_on(self, seconds, readers):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.rng.choice([self.change_and_update, self.kill_and_resume_listing, self.kill_and_resume_run,
                             self.read_real_files])()
            for reader in readers:
                reader.look()


class Reader:
    """A process that loads for the whole time, and what it has taken at each look."""

    def __init__(self, name, folder, *words):
        self.name, self.log = name, open(folder / f"{name}.log", "w+")
        self.process = subprocess.Popen([sys.executable, "-c", READER, *map(str, words)], stdout=self.log, stderr=subprocess.STDOUT)
        self.looks = []

    def look(self):
        if self.process.poll() is not None:
            return
        proc = pathlib.Path("/proc", str(self.process.pid))
        pss = int(re.search(r"^Pss:\s*(\d+)", (proc / "smaps_rollup").read_text(), re.M)[1]) * 1024
        self.looks.append((pss, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir()))))

    def end(self, soak):
        died = self.process.poll() is not None
        self.process.kill()
        self.process.wait()
        self.log.seek(0)
        lines = self.log.read().splitlines()
        what = f"epochs of {self.name}"
        soak.table[what]["times"] = len([line for line in lines if re.fullmatch(r"\d+ \d+", line)])
        if died:
            soak.fault(what, "wrong", "\n".join(lines[-5:]))
        half = self.looks[len(self.looks) // 2:]
        early = self.looks[len(self.looks) // 4:len(self.looks) // 2] or self.looks
        if half:
            grown = [max(column) for column in zip(*half)], [max(column) for column in zip(*early)]
            if grown[0][0] > grown[1][0] * 1.1 + 4e6 or grown[0][1] > grown[1][1] + 2 or grown[0][2] > grown[1][2] + 2:
                soak.fault(what, "grew", f"memory, files and threads were {grown[1]} and then {grown[0]}")
            return f"{self.name}: memory {grown[1][0] / 1e6:.1f} MB, then {grown[0][0] / 1e6:.1f} MB; " \
                   f"files {grown[1][1]}, then {grown[0][1]}; threads {grown[1][2]}, then {grown[0][2]}"
        return f"{self.name}: not looked at"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--names", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="write what was seen there, as JSON")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-soak-", dir="/dev/shm"))
    try:
        soak = Soak(options.build.resolve(), folder, options.names, random.Random(options.seed))
        readers = [Reader("names", folder, soak.names, "null:size=512", 2000, 1 << 40),
                   Reader("files", folder, soak.catalog, "null:size=512", 0, 20),
                   Reader("slow storage", folder, soak.catalog, "null:size=512,delay_us=300", 0, 1 << 40)]
        soak.go_on(options.seconds, readers)
        memory = [reader.end(soak) for reader in readers]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{'':32}{'times':>8}{'wrong':>8}{'hung':>8}{'grew':>8}")
    for what, counts in sorted(soak.table.items()):
        print(f"{what:32}" + "".join(f"{counts[kind]:>8}" for kind in ("times", "wrong", "hung", "grew")))
    print("\n".join(memory))
    if options.keep:
        options.keep.write_text(json.dumps({"commit": commit(), "seconds": options.seconds, "names": options.names, "table": soak.table,
                                            "readers": memory, "wrong": soak.wrong}, indent=1))
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
