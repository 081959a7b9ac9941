"""A transaction above `overflow_bytes` stands in a file of its own, and is read everywhere as any other one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import kvwal
from kvwal import aio
from kvwal.entry import Entry
from kvwal.history.feeds.segment_cursor import SegmentCursor
from kvwal.log.files.names import OVERFLOW, log_folder
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.inspect import dump
from kvwal.store.sync import Store, WritableStore
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import make_options

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=2000, archive_seconds=1e9, checkpoint_seconds=1e9)
PLACE = Place("default", "local", "jobs", "local")
COUNT = 50
LARGE = {f"key-{number:02}": f"{number}" * 100 for number in range(COUNT)}
Change = Callable[[Path, Path], Path]


def open_writable(root: Path, archive: Path | None = None, settings: kvwal.Settings = SETTINGS) -> WritableStore:
    given = {"start_archiver": lambda: InProcess("kvwal.archiver")}
    return WritableStore(make_options(root, settings=settings, archive=archive, **given))


def overflow_files(root: Path) -> list[str]:
    return OS_DISK.names(log_folder(root, PLACE) / OVERFLOW)


def closed(root: Path, archive: Path) -> Path:
    return root


def checkpointed(root: Path, archive: Path) -> Path:
    with open_writable(root, archive) as store:
        store.checkpoint()
        assert overflow_files(root), "the archive does not have it yet"
    return root


def archived(root: Path, archive: Path) -> Path:
    with open_writable(root, archive) as store:
        store.archive()
        store.checkpoint()
        assert not overflow_files(root), "its segment is gone"
    return root


def restored(root: Path, archive: Path) -> Path:
    archived(root, archive)
    into = root.with_name("restored")
    kvwal.restore(archive, into)
    return into


def backed_up(root: Path, archive: Path) -> Path:
    with open_writable(root) as store:
        store.backup(root.with_name("backup"))
    return root.with_name("backup")


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Path, int]:
    root, archive = tmp_path / "data", tmp_path / "archive"
    with open_writable(root, archive) as store:
        jobs = store.map("jobs")
        jobs["before"] = 0
        timestamp = jobs.put_many((key, value) for key, value in LARGE.items())
        jobs["key-07"] = "later"
        assert overflow_files(root) == [f"{2:020}"]
    return root, archive, timestamp


@pytest.mark.parametrize("change", [closed, checkpointed, archived, restored, backed_up])
@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
def test_it_is_read_as_any_other(written: tuple[Path, Path, int], change: Change, read_only: bool) -> None:
    root, archive, timestamp = written
    root = change(root, archive)
    opened = open_writable(root, archive) if not read_only else kvwal.open(root, read_only=True, archive=archive)
    with opened as store:
        jobs = store.map("jobs")
        assert dict(jobs) == LARGE | {"before": 0, "key-07": "later"}
        assert [entry.timestamp for entry in jobs.history("key-08")] == [timestamp]
        if change is restored and not read_only:
            return  # a new log, whose history begins with the restore
        assert [entry.deleted for entry in jobs.history("key-07")] == [False, False]
        assert dict(jobs.at(timestamp)) == LARGE | {"before": 0}
        assert dict(jobs.at(timestamp - 1)) == {"before": 0}
        assert [key for key, _ in jobs.scan("key-1")] == [f"key-1{digit}" for digit in range(10)]


@pytest.mark.parametrize("change", [closed, archived])
@pytest.mark.parametrize("last", [0, 1, 2, 24, COUNT, COUNT + 1])
def test_a_watch_gives_each_change_once_wherever_it_goes_on(
    written: tuple[Path, Path, int], change: Change, last: int
) -> None:
    root, archive, _ = written
    expected = ["before", *LARGE, "key-07"]
    with open_writable(change(root, archive), archive) as store:
        watch = store.map("jobs").watch(after=date(2000, 1, 1))
        seen = [next(watch).key.decode() for _ in range(last)]
        later = store.map("jobs").watch(after=watch.position)
        seen += [next(later).key.decode() for _ in range(len(expected) - last)]
    assert seen == expected


@pytest.mark.parametrize("position", [0, 1, 2, 25, COUNT, COUNT + 1])
def test_a_cursor_reads_a_file_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int) -> None:
    root = tmp_path / "data"
    monkeypatch.setattr("kvwal.log.files.snapshot.BLOCK_ENTRIES", 7)
    with open_writable(root) as store:
        store.map("jobs")["before"] = 0
        store.map("jobs").put_many(LARGE)
        store.map("jobs")["after"] = 1
    cursor = SegmentCursor(OS_DISK, root, PLACE, position, acknowledged_only=True)
    read: list[list[tuple[int, Entry]]] = []
    while rows := cursor.read():
        read.append(rows)
    assert max(map(len, read)) <= 7
    found = [(number, entry.key.decode()) for rows in read for number, entry in rows]
    assert found == list(enumerate(["before", *LARGE, "after"], 1))[position:]


def test_maps_and_queues_are_in_one(tmp_path: Path) -> None:
    with open_writable(tmp_path) as store:
        work = store.business("jobs")
        work.queue("todo").put_many([f"part-{number:03}" for number in range(200)])
        with work.transaction() as t:
            parts = t.queue("todo").take_many(150)
            t.queue("done").put_many(parts)
            for part in parts:
                t.map("state")[part] = "done"
        assert len(overflow_files(tmp_path)) == 2
    with open_writable(tmp_path) as store:
        work = store.business("jobs")
        assert list(work.queue("todo").browse()) == [f"part-{number:03}" for number in range(150, 200)]
        assert list(work.queue("done").browse()) == parts
        assert len(work.map("state")) == 150


def test_a_value_of_its_own_and_a_key_put_twice(tmp_path: Path) -> None:
    with open_writable(tmp_path) as store:
        jobs = store.map("jobs")
        jobs["large"] = "x" * 5000
        jobs.put_many([("twice", "a" * 3000), ("twice", "b" * 3000)])
        assert jobs.put_if_absent("absent", "y" * 5000)
        assert not jobs.put_if_absent("absent", "z" * 5000)
        assert jobs.commit_if({"absent": "y" * 5000}, {"large": "z" * 6000})
        assert len(overflow_files(tmp_path)) == 4
        assert len(jobs.history("twice")) == 1
    with open_writable(tmp_path) as store:
        assert dict(store.map("jobs")) == {"large": "z" * 6000, "twice": "b" * 3000, "absent": "y" * 5000}


def test_the_log_says_its_entries(written: tuple[Path, Path, int]) -> None:
    root, _, timestamp = written
    found = list(dump(OS_DISK, root, PLACE))
    assert [sequence for _, sequence, _ in found] == list(range(1, COUNT + 3))
    assert {entry.timestamp for _, _, entry in found[1:-1]} == {timestamp}


def test_threads_that_put_much_and_little_at_once(tmp_path: Path) -> None:
    """All of a large transaction is shown, or nothing of it."""
    torn: list[int] = []

    def put_large(store: Store, name: str) -> None:
        for turn in range(10):
            store.map("jobs").put_many({f"{name}-{number}": turn for number in range(COUNT)} | {name: "x" * 2000})

    def put_small(store: Store, name: str) -> None:
        for turn in range(100):
            store.map("jobs").put(name, turn)

    def look(store: Store, name: str) -> None:
        for _ in range(50):
            shown = {value for _, value in store.map("jobs").scan("large-0-")}
            torn.extend(shown if len(shown) > 1 else ())

    with open_writable(tmp_path) as store:
        kinds = [put_large] * 3 + [put_small] * 3 + [look]
        threads = [
            threading.Thread(target=kind, args=(store, f"{kind.__name__.removeprefix('put_')}-{number}"))
            for number, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = dict(store.map("jobs"))
        store.checkpoint()
    assert not torn
    assert len(expected) == 3 * (COUNT + 1) + 3
    with open_writable(tmp_path) as store:
        assert dict(store.map("jobs")) == expected


def test_tasks_put_much_without_holding_up_the_loop(tmp_path: Path) -> None:
    async def run() -> None:
        async with aio.open(tmp_path, settings=SETTINGS, archive=None) as store:
            jobs = store.map("jobs")
            await asyncio.gather(jobs.put_many(LARGE), jobs.put("small", 1), jobs.put("large", "x" * 5000))
            cancelled = asyncio.ensure_future(jobs.put_many(dict.fromkeys(LARGE, "never")))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            assert await jobs.count() == COUNT + 2
            assert await jobs.get("key-01") in (LARGE["key-01"], "never")

    asyncio.run(run())
    with open_writable(tmp_path) as store:
        assert len(store.map("jobs")) == COUNT + 2
