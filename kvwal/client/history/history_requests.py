"""The past of a business of a cluster, and its changes: questions that members answer from their logs and the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from kvwal.client.link import Link
from kvwal.client.member_tasks import ClusterFeed, MapChanges, ask_history, lost_tails_of
from kvwal.cluster.requests import (
    NO_LIMIT,
    PAGE_BYTES,
    ClientQuestion,
    Page,
    Question,
    StructureQuestion,
    WatchRead,
    WatchStart,
)
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, make_decoder
from kvwal.errors import ClusterUnreachable, ConfigError, KvwalError, NotRecovered
from kvwal.history.feeds.lost_tails import warn_of
from kvwal.key_class import OWN_MAP
from kvwal.ports.retries import retry_on
from kvwal.structures.map.state import MapState, to_state
from kvwal.structures.watch import Feed, Start

T = TypeVar("T")

_RETRY_SECONDS = 0.2
_decode = make_decoder(())


class ClusterHistory:
    """The history, earlier states and changes of one business of a cluster. Any number of threads may use it.

    Where a method takes a structure, it is that of a named map or of a queue of the business. Without one it is the business's
    own map. `ConfigError` for a structure if a member is of an earlier version.
    """

    def __init__(self, link: Link, name: str) -> None:
        self.name = name
        self.label = f"{name} ({link.address})"
        self.timeout = link.address.timeout
        self._link = link

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`. A member reads the logs of all members when the request arrives."""
        warn_of(lost_tails_of(self.name, partial(self._answer, again=(ClusterUnreachable,))))
        return self.versions(key_class, key)

    def versions(self, key_class: str, key: bytes) -> list[DataEntry]:
        """As `history`, without a warning of versions that may be missing: for callers that look at the latest ones."""
        return [entry.public() for entry in self._ask(Question(self.name, key_class, key))]

    def as_of(self, timestamp: int, structure: str = OWN_MAP) -> MapState:
        """See `structures.business.Business.as_of`, and `history`. All entries are transferred to this client, in pages."""
        return to_state(self.logged_entries(timestamp, structure=structure), lambda: timestamp >> TIMESTAMP_SHIFT)

    def logged_entries(self, timestamp: int, page: Page = NO_LIMIT, structure: str = OWN_MAP) -> Iterator[Entry]:
        """The entries at `timestamp` as the logs have them, expired ones too, in the order of identity.

        `page` limits them, and its end is where they go on. Each page is a request for which a member merges archive and logs.
        `structure` may be that of all queues, `queue/*`, for the entries as they are now.
        """
        while True:
            entries = self._page(timestamp, page, structure)
            yield from entries
            if sum(len(entry.key) + len(entry.value) for entry in entries) < PAGE_BYTES:
                return
            page = replace(page, after_class=entries[-1].key_class, after=entries[-1].key)

    def _page(self, timestamp: int, page: Page, structure: str) -> list[Entry]:
        if structure == OWN_MAP:
            return self._ask(Question(self.name, timestamp=timestamp, page=page))
        return self._of_this_version(lambda: self._ask(StructureQuestion(self.name, structure, timestamp, page)))

    def _ask(self, question: Question | StructureQuestion) -> list[Entry]:
        """Entries that answer a history request."""
        return _decode(self._answer(question, (ClusterUnreachable,)))

    def _answer(self, question: ClientQuestion, again: tuple[type[KvwalError], ...], key: str | None = None) -> bytes:
        """The answer to a request that changes nothing. It is sent again after an error of `again`."""
        ask = partial(self._link.result, partial(ask_history, self._link.client, question, key), self.label)
        return bytes(retry_on(ask, again, pause=_RETRY_SECONDS, within=self.timeout))

    def feed(self, start: Start, structure: str = OWN_MAP) -> Feed:
        """See `structures.business.Business.feed`. `ConfigError` if a member is of an earlier version."""
        return ClusterFeed(self._ask_for_changes, self.name, start, structure)

    def changes(self, structure: str = OWN_MAP) -> MapChanges:
        """The changes in the logs of all nodes; `structure` may be that of all queues, `queue/*`.

        `ConfigError` if a member is of an earlier version.
        """
        return MapChanges(self._ask_for_changes, self.name, structure)

    def _ask_for_changes(self, question: WatchStart | WatchRead, key: str) -> bytes:
        return self._of_this_version(lambda: self._answer(question, (ClusterUnreachable, NotRecovered), key))

    def _of_this_version(self, ask: Callable[[], T]) -> T:
        """The answer to a question that members of earlier versions do not know. `ConfigError` if one of them refuses it."""
        try:
            return ask()
        except KvwalError as error:
            if type(error) is not KvwalError:
                raise
            raise ConfigError(
                f"{self.label}: a member refused the question for the past, or for changes: it is of an earlier version, or its"
                " log names a bug.",
                hint="Update all members to the version of this client.",
            ) from error
