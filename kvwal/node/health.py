"""Health, readiness and metrics over HTTP, for machines that look after machines. It says nothing of what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.errors import ConfigError
from kvwal.node.config import Address

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def application(ready: Callable[[], tuple[bool, dict[str, object]]], metrics: Callable[[], bytes]) -> Starlette:
    """`ready` says whether the node serves, and why not."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        serves, found = ready()
        return JSONResponse({"ready": serves, **found}, status_code=200 if serves else 503)

    async def metrics_page(request: Request) -> Response:
        return Response(metrics(), media_type=_PROMETHEUS)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics_page)])


class _Server(uvicorn.Server):
    """Leaves signals alone: the service has its own idea of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves on the running loop until `close`. `ConfigError` if it cannot listen at the address."""

    def __init__(self, application: Starlette, address: Address) -> None:
        try:
            self._socket = socket.create_server(address)
        except OSError as error:
            raise ConfigError(
                f"--http {address}: cannot listen there ({error.strerror}).", hint="Choose another address."
            ) from error
        self._server = _Server(uvicorn.Config(application, log_config=None, access_log=False, lifespan="off"))
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))

    async def close(self) -> None:
        """Answer what was asked, and stop listening."""
        self._server.should_exit = True
        await self._task
        self._socket.close()
