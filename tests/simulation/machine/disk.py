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

from kvwal.content.claim import is_claim_file
from kvwal.ports.disk import Buffer, File, Folder, Lock, OpenedFile, Space
from kvwal.ports.posix.vectored import Part
from tests.support.disk.durability import Image
from tests.support.disk.handles import OpenFolder
from tests.support.disk.limits import Limits
from tests.support.disk.power import MemoryDisk

if TYPE_CHECKING:
    from tests.simulation.world import Process, World

ROOMY = 1 << 40
ROOT = Path("/disk")
"""The folder of the store."""
NODE = "n"
"""The name of the node whose log is there."""
CHANGES = ("create", "allocate", "write_at", "datasync", "truncate", "rename", "unlink", "sync_folder")
"""Calls whose failure or last moment matters most."""


class Machine:
    """The one disk of all processes. `capacity` is its size in bytes; `locks` has the holder of each lock,
    `writers` the process that has a file open which it created.
    """

    def __init__(self, world: World) -> None:
        """The limits of the disk, its sectors and its short writes, are drawn by the seed."""
        self.world = world
        chance = world.chance("limits of the disk")
        self._sector, self._short_every = chance.choice((512, 4096)), chance.choice((1, 3, 10))
        self.memory = self._disk()
        self.capacity = ROOMY
        self.locks: dict[Path, Process] = {}
        self.writers: dict[Path, Process] = {}

    @property
    def used(self) -> int:
        return sum(len(content.seen) for content in self.memory.seen.values())

    def cut_power(self, chance: random.Random) -> None:
        self.memory = self._disk(self.memory.power_cut(chance))

    def replace_disk(self) -> None:
        """Another, empty disk stands where the old one was lost."""
        self.memory = self._disk()

    def _disk(self, image: Image | None = None) -> MemoryDisk:
        """Files that killed processes held open count for nobody: each process has a limit of its own."""
        limits = Limits(sector=self._sector, short_every=self._short_every, open_files=1 << 30)
        return SharedDisk(image, limits, self.is_written)

    def is_written(self, path: Path) -> bool:
        """Whether a living process writes a file that it created."""
        writer = self.writers.get(path)
        return writer is not None and writer.alive

    def release_locks(self, process: Process) -> None:
        self.locks = {path: holder for path, holder in self.locks.items() if holder is not process}

    def check_room(self, growth: int, path: Path) -> None:
        if growth > 0 and self.capacity < ROOMY and self.used + growth > self.capacity:
            self.world.met("disk full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class SharedDisk(MemoryDisk):
    """The disk of a machine with several processes."""

    def __init__(self, image: Image | None, limits: Limits, is_written: Callable[[Path], bool]) -> None:
        super().__init__(image, limits)
        self.is_written = is_written  # type: ignore[method-assign]


class ProcessDisk:
    """See `kvwal.ports.disk.Disk`. `fail` says which coming call of a name fails, and how."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self.machine = machine
        self.process = process
        self.chance = machine.world.chance(process.name)
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, tuple[int, int]] = {}
        self.misread_at = 0
        self.limits = Limits()

    def create(self, path: Path) -> File:
        self.enter("create", path)
        self.limits.check_free(path)
        file = ProcessFile(self, self._memory.create(path))
        self.machine.writers[path] = self.process
        return file

    def is_written(self, path: Path) -> bool:
        self.process.check_alive()
        return self.machine.is_written(path)

    def open(self, path: Path) -> File:
        self.enter("open", path)
        self.limits.check_free(path)
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

    def open_to_read(self, path: Path) -> OpenedFile:
        self.enter("open", path)
        file = self._memory.open_to_read(path)
        return ClaimFileReader(self, path, file) if is_claim_file(path.name) else file

    def size(self, path: Path) -> int:
        self.process.check_alive()
        return self._memory.size(path)

    def changed_ns(self, path: Path) -> int:
        self.process.check_alive()
        return self._memory.changed_ns(path)

    def links(self, path: Path) -> int:
        self.process.check_alive()
        return self._memory.links(path)

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

    def link(self, old: Path, new: Path) -> None:
        self.enter("link", new)
        self._memory.link(old, new)

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
        return OpenFolder(self, folder, self.limits)

    def space(self, folder: Path) -> Space:
        self.process.check_alive()
        return Space(self.machine.capacity, max(0, self.machine.capacity - self.machine.used))

    def lock(self, path: Path, note: str) -> Lock | str:
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

    def misread_soon(self, nth: int) -> None:
        """Let the n-th read of a claim file from now on give other bytes, once."""
        self.misread_at = self.calls["read_at"] + nth

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
        disk.limits.hold(self, file.path)

    def write_at(self, offset: int, parts: Sequence[Part]) -> None:
        data = b"".join(parts)

        def half_done() -> None:
            self._file.write_at(offset, [data[: self._disk.chance.randint(0, len(data))]])

        self._disk.enter("write_at", self.path, half_done)
        self._grow(offset + len(data))
        self._file.write_at(offset, parts)

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

    def begin_writeback(self, offset: int, size: int) -> None:
        self._file.begin_writeback(offset, size)

    def close(self) -> None:
        self._disk.machine.writers.pop(self.path, None)
        self._disk.limits.release(self)
        self._file.close()

    def _grow(self, size: int) -> None:
        self._disk.machine.check_room(size - self._size, self.path)
        self._size = max(self._size, size)


class ClaimFileReader:
    """A claim file that is open for reading: what is read later may be gone from its folder by then."""

    def __init__(self, disk: ProcessDisk, path: Path, file: OpenedFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def read_at(self, offset: int, size: int) -> bytes:
        disk = self._disk
        disk.enter("read_at", self._path)
        data = self._file.read_at(offset, size)
        if disk.calls["read_at"] != disk.misread_at or not data:
            return data
        disk.machine.world.met("a disk gave other bytes of a claim file")
        disk.machine.world.misread.add(self._path.name)
        return bytes([data[0] ^ 1]) + data[1:]

    def close(self) -> None:
        self._file.close()


class HeldLock:
    """A lock that its process holds until it lets go or ends."""

    def __init__(self, disk: ProcessDisk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def in_place(self) -> bool:
        self._disk.process.check_alive()
        return self._disk.exists(self._path.parent)

    def release(self) -> None:
        locks = self._disk.machine.locks
        if locks.get(self._path) is self._disk.process:
            del locks[self._path]
