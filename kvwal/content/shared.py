"""Shared claim files: small contents are appended to one file, those that wait together with one fdatasync.

A thread that finds the file free becomes the leader: it writes all contents that wait, as a group, and hands the lead to a thread
whose content waits. The file is allocated some megabytes ahead, so that an fdatasync has no size to write. After a failed write
or fdatasync nothing more goes into the file: its page cache may be younger than the disk.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from kvwal.content.claim import Claim, file_name
from kvwal.content.digest import Digest
from kvwal.content.folder import claim_path
from kvwal.content.pending import PendingContent, may_lead_here
from kvwal.errors import StoreClosed
from kvwal.ports.boundary import contain, logged
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk, File
from kvwal.ports.locks import Lock
from kvwal.ports.space import DiskSpace

FILE_BYTES = 64 << 20
"""A shared file takes no more contents from this size on."""
BESIDE_BYTES = 256 << 10
"""A content of this size or more is hashed by its thread while another thread writes it, if no group is being written."""
_LEAST_AHEAD, _MOST_AHEAD = 256 << 10, 16 << 20
"""Bytes that are allocated ahead: about as many as the file has, so that a log with few contents takes little of the disk."""
_GROUP_BYTES = 8 << 20
"""Bytes that are written with one fdatasync; what is above that waits for the next one."""
_HEADS = 8
"""How many waiting contents are searched for a thread that may lead."""

Delegate = Callable[[Callable[[], None]], bool]
"""Has another thread make a call, where no signal handler runs. False if there is no such thread."""


class Settlement(Protocol):
    """Is told which files are in use: see `ContentFiles`."""

    def unsettled(self, file: str, count: int = 1) -> None:
        """Of a new file, and of each content in it."""
        ...

    def settled(self, file: str) -> None:
        """Of a file into which nothing more goes, and of a content whose thread does not wait for it."""
        ...


class SharedFiles:
    """The shared claim file of one log that is open for contents, and those before it. Any thread may use it, and so may a signal
    handler on a thread that is using it.

    That the entry of a content is logged is told to the `Settlement` by who appended it.
    """

    def __init__(
        self, disk: Disk, clock: Clock, space: DiskSpace, folder: Path, settlement: Settlement, delegate: Delegate
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._space = space
        self._folder = folder
        self._settlement = settlement
        self._delegate = delegate
        self._queue: deque[PendingContent] = deque()
        # No wake-up is lost: who appends looks afterwards whether the lead is free, and who gives it up looks at the queue then.
        self._lead = Lock()
        self._intervening: deque[None] = deque()
        """One for each thread that wants the lead for something else than a group."""
        self._closed = False
        self._name = ""
        self._file: File | None = None
        self._end = self._size = 0

    def append(self, data: bytes, attributes: dict[str, str], *, names: bool = True) -> Claim:
        """Append a content. Returns when it is durable. Raises `OSError`, `StoreClosed`: it is not there then."""
        return self.append_all([data], names=names)[0].told(attributes)

    def append_all(self, contents: Sequence[bytes], *, names: bool) -> list[Claim]:
        """Append contents, with one fdatasync if they are not too many. Returns when they are durable. Raises as `append`: then
        none of them is in use. `names` is that of `Digest`.
        """
        self.check_open()
        may_lead = may_lead_here()
        pending = [PendingContent(data, may_lead=may_lead) for data in contents]
        is_beside = names and sum(map(len, contents)) >= BESIDE_BYTES and not self._lead.locked()
        digests = [] if is_beside else _digests(contents, names=names)
        is_waited = False
        try:
            self._queue.extend(pending)
            self._begin(pending[0], is_beside)
            digests = digests or _digests(contents, names=names)
            for waiting in pending:  # in their order: the first one that is not written may get the lead
                waiting.wait(self._lead_group)
            is_waited = True
        finally:
            failed = next((waiting for waiting in pending if waiting.error is not None), None)
            if not is_waited or failed is not None:
                for waiting in pending:
                    self._leave(waiting)
        if failed is not None:
            raise failed.error_of_its_own() from failed.error
        return [
            Claim(waiting.file, waiting.offset, digest.length, digest.crc32c, digest.sha256)
            for waiting, digest in zip(pending, digests, strict=True)
        ]

    @property
    def waiting(self) -> int:
        """How many contents wait for the file, or are being written."""
        return len(self._queue) + self._lead.locked()

    def check_open(self) -> None:
        """Raise `StoreClosed` after `close`, and in a forked child."""
        if self._closed:
            raise _closed()

    def seal(self) -> None:
        """End the open file, if there is one: nothing more goes into it, and it is cut durably to its contents, so that its
        object in the archive is no longer than it has to be. A file that cannot be cut is only larger.
        """
        with self._intervention():
            if self._file is not None:
                with suppress(OSError):  # the contents are durable already
                    self._file.truncate(self._end)
                    self._file.datasync()
                self._give_up_file()

    def close(self) -> None:
        """End the open file, and accept no more contents."""
        self._closed = True
        with self._intervention():
            self._end_file()

    def forked(self) -> None:
        """In a forked child: the files belong to the parent, whose threads may hold the lead."""
        self._closed = True
        self._file = None
        self._lead = Lock()

    @contextmanager
    def _intervention(self) -> Iterator[None]:
        """The lead, for something else than a group. Contents that come meanwhile wait."""
        has_lead = False
        self._intervening.append(None)
        try:
            has_lead = self._lead.acquire()
            yield
        finally:
            self._intervening.pop()
            if has_lead:
                self._hand_on()
            else:
                self._lead_if_free()

    def _begin(self, waiting: PendingContent, is_beside: bool) -> None:
        """See to it that somebody leads: another thread if this one has other work, or may not."""
        leads_here = waiting.may_lead and not is_beside
        if leads_here or not (self._lead.locked() or self._delegate(partial(contain, self._lead_if_free, _stopped))):
            self._lead_if_free()

    def _leave(self, waiting: PendingContent) -> None:
        """The thread was interrupted. If its content was written, or will be, no entry is going to name it."""
        waiting.is_left = True
        if waiting.is_done and waiting.error is None and waiting.settles():
            self._settlement.settled(waiting.file)

    def _lead_if_free(self) -> None:
        if self._lead.acquire(blocking=False):
            self._lead_group()

    def _lead_group(self) -> None:
        """Write a group on this thread, which has the lead, and hand the lead on."""
        try:
            self._write_group()
        finally:
            self._hand_on()

    def _hand_on(self) -> None:
        """Give up the lead: to another thread or, if no content waits, to who comes next."""
        while True:
            if self._intervening or not self._queue:
                self._lead.release()
                if self._intervening or not self._queue or not self._lead.acquire(blocking=False):
                    return
            elif self._next_leads():
                return
            else:
                self._write_group()

    def _next_leads(self) -> bool:
        """Give the lead to another thread. False if there is none."""
        for at in range(min(_HEADS, len(self._queue))):
            if (waiting := self._queue[at]).may_lead and not waiting.is_left:
                waiting.lead()
                return True
        return self._delegate(partial(contain, self._lead_group, _stopped))

    def _write_group(self) -> None:
        group = self._taken()
        if not group:
            return
        failed: Exception | None = OSError(errno.EINTR, "the write was interrupted")
        begin = 0
        try:
            file = self._open_file()
            begin = self._end
            self._write(file, [waiting.data for waiting in group])
            self._settlement.unsettled(self._name, len(group))
            failed = None
        except (OSError, StoreClosed) as error:
            failed = error
        finally:  # also after a bug: no other thread may wait for ever
            for waiting in group:
                waiting.done(self._name, begin, failed)
                begin += len(waiting.data)
                if failed is None and waiting.is_left and waiting.settles():
                    self._settlement.settled(self._name)
        if self._end >= FILE_BYTES:
            self._end_file()

    def _write(self, file: File, parts: list[bytes]) -> None:
        end = self._end + sum(map(len, parts))
        if end > self._size:
            self._size = self._space.grow(file, self._size, end, end + max(_LEAST_AHEAD, min(_MOST_AHEAD, end)))
        is_durable = False
        try:
            file.write_at(self._end, parts)
            file.datasync()
            is_durable = True
        finally:
            if is_durable:
                self._end = end
            else:
                self._give_up_file()

    def _taken(self) -> list[PendingContent]:
        group: list[PendingContent] = []
        size = 0
        while self._queue:
            size += len(self._queue[0].data)
            if group and size > _GROUP_BYTES:
                break
            waiting = self._queue.popleft()
            if not waiting.is_left:
                group.append(waiting)
        return group

    def _open_file(self) -> File:
        """The open file. A new one has its name durably before anything is in it."""
        if self._file is None:
            self.check_open()
            name = file_name(self._clock.random_bits(128))
            path = claim_path(self._folder, name)
            self._settlement.unsettled(name)
            try:
                self._disk.make_folders(path.parent)
                file = self._disk.create(path)
                try:
                    self._disk.sync_folder(path.parent)
                except OSError:
                    file.close()
                    raise
            except OSError:
                self._settlement.settled(name)
                raise
            self._file, self._name, self._end, self._size = file, name, 0, 0
        return self._file

    def _end_file(self) -> None:
        """Write nothing more into the open file, and cut it to its contents. A file that cannot be cut is only larger."""
        if self._file is not None:
            with suppress(OSError):
                self._file.truncate(self._end)
            self._give_up_file()

    def _give_up_file(self) -> None:
        """Write nothing more into the open file. What is in it stays."""
        file, self._file = self._file, None
        if file is not None:
            self._settlement.settled(self._name)
            with suppress(OSError):
                file.close()


def _digests(contents: Sequence[bytes], *, names: bool) -> list[Digest]:
    digests = []
    for data in contents:
        digest = Digest(names=names)
        digest.add(data)
        digests.append(digest)
    return digests


_stopped = logged("a group of contents could not be written because of a bug; the next one is written")


def _closed() -> StoreClosed:
    return StoreClosed(
        "the store is closed, or was opened in another process; nothing was written.",
        hint="Open it again.",
    )
