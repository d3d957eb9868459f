"""Wait for a process as long as an idle machine would need. Time in which it was ready to run, and had no processor, does
not count: on a busy machine, and at a low priority, that is most of the time."""
import os
import pathlib
import subprocess
import time

MOST = 30 * 60  # seconds, however busy the machine is
EACH = 0.5  # seconds between looks


def times(pid):
    """Seconds that the threads of a process have run, and that they have waited for a processor."""
    ran = waited = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
            ran, waited = ran + int(words[0]) / 1e9, max(waited, int(words[1]) / 1e9)
    except (OSError, IndexError, ValueError):
        pass
    return ran, waited


def communicate(process, limit):
    """Output and errors of a process. subprocess.TimeoutExpired once it has run, or slept, for @limit seconds."""
    began = time.monotonic()
    ran_before, waited_before = times(process.pid)
    while True:
        try:
            return process.communicate(timeout=EACH)
        except subprocess.TimeoutExpired:
            ran, waited = times(process.pid)
            passed = time.monotonic() - began
            if passed > MOST or ran - ran_before > limit or passed - max(0, waited - waited_before) > limit:
                raise


def run(words, limit, **options):
    """As subprocess.run() with captured output; what does not end is killed."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        out, err = communicate(process, limit)
    except subprocess.TimeoutExpired as late:
        process.kill()
        late.stdout, late.stderr = process.communicate()
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
