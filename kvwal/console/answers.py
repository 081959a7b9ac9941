"""Answers to requests: the check of the caller before each, and a sentence for each error, as JSON or as a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from kvwal.console.access import Access
from kvwal.console.bodies import Refused
from kvwal.errors import BeforeHistory, CodecError, CommitUnknown, ConfigError, Kind, KvwalError, TooLarge
from kvwal.lineage.openlineage.schema import InvalidEvent
from kvwal.ports.boundary import trace_of_bug
from kvwal.ports.logger import get_logger

_log = get_logger(__name__)
RETRY_SECONDS = "2"
"""When to ask again, as the header `Retry-After` says it."""
Handler = Callable[[Request], Awaitable[Response]]
ShowError = Callable[[Request, int, str], Response]
"""Makes the answer of a status and a sentence: JSON for programs, a page for people."""


def json_error(request: Request, status: int, sentence: str) -> Response:
    """An error as the API of kvwal and OpenLineage's path tell it."""
    headers = {"WWW-Authenticate": 'Bearer realm="kvwal"'} if status == 401 else None
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)


def guarded(access: Access, handler: Handler, show_error: ShowError = json_error) -> Handler:
    """The handler, with the check of the caller before it, and an answer for each of its errors."""

    async def answered(request: Request) -> Response:
        refusal = access.refusal(request)
        if refusal is not None:
            return show_error(request, refusal.status, refusal.sentence)
        try:
            return await handler(request)
        except Refused as error:
            return _with_headers(show_error(request, error.status, error.sentence), error.status, error.headers)
        except InvalidEvent as error:
            return JSONResponse(
                {"error": f"{error.what} {error.hint}", "path": error.path, "reason": error.reason}, status_code=422
            )
        except ClientDisconnect:
            return show_error(request, 400, "The body ended early.")
        except TooLarge as error:
            return show_error(request, 413, f"{error.what} {error.hint}".strip())
        except ConfigError as error:
            return show_error(request, 404 if request.method in ("GET", "HEAD") else 400, _sentence(error))
        except BeforeHistory as error:
            return show_error(request, 404, _sentence(error))
        except CodecError as error:
            return show_error(request, 400, _sentence(error))
        except KvwalError as error:
            # A write whose outcome is not known is not to be sent again, as 503 would have it.
            status = 503 if error.kind is Kind.RETRY and not isinstance(error, CommitUnknown) else 500
            _log.error(
                "a request was not answered", path=request.url.path, error=error.what, hint=error.hint,
                exc_info=trace_of_bug(error),
            )  # fmt: skip
            return _with_headers(show_error(request, status, _sentence(error)), status, {})

    return answered


def _with_headers(answer: Response, status: int, headers: dict[str, str]) -> Response:
    """An answer with headers. That of a state that passes says when to ask again."""
    answer.headers.update(({"Retry-After": RETRY_SECONDS} if status == 503 else {}) | headers)
    return answer


def _sentence(error: KvwalError) -> str:
    return f"{error.what} {error.hint}".strip()
