"""Reading and writing objects, and what the client does when a server misbehaves."""

import os
import socket
import subprocess
import time

import pytest

from conftest import Client
from objects import ACCESS, SECRET, TOKEN, Handler, Objects, error

BODY = bytes(range(256)) * 400
MIB = 1 << 20


def put(server, key, body=BODY):
    server.objects[b"bucket", key] = body


# ---- What goes well ----

@pytest.mark.parametrize("key", [
    b"plain", b"a b", b"a+b", b"100%", b"%20", b"a&b=c?d#e", b"<tag>", b"it's \"quoted\"", "ünïcode/日本/😀".encode(),
    b"control\x01\x1f\x7f", b"line\nend", b"ends/", b"a//b", b"a/../b", b"/front", b"..", b"~*()!$,;:@[]{}|\\^`", b"\xff\xfe not utf-8",
    b"k" * 1024])
def test_a_key_may_be_anything(server, client, key):
    client.good("write", key, stdin=b"x" + key)
    assert list(server.objects) == [(b"bucket", key)]
    assert client.good("read", key, 0, 5000).stdout == b"x" + key
    assert client.good("stat", key).stdout == b"%d\n" % (1 + len(key))
    client.good("remove", key)
    assert not server.objects


def test_a_key_of_1025_bytes_is_refused_before_it_is_sent(server, client):
    for verb in ("write", "stat", "remove"):
        client.bad("ENAMETOOLONG", verb, b"k" * 1025, words=["1024"])
    assert not server.log


def test_names_are_below_the_prefix(server, client):
    client.good("write", "b/c", uri="s3://bucket/p/q/", stdin=b"1")
    assert list(server.objects) == [(b"bucket", b"p/q/b/c")]


def test_a_range_is_cut_where_the_object_ends(server, client):
    put(server, b"k", b"0123456789")
    for off, length, want in [(0, 10, b"0123456789"), (0, 11, b"0123456789"), (3, 4, b"3456"), (9, 1, b"9"), (9, 5, b"9"),
                              (10, 1, b""), (99, 5, b""), (0, 0, b"")]:
        assert client.good("read", "k", off, length).stdout == want


def test_an_empty_object_is_written_and_read(server, client):
    client.good("write", "e")
    assert server.objects[b"bucket", b"e"] == b""
    assert client.good("stat", "e").stdout == b"0\n"
    assert client.good("read", "e", 0, 5).stdout == b""


def test_connections_are_kept(server, client):
    put(server, b"k")
    done = client.good("many", 50, 4, "k")
    assert done.stdout == b"50\n"
    assert (done.counts["requests"], done.counts["connects"], done.counts["retries"]) == (50, 4, 0)


def test_a_session_token_is_sent_and_signed(client, tmp_path):
    with Objects(token=TOKEN) as server:
        put(server, b"k")
        other = Client(tmp_path, server.url)
        assert other.good("read", "k", 0, 5, AWS_SESSION_TOKEN=TOKEN).stdout == BODY[:5]
        other.bad("EACCES", "read", "k", 0, 5, words=["InvalidToken"])


def test_without_keys_nothing_is_signed(tmp_path):
    with Objects(public=True) as server:
        put(server, b"k")
        other = Client(tmp_path, server.url)
        other.good("read", "k", 0, 5, SHOAL_S3_ANONYMOUS="1", AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None)
        assert not any(h.lower() in ("authorization", "x-amz-date") for h in server.log[0].headers)


def test_the_bucket_may_be_in_the_host_name(server, client):
    put(server, b"k")
    url = f"http://localhost:{server.port}"
    assert client.good("read", "k", 0, 3, AWS_ENDPOINT_URL=url, SHOAL_S3_STYLE="virtual").stdout == BODY[:3]
    assert server.log[0].host == f"bucket.localhost:{server.port}"
    assert server.log[0].raw_path == "/k"


def test_endpoints_are_used_in_turn(server, client):
    with Objects() as second:
        for each in (server, second):
            put(each, b"k")
        client.good("many", 20, 2, "k", AWS_ENDPOINT_URL=f"{server.url},{second.url}")
        assert (len(server.log), len(second.log)) == (10, 10)


def test_a_dead_endpoint_costs_each_request_that_meets_it_one_retry(server, client):
    put(server, b"k")
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))  # ours, so that nobody else listens there; nor do we
        both = f"{server.url},http://127.0.0.1:{dead.getsockname()[1]}"
        done = client.good("many", 20, 2, "k", AWS_ENDPOINT_URL=both)
    assert (done.counts["retries"], len(server.log)) == (10, 20)


# ---- Writing in parts ----

def test_a_large_object_goes_in_parts_and_is_there_only_when_whole(server, client):
    body = os.urandom(MIB) * 33
    seen = []
    server.faults.append({"left": 99, "when": lambda r: seen.append(list(server.objects)) or False, "do": {}})
    client.good("write", "big", stdin=body)
    assert server.objects == {(b"bucket", b"big"): body}
    assert [r.method for r in server.log] == ["POST", "PUT", "PUT", "PUT", "POST"]
    assert seen == [[]] * 5 and not server.uploads


def test_an_upload_that_is_given_up_leaves_nothing(server, client):
    client.good("abort", "big", stdin=bytes(17 * MIB))
    assert not server.objects and not server.uploads
    assert server.log[-1].method == "DELETE"
    client.good("abort", "small", stdin=b"x")
    assert not server.objects


@pytest.mark.parametrize("method,query", [("PUT", "partNumber"), ("POST", "uploadId")])
def test_an_upload_that_fails_leaves_nothing(server, client, method, query):
    server.fault(error(403, "QuotaExceeded", "full"), 99, method, query=query)
    client.bad("EDQUOT", "write", "big", stdin=bytes(17 * MIB), words=["'big'", "quota", "full"])
    assert not server.objects and not server.uploads


def test_a_part_is_sent_again(server, client):
    server.fault(Handler.hang_up, 1, "PUT", query="partNumber")
    server.fault(error(500, "InternalError"), 1, "PUT", query="partNumber")
    start = time.monotonic()
    done = client.good("write", "big", stdin=bytes(17 * MIB))
    assert server.objects[b"bucket", b"big"] == bytes(17 * MIB)
    assert time.monotonic() - start < 20, "libcurl sends all of the body again, not none of it"
    assert done.counts["retries"] in (1, 2)  # libcurl itself sends again where a kept connection had been closed


def test_a_join_that_fails_with_a_good_status_fails(server, client):
    server.fault({"status": 200, "body": error(0, "InvalidPart", "no such part")["body"]}, 1, "POST", query="uploadId")
    client.bad("EIO", "write", "big", stdin=bytes(17 * MIB), words=["InvalidPart", "no such part"])
    assert not server.objects and not server.uploads


def test_a_join_that_fails_for_now_with_a_good_status_is_tried_again(server, client):
    server.fault({"status": 200, "body": error(0, "InternalError")["body"]}, 2, "POST", query="uploadId")
    client.good("write", "big", stdin=bytes(17 * MIB))
    assert len(server.objects[b"bucket", b"big"]) == 17 * MIB


def test_a_join_whose_answer_is_lost_is_found_to_be_done(server, client):
    server.fault(Handler.lose, 1, "POST", query="uploadId")
    client.good("write", "big", stdin=bytes(17 * MIB))
    assert [r.method for r in server.log][-2:] == ["POST", "HEAD"]


def test_an_upload_that_somebody_else_ended_is_said(server, client):
    put(server, b"big", bytes(5))
    server.fault(error(404, "NoSuchUpload"), 1, "POST", query="uploadId")
    client.bad("EIO", "write", "big", stdin=bytes(17 * MIB), words=["upload vanished"])
    assert server.objects[b"bucket", b"big"] == bytes(5)


def test_a_write_that_is_refused_changes_nothing(server, client):
    put(server, b"k", b"old")
    server.fault(error(403, "AccessDenied", "Access Denied"), 1, "PUT")
    client.bad("EACCES", "write", "k", stdin=b"new", words=["AccessDenied"])
    assert server.objects[b"bucket", b"k"] == b"old"


# ---- Trying again ----

PASSING = [error(code, "X") for code in (408, 429, 500, 502, 503, 504)] + [
    error(400, "RequestTimeout"), error(409, "OperationAborted"), {"status": 503},
    Handler.hang_up, Handler.cut, Handler.cut_without_length, Handler.babble]


@pytest.mark.parametrize("fault", PASSING, ids=lambda f: getattr(f, "__name__", None) or str(f["status"]))
def test_what_passes_is_tried_again(server, client, fault):
    put(server, b"k")
    server.fault(fault, 2, "GET")
    done = client.good("read", "k", 0, len(BODY))
    assert done.stdout == BODY and len(server.log) == 3
    throttled = isinstance(fault, dict) and fault["status"] in (429, 503)
    assert (done.counts["retries"], done.counts["throttled"]) == (2, 2 if throttled else 0)


def test_tries_are_counted_and_end(server, client):
    put(server, b"k")
    server.fault(error(503, "SlowDown", "Please reduce your request rate"), 99)
    client.bad("EBUSY", "read", "k", 0, 9, words=["the server throttles requests", "reduce your request rate", "tried 5 times"])
    assert len(server.log) == 5
    client.bad("EBUSY", "read", "k", 0, 9, AWS_MAX_ATTEMPTS="2")
    assert len(server.log) == 7


def test_a_storm_is_weathered_by_many(server, client):
    put(server, b"k")
    server.fault(error(503, "SlowDown"), 60)
    done = client.good("many", 200, 16, "k", AWS_MAX_ATTEMPTS="30")
    assert done.counts["retries"] == 60 and done.counts["throttled"] == 60


def test_retries_have_a_budget(server, client):
    put(server, b"k")
    server.fault(error(500, "InternalError"), 10**6)
    done = client.bad("EIO", "many", 400, 2, "k", words=["InternalError"])
    assert done.counts["retries"] <= 110 and done.counts["requests"] == 400


def test_the_server_may_say_how_long_to_wait(server, client):
    put(server, b"k")
    server.fault({"status": 503, "headers": {"Retry-After": "1"}}, 1)
    start = time.monotonic()
    client.good("read", "k", 0, 9)
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize("reply,name,words", [
    (error(403, "SignatureDoesNotMatch", "no"), "EACCES", ["secret key"]),
    (error(403, "RequestTimeTooSkewed"), "EACCES", ["clock"]),
    (error(400, "ExpiredToken"), "EACCES", ["expired"]),
    (error(404, "NoSuchBucket"), "ENXIO", ["no bucket 'bucket'"]),
    (error(404, "NoSuchKey"), "ENOENT", ["'k'", "does not exist"]),
    (error(412, "PreconditionFailed"), "ESTALE", ["ETag"]),
    (error(400, "Strange", "odd <![CDATA[<&>]]> words"), "EIO", ["Strange", "odd <&> words"]),
    ({"status": 507}, "ENOSPC", ["507"]),
    ({"status": 403, "body": b"not XML"}, "EACCES", ["403"]),
    ({"status": 418, "body": b"<Error><Code>Tea" + b"x" * 100000}, "EIO", ["418"]),
])
def test_what_does_not_pass_is_said_at_once(server, client, reply, name, words):
    server.fault(reply, 1)
    client.bad(name, "read", "k", 0, 9, words=words)
    assert len(server.log) == 1


def test_a_clock_that_is_wrong_is_said_with_its_difference(server, client):
    def skewed(handler, request):
        handler.date_time_string = lambda *_: "Mon, 01 Jan 2001 00:00:00 GMT"
        handler.send(request, **error(403, "RequestTimeTooSkewed"))

    server.fault(skewed, 1)
    client.bad("EACCES", "read", "k", 0, 9, words=["clock", "ahead of"])


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c SYSTEM "file:///etc/passwd">]><Error><Code>&b;</Code><Message>&c;</Message></Error>"""


@pytest.mark.parametrize("body", [BOMB, b"<a>" * 5000, b"\0", b"<Error>", b"<Error><Code>", "<Error>\udcff".encode("utf-8", "replace")])
def test_xml_tricks_do_nothing(server, client, body):
    server.fault({"status": 403, "body": body}, 1)
    done = client.bad("EACCES", "read", "k", 0, 9, words=["403"])
    assert "root:" not in done.words and "aaaa" not in done.words


# ---- Time ----

@pytest.mark.parametrize("fault", [Handler.sleep, Handler.stall])
def test_a_server_that_says_nothing_is_given_up(server, client, fault):
    put(server, b"k")
    server.fault(fault, 1)
    start = time.monotonic()
    client.bad("ETIMEDOUT", "read", "k", 0, len(BODY), AWS_MAX_ATTEMPTS="1", SHOAL_S3_TIMEOUT="1", words=["127.0.0.1", "1 s"])
    assert 0.9 < time.monotonic() - start < 10


def test_a_server_that_stalls_once_is_asked_again(server, client):
    put(server, b"k")
    server.fault(Handler.stall, 1)
    assert client.good("read", "k", 0, len(BODY), SHOAL_S3_TIMEOUT="1").stdout == BODY


def test_nobody_there_is_said(client):
    client.bad("ECONNREFUSED", "read", "k", 0, 9, AWS_ENDPOINT_URL="http://127.0.0.1:1", words=["cannot connect to 127.0.0.1:1"])
    client.bad("EHOSTUNREACH", "read", "k", 0, 9, AWS_ENDPOINT_URL="http://no-such-host.invalid", words=["no host"])


# ---- Ranges ----

def test_a_server_without_ranges_serves_beginnings_only(server, client):
    put(server, b"k")
    server.fault(Handler.all_of_it, 99)
    assert client.good("read", "k", 0, 10).stdout == BODY[:10]
    assert client.good("read", "k", 0, len(BODY) + 5).stdout == BODY
    client.bad("EBADMSG", "read", "k", 1, 10, words=["other bytes"])


def test_another_range_than_was_asked_for_is_refused(server, client):
    put(server, b"k")
    server.fault(Handler.other_range, 99)
    client.bad("EBADMSG", "read", "k", 5, 10, words=["other bytes"])


@pytest.mark.parametrize("off,length,result", [(0, len(BODY), len(BODY)), (0, len(BODY) - 1, len(BODY)), (7, 5000, 5001),
                                               (len(BODY) - 9, 100, 9), (len(BODY), 5, 0), (0, 0, 1)])
def test_the_loader_has_the_bytes_of_the_range_also_after_faults(server, client, off, length, result):
    put(server, b"k")
    server.fault(Handler.cut, 2)
    server.fault(Handler.cut_without_length, 1)
    done = client.driver("load", "k", off, length)
    assert done.returncode == 0 and done.stdout == BODY[off:off + length]
    assert done.words == f"result {result}"


# ---- Redirects ----

def test_the_region_is_corrected_by_the_server(server, client):
    put(server, b"k")
    server.fault({"status": 301, "headers": {"x-amz-bucket-region": "eu-west-9"}}, 1, "HEAD")
    client.good("stat", "k")
    server.fault(error(400, "AuthorizationHeaderMalformed", "wrong region", Region="ap-south-7"), 1, "GET")
    client.good("read", "k", 0, 9)
    assert [r.region for r in server.log] == [None, "eu-west-9", None, "ap-south-7"]


def test_a_redirect_is_followed_and_signed_anew(server, client):
    with Objects() as other:
        put(other, b"a b")
        server.fault({"status": 307, "headers": {"Location": f"{other.url}/bucket/a%20b"}}, 1)
        assert client.good("read", "a b", 0, 9).stdout == BODY[:9]
        assert other.log[0].region == "us-east-1"


def test_keys_are_not_signed_for_a_host_that_is_none_of_the_servers(server, client):
    with Objects() as other:
        put(other, b"k")
        server.fault({"status": 307, "headers": {"Location": f"{other.url.replace('127.0.0.1', 'localhost')}/bucket/k"}}, 1)
        client.bad("EIO", "read", "k", 0, 9, words=["redirects to 'http://localhost:", "which is not followed", "(hint: endpoint)"])
        assert other.log == []


def test_redirects_in_a_circle_end(server, client):
    server.fault({"status": 307, "headers": {"Location": f"{server.url}/bucket/k"}}, 99)
    client.bad("EIO", "read", "k", 0, 9, words=["redirects to"])
    assert len(server.log) <= 6


def test_a_redirect_to_nowhere_is_said(server, client):
    server.fault({"status": 301}, 1)
    client.bad("EIO", "read", "k", 0, 9, words=["endpoint"])
    server.fault({"status": 302, "headers": {"Location": "ftp://example.org/"}}, 1)
    client.bad("EIO", "read", "k", 0, 9, words=["ftp://example.org/"])


# ---- TLS ----

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key", "-out", folder / "cert",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "cert", folder / "key"


def test_a_private_authority_is_trusted_only_when_named(certificate, tmp_path):
    with Objects(tls=certificate) as server:
        put(server, b"k")
        client = Client(tmp_path, server.url)
        client.bad("EPROTO", "read", "k", 0, 9, words=["certificate", "(hint: ca)"])
        assert client.good("read", "k", 0, 9, AWS_CA_BUNDLE=str(certificate[0])).stdout == BODY[:9]
        client.good("write", "w", stdin=BODY, AWS_CA_BUNDLE=str(certificate[0]))
        assert server.objects[b"bucket", b"w"] == BODY
        assert server.log[-1].headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        client.bad("ENOENT", "read", "k", 0, 9, AWS_CA_BUNDLE="/not/there", words=["/not/there"])


# ---- Keys ----

def test_wrong_keys_are_said(server, client):
    client.bad("EACCES", "read", "k", 0, 9, AWS_SECRET_ACCESS_KEY="other", words=["secret key", "SignatureDoesNotMatch"])
    client.bad("EACCES", "read", "k", 0, 9, AWS_ACCESS_KEY_ID="other", words=["access key"])
    client.bad("EACCES", "stat", "k", AWS_ACCESS_KEY_ID="other", words=["access key"])


def test_secrets_are_not_in_words_that_a_server_sends_back(server, client):
    server.fault(error(403, "Echo", f"you said {SECRET} and {TOKEN}"), 1)
    done = client.bad("EACCES", "read", "k", 0, 9, AWS_SESSION_TOKEN=TOKEN, words=["Echo", "you said ***"])
    assert SECRET not in done.words and TOKEN not in done.words


LONG_TOKEN = "".join(f"T{i:04d}k" for i in range(160))  # as long as those of AWS
BIG = bytes(17 << 20)  # goes in parts


@pytest.mark.parametrize("front", [0, 200, 230, 240, 243, 300])
def test_not_even_a_part_of_a_long_secret_is_in_words(front, server, client):
    server.fault(error(403, "Echo", "x" * front + LONG_TOKEN), 1)
    done = client.bad("EACCES", "read", "k", 0, 9, AWS_SESSION_TOKEN=LONG_TOKEN, words=["Echo"])
    assert LONG_TOKEN[:4] not in done.words and LONG_TOKEN[6:12] not in done.words
    assert ("*" in done.words) == (front < 250)


@pytest.mark.parametrize("secret", [SECRET, LONG_TOKEN])
def test_secrets_are_not_in_what_a_server_says_of_parts_with_a_good_status(secret, server, client):
    server.fault(error(200, "Echo", "you said " + secret), 1, method="POST", query="uploadId")
    done = client.bad("EIO", "write", "k", stdin=BIG, AWS_SESSION_TOKEN=LONG_TOKEN, words=["Echo you said ***"])
    assert secret[:4] not in done.words


def test_secrets_are_not_in_the_place_that_a_server_sends_us_to(server, client):
    server.fault({"status": 307, "headers": {"Location": "ftp://" + "h" * 190 + SECRET}}, 1)
    done = client.bad("EIO", "read", "k", 0, 9, words=["which is not followed"])
    assert SECRET[:4] not in done.words


@pytest.mark.parametrize("host", ["h h", "h|h", "h%41", "h\"", "h\\"])
def test_no_host_that_is_none_is_gone_to(host, server, client):
    server.fault({"status": 307, "headers": {"Location": f"http://{host}:1/bucket/k"}}, 1)
    client.bad("EIO", "read", "k", 0, 9, words=["which is not followed"])


def test_the_colon_of_a_tenant_s_bucket_is_spelt_out(server, client):
    server.buckets.add(b"t:b")
    server.fault({"status": 307, "headers": {"Location": f"{server.url}/t%3Ab/k"}}, 1)
    client.good("write", "k", stdin=BODY, uri="s3://t:b")
    assert server.objects[b"t:b", b"k"] == BODY
    assert [r.raw_path for r in server.log] == ["/t%3Ab/k"] * 2


def test_a_wake_is_not_lost_to_what_is_done_before_the_wait(server, client):
    server.fault(Handler.sleep, 9)
    started = time.monotonic()
    client.good("wake", "k")
    assert time.monotonic() - started < 8  # the wait alone is for 10 s


# ---- Answers without an end ----

def endless(status):
    def do(handler, request):
        handler.send_response_only(status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while not handler.server.ended.wait(0.02):
            handler.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    return do


def test_a_refusal_without_an_end_is_cut_off(server, client):
    server.fault(endless(403), 1)
    client.bad("EACCES", "read", "k", 0, 9, words=["the server refused: status 403"])


def test_a_refusal_without_an_end_is_tried_again_where_it_may_pass(server, client):
    server.objects[b"bucket", b"k"] = BODY
    server.fault(endless(503), 2)
    assert client.good("read", "k", 0, 9).stdout == BODY[:9]


def test_an_answer_without_an_end_that_nobody_wants_is_cut_off(server, client):
    server.fault(endless(200), 1, method="PUT")
    client.good("write", "k", stdin=b"abc")


def test_an_answer_without_an_end_on_parts_is_refused(server, client):
    server.fault(endless(200), 1, method="POST", query="uploads")
    client.bad("E2BIG", "write", "k", stdin=BIG, words=["'k': the server's response is longer than"])


def test_no_keys_is_said(server, client):
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    client.bad("ENOKEY", "read", "k", 0, 9, words=["AWS_ACCESS_KEY_ID", "(hint: anonymous)"], **none)
    client.bad("ENOKEY", "read", "k", 0, 9, words=["AWS_SECRET_ACCESS_KEY is not"], AWS_SECRET_ACCESS_KEY=None)
    assert not server.log


def test_profiles_have_keys_servers_and_styles(server, client, tmp_path):
    put(server, b"k")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n\n[work]\naws_access_key_id={ACCESS}\n"
        f"aws_secret_access_key = {SECRET}  # of work\n")
    (tmp_path / ".aws" / "config").write_text(
        f"[profile work]\nregion = mars-1\nservices = mine\ns3 =\n  addressing_style = virtual\n"
        f"[services mine]\ns3 =\n   endpoint_url = http://localhost:{server.port}\n"
        f"[profile asks]\ncredential_process = /bin/true\n")
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_ENDPOINT_URL": None}
    client.good("read", "k", 0, 9, AWS_PROFILE="work", **none)
    assert (server.log[0].region, server.log[0].host) == ("mars-1", f"bucket.localhost:{server.port}")
    client.bad("EACCES", "read", "k", 0, 9, **{**none, "AWS_ENDPOINT_URL": server.url})
    client.bad("ENOKEY", "read", "k", 0, 9, AWS_PROFILE="asks", words=["credential_process"], **none)
    client.bad("ENOKEY", "read", "k", 0, 9, AWS_PROFILE="nobody", words=["no profile 'nobody'"], **none)


@pytest.mark.parametrize("env,words", [
    ({"AWS_ENDPOINT_URL": "example.org"}, "http://"), ({"AWS_ENDPOINT_URL": "http://"}, "http://"), ({"AWS_ENDPOINT_URL": ","}, "endpoint"),
    ({"AWS_ENDPOINT_URL": "http://a/b"}, "endpoint"), ({"AWS_ENDPOINT_URL": "http://user:hunter2@host"}, "password"),
    ({"AWS_REGION": "a b"}, "region"), ({"SHOAL_S3_STYLE": "round"}, "path or virtual"), ({"AWS_MAX_ATTEMPTS": "0"}, "AWS_MAX_ATTEMPTS"),
    ({"SHOAL_S3_TIMEOUT": "x"}, "SHOAL_S3_TIMEOUT")])
def test_settings_that_make_no_sense_are_said(server, client, env, words):
    done = client.bad("EINVAL", "read", "k", 0, 9, words=[words], **env)
    assert "hunter2" not in done.words and not server.log


@pytest.mark.parametrize("uri", ["s3://", "s3:///key", "s3://b u/key", "s3://" + "b" * 300])
def test_a_place_that_is_none_is_said(client, uri):
    client.bad("EINVAL", "stat", "k", uri=uri, words=["bucket"])
