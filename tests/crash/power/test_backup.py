"""A backup that returned survives every power cut, with links and with copies, the ends of retired logs included."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from kvwal.history.restore.backup import backup
from kvwal.log.files.atomic_file import write_file
from tests.support.disk.cuts import PLACE, ROOT, AcknowledgedWrites, cuts, recovered
from tests.support.disk.lives import Life
from tests.support.disk.power import MemoryDisk

TARGET = Path("/backup")
END = Path("default/local/_retired/local/gone.snapshot")
SNAPSHOT = Path("default/local/c/local/00000000000000000001.snapshot")
"""The only file of its log, as after a take-over."""


class OtherDisk(MemoryDisk):
    """Links are not possible."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(new))


@pytest.mark.parametrize("kind", [MemoryDisk, OtherDisk])
def test_every_cut_after_a_backup(kind: type[MemoryDisk]) -> None:
    disk, told = kind(), AcknowledgedWrites()
    life = Life(disk, told)
    life.open()
    life.put(a=1)
    life.put(force=True, a="large" * 1000)
    life.put(a=1)
    life.rotate()
    life.put(b="large" * 1000)
    life.put(c=3)
    for path in (END, SNAPSHOT):
        disk.make_folders((ROOT / path).parent)
        write_file(disk, ROOT / path, [b"whole"])
    backup(disk, ROOT, TARGET)
    for image in cuts(disk, random.Random(0))[0]:
        left = MemoryDisk(image)
        assert [left.read(TARGET / path) for path in (END, SNAPSHOT)] == [b"whole"] * 2
        assert recovered(left, TARGET.joinpath(*PLACE)).values == {"a": 1, "b": "large" * 1000, "c": 3}
    life.close()
