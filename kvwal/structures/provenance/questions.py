"""Questions about the events of a business, answered by any source of events: the files of a log, or an archive."""

from __future__ import annotations

import heapq
from datetime import date
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Protocol

from kvwal.codecs import Codecs
from kvwal.errors import ConfigError
from kvwal.key_class import CONTENT, QUEUE, kind_of
from kvwal.structures.handle import Handle
from kvwal.structures.provenance.event import Event, EventPlace
from kvwal.structures.provenance.lineage import follow
from kvwal.structures.provenance.query import EventSource, Question, question

MOST = 100
"""How many events an answer has, unless more are asked for."""


class EventBusiness(Protocol):
    """A business whose events are somewhere."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def codecs(self) -> Codecs:
        """The codecs of its keys and values."""
        ...

    def structures_of(self, kind: str) -> list[str]:
        """The structures of a kind that hold something, sorted. Blocks where files are read."""
        ...

    def events(self) -> EventSource:
        """The events. To be asked on any thread that may wait."""
        ...


class EventQuestions(Handle):
    """The events of a business: searched, found, and followed."""

    def __init__(self, business: EventBusiness) -> None:
        self._asked = business

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._asked.name!r}>"

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
        source = self._asked.events()
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
        there = self._asked.events().search(Question(after=place.timestamp, before=place.timestamp))
        for event in there:
            if event.place == place:
                return event
        raise ConfigError(f"{self._asked.name}: there is no event {id}.", hint="Events that are too old are dropped.")

    def lineage(
        self, key: Any, *, of: str | None = None, up: bool = True, down: bool = True, depth: int | None = None
    ) -> list[Event]:
        """The events that made an item, and those of what was made of it, to any depth or to `depth`; oldest first.

        The item is the one of the last event of this key, in the structure `of`: see `events`. `up` are the items that it was
        made of, `down` those made of it.
        """
        source = self._asked.events()
        known = [
            (last, identity)
            for identity in self._identities(of, key)
            if (last := next(source.search(question(identity=identity)), None)) is not None
        ]
        if not known:
            return []
        last, identity = max(known, key=lambda one: one[0].place)
        return follow(source, last, identity, up=up, down=down, depth=depth)

    def _identities(self, of: str | None, key: Any) -> list[tuple[str, bytes]]:
        """The class and the bytes of a key of a structure, or of each that may have such a key. Raises as `identity_of`."""
        if of is not None:
            return [identity_of(self._asked, of, key)]
        names = ["", *self._asked.structures_of("map")]
        for kind, keys in ((QUEUE, int), (CONTENT, str)):
            if isinstance(key, keys):
                names += [kind, *self._asked.structures_of(kind)]
        return [identity_of(self._asked, name, key) for name in dict.fromkeys(names)]


_place_of = attrgetter("place")


def identity_of(business: EventBusiness, structure: str, key: Any) -> tuple[str, bytes]:
    """The class and the bytes of a key of a structure. Raises `CodecError`, and `ConfigError` for an unknown kind."""
    kind = kind_of(structure)
    if structure and kind not in ("map", QUEUE, CONTENT):
        raise ConfigError(
            f"of={structure!r} is no structure with items.",
            hint="Name queue, queue/<name>, content, content/<name> or map/<name>; '' is the own map.",
        )
    data, key_class = business.codecs.encode_key(key)
    return (f"{structure}:{key_class}" if structure else key_class), data
