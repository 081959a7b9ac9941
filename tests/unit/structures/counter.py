"""A structure of counters, made by the steps of "How to add a structure" in docs/architecture.md: all that it needs is here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kvwal
from kvwal.codecs import registry
from kvwal.entry import DataEntry, Entry
from kvwal.key_class import structure_of
from kvwal.log.submission import GroupView, Submission
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.guards import Guards
from kvwal.structures.memory import STRUCTURES
from kvwal.structures.transaction import TransactionChanges, submission_of
from kvwal.structures.watch import Watch, parse_start

KIND = "counter"


class CounterState:
    """The counters of one structure in memory, and their sum. See `kvwal.structures.memory.StructureState`."""

    def __init__(self, guards: Guards) -> None:
        self._entries: dict[bytes, Entry] = {}
        self.total = 0

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        return self._entries.get(key)

    def apply(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.total += amount(entry) - amount(self._entries.pop(entry.key, None))
            if not entry.deleted:
                self._entries[entry.key] = entry

    def clear(self) -> None:
        self._entries.clear()
        self.total = 0

    def drop_until(self, timestamp: int) -> None:
        ended = [entry for entry in self._entries.values() if entry.timestamp <= timestamp]
        self.apply([Entry(entry.key, entry.key_class, b"", "", True, 0) for entry in ended])

    def drop_expired(self, most: int) -> int:
        return 0

    def holds_nothing(self) -> bool:
        return not self._entries


STRUCTURES[KIND] = CounterState


def amount(entry: Entry | DataEntry | None) -> int:
    return 0 if entry is None or entry.deleted else int(registry.decode(entry.value, entry.value_class))


class Counters:
    """Named counters of a business. An addition is decided in the order of the log, so none is lost."""

    def __init__(self, business: LocalBusiness, name: str = "") -> None:
        self._business = business
        self._structure = f"{KIND}/{name}" if name else KIND
        self._key_class = f"{self._structure}:str"

    def add(self, name: str, more: int = 1, *, most: int = sys.maxsize) -> bool:
        """Add to a counter, unless the sum of all counters would be above `most`."""

        def decide(group: GroupView) -> list[Entry]:
            changed = group.changes(self._structure)
            state: CounterState = group.state(self._structure)
            before = [state.lookup(entry.key_class, entry.key) for entry in changed]
            total = state.total + sum(map(amount, changed)) - sum(map(amount, before))
            value = amount(group.lookup(self._key_class, name.encode())) + more
            return [self._entry(name, value)] if total + more <= most else []

        waiter = Waiter()
        room = submission_of(self._business, [self._entry(name, sys.maxsize)], waiter)
        self._business.submit(Submission(room.entries, room.size, waiter, decide), waits=True)
        return bool(waiter.result())

    def set_in(self, changes: TransactionChanges, name: str, value: int) -> None:
        """Set a counter in a transaction."""
        changes.add([self._entry(name, value)])

    def value(self, name: str) -> int:
        return amount(self._business.memory.state(self._structure).lookup(self._key_class, name.encode()))

    def history(self, name: str) -> list[int]:
        """The values that a counter had, newest first."""
        return [amount(entry) for entry in self._business.history(self._key_class, name.encode())]

    def watch(self, after: Any = None) -> Watch:
        feed = self._business.feed(parse_start(after))
        return Watch(feed, lambda key_class: structure_of(key_class) == self._structure)

    def _entry(self, name: str, value: int) -> Entry:
        data, value_class = registry.encode_value(value)
        return Entry(name.encode(), self._key_class, data, value_class, False, 0)


def counters(store: Any, business: str, name: str = "") -> Counters:
    """The counters of a business of a store that is open for writing."""
    return Counters(store.map(business)._business, name)


if __name__ == "__main__":  # for the test that kills a process: a line for each addition that was acknowledged
    with kvwal.open(Path(sys.argv[1]), archive=None) as opened:
        hits = counters(opened, "web")
        while hits.add("hits"):
            print(hits.value("hits"), flush=True)
