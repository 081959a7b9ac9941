"""The paths of kvwal's REST API."""

from __future__ import annotations

from starlette.routing import Route

from kvwal.console.parts import Console


def routes(console: Console) -> list[Route]:
    """The routes under /api/kvwal/v1."""
    return []
