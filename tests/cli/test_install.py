"""What `make install` puts where: the header, library and pkg-config file that others build against, the command; and a
build that lacks all that it can lack."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import binary

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


LACKING = ["s3=disabled", "uring=disabled", "mpi=disabled", "python=disabled"]


def run(*command, **options):
    return subprocess.run([os.fspath(c) for c in command], check=True, stdout=subprocess.PIPE, text=True,
                          **options).stdout


def prefix():
    options = json.loads((ROOT / "build" / "meson-info" / "intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == "prefix").lstrip("/")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Of the release build: a sanitizer build is not for installing."""
    where = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", ROOT / "build", "--no-rebuild", "--destdir", where, "--quiet")
    return where / prefix()


@pytest.mark.parametrize("compiler, language, standard", [("cc", "c", "c11"), ("c++", "c++", "c++17")])
def test_the_header_compiles_alone(tmp_path, compiler, language, standard):
    source = tmp_path / "alone"
    source.write_text("#include <shoal.h>\n")
    run(compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
        "-I", HEADER.parent, source)


def declared():
    """The functions that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    return set(re.findall(r"SHOAL_(?:API|CHECKED)\s[^;]*?\b(shoal_\w+)\(", text))


def test_the_library_exports_what_the_header_declares_and_nothing_else(installed):
    library = next(installed.glob("lib/**/libshoal.so"))
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert exported == declared()


def test_a_program_builds_with_pkg_config_and_runs(shoal, installed, tmp_path):
    pc = next(installed.glob("lib/**/pkgconfig/shoal.pc"))
    prefix = re.search(r"^prefix=(.*)", pc.read_text(), re.M).group(1)
    environment = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(installed).removesuffix(prefix))
    flags = run("pkg-config", "--cflags", "--libs", "shoal", env=environment).split()
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    run("cc", source, "-o", tmp_path / "program", *flags)
    environment["LD_LIBRARY_PATH"] = str(pc.parents[1])
    assert run(tmp_path / "program", shoal.index([b"a", b"b"]), env=environment).split()[1] == "2"


def test_the_command_is_installed_and_says_its_version(installed):
    assert run(installed / "bin" / "shoal", "--version").startswith("shoal 0.")
    assert shutil.which("shoal", path=str(installed / "bin"))


def test_python_looks_where_the_package_is_installed(installed):
    """Below the default prefix: Debian's Python looks in one folder of /usr/local, which is not the one that Meson takes."""
    if prefix() != "usr/local":
        pytest.skip(f"the build is for {prefix()}, where no Python looks")
    python = run(ROOT / "tools" / "python", "numpy").strip()  # the one that builds the package
    places = json.loads(run(python, "-c", "import json, site; print(json.dumps(site.getsitepackages()))"))
    root = installed.parents[1]
    found = {os.path.relpath(path.parent.parent, root) for path in installed.rglob("_shoal.*.so")}
    assert len(found) == 1 and found <= {place.lstrip("/") for place in places}
    place = root / found.pop()
    assert {"shoal/__init__.py", "shoal/dlio/__init__.py", "shoal/torch/__init__.py"} < set(files_of(place))
    assert run(python, "-c", "import shoal; print(shoal.__file__)", env={**os.environ, "PYTHONPATH": str(place)}).startswith(str(place))


def test_the_installed_command_finds_its_workloads(installed):
    environment = {name: value for name, value in os.environ.items() if name != "SHOAL_WORKLOADS"}
    listed = run(installed / "bin" / "shoal", "workloads", env=environment).splitlines()[1:]  # below a heading
    assert len(listed) == len(list((ROOT / "workloads").glob("*.yaml")))
    assert len(list((installed / "share" / "shoal" / "workloads").iterdir())) == len(listed)


# ---- make install ----


def files_of(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names)


@pytest.fixture(scope="module")
def lacking(tmp_path_factory):
    """A build of its own, as PREFIX reconfigures it; without what it can do without, and quickly compiled."""
    build = tmp_path_factory.mktemp("lacking") / "build"
    build.mkdir()
    (build / "wheel").write_text("not Meson's")
    run(ROOT / "tools" / "configure", build, *LACKING, "prefix=/nowhere", "--", "--optimization=0", "-Ddebug=false", "-Dwerror=false", cwd=ROOT)
    run("ninja", "-C", build, "--quiet")
    return build


def make(build, *arguments):
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return run("make", "-C", ROOT, "--no-print-directory", *arguments, f"BUILD={build}", env=environment)


def test_a_build_without_libraries_prints_what_it_lacks(lacking):
    features = run(lacking / "shoal", "--version").splitlines()[1]
    assert features == "features: -io_uring -s3 -openmpi -mpich"
    assert re.search(r"S3 *: no: .*libcurl", run("meson", "setup", "--reconfigure", lacking, ROOT))


def test_configuring_keeps_what_is_not_mesons(lacking):
    assert (lacking / "wheel").exists()


def test_the_full_build_has_everything(installed):
    assert run(installed / "bin" / "shoal", "--version").splitlines()[1].startswith("features: +io_uring +s3 ")


def test_a_build_without_liburing_reads_with_threads(lacking, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"abc")
    run(lacking / "shoal", "index", tmp_path / "data", "-o", tmp_path / "a.cat")
    assert "this build of shoal has no io_uring" in run(lacking / "shoal", "read", tmp_path / "a.cat")
    failed = subprocess.run([lacking / "shoal", "read", tmp_path / "a.cat", "--engine", "uring"], stderr=subprocess.PIPE, text=True)
    assert failed.returncode == 1 and "this build of shoal has no io_uring" in failed.stderr


def test_a_build_without_libcurl_reads_catalogs_of_buckets_and_no_buckets(lacking, tmp_path):
    (tmp_path / "list").write_text("a\t1\nb\t2\n")
    run(lacking / "shoal", "index", tmp_path / "list", "--root", "s3://bucket/x", "-o", tmp_path / "a.cat")
    assert run(lacking / "shoal", "ls", tmp_path / "a.cat").splitlines() == ["a", "b"]
    for command in (["read", tmp_path / "a.cat"], ["index", "s3://bucket/x", "-o", tmp_path / "b.cat"]):
        failed = subprocess.run([lacking / "shoal", *command], stderr=subprocess.PIPE, text=True)
        assert failed.returncode == 1 and "this build of shoal has no S3 support" in failed.stderr


def test_a_build_without_mpi_fails_under_mpirun(lacking, tmp_path):
    failed = subprocess.run([lacking / "shoal", "index", ROOT / "docs", "-o", tmp_path / "a.cat"], stderr=subprocess.PIPE,
                            env=dict(os.environ, OMPI_COMM_WORLD_SIZE="2"), text=True)
    assert failed.returncode == 1 and "there is no shoal_mpi_openmpi.so" in failed.stderr
    assert not (tmp_path / "a.cat").exists()


def test_prefix_and_destdir_are_honoured_after_a_build_and_uninstall_removes_all(lacking, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "bin").mkdir(parents=True)
    (first / "bin" / "other").touch()
    said = make(lacking, "install", f"PREFIX={first}")
    assert f"installed in {first};" in said
    names = files_of(first)
    assert {"bin/shoal", "bin/other", "include/shoal.h", "share/shoal/workloads/unet3d_h100.yaml"} < set(names)
    # Without PREFIX the last one stays; the workloads are found at the prefix, not only beside the program.
    make(lacking, "install", f"DESTDIR={second}")
    assert set(files_of(second / str(first).lstrip("/"))) == set(names) - {"bin/other"}
    moved = tmp_path / "elsewhere"
    shutil.copy(first / "bin" / "shoal", moved)
    assert "unet3d_h100" in run(moved, "workloads")
    make(lacking, "uninstall", f"DESTDIR={second}")
    assert files_of(second) == [] and files_of(first) == names
    make(lacking, "uninstall")
    assert files_of(first) == ["bin/other"]
    with pytest.raises(subprocess.CalledProcessError):
        run(moved, "workloads", stderr=subprocess.PIPE)


def test_prefix_and_destdir_may_contain_spaces(lacking, tmp_path):
    first, second = tmp_path / "a prefix", tmp_path / "a  root"
    make(lacking, "install", f"PREFIX={first}", f"DESTDIR={second}")
    assert "bin/shoal" in files_of(second / str(first).lstrip("/")) and not first.exists()
    assert "unet3d_h100" in run(second / str(first).lstrip("/") / "bin" / "shoal", "workloads")
    make(lacking, "uninstall", f"PREFIX={first}", f"DESTDIR={second}")
    assert files_of(second) == []


@pytest.mark.parametrize("remove", [[], ["--remove"]])
def test_an_install_without_rights_ends_with_one_sentence(installed, tmp_path, remove):
    """Run by another user, where this one is root."""
    place = tmp_path / "place"
    shutil.copytree(installed, f"{place}/{prefix()}", symlinks=True)
    tool = [ROOT / "tools" / "install", *remove, ROOT / "build"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "meson").write_text("#!/bin/sh\necho 'ERROR: no rights' >&2\nexit 1\n")  # it has a sentence of its own
    (tmp_path / "bin" / "meson").chmod(0o755)
    refuse = "import os, runpy, sys\ndef no(path):\n    raise PermissionError(13, 'Permission denied', path)\n" \
             "os.remove = no\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", refuse, *map(str, tool)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "DESTDIR": str(place), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode == 1 and done.stdout == ""
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 2, done.stderr
    assert "run it as root, or with PREFIX=DIR" in done.stderr


def test_the_installed_tree_can_be_moved(installed, tmp_path):
    shutil.copytree(installed, tmp_path / "moved", symlinks=True)
    assert "unet3d_h100" in run(tmp_path / "moved" / "bin" / "shoal", "workloads")


# ---- tools/install-deps where there is no apt, or none that works ----


def machine(folder, modules, **scripts):
    """A PATH with what a build needs, of which pkg-config knows these modules, and these scripts; otherwise no apt-get."""
    folder.mkdir()
    for name in ("awk", "bash", "cat", "dirname", "env", "id"):
        (folder / name).symlink_to(shutil.which(name))
    for name in ("cc", "make", "meson", "ninja"):
        (folder / name).symlink_to(shutil.which("true"))
    scripts["pkg-config"] = f"case ' {modules} ' in *\" $2 \"*) exit 0;; esac\nexit 1\n"
    for name, text in scripts.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text("#!/bin/sh\n" + text)
        (folder / name).chmod(0o755)
    return subprocess.run(["bash", ROOT / "tools" / "install-deps", "build"], env={"PATH": str(folder)}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("target", ["all", "install", "run"])
def test_a_build_asks_for_no_mpi_ceph_or_torch(target):
    """What only tests need is asked for by `make test`."""
    recipe = subprocess.run(["make", "-n", "-C", ROOT, target], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")}).stdout
    asked = [line.split() for line in recipe.splitlines() if "tools/install-deps" in line]
    assert asked == [["tools/install-deps", "build"]]


NEEDED = "libfyaml libisal libxxhash libzstd"
OPTIONAL = "expat libcrypto libcurl liburing"


def test_without_apt_a_machine_that_has_all_is_fine(tmp_path):
    done = machine(tmp_path / "bin", f"{NEEDED} {OPTIONAL}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_apt_what_is_optional_is_advised_and_the_build_goes_on(tmp_path):
    done = machine(tmp_path / "bin", f"{NEEDED} expat libcrypto libcurl")
    assert done.returncode == 0
    assert "The build does without these" in done.stderr and "dnf install liburing-devel " in done.stderr


def test_without_apt_what_is_missing_is_named_for_other_distributions(tmp_path):
    done = machine(tmp_path / "bin", "libfyaml libxxhash libzstd " + OPTIONAL)
    assert done.returncode == 1
    for words in ("libisal-dev", "dnf install isa-l-devel ", "pacman -S isa-l\n", "zypper install libisal-devel\n"):
        assert words in done.stderr
    assert "libzstd" not in done.stderr


@pytest.mark.parametrize("user", [0, 1000])
def test_an_apt_that_cannot_install_ends_the_build_only_if_something_is_required(tmp_path, user):
    """Without a network, or with a sudo that refuses."""
    scripts = {"id": f"echo {user}\n", "sudo": "echo sudo: no rights >&2\nexit 1\n", "apt-get": "echo no network >&2\nexit 100\n"}
    done = machine(tmp_path / "a", f"{NEEDED} expat libcrypto libcurl", **scripts)
    assert done.returncode == 0
    assert "The build does without these" in done.stderr and "apt-get install liburing-dev (as root)" in done.stderr
    done = machine(tmp_path / "b", f"libfyaml libisal libxxhash {OPTIONAL}", **scripts)
    assert done.returncode == 1 and "apt-get install libzstd-dev (as root)" in done.stderr


# ---- tools/install-extras ----


def test_man_pages_and_completions_of_the_command_are_installed_and_removed(tmp_path):
    prefix = tmp_path / "prefix"
    run(ROOT / "tools" / "install-extras", binary(), prefix)
    commands = re.findall(r"^  ([a-z]+) {2,}", run(binary(), "--help"), re.M)
    assert "index" in commands
    assert files_of(prefix) == sorted(["share/bash-completion/completions/shoal", "share/fish/vendor_completions.d/shoal.fish",
                                       "share/zsh/site-functions/_shoal", "share/man/man1/shoal.1", "share/man/man3/shoal.3",
                                       *(f"share/man/man1/shoal-{command}.1" for command in commands)])
    assert "shoal \\- " in (prefix / "share/man/man1/shoal.1").read_text()
    run(ROOT / "tools" / "install-extras", "--remove", prefix)
    assert files_of(prefix) == [] and not (prefix / "share").exists()


# ---- tools/man-library.py ----


def library_page(*options):
    page = run(ROOT / "tools" / "man-library.py", "0.1.0")
    return run("mandoc", "-T", *options, input=page)


def test_the_manual_page_of_the_library_declares_every_function_and_type():
    page = re.sub(r".\x08", "", library_page("utf8"))
    assert set(re.findall(r"^ {7}\S.*?\b(shoal_\w+)\(", page, re.M)) == declared()
    text = HEADER.read_text()
    for kind, name in re.findall(r"^(struct|enum) (\w+) \{", text, re.M):
        assert re.search(rf"^ {{7}}{kind} {name} \{{$", page, re.M), name
    for title in re.findall(r"^/\* ---- (.*?) -+ \*/$", text, re.M):
        assert re.search(rf"^ {{3}}{title}$", page, re.M), title
    assert not re.search("SHOAL_API|SHOAL_CHECKED", page)


def test_the_manual_pages_are_well_formed():
    """mandoc's only wish is a date, which would differ from build to build."""
    lint = ["mandoc", "-T", "lint", "-W", "warning"]
    for page in (run(ROOT / "tools" / "man-library.py", "0.1.0"), run(binary(), "help", "--man"), run(binary(), "help", "--man", "index")):
        said = subprocess.run(lint, input=page, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        assert [line for line in said if "missing date" not in line] == []


# ---- The README's lines ----


def test_the_first_line_of_the_readme_installs_the_command_the_library_and_the_manual_pages(lacking, tmp_path):
    """As pasted, except that the build and the place are those of the test. tools/try-in-debian runs the other line."""
    block = re.search(r"^## Install\n\n((?:    .*\n)+)", (ROOT / "README.md").read_text(), re.M)[1]
    first, second = (line.split("    #")[0].strip() for line in block.splitlines())
    assert "venv" in second.split("&&")[0] and second.endswith("env/bin/pip install .")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sudo").write_text('#!/bin/sh\nexec "$@"\n')  # tests may be run by someone who may not
    (tmp_path / "bin" / "sudo").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    environment.update(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", MAKEFLAGS=f"BUILD={lacking} DESTDIR={tmp_path / 'to'} PREFIX=/usr/local")
    run("bash", "-c", first, env=environment, cwd=ROOT)
    assert {"bin/shoal", "include/shoal.h", "share/man/man1/shoal.1", "share/man/man3/shoal.3"} < set(files_of(tmp_path / "to" / "usr" / "local"))
