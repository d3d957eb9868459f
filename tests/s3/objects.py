"""A small S3 server that keeps objects in memory, checks every signature, and misbehaves where a test says so.

It knows GET, HEAD, PUT and DELETE of objects, PUT and lists of a bucket, and uploads in parts. What a client sent is in `log`.
"""

import hashlib
import hmac
import http.server
import re
import socket
import ssl
import threading
import urllib.parse

from fault_server import page

ACCESS, SECRET, TOKEN = "AKTEST", "sekritsekritsekrit/+=", "tokentokentoken//=="


class Request:
    """What a client asked for."""

    def __init__(self, handler):
        path, _, query = handler.path.partition("?")
        self.method = handler.command
        self.raw_path, self.raw_query = path, query
        self.headers = handler.headers
        self.host = handler.headers.get("Host", "")
        whole = urllib.parse.unquote_to_bytes(path)[1:]
        if self.host.startswith("bucket."):
            self.bucket, self.key = b"bucket", whole
        else:
            self.bucket, _, self.key = whole.partition(b"/")
        self.query = {urllib.parse.unquote(k): urllib.parse.unquote(v)
                      for k, _, v in (pair.partition("=") for pair in query.split("&") if pair)}
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.region = None

    def __repr__(self):
        return f"{self.method} {self.raw_path}?{self.raw_query}"


def error(status, code, message="", **more):
    """An answer that says no."""
    inner = "".join(f"<{k}>{v}</{k}>" for k, v in {"Code": code, "Message": message, **more}.items())
    return {"status": status, "body": f"<?xml version='1.0'?><Error>{inner}</Error>".encode()}


def wrong_signature(request, keys=(ACCESS, SECRET)):
    """Why the request is not signed by us, or None. Written from AWS' description, not from the client's code."""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                         r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", request.headers.get("Authorization", ""))
    if not match:
        return "AccessDenied"
    access, day, request.region, names, signature = match.groups()
    names = names.split(";")
    if access != keys[0]:
        return "InvalidAccessKeyId"
    assert names == sorted(names) and "host" in names and "x-amz-date" in names
    assert all(name.lower() in names for name in request.headers if name.lower().startswith("x-amz-"))
    payload = request.headers["x-amz-content-sha256"]
    if payload != "UNSIGNED-PAYLOAD" and payload != hashlib.sha256(request.body).hexdigest():
        return "XAmzContentSHA256Mismatch"
    assert request.headers["x-amz-date"].startswith(day)
    assert request.raw_query == "&".join(sorted(request.raw_query.split("&"))), "the query is sorted"
    canonical = "\n".join([request.method, request.raw_path, request.raw_query,
                           *(f"{name}:{request.headers[name].strip()}" for name in names), "", ";".join(names), payload])
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], f"{day}/{request.region}/s3/aws4_request",
                      hashlib.sha256(canonical.encode("latin-1")).hexdigest()])
    key = b"AWS4" + keys[1].encode()
    for part in (day, request.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    good = hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == signature
    return None if good else "SignatureDoesNotMatch"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *args):
        pass

    def answer(self):
        server = self.server
        request = Request(self)
        with server.lock:
            server.log.append(request)
            fault = next((f for f in server.faults if f["left"] > 0 and f["when"](request)), None)
            if fault:
                fault["left"] -= 1
        if fault and callable(fault["do"]):
            return fault["do"](self, request)
        if fault:
            return self.send(request, **fault["do"])
        wrong = None if server.public and "Authorization" not in self.headers else wrong_signature(request, server.keys)
        if wrong:
            return self.send(request, **error(403, wrong))
        if server.token and request.headers.get("x-amz-security-token") != server.token:
            return self.send(request, **error(400, "InvalidToken"))
        with server.lock:
            reply = server.act(request)
        return self.send(request, **reply)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def send(self, request, status=200, body=b"", headers=()):
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string())
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(body)

    # ---- Ways to misbehave, for faults ----

    def hang_up(self, request):
        """No answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def cut(self, request):
        """Half of the answer's body."""
        reply = self.server.act(request)
        body = reply.get("body", b"")
        self.send(request, reply.get("status", 200), body[:len(body) // 2],
                  {**reply.get("headers", {}), "Content-Length": str(len(body) or 1000)})
        self.wfile.flush()
        self.hang_up(request)

    def cut_without_length(self, request):
        """Half of the body, in an answer that ends where the connection does."""
        reply = self.server.act(request)
        body = reply.get("body", b"")
        self.send_response_only(reply.get("status", 200))
        for name, value in reply.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[:len(body) // 2])
        self.wfile.flush()
        self.hang_up(request)

    def babble(self, request):
        """No HTTP."""
        self.wfile.write(b"\0\1\2 this is not HTTP\r\n\r\n")
        self.wfile.flush()
        self.hang_up(request)

    def sleep(self, request):
        """Nothing, until the server ends."""
        self.server.ended.wait(60)
        self.close_connection = True

    def stall(self, request):
        """A part of the body, and then nothing."""
        reply = self.server.act(request)
        body = reply["body"]
        self.send(request, reply.get("status", 200), body[:10], {**reply["headers"], "Content-Length": str(len(body))})
        self.wfile.flush()
        self.sleep(request)

    def all_of_it(self, request):
        """Whatever range was asked for."""
        del request.headers["Range"]
        self.send(request, **self.server.act(request))

    def other_range(self, request):
        """A range, but not the one that was asked for."""
        body = self.server.objects[request.bucket, request.key]
        self.send(request, 206, body[:10], {"Content-Range": f"bytes 0-9/{len(body)}"})

    def lose(self, request):
        """Do what is asked for, and hang up instead of saying so."""
        self.server.act(request)
        self.hang_up(request)


class Objects(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, tls=None, public=False, token=None, keys=(ACCESS, SECRET)):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.RLock()
        self.ended = threading.Event()
        self.log, self.faults, self.uploads, self.objects = [], [], {}, {}
        self.buckets = {b"bucket"}
        self.public, self.token, self.keys = public, token, keys
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # clients that hang up are what we are here for

    def fault(self, do, times=1, method=None, key=None, query=None):
        """Misbehave for the next requests of this method, with this key and this query parameter."""
        self.faults.append({"do": do, "left": times, "when": lambda r:
                            (method is None or r.method == method) and (key is None or r.key == key) and
                            (query is None or query in r.query)})

    def act(self, r):
        if r.bucket not in self.buckets and not (r.method == "PUT" and not r.key):
            return error(404, "NoSuchBucket", "The specified bucket does not exist")
        if not r.key and "list-type" in r.query:
            return self.list(r)
        if not r.key:
            self.buckets.add(r.bucket)
            return {}
        if "uploads" in r.query or "uploadId" in r.query:
            return self.act_on_parts(r)
        at = (r.bucket, r.key)
        if r.method == "PUT":
            self.objects[at] = r.body
            return {"headers": {"ETag": etag(r.body)}}
        if r.method == "DELETE":
            self.objects.pop(at, None)
            return {"status": 204}
        if at not in self.objects:
            return error(404, "NoSuchKey", "The specified key does not exist")
        return self.act_on_bytes(r, self.objects[at])

    def list(self, r):
        after, prefix = r.query.get("start-after", "").encode(), r.query.get("prefix", "").encode()
        keys = sorted(key for bucket, key in self.objects if bucket == r.bucket and key > after and key.startswith(prefix))
        most = int(r.query.get("max-keys", 1000))
        bodies = [self.objects[r.bucket, key] for key in keys[:most]]
        return {"body": page(keys[:most], len(keys) > most, sizes=[b"%d" % len(body) for body in bodies],
                             etags=[etag(body).replace('"', "&quot;").encode() for body in bodies])}

    @staticmethod
    def act_on_bytes(r, body):
        headers = {"ETag": etag(body)}
        if r.headers.get("If-Match") not in (None, etag(body)):
            return error(412, "PreconditionFailed", "At least one of the preconditions did not hold")
        if r.method == "HEAD":
            return {"headers": {**headers, "Content-Length": str(len(body))}}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", r.headers.get("Range") or "")
        if not wanted:
            return {"body": body, "headers": headers}
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        if first >= len(body):
            return {**error(416, "InvalidRange"), "headers": {"Content-Range": f"bytes */{len(body)}"}}
        return {"status": 206, "body": body[first:last + 1],
                "headers": {**headers, "Content-Range": f"bytes {first}-{last}/{len(body)}"}}

    def act_on_parts(self, r):
        if r.method == "POST" and "uploads" in r.query:
            upload = f"up{len(self.uploads)}/+&="
            self.uploads[upload] = {}
            return {"body": f"<InitiateMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
                            f"<UploadId>{upload.replace('&', '&amp;')}</UploadId>"
                            f"</InitiateMultipartUploadResult>".encode()}
        parts = self.uploads.get(r.query["uploadId"])
        if parts is None:
            return error(404, "NoSuchUpload", "The specified upload does not exist")
        if r.method == "PUT":
            parts[int(r.query["partNumber"])] = r.body
            return {"headers": {"ETag": etag(r.body)}}
        if r.method == "DELETE":
            del self.uploads[r.query["uploadId"]]
            return {"status": 204}
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>([^<]+)</ETag>", r.body.decode())
        whole = b"".join(parts[int(number)] for number, _ in named)
        if [tag for _, tag in named] != [etag(parts[int(number)]) for number, _ in named] or \
                any(len(parts[int(number)]) < 5 << 20 for number, _ in named[:-1]):
            return error(400, "InvalidPart")
        self.objects[r.bucket, r.key] = whole
        del self.uploads[r.query["uploadId"]]
        return {"body": f"<CompleteMultipartUploadResult><ETag>{etag(whole)}</ETag></CompleteMultipartUploadResult>"
                        .encode()}


def etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'
