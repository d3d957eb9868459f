"""The tables of docs/reliability.md, from what campaigns, fuzzers and soaks kept."""
import json

BEGIN, END = "<!-- made by `make torture` -->", "<!-- end of what is made -->"
BAD = ("hung", "crashed", "wrong", "silent", "not started")
TITLES = {"calls": "Failing calls", "kills": "Kills", "hosts": "Hosts that are lost"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def campaign_table(kind, rows):
    extra = {"kills": ["in_time"], "hosts": ["slowest"]}.get(kind, [])
    titles = {"in_time": "signal in time", "slowest": "slowest end, s"}
    head = ["", "tried", *(titles[key] for key in extra), *BAD]
    body = [[name, row["tried"], *(row.get(key, 0) for key in extra), *(row.get(key, 0) for key in BAD)]
            for name, row in sorted(rows.items())]
    keys = ["tried", *extra, *BAD]
    total = [(max if key == "slowest" else sum)(row.get(key, 0) for row in rows.values()) for key in keys]
    return table(head, [*body, ["**all**", *total]])


def added(rows):
    """Counts of several commits, as one: times are the slowest, coverage is the newest, all else adds up."""
    sum_ = {}
    for row in rows:
        for key, value in row.items():
            old = sum_.get(key, 0)
            sum_[key] = max(old, value) if key == "slowest" else value if key in ("edges", "features", "corpus") else old + value
    return sum_


def gathered(tables_of_commits):
    """{name: counts} of all commits, from one {name: counts} each."""
    names = {name for rows in tables_of_commits for name in rows}
    return {name: added(rows[name] for rows in tables_of_commits if name in rows) for name in names}


def measured_at(commits):
    commits = list(commits)
    return f"Measured at commit{'s' * (len(commits) > 1)} {', '.join(commits)}."


def tables(facts):
    parts = []
    for kind in TITLES:
        at = {commit: kept["rows"][kind] for commit, kept in facts["commits"].items() if kind in kept["rows"]}
        if not at:
            continue
        rows = gathered(list(at.values()))
        parts += [f"### {TITLES[kind]}", measured_at(at), campaign_table(kind, rows)]
    return "\n\n".join(parts)


def fuzz_table(facts):
    keys = ("seconds", "executions", "edges", "features", "corpus", "crashes")
    targets = gathered(list(facts["commits"].values()))
    rows = [[name, *(row[key] for key in keys)] for name, row in sorted(targets.items())]
    totals = [sum(row[key] for row in targets.values()) if key in ("seconds", "executions", "crashes") else "" for key in keys]
    return f"### Fuzzing\n\n{measured_at(facts['commits'])}\n\n" + table(["target", *keys], [*rows, ["**all**", *totals]])


def soak_table(facts):
    kinds = ("times", "wrong", "hung", "grew")
    rows = [[what, *(counts.get(kind, 0) for kind in kinds)] for what, counts in sorted(facts["table"].items())]
    return f"### Soak of {facts['seconds']:.0f} seconds\n\n" + table(["", *kinds], rows) + "\n\n" + \
        "\n".join(f"- {line}" for line in facts["readers"])


def render(page, facts, build):
    """Replace what stands between the two marks."""
    parts = [tables(facts)]
    for path, make in ((build.parent / "build-fuzz" / "fuzz.json", fuzz_table), (build / "soak.json", soak_table)):
        if path.exists():
            parts.append(make(json.loads(path.read_text())))
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + rest.partition(END)[2])
