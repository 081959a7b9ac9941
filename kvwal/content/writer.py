"""Writing a content: bytes come in parts, and become one claim at the end.

A content up to `SHARED_BYTES` is held in memory, and goes into a shared claim file. A larger one goes into a file of its own
while it is written, so any size needs a few megabytes of memory.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from kvwal.content.claim import Claim
from kvwal.content.digest import DigestBeside
from kvwal.errors import ConfigError
from kvwal.ports.disk import Disk
from kvwal.ports.locks import interpreter_ends
from kvwal.ports.posix.vectored import Part

SHARED_BYTES = 4 << 20
"""The largest content that goes into a shared claim file."""
STEP_BYTES = 1 << 20
"""Bytes that are written at a time."""
_SMALL_BYTES = 64 << 10
"""Smaller parts are joined, so that a content that is written byte by byte needs no more memory than another one."""


class Output(Protocol):
    """A claim file for one content that is being written: see `kvwal.content.own_file.OwnFile`."""

    @property
    def name(self) -> str:
        """The name of the claim file."""
        ...

    def add(self, part: Part) -> None:
        """Write bytes at the end. Raises `OSError`."""
        ...

    def finish(self) -> None:
        """The bytes are whole. Raises `OSError`."""
        ...

    def discard(self) -> None:
        """Delete the file. A second call does nothing. Raises `OSError`."""
        ...


class Place(Protocol):
    """Where the bytes of a new content go: the claim files of a log, or an archive."""

    def append(self, data: bytes, attributes: dict[str, str], *, names: bool = True) -> Claim:
        """Make a small content durable: see `SharedFiles.append`. Raises `OSError`, `StoreClosed`."""
        ...

    def check_open(self) -> None:
        """Raise `StoreClosed` after the store was closed, and in a forked child."""
        ...

    def own_file(self) -> Output:
        """A new claim file for one content, which is unsettled. Raises `OSError`, `StoreClosed`."""
        ...

    def discard(self, own: Output) -> None:
        """Delete a claim file that no entry names."""
        ...


class ClaimWriter:
    """A content on its way into a claim file. Used by one thread. Ends with `finish`, with `discard`, or with any error."""

    def __init__(self, place: Place, *, names: bool = True) -> None:
        """`names` is that of `Digest`."""
        self._names = names
        self.length = 0
        """Bytes so far."""
        self._place = place
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._small = bytearray()
        self._own: Output | None = None
        self._digest: DigestBeside | None = None

    def write(self, data: bytes) -> None:
        """Add bytes at the end. Raises `OSError`, `StoreClosed`."""
        with self._discarded_after_error():
            self.length += len(data)
            self._held_bytes += len(data)
            if len(data) < _SMALL_BYTES:
                self._small += data
            if len(self._small) >= _SMALL_BYTES or len(data) >= _SMALL_BYTES:
                self._hold(data if len(data) >= _SMALL_BYTES else b"")
            if self._own is None and self.length > SHARED_BYTES:
                self._own = self._place.own_file()
                self._digest = DigestBeside(names=self._names)
            if self._own is not None and self._held_bytes >= STEP_BYTES:
                self._flush(self._own)

    def finish(self, attributes: dict[str, str]) -> Claim:
        """Make the bytes durable. Returns their claim, whose file is unsettled then. Raises as `write`."""
        with self._discarded_after_error():
            self._hold(b"")
            if self._own is None or self._digest is None:
                data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
                return self._place.append(data, attributes, names=self._names)
            self._flush(self._own)
            self._place.check_open()
            self._own.finish()
            digest = self._digest.end()
            if digest.length != self.length:
                raise OSError(errno.EIO, "not all bytes could be hashed")
            return Claim(self._own.name, 0, digest.length, digest.crc32c, digest.sha256, attributes)

    def discard(self) -> None:
        """The content will not be: delete its bytes. A file that cannot be deleted now is collected later."""
        own, self._own = self._own, None
        digest, self._digest = self._digest, None
        if digest is not None and not interpreter_ends():  # then its thread does not run any more
            digest.end()
        self._held, self._small, self._held_bytes = [], bytearray(), 0
        if own is not None:
            self._place.discard(own)

    def _hold(self, data: bytes) -> None:
        if self._small:
            self._held.append(bytes(self._small))
            self._small = bytearray()
        if data:
            self._held.append(data)

    def _flush(self, own: Output) -> None:
        """Write what is held, while another thread hashes it."""
        self._hold(b"")
        parts, self._held, self._held_bytes = self._held, [], 0
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(part), STEP_BYTES):
                step = view[at : at + STEP_BYTES]
                self._place.check_open()
                if self._digest is not None:
                    self._digest.add(step)
                own.add(step)

    @contextmanager
    def _discarded_after_error(self) -> Iterator[None]:
        """After an error, also that of a signal handler, it is not known how much was written: nothing may follow."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                self.discard()


def parts_of_file(disk: Disk, path: Path) -> Iterator[bytes]:
    """The bytes of a file of the caller's, in parts. `ConfigError` if it cannot be read."""
    at = 0
    try:
        with closing(disk.open_to_read(path)) as file:  # of one file, also if another one is put in its place
            while part := file.read_at(at, STEP_BYTES):
                yield part
                at += len(part)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); nothing was written.") from error
