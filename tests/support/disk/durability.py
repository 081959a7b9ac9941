"""What a power cut may leave of bytes and of names, each apart (the model stands in `tests.support.disk.power`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.disk.limits import SECTOR


class Left(NamedTuple):
    """What is left of a file: `data`, and zeros up to `size`."""

    size: int
    data: bytes


class Content:
    """The bytes of a file: `seen` by programs, and what the disk may have of them."""

    def __init__(self, data: bytes = b"", size: int = 0, sector: int = SECTOR) -> None:
        """`data`, and zeros up to `size`. The disk writes whole sectors of `sector` bytes."""
        self._sector = sector
        self.seen = bytearray(data.ljust(size, b"\0"))
        self.sizes = [len(self.seen)]
        self.sectors: dict[int, list[bytes]] = {}
        self._durable = bytearray(data)
        self._dirty: set[int] = set()
        self._size_dirty = False

    def write(self, offset: int, data: bytes) -> None:
        self.extend(offset)
        self.seen[offset : offset + len(data)] = data
        self._resized()
        self._changed(offset, offset + len(data))

    def extend(self, size: int) -> None:
        """Zeros up to `size`, also where there was something before a `cut`."""
        have = len(self.seen)
        if size > have:
            self.seen.extend(bytes(size - have))
            self._resized()
            self._changed(have, min(size, max(len(self._durable), self._sector * (1 + max(self.sectors, default=0)))))

    def cut(self, size: int) -> None:
        del self.seen[size:]
        self._resized()

    def sync(self) -> None:
        for sector in self._dirty:
            start = sector * self._sector
            self._durable.extend(bytes(max(0, start - len(self._durable))))
            self._durable[start : start + self._sector] = self.seen[start : start + self._sector].ljust(
                self._sector, b"\0"
            )
            self.sectors.pop(sector, None)
        if self._size_dirty:
            self.sizes = self.sizes[-1:]
        self.forget()

    def forget(self) -> None:
        """The kernel takes its pages for written."""
        self._dirty.clear()
        self._size_dirty = False

    def left(self, size: int, sectors: dict[int, bytes]) -> Left:
        """What a power cut leaves: so many bytes, with these versions of the sectors that are not settled."""
        data = self._durable[:size]
        for sector, version in sectors.items():
            data.extend(bytes(max(0, sector * self._sector - len(data))))
            data[sector * self._sector : (sector + 1) * self._sector] = version
        return Left(size, bytes(data[:size]).rstrip(b"\0"))

    def _resized(self) -> None:
        if len(self.seen) != self.sizes[-1]:
            self.sizes.append(len(self.seen))
            self._size_dirty = True

    def _changed(self, start: int, end: int) -> None:
        for sector in range(start // self._sector, -(-end // self._sector)):
            place = slice(sector * self._sector, (sector + 1) * self._sector)
            now = bytes(self.seen[place]).ljust(self._sector, b"\0")
            before = self.sectors.get(sector) or [bytes(self._durable[place]).ljust(self._sector, b"\0")]
            self._dirty.add(sector)
            if now != before[-1]:
                self.sectors[sector] = [version for version in before if version != now] + [now]


Node = Any
"""A `Content` or a `Folder`."""


class Version(NamedTuple):
    """What a name stood for (None: nothing), since change number `since`."""

    since: int
    node: Node


class Folder:
    """Names: `seen` by programs, and of those that are not settled the versions, the durable one first."""

    def __init__(self) -> None:
        self.seen: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.names: dict[str, list[Version]] = {}

    def change(self, number: int, name: str, node: Node) -> None:
        """`node` None takes the name away."""
        self.names.setdefault(name, [Version(0, self.durable.get(name))]).append(Version(number, node))
        put_name(self.seen, name, node)

    def since(self, name: str, change: int) -> int:
        """The first version of a name that is not older than a change."""
        return next(at for at, version in enumerate(self.names[name]) if version.since >= change)

    def settle(self, name: str, least: int) -> None:
        """What came before change number `least` will not be seen again."""
        versions = self.names.get(name)
        if versions is None:
            return
        first = max(at for at, version in enumerate(versions) if version.since <= least)
        put_name(self.durable, name, versions[first].node)
        self.names[name] = versions[first:]
        if len(self.names[name]) == 1:
            del self.names[name]


def put_name(names: dict[str, Node], name: str, node: Node) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


class Renamed(NamedTuple):
    """A rename that is not settled: change number `arrival` of one name, `departure` of another."""

    old: Folder
    old_name: str
    departure: int
    new: Folder
    new_name: str
    arrival: int


class Image:
    """A disk after a power cut: its folders, and its files by number, as two names may stand for one file."""

    def __init__(self, folders: set[str], files: dict[str, int], contents: list[Left]) -> None:
        self.folders = folders
        self.files = files
        self.contents = contents

    def key(self) -> int:
        """The same for the same disk."""
        names: dict[int, list[str]] = {}
        for path, number in self.files.items():
            names.setdefault(number, []).append(path)
        files = ((frozenset(paths), self.contents[number]) for number, paths in names.items())
        return hash((frozenset(self.folders), frozenset(files)))

    def __contains__(self, path: Path) -> bool:
        return str(path) in self.files

    def __repr__(self) -> str:
        lengths = {path: (len(self.contents[n].data), self.contents[n].size) for path, n in self.files.items()}
        return ", ".join(f"{path} {data}/{size}" for path, (data, size) in sorted(lengths.items())) or "nothing"


class Choice(NamedTuple):
    """Something a power cut decides: which of `versions` is left of a sector, of a size (`place` None), or of a name."""

    node: Node
    place: Any
    versions: Sequence[Any]


def settle(folders: dict[str, Folder], path: str, node: Node) -> None:
    above, _, name = path.rpartition("/")
    folders[above].seen[name] = folders[above].durable[name] = node


def walk(folder: Folder, path: str, names: dict[int, dict[str, Node]] | None = None) -> Iterator[tuple[str, Node]]:
    """All that is below a folder: as seen, or as it is durable with these `names` of these folders instead."""
    below = folder.seen if names is None else folder.durable | names.get(id(folder), {})
    for name, node in below.items():
        if node is not None:
            yield f"{path}/{name}", node
            if isinstance(node, Folder):
                yield from walk(node, f"{path}/{name}", names)


def has_change(folder: Folder, name: str, change: int, picked: dict[tuple[int, Any], int]) -> bool:
    """Whether a change of a name, or a later one, is among what was picked; a settled name has it."""
    pick = picked.get((id(folder), name))
    return pick is None or folder.names[name][pick].since >= change
