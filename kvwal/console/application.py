"""The HTTP application of the console: its health, Spark's REST API, the API of kvwal, OpenLineage's path, and pages."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvwal.console import openlineage
from kvwal.console.headers import with_headers
from kvwal.console.ownapi.routes import routes as own_routes
from kvwal.console.pages.routes import not_found
from kvwal.console.pages.routes import routes as page_routes
from kvwal.console.parts import Console
from kvwal.console.sparkapi.routes import routes as spark_routes
from kvwal.console.sparkpages.routes import routes as spark_page_routes
from kvwal.console.storepages.routes import routes as store_page_routes


def application(console: Console) -> Starlette:
    """The application of a console."""
    return Starlette(
        routes=[
            Route("/healthz", _healthz),
            *openlineage.routes(console),
            *spark_routes(console),
            *own_routes(console),
            *spark_page_routes(console),
            *store_page_routes(console),
            *page_routes(console),
        ],
        middleware=[Middleware(with_headers)],
        exception_handlers={404: not_found(console)},
    )


async def _healthz(request: Request) -> Response:
    return JSONResponse({"alive": True})
