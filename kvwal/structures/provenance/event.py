"""Events as callers get them: what happened to an item, with the item before and after."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kvwal.codecs import Codecs, registry
from kvwal.entry import EPOCH, TIMESTAMP_SHIFT, DataEntry
from kvwal.errors import CodecError, ConfigError
from kvwal.key_class import structure_of
from kvwal.structures.provenance.contents import attributes_of
from kvwal.structures.provenance.record import (
    BY_HAND,
    EventKey,
    StoredRecord,
    class_of_value,
    omitted_size,
    records_of,
)

_PLACE = re.compile(r"([0-9]{1,19})\.([0-9]{1,9})\.([0-9]{1,9})@(.+)", re.ASCII)


class EventItem:
    """An item as it was before or after an event: a version of a key of a map, or an item of a queue."""

    __slots__ = ("_codecs", "entry")

    def __init__(self, entry: DataEntry, codecs: Codecs = registry) -> None:
        self.entry = entry
        self._codecs = codecs

    def __repr__(self) -> str:
        return f"<{self.structure or 'map'} {self.key!r} of {self.timestamp}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventItem) and self.entry == other.entry

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> tuple[str, bytes, int]:
        """The class and the bytes of the key, and the timestamp of the version."""
        return self.entry.key_class, self.entry.key, self.entry.timestamp

    @property
    def structure(self) -> str:
        """The structure: `queue/todo`, `map/state`; empty for the business's own map."""
        return structure_of(self.entry.key_class)

    @property
    def key(self) -> Any:
        """The key of a map; of an item of a queue the number that has its priority and position."""
        return self._codecs.decode_key(self.entry.key, self.entry.key_class.rpartition(":")[2])

    @property
    def timestamp(self) -> int:
        """When this version was put."""
        return self.entry.timestamp

    @property
    def size(self) -> int:
        """The bytes of the encoded value."""
        size = omitted_size(self.entry.value, self.entry.value_class)
        return len(self.entry.value) if size is None else size

    @property
    def is_whole(self) -> bool:
        """Whether the event has the value: not if it is large, and not of an item that was gone when a program spoke of it."""
        return not self.entry.deleted and omitted_size(self.entry.value, self.entry.value_class) is None

    @property
    def value(self) -> Any:
        """The value; None if the event does not have it: see `is_whole`."""
        return self._codecs.decode(self.entry.value, self.entry.value_class) if self.is_whole else None

    @property
    def value_class(self) -> str:
        """The name of the value's codec."""
        return class_of_value(self.entry.value_class)

    @property
    def attributes(self) -> dict[str, Any]:
        """The fields of a value that is a dict, and the attributes of a content; of any other value none."""
        if (told := attributes_of(self.entry)) is not None:
            return dict(told)
        if not self.is_whole or self.entry.value_class != "json":
            return {}
        try:
            value = self.value
        except CodecError:  # the value says more of it to who asks for it
            return {}
        return value if isinstance(value, dict) else {}


class EventPlace(NamedTuple):
    """The place of an event: no other one of the business has it. Events of a transaction have the same timestamp."""

    timestamp: int
    node: str
    part: int
    number: int

    def text(self) -> str:
        """The place as one word."""
        return f"{self.timestamp}.{self.part}.{self.number}@{self.node}"

    @classmethod
    def of(cls, text: str) -> EventPlace:
        """The place of a text. Raises `ConfigError`."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"{text!r} is no event.", hint="Write it as search prints it: 117694160646307840.0.0@local."
            )
        return cls(int(match[1]), match[4], int(match[2]), int(match[3]))


class Event:
    """What happened to an item in a transaction."""

    __slots__ = ("_codecs", "place", "record")

    def __init__(self, place: EventPlace, record: StoredRecord, codecs: Codecs = registry) -> None:
        """`record` is that of one event."""
        self.place = place
        self.record = record
        self._codecs = codecs

    def __repr__(self) -> str:
        key = self.key
        return f"<Event {self.type} of {key!r} at {self.when:%Y-%m-%d %H:%M:%S.%f}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and (self.place, self.record) == (other.place, other.record)

    def __hash__(self) -> int:
        return hash(self.place)

    @property
    def type(self) -> str:
        """What happened: one of `kvwal.structures.provenance.record.TYPES`, as `create` or `modify content`."""
        return self.record.type

    @property
    def id(self) -> str:
        """The event as one word: `Provenance.find` finds it by that."""
        return self.place.text()

    @property
    def timestamp(self) -> int:
        """The timestamp of the transaction."""
        return self.place.timestamp

    @property
    def when(self) -> datetime:
        """The wall-clock part of `timestamp`, in UTC, to the millisecond."""
        return EPOCH + timedelta(milliseconds=self.timestamp >> TIMESTAMP_SHIFT)

    @property
    def node(self) -> str:
        """The node whose log has the transaction."""
        return self.place.node

    @property
    def component(self) -> str:
        """What a program called itself, `business.transaction(component=…)`; else the structure of the item."""
        return self.record.component or self._item.structure

    @property
    def details(self) -> dict[str, str]:
        """What a program said of the event, as the address of a send."""
        return self.record.details

    @property
    def key(self) -> Any:
        """The key of the item after the event; of an item that is gone, that of before."""
        return self._item.key

    @property
    def structure(self) -> str:
        """The structure of the item that has `key`."""
        return self._item.structure

    @property
    def before(self) -> EventItem | None:
        """The item before the event, the first one of several; None for a new one."""
        return next(iter(self.befores), None)

    @property
    def after(self) -> EventItem | None:
        """The item after the event, the first one of several; None if it is gone."""
        return next(iter(self.afters), None)

    @property
    def befores(self) -> list[EventItem]:
        """The items before the event."""
        return [EventItem(entry, self._codecs) for entry in self.record.before]

    @property
    def afters(self) -> list[EventItem]:
        """The items after the event."""
        return [EventItem(entry, self._codecs) for entry in self.record.after]

    @property
    def parents(self) -> list[EventItem]:
        """The items that others were made of in this event. An event that a program said has none."""
        return [] if self.type in BY_HAND else self.befores

    @property
    def children(self) -> list[EventItem]:
        """The items that were made in this event. An event that a program said has none."""
        return [] if self.type in BY_HAND else self.afters

    @property
    def _item(self) -> EventItem:
        return EventItem((self.record.after or self.record.before)[0], self._codecs)


def events_of(entry: DataEntry | Any) -> Iterator[Event]:
    """The events in an entry of the log, in their order."""
    key = EventKey.of(entry.key)
    single = (one for record in records_of(entry.value) for one in record.single())
    for number, record in enumerate(single):
        yield Event(EventPlace(key.timestamp, key.node, key.part, number), record)


def words_of(record: StoredRecord) -> Iterable[str]:
    """The texts of an event that a search finds: keys, values and details."""
    for entry in [*record.before, *record.after]:
        yield _text(entry.key, entry.key_class.rpartition(":")[2])
        if omitted_size(entry.value, entry.value_class) is None and not entry.deleted:
            yield _text(entry.value, entry.value_class)
    yield from record.details
    yield from record.details.values()
    yield record.component


def _text(data: bytes, name: str) -> str:
    """Encoded bytes as text: JSON as it stands, and other values as Python shows them."""
    if name in ("json", "str", "bytes"):
        return data.decode(errors="replace")
    try:
        return str(registry.decode(data, name))
    except CodecError:
        return data.decode(errors="replace")
