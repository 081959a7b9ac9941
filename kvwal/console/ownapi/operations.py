"""Operations of kvwal's REST API: what the routes and the OpenAPI document are both made from, and the check of parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from kvwal.console.bodies import Refused
from kvwal.console.parts import Console
from kvwal.errors import CodecError, ConfigError
from kvwal.key_text import KEY_CLASSES, from_plain
from kvwal.location.entry_text import parse_moment

PREFIX = "/api/kvwal/v1"
_TRUE, _FALSE = ("true", "1", ""), ("false", "0")


class Parameter(NamedTuple):
    """A parameter of a path, a query or a header, with its JSON schema."""

    name: str
    about: str
    schema: dict[str, Any]
    where: str = "query"
    required: bool = False
    example: str = ""


def text(name: str, about: str, *, required: bool = False, example: str = "") -> Parameter:
    """A parameter that is text."""
    return Parameter(name, about, {"type": "string"}, required=required, example=example)


def count(name: str, about: str, default: int, most: int, least: int = 1) -> Parameter:
    """A parameter that is a whole number."""
    return Parameter(name, about, {"type": "integer", "minimum": least, "maximum": most, "default": default})


def choice(name: str, about: str, choices: tuple[str, ...], default: str) -> Parameter:
    """A parameter that is one of some words."""
    return Parameter(name, about, {"type": "string", "enum": list(choices), "default": default})


def flag(name: str, about: str) -> Parameter:
    """A parameter that is true or false, and false if it is not there."""
    return Parameter(name, about, {"type": "boolean", "default": False})


class Body(NamedTuple):
    """The body of a request: its media types, each with its schema."""

    content: dict[str, Any]
    required: bool = True


class Answer(NamedTuple):
    """An answer: the type of its JSON (None: no body), or its other media types."""

    about: str
    shape: Any = None
    media: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


class Operation(NamedTuple):
    """One method of one path. `errors` are the statuses of sentences that it may answer beside those of every operation."""

    method: str
    path: str
    about: str
    group: str
    call: Callable[[Console, Asked], Awaitable[Response]]
    answers: dict[int, Answer]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    errors: tuple[int, ...] = (404,)

    @property
    def writes(self) -> bool:
        """Whether it changes the store."""
        return self.method in ("PUT", "DELETE")


class Asked:
    """A request of an operation, with its parameters checked. Raises `Refused` for what is no value of a parameter."""

    def __init__(self, request: Request, operation: Operation) -> None:
        self.request = request
        self._given = _given(request)
        known = {each.name: each for each in operation.parameters if each.where == "query"}
        for name in self._given:
            if name not in known:
                there = ", ".join(known) or "none"
                raise Refused(400, f"There is no parameter {name!r} here. Those of this path: {there}.")
        for each in known.values():
            if each.required and each.name not in self._given:
                raise Refused(400, f"The parameter {each.name} is missing: {each.about}")
        self._known = known

    def raw(self, name: str) -> str | None:
        """A parameter as it was given. Bytes that are no UTF-8 are in it as surrogates."""
        return self._given.get(name)

    def text(self, name: str) -> str | None:
        """A parameter that is text, None if it was not given."""
        found = self._given.get(name)
        if found is not None:
            _check_text(name, found)
        return found

    def count(self, name: str) -> int:
        """A parameter that is a number."""
        schema = self._known[name].schema
        found = self._given.get(name)
        if found is None:
            return int(schema["default"])
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
            raise Refused(400, f"{name}={found[:40]!r} is no whole number.")
        if not schema["minimum"] <= int(found) <= schema["maximum"]:
            raise Refused(400, f"{name}={found} must be from {schema['minimum']} to {schema['maximum']}.")
        return int(found)

    def choice(self, name: str) -> str:
        """A parameter that is one of some words."""
        schema = self._known[name].schema
        found = self._given.get(name, schema["default"])
        if found not in schema["enum"]:
            raise Refused(400, f"{name}={found[:40]!r} must be one of {', '.join(schema['enum'])}.")
        return str(found)

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        found = self._given.get(name, "false").lower()
        if found not in _TRUE + _FALSE:
            raise Refused(400, f"{name}={found[:40]!r} must be true or false.")
        return found in _TRUE

    def moment(self, name: str) -> int | None:
        """A parameter that is a time, as a timestamp."""
        found = self.text(name)
        if found is None:
            return None
        try:
            return parse_moment(found)
        except (ConfigError, OverflowError) as error:
            raise Refused(400, f"{name}: {error}") from error

    def key(self, name: str = "key") -> Any:
        """The key that a parameter and `key_class` write."""
        return parsed_key(self._given.get(name, ""), self.choice("key_class"))

    def part(self, name: str) -> str:
        """A part of the path."""
        found = str(self.request.path_params[name])
        _check_text(name, found)
        return found

    def header(self, name: str) -> str | None:
        """A header."""
        return self.request.headers.get(name)


def parsed_key(typed: str, key_class: str) -> Any:
    """A key as it is typed: text, or what `kvwal get --key-class` takes. Raises `Refused`."""
    if key_class != "bytes":
        _check_text("key", typed)
    try:
        return from_plain(typed, key_class)
    except CodecError as error:
        raise Refused(400, f"{error.what} {error.hint}".strip()) from error


def _given(request: Request) -> dict[str, str]:
    """The parameters of the query. Of one that is there twice, the last."""
    query = request.scope["query_string"].decode("ascii", "surrogateescape")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape", max_num_fields=100)
    except ValueError as error:
        raise Refused(400, "The query has too many parameters.") from error
    return dict(pairs)


def _check_text(name: str, found: str) -> None:
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Refused(400, f"{name} is no UTF-8 text. A key of other bytes has key_class=bytes.") from None


BUSINESS = Parameter("business", "The name of a business.", {"type": "string"}, "path", True, "jobs")
KEY_CLASS = choice("key_class", "The class of the key, as `kvwal get --key-class` takes it.", KEY_CLASSES, "str")
KEY = text(
    "key",
    "The key as it is typed on the command line, percent-encoded. With key_class=bytes any bytes: key=%FF%00.",
    required=True,
)
AT = text("at", "The time: 2026-01-31T12:00:00Z, a timestamp, or 90m, 24h, 7d ago.", example="90m")
LIMIT = count("limit", "The most that are answered.", 100, 1000)
CURSOR = text("cursor", "The `next` of the page before.")
