"""What others build against: the installed header, library and pkg-config file."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "shoal.h"

PROGRAM = """
#include <shoal.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err;

	if (argc < 2 || shoal_catalog_open(argv[1], &cat, &err) < 0)
		return 1;
	shoal_catalog_info(cat, &info);
	printf("%s %llu\\n", shoal_version(), (unsigned long long)info.nr_files);
	shoal_catalog_close(cat);
	return 0;
}
"""


def run(*command, **options):
    return subprocess.run([os.fspath(c) for c in command], check=True, stdout=subprocess.PIPE, text=True,
                          **options).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Of the release build: a sanitizer build is not for installing."""
    where = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", ROOT / "build", "--destdir", where, "--quiet")
    return where / "usr" / "local"


@pytest.mark.parametrize("compiler, language, standard", [("cc", "c", "c11"), ("c++", "c++", "c++17")])
def test_the_header_compiles_alone(tmp_path, compiler, language, standard):
    source = tmp_path / "alone"
    source.write_text("#include <shoal.h>\n")
    run(compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
        "-I", HEADER.parent, source)


def test_the_library_exports_what_the_header_declares_and_nothing_else(installed):
    library = next(installed.glob("lib/**/libshoal.so"))
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    declared = set(re.findall(r"SHOAL_(?:API|CHECKED)\s[^;]*?\b(shoal_\w+)\(", text))
    assert exported == declared


def test_a_program_builds_with_pkg_config_and_runs(shoal, installed, tmp_path):
    pc = next(installed.glob("lib/**/pkgconfig/shoal.pc"))
    environment = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(installed.parents[1]))
    flags = run("pkg-config", "--cflags", "--libs", "shoal", env=environment).split()
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    run("cc", source, "-o", tmp_path / "program", *flags)
    environment["LD_LIBRARY_PATH"] = str(pc.parents[1])
    assert run(tmp_path / "program", shoal.index([b"a", b"b"]), env=environment).split()[1] == "2"


def test_the_command_is_installed_and_says_its_version(installed):
    assert run(installed / "bin" / "shoal", "--version").startswith("shoal 0.")
    assert shutil.which("shoal", path=str(installed / "bin"))


def test_the_installed_command_finds_its_workloads(installed):
    environment = {name: value for name, value in os.environ.items() if name != "SHOAL_WORKLOADS"}
    listed = run(installed / "bin" / "shoal", "workloads", env=environment).splitlines()
    assert len(listed) == len(list((ROOT / "workloads").glob("*.yaml")))
    assert len(list((installed / "share" / "shoal" / "workloads").iterdir())) == len(listed)
