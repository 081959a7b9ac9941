"""What the archive's collector may remove: bytes that were put before their name, and bytes that another node may have copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvwal.cluster.contents.requests import CLAIM_MS
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import PUT_FIRST, UNCLAIMED_MS, Place, claim_file_key
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.objects import Objects, open_objects
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, open_store

WHERE = ("default", "local", "files")
ORPHAN = "ab" * 14 + PUT_FIRST
HOUR_MS = 3600 * 1000
LATER_MS = 1 << 42


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "archive"))


def put(objects: Objects, folder: Path, file: str, put_ms: int) -> None:
    """Put a claim file that nothing names, at this time of the bucket."""
    ArchivedContents(objects, *WHERE).put(file, b"bytes")
    os.utime(folder / "archive" / claim_file_key(*WHERE, file), (put_ms / 1000, put_ms / 1000))


def written(folder: Path, clock: FakeClock, node: str, key: str = "key") -> None:
    """The node writes something, and archives it."""
    given = {"archive": folder / "archive", "start_archiver": lambda: InProcess("")}
    with open_store(folder / node, node=node, clock=clock, **given) as store:
        store.map("files")[key] = clock.ms
        store.archive()


def collect(objects: Objects) -> list[str]:
    return gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0)


def test_a_member_names_no_bytes_that_may_be_collected() -> None:
    assert CLAIM_MS + HOUR_MS <= UNCLAIMED_MS


def test_bytes_that_a_killed_client_put_go_once_nobody_can_name_them(
    tmp_path: Path, objects: Objects, clock: FakeClock
) -> None:
    put(objects, tmp_path, ORPHAN, clock.ms)
    put_ms = clock.ms
    for node, hours in (("one", 0), ("two", 24), ("one", 26)):
        clock.ms = put_ms + HOUR_MS * hours
        written(tmp_path, clock, node, f"after {hours} h")
        assert collect(objects) == [], f"{hours} h after the put"
    clock.ms += HOUR_MS
    written(tmp_path, clock, "two", "last")
    assert [key.endswith(ORPHAN) for key in collect(objects)] == [True]


def test_bytes_of_a_store_wait_for_no_name(tmp_path: Path, objects: Objects, clock: FakeClock) -> None:
    put(objects, tmp_path, "cd" * 16, clock.ms)
    clock.ms += 1000
    written(tmp_path, clock, "one")
    assert len(collect(objects)) == 1


def test_a_name_that_has_gone_keeps_its_bytes_until_all_nodes_are_archived(
    tmp_path: Path, objects: Objects, clock: FakeClock
) -> None:
    """Another member may have logged a copy of it, and not archived it yet."""
    given = {"archive": tmp_path / "archive", "start_archiver": lambda: InProcess("")}
    with open_store(tmp_path / "one", node="one", clock=clock, **given) as store:
        store.content("files").put("a", b"bytes")
        store.archive()
        (file,) = ArchivedContents(objects, *WHERE).sizes()
        os.utime(tmp_path / "archive" / claim_file_key(*WHERE, file), (clock.ms / 1000, clock.ms / 1000))
        clock.ms += HOUR_MS
        written(tmp_path, clock, "two")  # and then it copies, and is not archived
        clock.ms += HOUR_MS
        store.content("files").delete("a")
        store.archive()
        clock.ms += HOUR_MS
        store.map("files")["last"] = 1
        store.archive()
    rewrite(objects, Place(*WHERE, "one"), now_ms=clock.ms, history_ms=0, force=True)
    gc(objects, Place(*WHERE, "one"), now_ms=LATER_MS, grace_ms=0)
    assert collect(objects) == []
    clock.ms += HOUR_MS
    written(tmp_path, clock, "two", "later")
    assert [key.endswith(file) for key in collect(objects)] == [True]
