"""The README, the guide and coming-from.md: every command that they show runs, and prints what they say."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "s3")]
import page as pages  # noqa: E402
from objects import ACCESS, SECRET, Objects  # noqa: E402

BUCKETS = "buckets.md"  # needs a server: tests/s3 runs it
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


NEEDS = {page: re.findall(r"^```python (\w+)$", page.read_text(), re.M) for page in PAGES}


@pytest.mark.parametrize("path, module", [(page, names[0]) for page, names in NEEDS.items() if names], ids=lambda value: getattr(value, "name", value))
def test_programs_that_need_a_module_are_run_with_it(path, module):
    """The test below leaves them out where it is missing."""
    pytest.importorskip(module, reason=f"{module} is not installed")
    assert pages.run_page(path) > 0


@pytest.mark.parametrize("path", [page for page in PAGES if page.name != BUCKETS], ids=lambda path: path.name)
def test_every_command_of_a_page_runs_and_prints_what_the_page_says(path):
    assert pages.run_page(path) > 0


def test_both_sides_of_coming_from_run_with_a_bucket(monkeypatch):
    names = [f"{folder}/{i:03}" for folder in ("cat", "dog", "emu", "fox") for i in range(1, 101)]
    with Objects() as server:
        server.objects.update({(b"bucket", f"train/{name}.txt".encode()): (name.replace("/", " ") + "\n").encode() for name in names})
        for name, value in {"AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                            "no_proxy": "*"}.items():
            monkeypatch.setenv(name, value)
        assert pages.run_page(ROOT / "docs" / "coming-from.md") > 20


def said_in_the_sources():
    """All texts of the library, the command and the package, with neighbouring literals joined."""
    files = [path for folder, kind in (("src", "*.c"), ("python", "*.py")) for path in (ROOT / folder).rglob(kind)]
    return "\n".join(re.sub(r'"\s*\n\s*[rf]?"', "", path.read_text()) for path in files)


def test_messages_that_troubleshooting_quotes_are_those_of_the_sources():
    """In quotation marks; those of others are said to be theirs."""
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "guide" / "troubleshooting.md").read_text(), re.M)
    quoted = [words for row in rows if not row.startswith("of ") for words in re.findall(r'"([^"]+)"', row)]
    assert len(quoted) > 8
    known = said_in_the_sources()
    assert [words for words in quoted if words not in known] == []


def check_options(line):
    """That the shoal command of a line, if it has one, has all options of that line."""
    found = re.search(r"\bshoal ([a-z]+) (.*)", line)
    if found:
        shoal = pages.environment()["PATH"].split(":")[0] + "/shoal"
        known = subprocess.run([shoal, found[1], "--list-options"], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert set(re.findall(r"--[a-z-]+", found[2])) <= set(known.replace("=", "").split()), line


def test_commands_of_a_batch_system_name_scripts_and_options_that_exist():
    """What cannot run here: lines of the guide that begin with srun or sbatch."""
    text = (ROOT / "docs" / "guide" / "mpi-and-slurm.md").read_text()
    lines = re.findall(r"^    ((?:srun|sbatch) .*)$", text, re.M)
    assert sorted({line.split()[0] for line in lines}) == ["sbatch", "srun"]
    scripts = {ROOT / re.search(r"\S+\.sbatch", line)[0] for line in lines if line.startswith("sbatch")}
    assert scripts == set((ROOT / "examples" / "slurm").iterdir())
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
        lines += re.findall("^[^#].*", script.read_text(), re.M)
    for line in lines:
        check_options(line)


def make_page(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text)
    return path


@pytest.mark.parametrize("block, says", [
    ("$ echo one\ntwo\n", "the page says"),
    ("$ echo one\n", "the page says"),
    ("$ true\none\n", "the page says"),
    ("$ false\n", "exit status 1, not 0"),
    ("$ true  # exit status 2\n", "exit status 0, not 2"),
    ("one\n", "begins with"),
])
def test_a_page_that_says_something_else_is_found_out(tmp_path, block, says):
    with pytest.raises(pages.Mismatch, match=says):
        pages.run_page(make_page(tmp_path, "```console\n" + block + "```\n"))


def test_numbers_may_differ_and_dots_stand_for_any_lines(tmp_path):
    page = make_page(tmp_path, "```console\n$ echo 7 files in 0.25 s, 3.1 MB; seq 3; echo end\n"
                               "1,000 files in 12m 05s, 900 bytes\n...\nend\n$ exit 3  # exit status 3\n```\n"
                               "```python\nopen('made', 'w')\n```\n```console\n$ cat made\n```\n")
    assert pages.run_page(page) == 4


def test_a_page_is_written_with_what_its_commands_print(tmp_path):
    page = make_page(tmp_path, "Words.\n\n```console\n$ echo one \\\n  two\nold\n```\n")
    pages.run_page(page, write=True)
    assert page.read_text() == "Words.\n\n```console\n$ echo one \\\n  two\none two\n```\n"


TORCH = """
import glob, sys
import torch
decode = len
class MyDataset(torch.utils.data.Dataset):
    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        with open(self.paths[i], "rb") as file:
            return self.transform(file.read())
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
"""


@pytest.mark.parametrize("side", "-+")
def test_both_sides_of_the_readmes_difference_load_every_file(tmp_path, side):
    """Files of 1 to 70 bytes: their sum says whether each came once."""
    data = tmp_path / "train"
    data.mkdir()
    for i in range(1, 71):
        (data / f"{i:02}").write_bytes(b"x" * i)
    text, = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    lines = [line[1:] for line in text.replace("/data/train", str(data)).splitlines() if line[0] == side]
    assert 4 <= len(lines) <= 6
    program = "\n".join([TORCH, *lines, "getattr(loader, 'set_epoch', int)(0)",
                         "print(sum(int(each) for batch in loader for each in batch), len(loader))"])
    done = subprocess.run(["/usr/bin/python3", "-c", program], cwd=tmp_path, env=pages.environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "2485 2\n"), done.stderr


def test_the_readme_is_one_screen_and_a_half():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 90 and max(map(len, lines)) <= 100
