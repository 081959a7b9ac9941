"""The log as a file that goes on for ever: appends groups, rotates segments, keeps the chain of seals. No asyncio, no futures.

After an `OSError` other than `StorageFull` an appender must not be used again: what the page cache holds may be younger than
the disk. The writer above sees to that.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kvwal.config import KIB, LEAST_SEGMENT, Settings
from kvwal.errors import StorageFull
from kvwal.log.files.format import Header
from kvwal.log.files.preallocation import PreallocatedSegments
from kvwal.log.files.segment import SealedSegment, Segment, blank_file
from kvwal.ports.clock import Clock
from kvwal.ports.descriptors import OWN_DESCRIPTORS, Descriptors
from kvwal.ports.disk import Disk, File, Folder
from kvwal.ports.locks import Lock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.space import DiskSpace

T = TypeVar("T")

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the operating system says when a disk, or a quota, has no room."""
NO_FILES = (errno.EMFILE, errno.ENFILE)
"""What it says when the process, or the machine, has no file descriptor left."""
_FIRST_LIMIT = 1024 * KIB
_GROWTH = 4
_PREPARE_FROM = 4096 * KIB


class Appender:
    """Used by one thread at a time, but for `let_go`. `sealed` are the segments that are done, oldest first; others may read
    it. An appender that was not used for a while may be asked to close its file, and opens it again at its next use.
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
    ) -> None:
        """Begin a new segment with `header` (its salt and time are drawn here) in `folder`. Until it is written to it holds no
        file descriptor.
        """
        self.used = False
        self._descriptors = descriptors
        self._turn = Lock()
        self._held = False
        self._failure: OSError | None = None
        self._disk = disk
        self._clock = clock
        self._metrics = metrics
        self._folder = folder
        self.space = DiskSpace(disk, folder, settings.reserve_bytes)
        # Recovery copies a segment that was not closed: on a full disk the reserve must have room for the copy.
        copied = max(self.space.reserve, LEAST_SEGMENT) if self.space.reserve else settings.segment_bytes
        self._most = min(settings.segment_bytes, copied)
        self._limit = min(_FIRST_LIMIT, self._most)
        self.preallocated = PreallocatedSegments(disk, self.space, folder)
        self._declined = 0
        self.sealed = sealed
        self.unsynced = 0
        self.began = clock.elapsed()
        self._segment = self._begin(header, *self._patiently(self._next_file))
        self._segment.rest()

    @property
    def next_sequence(self) -> int:
        """The sequence that the next entry gets."""
        return self._segment.header.first_sequence + self._segment.entries

    @property
    def header(self) -> Header:
        """The header of the segment that is being written."""
        return self._segment.header

    @property
    def size(self) -> int:
        """Bytes in the segment that is being written."""
        return self._segment.position

    @property
    def entries(self) -> int:
        """Entries in the segment that is being written."""
        return self._segment.entries

    @property
    def clean(self) -> bool:
        """Whether everything appended was fdatasynced."""
        return self._segment.clean

    def append(self, payloads: Sequence[bytes], entries: int, *, sync: bool) -> None:
        """Write a group: one block a payload, all in one segment. With `sync` it returns when they survive a power cut.

        `StorageFull`: nothing was written, and the log goes on.
        """
        with self._turn:
            self._check()
            self.used = True
            try:
                if not self._segment.fits(payloads) and self._segment.entries:
                    self._rotate(grow=True)
                self._reserve(payloads)
            finally:
                self._count()
            self._segment.append(payloads, entries)
            self.unsynced += sum(map(len, payloads))
            if sync:
                self._sync()

    def sync(self) -> None:
        """Return when everything appended survives a power cut."""
        with self._turn:
            self._check()
            self._sync()

    def _sync(self) -> None:
        began = self._clock.elapsed()
        self._segment.datasync()
        self._metrics.synced(self._clock.elapsed() - began)
        self.unsynced = 0

    def rotate(self, *, grow: bool = False) -> None:
        """Seal the segment and begin the next one. A segment without entries is left as it is.

        With `grow` (it was full) the next one may be larger. `StorageFull`: the segment was not sealed, and goes on.
        """
        with self._turn:
            self._check()
            if self._segment.entries:
                try:
                    self._rotate(grow=grow)
                    self._segment.rest()
                finally:
                    self._count()

    def _rotate(self, *, grow: bool) -> None:
        """Seal and begin anew. All that needs a file descriptor has it before the seal: after it, to find none would be a
        failed write.
        """
        old = self._segment
        limit = min(self._limit * _GROWTH, self._most) if grow else self._limit
        self._limit = limit
        try:
            self._patiently(lambda: old.reserve([]))
            file, names = self._patiently(self._next_file)
        except OSError as error:
            raise storage_full(self._folder, error) or error from error
        try:
            done = old.seal()
        except OSError:
            names.close()
            file.close()
            raise
        self.sealed.append(done)
        header = msgspec.structs.replace(old.header, first_sequence=done.last + 1, previous_crc=done.crc)
        self._segment = self._begin(header, file, names)

    def let_go(self, *, sync: bool) -> bool:
        """See `ports.descriptors.Holder.let_go`. Called by any thread; should the fdatasync fail, the next use says so."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if not (sync or self._segment.clean):
                return False
            self._segment.rest()
            self.unsynced = 0
            self._count()
        except OSError as error:
            self._failure = error
            return False
        else:
            return True
        finally:
            self._turn.release()

    def wants_spare(self) -> int:
        """How many bytes a spare should have that is wanted now, or 0.

        A log that fills segments by size wants one as soon as a quarter is full: a quiet one never does.
        """
        limit = min(self._limit * _GROWTH, self._most)
        if limit < _PREPARE_FROM or len(self.preallocated) or self._segment.position < self._limit // 4:
            return 0
        return limit if self._declined != self.header.first_sequence else 0

    def prepare_spare(self, size: int) -> None:
        """Prepare a spare of `size` bytes. A disk too full for it is no error: the next segment grows instead.

        Runs on another thread than the rest.
        """
        asked_for = self.header.first_sequence
        try:
            self.preallocated.prepare(size)
        except OSError:
            self._declined = asked_for

    def close(self, *, seal: bool) -> None:
        """Let go of the files. With `seal` the log ends as a clean close does; a segment without entries stays as it is."""
        with self._turn:
            try:
                if seal:
                    self._check()
                if seal and self._segment.entries:
                    self._reserve([])
                    self.sealed.append(self._segment.seal())
            finally:
                self._segment.close()
                self._count()
        if seal:
            self.preallocated.clear()

    def _count(self) -> None:
        """Tell the budget whether a descriptor is held now."""
        held = self._segment.is_open
        if held != self._held:
            self._held = held
            (self._descriptors.opened if held else self._descriptors.closed)(self)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _patiently(self, call: Callable[[], T]) -> T:
        """What `call` returns; if it finds no file descriptor, once more, when other logs have closed theirs."""
        try:
            return call()
        except OSError as error:
            if error.errno not in NO_FILES or not self._descriptors.relieve():
                raise
            return call()

    def _reserve(self, payloads: Sequence[bytes]) -> None:
        """Make sure that there is room for these payloads, giving up spares for it if need be."""
        try:
            self._patiently(lambda: self._segment.reserve(payloads))
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
        finally:
            names.close()


def storage_full(folder: Path, error: OSError) -> StorageFull | None:
    """The error to raise if `error` says that the disk has no room, or that no file can be opened now, else None."""
    if error.errno in NO_FILES:
        return StorageFull(
            f"{folder}: no file descriptor is left ({error.strerror}); nothing was written.",
            hint="Raise the limit (ulimit -n) or close files, then try again; an open store need not be reopened.",
        )
    if error.errno not in FULL:
        return None
    return StorageFull(
        f"{folder}: the disk is full ({error.strerror}); nothing was written.",
        hint="Free space, then try again; an open store need not be reopened.",
    )
