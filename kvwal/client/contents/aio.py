"""Contents of a cluster for the tasks of an event loop: the calls of the synchronous contents, on threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import date
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self

from kvwal.client.contents.content import ClusterContents as SyncContents
from kvwal.client.contents.transaction import ClusterContentsInTransaction as SyncInTransaction
from kvwal.content.claim import Content
from kvwal.entry import DataEntry
from kvwal.store.aio.content_reads import ContentReads
from kvwal.store.aio.waiting import ended, on_thread
from kvwal.structures.content.names import bytes_of, content_structure
from kvwal.structures.content.reads import ContentReads as SyncReads
from kvwal.structures.content.stream import ContentStream as SyncStream
from kvwal.structures.handle import Handle
from kvwal.structures.watch import AsyncWatch, Feed, of_structure, parse_start

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from kvwal.client.queues.aio_waiting import Client

_AT_ONCE = 1000


class _Asking(ContentReads):
    """Reads that ask members for names: all of them are made on threads."""

    async def stat(self, name: str) -> Content:
        """See `ContentReads.stat`."""
        reads = await self._reading()
        return await on_thread(lambda: reads.stat(name))

    async def entry(self, name: str) -> DataEntry | None:
        """See `ContentReads.entry`."""
        reads = await self._reading()
        return await on_thread(lambda: reads.entry(name))

    async def contains(self, name: object) -> bool:
        """See `ContentReads.contains`."""
        reads = await self._reading()
        return await on_thread(lambda: name in reads)

    async def count(self) -> int:
        """See `ContentReads.count`."""
        reads = await self._reading()
        return await on_thread(lambda: len(reads))

    async def list(self, prefix: str = "") -> AsyncIterator[Content]:
        """See `ContentReads.list`."""
        reads = await self._reading()
        found = await on_thread(lambda: reads.list(prefix))
        while batch := await ended(lambda: tuple(islice(found, _AT_ONCE))):
            for content in batch:
                yield content


class _Then(_Asking):
    """The contents as they were at a moment."""

    def __init__(self, reads: SyncReads) -> None:
        self._reads = reads

    async def _reading(self) -> SyncReads:
        return self._reads


class Opening(Protocol):
    """Contents that a new one is added to."""

    async def opened(self) -> SyncContents:
        """The contents as threads use them."""
        ...


class ClusterContentStream:
    """The bytes of a new content of a cluster, for one task: see `kvwal.store.aio.content_streams.ContentStream`.

    A task that is cancelled at the end of the block waits until it is known whether the content is there.
    """

    def __init__(self, target: Opening, name: str, attributes: Mapping[str, str] | None) -> None:
        self.timestamp = 0
        self._target = target
        self._name = name
        self._attributes = attributes
        self._stream: SyncStream | None = None

    async def write(self, data: ReadableBuffer) -> int:
        """Add bytes at the end. Raises `StorageFull`, `ContentFailed`; then nothing more can be written."""
        stream, part = self._opened(), bytes_of(data)
        return await ended(lambda: stream.write(part))

    def tell(self) -> int:
        """The number of bytes so far."""
        return self._opened().tell()

    async def __aenter__(self) -> Self:
        if self._stream is not None:
            raise ValueError("a content is written in one block")
        self._stream = (await self._target.opened()).create(self._name, self._attributes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stream = self._opened()
        try:
            await ended(stream.close if kind is None else stream.discard)
        finally:
            self.timestamp = stream.timestamp

    def _opened(self) -> SyncStream:
        if self._stream is None:
            raise ValueError("a content is written inside its `async with` block")
        return self._stream


class ClusterContents(Handle, _Asking):
    """Contents of a cluster for tasks: see `kvwal.store.aio.content.Contents`, and `kvwal.client.contents.content`.

    A change that is cancelled is done whole or not at all, and its end is waited for.
    """

    def __init__(self, client: Client, business: str, name: str = "") -> None:
        """Raises `InvalidName`."""
        self._client = client
        self._business = business
        self._content_name = name
        self._structure = content_structure(name)
        self._contents: SyncContents | None = None

    def __repr__(self) -> str:
        return f"<Contents {self.name!r}>"

    @property
    def name(self) -> str:
        """The business, and behind a slash the structure."""
        return f"{self._business}/{self._structure}"

    def create(self, name: str, attributes: Mapping[str, str] | None = None) -> ClusterContentStream:
        """A new content to write into: at the end of its `async with` block it is there whole, or not at all."""
        return ClusterContentStream(self, name, attributes)

    async def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> int:
        """Put bytes under a name, and return the timestamp."""
        own, part = await self.opened(), bytes_of(data)
        return await ended(lambda: own.put(name, part, attributes))

    async def put_file(self, name: str, path: str | Path, attributes: Mapping[str, str] | None = None) -> int:
        """Put the bytes of a file under a name, and return the timestamp. `ConfigError` if the file cannot be read."""
        own = await self.opened()
        return await ended(lambda: own.put_file(name, path, attributes))

    async def copy(self, name: str, to: str) -> int:
        """See `Contents.copy`."""
        own = await self.opened()
        return await ended(lambda: own.copy(name, to))

    async def set_attributes(self, name: str, attributes: Mapping[str, str]) -> int:
        """See `Contents.set_attributes`."""
        own = await self.opened()
        return await ended(lambda: own.set_attributes(name, attributes))

    async def repair(self, name: str) -> bool:
        """Raise `ConfigError`: the archive has the only copy of the bytes."""
        return (await self.opened()).repair(name)

    async def delete(self, name: str) -> int:
        """See `Contents.delete`."""
        own = await self.opened()
        return await ended(lambda: own.delete(name))

    async def history(self, name: str) -> list[DataEntry]:
        """All changes of a name that logs and archive hold, newest first, deletes included."""
        own = await self.opened()
        return await on_thread(lambda: own.history(name))

    async def at(self, moment: int | date) -> ContentReads:
        """The contents as they were at a moment: see `Contents.at`."""
        own = await self.opened()
        return _Then(await on_thread(lambda: own.at(moment)))

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """The changes of names, for `async for`: see `Contents.watch`."""
        start = parse_start(after)

        async def begin() -> Feed:
            structures = await self._client.structures(self._business)
            return await self._client.on_thread(lambda: structures.business.feed(start, self._structure))

        return AsyncWatch(begin, self._client.on_thread, of_structure(self._structure))

    async def opened(self) -> SyncContents:
        """The contents as threads use them. Raises `WrongLoop`, `StoreClosed`."""
        if self._contents is None:
            structures = await self._client.structures(self._business)
            self._contents = structures.content(self._content_name)
        return self._contents

    async def _reading(self) -> SyncContents:
        return await self.opened()


class AsyncContentsInTransaction:
    """The contents of one structure in a block, for a task: see `kvwal.client.contents.transaction`."""

    def __init__(self, block: SyncInTransaction) -> None:
        self._block = block

    async def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> None:
        """Put bytes under a name, at the end of the block. They are in the archive when this returns."""
        key, given = self._block.checked(name, attributes)
        part = bytes_of(data)
        self._block.named(key, *await ended(lambda: self._block.written(name, part, given)))

    async def get(self, name: str) -> bytes:
        """The bytes of a content, with the changes of this block; `KeyError` if it is absent."""
        return await ended(lambda: self._block.get(name))

    async def contains(self, name: object) -> bool:
        """Whether there is a content of this name, with the changes of this block."""
        return await ended(lambda: name in self._block)

    def copy(self, name: str, to: str) -> NoReturn:
        """Raise `ConfigError`: see `ClusterContentsInTransaction.copy`."""
        self._block.copy(name, to)

    def delete(self, name: str) -> None:
        """Delete a name, at the end of the block, whether it is there or not."""
        self._block.delete(name)
