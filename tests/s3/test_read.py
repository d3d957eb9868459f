"""shoal read of a catalog whose root is a bucket, and the options for S3 of the commands."""

import json
import re
import resource
import signal
import time

import pytest

from objects import ACCESS, SECRET, Handler, error

LOOPS = pytest.mark.parametrize("loops", ["1", "4"])
NAMES = [b"a b+c", b"d/e%20f", b"d/empty", "d/ünï".encode(), b"last/"]


@pytest.fixture
def dataset(server, client, tmp_path):
    """A catalog of 60 objects of odd names and different sizes below s3://bucket/data."""
    bodies = {name + b"%d" % i: bytes([i]) * (i * 997) for i in range(12) for name in NAMES}
    for name, body in bodies.items():
        server.objects[b"bucket", b"data/" + name] = body
    path = tmp_path / "x.cat"
    listing = b"".join(name + b"\t%d\0" % len(body) for name, body in bodies.items())
    done = client.shoal("index", "-", "-0", "-q", "--root", "s3://bucket/data", "-o", path, stdin=listing)
    assert (done.returncode, done.stderr) == (0, b"")
    return path


def read(client, path, *options, **env):
    done = client.shoal("read", path, "--json", "-q", *options, **env)
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def read_with_errors(done):
    assert done.returncode == 1
    return json.loads(done.stdout)


def fails(done, *words):
    assert done.returncode == 1
    lines = done.stderr.decode().split("\n")[:-1]
    assert len(lines) == 1 and not done.stdout, lines
    for word in words:
        assert word in lines[0]


def test_an_epoch_is_read_exactly_once(server, client, dataset):
    for more in ([], ["--in-flight", "3"], ["--in-flight", "1", "--prefetch", "1", "--batch", "7"]):
        server.log.clear()
        result = read(client, dataset, *more)
        assert result["engine"] == "s3" and result["audit"]["exactly_once"]
        assert result["bytes"] == sum(map(len, server.objects.values()))
        sent = result["requests"]
        assert (sent["sent"], sent["retries"], sent["throttled"]) == (60, 0, 0) and len(server.log) == 60
        assert sent["first_byte_us"]["p50"] > 0 and sent["total_us"]["p99"] >= sent["first_byte_us"]["p50"]


@pytest.mark.parametrize("loops, in_flight, used", [(1, 60, 1), (2, 60, 2), (4, 60, 4), (16, 60, 16), (64, 60, 32), (4, 2, 2)])
def test_event_loops_share_the_objects(server, client, dataset, loops, in_flight, used):
    result = read(client, dataset, "--in-flight", in_flight, "--epochs", "3", SHOAL_S3_LOOPS=str(loops))
    assert result["audit"]["exactly_once"] and result["bytes"] == 3 * sum(map(len, server.objects.values()))
    sent = result["requests"]
    assert (sent["sent"], sent["event_loops"]) == (180, used)
    assert (sent["by_other_threads"] > 0) == (used > 1) and sent["by_other_threads"] < 180
    assert sorted(r.key for r in server.log) == sorted(3 * [key for _, key in server.objects])


def test_event_loops_that_fail_are_reported_by_the_first(server, client, dataset):
    server.objects.pop((b"bucket", b"data/d/empty7"))
    done = client.shoal("read", dataset, "-q", "--in-flight", "60", SHOAL_S3_LOOPS="4")
    fails(done, "d/empty7", "it does not exist")
    kept = read_with_errors(client.shoal("read", dataset, "--json", "--keep-going", "--in-flight", "60", SHOAL_S3_LOOPS="4"))
    assert kept["errors"] == 1 and kept["samples"] == 59


def test_too_few_open_files_for_more_event_loops(client, dataset):
    result = read(client, dataset, "--in-flight", "60", limits={resource.RLIMIT_NOFILE: (100, 100)}, SHOAL_S3_LOOPS="4")
    assert result["audit"]["exactly_once"] and result["requests"]["event_loops"] == 1


@pytest.mark.parametrize("loops", ["0", "65", "x"])
def test_wrong_numbers_of_event_loops_are_refused(client, dataset, loops):
    fails(client.shoal("read", dataset, "-q", SHOAL_S3_LOOPS=loops), "SHOAL_S3_LOOPS must be 1 to 64", loops)


def test_threads_read_the_same(client, dataset):
    result = read(client, dataset, "--engine", "threads", "--in-flight", "4")
    assert result["engine"] == "threads" and result["audit"]["exactly_once"] and "requests" not in result


def test_records_are_ranges_of_an_object(server, client, tmp_path):
    server.objects[b"bucket", b"r"] = bytes(range(100))
    path = tmp_path / "r.cat"
    client.shoal("index", "-", "-q", "--root", "s3://bucket", "--samples-per-file", "7", "-o", path, stdin=b"r\t100\n")
    result = read(client, path)
    assert result["samples"] == 7 and result["bytes"] == 100 and result["audit"]["exactly_once"]
    assert {r.headers["Range"] for r in server.log} == {"bytes=0-99"}, "neighbours of a batch are one request"
    server.log.clear()
    result = read(client, path, "--batch", "1")
    assert result["samples"] == 7 and result["bytes"] == 100 and result["audit"]["exactly_once"]
    assert {r.headers["Range"] for r in server.log} == {f"bytes={14 * i}-{14 * i + 13 + 2 * (i == 6)}" for i in range(7)}


@LOOPS
def test_faults_that_pass_are_counted_and_change_nothing(server, client, dataset, loops):
    for fault in (error(503, "SlowDown"), Handler.cut, Handler.hang_up, error(500, "InternalError")):
        server.fault(fault, 3)
    result = read(client, dataset, "--in-flight", "8", AWS_MAX_ATTEMPTS="20", SHOAL_S3_LOOPS=loops)
    assert result["audit"]["exactly_once"]
    # libcurl itself sends again where a kept connection had been closed.
    assert 9 <= result["requests"]["retries"] <= 12 and result["requests"]["throttled"] == 3
    assert result["requests"]["sent"] == 60 + result["requests"]["retries"]


@pytest.mark.parametrize("odirect", [False, True])
def test_a_workload_that_reads_past_the_page_cache_may_be_run_on_a_bucket(server, client, tmp_path, odirect):
    for i in range(8):
        server.objects[b"bucket", b"train/img_%d_of_8.npz" % i] = bytes(1000)
    (tmp_path / "w.yaml").write_text("model: {name: w}\ndataset: {format: npz, num_files_train: 8, record_length_bytes: 1000}\n"
                                     "reader: {batch_size: 2, odirect: %s}\ntrain: {epochs: 1}\nmetric: {au: 0.0001}\n" % str(odirect).lower())
    run = ["run", tmp_path / "w.yaml", "--data", "s3://bucket", "--results"]
    done = client.shoal(*run, tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert (b"reader.odirect is ignored: objects in a bucket are not in the page cache" in done.stderr) == odirect
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["shoal"]["direct"] is False
    for option in "--direct", "--drop-cache":
        done = client.shoal(*run, tmp_path / "other", "-q", option)
        assert done.returncode == 2 and f"{option} is for files: objects in a bucket" in done.stderr.decode()
    assert not (tmp_path / "other").exists(), "a run that never began leaves nothing"


def test_an_object_that_vanished_is_named(server, client, dataset):
    del server.objects[b"bucket", b"data/d/e%20f3"]
    fails(client.shoal("read", dataset, "-q"), "data/d/e%20f3", "does not exist")
    done = client.shoal("read", dataset, "-q", "--keep-going", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["samples"] == 59
    assert b"d/e%20f3" in done.stderr


def test_each_object_that_vanished_is_named_although_slots_are_used_again(server, client, tmp_path):
    for i in range(12):
        if i % 3 != 1:
            server.objects[b"bucket", b"d/f%02d" % i] = b"x" * 100
    listing = b"".join(b"f%02d\t100\0" % i for i in range(12))
    done = client.shoal("index", "-", "-0", "-q", "--root", "s3://bucket/d", "-o", tmp_path / "y.cat", stdin=listing)
    assert done.returncode == 0
    done = client.shoal("read", tmp_path / "y.cat", "-q", "--batch", 1, "--in-flight", 1, "--mode", "sequential", "--keep-going")
    assert done.returncode == 1
    assert re.findall(rb"d/f\d\d", done.stderr) == [b"d/f01", b"d/f04", b"d/f07", b"d/f10"], done.stderr


@pytest.mark.parametrize("change,words", [(lambda b: b[:-1], "only 996 of the 997 bytes"), (lambda b: b + b"x", "larger than the 997"),
                                          (lambda b: b"", "only 0 of the 997 bytes")])
def test_an_object_of_another_length_is_named(server, client, dataset, change, words):
    at = b"bucket", b"data/a b+c1"
    server.objects[at] = change(server.objects[at])
    fails(client.shoal("read", dataset, "-q"), "a b+c1", words)


def test_an_empty_object_that_has_grown_is_named(server, client, dataset):
    server.objects[b"bucket", b"data/a b+c0"] = b"x"
    fails(client.shoal("read", dataset, "-q"), "a b+c0", "larger than the 0")


def test_refusals_have_the_server_s_words(server, client, dataset):
    fails(client.shoal("read", dataset, "-q", AWS_SECRET_ACCESS_KEY="other"), "secret key")
    server.fault(error(403, "AccountProblem", "pay your bills"), 10**6)
    fails(client.shoal("read", dataset, "-q"), "AccountProblem", "pay your bills")


def test_refusals_too_long_for_a_line_of_many_end_in_dots(server, client, dataset):
    server.fault(error(403, "AccountProblem", "pay your bills, " * 20), 10**6)
    said = client.shoal("read", dataset, "-q", "--keep-going").stderr.decode().splitlines()
    assert len(said) == 10 and all(line.startswith("shoal read: sample ") for line in said)
    assert sum(line.endswith("...") for line in said) > 0, said


@LOOPS
def test_a_server_that_hangs_is_given_up(server, client, dataset, loops):
    server.fault(Handler.sleep, 10**6)
    fails(client.shoal("read", dataset, "-q", AWS_MAX_ATTEMPTS="1", SHOAL_S3_TIMEOUT="1", SHOAL_S3_LOOPS=loops), "no response from 127.0.0.1")


@LOOPS
def test_an_interrupt_ends_it_at_once(server, client, dataset, loops):
    server.fault(Handler.sleep, 10**6)
    running = client.start("read", dataset, "-q", SHOAL_S3_LOOPS=loops)
    while not server.log:
        time.sleep(0.02)
    started = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=20)
    assert running.returncode == -signal.SIGINT and words == b"shoal read: interrupted\n"
    assert time.monotonic() - started < 10


def test_connections_stay_below_the_number_of_open_files(client, dataset):
    result = read(client, dataset, "--in-flight", "60", limits={resource.RLIMIT_NOFILE: (40, 40)})
    assert result["audit"]["exactly_once"] and "30 connections" in result["engine_detail"]


def test_nobody_there_is_said_once(client, dataset):
    fails(client.shoal("read", dataset, "-q", "--endpoint", "http://127.0.0.1:1"), "cannot connect to 127.0.0.1:1")


def test_options_count_more_than_the_environment(server, client, dataset, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[mine]\naws_access_key_id={ACCESS}\naws_secret_access_key={SECRET}\n")
    read(client, dataset, "--endpoint", server.url, "--region", "here-1", "--profile", "mine", "--bucket-style", "path",
         AWS_ENDPOINT_URL="http://127.0.0.1:1", AWS_ACCESS_KEY_ID="wrong", AWS_SECRET_ACCESS_KEY="wrong")
    assert {r.region for r in server.log} == {"here-1"}
    fails(client.shoal("read", dataset, "-q", "--anonymous"), "AccessDenied")
    fails(client.shoal("read", dataset, "-q", "--ca", "/not/there"), "/not/there")


def test_the_bucket_may_be_another_than_the_catalog_s(server, client, dataset):
    server.buckets.add(b"other")
    server.objects = {(b"other", key): body for (_, key), body in server.objects.items()}
    assert read(client, dataset, "--data", "s3://other/data/")["audit"]["exactly_once"]
