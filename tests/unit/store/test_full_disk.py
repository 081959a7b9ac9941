"""The reserve of a disk: writes are refused before they eat into it, what frees space may, and the store goes on by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import Overloaded, StorageFull
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header
from kvwal.ports.disk import OS_DISK, Space
from kvwal.ports.processes import Child
from kvwal.ports.space import DiskSpace, default_reserve
from kvwal.store.expiry import ExpirySweep
from tests.support.archive.archiver import InProcess, business, coverage_of
from tests.support.disk.faults import FakeClock, FakeDisk, open_aio, open_store
from tests.support.polling import until

MIB = 1 << 20
CAPACITY = 20 * MIB
RESERVE = MIB
LARGE = b"x" * 100_000


def taken(path: Path) -> int:
    """Bytes on the disk; none if another thread has moved the file meanwhile."""
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:
        return 0


class SmallDisk(FakeDisk):
    """A disk of `CAPACITY` bytes: what the files under `root` take of it is gone, and what `others` wrote."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.others = 0

    def space(self, folder: Path) -> Space:
        used = sum(taken(path) for path in self.root.rglob("*"))
        return Space(CAPACITY, max(0, CAPACITY - used - self.others))


def fill(b: kvwal.Map, prefix: str = "key") -> dict[Any, Any]:
    """Write until the disk is full; what was acknowledged."""
    kept: dict[Any, Any] = {}
    for number in range(1000):
        name = f"{prefix}-{number}"
        try:
            b[name] = LARGE
        except StorageFull:
            return kept
        kept[name] = LARGE
    raise AssertionError("the disk was never full")


@pytest.mark.parametrize(
    ("capacity", "reserve"), [(16 * MIB, 16 * MIB // 20), (1280 * MIB, 64 * MIB), (1 << 50, 64 * MIB), (0, 0)]
)
def test_the_default_reserve(capacity: int, reserve: int) -> None:
    assert default_reserve(capacity) == reserve


def test_a_file_gets_what_it_needs_and_what_it_wishes_only_of_what_is_usable(tmp_path: Path) -> None:
    disk = FakeDisk()
    disk.room = Space(CAPACITY, RESERVE + 1000)
    room = DiskSpace(disk, tmp_path, None)
    file = OS_DISK.create(tmp_path / "file")
    assert room.grow(file, 0, 100, 500) == 500
    assert room.grow(file, 500, 700, 5000) == 1500, "all that is usable, and no more"
    with pytest.raises(OSError, match="kept in reserve"):
        room.grow(file, 1500, 2501, 2501)
    file.close()
    assert (tmp_path / "file").stat().st_size == 1500


def test_writes_are_refused_before_they_eat_into_the_reserve(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    with open_store(tmp_path, disk) as store:
        b = store.map("b")
        kept = fill(b)
        assert len(kept) * len(LARGE) > CAPACITY * 0.8, "nearly all of the disk could be used"
        assert "reserve" in business(store)["full"]
        room = store.stats()["disk"]
        assert (room["capacity_bytes"], room["reserve_bytes"]) == (CAPACITY, RESERVE)
        assert room["usable_bytes"] == max(0, room["free_bytes"] - RESERVE) < len(LARGE) * 2
        with pytest.raises(StorageFull, match=r"kept in reserve\); nothing was written"):
            b.put_many({"a": LARGE, "b": LARGE})
        assert dict(b) == kept, "nothing of what was refused is there"
    with open_store(tmp_path, disk) as store:
        assert dict(store.map("b")) == kept


def test_when_there_is_room_again_the_store_goes_on(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.others = CAPACITY // 2
    kept: dict[Any, Any] = {}
    with open_store(tmp_path, disk) as store:
        b = store.map("b")
        for turn in range(4):
            kept |= fill(b, f"turn-{turn}")
            disk.others -= MIB
            b[turn] = kept[turn] = LARGE
            assert business(store)["full"] is None
        assert dict(b) == kept
    with open_store(tmp_path, disk) as store:
        assert dict(store.map("b")) == kept


def test_a_relief_that_failed_is_over_when_there_is_room(tmp_path: Path) -> None:
    """Nothing has to be relieved any more, so its failure is none: a figure that stayed would wake somebody for nothing."""

    def refuse() -> Child:
        raise OSError("no process more")

    disk = SmallDisk(tmp_path)
    disk.others = CAPACITY // 2
    with open_store(tmp_path, disk, start_archiver=refuse) as store:
        b = store.map("b")
        fill(b)
        until(lambda: business(store)["maintenance"].get("relieve"))
        disk.others = 0
        b["after"] = LARGE
        until(lambda: None if business(store)["maintenance"] else True)


def test_a_reserve_of_nothing_writes_to_the_last_byte(tmp_path: Path) -> None:
    disk = FakeDisk()
    disk.room = Space(CAPACITY, MIB)
    with open_store(tmp_path, disk, settings=kvwal.Settings(reserve_bytes=0)) as store:
        for number in range(8):
            store.map("b")[number] = LARGE
        assert store.stats()["disk"]["usable_bytes"] == MIB


def test_a_full_log_is_sealed_archived_and_checkpointed_from_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    root, archive = tmp_path / "root", tmp_path / "archive"
    disk = SmallDisk(root)
    with open_store(root, disk, archive=archive) as store:
        b = store.map("b")
        kept = fill(b)
        for key in list(kept)[:-5]:
            del b[key]
        store.archive()
        store.checkpoint()
        assert coverage_of(archive).last == business(store)["last_sequence"] == 2 * len(kept) - 5
        assert business(store)["segments"] == 1, "the sealed ones went"
        assert list(b) == list(kept)[-5:]
        assert fill(b), "and there is room again"


async def fill_with_few_keys(b: kvwal.aio.Map) -> int:
    """Write until the disk is full; how many writes were acknowledged."""
    for number in range(1000):
        try:
            await b.put(number % 5, LARGE)
        except StorageFull:
            return number
    raise AssertionError("the disk was never full")


def test_a_store_that_ran_full_frees_space_without_being_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    root = tmp_path / "root"
    disk = SmallDisk(root)
    never = kvwal.Settings(archive_seconds=1e9, checkpoint_seconds=1e9, reserve_bytes=RESERVE)

    async def main() -> None:
        async with open_aio(root, disk, FakeClock(), archive=tmp_path / "archive", settings=never) as store:
            b = store.map("b")
            written = await fill_with_few_keys(b)
            maintenance = store._engine_now().businesses["b"].maintenance
            await maintenance.tick()
            await maintenance.finish(archive=False)
            stats = store.stats()["businesses"]["b"]
            assert (stats["segments"], stats["snapshot_sequence"], stats["archived_sequence"]) == (1, written, written)
            await b.put("again", LARGE)

    asyncio.run(main())


def test_a_sweep_that_fails_does_not_end_the_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands over deletes like any producer, and so gets the same errors."""

    async def overloaded(sweep: ExpirySweep) -> None:
        raise Overloaded("the log writer is behind")

    monkeypatch.setattr(ExpirySweep, "run", overloaded)
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)

    async def main() -> None:
        async with open_aio(tmp_path, settings=kvwal.Settings(checkpoint_bytes=1)) as store:
            await store.map("b").put("a", 1)
            maintenance = store._engine_now().businesses["b"].maintenance
            await maintenance.tick()
            await maintenance.finish(archive=False)
            assert store.stats()["businesses"]["b"]["snapshot_sequence"] == 1

    asyncio.run(main())


def test_a_segment_is_never_larger_than_the_reserve_that_recovery_needs_to_copy_it(tmp_path: Path) -> None:
    disk = FakeDisk()
    disk.room = Space(10 * MIB, 10 * MIB)
    with open_store(tmp_path, disk) as store:
        for number in range(40):
            store.map("b")[number] = LARGE
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.wal")]
    assert len(sizes) > 5
    assert max(sizes) <= default_reserve(10 * MIB)


def test_spares_are_given_up_before_a_write_is_refused(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    header = Header(
        log_id="0" * 32, namespace="n", cluster="c", business="b", node="a", epoch=1, first_sequence=1, previous_crc=0,
        salt=0, created_ms=0,
    )  # fmt: skip
    appender = Appender(disk, FakeClock(), tmp_path, header, kvwal.Settings(reserve_bytes=RESERVE), [])
    appender.preallocate(4 * MIB)
    assert list(tmp_path.glob("*zeros*"))
    disk.others = disk.space(tmp_path).free - RESERVE
    appender.append([LARGE], 1, sync=True)
    assert not list(tmp_path.glob("*zeros*"))
    disk.others = CAPACITY - RESERVE
    appender.preallocate(4 * MIB)
    assert not list(tmp_path.glob("*zeros*")), "none is made of the reserve"
    with pytest.raises(StorageFull):
        appender.append([LARGE * 20], 1, sync=True)
    appender.close(seal=True)
