"""The work of the background on the contents of one log: sealing, cleaning, and writing sparse claim files again.

1. The settled claim files are listed. 2. The active segment is sealed, and a checkpoint made. 3. The archiver deletes the
listed files that neither the snapshot nor a segment names: each entry that named them before 1 is in the log that it reads, and
later entries name new files, or what the snapshot names. Those that only history names stay for `content_keep_seconds` before.
4. What is left in a file that is mostly dead is written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kvwal.archiver.jobs import ArchiveTarget, Clean, Cleaned, Keep, SegmentRef
from kvwal.archiver.kept_contents import has_kept, lacks_room
from kvwal.content.claim import Claim, claim_of, has_claim, name_of, with_claim
from kvwal.entry import Entry
from kvwal.errors import ContentDamaged
from kvwal.log.log import Log
from kvwal.log.submission import Submission, size_of
from kvwal.store.contents.open_contents import OpenContents
from kvwal.store.context import StoreContext
from kvwal.structures.content.changes import unless_changed
from kvwal.structures.memory import BusinessMemory

_ROUND_BYTES = 64 << 20
"""Bytes of contents that are written again after one checkpoint."""


class Candidates(NamedTuple):
    """Claim files that may go, None if they were not listed, and the number of changes of contents at that time."""

    files: list[str] | None
    changes: int


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
        return Candidates(await self._context.ports.workers.run(self._contents.files.candidates), changes)

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
        if self._contents.files.is_held():
            return  # somebody reads what was replaced meanwhile; a later checkpoint cleans
        # A transaction may have copied a content of one of them meanwhile, and its entry is not logged yet.
        files = self._contents.files.only_settled(candidates.files)
        if files or self.keeps_too_long():
            refs, covered = [SegmentRef.of(segment) for segment in self._log.sealed], self._log.covered
            job = Clean(str(self._log.folder), files, refs, self._keep, self._target() if self._keep.ms else None)
            done = await self._context.archiver.do(job, Cleaned)
            self.waits = bool(done.waiting) or any(segment.last > covered for segment in refs)
            self._kept, self._kept_until_ms = bool(done.kept), done.due_ms
            self._tell(done)
            if done.sparse:
                await self._write_again(set(done.sparse))
        self._cleaned = candidates.changes

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
