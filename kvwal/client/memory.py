"""Memory of a cluster's map, as the readers of a map ask it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from hazelcast.serialization.data import Data

from kvwal.client.link import Link
from kvwal.client.wire import Encoded, from_wire, to_wire
from kvwal.entry import Entry

_KEYS_PER_REQUEST = 1000


class ClusterMemory:
    """Memory of one map of the cluster: see `structures.business.Memory`. Every call asks the cluster.

    A read of many entries sees each entry at its own moment. The timestamp and the expiry of an entry are 0 here, because the
    cluster's memory does not hold them.
    """

    def __init__(self, link: Link, name: str, label: str) -> None:
        """`label` names the map in errors."""
        self._label = label
        self._link = link
        self._proxy = link.map(name)

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `Memory.lookup`."""
        value = self._link.result(lambda: self._proxy.get(to_data(key, key_class)), self._label)
        return None if value is None else make_entry(key, key_class, value)

    def count(self) -> int:
        """See `Memory.count`."""
        size: int = self._link.result(self._proxy.size, self._label)
        return size

    def first(self) -> Entry | None:
        """See `Memory.first`. Asks for all keys, and for no value."""
        first = min(((key.class_name, key.data) for key in self._keys()), default=None)
        return None if first is None else Entry(first[1], first[0], b"", "", False, 0)

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """See `Memory.ordered`. Asks for the values of matching keys only."""
        keys = sorted(key.data for key in self._keys() if key.class_name == key_class and key.data.startswith(prefix))
        values = self._values(to_data(key, key_class) for key in keys)
        return (make_entry(key, key_class, values[data]) for key in keys if (data := to_data(key, key_class)) in values)

    def all_ordered(self) -> Iterator[Entry]:
        """See `Memory.all_ordered`."""
        pairs = self._link.result(self._proxy.entry_set, self._label)
        decoded = ((from_wire(key.buffer), value) for key, value in pairs)
        entries = [make_entry(key.data, key.class_name, value) for key, value in decoded]
        entries.sort(key=lambda entry: (entry.key_class, entry.key))
        return iter(entries)

    def _keys(self) -> Iterator[Encoded]:
        return (from_wire(key.buffer) for key in self._link.result(self._proxy.key_set, self._label))

    def _values(self, keys: Iterable[Data]) -> dict[Data, Data]:
        """The keys that the map holds, with their values."""
        rest = iter(keys)
        values: dict[Data, Data] = {}
        while chunk := list(islice(rest, _KEYS_PER_REQUEST)):
            values.update(self._link.result(lambda chunk=chunk: self._proxy.get_all(chunk), self._label))  # type: ignore[misc]
        return values


def to_data(data: bytes, class_name: str) -> Data:
    """A class and bytes as Hazelcast's client takes them."""
    return Data(to_wire(data, class_name))  # type: ignore[no-untyped-call]


def make_entry(key: bytes, key_class: str, value: Any) -> Entry:
    """The entry of a key and the value that the cluster answered."""
    encoded = from_wire(value.buffer)
    return Entry(key, key_class, encoded.data, encoded.class_name, False, 0)
