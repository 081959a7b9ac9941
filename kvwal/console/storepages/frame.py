"""A request for a page about the store: its parameters, and the links and commands that the page shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.requests import Request

from kvwal.console.bodies import Refused
from kvwal.console.pages.rendering import Pages
from kvwal.console.pages.tables import Link, address
from kvwal.errors import ConfigError
from kvwal.location.entry_text import parse_moment


class Asked:
    """A request for a page."""

    def __init__(self, request: Request, pages: Pages) -> None:
        self.path: Mapping[str, str] = request.path_params
        self.query: Mapping[str, str] = request.query_params
        self.link: Link = partial(address, request)
        self.command = pages.command

    def text(self, name: str) -> str:
        """A parameter, empty if it was not given. A lone surrogate in it is a question mark."""
        return self.query.get(name, "").encode(errors="replace").decode()

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A parameter that is a whole number. Raises `Refused`."""
        typed = self.query.get(name, "")
        if not typed:
            return default
        if not (typed.isascii() and typed.isdecimal()) or len(typed) > 9 or not least <= int(typed) <= most:
            raise Refused(400, f"{name}={typed[:40]!r} must be a number from {least} to {most}.")
        return int(typed)

    @property
    def at(self) -> int | None:
        """The timestamp of the time that was asked for; None for now. Raises `Refused`."""
        typed = self.text("at")
        if not typed:
            return None
        try:
            return parse_moment(typed)
        except (ConfigError, OverflowError) as error:
            raise Refused(400, f"at: {error}") from error

    def at_words(self) -> tuple[str, ...]:
        """The option of a command for the time that was asked for."""
        return ("--at", self.text("at")) if self.text("at") else ()
