"""OpenLineage's events over HTTP: POST /api/v1/lineage and /api/v1/lineage/batch."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.console.answers import guarded
from kvwal.console.bodies import Refused, read_body
from kvwal.console.parts import Console
from kvwal.lineage.openlineage.event_store import EventStore, Stored
from kvwal.lineage.openlineage.events import checked_batch, parsed
from kvwal.lineage.openlineage.schema import InvalidEvent

_READ_ONLY = "This console only reads: start it with --allow-writes to have it take events."


def routes(console: Console) -> list[Route]:
    """The paths that OpenLineage's clients use. A body is checked and stored on the workers: a long one holds up no other."""

    async def take(request: Request, *, batch: bool) -> Response:
        if console.writes is None:
            raise Refused(403, _READ_ONLY)
        body = await read_body(request)
        stored = await console.workers.run(partial(_store, console.writes.events, body, batch=batch))
        if not batch:
            return JSONResponse({"stored": stored.new, "known": stored.known}, status_code=201)
        count = stored.new + stored.known
        summary = {"received": count, "successful": count, "failed": 0, "retriable": 0, "non_retriable": 0}
        return JSONResponse({"status": "success", "summary": summary, "failed_events": []})

    return [
        Route("/api/v1/lineage", guarded(console.access, partial(take, batch=False)), methods=["POST"]),
        Route("/api/v1/lineage/batch", guarded(console.access, partial(take, batch=True)), methods=["POST"]),
        # Spark's API has all other paths that begin so, and answers 404.
        Route("/api/v1/lineage", guarded(console.access, _only_takes)),
        Route("/api/v1/lineage/batch", guarded(console.access, _only_takes)),
    ]


async def _only_takes(request: Request) -> Response:
    raise Refused(
        405, "Events are sent here with POST. `kvwal lineage` and the page /lineage show the graph.", {"Allow": "POST"}
    )


def _store(events: EventStore, body: bytes, *, batch: bool) -> Stored:
    """Check the events of a body, all of them before the first is stored."""
    told = parsed(body)
    if batch and not isinstance(told, list):
        raise InvalidEvent("$", "a batch is a list of events", "the body")
    return events.put(checked_batch(told))
