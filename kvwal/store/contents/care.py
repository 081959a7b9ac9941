"""The work of the background on the contents of one log: sealing, cleaning, and writing sparse claim files again.

1. The settled claim files are listed. 2. The active segment is sealed, and a checkpoint made. 3. The archiver deletes the
listed files that neither the snapshot nor a segment names: each entry that named them before 1 is in the log that it reads, and
later entries name new files, or what the snapshot names. A reader may still have what was replaced, and log it again: so 3 waits
for those that read since before, and leaves out what an entry names that was applied after 1. What only history names stays for
`content_keep_seconds` before. 4. What is left in a file that is mostly dead is written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from kvwal.archiver.jobs import ArchiveTarget, Clean, Cleaned, Keep, SegmentRef
from kvwal.archiver.kept_contents import has_kept, lacks_room
from kvwal.content.claim import Claim, claim_of, has_claim, name_of, with_claim
from kvwal.entry import Entry
from kvwal.errors import ContentDamaged
from kvwal.log.log import Log
from kvwal.log.submission import Submission, size_of
from kvwal.ports.boundary import call_on, raised_to_awaiter
from kvwal.store.contents.open_contents import OpenContents
from kvwal.store.context import StoreContext
from kvwal.structures.content.changes import unless_changed
from kvwal.structures.memory import BusinessMemory

_ROUND_BYTES = 64 << 20
"""Bytes of contents that are written again after one checkpoint."""
_READERS_SECONDS = 1.0
"""How long a cleaning waits for those that read since before. A take from a queue, or a conditional write, ends within the time
of a write. Where many threads do so, one of them reads at every moment. For an iterator a later cleaning comes.
"""
_LONG_SECONDS = 600.0
"""Age from which an iterator is told of that keeps files which may go."""


class Candidates(NamedTuple):
    """Claim files that may go, None if they were not listed, and the number of changes of contents at that time. `named` gets the
    files that entries name which are applied after that.
    """

    files: list[str] | None
    changes: int
    named: AbstractSet[str] = frozenset()


class ContentCare:
    """The background's work on the contents of one log. Used on the store's event loop, by one job at a time."""

    def __init__(
        self, contents: OpenContents, log: Log, memory: BusinessMemory, context: StoreContext,
        target: Callable[[], ArchiveTarget | None],
    ) -> None:  # fmt: skip
        """`target` is the log's place in the archive, None without one."""
        settings = context.settings
        self._keep = Keep(int(settings.content_keep_seconds * 1000), settings.content_keep_percent)
        self._target = target
        self._kept = has_kept(context.ports.disk, log.folder)
        self._kept_until_ms = 0
        self._contents = contents
        self._log = log
        self._memory = memory
        self._context = context
        self._put_off_by = 0
        """The number of the last reader for which the last cleaning had to wait too long; 0 if it was done."""
        self._told_of = 0
        self._cleaned = -1
        """The changes of contents at the last cleaning; none was made yet."""
        self.waits = False
        """Whether the last cleaning left files that may go without another change: those that only segments name, when these are
        dropped, and those that only a snapshot names which does not cover all segments yet.
        """

    async def seal(self) -> None:
        """End the open claim file, so that it can be archived."""
        await self._context.ports.workers.run(self._contents.files.seal)

    async def candidates(self) -> Candidates:
        """The claim files that may go with the next checkpoint, unless the log names them. To be called before it seals.

        They are not listed if no content was changed since the last cleaning, and none was given up: then the log names what it
        named.
        """
        changes = self._contents.files.changes + sum(state.changes for state in self._memory.contents().values())
        changes += self._memory.claim_changes or 0
        if changes == self._cleaned and not self.waits and not self.keeps_too_long():
            return Candidates(None, changes)
        named = self._memory.note_named()
        return Candidates(await self._context.ports.workers.run(self._contents.files.candidates), changes, named)

    def may_clean(self) -> bool:
        """Whether a cleaning without a checkpoint has something to do: see `keeps_too_long`, and readers have ended for which the
        last one waited in vain.
        """
        put_off_by = self._put_off_by
        return (put_off_by > 0 and not self._contents.files.is_held(put_off_by)) or self.keeps_too_long()

    def keeps_too_long(self) -> bool:
        """Whether claim files that only history names are kept, and some of them may go: they are old, or there is no room."""
        if not self._kept:
            return False
        ports = self._context.ports
        return ports.clock.wall_ms() >= self._kept_until_ms or lacks_room(
            ports.disk, self._log.folder, self._keep.percent
        )

    async def clean(self, candidates: Candidates) -> None:
        """After the checkpoint: delete what nothing names, and write again what is left of sparse files."""
        if candidates.files is None:
            return  # what is kept may have grown too old meanwhile: a later checkpoint lists it
        refs, covered = [SegmentRef.of(segment) for segment in self._log.sealed], self._log.covered
        try:
            if not await self._readers_ended():
                return  # `may_clean` says when they have
            unnamed = [name for name in candidates.files if name not in candidates.named]
            # A transaction may have copied a content of one of them meanwhile, and its entry is not logged yet.
            files = self._contents.files.only_settled(unnamed)
        finally:
            self._memory.end_noting()
        if files or self.keeps_too_long():
            job = Clean(str(self._log.folder), files, refs, self._keep, self._target() if self._keep.ms else None)
            done = await self._context.archiver.do(job, Cleaned)
            self.waits = bool(done.waiting) or any(segment.last > covered for segment in refs)
            self._kept, self._kept_until_ms = bool(done.kept), done.due_ms
            self._tell(done)
            if done.sparse:
                await self._write_again(set(done.sparse))
        self._cleaned = candidates.changes

    async def _readers_ended(self) -> bool:
        """Whether all end soon that hold claim files now: they may have claims of what was replaced before. Those that begin
        later find what the log names now, or later.
        """
        files, ended, loop = self._contents.files, asyncio.Event(), asyncio.get_running_loop()
        last, self._put_off_by = files.last_hold, 0
        if not files.is_held(last):
            return True
        files.call_when_released(last, lambda: call_on(loop, ended.set, raised_to_awaiter))
        try:
            async with asyncio.timeout(_READERS_SECONDS):
                await ended.wait()
        except TimeoutError:
            self._put_off_by = last
            self._tell_of_reader()
            return False
        finally:
            files.call_when_released(last, None)
        return True

    def _tell_of_reader(self) -> None:
        number, age = self._contents.files.oldest_hold() or (0, 0.0)
        if age >= _LONG_SECONDS and number != self._told_of:
            self._told_of = number
            self._context.logger.warning(
                "an iterator over a map or a queue keeps the bytes of large values that were replaced or deleted",
                folder=str(self._log.folder), open_seconds=round(age),
                hint="End it, or drop it. A notebook keeps that of a failed cell.",
            )  # fmt: skip

    def _tell(self, done: Cleaned) -> None:
        if done.for_room:
            self._context.logger.warning(
                "bytes of contents that only history names were deleted, because the disk has no room for them",
                folder=str(self._log.folder), files=done.for_room, bytes=done.room_bytes, not_archived=done.nowhere,
            )  # fmt: skip

    async def _write_again(self, files: set[str]) -> None:
        """Write again what is live in these files. A damaged content keeps nobody else: its error is raised at the end."""
        run = self._context.ports.workers.run
        written: dict[tuple[str, int, int], Claim] = {}
        damaged: ContentDamaged | None = None
        try:
            for entry in await run(partial(self._entries_in, files)):
                old = claim_of(entry)
                claim = written.get(old.bytes_of)
                if claim is None:
                    try:
                        claim = written[old.bytes_of] = await run(partial(self._copied, entry, old))
                    except ContentDamaged as error:
                        damaged = damaged or error
                        continue
                await self._replace(entry, claim.told(old.attributes))
        finally:
            for claim in written.values():
                self._contents.files.settled(claim.file)
        if damaged is not None:
            raise damaged

    def _entries_in(self, files: set[str]) -> list[Entry]:
        """The latest entries with bytes in some files, of about `_ROUND_BYTES` together. Items of queues are not among them: they
        stay where they are until they are taken.
        """
        found: list[Entry] = []
        size = 0
        for entry in self._memory.latest_kept():
            if not has_claim(entry):
                continue
            claim = claim_of(entry)
            if claim.file in files and size < _ROUND_BYTES:
                found.append(entry)
                size += claim.length
        return found

    def _copied(self, entry: Entry, claim: Claim) -> Claim:
        """The claim of a copy of these bytes. Raises `OSError`, and the errors of `ContentSource.read`."""
        data = self._contents.source.read(repr(name_of(entry)), claim)
        return self._contents.files.write(data, {})

    async def _replace(self, entry: Entry, claim: Claim) -> None:
        """Log the new claim of a content, unless it was changed meanwhile."""
        made = with_claim(entry, claim)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self._log.ring.put_soon(Submission([made], size_of([made]), future, unless_changed(entry, made)))
        await future
