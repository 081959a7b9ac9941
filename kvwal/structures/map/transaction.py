"""A map in a transaction: its changes in one `with` block, and what a read in the block shows of them."""

from __future__ import annotations

from typing import Any

from kvwal.entry import Entry
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges


class MapInTransaction:
    """The changes of one map in a block. Every call raises `TransactionClosed` outside the block."""

    def __init__(self, changes: TransactionChanges) -> None:
        self._pending_changes = changes

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put, at the end of the block."""
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete, at the end of the block, whether the key is there or not."""
        self._pending_changes.add(self._changes_now().delete(key))

    def put(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> None:
        """Put, at the end of the block. The key counts as absent after `ttl`, seconds or a `timedelta`."""
        self._pending_changes.add(self._changes_now().put(key, value, ttl))

    def _pending(self, key: Any) -> Entry | None:
        """The last change of `key` in this block, None if it has none."""
        identity = self._changes_now().codecs.identity(key)
        return None if identity is None else self._pending_changes.last_change(identity)

    def _value(self, change: Entry, default: Any) -> Any:
        """The value that a change puts; `default` if it is a delete."""
        return default if change.deleted else self._changes().codecs.decode(change.value, change.value_class)

    def _changes_now(self) -> EntryBuilder:
        self._pending_changes.check_open()
        return self._changes()

    def _changes(self) -> EntryBuilder:
        raise NotImplementedError
