"""A disk in memory that forgets: what a power cut leaves is what was synced, and any part of what was not.

The model, and why it is this one:

- Bytes are durable after a `datasync` that returned. Of what was written since, each sector (`Limits.sector`) shows any of its
  versions, independent of the other sectors, files and names; the size of the file likewise. Sectors are what disks write
  whole; the kernel writes pages back in any order, and any number of times.
- A `datasync` that failed leaves its pages clean: Linux does not write them again. A later one that returns says nothing of
  them until they are written anew.
- Names are durable after `sync_folder` of their folder, those of new folders too. Of names changed since, each shows any of
  its versions, independent of the others. ext4 and XFS keep their order (one journal), which is among these states; btrfs,
  whose log holds single names, and a file system without a journal do not, and POSIX promises nothing.
- A rename never loses a file, in any of them. Within a folder it is one transaction of the journal: both halves or none.
  Between two folders the new name may be there before the old one is gone, never is neither; and a `sync_folder` says
  nothing of the other one's half: both are wanted, that of the new name first.
- A program that is killed loses nothing of this: what it wrote is seen by the next one, and may still be lost.

The lock file is not on it: nothing reads it after a crash.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from kvwal.ports.disk import Buffer, Lock, OsDisk, Space
from kvwal.ports.posix.vectored import read_all
from tests.support.disk.durability import (
    Choice,
    Content,
    Folder,
    Image,
    Left,
    Node,
    Renamed,
    has_change,
    settle,
    walk,
)
from tests.support.disk.handles import LimitedReader, MemoryFile, MemoryLock, OpenFolder
from tests.support.disk.limits import Limits

CALLS = ("create", "write_at", "datasync", "allocate", "truncate", "rename", "unlink", "make_folder", "sync_folder")
"""The calls that change something, and so may fail."""


class MemoryDisk:
    """See `kvwal.ports.disk.Disk`. `watch` is called after every change, on the thread that made it.

    `call` is the name of the last call that changes something. `fail` says which one fails; a `dead` disk fails all: for what
    is on it, as if the program had been killed.
    """

    def __init__(self, files: Image | dict[Path, bytes] | None = None, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.watch: Callable[[], None] = lambda: None
        self.call = ""
        self.dead = False
        self.failed = 0
        self._countdown: dict[str, tuple[int, int]] = {}
        self._number = 0
        self.renames: list[Renamed] = []
        self.root = Folder()
        if isinstance(files, Image):
            self._load(files)
        elif files:
            folders = {str(folder) for path in files for folder in path.parents}
            contents = [Left(len(data), data) for data in files.values()]
            self._load(Image(folders, {str(path): at for at, path in enumerate(files)}, contents))

    @property
    def seen(self) -> dict[Path, Content]:
        """Every file, as programs see it."""
        return {Path(path): node for path, node in walk(self.root, "") if isinstance(node, Content)}

    def fail(self, call: str, nth: int = 1, number: int = errno.EIO) -> None:
        """Let the n-th call of that name from now on fail with that errno, once."""
        self._countdown[call] = (nth, number)

    def happened(self) -> None:
        """Something changed."""
        self.watch()

    def power_cut(self, chance: random.Random) -> Image:
        """What one may leave, now."""
        cut = Cut(self)
        moods: dict[int, str] = {}
        picks = []
        for choice in cut.choices:
            mood = moods.setdefault(id(choice.node), chance.choice(["durable", "seen", "mixed", "mixed"]))
            last = len(choice.versions) - 1
            picks.append({"durable": 0, "seen": last}.get(mood, chance.randint(0, last)))
        return cut.image(picks)

    def create(self, path: Path) -> MemoryFile:
        self.enter("create", path)
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.limits.check_free(path)
        content = Content(sector=self.limits.sector)
        self._change(path, content)
        self.happened()
        return MemoryFile(self, path, content)

    def is_written(self, path: Path) -> bool:
        return False  # one process has the disk at a time

    def open(self, path: Path) -> MemoryFile:
        return MemoryFile(self, path, self._content(path))

    @contextmanager
    def view(self, path: Path) -> Iterator[Buffer]:
        yield self.read(path)

    def read(self, path: Path) -> bytes:
        return bytes(self._content(path).seen)

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        data = self.read(path)
        return read_all(partial(self.limits.read, lambda at, count: data[at : at + count]), offset, size)

    def open_to_read(self, path: Path) -> LimitedReader:
        content = self._content(path)
        return LimitedReader(self.limits, path, lambda at, count: bytes(content.seen[at : at + count]))

    def size(self, path: Path) -> int:
        return len(self._content(path).seen)

    def changed_ns(self, path: Path) -> int:
        """This disk keeps no times: of each file the next change may have the time of the last one."""
        self._content(path)
        return (1 << 63) - 1

    def links(self, path: Path) -> int:
        content = self._content(path)
        return sum(node is content for node in self.seen.values())

    def names(self, folder: Path) -> list[str]:
        found = self._find(folder)
        return sorted(found.seen) if isinstance(found, Folder) else []

    def exists(self, path: Path) -> bool:
        return self._find(path) is not None

    def is_folder(self, path: Path) -> bool:
        return isinstance(self._find(path), Folder)

    def make_folders(self, folder: Path) -> None:
        OsDisk.make_folders(cast(OsDisk, self), folder)

    def make_folder(self, folder: Path) -> None:
        """As `mkdir`."""
        self.enter("make_folder", folder)
        if self.exists(folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        self._change(folder, Folder())
        self.happened()

    def rename(self, old: Path, new: Path) -> None:
        self.enter("rename", new)
        node = self._find(old)
        if node is None:
            raise _missing(old)
        if self._find(new) is not node:
            arrival, departure = self._change(new, node), self._change(old, None)
            self.renames.append(
                Renamed(self._folder(old.parent), old.name, departure, self._folder(new.parent), new.name, arrival)
            )
        self.happened()

    def link(self, old: Path, new: Path) -> None:
        """A second name for a file."""
        self._change(new, self._content(old))
        self.happened()

    def unlink(self, path: Path) -> None:
        if self.exists(path):
            self.enter("unlink", path)
            self._change(path, None)
            self.happened()

    def remove_tree(self, folder: Path) -> None:
        for name in self.names(folder):
            if self.is_folder(folder / name):
                self.remove_tree(folder / name)
            else:
                self.unlink(folder / name)
        self.unlink(folder)

    def remove_folder(self, folder: Path) -> None:
        if not self.names(folder):
            self.unlink(folder)

    def sync_folder(self, folder: Path) -> None:
        self.enter("sync_folder", folder)
        found = self._folder(folder)
        self.renames = [rename for rename in self.renames if rename.new is not found]
        open_ended = {rename.old_name for rename in self.renames if rename.old is found}
        for name in found.names.keys() - open_ended:
            found.settle(name, self._number)
        self.happened()

    def open_folder(self, folder: Path) -> OpenFolder:
        return OpenFolder(self, folder, self.limits)

    def space(self, folder: Path) -> Space:
        return Space(1 << 41, 1 << 40)

    def lock(self, path: Path, note: str) -> Lock | str:
        return MemoryLock()

    def enter(self, call: str, path: Path) -> None:
        """A call that changes something begins, or fails."""
        self.call = call
        nth, number = self._countdown.get(call, (0, errno.EIO))
        self._countdown[call] = (nth - 1, number)
        if self.dead or nth == 1:
            self.failed += nth == 1
            raise OSError(number, os.strerror(number), str(path))

    def _load(self, image: Image) -> None:
        folders = {"": self.root, "/": self.root}
        for folder in sorted(image.folders - {"/"}):
            folders[folder] = Folder()
            settle(folders, folder, folders[folder])
        contents = [Content(left.data, left.size, self.limits.sector) for left in image.contents]
        for path, number in image.files.items():
            settle(folders, path, contents[number])

    def _find(self, path: Path) -> Node:
        node: Node = self.root
        for name in path.parts[1:]:
            node = node.seen.get(name) if isinstance(node, Folder) else None
        return node

    def _folder(self, path: Path) -> Folder:
        found = self._find(path)
        if not isinstance(found, Folder):
            raise _missing(path)
        return found

    def _content(self, path: Path) -> Content:
        found = self._find(path)
        if not isinstance(found, Content):
            raise _missing(path)
        return found

    def _change(self, path: Path, node: Node) -> int:
        self._number += 1
        self._folder(path.parent).change(self._number, path.name, node)
        return self._number


class Cut:
    """A power cut at one moment: all that it decides, and what is left then.

    Of each of its `choices` the first version is the durable one, the last what programs see. Made and used up before the
    disk changes again.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self._root = disk.root
        self._renames = disk.renames
        self.choices = list(_choices(disk.root))
        self._names = [at for at, choice in enumerate(self.choices) if isinstance(choice.node, Folder)]
        self._bytes: dict[int, list[int]] = {}
        for at, choice in enumerate(self.choices):
            if isinstance(choice.node, Content):
                self._bytes.setdefault(id(choice.node), []).append(at)
        self._walks: dict[tuple[int, ...], list[tuple[str, Node]]] = {}
        self._left: dict[tuple[int, ...], Left] = {}

    def image(self, picks: Sequence[int]) -> Image:
        """The disk that has version number `picks[n]` of choice `n`; a rename is mended to be whole."""
        image = Image({"/"}, {}, [])
        numbers: dict[int, int] = {}
        for path, node in self._walk(picks):
            if isinstance(node, Folder):
                image.folders.add(path)
                continue
            if id(node) not in numbers:
                numbers[id(node)] = len(image.contents)
                image.contents.append(self._content(node, picks))
            image.files[path] = numbers[id(node)]
        return image

    def _walk(self, picks: Sequence[int]) -> list[tuple[str, Node]]:
        key = tuple(picks[at] for at in self._names)
        if key not in self._walks:
            picked = {(id(self.choices[at].node), self.choices[at].place): picks[at] for at in self._names}
            self._mend(picked)
            names: dict[int, dict[str, Node]] = {}
            for at in self._names:
                folder, name, versions = self.choices[at]
                names.setdefault(id(folder), {})[name] = versions[picked[id(folder), name]].node
            self._walks[key] = list(walk(self._root, "", names))
        return self._walks[key]

    def _content(self, content: Content, picks: Sequence[int]) -> Left:
        mine = self._bytes.get(id(content), [])
        key = (id(content), *(picks[at] for at in mine))
        if key not in self._left:
            size, sectors = content.sizes[-1], {}
            for at in mine:
                version = self.choices[at].versions[picks[at]]
                if self.choices[at].place is None:
                    size = version
                else:
                    sectors[self.choices[at].place] = version
            self._left[key] = content.left(size, sectors)
        return self._left[key]

    def _mend(self, picked: dict[tuple[int, Any], int]) -> None:
        """Where a rename would be half done as none ever is, do the other half too."""
        mended = True
        while mended:
            mended = False
            for rename in self._renames:
                gone = has_change(rename.old, rename.old_name, rename.departure, picked)
                come = has_change(rename.new, rename.new_name, rename.arrival, picked)
                if gone and not come:
                    picked[id(rename.new), rename.new_name] = rename.new.since(rename.new_name, rename.arrival)
                    mended = True
                elif come and not gone and rename.old is rename.new:
                    picked[id(rename.old), rename.old_name] = rename.old.since(rename.old_name, rename.departure)
                    mended = True


def _choices(root: Folder) -> Iterator[Choice]:
    """All that a power cut decides of the files below `root`."""
    met: set[int] = set()
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, Content):
            if len(node.sizes) > 1:
                yield Choice(node, None, node.sizes)
            yield from (Choice(node, sector, versions) for sector, versions in node.sectors.items())
            continue
        yield from (Choice(node, name, versions) for name, versions in node.names.items())
        waiting += node.durable.values()
        waiting += [version.node for versions in node.names.values() for version in versions if version.node]


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
