"""One log, open for writing: its lock, its recovery, its ring and its writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place
from kvwal.config import Flush, Settings
from kvwal.entry import TIMESTAMP_SHIFT, Entry
from kvwal.errors import ArchiveError, ClockSkew, ConfigError, KvwalError, StorageFull, StoreLocked
from kvwal.hlc import HybridClock, to_text
from kvwal.log.appender import Appender, storage_full
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.names import LOCK, LOCKS, log_folder
from kvwal.log.files.retired import bring_back, retire
from kvwal.log.files.segment import SealedSegment
from kvwal.log.reader import Progress, entry_decoder
from kvwal.log.recovery import Recovered, RecoveryTarget, recover
from kvwal.log.ring import Ring
from kvwal.log.writer import Memory, Writer
from kvwal.ports.boundary import raised_to_awaiter, start_task, when_done
from kvwal.ports.clock import Clock
from kvwal.ports.descriptors import OWN_DESCRIPTORS, Descriptors
from kvwal.ports.disk import Disk, Lock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.processes import whoami
from kvwal.ports.tasks import Workers


class Ports(NamedTuple):
    """The doors that a log uses: a disk, a clock, workers for calls that block, who hears what it does, and the budget of file
    descriptors.
    """

    disk: Disk
    clock: Clock
    workers: Workers
    metrics: LogMetrics = NO_METRICS
    descriptors: Descriptors = OWN_DESCRIPTORS


class Log:
    """Made by `open_log`. `ring` takes transactions from any thread; everything else is for the log's event loop.

    `covered` is the last sequence that a durable snapshot holds, `snapshot_bytes` its size, `recovered` what was found.
    """

    def __init__(
        self, ports: Ports, folder: Path, place: Place, recovered: Recovered, hybrid: HybridClock, lock: Lock
    ) -> None:
        self.place = place
        self.folder = folder
        self.recovered = recovered
        self.hybrid = hybrid
        self.covered = recovered.snapshot.number if recovered.snapshot else 0
        self.snapshot_bytes = recovered.snapshot_bytes
        self._ports = ports
        self._lock = lock
        self._held = True
        self.ring: Ring
        self.appender: Appender
        self.writer: Writer
        self._task: asyncio.Task[None]

    @property
    def log_id(self) -> str:
        """The random name that the log got when its folder was made."""
        return self.appender.header.log_id

    @property
    def sealed(self) -> list[SealedSegment]:
        """Segments that are done and still here, oldest first."""
        return list(self.appender.sealed)

    async def rotate(self) -> None:
        """Seal what is there, so that it can be archived and checkpointed."""
        await self.ring.command(self.writer.rotate)

    async def flush(self) -> None:
        """Return when everything acknowledged so far survives a power cut."""
        await self.ring.command(self.writer.flush)

    async def drop(self, upto: int) -> None:
        """Let go of segments that end at or before `upto`: a snapshot and the archive have what they hold.

        Oldest first, each name durably gone before the next: what is left is a log without a gap. One that could not go is an
        `ArchiveError`, and goes the next time.
        """

        def recycle() -> None:
            sealed = self.appender.sealed
            while sealed and sealed[0].last <= upto:
                path = sealed[0].path
                try:
                    self.appender.preallocated.recycle(path)
                except OSError as error:
                    raise _not_dropped(path, error) from error
                finally:
                    if not self._ports.disk.exists(path):
                        sealed.pop(0)

        async def action() -> None:
            await self._ports.workers.run(recycle)

        await self.ring.command(action)

    async def close(self) -> None:
        """Write what waits, end the log as a clean close does, and let go of the lock. A failed log is left for recovery."""
        try:
            await self._end()
        finally:
            if self._task.done():
                self.let_go()

    async def retire(self, *, leaves_end: bool) -> bool:
        """Close the log, which holds nothing, and remove its folder. Its end stays, if it `leaves_end`: then its last segment
        must be empty. False if something was written at the last moment: then the log is only closed.
        """
        header, following = self.appender.header, self.appender.next_sequence
        end = self._end_of(header) if leaves_end and header.first_sequence > 1 else None
        try:
            await self._end()
            if self.appender.next_sequence != following:
                return False
            root = self.folder.parents[len(self.place) - 1]
            ports = self._ports
            await ports.workers.run(partial(retire, ports.disk, ports.clock, root, self.place, end))
            return True
        finally:
            if self._task.done():
                self.let_go()

    def _end_of(self, header: Header) -> SnapshotHeader:
        return SnapshotHeader(
            log_id=header.log_id, namespace=header.namespace, cluster=header.cluster, business=header.business,
            node=header.node, epoch=header.epoch, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
            last_sequence=header.first_sequence - 1, last_crc=header.previous_crc, last_timestamp=self.writer.timestamp,
        )  # fmt: skip

    async def _end(self) -> None:
        """Write what waits, and end the writer and the ring."""
        try:
            if not self._task.done():
                await self.ring.command(self.writer.close)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        except KvwalError:
            if not self._task.cancelled():  # else the event loop went down meanwhile, which is no failure of the log
                raise
        finally:
            await self.ring.close()
            await asyncio.wait([self._task])

    def let_go(self) -> None:
        """Close the files, as a crash leaves them if the writer did not end cleanly, and let go of the lock.

        For when nothing writes any more. Again is no error.
        """
        if not self._held:
            return
        self._held = False
        if not self._task.done() or self._task.cancelled() or self._task.exception() is not None:
            self.appender.close(seal=False)
        self._lock.release()

    def forget(self) -> None:
        """In a forked child: let go of the lock's copy, so that it ends with the parent. The parent still holds it."""
        self._lock.release()

    async def _start(self, settings: Settings, memory: Memory, flush: Flush, header: Header) -> None:
        ports = self._ports

        def begin() -> None:
            self.appender = Appender(
                ports.disk,
                ports.clock,
                self.folder,
                header,
                settings,
                self.recovered.sealed,
                ports.metrics,
                ports.descriptors,
            )

        await ports.workers.run(begin)
        self.ring = Ring(settings.ring_slots, settings.ring_bytes, settings.ring_seconds, ports.clock.elapsed)
        self.writer = Writer(
            self.ring, self.appender, memory, self.hybrid,
            clock=ports.clock, workers=ports.workers, flush=flush, metrics=ports.metrics,
        )  # fmt: skip
        self._task = start_task(self.writer.run(), raised_to_awaiter)
        when_done(self._task, self._ended, self.abandon)

    def abandon(self, error: BaseException) -> None:
        """The writer runs no more: refuse what waits and all that comes. On the loop's thread."""
        self.writer.failed = error
        self.ring.refuse(self.writer.failure)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Should a bug, or the end of the event loop, have stopped the writer, refuse what waits and all that comes: nobody may
        wait for ever.
        """
        if task.cancelled():
            self.abandon(RuntimeError("its event loop ended before the store was closed"))
            self.let_go()
        elif (error := task.exception()) is not None:
            self.abandon(error)


async def open_log(
    ports: Ports,
    root: Path,
    place: Place,
    *,
    settings: Settings,
    flush: Flush,
    target: RecoveryTarget,
    lookup: Callable[[str, bytes], Entry | None],
    hybrid: HybridClock,
    accept_clock: bool = False,
    progress: Progress | None = None,
) -> Log:
    """Lock the log of `place`, recover it into `target`, and begin a new segment.

    `StoreLocked` names the holder; `CorruptLog` and `ClockSkew` leave everything as it is.
    """
    folder = log_folder(root, place)
    held: list[Lock] = []
    try:
        await ports.workers.run(lambda: held.append(_take_lock(ports, root, folder)))
        await ports.workers.run(partial(bring_back, ports.disk, root, place))
        recovered = await ports.workers.run(lambda: recover(ports.disk, folder, target, entry_decoder(), progress))
        if recovered.header is not None:
            check_belongs(recovered.header, place, folder)
        if not accept_clock:
            _check_clock(folder, recovered, ports.clock.wall_ms(), settings)
        hybrid.advance(recovered.last_timestamp)
        log = Log(ports, folder, place, recovered, hybrid, held[0])
        header = _next_header(ports.clock, place, recovered)
        await log._start(settings, Memory(lookup, target.apply), flush, header)
    except BaseException as error:
        for lock in held:
            lock.release()
        if isinstance(error, OSError):
            raise not_opened(folder, error) from error
        raise
    return log


def _take_lock(ports: Ports, root: Path, folder: Path) -> Lock:
    try:
        ports.disk.make_folders(folder)
        lock = ports.disk.lock(folder / LOCK, whoami(), root / LOCKS)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"{root}: something on the way to {folder} is a file, not a folder.", hint="Choose another root."
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
    """`StorageFull` if another open log would take from the file descriptors that are kept for archiving and recovery."""
    found = descriptors.budget()
    if found.short and descriptors.relieve():
        found = descriptors.budget()
    if found.short:
        raise StorageFull(
            f"{place.business}: {found.free} of {found.limit} file descriptors are free, and {found.reserve} are kept for"
            " archiving and recovery; the log was not opened, and nothing was written.",
            hint="Raise the limit (ulimit -n), or close files or connections; what is open goes on.",
        )


def not_opened(folder: Path, error: OSError) -> KvwalError:
    """What an error of the operating system means to somebody who opens a log: none of it was changed."""
    if isinstance(error, PermissionError):
        return ConfigError(
            f"{folder}: not allowed to write here ({error.strerror}: {error.filename}).",
            hint="Choose another root, or mend its owner and mode.",
        )
    return storage_full(folder, error) or ConfigError(
        f"{folder}: the log cannot be opened ({error}).", hint="Mend the disk, or choose another root."
    )


def _not_dropped(path: Path, error: OSError) -> KvwalError:
    """What it means that a segment that is no longer needed could not be removed."""
    return storage_full(path.parent, error) or ArchiveError(
        f"{path}: a snapshot covers it, and it could not be removed ({error}).",
        hint="Nothing is lost, and it is tried again; see to the disk.",
    )


def _check_clock(folder: Path, recovered: Recovered, wall_ms: int, settings: Settings) -> None:
    ahead_ms = (recovered.last_timestamp >> TIMESTAMP_SHIFT) - wall_ms
    if ahead_ms > settings.max_skew_seconds * 1000:
        raise ClockSkew(
            f"{folder}: the last entry is from {to_text(recovered.last_timestamp)}, {ahead_ms / 1000:.1f} s ahead of this clock.",
            hint="Mend the clock, or accept it (accept_clock=True, --accept-clock): new entries then go on from that time.",
        )


def _next_header(clock: Clock, place: Place, recovered: Recovered) -> Header:
    log_id = recovered.header.log_id if recovered.header else f"{clock.random_bits(128):032x}"
    return Header(
        log_id=log_id, namespace=place.namespace, cluster=place.cluster, business=place.business, node=place.node,
        epoch=recovered.epoch, first_sequence=recovered.next_sequence, previous_crc=recovered.previous_crc,
        salt=0, created_ms=0,
    )  # fmt: skip
