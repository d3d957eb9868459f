"""Kills: a command is ended by a signal at a random time. What had its final name before still has it or is replaced by a
whole file; the command run again gives the result that it always gives."""
import json
import shutil
import signal
import subprocess
import sys
import time

import patience

HUNG = 60  # seconds; only what hangs takes as long
ENDS = 5 + 10  # seconds after SIGINT or SIGTERM that the pages promise, and what a busy machine adds
WORKLOAD = """
model: {name: kills}
framework: pytorch
dataset: {format: npz, num_files_train: 120, record_length_bytes: 1000}
reader: {batch_size: 4, read_threads: 2}
train: {epochs: 3, computation_time: 0.001}
metric: {au: 0.0001}
"""
PYTHON = """
import shoal
shoal.index("tree", "out.cat")
loader = shoal.Loader(shoal.Catalog("out.cat"), 64, seed=1, engine="threads")
print(sum(len(batch) for batch in loader.epoch(0)), loader.audit.exactly_once)
"""


class Kills:
    def __init__(self, shoal, place, rng):
        self.shoal, self.place, self.rng = shoal, place, rng
        self.took = {}
        for folder in range(60):
            here = place / "tree" / f"{folder % 8:x}" / f"{folder:03}"
            here.mkdir(parents=True)
            for i in range(100):
                (here / f"{rng.getrandbits(32):08x}").touch()
        (place / "w.yaml").write_text(WORKLOAD)
        self.run("index", "tree", "-q", "-o", "old.cat")
        self.run("filter", "old.cat", "--exclude", "*7", "-q", "-o", "older.cat")
        self.run("index", "--pattern", "{:07d}.npz", "--count", 300_000, "--size", 512, "--root", place, "-q", "-o", "many.cat")
        self.run("column", "sizes", "many.cat", "-q", "-o", "many.col")
        self.digests = {name: self.digest(name) for name in ("old.cat", "many.cat")}

    def command(self, words):
        return list(words) if words[0] == sys.executable else [self.shoal, *map(str, words)]

    def run(self, *words):
        done = patience.run(self.command(words), HUNG, cwd=self.place)
        done.check_returncode()
        return done.stdout

    def digest(self, name):
        return json.loads(self.run("info", name, "--json"))["digest"]

    def clean(self):
        for path in [*self.place.glob("out*"), *self.place.glob(".out*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    # ---- What is killed: its name, what is there before, the command, the command that goes on, and what must hold ----

    def cases(self):
        index = ["index", "tree", "-q", "-o", "out.cat"]
        update = ["index", "tree", "-q", "--update", "old.cat", "-o", "out.cat"]
        many = ["merge", "many.cat", "-q", "-o", "out.cat"]
        sort = ["column", "sizes", "many.cat", "--sort", "-q", "-o", "out.col"]
        lists = ["manifest", "many.cat", "--ranks", "3", "-o", "out.lists"]
        datagen = ["datagen", "w.yaml", "--data", "out.data", "-q"]
        run = ["run", "w.yaml", "--data", "null", "--results", "out.results", "-q"]
        read = ["read", "many.cat", "--data", "null:size=512", "--batch", "64", "-q", "--json"]
        verify = ["verify", "many.cat", "-q"]
        python = [sys.executable, "-c", PYTHON]
        return [
            ("index", index, index, lambda: self.same("old.cat")),
            ("index --resume", [*index, "--resume"], [*index, "--resume"], lambda: self.same("old.cat")),
            ("index --update", update, update, lambda: self.same("old.cat")),
            ("merge", many, many, lambda: self.same("many.cat")),
            ("column", sort, sort, lambda: self.run("column", "verify", "out.col")),
            ("manifest", lists, [*lists, "--force"] if self.has_force() else lists, self.manifests),
            ("datagen", datagen, [*datagen, "--resume"], lambda: self.run(*datagen, "--verify")),
            ("run", run, [*run, "--resume"], self.summary),
            ("read", read, read, lambda: self.says(b'"exactly_once": true')),
            ("verify", verify, verify, lambda: None),
            ("Python", python, python, lambda: (self.says(b"6000 True"), self.same("old.cat"))),
        ]

    def has_force(self):
        return b"--force" in self.run("manifest", "--help")

    def says(self, words):
        assert words in self.said, f"it says {self.said[:300]!r}"

    def same(self, name):
        assert self.digest("out.cat") == self.digests[name], "the digest is another one"

    def manifests(self):
        lines = sum(path.read_bytes().count(b"\n") for path in (self.place / "out.lists").glob("[!.]*") if path.suffix != ".json")
        assert lines >= 300_000 - 3, f"{lines} lines"

    def summary(self):
        summary = json.loads((self.place / "out.results" / "summary.json").read_text())
        assert summary["num_accelerators"] == 1

    def intact(self):
        """Whatever has its final name is whole, at any time."""
        if (self.place / "out.cat").exists():
            self.run("verify", "out.cat", "-q")
        if (self.place / "out.col").exists():
            self.run("column", "verify", "out.col")
        if (self.place / "out.results" / "summary.json").exists():
            json.loads((self.place / "out.results" / "summary.json").read_text())

    # ---- One kill ----

    def usual_time(self, name, words):
        """How long the command takes undisturbed."""
        if name not in self.took:
            self.clean()
            began = time.monotonic()
            self.run(*words)
            self.took[name] = time.monotonic() - began
        return self.took[name]

    def one(self, name):
        """Kill it once. Returns whether the signal was in time, and what was wrong or None."""
        _, words, again, check = next(case for case in self.cases() if case[0] == name)
        usual = self.usual_time(name, words)
        self.clean()
        if name.startswith("index") and self.rng.random() < 0.5:  # an older one is replaced, or kept
            shutil.copy(self.place / "older.cat", self.place / "out.cat")
        sig = self.rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        process = subprocess.Popen(self.command(words), cwd=self.place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        time.sleep(self.rng.uniform(0, usual))
        process.send_signal(sig)
        try:
            patience.communicate(process, ENDS)
        except subprocess.TimeoutExpired:
            where = patience.stacks(process.pid)
            process.kill()
            process.communicate()
            return True, f"hung: {name} after {sig.name}: [{where}]"
        hit = process.returncode in (-sig, 128 + sig)
        try:
            self.intact()
            self.finish(name, words, again)
            check()
        except subprocess.TimeoutExpired as late:
            return hit, f"hung: {name}, run again after {sig.name}: [{late.stacks}]"
        except (AssertionError, OSError, ValueError, KeyError) as error:
            return hit, f"wrong: {name} after {sig.name}: {error}"
        except subprocess.CalledProcessError as error:
            return hit, f"wrong: {name} after {sig.name}: {error.cmd}: {error.stderr[-300:]!r}"
        return hit, None

    def finish(self, name, words, again):
        """Go on, or begin again where the signal came before anything was kept."""
        if name == "run" and (self.place / "out.results" / "summary.json").exists():
            return
        if name == "run" and not (self.place / "out.results" / ".shoal-run" / "state").exists():
            self.clean()
            again = words
        if name == "datagen" and not (self.place / "out.data").exists():
            again = words
        self.said = self.run(*again)


NAMES = ("index", "index --resume", "index --update", "merge", "column", "manifest", "datagen", "run", "read", "verify",
         "Python")
