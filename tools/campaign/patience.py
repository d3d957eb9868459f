"""Wait for a process as long as an idle machine would need. Time in which it was ready to run, and had no processor, does
not count: on a busy machine, and at a low priority, that is most of the time."""
import collections
import os
import pathlib
import re
import subprocess
import time

MOST = 30 * 60  # seconds, however busy the machine is
EACH = 0.5  # seconds between looks


def look(pid):
    """Seconds that the threads of a process have run, and whether one of them is ready to run or waits for a disk."""
    ran, ready = 0, False
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            place = pathlib.Path(f"/proc/{pid}/task/{thread}")
            ran += int((place / "schedstat").read_text().split()[0]) / 1e9
            ready |= (place / "stat").read_text().rpartition(")")[2].split()[0] in "RD"
    except (OSError, IndexError, ValueError):
        ready = True  # a thread has just ended
    return ran, ready


def stacks(pid):
    """The functions that each thread of a process is in, the innermost first: what one that hangs waits for."""
    try:
        said = subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace 16"], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "no stack (gdb)"
    threads = said.partition("\nThread ")[2].split("\nThread ")
    names = [re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([^ (]+)", thread, re.M) for thread in threads]
    alike = collections.Counter(" < ".join(thread) for thread in names)
    return "; ".join(f"{nr} x {thread}" for thread, nr in alike.items()) or "no stack: it has ended"


def communicate(process, limit):
    """Output and errors of a process. subprocess.TimeoutExpired once it has run, or slept, for @limit seconds."""
    began, slept = time.monotonic(), 0
    while True:
        try:
            return process.communicate(timeout=EACH)
        except subprocess.TimeoutExpired:
            ran, ready = look(process.pid)
            slept += 0 if ready else EACH
            if max(ran, slept) > limit or time.monotonic() - began > MOST:
                raise


def run(words, limit, **options):
    """As subprocess.run() with captured output; what does not end is killed, and the exception has its `stacks`."""
    process = subprocess.Popen(words, **{"stdin": subprocess.DEVNULL, **options}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = communicate(process, limit)
    except subprocess.TimeoutExpired as late:
        late.stacks = stacks(process.pid)
        process.kill()
        late.stdout, late.stderr = process.communicate()
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
