"""Every power cut of scripts that put, copy, replace and delete contents: each name that is found has all of its bytes."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvwal.config import Flush
from kvwal.content import files, own_file, shared, writer
from kvwal.content.claim import Claim, claim_of
from kvwal.content.files import ContentFiles
from kvwal.content.transfer import give_claim_files, link_or_copy
from kvwal.structures.content.content import Contents
from tests.support.disk.cuts import FOLDER, AcknowledgedWrites, Cuts, Found, Waiting, claimed_bytes
from tests.support.disk.durability import Image
from tests.support.disk.lives import Life
from tests.support.disk.power import Cut, MemoryDisk

SMALL, LARGE = b"small" * 30, b"large" * 300
"""One goes into a shared claim file, the other one into a file of its own."""


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is megabytes elsewhere is some sectors here, so that all cuts can be tried."""
    for module in (files, writer):
        monkeypatch.setattr(module, "SHARED_BYTES", 1000)
    monkeypatch.setattr(writer, "STEP_BYTES", 700)
    monkeypatch.setattr(shared, "FILE_BYTES", 300)
    monkeypatch.setattr(shared, "_LEAST_AHEAD", 512)
    monkeypatch.setattr(own_file, "_MOST_AHEAD", 512)


class ContentCuts(Cuts):
    """As `Cuts`, of disks with contents: what is found under their names are their bytes, which must all be there."""

    def _recover(self, image: Image, moment: str, waiting: Waiting) -> Found:
        again: Waiting = deque()
        found = super()._recover(image, moment, again)
        disk = MemoryDisk(image)
        for name, value in found.values.items():
            if isinstance(value, dict):
                found.values[name] = claimed_bytes(disk, FOLDER, Claim(**value))
        waiting.extend(again)
        return found


class ContentLife(Life):
    """A `Life` of contents, and of a map beside them."""

    c: Contents

    def open(self) -> None:
        self.b = self.store.map("b")
        self.c = self.store.content("b")
        self.told.take(self._all())
        self._moment()

    def change(self, call: Callable[[], Any], **values: bytes | str | None) -> None:
        """A call that makes these values, None for absent, of what there is."""
        state = {key: value for key, value in (self.told.states[-1] | values).items() if value is not None}
        self.told.begin(state)
        call()
        assert self._all() == state
        self._moment(durable=self.flush == "sync")

    def content(self, name: str, data: bytes) -> None:
        self.change(lambda: self.c.put(name, data), **{name: data})

    def files(self) -> ContentFiles:
        return self.store._engine.businesses["b"].contents.files

    def _all(self) -> dict[Any, Any]:
        return dict(self.b) | {name: self.c.get(name) for name in self.c}


def puts(life: ContentLife) -> None:
    life.content("a", SMALL)
    life.content("b", LARGE)
    life.content("a", LARGE[1:])
    life.content("c", b"")
    life.change(lambda: life.c.delete("b"), b=None)


def shares(life: ContentLife) -> None:
    """Several contents in one file, and then another file."""
    for name in "abc":
        life.content(name, SMALL)
    life.files().seal()
    life.content("d", SMALL)


def copies(life: ContentLife) -> None:
    life.content("a", SMALL)
    life.change(lambda: life.c.copy("a", "b"), b=SMALL)
    life.change(lambda: life.c.delete("a"), a=None)
    life.change(lambda: life.c.set_attributes("b", {"codec": "none"}))


def transacts(life: ContentLife) -> None:
    """A transaction of contents and a map: all of it, or nothing."""

    def block() -> None:
        with life.store.business("b").transaction() as t:
            t.content().put("a", SMALL)
            t.content().put("b", LARGE)
            t.map()["m"] = "last"
            t.content().copy("b", "c")
            t.content().delete("d")

    life.content("d", SMALL)
    life.change(block, a=SMALL, b=LARGE, c=LARGE, m="last", d=None)


def cleans(life: ContentLife) -> None:
    """What nothing names goes with a checkpoint, and what is named stays."""
    life.content("a", LARGE)
    life.content("b", SMALL)
    life.content("a", LARGE[5:])
    life.change(lambda: life.c.copy("a", "c"), c=LARGE[5:])
    for _ in range(2):
        life.checkpoint()
    life.change(lambda: life.c.delete("b"), b=None)
    for _ in range(3):
        life.checkpoint()
    named = _named_files(life)
    there = {path.name for path in life.disk.seen if "content" in path.parts}
    assert there <= named | set(life.files()._unsettled), "bytes without a name"


def _named_files(life: ContentLife) -> set[str]:
    return {claim_of(entry).file for name in life.c if (entry := life.c.entry(name)) is not None}


SCRIPTS: list[tuple[Callable[[ContentLife], None], Flush]] = [
    (puts, "sync"),
    (shares, "sync"),
    (copies, "sync"),
    (copies, "os"),
    (transacts, "sync"),
    (cleans, "sync"),
]


@pytest.mark.long
@pytest.mark.parametrize(("script", "flush"), SCRIPTS, ids=lambda given: getattr(given, "__name__", str(given)[:8]))
def test_every_cut_of_a_script_with_contents(script: Callable[[ContentLife], None], flush: Flush) -> None:
    told, disk = AcknowledgedWrites(), MemoryDisk()
    cuts = ContentCuts(told)
    cuts.watch(disk)
    for number in (1, 2):
        life = ContentLife(disk, told, number=number, flush=flush, cuts=cuts)
        life.open()
        script(life)
        life.close()
    print(cuts.check())


def test_a_file_that_is_sealed_is_on_the_disk_as_it_is() -> None:
    """What is archived then has the size that the file has after a power cut."""
    disk = MemoryDisk()
    life = ContentLife(disk, AcknowledgedWrites())
    life.open()
    life.content("a", SMALL)
    life.files().seal()
    sealed = [content for path, content in disk.seen.items() if "content" in path.parts]
    assert [choice for choice in Cut(disk).choices if choice.node in sealed] == []
    life.close()


def test_a_copy_outside_is_on_the_disk_when_the_export_returns() -> None:
    disk = MemoryDisk()
    life = ContentLife(disk, AcknowledgedWrites())
    life.open()
    life.content("a", LARGE)
    folder = Path("/elsewhere")
    disk.make_folders(folder)
    life.c.export("a", folder / "a")
    exported = disk.seen[folder / "a"]
    assert [choice for choice in Cut(disk).choices if choice.node in (exported, disk._folder(folder))] == []
    assert disk.read(folder / "a") == LARGE
    life.close()


class OtherDisk(MemoryDisk):
    """Links are not possible."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(new))


@pytest.mark.parametrize("kind", [MemoryDisk, OtherDisk])
def test_claim_files_that_another_folder_was_given_are_on_the_disk(kind: type[MemoryDisk]) -> None:
    disk, target = kind(), Path("/other")
    life = ContentLife(disk, AcknowledgedWrites())
    life.open()
    life.content("a", SMALL)
    life.content("b", LARGE)
    life.files().seal()
    life.close()
    disk.make_folders(target)
    give_claim_files(disk, FOLDER, target, link_or_copy(disk))
    given = {path for path in disk.seen if target in path.parents}
    folders = {path.parent for path in given}
    nodes = [disk.seen[path] for path in given] + [disk._folder(folder) for folder in folders]
    assert len(given) == 2
    assert [choice for choice in Cut(disk).choices if choice.node in nodes] == []
