"""The paths of the pages, and of the files that pages load."""

from __future__ import annotations

from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import HTTPExceptionHandler

from kvwal.console.access import SESSION_COOKIE
from kvwal.console.bodies import read_form
from kvwal.console.pages.rendering import Pages
from kvwal.console.parts import Console

_MOST_FORM = 4096


def routes(console: Console) -> list[BaseRoute]:
    """The routes of all pages."""
    pages = Pages(console)

    async def login(request: Request) -> Response:
        if not console.access.needs_token:
            return RedirectResponse("/", status_code=303)
        typed = (await read_form(request, _MOST_FORM)).get("token", "") if request.method == "POST" else ""
        session = console.access.session_of(typed)
        if session is None:
            sentence = "This is not the console's token." if typed else "Type the token of --token-file."
            return pages.error(request, 401, sentence)
        answer = RedirectResponse(_own_path(request.query_params.get("to", "/")), status_code=303)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(SESSION_COOKIE, session, httponly=True, samesite="strict", secure=secure)
        return answer

    return [
        Route("/login", login, methods=["GET", "POST"]),
        Mount("/static", _PageFiles(directory=str(files("kvwal.console") / "static"))),
    ]


def not_found(console: Console) -> HTTPExceptionHandler:
    """What answers for an address that is not there: a page for people, the words of HTTP for programs."""
    pages = Pages(console)

    async def answer(request: Request, error: Exception) -> Response:
        shown = "Not Found" if not isinstance(error, HTTPException) else error.detail
        path = request.url.path
        if request.method not in ("GET", "HEAD") or path.startswith(("/api/", "/static/", "/healthz")):
            return PlainTextResponse(shown, status_code=404)
        refusal = console.access.refusal(request)
        if refusal is not None:
            return pages.error(request, refusal.status, refusal.sentence)
        return pages.error(request, 404, f"There is no page {path[:200]}. Check the address, or begin at one of these.")

    return answer


class _PageFiles(StaticFiles):
    """The files that pages load: a browser keeps them, and asks each time whether they are the same still."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """See `StaticFiles.file_response`."""
        answer = super().file_response(*arguments, **options)
        answer.headers["cache-control"] = "no-cache"
        return answer


def _own_path(to: str) -> str:
    """The path to go to after signing in: one of this console, never an address elsewhere."""
    split = urlsplit(to)
    return (
        to if to.startswith("/") and not to.startswith(("//", "/\\")) and not split.netloc and not split.scheme else "/"
    )
