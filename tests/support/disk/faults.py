"""A disk that counts, fails and fills up where a test says so, a clock that the test moves, and a store on both."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kvwal import aio
from kvwal.config import Settings
from kvwal.ports.clock import Clock
from kvwal.ports.descriptors import Descriptors
from kvwal.ports.disk import File, OpenedFile, OsDisk, Space
from kvwal.ports.posix.vectored import Part, read_all, write_all
from kvwal.store.options import Options
from kvwal.store.sync import WritableStore
from tests.support.disk.handles import LimitedReader
from tests.support.disk.limits import Limits

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: where a `FakeClock` begins."""


class FakeDisk(OsDisk):
    """The machine's disk, with a hand on it. `calls` are the calls on files so far, by name.

    It has the `limits` of a real disk, short reads and writes among them. `full`: no file can grow. `refuse`: names of calls on
    files that fail with EIO. `room`: what the disk says it has, if that is not to be asked of the machine.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.calls: Counter[str] = Counter()
        self.log: list[str] = []
        self.full = False
        self.room: Space | None = None
        self.refuse: set[str] = set()
        self._countdown: dict[str, int] = {}
        self._held: set[str] = set()
        self._changed = threading.Condition()

    def fail(self, call: str, nth: int = 1) -> None:
        """Let the n-th call of that name from now on fail with EIO, once."""
        self._countdown[call] = nth

    def hold(self, call: str) -> None:
        """Let every call of that name wait until `go_on`. `wait_for(f"held {call}", n)` returns when the n-th of them waits."""
        with self._changed:
            self._held.add(call)

    def go_on(self) -> None:
        """Let all that waits go on, and hold nothing any more."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def wait_for(self, call: str, count: int) -> None:
        """Wait until there were so many calls of that name; a test whose disk is never called fails."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls[call] >= count, timeout=60), f"no {call} number {count}"

    def create(self, path: Path) -> File:
        self.limits.check_free(path)
        return FakeFile(self, super().create(path))

    def open(self, path: Path) -> File:
        self.limits.check_free(path)
        return FakeFile(self, super().open(path))

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        return read_all(partial(self.limits.read, partial(super().read_part, path)), offset, size)

    def open_to_read(self, path: Path) -> OpenedFile:
        self.limits.check_free(path)
        file = super().open_to_read(path)
        return ReaderOf(self.limits, path, file)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.done("unlink")

    def space(self, folder: Path) -> Space:
        return self.room or super().space(folder)

    def enter(self, call: str, path: Path) -> None:
        """A call on a file begins."""
        if call in self._held:
            self.done(f"held {call}")
            with self._changed:
                assert self._changed.wait_for(lambda: call not in self._held, timeout=60), f"{call} was held for ever"
        left = self._countdown.get(call, 0)
        self._countdown[call] = left - 1
        if left == 1 or call in self.refuse:
            self.done(f"failed {call}")
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def done(self, call: str) -> None:
        """It succeeded, or, as `failed …`, it did not, or, as `held …`, it waits."""
        with self._changed:
            self.calls[call] += 1
            self.log.append(call)
            self._changed.notify_all()


class FakeFile:
    """A file of a `FakeDisk`."""

    def __init__(self, disk: FakeDisk, file: File) -> None:
        self.path = file.path
        self._disk = disk
        self._file = file
        self._size = 0 if not file.path.exists() else file.path.stat().st_size
        disk.limits.hold(self, file.path)

    def write_at(self, offset: int, parts: Sequence[Part]) -> None:
        self._disk.enter("write_at", self.path)
        self._grow(offset + sum(map(len, parts)))
        write_all(self._write, offset, parts, self.path)
        self._disk.done("write_at")

    def _write(self, parts: Sequence[Part], offset: int) -> int:
        data = self._disk.limits.written(parts, offset, self.path)
        self._file.write_at(offset, [data])
        return len(data)

    def datasync(self) -> None:
        self._disk.enter("datasync", self.path)
        self._file.datasync()
        self._disk.done("datasync")

    def allocate(self, size: int) -> None:
        self._disk.enter("allocate", self.path)
        self._disk.limits.check_size(size, self.path)
        self._grow(size)
        self._file.allocate(size)
        self._disk.done("allocate")

    def truncate(self, size: int) -> None:
        self._disk.enter("truncate", self.path)
        self._file.truncate(size)
        self._size = size

    def begin_writeback(self, offset: int, size: int) -> None:
        self._file.begin_writeback(offset, size)

    def close(self) -> None:
        self._disk.limits.release(self)
        self._file.close()

    def _grow(self, size: int) -> None:
        if size > self._size and self._disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size = max(self._size, size)


class ReaderOf(LimitedReader):
    """A file of a `FakeDisk` that is open for reading."""

    def __init__(self, limits: Limits, path: Path, file: OpenedFile) -> None:
        super().__init__(limits, path, file.read_at)
        self._file = file

    def close(self) -> None:
        super().close()
        self._file.close()


class FakeClock:
    """Time that stands still until the test moves it, and numbers that are the same in every run."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms
        self.seconds = 0.0
        self.drawn = 0

    def wall_ms(self) -> int:
        return self.ms

    def elapsed(self) -> float:
        return self.seconds

    def random_bits(self, bits: int) -> int:
        self.drawn += 1
        return 0x9E3779B97F4A7C15F39CC0605CEDC835 * self.drawn % (1 << bits)


def make_options(root: Path, disk: FakeDisk | None = None, clock: Clock | None = None, **given: Any) -> Options:
    """What `kvwal.open` makes of its arguments, with other ports; without an archive unless one is given."""
    ports: dict[str, Any] = {name: port for name, port in (("disk", disk), ("clock", clock)) if port is not None}
    wanted: dict[str, Any] = {
        "namespace": "default", "cluster": "local", "node": None, "archive": None, "flush": "sync",
        "storage_options": None, "settings": Settings(), "accept_clock": False, "progress": None,
        "descriptors": Descriptors(lambda: 1 << 20, lambda: 0),
    }  # fmt: skip
    return Options(root, **(wanted | ports | given))


def open_store(root: Path, disk: FakeDisk | None = None, clock: Clock | None = None, **given: Any) -> WritableStore:
    """`kvwal.open` with other ports."""
    return WritableStore(make_options(root, disk, clock, **given))


def open_aio(root: Path, disk: FakeDisk | None = None, clock: Clock | None = None, **given: Any) -> aio.Store:
    """`kvwal.aio.open` with other ports."""
    return aio.Store(make_options(root, disk, clock, **given))
