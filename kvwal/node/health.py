"""Health, readiness and metrics over HTTP, for machines that look after machines. It says nothing of what is stored."""

from __future__ import annotations

import contextlib
import hmac
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.cluster.map_names import INTERNAL
from kvwal.cluster.token import Token
from kvwal.errors import ConfigError
from kvwal.node.adapters.bootstrap import Bootstrap
from kvwal.node.adapters.clock_bounds import ClockBoundsExchange
from kvwal.node.adapters.failover import Adoption
from kvwal.node.config import Address
from kvwal.node.jvm import java
from kvwal.node.metrics import MOST, REST, Metrics
from kvwal.ports.boundary import logged, start_task
from kvwal.store.engine import Engine

_QUERY_SECONDS = 2.0
"""Queries that wait longer for a thread do not count as served."""
_CLOSED = "This cluster has a token: ask from this node's machine, or show the token of http_token_file as Authorization: Bearer."
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Phase(Enum):
    """What a node is doing."""

    STARTING = "starting"
    RECOVERING = "recovering"
    COPYING = "copying"
    """Clients are let in, but some keys are in fewer memories yet than they should be: whoever stops or kills another member now
    may make a hole."""
    SERVING = "serving"
    LEAVING = "leaving"


@dataclass
class NodeStatus:
    """What a node is doing and how it is, for whoever looks after it. Its parts are filled in as they begin."""

    engine: Engine
    gate: Any
    metrics: Metrics
    phase: Phase = Phase.STARTING
    instance: Any = None
    recovery: Bootstrap | None = None
    adoption: Adoption | None = None
    limits: ClockBoundsExchange | None = None
    queries: Any = None
    """See QueryProbe.java."""
    query_seconds: float = 0.0

    def look_at_queries(self) -> None:
        """Measure how long a query waits for a thread. It is to be called every moment."""
        if self.queries is not None and self.phase is not Phase.LEAVING:
            self.query_seconds = float(self.queries.waitingSeconds())

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether it serves, and what people may want to know of it."""
        failed = self.failed()
        found: dict[str, object] = {"phase": self.phase.value, "failed": failed}
        if self.recovery is not None:
            found |= self.recovery.told
        if self.adoption is not None and self.adoption.partitions:
            found["adopting"] = {"lost": self.adoption.lost, "partitions": self.adoption.partitions}
        if full := self.full():
            found["full"] = full
        if (lost := self.gate.lost()) is not None:
            found["lost"] = str(lost)
        budget = self.engine.descriptors()
        if budget.short:
            found["descriptors"] = budget._asdict()
        if slow := self.query_seconds > _QUERY_SECONDS:
            found["queries"] = f"all threads for predicates have been busy for {self.query_seconds:.0f} s"
        serves = self.phase is Phase.SERVING and not failed and lost is None
        return serves and not budget.short and not slow, found

    def failed(self) -> dict[str, str]:
        """Logs that take nothing more, and why."""
        open_ones = self.engine.businesses.items()
        return {name: str(found.log.writer.failed) for name, found in open_ones if found.log.writer.failed is not None}

    def full(self) -> dict[str, str]:
        """Logs whose last write found no room on the disk."""
        open_ones = self.engine.businesses.items()
        return {name: str(found.log.writer.full) for name, found in open_ones if found.log.writer.full is not None}

    def page(self) -> bytes:
        """All figures, as Prometheus reads them. Called off the event loop, on which clients' writes are."""
        stats = self.engine.stats()
        gauges = self._gauges()
        gauges["descriptors_free"] = (
            "File descriptors that this process may still open.", float(stats["descriptors"]["free"]),
        )  # fmt: skip
        gauges["descriptors_reserve"] = (
            "File descriptors that are kept for archiving and recovery: with fewer free no map more is opened.",
            float(stats["descriptors"]["reserve"]),
        )  # fmt: skip
        gauges["descriptors_logs"] = ("Logs that hold a file descriptor now.", float(stats["descriptors"]["logs"]))
        if stats["disk"] is not None:
            usable = float(stats["disk"]["usable_bytes"])
            gauges["disk_usable_bytes"] = ("Bytes that may still be written before writes are refused.", usable)
        return self.metrics.page(gauges, stats["businesses"], self._maps())

    def _maps(self) -> dict[str, tuple[int, int]]:
        if self.instance is None or self.phase is Phase.LEAVING:
            return {}
        found = java("kvwal.member.HeapUsage").of(self.instance, MOST, INTERNAL, REST)
        return {str(each.getKey()): (int(each.getValue()[0]), int(each.getValue()[1])) for each in found.entrySet()}

    def _gauges(self) -> dict[str, tuple[str, float]]:
        serving = self.phase is Phase.SERVING
        found = {"recovered": ("1 when memory holds all that the logs do.", float(serving))}
        if self.instance is not None and self.phase is not Phase.LEAVING:
            members = self.instance.getCluster().getMembers().size()
            found["cluster_members"] = ("Members of the cluster.", float(members))
        heap = java("java.lang.Runtime").getRuntime()
        used = float(heap.totalMemory() - heap.freeMemory())
        found["heap_used_bytes"] = ("Bytes of the JVM's heap that are in use, garbage included.", used)
        found["heap_max_bytes"] = ("Bytes that the JVM's heap may take.", float(heap.maxMemory()))
        if self.limits is not None:
            found["clock_skew_seconds"] = (
                "How far ahead of this clock the clock of that member is that is furthest off.",
                self.limits.skew_seconds,
            )
        found["query_wait_seconds"] = ("How long a query has waited for a thread.", self.query_seconds)
        adopting = 0 if self.adoption is None else self.adoption.partitions
        found["adopting"] = (
            "Partitions of lost members that are yet to be written to the logs of others.",
            float(adopting),
        )
        return found


class Access:
    """Who may read more than whether a node lives and serves: callers on this machine, and those who show the token."""

    def __init__(self, token: Token | None, *, closed: bool) -> None:
        """Without `closed` every caller may."""
        self._token = None if token is None else f"Bearer {token.reveal()}".encode()
        self._closed = closed

    def allows(self, request: Request) -> bool:
        """Whether this caller may."""
        if not self._closed:
            return True
        shown = request.headers.get("authorization", "").encode()
        known = self._token is not None and hmac.compare_digest(shown, self._token)
        return known or (request.client is not None and ip_address(request.client.host).is_loopback)


OPEN = Access(None, closed=False)
"""A node without a token."""


def application(
    ready: Callable[[], tuple[bool, dict[str, object]]], metrics: Callable[[], Awaitable[bytes]], access: Access = OPEN
) -> Starlette:
    """`ready` says whether the node serves, and why not; `metrics` gives the figures.
    Whom `access` does not allow hears whether, and no more."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        serves, found = ready()
        found = found if access.allows(request) else {}
        return JSONResponse({"ready": serves, **found}, status_code=200 if serves else 503)

    async def metrics_page(request: Request) -> Response:
        if not access.allows(request):
            return JSONResponse({"error": _CLOSED}, status_code=401)
        return Response(await metrics(), media_type=_PROMETHEUS)

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
        self._task = start_task(self._server.serve([self._socket]), logged("the HTTP server of this node has stopped"))

    async def close(self) -> None:
        """Answer what was asked, and stop listening."""
        self._server.should_exit = True
        await self._task
        self._socket.close()
