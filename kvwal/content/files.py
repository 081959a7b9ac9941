"""The claim files of one open log: where new contents go, and which files nobody may collect yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from kvwal.content.claim import Claim, file_name
from kvwal.content.folder import claim_files, claim_path, remove_partial
from kvwal.content.own_file import OwnFile
from kvwal.content.shared import Delegate, SharedFiles
from kvwal.content.source import READ_BYTES
from kvwal.content.writer import SHARED_BYTES, ClaimWriter
from kvwal.errors import ConfigError, ContentFailed, KvwalError
from kvwal.log.appender import storage_full
from kvwal.log.files.atomic_file import atomic_file
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.ports.locks import RLock, interpreter_ends
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.space import DiskSpace
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing

_FETCH_BYTES = 8 << 20
"""Bytes of a file that are fetched from the archive at a time."""


class ContentFiles:
    """The claim files of the log in `folder`, which this process has open. Any thread may use it.

    A file is *unsettled* from its creation until no content goes into it any more, and the entry of each content in it is logged
    or will never be. The cleaner leaves such files alone: it does not see in the log what names them.
    """

    def __init__(self, disk: Disk, clock: Clock, space: DiskSpace, folder: Path, delegate: Delegate) -> None:
        """`delegate` is for the threads that may not write a group: see `kvwal.content.shared`."""
        self.folder = folder
        self.changes = 0
        """How often a file was settled: it may have bytes since then that no entry names."""
        self._disk = disk
        self._clock = clock
        self._space = space
        self._forked = False
        # A finalizer takes it, too: garbage collection may drop an unclosed stream while this thread holds it.
        self._lock = RLock()
        self._unsettled: Counter[str] = Counter()
        self.shared = SharedFiles(disk, clock, space, folder, self, delegate)
        tell_if_forked(self)

    def begin(self) -> ClaimWriter:
        """A new content. `StoreClosed` after `close`."""
        self.check_open()
        return ClaimWriter(self)

    def write(self, data: bytes, attributes: dict[str, str]) -> Claim:
        """Make the bytes of a content durable. Returns their claim: see `ClaimWriter.finish`."""
        if len(data) <= SHARED_BYTES:
            return self.shared.append(data, attributes)
        writer = self.begin()
        writer.write(data)
        return writer.finish(attributes)

    def check_open(self) -> None:
        """See `kvwal.content.writer.Place`."""
        self.shared.check_open()

    def own_file(self) -> OwnFile:
        """See `kvwal.content.writer.Place`."""
        self.check_open()
        name = file_name(self._clock.random_bits(128))
        self.unsettled(name)
        try:
            return OwnFile(self._disk, self._space, self.folder, name)
        except OSError:
            self.settled(name)
            raise

    def discard(self, own: OwnFile) -> None:
        """See `kvwal.content.writer.Place`. A file that cannot be deleted now is collected later."""
        if self._forked:
            return  # the parent writes it
        with suppress(OSError):
            own.discard()
        if not interpreter_ends():  # then another thread may have stopped with the lock
            self.settled(own.name)

    def unsettled(self, file: str, count: int = 1) -> None:
        """Some contents of the file are not logged yet, or an entry is on its way that names it."""
        with self._lock:
            self._unsettled[file] += count

    def settled(self, file: str) -> None:
        """The other end of a call of `unsettled`."""
        with self._lock:
            self._unsettled[file] -= 1
            if self._unsettled[file] <= 0:
                del self._unsettled[file]
                self.changes += 1

    def is_unsettled(self, file: str) -> bool:
        """Whether the cleaner is to leave the file alone."""
        with self._lock:
            return file in self._unsettled

    def only_settled(self, files: list[str]) -> list[str]:
        """Those of `files` that are settled."""
        with self._lock:
            return [name for name in files if name not in self._unsettled]

    def candidates(self) -> list[str]:
        """The claim files that are settled: each that no entry of the log names now may go. What a killed process left
        unfinished goes at once. Raises `OSError`.

        What is settled later was named, if at all, by an entry that is in the log when this returns.
        """
        remove_partial(self._disk, self.folder, self.is_unsettled)
        return self.only_settled([file.name for file in claim_files(self._disk, self.folder)])

    def seal(self) -> None:
        """End the open shared file: all contents that are logged by now are in files that never change. Raises `OSError`."""
        self.shared.seal()

    def close(self) -> None:
        """End the open shared file, and accept no more contents."""
        self.shared.close()

    def forked(self) -> None:
        """In a forked child: the files belong to the parent."""
        self._forked = True
        self._lock = RLock()
        self.shared.forked()

    def bring_back(self, archived: ArchivedContents, file: str) -> None:
        """Copy a claim file from the archive to this log's folder. Without room for it nothing is done: it is read by range."""
        path = claim_path(self.folder, file)
        with suppress(OSError, ObjectMissing):
            size = archived.size(file)
            if self._space.shortage(size) is not None:
                return
            self._disk.make_folders(path.parent)
            with atomic_file(self._disk, path, tag=f"{self._clock.random_bits(64):016x}") as copy:
                for offset in range(0, size, _FETCH_BYTES):
                    copy.write_at(offset, [archived.part(file, offset, min(_FETCH_BYTES, size - offset))])

    @contextmanager
    def _kept(self, file: str) -> Iterator[None]:
        self.unsettled(file)
        try:
            yield
        finally:
            self.settled(file)

    def parts_of(self, path: Path) -> Iterator[bytes]:
        """The bytes of a file of the caller's, in parts. `ConfigError` if it cannot be read."""
        at = 0
        try:
            with closing(self._disk.open_to_read(path)) as file:  # of one file, also if another one is put in its place
                while part := file.read_at(at, READ_BYTES):
                    yield part
                    at += len(part)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}); nothing was written.") from error

    def failed(self, what: str, error: OSError) -> KvwalError:
        """The error for callers of a content that could not be written."""
        return storage_full(self.folder, error) or ContentFailed(
            f"{what}: its bytes could not be written ({error}); nothing was logged.",
            hint="Mend the disk, then write it again. An open store need not be reopened.",
        )
