"""Transaction object: collects the changes of one `with` block and submits them once."""

from __future__ import annotations

from typing import Any

from kvwal.entry import Entry, entry_identity
from kvwal.errors import TransactionClosed
from kvwal.structures.map.changes import Changes, TimeToLive

_NEW, _OPEN, _OVER = "was not begun", "is open", "is over"


class CollectedChanges:
    """Base class of the synchronous and the asynchronous `Transaction`: accepts changes inside one `with` block only.

    Outside the block, and in a second block, every call raises `TransactionClosed`. So changes that were rolled back or committed
    cannot be written again. `timestamp` is 0 until the transaction is committed.
    """

    def __init__(self) -> None:
        self.timestamp = 0
        self._entries: list[Entry] = []
        self._latest: dict[tuple[str, bytes], Entry] = {}
        self._stage = _NEW

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put, at the end of the block."""
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete, at the end of the block, whether the key is there or not."""
        self._add(self._changes_now().delete(key))

    def put(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> None:
        """Put, at the end of the block. The key counts as absent after `ttl`, seconds or a `timedelta`."""
        self._add(self._changes_now().put(key, value, ttl))

    def _add(self, entries: list[Entry]) -> None:
        self._entries += entries
        self._latest.update((entry_identity(entry), entry) for entry in entries)

    def _pending(self, key: Any) -> Entry | None:
        """The last change of `key` in this block, None if it has none."""
        identity = self._changes_now().codecs.identity(key)
        return None if identity is None else self._latest.get(identity)

    def _value(self, change: Entry, default: Any) -> Any:
        """The value that a change puts; `default` if it is a delete."""
        return default if change.deleted else self._changes().codecs.decode(change.value, change.value_class)

    def _changes(self) -> Changes:
        raise NotImplementedError

    def _changes_now(self) -> Changes:
        if self._stage is not _OPEN:
            raise TransactionClosed(
                f"this transaction {self._stage}; nothing was written.",
                hint="Change keys inside its `with` block, and begin a new one with transaction() for each block.",
            )
        return self._changes()

    def _begin(self) -> None:
        if self._stage is not _NEW:
            raise TransactionClosed(
                f"this transaction {self._stage}, and cannot begin again; this call wrote nothing.",
                hint="Begin a new one with transaction() for each `with` block.",
            )
        self._stage = _OPEN

    def _end(self, raised: bool) -> list[Entry]:
        """The entries to commit: none if the block raised."""
        entries, self._entries, self._latest, self._stage = self._entries, [], {}, _OVER
        return [] if raised else entries
