"""Memory: the latest entry of every live identity of one business, as encoded bytes.

Written by one thread (the log writer's loop), read by any. Single look-ups need no lock, because a `dict` answers in one step;
whatever walks over many entries takes `lock`, under which a group is applied, so that it sees whole transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sortedcontainers import SortedDict, SortedSet

from kvwal.entry import Entry
from kvwal.ports.locks import Lock

Now = Callable[[], int]
"""The present by the hybrid clock, in unix ms: what expiry is judged by."""


class State:
    """Tables of entries, one for each key class. An expired entry is absent from every answer."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self.lock = Lock()
        self.tables: dict[str, dict[bytes, Entry]] = {}
        self._orders: dict[str, SortedSet] = {}
        self._expiring: SortedDict = SortedDict()

    def clear(self) -> None:
        """Forget everything (recovery begins again from an older snapshot)."""
        with self.lock:
            self.tables.clear()
            self._orders.clear()
            self._expiring.clear()

    def apply(self, entries: list[Entry]) -> None:
        """Take over a group, in log order."""
        with self.lock:
            if self._orders or self._expiring:
                for entry in entries:
                    self._apply_indexed(entry)
            else:
                self._apply_plain(entries)

    def _apply_plain(self, entries: list[Entry]) -> None:
        """The short way, as long as there is neither a key order nor an expiring entry to keep up."""
        tables = self.tables
        key_class, table = "", None
        rest = iter(entries)
        for entry in rest:
            if entry.expires:
                self._apply_indexed(entry)
                for later in rest:
                    self._apply_indexed(later)
                return
            if table is None or entry.key_class != key_class:
                key_class = entry.key_class
                table = tables.setdefault(key_class, {})
            if entry.deleted:
                table.pop(entry.key, None)
            else:
                table[entry.key] = entry

    def _apply_indexed(self, entry: Entry) -> None:
        table = self.tables.setdefault(entry.key_class, {})
        order = self._orders.get(entry.key_class)
        old = table.get(entry.key)
        if old is not None and old.expires:
            self._expiring.pop((old.expires, old.key_class, old.key), None)
        if entry.deleted:
            if old is not None:
                del table[entry.key]
                if order is not None:
                    order.discard(entry.key)
            return
        table[entry.key] = entry
        if order is not None and old is None:
            order.add(entry.key)
        if entry.expires:
            self._expiring[entry.expires, entry.key_class, entry.key] = None

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity, None if it is absent."""
        table = self.tables.get(key_class)
        entry = None if table is None else table.get(key)
        if entry is not None and entry.expires and entry.expires <= self._now():
            return None
        return entry

    def count(self) -> int:
        """How many identities are live now."""
        with self.lock:
            return sum(map(len, self.tables.values())) - self._expired_count()

    def _expired_count(self) -> int:
        return self._expiring.bisect_left((self._now() + 1,)) if self._expiring else 0

    def expired(self, most: int) -> list[Entry]:
        """Up to `most` entries whose time has come, and that no delete has followed yet."""
        with self.lock:
            keys = list(self._expiring.islice(0, min(most, self._expired_count())))
            return [self.tables[key_class][key] for _, key_class, key in keys]

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """Live entries of a class whose keys begin with `prefix`, in key order, as of now."""
        with self.lock:
            order = self._order(key_class)
            keys = order.irange(prefix, _behind(prefix), inclusive=(True, False)) if prefix else order
            table = self.tables.get(key_class, {})
            entries = [table[key] for key in keys]
        return self._live(entries)

    def all_ordered(self) -> Iterator[Entry]:
        """Live entries of all classes, in the order of identity (class, then key), as of now: one moment for all of them."""
        with self.lock:
            entries = [table[key] for name, table in sorted(self.tables.items()) for key in self._order(name)]
        return self._live(entries)

    def _order(self, key_class: str) -> SortedSet:
        order = self._orders.get(key_class)
        if order is None:
            order = self._orders[key_class] = SortedSet(self.tables.get(key_class, {}))
        return order

    def _live(self, entries: list[Entry]) -> Iterator[Entry]:
        now = self._now()
        return (entry for entry in entries if not entry.expires or entry.expires > now)


def _behind(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with `prefix`; None if there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def to_state(entries: Iterable[Entry], now: Now) -> State:
    """Memory that holds these entries, deletes dropped; expiry is judged by `now` (unix ms)."""
    state = State(now)
    state.apply([entry for entry in entries if not entry.deleted])
    return state
