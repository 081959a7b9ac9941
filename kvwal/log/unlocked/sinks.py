"""Receivers of the entries of a log that is read without its lock: each keeps those that a reader wants.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from typing import Protocol

from kvwal.entry import Entry
from kvwal.key_class import DROPPED
from kvwal.log.unlocked.segment_keys import Identity


class Sink(Protocol):
    """A receiver of entries, in log order. If `key` is not None, it wants entries of that key only."""

    key: bytes | None

    def take(self, first: int, entries: list[Entry]) -> None:
        """Take consecutive entries, the first of which has the sequence `first`."""
        ...

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """Take entries of a snapshot that ends with the sequence `last`."""
        ...


class OfIdentity:
    """A sink that keeps every change of one identity, with its sequence (of an entry of the snapshot, the snapshot's last)."""

    def __init__(self, identity: Identity) -> None:
        self.key: bytes | None = identity[1]
        self.rows: list[tuple[int, Entry]] = []
        self.identity = identity

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `Sink.take`."""
        key_class, key = self.identity
        self.rows += [(n, e) for n, e in enumerate(entries, first) if e.key == key and e.key_class == key_class]

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `Sink.take_snapshot`."""
        for entry in entries:
            self.take(last, [entry])


class LatestOfEach:
    """A sink that keeps the latest entry of every identity, with its sequence. Entries younger than `at` do not count.

    With `within` it keeps the identities from the first one to before the second one, and the marks of the map.
    """

    key: bytes | None = None

    def __init__(self, at: int | None = None, within: tuple[Identity, Identity] | None = None) -> None:
        self.latest: dict[Identity, tuple[int, Entry]] = {}
        self._at = at
        self._within = within

    @property
    def rows(self) -> list[tuple[int, Entry]]:
        """Entries with their sequences."""
        return list(self.latest.values())

    @property
    def entries(self) -> dict[Identity, Entry]:
        """The entries by identity, deletes included."""
        return {identity: entry for identity, (_, entry) in self.latest.items()}

    def in_order(self) -> list[Entry]:
        """The entries, sorted by identity."""
        return [self.latest[identity][1] for identity in sorted(self.latest)]

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `Sink.take`."""
        at, within = self._at, self._within
        for sequence, entry in enumerate(entries, first):
            if at is not None and entry.timestamp > at:
                continue
            identity = entry.key_class, entry.key
            if within is None or within[0] <= identity < within[1] or entry.key_class == DROPPED:
                self.latest[identity] = (sequence, entry)

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `Sink.take_snapshot`."""
        for entry in entries:
            self.take(last, [entry])


class Uncounted:
    """A sink that keeps no entry: the log is only checked."""

    key: bytes | None = None

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `Sink.take`."""

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `Sink.take_snapshot`."""
