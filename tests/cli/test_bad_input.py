"""Wrong arguments: exit status 2, one sentence, how to get help. Wrong ids: exit status 1."""

import pytest
from conftest import contents

import make  # of tests/reader, which conftest adds

COMMANDS = ["index", "info", "ls", "find", "verify", "order", "manifest"]


def test_without_a_command_it_tells_its_commands(shoal):
    result = shoal()
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == shoal.good("--help")


@pytest.mark.parametrize("command", ["frobnicate", "", "Index", "index.c"])
def test_an_unknown_command_is_named(shoal, fails, command):
    fails(shoal(command), 2, "unknown command '%s'" % command)


@pytest.mark.parametrize("option", ["--bogus", "-x"])
def test_an_option_before_the_command_is_told_where_it_belongs(shoal, fails, option):
    fails(shoal(option, "ls"), 2, "unknown option '%s'; options follow a command" % option)


def test_help_for_an_unknown_command_is_refused(shoal, fails):
    fails(shoal("help", "frobnicate"), 2, "unknown command 'frobnicate'")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_lacks(shoal, fails, command):
    fails(shoal(command), 2, "shoal %s: " % command)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_unknown_options(shoal, fails, command):
    fails(shoal(command, "x", "--bogus"), 2, "unknown option '--bogus'")
    fails(shoal(command, "x", "--bogus=3"), 2, "unknown option '--bogus=3'")
    fails(shoal(command, "x", "-Z"), 2, "unknown option '-Z'")


@pytest.mark.parametrize("command, option", [
    ("index", "-o"), ("index", "--output"), ("index", "--root"), ("index", "--memory"), ("index", "--pattern"),
    ("ls", "--id"), ("ls", "--prefix"), ("order", "--ranks"), ("order", "--mode"), ("manifest", "-o"),
    ("manifest", "--epochs"),
])
def test_an_option_without_its_value_is_told(shoal, fails, command, option):
    fails(shoal(command, "x", option), 2, "option '%s' needs a value" % option)


@pytest.mark.parametrize("command, option", [("index", "--json"), ("info", "--json"), ("ls", "--sizes"),
                                             ("find", "--json"), ("verify", "--verbose"), ("order", "--frozen"),
                                             ("manifest", "--paths")])
def test_an_option_with_a_value_that_it_does_not_take_is_told(shoal, fails, command, option):
    fails(shoal(command, "x", option + "=y"), 2, "option '%s=y' takes no value" % option)


@pytest.mark.parametrize("arguments, words", [
    (["list.txt"], "say where to write the catalog"),
    (["-o", "c"], "give one directory or LIST"),
    (["a", "b", "-o", "c"], "give one directory or LIST"),
    (["-", "-o", "c", "--memory", "1M"], "--memory must be 48M or more"),
    (["-", "-o", "c", "--memory", "47M"], "--memory must be 48M or more"),
    (["-", "-o", "c", "--memory", "0"], "--memory"),
    (["-", "-o", "c", "--memory", "lots"], "--memory 'lots' is not a size, such as 256M"),
    (["-", "-o", "c", "--memory", "-1"], "--memory '-1' is not a size"),
    (["-", "-o", "c", "--memory", "64MM"], "--memory '64MM' is not a size"),
    (["-", "-o", "c", "--memory", ""], "--memory '' is not a size"),
    (["-", "-o", "c", "--samples-per-file", "x"], "--samples-per-file 'x' is not a whole number"),
    (["-", "-o", "c", "--samples-per-file", "0"], "--samples-per-file"),
    (["s3://", "-o", "c"], "'s3://' has no bucket: write s3://bucket/prefix"),
    (["s3:///prefix", "-o", "c"], "'s3:///prefix' has no bucket"),
    (["-", "-o", "s3://"], "'s3://' has no bucket"),
    (["s3://b", "-o", "c", "--threads", "3"], "--threads is for a directory: a bucket is listed with --connections N"),
])
def test_index_refuses_arguments_that_make_no_sense(shoal, fails, tmp_path, arguments, words):
    fails(shoal("index", *arguments, cwd=tmp_path, stdin=b"a\n"), 2, words, empty=tmp_path)


@pytest.mark.parametrize("command", [["index", "s3://b", "-o", "c"], ["read", "c"], ["verify", "c", "--storage"], ["info", "c"]],
                         ids=lambda command: command[0])
@pytest.mark.parametrize("option, value, words", [
    ("--endpoint", "ftp://x", "'ftp://x' is not an endpoint: write http:// or https://"),
    ("--endpoint", "http://", "'http://' is not an endpoint"),
    ("--endpoint", "http://a,b", "'b' is not an endpoint"),
    ("--endpoint", "", "'' contains no endpoint"),
    ("--endpoint", ",".join(["http://a"] * 65), "more than 64 endpoints"),
    ("--endpoint", "http://user:word@x", "an endpoint must not contain a user and password"),
    ("--region", "a b", "'a b' is not a region"),
    ("--region", "", "'' is not a region"),
    ("--bucket-style", "both", "'both' is not a way to address a bucket: use auto, path or virtual"),
])
def test_options_for_s3_that_make_no_sense_are_wrong_use(shoal, fails, tmp_path, command, option, value, words):
    fails(shoal(*command, option, value, cwd=tmp_path), 2, words, empty=tmp_path)


@pytest.mark.parametrize("command", [["read", "s3://"], ["read", "c", "--data", "s3:///x"],
                                     ["run", "resnet50_h100", "--results", "r", "--data", "s3://"],
                                     ["datagen", "resnet50_h100", "--data", "s3://"]], ids=" ".join)
def test_a_bucket_that_is_not_named_is_wrong_use(shoal, fails, tmp_path, command):
    fails(shoal(*command, cwd=tmp_path), 2, "has no bucket: write s3://bucket/prefix", empty=tmp_path)


@pytest.mark.parametrize("memory", ["48M", "64m", "49MiB", "100MB", "1G", "60000000", "51539607552", "2T"])
def test_index_takes_memory_in_many_units(shoal, tmp_path, memory):
    shoal.good("index", "-", "-q", "--memory", memory, "-o", tmp_path / "c", stdin=b"a\n")
    assert contents(tmp_path) == ["c"]


@pytest.mark.parametrize("options", [["--id", 3], ["--id", 4], ["--id", 2**64 - 1], ["--from", 4],
                                     ["--from", 2**64 - 1, "--limit", 5]])
def test_an_id_past_the_end_is_told(shoal, fails, options):
    path = shoal.index([b"a", b"b", b"c"])
    fails(shoal("ls", path, *options), 1, "there is no id %d: it has 3 files" % options[1])


def test_one_file_is_not_called_files(shoal, fails):
    path = shoal.index([b"a"], sizes=[3])
    fails(shoal("ls", path, "--id", 1), 1, "there is no id 1: it has 1 file")
    assert b": good, 1 file, digest" in shoal("verify", path, "--verbose").stdout
    result = shoal("manifest", path, "-o", shoal.scratch / "m", "--ranks", 1)
    assert result.stderr.startswith(b"1 list of 1 file in ")
    result = shoal("column", "sizes", path, "-o", shoal.scratch / "s")
    assert result.stderr.startswith(b"1 value of type u64 in ")


def test_an_empty_catalog_has_no_id_0(shoal, fails):
    fails(shoal("ls", shoal.index([]), "--id", 0), 1, "there is no id 0: it has 0 files")


@pytest.mark.parametrize("options, words", [
    (["--id", 0, "--from", 0], "exclude each other"),
    (["--id", 0, "--prefix", "a"], "exclude each other"),
    (["--from", 3, "--prefix", "a"], "exclude each other"),
    (["--limit", 3, "--id", 0], "--limit cannot be used with --id or --random"),
    (["--include", "x", "--from", 3], "--include cannot be used with --id, --from or --random"),
    (["--count", 3], "unknown option '--count': --limit is the most files to print"),
    (["--id", "x"], "--id 'x' is not a whole number"),
    (["--id", -1], "--id '-1' is not a whole number"),
    (["--id", " 1"], "--id ' 1' is not a whole number"),
    (["--id", "0x1"], "--id '0x1' is not a whole number"),
    (["--from", 2**64], "is too large"),
    (["--limit", "many"], "--limit 'many' is not a whole number"),
    (["other"], "give one catalog"),
])
def test_ls_refuses_arguments_that_make_no_sense(shoal, fails, options, words):
    fails(shoal("ls", shoal.index([b"a"]), *options), 2, words)


@pytest.mark.parametrize("arguments, words", [
    (["info"], "give one catalog"),
    (["info", "a", "b"], "give one catalog"),
    (["find"], "give a catalog and at least one name"),
    (["find", "a"], "give a catalog and names"),
    (["verify"], "give at least one catalog"),
    (["order"], "give one catalog"),
    (["order", "a", "b"], "give one catalog"),
    (["manifest", "-o", "d"], "give one catalog"),
])
def test_too_few_or_too_many_arguments_are_told(shoal, fails, tmp_path, arguments, words):
    fails(shoal(*arguments, cwd=tmp_path), 2, words, empty=tmp_path)


@pytest.mark.parametrize("arguments", [["info"], ["ls"], ["find", "a"], ["verify"], ["order"], ["manifest", "-o", "d"]])
def test_a_catalog_that_is_missing_is_named(shoal, fails, tmp_path, arguments):
    result = shoal(arguments[0], "no such", *arguments[1:], cwd=tmp_path)
    fails(result, 1, "'no such': cannot open it: No such file or directory", empty=tmp_path)


def test_a_name_of_a_file_with_odd_bytes_stays_in_one_line(shoal, fails, tmp_path):
    fails(shoal("info", b"caf\xe9", cwd=tmp_path), 1, b"'caf\xe9': cannot open it")


def test_a_name_with_a_newline_does_not_make_two_lines_of_an_error(shoal, fails):
    fails(shoal("find", shoal.index([b"a"]), "x\ny"), 1, "there is no name")


def test_a_very_long_name_of_a_file_is_told_too(shoal, fails):
    fails(shoal("info", "x" * 5000), 1, "File name too long")


# ------------------------------------------------------------------------------- names that no listing and no list has


def named(path, *names, root=b"file:///data"):
    """A catalog with checksums that match, whatever the names are."""
    path.write_bytes(make.catalog([make.front(sorted(names))], sizes=[("constant", len(names), 1)], root=root))
    return path


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "-0"], ["read", "--data", "null:size=1"], ["verify"],
                                       ["manifest", "-o", "m", "--ranks", "1"],
                                       ["manifest", "-o", "m", "--ranks", "1", "--null"]], ids=" ".join)
def test_a_name_with_a_nul_is_found(shoal, fails, tmp_path, arguments):
    fails(shoal(arguments[0], named(tmp_path / "c", b"b\0c"), *arguments[1:], cwd=tmp_path), 1, "NUL")


@pytest.mark.parametrize("root, name, written", [
    (b"file:///data", b"../x", False), (b"file:///data", b"a/../x", False), (b"file:///data", b"/x", False),
    (b"file:///data", b"a..b/..c", True), (b"s3://bucket/data", b"../x", True), (b"s3://bucket/data", b"/x", True)])
def test_a_manifest_does_not_lead_out_of_its_directory(shoal, fails, tmp_path, root, name, written):
    done = shoal("manifest", named(tmp_path / "c", name, root=root), "-o", "m", "--ranks", "1", cwd=tmp_path)
    if written:
        assert done.returncode == 0, done.stderr
    else:
        fails(done, 1, "name 0", "slash" if name == b"/x" else "'..'")


@pytest.mark.parametrize("arguments, words", [
    (["read", "c", "--store", "x"], b"--data names the place"),
    (["run", "c", "--store", "x"], b"--data names the place"),
    (["verify", "--where", "x", "c"], b"--data names the place"),
    (["order", "c", "--count", "3"], b"--limit is the most samples to print"),
])
def test_an_option_of_another_command_or_tool_is_answered_with_the_one_here(shoal, arguments, words):
    refused = shoal(*arguments)
    assert refused.returncode == 2 and words in refused.stderr


def test_version_is_a_command_too(shoal):
    assert shoal.good("version") == shoal.good("--version")
