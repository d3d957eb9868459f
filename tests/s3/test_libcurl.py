"""Which libcurl is loaded: the system's, or the one that a wheel brings for systems without it."""

import shutil
import subprocess

import pytest

from conftest import binary

FUNCTIONS = """easy_cleanup easy_getinfo easy_init easy_setopt easy_strerror getdate global_init multi_add_handle multi_assign multi_cleanup
multi_info_read multi_init multi_remove_handle multi_setopt multi_socket_action multi_strerror""".split()
OLD = """struct { int age; const char *version; unsigned number; } info = { 0, "7.61.1", 0x073d01 };
void *curl_version_info(int age) { return &info; }
""" + "".join("void curl_%s(void) {}\n" % name for name in FUNCTIONS)


@pytest.fixture
def program(tmp_path):
    """The command in a prefix of its own."""
    (tmp_path / "bin").mkdir()
    return shutil.copy(binary(), tmp_path / "bin" / "shoal")


@pytest.fixture(params=["damaged", "old"])
def system(request, tmp_path):
    """A folder with a libcurl that cannot be used, and what is said of it."""
    folder = tmp_path / "system"
    folder.mkdir()
    if request.param == "damaged":
        (folder / "libcurl.so.4").write_text("not a library")
        return folder, "buckets need libcurl: "
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "libcurl.so.4"], input=OLD, text=True, check=True)
    return folder, "buckets need libcurl 7.85.0 or later, not 7.61.1"


def bring_own(tmp_path):
    """The system's libcurl in the place of a wheel's."""
    found = subprocess.run(["cc", "-print-file-name=libcurl.so.4"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    (tmp_path / "share" / "shoal").mkdir(parents=True)
    shutil.copy(found, tmp_path / "share" / "shoal" / "libshoal_curl.so")


def test_a_libcurl_that_cannot_be_used_is_an_error_and_no_bucket_is_read(client, program, system):
    done = client.run(program, "list", "s3://bucket", LD_LIBRARY_PATH=str(system[0]))
    assert (done.returncode, done.stdout) == (1, b"") and system[1] in done.stderr.decode()


def test_the_libcurl_of_the_prefix_is_used_instead(client, server, program, system, tmp_path):
    bring_own(tmp_path)
    server.objects[b"bucket", b"a"] = b"one"
    done = client.run(program, "list", "s3://bucket", LD_LIBRARY_PATH=str(system[0]))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\n", b"")


def test_the_systems_libcurl_is_preferred(client, server, program, tmp_path):
    bring_own(tmp_path)
    (tmp_path / "share" / "shoal" / "libshoal_curl.so").write_text("not a library")
    server.objects[b"bucket", b"a"] = b"one"
    assert client.run(program, "list", "s3://bucket").stdout == b"a\n"
