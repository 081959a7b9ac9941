"""The appender: writes groups to the current segment, rotates segments, and keeps the chain of seals. It uses no asyncio.

After an `OSError` an appender must not be used again, because the page cache may have newer data than the disk: the writer
makes sure of that. `StorageFull` is the exception: nothing was written then, and the appender can go on.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kvwal.config import KIB, LEAST_SEGMENT, Settings
from kvwal.entry import Entry
from kvwal.errors import StorageFull
from kvwal.log.files.format import FORMAT, Header
from kvwal.log.files.preallocation import PreallocatedSegments
from kvwal.log.files.segment import SealedSegment, Segment, blank_file
from kvwal.log.overflow.files import OverflowFiles, WrittenOverflow
from kvwal.ports.clock import Clock
from kvwal.ports.descriptors import OWN_DESCRIPTORS, Descriptors
from kvwal.ports.disk import Disk, File, Folder
from kvwal.ports.locks import Lock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.space import DiskSpace

T = TypeVar("T")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers for a disk or a quota without free space, and for a file that may not grow (its file system, `ulimit -f`)."""
NO_FILES = (errno.EMFILE, errno.ENFILE)
"""Error numbers for a process, or a machine, without free file descriptors."""
_FIRST_LIMIT = 1024 * KIB
_GROWTH = 4
_PREPARE_FROM = 4096 * KIB


class LogMoved(OSError):
    """The path of an open log leads to another folder, or nowhere. Raised before anything is written."""

    hint = "Reading goes on. Close the store, put the folder back, and open the store again; or open it where the folder is now."

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} was renamed, replaced or deleted while the store was open")


class Appender:
    """The writing end of one log. Used by one thread at a time, except `close_idle`, which any thread may call.

    `sealed` are the sealed segments, oldest first; other threads may read it. An idle appender may be asked to close its file
    descriptor (`close_idle`), and opens the file again at its next use.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        folder: Path,
        header: Header,
        settings: Settings,
        sealed: list[SealedSegment],
        metrics: LogMetrics = NO_METRICS,
        descriptors: Descriptors = OWN_DESCRIPTORS,
        in_place: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin a new segment in `folder` with `header`, whose salt and creation time are set here.

        The appender holds no file descriptor until its first write. `in_place` says whether `folder` is still that of the log: it
        is asked before a file is opened, created or removed by its path, and its False is `LogMoved`.
        """
        self.used = False
        self._descriptors = descriptors
        self._lock = Lock()
        self._held = False
        self._failure: OSError | None = None
        self._disk = disk
        self._clock = clock
        self._metrics = metrics
        self._folder = folder
        self._in_place = in_place
        self.space = DiskSpace(disk, folder, settings.reserve_bytes)
        # Recovery copies a segment that was not sealed: on a full disk the copy must fit into the reserve.
        copied = max(self.space.reserve, LEAST_SEGMENT) if self.space.reserve else settings.segment_bytes
        self._most = min(settings.segment_bytes, copied)
        self._limit = min(_FIRST_LIMIT, self._most)
        self.preallocated = PreallocatedSegments(disk, self.space, folder)
        self.overflow = OverflowFiles(disk, clock, self.space, folder)
        self._not_preallocated = 0
        self.sealed = sealed
        self.unsynced = 0
        self.began = clock.elapsed()
        self._segment = self._begin(header, *self._with_free_descriptors(self._next_file))
        self._segment.release_descriptor()

    @property
    def next_sequence(self) -> int:
        """The sequence that the next entry gets."""
        segment = self._segment  # read once: another thread may rotate
        return segment.header.first_sequence + segment.entries

    @property
    def header(self) -> Header:
        """The header of the current segment."""
        return self._segment.header

    @property
    def size(self) -> int:
        """Bytes in the current segment and in its overflow files."""
        return self._segment.position + self._segment.overflowed

    @property
    def entries(self) -> int:
        """Entries in the current segment."""
        return self._segment.entries

    @property
    def clean(self) -> bool:
        """Whether everything appended was fdatasynced."""
        return self._segment.clean

    def append(self, payloads: Sequence[bytes], entries: int, *, sync: bool, format: int = FORMAT) -> None:
        """Write a group: one block for each payload, all in one segment. With `sync`, return when they survive a power cut.

        `format` is `format_of` the entries. `StorageFull`: nothing was written, and the log can go on.
        """
        with self._lock:
            self._check()
            self.used = True
            if format > self._segment.header.format or not self._segment.is_ready(payloads):
                self._make_ready(payloads, format)
            self._segment.append(payloads, entries)
            self.unsynced += sum(map(len, payloads))
            if sync:
                self._sync()

    def write_overflow(self, entries: list[Entry]) -> WrittenOverflow:
        """Write a large transaction into a durable file, for `place_overflow`. For any thread. `StorageFull`: no room for it."""
        try:
            return self.overflow.write(self.header, entries)
        except OSError as error:
            raise storage_full(self._folder, error) or error from error

    def place_overflow(self, written: WrittenOverflow, before: int, timestamp: int) -> bytes:
        """Give an overflow file its name, durably. Returns the payload of the block that names it, for the next group.

        `before` is how many entries of the group come before those of the file.
        """
        with self._lock:
            self._check()
            self.check_place()
            return self.overflow.place(written, self.next_sequence + before, timestamp)

    def _make_ready(self, payloads: Sequence[bytes], format: int) -> None:
        """Open the file, begin the next segment if this one is full or its format too low, and allocate space."""
        self.check_place()
        try:
            if not self._segment.fits(payloads) and self._segment.entries:
                self._rotate(grow=True, format=format)
            elif format > self._segment.header.format:
                self._rotate(grow=False, format=format)
            try:
                self._reserve(payloads)
            except StorageFull as full:
                if not (self._segment.entries and _may_not_grow(full)):
                    raise
                self._rotate(grow=False)  # the largest size of a file is less than the segment's limit
                self._reserve(payloads)
        finally:
            self._count()

    def sync(self) -> None:
        """Return when everything appended survives a power cut."""
        with self._lock:
            self._check()
            self._sync()

    def _sync(self) -> None:
        began = self._clock.elapsed()
        self._segment.datasync()
        self._metrics.synced(self._clock.elapsed() - began)
        self.unsynced = 0

    def rotate(self, *, grow: bool = False) -> None:
        """Seal the current segment and begin the next one. A segment without entries is left as it is.

        With `grow` (the segment was full) the next one may be larger. `StorageFull`: the segment was not sealed.
        """
        with self._lock:
            self._check()
            self.check_place()
            if self._segment.entries:
                try:
                    self._rotate(grow=grow)
                    self._segment.release_descriptor()
                finally:
                    self._count()

    def _rotate(self, *, grow: bool, format: int = FORMAT) -> None:
        """Seal the current segment and begin the next one. Its format is the higher one of `format` and the segment's.

        A segment without entries is replaced instead. All file descriptors are opened before the seal: a lack of descriptors
        after it would be a failed write.
        """
        old = self._segment
        limit = min(self._limit * _GROWTH, self._most) if grow else self._limit
        self._limit = limit
        try:
            self._with_free_descriptors(lambda: old.reserve([]))
            file, names = self._with_free_descriptors(self._next_file)
        except OSError as error:
            raise storage_full(self._folder, error) or error from error
        header = msgspec.structs.replace(old.header, format=max(old.header.format, format))
        try:
            if old.entries:
                done = old.seal()
                self.sealed.append(done)
                header = msgspec.structs.replace(header, first_sequence=done.last + 1, previous_crc=done.crc)
            else:
                old.close()
        except OSError:
            names.close()
            file.close()
            raise
        self._segment = self._begin(header, file, names)

    def close_idle(self, *, sync: bool) -> bool:
        """See `ports.descriptors.Holder.close_idle`. Any thread may call it. If the fdatasync fails, the next use raises."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not (sync or self._segment.clean):
                return False
            self._segment.release_descriptor()
            self.unsynced = 0
            self._count()
        except OSError as error:
            self._failure = error
            return False
        else:
            return True
        finally:
            self._lock.release()

    def wanted_preallocation(self) -> int:
        """Size in bytes of the preallocated segment that is needed now, or 0.

        A log that fills its segments needs one as soon as a quarter of the current segment is full. A quiet log never does.
        """
        limit = min(self._limit * _GROWTH, self._most)
        if limit < _PREPARE_FROM or len(self.preallocated) or self._segment.position < self._limit // 4:
            return 0
        return limit if self._not_preallocated != self.header.first_sequence else 0

    def preallocate(self, size: int) -> None:
        """Preallocate a segment of `size` bytes. A full disk is no error: the next segment grows instead.

        Runs on another thread than the other methods.
        """
        current = self.header.first_sequence
        try:
            self.preallocated.prepare(size)
        except OSError:
            self._not_preallocated = current

    def close(self, *, seal: bool) -> None:
        """Close the files. With `seal`, seal the current segment first; a segment without entries stays as it is."""
        with self._lock:
            try:
                if seal:
                    self._check()
                    self.check_place()
                if seal and self._segment.entries:
                    self._reserve([])
                    self.sealed.append(self._segment.seal())
            finally:
                self._segment.close()
                self._count()
        if seal:
            self.preallocated.clear()
            self.overflow.clear()

    def check_place(self) -> None:
        """Raise `LogMoved` if the folder's path no longer leads to the log. Any thread may call it."""
        if not self._in_place():
            raise LogMoved(self._folder)

    def _count(self) -> None:
        """Update the budget of file descriptors: whether this appender holds one now."""
        held = self._segment.is_open
        if held != self._held:
            self._held = held
            (self._descriptors.opened if held else self._descriptors.closed)(self)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _with_free_descriptors(self, call: Callable[[], T]) -> T:
        """The result of `call`. If no file descriptor is free, other logs close theirs, and `call` is made once more."""
        try:
            return call()
        except OSError as error:
            if error.errno not in NO_FILES or not self._descriptors.free_descriptors():
                raise
            return call()

    def _reserve(self, payloads: Sequence[bytes]) -> None:
        """Allocate disk space for these payloads. If space is short, delete the preallocated segments and try again."""
        try:
            self._with_free_descriptors(lambda: self._segment.reserve(payloads))
        except OSError as error:
            full = storage_full(self._folder, error)
            if full is None:
                raise
            if not len(self.preallocated):
                raise full from error
            self.preallocated.clear()
            self._reserve(payloads)

    def _next_file(self) -> tuple[File, Folder]:
        names = self._disk.open_folder(self._folder)
        try:
            return self.preallocated.take(self._limit) or blank_file(self._disk, self._folder), names
        except OSError:
            names.close()
            raise

    def _begin(self, header: Header, file: File, names: Folder) -> Segment:
        header = msgspec.structs.replace(header, salt=self._clock.random_bits(32), created_ms=self._clock.wall_ms())
        self.began = self._clock.elapsed()
        self.unsynced = 0
        try:
            return Segment(self._disk, self.space, self._folder, header, self._limit, file, names)
        except OSError:
            file.close()
            raise
        finally:
            names.close()


def _may_not_grow(full: StorageFull) -> bool:
    """Whether a file is as large as the process or its file system allows, so that a new one has room."""
    return isinstance(full.__cause__, OSError) and full.__cause__.errno == errno.EFBIG


def storage_full(folder: Path, error: OSError) -> StorageFull | None:
    """The `StorageFull` for a full disk or a lack of file descriptors; None for any other `error`."""
    if error.errno in NO_FILES:
        return StorageFull(
            f"{folder}: no file descriptor is left ({error.strerror}); nothing was written.",
            hint="Raise the limit (ulimit -n) or close files, then try again; an open store need not be reopened.",
        )
    if error.errno == errno.EFBIG:
        return StorageFull(
            f"{folder}: a file would be larger than this process or file system allows ({error.strerror}); nothing was written.",
            hint="Raise the limit of a file's size (ulimit -f), then try again; an open store need not be reopened.",
        )
    if error.errno not in FULL:
        return None
    return StorageFull(
        f"{folder}: the disk is full ({error.strerror}); nothing was written.",
        hint="Free space, then try again; an open store need not be reopened.",
    )
