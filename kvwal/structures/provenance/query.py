"""Questions about events: what is searched for, and whether an event answers it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import xxhash

from kvwal.entry import DataEntry
from kvwal.errors import ConfigError
from kvwal.hlc import to_timestamp
from kvwal.structures.provenance.event import Event, EventItem, words_of
from kvwal.structures.provenance.record import BY_HAND, TYPES

_WORD = re.compile(r"[^\W_]+")
_scalar = msgspec.json.Encoder().encode


ItemId: TypeAlias = tuple[str, bytes, int]
"""An item: the class and the bytes of its key, and the timestamp of its put."""


class EventSource(Protocol):
    """The events of a business on the disk."""

    def search(self, question: Question) -> Iterator[Event]:
        """The events that answer the question, newest first."""
        ...

    def made(self, items: Sequence[ItemId]) -> list[Event]:
        """The events that made these items. It costs less to ask for many at once."""
        ...

    def ended(self, items: Sequence[ItemId]) -> list[Event]:
        """The events that ended these items: they were taken, changed or dropped. None of one that is there still."""
        ...


class Question(NamedTuple):
    """What is searched for: all of it must hold for an event. Timestamps are those of transactions, both ends included."""

    type: str | None = None
    component: str | None = None
    identity: tuple[str, bytes] | None = None
    """The class and the bytes of the key of an item before or after the event."""
    after: int | None = None
    before: int | None = None
    attributes: tuple[tuple[str, Any], ...] = ()
    words: tuple[str, ...] = ()

    @property
    def terms(self) -> list[int]:
        """The terms of an index that every answer has: see `terms_of`."""
        found = [_term("t", self.type)] if self.type is not None else []
        if self.component is not None:
            found.append(_term("c", self.component))
        if self.identity is not None:
            found.append(item_term(*self.identity))
        found += [_attribute(name, value) for name, value in self.attributes]
        return found + [_term("w", word) for word in self.words]

    def fits(self, event: Event) -> bool:
        """Whether an event answers the question."""
        return self.is_within(event.timestamp) and (not self.has_conditions or self._fits_terms(event))

    def is_within(self, timestamp: int) -> bool:
        """Whether a transaction is of the time that is asked for."""
        return (self.after is None or timestamp >= self.after) and (self.before is None or timestamp <= self.before)

    @property
    def has_conditions(self) -> bool:
        """Whether more than the time is asked for."""
        return self != Question(after=self.after, before=self.before)

    def _fits_terms(self, event: Event) -> bool:
        there = set(terms_of(event))
        return all(term in there for term in self.terms)


def question(
    *,
    type: str | None = None,
    component: str | None = None,
    identity: tuple[str, bytes] | None = None,
    after: int | date | None = None,
    before: int | date | None = None,
    attributes: dict[str, Any] | None = None,
    text: str | None = None,
) -> Question:
    """A question of these arguments. Raises `ConfigError`."""
    if type is not None and type not in TYPES:
        raise ConfigError(f"type={type!r} is no type of an event.", hint=f"There are: {', '.join(TYPES)}.")
    words = tuple(_words(text)) if text is not None else ()
    if text is not None and not words:
        raise ConfigError(f"text={text!r} has no word.", hint="Words are letters and digits; all of them must occur.")
    return Question(
        type, component, identity,
        None if after is None else to_timestamp(after), None if before is None else to_timestamp(before),
        tuple((attributes or {}).items()), words,
    )  # fmt: skip


def terms_of(event: Event) -> Iterator[int]:
    """The terms of an event: numbers of 64 bits that stand for all that can be searched for. Some may occur twice."""
    record = event.record
    yield _term("t", record.type)
    yield _term("c", event.component)
    for entry in [*record.before, *record.after]:
        yield item_term(entry.key_class, entry.key)
        for name, value in EventItem(entry).attributes.items():
            if not isinstance(value, dict | list):
                yield _attribute(name, value)
    for name, value in record.details.items():
        yield _attribute(name, value)
    for word in set(_words("\n".join(words_of(record)))):
        yield _term("w", word)


def item_term(key_class: str, key: bytes) -> int:
    """The term of the events of an item."""
    return xxhash.xxh64_intdigest(b"i" + key_class.encode() + b"\0" + key)


def items_of(event: Event) -> Iterator[ItemId]:
    """The items of an event, before and after it."""
    return map(_identity, [*event.record.before, *event.record.after])


def made_by(event: Event, item: ItemId) -> bool:
    """Whether an event made the item."""
    return event.type not in BY_HAND and item in map(_identity, event.record.after)


def ended_by(event: Event, item: ItemId) -> bool:
    """Whether an event ended the item, and did not only tell of it."""
    return item in map(_identity, event.record.before) and item not in map(_identity, event.record.after)


def _identity(entry: DataEntry) -> ItemId:
    return entry.key_class, entry.key, entry.timestamp


def _attribute(name: str, value: Any) -> int:
    return xxhash.xxh64_intdigest(b"a" + name.encode() + b"\0" + _scalar(value))


def _term(kind: str, text: str | None) -> int:
    return xxhash.xxh64_intdigest(f"{kind}{text}".encode())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
