"""A read-only file whose bytes come from range requests."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any


class RangeFile(io.RawIOBase):
    """A seekable, read-only file of `size` bytes, which `read_range(start, end)` supplies."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        self._read_range = read_range
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position, which is never negative, and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with one request, and return the number of bytes; 0 at the end of the file."""
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        data = self._read_range(self._position, end)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
