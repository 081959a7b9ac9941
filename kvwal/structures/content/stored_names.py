"""Names of contents that recovery passed unread: they are read from the files of the log when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
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
    for looks_left in reversed(range(_LOOKS)):
        try:
            return [entry for entries in stored.contents() for entry in entries if not entry.deleted]
        except OSError as error:
            if isinstance(error, FileNotFoundError) and looks_left:
                continue
            raise LogFailed(
                f"the names of contents cannot be read from the log ({error}); nothing was changed.",
                hint="They are in the log. Mend the disk, then try again.",
            ) from error
    raise AssertionError("the last look returns or raises")
