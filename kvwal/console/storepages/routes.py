"""The paths of the pages about the store."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from kvwal.console.access import is_of_another_site
from kvwal.console.answers import guarded
from kvwal.console.bodies import Refused
from kvwal.console.figures.renewal import renew
from kvwal.console.pages.rendering import Pages, Shown
from kvwal.console.parts import Console
from kvwal.console.queries.runner import Limits
from kvwal.console.shared_reader import View
from kvwal.console.storepages.frame import Asked
from kvwal.console.storepages.keys import businesses_page, key_page, keys_page
from kvwal.console.storepages.lineage import lineage_page
from kvwal.console.storepages.operations import operations_page
from kvwal.console.storepages.sql import sql_page
from kvwal.console.storepages.structures import contents_page, queue_page, queues_page

Question = Callable[[View, Asked], Shown]
_FROM_ELSEWHERE = "A page of another site led here with this statement. Read it, and run it if you mean it."


def routes(console: Console) -> list[BaseRoute]:
    """The routes of the pages about the store."""
    pages = Pages(console)

    def route(path: str, question: Question) -> Route:
        async def show(request: Request) -> Response:
            asked = Asked(request, pages)
            return await pages.show(request, lambda view: question(view, asked))

        return Route(path, guarded(console.access, show, pages.error))

    async def sql(request: Request) -> Response:
        asked = Asked(request, pages)
        statement, found, error = asked.text("sql").strip(), None, ""
        at = asked.at
        if statement and is_of_another_site(request):
            error = _FROM_ELSEWHERE
        elif statement:
            try:
                found = await console.queries.ask(statement, "json", Limits(), at, request.is_disconnected)
            except Refused as refused:
                if asked.text("format"):
                    raise
                error = refused.sentence
        return await pages.show(request, lambda view: sql_page(asked, statement, found, error))

    async def operations(request: Request) -> Response:
        asked = Asked(request, pages)
        if asked.text("examine"):
            if not is_of_another_site(request):
                await console.workers.run(console.figures.examinations.now)
            return RedirectResponse(asked.link({"examine": None}), 303)
        shown = await pages.show(request, lambda view: operations_page(view, asked, console.figures))
        renew(console)
        return shown

    return [
        route("/store", businesses_page),
        Route("/store/sql", guarded(console.access, sql, pages.error)),
        route("/store/{business}", keys_page),
        route("/store/{business}/key", key_page),
        route("/store/{business}/queues", queues_page),
        route("/store/{business}/queue", queue_page),
        route("/store/{business}/contents", contents_page),
        route("/lineage", lineage_page),
        Route("/operations", guarded(console.access, operations, pages.error)),
    ]
