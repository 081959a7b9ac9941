"""Conditions of a map's conditional writes: whether a key has a value, decided in the order of the log, where no file is read.

A large value is compared by length and CRC-32C first. If they are equal, and for JSON, whose equal values may have other bytes,
the decision is refused with `ValueNeeded`: the caller reads that value, which never changes, and submits the write again.
"""

from __future__ import annotations

from collections.abc import Callable

from kvwal.codecs import Codecs
from kvwal.content.claim import claim_of
from kvwal.content.digest import extended
from kvwal.entry import Entry, class_of_bytes, is_claimed
from kvwal.errors import Kind, KvwalError
from kvwal.log.submission import GroupView

Condition = Callable[[GroupView], bool]
_SEVERAL_ENCODINGS = ("json", "float")
"""Codecs that may encode equal values as different bytes: the order of a dict's keys, and -0.0."""


class ValueNeeded(KvwalError):
    """A condition cannot be decided before the value of an entry is read. No caller of a map sees it."""

    kind = Kind.RETRY

    def __init__(self, entry: Entry) -> None:
        super().__init__("the condition needs a value that stands beside the log; nothing was written.")
        self.entry = entry


class KnownValues:
    """Large values that the conditions of one write need, once they were read. Used by one caller at a time."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._read: dict[bytes, Entry] = {}

    def add(self, needed: ValueNeeded) -> None:
        """Read the value that a decision needs. Raises as reads of the map."""
        self._read[needed.entry.value] = self._codecs.read(needed.entry)

    def whole(self, entry: Entry) -> Entry:
        """The entry with its value. `ValueNeeded` if it was not read yet."""
        found = self._read.get(entry.value)
        if found is None:
            raise ValueNeeded(entry)
        return found


class Expected:
    """The value that a key must have, and how it is compared with an entry."""

    def __init__(self, codecs: Codecs, value: object, known: KnownValues) -> None:
        """Raises `CodecError`."""
        self._decode = codecs.decode
        self._data, self._class = codecs.encode_value(value)
        self._known = known
        self._crc = extended(0, self._data)

    def is_value_of(self, entry: Entry | None) -> bool:
        """Whether an entry has an equal value of the same type. Raises `ValueNeeded`."""
        if entry is None or class_of_bytes(entry.value_class) != self._class:
            return False
        if is_claimed(entry.value_class):
            claim = claim_of(entry)
            differs = (claim.length, claim.crc32c) != (len(self._data), self._crc)
            if differs and self._class not in _SEVERAL_ENCODINGS:
                return False
            entry = self._known.whole(entry)
        if entry.value == self._data:
            return True
        several = self._class in _SEVERAL_ENCODINGS
        return several and bool(self._decode(entry.value, self._class) == self._decode(self._data, self._class))
