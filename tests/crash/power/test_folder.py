"""Every power cut of what is done to the machine's own folders: an object is put into a local archive, a file of a log is
made. What the code asks of the operating system is followed on a disk that forgets.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kvwal.log.files.atomic_file import write_file
from kvwal.ports.disk import OS_DISK
from kvwal_archive.objects import open_objects
from tests.support.disk.cuts import after_changes, cuts
from tests.support.disk.durability import Image
from tests.support.disk.mirror import Mirror
from tests.support.disk.power import MemoryDisk

KEY = "default/local/b/n/object"
DATA = os.urandom(1300)


class Watched:
    """A mirror of `root`, and all that may have been left of it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root.mkdir()
        self.mirror = Mirror(root, monkeypatch)
        self.chance = random.Random(0)
        self.left: dict[int, Image] = {}
        after_changes(self.mirror.disk, lambda: self.left.update((image.key(), image) for image in self.now()))

    def now(self) -> list[Image]:
        """What may be left now."""
        return cuts(self.mirror.disk, self.chance)[0]


def test_an_object_is_whole_or_not_there_and_there_when_it_was_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path / "root", monkeypatch)
    archive = tmp_path / "root" / "archive"
    assert open_objects(str(archive)).put_if_absent(KEY, DATA)
    watched.mirror.look()
    there = [MemoryDisk(image).read(archive / KEY) for image in watched.left.values() if archive / KEY in image]
    assert set(there) == {DATA}
    assert len(there) < len(watched.left)
    assert all(MemoryDisk(image).read(archive / KEY) == DATA for image in watched.now())
    print(f"{len(watched.left)} states, in {len(there)} of which the object is there")


def test_an_object_that_a_killed_process_put_is_made_durable_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is there, and so are the folders; none of them was synced."""
    watched = Watched(tmp_path / "root", monkeypatch)
    archive = tmp_path / "root" / "archive"
    with monkeypatch.context() as killed:
        killed.setattr("kvwal_archive.objects.LocalObjects._sync_folders", lambda objects, path: None)
        assert open_objects(str(archive)).put_if_absent(KEY, DATA)
    watched.mirror.look()
    assert not all(archive / KEY in image for image in watched.now())
    assert not open_objects(str(archive)).put_if_absent(KEY, DATA)
    assert all(MemoryDisk(image).read(archive / KEY) == DATA for image in watched.now())


def test_an_atomic_write_leaves_the_old_file_or_the_new_one() -> None:
    disk, chance = MemoryDisk(), random.Random(0)
    path = Path("/disk/a/b.json")
    disk.make_folders(path.parent)
    write_file(disk, path, [b"old"])
    left: dict[int, Image] = {}
    after_changes(disk, lambda: left.update((image.key(), image) for image in cuts(disk, chance)[0]))
    write_file(disk, path, [DATA, b"!"])
    assert {MemoryDisk(image).read(path) for image in left.values()} == {b"old", DATA + b"!"}
    assert all(MemoryDisk(image).read(path) == DATA + b"!" for image in cuts(disk, chance)[0])


def test_the_disk_port_keeps_its_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path / "root", monkeypatch)
    folder = tmp_path / "root" / "a" / "b"
    OS_DISK.make_folders(folder)
    watched.mirror.look()
    assert all(str(folder) in image.folders for image in watched.now())
    file = OS_DISK.create(folder / "new.partial")
    file.allocate(4096)
    file.write_at(100, [DATA[:700], DATA[700:]])
    file.datasync()
    file.close()
    OS_DISK.rename(folder / "new.partial", folder / "new")
    OS_DISK.sync_folder(folder)
    for image in watched.now():
        disk = MemoryDisk(image)
        assert disk.names(folder) == ["new"]
        assert disk.read(folder / "new") == (bytes(100) + DATA).ljust(4096, b"\0")
    OS_DISK.unlink(folder / "new")
    OS_DISK.sync_folder(folder)
    watched.mirror.look()
    OS_DISK.sync_folder(folder)
    assert all(MemoryDisk(image).names(folder) == [] for image in watched.now())


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    real = os.pwritev

    def pwritev(fd: int, parts: list[bytes], offset: int) -> int:
        taken.append(real(fd, [b"".join(parts)[: 5 if not taken else 300]], offset))
        return taken[-1]

    monkeypatch.setattr(os, "pwritev", pwritev)
    file = OS_DISK.create(tmp_path / "file")
    file.write_at(10, [DATA[:3], DATA[3:3], DATA[3:100], DATA[100:]])
    file.close()
    assert (tmp_path / "file").read_bytes() == bytes(10) + DATA
    assert taken == [5, 300, 300, 300, 300, 95]


def test_a_disk_that_takes_no_bytes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, offset: 0)
    file = OS_DISK.create(tmp_path / "file")
    with pytest.raises(OSError, match="took no bytes"):
        file.write_at(0, [DATA])
    file.close()
