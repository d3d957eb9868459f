"""A server of bucket lists that misbehaves by a script.

The bucket holds `keys`, in whatever order they are given. A script is a function that gets the query, the number of the
request (from 0 on) and the good answer's keys, and returns an Answer; None is the good answer. Signatures are not looked at.
"""

import socket
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

PAGE = 1000


class Answer:
    """What goes over the wire. `length` is what Content-Length says; `then` is "keep", "close" or "hang"."""

    def __init__(self, status=200, body=b"", length=None, then="keep", wait=0.0, headers=(), endless=None):
        self.status, self.body, self.length, self.then = status, body, length, then
        self.wait, self.headers, self.endless = wait, headers, endless


def error(status, code, message="it does not please us", **more):
    return Answer(status, b"<?xml version='1.0'?><Error><Code>%s</Code><Message>%s</Message></Error>"
                  % (code.encode(), message.encode()), **more)


def page(keys, truncated, token=None, encode=True, sizes=None, head=b"", tail=b"", etags=None):
    """A page as servers make it. `etags` are what stands in the page: with their quotes, and encoded."""
    parts = [b'<?xml version="1.0" encoding="UTF-8"?>', head,
             b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>']
    if encode:
        parts.append(b"<EncodingType>url</EncodingType>")
    if truncated is not None:
        parts.append(b"<IsTruncated>%s</IsTruncated>" % (b"true" if truncated else b"false"))
    for i, key in enumerate(keys):
        shown = urllib.parse.quote(key, safe="").encode() if encode else escape(key.decode()).encode()
        size = sizes[i] if sizes else b"%d" % len(key)
        etag = b"<ETag>%s</ETag>" % etags[i] if etags else b"<ETag>&quot;0&quot;</ETag>"
        parts.append(b"<Contents><Key>%s</Key><LastModified>2026-11-15T12:00:00.000Z</LastModified>"
                     b"%s<Size>%s</Size><StorageClass>STANDARD</StorageClass></Contents>"
                     % (shown, etag, size))
    if token is not None:
        parts.append(b"<NextContinuationToken>%s</NextContinuationToken>" % token.encode())
    parts.append(tail + b"</ListBucketResult>")
    return b"".join(parts)


class FaultServer:
    """Requests for a single key, by which clients find out how keys are written, are no part of the script."""

    def __init__(self, keys, script=None, lookup=None):
        self.keys, self.script, self.lookup = keys, script, lookup
        self.nr = self.lookups = 0
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self):
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        # A thread that still waits at a descriptor which is closed would accept for the next server that gets its number.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                data = b""
                while True:
                    while b"\r\n\r\n" not in data:
                        more = connection.recv(65536)
                        if not more:
                            return
                        data += more
                    head, data = data.split(b"\r\n\r\n", 1)
                    target = head.split(b" ")[1]
                    if not self.answer(connection, target.decode()):
                        return
            except OSError:
                return  # the client had enough

    def good_keys(self, query):
        """The whole of the list behind what was asked for; the page is its start."""
        after = query.get("continuation-token", query.get("start-after", "")).encode()
        prefix = query.get("prefix", "").encode()
        return [key for key in self.keys if key > after and key.startswith(prefix)]

    def answer(self, connection, target):
        query = {k: v for k, v in urllib.parse.parse_qsl(target.partition("?")[2], keep_blank_values=True)}
        is_lookup = query.get("max-keys") == "1"
        script = self.lookup if is_lookup else self.script
        with self.lock:
            nr = self.nr
            self.nr += not is_lookup
            self.lookups += is_lookup
        keys = self.good_keys(query)
        most = min(PAGE, int(query.get("max-keys", PAGE)))
        given = script(query, nr, keys[:most]) if script else None
        a = given or Answer(body=page(keys[:most], len(keys) > most))
        if a.wait:
            self.ending.wait(a.wait)
        if a.status:
            lines = ["HTTP/1.1 %d Whatever" % a.status, "Content-Type: application/xml",
                     "Content-Length: %d" % (len(a.body) if a.length is None else a.length), *a.headers]
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + a.body)
        while a.endless:
            connection.sendall(a.endless)
        if a.then == "hang":
            self.ending.wait(60)
        return a.then == "keep"


def slow(seconds):
    return lambda query, nr, keys: time.sleep(seconds)
