"""HTTP server of a node: /healthz, /readyz and /metrics. It shows nothing of the stored values."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Callable, Iterator
from email.utils import formatdate
from ipaddress import ip_address
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kvwal.cluster.token import TokenSource
from kvwal.errors import StartFailed
from kvwal.node.config import Address
from kvwal.ports.boundary import call_later, logged, start_task
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import Workers

_UNAUTHORIZED = (
    "This cluster has a token: ask from this node's machine, or show the token of http_token_file as Authorization:"
    " Bearer."
)
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class HttpAccess:
    """Access to the details of /readyz and to /metrics: for callers on this machine, and for callers that show the token."""

    def __init__(self, tokens: TokenSource | None, *, closed: bool) -> None:
        """`closed`: callers on other machines need one of the tokens. Otherwise every caller has access."""
        self._tokens = tokens
        self._closed = closed

    def allows(self, request: Request) -> bool:
        """Whether the caller of this request has access."""
        if not self._closed:
            return True
        shown = request.headers.get("authorization", "").encode()
        tokens = () if self._tokens is None else self._tokens.tokens
        known = [hmac.compare_digest(shown, f"Bearer {token.reveal()}".encode()) for token in tokens]
        return any(known) or (request.client is not None and ip_address(request.client.host).is_loopback)


OPEN = HttpAccess(None, closed=False)
"""Access to a node whose cluster has no token."""


def application(
    ready: Callable[[], tuple[bool, dict[str, object]]],
    page: Callable[[], bytes],
    workers: Workers,
    access: HttpAccess = OPEN,
) -> Starlette:
    """The application of a node. `ready` returns whether the node serves, and the details. `page` returns the page of metrics;
    it is called on `workers`, because the event loop has the clients' writes. A caller without `access` gets whether the node
    serves, without details, and no metrics."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        serves, details = ready()
        shown = details if access.allows(request) else {}
        return JSONResponse({"ready": serves, **shown}, status_code=200 if serves else 503)

    async def metrics_page(request: Request) -> Response:
        if not access.allows(request):
            return JSONResponse({"error": _UNAUTHORIZED}, status_code=401)
        return Response(await workers.run(page), media_type=_PROMETHEUS)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics_page)])


def _dated(application: ASGIApp) -> ASGIApp:
    """The application with the time in the header of each answer, as HTTP wants it."""

    async def dated(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                now = formatdate(SYSTEM.wall_ms() / 1000, usegmt=True)
                message = {**message, "headers": [(b"date", now.encode()), *message["headers"]]}
            await send(message)

        await application(scope, receive, send_dated)

    return dated


class Guards(NamedTuple):
    """Limits that slow or many clients meet: connections at a time, and the seconds in which the header of a request must come.

    A connection more gets the answer 503 to its request. One whose header does not come is closed.
    """

    connections: int
    header_seconds: float


class _Protocol(H11Protocol):
    """A connection that is closed when the header of a request does not come in time, be it the first one or a later one.

    uvicorn itself closes a connection that says nothing after an answer.
    """

    header_seconds = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_header()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_header()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _time_header(self) -> None:
        if not self._waits_for_header():
            self._stop_timer()
        elif self._timer is None:
            self._timer = call_later(self.loop, self.header_seconds, self._close_if_silent, _not_closed)

    def _waits_for_header(self) -> bool:
        cycle = getattr(self, "cycle", None)
        return cycle is None or bool(cycle.response_complete)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_if_silent(self) -> None:
        if self._waits_for_header() and not self.transport.is_closing():
            self.transport.close()


_not_closed = logged("a connection without a request could not be closed")


class _Server(uvicorn.Server):
    """A uvicorn server without signal handlers and ticks: the node has its own handlers, and an idle node does nothing."""

    def __init__(self, application: ASGIApp, grace: int | None, guards: Guards | None) -> None:
        protocol = None if guards is None else type("_Guarded", (_Protocol,), {"header_seconds": guards.header_seconds})
        # uvicorn's date is that of its last tick.
        config = uvicorn.Config(
            _dated(application), log_config=None, access_log=False, lifespan="off", date_header=False,
            server_header=False, timeout_graceful_shutdown=grace, http=protocol or "auto",
            limit_concurrency=None if guards is None else guards.connections,
        )  # fmt: skip
        super().__init__(config)
        self._closing = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.on_tick(0)  # the headers of every answer
        await self._closing.wait()

    def close(self) -> None:
        """Have `serve` end."""
        self.should_exit = True
        self._closing.set()


class HttpServer:
    """The HTTP server, on the running loop until `close`. `StartFailed` if it cannot listen at the address."""

    def __init__(
        self, application: Starlette, address: Address, grace: int | None = None, guards: Guards | None = None
    ) -> None:
        """`grace`: seconds that pending requests have when it closes; None: as long as they take. `guards` limit the clients."""
        try:
            self._socket = socket.create_server(address)
            # Each connection inherits it. A body waits for the receipt of its header otherwise, which takes the client 40 ms.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise StartFailed(
                f"--http {address}: cannot listen there ({error.strerror}).",
                hint="Stop the process that listens there, or choose another address; then start again.",
            ) from error
        self._server = _Server(application, grace, guards)
        self._task = start_task(self._server.serve([self._socket]), logged("the HTTP server of this node has stopped"))

    async def close(self) -> None:
        """Answer the pending requests, and stop listening."""
        self._server.close()
        await self._task
        self._socket.close()
