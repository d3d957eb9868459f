"""What the command says about a remedy: the options that it names exist."""

import ast
import re

import pytest

from conftest import ROOT, lines

SOURCE = (ROOT / "src" / "cli" / "hints.c").read_text()
HEADER = (ROOT / "include" / "shoal.h").read_text()
S3_COMMANDS = re.search(r'#define S3_COMMANDS[\s\\]+("[^"]*")', SOURCE)[1]


def rows():
    """(hint, commands, commands whose options are named, words) of the table in hints.c."""
    table = SOURCE[SOURCE.index("hints[] = {"):SOURCE.index("\n};")].replace("S3_COMMANDS", S3_COMMANDS)
    text = r'(NULL|"[^"]*")'
    for hint, commands, of, words in re.findall(r'\{ SHOAL_HINT_(\w+),\s*%s,\s*%s,\s*((?:"[^"]*"\s*)+)\}' % (text, text),
                                                table):
        commands, of = (None if x == "NULL" else ast.literal_eval(x).split() for x in (commands, of))
        yield hint, commands, of, "".join(re.findall(r'"([^"]*)"', words))


def test_every_hint_of_the_header_is_in_the_table():
    known = set(re.findall(r"SHOAL_HINT_(\w+) = \d+", HEADER)) - {"NONE"}
    assert len(known) > 20
    assert {hint for hint, *_ in rows()} == known


def test_no_number_of_a_hint_is_used_twice():
    numbers = re.findall(r"SHOAL_HINT_\w+ = (\d+)", HEADER)
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("hint, commands, of, words", rows())
def test_a_hint_names_only_options_that_its_command_has(shoal, hint, commands, of, words):
    named = set(re.findall(r"--[a-z][a-z-]*", words))
    owners = of or commands or []
    assert not named or owners, "no command is said to have these"
    for command in owners:
        if command != "srun":
            has = {line.decode().rstrip("=") for line in lines(shoal.good(command, "--list-options"))}
            assert named <= has


def test_an_error_ends_in_what_to_do_about_it(shoal, tmp_path):
    path = shoal.index([b"a", b"b"])  # without sizes
    result = shoal("read", path)
    assert result.returncode == 1
    assert b"the catalog has no sizes; give the size of the largest sample with --slot\n" in result.stderr
