"""The work of the background on the contents of one log: sealing, cleaning, and writing sparse claim files again.

1. The settled claim files are listed. 2. The active segment is sealed, and a checkpoint made. 3. The archiver deletes the
listed files that neither the snapshot nor a segment names: each entry that named them before 1 is in the log that it reads, and
later entries name new files, or what the snapshot names. 4. What is left in a file that is mostly dead is written again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from kvwal.archiver.jobs import Clean, Cleaned, SegmentRef
from kvwal.content.claim import Claim, claim_of, name_of
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
    """Claim files that may go, and the number of changes of contents when they were listed."""

    files: list[str]
    changes: int


class ContentCare:
    """The background's work on the contents of one log. Used on the store's event loop, by one job at a time."""

    def __init__(self, contents: OpenContents, log: Log, memory: BusinessMemory, context: StoreContext) -> None:
        self._contents = contents
        self._log = log
        self._memory = memory
        self._context = context
        self._cleaned = -1
        """The changes of contents at the last cleaning; none was made yet."""
        self.waits = False
        """Whether the last cleaning left files that only segments name: they may go when these segments are dropped."""

    async def seal(self) -> None:
        """End the open claim file, so that it can be archived. Raises `OSError`."""
        await self._context.ports.workers.run(self._contents.files.seal)

    async def candidates(self) -> Candidates:
        """The claim files that may go with the next checkpoint, unless the log names them. To be called before it seals.

        None if no content was changed since the last cleaning, and none was given up: then the log names what it named.
        """
        changes = self._contents.files.changes + sum(state.changes for state in self._memory.contents().values())
        if changes == self._cleaned and not self.waits:
            return Candidates([], changes)
        return Candidates(await self._context.ports.workers.run(self._contents.files.candidates), changes)

    async def clean(self, candidates: Candidates) -> None:
        """After the checkpoint: delete what nothing names, and write again what is left of sparse files."""
        # A transaction may have copied a content of one of them meanwhile, and its entry is not logged yet.
        if files := self._contents.files.only_settled(candidates.files):
            refs = [SegmentRef.of(segment) for segment in self._log.sealed]
            job = Clean(str(self._log.folder), files, refs)
            done = await self._context.archiver.do(job, Cleaned)
            self.waits = bool(done.waiting)
            if done.sparse:
                await self._write_again(set(done.sparse))
        self._cleaned = candidates.changes

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
        """The latest entries with bytes in some files, of about `_ROUND_BYTES` together."""
        found: list[Entry] = []
        size = 0
        for state in self._memory.contents().values():
            for entry in state.all_ordered():
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
        made = Entry(entry.key, entry.key_class, claim.value(), entry.value_class, False, 0)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self._log.ring.put_soon(Submission([made], size_of([made]), future, unless_changed(entry, made)))
        await future
