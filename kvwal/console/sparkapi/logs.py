"""Event logs of Spark's REST API: the kept logs of an application as a zip, which is made while it is sent."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from kvwal.console.answers import guarded
from kvwal.console.parts import Console
from kvwal.console.sparkapi.known import nothing_kept
from kvwal.console.sparkapi.parameters import not_found
from kvwal.console.sparkapi.serving import Asked, error, routes_of_application
from kvwal.console.sparkstate.kept_states import KeptStates
from kvwal.spark.eventlog.lines import log_bytes
from kvwal.spark.kept.contents import SUFFIX
from kvwal.spark.kept.replay import KeptEventLog
from kvwal.spark.record_keys import app_prefix

_FIRST_ATTEMPT = "1"


class _Unsent:
    """The bytes of a zip that were not sent yet, as the file that it is written to. Nothing is sought in it."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self._pending += data
        return len(data)

    def flush(self) -> None:
        """Nothing waits behind this file."""

    def take(self) -> bytes:
        """The bytes since the last call."""
        taken, self._pending = bytes(self._pending), bytearray()
        return taken


def log_routes(console: Console, states: KeptStates) -> list[Route]:
    """The routes of GET logs, of an application and of one attempt."""
    handler = guarded(console.access, partial(_send, console, states), error)
    return routes_of_application("/logs", handler)


async def _send(console: Console, states: KeptStates, request: Request) -> Response:
    app, attempt = request.path_params["app"], request.path_params.get("attempt", "")
    held = ExitStack()
    try:
        view = await console.workers.run(lambda: held.enter_context(console.reads.view()))
        logs = await console.workers.run(lambda: _logs(Asked(view, states, app, attempt, {}, request.query_params)))
    except BaseException:
        await console.workers.run(held.close)
        raise
    name = f"eventLogs-{app}-{attempt}.zip" if attempt else f"eventLogs-{app}.zip"
    ascii_name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name
    )
    headers = {"Content-Disposition": f"attachment; filename={ascii_name}"}
    return StreamingResponse(_pieces(console, held, logs), media_type="application/octet-stream", headers=headers)


def _logs(asked: Asked) -> list[KeptEventLog]:
    """The kept logs of an application: of one attempt, or of all if none is named."""
    records = asked.view.records
    prefixes = [app_prefix(asked.app, asked.attempt)]
    if not asked.attempt and records.application(prefixes[0]) is None:
        if records.application(app_prefix(asked.app, _FIRST_ATTEMPT)) is None:
            raise not_found(f"no such app: {asked.app}/{_FIRST_ATTEMPT}")
        prefixes = sorted(prefix for prefix, app in records.applications() if app.id == asked.app)
    elif records.application(prefixes[0]) is None:
        raise not_found(f"no such app: {asked.key}")
    found = [log for prefix in prefixes if (log := asked.states.log_of(asked.view, prefix)) is not None]
    if not found:
        raise nothing_kept(asked, "The event log")
    return found


async def _pieces(console: Console, held: ExitStack, logs: list[KeptEventLog]) -> AsyncIterator[bytes]:
    """The zip, a chunk of a log at a time."""
    try:
        pieces = _zipped(logs)
        while (piece := await console.workers.run(partial(next, pieces, None))) is not None:
            if piece:
                yield piece
    finally:
        await console.workers.run(held.close)


def _zipped(logs: list[KeptEventLog]) -> Iterator[bytes]:
    """The zip of logs: the lines of each as Spark wrote them, under the name that Spark gives a log without compression."""
    unsent = _Unsent()
    with zipfile.ZipFile(unsent, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:  # type: ignore[call-overload]
        for log in logs:
            name = log.path.name.replace(SUFFIX, "")
            with archive.open(name, "w", force_zip64=True) as entry:
                for data in log_bytes(log.path):
                    entry.write(data)
                    yield unsent.take()
    yield unsent.take()
