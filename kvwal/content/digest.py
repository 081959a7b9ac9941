"""Checksums of bytes that come in parts: CRC-32C, which reads check, and SHA-256, which names the bytes for everybody."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import partial
from pathlib import Path

import google_crc32c

from kvwal.content.claim import Claim
from kvwal.ports.disk import Disk
from kvwal.ports.locks import Semaphore
from kvwal.ports.posix.vectored import Part
from kvwal.ports.tasks import Helper

_PART_BYTES = 1 << 20
_MOST_WAITING = 8
"""Parts of a content that wait for a digest beside the write: they bound the memory."""


class Digest:
    """The checksums of all bytes that were added, and their number, `length`."""

    def __init__(self, *, names: bool = True) -> None:
        """Without `names` no SHA-256 is made, which takes more than half as long as writing the bytes: it is empty then."""
        self.length = 0
        self.crc32c = 0
        self._sha256 = hashlib.sha256() if names else None

    def add(self, data: Part) -> None:
        """Add bytes at the end."""
        self.length += len(data)
        self.crc32c = extended(self.crc32c, bytes(data))  # which copies a view
        if self._sha256 is not None:
            self._sha256.update(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far, in hex."""
        return "" if self._sha256 is None else self._sha256.hexdigest()


class DigestBeside:
    """The checksums of bytes that a thread of its own adds, while the caller writes them. Used by one thread."""

    def __init__(self, *, names: bool) -> None:
        """Without a free thread, the caller's does all of it. `names` is that of `Digest`."""
        self._digest = Digest(names=names)
        self._room = Semaphore(_MOST_WAITING)
        self._helper: Helper | None = None
        with suppress(RuntimeError):
            self._helper = Helper("kvwal-digest")

    def add(self, data: Part) -> None:
        """Add bytes at the end. Waits while many parts wait."""
        if self._helper is None:
            self._digest.add(data)
        else:
            self._room.acquire()
            self._helper.begin(partial(self._add, data))

    def end(self) -> Digest:
        """The checksums of all bytes that were added. Ends the thread. A second call returns the same."""
        if self._helper is not None:
            self._helper.close()
        return self._digest

    def _add(self, data: Part) -> None:
        try:
            self._digest.add(data)
        finally:
            self._room.release()


def extended(crc: int, data: bytes) -> int:
    """The CRC-32C of bytes that have `crc`, with `data` behind them."""
    return int(google_crc32c.extend(crc, data))


def checksum_of(disk: Disk, path: Path, claim: Claim) -> tuple[int, int]:
    """How many of the bytes that a claim names the file at `path` has, and their CRC-32C. Raises `OSError`."""
    crc = at = 0
    while at < claim.length:
        part = disk.read_part(path, claim.offset + at, min(_PART_BYTES, claim.length - at))
        if not part:
            break
        crc, at = extended(crc, part), at + len(part)
    return at, crc
