"""The service of `kvwal console`: HTTP until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

from kvwal.cluster.token import TokenSource
from kvwal.console.access import Access, is_loopback_name
from kvwal.console.application import application
from kvwal.console.figures.examinations import Examinations
from kvwal.console.figures.shared import SharedFigures, beside_of
from kvwal.console.parts import Console, Writes
from kvwal.console.queries.question import Place as Place
from kvwal.console.queries.runner import Queries
from kvwal.console.shared_reader import SharedReader
from kvwal.console.sparkstate.kept_states import KeptStates
from kvwal.errors import ConfigError
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.runs import BUSINESS
from kvwal.location.readers import LocationReader, LocationWriter
from kvwal.node.config import Address
from kvwal.node.health.http import Guards, HttpServer
from kvwal.ports.boundary import logged, on_signals
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers
from kvwal.scrub.diagnose import Finding
from kvwal.spark.index import node_of_mark

_GRACE_SECONDS = 10
_THREADS = 4
CLIENTS = Guards(connections=512, header_seconds=10)
"""Limits of the clients of a console."""
_not_stopped = logged("the console could not be told to stop")
OpenLocation = Callable[[], AbstractContextManager[LocationReader]]


def check_access(address: Address, tokens: TokenSource | None) -> None:
    """Raise `ConfigError` for an address that other machines reach, without a token."""
    if tokens is None and not is_loopback_name(address.host):
        raise ConfigError(
            f"--http {address.host}:{address.port} can be reached from other machines, and the console has no token.",
            hint="Name a file with one: --token-file FILE; or listen on 127.0.0.1.",
        )


class Served(NamedTuple):
    """What a console serves: the location as pages name it, its place, how it is opened and examined, and where it writes.

    A console without a `store` only reads.
    """

    location: str
    place: Place
    open_location: OpenLocation
    examine: Callable[[], list[Finding]]
    store: LocationWriter | None


def serve(address: Address, tokens: TokenSource | None, served: Served, began: Callable[[], Any]) -> None:
    """Serve until SIGTERM or SIGINT; pending requests have ten seconds then. Raises `StartFailed` if it cannot listen there.

    `began` is called as soon as the console listens, and a signal ends it in order.
    """
    asyncio.run(_serve(address, tokens, served, began))


async def _serve(address: Address, tokens: TokenSource | None, served: Served, began: Callable[[], Any]) -> None:
    workers, stop = ThreadWorkers("kvwal-console", _THREADS), asyncio.Event()
    on_signals(asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT), stop.set, _not_stopped)
    reads, queries, store = SharedReader(served.open_location, workers, SYSTEM), Queries(served.place), served.store
    try:
        writes = None if store is None else Writes(store, EventStore(store.map(BUSINESS), node_of_mark(store)))
        console = Console(
            served.location,
            reads,
            writes,
            workers,
            Access(tokens),
            served.place,
            queries,
            SharedFigures(Examinations(served.examine, partial(beside_of, reads), SYSTEM), SYSTEM),
            stop,
            KeptStates(),
        )
        listens_at = address._replace(host=address.host.strip("[]"))
        server = HttpServer(application(console), listens_at, grace=_GRACE_SECONDS, guards=CLIENTS)
        began()
        await stop.wait()
        await server.close()
    finally:
        queries.close()
        workers.close()
        reads.close()
