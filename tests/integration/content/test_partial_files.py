"""A claim file that is being written, beside a checkpoint that collects what killed processes left."""

from __future__ import annotations

from pathlib import Path

from kvwal.content.files import ContentFiles
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, OsDisk
from kvwal.ports.space import DiskSpace


class CollectedAtRename(OsDisk):
    """A disk on which a checkpoint lists the candidates at the moment before a file gets its name."""

    files: ContentFiles

    def rename(self, old: Path, new: Path) -> None:
        assert self.files.candidates() == []
        super().rename(old, new)


def test_a_file_that_is_about_to_get_its_name_is_not_taken_for_abandoned(tmp_path: Path) -> None:
    disk = CollectedAtRename()
    disk.files = files = ContentFiles(disk, SYSTEM, DiskSpace(OS_DISK, tmp_path, 0), tmp_path, lambda call: False)
    own = files.own_file()
    own.add(b"bytes")
    own.finish()
    assert OS_DISK.read(tmp_path / "content" / own.name[:2] / own.name) == b"bytes"
    assert files.candidates() == [], "nothing is logged yet"
    files.settled(own.name)
    assert files.candidates() == [own.name]
