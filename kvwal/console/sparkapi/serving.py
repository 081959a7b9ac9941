"""Answers of Spark's REST API: a question on a worker, JSON of rows in pieces, and errors as the text that Spark gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kvwal.console.answers import Handler, guarded
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.console.sparkstate.kept_states import KeptStates

ROOT = "/api/v1"
PIECE = 1_000
"""Rows that are encoded at once. A longer answer is sent in pieces, so that it is never in memory as a whole."""
_JSON = "application/json"
encode = msgspec.json.Encoder().encode


class Asked(NamedTuple):
    """A question: the location as the request sees it, states, the application and its attempt, if one is named, the numbers in
    the path, and the parameters.
    """

    view: View
    states: KeptStates
    app: str
    attempt: str
    path: dict[str, str]
    given: QueryParams

    @property
    def key(self) -> str:
        """The application as Spark's messages name it."""
        return f"{self.app}/{self.attempt}" if self.attempt else self.app


class Rows(NamedTuple):
    """A list of rows, and what is shown of each in a view of the location; a row itself if `show` is None."""

    rows: Sequence[Any]
    show: Callable[[View, Any], Any] | None = None

    def piece(self, start: int, view: View) -> bytes:
        """The JSON of `PIECE` rows, without the brackets of the list."""
        rows = self.rows[start : start + PIECE]
        return encode(rows if self.show is None else [self.show(view, row) for row in rows])[1:-1]


class Json(NamedTuple):
    """An answer that is encoded already."""

    data: bytes


Question = Callable[[Asked], Any]


def error(request: Request, status: int, sentence: str) -> Response:
    """An error as Spark tells it: a text."""
    headers = {"WWW-Authenticate": 'Bearer realm="kvwal"'} if status == 401 else None
    return PlainTextResponse(sentence, status_code=status, headers=headers)


def handler_of(console: Console, states: KeptStates, question: Question) -> Handler:
    """What answers requests with a question, once their caller was checked."""
    return guarded(console.access, partial(_answer, console, states, question), error)


def routes_of_application(path: str, handler: Handler) -> list[Route]:
    """The routes of a path below an application: with the attempt before it, and without."""
    above = [f"/applications/{{app}}{attempt}" for attempt in ("", "/{attempt}")]
    return [route for each in above for route in routes_of(each + path, handler)]


def routes_of(path: str, handler: Handler) -> list[Route]:
    """The routes of a path. Spark answers a path with a slash behind it likewise."""
    return [Route(f"{ROOT}{path}{end}", handler) for end in ("", "/")]


async def _answer(console: Console, states: KeptStates, question: Question, request: Request) -> Response:
    path = dict(request.path_params)
    app, attempt, given = path.pop("app", ""), path.pop("attempt", ""), request.query_params
    answer = await console.reads.ask(
        lambda view: _encoded(view, question(Asked(view, states, app, attempt, path, given)))
    )
    if isinstance(answer, Json):
        return Response(answer.data, media_type=_JSON)
    return StreamingResponse(_pieces(console, answer), media_type=_JSON)


def _encoded(view: View, answer: Any) -> Json | Rows:
    """The JSON of an answer, made on the worker. A list with more rows than a piece stays a list."""
    if isinstance(answer, Json):
        return answer
    if not isinstance(answer, Rows):
        return Json(encode(answer))
    return answer if len(answer.rows) > PIECE else Json(b"[" + answer.piece(0, view) + b"]")


async def _pieces(console: Console, rows: Rows) -> AsyncIterator[bytes]:
    yield b"["
    for start in range(0, len(rows.rows), PIECE):
        piece = await console.reads.ask(partial(rows.piece, start))
        yield piece if start == 0 else b"," + piece
    yield b"]"
