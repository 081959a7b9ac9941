"""An open business: the memory and the log of one business, and the interface that its structures use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.codecs import Codecs, registry
from kvwal.config import Flush
from kvwal.content.files import ContentFiles
from kvwal.content.source import ContentSource
from kvwal.entry import DataEntry
from kvwal.errors import KvwalError, StoreClosed
from kvwal.history.feeds.feeds import OpenFeed
from kvwal.history.feeds.lost_tails import warn_of
from kvwal.history.provenance.reader import LogEvents
from kvwal.history.reads.tail_reader import Identity
from kvwal.history.reads.timeline import Timeline
from kvwal.hlc import HybridClock
from kvwal.key_class import OWN_MAP
from kvwal.log.files.format import WITH_LARGE_VALUES
from kvwal.log.log import Log, open_log
from kvwal.log.submission import Submission
from kvwal.ports.boundary import call_later, call_on, logged
from kvwal.ports.clock import Clock
from kvwal.ports.processes import take_before_fork, tell_if_forked
from kvwal.store.contents.open_contents import OpenContents, archive_of, containers_of
from kvwal.store.context import StoreContext
from kvwal.store.maintenance import Maintenance
from kvwal.structures.map.state import MapState
from kvwal.structures.memory import BusinessMemory
from kvwal.structures.queue.figures import stats_of
from kvwal.structures.queue.positions import queue_named
from kvwal.structures.watch import Start
from kvwal.values.moved import FileValue, ValueMover
from kvwal.values.reader import StoredCodecs, StoredValues
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects

if TYPE_CHECKING:
    import pyarrow as pa


_not_called = logged("a call that was due at a later time could not be made, which is a bug")


class OpenBusiness:
    """A business that is open for writing. `open_business` makes it, on the store's event loop.

    `submit`, `history` and `as_of` are for any other thread. `maintenance` is that of `log`.
    """

    def __init__(
        self, place: Place, flush: Flush, context: StoreContext, hybrid: HybridClock, memory: BusinessMemory, log: Log,
        contents: OpenContents, maintenance: Maintenance,
    ) -> None:  # fmt: skip
        """`memory` and `log` are recovered, and judge expiry by `hybrid`."""
        self.place = place
        self.name = place.business
        self.flush = flush
        self._values = StoredValues(place.business, lambda: contents.source)
        self.codecs: Codecs = StoredCodecs(registry, self._values, contents.files.hold)
        self.value_bytes = context.settings.value_bytes
        self.inline_bytes = context.settings.inline_bytes if context.large_values_beside else sys.maxsize
        self.transaction_bytes = sys.maxsize
        self.hybrid = hybrid
        self.memory = memory
        self.state = memory.map
        self.log = log
        self.maintenance = maintenance
        self.contents = contents
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._mover = ValueMover(contents.files, self.inline_bytes, place.business, memory.holds_claims)
        self._events = LogEvents(context.ports.disk, context.root, lambda: [place])

    def now_ms(self) -> int:
        """The present by this log's hybrid clock. It never steps back, so an expired entry stays expired."""
        return _now_ms(self.hybrid, self._context.ports.clock)

    def state_of(self, structure: str) -> Any:
        """See `structures.business.LocalBusiness.state_of`."""
        return self.memory.state(structure)

    @property
    def content_source(self) -> ContentSource:
        """See `structures.business.LocalBusiness.content_source`."""
        return self.contents.source

    def content_files(self) -> ContentFiles:
        """See `structures.business.LocalBusiness.content_files`."""
        if self._closed:
            raise self._closed_error()
        return self.contents.files

    def structures_of(self, kind: str) -> list[str]:
        """See `structures.business.LocalBusiness.structures_of`."""
        return self.memory.structures_of(kind)

    @property
    def makes_events(self) -> bool:
        """See `structures.business.LocalBusiness.makes_events`."""
        return self.memory.derive is not None

    def events(self) -> LogEvents:
        """See `structures.business.LocalBusiness.events`."""
        return self._events

    @property
    def refuses_writes(self) -> bool:
        """See `structures.business.LocalBusiness.refuses_writes`."""
        return self._closed or self.log.writer.failed is not None

    def elapsed(self) -> float:
        """See `structures.business.LocalBusiness.elapsed`."""
        return self._context.ports.clock.elapsed()

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """See `structures.business.LocalBusiness.call_after`. Any thread may ask for it."""
        later = partial(call_later, self._loop, seconds, call, _not_called)
        with suppress(RuntimeError):  # the loop is closed, and so is the business
            call_on(self._loop, later, _not_called)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """See `structures.business.LocalBusiness.subscribe`."""
        self.log.writer.listeners.add(wake)

    @property
    def unarchived(self) -> range:
        """The sequences that the archive has not confirmed since the business was opened."""
        return range(self.maintenance.archived + 1, self.log.appender.next_sequence)

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """See `structures.business.Business.submit`."""
        if self._closed:
            raise self._closed_error()
        if submission.size > self.inline_bytes:
            self._mover.move(submission)
        try:
            if self._goes_ahead(submission):
                self.log.write_ahead(submission)
            self.log.ring.put(submission, waits=waits)
        except KvwalError as error:
            self.log.discard_ahead(submission)
            submission.withdraw(error)
            raise

    def value_of_file(self, path: Path) -> FileValue:
        """See `structures.business.Business.value_of_file`."""
        if self._closed:
            raise self._closed_error()
        return self._mover.of_file(path)

    def offer(self, submission: Submission) -> bool:
        """See `structures.business.Business.offer`."""
        if self._closed:
            raise self._closed_error()
        if self._mover.wants(submission) or self._goes_ahead(submission):
            return False
        return self.log.ring.offer(submission)

    async def submit_soon(self, submission: Submission) -> None:
        """See `structures.business.Business.submit_soon`."""
        if self._closed:
            raise self._closed_error()
        wanted = [submission]  # empty once the caller is gone

        def write() -> None:
            self._mover.move(submission)
            try:
                if self._goes_ahead(submission):
                    self.log.write_ahead(submission)
            finally:
                if not wanted:
                    self.log.discard_ahead(submission)
                    submission.withdraw(None)

        try:
            if self._mover.wants(submission) or self._goes_ahead(submission):
                await self._context.ports.workers.run(write)
            await self.log.ring.put_soon(submission)
        except (KvwalError, asyncio.CancelledError):
            wanted.clear()
            self.log.discard_ahead(submission)
            submission.withdraw(None)
            raise

    def _goes_ahead(self, submission: Submission) -> bool:
        """Whether the entries of a transaction are to be written before it is submitted."""
        return submission.size > self._context.settings.overflow_bytes and submission.decide is None

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`."""
        timeline = self._timeline()
        with self.contents.files.hold():
            entries = list(self._values.entries(timeline.history(key_class, key)))
        warn_of(timeline.lost_tails())
        return entries

    def as_of(self, timestamp: int, structure: str = OWN_MAP) -> MapState:
        """See `structures.business.Business.as_of`."""
        return self._timeline().as_of(timestamp, structure)

    def feed(self, start: Start) -> OpenFeed:
        """See `structures.business.Business.feed`."""
        context = self._context
        return OpenFeed(context.ports.disk, context.root, self.place, self._archive, self.log, start)

    def unarchived_rows(self, identity: Identity | None, timestamp: int) -> pa.Table:
        """The entries that the archive has not confirmed, as rows of the archive: see `Timeline.unarchived`. For any thread."""
        archived = self.maintenance.archived  # before anything is read: later entries stay in the log
        return self._timeline().unarchived(archived, identity, timestamp)

    def _timeline(self) -> Timeline:
        context = self._context
        until = self.log.writer.applied  # before anything is read
        return Timeline(context.ports.disk, context.root, [self.place], self._archive(), all_nodes=False, until=until)

    def _archive(self) -> Objects | None:
        return archive_of(self._context)

    def stats(self) -> dict[str, Any]:
        """Numbers about this business. Sequences count entries from 1, sizes are bytes. `queues` has those of each queue by its
        name, which is empty for the business's own: see `stats_of`.

        Of a log that is not new, the numbers of the archive are None until the archive was asked the first time.
        """
        log, appender = self.log, self.log.appender
        last = appender.next_sequence - 1
        seen = self.maintenance.archive_seen
        now_ms = self.now_ms()
        return {
            "entries": self.state.count(),
            "queues": {queue_named(name): stats_of(state, now_ms) for name, state in sorted(self.memory.queues().items())},
            "last_sequence": last,
            "log_bytes": appender.size + sum(segment.size for segment in log.sealed),
            "segments": len(log.sealed) + 1,
            "snapshot_sequence": log.covered,
            "archived_sequence": self.maintenance.archived if seen else None,
            "archive_lag_entries": last - self.maintenance.archived if seen else None,
            "archive_lag_seconds": self.maintenance.archive_lag_seconds() if seen else None,
            "archive_requests": self.maintenance.progress.requests,
            "lost_tails": self.maintenance.progress.lost_tails,
            "checkpoint_age_seconds": self.maintenance.checkpoint_age_seconds(),
            "maintenance": {job: failure.reason for job, failure in self.maintenance.failing.failures.items()},
            "damage": self.maintenance.failing.damage,
            "slowed": self.maintenance.slowed,
            "slowed_seconds": self.maintenance.slowed_seconds,
            "archive_error": str(self.maintenance.progress.error) if self.maintenance.progress.error else None,
            "archive_error_kind": self.maintenance.progress.error.kind.value if self.maintenance.progress.error else None,
            "flush": self.flush if isinstance(self.flush, str) else f"interval({self.flush.ms} ms, {self.flush.bytes} bytes)",
            "groups": log.writer.groups,
            "ring_slots": log.ring.slots,
            "ring_bytes": log.ring.bytes,
            "epoch": log.recovered.epoch,
            "torn": str(log.recovered.torn.evidence) if log.recovered.torn else None,
            "failed": str(log.writer.failed) if log.writer.failed else None,
            "full": str(log.writer.full) if log.writer.full else None,
        }  # fmt: skip

    @property
    def closed(self) -> bool:
        """Whether the business takes no more writes. The engine's method `business` opens it again."""
        return self._closed

    def may_retire(self) -> bool:
        """Whether the log may be removed: it holds no live entry, is archived (if there is an archive), and has no caller."""
        log, maintenance = self.log, self.maintenance
        last = log.appender.next_sequence - 1
        if not maintenance.retires or self._closed or not maintenance.is_idle or log.writer.failed is not None:
            return False
        if log.ring.slots or log.writer.applied != last or not self.memory.holds_nothing():
            return False
        return self._context.archive_url is None or (not log.appender.entries and maintenance.archived >= last)

    async def retire(self) -> bool:
        """End the log and remove its folder. To be called in the step of the loop in which it `may_retire`.

        Returns False if an entry was written at the last moment: then the log is only closed.
        """
        self._closed = True
        await self.maintenance.finish(archive=False)
        is_gone = await self.log.retire(leaves_end=self._context.archive_url is not None)
        if is_gone:
            await self._context.ports.workers.run(self.contents.files.remove_containers)
        return is_gone

    async def close(self, *, archive: bool, until: float | None = None) -> None:
        """Write all entries that wait, and end the log. With `archive`, its tail is archived first.

        The tail stays unarchived if the archive cannot be reached, or when the monotonic clock comes to `until`.
        """
        self._closed = True
        try:
            await self.maintenance.finish(archive=archive, until=until)
        finally:
            await self.maintenance.failing.settled()
            try:  # it may wait for a group of contents, and the loop is not to
                await self._context.ports.workers.run(self.contents.files.close)
            finally:
                await self.log.close()

    def forked(self) -> None:
        """Close the business in a child process, without a write: the log and its lock belong to the parent."""
        self._closed = True
        self.log.release_in_child()

    def _closed_error(self) -> StoreClosed:
        return StoreClosed(
            f"{self.name}: the store is closed, or was opened in another process; nothing was written.",
            hint="Open it again.",
        )


async def open_business(place: Place, flush: Flush, context: StoreContext) -> OpenBusiness:
    """Lock, recover and open the log of a business. Errors are those of `open_log`."""
    containers = containers_of(place, context)
    hybrid = context.hybrid()
    memory = context.memory(context, place, partial(_now_ms, hybrid, context.ports.clock))
    log = await open_log(
        context.ports, context.root, place,
        settings=context.settings, flush=flush,
        memory=memory, hybrid=hybrid,
        accept_clock=context.accept_clock, progress=context.progress,
    )  # fmt: skip
    contents = OpenContents(place, log, context, containers)
    if log.appender.header.format >= WITH_LARGE_VALUES:
        memory.holds_claims()
    maintenance = Maintenance(place, log, memory, contents, context)
    await maintenance.failing.take_note()
    business = OpenBusiness(place, flush, context, hybrid, memory, log, contents, maintenance)
    take_before_fork(memory.guards.building)
    take_before_fork(memory.guards.lock)
    take_before_fork(hybrid.lock)
    tell_if_forked(business)
    _log_recovery(log, context)
    return business


def _now_ms(hybrid: HybridClock, clock: Clock) -> int:
    return hybrid.now_ms(clock.wall_ms(), clock.elapsed())


def _log_recovery(log: Log, context: StoreContext) -> None:
    torn = log.recovered.torn
    if torn is not None:
        context.logger.warning(
            "cut a torn tail, as a crash leaves it", path=str(torn.path), offset=torn.offset, bytes=torn.bytes,
            kept=str(torn.evidence),
        )  # fmt: skip
    for kept in log.recovered.set_aside:
        context.logger.warning("a snapshot is damaged; the segments it stood for were read instead", kept=str(kept))
