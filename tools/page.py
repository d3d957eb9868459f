#!/usr/bin/env python3
"""Run the commands that a page of the documentation shows, and compare what they print with what the page says.

usage: page.py [--write] PAGE...

A block marked `sh` can be pasted as a whole: each line is a command (a backslash continues it), and the lines "# ..." below
it are what it prints. In a block marked `console` a command starts with "$ ", and all other lines are what it prints. A command
that ends in "# exit status N" must end so; all others must succeed. Numbers, sizes and digests may differ; a line "..." stands
for any lines. A block marked `python` is a program of its own; one marked `python MODULE` runs where Python has that module. All
blocks of a page run in one new folder, one after the other. With --write the page gets what the commands printed.

The command is the one that SHOAL names, or build/shoal.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 300  # seconds for one command
HOME = "/home/me"  # what a page says for the folder in which it runs
SHOWN = 100  # columns: a longer line would not fit the page

# What differs from run to run, and from machine to machine.
VARIABLE = [
    (re.compile(r"^engine .*"), "engine"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "#"),
    (re.compile(r"\d[\d.,:]*(e[+-]\d+)?"), "#"),
    (re.compile(r"# (bytes?|[kKMGTPE]?i?B)\b"), "# B"),
    (re.compile(r"# (us|ms|s)\b|#m #s\b|#h #m\b"), "# s"),
    (re.compile(r"\s+"), " "),
]


class Mismatch(Exception):
    pass


def environment():
    shoal = pathlib.Path(os.environ.get("SHOAL", ROOT / "build" / "shoal")).resolve()
    build = shoal.parent
    return {**os.environ,
            "PATH": f"{build}:{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(build / "python")),
            "COLUMNS": str(SHOWN), "TERM": "dumb", "LC_ALL": "C.UTF-8",
            # Open MPI starts neither as root nor more ranks than cores unless it is told to.
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run(command, folder, wanted):
    """What a command prints, on both outputs as on a terminal."""
    done = subprocess.run(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT)
    if done.returncode != wanted:
        raise Mismatch(f"exit status {done.returncode}, not {wanted}, of: {command[-1]}\n{done.stdout}")
    return [line.rstrip().replace(folder, HOME) for line in done.stdout.splitlines()]


def plain(line):
    for pattern, by in VARIABLE:
        line = pattern.sub(by, line)
    return line.strip()


def matches(said, printed):
    """Whether printed lines are what a page says, in which "..." stands for any lines."""
    if not said:
        return not printed
    if said[0] == "...":
        return any(matches(said[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and plain(said[0]) == plain(printed[0]) and matches(said[1:], printed[1:])


def cut_commands(block, pasted):
    """[(lines of the command, lines that it prints)] of a block."""
    found, more = [], False
    for line in block:
        if more:
            found[-1][0].append(line)
        elif not line.startswith("#") if pasted else line.startswith("$ "):
            found.append(([line], []))
        elif found:
            found[-1][1].append(line[2:] if pasted else line)
        else:
            raise Mismatch(f"a block begins with '{line}', not with a command")
        more = found[-1][0][-1].endswith("\\") and not found[-1][1]
    return found


def run_block(block, pasted, folder, write):
    """Run the commands of a block. Returns their number, and the block with what they print, if @write."""
    result, commands = [], cut_commands(block, pasted)
    for command, said in commands:
        text = "\n".join(command)[0 if pasted else 2:]
        status = re.search(r"# exit status (\d+)$", text)
        printed = run(["bash", "-c", text], folder, int(status[1]) if status else 0)
        if not write and not matches(said, printed):
            raise Mismatch("\n".join(["$ " + text, "the page says:", *said, "it prints:", *printed]))
        # A shortened output stays shortened if it still is one.
        shown = said if matches(said, printed) else printed
        result += [*command, *(("# " + line).rstrip() if pasted else line for line in shown)]
    return len(commands), result


def run_program(text, module, folder):
    """Whether it ran: it does not where its module is missing."""
    python = os.environ.get("PYTHON", sys.executable)
    if module and subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    run([python, "-c", text], folder, 0)
    return True


def run_page(page, write=False):
    """Run all blocks of a page. Raises Mismatch; returns the number of commands and programs."""
    parts = re.split(r"^(```(?:console|sh|python)(?: \w+)?\n)(.*?)(^```\n)", page.read_text(), flags=re.M | re.S)
    folder, count = tempfile.mkdtemp(prefix="page-"), 0
    try:
        for i in range(1, len(parts), 4):
            kind, _, module = parts[i].strip("`\n").partition(" ")
            if kind == "python":
                count += run_program(parts[i + 1], module, folder)
            else:
                nr, lines = run_block(parts[i + 1].splitlines(), kind == "sh", folder, write)
                count += nr
                parts[i + 1] = "\n".join(lines) + "\n"
    except (Mismatch, subprocess.TimeoutExpired) as e:
        raise Mismatch(f"{page}: {e}") from None
    finally:
        shutil.rmtree(folder)
    if write:
        page.write_text("".join(parts))
    return count


def main(arguments):
    write = arguments[:1] == ["--write"]
    try:
        for page in arguments[write:]:
            print(f"{page}: {run_page(pathlib.Path(page), write)} commands")
    except Mismatch as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
