"""ETags: kept by index --etags, shown, compared, and asked for by read and run --if-match."""

import hashlib
import json
import os
import re
import shutil
import signal
import sys

import pytest

from conftest import ROOT, Client, binary
from fault_server import Answer, FaultServer, page
from objects import Handler, etag
from test_list import BOUND, Computed

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from shoalcat import Catalog  # noqa: E402

NONE = 2**32 - 1


def index(client, path, *options, uri="s3://bucket"):
    return client.shoal("index", uri, "-o", path, "--etags", *options)


def good(client, path, *options, **more):
    done = index(client, path, "-q", *options, **more)
    assert (done.returncode, done.stderr) == (0, b"")
    return path


def info(client, path):
    return json.loads(client.shoal("info", path, "--json").stdout)


def etags(path):
    """As a reader has them that knows the format's page alone."""
    found = Catalog(path).etags()
    return None if found is None else list(found)


def refused(done, *words):
    """One sentence, and nothing but that."""
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    return done.stderr


# ---- What is kept ----------------------------------------------------------------------------------

DIGEST = "0123456789abcdef00ff10203040506f"
KINDS = {  # as it stands in the page, and what is kept
    "plain": (f"&quot;{DIGEST}&quot;", DIGEST),
    "of one part": (f"&quot;{DIGEST}-1&quot;", DIGEST + "-1"),
    "of many parts": (f"&quot;{DIGEST}-10000&quot;", DIGEST + "-10000"),
    "of as many parts as fit": (f"&quot;{DIGEST}-{NONE - 1}&quot;", f"{DIGEST}-{NONE - 1}"),
    "in plain quotes": (f'"{DIGEST}"', DIGEST),
    "without quotes": (DIGEST, DIGEST),
    "in other references": (f"&#34;{DIGEST}&#x22;", DIGEST),
    "in CDATA": (f'<![CDATA["{DIGEST}"]]>', DIGEST),
    "with spaces around": (f" {DIGEST}\n", DIGEST),
    "of zeros": (f"&quot;{'0' * 32}&quot;", "0" * 32),
    "of too many parts": (f"&quot;{DIGEST}-{NONE}&quot;", None),
    "of no parts": (f"&quot;{DIGEST}-0&quot;", None),
    "with a zero in front": (f"&quot;{DIGEST}-01&quot;", None),
    "of parts without a number": (f"&quot;{DIGEST}-&quot;", None),
    "of more than a number": (f"&quot;{DIGEST}-2x&quot;", None),
    "in upper case": (f"&quot;{DIGEST.upper()}&quot;", None),
    "too short": (f"&quot;{DIGEST[1:]}&quot;", None),
    "too long": (f"&quot;{DIGEST}0&quot;", None),
    "weak": (f"W/&quot;{DIGEST}&quot;", None),
    "with half its quotes": (f"&quot;{DIGEST}", None),
    "a word": ("&quot;0&quot;", None),
    "empty": ("", None),
}


def listing(keys, tags):
    """A script that lists these keys with these ETags."""
    def script(query, nr, found):
        return Answer(body=page(found, False, etags=[tags[keys.index(key)].encode() for key in found]))
    return script


def test_etags_of_the_usual_kinds_are_kept_and_others_counted(tmp_path):
    keys = [b"k%02d" % i for i in range(len(KINDS))]
    with FaultServer(keys, listing(keys, [said for said, _ in KINDS.values()])) as server:
        client = Client(tmp_path, server.url)
        done = index(client, tmp_path / "c", "--json")
    kept = [kept for _, kept in KINDS.values()]
    assert done.returncode == 0 and json.loads(done.stdout)["odd_etags"] == kept.count(None)
    assert b"%d without an ETag in the catalog, because their ETags are not MD5" % kept.count(None) in done.stderr
    assert dict(zip(KINDS, etags(tmp_path / "c"))) == dict(zip(KINDS, kept))
    Catalog(tmp_path / "c").check()
    shown = client.shoal("ls", tmp_path / "c", "--etags", "--sizes").stdout.decode().splitlines()
    assert shown == [f"{key.decode()}\t{len(key)}\t{tag or '-'}" for key, tag in zip(keys, kept)]
    assert client.shoal("verify", tmp_path / "c").returncode == 0


def test_an_object_with_two_etags_is_no_answer(tmp_path):
    keys = [b"k"]
    with FaultServer(keys, listing(keys, [DIGEST + "</ETag><ETag>" + DIGEST])) as server:
        client = Client(tmp_path, server.url)
        done = index(client, tmp_path / "c", "-q")
        assert done.returncode == 1 and b"two ETags" in done.stderr
        assert client.shoal("index", "s3://bucket", "-o", tmp_path / "c", "-q").returncode == 0


def test_without_the_option_nothing_is_kept_and_the_digest_is_the_same(tmp_path):
    with Computed(3000, "hex", 0, "--etags") as server:
        client = Client(tmp_path, server.url)
        done = client.shoal("index", "s3://bench", "-o", tmp_path / "without", "-q")
        assert (done.returncode, done.stderr) == (0, b"")
        good(client, tmp_path / "with", uri="s3://bench")
    without, kept = info(client, tmp_path / "without"), info(client, tmp_path / "with")
    assert (without.pop("etags"), kept.pop("etags")) == (False, True)
    sums = 8 * -(-60000 // 16384)  # of the section's pages, and an entry in the table, and the line in LIST
    assert kept.pop("file_bytes") - without.pop("file_bytes") == 60000 + sums + 24 + len("etags 1\n")
    # How the file is cut, and what is said of the listing, is no part of it.
    assert kept.pop("bytes_per_name") - without.pop("bytes_per_name") < 0.02
    assert kept == without
    assert etags(tmp_path / "without") is None
    assert b"etags           no" in client.shoal("info", tmp_path / "without").stdout
    assert b"etags           yes" in client.shoal("info", tmp_path / "with").stdout
    assert client.shoal("ls", tmp_path / "without", "--etags", "--limit", 1).stdout.endswith(b"\t-\n")


def test_an_empty_bucket_has_a_catalog_that_knows_of_etags(tmp_path):
    with FaultServer([]) as server:
        client = Client(tmp_path, server.url)
        good(client, tmp_path / "c", "--force")
    assert info(client, tmp_path / "c")["etags"] and etags(tmp_path / "c") is None


# ---- However the names travel ------------------------------------------------------------------------


def of_rank(rank):
    """As bench/list_server has them."""
    return "d41d8cd98f00b204%016x" % rank + ("-12" if rank % 7 == 0 else "")


NR = 60_000


@pytest.fixture(scope="module")
def computed():
    with Computed(NR, "hex", 1, "--etags") as server:
        yield server


@pytest.mark.parametrize("options", [["--connections", "1"], ["--connections", "16"], ["--no-sizes"],
                                     ["--memory", "48M", "--connections", "64"], ["--resume"]], ids=" ".join)
def test_each_name_keeps_its_etag(computed, tmp_path, options):
    client = Client(tmp_path, computed.url)
    assert etags(good(client, tmp_path / "c", *options, uri="s3://bench")) == [of_rank(i) for i in range(NR)]


def test_shards_keep_theirs(computed, tmp_path):
    client = Client(tmp_path, computed.url)
    parts = [etags(good(client, tmp_path / "c", "--shard", f"{k}/3", uri="s3://bench")) for k in range(3)]
    assert sum(parts, []) == [of_rank(i) for i in range(NR)]


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="there is no mpirun.openmpi here")
def test_ranks_write_the_same_section(computed, tmp_path):
    client = Client(tmp_path, computed.url)
    client.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SHOAL_MODULE_DIR=str(binary().parent),
                      ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    found = set()
    for ranks in (1, 2, 3, 5):
        path = tmp_path / f"c{ranks}"
        done = client.run(shutil.which("mpirun.openmpi"), "--oversubscribe", "-n", ranks, binary(), "index", "s3://bench",
                          "-o", path, "-q", "--connections", 4, "--etags")
        assert done.returncode == 0, done.stderr
        catalog = Catalog(path)
        found.add((catalog.digest, hashlib.md5(catalog.sections[b"ETGS"]).hexdigest()))
        if ranks == 5:
            assert list(catalog.etags()) == [of_rank(i) for i in range(NR)]
    assert len(found) == 1


def test_an_interrupted_list_goes_on_with_its_etags(tmp_path):
    with Computed(NR, "hex", 30, "--etags") as server:
        client = Client(tmp_path, server.url)
        command = ["index", "s3://bench", "-o", tmp_path / "c", "-q", "--resume", "--connections", "4"]
        with client.start(*command, "--etags") as child:
            server.wait_for(30)
            child.send_signal(signal.SIGINT)
            words = child.communicate(timeout=BOUND)[1]
        assert b"repeat the command to continue" in words
        done = client.shoal(*command)  # without --etags it is another listing
        assert done.returncode == 1 and b"with other options" in done.stderr
        done = client.shoal(*command, "--etags", "--json")
        assert (done.returncode, done.stderr) == (0, b"") and json.loads(done.stdout)["resumed"] > 1000
    assert etags(tmp_path / "c") == [of_rank(i) for i in range(NR)]


# ---- Who may ask for them ----------------------------------------------------------------------------


def test_only_buckets_have_etags(tmp_path):
    client = Client(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "list").write_bytes(b"a\n")
    out = tmp_path / "out"
    out.mkdir()
    refused(client.shoal("index", tmp_path, "--etags", "-o", out / "c"), b"--etags is for a bucket, as s3://bucket/prefix")
    refused(client.shoal("index", tmp_path, "--etags", "--update", "old", "-o", out / "c"), b"--etags is for a bucket")
    refused(client.shoal("index", tmp_path / "list", "--etags", "-o", out / "c"), b"--etags is for a bucket, not for a LIST")
    refused(client.shoal("index", "--pattern", "{}", "--count", 1, "--etags", "-o", out / "c"), b"--etags is for a bucket")
    refused(client.shoal("index", "s3://b", "--etags", "--update", "old", "-o", out / "c"), b"--update is for a directory")
    assert os.listdir(out) == []


# ---- Objects that change -----------------------------------------------------------------------------


@pytest.fixture
def dataset(server, client, tmp_path):
    """Forty objects of 500 bytes, and their catalog with ETags."""
    for i in range(40):
        server.objects[b"bucket", b"data/f %02d" % i] = bytes([i]) * 500
    server.objects[b"bucket", b"data/zero"] = b""
    return good(client, tmp_path / "x.cat", uri="s3://bucket/data")


def change(server, name=b"data/f 07"):
    """Another object of the same size."""
    server.objects[b"bucket", name] = b"\xff" * len(server.objects[b"bucket", name])


def read(client, path, *options):
    return client.shoal("read", path, "-q", "--if-match", *options)


def sentence(done, *words):
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


WORDS = b"'f 07' changed since it was listed (ETag mismatch)"


@pytest.mark.parametrize("engine", [(), ("--engine", "threads", "--in-flight", 4)], ids=["s3", "threads"])
def test_every_get_has_the_listed_etag(server, client, dataset, engine):
    server.log.clear()
    done = read(client, dataset, "--json", *engine)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["audit"]["exactly_once"]
    gets = [r for r in server.log if r.method == "GET"]
    assert len(gets) == 41 and all(r.headers["If-Match"] == etag(server.objects[r.bucket, r.key]) for r in gets)
    server.log.clear()
    assert client.shoal("read", dataset, "-q", *engine).returncode == 0
    assert not [r for r in server.log if "If-Match" in r.headers]


@pytest.mark.parametrize("engine", [(), ("--engine", "threads", "--in-flight", 4)], ids=["s3", "threads"])
def test_an_object_that_changed_is_an_error_by_policy(server, client, dataset, engine):
    change(server)
    assert client.shoal("read", dataset, "-q", *engine).returncode == 0, "nothing else tells that it changed"
    sentence(read(client, dataset, *engine), WORDS)
    done = read(client, dataset, "--keep-going", "--json", *engine)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and (result["samples"], result["errors"]) == (40, 1)
    assert WORDS in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("body", [b"", b"x" * 499, b"x" * 501])
def test_one_that_has_another_size_as_well_changed(server, client, dataset, body):
    server.objects[b"bucket", b"data/f 07"] = body
    sentence(read(client, dataset), WORDS)


def test_an_empty_object_that_was_written_anew_changed(server, client, dataset):
    server.objects[b"bucket", b"data/zero"] = b"x"
    sentence(read(client, dataset), b"'zero' changed since it was listed")


def test_one_that_is_gone_is_not_there(server, client, dataset):
    del server.objects[b"bucket", b"data/f 07"]
    sentence(read(client, dataset), b"data/f 07", b"does not exist")


def test_ranges_of_an_object_have_its_etag(server, client, dataset, tmp_path):
    path = good(client, tmp_path / "r.cat", "--samples-per-file", 5, "--include", "f 0*", uri="s3://bucket/data")
    server.log.clear()
    assert read(client, path, "--batch", 1).returncode == 0
    assert len(server.log) == 50 and all("If-Match" in r.headers and "Range" in r.headers for r in server.log)
    change(server)
    sentence(read(client, path), WORDS)
    server.log.clear()
    done = read(client, path, "--pieces", "--slot", 16, "--keep-going", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["samples"] == 45
    assert all("If-Match" in r.headers for r in server.log)


def test_a_server_that_ignores_it_is_found_out(server, client, dataset):
    def ignore(handler, request):
        del request.headers["If-Match"]
        handler.send(request, **handler.server.act(request))

    server.fault(ignore, 10**6)
    assert read(client, dataset).returncode == 0
    change(server)
    sentence(read(client, dataset), WORDS)


def test_faults_that_pass_change_nothing(server, client, dataset):
    for fault in (Handler.cut, Handler.hang_up):
        server.fault(fault, 3)
    assert read(client, dataset).returncode == 0


def test_objects_whose_etag_is_not_kept_are_read_as_they_are(server, client, dataset, tmp_path):
    listed = page([b"data/f 07"], False, sizes=[b"500"], etags=[b"&quot;odd&quot;"])
    server.fault({"body": listed}, query="list-type")
    path = good(client, tmp_path / "odd.cat", uri="s3://bucket/data")
    change(server)
    server.log.clear()
    assert read(client, path).returncode == 0
    assert [r.headers.get("If-Match") for r in server.log] == [None]


def test_a_catalog_without_etags_is_refused(client, dataset, tmp_path):
    path, results = tmp_path / "without.cat", tmp_path / "results"
    assert client.shoal("index", "s3://bucket/data", "-o", path, "-q").returncode == 0
    words = b"the catalog has no ETags to compare with; index the bucket again with --etags"
    assert refused(read(client, path), words).count(b"\n") == 1
    done = client.shoal("run", "retinanet_b200", "--data", path, "--results", results, "-q", "--if-match",
                        "dataset.num_files_train=41", "dataset.format=synthetic")
    assert refused(done, words).count(b"\n") == 1
    assert not results.exists(), "a run that never began leaves nothing"


def test_a_store_that_is_no_bucket_is_refused(client, dataset, tmp_path):
    refused(read(client, dataset, "--data", tmp_path), b"only objects in a bucket have ETags to compare; leave out --if-match")
    refused(read(client, dataset, "--data", "null", "--object-size", 5), b"only objects in a bucket have ETags to compare; leave out --if-match")


def test_verify_tells_objects_that_changed(server, client, dataset):
    def compare():
        done = client.shoal("verify", "--storage", dataset, "--json", "-q")
        return json.loads(done.stdout)[0]["storage"]

    assert compare() == {"same": 41, "missing": 0, "new": 0, "resized": 0, "changed": 0}
    change(server)
    server.objects[b"bucket", b"data/f 08"] = b"shorter"
    assert compare() == {"same": 39, "missing": 0, "new": 0, "resized": 1, "changed": 1}
    done = client.shoal("verify", "--storage", dataset, "-q")
    assert done.returncode == 1 and b"1 with another size, 1 with another ETag, 39 unchanged" in done.stderr
    done = client.shoal("verify", "--storage", dataset)
    assert done.stdout == b"changed\tf 07\nresized\tf 08\t500\t7\n"


RUN = ["dataset.num_files_train=40", "dataset.format=synthetic", "dataset.record_length_bytes=500", "train.epochs=2",
       "reader.batch_size=4", "train.computation_time=0.001", "metric.au=0.0001"]


@pytest.mark.parametrize("data", ["catalog", "bucket"])
def test_a_run_reads_what_was_listed(server, client, dataset, tmp_path, data):
    """From a catalog, or from a bucket that has none: then it is listed with ETags."""
    del server.objects[b"bucket", b"data/zero"]
    path = good(client, tmp_path / "x.cat", uri="s3://bucket/data") if data == "catalog" else "s3://bucket/data"
    server.log.clear()
    command = ["run", "retinanet_b200", "--data", path, "-q", "--if-match", *RUN, "--results"]
    done = client.shoal(*command, tmp_path / "r1")
    assert done.returncode == 0, done.stderr
    gets = [r for r in server.log if r.method == "GET" and r.key.startswith(b"data/f ")]
    assert len(gets) == 80 and all("If-Match" in r.headers for r in gets)
    if data == "catalog":
        change(server)
        done = client.shoal(*command, tmp_path / "r2")
        assert done.returncode == 1 and WORDS in done.stderr


def test_what_a_run_is_resumed_with_must_be_the_same(server, client, dataset, tmp_path):
    del server.objects[b"bucket", b"data/zero"]
    path = good(client, tmp_path / "x.cat", uri="s3://bucket/data")
    change(server)
    command = ["run", "retinanet_b200", "--data", path, "-q", "--results", tmp_path / "r", *RUN]
    assert client.shoal(*command, "--if-match").returncode == 1
    done = client.shoal(*command, "--resume")
    assert done.returncode == 1 and re.search(rb"other options.*--if-match", done.stderr)


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="there is no mpirun.openmpi here")
def test_ranks_say_it_once(server, client, dataset, tmp_path):
    client.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SHOAL_MODULE_DIR=str(binary().parent),
                      ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    start = [shutil.which("mpirun.openmpi"), "--oversubscribe", "-n", 2, binary()]
    change(server)
    done = client.run(*start, "read", dataset, "-q", "--if-match")
    assert done.returncode == 1 and done.stderr.count(WORDS) == 1
    assert client.shoal("index", "s3://bucket/data", "-o", tmp_path / "w", "-q").returncode == 0
    done = client.run(*start, "read", tmp_path / "w", "-q", "--if-match")
    assert done.returncode == 2 and done.stderr.count(b"the catalog has no ETags") == 1
