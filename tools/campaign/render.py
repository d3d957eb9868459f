"""The tables of docs/reliability.md, from what campaigns, fuzzers and soaks kept."""
import json
import re

BEGIN, END = "<!-- made by `make torture` -->", "<!-- end of what is made -->"
BAD = ("hung", "crashed", "wrong", "silent", "not started")
TITLES = {"calls": "Failing calls", "kills": "Kills", "hosts": "Hosts that are lost", "load": "Load"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def campaign_table(kind, rows):
    extra = {"kills": ["in_time"], "hosts": ["slowest"], "load": ["slowest"]}.get(kind, [])
    titles = {"in_time": "signal in time", "slowest": "slowest end, s"}
    head = ["", "tried", *(titles[key] for key in extra), *BAD]
    body = [[name, row["tried"], *(row.get(key, 0) for key in extra), *(row.get(key, 0) for key in BAD)]
            for name, row in sorted(rows.items())]
    if kind == "load":
        return table([*head, "seen"], [[*line, rows[line[0]].get("seen", "")] for line in body])
    keys = ["tried", *extra, *BAD]
    total = [(max if key == "slowest" else sum)(row.get(key, 0) for row in rows.values()) for key in keys]
    return table(head, [*body, ["**all**", *total]])


def added(rows):
    """Counts of several commits, as one: times are the slowest, coverage is the newest, all else adds up."""
    sum_ = {}
    for row in rows:
        for key, value in row.items():
            old = sum_.get(key, 0)
            if key == "slowest":
                sum_[key] = max(old, value)
            else:
                sum_[key] = value if key in ("edges", "features", "corpus", "seen", "when") else old + value
    return sum_


def gathered(tables_of_commits):
    """{name: counts} of all commits, from one {name: counts} each."""
    names = {name for rows in tables_of_commits for name in rows}
    return {name: added(rows[name] for rows in tables_of_commits if name in rows) for name in names}


def measured_at(commits):
    commits = list(commits)
    return f"Measured at commit{'s' * (len(commits) > 1)} {', '.join(commits)}."


def by_age(commits):
    """The newest first."""
    return sorted(commits, key=lambda commit: commits[commit].get("began", ""), reverse=True)


def earlier_table(kind, commits, names):
    """One line per commit: what it counted is not that of the newest one."""
    lines = []
    for commit in names:
        row = added(commits[commit]["rows"][kind].values())
        lines.append([commit, row["tried"], *(row.get(key, 0) for key in BAD)])
    return table(["earlier commit", "tried", *BAD], lines)


def tables(facts):
    """Of each kind all of the newest commit that it was measured at, and the sums of earlier ones."""
    parts, commits = [], facts["commits"]
    for kind in TITLES:
        names = [commit for commit in by_age(commits) if commits[commit]["rows"].get(kind)]
        if not names:
            continue
        parts += [f"### {TITLES[kind]}", measured_at(names[:1]), campaign_table(kind, commits[names[0]]["rows"][kind])]
        if names[1:]:
            parts.append(earlier_table(kind, commits, names[1:]))
    return "\n\n".join(parts)


def fuzz_table(facts):
    """The commit at which most targets ran, of several the newest, and the sums of others."""
    keys, sums = ("seconds", "cpu", "executions", "edges", "features", "corpus", "crashes"), ("seconds", "cpu", "executions", "crashes")
    commits = facts["commits"]
    newest = max(commits, key=lambda commit: (len(commits[commit]), max(row.get("when", "") for row in commits[commit].values())))
    total = {commit: {key: sum(row.get(key, 0) for row in rows.values()) for key in sums} for commit, rows in commits.items()}
    rows = [[name, *(row.get(key, "") for key in keys)] for name, row in sorted(commits[newest].items())]
    rows.append(["**all**", *(total[newest].get(key, "") for key in keys)])
    parts = [f"### Fuzzing\n\n{measured_at([newest])}", table(["target", *keys], rows)]
    others = [[commit, len(commits[commit]), *total[commit].values()] for commit in sorted(commits) if commit != newest]
    if others:
        parts.append(table(["other commit", "targets", *sums], others))
    return "\n\n".join(parts)


def soak_table(facts):
    kinds = ("times", "wrong", "hung", "grew")
    rows = [[what, *(counts.get(kind, 0) for kind in kinds)] for what, counts in sorted(facts["table"].items())]
    return f"### Soak of {facts['seconds']:.0f} seconds\n\n{measured_at([facts['commit']])}\n\n" + \
        table(["", *kinds], rows) + "\n\n" + "\n".join(f"- {line}" for line in facts["readers"])


def fault_list(facts):
    """Each kind of fault once, with how often it was seen, and at which commit."""
    seen = {}
    for commit in by_age(facts["commits"]):
        for fault in facts["commits"][commit]["faults"]:
            what = re.sub(r"\d+", "N", fault.replace("`", "'").partition(": [")[0].partition(", b")[0])
            key = (commit, " ".join(what.split())[:68])
            seen[key] = seen.get(key, 0) + 1
    lines = [f"- {commit}: {nr} times `{what}`" for (commit, what), nr in seen.items()]
    return "### Faults that were counted\n\n" + ("\n".join(lines) or "None.")


# ---- The record: docs/reliability.json ----

def add_campaign(record, facts):
    commits = record.setdefault("campaign", {}).setdefault("commits", {})
    for commit, new in facts["commits"].items():
        kept = commits.setdefault(commit, {"rows": {}, "faults": []})
        kept.setdefault("began", new.get("began", ""))
        for kind, rows in new["rows"].items():
            kept["rows"][kind] = gathered([kept["rows"].get(kind, {}), rows])
        kept["faults"] += new["faults"]


def add_fuzz(record, facts):
    commits = record.setdefault("fuzz", {}).setdefault("commits", {})
    for commit, rows in facts["commits"].items():
        commits[commit] = gathered([commits.get(commit, {}), rows])


def add_soak(record, facts):
    record.setdefault("soaks", []).append(facts)


def take(record, path, add):
    """Add what a file counts to the record. Nothing is counted twice: the file goes, or that of a campaign keeps only where
    its sweeps go on, so that the next one of the same commit does not repeat them."""
    if not path.exists():
        return
    facts = json.loads(path.read_text())
    add(record, facts)
    if add is not add_campaign:
        path.rename(path.with_suffix(".counted"))
        return
    for kept in facts["commits"].values():
        kept.update(rows={}, faults=[])
    path.write_text(json.dumps(facts, indent=1) + "\n")


def render(page, kept, build):
    """Add what was counted here to the record beside the page, and replace what stands between the page's two marks."""
    record_path = page.with_suffix(".json")
    record = json.loads(record_path.read_text()) if record_path.exists() else {}
    take(record, kept, add_campaign)
    take(record, build.parent / "build-fuzz" / "fuzz.json", add_fuzz)
    take(record, build / "soak.json", add_soak)
    record_path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    campaign = record.get("campaign", {"commits": {}})
    parts = [tables(campaign), fault_list(campaign)]
    if "fuzz" in record:
        parts.append(fuzz_table(record["fuzz"]))
    parts += [soak_table(facts) for facts in reversed(record.get("soaks", []))]  # the newest first
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + rest.partition(END)[2])
