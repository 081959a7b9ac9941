"""The paths of kvwal's REST API."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kvwal.console.access import is_of_another_site
from kvwal.console.answers import Handler, guarded
from kvwal.console.bodies import Refused
from kvwal.console.ownapi.openapi import document
from kvwal.console.ownapi.operations import PREFIX, Asked, Operation
from kvwal.console.ownapi.table import operations
from kvwal.console.parts import Console

_OTHER_SITE = "This request comes from a page of another site: ask from a page of this console, or from a program."


def routes(console: Console) -> list[Route]:
    """The routes under /api/kvwal/v1."""
    table = operations()
    described = document(table)

    async def answer(operation: Operation, request: Request) -> Response:
        # A page of another site reads no answer, but it could have a browser ask for work again and again.
        follows_link = request.headers.get("sec-fetch-mode") == "navigate" and operation.path != "/sql"
        if is_of_another_site(request) and not follows_link:
            raise Refused(403, _OTHER_SITE)
        return await operation.call(console, Asked(request, operation))

    async def openapi(request: Request) -> Response:
        return JSONResponse(described)

    by_path: dict[str, dict[str, Operation]] = {}
    for each in table:
        by_path.setdefault(each.path, {})[each.method] = each

    async def dispatch(methods: dict[str, Operation], request: Request) -> Response:
        operation = methods.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
            raise Refused(405, f"{request.method} is not answered here: {allowed} is.", {"Allow": allowed})
        return await answer(operation, request)

    async def unknown(request: Request) -> Response:
        raise Refused(404, f"There is no such path: see {PREFIX}/openapi.json.")

    def route(path: str, handler: Handler) -> Route:
        return Route(PREFIX + path, _AnyMethod(guarded(console.access, handler)))

    return [
        Route(f"{PREFIX}/openapi.json", guarded(console.access, openapi)),
        *(route(path, partial(dispatch, methods)) for path, methods in by_path.items()),
        route("/{rest:path}", unknown),
    ]


class _AnyMethod:
    """A handler of every method of a path: a route of a function answers GET alone."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._handler(Request(scope, receive))
        await answer(scope, receive, send)
