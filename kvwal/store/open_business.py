"""One business, open for writing: its memory and its log, as the structures on it see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.layout import Place
from archive.objects import Objects, open_objects
from kvwal.codecs import registry
from kvwal.config import Flush
from kvwal.entry import DataEntry
from kvwal.errors import StoreClosed
from kvwal.history.tail_reader import Identity
from kvwal.history.timeline import Past
from kvwal.log import recovery
from kvwal.log.log import Log, open_log
from kvwal.log.ring import Submission
from kvwal.ports.processes import take_before_fork, tell_if_forked
from kvwal.store.context import StoreContext
from kvwal.store.maintenance import Maintenance
from kvwal.structures.state import State

if TYPE_CHECKING:
    import pyarrow as pa


class OpenBusiness:
    """Made by `open_business`, on the store's event loop; `submit`, `history` and `as_of` are for any other thread.

    `log` is what it is written to, `maintenance` looks after that.
    """

    def __init__(self, place: Place, flush: Flush, context: StoreContext) -> None:
        self.place = place
        self.name = place.business
        self.flush = flush
        self.codecs = registry
        self.overflow_bytes = context.settings.overflow_bytes
        self.hybrid = context.hybrid()
        self.state = context.memory(self.now_ms)
        self._context = context
        self._closed = False
        self.log: Log
        self.maintenance: Maintenance

    def now_ms(self) -> int:
        """The present by this log's hybrid clock. It never steps back, so that what was told to be expired stays so."""
        clock = self._context.ports.clock
        return self.hybrid.now_ms(clock.wall_ms(), clock.elapsed())

    @property
    def unarchived(self) -> range:
        """The sequences that the archive was not seen to hold since this was opened."""
        return range(self.maintenance.archived + 1, self.log.appender.next_sequence)

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """See `structures.business.Business.submit`."""
        if self._closed:
            raise self._is_closed()
        self.log.ring.put(submission, waits=waits)

    def offer(self, submission: Submission) -> bool:
        """See `structures.business.Business.offer`."""
        if self._closed:
            raise self._is_closed()
        return self.log.ring.offer(submission)

    async def submit_soon(self, submission: Submission) -> None:
        """See `structures.business.Business.submit_soon`."""
        if self._closed:
            raise self._is_closed()
        await self.log.ring.put_soon(submission)

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`."""
        return self._past().history(key_class, key)

    def as_of(self, timestamp: int) -> State:
        """See `structures.business.Business.as_of`."""
        return self._past().as_of(timestamp)

    def unarchived_rows(self, identity: Identity | None, timestamp: int) -> pa.Table:
        """What the archive was not seen to hold, as its rows: see `Past.unarchived`; for any thread."""
        archived = self.maintenance.archived  # before anything is read: what is behind it stays in the log
        return self._past().unarchived(archived, identity, timestamp)

    def _past(self) -> Past:
        context = self._context
        until = self.log.writer.applied  # before anything is read
        objects: Objects | None = None
        if context.archive_url is not None:
            objects = open_objects(context.archive_url, context.options)
        return Past(context.ports.disk, context.root, [self.place], objects, all_nodes=False, until=until)

    def stats(self) -> dict[str, Any]:
        """Numbers about this business; sequences count entries from 1, sizes are bytes.

        What the archive holds of a log that is not new is None until it was asked the first time.
        """
        log, appender = self.log, self.log.appender
        last = appender.next_sequence - 1
        seen = self.maintenance.archive_seen
        return {
            "entries": self.state.count(),
            "last_sequence": last,
            "log_bytes": appender.size + sum(segment.size for segment in log.sealed),
            "segments": len(log.sealed) + 1,
            "snapshot_sequence": log.covered,
            "archived_sequence": self.maintenance.archived if seen else None,
            "archive_lag_entries": last - self.maintenance.archived if seen else None,
            "archive_lag_seconds": self.maintenance.archive_lag_seconds() if seen else None,
            "checkpoint_age_seconds": self.maintenance.checkpoint_age_seconds(),
            "maintenance": dict(self.maintenance.failures),
            "archive_error": str(self.maintenance.archive_error) if self.maintenance.archive_error else None,
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
        """Whether it takes nothing more: it is to be opened again."""
        return self._closed

    def may_retire(self) -> bool:
        """Whether its log holds nothing, all of it is archived, if there is an archive, and nothing is on its way to it."""
        log, maintenance = self.log, self.maintenance
        last = log.appender.next_sequence - 1
        if not maintenance.retires or self._closed or not maintenance.is_idle or log.writer.failed is not None:
            return False
        if log.ring.slots or log.writer.applied != last or not self.state.holds_nothing():
            return False
        return self._context.archive_url is None or (not log.appender.entries and maintenance.archived >= last)

    async def retire(self) -> bool:
        """End the log and remove its folder, in the same step of the loop in which it `may_retire`. False if something was
        written at the last moment: then it is only closed."""
        self._closed = True
        await self.maintenance.finish(archive=False)
        return await self.log.retire(leaves_end=self._context.archive_url is not None)

    async def close(self, *, archive: bool, until: float | None = None) -> None:
        """Write what waits and end the log; with `archive`, its tail is archived first, if the archive can be reached, and the
        clock has not come to `until`.
        """
        self._closed = True
        try:
            await self.maintenance.finish(archive=archive, until=until)
        finally:
            await self.log.close()

    def forked(self) -> None:
        """In a child process nothing is written, and the lock is not held: both are the parent's."""
        self._closed = True
        self.log.release_in_child()

    def _is_closed(self) -> StoreClosed:
        return StoreClosed(
            f"{self.name}: the store is closed, or was opened in another process; nothing was written.",
            hint="Open it again.",
        )


async def open_business(place: Place, flush: Flush, context: StoreContext) -> OpenBusiness:
    """Lock, recover and open the log of a business. Errors are those of `open_log`."""
    business = OpenBusiness(place, flush, context)
    business.log = await open_log(
        context.ports, context.root, place,
        settings=context.settings, flush=flush,
        target=recovery.RecoveryTarget(business.state.apply, business.state.clear),
        lookup=business.state.lookup, hybrid=business.hybrid,
        accept_clock=context.accept_clock, progress=context.progress,
    )  # fmt: skip
    business.maintenance = Maintenance(place, business.log, business.state, context)
    take_before_fork(business.state.building)
    take_before_fork(business.state.lock)
    take_before_fork(business.hybrid.lock)
    tell_if_forked(business)
    torn = business.log.recovered.torn
    if torn is not None:
        context.logger.warning(
            "cut a torn tail, as a crash leaves it", path=str(torn.path), offset=torn.offset, bytes=torn.bytes,
            kept=str(torn.evidence),
        )  # fmt: skip
    for kept in business.log.recovered.set_aside:
        context.logger.warning("a snapshot is damaged; the segments it stood for were read instead", kept=str(kept))
    return business
