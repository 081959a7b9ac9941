"""A map of the cluster as the memory that readers of a map ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from hazelcast.serialization.data import Data

from kvwal.client.link import Link
from kvwal.client.wire import from_wire, to_wire
from kvwal.entry import Entry

_AT_ONCE = 1000


class ClusterMemory:
    """See `structures.business.Memory`. Every answer is asked of the cluster.

    What walks over many entries sees each of them at its own moment. An entry has neither the timestamp of the log nor its
    end here (both 0): the cluster's memory does not hold them.
    """

    def __init__(self, link: Link, name: str, what: str) -> None:
        """`what` names the map in errors."""
        self.what = what
        self._link = link
        self._proxy = link.map(name)

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `Memory.lookup`."""
        found = self._link.result(lambda: self._proxy.get(to_data(key, key_class)), self.what)
        return None if found is None else make_entry(key, key_class, found)

    def count(self) -> int:
        """See `Memory.count`."""
        size: int = self._link.result(self._proxy.size, self.what)
        return size

    def first(self) -> Entry | None:
        """See `Memory.first`. All keys are asked for, and no value."""
        words = (from_wire(key.buffer) for key in self._link.result(self._proxy.key_set, self.what))
        found = min(((word.name, word.data) for word in words), default=None)
        return None if found is None else Entry(found[1], found[0], b"", "", False, 0)

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """See `Memory.ordered`. Only keys that fit are asked for their values."""
        words = (from_wire(key.buffer) for key in self._link.result(self._proxy.key_set, self.what))
        keys = sorted(word.data for word in words if word.name == key_class and word.data.startswith(prefix))
        found = self._values(to_data(key, key_class) for key in keys)
        return (make_entry(key, key_class, found[data]) for key in keys if (data := to_data(key, key_class)) in found)

    def all_ordered(self) -> Iterator[Entry]:
        """See `Memory.all_ordered`."""
        pairs = self._link.result(self._proxy.entry_set, self.what)
        entries = [make_entry(word.data, word.name, value) for key, value in pairs for word in [from_wire(key.buffer)]]
        entries.sort(key=lambda entry: (entry.key_class, entry.key))
        return iter(entries)

    def _values(self, keys: Iterable[Data]) -> dict[Data, Data]:
        """Those of these keys that are there, with their values."""
        rest = iter(keys)
        found: dict[Data, Data] = {}
        while chunk := list(islice(rest, _AT_ONCE)):
            found.update(self._link.result(lambda chunk=chunk: self._proxy.get_all(chunk), self.what))  # type: ignore[misc]
        return found


def to_data(data: bytes, name: str) -> Data:
    """A word as Hazelcast's client takes it."""
    return Data(to_wire(data, name))  # type: ignore[no-untyped-call]


def make_entry(key: bytes, key_class: str, value: Any) -> Entry:
    """The entry of a key whose value the cluster gave."""
    word = from_wire(value.buffer)
    return Entry(key, key_class, word.data, word.name, False, 0)
