"""The HTTP application of the console: its health, and the events of OpenLineage that it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.console.access import Access
from kvwal.console.bodies import ClientDisconnect, Refused, read_body
from kvwal.errors import Kind, KvwalError, TooLarge
from kvwal.lineage.openlineage.event_store import EventStore, Stored
from kvwal.lineage.openlineage.events import checked_batch, parsed
from kvwal.lineage.openlineage.schema import InvalidEvent
from kvwal.ports.boundary import trace_of_bug
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

_log = get_logger(__name__)
_READ_ONLY = "This console only reads: start it with --allow-writes to have it take events."
Handler = Callable[[Request], Awaitable[Response]]


def application(events: EventStore | None, workers: Workers, access: Access) -> Starlette:
    """The application. Events go to `events`; None: the console only reads, and refuses them.

    The checks of a body and the writes are made on `workers`, so that a long body does not hold up the others.
    """

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def take(request: Request, *, batch: bool) -> Response:
        if events is None:
            raise Refused(403, _READ_ONLY)
        body = await read_body(request)
        stored = await workers.run(partial(_store, events, body, batch=batch))
        if not batch:
            return JSONResponse({"stored": stored.new, "known": stored.known}, status_code=201)
        count = stored.new + stored.known
        summary = {"received": count, "successful": count, "failed": 0, "retriable": 0, "non_retriable": 0}
        return JSONResponse({"status": "success", "summary": summary, "failed_events": []})

    guarded = partial(_guarded, access)
    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/api/v1/lineage", guarded(partial(take, batch=False)), methods=["POST"]),
            Route("/api/v1/lineage/batch", guarded(partial(take, batch=True)), methods=["POST"]),
        ]
    )


def _store(events: EventStore, body: bytes, *, batch: bool) -> Stored:
    """Check the events of a body, all of them before the first is stored."""
    told = parsed(body)
    if batch and not isinstance(told, list):
        raise InvalidEvent("$", "a batch is a list of events", "the body")
    return events.put(checked_batch(told))


def _guarded(access: Access, handler: Handler) -> Handler:
    """The handler, with the check of the caller before it, and an answer for each of its errors."""

    async def answered(request: Request) -> Response:
        refusal = access.refusal(request)
        if refusal is not None:
            return _refused(401, refusal)
        try:
            return await handler(request)
        except Refused as error:
            return _refused(error.status, error.sentence)
        except InvalidEvent as error:
            return JSONResponse(
                {"error": f"{error.what} {error.hint}", "path": error.path, "reason": error.reason}, status_code=422
            )
        except ClientDisconnect:
            return _refused(400, "The body ended early.")
        except TooLarge as error:
            return _refused(413, f"{error.what} {error.hint}".strip())
        except KvwalError as error:
            _log.error("events were not stored", error=error.what, hint=error.hint, exc_info=trace_of_bug(error))
            status = 503 if error.kind is Kind.RETRY else 500
            return _refused(status, f"The events were not stored: {error.what} {error.hint}".strip())

    return answered


def _refused(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)
