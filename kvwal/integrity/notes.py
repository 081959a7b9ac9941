"""Notes of a scrub: what was read and found sound, so that one that was interrupted goes on where it stopped.

A sealed segment, a snapshot and an object of the archive never change, so what was read once in a scrub need not be read
again in it. The notes are a file of JSON lines that whoever runs the scrub names; a finished scrub deletes it. What was not
sound is not noted, and is read again.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Notes(Protocol):
    """What was found sound, by a name and a mark that another file of the same name does not have."""

    def known(self, name: str, mark: str) -> list[Any] | None:
        """What was noted of it; None if it has to be read."""
        ...

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """It was read whole, and is sound."""
        ...


class Note(msgspec.Struct, array_like=True):
    """One line of the file."""

    name: str
    mark: str
    record: list[Any]


class NotesInMemory:
    """Notes of one run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], list[Any]] = {}

    def known(self, name: str, mark: str) -> list[Any] | None:
        """See `Notes.known`."""
        return self._known.get((name, mark))

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """See `Notes.add`."""
        self._known[name, mark] = record
