"""What the compiler and the linker are told to protect is in the programs, whatever flags a build was made with."""

import pathlib
import platform
import shutil
import subprocess
import sys

import pytest
from conftest import binary

BUILD = pathlib.Path(binary()).parent


def elf_files():
    found = [BUILD / "shoal", *BUILD.glob("libshoal.so.?.*"), *BUILD.glob("shoal_mpi_*.so"),
             *(BUILD / "python").glob("**/*.so")]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def readelf(path, *options):
    if not shutil.which("readelf"):
        pytest.skip("there is no readelf here")
    return subprocess.run(["readelf", "-W", *options, path], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", elf_files(), ids=lambda path: path.name)
class TestEveryProgram:
    def test_it_is_loaded_at_a_random_address(self, path):
        assert "DYN" in readelf(path, "-h")

    def test_its_stack_cannot_be_executed(self, path):
        stack = [line for line in readelf(path, "-l").splitlines() if "GNU_STACK" in line]
        assert len(stack) == 1 and " RWE " not in stack[0]

    def test_its_relocations_are_read_only_once_it_is_loaded(self, path):
        assert "GNU_RELRO" in readelf(path, "-l")
        assert "NOW" in readelf(path, "-d")

    def test_nothing_is_both_written_and_executed(self, path):
        loads = [line for line in readelf(path, "-l").splitlines() if line.strip().startswith("LOAD")]
        assert loads and not any(" RWE " in line for line in loads)

    def test_libraries_are_not_searched_in_relative_folders(self, path):
        """The modules may name the folder of their MPI. Until it is installed, a name of X keeps room for that."""
        for line in readelf(path, "-d").splitlines():
            if "(RPATH)" in line or "(RUNPATH)" in line:
                folders = line.partition("[")[2].rstrip("]").split(":")
                assert all(folder.startswith(("/", "$ORIGIN")) or set(folder) == {"X"} for folder in folders), line


def test_the_command_has_stack_protectors():
    assert "__stack_chk_fail" in readelf(BUILD / "shoal", "--dyn-syms")


@pytest.mark.skipif(b"__asan_init" in (BUILD / "shoal").read_bytes(), reason="sanitizers check more than the checked functions")
@pytest.mark.parametrize("name", ["shoal", "python/shoal/_shoal*.so"])
def test_copies_of_bytes_are_checked_where_the_size_of_the_place_is_known(name):
    (path,) = BUILD.glob(name)
    checked = [line for line in readelf(path, "--dyn-syms").splitlines() if "_chk@" in line and "stack_chk" not in line]
    assert len(checked) > 5


@pytest.mark.skipif(platform.machine() != "x86_64", reason="for x86-64 only")
@pytest.mark.skipif(not shutil.which("objdump"), reason="there is no objdump here")
def test_indirect_jumps_lead_to_marked_places():
    code = subprocess.run(["objdump", "-d", "-j", ".text", BUILD / "shoal"], check=True, capture_output=True, text=True).stdout
    assert code.count("endbr64") > 500


def audit(build, root=None):
    tool = (root or pathlib.Path(__file__).resolve().parents[2]) / "tools" / "audit"
    return subprocess.run([sys.executable, tool, build, "--linked"], capture_output=True, text=True)


def test_every_library_that_is_linked_is_listed_with_its_licence():
    done = audit(BUILD)
    assert done.returncode == 0, done.stderr


def test_a_library_that_is_not_listed_is_noticed(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    for name in ("tools/audit", "docs/dependencies.md"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(root / name, tmp_path / name)
    page = tmp_path / "docs" / "dependencies.md"
    page.write_text(page.read_text().replace("| libxxhash.so.0 |", "| libother.so.1 |"))
    done = audit(BUILD, tmp_path)
    assert done.returncode == 1
    assert "needs libxxhash.so.0, which docs/dependencies.md does not list" in done.stderr
    assert "lists libother.so.1, which nothing needs" in done.stderr
