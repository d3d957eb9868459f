#!/usr/bin/env python3
"""House rules that compilers do not check: which room may include which, the length of functions, forbidden calls, names
that are defined twice, wording, a README per room, the width of docs, and that every file belongs to a build."""
import ast
import itertools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A room sees itself, base, and these, all of which it uses: the line "May include" of its README. Data goes one way: store, index, catalog, order, load, run, report.
SEES = {
    "base": [],
    "store": [],
    "catalog": [],
    "order": [],
    "comm": [],
    "format": [],
    "serve": [],
    "sort": [],
    "open": ["store", "catalog"],
    "index": ["sort", "store", "catalog", "comm", "open", "format"],
    "list": ["index", "sort", "store", "catalog", "open"],
    "load": ["store", "catalog", "order", "comm"],
    "workload": ["order", "format"],
    "datagen": ["workload", "store", "catalog", "open", "comm", "format"],
    "run": ["workload", "datagen", "store", "index", "open", "load", "comm"],
    "report": ["workload", "run"],
    "sweep": ["run", "report"],
    "cli": ["store", "index", "catalog", "open", "load", "workload", "datagen", "run", "report", "sweep", "serve", "comm", "format"],
    "python": ["store", "load"],
}

BANNED = {
    "strcpy": "use memcpy with a length", "strcat": "use a shoal_buf", "gets": "use fgets",
    "strtok": "not safe in threads", "localtime": "not safe in threads", "gmtime": "not safe in threads",
    "atoi": "use shoal_parse_u64", "atol": "use shoal_parse_u64", "rand": "use a seeded generator",
    "alloca": "the stack is not for sizes from outside",
    "setenv": "the environment is the user's: pass a parameter", "putenv": "the environment is the user's: pass a parameter",
    "unsetenv": "the environment is the user's: pass a parameter",
    "clock_gettime": "use base/clock.h", "time": "use clock_wall()", "gettimeofday": "use clock_wall()",
    "basename": "use path_base()", "pthread_condattr_setclock": "use cond_init_steady()",
}
# The one place of each of these.
PLACES = {"src/base/clock.h": "clock_gettime", "src/base/queue.c": "pthread_condattr_setclock"}
# A library neither prints nor exits.
BANNED_IN_LIBRARY = {"printf": "", "puts": "", "fprintf": "", "perror": "", "exit": "", "abort": "",
                     "strerror": "use shoal_fail_errno"}

# Wording that has a plainer form, in comments, messages and pages: {what to search: what to write}.
COUNTED = "(samples|bytes|files|keys|calls|requests|entries|batches|in flight|[KMG]i?B|[nu]s|ms|one|a line|a byte)"
OWNERS = "(accelerator|sample|file|name|rank|node|thread|step|batch|directory|page|key|entry|epoch|core|worker|host|line)"
WORDING = {
    r"\bin words\b": "name the message",
    rf"\b{COUNTED} an? {OWNERS}\b(?=[,;:.)|/]| \*/|$)": "write 'per'",
    r"(?:^|[.;:,(] |\b(?:of|for|by|to|from|with|than) )[Ww]ho (?!is\b)\w+": "name the thread, rank or user",
    r"\b(is|are|was|were|be) told (of|apart|by|in)\b|\bwhat is told\b": "write 'reported' or 'distinguished'",
    r"\bputs? up with\b|\blets? (go|loose) of\b|\bmade up\b": "write 'accepts', 'releases', 'synthetic'",
    r"(?<!there )(?<!There )\bis no (catalog|number|key|URI|size|name|directory|file)\b(?! of| that| in| to|,? and no)": "write 'is not a'",
}

DOC_WIDTH = 100
FOLDER_FILES = 4   # a folder inside a room has a README if it has so many files; a room always
README_LINES = 60  # at most a page
# Rooms without unit programs, and the folders of tests that reach them.
TESTED_ELSEWHERE = {"open": ("tests/s3", "tests/cli"), "python": ("tests/python",)}
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
        if name in ("shoal.h", "built.h"):  # built.h is made by Meson
            continue
        other = name.split("/")[0]
        if other not in (room, "base", *SEES.get(room, [])):
            yield f"{path}: room {room} must not include {name}"
        parts = name.split("/")
        if len(parts) == 3 and parts[:2] != path.split("/")[1:3] and parts[2] != parts[1] + ".h":
            yield f"{path}: the door of {other}/{parts[1]} is {parts[1]}.h, not {parts[2]}"
    if "mpi.h" in text and room != "comm":
        yield f"{path}: only comm includes mpi.h"


def schemes():
    """What the URIs of each kind of store begin with, as src/store says."""
    text = "".join(open(os.path.join(ROOT, path), encoding="utf-8").read() for path in tracked("src/store/*.c"))
    return tuple(re.findall(r'\.prefix = "([^"]+)"', text))


def check_uris(path, text, prefixes):
    """Only the store parses URIs. A literal that begins with a scheme is for comparing or for building one; in
    messages and help an example URI stands inside a sentence, or in the literal that continues one."""
    before = False  # is the token before this one a literal?
    for m in re.finditer(r'/\*.*?\*/|//[^\n]*|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])*\'|\w+|[^\s\w]', text, re.S):
        if m.group().startswith(("/*", "//")):
            continue
        if m.group(1) is not None and not before and m.group(1).startswith(prefixes):
            number = text.count("\n", 0, m.start()) + 1
            yield f"{path}:{number}: {m.group()}: only src/store knows schemes: see store/uri.h"
        elif m.group(1) is not None and re.match(r"(%[-.*\d]*s)?://", m.group(1)):
            number = text.count("\n", 0, m.start()) + 1
            yield f"{path}:{number}: {m.group()}: only src/store takes URIs apart or builds them: see store/uri.h"
        before = m.group(1) is not None
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(mem|str|strn|strcase)cmp\((.*\bSTORE_\w*URI|[^,]*\buri\b)", line):
            yield f"{path}:{number}: URIs are compared: only src/store does that: see store_uri_below()"


def check_python_uris(path, text, prefixes):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if value.startswith(prefixes) or re.match(r"(%s)?://", value):
                yield f"{path}:{node.lineno}: {value!r}: only src/store knows schemes: see python/shoal/_store.py"
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"os\.environ\[[^]]*\]\s*=[^=]|os\.environ\.(update|setdefault|pop)\(|os\.putenv\(", line):
            yield f"{path}:{number}: the environment is the user's: pass a parameter"


def check_calls(path, code):
    banned = dict(BANNED)
    if path.startswith("src/") and not path.startswith("src/cli/"):
        banned.update(BANNED_IN_LIBRARY)
    for number, line in enumerate(code.split("\n"), 1):
        for name in re.findall(r"(?<![\w.>])(\w+)\s*\(", line):
            if name in banned and PLACES.get(path) != name:
                yield f"{path}:{number}: {name}() is not for us: {banned[name] or 'a library does not do that'}"


def check_json(path, text):
    """JSON is written by base/json.h, and read by base/json_read.h."""
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r'"[^"]*\{\\"\w+\\":', line):
            yield f"{path}:{number}: JSON is written by hand: use base/json.h"


def result_names():
    """The names of the files of results, as src/base/results.h has them."""
    text = open(os.path.join(ROOT, "src/base/results.h"), encoding="utf-8").read()
    return set(re.findall(r'^#define RESULTS_\w+ +"([\w.]+)"', text, re.M))


def check_results(path, text, names):
    if path not in ("src/base/results.h", "src/report/layout.h"):
        for number, line in enumerate(text.split("\n"), 1):
            for name in names.intersection(re.findall(r'"([\w.]+)"', line)):
                yield f"{path}:{number}: \"{name}\" is named by base/results.h"


def check_words(path, text):
    """The remedy for an error is a hint (include/shoal.h); its text is at the doors."""
    room = path.split("/")[1]
    if room == "cli":
        if not path.endswith("hints.c"):
            for number, line in enumerate(text.split("\n"), 1):
                if re.search(r"cli_(fail|usage|json_string)\(.*(\.|->)msg\b", line):
                    yield f"{path}:{number}: print an error with cli_words(), which adds what to do about it"
    else:
        bare = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
        for number, line in enumerate(bare.split("\n"), 1):
            for literal in re.findall(r'"((?:\\.|[^"\\])*)"', line):
                if re.search(r"(?<![\w-])--[a-z]|(?<!ulimit )(?<=[a-z] )-[a-zA-Z0](?![\w.])", literal):
                    yield f"{path}:{number}: an option is named: give the error a hint, and cli/hints.c the words"
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\bstr(str|ncmp|cmp|chr)\((\w+(\.|->))*(err|why|words)(\.|->)msg", line):
            yield f"{path}:{number}: what an error is comes from its code or hint, not from its words"


def check_python_words(path, text):
    """Nothing in the package examines the text of an error."""
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\bre\.\w+\(.*(str\(e\w*\)|strerror|words|message)|\bin (str\(e\w*\)|\w+\.strerror)", line):
            yield f"{path}:{number}: what an error is comes from its errno or hint, not from its words"
    if path.endswith("_errors.py") and re.search(r"^import re\b", text, re.M):
        yield f"{path}: words of the library are not rewritten: use its hints"


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


ATTRIBUTES = r"__attribute__\s*\(\(.*?\)\)|\b[A-Z][A-Z0-9_]+\([^()]*\)"


def functions(code):
    """The names of the functions that stripped code defines."""
    bare = re.sub(ATTRIBUTES, " ", code)
    return set(re.findall(r"^[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", bare, re.M))


def check_structs(codes):
    """No two files of src define a structure of one name."""
    files = {}
    for path, code in codes.items():
        if path.startswith("src/"):
            for name in re.findall(r"^struct (\w+) \{", code, re.M):
                files.setdefault(name, []).append(path)
    for name, where in sorted(files.items()):
        if len(where) > 1:
            yield f"struct {name} is defined in {' and in '.join(sorted(where))}: give one another name"


def check_names(defined):
    """No two files of src define a function of one name; the MPI module is a program of its own, and an absent*.c stands
    in for others."""
    files = {}
    for path, names in defined.items():
        for name in names:
            files.setdefault(name, []).append(path)
    for name, where in sorted(files.items()):
        if len(where) > 1:
            yield f"{name}() is defined in {' and in '.join(sorted(where))}: begin its name with its module's"


# Called by programs outside of src: it adds a kind of storage.
FOR_OTHERS = {"store_register"}


def bodies(code):
    """{function: its lines} of stripped code, and the text around them, without declarations."""
    inside, outside, head = {}, [], []
    lines = iter(code.split("\n"))
    for line in lines:
        if line == "{" and head:
            name = re.search(r"\b(\w+)\s*\(", re.sub(ATTRIBUTES, " ", " ".join(head)))
            taken = [line, *itertools.takewhile(lambda l: l != "}", lines)]
            inside[name.group(1) if name else ""] = "\n".join(taken)
            head = []
        elif line.startswith("\t") or re.match(r"\w", line) and not line.endswith((";", ":")):
            head.append(line)
        else:
            outside += [*head, line]
            head = []
    outside = "\n".join(outside + head)
    return inside, re.sub(r"^\w[^;{}()=]*\([^;{}]*\)[^;{}=]*;", "", outside, flags=re.M)


def check_reached(codes, defined):
    """Every function of src is reached from a program, a table or a public function. Names are unique, so the text
    tells."""
    header = open(os.path.join(ROOT, "include/shoal.h"), encoding="utf-8").read()
    public = set(re.findall(r"\bshoal_\w+", header))
    calls, reached = {}, public | FOR_OTHERS | {"main", "PyInit__shoal"}
    for path, code in codes.items():
        if path.startswith("src/"):
            inside, outside = bodies(code)
            reached.update(re.findall(r"[A-Za-z_]\w*", outside))
            for name, text in inside.items():
                calls.setdefault(name, set()).update(re.findall(r"[A-Za-z_]\w*", text))
    todo = list(reached)
    while todo:
        new = calls.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    for path, names in sorted(defined.items()):
        for name in sorted(names - reached):
            yield f"{path}: no program reaches {name}(): remove it, or move it to the tests"
        for name in sorted(name for name in names - public if name.startswith("shoal_")):
            yield f"{path}: {name}() is not in shoal.h: only public names begin with shoal_"


def may_include(room):
    rooms = [f"`{other}`" for other in ([] if room == "base" else [*SEES[room], "base"])]
    return " and ".join([", ".join(rooms[:-1]), rooms[-1]] if len(rooms) > 1 else rooms)


def check_sees(texts):
    """Every arrow between rooms is used."""
    for room, others in SEES.items():
        used = {name for path, text in texts.items() if path.startswith(f"src/{room}/")
                for name in re.findall(r'^#include "([^"/]+)/', text, re.M)}
        for other in sorted(set(others) - used):
            yield f"tools/tidy.py: room {room} does not use {other}: it needs no arrow"


def check_rooms(paths):
    """Rooms and their larger folders have a README of at most a page. The folders of tests/unit are those of src, and
    every room has tests."""
    files = {}
    for path in paths:
        files.setdefault(os.path.dirname(path), []).append(path)
    for folder, held in sorted(files.items()):
        parts = folder.split("/")
        readme = os.path.join(ROOT, folder, "README.md")
        if parts[0] == "src" and (len(parts) == 2 or len(held) >= FOLDER_FILES):
            if not os.path.exists(readme):
                yield f"{folder}: {len(held)} files and no README.md"
            elif len(open(readme, encoding="utf-8").readlines()) > README_LINES:
                yield f"{folder}/README.md: longer than a page of {README_LINES} lines"
            if len(parts) == 2 and os.path.exists(readme):
                text = open(readme, encoding="utf-8").read()
                said = re.search(r"\*\*May include\*\* (.*?)\.(?:\s|$)", text, re.S)
                if not said or set(re.findall(r"`(\w+)`", said.group(1))) != {"base", *SEES[parts[1]]} - {parts[1]}:
                    yield f"{folder}/README.md: write '**May include** {may_include(parts[1])}.'"
        if parts[:2] == ["tests", "unit"] and "/".join(["src", *parts[2:]]) not in files:
            yield f"{folder}: the folders of tests/unit are those of src, and src/{'/'.join(parts[2:])} does not exist"
    for room in sorted({folder.split("/")[1] for folder in files if folder.startswith("src/")}):
        tests = TESTED_ELSEWHERE.get(room, (f"tests/unit/{room}",))
        if not all(tracked(f"{folder}/*test_*") for folder in tests):
            yield f"src/{room}: no tests in {' and '.join(tests)}"


def check_width(path, text):
    """Prose is wrapped. Tables cannot be; code and output are shown as they are."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and len(line) > DOC_WIDTH and not line.lstrip().startswith("|") and " " in line.strip():
            yield f"{path}:{number}: {len(line)} columns: wrap at {DOC_WIDTH}"


def check_wording(path, text):
    """In C: comments and literals. In Python: strings and comments. In pages: paragraphs, less code."""
    pieces = {".c": r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', ".h": r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"',
              ".py": r'""".*?"""|#[^\n]*|"(?:\\.|[^"\\\n])*"', ".md": r"(?:[^\n]+\n?)+"}[os.path.splitext(path)[1]]
    if path.endswith(".md"):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", lambda m: "`" + "\n" * m.group().count("\n"), text, flags=re.S | re.M)
    for m in re.finditer(pieces, text, re.S):
        said = re.sub(r"\s*\n\s*\*?\s*", " ", m.group())
        said = re.sub(r"^(/\*|\"+|#)\s*", "", said)
        for pattern, instead in WORDING.items():
            found = re.search(pattern, said)
            if found:
                number = text.count("\n", 0, m.start()) + 1
                yield f"{path}:{number}: '{found.group()}': {instead}"


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
    faults = [*check_builds(paths), *check_golden(), *check_format_version(), *check_rooms(paths)]
    for path in tracked("docs/*.md", "src/*.md", "tests/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        faults += [*check_width(path, text), *check_wording(path, text)]
    faults += check_wording("include/shoal.h", open(os.path.join(ROOT, "include/shoal.h"), encoding="utf-8").read())
    prefixes, results = schemes(), result_names()
    for path in tracked("python/shoal/*.py"):
        faults += check_python_uris(path, open(os.path.join(ROOT, path), encoding="utf-8").read(), prefixes)
    defined, codes = {}, {}
    for path in paths:
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        code = codes[path] = strip(text)
        if path.startswith("src/") and path != "src/comm/mpi_module.c" and "/absent" not in path:
            defined[path] = functions(code)
        if path.startswith("src/") and not path.startswith("src/store/"):
            faults += check_uris(path, text, prefixes)
        if path.startswith("src/"):
            faults += check_includes(path, text)
            faults += check_calls(path, code)
            faults += check_words(path, text)
            faults += check_json(path, text)
            faults += check_results(path, text, results)
            faults += check_wording(path, text)
        faults += check_lengths(path, code)
    faults += [*check_structs(codes), *check_names(defined), *check_reached(codes, defined),
               *check_sees({path: open(os.path.join(ROOT, path), encoding="utf-8").read() for path in paths})]
    for path in tracked("python/shoal/*.py", "python/shoal/*/*.py"):
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        faults += [*check_python_words(path, text), *check_wording(path, text)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
