"""The provenance of a business: what happened to the items of its maps and queues, searched, followed and replayed."""

from __future__ import annotations

import heapq
from datetime import date
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvwal.entry import Entry
from kvwal.errors import ConfigError
from kvwal.key_class import CONTENT, QUEUE, kind_of
from kvwal.log.submission import GroupView
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.handle import Handle
from kvwal.structures.provenance.event import Event, EventPlace
from kvwal.structures.provenance.lineage import follow
from kvwal.structures.provenance.query import Question, question
from kvwal.structures.provenance.record import BY_HAND
from kvwal.structures.provenance.replay import replay
from kvwal.structures.provenance.said import Said, said_note
from kvwal.structures.provenance.state import (
    OPTIONS,
    OPTIONS_KEY,
    ProvenanceOptions,
    ProvenanceState,
    checked_options,
    options_entry,
    options_of,
)
from kvwal.structures.transaction import commit, submission_of

MOST = 100
"""How many events an answer has, unless more are asked for."""


class Provenance(Handle):
    """The events of a business: one for each change of an item of its maps and queues, in the transaction of the change.

    Any number of threads may use it. Events are read from the files of the log.
    """

    def __init__(self, business: LocalBusiness, store: object = None) -> None:
        self._business = business
        self._store = store

    def __repr__(self) -> str:
        return f"<Provenance of {self._business.name!r}{f' of {self._store!r}' if self._store else ''}>"

    def events(
        self,
        key: Any = None,
        *,
        of: str | None = None,
        type: str | None = None,
        component: str | None = None,
        after: int | date | None = None,
        before: int | date | None = None,
        attributes: dict[str, Any] | None = None,
        text: str | None = None,
        limit: int | None = MOST,
    ) -> list[Event]:
        """The events for which all of this holds, newest first, at most `limit` of them (None: all).

        `key` is that of a map, or of an item of a queue, or the name of a content; `of` is the structure: `queue/todo`,
        `map/state`, `content`; empty for the own map, None for each that may have such a key (of those with a name, the ones
        that hold something). `after` and `before` are moments, both included. `attributes` are fields of values, or details,
        and `text` is words that all occur in keys, values or details.
        """
        source = self._business.events()
        found = [
            source.search(
                question(
                    type=type, component=component, identity=identity, after=after, before=before, attributes=attributes,
                    text=text,
                )
            )
            for identity in ([None] if key is None else self._identities(of, key))
        ]  # fmt: skip
        merged = heapq.merge(*found, key=_place_of, reverse=True)
        return list(islice((next(same) for _, same in groupby(merged, key=_place_of)), limit))

    def find(self, id: str) -> Event:
        """The event of this `Event.id`. Raises `ConfigError` if there is none."""
        place = EventPlace.of(id)
        there = self._business.events().search(Question(after=place.timestamp, before=place.timestamp))
        for event in there:
            if event.place == place:
                return event
        raise ConfigError(
            f"{self._business.name}: there is no event {id}.", hint="Events that are too old are dropped."
        )

    def lineage(
        self, key: Any, *, of: str | None = None, up: bool = True, down: bool = True, depth: int | None = None
    ) -> list[Event]:
        """The events that made an item, and those of what was made of it, to any depth or to `depth`; oldest first.

        The item is the one of the last event of this key, in the structure `of`: see `events`. `up` are the items that it was
        made of, `down` those made of it.
        """
        source = self._business.events()
        known = [
            (last, identity)
            for identity in self._identities(of, key)
            if (last := next(source.search(question(identity=identity)), None)) is not None
        ]
        if not known:
            return []
        last, identity = max(known, key=lambda one: one[0].place)
        return follow(source, last, identity, up=up, down=down, depth=depth)

    def send(self, key: Any, to: str, *, of: str = "", **details: str) -> int:
        """Say that an item was sent to an address. Returns the timestamp of the event."""
        return self.record("send", key, of=of, to=to, **details)

    def receive(self, key: Any, source: str, *, of: str = "", **details: str) -> int:
        """Say that an item was received from an address. Returns the timestamp of the event."""
        return self.record("receive", key, of=of, source=source, **details)

    def record(self, type: str, key: Any, *, of: str = "", **details: str) -> int:
        """Say what is no change: `send`, `receive` or `fetch`. In a transaction: `t.record(…)`."""
        return commit(self._business, [said_of(self._business, type, key, of, details, 0)])

    def replay(self, event: Event) -> int:
        """Put the item back as it was before the event, or after it if it was new: into its queue, or under its key.

        Returns the timestamp. Raises `ContentGone` if the value is nowhere any more; nothing is put then.
        """
        return replay(self._business, event)

    def options(self) -> ProvenanceOptions:
        """Whether events are made, and how long they are kept."""
        state: ProvenanceState = self._business.state_of("provenance")
        return state.options

    def set_options(
        self,
        *,
        on: bool | UnsetType = UNSET,
        keep_seconds: float | UnsetType | None = UNSET,
        keep_bytes: int | UnsetType | None = UNSET,
    ) -> ProvenanceOptions:
        """Store these options, and return all: see `ProvenanceOptions`. They hold for every program that opens the store.

        Changes that begin after the return have events, or have none any more. Raises `ConfigError`.
        """
        given = {"on": on, "keep_seconds": keep_seconds, "keep_bytes": keep_bytes}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not UNSET}
        checked_options(replace(ProvenanceOptions(), **changes))

        def decide(group: GroupView) -> list[Entry]:
            stored = options_of(group.lookup(OPTIONS, OPTIONS_KEY))
            changed = replace(stored, **changes)
            return [] if changed == stored else [options_entry(changed)]

        waiter = Waiter()
        self._business.submit(submission_of(self._business, [], waiter, decide), waits=True)
        waiter.result()
        return self.options()

    def _identities(self, of: str | None, key: Any) -> list[tuple[str, bytes]]:
        """The class and the bytes of a key of a structure, or of each that may have such a key. Raises as `identity_of`."""
        if of is not None:
            return [identity_of(self._business, of, key)]
        names = ["", *self._business.structures_of("map")]
        for kind, keys in ((QUEUE, int), (CONTENT, str)):
            if isinstance(key, keys):
                names += [kind, *self._business.structures_of(kind)]
        return [identity_of(self._business, name, key) for name in dict.fromkeys(names)]


_place_of = attrgetter("place")


def switched_on(provenance: Provenance) -> Provenance:
    """The provenance, switched on."""
    provenance.set_options(on=True)
    return provenance


def identity_of(business: LocalBusiness, structure: str, key: Any) -> tuple[str, bytes]:
    """The class and the bytes of a key of a structure. Raises `CodecError`, and `ConfigError` for an unknown kind."""
    kind = kind_of(structure)
    if structure and kind not in ("map", QUEUE, CONTENT):
        raise ConfigError(
            f"of={structure!r} is no structure with items.",
            hint="Name queue, queue/<name>, content, content/<name> or map/<name>; '' is the own map.",
        )
    data, key_class = business.codecs.encode_key(key)
    return (f"{structure}:{key_class}" if structure else key_class), data


def said_of(
    business: LocalBusiness, type: str, key: Any, structure: str, details: dict[str, Any], number: int
) -> Entry:
    """The note of an event that a program says. Raises `ConfigError`."""
    if type not in BY_HAND:
        raise ConfigError(
            f"{type!r} is no event that a program says; nothing was written.",
            hint=f"There are: {', '.join(BY_HAND)}. The others come with the changes themselves.",
        )
    wrong = [name for name, value in details.items() if not isinstance(value, str)]
    if wrong:
        raise ConfigError(f"{wrong[0]}={details[wrong[0]]!r} must be text; nothing was written.")
    return said_note(Said(type, *identity_of(business, structure, key), details), number)
