"""The laws that are looked at after each test find what breaks them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import kvwal
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.format import FORMAT, WITH_CONTENT, WITH_LARGE_VALUES, WITH_QUEUES
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.store.scheduling.timetable import Timetable
from kvwal_archive.objects import Listed
from tests.support.disk.faults import FakeClock
from tests.support.disk.power import MemoryDisk
from tests.support.invariants.contents import names_without_bytes
from tests.support.invariants.formats import unmarked
from tests.support.invariants.job_waits import Passed, due_jobs
from tests.support.invariants.owners import Ended, strangers_of_archive, strangers_of_log
from tests.support.invariants.time_order import disorder
from tests.support.invariants.watch import left_in
from tests.support.log.logs import header

FOLDER = Path("/disk/log")


@pytest.mark.breaks("files", reason="the files that it leaves are what it is about")
def test_files_without_an_owner_are_found(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("jobs")["a"] = 1
        store.archive()
        store.checkpoint()
    log = tmp_path / "root/default/local/jobs/local"
    assert list(left_in(tmp_path)) == []
    for name in ("notes.txt", f"{1:020}.snapshot.7.partial"):
        (log / name).touch()
    (log.parent / "stray").touch()
    (tmp_path / "root/_nobody").mkdir()
    (tmp_path / "archive/default/local/jobs/local/part-0.parquet").touch()
    unclean = [f"{path} has no owner" for path in (log / "notes.txt", log.parent / "stray", tmp_path / "root/_nobody")]
    strange = "default/local/jobs/local/part-0.parquet has no owner"
    assert sorted(how for _, how in left_in(tmp_path)) == sorted([*unclean, strange])
    clean = [path.removeprefix(str(log)) for path in strangers_of_log(OS_DISK, log, Ended.CLOSED)]
    assert clean == [f"/{1:020}.snapshot.7.partial has no owner", "/notes.txt has no owner"]


@pytest.mark.breaks("contents", reason="its claim file is deleted, and then too short")
@pytest.mark.parametrize("size", [None, 3])
def test_a_content_without_its_bytes_is_found(tmp_path: Path, size: int | None) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.content("files").put("empty", b"")
        store.content("files").put("a", bytes(10))
        business = store._engine.businesses["files"]
        assert list(names_without_bytes(OS_DISK, business)) == []
        (path,) = (path for path in tmp_path.rglob("content/*/*") if path.is_file())
        if size is None:
            path.unlink()
        else:
            os.truncate(path, size)
        (how,) = names_without_bytes(OS_DISK, business)
        assert f"'a' names {path.name} up to byte 10" in how


def test_objects_of_a_log_that_is_not_registered_are_found() -> None:
    keys = [f"n/c/b/{node}/{1:020}-{2:020}.parquet" for node in ("known", "gone")]
    listed = [Listed(key, 1, None, 0) for key in ("n/c/b/known/_log", *keys)]
    assert list(strangers_of_archive(listed)) == [f"the object {keys[1]} is of a log that the archive does not know"]


@pytest.mark.parametrize(("timestamps", "merged", "found"), [
    ([1, 2, 3], False, False), ([1, 3, 2], False, True), ([1, 2, 2], False, True), ([1, 3, 2], True, False),
])  # fmt: skip
def test_a_timestamp_that_does_not_ascend_is_found(timestamps: list[int], merged: bool, found: bool) -> None:
    disk = MemoryDisk()
    disk.make_folders(FOLDER)
    begun = msgspec.structs.replace(header(), epoch=1, merged=merged or msgspec.UNSET)
    appender = Appender(disk, FakeClock(), FOLDER, begun, Settings(), [])
    for timestamp in timestamps:
        appender.append([encode_entries([Entry(b"k", "str", b"v", "bytes", False, timestamp)])], 1, sync=True)
        appender.rotate()
    appender.close(seal=True)
    assert (disorder(disk, FOLDER) is not None) == found


@pytest.mark.parametrize(
    ("key_class", "least"),
    [
        ("queue:int", WITH_QUEUES), ("queue/todo:int", WITH_QUEUES), ("content:str", WITH_CONTENT),
        ("content/files:str", WITH_CONTENT), ("str", FORMAT), ("map/queue:str", FORMAT), ("map/content:str", FORMAT),
        ("str content:bytes", WITH_LARGE_VALUES), ("queue:int content:json", WITH_LARGE_VALUES),
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", [FORMAT, WITH_QUEUES, WITH_CONTENT, WITH_LARGE_VALUES])
def test_an_entry_in_a_file_of_an_older_format_is_found(key_class: str, least: int, given: int) -> None:
    disk = MemoryDisk()
    disk.make_folders(FOLDER)
    appender = Appender(disk, FakeClock(), FOLDER, header(), Settings(), [])
    key_class, _, value_class = key_class.partition(" ")
    entry = Entry(b"queue", key_class, b"v", value_class or "bytes", False, 1)
    appender.append([encode_entries([entry])], 1, sync=True, format=given)
    appender.rotate()
    checkpoint(disk, FakeClock(), FOLDER, appender.sealed, entry_decoder())
    appender.close(seal=True)
    files = 2 if given < least else 0
    assert len(list(unmarked(disk, FOLDER))) == files


def test_a_job_that_is_passed_over_twice_is_found() -> None:
    timetable, passed = Timetable({"one": 1, "other": 1}), Passed()
    broken = []
    for now in range(3):
        timetable.note({"one", "other"}, now)
        broken += passed.began(timetable, due_jobs(timetable, now), "other")
    assert broken == [f"the job one is due, and other began {count} times meanwhile" for count in (2, 3)]
