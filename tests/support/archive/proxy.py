"""An HTTP proxy before an S3 server that does to chosen requests what networks and servers in trouble do.

A request is answered with an error that the server never saw (`500`, `503`), is cut before or after the server did what it says
(`cut`, `lost`), reaches the server in half (`half`), or waits until the test says otherwise (`held`). An answer may also be an
error of S3 by its code (`403 ExpiredToken`), the whole object in place of a range of it (`whole`), a web page with the status 200
of which the server knows nothing (`page`), or the server's own answer with a bit flipped in its body (`flipped`), with half of
its body (`short`), or with half of the body that it promises (`torn`).
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

WAIT_S = 60
PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Please sign in.</p></body></html>"
"""It is XML, too: a parser of XML takes it."""
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
Choose = Callable[[str, str], str | None]
"""What becomes of a request (method, path); None: what it asks for."""


class Proxy:
    """`url` is where clients go. `choose` may be replaced at any time; `met` counts what became of requests, by its words."""

    def __init__(self, endpoint: str) -> None:
        self.server = endpoint
        self.url = ""
        self.choose: Choose = lambda method, path: None
        self.whole: Callable[[str], bytes] = lambda path: b""
        self.page = PAGE
        self.at_half: Callable[[], None] = lambda: None
        self.ignores_conditions = False
        """As a store without conditional puts: it says to each put of a taken key that it has taken the object."""
        self.puts = 0
        self.met: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._holding = True

    def note(self, word: str) -> None:
        """Something became of a request."""
        with self._changed:
            self.met[word] += 1
            self._changed.notify_all()

    def wait_for(self, word: str, count: int = 1) -> None:
        """Wait until `count` requests met it; a test whose proxy is not asked fails."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.met[word] >= count, WAIT_S), f"no request was {word}"

    def hold(self) -> None:
        """Wait for `go_on`."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._holding, WAIT_S), "nobody let it go on"

    def go_on(self) -> None:
        """Let what is held go on, and hold nothing any more."""
        with self._changed:
            self._holding = False
            self._changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.puts += self.command == "PUT"
        what = self.proxy.choose(self.command, self.path)
        if what is None:
            self._pass_on(body)
            return
        if what == "half":
            self._pass_half(body)
        elif what[:3].isdigit():
            self._refuse(*what.partition(" ")[::2])
        elif what == "whole":
            self._say(200, self.proxy.whole(self.path), [])
        elif what == "held":
            self.proxy.note("waiting")
            self.proxy.hold()
            self._pass_on(body)
        elif what == "lost":
            self._ask(body)
        elif what == "page":
            page = self.proxy.page
            self._say(200, b"" if self.command == "HEAD" else page, [("Content-Type", "text/html")], str(len(page)))
        elif what in ("flipped", "short", "torn"):
            self._pass_wrong(body, what)
        self.close_connection = True
        self.proxy.note(what)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815

    def _refuse(self, status: str, code: str) -> None:
        """An error of S3; as S3 does it, without a body to a HEAD request."""
        said = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>" if code else ""
        self._say(int(status), b"" if self.command == "HEAD" else said.encode(), [])

    def _pass_on(self, body: bytes) -> None:
        try:
            answer, data = self._ask(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the server is away: so is its answer
            return
        if self.proxy.ignores_conditions and self.command == "PUT" and answer.status == 412:
            self._say(200, b"", [("ETag", '"0"')])
            return
        length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
        self._say(answer.status, data, answer.getheaders(), length)

    def _pass_wrong(self, body: bytes, how: str) -> None:
        """The server does what it is asked for, and its answer comes wrong."""
        answer, data = self._ask(body)
        half = len(data) // 2
        wrong = data[:half]
        if how == "flipped" and data:
            wrong += bytes([data[half] ^ 1]) + data[half + 1 :]
        self._say(answer.status, wrong, answer.getheaders(), str(len(data)) if how == "torn" else None)

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """What the server answers."""
        with self._begun(len(body)) as connection:
            connection.send(body)
            answer = connection.getresponse()
            return answer, answer.read()

    def _pass_half(self, body: bytes) -> None:
        """The server gets half of it, then something happens."""
        with self._begun(len(body)) as connection:
            connection.send(body[: len(body) // 2])
            self.proxy.at_half()

    @contextmanager
    def _begun(self, length: int) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection(urlsplit(self.proxy.server).netloc, timeout=WAIT_S)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP | {"expect"}:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(length))
            connection.endheaders()
            yield connection
        finally:
            connection.close()

    def _say(self, status: int, data: bytes, headers: list[tuple[str, str]], length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Not here."""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, address: Any) -> None:
        """A client that gave up is what some tests want."""


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """A proxy before this server."""
    proxy = Proxy(endpoint)
    listener = _Quiet(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    proxy.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.go_on()
        listener.shutdown()
        thread.join()
        listener.server_close()
