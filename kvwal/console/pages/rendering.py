"""Templates of the pages: text that a store holds is text in every page, never HTML."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kvwal.console.pages import tables, texts
from kvwal.console.pages.tables import Table
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View


class Shown(NamedTuple):
    """What a page shows: its template, the values of it, and its tables. A template finds a table by name in `tables`.

    `values` must have `title`, and `command`: the `kvwal` command that answers the same, or nothing.
    """

    template: str
    values: dict[str, Any]
    tables: Sequence[Table] = ()


_ERRORS = {400: "Wrong request", 401: "Sign in", 404: "Not found", 503: "Not available now"}


class Pages:
    """Pages of one console, made from its templates."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._environment = Environment(
            loader=PackageLoader("kvwal.console", "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters.update(texts.FILTERS)
        self._environment.globals.update(
            location=console.location, signed_in=console.access.needs_token, cell=tables.cell, heading=tables.heading
        )

    def page(self, request: Request, template: str, values: dict[str, Any], status: int = 200) -> Response:
        """The page of a template (see `Shown`)."""
        text = self._environment.get_template(template).render(
            path=tables.path_of(request),
            query=request.query_params,
            link=partial(tables.address, request),
            http_status=status,
            **values,
        )
        # A lone surrogate, which JSON can name, has no bytes in UTF-8.
        return HTMLResponse(text.encode(errors="replace"), status_code=status)

    async def show(self, request: Request, question: Callable[[View], Shown]) -> Response:
        """The page that a question about the location gives; one of its tables in CSV or JSON, if the request asks for that.

        Reading and rendering run on a worker.
        """
        wanted = tables.wanted_format(request)

        def answer(view: View) -> Response:
            shown = question(view)
            if wanted:
                return tables.in_format(wanted, request.query_params.get("table", ""), shown.tables)
            by_name = {table.name: table for table in shown.tables}
            return self.page(request, shown.template, {"tables": by_name, **shown.values})

        return await self._console.reads.ask(answer)

    def command(self, *words: str) -> str:
        """A `kvwal` command about the location of this console, as a shell takes it. The first word is its name."""
        first, *others = words
        return " ".join(["kvwal", first, *map(shlex.quote, (self._console.location, *self._selected(), *others))])

    def _selected(self) -> list[str]:
        """The options that select the same part of the location, where they are not those that a command takes by itself.

        An archive whose address may have a secret, which stands before an @, is left to the reader.
        """
        place = self._console.place
        archive = None if "@" in (place.archive or "") else place.archive
        chosen = (
            ("--namespace", place.namespace, "default"), ("--cluster", place.cluster, "local"),
            ("--node", place.node, None), ("--archive", archive, None),
        )  # fmt: skip
        return [word for option, value, default in chosen if value and value != default for word in (option, value)]

    def error(self, request: Request, status: int, sentence: str) -> Response:
        """The page of an error: where to sign in, for a caller without the token."""
        asked = tables.path_of(request) + (f"?{request.url.query}" if request.url.query else "")
        values = {
            "title": _ERRORS.get(status, "Error"), "command": "", "sentence": sentence,
            "to": "/" if request.url.path == "/login" else asked,
        }  # fmt: skip
        return self.page(request, "error.html", values, status)
