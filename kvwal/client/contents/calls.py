"""Calls of a client for the contents of one business: to members for names, and to their archive for bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.link import Link
from kvwal.client.member_tasks import BUSY, DONE, LATE, ask_contents
from kvwal.client.queues.calls import QueueCalls, answer_of
from kvwal.cluster.contents.requests import (
    Begin,
    Begun,
    Change,
    Changed,
    ContentRequest,
    decode_begun,
    decode_changed,
)
from kvwal.cluster.map_names import to_business
from kvwal.cluster.queues.requests import Queues
from kvwal.entry import Entry, encode_entries
from kvwal.errors import ConfigError
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Lock
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.registry import owner

_FRESH_SECONDS = 60.0
"""How long the time that a member told is sent along: an older time only lets bytes be given up earlier."""


class ContentCalls:
    """The calls for the contents of one business. Any number of threads may use it."""

    def __init__(self, link: Link, business: ClusterBusiness, queues: QueueCalls) -> None:
        self._link = link
        self._business = business
        self._queues = queues
        self._lock = Lock()
        self._begun: Begun | None = None
        self._stale_at = 0.0
        self._archived: tuple[str, ArchivedContents] | None = None

    @property
    def label(self) -> str:
        """The business in messages."""
        return self._business.label

    def check_open(self) -> None:
        """Raise `StoreClosed` if the connection is closed."""
        self._link.check_open()

    def begin(self) -> Begun:
        """Where bytes go, and a time of a member that has passed. `ConfigError` for a cluster without an archive, and if a member
        is of an earlier version.
        """
        with self._lock:
            if self._begun is None:  # from now on the members know that the business is more than its own map
                self._queues.ask(Queues(self._business.name), writes=False)
            if self._begun is None or SYSTEM.elapsed() >= self._stale_at:
                asked = SYSTEM.elapsed()
                self._begun = decode_begun(self._sent(Begin(self._business.name), writes=False))
                self._stale_at = asked + _FRESH_SECONDS
            return self._begun

    def archived(self) -> ArchivedContents:
        """The bytes in the archive. Raises `ConfigError` if this client reaches another archive than the members do."""
        begun = self.begin()
        with self._lock:
            if self._archived is None or self._archived[0] != begun.archive:
                objects = open_objects(begun.archive)
                where = self._link.address.namespace, self._link.address.cluster, to_business(self._business.name)
                self._check_same(objects, Place(*where, begun.node), begun)
                self._archived = begun.archive, ArchivedContents(objects, *where)
            return self._archived[1]

    def change(self, entries: list[Entry], guards: Sequence[Entry] = (), begun_ms: int = 0) -> int | None:
        """Change names, and keys of maps, all of them or none. Returns the timestamp; None if a guard has another value.

        `begun_ms` is the time of a `begin` from before the put of the first bytes that are named here. Raises `CommitUnknown`,
        `Overloaded`, `ContentFailed`.
        """
        self.begin()
        until = SYSTEM.elapsed() + self._business.timeout
        while True:
            sent = SYSTEM.wall_ms()
            request = Change(self._business.name, encode_entries(entries), encode_entries(list(guards)), sent, begun_ms)
            changed: Changed = decode_changed(self._sent(request, writes=True))
            if changed.outcome == DONE:
                return changed.timestamp or self._business.stamp()
            if changed.outcome not in (BUSY, LATE):
                return None
            if SYSTEM.elapsed() >= until:
                raise self._business.contended()

    def _sent(self, request: ContentRequest, *, writes: bool) -> bytes:
        begin: Any = partial(ask_contents, self._link.client, request)
        return answer_of(self._link, begin, self.label, "a content", writes=writes)

    def _check_same(self, objects: Objects, place: Place, begun: Begun) -> None:
        there = owner(objects, place)
        if there is None or there.log_id != begun.log_id:
            raise ConfigError(
                f"{self.label}: the bytes of contents are in the archive of the members, {begun.archive}, and what this"
                " client finds there is not that archive; nothing was read or written.",
                hint="A folder is to be mounted here at the same path. A bucket needs its endpoint and credentials here, too: the"
                " AWS_* variables of the environment.",
            )
