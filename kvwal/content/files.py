"""The claim files of one open log: where new contents go, and which files nobody may collect yet."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from kvwal.content.claim import Claim, file_name
from kvwal.content.containers.homes import Home, Homes, Tell
from kvwal.content.containers.record import claim_folders, new_folder
from kvwal.content.folder import claim_files, remove_partial
from kvwal.content.own_file import OwnFile
from kvwal.content.shared import Delegate, SharedFiles
from kvwal.content.transfer import fetch_claim_file
from kvwal.content.writer import SHARED_BYTES, ClaimWriter, Output, parts_of_file
from kvwal.errors import ContentFailed, KvwalError
from kvwal.log.appender import storage_full
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.ports.locks import RLock, interpreter_ends
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.space import DiskSpace
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing


def _tells_nobody(folder: Path, error: OSError) -> None:
    """There is one folder only: its errors are those of puts."""


class FilesHold:
    """A hold on the claim files of a log: see `ContentFiles.hold`. Dropping it releases it."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def release(self) -> None:
        """Keep them no longer. A second call does nothing."""
        end, self._end = self._end, None
        if end is not None and not interpreter_ends():  # then another thread may have stopped with the lock
            end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class ContentFiles:
    """The claim files of the log in `folder`, which this process has open. Any thread may use it.

    A file is *unsettled* from its creation until no content goes into it any more, and the entry of each content in it is logged
    or will never be. The cleaner leaves such files alone: it does not see in the log what names them.
    """

    def __init__(
        self, disk: Disk, clock: Clock, space: DiskSpace, folder: Path, delegate: Delegate,
        containers: Mapping[Path, Path | None] | None = None, tell: Tell = _tells_nobody,
    ) -> None:  # fmt: skip
        """`delegate` is for the threads that may not write a group: see `kvwal.content.shared`.

        `containers` take claim files, too: each has its folder of the log, None if there is none yet. `tell` gets the failures of
        one of several folders.
        """
        self.folder = folder
        self.changes = 0
        """How often a file was settled, or brought back: it may have bytes since then that no entry names."""
        self._disk = disk
        self._clock = clock
        self._forked = False
        # A finalizer takes it, too: garbage collection may drop an unclosed stream while this thread holds it.
        self._lock = RLock()
        self._unsettled: Counter[str] = Counter()
        self._last_hold = 0
        self._holds: dict[int, float] = {}
        self._awaits: tuple[int, Callable[[], None]] | None = None
        self.shared = SharedFiles(disk, clock, space, folder, self, delegate)
        homes = [Home(folder, space, self.shared, is_ready=True)]
        for container, inside in (containers or {}).items():
            there = inside or new_folder(container, folder, clock.random_bits(128))
            room = DiskSpace(disk, container, space.reserve)
            shared = SharedFiles(disk, clock, room, there, self, delegate)
            homes.append(Home(there, room, shared, is_ready=inside is not None))
        self._homes = Homes(disk, clock, homes, tell)
        tell_if_forked(self)

    def begin(self, *, names: bool = True) -> ClaimWriter:
        """A new content. `names` is that of `Digest`. `StoreClosed` after `close`."""
        self.check_open()
        return ClaimWriter(self, names=names)

    def write(self, data: bytes, attributes: dict[str, str]) -> Claim:
        """Make the bytes of a content durable. Returns their claim: see `ClaimWriter.finish`."""
        if len(data) <= SHARED_BYTES:
            return self.append(data, attributes)
        writer = self.begin()
        writer.write(data)
        return writer.finish(attributes)

    def write_values(self, values: Sequence[bytes]) -> list[Claim]:
        """Make large values durable, those that share a file with one fdatasync. They have no SHA-256.

        Raises as `write`: then none is to be logged.
        """
        small = [data for data in values if len(data) <= SHARED_BYTES]
        claims: list[Claim] = []
        is_done = False
        try:
            for data in values:
                if len(data) > SHARED_BYTES:
                    writer = self.begin(names=False)
                    writer.write(data)
                    claims.append(writer.finish({}))
            claims += self._homes.take(lambda home: home.shared.append_all(small, names=False)) if small else []
            is_done = True
        finally:
            if not is_done:
                for claim in claims:
                    self.settled(claim.file)
        large, shared = iter(claims[: len(values) - len(small)]), iter(claims[len(values) - len(small) :])
        return [next(large if len(data) > SHARED_BYTES else shared) for data in values]

    def hold(self) -> FilesHold:
        """Keep all claim files, until the hold is released or dropped: a reader has claims that the log may not name any more."""
        with self._lock:
            self._last_hold += 1
            self._holds[self._last_hold] = self._clock.elapsed()
            return FilesHold(partial(self._end_hold, self._last_hold))

    @property
    def last_hold(self) -> int:
        """The number of the hold that began last. They are counted from 1."""
        return self._last_hold

    def oldest_hold(self) -> tuple[int, float] | None:
        """The oldest hold that is not released: its number, and its age in seconds."""
        with self._lock:
            number = self._first_hold()
            began = None if number is None else self._holds.get(number)
            return None if number is None or began is None else (number, self._clock.elapsed() - began)

    def is_held(self, upto: int) -> bool:
        """Whether one of the holds up to this number is not released. Until then the cleaner leaves alone what they may need."""
        with self._lock:
            number = self._first_hold()
            return number is not None and number <= upto

    def call_when_released(self, upto: int, call: Callable[[], None] | None) -> None:
        """Have `call` called once, on any thread, when no hold up to this number is left: at once if none is. It waits for
        nothing, and raises nothing. It replaces the call before; None takes that back.
        """
        with self._lock:
            self._awaits = None if call is None else (upto, call)
            self._tell_released()

    def _first_hold(self) -> int | None:
        """In one call: between two of them a finalizer may end a hold."""
        return min(self._holds, default=None)

    def _end_hold(self, number: int) -> None:
        with self._lock:
            self._holds.pop(number, None)
            self._tell_released()

    def _tell_released(self) -> None:
        """Under the lock, so that nothing is called any more once the call was taken back."""
        if self._awaits is not None and not self.is_held(self._awaits[0]):
            (_, call), self._awaits = self._awaits, None
            call()

    def append(self, data: bytes, attributes: dict[str, str], *, names: bool = True) -> Claim:
        """See `kvwal.content.writer.Place`."""
        return self._homes.take(lambda home: home.shared.append(data, attributes, names=names))

    def check_open(self) -> None:
        """See `kvwal.content.writer.Place`."""
        self.shared.check_open()

    def own_file(self) -> OwnFile:
        """See `kvwal.content.writer.Place`."""
        self.check_open()
        name = file_name(self._clock.random_bits(128))
        self.unsettled(name)
        try:
            return self._homes.take(lambda home: self._own_file_in(home, name))
        except OSError:
            self.settled(name)
            raise

    def _own_file_in(self, home: Home, name: str) -> OwnFile:
        """A large content cannot go to another folder once it is begun: it is begun only where there is some room."""
        if (shortage := home.space.shortage(SHARED_BYTES)) is not None:
            raise OSError(errno.ENOSPC, shortage, str(home.folder))
        return OwnFile(self._disk, home.space, home.folder, name)

    def discard(self, own: Output) -> None:
        """See `kvwal.content.writer.Place`. A file that cannot be deleted now is collected later."""
        if self._forked:
            return  # the parent writes it
        if isinstance(own, OwnFile) and own.error is not None:
            self._homes.failed(own.folder, own.error)
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
        folders = list(claim_folders(self._disk, self.folder))
        for folder in folders:
            remove_partial(self._disk, folder, self.is_unsettled)
        names = {file.name for folder in folders for file in claim_files(self._disk, folder)}
        return self.only_settled(sorted(names))

    def seal(self) -> None:
        """End the open shared files: all contents that are logged by now are in files that never change."""
        for home in self._homes:
            home.shared.seal()

    def close(self) -> None:
        """End the open shared files, and accept no more contents."""
        for home in self._homes:
            home.shared.close()

    def forked(self) -> None:
        """In a forked child: the files belong to the parent."""
        self._forked = True
        self._lock = RLock()
        for home in self._homes:
            home.shared.forked()

    def bring_back(self, archived: ArchivedContents, file: str) -> None:
        """Copy a claim file from the archive to a folder of this log. Without room nothing is done: it is read by range.

        Perhaps only history names the file, and no change will come that lets it go. So this counts as one: see `changes`.
        """
        with suppress(OSError, ObjectMissing), self._kept(file):
            size = archived.size(file)
            roomy = (home for home in self._homes.in_order() if home.space.shortage(size) is None)
            if (home := next(roomy, None)) is None:
                return
            home.make_ready(self._disk, self.folder)
            fetch_claim_file(self._disk, self._clock, archived, file, home.folder)

    def remove_containers(self) -> None:
        """Remove what the containers hold of a log that is gone, as far as they are there. No content goes into it any more."""
        for home in self._homes:
            if home.folder != self.folder:
                with suppress(OSError):
                    self._disk.remove_tree(home.folder)

    @contextmanager
    def _kept(self, file: str) -> Iterator[None]:
        self.unsettled(file)
        try:
            yield
        finally:
            self.settled(file)

    def parts_of(self, path: Path) -> Iterator[bytes]:
        """See `parts_of_file`."""
        return parts_of_file(self._disk, path)

    def failed(self, what: str, error: OSError) -> KvwalError:
        """The error for callers of a content that could not be written."""
        return storage_full(self.folder, error) or ContentFailed(
            f"{what}: its bytes could not be written ({error}); nothing was logged.",
            hint="Mend the disk, then write it again. An open store need not be reopened.",
        )
