"""Memory of a cluster's map, as the readers of a map ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from hazelcast.aggregator import count as count_
from hazelcast.errors import ClientOfflineError, HazelcastError, OperationTimeoutError
from hazelcast.future import Future as HazelcastFuture
from hazelcast.future import combine_futures
from hazelcast.serialization.data import Data

from kvwal.client.failures import UNKNOWN
from kvwal.client.key_pages import fetch_keys
from kvwal.client.link import Link
from kvwal.client.member_tasks import KeyPrefix, OfStructure
from kvwal.client.wire import Encoded, from_wire, to_wire
from kvwal.cluster.queues.requests import OWNER_CLASS, OWNER_KEY
from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.errors import ClusterUnreachable, ConfigError
from kvwal.history.reads.range_reader import common_part
from kvwal.key_class import OWN_MAP, kind_of, structure_of
from kvwal.structures.map.view import KeyBounds

KEYS_AT_ONCE = 10_000
"""A map of more keys is listed in pages."""
_FIRST_VALUES, _MOST_VALUES, _GROWTH = 64, 10_000, 16
"""Values that are fetched first, at most at a time, and as a multiple of the time before.

Each time costs a message to every partition that has one of the keys, so a few large ones cost less than many small ones.
"""
_ANSWER_BYTES = 8 << 20
"""Bytes of values that should be fetched at a time. A single value may be larger."""
_MOST_TOGETHER = 16 << 20
"""Bytes of values of one member that are sent with their keys, in one message."""
_NEVER = (1 << 63) - 1
"""Hazelcast's time of expiry of an entry that does not expire."""
_NO_ANSWER = (*UNKNOWN, ClientOfflineError, OperationTimeoutError)
"""Errors after which the members have said nothing about a predicate."""


class ClusterMemory:
    """Memory of one map of the cluster: see `structures.business.Memory`. Every call asks the cluster.

    A read of many entries sees each entry at its own moment. It lists the keys, and then fetches values in the order of the keys,
    some at a time. The timestamp and the expiry of an entry are 0 here, because the cluster's memory does not hold them.
    """

    def __init__(self, link: Link, name: str, label: str, structure: str = OWN_MAP) -> None:
        """`label` names the map in errors. Of its entries it shows those of a structure."""
        self._name = name
        self._label = label
        self._link = link
        self._proxy = link.map(name)
        self._structure = structure

    def of(self, structure: str) -> ClusterMemory:
        """The memory of another structure of the business."""
        return ClusterMemory(self._link, self._name, self._label, structure)

    def structures_of(self, kind: str) -> list[str]:
        """The structures of a kind that hold something, sorted. Their keys are listed."""
        keys = self._link.result(partial(self._proxy.key_set, OfStructure(kind)), self._label)
        found = {structure_of(from_wire(key.buffer).class_name) for key in keys}
        return sorted(structure for structure in found if kind_of(structure) == kind)

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `Memory.lookup`."""
        value = self._link.result(lambda: self._proxy.get(to_data(key, key_class)), self._label)
        return None if value is None else make_entry(key, key_class, value)

    def expires(self, key_class: str, key: bytes) -> int | None:
        """See `Memory.expires`."""
        view = self._link.result(lambda: self._proxy.get_entry_view(to_data(key, key_class)), self._label)
        if view is None:
            return None
        return 0 if view.expiration_time == _NEVER else int(view.expiration_time)

    def count(self) -> int:
        """See `Memory.count`."""
        return self._counted()[0]

    def _counted(self) -> tuple[int, bool]:
        """The number of keys, and whether Hazelcast's map has entries of other structures, too."""
        size: int
        if self._structure == OWN_MAP:
            asked = partial(_together, partial(self._proxy.contains_key, _OWNER), self._proxy.size)
            is_shared, size = self._link.result(asked, self._label)
            if not is_shared:
                return size, False
        told = self._link.result(partial(self._proxy.aggregate, count_(), self._of_structure()), self._label)
        size = registry.decode(*from_wire(told.buffer))
        return size, True

    def clear(self) -> None:
        """Delete every key of the business's own map that is there now: see `ClusterBusiness.clear`."""
        is_shared = self._link.result(partial(self._proxy.contains_key, _OWNER), self._label)
        clear = partial(self._proxy.remove_all, self._of_structure()) if is_shared else self._proxy.clear
        self._link.result(clear, self._label, writes=True)

    def _of_structure(self) -> OfStructure:
        return OfStructure(f"{self._structure}:" if self._structure else "")

    def first(self) -> Entry | None:
        """See `Memory.first`. Asks for all keys, and for no value."""
        first = min(((key.class_name, key.data) for key in self._keys()), default=None)
        return None if first is None else Entry(first[1], first[0], b"", "", False, 0)

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """See `Memory.ordered`. Members select text keys by their beginning, and send values with them if those are small.

        Otherwise the keys are listed first.
        """
        if key_class == "str" and prefix:
            entries = self._ask_members(partial(self._proxy.entry_set, KeyPrefix(prefix, _MOST_TOGETHER)))
            if entries is not None:
                found = [make_entry(*from_wire(key.buffer), value) for key, value in entries]
                return iter(sorted(found, key=attrgetter("key")))
        keys = self._keys() if key_class != "str" else self._keys_like(prefix)
        of_class = {key for key in keys if key.class_name == key_class and key.data.startswith(prefix)}
        return self.entries_of(sorted(of_class))

    def all_ordered(self) -> Iterator[Entry]:
        """See `Memory.all_ordered`. The keys are listed when this is called, the values while the caller iterates."""
        return self.entries_of(self.identities())

    def between(self, bounds: KeyBounds, *, reverse: bool = False) -> Iterator[Entry]:
        """See `Memory.between`. The keys are listed when this is called: of text those that begin as both bounds do."""
        common = b""
        if bounds.key_class == "str" and bounds.stop is not None:
            common = common_part(("str", bounds.start), ("str", bounds.stop)) or b""
        keys = (key for key in set(self._keys_like(common)) if bounds.has(key.class_name, key.data))
        return self.entries_of(sorted(keys, key=attrgetter("class_name", "data"), reverse=reverse))

    def identities(self, prefix: str = "") -> list[Encoded]:
        """All keys, in the order of identity. With a `prefix`, keys that are text and do not begin so may be missing."""
        return sorted(set(self._keys_like(prefix.encode())), key=lambda key: (key.class_name, key.data))

    def _keys(self) -> Iterator[Encoded]:
        count, is_shared = self._counted()
        if count <= KEYS_AT_ONCE:
            keys = self._link.result(
                partial(self._proxy.key_set, self._of_structure() if is_shared else None), self._label
            )
        else:
            keys = fetch_keys(self._link, self._proxy, self._label)
        return (key for key in map(_encoded, keys) if structure_of(key.class_name) == self._structure)

    def _keys_like(self, prefix: bytes) -> Iterator[Encoded]:
        """The text keys that begin so, and perhaps others."""
        own = prefix and self._structure == OWN_MAP
        keys = self._ask_members(partial(self._proxy.key_set, KeyPrefix(prefix))) if own else None
        return self._keys() if keys is None else map(_encoded, keys)

    def _ask_members(self, begin: Callable[[], HazelcastFuture[list[Any]]]) -> list[Any] | None:
        """The answer of a request with a predicate. None if members refuse it: of an earlier version, or the answer is large."""
        try:
            return self._link.result(begin, self._label)
        except (ClusterUnreachable, ConfigError) as error:  # ConfigError: a member of an earlier version
            if not isinstance(error.__cause__, HazelcastError) or isinstance(error.__cause__, _NO_ANSWER):
                raise
            return None

    def entries_of(self, keys: list[Encoded]) -> Iterator[Entry]:
        """The entries of those keys that the map still holds, in this order. The first of them are fetched when this is called,
        so an iterator over a small map shows the moment at which it was made.
        """
        first = self._fetch(keys[:_FIRST_VALUES])
        return chain(first, self._later_entries(keys[_FIRST_VALUES:], first))

    def _later_entries(self, keys: list[Encoded], before: list[Entry]) -> Iterator[Entry]:
        """The entries after `before`. The size of their values says how many are fetched at a time."""
        at, count = 0, _FIRST_VALUES
        while at < len(keys):
            size = sum(len(entry.value) for entry in before)
            count = max(1, min(_MOST_VALUES, _GROWTH * count, count * _ANSWER_BYTES // max(1, size)))
            chunk = keys[at : at + count]
            before = self._fetch(chunk)
            yield from before
            at += len(chunk)

    def _fetch(self, keys: list[Encoded]) -> list[Entry]:
        wanted = [to_data(*key) for key in keys]
        pairs = self._link.result(partial(self._proxy.get_all, wanted), self._label) if wanted else {}
        return [make_entry(*key, pairs[data]) for key, data in zip(keys, wanted, strict=True) if data in pairs]


def _together(*begin: Callable[[], HazelcastFuture[Any]]) -> HazelcastFuture[Any]:
    """Operations that are begun at once. The answer is the list of their answers."""
    return combine_futures([call() for call in begin])


def _encoded(key: Any) -> Encoded:
    return from_wire(key.buffer)


def to_data(data: bytes, class_name: str) -> Data:
    """A class and bytes as Hazelcast's client takes them."""
    return Data(to_wire(data, class_name))  # type: ignore[no-untyped-call]


def make_entry(key: bytes, key_class: str, value: Any) -> Entry:
    """The entry of a key and the value that the cluster answered."""
    encoded = from_wire(value.buffer)
    return Entry(key, key_class, encoded.data, encoded.class_name, False, 0)


_OWNER = to_data(OWNER_KEY, OWNER_CLASS)
"""The key that a business has in Hazelcast's map once it was asked for more than its own map."""
