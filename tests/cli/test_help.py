"""The help of each command, its manual page and its completion: they have every option that the command takes, and no
other; they fit the terminal; and a typing error is answered with what was meant."""

import os
import pty
import re
import select
import struct
import fcntl
import subprocess
import termios
import time

import pytest

from conftest import ROOT, binary, lines, on_terminal

COMMANDS = re.findall(r"&cmd_(\w+)", (ROOT / "src" / "cli" / "main.c").read_text())


def options(shoal, command):
    """{name: whether it has a value} of the options that a command takes."""
    listed = [line.decode() for line in lines(shoal.good(command, "--list-options"))]
    return {name.rstrip("="): name.endswith("=") for name in listed}


def explained(text):
    """{name: whether a value is shown} of the options that a help text has a line for."""
    found = re.findall(r"^(?:  -\w, |      )(--[a-z][a-z0-9-]*)( [A-Z][A-Za-z/|.]*\b)?", text, re.M)
    return {name: bool(value) for name, value in found}


def test_every_command_is_looked_at(shoal):
    assert len(COMMANDS) >= 14
    assert re.findall(r"^  (\w+) ", shoal.good("--help").decode(), re.M) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_the_help_explains_is_taken_by_the_parser(shoal, command):
    takes = options(shoal, command)
    assert explained(shoal.good(command, "--help").decode()) == takes
    for name, has_value in takes.items():
        said = shoal(command, name) if has_value else shoal(command, f"{name}=x")
        if name not in ("--help", "--listen"):  # these may have one
            assert said.returncode == 2
            assert (b"needs a value" if has_value else b"takes no value") in said.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_no_two_options_of_a_command_have_a_name_or_letter_in_common(shoal, command):
    listed = [line.decode().rstrip("=") for line in lines(shoal.good(command, "--list-options"))]
    letters = re.findall(r"^  (-\w), --", shoal.good(command, "--help").decode(), re.M)
    assert len(set(listed)) == len(listed)
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_of_a_command_names_only_options_that_it_takes(shoal, command):
    usage = shoal.good(command, "--help").decode().split("\n\n")[0]
    assert set(re.findall(r"--[a-z][a-z-]*", usage)) <= set(options(shoal, command))


@pytest.mark.parametrize("command", COMMANDS)
def test_values_in_the_help_are_whole_words(shoal, command):
    values = re.findall(r"^(?:  -\w, |      )--[a-z-]+ ([A-Z./]+)", shoal.good(command, "--help").decode(), re.M)
    assert [v for v in values if len(v) < 2] == []


def help_at(command, columns):
    """The help on a terminal of that width."""
    return on_terminal([binary(), command, "--help"], columns, ["stdout"]).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_fits_the_terminal(command, columns):
    assert max(len(line) for line in help_at(command, columns).split("\n")) <= columns


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_page_has_every_option(shoal, command):
    page = shoal.good(command, "--help=man").decode()
    assert page == shoal.good("help", "--man", command).decode()
    named = re.findall(r"^\.TP\n\\fB(?:\\-\w\\fR, \\fB)?\\-\\-([a-z\\-]+?)\\fR", page, re.M)
    assert ["--" + name.replace("\\-", "-") for name in named] == list(options(shoal, command))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_lacks_its_help(shoal, command):
    entries = re.findall(r"^\.TP\n(.*\\-\\-.*)\n(.*)$", shoal.good(command, "--help=man").decode(), re.M)
    assert len(entries) == len(options(shoal, command))
    assert [name for name, words in entries if words.startswith(".") or len(words.split()) < 2] == []


def test_the_manual_page_of_shoal_names_every_command(shoal):
    page = shoal.good("help", "--man").decode()
    assert shoal.good("--help=man").decode() == page
    assert re.findall(r"^\\fBshoal\\-(\w+)\\fR\(1\)", page, re.M) == COMMANDS


def complete_in_bash(tmp_path, *words):
    """What bash would offer after these words."""
    script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shoal;'
              ' printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "-c", script, binary(), *words], check=True, stdout=subprocess.PIPE, cwd=tmp_path,
                         env={**os.environ, "PATH": f"{os.path.dirname(binary())}:{os.environ['PATH']}"}).stdout
    return [line for line in out.decode().split("\n") if line]


def test_bash_completes_commands_options_and_values(tmp_path):
    (tmp_path / "some.cat").touch()
    for name in ("two words.cat", "two more.cat", "a*b"):
        (tmp_path / name).touch()
    assert sorted(complete_in_bash(tmp_path, "shoal", "info", "two")) == ["two more.cat", "two words.cat"]
    assert complete_in_bash(tmp_path, "shoal", "info", "a") == ["a*b"]
    assert complete_in_bash(tmp_path, "shoal", "ma") == ["manifest"]
    assert complete_in_bash(tmp_path, "shoal", "order", "--mo") == ["--mode"]
    assert complete_in_bash(tmp_path, "shoal", "order", "--mode", "s") == ["sequential"]
    assert complete_in_bash(tmp_path, "shoal", "index", "d", "-o", "so") == ["some.cat"]
    assert complete_in_bash(tmp_path, "shoal", "order", "--epoch", "") == []
    assert complete_in_bash(tmp_path, "shoal", "column", "imp") == ["import"]
    assert complete_in_bash(tmp_path, "shoal", "help", "mani") == ["manifest"]
    assert complete_in_bash(tmp_path, "shoal", "run", "retinanet_b") == ["retinanet_b200"]
    assert complete_in_bash(tmp_path, "shoal", "run", "w.yaml", "retinanet_b") == []
    assert complete_in_bash(tmp_path, "shoal", "--ver") == ["--version"]
    assert complete_in_bash(tmp_path, "shoal", "index", "d", "--samples", "pa") == ["parquet"]
    assert complete_in_bash(tmp_path, "shoal", "ls", "s3://b/c", "--bucket-style", "") == ["path", "virtual"]


def test_bash_completes_a_value_after_an_equals_sign(tmp_path):
    """Of --mode=s it makes three words."""
    (tmp_path / "some.cat").touch()
    assert complete_in_bash(tmp_path, "shoal", "order", "--mode", "=", "s") == ["sequential"]
    assert complete_in_bash(tmp_path, "shoal", "read", "--progress", "=") == ["auto", "plain", "json", "none"]
    assert complete_in_bash(tmp_path, "shoal", "index", "d", "--output", "=", "so") == ["some.cat"]
    assert complete_in_bash(tmp_path, "shoal", "order", "--epoch", "=", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_option_of_every_command(shoal, shell):
    script = shoal.good("completion", shell).decode()
    for command in COMMANDS:
        for name in options(shoal, command):
            if shell == "bash":
                assert re.search(rf"^\t{command}\) words='[^']* ?{name}\b", script, re.M)
            elif shell == "zsh":
                part = script[script.index(f"    {command}) _arguments"):]
                assert f"'*{name}" in part[:part.index(";;")]
            else:
                assert f"__shoal_in {command}' -l {name[2:]} " in script


class Terminal:
    """A shell on a terminal, in which keys are pressed."""

    def __init__(self, arguments, cwd, **env):
        there, here = pty.openpty()
        fcntl.ioctl(here, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        path = f"{os.path.dirname(binary())}:{os.environ['PATH']}"
        self.process = subprocess.Popen(arguments, stdin=here, stdout=here, stderr=here, cwd=cwd, start_new_session=True,
                                        env={"PATH": path, "HOME": str(cwd), "TERM": "dumb", "PS1": "> ", **env})
        os.close(here)
        self.fd = there

    def until(self, want, seconds=60):
        """What is printed, up to what is wanted."""
        seen, end = "", time.monotonic() + seconds
        while want not in seen:
            assert time.monotonic() < end, seen
            if select.select([self.fd], [], [], 0.1)[0]:
                seen += os.read(self.fd, 4096).decode(errors="replace")
        return seen

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.mark.parametrize("load", ["fpath=($HOME $fpath); autoload -U compinit; compinit -u -D",
                                  "autoload -U compinit; compinit -u -D; source <(shoal completion zsh)"], ids=["fpath", "source"])
def test_zsh_completes_commands_options_values_and_workloads(shoal, tmp_path, load):
    (tmp_path / "some.cat").touch()
    (tmp_path / "_shoal").write_bytes(shoal.good("completion", "zsh"))
    (tmp_path / ".zshrc").write_text(f"{load}; PS1='> '; echo ready\n")
    shell = Terminal(["zsh", "-d", "-i"], tmp_path)
    try:
        shell.until("ready")
        for typed, completed in [("shoal ma", "nifest "), ("shoal order --mo", "de="), ("shoal order c --mode=se", "quential "),
                                 ("shoal column imp", "ort "), ("shoal help mani", "fest "), ("shoal info so", "me.cat "),
                                 ("shoal run retinanet_b", "200 "), ("shoal --ver", "sion "), ("shoal index d --samples pa", "rquet ")]:
            shell.press(typed + "\t")
            shell.until(typed + completed)
            shell.press("\x15")  # remove the line
    finally:
        shell.close()


def complete_in_fish(tmp_path, typed):
    out = subprocess.run(["fish", "--no-config", "-c", 'source (shoal completion fish | psub); complete -C "$argv"', typed], check=True,
                         stdout=subprocess.PIPE, cwd=tmp_path,
                         env={"PATH": f"{os.path.dirname(binary())}:{os.environ['PATH']}", "HOME": str(tmp_path)}).stdout
    return [line.split("\t")[0] for line in out.decode().splitlines()]


def test_fish_completes_commands_options_values_and_workloads(tmp_path):
    (tmp_path / "some.cat").touch()
    assert complete_in_fish(tmp_path, "shoal ma") == ["manifest"]
    assert complete_in_fish(tmp_path, "shoal order --mo") == ["--mode"]
    assert complete_in_fish(tmp_path, "shoal order c --mode=se") == ["--mode=sequential"]
    assert complete_in_fish(tmp_path, "shoal column imp") == ["import"]
    assert complete_in_fish(tmp_path, "shoal help mani") == ["manifest"]
    assert complete_in_fish(tmp_path, "shoal info so") == ["some.cat"]
    assert complete_in_fish(tmp_path, "shoal run retinanet_b") == ["retinanet_b200"]
    assert complete_in_fish(tmp_path, "shoal --ver") == ["--version"]
    assert complete_in_fish(tmp_path, "shoal index d --samples pa") == ["parquet"]
    assert complete_in_fish(tmp_path, "shoal info order --mo") == []  # options of the command alone


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_explanations_in_completions_are_whole_words(shoal, shell):
    script = shoal.good("completion", shell).decode()
    assert subprocess.run([shell, "-n", "/dev/stdin"], input=script.encode(), check=True).returncode == 0
    if shell == "bash":  # it has none
        return
    told = re.findall(r"\[(.*)\]" if shell == "zsh" else r" -d '(.*)'$", script, re.M)
    assert len(told) > 500
    assert [words for words in told if words.count("(") != words.count(")") or words.endswith((" ", ","))] == []
    assert "mlpstorage'\\''s submission checker" in script and "options in a shell'" in script


@pytest.mark.parametrize("words, said", [
    (["indx"], "unknown command 'indx'; did you mean index?"),
    (["frobnicate"], "unknown command 'frobnicate'\n"),
    (["help", "mainfest"], "unknown command 'mainfest'; did you mean manifest?"),
    (["order", "--reminder", "keep"], "unknown option '--reminder'; did you mean --remainder?"),
    (["order", "--zebra=1"], "unknown option '--zebra=1'\n"),
    (["order", "--r", "2"], "'--r' is ambiguous: --ranks, --rank, --remainder"),
    (["order", "-z"], "unknown option '-z'"),
    (["index", "-o=c.cat", "."], "write '-o c.cat' or '--output=c.cat'"),
    (["order", "--mode"], "option '--mode' needs a value"),
    (["order", "--mode", "shuffle", "c"], "--mode 'shuffle' is not sequential, global, files, window or local"),
])
def test_a_typing_error_is_answered_with_what_was_meant(shoal, words, said):
    result = shoal(*words)
    assert result.returncode == 2
    assert said in result.stderr.decode()


def test_options_may_stand_anywhere_be_short_and_end_with_two_dashes(shoal, tmp_path):
    names = [b"--null", b"a", b"b"]
    catalog = shoal.index(names)
    assert shoal.good("ls", "--lim", "1", catalog) == b"--null\n"
    assert shoal.good("ls", catalog, "-0", "--limit=2") == b"--null\0a\0"
    assert shoal.good("find", catalog, "--", "--null", "a") == b"0\n1\n"
