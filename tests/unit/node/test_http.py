"""The HTTP port of a node: with a token anyone may ask whether it lives and serves, and no more; figures cost no write."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from selectors import DefaultSelector, SelectorKey
from threading import Event, current_thread
from typing import Any

import pytest

from kvwal.cluster.token import Token, TokenSource
from kvwal.node.config import Address
from kvwal.node.health.http import OPEN, HttpAccess, HttpServer, application
from kvwal.ports.tasks import ThreadWorkers
from tests.support.ports import free_port

TOKEN = "a-token-for-prometheus"
FAR, NEAR = "10.0.0.9", "127.0.0.1"


def figures() -> bytes:
    return b"kvwal_figures 1"


def thread_name() -> bytes:
    return current_thread().name.encode()


def ask(
    access: HttpAccess,
    path: str,
    host: str,
    authorization: str | None = None,
    page: Callable[[], bytes] = figures,
) -> tuple[int, bytes]:
    """Status and body of an answer to a caller at `host`."""
    heard: list[dict[str, Any]] = []
    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "client": (host, 1), "server": ("node", 8701), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        heard.append(message)

    workers = ThreadWorkers("scrapers", 1)
    app = application(lambda: (False, {"phase": "starting", "failed": {"jobs": "a path"}}), page, workers, access)
    asyncio.run(app(scope, receive, send))
    workers.close()
    return heard[0]["status"], heard[1]["body"]


CLOSED = HttpAccess(TokenSource((Token(TOKEN, "the test's"),)), closed=True)


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
def test_without_the_token_figures_stay_closed_and_readiness_is_bare(authorization: str | None) -> None:
    status, body = ask(CLOSED, "/metrics", FAR, authorization)
    assert status == 401
    assert b"kvwal_figures" not in body
    assert ask(CLOSED, "/readyz", FAR, authorization) == (503, b'{"ready":false}')
    assert ask(CLOSED, "/healthz", FAR, authorization)[0] == 200


@pytest.mark.parametrize(("host", "authorization"), [(FAR, f"Bearer {TOKEN}"), (NEAR, None), ("::1", None)])
def test_a_request_with_the_token_or_from_this_machine_reads_all(host: str, authorization: str | None) -> None:
    assert ask(CLOSED, "/metrics", host, authorization) == (200, b"kvwal_figures 1")
    assert b"a path" in ask(CLOSED, "/readyz", host, authorization)[1]


def test_a_cluster_with_a_token_and_none_for_http_answers_this_machine_only() -> None:
    closed = HttpAccess(None, closed=True)
    assert ask(closed, "/metrics", FAR, "Bearer ")[0] == 401
    assert ask(closed, "/metrics", FAR, "Bearer None")[0] == 401
    assert ask(closed, "/metrics", NEAR)[0] == 200


def test_two_tokens_count_while_the_token_is_changed() -> None:
    old, new = f"{TOKEN}-old", f"{TOKEN}-new"
    source = TokenSource((Token(old, "the test's"), Token(new, "the test's")))
    access = HttpAccess(source, closed=True)
    assert ask(access, "/metrics", FAR, f"Bearer {old}")[0] == 200
    assert ask(access, "/metrics", FAR, f"Bearer {new}")[0] == 200
    source.tokens = source.tokens[1:]
    assert ask(access, "/metrics", FAR, f"Bearer {old}")[0] == 401
    assert ask(access, "/metrics", FAR, f"Bearer {new}")[0] == 200


def test_a_cluster_without_a_token_answers_everyone() -> None:
    assert ask(OPEN, "/metrics", FAR)[0] == 200


def test_figures_are_made_beside_the_event_loop() -> None:
    """The loop has the clients' writes, and a page of 3,000 maps takes tens of milliseconds."""
    assert ask(OPEN, "/metrics", FAR, page=thread_name)[1].startswith(b"scrapers")


class Waits(DefaultSelector):
    """A selector that notes how long its event loop would wait: None until something comes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Event()
        self.longest: list[float | None] = []

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.longest.append(timeout)
            self.seen.set()
        return super().select(timeout)


async def answer_of(address: Address, path: str) -> dict[str, str]:
    """The headers of one answer; the connection is closed after it."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
    status, *lines = (await reader.read()).decode().partition("\r\n\r\n")[0].split("\r\n")
    writer.close()
    await writer.wait_closed()
    assert status == "HTTP/1.1 200 OK"
    return dict(line.lower().split(": ", 1) for line in lines)


def test_a_server_that_nobody_asks_waits_and_its_answers_have_their_time() -> None:
    waits, workers = Waits(), ThreadWorkers("scrapers", 1)
    address = Address("127.0.0.1", free_port())

    async def idle() -> dict[str, str]:
        server = HttpServer(application(lambda: (True, {}), figures, workers, OPEN), address)
        headers = await answer_of(address, "/healthz")
        waits.longest.clear()
        waits.seen.clear()
        await workers.run(waits.seen.wait)
        await server.close()
        return headers

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(waits)) as runner:
        headers = runner.run(idle())
    workers.close()
    assert waits.longest[0] is None
    assert abs(parsedate_to_datetime(headers["date"]) - datetime.now(UTC)) < timedelta(minutes=1)


def sockets_connected_to(port: int) -> Iterator[socket.socket]:
    """The sockets of this process whose other end has this port. Each is a copy, and shares its options."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
            if each.family == socket.AF_INET and each.getpeername()[1] == port:
                yield each


def test_no_part_of_an_answer_waits_for_the_receipt_of_the_one_before() -> None:
    """Nagle's algorithm does so, and the receipt takes a client 40 ms."""
    workers, address = ThreadWorkers("scrapers", 1), Address("127.0.0.1", free_port())

    async def options() -> list[int]:
        server = HttpServer(application(lambda: (True, {}), figures, workers, OPEN), address)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        await reader.readuntil(b"}")
        port = writer.get_extra_info("sockname")[1]
        found = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets_connected_to(port)]
        writer.close()
        await writer.wait_closed()
        await server.close()
        return found

    assert asyncio.run(options()) == [1]
    workers.close()
