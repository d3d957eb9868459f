"""Break things for a while and count what follows: campaign BUILD [--seconds N] [--jobs N] [--only KIND] [--keep FILE] [--render PAGE]

Kinds are calls (each call that can fail does once), kills (signals at random times), hosts (hosts that are cut off,
frozen or killed; needs root), and load. They take turns until the time is over, each with as many processes as there are jobs. FILE
(default BUILD/campaign.json) keeps the counts per commit of the code, and the next run of the same code goes on from there. --render adds them, with fuzz.json and soak.json
of the builds, to the record beside PAGE (PAGE.json), and writes the record as tables into PAGE. Ends with status 1 if anything hung, crashed, was wrong, or failed without a message.
"""
import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import queue
import random
import shutil
import signal
import sys
import tempfile
import time

import calls
import hosts
import kills
import load
import render

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from measured import commit  # noqa: E402

KINDS = ("calls", "kills", "hosts", "load")


class Record:
    """What was tried and seen, kept in a file. Each row has counts; `next` is where a sweep goes on."""

    def __init__(self, path):
        self.path = path
        self.facts = json.loads(path.read_text()) if path.exists() else {}
        self.now = self.facts.setdefault("commits", {}).setdefault(commit(), {"rows": {}, "next": {}, "faults": []})
        self.now.setdefault("began", time.strftime("%Y-%m-%d %H:%M", time.gmtime()))
        self.saved = time.monotonic()

    def count(self, kind, name, fault, slowest=None, seen=None, **more):
        row = self.now["rows"].setdefault(kind, {}).setdefault(name, {"tried": 0})
        for key, by in {"tried": 1, **more, **({fault.partition(":")[0]: 1} if fault else {})}.items():
            row[key] = row.get(key, 0) + by
        if slowest is not None:
            row["slowest"] = max(row.get("slowest", 0), round(slowest, 1))
        if seen is not None:
            row["seen"] = seen
        if fault:
            self.now["faults"].append(fault)
            print(fault, file=sys.stderr, flush=True)
        if time.monotonic() > self.saved + 5:
            self.save()

    def goes_on(self, sweep, at):
        self.now["next"][sweep] = at

    def save(self):
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.facts, indent=1) + "\n")
        partial.rename(self.path)
        self.saved = time.monotonic()


class Sender:
    """Stands in for the record in one process of several: what it counts is sent to the one that has the record."""

    def __init__(self, record, events):
        self.now, self.events = record.now, events

    def count(self, *words, **more):
        self.events.put(("count", words, more))

    def goes_on(self, *words):
        self.events.put(("goes_on", words, {}))


class Campaign:
    def __init__(self, build, record, place, options):
        self.shoal, self.shim = build / "shoal", build / "tests" / "failing_calls.so"
        self.record, self.place, self.seed = record, place, options.seed
        self.jobs, self.most = options.jobs, options.most
        self.wanted = lambda name: name not in options.without
        self.turn = multiprocessing.Value("i", 0)  # of all jobs
        os.environ["PYTHONPATH"] = str(build / "python")
        os.environ["SHOAL"] = str(self.shoal)

    def turns(self, end):
        """Numbers from 0 on, each for one job only, until the time is over or there were enough."""
        while time.monotonic() < end:
            with self.turn.get_lock():
                number, self.turn.value = self.turn.value, self.turn.value + 1
            if number >= self.most:
                return
            yield number

    def go_on(self, kind, end):
        """As many jobs of a kind as are wanted: the cases of load are for a machine of their own."""
        self.turn.value = 0
        if self.jobs == 1 or kind == "load":
            self.one_job(kind, end, 0, self.record)
            return
        events = multiprocessing.Queue()
        jobs = [multiprocessing.Process(target=self.one_job, args=(kind, end, job, Sender(self.record, events)), daemon=True)
                for job in range(self.jobs)]
        for job in jobs:
            job.start()
        alive = True
        while alive:
            alive = any(job.is_alive() for job in jobs)  # before the queue is found empty: what ended has sent all
            with contextlib.suppress(queue.Empty):
                while True:
                    event, words, more = events.get(timeout=0.5)
                    getattr(self.record, event)(*words, **more)
        failed = sum(job.exitcode != 0 for job in jobs)
        if failed:
            sys.exit(f"campaign: {failed} of {self.jobs} jobs failed: see above")

    def one_job(self, kind, end, job, record):
        self.record, self.rng = record, random.Random(self.seed + job)
        place = self.place / f"{kind}.{job}"
        place.mkdir()
        getattr(self, kind)(place, end)

    # ---- Each goes on until its end or the end of the time ----

    def calls(self, place, end):
        """Every call alone; then every call and all after it. What takes longest comes first: no job is left alone with it at the end."""
        calls.prepare(self.shoal, place)
        names = sorted(filter(self.wanted, calls.COMMANDS), key=lambda name: name not in calls.SLOW)
        sweeps = [(name, kind, code, on) for on in (False, True) for name in names
                  for kind in calls.kinds_of(name) for code in calls.codes_of(kind) if not on or calls.may_last(name, kind, code)]
        for number in self.turns(end):
            if number >= len(sweeps):
                return
            self.sweep(place, *sweeps[number], end)

    def sweep(self, place, name, kind, code, on, end):
        key = f"{name}/{kind}/{code}/{'on' if on else 'once'}"
        at = self.record.now["next"].get(key, 1)
        if at == 0:
            return
        try:
            sweep = calls.Sweep(self.shoal, self.shim, place, name, kind)
        except (AssertionError, OSError) as error:
            self.record.count("calls", name, f"not started: {name}: {kind}: {error}")
            return
        for call in range(at, sweep.nr + 1):
            if time.monotonic() > end:
                return
            self.record.count("calls", name, sweep.try_one(call, code, on))
            self.record.goes_on(key, call + 1)
        self.record.goes_on(key, 0)

    def kills(self, place, end):
        killer = kills.Kills(self.shoal, place, self.rng)
        for number in self.turns(end):
            name = kills.NAMES[number % len(kills.NAMES)]
            in_time, fault = killer.one(name)
            self.record.count("kills", name, fault, in_time=int(in_time))

    def hosts(self, _, end):
        reason = hosts.why_not()
        if reason:
            print(f"no hosts: {reason}", file=sys.stderr)
            return
        cases = list(itertools.product(hosts.HOWS, hosts.MPIS, hosts.NAMES))
        random.Random(self.seed).shuffle(cases)  # in all jobs alike
        for number in self.turns(end):
            how, mpi, name = cases[number % len(cases)]
            took, fault = hosts.one(self.rng, how, mpi, name)
            self.record.count("hosts", f"{name}, {mpi}, host {how}", fault, slowest=took)

    def load(self, place, end):
        """Each case once per commit, whatever the time: none takes long unless something hangs."""
        for name, case in load.cases(self.shoal, place):
            if time.monotonic() > end or name in self.record.now["rows"].get("load", {}):
                continue
            took, seen, fault = case()
            self.record.count("load", name, fault, slowest=took, seen=seen)


def main():
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=1, help="how many processes try things at the same time")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="how many kills or hosts at most")
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
        campaign = Campaign(build, record, place, options)
        kinds = options.only or KINDS
        for number, kind in enumerate(kinds):
            left = options.seconds if number == 0 else max(0, over - time.monotonic())
            over = time.monotonic() + left
            campaign.go_on(kind, time.monotonic() + left / (len(kinds) - number))
    finally:
        record.save()
        shutil.rmtree(place, ignore_errors=True)
    print(render.tables(record.facts))
    return 1 if record.now["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
