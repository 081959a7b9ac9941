"""The paths of Spark's REST API."""

from __future__ import annotations

from starlette.routing import Route

from kvwal.console.parts import Console


def routes(console: Console) -> list[Route]:
    """The routes under /api/v1 that Spark's History Server has."""
    return []
