"""Events put into a store, each once, with what they tell: an event and the record of its run change in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from kvwal.lineage.openlineage.events import CheckedEvent
from kvwal.lineage.openlineage.runs import LineageRecord, merged
from kvwal.structures.map.changes import ABSENT

_MOST_EVENTS = 200
_MOST_BYTES = 2 << 20
"""Events of one transaction. A cluster takes 5 MiB at the most."""


class EventMap(Protocol):
    """The methods of a map that events need."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        """See `kvwal.Map.commit_if`."""
        ...


class Stored(NamedTuple):
    """How many events were stored, and how many had been stored before."""

    new: int
    known: int


class EventStore:
    """The events in a map. Any number of threads and processes may put events into it."""

    def __init__(self, events: EventMap, node: str) -> None:
        """`node` is the node of the store, or "cluster": see `kvwal.spark.index.node_of_mark`."""
        self._events = events
        self._node = node

    def put(self, events: Sequence[CheckedEvent]) -> Stored:
        """Store the events that are not there yet, in transactions of some hundred, and return when they are durable.

        An event that is put again, or late, changes nothing that it should not. Raises the errors of the store: what was put
        before the error is there, and a caller may put all events again.
        """
        new = 0
        for batch in _batches(events):
            new += self._put(batch)
        return Stored(new, len(events) - new)

    def _put(self, batch: list[CheckedEvent]) -> int:
        while True:
            missing = {event.key: event for event in batch if self._events.get(event.key) is None}
            if not missing:
                return 0
            subjects: dict[str, LineageRecord] = {}
            conditions: dict[str, Any] = dict.fromkeys(missing, ABSENT)
            for event in missing.values():
                key = f"{event.told.subject}/{self._node}"
                if key not in subjects:
                    known = self._events.get(key)
                    conditions[key] = ABSENT if known is None else known
                    subjects[key] = (
                        event.told if known is None else merged(msgspec.convert(known, LineageRecord), event.told)
                    )
                else:
                    subjects[key] = merged(subjects[key], event.told)
            values = {key: msgspec.json.decode(msgspec.json.encode(told)) for key, told in subjects.items()}
            if self._events.commit_if(conditions, {key: event.value for key, event in missing.items()} | values):
                return len(missing)


def _batches(events: Sequence[CheckedEvent]) -> Iterable[list[CheckedEvent]]:
    batch: list[CheckedEvent] = []
    size = 0
    for event in events:
        if batch and (len(batch) >= _MOST_EVENTS or size + event.size > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event.size
    if batch:
        yield batch
