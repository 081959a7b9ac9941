"""The machine's disk as one process sees it: every call may give way to others, fail, or be the last one."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.ports.disk import Buffer, File, Folder, Lock, Space
from tests.support.disk.power import MemoryDisk, OpenFolder

if TYPE_CHECKING:
    from tests.simulation.world import Process, World

ROOMY = 1 << 40
CHANGES = ("create", "allocate", "write_at", "datasync", "truncate", "rename", "unlink", "sync_folder")
"""Calls whose failure or last moment matters most."""


class Machine:
    """The one disk of all processes. `capacity` is its size in bytes; `locks` are held by whom."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = MemoryDisk()
        self.capacity = ROOMY
        self.locks: dict[Path, Process] = {}

    @property
    def used(self) -> int:
        return sum(len(content.seen) for content in self.memory.seen.values())

    def cut_power(self, chance: random.Random) -> None:
        self.memory = MemoryDisk(self.memory.power_cut(chance))

    def replace_disk(self) -> None:
        """Another, empty disk stands where the old one was lost."""
        self.memory = MemoryDisk()

    def release_locks(self, process: Process) -> None:
        self.locks = {path: holder for path, holder in self.locks.items() if holder is not process}

    def check_room(self, growth: int, path: Path) -> None:
        if growth > 0 and self.capacity < ROOMY and self.used + growth > self.capacity:
            self.world.met("disk full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class ProcessDisk:
    """See `kvwal.ports.disk.Disk`. `fail` says which coming call of a name fails, and how."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self.machine = machine
        self.process = process
        self.chance = machine.world.chance(process.name)
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, tuple[int, int]] = {}

    def create(self, path: Path) -> File:
        self.enter("create", path)
        return ProcessFile(self, self._memory.create(path))

    def open(self, path: Path) -> File:
        self.enter("open", path)
        return ProcessFile(self, self._memory.open(path))

    @contextmanager
    def view(self, path: Path) -> Iterator[Buffer]:
        self.enter("view", path)
        with self._memory.view(path) as buffer:
            yield buffer

    def read(self, path: Path) -> bytes:
        self.enter("read", path)
        return self._memory.read(path)

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        self.enter("read", path)
        return self._memory.read_part(path, offset, size)

    def size(self, path: Path) -> int:
        self.process.check_alive()
        return self._memory.size(path)

    def names(self, folder: Path) -> list[str]:
        self.enter("names", folder)
        return self._memory.names(folder)

    def exists(self, path: Path) -> bool:
        self.process.check_alive()
        return self._memory.exists(path)

    def is_folder(self, path: Path) -> bool:
        self.process.check_alive()
        return self._memory.is_folder(path)

    def make_folders(self, folder: Path) -> None:
        self.enter("make_folders", folder)
        self._memory.make_folders(folder)

    def rename(self, old: Path, new: Path) -> None:
        self.enter("rename", new)
        self._memory.rename(old, new)

    def unlink(self, path: Path) -> None:
        self.enter("unlink", path)
        self._memory.unlink(path)

    def remove_tree(self, folder: Path) -> None:
        self.enter("remove_tree", folder)
        self._memory.remove_tree(folder)

    def remove_folder(self, folder: Path) -> None:
        self.enter("remove_folder", folder)
        self._memory.remove_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        self.enter("sync_folder", folder)
        self._memory.sync_folder(folder)

    def open_folder(self, folder: Path) -> Folder:
        self.process.check_alive()
        return OpenFolder(self, folder)

    def space(self, folder: Path) -> Space:
        self.process.check_alive()
        return Space(self.machine.capacity, max(0, self.machine.capacity - self.machine.used))

    def lock(self, path: Path, note: str, table: Path) -> Lock | str:
        self.enter("lock", path)
        holder = self.machine.locks.get(path)
        if holder is not None:
            return f"{holder.name} of the simulation"
        self.machine.locks[path] = self.process
        return HeldLock(self, path)

    def enter(self, call: str, path: Path, half_done: Callable[[], None] = lambda: None) -> None:
        """A call begins: others may go first, and it may be the one that fails, or the last one of this process.

        `half_done` does what such a call may do before it fails.
        """
        self.process.check_alive()
        self.machine.world.give_way()
        self.machine.world.happened(call, path)
        self.process.step(half_done)
        self._perhaps_fail(call, path, half_done)

    def _perhaps_fail(self, call: str, path: Path, half_done: Callable[[], None]) -> None:
        self.calls[call] += 1
        nth, number = self.fail.get(call, (0, 0))
        if nth and self.calls[call] == nth:
            self.machine.world.met(f"{call} failed")
            half_done()
            raise OSError(number, os.strerror(number), str(path))

    def fail_soon(self, call: str, nth: int, number: int) -> None:
        """Let the n-th call of that name from now on fail with that errno, once."""
        self.fail[call] = (self.calls[call] + nth, number)

    @property
    def _memory(self) -> MemoryDisk:
        return self.machine.memory


class ProcessFile:
    """A file of a `ProcessDisk`. It belongs to the disk it was opened on: a power cut leaves nobody who holds it."""

    def __init__(self, disk: ProcessDisk, file: File) -> None:
        self.path = file.path
        self._disk = disk
        self._file = file
        self._size = disk.machine.memory.size(file.path)

    def write_at(self, offset: int, parts: Sequence[bytes]) -> None:
        data = b"".join(parts)

        def half_done() -> None:
            self._file.write_at(offset, [data[: self._disk.chance.randint(0, len(data))]])

        self._disk.enter("write_at", self.path, half_done)
        self._grow(offset + len(data))
        self._file.write_at(offset, [data])

    def datasync(self) -> None:
        self._disk.enter("datasync", self.path)
        self._file.datasync()

    def allocate(self, size: int) -> None:
        self._disk.enter("allocate", self.path)
        self._grow(size)
        self._file.allocate(size)

    def truncate(self, size: int) -> None:
        self._disk.enter("truncate", self.path)
        self._file.truncate(size)
        self._size = size

    def close(self) -> None:
        self._file.close()

    def _grow(self, size: int) -> None:
        self._disk.machine.check_room(size - self._size, self.path)
        self._size = max(self._size, size)


class HeldLock:
    """A lock that its process holds until it lets go or ends."""

    def __init__(self, disk: ProcessDisk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        locks = self._disk.machine.locks
        if locks.get(self._path) is self._disk.process:
            del locks[self._path]
