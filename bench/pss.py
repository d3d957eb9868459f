#!/usr/bin/env python3
"""The peak memory of a command with all that it starts, as mpirun its ranks.

    bench/pss.py [--interval SECONDS] [--json] COMMAND [ARGUMENT]...

Adds up the proportional set sizes (Pss: a page that four processes share counts a quarter in each)
of the command and its descendants every 50 ms, and tells the largest sum on standard error, or as
JSON on standard output. The exit status is the command's, 128 and the signal's number when it was
killed, or 127 when it cannot be started.

A peak between two samples is missed. The kernel misses no peak of one process' resident set
(VmHWM), so that is told as well; but it counts shared pages in full and peaks of different times
cannot be added up.
"""

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import time

INTERVAL = 0.05  # s between samples
LOOK = 0.005  # s between looks whether the command has ended

# Bytes; `processes` has the largest first. `rc` is negative for a signal, as subprocess has it.
Peak = collections.namedtuple("Peak", "rc seconds total samples processes")
Process = collections.namedtuple("Process", "pid name peak hwm")


def read_stat(pid):
    """(parent, start time) of a process, or None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()  # a name may hold blanks and brackets
    except OSError:
        return None
    return int(fields[1]), int(fields[19])


def read_memory(pid):
    """(Pss, VmHWM, name), with zeros for a process that is ending."""
    pss = hwm = 0
    name = "?"
    try:
        with open("/proc/%d/status" % pid, "rb") as f:
            for line in f:
                if line.startswith(b"Name:"):
                    name = line[5:].decode(errors="replace").strip()
                elif line.startswith(b"VmHWM:"):
                    hwm = int(line.split()[1]) * 1024
        with open("/proc/%d/smaps_rollup" % pid, "rb") as f:
            for line in f:
                if line.startswith(b"Pss:"):
                    pss = int(line.split()[1]) * 1024
                    break
    except OSError:
        pass
    return pss, hwm, name


class Family:
    """The command and its descendants. One that was seen stays in, also when its parent ends and
    init inherits it; the start time tells it from a later process of the same number."""

    def __init__(self, pid):
        self.members = {pid: read_stat(pid)[1]}
        self.peaks = {}
        self.total = 0
        self.samples = 0

    def find(self):
        stats = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                stat = read_stat(int(entry))
                if stat:
                    stats[int(entry)] = stat
        self.members = {pid: start for pid, start in self.members.items()
                        if pid in stats and stats[pid][1] == start}
        grown = True
        while grown:
            grown = False
            for pid, (parent, start) in stats.items():
                if parent in self.members and pid not in self.members:
                    self.members[pid] = start
                    grown = True

    def sample(self):
        self.find()
        total = 0
        for pid, start in self.members.items():
            pss, hwm, name = read_memory(pid)
            total += pss
            before = self.peaks.get((pid, start), Process(pid, name, 0, 0))
            self.peaks[pid, start] = Process(pid, name if pss else before.name,
                                             max(pss, before.peak), max(hwm, before.hwm))
        self.total = max(total, self.total)
        self.samples += 1


def stop(child):
    """End a command that leads a session, and what it has started."""
    for number, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(child.pid, number)
            child.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def ended(child):
    """Whether it has. Not poll(): that would reap it, and another process could get its number."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def measure(argv, interval=INTERVAL, limit=None, **kwargs):
    """Run @argv and sample it; Popen takes @kwargs. Killed after @limit seconds."""
    start = time.monotonic()
    child = subprocess.Popen(argv, start_new_session=True, **kwargs)
    try:
        family = Family(child.pid)
        due = start
        while not ended(child):
            now = time.monotonic()
            if limit and now - start > limit:
                raise TimeoutError("%s: still running after %d s" % (" ".join(argv), limit))
            if now >= due:
                family.sample()
                due = max(due + interval, time.monotonic())
            time.sleep(min(interval, LOOK))
        seconds = time.monotonic() - start
        rc = child.wait()
    except BaseException:
        stop(child)
        raise
    processes = sorted(family.peaks.values(), key=lambda process: -process.peak)
    return Peak(rc, seconds, family.total, family.samples, processes)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=float, default=INTERVAL, metavar="SECONDS")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("which command?")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        peak = measure(args.command, args.interval)
    except OSError as e:
        print("bench/pss.py: %s cannot be started: %s" % (args.command[0], e.strerror),
              file=sys.stderr)
        return 127
    except KeyboardInterrupt:
        return 130
    if args.json:
        facts = peak._asdict()
        facts["processes"] = [process._asdict() for process in peak.processes]
        print(json.dumps(facts))
    else:
        print("peak %.1f MiB of %d processes in %.2f s (%d samples)" % (
            peak.total / 2**20, len(peak.processes), peak.seconds, peak.samples), file=sys.stderr)
        for process in peak.processes:
            print("  %8d %-15s peak %8.1f MiB, resident %8.1f MiB" % (
                process.pid, process.name, process.peak / 2**20, process.hwm / 2**20),
                file=sys.stderr)
    return peak.rc if peak.rc >= 0 else 128 - peak.rc


if __name__ == "__main__":
    sys.exit(main())
