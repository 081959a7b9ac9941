"""SQL over the tables of the store, which only reads, with limits of time, rows and memory."""

from __future__ import annotations

from starlette.responses import Response

from kvwal.console.bodies import Refused, read_limited
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.entries import json_answer
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console
from kvwal.console.queries.question import Form
from kvwal.console.queries.runner import MOST_ROWS, MOST_SECONDS, Limits

__all__ = ["MOST_ROWS", "MOST_SECONDS", "sql", "sql_of_body"]
ARROW = "application/vnd.apache.arrow.stream"
MOST_SQL = 256 << 10


async def sql(console: Console, asked: Asked) -> Response:
    """The answer to the statement in the parameter `sql`."""
    return await _answer(console, asked, asked.text("sql") or "")


async def sql_of_body(console: Console, asked: Asked) -> Response:
    """The answer to the statement in the body."""
    kind = asked.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/sql", "text/plain"):
        raise Refused(415, "Send the statement as application/sql or text/plain, and say so in Content-Type.")
    try:
        statement = (await read_limited(asked.request, MOST_SQL)).decode()
    except UnicodeDecodeError:
        raise Refused(400, "The statement is no UTF-8 text.") from None
    return await _answer(console, asked, statement)


async def _answer(console: Console, asked: Asked, statement: str) -> Response:
    wants_arrow = asked.choice("form") == "arrow" or ARROW in asked.request.headers.get("accept", "")
    form: Form = "arrow" if wants_arrow else "json"
    limits = Limits(asked.count("seconds"), asked.count("limit"))
    found = await console.queries.ask(statement, form, limits, asked.moment("at"), asked.request.is_disconnected)
    if form == "arrow":
        return Response(found.arrow, media_type=ARROW, headers={"X-Kvwal-Whole": str(found.is_whole).lower()})
    rows = shapes.Rows(columns=found.columns, types=found.types, rows=found.rows, is_whole=found.is_whole)
    return json_answer(rows)
