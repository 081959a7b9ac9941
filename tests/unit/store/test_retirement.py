"""The log of a destroyed map goes, and goes on when it is written to again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import kvwal
from kvwal.cluster.recovery_buffer import RecoveryBuffer
from kvwal.entry import Entry
from kvwal.errors import ConfigError, CorruptLog
from kvwal.key_class import DROPPED, TIME_MARK
from kvwal.log.files.retired import bring_back, end_of, retired_places
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import RecoveryTarget, recover
from kvwal.ports.disk import OS_DISK
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.remove_log import LogEnd, remove_log
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import coverage
from kvwal_archive.verify import verify
from tests.support.archive.archiver import InProcess
from tests.support.disk.cuts import PLACE as ON_DISK
from tests.support.disk.cuts import ROOT, after_changes, cuts
from tests.support.disk.durability import Image
from tests.support.disk.faults import FakeClock, make_options
from tests.support.disk.lives import OnDisk
from tests.support.disk.lock_watch import LockWatchDisk
from tests.support.disk.power import MemoryDisk
from tests.support.log.submissions import entry, put

PLACE = Place("default", "local", "b", "local")


async def retired(engine: Engine) -> None:
    """Return when all that may go has gone."""
    engine._retirement.tick()
    if (task := engine._retirement._task) is not None:
        await task


async def lived(engine: Engine, *, archived: bool) -> OpenBusiness:
    """A map that was put to and destroyed."""
    business = await engine.business("b")
    await put(business, entry("a"))
    await put(business, entry("a", deleted=True))
    business.maintenance.retires = True
    if archived:
        await business.maintenance.archive()
    return business


def run(work: Callable[[Engine], Awaitable[None]], root: Path, archive: Path | None, **given: object) -> None:
    async def all_of_it() -> None:
        ports = {"start_archiver": lambda: InProcess("")} | given
        options = make_options(root, archive=archive, **ports)
        engine = Engine(options, own_loop=True)
        await work(engine)
        await engine.close(archive=archive is not None)

    asyncio.run(all_of_it())


def test_nothing_of_a_destroyed_map_stays_but_its_end(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    disk = LockWatchDisk()

    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        await retired(engine)
        assert business.closed
        assert engine.stats()["businesses"] == {}
        assert engine.names() == []
        assert not (root / "default/local/b").exists()

    run(work, root, archive, disk=disk)
    assert disk.held == [False]  # a new log may get the inode of the deleted lock file, by which a lock is known
    assert [path.name for path in (root / "default/local").rglob("*") if path.is_file()] == ["b.snapshot"]
    assert retired_places(OS_DISK, root, "default", "local") == [PLACE]
    run(lambda engine: asyncio.sleep(0), root, archive)


def test_the_past_of_a_destroyed_map_is_read_without_its_lock(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    then: list[int] = []

    async def work(engine: Engine) -> None:
        business = await engine.business("b")
        then.append(await put(business, entry("a")))
        await put(business, entry("a", deleted=True))
        business.maintenance.retires = True
        await business.maintenance.archive()
        await retired(engine)

    run(work, root, archive)
    with kvwal.open(root, archive=archive, read_only=True) as store:
        assert store.businesses() == []
        found = store.map("b")
        assert dict(found) == {}
        assert dict(found.at(then[0])) == {"a": b"x"}
        assert [change.deleted for change in found.history("a")] == [True, False]
        with pytest.raises(ConfigError, match="no map 'c'"):
            store.map("c")
    kvwal.restore(archive, tmp_path / "again", at=then[0])
    with kvwal.open(tmp_path / "again") as store:
        assert dict(store.map("b")) == {"a": b"x"}


def test_a_node_of_which_only_retired_logs_are_left_is_the_one_that_is_meant(tmp_path: Path) -> None:
    """Under another name the log would begin anew."""
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def work(engine: Engine) -> None:
        await lived(engine, archived=True)
        await retired(engine)

    run(work, root, archive, node="mine")
    with kvwal.open(root, archive=archive) as store:
        assert store.node == "mine"


def test_without_an_archive_nothing_stays_at_all(tmp_path: Path) -> None:
    async def work(engine: Engine) -> None:
        await lived(engine, archived=False)
        await retired(engine)

    run(work, tmp_path, None)
    assert [path for path in (tmp_path / "default/local").rglob("*") if path.is_file()] == []
    assert not (tmp_path / "default/local/b").exists()


def test_a_log_that_is_written_to_again_goes_on_from_its_end(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    before: list[int] = []

    async def work(engine: Engine) -> None:
        for turn in range(3):
            business = await engine.business("b")
            log_id = business.log.log_id
            before.append(await put(business, entry(f"{turn}")))
            before.append(await put(business, entry(f"{turn}", deleted=True)))
            business.maintenance.retires = True
            await business.maintenance.archive()
            await retired(engine)
            end = end_of(OS_DISK, root, PLACE)
            assert end is not None
            assert (end.last_sequence, end.log_id, end.last_timestamp) == (2 * turn + 2, log_id, before[-1])
        business = await engine.business("b")
        assert business.log.log_id == log_id
        assert business.log.appender.next_sequence == 7
        assert end_of(OS_DISK, root, PLACE) is None
        assert await put(business, entry("z")) > before[-1]
        assert [e.deleted for e in business.history("str", b"1")] == [True, False]
        assert list(business.as_of(before[2]).tables["str"]) == [b"1"]

    run(work, root, archive)
    assert before == sorted(before)
    objects = open_objects(str(archive))
    found = coverage(objects, PLACE, log_id_of(root, archive))
    assert (found.last, found.gaps) == (7, [])
    assert verify(objects).findings == []
    with kvwal.open(root, archive=archive) as store:
        assert dict(store.map("b")) == {"z": b"x"}


def log_id_of(root: Path, archive: Path) -> str:
    with kvwal.open(root, archive=archive) as store:
        store.map("b")
        return store._engine.businesses["b"].log.log_id


def test_what_is_not_archived_or_holds_something_stays(tmp_path: Path) -> None:
    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=False)
        await retired(engine)
        assert not business.closed, "the archive has not seen it"
        await business.maintenance.archive()
        await put(business, entry("again"))
        await business.maintenance.archive()
        await retired(engine)
        assert not business.closed, "somebody uses the map again"
        await put(business, entry("again", deleted=True))
        await business.maintenance.archive()
        business.maintenance.retires = False
        await retired(engine)
        assert not business.closed, "nobody destroyed it"
        business.maintenance.retires = True
        await retired(engine)
        assert business.closed

    run(work, tmp_path / "root", tmp_path / "archive")


def test_a_write_at_the_last_moment_stays(tmp_path: Path) -> None:
    """It was accepted before the log was told to end, so the log is opened again with it."""
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        late = put(business, entry("late"))
        await engine._retirement._retire(business)
        await late
        assert business.closed
        business = await engine.business("b")
        assert business.log.appender.next_sequence == 4
        assert list(business.state.tables["str"]) == [b"late"]

    run(work, root, archive)


def test_a_write_meanwhile_waits_for_the_log_to_be_made_again(tmp_path: Path) -> None:
    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        engine._retirement.tick()
        while not business.closed:
            await asyncio.sleep(0)
        again = await engine.business("b")
        assert again is not business
        await put(again, entry("again"))
        assert again.log.appender.next_sequence == 4

    run(work, tmp_path / "root", tmp_path / "archive")


def test_where_another_node_has_a_log_under_the_root_it_stays(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with kvwal.open(tmp_path / "root", node="other", archive=archive) as store:
        store.map("b")["a"] = 1

    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        await retired(engine)
        assert not business.closed

    run(work, tmp_path / "root", archive, node="local")


def test_a_log_that_was_emptied_before_the_start_goes_when_the_archive_was_asked(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def first(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        await business.maintenance.checkpoint()

    async def second(engine: Engine) -> None:
        business = await engine.business("b")
        assert not business.log.sealed
        business.maintenance.retires = True
        assert isinstance(engine.options.clock, FakeClock)
        engine.options.clock.seconds += 3600
        await business.maintenance.tick()
        assert business.maintenance._running is not None
        await business.maintenance._running
        await retired(engine)
        assert business.closed

    run(first, root, archive, clock=FakeClock())
    run(second, root, archive, clock=FakeClock())


def test_what_a_killed_program_was_removing_goes_at_the_next_start(tmp_path: Path) -> None:
    gone = tmp_path / "root/default/local/_retired/local/b.gone"
    gone.mkdir(parents=True)
    (gone / "LOCK").touch()
    run(retired, tmp_path / "root", None)
    assert not gone.exists()


def test_a_damaged_end_is_not_passed_over(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def work(engine: Engine) -> None:
        await lived(engine, archived=True)
        await retired(engine)
        path = root / "default/local/_retired/local/b.snapshot"
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptLog, match=r"b\.snapshot"):
            await engine.business("b")

    run(work, root, archive)


@pytest.mark.parametrize(
    ("entries", "nothing"),
    [
        ([("a", 1, False), ("mark", 2, False)], True),
        ([("a", 1, False), ("mark", 2, False), ("b", 3, False)], False),
        ([("a", 1, False), ("mark", 2, False), ("b", 3, False), ("b", 4, True)], False),
        ([("a", 1, False), ("a", 2, True)], False),
        ([("a", 2, True), ("mark", 3, True)], True),
        ([("mark", 2, False), ("a", 1, False)], True),
        ([], True),
    ],
)
def test_a_node_knows_by_times_whether_its_log_holds_something(
    entries: list[tuple[str, int, bool]], nothing: bool
) -> None:
    """In any order: a snapshot is sorted by key. What was put and deleted since may wait for a checkpoint."""
    state = RecoveryBuffer(lambda: 0, collects=False)
    for key, timestamp, deleted in entries:
        key_class = DROPPED if key == "mark" else "str"
        state.apply([Entry(key.encode(), key_class, b"", "", deleted, timestamp)])
    assert state.holds_nothing() is nothing


def test_every_cut_of_a_log_that_goes_and_comes_back(tmp_path: Path) -> None:
    """After every power cut the log goes on where it ended, and never begins anew."""
    disk, chance = MemoryDisk(), random.Random(0)
    images: dict[int, Image] = {}
    least = 0

    def add() -> None:
        for image in cuts(disk, chance)[0]:
            images.setdefault(image.key(), image) if least else None
            lowest[image.key()] = min(least, lowest.get(image.key(), least))

    lowest: dict[int, int] = {}
    after_changes(disk, add)

    async def work(engine: Engine) -> None:
        nonlocal least
        for turn in range(2):
            business = await engine.business("b")
            await put(business, entry(f"{turn}"))
            await put(business, entry(f"{turn}", deleted=True))
            business.maintenance.retires = True
            await business.maintenance.archive()
            least = 2 * turn + 2
            add()
            await retired(engine)
            add()

    clock = FakeClock()
    run(work, ROOT, tmp_path / "archive", disk=disk, clock=clock, start_archiver=lambda: OnDisk(disk, clock))
    for key, image in images.items():
        left = MemoryDisk(image)
        left.make_folders(ROOT.joinpath(*ON_DISK))
        bring_back(left, ROOT, ON_DISK, lambda header, timestamp: None)
        found = recover(
            left, ROOT.joinpath(*ON_DISK), RecoveryTarget(lambda entries: None, lambda: None), entry_decoder()
        )
        assert lowest[key] < found.next_sequence <= 5, image
    print(f"{len(images):,} states")


def test_the_archive_forgets_a_destroyed_map_when_its_history_is_over(tmp_path: Path) -> None:
    root, archive, clock = tmp_path / "root", tmp_path / "archive", FakeClock()

    async def forgotten(engine: Engine) -> None:
        clock.seconds += 3600
        engine._log_removal.tick()
        assert engine._log_removal._task is not None
        await engine._log_removal._task

    async def work(engine: Engine) -> None:
        await lived(engine, archived=True)
        await retired(engine)
        await forgotten(engine)
        assert end_of(OS_DISK, root, PLACE) is not None
        assert len(list(archive.rglob("*.parquet"))) == 1
        clock.ms += int(engine.options.settings.history_seconds * 1000) + 1000
        await forgotten(engine)
        assert end_of(OS_DISK, root, PLACE) is None
        assert list(archive.iterdir()) == []
        business = await engine.business("b")
        assert business.log.appender.next_sequence == 1
        await put(business, entry("again"))

    run(work, root, archive, clock=clock)
    assert verify(open_objects(str(archive))).findings == []


def test_a_map_that_is_made_again_while_it_is_forgotten_goes_on(tmp_path: Path) -> None:
    """The end was read before the archive forgot the log: so its first object says that the log began with nothing."""
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def work(engine: Engine) -> None:
        business = await lived(engine, archived=True)
        log_id = business.log.log_id
        await retired(engine)
        again = await engine.business("b")
        objects = open_objects(str(archive))
        assert remove_log(objects, PLACE, LogEnd(log_id, 2, business.log.writer.timestamp), DROPPED, TIME_MARK)
        await put(again, entry("again"))

    run(work, root, archive)
    assert verify(open_objects(str(archive))).findings == []
    with kvwal.open(root, archive=archive) as store:
        assert dict(store.map("b")) == {"again": b"x"}
        assert [change.deleted for change in store.map("b").history("again")] == [False]
