"""Content in memory, as kept logs need it: `kvwal.spark.kept.contents.Contents`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple


class Stored(NamedTuple):
    """One content."""

    name: str
    data: bytes
    attributes: Mapping[str, str]

    @property
    def length(self) -> int:
        """Its bytes."""
        return len(self.data)


class MemoryContents:
    """Contents by name. `created` are the names in the order in which they were made."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.created: list[str] = []

    @contextmanager
    def create(self, name: str, attributes: Mapping[str, str], /) -> Iterator[BinaryIO]:
        """See `Contents.create`."""
        out = io.BytesIO()
        yield out
        self.stored[name] = Stored(name, out.getvalue(), attributes)
        self.created.append(name)

    def open(self, name: str, /) -> BinaryIO:
        """See `ReadContents.open`."""
        return io.BytesIO(self.stored[name].data)

    def stat(self, name: str, /) -> Stored:
        """See `ReadContents.stat`."""
        return self.stored[name]

    def list(self, prefix: str, /) -> list[Stored]:
        """See `ReadContents.list`."""
        return sorted(stored for name, stored in self.stored.items() if name.startswith(prefix))

    def delete(self, name: str, /) -> None:
        """See `Contents.delete`."""
        del self.stored[name]
