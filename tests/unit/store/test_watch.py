"""A watch shows what was acknowledged, in order, and says why it ends; a position goes on exactly where a watch was left."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.config import Flush
from kvwal.entry import AWAY, Entry, time_mark
from kvwal.errors import ArchiveGap, BeforeHistory, CommitUnknown, ConfigError, LogFailed, StoreClosed, WrongType
from kvwal.key_class import DROPPED, INTENT, is_of_map
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import File, OsDisk
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.watch import Watch
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.disk.faults import FakeDisk, make_options, open_store
from tests.support.log.store import open_with_archiver


def every(watch: Watch) -> list[tuple[str, Any]]:
    """Keys and values of all changes that are there; None is a delete."""
    found: list[tuple[str, Any]] = []
    while some := watch.poll():
        found += [(entry.key.decode(), None if entry.deleted else kvwal_value(entry)) for entry in some]
    return found


def kvwal_value(entry: kvwal.DataEntry) -> Any:
    return int(json.loads(entry.value)) if entry.value_class == "json" else int.from_bytes(entry.value[-1:], "big")


def test_changes_come_in_order_and_a_position_goes_on_within_a_transaction(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs["before"] = 0
        watch = jobs.watch()
        jobs["a"] = 1
        jobs.put_many({"b": 2, "c": 3})
        del jobs["a"]
        assert [next(watch).key, next(watch).key] == [b"a", b"b"]
        assert json.loads(watch.position) == {"local": 3}
        assert every(jobs.watch(after=watch.position)) == [("c", 3), ("a", None)]
        assert every(watch) == [("c", 3), ("a", None)]
        assert watch.poll() == []


def test_a_waiting_watch_is_woken_and_ends_when_the_store_is_closed(tmp_path: Path) -> None:
    store = kvwal.open(tmp_path, archive=None, flush="os")
    jobs = store.map("jobs")
    program = asyncio.new_event_loop()
    with closing(program):
        watch = jobs.watch()
        waiting = program.run_in_executor(None, next, watch)
        jobs["a"] = 1
        assert program.run_until_complete(waiting).key == b"a"
        ended = program.run_in_executor(None, next, watch)
        store.close()
        with pytest.raises(StoreClosed, match="go on from the watch's position"):
            program.run_until_complete(ended)


def test_a_poisoned_log_ends_the_watch_after_what_was_acknowledged(tmp_path: Path) -> None:
    disk = FakeDisk()
    store = open_store(tmp_path, disk=disk, archive=None)
    jobs = store.map("jobs")
    watch = jobs.watch()
    jobs["a"] = 1
    disk.fail("datasync")
    with pytest.raises(CommitUnknown):
        jobs["lost"] = 2
    assert next(watch).key == b"a"
    with pytest.raises(LogFailed) as raised:
        next(watch)
    assert isinstance(raised.value.__cause__, OSError)
    store.close()


def test_a_start_that_is_none_is_refused_as_by_at(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        for wrong in (1_767_225_600, 1.5, True):
            with pytest.raises((ConfigError, WrongType)) as by_at:
                jobs.at(wrong)
            with pytest.raises(type(by_at.value)) as by_watch:
                jobs.watch(after=wrong)
            assert str(by_watch.value) == str(by_at.value)
        for text in ("soon", "[1]", '{"local": "x"}'):
            with pytest.raises(ConfigError, match="is no position of a watch"):
                jobs.watch(after=text)
        with pytest.raises(ConfigError, match="the position is sequence 7, and the log ends with 1"):
            jobs.watch(after='{"local": 7}')
        assert every(jobs.watch(after=datetime.now())) == []


def test_a_watch_that_fell_behind_is_told_the_range(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        jobs = store.map("jobs")
        first = jobs.put("a", 1)
        watch = jobs.watch(after=first)
        jobs.put_many({"b": 2, "c": 3})
        store.checkpoint()
        jobs["d"] = 4
        with pytest.raises(ArchiveGap, match="sequences 2–3 are neither in the log nor in the archive"):
            watch.poll()
        with pytest.raises(BeforeHistory, match="ends at the last checkpoint"):
            jobs.watch(after=first)
        assert every(jobs.watch(after='{"local": 3}')) == [("d", 4)]


def test_a_watch_is_told_of_changes_that_compaction_removed(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with open_with_archiver(tmp_path / "root", archive) as store:
        jobs = store.map("jobs")
        first = jobs.put("a", 1)
        for value in (2, 3):
            jobs["a"] = value
        store.archive()
        store.checkpoint()
        store.archive()
        place = Place("default", "local", "jobs", "local")
        compaction.rewrite(open_objects(str(archive)), place, now_ms=SYSTEM.wall_ms() + 1000, history_ms=0, force=True)
        with pytest.raises(
            ArchiveGap, match=r"of sequences 2–3 the archive has kept 1: compaction has removed changes"
        ):
            jobs.watch(after='{"local": 1}').poll()
        assert every(jobs.watch(after='{"local": 2}')) == [("a", 3)]
        with pytest.raises(BeforeHistory):
            jobs.watch(after=first)


def test_several_nodes_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    for node in ("n1", "n2", "n1", "n2"):
        with kvwal.open(tmp_path, node=node, archive=None) as store:
            store.map("jobs")[node] = len(store.map("jobs"))
    with kvwal.open(tmp_path, archive=None, read_only=True) as reader:
        watch = reader.map("jobs").watch(after=datetime(2020, 1, 1))
        assert [(entry.key, entry.timestamp) for entry in watch.poll()] == sorted(
            ((entry.key, entry.timestamp) for key in ("n1", "n2") for entry in reader.map("jobs").history(key)),
            key=lambda pair: pair[1],
        )
        position = watch.position
        with kvwal.open(tmp_path, node="n1", archive=None) as store:
            store.map("jobs")["new"] = 1
        assert next(watch).key == b"new"
        assert next(reader.map("jobs").watch(after=position)).key == b"new"


def test_a_reader_makes_a_group_durable_before_it_shows_it(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        first = store.map("jobs").put("a", 1)
        disk = FakeDisk()
        watch = ReadOnlyStore(make_options(tmp_path, archive=None, disk=disk)).map("jobs").watch(after=first - 1)
        disk.refuse = {"datasync"}
        with pytest.raises(OSError, match="Input/output error"):
            watch.poll()
        disk.refuse = set()
        assert every(watch) == [("a", 1)]
        assert disk.calls["datasync"] == 1


@pytest.mark.parametrize("flush", ["os", kvwal.Interval(ms=3_600_000, bytes=1 << 30)])
def test_a_reader_syncs_no_log_whose_writer_acknowledges_without_a_sync(tmp_path: Path, flush: Flush) -> None:
    """What `get` of the writer tells, a watch beside it gives: fifty looks a second would else be fifty syncs a second."""
    with kvwal.open(tmp_path, archive=None, flush=flush) as store:
        jobs = store.map("jobs")
        disk = FakeDisk()
        disk.refuse = {"datasync"}
        watch = (
            ReadOnlyStore(make_options(tmp_path, archive=None, disk=disk)).map("jobs").watch(after=datetime(2020, 1, 1))
        )
        for number in range(10):
            jobs[f"{number}"] = number
            assert every(watch) == [(f"{number}", number)]
        assert disk.calls["datasync"] == 0


class _Strangers(OsDisk):
    """A disk on which this process may only read."""

    def open(self, path: Path) -> File:
        raise PermissionError(13, os.strerror(13), str(path))


def test_a_reader_that_cannot_make_a_group_durable_does_not_show_it(tmp_path: Path) -> None:
    """The next group says that the one before it is durable."""
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        first = jobs.put("a", 1)
        reader = ReadOnlyStore(make_options(tmp_path, archive=None, disk=_Strangers()))
        watch = reader.map("jobs").watch(after=first - 1)
        assert every(watch) == []
        jobs["b"] = 2
        assert every(watch) == [("a", 1)]
        assert every(kvwal.open(tmp_path, archive=None, read_only=True).map("jobs").watch(after=first)) == [("b", 2)]


def test_the_asynchronous_watch_has_the_same_promises(tmp_path: Path) -> None:
    async def main() -> None:
        async with kvwal.aio.open(tmp_path, archive=None, flush="os") as store:
            jobs = store.map("jobs")
            first = await jobs.put("a", 1)
            watch = jobs.watch(after=first - 1)
            assert (await anext(watch)).key == b"a"
            waiting = asyncio.ensure_future(anext(watch))
            await jobs.put("b", 2)
            assert (await waiting).key == b"b"
            assert json.loads(watch.position) == {"local": 2}
            with pytest.raises(ConfigError):
                jobs.watch(after="soon")
        with pytest.raises(StoreClosed):
            await anext(watch)

    asyncio.run(main())


def test_a_cancelled_wait_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with kvwal.aio.open(tmp_path, archive=None, flush="os") as store:
            jobs = store.map("jobs")
            watch = jobs.watch(after=await jobs.put("first", 0))
            found: list[bytes] = []
            for number in range(40):
                waiting = asyncio.ensure_future(anext(watch))
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                waiting.cancel()
                found += [
                    entry.key
                    for entry in await asyncio.gather(waiting, return_exceptions=True)
                    if isinstance(entry, kvwal.DataEntry)
                ]
                await jobs.put(f"{number}", number)
            while len(found) < 40:
                found.append((await anext(watch)).key)
            assert found == [b"%d" % number for number in range(40)]

    asyncio.run(main())


@pytest.mark.parametrize(
    "entry", [time_mark(1), Entry(AWAY, DROPPED, b"", "bytes", False, 1), Entry(b"i", INTENT, b"", "", True, 1)]
)
def test_marks_and_intents_are_no_changes(entry: Entry) -> None:
    assert not is_of_map(entry.key_class)
    assert is_of_map("str")


def test_a_watch_beside_a_killed_writer_goes_on_in_the_next_one(tmp_path: Path) -> None:
    """What was acknowledged before the kill was shown or is shown next, each change once, as the history has it."""
    given: list[kvwal.DataEntry] = []
    position: str | None = None
    for _ in range(3):
        command = [sys.executable, "-m", "tests.support.programs.acknowledge", str(tmp_path), "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "opened\n"
            start = position or datetime(2020, 1, 1)
            watch = kvwal.open(tmp_path, archive=None, read_only=True).map("jobs").watch(after=start)
            for _ in range(20):
                writer.stdout.readline()
                given.append(next(watch))
            writer.kill()
        position = watch.position
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        while some := watch.poll():
            given += some
        changes = {entry for key in jobs for entry in jobs.history(key)}
        assert len(given) == len(changes)
        assert set(given) == changes
        assert [entry.timestamp for entry in given] == sorted(entry.timestamp for entry in given)


def test_the_lines_of_the_page_run(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "watch.md").read_text()
    with kvwal.open(tmp_path, archive=None) as store:
        names: dict[str, Any] = {"jobs": store.map("jobs")}
        for lines in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            assert lines.count("\n") < 10
            exec(lines, names)
    assert names["change"].key == b"job-1"
    assert names["later"] == [b"job-1", b"job-2"]
