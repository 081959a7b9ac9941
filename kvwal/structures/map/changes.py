"""Changes of a map: puts, deletes and conditional writes as entries. No I/O, no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from kvwal.codecs import Codecs
from kvwal.entry import Entry, is_claimed, make_entry
from kvwal.errors import ConfigError
from kvwal.log.submission import Completion, ConditionalSubmission, Decide, GroupView, cut, size_of
from kvwal.structures.business import Business
from kvwal.structures.map.conditions import Condition, Expected, KnownValues
from kvwal.structures.time_to_live import TimeToLive, expiry_of
from kvwal.structures.transaction import submission_of
from kvwal.values.moved import FileValue

_DELETES = 5_000
_DELETES_BYTES = 1 << 20
"""Limits of one transaction when many keys are deleted. A transaction is one group commit, and other writes wait for it."""


class Absence(Enum):
    """Type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
"""In the conditions of `Map.commit_if`: the key is absent."""
OnDelete = Callable[[Entry], None]
"""Called with the entry that a conditional delete ends."""


class EntryBuilder:
    """Builds the changes of a map. Every method raises `CodecError` before anything is submitted."""

    def __init__(self, business: Business, codecs: Codecs | None = None) -> None:
        """`codecs` are those of a named map (`kvwal.structures.map.named`), else those of the business."""
        self._business = business
        self.codecs = codecs or business.codecs

    def put(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> list[Entry]:
        """A put, which expires after `ttl` (None: never)."""
        key_bytes, key_class = self.codecs.encode_key(key)
        value_bytes, value_class = self.codecs.encode_value(value)
        if ttl is None:
            return [Entry(key_bytes, key_class, value_bytes, value_class, False, 0)]
        return [make_entry(key_bytes, key_class, value_bytes, value_class, False, 0, self._end(ttl))]

    def put_value(self, key: Any, value: FileValue, ttl: TimeToLive | None) -> Entry:
        """A put of a value that is encoded already, which expires after `ttl` (None: never)."""
        key_bytes, key_class = self.codecs.encode_key(key)
        end = 0 if ttl is None else self._end(ttl)
        return make_entry(key_bytes, key_class, value.value, value.value_class, False, 0, end)

    def put_all(
        self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]], ttl: TimeToLive | None = None
    ) -> list[Entry]:
        """A put of each item. All expire after `ttl` (None: never)."""
        pairs = items.items() if isinstance(items, Mapping) else items
        entries = self.codecs.encode_puts(pairs)
        if ttl is None:
            return entries
        end = self._end(ttl)
        return [make_entry(e.key, e.key_class, e.value, e.value_class, False, 0, end) for e in entries]

    def delete(self, key: Any) -> list[Entry]:
        """A delete, whether the key is there or not."""
        key_bytes, key_class = self.codecs.encode_key(key)
        return [Entry(key_bytes, key_class, b"", "", True, 0)]

    def put_if_absent(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> tuple[list[Entry], Decide]:
        """A put that happens only if the key is absent."""
        entries = self.put(key, value, ttl)
        identity = (entries[0].key_class, entries[0].key)
        return entries, lambda group: entries if group.lookup(*identity) is None else []

    def replace(self, key: Any, expected: Any, value: Any, known: KnownValues) -> tuple[list[Entry], Decide]:
        """A put that happens only if the key's value equals `expected` and is of its type."""
        return self._if_equal(self.put(key, value), expected, known)

    def remove(self, key: Any, expected: Any, known: KnownValues) -> tuple[list[Entry], Decide]:
        """A delete that happens only if the key's value equals `expected` and is of its type."""
        return self._if_equal(self.delete(key), expected, known)

    def discard(self, key: Any, on_delete: OnDelete, known: KnownValues | None = None) -> tuple[list[Entry], Decide]:
        """A delete that happens only if the key is there. `on_delete` is called with the entry that the delete ends.

        With `known` the entry has its value, and the decision raises `ValueNeeded`: a large value is read before it is deleted.
        """
        return self._if_there(self.delete(key)[0], on_delete, known)

    def discard_stored(self, entry: Entry, on_delete: OnDelete, known: KnownValues) -> tuple[list[Entry], Decide]:
        """As `discard`, for the key of a stored entry."""
        return self._if_there(_delete_of(entry), on_delete, known)

    def deletes(self, stored: Iterable[Entry]) -> Iterator[list[Entry]]:
        """Deletes of the keys of stored entries, split into transactions of limited size."""
        return in_transactions(map(_delete_of, stored), _DELETES_BYTES)

    def conditional(
        self,
        conditions: Mapping[Any, Any],
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        deletes: Iterable[Any],
        future: Completion,
        known: KnownValues,
    ) -> ConditionalSubmission:
        """Puts and deletes as one transaction, which happens only if each condition holds: see `Map.commit_if`."""
        entries = self.put_all(items) + [entry for key in deletes for entry in self.delete(key)]
        return self.conditional_entries(conditions, entries, future, known)

    def conditional_entries(
        self, conditions: Mapping[Any, Any], entries: list[Entry], future: Completion, known: KnownValues
    ) -> ConditionalSubmission:
        """As `conditional`, of entries that are encoded already."""
        if not entries or not conditions:
            raise ConfigError(
                f"{self._business.name}: a conditional transaction needs a condition and a change; nothing was written."
            )
        encoded = [self.codecs.encode_key(key)[::-1] for key in conditions]
        checks = [self._condition(*pair, known) for pair in zip(encoded, conditions.values(), strict=True)]
        plain = submission_of(self._business, entries, future)
        guards = set(
            encoded
        )  # they change last, so a thread that reads a guard's new value reads all else that came with it
        entries = sorted(plain.entries, key=lambda entry: (entry.key_class, entry.key) in guards)

        def decide(group: GroupView) -> list[Entry]:
            return entries if all(check(group) for check in checks) else []

        return ConditionalSubmission(entries, plain.size, future, decide, encoded)

    def expire_in(self, stored: Entry, ttl: TimeToLive | None, future: Completion) -> ConditionalSubmission:
        """A put of the value that the key of `stored` has then, which expires after `ttl` (None: never).

        Only if the key is there, and its value has no more bytes than `stored`: the ring and the block have room for that size.
        """
        identity = (stored.key_class, stored.key)
        end = 0 if ttl is None else self._end(ttl)

        def decide(group: GroupView) -> list[Entry]:
            entry = group.lookup(*identity)
            if entry is None or len(entry.value) > len(stored.value):
                return []
            return [make_entry(entry.key, entry.key_class, entry.value, entry.value_class, False, 0, end)]

        return ConditionalSubmission([stored], size_of([stored]), future, decide, [identity])

    def _end(self, ttl: TimeToLive) -> int:
        return expiry_of(ttl, self._business.now_ms())

    def _if_there(self, delete: Entry, on_delete: OnDelete, known: KnownValues | None) -> tuple[list[Entry], Decide]:
        def decide(group: GroupView) -> list[Entry]:
            entry = group.lookup(delete.key_class, delete.key)
            if entry is None:
                return []
            on_delete(known.whole(entry) if known is not None and is_claimed(entry.value_class) else entry)
            return [delete]

        return [delete], decide

    def _if_equal(self, entries: list[Entry], expected: Any, known: KnownValues) -> tuple[list[Entry], Decide]:
        holds = self._condition((entries[0].key_class, entries[0].key), expected, known)
        return entries, lambda group: entries if holds(group) else []

    def _condition(self, identity: tuple[str, bytes], expected: Any, known: KnownValues) -> Condition:
        """Whether a key's value equals `expected` and is of its type; or whether the key is `ABSENT`."""
        if expected is ABSENT:
            return lambda group: group.lookup(*identity) is None
        wanted = Expected(self.codecs, expected, known)
        return lambda group: wanted.is_value_of(group.lookup(*identity))


def in_transactions(deletes: Iterable[Entry], most_bytes: int = _DELETES_BYTES) -> Iterator[list[Entry]]:
    """Deletes, split into transactions of at most 5,000 entries and about `most_bytes` bytes: the size of a block is limited."""
    return cut(deletes, most_bytes, lambda delete: size_of([delete]), most=_DELETES)


def _delete_of(entry: Entry) -> Entry:
    return Entry(entry.key, entry.key_class, b"", "", True, 0)
