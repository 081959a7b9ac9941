"""Short scripts, and every power cut of each: what was acknowledged is there, transactions are whole, no cut is taken for
damage, what recovery calls sealed is, and a cut of the recovery changes nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from kvwal.config import Flush, Interval
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.files.format import FORMAT, WITH_QUEUES
from kvwal.log.files.preallocation import PreallocatedSegments
from kvwal.ports.space import DiskSpace
from tests.support.disk.cuts import FOLDER, AcknowledgedWrites, Cuts
from tests.support.disk.faults import FakeClock
from tests.support.disk.limits import SECTOR
from tests.support.disk.lives import SETTINGS, Life
from tests.support.disk.power import Cut, MemoryDisk
from tests.support.log.logs import header

LONG = "long " * (2 * SECTOR // 5)
"""A value whose block lies in three sectors."""


def puts(life: Life) -> None:
    life.put(a=1)
    life.put(force=True, c=1)
    life.put(a=2, b=LONG)
    life.put(a=None)


def overflows(life: Life) -> None:
    """Transactions in files of their own, which go with their segments."""
    life.put(a="x" * 4000)
    life.put(force=True, a="y" * 4000, b=1)
    life.rotate()
    life.put(b="z" * 4000)
    life.checkpoint()
    life.put(a=None)


def rotates(life: Life) -> None:
    life.put(a=1)
    life.rotate()
    life.put(b=1)
    life.rotate()


def checkpoints(life: Life) -> None:
    """The third snapshot's segments go into files that the first one's were in."""
    for turn in range(3):
        life.put(a=turn, b="x" * 40)
        life.checkpoint()
    life.put(b=None)


def deltas(life: Life) -> None:
    """A base, a delta above it that deletes, another one, in which that goes up, and a base of all."""
    for turn, merged in enumerate([9, 0, 1, 9]):
        life.put(a=turn, b=None if turn == 1 else "x" * 40)
        with patch("kvwal.log.checkpoint._worth_merging", lambda sizes, new, most=merged: min(most, len(sizes))):
            life.checkpoint()


def drops_many(life: Life) -> None:
    """More segments go at once than are kept for the next ones."""
    for turn in range(5):
        life.put(a=turn)
        life.rotate()
    life.checkpoint()


def archives(life: Life) -> None:
    life.put(a=1)
    life.archive()
    life.put(a=2)
    life.checkpoint()
    life.put(b=1)
    life.archive()
    life.checkpoint()


SCRIPTS: list[Callable[[Life], None]] = [puts, overflows, rotates, checkpoints, deltas, drops_many, archives]
FLUSHES: list[Flush] = ["sync", "os", Interval(ms=3_600_000, bytes=1000)]


@pytest.mark.long
@pytest.mark.parametrize("flush", FLUSHES, ids=["sync", "os", "interval"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_every_cut_of_a_script(script: Callable[[Life], None], flush: Flush, tmp_path: Path) -> None:
    told, disk = AcknowledgedWrites(), MemoryDisk()
    cuts = Cuts(told)
    cuts.watch(disk)
    archive = tmp_path / "archive" if script is archives else None
    for number in (1, 2):
        life = Life(disk, told, number=number, flush=flush, archive=archive, cuts=cuts)
        life.open()
        script(life)
        life.close()
    print(cuts.check())


def test_every_cut_after_a_snapshot_was_damaged(tmp_path: Path) -> None:
    """An archive that was never asked keeps the segments: they stand in for it."""
    told, archive = AcknowledgedWrites(), tmp_path / "archive"
    life = Life(MemoryDisk(), told, archive=archive)
    life.open()
    for turn in range(2):
        life.put(a=turn, b="x" * 40)
        life.checkpoint()
    life.store.close(archive=False)
    files = {path: bytearray(content.seen) for path, content in life.disk.seen.items()}
    (snapshot,) = [path for path in files if path.suffix == ".snapshot"]
    files[snapshot][-20] ^= 1
    disk = MemoryDisk({path: bytes(data) for path, data in files.items()})
    cuts = Cuts(told, damaged=True)
    cuts.watch(disk)
    life = Life(disk, told, number=2, archive=archive, cuts=cuts)
    life.open()
    assert [path.suffix for path in disk.seen if path.name.startswith(snapshot.name)] == [".torn"]
    life.put(a=2)
    life.checkpoint()
    life.store.close(archive=False)
    cuts.add(disk)
    print(cuts.check())


def test_a_spare_is_on_the_disk_before_it_is_used() -> None:
    """Else the fdatasync of the first groups in it would have to write all of it."""
    disk = MemoryDisk()
    disk.make_folders(FOLDER)
    PreallocatedSegments(disk, DiskSpace(disk, FOLDER, 0), FOLDER).prepare(9 << 20)
    assert {choice.place for choice in Cut(disk).choices} == {"zeros-1.partial"}, "only its name may be lost"


def test_every_cut_of_a_group_of_several_blocks() -> None:
    """Each block is whole or not there, none without those before it; what follows the group says that it was durable."""
    disk, told = MemoryDisk(), AcknowledgedWrites()
    disk.make_folders(FOLDER)
    cuts = Cuts(told)
    cuts.watch(disk)
    appender = Appender(disk, FakeClock(), FOLDER, header(), SETTINGS, [])
    for group in range(2):
        payloads = []
        for block in range(3):
            key = f"{group}-{block}"
            payloads.append(
                encode_entries([Entry(key.encode(), "str", b"x" * 150, "bytes", False, appender.next_sequence)])
            )
            told.begin(told.states[-1] | {key: b"x" * 150})
        appender.append(payloads, 3, sync=True)
        told.acknowledge()
        cuts.add(disk)
    print(cuts.check())


@pytest.mark.parametrize("before", [0, 1], ids=["replaced", "sealed"])
def test_every_cut_of_a_change_to_the_format_of_queues(before: int) -> None:
    """The first entry of a queue is in a new segment: a segment without entries is replaced, another one is sealed."""
    disk, told = MemoryDisk(), AcknowledgedWrites()
    disk.make_folders(FOLDER)
    cuts = Cuts(told)
    cuts.watch(disk)
    appender = Appender(disk, FakeClock(), FOLDER, header(), SETTINGS, [])
    for group in range(before + 2):
        key, value = f"{group}", b"x" * 150
        told.begin(told.states[-1] | {key: value})
        entry = Entry(key.encode(), "str", value, "bytes", False, appender.next_sequence)
        appender.append([encode_entries([entry])], 1, sync=True, format=FORMAT if group < before else WITH_QUEUES)
        told.acknowledge()
        cuts.add(disk)
    assert len(appender.sealed) == before
    print(cuts.check())
