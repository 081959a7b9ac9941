"""Watch service: answers clients that watch a map, from the logs of all living members, and from the archive for the others.

A page has two rounds. In the first one each member tells its low watermark: it stamps nothing at or below it any more. In the
second one the members with news give their rows up to the least low watermark. Nothing is kept for a client between two pages:
its positions say where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import astuple

from kvwal.cluster.map_names import to_business
from kvwal.cluster.requests import (
    Begin,
    BeginQuestion,
    CompactedRowsQuestion,
    LogRows,
    LowWatermark,
    LowWatermarkQuestion,
    RowsQuestion,
    StructureRowsQuestion,
    WatchPage,
    WatchRead,
    WatchStart,
    WatchStarted,
)
from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.history.feeds.archived_rows import compacted_up_to, last_up_to
from kvwal.history.feeds.cluster_page import LogBounds, LogPart, limit_of, page_of, to_raise
from kvwal.history.feeds.feeds import ARCHIVE_SECONDS
from kvwal.history.feeds.log_feed import ArchivedLogFeed, not_in_log
from kvwal.key_class import OWN_MAP
from kvwal.node.adapters.live_members import Peer
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal.structures.watch import Change, Positions
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import Objects
from kvwal_archive.reader import live_objects
from kvwal_archive.registry import registered


class _Archived(NamedTuple):
    """What the archive had of a business: of the logs of nodes that are no members the last sequence, by node, and lost tails."""

    looked: float
    members: frozenset[str]
    last: dict[str, int]
    lost: list[LostTail]


class WatchService:
    """The watch service of one member. Used on the node's event loop."""

    def __init__(
        self, engine: Engine, objects: Callable[[], Objects], peers: Peers, readers: Workers, *, within: float
    ) -> None:
        """See `HistoryService`."""
        self._engine = engine
        self._objects = objects
        self._peers = peers
        self._readers = readers
        self._within = within
        self._archived: dict[str, _Archived] = {}

    async def start(self, question: WatchStart) -> WatchStarted:
        """Where a watch begins. `ConfigError` if a position is after the end of a log, `BeforeHistory`."""
        business = to_business(question.map)
        living = await self._peers.living()
        ends = await self._ends(business, living)
        if question.positions is not None:
            self._check(business, ends, question.positions)
            return WatchStarted(question.positions, 0)
        archived = (await self._seen(business, {peer.name for peer in living})).last
        if question.timestamp is None and question.beginning:
            compacted = await self._readers.run(partial(self._compacted, business))
            return WatchStarted(dict.fromkeys([*archived, *ends], 0), 0, compacted)
        if (timestamp := question.timestamp) is None:
            positions = {node: end.last or 0 for node, end in ends.items()}
            return WatchStarted(archived | positions, limit_of(ends))
        asked = BeginQuestion(business, timestamp)
        begun = await self._peers.watch(dict.fromkeys(living, asked), Begin, self._within)
        positions = {node: min(begin.sequence, ends[node].last or 0) for node, begin in begun.items()}
        before = await self._readers.run(partial(self._archived_before, business, archived, timestamp))
        return WatchStarted(before | positions, timestamp)

    async def read(self, question: WatchRead) -> WatchPage:
        """The next changes. `ArchiveGap` if they are not kept any more, `ConfigError` if a log has lost its end."""
        business, positions = to_business(question.map), question.positions
        living = await self._peers.living()
        ends = await self._ends(business, living)
        newest, behind = to_raise(ends, positions)
        if behind:
            ends |= await self._ends(business, [peer for peer in living if peer.name in behind], newest)
        self._check(business, ends, positions)
        limit = limit_of(ends)
        parts = await self._rows(business, living, ends, question, limit)
        archived = await self._seen(business, ends)
        parts += await self._archived_rows(business, archived.last, question, limit)
        page = page_of(parts, positions, question.since, question.structure)
        changes = [(change.node, change.sequence, change.entry.public()) for change in page.changes]
        return WatchPage(changes, page.positions, archived.lost)

    async def _ends(self, business: str, peers: Iterable[Peer], least: int = 0) -> dict[str, LogBounds]:
        asked = LowWatermarkQuestion(business, least)
        told = await self._peers.watch(dict.fromkeys(peers, asked), LowWatermark, self._within)
        return {name: LogBounds(end.low_watermark, end.last, end.timestamp) for name, end in told.items()}

    async def _rows(
        self, business: str, living: Iterable[Peer], ends: Mapping[str, LogBounds], at: WatchRead, limit: int
    ) -> list[LogPart]:
        """The rows of the members that have news."""
        asked: dict[Peer, RowsQuestion] = {}
        for peer in living:
            position, end = at.positions.get(peer.name, 0), ends[peer.name]
            if end.last is not None and (last := _last_of(at, peer.name, end.last)) > position:
                asked[peer] = _rows_question(business, position, last, limit, at, peer.name)
        told = await self._peers.watch(asked, LogRows, self._within)
        return [
            LogPart([Change(node, sequence, _stored(entry)) for sequence, entry in page.rows], page.more)
            for node, page in told.items()
        ]

    async def _archived_rows(
        self, business: str, archived: Mapping[str, int], at: WatchRead, limit: int
    ) -> list[LogPart]:
        """The rows that the archive has of nodes that are no members."""
        parts = []
        for node, archived_last in archived.items():
            last = _last_of(at, node, archived_last)
            position, place = at.positions.get(node, 0), self._engine.place(business, node)
            if last > position:
                compacted = _compacted_after(at, node)
                rows, more = await self._peers.own_changes.page(
                    place, partial(self._open, place, position, compacted), position, last, limit, compacted
                )
                parts.append(LogPart([Change(node, *row) for row in rows], more))
        return parts

    async def _seen(self, business: str, members: Collection[str]) -> _Archived:
        """What the archive has of the business. It is asked again after some seconds, and at once when a member came or went."""
        now, names = self._engine.options.clock.elapsed(), frozenset(members)
        if self._engine.options.archive_url is None:
            return _Archived(now, names, {}, [])
        known = self._archived.get(business)
        if known is None or known.members != names or now - known.looked >= ARCHIVE_SECONDS:
            known = _Archived(now, names, *await self._readers.run(partial(self._look, business, names)))
            # Maps that nobody watches any more are forgotten.
            fresh = {name: each for name, each in self._archived.items() if now - each.looked < ARCHIVE_SECONDS}
            self._archived = {**fresh, business: known}
        return known

    def _look(self, business: str, members: frozenset[str]) -> tuple[dict[str, int], list[LostTail]]:
        """The last archived sequence of each node that is no member, and the lost tails."""
        options, objects = self._engine.options, self._objects()
        where = (options.namespace, options.cluster, business)
        last = {
            place.node: max((info.span.last for info in live_objects(objects, place)), default=0)
            for place in registered(objects, *where)
            if place.node not in members
        }
        return last, lost_tails(objects, *where)

    def _compacted(self, business: str) -> Positions:
        """For each log the last sequence of the objects from which compaction has removed changes."""
        options = self._engine.options
        if options.archive_url is None:
            return {}
        objects = self._objects()
        found = {
            place.node: compacted_up_to(live_objects(objects, place))
            for place in registered(objects, options.namespace, options.cluster, business)
        }
        return {node: last for node, last in found.items() if last}

    def _archived_before(self, business: str, archived: Iterable[str], timestamp: int) -> Positions:
        return {node: last_up_to(self._objects(), self._engine.place(business, node), timestamp) for node in archived}

    def _open(self, place: Place, position: int, compacted: int) -> ArchivedLogFeed:
        return ArchivedLogFeed(self._engine.options.disk, self._objects(), place, position, compacted=compacted)

    def _check(self, business: str, ends: Mapping[str, LogBounds], positions: Positions) -> None:
        for node, end in sorted(ends.items()):
            if end.last is not None and positions.get(node, 0) > end.last:
                raise not_in_log(self._engine.place(business, node), positions[node], end.last)


def _last_of(at: WatchRead, node: str, last: int) -> int:
    """The last sequence of a log that a reader asks for, of a log that ends with `last`."""
    return last if at.until is None else min(last, at.until.get(node, 0))


def _rows_question(business: str, position: int, last: int, limit: int, at: WatchRead, node: str) -> RowsQuestion:
    """The question to a member for its rows. A member of an earlier version understands that of a reader of the own map."""
    compacted = _compacted_after(at, node)
    if at.structure != OWN_MAP:
        return StructureRowsQuestion(business, position, last, limit, compacted, at.structure)
    if compacted:
        return CompactedRowsQuestion(business, position, last, limit, compacted)
    return RowsQuestion(business, position, last, limit)


def _compacted_after(at: WatchRead, node: str) -> int:
    """The sequence up to which a log may lack changes; 0 if the reader has come past it."""
    compacted = at.compacted.get(node, 0)
    return compacted if compacted > at.positions.get(node, 0) else 0


def _stored(entry: DataEntry) -> Entry:
    return make_entry(*astuple(entry))
