"""Names of contents that recovery passed unread: they are read from the files of the log when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from kvwal.entry import Entry
from kvwal.errors import LogFailed

_LOOKS = 10
"""How often the files are read again, because a checkpoint replaced one meanwhile."""


class StoredNames(Protocol):
    """The files of the log."""

    def contents(self) -> Iterator[list[Entry]]:
        """The latest entry of every name, sorted by identity, in blocks, deletes included. `FileNotFoundError` when a checkpoint
        has replaced a file that was not read yet. Raises `CorruptLog` and `OSError`.
        """
        ...


def read_names(stored: StoredNames) -> list[Entry]:
    """The names that are there, sorted by identity. Raises `CorruptLog`, and `LogFailed` if the files cannot be read."""
    try:
        for _ in range(_LOOKS - 1):
            with suppress(FileNotFoundError):
                return _names(stored)
        return _names(stored)
    except OSError as error:
        raise LogFailed(
            f"the names of contents cannot be read from the log ({error}); nothing was changed.",
            hint="They are in the log. Mend the disk, then try again.",
        ) from error


def _names(stored: StoredNames) -> list[Entry]:
    return [entry for entries in stored.contents() for entry in entries if not entry.deleted]
