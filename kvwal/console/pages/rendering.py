"""Templates of the pages: text that a store holds is text in every page, never HTML."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kvwal.console.pages import texts
from kvwal.console.parts import Console


class Pages:
    """Pages of one console, made from its templates."""

    def __init__(self, console: Console) -> None:
        self._environment = Environment(
            loader=PackageLoader("kvwal.console", "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters.update(texts.FILTERS)
        self._environment.globals.update(location=console.location, signed_in=console.access.needs_token)

    def page(self, request: Request, template: str, values: dict[str, Any], status: int = 200) -> Response:
        """The page of a template. `values` must have `title`, and `command`: the `kvwal` command that answers the same."""
        text = self._environment.get_template(template).render(path=request.url.path, **values)
        return HTMLResponse(text, status_code=status)

    def error(self, request: Request, status: int, sentence: str) -> Response:
        """The page of an error: where to sign in, for a caller without the token."""
        values = {
            "title": "Sign in" if status == 401 else "Error",
            "command": "",
            "status": status,
            "sentence": sentence,
        }
        return self.page(request, "error.html", values, status)
