"""A new content as a file to write into: it is there whole at the end of the block, or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kvwal.content.claim import Claim
from kvwal.content.writer import ClaimWriter
from kvwal.errors import KvwalError
from kvwal.structures.content.names import bytes_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Failed = Callable[[OSError], KvwalError]
"""The error for callers of one of the disk."""


class ContentStream(io.BufferedIOBase):
    """The bytes of a new content. Used by one thread.

    `close`, and the end of a `with` block, make it durable and give it its name. If the block raises, if a write fails, or if the
    object is dropped unclosed, the content is not there, and a content that had the name before stays. `timestamp` is that of the
    change, once it is made.
    """

    def __init__(
        self, writer: ClaimWriter, attributes: dict[str, str], commit: Callable[[Claim], int], failed: Failed
    ) -> None:
        """`commit` logs the claim of the bytes, and returns the timestamp."""
        self.timestamp = 0
        self._writer: ClaimWriter | None = writer
        self._attributes = attributes
        self._commit = commit
        self._failed = failed

    def writable(self) -> bool:
        """Whether it can be written."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Add bytes at the end. Raises `StorageFull`, `ContentFailed`; then nothing more can be written."""
        writer = self._open()
        part = bytes_of(data)
        is_written = False
        try:
            writer.write(part)
            is_written = True
        except OSError as error:
            raise self._failed(error) from error
        finally:  # also if a signal handler raised: who goes on to write must not make a content with a gap
            if not is_written:
                self.discard()
        return len(part)

    def tell(self) -> int:
        """The number of bytes so far."""
        return self._open().length

    def discard(self) -> None:
        """Drop the bytes: the content will not be there. A second call does nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()
        super().close()

    def close(self) -> None:
        """Make the content durable, and give it its name. A second call does nothing."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            claim = writer.finish(self._attributes)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            super().close()
        self.timestamp = self._commit(claim)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __del__(self) -> None:
        """Drop the bytes: nobody said that they are whole."""
        self.discard()

    def _open(self) -> ClaimWriter:
        if self._writer is None:
            raise ValueError("write to a content that is closed")
        return self._writer
