"""Every power cut of a restore, a take-over and a repair: the new folder has its name and is whole, or it is made again."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kvwal.history.restore.restore import STAGE, RestorePorts, restore_through
from kvwal.log.files.names import log_folder
from kvwal.log.reader import entry_decoder
from kvwal.scrub.repair import look, repair
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import register
from tests.support.disk.cuts import PLACE, ROOT, AcknowledgedWrites, Model, after_changes, cuts, recovered
from tests.support.disk.durability import Image
from tests.support.disk.faults import FakeClock
from tests.support.disk.lives import DRAWS, Life
from tests.support.disk.power import MemoryDisk

VALUES: Model = {"a": 2, "b": "long " * 200}
EMPTY = Place("default", "local", "empty", "local")


def written(archive: Path | None = None) -> MemoryDisk:
    """A log with two segments, archived if there is an archive."""
    disk = MemoryDisk()
    life = Life(disk, AcknowledgedWrites(), archive=archive)
    life.open()
    life.put(a=1, c=1)
    life.rotate()
    life.put(**VALUES, c=None)
    life.close()
    return disk


class Making:
    """A folder that `make` makes on an empty disk, and what may be left of the disk at each moment; `archive` is what it is
    made from, as it is at that moment. `whole` looks whether all is there, and what.
    """

    def __init__(self, make: Callable[[MemoryDisk, Path, int], None], archive: Path, target: Path) -> None:
        self.make = make
        self.archive = archive
        self.target = str(target)
        self.left: dict[tuple[int, int], tuple[Image, Path]] = {}
        self.copies: dict[int, Path] = {}

    def run(self) -> list[Image]:
        """Make it, and return what may be left when it has been made."""
        disk, chance = MemoryDisk(), random.Random(0)

        def add() -> None:
            listed, copy = self._copied()
            for image in cuts(disk, chance)[0]:
                self.left.setdefault((image.key(), listed), (image, copy))

        after_changes(disk, add)
        self.make(disk, self.archive, 1)
        return cuts(disk, chance)[0]

    def _copied(self) -> tuple[int, Path]:
        listed = hash(tuple(sorted(self.archive.rglob("*"))))
        if listed not in self.copies:
            self.copies[listed] = self.archive.with_name(f"as-of-{len(self.copies)}")
            shutil.copytree(self.archive, self.copies[listed])
        return listed, self.copies[listed]

    def check(self, whole: Callable[[MemoryDisk], None]) -> None:
        """In each of these states it is whole, or it can be made again."""
        made = 0
        for number, (image, copy) in enumerate(self.left.values(), 2):
            disk = MemoryDisk(image)
            if self.target in image.folders:
                made += 1
            else:
                scratch = copy.with_name("scratch")
                shutil.copytree(copy, scratch)
                self.make(disk, scratch, number)
                shutil.rmtree(scratch)
            whole(disk)
        assert 0 < made < len(self.left)
        print(f"{len(self.left)} states, in {made} of which the folder has its name")


def read(disk: MemoryDisk, place: Place) -> Model:
    """What a log holds."""
    return recovered(disk, log_folder(ROOT, place)).values


@pytest.mark.parametrize("take_over", [False, True], ids=["restore", "take-over"])
def test_every_cut_of_a_restore(take_over: bool, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    written(archive)
    register(open_objects(str(archive)), EMPTY, "f" * 32)
    node = "local" if take_over else "restored"

    def restore(disk: MemoryDisk, archive: Path, number: int) -> None:
        clock = FakeClock()
        clock.drawn = number * DRAWS
        restore_through(
            RestorePorts(disk, clock), archive, ROOT, namespace="default", cluster="local", node=node, at=None,
            take_over=take_over, storage_options=None, progress=None,
        )  # fmt: skip

    def whole(disk: MemoryDisk) -> None:
        assert read(disk, PLACE._replace(node=node)) == VALUES
        assert read(disk, EMPTY._replace(node=node)) == {}

    making = Making(restore, archive, ROOT / "default" / "local")
    for image in making.run():
        assert f"{ROOT}/{STAGE}" not in image.folders
        whole(MemoryDisk(image))
    making.check(whole)


def test_every_cut_of_a_repair(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    found = look(RestorePorts(written(), FakeClock()), ROOT, PLACE, None, entry_decoder())

    def mend(disk: MemoryDisk, archive: Path, number: int) -> None:
        repair(RestorePorts(disk, FakeClock()), ROOT, [found], None, take_over=False)

    def whole(disk: MemoryDisk) -> None:
        assert read(disk, PLACE) == VALUES

    making = Making(mend, tmp_path / "archive", ROOT / "default" / "local")
    for image in making.run():
        assert MemoryDisk(image).names(ROOT) == ["default"]
        whole(MemoryDisk(image))
    making.check(whole)
