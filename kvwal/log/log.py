"""One log, open for writing: lock, recovery, ring and writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from weakref import ref

import msgspec

from kvwal.config import Flush, Settings
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveError, ClockSkew, ConfigError, KvwalError, LogFailed, StorageFull, StoreLocked
from kvwal.hlc import HybridClock, to_text
from kvwal.log.appender import Appender, LogMoved, storage_full
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import FORMAT, Header, SnapshotHeader
from kvwal.log.files.names import LOCK, OVERFLOW, log_folder
from kvwal.log.files.retired import bring_back, remove_end, retire
from kvwal.log.files.segment import SealedSegment
from kvwal.log.reader import Progress, entry_decoder
from kvwal.log.recovery import Recovered, RecoveryTarget, recover
from kvwal.log.ring import Ring
from kvwal.log.submission import ENTRY_BYTES, LogMemory, Submission
from kvwal.log.writer import Writer
from kvwal.ports.boundary import raised_to_awaiter, start_task, when_done
from kvwal.ports.clock import Clock
from kvwal.ports.descriptors import OWN_DESCRIPTORS, Descriptors
from kvwal.ports.disk import Disk, Lock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.processes import whoami
from kvwal.ports.tasks import Workers
from kvwal_archive.layout import Place


class Ports(NamedTuple):
    """The ports that a log uses: disk, clock, worker threads for blocking calls, metrics, and the budget of file descriptors."""

    disk: Disk
    clock: Clock
    workers: Workers
    metrics: LogMetrics = NO_METRICS
    descriptors: Descriptors = OWN_DESCRIPTORS


class Log:
    """An open log: made by `open_log`, with its writer running. `ring` takes transactions from any thread; everything else is
    for the log's event loop.

    `covered` is the last sequence that a durable snapshot holds, `snapshot_bytes` the size of that snapshot, and `recovered` the
    result of recovery.
    """

    def __init__(
        self, ports: Ports, folder: Path, place: Place, recovered: Recovered, hybrid: HybridClock, lock: Lock,
        writer: Writer,
    ) -> None:  # fmt: skip
        """Start the writer's task on the running event loop. The log owns `lock` from now on."""
        self.place = place
        self.folder = folder
        self.recovered = recovered
        self.hybrid = hybrid
        self.covered = recovered.snapshot.number if recovered.snapshot else 0
        self.snapshot_bytes = recovered.snapshot_bytes
        self._ports = ports
        self._lock = lock
        self._held = True
        self._removed = 0
        """The last sequence of a segment that is gone, and whose overflow files could not be removed. 0 if there is none."""
        self.writer = writer
        self.ring = writer.ring
        self.appender = writer.appender
        self.ring.serve = writer.serve_here
        self.ring.delegate = ports.workers.begin
        self._task = start_task(writer.run(), raised_to_awaiter)
        when_done(self._task, self._ended, self.abandon)

    @property
    def log_id(self) -> str:
        """The random name that the log got when it was created."""
        return self.appender.header.log_id

    @property
    def sealed(self) -> list[SealedSegment]:
        """Sealed segments that are still in the folder, oldest first."""
        return list(self.appender.sealed)

    @property
    def ended(self) -> bool:
        """Whether the writer has stopped: nothing is acknowledged any more."""
        return self._task.done()

    def write_ahead(self, submission: Submission) -> None:
        """Write the entries of a large transaction, which is not decided by the writer, into an overflow file, before it is
        submitted: then the others wait for one small block only. For any thread but the writer's. Blocks.

        `StorageFull` and `LogFailed`: nothing was written.
        """
        try:
            submission.overflow = self.appender.write_overflow(submission.entries)
        except OSError as error:
            raise LogFailed(
                f"{self.folder}: a transaction of {len(submission.entries):,} entries could not be written ({error}); nothing of"
                " it is in the log.",
                hint="Mend the disk, then try again.",
            ) from error
        submission.size = ENTRY_BYTES

    def discard_ahead(self, submission: Submission) -> None:
        """Delete the overflow file of a transaction that was not submitted, if there is one."""
        if submission.overflow is not None:
            self.appender.overflow.discard(submission.overflow)

    async def rotate(self) -> None:
        """Seal the current segment, so that its entries can be archived and checkpointed."""
        await self.ring.command(self.writer.rotate)

    async def flush(self) -> None:
        """Return when everything acknowledged so far survives a power cut."""
        await self.ring.command(self.writer.flush)

    async def drop(self, upto: int) -> None:
        """Remove segments that end at or before `upto`: a snapshot and the archive have their entries.

        The oldest goes first, and each name is durably gone before the next one goes, so the remaining log has no gap. A segment
        that could not be removed is an `ArchiveError`; the next call tries again. So it is with the overflow files of a segment
        that is gone.
        """

        def recycle() -> None:
            self.appender.check_place()
            self._drop_left()
            sealed = self.appender.sealed
            while sealed and sealed[0].last <= upto:
                path = sealed[0].path
                last = sealed[0].last
                try:
                    self.appender.preallocated.recycle(path)
                    self.appender.overflow.drop(last)
                except OSError as error:
                    if not self._ports.disk.exists(path):
                        self._removed = last
                    raise _not_dropped(path, error) from error
                finally:
                    if not self._ports.disk.exists(path):
                        sealed.pop(0)

        async def action() -> None:
            await self._ports.workers.run(recycle)

        await self.ring.command(action)

    @property
    def left_files(self) -> bool:
        """Whether `drop` has something left to do, though no segment is to go."""
        return self._removed > 0

    def _drop_left(self) -> None:
        """Remove the overflow files that the last call could not remove."""
        if not self._removed:
            return
        try:
            self._ports.disk.sync_folder(self.folder)
            self.appender.overflow.drop(self._removed)
        except OSError as error:
            raise _not_dropped(self.folder / OVERFLOW, error, "overflow files of segments that are gone") from error
        self._removed = 0

    async def close(self) -> None:
        """Write all waiting submissions, seal the log, and release its lock. A failed log is left unsealed, for recovery."""
        try:
            await self._end()
        finally:
            if self._task.done():
                self.release()

    async def retire(self, *, leaves_end: bool) -> bool:
        """Close the log, which has no live entries, and remove its folder. True if the folder was removed.

        With `leaves_end` the log's end is kept; its last segment must be empty then. False if a write came in before the close:
        then the log is only closed.
        """
        header, following = self.appender.header, self.appender.next_sequence
        end = self._end_of(header) if leaves_end and header.first_sequence > 1 else None
        try:
            await self._end()
            if self.appender.next_sequence != following:
                return False
            root = self.folder.parents[len(self.place) - 1]
            ports = self._ports
            await ports.workers.run(partial(retire, ports.disk, ports.clock, root, self.place, end, self._lock.release))
            return True
        finally:
            if self._task.done():
                self.release()

    def _end_of(self, header: Header) -> SnapshotHeader:
        return SnapshotHeader(
            log_id=header.log_id, namespace=header.namespace, cluster=header.cluster, business=header.business,
            node=header.node, epoch=header.epoch, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
            last_sequence=header.first_sequence - 1, last_crc=header.previous_crc, last_timestamp=self.writer.timestamp,
        )  # fmt: skip

    async def _end(self) -> None:
        """Write all waiting submissions, then stop the writer and the ring."""
        try:
            if not self._task.done():
                await self.ring.command(self.writer.close)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        except KvwalError:
            if not self._task.cancelled():  # if it was, the event loop ended meanwhile: that is no failure of the log
                raise
        finally:
            await self.ring.close()
            await asyncio.wait([self._task])

    def release(self) -> None:
        """Close the files and release the lock, after the writer has stopped. A second call does nothing.

        If the writer did not end cleanly, the files stay as a crash would leave them.
        """
        if not self._held:
            return
        self._held = False
        if not self._task.done() or self._task.cancelled() or self._task.exception() is not None:
            self.appender.close(seal=False)
        self._lock.release()

    def release_in_child(self) -> None:
        """In a forked child: close the child's copy of the lock. The parent keeps holding it."""
        self._lock.release()

    def check_place(self) -> None:
        """Fail the log if its folder was renamed, replaced or deleted: see `LogMoved`. Any thread may call it."""
        try:
            self.appender.check_place()
        except LogMoved as error:
            if self.writer.failed is None:
                self.writer.failed = error
                self.writer.listeners.wake()

    def abandon(self, error: BaseException) -> None:
        """Refuse all waiting and later submissions: the writer has stopped. Called on the loop's thread."""
        self.writer.failed = error
        self.ring.refuse(self.writer.failure)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Refuse all submissions if a bug, or the end of the event loop, has stopped the writer: no caller may wait for ever."""
        if task.cancelled():
            self.abandon(RuntimeError("its event loop ended before the store was closed"))
            self.release()
        elif (error := task.exception()) is not None:
            self.abandon(error)
        self.writer.listeners.wake()


async def open_log(
    ports: Ports,
    root: Path,
    place: Place,
    *,
    settings: Settings,
    flush: Flush,
    memory: LogMemory,
    hybrid: HybridClock,
    accept_clock: bool = False,
    progress: Progress | None = None,
) -> Log:
    """Lock the log of `place`, recover it into `memory`, begin a new segment, and start the writer.

    `StoreLocked` names the holder of the lock. `CorruptLog`, `NewerVersion`, `ClockSkew`, and `ConfigError` for a log of another
    place, are raised before a file of the log is changed. `CorruptLog` also later, if what memory does not hold cannot be read.
    """
    folder = log_folder(root, place)
    held: list[Lock] = []
    try:
        await ports.workers.run(lambda: held.append(take_lock(ports.disk, root, folder)))

        def check(header: Header, last_timestamp: int) -> None:
            check_belongs(header, place, folder)
            if not accept_clock:
                check_clock(folder, last_timestamp, ports.clock.wall_ms(), settings)

        def recover_log() -> Recovered:
            bring_back(ports.disk, root, place, check)
            target = RecoveryTarget(memory.apply, memory.clear, memory.passed)
            recovered = recover(ports.disk, folder, target, entry_decoder(), progress, check)
            remove_end(ports.disk, root, place)
            memory.recovered()
            return recovered

        recovered = await ports.workers.run(recover_log)
        hybrid.advance(recovered.last_timestamp)
        header = msgspec.structs.replace(
            next_header(ports.clock, place, recovered), unsynced=msgspec.UNSET if flush == "sync" else True
        )
        begin = partial(
            Appender, ports.disk, ports.clock, folder, header, settings, recovered.sealed,
            ports.metrics, ports.descriptors, _in_place_of(held[0]),
        )  # fmt: skip
        appender = await ports.workers.run(begin)
        ring = Ring(settings.ring_slots, settings.ring_bytes, settings.ring_seconds, ports.clock.elapsed)
        writer = Writer(
            ring, appender, memory, hybrid,
            clock=ports.clock, workers=ports.workers, flush=flush, overflow_bytes=settings.overflow_bytes,
            metrics=ports.metrics,
        )  # fmt: skip
        return Log(ports, folder, place, recovered, hybrid, held[0], writer)
    except BaseException as error:
        for lock in held:
            lock.release()
        if isinstance(error, OSError):
            raise not_opened(folder, error) from error
        raise


def take_lock(disk: Disk, root: Path, folder: Path) -> Lock:
    """Lock the log in `folder`, which is created if it does not exist. `StoreLocked` names the holder of the lock."""
    try:
        disk.make_folders(folder)
        lock = disk.lock(folder / LOCK, whoami())
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"{root}: a part of the path {folder} is a file, not a folder.", hint="Choose another root."
        ) from error
    except OSError as error:
        raise not_opened(folder, error) from error
    if isinstance(lock, str):
        raise StoreLocked(
            f"{folder}: the log is held by {lock}.",
            hint="Stop that process, or choose another node. Reading (kvwal get, read_only=True) works without the lock.",
        )
    return lock


def check_descriptors(place: Place, descriptors: Descriptors) -> None:
    """Raise `StorageFull` if another open log would take from the file descriptors kept for archiving and recovery."""
    budget = descriptors.budget()
    if budget.short and descriptors.free_descriptors():
        budget = descriptors.budget()
    if budget.short:
        raise StorageFull(
            f"{place.business}: {budget.free} of {budget.limit} file descriptors are free, and {budget.reserve} are kept for"
            " archiving and recovery; the log was not opened, and nothing was written.",
            hint="Raise the limit (ulimit -n), or close files or connections; open logs go on.",
        )


def not_opened(folder: Path, error: OSError) -> KvwalError:
    """The kvwal error for an `OSError` while a log was opened. Nothing of the log was changed."""
    if isinstance(error, PermissionError):
        return ConfigError(
            f"{folder}: not allowed to write here ({error.strerror}: {error.filename}).",
            hint="Mend its owner and mode: `kvwal doctor` names the files. Or choose another root.",
        )
    return storage_full(folder, error) or ConfigError(
        f"{folder}: the log cannot be opened ({error}).", hint="Mend the disk, or choose another root."
    )


def _not_dropped(path: Path, error: OSError, what: str = "the segment, which a snapshot covers,") -> KvwalError:
    """The kvwal error for a segment that could not be removed, or its overflow files."""
    return storage_full(path.parent, error) or ArchiveError(
        f"{path}: {what} could not be removed ({error}).",
        hint="Nothing is lost, and the removal is tried again; check the disk.",
    )


def check_clock(folder: Path, last_timestamp: int, wall_ms: int, settings: Settings) -> None:
    """Raise `ClockSkew` if the last timestamp of a log lies too far ahead of the wall clock."""
    ahead_ms = (last_timestamp >> TIMESTAMP_SHIFT) - wall_ms
    if ahead_ms > settings.max_skew_seconds * 1000:
        raise ClockSkew(
            f"{folder}: the last entry is from {to_text(last_timestamp)}, {ahead_ms / 1000:.1f} s ahead of this clock.",
            hint="Mend the clock, or accept it (accept_clock=True, --accept-clock): new entries then go on from that time.",
        )


def _in_place_of(lock: Lock) -> Callable[[], bool]:
    """Whether the folder of a lock is still there. It holds no reference to the lock, which goes with a dropped store."""
    reference = ref(lock)
    return lambda: (held := reference()) is not None and held.in_place()


def next_header(clock: Clock, place: Place, recovered: Recovered) -> Header:
    """The header of the segment with which a recovered log goes on, or of the first one of a new log."""
    log_id = recovered.header.log_id if recovered.header else f"{clock.random_bits(128):032x}"
    return Header(
        format=recovered.header.format if recovered.header else FORMAT,
        log_id=log_id, namespace=place.namespace, cluster=place.cluster, business=place.business, node=place.node,
        epoch=recovered.epoch, first_sequence=recovered.next_sequence, previous_crc=recovered.previous_crc,
        salt=0, created_ms=0,
    )  # fmt: skip
