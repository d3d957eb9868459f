#!/usr/bin/env python3
"""The house rules that no compiler knows: which room may include which, how long a function may be,
what must not be called, and that every file belongs to a build."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A room sees itself, base, and these. Data goes one way: store, index, catalog, order, load, bench, report.
SEES = {
    "base": [],
    "store": [],
    "catalog": [],
    "order": [],
    "comm": [],
    "format": [],
    "index": ["store", "catalog", "comm"],
    "load": ["store", "catalog", "order", "comm", "format"],
    "bench": ["store", "index", "catalog", "order", "load", "comm", "format"],
    "report": ["bench"],
    "cli": ["store", "index", "catalog", "order", "load", "bench", "report", "comm", "format"],
    "python": ["store", "index", "catalog", "order", "load", "bench", "comm", "format"],
}

BANNED = {
    "strcpy": "use memcpy with a length", "strcat": "use a shoal_buf", "gets": "use fgets",
    "strtok": "not safe in threads", "localtime": "not safe in threads", "gmtime": "not safe in threads",
    "atoi": "use shoal_parse_u64", "atol": "use shoal_parse_u64", "rand": "use a seeded generator",
    "alloca": "the stack is not for sizes from outside",
}
# A library neither prints nor exits.
BANNED_IN_LIBRARY = {"printf": "", "puts": "", "fprintf": "", "perror": "", "exit": "", "abort": "",
                     "strerror": "use shoal_fail_errno"}

FUNCTION_LINES = 70
FILE_LINES = 800


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return [path for path in out.split("\n") if path and os.path.exists(os.path.join(ROOT, path))]


def strip(text):
    """The text without comments and strings, line breaks kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: "\n" * m.group().count("\n") or " ", text, flags=re.S)


def check_includes(path, text):
    room = path.split("/")[1]
    for line, name in re.findall(r'^()#include "([^"]+)"', text, re.M):
        if name == "shoal.h":
            continue
        other = name.split("/")[0]
        if other not in (room, "base", *SEES.get(room, [])):
            yield f"{path}: room {room} must not include {name}"
    if "mpi.h" in text and room != "comm":
        yield f"{path}: only comm includes mpi.h"


def check_calls(path, code):
    banned = dict(BANNED)
    if path.startswith("src/") and not path.startswith("src/cli/"):
        banned.update(BANNED_IN_LIBRARY)
    for number, line in enumerate(code.split("\n"), 1):
        for name in re.findall(r"(?<![\w.>])(\w+)\s*\(", line):
            if name in banned:
                yield f"{path}:{number}: {name}() is not for us: {banned[name] or 'a library does not do that'}"


def check_lengths(path, code):
    lines = code.split("\n")
    if path.startswith("src/") and len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines: a place to look for a second file"
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            limit = FUNCTION_LINES if path.startswith("src/") else 2 * FUNCTION_LINES
            if number - start > limit:
                yield f"{path}:{start}: a function of {number - start} lines does not fit a screen"
            start = None


def check_builds(paths):
    lists = "".join(open(os.path.join(ROOT, path), encoding="utf-8").read()
                    for path in tracked("*meson.build", "meson.build"))
    for path in paths:
        stem = os.path.basename(path)[:-2]
        known = stem in lists or re.sub("^(test|fuzz|bench)_", "", stem) in lists
        if path.endswith(".c") and not known:
            yield f"{path}: no meson.build names it"


def check_golden():
    tests = "".join(open(os.path.join(ROOT, path), encoding="utf-8").read()
                    for path in tracked("tests/*.py", "tests/*.c"))
    for path in tracked("tests/golden/*"):
        name = os.path.basename(path)
        if name != "README.md" and name not in tests and name.split(".")[0] not in tests:
            yield f"{path}: no test uses it"


def check_format_version():
    spec = open(os.path.join(ROOT, "docs/format/catalog.md"), encoding="utf-8").read()
    code = open(os.path.join(ROOT, "src/catalog/catalog_format.h"), encoding="utf-8").read()
    said = re.search(r"^# The catalog file, version (\d+)", spec, re.M)
    made = re.search(r"#define CAT_VERSION\s+(\d+)u", code)
    if not said or not made or said.group(1) != made.group(1):
        yield "docs/format/catalog.md and catalog_format.h speak of different versions"


def main():
    paths = tracked("src/*.c", "src/*.h", "tests/*.c", "tests/*.h", "bench/*.c", "fuzz/*.c", "examples/*.c")
    faults = [*check_builds(paths), *check_golden(), *check_format_version()]
    for path in paths:
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        code = strip(text)
        if path.startswith("src/"):
            faults += check_includes(path, text)
            faults += check_calls(path, code)
        faults += check_lengths(path, code)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
