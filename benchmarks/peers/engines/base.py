"""What every engine can do. A write returns when it is durable."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec


class Engine(Protocol):
    """A store that is open. Every call may come from any thread."""

    def put(self, entries: dict[str, bytes]) -> None:
        """Put all entries as one durable transaction."""

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """Put an entry that expires. `NotImplementedError` where entries do not expire."""

    def delete(self, key: str) -> None:
        """Delete an entry durably."""

    def get(self, key: str) -> bytes | None:
        """The value of a key."""

    def scan(self, start: str, count: int) -> int:
        """Read up to `count` entries in the order of the keys from about `start`, and return how many."""

    def count(self) -> int:
        """The number of entries."""

    def compact(self) -> None:
        """Leave on the disk only what is needed, by the engine's own means."""

    def close(self) -> None:
        """Close the store."""


class Opening(msgspec.Struct, frozen=True):
    """Where an engine keeps its files, and the port of its server where it has one."""

    folder: Path
    port: int = 0
