"""Bucket lists become catalogs: from the scripted server, from a computed one of any size, and from a real one."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from conftest import ROOT, Client, binary
from fault_server import Answer, FaultServer, error, page

KEYS = [b"train/%05d.jpg" % i for i in range(2500)]
BOUND = 60  # seconds in which anything ends


def names(client, path):
    return client.shoal("ls", path, "-0").stdout.split(b"\0")[:-1]


def index(client, path, *options, uri="s3://bucket", **env):
    return client.shoal("index", uri, "-o", path, "-q", *options, **env)


def good(client, path, *options, **more):
    done = index(client, path, "--force", *options, **more)  # one path for several catalogs
    assert (done.returncode, done.stderr) == (0, b"")
    return names(client, path)


def info(client, path):
    return json.loads(client.shoal("info", path, "--json").stdout)


# ---- A server that misbehaves ---------------------------------------------------------------------


def run_script(tmp_path, script, *options, keys=None, uri="s3://bucket", **env):
    out = tmp_path / "out"
    out.mkdir()
    with FaultServer(KEYS if keys is None else keys, script) as server:
        client = Client(tmp_path, server.url)
        started = time.monotonic()
        done = index(client, out / "c", "--connections", 4, *options, uri=uri, SHOAL_S3_TIMEOUT="1", **{"AWS_MAX_ATTEMPTS": "6", **env})
        assert time.monotonic() - started < BOUND
        return client, done, out, server.nr


SURVIVED = {
    "it is slow": lambda q, nr, keys: Answer(body=page(keys, len(keys) == 1000), wait=0.3),
    "it throttles requests now and then": lambda q, nr, keys: error(503, "SlowDown") if nr % 2 else None,
    "it has an internal error at first": lambda q, nr, keys: error(500, "InternalError") if nr < 2 else None,
    "it throttles in another way": lambda q, nr, keys: error(429, "TooManyRequests") if nr == 1 else None,
    "an answer breaks off": lambda q, nr, keys: Answer(body=page(keys, len(keys) == 1000)[:9000], length=99999,
                                                      then="close") if nr in (0, 2) else None,
    "a connection closes without an answer": lambda q, nr, keys: Answer(0, then="close") if nr in (0, 3) else None,
    "it hangs once": lambda q, nr, keys: Answer(0, then="hang") if nr == 1 else None,
    "it hangs in the middle once": lambda q, nr, keys: Answer(body=b"<?xml", length=5000, then="hang") if nr == 1
                                   else None,
    "pages are short": lambda q, nr, keys: Answer(body=page(keys[:7 + nr % 50], True)) if len(keys) > 60 else None,
    "keys come unencoded": lambda q, nr, keys: Answer(body=page(keys, len(keys) == 1000, encode=False)),
    "an empty page says there is more, and there is":
        lambda q, nr, keys: Answer(body=page([], True, token=q["start-after"]))
        if nr == 1 and "start-after" in q else None,
}


@pytest.mark.parametrize("name", SURVIVED)
def test_a_list_is_whole_although(name, tmp_path):
    client, done, out, _ = run_script(tmp_path, SURVIVED[name])
    assert (done.returncode, done.stderr) == (0, b"")
    assert names(client, out / "c") == KEYS


def test_requests_are_counted_with_those_that_were_sent_again(tmp_path):
    with FaultServer(KEYS, SURVIVED["it throttles requests now and then"]) as server:
        client = Client(tmp_path, server.url)
        done = client.shoal("index", "s3://bucket", "-o", tmp_path / "c", "--json", "--connections", 2, SHOAL_S3_BACKOFF_MS="5")
    told = json.loads(done.stdout)["requests"]
    assert told["sent"] == server.nr + server.lookups and told["retries"] == told["throttled"] == server.nr // 2 > 0
    assert 0 < told["percent_in_flight"] <= 100
    said = b", %d requests that used the connections for %.0f %% of the time, %d of them retried, %d throttled responses"
    assert said % (told["sent"], told["percent_in_flight"], told["retries"], told["throttled"]) in done.stderr


def test_of_fewer_requests_than_connections_no_share_is_told(tmp_path):
    with FaultServer([b"a"]) as server:
        client = Client(tmp_path, server.url)
        done = client.shoal("index", "s3://bucket", "-o", tmp_path / "c", "--connections", 64)
    assert done.returncode == 0 and re.fullmatch(rb"1 name in [\d.]+ [mu]?s, 1 request\n", done.stderr), done.stderr


@pytest.mark.parametrize("uri", ["s3://bucket/p/", "s3://bucket/p"])
def test_that_nothing_is_listed_is_said(uri, tmp_path):
    with FaultServer([b"other/x", b"other/y"]) as server:
        client = Client(tmp_path, server.url)
        done = client.shoal("index", uri, "-o", tmp_path / "c")
        assert done.returncode == 1 and b"there is no file in '" in done.stderr and b"--force" in done.stderr
        assert not (tmp_path / "c").exists()
        done = client.shoal("index", uri, "--force", "-o", tmp_path / "c")
        said = done.stderr.split(b"\n")
        assert done.returncode == 0 and said[0] == b"shoal index: no files under '%s': the catalog is empty" % uri.encode()
        assert said[1].startswith(b"0 names in ") and said[2:] == [b""]
        assert good(client, tmp_path / "c", uri=uri) == []


def test_pauses_before_sending_again_are_not_taken_for_requests(tmp_path):
    later = error(503, "SlowDown", headers=("Retry-After: 1",))
    with FaultServer(KEYS[:10], lambda q, nr, keys: later if nr == 0 else None) as server:
        client = Client(tmp_path, server.url)
        done = index(client, tmp_path / "c", "--json", "--connections", 1)
    told = json.loads(done.stdout)
    assert told["requests"]["retries"] == 1 and told["seconds"] > 1
    assert told["requests"]["percent_in_flight"] < 50


def bomb(q, nr, keys):
    entities = b"".join(b'<!ENTITY x%d "%s">' % (i, b"&x%d;" % (i - 1) * 10 if i else b"lol") for i in range(9))
    return Answer(body=page([b"a"], False, head=b"<!DOCTYPE x [%s]>" % entities, tail=b"<Prefix>&x8;</Prefix>"))


LONG = "word \u00fc " * 1000
ORDER = b"it does not list in order, or not from the requested key"
REFUSED = {
    "it only ever throttles requests": (lambda q, nr, keys: error(503, "SlowDown"), b"the server throttles requests"),
    "every answer breaks off": (lambda q, nr, keys: Answer(body=page(keys, True)[:5000], length=70000, then="close"), b""),
    "no answer ever comes": (lambda q, nr, keys: Answer(0, then="hang"), b""),
    "every connection closes": (lambda q, nr, keys: Answer(0, then="close"), b""),
    "it is not XML": (lambda q, nr, keys: Answer(body=b"It works!"), b"has not XML"),
    "it is a web page": (lambda q, nr, keys: Answer(body=b"<html><body>Log in</body></html>"),
                         b"neither a list nor an error"),
    "the XML breaks off": (lambda q, nr, keys: Answer(body=page(keys, True)[:5000]), b"truncated"),
    "it is empty": (lambda q, nr, keys: Answer(body=b""), b"truncated"),
    "tags do not fit": (lambda q, nr, keys: Answer(body=page(keys, True).replace(b"</Key>", b"</Kay>")),
                        b"a mismatched end tag"),
    "it is a bomb": (bomb, b"a document type"),
    "a good status has an error in it": (lambda q, nr, keys: error(200, "InternalError", "try later"), b"InternalError: try later"),
    "there is no word on whether that is all": (lambda q, nr, keys: Answer(body=page(keys, None)), b"no IsTruncated element"),
    "a size is no number": (lambda q, nr, keys: Answer(body=page([b"a"], False, sizes=[b"1e3"])), b"a malformed size"),
    "a key's encoding is broken": (lambda q, nr, keys: Answer(body=page([b"a"], False).replace(b">a<", b">%4<")),
                                   b"malformed encoding"),
    "there are more keys than a page has": (lambda q, nr, keys: Answer(body=page([b"%05d" % i for i in range(1001)], False)),
                                            b"more keys than requested"),
    "it never stops sending": (lambda q, nr, keys: Answer(body=b"<ListBucketResult>", length=1 << 40,
                                                          endless=b"<Owner>x</Owner>" * 4096), b"more bytes than"),
    "an element never ends": (lambda q, nr, keys: Answer(body=b"<ListBucketResult><Prefix a='", length=1 << 40,
                                                         endless=b"x" * 65536), b"markup that is too long"),
    "keys are out of order": (lambda q, nr, keys: Answer(body=page([b"b", b"a"], False)), ORDER),
    "a key comes twice": (lambda q, nr, keys: Answer(body=page([b"a", b"a"], False)), b"lists 'a' again"),
    "the same page comes again and again": (lambda q, nr, keys: Answer(body=page(KEYS[:1000], True, token="t")), ORDER),
    "pages go backwards": (lambda q, nr, keys: Answer(body=page([b"%05d" % (90000 - nr)], True)), ORDER),
    "a token repeats without an end": (lambda q, nr, keys: Answer(body=page([], True, token="again")), b"repeats the same page"),
    "tokens never end": (lambda q, nr, keys: Answer(body=page([], True, token="t%d" % nr)), b"1000 pages without a key"),
    "there is more, but no token": (lambda q, nr, keys: Answer(body=page([], True)), b"sends no continuation"),
    "it sends us elsewhere": (lambda q, nr, keys: error(301, "PermanentRedirect", headers=(
        "Location: http://127.0.0.1:1/bucket",)), b""),
    "it sends us round in circles": (lambda q, nr, keys: error(307, "TemporaryRedirect", headers=(
        "Location: /bucket?list-type=2",)), b""),
    "it says no": (lambda q, nr, keys: error(403, "AccessDenied", "you may not"), b"AccessDenied"),
    "there is no bucket": (lambda q, nr, keys: error(404, "NoSuchBucket"), b"there is no bucket 'bucket'"),
    "it fails in the middle": (lambda q, nr, keys: error(403, "ExpiredToken", "too old") if nr > 1 else None, b"ExpiredToken"),
    "a header is too long": (lambda q, nr, keys: Answer(headers=("X-Long: " + "x" * 3_000_000,)), b"has a header that is too long\n"),
    "headers are too many": (lambda q, nr, keys: Answer(headers=["X-%d: " % i + "x" * 1000 for i in range(3000)]),
                             b"has a header that is too long\n"),
    "it says no at great length": (lambda q, nr, keys: error(403, "Odd", LONG), b"...)\n"),
    "it says no at great length that people know": (lambda q, nr, keys: error(403, "SignatureDoesNotMatch", LONG), b"...)\n"),
    "a code is long": (lambda q, nr, keys: error(403, "Odd" * 99, "words"), b"OddOd... (words)\n"),
    "a good status has a long error in it": (lambda q, nr, keys: error(200, "Odd", LONG[:700]), b"...\n"),
    "a key contains a NUL": (lambda q, nr, keys: Answer(body=page([b"a\0b"], False)), b"contains a NUL"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_said_in_a_sentence_that(name, tmp_path):
    script, words = REFUSED[name]
    _, done, out, _ = run_script(tmp_path, script, AWS_MAX_ATTEMPTS="3")
    said = done.stderr.split(b"\n")
    assert done.returncode == 1 and len(said) == 2 and said[0].startswith(b"shoal index: 's3://bucket': "), done.stderr
    assert words in done.stderr and b"AddressSanitizer" not in said[0]
    done.stderr.decode()  # no half characters
    assert os.listdir(out) == []


@pytest.mark.parametrize("front", [0, 230, 245])
def test_secrets_are_not_in_an_error_with_a_good_status(front, tmp_path):
    token = "Tk" + "OKEN" * 100
    _, done, _, _ = run_script(tmp_path, lambda q, nr, keys: error(200, "Echo", "x" * front + token), AWS_SESSION_TOKEN=token)
    assert done.returncode == 1 and b"Echo: " in done.stderr and b"*****" in done.stderr
    assert b"OKEN" not in done.stderr


def test_names_are_printed_after_the_first_page(tmp_path):
    """No other page is answered before a name was read."""
    read = threading.Event()

    def script(query, nr, keys):
        assert keys[:1] == KEYS[:1] or read.wait(BOUND)

    with FaultServer(KEYS, script) as server:
        process = Client(tmp_path, server.url).start("list", "s3://bucket")
        first = process.stdout.readline()
        asked = server.nr
        read.set()
        rest = process.stdout.read()
        process.communicate(timeout=BOUND)
    assert first == KEYS[0] + b"\n" and rest.splitlines() == KEYS[1:] and process.returncode == 0
    assert asked <= 2  # the first, and one that waits


def test_keys_outside_of_the_prefix_are_refused(tmp_path):
    _, done, out, _ = run_script(tmp_path, lambda q, nr, keys: Answer(body=page([b"other/x"], False)),
                                 uri="s3://bucket/train")
    assert done.returncode == 1 and b"'other/x', which is not below 'train/'" in done.stderr
    assert os.listdir(out) == []


def test_what_no_catalog_can_hold_is_left_out_with_keep_going(tmp_path):
    odd = [b"a", b"b\0c", b"d"]
    client, done, out, _ = run_script(tmp_path, lambda q, nr, keys: Answer(body=page(odd, False)), "--keep-going")
    assert done.returncode == 1 and b"contains a NUL" in done.stderr
    assert names(client, out / "c") == [b"a", b"d"]


def alone_on_its_page(q, nr, keys):
    return Answer(body=page(keys[:1], True)) if nr < 20 and keys[:1] == [b"p/"] else None


def test_a_list_goes_on_behind_a_page_with_nothing_but_the_prefix(tmp_path):
    client, done, out, nr = run_script(tmp_path, alone_on_its_page, keys=[b"p/", b"p/a", b"p/b"], uri="s3://bucket/p")
    assert (done.returncode, done.stderr, nr) == (0, b"", 2)
    assert names(client, out / "c") == [b"a", b"b"]


def test_a_server_that_lists_only_the_prefix_for_ever_is_found_out(tmp_path):
    _, done, out, nr = run_script(tmp_path, lambda q, nr, keys: Answer(body=page([b"p/"], nr < 20)), uri="s3://bucket/p")
    assert done.returncode == 1 and ORDER in done.stderr and nr == 2
    assert os.listdir(out) == []


@pytest.mark.parametrize("length, more", [(4096, True), (4097, False), (4097, True)])
def test_a_list_goes_on_behind_names_up_to_the_longest(length, more, tmp_path):
    def script(q, nr, keys):
        return Answer(body=page([b"a" * length], more)) if nr == 0 or len(q["start-after"]) < length else None

    client, done, out, _ = run_script(tmp_path, script, "--keep-going", "--force", keys=[b"b"])
    assert done.returncode == (0 if length == 4096 else 1), done.stderr
    if length > 4096 and more:
        assert b"of 4097 bytes: a list cannot be continued" in done.stderr and os.listdir(out) == []
    else:
        assert names(client, out / "c") == ([b"a" * length] if length == 4096 else []) + ([b"b"] if more else [])


# Characters of one to four bytes, in order.
ALPHABETS = {"two bytes": "".join(map(chr, range(0x3b1, 0x3c0))), "three bytes": "".join(map(chr, range(0x4e00, 0x9fff, 1500))),
             "mixed": "ab\xe9\u03b1\u4e00\u5b57\U0001f40b"}


@pytest.mark.parametrize("options", [[()], [("--shard", f"{k}/4") for k in range(4)]], ids=["whole", "shards"])
@pytest.mark.parametrize("letters", ALPHABETS.values(), ids=ALPHABETS)
def test_places_to_start_from_are_text_where_names_are(letters, options, tmp_path):
    keys = sorted("".join(k).encode() for k in itertools.product(letters[:11], repeat=4))
    asked = []
    with FaultServer(keys, lambda q, nr, found: asked.append(q.get("start-after", ""))) as server:
        client = Client(tmp_path, server.url)
        found = sum((good(client, tmp_path / "c", "--connections", 8, *o) for o in options), [])
    assert not [name for name in asked if "\ufffd" in name]  # what Python makes of bytes that are no text
    assert found == keys


def test_an_empty_bucket_has_an_empty_catalog(tmp_path):
    client, done, out, nr = run_script(tmp_path, None, "--force", keys=[])
    assert (done.returncode, nr) == (0, 1)
    assert names(client, out / "c") == []


def test_a_bucket_that_ends_with_a_page_ends_there(tmp_path):
    keys = KEYS[:1000]
    client, done, out, nr = run_script(tmp_path, None, keys=keys)
    assert (done.returncode, nr) == (0, 1)
    assert names(client, out / "c") == keys


# ---- Options -----------------------------------------------------------------------------------------


def test_names_are_taken_in_and_left_out(tmp_path):
    keys = sorted([b"a/b.jpg", b"a/c.txt", b"skip/x.jpg", b"skip/deep/y.jpg", b"top.jpg"])
    with FaultServer(keys) as server:
        client = Client(tmp_path, server.url)
        assert good(client, tmp_path / "c", "--include", "*.jpg") == [k for k in keys if k.endswith(b".jpg")]
        assert good(client, tmp_path / "c", "--exclude", "skip/") == [k for k in keys if not k.startswith(b"skip/")]
        assert good(client, tmp_path / "c", "--no-sizes") == keys
        assert "bytes" not in info(client, tmp_path / "c") or not info(client, tmp_path / "c")["bytes"]


@pytest.mark.parametrize("options, words", [
    (["--update", "c"], b"a bucket does not record what changed"),
    (["--follow"], b"--follow is for a directory, not for a bucket"),
    (["-x"], b"--one-file-system is for a directory, not for a bucket"),
    (["--connections", "0"], b"--connections must be 1 to 1024"),
    (["--connections", "1025"], b"--connections must be 1 to 1024"),
    (["--shard", "4/4"], b"--shard '4/4' is not K/N: shards are counted from 0"),
    (["--shard", "5/4"], b"--shard '5/4' is not K/N"),
    (["--shard", "1"], b"--shard '1' is not K/N"),
    (["--shard", "/"], b"--shard '/' is not K/N"),
    (["--shard", "1/70000"], b"at most 65536"),
])
def test_options_that_make_no_sense_are_refused(tmp_path, options, words):
    done = index(Client(tmp_path, "http://127.0.0.1:1"), tmp_path / "c", *options)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize("option", [["--connections", "4"], ["--shard", "0/2"]])
def test_options_of_buckets_are_not_for_directories(tmp_path, option):
    done = Client(tmp_path, "http://127.0.0.1:1").shoal("index", tmp_path, "-o", tmp_path / "c", *option)
    assert done.returncode == 2 and b"is for a bucket" in done.stderr


# ---- A computed list of any size ---------------------------------------------------------------------


class Computed:
    """bench/list_server: keys of a shape, and counts of what was asked."""

    def __init__(self, keys, shape, delay_ms=0, *more):
        program = binary().parent / "bench" / "list_server"
        self.process = subprocess.Popen([program, "--keys", str(keys), "--shape", shape, "--delay-ms", str(delay_ms), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().split()[1]

    def stats(self):
        with urllib.request.urlopen(self.url + "/stats", timeout=30) as answer:
            return {name: int(value) for name, value in (line.split() for line in answer.read().decode().splitlines())}

    def wait_for(self, lists):
        """Until so many pages were asked for: how many it were."""
        asked, until = 0, time.monotonic() + BOUND
        while asked < lists and time.monotonic() < until:
            time.sleep(0.02)
            asked += self.stats()["lists"]
        return asked

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def sequential_list(url):
    """All keys of the bucket, by the simplest way there is: page by page, with the server's own tokens."""
    keys, token = [], ""
    while True:
        with urllib.request.urlopen(url + "/bench?list-type=2" + token, timeout=30) as answer:
            text = answer.read()
        keys += re.findall(b"<Key>(.*?)</Key>", text)
        if b"<IsTruncated>true" not in text:
            return keys
        token = "&continuation-token=" + re.search(b"<NextContinuationToken>(.*?)<", text).group(1).decode()


SHAPES = ["hex", "uuid", "sequential", "zipf"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_list_is_the_servers_own(shape, tmp_path):
    with Computed(30_000, shape) as server:
        client = Client(tmp_path, server.url)
        assert good(client, tmp_path / "c", "--connections", 8, uri="s3://bench") == sequential_list(server.url)


@pytest.mark.parametrize("shape", SHAPES)
def test_splitting_costs_few_requests_and_keeps_all_connections_busy(shape, tmp_path):
    with Computed(400_000, shape, delay_ms=10) as server:
        client = Client(tmp_path, server.url)
        done = index(client, tmp_path / "c", "--connections", 8, "--json", uri="s3://bench")
        assert (done.returncode, done.stderr) == (0, b"")
        stats = server.stats()
    assert info(client, tmp_path / "c")["files"] == 400_000
    told = json.loads(done.stdout)["requests"]
    assert (told["retries"], told["throttled"]) == (0, 0)
    assert 0 <= told["sent"] - stats["lists"] <= 8  # a lookup of an encoded key, at most by each connection
    # As the server sees it, and the way there and back.
    assert 95 * stats["busy_us"] / stats["took_us"] / 8 - 20 < told["percent_in_flight"] <= 100
    assert stats["lists"] < 400 * 1.15
    assert stats["in_flight_max"] == 8
    assert stats["busy_us"] > 0.3 * 8 * stats["took_us"]  # on a quiet machine 0.9; one connection would be 0.125


@pytest.mark.parametrize("shape", SHAPES)
def test_shards_are_disjoint_and_together_everything(shape, tmp_path):
    with Computed(40_000, shape) as server:
        client = Client(tmp_path, server.url)
        parts = [good(client, tmp_path / "c", "--shard", f"{k}/5", uri="s3://bench") for k in range(5)]
        assert sum(parts, []) == sequential_list(server.url)
    if shape != "zipf":
        assert min(map(len, parts)) > 6_000 and max(map(len, parts)) < 10_000


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 1001])
def test_shards_of_next_to_nothing(count, tmp_path):
    keys = KEYS[:count]
    with FaultServer(keys) as server:
        client = Client(tmp_path, server.url)
        assert sum((good(client, tmp_path / "c", "--shard", f"{k}/3") for k in range(3)), []) == keys


@pytest.mark.parametrize("keys", [[], [b"a"], [b"a", b"b"], [b"img%03d.jpg" % i for i in range(200)]], ids=len)
def test_shards_are_disjoint_where_the_prefix_is_an_object_itself(keys, tmp_path):
    with FaultServer([b"p/"] + [b"p/" + key for key in keys]) as server:
        client = Client(tmp_path, server.url)
        parts = [good(client, tmp_path / "c", "--shard", f"{k}/3", uri="s3://bucket/p") for k in range(3)]
    assert sum(parts, []) == keys
    assert len(keys) < 200 or max(map(len, parts)) < 100


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="there is no mpirun.openmpi here")
@pytest.mark.parametrize("shape", ["hex", "zipf"])
def test_ranks_share_the_list_and_come_to_the_same_digest(shape, tmp_path):
    sys.path.insert(0, str(ROOT / "tests" / "mpi"))
    digests = set()
    with Computed(100_000, shape, delay_ms=5) as server:
        client = Client(tmp_path, server.url)
        client.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                          SHOAL_MODULE_DIR=str(binary().parent),
                          ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        for ranks in (1, 2, 3):
            path = tmp_path / f"c{ranks}"
            done = client.run(shutil.which("mpirun.openmpi"), "--oversubscribe", "-n", ranks, binary(), "index",
                              "s3://bench", "-o", path, "-q", "--connections", 4)
            assert done.returncode == 0, done.stderr
            assert info(client, path)["files"] == 100_000
            digests.add(info(client, path)["digest"])
            stats = server.stats()
            assert stats["in_flight_max"] > 4 or ranks == 1, "more than one rank had something to do"
    assert len(digests) == 1


def test_an_interrupted_list_goes_on(tmp_path):
    with Computed(300_000, "hex", delay_ms=30) as server:
        client = Client(tmp_path, server.url)
        whole = tmp_path / "whole"
        assert index(client, whole, "--connections", 64, uri="s3://bench").returncode == 0
        server.stats()
        env = {**os.environ, **client.env}
        command = [binary(), "index", "s3://bench", "-o", tmp_path / "c", "-q", "--resume", "--connections", "4"]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as child:
            first = server.wait_for(60)
            child.send_signal(signal.SIGINT)
            words = child.communicate(timeout=BOUND)[1]
        assert b"repeat the command to continue" in words
        first += server.stats()["lists"]
        done = client.shoal("index", "s3://bench", "-o", tmp_path / "c", "-q", "--json", "--resume", "--connections", 16)
        assert (done.returncode, done.stderr) == (0, b"")
        second = server.stats()["lists"]
        assert json.loads(done.stdout)["resumed"] > 5000
        assert first + second < 300 * 1.3, "what was listed is not listed again"
        assert info(client, tmp_path / "c")["digest"] == info(client, whole)["digest"]
        assert sorted(os.listdir(tmp_path)) == ["c", "whole"]


def test_a_checkpoint_of_another_shard_is_refused(tmp_path):
    with Computed(300_000, "hex", delay_ms=15) as server:
        client = Client(tmp_path, server.url)
        env = {**os.environ, **client.env}
        command = [binary(), "index", "s3://bench", "-o", tmp_path / "c", "-q", "--resume", "--connections", "4", "--shard"]
        with subprocess.Popen([*command, "0/2"], env=env, stderr=subprocess.PIPE) as child:
            server.wait_for(170)  # 70 to 130 of them are samples
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=BOUND)
        done = client.run(*command, "1/2")
        assert done.returncode == 1 and b"to a listing of something else" in done.stderr


# ---- A real server -----------------------------------------------------------------------------------

ODD = ["a b", "a+b", "a%b", "a%20b", "a%2Fb", "a&b", "a<b>c", 'a"b', "a'b", "ünïcödé", "日本語/キー", "😀",
       "a=b?c#d;e,f:g@h!i~j(k)*", "x//y", "dir/", "dir/sub/", "back\\slash", "[x]{y}|z^`$", "new\nline", "tab\there",
       "\x01ctl", "k" * 1024, "../up", "./dot", "a/../b", "zero", " leading", "trailing ", "\x7fdel", "é" * 500,
       "p/", "p//slash", "p/one", "p/two words"]


@pytest.fixture(scope="module")
def filled(ceph, tmp_path_factory):
    """A bucket of odd names, and one of 5,100 plain ones."""
    client = Client(tmp_path_factory.mktemp("home"), ceph["AWS_ENDPOINT_URL"])
    client.env.update(ceph)
    fill = binary().parent / "bench" / "s3_fill"
    for bucket, count in (("many", 5100), ("odd", 0)):
        done = client.run(fill, bucket, "plain/", count, 5)
        assert done.returncode == 0, done.stderr
    for key in ODD:
        client.good("write", key.encode(), stdin=b"" if key in ("zero", "dir/") else b"x" * (1 + len(key) % 7),
                    uri="s3://odd")
    return client


def test_odd_names_on_a_real_server(filled, tmp_path):
    assert good(filled, tmp_path / "c", uri="s3://odd") == sorted(key.encode() for key in ODD)
    found = info(filled, tmp_path / "c")
    assert found["bytes"] == sum(0 if key in ("zero", "dir/") else 1 + len(key) % 7 for key in ODD)
    assert found["root"] == "s3://odd"


def test_a_prefix_of_a_real_bucket_is_a_root(filled, tmp_path):
    """The key that is the prefix itself has no name below it."""
    for uri in ("s3://odd/p", "s3://odd/p/"):
        assert good(filled, tmp_path / "c", uri=uri) == [b"/slash", b"one", b"two words"]
        assert info(filled, tmp_path / "c")["root"] == "s3://odd/p"
    assert good(filled, tmp_path / "c", uri="s3://odd/日本語") == ["キー".encode()]


@pytest.mark.parametrize("connections", [1, 7])
def test_thousands_of_keys_on_a_real_server(filled, tmp_path, connections):
    expected = [b"plain/%07d.bin" % i for i in range(5100)]
    assert good(filled, tmp_path / "c", "--connections", connections, uri="s3://many") == expected
    assert info(filled, tmp_path / "c")["bytes"] == 5 * 5100
    parts = [good(filled, tmp_path / "c", "--shard", f"{k}/2", uri="s3://many") for k in range(2)]
    assert sum(parts, []) == expected


def test_a_catalog_is_compared_with_a_real_bucket(filled, tmp_path):
    assert good(filled, tmp_path / "c", uri="s3://odd/p")
    assert filled.shoal("verify", "--storage", tmp_path / "c").returncode == 0
    filled.good("write", "new", stdin=b"1", uri="s3://odd/p")
    filled.good("write", "one", stdin=b"longer than before", uri="s3://odd/p")
    filled.good("remove", "two words", uri="s3://odd/p")
    done = filled.shoal("verify", "--storage", tmp_path / "c")
    said = done.stdout + done.stderr
    assert done.returncode == 1
    for word in (b"new", b"one", b"two words"):
        assert word in said
    for name, data in (("one", b"xxxx"), ("two words", b"x" * 5)):
        filled.good("write", name, stdin=data, uri="s3://odd/p")
    filled.good("remove", "new", uri="s3://odd/p")


def test_a_real_server_says_what_is_wrong(filled, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for uri, env, words in [
            ("s3://nothere", {}, b"there is no bucket 'nothere'"),
            ("s3://odd", {"AWS_SECRET_ACCESS_KEY": "wrong"}, b"SignatureDoesNotMatch"),
            ("s3://odd", {"AWS_ACCESS_KEY_ID": "nobody"}, b"InvalidAccessKeyId")]:
        done = index(filled, out / "c", uri=uri, **env)
        assert done.returncode == 1 and words in done.stderr and done.stderr.count(b"\n") == 1
        assert b"shoaltestsecret" not in done.stderr
    assert os.listdir(out) == []


# ------------------------------------------------------------- servers that claim to encode keys, and send them as they are


def claims(query, nr, keys):
    """As s3s-fs 0.14.1 does, which has it at the end of the page."""
    return Answer(body=page(keys, len(keys) == 1000, encode=False, tail=b"<EncodingType>url</EncodingType>"))


@pytest.mark.parametrize("keys", [
    [b"pct%20x"], [b"pl+us"], [b"pct%2Fx", b"plain"], [b"pct x", b"pct%20x", b"pct+x"], [b"100%", b"50%x"],
    [b"caf\xc3\xa9%41"], [b"%"], [b"a|b", b"a%7Cb"], [b"plain"] * 1], ids=lambda keys: b" ".join(keys).decode())
@pytest.mark.parametrize("honest", [False, True])
def test_keys_are_kept_whatever_a_server_claims(tmp_path, keys, honest):
    with FaultServer(sorted(keys), *([] if honest else [claims, claims])) as server:
        assert good(Client(tmp_path, server.url), tmp_path / "c") == sorted(keys)
        assert server.lookups <= 2


def pages(keys, honest=False):
    """Two pages, of which the second begins with the last key."""
    def answer(query, nr, found):
        first = query.get("start-after", "").encode() < keys[-2]
        return Answer(body=page(found[:-1] if first else found, first or len(found) == 1000, encode=honest,
                                tail=b"" if honest else b"<EncodingType>url</EncodingType>"))
    return answer


@pytest.mark.parametrize("keys", [[b"pct x", b"pct%20x"], [b"a b", b"c", b"pct%2Fx"], [b"pct%20x", b"pct~x"],
                                  [b"pct x", b"pct+x"], [b"a%", b"a%25"],
                                  [b"a%25", b"a%2525"]], ids=lambda keys: b" ".join(keys).decode())
@pytest.mark.parametrize("honest", [False, True])
def test_keys_are_kept_if_what_shows_the_encoding_is_on_another_page(tmp_path, keys, honest):
    """Objects of both names exist in some: one of the keys would be read as the other."""
    with FaultServer(keys, pages(keys, honest), None if honest else claims) as server:
        assert good(Client(tmp_path, server.url), tmp_path / "c") == keys


@pytest.mark.parametrize("fault", ["503 once", "403", "500"])
def test_a_lookup_that_fails_is_an_error_or_asked_again(tmp_path, fault):
    """It is not remembered as an answer. A policy that allows only the list itself is none."""
    keys = [b"b", b"pct%20x"]

    def lookup(query, nr, found):
        if fault != "503 once" or server.lookups == 1:
            return error(int(fault[:3]), "AccessDenied" if fault == "403" else "InternalError")
        return claims(query, nr, found)

    with FaultServer(keys, claims, lookup) as server:
        client = Client(tmp_path, server.url)
        if fault == "500":
            done = index(client, tmp_path / "c", AWS_MAX_ATTEMPTS="2")
            assert done.returncode == 1 and b"InternalError" in done.stderr and not (tmp_path / "c").exists()
        else:  # without an answer the claim is believed
            assert good(client, tmp_path / "c") == ([b"b", b"pct x"] if fault == "403" else keys)


def test_without_permission_to_look_up_what_was_seen_decides(tmp_path):
    keys = [b"a b", b"pct%20x"]
    with FaultServer(keys, pages(keys), lambda query, nr, found: error(403, "AccessDenied")) as server:
        assert good(Client(tmp_path, server.url), tmp_path / "c") == keys


def test_a_key_that_is_gone_when_it_is_looked_up_is_decoded_as_claimed(tmp_path):
    gone = [b"a b", b"c"]
    with FaultServer([], lambda q, nr, keys: Answer(body=page(gone, False))) as server:
        assert good(Client(tmp_path, server.url), tmp_path / "c") == gone


def test_one_lookup_is_enough_for_all_pages(tmp_path):
    keys = sorted(b"%05d%%20x" % i for i in range(3000))
    with FaultServer(keys, claims, claims) as server:
        assert good(Client(tmp_path, server.url), tmp_path / "c", "--connections", 1) == keys
        assert 1 <= server.lookups <= 2
