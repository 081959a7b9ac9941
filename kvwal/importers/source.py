"""Files of foreign logs, read in windows, and what an import reports of them.

A log of another product is only read. Its lengths are checked before anything is allocated, and a file of any size is read in
flat memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.ports.disk import Disk

WINDOW = 1 << 16
"""Bytes of a file that are read at once."""
MOST_RECORD = 64 << 20
"""The largest record that is read. A length above it is taken for damage: no value of it could be stored."""
_OPEN_WINDOWS = 256

Progress = Callable[[int, int, str], None]
"""Is told how many bytes of how many of a file were read."""


class NotWhole(KvwalError):
    """Bytes that are no record. A reader reports them and goes on; its caller never gets this error."""

    kind = Kind.DAMAGE


class EndsEarly(NotWhole):
    """A record that goes on behind the end of its bytes."""


class Report(Protocol):
    """Takes what a reader finds in the files, in the order in which it reads them."""

    def damaged(self, path: Path, offset: int, end: int, what: str) -> None:
        """Bytes from `offset` to `end`, which may be the same, are no whole records: what they held is not imported."""
        ...

    def torn(self, path: Path, offset: int, what: str) -> None:
        """The file ends in a write that a crash cut short. Nobody was told that it was done."""
        ...

    def left_out(self, path: Path, offset: int, what: str) -> None:
        """A whole record is not imported."""
        ...


class SourceFile:
    """One file. `size` is that at its opening: what is appended meanwhile is not read."""

    def __init__(self, disk: Disk, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._disk = disk
        self._progress = progress
        self._start = 0
        self._window = b""
        try:
            self.size = disk.size(path)
        except OSError as error:
            raise unreadable(path, error) from error

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer at the end of the file."""
        size = max(0, min(size, self.size - offset))
        if size > WINDOW:
            return self._read(offset, size)
        at = offset - self._start
        if at < 0 or at + size > len(self._window):
            self._start, self._window = offset, self._read(offset, min(WINDOW, self.size - offset))
            at = 0
            if self._progress is not None:
                self._progress(offset, self.size, str(self.path))
        return self._window[at : at + size]

    def find(self, needle: bytes, start: int) -> int:
        """The offset of the first `needle` from `start` on, -1 if there is none."""
        while start < self.size:
            window = self.read(start, WINDOW)
            if (at := window.find(needle)) >= 0:
                return start + at
            start += max(1, len(window) - len(needle) + 1)
        return -1

    def skip(self, start: int, byte: int) -> int:
        """The offset of the first byte from `start` on that is not `byte`; the size if there is none."""
        fill = bytes([byte])
        while start < self.size:
            window = self.read(start, WINDOW)
            if rest := window.lstrip(fill):
                return start + len(window) - len(rest)
            start += len(window)
        return self.size

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._disk.read_part(self.path, offset, size)
        except OSError as error:
            raise unreadable(self.path, error) from error


class NextOf:
    """The next place of any of some needles in a file, asked for rising offsets. A needle is looked for once per place."""

    def __init__(self, file: SourceFile, needles: list[bytes]) -> None:
        self._file = file
        self._next = dict.fromkeys(needles, -1)
        self._gone: set[bytes] = set()

    def after(self, start: int) -> int:
        """The offset of the first needle from `start` on, -1 if there is none."""
        for needle, at in self._next.items():
            if at < start and needle not in self._gone:
                self._next[needle] = found = self._file.find(needle, start)
                if found < 0:
                    self._gone.add(needle)
        return min((at for needle, at in self._next.items() if needle not in self._gone), default=-1)


class Sources:
    """Files by their number, with the windows of those that were read last."""

    def __init__(self, disk: Disk, paths: list[Path]) -> None:
        self._disk = disk
        self._paths = paths
        self._open: OrderedDict[int, SourceFile] = OrderedDict()

    def __getitem__(self, number: int) -> SourceFile:
        file = self._open.get(number)
        if file is None:
            file = self._open[number] = SourceFile(self._disk, self._paths[number])
            if len(self._open) > _OPEN_WINDOWS:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return file


def unreadable(path: Path, error: OSError) -> ConfigError:
    """The error of a file or folder that the operating system does not read."""
    reason = error.strerror or str(error)
    return ConfigError(
        f"{path}: cannot be read ({reason}).", hint="Run it as the user of the other product, or mend owner and mode."
    )


def names_in(disk: Disk, folder: Path) -> list[str]:
    """Names in a folder, sorted; none if it is a file."""
    if not disk.is_folder(folder):
        return []
    try:
        return disk.names(folder)
    except OSError as error:
        raise unreadable(folder, error) from error


def folders_in(disk: Disk, folder: Path) -> Iterator[Path]:
    """The folders in a folder, sorted by name."""
    return (folder / name for name in names_in(disk, folder) if disk.is_folder(folder / name))
