"""Watches: the changes of a map as server-sent events, from now on or from any position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from kvwal.console.bodies import Refused
from kvwal.console.ownapi.entries import entry_json
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.errors import ConfigError, KvwalError
from kvwal.location.cluster import ClusterMaps
from kvwal.sql.text import encode_json
from kvwal.store.sync import Store
from kvwal.structures.watch import Watch

MOST_WATCHES = 32
HEARTBEAT_SECONDS = 15.0
_LOOK_SECONDS = 0.5
"""How often it is looked for changes."""
_AT_ONCE = 100
_RETRY_MS = 2000
"""When a browser connects again after the end of a stream."""
_TOO_MANY = f"{MOST_WATCHES} watches are open already. Ask again later."
_NO_WATCH = (
    "An archive is not watched: nobody is told of its new objects. Watch the folder or the cluster that archives there."
)


class Watches:
    """The open watches of a console, whose number is limited."""

    def __init__(self) -> None:
        self._open = 0

    async def watch(self, console: Console, asked: Asked) -> Response:
        """A stream of the changes of a map. Raises `Refused` if too many are open."""
        business = asked.part("business")
        after = asked.header("last-event-id") or asked.text("after")
        if self._open >= MOST_WATCHES:
            raise Refused(503, _TOO_MANY)
        self._open += 1
        try:
            start = _start(asked, after)
            watch = await console.reads.ask(partial(_begin, business, start))
        except BaseException:
            self._open -= 1
            raise
        return _Stream(_events(console, watch), self._end)

    def _end(self) -> None:
        self._open -= 1


class _Stream(StreamingResponse):
    """A stream that says when it has ended, also if it never began."""

    def __init__(self, content: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


def _start(asked: Asked, after: str | None) -> Any:
    """Where a watch begins: at a position, as the id of an event has it, or after a moment. None is now."""
    if after is None or after.startswith("{"):
        return after
    return asked.moment("after")


def _begin(business: str, after: Any, view: View) -> Watch:
    reader = view.reader
    if not isinstance(reader, Store | ClusterMaps):
        raise Refused(404, _NO_WATCH)
    reader.read_business(business)  # a business that is not there is an error, and none is made
    try:
        return reader.map(business).watch(after)
    except (ConfigError, msgspec.MsgspecError) as error:
        raise Refused(400, f"after: {error}") from error


async def _events(console: Console, watch: Watch) -> AsyncIterator[bytes]:
    """The events of a watch. The id of each is its position: `Last-Event-ID` goes on exactly after it."""
    yield b"retry: %d\n\n" % _RETRY_MS
    loop = asyncio.get_running_loop()
    said = loop.time()
    while not console.stopping.is_set():
        try:
            changes = await console.workers.run(partial(_taken, watch))
        except KvwalError as error:
            yield _event("error", {"error": f"{error.what} {error.hint}".strip()})
            return
        if changes:
            yield b"".join(_event("change", entry, position) for position, entry in changes)
            said = loop.time()
            continue
        if loop.time() - said >= HEARTBEAT_SECONDS:
            said = loop.time()
            yield b": still here\n\n"
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await console.stopping.wait()
        except TimeoutError:
            continue
    yield _event("end", {"end": "The console stops. Connect again with Last-Event-ID."})


def _taken(watch: Watch) -> list[tuple[str, Any]]:
    """The next changes, each with the position after it."""
    taken: list[tuple[str, Any]] = []
    while len(taken) < _AT_ONCE and (found := watch.poll(1)):
        taken.append((watch.position, entry_json(found[0])))
    return taken


def _event(name: str, data: Any, position: str | None = None) -> bytes:
    of = "" if position is None else f"id: {position}\n"
    return f"event: {name}\n{of}data: ".encode() + encode_json(data) + b"\n\n"
