"""Contents for tasks: bytes of any size under a name, whose claims are in the log and whose bytes stand beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from kvwal.config import Flush, check_file
from kvwal.entry import DataEntry, Entry
from kvwal.log.submission import Submission
from kvwal.store.aio.content_reads import ContentReads, ContentsThen
from kvwal.store.aio.content_streams import ContentStream, Known
from kvwal.store.aio.structure import AsyncStructure, OpenStore
from kvwal.store.aio.transaction import hand_over
from kvwal.store.aio.waiting import TaskWaiter, ended
from kvwal.structures.business import LocalBusiness
from kvwal.structures.content.changes import Change
from kvwal.structures.content.content import Contents as SyncContents
from kvwal.structures.content.names import bytes_of, checked_attributes, content_structure, delete_entry, key_of
from kvwal.structures.content.transaction import ContentsInTransaction as SyncInTransaction
from kvwal.structures.transaction import TransactionChanges
from kvwal.structures.watch import AsyncWatch, of_structure


def _nothing(error: BaseException | None) -> None:
    """Nobody asks for the outcome of a change but the task itself."""


class Contents(AsyncStructure, ContentReads):
    """Contents by name, with the promises of the synchronous `Contents`. Any number of tasks of the loop may use them.

    Bytes are written and read on threads. A change that is cancelled is done whole or not at all, and it is known which when
    `CancelledError` is raised: the task waits for a thread that works for it, and for a log writer that has its change already.

    The business is opened at the first call. A call on another event loop than the store's raises `WrongLoop`.
    """

    def __init__(self, store: OpenStore, business: str, name: str = "", flush: Flush | None = None) -> None:
        """The contents `name` of a business; its own without a name. Raises `InvalidName`."""
        super().__init__(store, business, flush)
        self._content_name = name
        self._structure = content_structure(name)
        self._contents: SyncContents | None = None
        """The contents as threads use them: their reads, and the changes that they build, serve the tasks, too."""

    def __repr__(self) -> str:
        return f"<Contents {self.name!r} of {self._store!r}>"

    @property
    def name(self) -> str:
        """The business, and behind a slash the structure: `work/content`, `work/content/files`."""
        return f"{self._name}/{self._structure}"

    def create(self, name: str, attributes: Mapping[str, str] | None = None) -> ContentStream:
        """A new content to write into: at the end of its `async with` block it is there whole, or not at all."""
        return ContentStream(self, name, attributes)

    async def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> int:
        """Put bytes under a name, and return the timestamp."""
        async with self.create(name, attributes) as out:
            await out.write(data)
        return out.timestamp

    async def put_file(self, name: str, path: str | Path, attributes: Mapping[str, str] | None = None) -> int:
        """Put the bytes of a file under a name, and return the timestamp. `ConfigError` if the file cannot be read."""
        source = check_file("path", str(path))
        async with self.create(name, attributes) as out:
            parts = (await self._writing())._files().parts_of(source)
            while part := await ended(lambda: next(parts, b"")):
                await out.write(part)
        return out.timestamp

    async def copy(self, name: str, to: str) -> int:
        """Give the bytes of a content a second name, and return the timestamp. No byte is copied. `KeyError` if it is absent."""
        contents = await self._writing()
        return await self._changed(name, contents._changes.to_name(key_of(contents._codecs, to)))

    async def set_attributes(self, name: str, attributes: Mapping[str, str]) -> int:
        """Give a content other attributes, and return the timestamp. `KeyError` if it is absent. Its bytes stay."""
        given = checked_attributes(attributes)
        return await self._changed(name, (await self._writing())._changes.with_attributes(given))

    async def repair(self, name: str) -> bool:
        """Write a content again whose bytes beside the log are damaged or missing: see `Contents.repair`.

        A task that is cancelled waits until it is done.
        """
        contents = await self._writing()
        return await ended(lambda: contents.repair(name))

    async def delete(self, name: str) -> int:
        """Delete a name, whether it is there or not, and return the timestamp. The bytes go when the history has passed them."""
        contents = await self._writing()
        return await self._logged(delete_entry(contents._key_class, key_of(contents._codecs, name)))

    async def history(self, name: str) -> list[DataEntry]:
        """All changes of a name that log and archive hold, newest first, deletes included. They are read on a thread."""
        contents = await self._writing()
        return await self._on_thread(lambda: contents.history(name))

    async def at(self, moment: int | date) -> ContentsThen:
        """The contents as they were at a moment: see `Contents.at`. Names are read on a thread, now; bytes, when asked for."""
        contents = await self._writing()
        return ContentsThen(await self._on_thread(lambda: contents.at(moment)))

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """The changes of names, for `async for`: see `Map.watch`."""
        return self._watch(after, of_structure(self._structure))

    async def _reading(self) -> SyncContents:
        return await self._writing()

    async def _writing(self) -> SyncContents:
        if self._contents is not None:
            return self._contents
        business = await self._find_business()
        await self._on_thread(
            lambda: business.state_of(self._structure)
        )  # it may read the names from the files of the log
        return self._attach(business)

    def _attach(self, business: LocalBusiness) -> SyncContents:
        if self._contents is None:  # of several tasks that open it, the first one
            self._business = business
            self._contents = SyncContents(business, self._content_name)
        return self._contents

    async def _open_business(self) -> LocalBusiness:
        return (await self._writing())._business

    async def _logged(self, entry: Entry, known: Known = _nothing) -> int:
        """Log an entry, and return its timestamp. `known` is called as by `_write`, also if nothing is handed over."""
        try:
            contents = await self._writing()
            waiter = TaskWaiter(self._checked_loop())
            submission = contents._changes.logged(entry, waiter)
        except BaseException as error:
            known(error)
            raise
        await self._write(submission, waiter, known)
        return entry.timestamp

    async def _changed(self, name: str, change: Change) -> int:
        """Change what is under a name, in the order of the log. Returns the timestamp; `KeyError` if it is absent."""
        contents = await self._writing()
        made: list[Entry] = []
        waiter = TaskWaiter(self._checked_loop())
        await self._write(contents._changes.changed(contents._entry(name), change, made, waiter), waiter)
        if not made:
            raise KeyError(name)
        return made[0].timestamp

    async def _write(self, submission: Submission, waiter: TaskWaiter, known: Known = _nothing) -> None:
        """Have a change written. If the task is cancelled, the outcome is known when this raises.

        `known` is called once with the error of the change, None if it is written, also if the task was cancelled meanwhile.
        """
        try:
            await hand_over(self._opened(), submission)
            await waiter.wait()
        except asyncio.CancelledError as cancelled:
            withdrawn = waiter.withdraw()
            if not withdrawn:
                await waiter.settled()
            known(cancelled if withdrawn else waiter.error)
            raise
        except Exception as error:
            known(error)
            raise
        known(None)


class ContentsInTransaction:
    """The contents of one structure in a block, for a task. Every call raises `TransactionClosed` outside the block.

    A read shows what the block has put, and else what is there at that moment.
    """

    def __init__(self, changes: TransactionChanges, contents: SyncContents) -> None:
        self._block = SyncInTransaction(changes, contents)

    async def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> None:
        """Put bytes under a name, at the end of the block. They are durable when this returns. See `Contents.put`."""
        key, given = self._block._checked(name, attributes)
        part = bytes_of(data)
        self._block._named(key, await ended(lambda: self._block._written(name, part, given)))

    async def get(self, name: str) -> bytes:
        """The bytes of a content, with the changes of this block; `KeyError` if it is absent."""
        return await ended(lambda: self._block.get(name))

    async def contains(self, name: object) -> bool:
        """Whether there is a content of this name, with the changes of this block."""
        return name in self._block

    def copy(self, name: str, to: str) -> None:
        """Give the bytes of a content a second name, at the end of the block; `KeyError` if it is absent now."""
        self._block.copy(name, to)

    def delete(self, name: str) -> None:
        """Delete a name, at the end of the block, whether it is there or not."""
        self._block.delete(name)
