"""History service: answers clients' requests for the history of a map, from the logs of all members that live at that moment.

Each member sends the entries that only its log has, and the archive has the rest. Without an archive this node's own log has all
of them. A request holds a thread of a member until it is answered, so none may wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, islice

from kvwal.cluster import requests as questions
from kvwal.cluster.map_names import to_business
from kvwal.cluster.requests import (
    NOW,
    PAGE_BYTES,
    WRITES,
    BusinessFailure,
    Failures,
    FailuresQuestion,
    LostTailsQuestion,
    Page,
    Question,
    StructureQuestion,
    TailQuestion,
    WatchRead,
    WatchStart,
)
from kvwal.entry import DataEntry, Entry, encode_entries, entry_identity, timestamps_within
from kvwal.errors import CorruptLog
from kvwal.history.reads.entry_rows import each_once, entries_of
from kvwal.history.reads.map_rows import map_rows
from kvwal.history.reads.structure_rows import ALL_QUEUES, is_part_of
from kvwal.key_class import OWN_MAP
from kvwal.log.files.maintenance_failures import failure_of
from kvwal.node.requests.own_changes import unreadable_log
from kvwal.node.requests.peers import Peers
from kvwal.node.requests.watch_service import WatchService
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness
from kvwal.structures.destroyed import to_marks
from kvwal_archive import view
from kvwal_archive.layout import LostTail
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import KeyRange, intersect, structure_ranges
from kvwal_archive.reader import listed_again
from kvwal_archive.registry import registered
from kvwal_archive.view import Tails

_WITHIN_SECONDS = 30.0
_WATCH_SECONDS = 10.0
"""For the members to tell their changes: a client that watches asks again."""
_MOST_FAILURES = 50
"""Failures that an answer lists, and maps with lost tails: if the archive is away, each map has one."""


class HistoryService:
    """The history service of one member. Used on the node's event loop."""

    def __init__(
        self,
        engine: Engine,
        objects: Callable[[], Objects],
        peers: Peers,
        readers: Workers,
        *,
        within: float = _WITHIN_SECONDS,
    ) -> None:
        """`objects` opens the archive of the cluster. `readers` read logs and archive. A request is refused if a member has not
        answered after `within` seconds."""
        self._engine = engine
        self._objects = objects
        self._peers = peers
        self._readers = readers
        self._within = within
        self._watches = WatchService(engine, objects, peers, readers, within=min(within, _WATCH_SECONDS))

    async def answer(self, text: bytes) -> bytes:
        """The answer to a client's request."""
        question = questions.decode(text)
        if isinstance(question, FailuresQuestion):
            return questions.encode(self._failures())
        if isinstance(question, LostTailsQuestion):
            return questions.encode(await self._readers.run(partial(self._lost_tails, to_business(question.map))))
        if isinstance(question, WatchStart):
            return questions.encode(await self._watches.start(question))
        if isinstance(question, WatchRead):
            return questions.encode(await self._watches.read(question))
        return encode_entries(await self._find(question))

    def _failures(self) -> Failures:
        found, lost = [], {}
        for name, business in sorted(self._engine.businesses.items()):
            error = business.log.writer.failed
            jobs = {} if error is None else {WRITES: failure_of(error, 0)}
            jobs |= business.maintenance.failing.failures
            found += [BusinessFailure(name, job, failure) for job, failure in jobs.items()]
            if tails := business.maintenance.progress.lost_tails:
                lost[name] = tails
        return Failures(len(found), found[:_MOST_FAILURES], dict(islice(lost.items(), _MOST_FAILURES)))

    def _lost_tails(self, business: str) -> list[LostTail]:
        options = self._engine.options
        if options.archive_url is None:
            return []
        return lost_tails(self._objects(), options.namespace, options.cluster, business)

    async def _find(self, question: Question | StructureQuestion) -> Sequence[Entry | DataEntry]:
        business = to_business(question.map)
        if self._engine.options.archive_url is None:
            own = self._engine.businesses.get(business)
            return [] if own is None else await self._readers.run(partial(self._from_own_log, own, question))
        key = (question.key_class, question.key) if isinstance(question, Question) else ("", b"")
        asked = TailQuestion(business, *key, question.timestamp)
        tails = await self._peers.tails(asked, self._within)
        return await self._readers.run(partial(self._read, business, question, tails))

    def _from_own_log(
        self, business: OpenBusiness, question: Question | StructureQuestion
    ) -> Sequence[Entry | DataEntry]:
        try:
            return _own(business, question)
        except (CorruptLog, OSError) as error:
            raise unreadable_log(self._engine.node, question.map, error) from error

    def _read(self, business: str, question: Question | StructureQuestion, tails: Tails) -> Sequence[Entry | DataEntry]:
        options = self._engine.options
        where = (options.namespace, options.cluster, business)
        objects = self._objects()
        if not registered(objects, *where) and not tails:
            return []  # nobody ever wrote to it
        if isinstance(question, Question) and question.key_class:
            table = view.history(objects, *where, key_class=question.key_class, key=question.key, tails=tails)
            return each_once(list(entries_of(table)))
        skew = timestamps_within(options.settings.max_skew_seconds)
        at, wanted = question.timestamp, _structure(question)
        page, ranges = question.page, None
        if wanted != OWN_MAP:
            behind = KeyRange((page.after_class, page.after))
            ranges = list(intersect(structure_ranges(wanted), [behind]))
        one = None if wanted == ALL_QUEUES else wanted

        def read() -> Sequence[Entry | DataEntry]:
            batches = map_rows(objects, where, skew, tails=tails, at=at, ranges=ranges, structure=one)
            return _page(chain.from_iterable(map(entries_of, batches)), page)

        return listed_again(read)


def _own(business: OpenBusiness, question: Question | StructureQuestion) -> Sequence[Entry | DataEntry]:
    if isinstance(question, Question) and question.key_class:
        return business.history(question.key_class, question.key)
    structure = _structure(question)
    if question.timestamp != NOW:
        return _page(business.as_of(question.timestamp, structure).all_ordered(), question.page)
    # The state as of NOW would leave out every entry that expires.
    rows = entries_of(business.unarchived_rows(None, NOW))
    latest = {entry_identity(entry): entry for entry in rows}
    marks = to_marks(("", entry) for entry in latest.values())
    there = (latest[key] for key in sorted(latest) if is_part_of(key[0], structure) and not latest[key].deleted)
    return _page((entry for entry in there if not marks.ended("", entry.timestamp)), question.page)


def _structure(question: Question | StructureQuestion) -> str:
    return question.structure if isinstance(question, StructureQuestion) else OWN_MAP


def _page(entries: Iterable[Entry], page: Page) -> list[Entry | DataEntry]:
    """The entries of a page, of entries in the order of identity."""
    taken: list[Entry | DataEntry] = []
    size = 0
    for entry in entries:
        if page.has(entry.key_class, entry.key):
            taken.append(entry)
            size += len(entry.key) + len(entry.value)
            if size >= PAGE_BYTES:
                break
    return taken
