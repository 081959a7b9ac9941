"""The service of `kvwal record --follow`: signals, log lines, the follower on a thread, and HTTP for those who watch it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.util import find_spec

from kvwal.errors import ConfigError
from kvwal.node.command import log_as_json
from kvwal.node.config import Address, parse_address
from kvwal.ports.boundary import logged, on_signals
from kvwal.ports.clock import SYSTEM
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers
from kvwal.spark.eventlog.folders import open_folder
from kvwal.spark.follower.service import FollowerService, OpenStore
from kvwal.spark.follower.status import FollowerStatus

_FOR_HTTP = ("starlette", "uvicorn", "prometheus_client")
_not_stopped = logged("the follower could not be told to stop")


def follow(
    open_store: OpenStore, places: Sequence[str], every: float, http: str | None, *, keep_logs: bool = False
) -> None:
    """Follow the event logs at these places until SIGTERM or SIGINT. `keep_logs`: keep those that have ended, or are quiet."""
    if not places:
        raise ConfigError(
            "--follow needs folders of event logs.", hint="Name them: kvwal record LOCATION DIR_OR_URL… --follow"
        )
    address = parse_address(http, "--http") if http is not None else None
    missing = [name for name in _FOR_HTTP if find_spec(name) is None] if address is not None else []
    if missing:
        raise ConfigError(
            f"--http needs {', '.join(missing)}.", hint="Install what the cluster needs: pip install 'kvwal[cluster]'."
        )
    folders = [open_folder(place) for place in places]
    log_as_json()
    status, stop = FollowerStatus(SYSTEM), threading.Event()
    service = FollowerService(open_store, folders, status, SYSTEM, stop, every, keep_logs=keep_logs)
    log = get_logger(__name__)
    began = partial(log.info, "following event logs", places=[folder.url for folder in folders])
    asyncio.run(_serve(service, status, stop, address, began))
    log.info("stopped", rounds=status.rounds, events=status.events)


async def _serve(
    service: FollowerService,
    status: FollowerStatus,
    stop: threading.Event,
    address: Address | None,
    began: Callable[[], None],
) -> None:
    """Run the service on a thread, and HTTP on this loop, until a signal comes or the service raises an error.

    `began` is called as soon as a signal ends it in order.
    """
    workers = ThreadWorkers("kvwal-follower", 2)
    on_signals(asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT), stop.set, _not_stopped)
    began()
    close = _start_http(status, workers, address) if address is not None else None
    try:
        await workers.run(service.run)
    finally:
        if close is not None:
            await close()
        workers.close()


def _start_http(status: FollowerStatus, workers: ThreadWorkers, address: Address) -> Callable[[], Awaitable[None]]:
    from kvwal.node.health.http import HttpServer, application
    from kvwal.spark.follower.metrics import FollowerMetrics

    metrics = FollowerMetrics(status)
    return HttpServer(application(status.ready, metrics.page, workers), address).close
