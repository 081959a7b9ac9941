"""A statement of SQL, and its answer, as the console and its query process exchange them: one line of JSON each."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kvwal.location.opening import Names
from kvwal.store.options import archive_argument

Form = Literal["json", "arrow"]


class Place(msgspec.Struct, frozen=True):
    """The location that is asked: as its user typed it, and the names that select a part of it."""

    location: str
    namespace: str = "default"
    cluster: str = "local"
    node: str | None = None
    archive: str | None = None

    @property
    def names(self) -> Names:
        """The names, as `open_reader` takes them."""
        return Names(self.namespace, self.cluster, self.node, archive_argument(self.archive))


class Question(msgspec.Struct, frozen=True):
    """A statement, the time `at` which it is asked (a timestamp; None: now), and how much of the answer is wanted."""

    place: Place
    sql: str
    form: Form
    most_rows: int
    seconds: int
    at: int | None = None


class Answered(msgspec.Struct, omit_defaults=True):
    """The answer: rows as JSON, or a stream of Arrow (base64 in the line). Or the `error`, with the status of HTTP for it.

    `is_whole` is false if the statement has more rows than were wanted.
    """

    columns: list[str] = []
    types: list[str] = []
    rows: list[list[Any]] = []
    arrow: bytes = b""
    is_whole: bool = True
    status: int = 200
    error: str = ""


encode = msgspec.json.Encoder().encode
decode_question = msgspec.json.Decoder(Question).decode
decode_answer = msgspec.json.Decoder(Answered).decode
