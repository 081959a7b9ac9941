"""State of a map in memory: the latest entry of every live identity, as encoded bytes.

One thread at a time writes it (the holder of the log's turn), any thread reads it. A single look-up needs no lock, because a
`dict` answers in one step. A group is applied under `lock`. An iterator (`View`) takes `lock` for a few entries at a time and is
notified of changes ahead of it. So an iterator shows one moment with whole transactions, and no write waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import ref

from sortedcontainers import SortedDict

from kvwal.entry import Entry
from kvwal.structures.guards import Guards, Now, guards_alone
from kvwal.structures.map.order import CHUNK_KEYS, KeyOrder, Keys, Overlay, Table, build_order, listed
from kvwal.structures.map.view import KeyBounds, Range, View

_CATCH_UP = 500
"""How many changed keys are added to a new key order while writers wait."""


class MapState:
    """The state of one map: a table of entries for each key class. No method returns an expired entry.

    Its methods are those of `structures.memory.StructureState` and `structures.business.Memory`.
    """

    def __init__(self, guards: Guards) -> None:
        self._now = guards.now
        self._lock = guards.lock
        self._building = guards.building
        self._ended = guards.ended
        self.tables: dict[str, dict[bytes, Entry]] = {}
        self._orders: dict[str, KeyOrder] = {}
        self._changed: dict[str, set[bytes]] = {}
        self._views: list[ref[View]] = []
        self._expiring: SortedDict = SortedDict()

    def clear(self) -> None:
        """See `StructureState.clear`."""
        self.tables.clear()
        self._orders.clear()
        self._views.clear()
        self._expiring.clear()

    def drop_until(self, timestamp: int) -> None:
        """See `StructureState.drop_until`."""
        ended = [entry for table in self.tables.values() for entry in table.values() if entry.timestamp <= timestamp]
        self.apply([Entry(entry.key, entry.key_class, b"", "", True, entry.timestamp) for entry in ended])

    def apply(self, entries: list[Entry]) -> None:
        """See `StructureState.apply`."""
        if self._orders or self._expiring or self._changed:
            views = self._live_views()
            for entry in entries:
                self._apply_indexed(entry, views)
        else:
            self._apply_plain(entries)

    def _apply_plain(self, entries: list[Entry]) -> None:
        """Apply entries while there is no key order and no expiring entry to update: the fast path."""
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

    def _live_views(self) -> list[View]:
        if self._views:
            self._views = [known for known in self._views if known() is not None]
        return [view for known in self._views if (view := known()) is not None]

    def _apply_indexed(self, entry: Entry, views: Iterable[View] = ()) -> None:
        table = self.tables.setdefault(entry.key_class, {})
        order = self._orders.get(entry.key_class)
        old = table.get(entry.key)
        for view in views:
            view.changes(entry, old)
        if (old is None) is not entry.deleted and (changed := self._changed.get(entry.key_class)) is not None:
            changed.add(entry.key)
        if old is not None and old.expires:
            self._expiring.pop((old.expires, old.key_class, old.key), None)
            self._ended(old)
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

    def expires(self, key_class: str, key: bytes) -> int | None:
        """See `structures.business.Memory.expires`."""
        entry = self.lookup(key_class, key)
        return None if entry is None else entry.expires

    def count(self) -> int:
        """Number of live identities."""
        with self._lock:
            return sum(map(len, self.tables.values())) - self._expired_count()

    def holds_nothing(self) -> bool:
        """Whether the tables are empty. An expired entry counts until it is dropped."""
        return not any(self.tables.values())

    def _expired_count(self) -> int:
        return self._expiring.bisect_left((self._now() + 1,)) if self._expiring else 0

    def drop_expired(self, most: int) -> int:
        """See `StructureState.drop_expired`. An iterator that was created before an entry expired keeps it."""
        ended = list(self._expiring.islice(0, min(most, self._expired_count())))
        views = self._live_views() if ended else []
        for _, key_class, key in ended:
            self._apply_indexed(Entry(key, key_class, b"", "", True, 0), views)
        return ended[-1][0] if ended else 0

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """Live entries of a class whose keys begin with `prefix`, in key order, as of now."""
        return self._view((key_class,), prefix, after_prefix(prefix))

    def first(self) -> Entry | None:
        """See `structures.business.Memory.first`."""
        return next(self.all_ordered(), None)

    def all_ordered(self) -> Iterator[Entry]:
        """Live entries of all classes, in the order of identity (class, then key): all as of now."""
        return self._view(None)

    def between(self, bounds: KeyBounds, *, reverse: bool = False) -> Iterator[Entry]:
        """See `structures.business.Memory.between`. All are as of now."""
        classes = None if bounds.key_class is None else (bounds.key_class,)
        return self._view(classes, bounds.start, bounds.stop, reverse=reverse)

    def _view(
        self, classes: Iterable[str] | None, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> View:
        while True:
            with self._lock:
                tables, orders = self.tables, self._orders
                wanted = [name for name in (sorted(tables) if classes is None else classes) if name in tables]
                missing = [name for name in wanted if name not in orders]
                if not missing:
                    ranges = [Range(name, start, stop, tables[name], orders[name]) for name in wanted]
                    view = View(self._lock, ranges, self._now(), reverse=reverse)
                    self._views.append(ref(view))
                    return view
            for name in missing:
                self._build_order(name)

    def _build_order(self, key_class: str) -> None:
        """Sort the keys of a class in the background. Writes wait only for short steps of it."""
        with self._building:
            with self._lock:
                table = self.tables.get(key_class, {})
                if key_class in self._orders or key_class not in self.tables:
                    return
                if len(table) <= CHUNK_KEYS:
                    self._orders[key_class] = KeyOrder([tuple(sorted(table))])
                    return
                self._changed[key_class] = set()
            try:
                self._catch_up(key_class, build_order(self._keys(key_class, table)))
            finally:
                with self._lock:
                    self._changed.pop(key_class, None)

    def _keys(self, key_class: str, table: Table) -> list[Keys]:
        """The keys of a table. The table must keep its keys meanwhile, so an overlay takes the changes."""
        with self._lock:
            overlay = self.tables[key_class] = Overlay(table)
        try:
            return listed(table)
        finally:
            with self._lock:
                self.tables[key_class] = overlay.settle()

    def _catch_up(self, key_class: str, order: KeyOrder) -> None:
        """Add the changes since the keys were listed to the new order, then put the order to use."""
        table = self.tables[key_class]
        changed: set[bytes] = set()
        while True:
            for key in changed:
                (order.add if key in table else order.discard)(key)
            with self._lock:
                changed, self._changed[key_class] = self._changed[key_class], set()
                if len(changed) > _CATCH_UP:
                    continue
                for key in changed:
                    (order.add if key in table else order.discard)(key)
                self._orders[key_class] = order
                return


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys that begin with `prefix`; None if there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def to_state(entries: Iterable[Entry], now: Now) -> MapState:
    """A state of these entries without the deletes; expiry is judged by `now` (unix ms)."""
    state = MapState(guards_alone(now))
    state.apply([entry for entry in entries if not entry.deleted])
    return state
