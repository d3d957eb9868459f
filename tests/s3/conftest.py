"""What the tests of S3 share: the command and a driver of the store, both with the environment of a server of ours.

The command is the one that SHOAL names, or build/shoal; the driver is tests/s3_driver beside it.
"""

import os
import pathlib
import resource
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from objects import ACCESS, SECRET, Objects  # noqa: E402

TIMEOUT = 120  # seconds; only a command that hangs takes as long


def binary():
    return pathlib.Path(os.path.abspath(os.environ.get("SHOAL", ROOT / "build" / "shoal")))


class Client:
    """Runs the command and the driver. What is in `env` is added to an environment without settings of AWS."""

    def __init__(self, home, url):
        self.env = {"HOME": str(home), "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": ACCESS,
                    "AWS_SECRET_ACCESS_KEY": SECRET, "SHOAL_S3_BACKOFF_MS": "20", "no_proxy": "*"}

    def environment(self, env):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHOAL_S3"))}
        merged = {**keep, **self.env, **env}
        return {k: v for k, v in merged.items() if v is not None}

    def run(self, program, *args, stdin=b"", limits=(), **env):
        def limit():
            for which, pair in dict(limits).items():
                resource.setrlimit(which, pair)

        return subprocess.run([str(program), *(a if isinstance(a, bytes) else str(a) for a in args)], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
                              env=self.environment(env), preexec_fn=limit if limits else None)

    def start(self, *args, **env):
        """The running command."""
        return subprocess.Popen([str(binary()), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(env))

    def shoal(self, *args, **more):
        return self.run(binary(), *args, **more)

    def driver(self, verb, *args, uri="s3://bucket", **more):
        """rc, standard output, words and the counts of what was sent."""
        done = self.run(binary().parent / "tests" / "s3_driver", uri, verb, *args, **more)
        lines = done.stderr.decode(errors="surrogateescape").split("\n")[:-1]
        assert lines and lines[-1].startswith("requests "), done.stderr
        numbers = lines[-1].split()
        done.counts = dict(zip(numbers[0::2], map(int, numbers[1::2])))
        done.words = "\n".join(lines[:-1])
        return done

    def good(self, verb, *args, **more):
        done = self.driver(verb, *args, **more)
        assert (done.returncode, done.words) == (0, "")
        return done

    def bad(self, name, verb, *args, words=(), **more):
        """It fails with this errno's name, and says all of these words."""
        done = self.driver(verb, *args, **more)
        assert done.returncode == 1
        assert done.words.startswith(name + ": "), done.words
        for word in words:
            assert word in done.words, done.words
        return done


@pytest.fixture
def server():
    with Objects() as objects:
        yield objects


@pytest.fixture
def client(server, tmp_path):
    return Client(tmp_path, server.url)


@pytest.fixture(scope="session")
def ceph(tmp_path_factory):
    """The environment of a real server, started once for all tests."""
    folder = tmp_path_factory.mktemp("ceph") / "server"
    tool = ROOT / "tools" / "s3-server"
    started = subprocess.run([tool, "start", folder, "--memory"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=300, check=False)
    assert started.returncode == 0, started.stderr
    try:
        yield dict(line.split("=", 1) for line in started.stdout.split("\n") if line)
    finally:
        subprocess.run([tool, "stop", folder], timeout=60, check=True)


@pytest.fixture
def ceph_client(ceph, tmp_path):
    client = Client(tmp_path, ceph["AWS_ENDPOINT_URL"])
    client.env.update(ceph)
    return client
