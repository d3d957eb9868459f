"""The help of each command: it names every option that the command takes, and no other."""

import re

import pytest

from conftest import ROOT, lines

COMMANDS = re.findall(r'\{ "(\w+)", cmd_\w+,', (ROOT / "src" / "cli" / "main.c").read_text())


def options(shoal, command):
    """{name: whether it has a value} of the options that a command takes."""
    listed = [line.decode() for line in lines(shoal.good(command, "--list-options"))]
    return {name.rstrip("="): name.endswith("=") for name in listed}


def explained(text):
    """{name: whether a value is shown} of the options that a help text has a line for."""
    found = re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)( [A-Z][A-Za-z/|]*\b)?", text, re.M)
    return {name: bool(value) for name, value in found}


def test_every_command_is_looked_at(shoal):
    assert len(COMMANDS) >= 13
    assert re.findall(r"^  (\w+) ", shoal.good("--help").decode(), re.M) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_a_line_for_every_option_that_it_takes(shoal, command):
    takes = options(shoal, command)
    assert takes.pop("--help") is False
    said = explained(shoal.good(command, "--help").decode())
    said.pop("--help", None)
    assert said == takes


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_of_a_command_names_only_options_that_it_takes(shoal, command):
    usage = shoal.good(command, "--help").decode().split("\n\n")[0]
    assert set(re.findall(r"--[a-z][a-z-]*", usage)) <= set(options(shoal, command))
