"""Reads of contents for tasks: at present, or as they were at a moment. Bytes are read on threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from io import BufferedReader
from itertools import islice
from pathlib import Path

from kvwal.content.claim import Content
from kvwal.entry import DataEntry
from kvwal.store.aio.content_streams import ContentFile
from kvwal.store.aio.waiting import ended, on_thread
from kvwal.structures.content.reads import ContentReads as SyncReads

_AT_ONCE = 1000
"""Contents that a thread reads before the loop gives them to its task."""


class ContentReads:
    """Names of contents, and their bytes: see `kvwal.structures.content.reads.ContentReads`."""

    @abstractmethod
    async def _reading(self) -> SyncReads:
        """The contents as threads read them, opened."""

    async def get(self, name: str) -> bytes:
        """All bytes of a content; `KeyError` if there is none of this name. Their checksum is compared."""
        reads = await self._reading()
        return await on_thread(lambda: reads.get(name))

    def open(self, name: str, *, offset: int = 0, length: int | None = None) -> ContentFile:
        """The bytes from `offset` on, up to `length`: `async with c.open(name) as file: await file.read(n)`.

        The beginning of the block raises `KeyError` if there is none of this name.
        """

        async def begin() -> BufferedReader:
            reads = await self._reading()
            return await on_thread(lambda: reads.open(name, offset=offset, length=length))

        return ContentFile(begin)

    async def export(self, name: str, path: str | Path) -> int:
        """Write the bytes of a content into the new file `path`; returns their number. `ConfigError` if the file is there.

        After an error no file is left. A task that is cancelled waits until the file is whole.
        """
        reads = await self._reading()
        return await ended(lambda: reads.export(name, path))

    async def check(self, name: str) -> None:
        """Read all bytes of a content where they are read first. `ContentDamaged` if they are not those that were written."""
        reads = await self._reading()
        await on_thread(lambda: reads.check(name))

    async def stat(self, name: str) -> Content:
        """A content without its bytes; `KeyError` if there is none of this name."""
        return (await self._reading()).stat(name)

    async def entry(self, name: str) -> DataEntry | None:
        """The latest entry of a content as the log has it, None if there is none of this name."""
        return (await self._reading()).entry(name)

    async def contains(self, name: object) -> bool:
        """Whether there is a content of this name."""
        return name in await self._reading()

    async def count(self) -> int:
        """The number of contents."""
        return len(await self._reading())

    async def list(self, prefix: str = "") -> AsyncIterator[Content]:
        """The contents whose names begin with `prefix`, in the order of their names. No bytes are read."""
        found = (await self._reading()).list(prefix)
        while batch := await ended(lambda: tuple(islice(found, _AT_ONCE))):
            for content in batch:
                yield content


class ContentsThen(ContentReads):
    """The contents as they were at a moment."""

    def __init__(self, reads: SyncReads) -> None:
        self._reads = reads

    async def _reading(self) -> SyncReads:
        return self._reads
