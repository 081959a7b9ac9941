"""A map that was destroyed while a member was away: what its log held is ended by a mark of its own, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from kvwal.cluster.recovery_buffer import RecoveryBuffer, as_recovery_buffer
from kvwal.entry import TIMESTAMP_SHIFT, Ended, Entry, time_mark
from kvwal.history.reads.entry_rows import to_table
from kvwal.history.reads.map_rows import dropped_rows, marks_of
from kvwal.key_class import DROPPED, TIME_MARK
from kvwal.node.adapters.destroyed_maps import MissedDestroySearch, may_retire_log
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine
from kvwal.store.retirement import always
from kvwal.structures.destroyed import Marks
from kvwal_archive.layout import Place, Span
from kvwal_archive.maintenance.remove_log import remove_log
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import register
from kvwal_archive.view import latest
from kvwal_archive.writer import put_segment
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, make_options
from tests.support.log.submissions import entry
from tests.support.log.submissions import put as submit
from tests.unit.archive.test_remove_log import WHERE, archived, delete, mark, place, put

SKEW = 5


def away(timestamp: int, until: int, destroyed: int) -> Entry:
    entry = Ended(until, destroyed).mark()
    return Entry(entry.key, entry.key_class, entry.value, entry.value_class, False, timestamp)


def left(folder: Path, at: int | None = None, **logs: list[Entry]) -> list[str]:
    """The keys of these logs that memory is filled with, or that were there at a time."""
    objects = open_objects(str(folder))
    for node, entries in logs.items():
        archived(objects, node, entries)
    marks = marks_of(objects, WHERE, at=at)
    batches = latest(objects, *WHERE, at=at).to_batches()
    kept = [batch.filter(pc.invert(dropped_rows(batch, marks, SKEW))) for batch in batches]
    rows = [row for batch in kept for row in batch.to_pylist()]
    return sorted(row["key"].decode() for row in rows if row["key_class"] == "str" and not row["deleted"])


def test_a_mark_of_one_that_was_away_ends_its_own_entries_and_nobody_elses(tmp_path: Path) -> None:
    logs = {"a": [put("1", 10), mark(50), put("2", 51)], "b": [put("3", 11), away(90, 45, 50), put("4", 91)]}
    assert left(tmp_path, **logs) == ["2", "4"]


def test_it_holds_when_the_mark_of_the_destruction_has_gone(tmp_path: Path) -> None:
    assert left(tmp_path, a=[put("2", 51)], b=[put("3", 11), away(90, 45, 50)]) == ["2"]


def test_what_was_put_about_when_the_map_was_destroyed_stays(tmp_path: Path) -> None:
    assert left(tmp_path, a=[mark(50)], b=[put("3", 11), put("4", 46), away(90, 45, 50)]) == ["4"]


def test_the_past_has_what_was_there_before_the_destruction(tmp_path: Path) -> None:
    logs = {"b": [put("3", 11), away(90, 45, 50), put("4", 91)]}
    assert left(tmp_path, at=49, **logs) == ["3"]
    assert left(tmp_path, at=50) == []
    assert left(tmp_path, at=95) == ["4"]


def test_each_node_goes_by_its_last_mark(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    archived(objects, "a", [put("1", 10), mark(20), put("1", 30), mark(40)])
    archived(objects, "b", [put("2", 11), away(30, 15, 20), put("2", 31), mark(41)])
    assert marks_of(objects, WHERE) == Marks({"a": 40, "b": 41}, 41)
    assert marks_of(objects, WHERE, at=25) == Marks({"a": 20, "b": 15}, 20)


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        ([put("1", 5), away(30, 15, 20)], True),
        ([put("1", 5), away(30, 15, 20), put("1", 31)], True),
        ([put("1", 5), mark(6), delete("1", 12), time_mark(30)], True),  # there is nothing that it could bring back
        ([put("1", 5), time_mark(30)], False),
    ],
)
def test_the_archive_forgets_a_map_of_which_all_logs_are_marked(other: list[Entry], goes: bool, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    end = archived(objects, "a", [put("2", 9), mark(20)])
    archived(objects, "b", other)
    assert remove_log(objects, place("a"), end, DROPPED, TIME_MARK) is goes


@pytest.mark.parametrize(
    ("since", "nothing"), [([], True), ([put("1", 46)], False), ([put("1", 91)], False), ([delete("1", 91)], True)]
)
def test_a_log_that_is_marked_holds_nothing_until_something_is_put(since: list[Entry], nothing: bool) -> None:
    state = RecoveryBuffer(lambda: 0, collects=False)
    state.apply([put("1", 11), away(90, 45, 50), *since])
    assert state.holds_nothing() is nothing
    assert state.was_dropped


def member(
    folder: Path,
    work: Callable[[Engine, FakeClock], Awaitable[None]],
    may_remove: Callable[[], Awaitable[bool]] = always,
) -> None:
    """Do something at a member called `b`, whose log has one put, and whose clock goes on."""
    clock = FakeClock()

    async def all_of_it() -> None:
        options = make_options(
            folder / "root", archive=folder / "archive", node="b", clock=clock, start_archiver=lambda: InProcess("")
        )
        engine = Engine(
            options,
            own_loop=True,
            memory=lambda context, place, now: RecoveryBuffer(now, collects=False),
            may_remove=may_remove,
        )
        business = await engine.business("b")
        await _put(engine)
        await business.maintenance.archive()
        await work(engine, clock)
        await engine.close(archive=True)

    asyncio.run(all_of_it())


async def _put(engine: Engine) -> None:
    await submit(engine.businesses["b"], entry("1"))


async def look(engine: Engine, folder: Path) -> None:
    """As a member does that has just started."""
    workers = ThreadWorkers("test", 1)

    async def all_archive() -> None:
        await engine.archive()

    await MissedDestroySearch(engine, all_archive, lambda: open_objects(str(folder / "archive")), workers).run()
    workers.close()


def destroy(folder: Path, ms: int) -> None:
    """By another member, at that time."""
    log(folder, 1, mark(ms << TIMESTAMP_SHIFT))


def pass_by(folder: Path, ms: int) -> None:
    """The other member's log goes on, and says nothing."""
    log(folder, 2, time_mark(ms << TIMESTAMP_SHIFT))


def log(folder: Path, sequence: int, entry: Entry) -> None:
    """By another member."""
    objects, other = open_objects(str(folder / "archive")), Place("default", "local", "b", "a")
    register(objects, other, "log-a")
    rows = to_table([(sequence, entry)])
    span = Span(sequence, sequence)
    put_segment(objects, other, span, rows, log_id="log-a", previous_crc=sequence - 1, seal_crcs=[sequence])


@pytest.mark.parametrize(("later_ms", "marked"), [(60_000, True), (9_000, False), (-60_000, False)])
def test_a_log_is_marked_that_is_older_than_the_mark_by_more_than_clocks_differ(
    later_ms: int, marked: bool, tmp_path: Path
) -> None:
    async def work(engine: Engine, clock: FakeClock) -> None:
        destroy(tmp_path, clock.ms + later_ms)
        clock.ms += 120_000
        business = engine.businesses["b"]
        await look(engine, tmp_path)
        last = business.log.appender.next_sequence
        assert business.maintenance.retires is marked
        assert as_recovery_buffer(business.memory).holds_nothing() is marked
        await look(engine, tmp_path)
        assert business.log.appender.next_sequence == last
        if marked:
            assert may_retire_log(engine, business, alone=False)
            await business.maintenance.archive()
            engine._retirement.tick()
            assert engine._retirement._task is not None
            await engine._retirement._task
            assert engine.names() == []
            await engine.business("b")
            await _put(engine)

    member(tmp_path, work)


def test_a_put_that_comes_before_the_mark_is_written_stays(tmp_path: Path) -> None:
    async def work(engine: Engine, clock: FakeClock) -> None:
        destroy(tmp_path, clock.ms + 60_000)
        clock.ms += 120_000
        looking = asyncio.create_task(look(engine, tmp_path))
        await _put(engine)
        await looking
        assert not as_recovery_buffer(engine.businesses["b"].memory).holds_nothing()

    member(tmp_path, work)


def test_the_archive_forgets_nothing_while_a_member_may_bring_something_older(tmp_path: Path) -> None:
    asked: list[bool] = []

    async def may_remove() -> bool:
        asked.append(True)
        return len(asked) > 1

    async def work(engine: Engine, clock: FakeClock) -> None:
        destroy(tmp_path, clock.ms + 60_000)
        clock.ms += 120_000
        await look(engine, tmp_path)
        await engine.businesses["b"].maintenance.archive()
        engine._retirement.tick()
        assert engine._retirement._task is not None
        await engine._retirement._task
        pass_by(tmp_path, clock.ms)
        clock.ms += int(engine.options.settings.history_seconds * 1000) + 1000
        for there in (True, False):
            clock.seconds += 3600
            engine._log_removal.tick()
            assert engine._log_removal._task is not None
            await engine._log_removal._task
            assert bool(engine.retired()) is there

    member(tmp_path, work, may_remove)
