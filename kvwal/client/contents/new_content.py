"""The bytes of a new content of a cluster on their way into the archive.

Small ones are put from memory. Larger ones are written into a temporary file of the client first, and put when they are whole: an
object is put at once, if it is absent.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from kvwal.client.contents.calls import ContentCalls
from kvwal.content.claim import Claim, put_first_name
from kvwal.content.digest import Digest
from kvwal.content.writer import ClaimWriter, Output
from kvwal.errors import ContentFailed, KvwalError
from kvwal.log.appender import storage_full
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, File
from kvwal.ports.posix.vectored import Part
from kvwal.ports.space import DiskSpace
from kvwal_archive.objects import scratch

_AHEAD = 16 << 20
"""Bytes that are allocated ahead, at most as many as the file has."""


class _Waiting:
    """A temporary file with the bytes of a content that is not whole yet. See `Output`."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises `OSError`."""
        self.name = name
        self.path = folder / name
        self._space = DiskSpace(OS_DISK, folder, None)
        self._file: File | None = OS_DISK.create(self.path)
        self._end = self._size = 0

    def add(self, part: Part) -> None:
        """See `Output.add`. ENOSPC also if the bytes would take from the reserve of the disk."""
        file = self._open()
        end = self._end + len(part)
        if end > self._size:
            self._size = self._space.grow(file, self._size, end, end + min(_AHEAD, end))
        file.write_at(self._end, [part])
        self._end = end

    def finish(self) -> None:
        """See `Output.finish`. It need not be durable: the archive will be."""
        file = self._open()
        if self._size > self._end:
            file.truncate(self._end)
        self._file = None
        file.close()

    def discard(self) -> None:
        """See `Output.discard`. Its folder goes with it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> File:
        if self._file is None:
            raise ValueError("the file is finished, or was discarded")
        return self._file


class _ToArchive:
    """Where the bytes of one new content go: see `kvwal.content.writer.Place`."""

    def __init__(self, calls: ContentCalls) -> None:
        self.begun_ms = 0
        """The time of a member from before the put; 0 until then."""
        self._calls = calls
        self.folder = Path("temporary files")
        """The folder of the temporary file, once there is one."""
        self._waiting: _Waiting | None = None
        self._open_folder = ExitStack()

    def check_open(self) -> None:
        """See `Place.check_open`."""
        self._calls.check_open()

    def append(self, data: bytes, attributes: dict[str, str], *, names: bool = True) -> Claim:
        """See `Place.append`: a small content has an object of its own."""
        digest = Digest(names=names)
        digest.add(data)
        claim = Claim(_new_name(), 0, digest.length, digest.crc32c, digest.sha256, attributes)
        self._put(claim.file, data)
        return claim

    def own_file(self) -> _Waiting:
        """See `Place.own_file`."""
        self.folder = self._open_folder.enter_context(scratch())
        self._waiting = _Waiting(self.folder, _new_name())
        return self._waiting

    def discard(self, own: Output) -> None:
        """See `Place.discard`."""
        own.discard()
        self._open_folder.close()

    def send(self) -> None:
        """Put the bytes that wait in a temporary file, if there is one. They are whole."""
        if self._waiting is not None:
            self._put(self._waiting.name, self._waiting.path)

    def _put(self, name: str, data: bytes | Path) -> None:
        self._calls.check_open()
        archived = self._calls.archived()
        self.begun_ms = self._calls.begin().now_ms
        archived.put(name, data)


class NewContent(ClaimWriter):
    """A content on its way into the archive. Used by one thread. Ends with `finish`, with `discard`, or with any error."""

    def __init__(self, calls: ContentCalls) -> None:
        self._to_archive = _ToArchive(calls)
        super().__init__(self._to_archive)

    @property
    def begun_ms(self) -> int:
        """See `ContentCalls.change`. Known once it is finished."""
        return self._to_archive.begun_ms

    def failed(self, what: str, error: OSError) -> KvwalError:
        """The error for callers of a content whose bytes could not be written into the temporary file."""
        return storage_full(self._to_archive.folder, error) or ContentFailed(
            f"{what}: its bytes could not be written into a temporary file ({error}); nothing was put.",
            hint="Mend the disk, or name another folder for temporary files with TMPDIR. Then write it again.",
        )

    def finish(self, attributes: dict[str, str]) -> Claim:
        """See `ClaimWriter.finish`. Raises `ArchiveError`, and the errors of `ContentCalls.archived`, too."""
        claim = super().finish(attributes)
        try:
            self._to_archive.send()
        finally:
            self.discard()  # the temporary file has served
        return claim


def _new_name() -> str:
    return put_first_name(SYSTEM.random_bits(128))
