"""HTTP server of a node: /healthz, /readyz and /metrics. It shows nothing of the stored values."""

from __future__ import annotations

import contextlib
import hmac
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.cluster.token import Token
from kvwal.errors import ConfigError
from kvwal.node.config import Address
from kvwal.ports.boundary import logged, start_task
from kvwal.ports.tasks import Workers

_UNAUTHORIZED = (
    "This cluster has a token: ask from this node's machine, or show the token of http_token_file as Authorization:"
    " Bearer."
)
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class HttpAccess:
    """Access to the details of /readyz and to /metrics: for callers on this machine, and for callers that show the token."""

    def __init__(self, token: Token | None, *, closed: bool) -> None:
        """`closed`: callers on other machines need the token. Otherwise every caller has access."""
        self._token = None if token is None else f"Bearer {token.reveal()}".encode()
        self._closed = closed

    def allows(self, request: Request) -> bool:
        """Whether the caller of this request has access."""
        if not self._closed:
            return True
        shown = request.headers.get("authorization", "").encode()
        known = self._token is not None and hmac.compare_digest(shown, self._token)
        return known or (request.client is not None and ip_address(request.client.host).is_loopback)


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


class _Server(uvicorn.Server):
    """A uvicorn server without signal handlers: the node has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """The HTTP server, on the running loop until `close`. `ConfigError` if it cannot listen at the address."""

    def __init__(self, application: Starlette, address: Address) -> None:
        try:
            self._socket = socket.create_server(address)
        except OSError as error:
            raise ConfigError(
                f"--http {address}: cannot listen there ({error.strerror}).", hint="Choose another address."
            ) from error
        self._server = _Server(uvicorn.Config(application, log_config=None, access_log=False, lifespan="off"))
        self._task = start_task(self._server.serve([self._socket]), logged("the HTTP server of this node has stopped"))

    async def close(self) -> None:
        """Answer the pending requests, and stop listening."""
        self._server.should_exit = True
        await self._task
        self._socket.close()
