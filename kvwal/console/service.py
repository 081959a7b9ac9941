"""The service of `kvwal console`: HTTP until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from kvwal.cluster.token import TokenSource
from kvwal.console.access import Access, is_loopback_name
from kvwal.console.application import application
from kvwal.errors import ConfigError
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.node.config import Address
from kvwal.node.health.http import HttpServer
from kvwal.ports.boundary import logged, on_signals
from kvwal.ports.tasks import ThreadWorkers

_GRACE_SECONDS = 10
_THREADS = 4
_not_stopped = logged("the console could not be told to stop")


def check_access(address: Address, tokens: TokenSource | None) -> None:
    """Raise `ConfigError` for an address that other machines reach, without a token."""
    if tokens is None and not is_loopback_name(address.host):
        raise ConfigError(
            f"--http {address.host}:{address.port} can be reached from other machines, and the console has no token.",
            hint="Name a file with one: --token-file FILE; or listen on 127.0.0.1.",
        )


def serve(address: Address, tokens: TokenSource | None, events: EventStore | None, began: Callable[[], Any]) -> None:
    """Serve until SIGTERM or SIGINT; pending requests have ten seconds then. Raises `StartFailed` if it cannot listen there.

    `began` is called as soon as it listens, and a signal ends it in order.
    """
    asyncio.run(_serve(address, tokens, events, began))


async def _serve(
    address: Address, tokens: TokenSource | None, events: EventStore | None, began: Callable[[], Any]
) -> None:
    workers, stop = ThreadWorkers("kvwal-console", _THREADS), asyncio.Event()
    on_signals(asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT), stop.set, _not_stopped)
    try:
        host = address.host.strip("[]")
        server = HttpServer(
            application(events, workers, Access(tokens)), address._replace(host=host), grace=_GRACE_SECONDS
        )
        began()
        await stop.wait()
        await server.close()
    finally:
        workers.close()
