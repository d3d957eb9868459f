"""Break things for a while and count what follows: campaign BUILD [--seconds N] [--only KIND] [--keep FILE] [--render PAGE]

Kinds are calls (each call that can fail does once), kills (signals at random times), hosts (hosts that are cut off,
frozen or killed; needs root), and load. They take turns until the time is over. FILE (default BUILD/campaign.json) keeps the counts
per commit of the code, and the next run of the same code goes on from there. --render adds them, with fuzz.json and soak.json
of the builds, to the record beside PAGE (PAGE.json), and writes the record as tables into PAGE. Ends with status 1 if anything hung, crashed, was wrong, or failed without a message.
"""
import argparse
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import calls
import hosts
import kills
import load
import render

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ("calls", "kills", "hosts", "load")


def commit():
    """The last commit of the code, with a + if files differ from it. Where there is no repository, it is told."""
    if "SHOAL_COMMIT" in os.environ:
        return os.environ["SHOAL_COMMIT"]

    def git(*words):
        return subprocess.run(["git", *words, "--", "src", "include", "python"], cwd=ROOT, capture_output=True, text=True).stdout

    return git("log", "-1", "--format=%h", "--abbrev=12").strip() + ("+" if git("status", "--porcelain").strip() else "")


class Record:
    """What was tried and seen, kept in a file. Each row has counts; `next` is where a sweep goes on."""

    def __init__(self, path):
        self.path = path
        self.facts = json.loads(path.read_text()) if path.exists() else {}
        self.now = self.facts.setdefault("commits", {}).setdefault(commit(), {"rows": {}, "next": {}, "faults": []})
        self.now.setdefault("began", time.strftime("%Y-%m-%d %H:%M", time.gmtime()))

    def count(self, kind, name, fault, **more):
        row = self.now["rows"].setdefault(kind, {}).setdefault(name, {"tried": 0})
        for key, by in {"tried": 1, **more, **({fault.partition(":")[0]: 1} if fault else {})}.items():
            row[key] = row.get(key, 0) + by
        if fault:
            self.now["faults"].append(fault)
            print(fault, file=sys.stderr, flush=True)

    def save(self):
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.facts, indent=1) + "\n")
        partial.rename(self.path)


class Campaign:
    def __init__(self, build, record, place, seed):
        self.shoal, self.shim = build / "shoal", build / "tests" / "failing_calls.so"
        self.record, self.place, self.rng = record, place, random.Random(seed)
        self.killer = None
        self.share, self.shares, self.wanted = 0, 1, lambda name: True
        os.environ["PYTHONPATH"] = str(build / "python")
        os.environ["SHOAL"] = str(self.shoal)

    # ---- Each goes on until its end or the end of the time ----

    def calls(self, end):
        """Every call alone; then every call and all after it, except for interruptions: those for ever are tried for ever."""
        place = self.place / "calls"
        if not place.exists():
            place.mkdir()
            calls.prepare(self.shoal, place)
        sweeps = [(name, kind, code, on) for on in (False, True) for name in calls.COMMANDS if self.wanted(name)
                  for kind in calls.kinds_of(name) for code in calls.codes_of(kind) if not (on and code == errno.EINTR)]
        for name, kind, code, on in sweeps[self.share::self.shares]:
            if not self.sweep(place, name, kind, code, on, end):
                return

    def sweep(self, place, name, kind, code, on, end):
        """False when the time is over."""
        key = f"{name}/{kind}/{code}/{'on' if on else 'once'}"
        at = self.record.now["next"].get(key, 1)
        if at == 0:
            return True
        sweep = calls.Sweep(self.shoal, self.shim, place, name, kind)
        while at <= sweep.nr:
            if time.monotonic() > end:
                self.record.now["next"][key] = at
                self.record.save()
                return False
            self.record.count("calls", name, sweep.try_one(at, code, on))
            at += 1
            if at % 50 == 0:
                self.record.now["next"][key] = at
                self.record.save()
        self.record.now["next"][key] = 0
        return True

    def kills(self, end):
        place = self.place / "kills"
        if not self.killer:
            place.mkdir()
            self.killer = kills.Kills(self.shoal, place, self.rng)
        while time.monotonic() < end:
            for name in kills.NAMES:
                in_time, fault = self.killer.one(name)
                self.record.count("kills", name, fault, in_time=int(in_time))
            self.record.save()

    def hosts(self, end):
        reason = hosts.why_not()
        if reason:
            print(f"no hosts: {reason}", file=sys.stderr)
            return
        while time.monotonic() < end:
            how, mpi, name = self.rng.choice(hosts.HOWS), self.rng.choice(hosts.MPIS), self.rng.choice(hosts.NAMES)
            took, fault = hosts.one(self.rng, how, mpi, name)
            self.record.count("hosts", f"{name}, {mpi}, host {how}", fault)
            row = self.record.now["rows"]["hosts"][f"{name}, {mpi}, host {how}"]
            row["slowest"] = max(row.get("slowest", 0), round(took, 1))
            self.record.save()

    def load(self, end):
        """Each case once per commit, whatever the time: none takes long unless something hangs."""
        place = self.place / "load"
        place.mkdir()
        for name, case in load.cases(self.shoal, place):
            if time.monotonic() > end or name in self.record.now["rows"].get("load", {}):
                continue
            took, seen, fault = case()
            self.record.count("load", name, fault)
            self.record.now["rows"]["load"][name].update(slowest=round(took, 1), seen=seen)
            self.record.save()


def main():
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--share", default="0/1", help="I/N: of the failing calls only each Nth sweep, from the Ith on")
    parser.add_argument("--without", action="append", default=[], help="leave out the failing calls of this command")
    parser.add_argument("--render", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    keep = options.keep or build / "campaign.json"
    if options.render:
        render.render(options.render, keep, build)
        return 0
    record = Record(keep)
    place = pathlib.Path(tempfile.mkdtemp(prefix="shoal-campaign-", dir="/dev/shm"))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here, and would be in all that is started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was counted is kept
    try:
        campaign = Campaign(build, record, place, options.seed)
        campaign.share, campaign.shares = map(int, options.share.split("/"))
        campaign.wanted = lambda name: name not in options.without
        kinds = options.only or KINDS
        for number, kind in enumerate(kinds):
            left = options.seconds if number == 0 else max(0, over - time.monotonic())
            over = time.monotonic() + left
            getattr(campaign, kind)(time.monotonic() + left / (len(kinds) - number))
    finally:
        record.save()
        shutil.rmtree(place, ignore_errors=True)
    print(render.tables(record.facts))
    return 1 if record.now["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
