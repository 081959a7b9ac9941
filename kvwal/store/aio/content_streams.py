"""Contents as files of a task: one that is being written, and one that is read. What blocks is done on threads."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from io import BufferedReader
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from kvwal.content.claim import Claim
from kvwal.content.files import ContentFiles
from kvwal.content.source import READ_BYTES
from kvwal.content.writer import SHARED_BYTES
from kvwal.entry import Entry
from kvwal.errors import CommitUnknown
from kvwal.store.aio.waiting import ended
from kvwal.structures.content.content import Contents as SyncContents
from kvwal.structures.content.names import bytes_of, put_entry
from kvwal.structures.content.stream import ContentStream as SyncStream

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


Known = Callable[[BaseException | None], None]
"""Is told the outcome of a change: its error, None if it is written."""


class Target(Protocol):
    """The contents to which a new one is added."""

    async def _writing(self) -> SyncContents:
        """The contents as threads use them, opened."""
        ...

    async def _logged(self, entry: Entry, known: Known) -> int:
        """Log an entry. If the task is cancelled, the outcome is known when this raises.

        `known` is called once with the error of the change, None if it is written.
        """
        ...


class _Durable(NamedTuple):
    """Bytes that are durable and not named yet: the entry that names them, and their file, which is unsettled."""

    files: ContentFiles
    file: str
    entry: Entry


class ContentStream:
    """The bytes of a new content, for one task: `async with c.create(name) as out: await out.write(b"…")`.

    The end of the block makes them durable and gives them their name. If the block raises, if the task is cancelled, or if a
    write fails, the content is not there, and one that had the name before stays. A task that is cancelled while the name is
    logged waits for the outcome. `timestamp` is that of the change, 0 if it was not made.
    """

    def __init__(self, target: Target, name: str, attributes: Mapping[str, str] | None) -> None:
        self.timestamp = 0
        self._target = target
        self._name = name
        self._attributes = attributes
        self._stream: SyncStream | None = None
        self._durable: _Durable | None = None

    async def write(self, data: ReadableBuffer) -> int:
        """Add bytes at the end. Raises `StorageFull`, `ContentFailed`; then nothing more can be written."""
        stream = self._opened()
        part = bytes_of(data)
        if stream.tell() + len(part) <= SHARED_BYTES:  # then no byte goes to the disk yet
            return stream.write(part)
        return await ended(lambda: stream.write(part))

    def tell(self) -> int:
        """The number of bytes so far."""
        return self._opened().tell()

    async def __aenter__(self) -> Self:
        if self._stream is not None:
            raise ValueError("a content is written in one block")
        contents = await self._target._writing()

        def durable(files: ContentFiles, key: bytes, claim: Claim) -> int:
            self._durable = _Durable(files, claim.file, put_entry(contents._key_class, key, claim))
            return 0

        self._stream = contents._stream(self._name, self._attributes, durable)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stream = self._opened()
        if kind is not None:
            await ended(stream.discard)
            return
        try:
            await ended(stream.close)
        except BaseException as failed:
            self._known(failed)
            raise
        if self._durable is not None:
            await self._target._logged(self._durable.entry, self._known)

    def _known(self, error: BaseException | None) -> None:
        """The outcome of the change. The file stays unsettled if the name may be in the log, and nobody knows."""
        durable = self._durable
        if durable is None:
            return
        if error is None:
            self.timestamp = durable.entry.timestamp
        if not isinstance(error, CommitUnknown):
            durable.files.settled(durable.file)

    def _opened(self) -> SyncStream:
        if self._stream is None:
            raise ValueError("a content is written inside its `async with` block")
        return self._stream


class ContentFile:
    """The bytes of a content, for one task: `async with c.open(name) as file: await file.read(n)`.

    It shows the content as it was when it was opened. Read from the start to the end it compares the checksum of the whole.
    `async for part in file` gives the rest in parts.
    """

    def __init__(self, begin: Callable[[], Awaitable[BufferedReader]]) -> None:
        self._begin = begin
        self._file: BufferedReader | None = None

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer only at the end; without it, the rest. Raises as `Contents.get`."""
        file = self._opened()
        return await ended(lambda: file.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position of what was opened. Waits for nothing."""
        return self._opened().seek(offset, whence)

    def tell(self) -> int:
        """The position, from the start of what was opened."""
        return self._opened().tell()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while part := await self.read(READ_BYTES):
            yield part

    async def __aenter__(self) -> Self:
        self._file = await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._opened(), None
        file.close()

    def _opened(self) -> BufferedReader:
        if self._file is None:
            raise ValueError("a content is read inside the `async with` block of `open`")
        return self._file
