"""A cursor over the bytes of a file as Java's `DataInputStream` reads them: big-endian numbers, and text behind its length."""

from __future__ import annotations

import re

from kvwal.importers.source import EndsEarly, NotWhole, SourceFile

_SURROGATES = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")


_MOST_TEXT = 8 << 20
"""The longest text that is read. A length above it is taken for damage: no value of it could be stored."""


_AHEAD = 4096
"""Bytes that are read at once: a record has many short fields."""


class Cursor:
    """Reads from `offset` on, up to `end`. What goes on behind it raises `EndsEarly`."""

    def __init__(self, file: SourceFile, offset: int, end: int | None = None) -> None:
        self.file = file
        self.end = file.size if end is None else min(end, file.size)
        self._start = offset
        self._ahead = b""
        self._at = 0

    @property
    def offset(self) -> int:
        """Where the next byte is."""
        return self._start + self._at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        at = self._at
        end = at + size
        if not at <= end <= len(self._ahead):
            self._read(size)
            at, end = 0, size
        self._at = end
        return self._ahead[at:end]

    def _read(self, size: int) -> None:
        """Read ahead, `size` bytes at least."""
        if not 0 <= size <= _MOST_TEXT:
            raise NotWhole(f"a length is {size:,}")
        offset = self.offset
        left = self.end - offset
        if size > left:
            raise EndsEarly("the file ends in a record" if self.end == self.file.size else "a record is too long")
        self._start, self._at, self._ahead = offset, 0, self.file.read(offset, min(left, max(size, _AHEAD)))
        if len(self._ahead) < size:
            raise EndsEarly("the file ends in a record")

    def number(self, size: int) -> int:
        """The next signed number of `size` bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def flag(self) -> bool:
        """The next byte, 0 or 1."""
        byte = self.take(1)[0]
        if byte > 1:
            raise NotWhole(f"a byte that is 0 or 1 is {byte}")
        return bool(byte)

    def text(self) -> str:
        """The next text in Java's modified UTF-8, behind its length in two bytes."""
        data = self.take(int.from_bytes(self.take(2), "big"))
        if data.isascii():
            return data.decode()
        plain = _SURROGATES.sub(_joined, data.replace(b"\xc0\x80", b"\0"))
        return _decoded(plain)

    def long_text(self) -> str:
        """The next text in UTF-8, behind its length in four bytes."""
        return _decoded(self.take(self.number(4)))


def _joined(match: re.Match[bytes]) -> bytes:
    """The UTF-8 of a character that modified UTF-8 writes as two surrogates."""
    pair = match[0].decode("utf-8", "surrogatepass")
    return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + ord(pair[1]) - 0xDC00).encode()


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotWhole("a text is no UTF-8") from error
