"""A checkpoint writes what has changed, and a snapshot of a base and deltas is one snapshot to its readers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.history.reads.tail_reader import find_entry, read_local
from kvwal.history.restore.restore import RestorePorts
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.names import log_folder
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.reader import entry_decoder, log_files
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.compare_archive import verify_log
from kvwal.scrub.repair import look, repair
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, open_aio, open_store
from tests.support.disk.power import MemoryDisk
from tests.support.log.logs import header

FOLDER = Path("/disk/log")
PLACE = Place("default", "local", "b", "local")
KEYS = 20_000


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(80)


def job(chance: random.Random) -> bytes:
    return b'{"state":"SUCCEEDED","stages":%d,"ended":%d,"id":"%08x"}' % (
        chance.randrange(9), chance.randrange(10**12), chance.getrandbits(32),
    )  # fmt: skip


def write_and_checkpoint(disk: MemoryDisk, appender: Appender, entries: list[Entry]) -> None:
    """The changes in the log, and in a part of the snapshot; the segments are gone."""
    for at in range(0, len(entries), 1000):
        appender.append([encode_entries(entries[at : at + 1000])], len(entries[at : at + 1000]), sync=True)
    appender.rotate()
    checkpoint(disk, FakeClock(), FOLDER, appender.sealed, entry_decoder())
    while appender.sealed:
        disk.unlink(appender.sealed.pop().path)


def test_changes_of_which_some_are_compressed_leave_few_parts() -> None:
    """The same keys each time, of which those in the middle get small: the parts stay as large as what is in them."""
    disk, chance = MemoryDisk(), random.Random(1)
    disk.make_folders(FOLDER)
    appender = Appender(disk, FakeClock(), FOLDER, header(), Settings(), [])
    for turn in range(12):
        values = [chance.randbytes(500) if key // 1000 != 1 else b"v" * 500 for key in range(3000)]
        changes = [Entry(b"%06d" % key, "str", value, "bytes", False, turn + 1) for key, value in enumerate(values)]
        write_and_checkpoint(disk, appender, changes)
        assert len(log_files(disk, FOLDER)[1]) <= 2
    appender.close(seal=False)


@pytest.mark.parametrize(("value", "most_bases"), [(noise, 3), (job, 6)])
def test_what_is_written_follows_the_changes(value: Callable[[random.Random], bytes], most_bases: int) -> None:
    """300 checkpoints of 20 changes each after 20,000 keys write as much as a few snapshots of all keys; before, 300. A few
    changes do not get as small as many, which are compressed."""
    disk, clock, chance = MemoryDisk(), FakeClock(), random.Random(1)
    disk.make_folders(FOLDER)
    appender = Appender(disk, clock, FOLDER, header(), Settings(), [])

    def write(keys: range | list[int], timestamp: int) -> int:
        """What the checkpoint after these changes wrote."""
        before = {file.name for file in log_files(disk, FOLDER)[1]}
        entries = [Entry(b"%06d" % key, "str", value(chance), "bytes", False, timestamp) for key in keys]
        write_and_checkpoint(disk, appender, entries)
        made = [file.name for file in log_files(disk, FOLDER)[1] if file.name not in before]
        return sum(disk.size(FOLDER / name) for name in made)

    base = write(range(KEYS), 1)
    written, most = 0, 0
    for turn in range(300):
        written += write(chance.sample(range(KEYS), 20), turn + 2)
        most = max(most, len(log_files(disk, FOLDER)[1]))
    assert written < most_bases * base, written / base
    assert 2 <= most <= 1 + log2(KEYS / 20)
    snapshot = open_snapshot(disk, FOLDER, log_files(disk, FOLDER)[1])
    assert snapshot is not None
    found = [entry for block in snapshot.whole(entry_decoder()) for entry in block]
    assert [entry.key for entry in found] == [b"%06d" % key for key in range(KEYS)]
    appender.close(seal=False)


def test_by_the_timer_a_large_snapshot_is_in_no_checkpoints_way(tmp_path: Path) -> None:
    """Of a small one a tenth has to be new: it is written anew. Of a large one a delta is written."""
    clock = FakeClock()

    async def main() -> None:
        async with open_aio(tmp_path, archive=None, clock=clock) as store:
            b = store.map("b")
            maintenance: Any = (await store._engine_now().business("b")).maintenance
            due = clock.elapsed() + 2 * Settings().checkpoint_seconds
            await b.put("a", "x" * 1000)
            for size, is_due in ((1 << 40, False), (1 << 16, False), (5000, True)):
                maintenance.log.snapshot_bytes = size
                assert maintenance._schedule.checkpoint_is_due(due) == is_due
            await b.put("a", "x" * 200_000)
            maintenance.log.snapshot_bytes = 1 << 40
            assert maintenance._schedule.checkpoint_is_due(due)

    asyncio.run(main())


def test_deletes_are_looked_at_when_a_checkpoint_reaches_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among several nodes that is done every ten minutes at most; a delta, which keeps all deletes, is not counted."""
    merged = 0
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    monkeypatch.setattr("kvwal.log.checkpoint._worth_merging", lambda sizes, new: min(merged, len(sizes)))

    async def main() -> None:
        nonlocal merged
        for node in ("other", "n"):
            async with open_aio(tmp_path / node, node=node, archive=tmp_path / "archive") as store:
                b = store.map("b")
                maintenance: Any = None if node == "other" else (await store._engine_now().business("b")).maintenance
                for merged, looked in ((0, True), (0, False), (0, False), (1, False), (9, True)):
                    await b.put("a", merged)
                    await store.archive()
                    if maintenance is not None:
                        maintenance._shared_due = 0.0  # ten minutes later
                    await store.checkpoint()
                    assert maintenance is None or (maintenance._shared_due > 0) == looked, merged

    asyncio.run(main())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a log `b` of a base, two deltas and a tail. `MODEL` is what it holds."""
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    monkeypatch.setattr("kvwal.log.checkpoint._worth_merging", lambda sizes, new: 0)
    with open_store(tmp_path / "data", archive=None, clock=SYSTEM, start_archiver=lambda: InProcess("")) as store:
        b = store.map("b")
        b.put_many({f"k{number}": 0 for number in range(10)})
        store.checkpoint()
        b.put_many({"k1": 1, "k2": 1})
        b.delete("k3")
        store.checkpoint()
        b.put_many({"k2": 2, "k3": 2})
        b.delete("k4")
        store.checkpoint()
        b["k5"] = 3
    assert len(parts(tmp_path / "data")) == 3
    return tmp_path / "data"


MODEL = {"k0": 0, "k1": 1, "k2": 2, "k3": 2, "k5": 3, "k6": 0, "k7": 0, "k8": 0, "k9": 0}


def parts(root: Path) -> list[Path]:
    """The files of the snapshot, oldest first."""
    folder = log_folder(root, PLACE)
    return [folder / file.name for file in log_files(OS_DISK, folder)[1]]


def test_it_is_opened(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        assert dict(store.map("b")) == MODEL


def test_it_is_read_without_its_lock(root: Path) -> None:
    with kvwal.open(root, archive=None, read_only=True) as store:
        b = store.map("b")
        assert dict(b) == MODEL
        assert {f"k{number}": b.get(f"k{number}") for number in range(11)} == {
            f"k{number}": MODEL.get(f"k{number}") for number in range(11)
        }
    found = find_entry(OS_DISK, root, PLACE, ("str", b"k4"))
    assert found is not None
    assert found.deleted, "of the newest delta, not the value in the base"
    keys = [entry.key for entry in read_local(OS_DISK, root, PLACE).snapshot]
    assert keys == sorted(set(keys))


def test_an_archive_begins_with_all_of_it(root: Path, tmp_path: Path) -> None:
    with kvwal.open(root, archive=tmp_path / "archive") as store:
        store.archive()
    kvwal.restore(tmp_path / "archive", tmp_path / "fresh")
    with kvwal.open(tmp_path / "fresh", read_only=True) as store:
        assert dict(store.map("b")) == MODEL


def test_a_merge_with_the_base_lets_deletes_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with kvwal.open(root, archive=None) as store:
        assert dict(store.map("b")) == MODEL
        store.checkpoint()
    (base,) = parts(root)
    assert "-" not in base.name
    assert {entry.key.decode() for entry in read_local(OS_DISK, root, PLACE).snapshot} == MODEL.keys()


def without_base(files: list[Path]) -> None:
    files[0].unlink()


def without_delta(files: list[Path]) -> None:
    files[1].unlink()


def flipped(number: int) -> Callable[[list[Path]], None]:
    def flip(files: list[Path]) -> None:
        data = bytearray(files[number].read_bytes())
        data[-100] ^= 1
        files[number].write_bytes(data)

    return flip


def under_another_name(files: list[Path]) -> None:
    first, last = files[1].stem.split("-")
    files[1].rename(files[1].with_name(f"{int(first) - 1:020}-{last}.snapshot"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (without_base, "a part of the snapshot is missing"),
        (without_delta, "a part of the snapshot is missing"),
        (flipped(0), "does not verify"),
        (flipped(1), "does not verify"),
        (flipped(2), "does not verify"),
        (under_another_name, "its header says that it holds sequences"),
    ],
)
def test_what_is_wrong_with_it_is_said(root: Path, damage: Callable[[list[Path]], None], says: str) -> None:
    damage(parts(root))
    with kvwal.open(root, archive=None) as store, pytest.raises(CorruptLog, match=says):
        store.map("b")
    with kvwal.open(root, archive=None, read_only=True) as store, pytest.raises(CorruptLog, match=says):
        dict(store.map("b"))
    found = verify_log(OS_DISK, root, PLACE, None)
    assert found.needs_repair
    assert any(says in file.problem or "not whole" in file.problem for file in found.files)


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (without_base, {"k1": 1, "k2": 2, "k3": 2, "k5": 3}),
        (without_delta, MODEL | {"k1": 0}),
        (flipped(2), {key: value for key, value in MODEL.items() if key != "k3"} | {"k2": 1, "k4": 0}),
    ],
)
def test_what_can_be_saved_of_it(root: Path, damage: Callable[[list[Path]], None], left: dict[str, Any]) -> None:
    damage(parts(root))
    found = look(RestorePorts(OS_DISK, SYSTEM), root, PLACE, None, entry_decoder())
    assert len(found.lost) == 1, found.lost
    repair(RestorePorts(OS_DISK, SYSTEM), root.parent / "mended", [found], None, take_over=False)
    with kvwal.open(root.parent / "mended", archive=None) as store:
        assert dict(store.map("b")) == left
