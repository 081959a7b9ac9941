"""What this process does below a folder of the machine, done again on a disk that forgets: for code that takes no disk port.

Syncs, links and renames are followed as they happen; what else changed is found by looking, before and after each.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.disk.durability import Content, Image
from tests.support.disk.power import MemoryDisk


class Mirror:
    """`disk` has what is below `root`, which is durable."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.disk = MemoryDisk(Image({str(folder) for folder in (root, *root.parents)}, {}, []))
        self._contents: dict[int, Content] = {}
        self._real = {name: getattr(os, name) for name in ("fsync", "fdatasync", "link", "replace")}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, lambda fd, name=name: self._sync(name, fd))
        for name in ("link", "replace"):
            monkeypatch.setattr(os, name, lambda old, new, name=name: self._named(name, Path(old), Path(new)))

    def look(self) -> None:
        """Follow what changed since."""
        there = {path: path.stat() for path in sorted(self.root.rglob("*"))}
        for path, stat in there.items():
            if path.is_dir():
                if not self.disk.exists(path):
                    self.disk.make_folder(path)
            else:
                self._follow(path, stat.st_ino)
        for path in self.disk.seen:
            if path not in there and self.root in path.parents:
                self.disk.unlink(path)

    def _follow(self, path: Path, inode: int) -> None:
        known = self.disk.seen.get(path)
        if known is None or self._contents.get(inode) is not known:
            self.disk.unlink(path)
            self.disk.create(path)
            self._contents[inode] = self.disk.seen[path]
        data = path.read_bytes()
        if data != self.disk.read(path):
            file = self.disk.open(path)
            file.write_at(0, [data])
            file.truncate(len(data))

    def _sync(self, name: str, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.look()
        self._real[name](fd)
        if path.is_dir():
            if self.disk.is_folder(path):
                self.disk.sync_folder(path)
        elif self.disk.exists(path):
            self.disk.open(path).datasync()

    def _named(self, name: str, old: Path, new: Path) -> Any:
        self.look()
        self._real[name](old, new)
        if name == "link":
            self.disk.link(old, new)
        else:
            self.disk.rename(old, new)
