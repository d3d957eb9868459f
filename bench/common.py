"""What the parts of the benchmark share: running commands, printing tables, keeping figures."""

import collections
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

M = 1_000_000


class Failed(Exception):
    """Something did not run; the message says what."""


# ---- Running things ---------------------------------------------------------------------------


Usage = collections.namedtuple("Usage", "wall cpu rss")  # seconds, seconds, peak bytes


def run(argv, **kwargs):
    """The output of a command, as text."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          **kwargs)
    if done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(argv), done.stderr.decode(errors="replace").strip()))
    return done.stdout.decode()


def run_measured(argv, env=None, limit=None, out=subprocess.DEVNULL):
    """Run a command, with what it prints to @out, and say what it and its children took. Its peak memory is right only while this
    process is small, because a child starts with its parent's: so nothing large is ever loaded
    here. After @limit seconds it is killed and has failed."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=errors, env=dict(os.environ, **(env or {})),
                                 start_new_session=True)
        alarm = threading.Timer(limit or threading.TIMEOUT_MAX, os.killpg,
                                (child.pid, signal.SIGKILL))
        alarm.daemon = True
        alarm.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:  # also Ctrl-C: nothing may go on writing to the work directory
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            alarm.cancel()
        wall = time.monotonic() - start
        child.returncode = status  # so that Popen does not wait for it again
        if status != 0:
            errors.seek(0)
            raise Failed("%s: status %d after %.0f s: %s" % (
                " ".join(argv), status, wall, errors.read().decode(errors="replace").strip()))
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def median_usage(usages):
    return Usage(*(statistics.median(values) for values in zip(*usages)))


def parse_rows(text):
    """The rows of a bench program as {(name, n): value}, and the last value of a repeated one."""
    rows = {}
    for line in text.splitlines():
        name, n, value, _unit = line.split("\t")
        rows[name, int(n)] = float(value)
    return rows


# ---- Printing ---------------------------------------------------------------------------------


def number(value):
    """Three or four digits that count, no exponent, and a dash for None."""
    if value is None or isinstance(value, str):
        return "-" if value is None else value
    size = abs(value)
    if isinstance(value, int) or size == 0 or size >= 100:
        return "{:,.0f}".format(value)
    places = 2 if size >= 10 else 3
    while size < 0.1 and places < 9:
        size *= 10
        places += 1
    return "{:.{}f}".format(value, places)


def count(n):
    for unit, name in ((10**12, "T"), (10**9, "G"), (M, "M")):
        if n >= unit and n % unit == 0:
            return "%d %s" % (n // unit, name)
    return "{:,}".format(n)


def table(title, header, rows, notes=()):
    cells = [header] + [[number(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print("\n" + title)
    for i, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                         for column, (cell, width) in enumerate(zip(row, widths)))
        print("  " + line.rstrip())
        if i == 0:
            print("  " + "  ".join("-" * width for width in widths))
    for note in notes:
        print("  " + note)
    sys.stdout.flush()


def say(what):
    """Progress, on a terminal's own line or not at all."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + what + " ...\r")
        sys.stderr.flush()


class Results:
    """All figures for --json, and the verdicts for the summary."""

    def __init__(self):
        self.figures = []
        self.verdicts = []

    def add(self, group, name, n, value, unit, **more):
        self.figures.append(dict(group=group, name=name, n=n, value=value, unit=unit, **more))

    def judge(self, group, name, n, value, unit, target, at_least=False, **more):
        """Record a figure that has a target; the verdict is a word for a table."""
        met = value >= target if at_least else value <= target
        self.add(group, name, n, value, unit, target=target,
                 target_is="at least" if at_least else "at most", met=met, **more)
        self.verdicts.append((met, "%s, %s, %s: %s %s, target %s %s" % (
            group, name, count(n), number(value), unit,
            "at least" if at_least else "at most", number(target))))
        return "met" if met else "MISSED"

    def summary(self):
        missed = [words for met, words in self.verdicts if not met]
        print("\nTargets: %d met, %d missed" % (len(self.verdicts) - len(missed), len(missed)))
        for words in missed:
            print("  missed: " + words)
