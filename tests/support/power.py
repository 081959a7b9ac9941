"""A disk in memory that forgets: what a power cut leaves is what was synced, and any part of what was not.

Bytes are durable after `datasync`, names after `sync_folder`. Of bytes written since, each sector may be there or not; of
names changed since, any number may be, in their order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvwal.ports.disk import Buffer, Lock, Space

SECTOR = 512
Names = dict[Path, "Content"]


class Content:
    """The bytes of a file: as programs see them, and as the disk has them."""

    def __init__(self, data: bytes = b"") -> None:
        self.seen = bytearray(data)
        self.durable = bytes(data)

    def left(self, chance: random.Random) -> bytes:
        """What a power cut may leave of them."""
        kind = chance.choice(["durable", "seen", "mixed"])
        if kind == "mixed":
            size = chance.choice([len(self.durable), len(self.seen)])
            sides = [bytes(side[:size]).ljust(size, b"\0") for side in (self.durable, self.seen)]
            return b"".join(chance.choice(sides)[at : at + SECTOR] for at in range(0, size, SECTOR))
        return self.durable if kind == "durable" else bytes(self.seen)


class MemoryFile:
    """A file of a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, path: Path, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    def write_at(self, offset: int, parts: Sequence[bytes]) -> None:
        data, seen = b"".join(parts), self._content.seen
        seen.extend(bytes(max(0, offset - len(seen))))
        seen[offset : offset + len(data)] = data
        self._disk.happened()

    def datasync(self) -> None:
        self._content.durable = bytes(self._content.seen)
        self._disk.happened()

    def allocate(self, size: int) -> None:
        self._content.seen.extend(bytes(max(0, size - len(self._content.seen))))
        self._disk.happened()

    def truncate(self, size: int) -> None:
        del self._content.seen[size:]
        self._disk.happened()

    def close(self) -> None:
        """Nothing is synced."""


class MemoryLock:
    """Nobody else is there."""

    def release(self) -> None:
        """Let go."""


class MemoryDisk:
    """See `kvwal.ports.disk.Disk`. `watch` is called after every change, on the thread that made it."""

    def __init__(self, files: dict[Path, bytes] | None = None) -> None:
        self.watch: Callable[[], None] = lambda: None
        self.seen: Names = {path: Content(data) for path, data in (files or {}).items()}
        self._durable: Names = dict(self.seen)
        self._pending: list[tuple[Path, Content | None]] = []

    def happened(self) -> None:
        """Something changed."""
        self.watch()

    def power_cut(self, chance: random.Random) -> dict[Path, bytes]:
        """The files as they may be found after one, now."""
        names = dict(self._durable)
        for path, content in self._pending[: chance.randint(0, len(self._pending))]:
            _name(names, path, content)
        return {path: content.left(chance) for path, content in names.items()}

    def create(self, path: Path) -> MemoryFile:
        if path in self.seen:
            raise FileExistsError(path)
        content = Content()
        self._change((path, content))
        return MemoryFile(self, path, content)

    def open(self, path: Path) -> MemoryFile:
        return MemoryFile(self, path, self._find(path))

    @contextmanager
    def view(self, path: Path) -> Iterator[Buffer]:
        yield self.read(path)

    def read(self, path: Path) -> bytes:
        return bytes(self._find(path).seen)

    def try_read(self, path: Path) -> None:
        self._find(path)

    def size(self, path: Path) -> int:
        return len(self._find(path).seen)

    def names(self, folder: Path) -> list[str]:
        below = {path.relative_to(folder).parts[0] for path in self.seen if folder in path.parents}
        return sorted(below)

    def exists(self, path: Path) -> bool:
        return path in self.seen or self.is_folder(path)

    def is_folder(self, path: Path) -> bool:
        return any(path in file.parents for file in self.seen)

    def make_folders(self, folder: Path) -> None:
        """A folder is there when something is in it."""

    def rename(self, old: Path, new: Path) -> None:
        self._change((new, self._find(old)), (old, None))

    def unlink(self, path: Path) -> None:
        if path in self.seen:
            self._change((path, None))

    def remove_tree(self, folder: Path) -> None:
        for path in [path for path in self.seen if folder in path.parents]:
            self.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        for path, content in self._pending:
            if path.parent == folder:
                _name(self._durable, path, content)
        self._pending = [change for change in self._pending if change[0].parent != folder]
        self.happened()

    def space(self, folder: Path) -> Space:
        return Space(1 << 41, 1 << 40)

    def lock(self, path: Path, note: str) -> Lock | str:
        return MemoryLock()

    def _find(self, path: Path) -> Content:
        if path not in self.seen:
            raise FileNotFoundError(path)
        return self.seen[path]

    def _change(self, *changes: tuple[Path, Content | None]) -> None:
        """Names change together, as in a rename: the new one first, so that a cut between them loses nothing."""
        for path, content in changes:
            _name(self.seen, path, content)
            self._pending.append((path, content))
        self.happened()


def _name(names: Names, path: Path, content: Content | None) -> None:
    if content is None:
        names.pop(path, None)
    else:
        names[path] = content
