"""The README, the guide and coming-from.md: every command that they show runs, and prints what they say."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "s3")]
import page as pages  # noqa: E402
from objects import ACCESS, SECRET, Objects  # noqa: E402

BUCKETS = "buckets.md"  # needs a server: tests/s3 runs it
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


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
                               "1,000 files in 1.5 ms, 12 KB\n...\nend\n$ exit 3  # exit status 3\n```\n"
                               "```python\nopen('made', 'w')\n```\n```console\n$ cat made\n```\n")
    assert pages.run_page(page) == 4


def test_a_page_is_written_with_what_its_commands_print(tmp_path):
    page = make_page(tmp_path, "Words.\n\n```console\n$ echo one \\\n  two\nold\n```\n")
    pages.run_page(page, write=True)
    assert page.read_text() == "Words.\n\n```console\n$ echo one \\\n  two\none two\n```\n"
