"""A log into which nodes were merged is not in the order of time: what its readers begin with, and what they leave out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import kvwal
from kvwal.entry import TIMESTAMP_SHIFT, Entry
from kvwal.history.feeds.archived_rows import last_up_to
from kvwal.history.feeds.log_feed import LogFeed
from kvwal.history.feeds.segment_order import SegmentStart, stamped_before, start_of
from kvwal.history.restore.restore import new_header
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.source import SCHEMA, KvwalSource
from kvwal.spark.datasource.stream_reader import ChangesReader
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.restore import restore_batches
from tests.support.log.store import open_with_archiver

TARGET = Place("default", "local", "b", "shared")


class Merged(NamedTuple):
    """A root and its archive. The target's log has the changes of `late`, and after them those of `early`, which are older."""

    root: Path
    archive: Path
    late: list[int]
    early: list[int]


def filled(root: Path, node: str) -> list[int]:
    with kvwal.open(root, node=node, archive=None) as store:
        entries = store.map("b")
        return [entries.put(f"{node}-{number}", number) for number in range(6)]


@pytest.fixture(params=["segments", "archive and segments", "archive"])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> Merged:
    root, archive = tmp_path / "root", tmp_path / "archive"
    early = filled(root, "app")
    late = filled(root, "shared")
    if request.param == "archive and segments":
        checkpointed(root, archive)
    merge_nodes(MergePorts(OS_DISK, SYSTEM), root, TARGET, ["app"], lambda *told: None)
    if request.param == "archive":
        checkpointed(root, archive)
    return Merged(root, archive, late, early)


def checkpointed(root: Path, archive: Path) -> None:
    """Archive the target's log, and let its segments go."""
    with open_with_archiver(root, archive, node="shared") as store:
        store.map("b")
        store.archive()
        store.checkpoint()


def test_a_watch_has_what_is_later_and_nothing_else(merged: Merged) -> None:
    with kvwal.open(merged.root, archive=merged.archive) as store:
        for after, count in ((merged.early[2], 9), (merged.late[2], 3), (merged.late[-1], 0)):
            watch = store.map("b").watch(after=after)
            given = [entry.timestamp for _ in range(5) for entry in watch.poll()]
            assert len(given) == count
            assert len(set(given)) == count
            assert all(timestamp > after for timestamp in given)
        new = store.map("b").put("new", 1)
        assert [entry.timestamp for entry in watch.poll()] == [new]


def test_a_stream_has_what_is_later_and_nothing_else(merged: Merged) -> None:
    options = {"business": "b", "store": str(merged.root), "after": str(merged.late[2])}
    reader = KvwalSource(options | ({"archive": str(merged.archive)} if merged.archive.is_dir() else {})).streamReader(
        SCHEMA
    )
    assert isinstance(reader, ChangesReader)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert [time for batch in batches for time in batch.column("timestamp").to_pylist()] == merged.late[3:]


def test_the_exact_position_is_before_the_first_later_change(merged: Merged) -> None:
    def archive() -> object:
        return open_objects(str(merged.archive)) if merged.archive.is_dir() else None

    for at, sequence in ((merged.early[0] - 1, 0), (merged.late[2], 3), (merged.late[-1], 12)):
        feed = LogFeed(OS_DISK, merged.root, TARGET, archive, own=True)
        feed.begin_after(at, exactly=True)
        assert feed.position == sequence
    if merged.archive.is_dir():
        assert last_up_to(open_objects(str(merged.archive)), TARGET, merged.late[2]) == 3


def test_a_log_that_is_taken_over_goes_on_after_its_greatest_timestamp(tmp_path: Path) -> None:
    """Two objects, the later of which has the older changes."""
    root, archive = tmp_path / "root", tmp_path / "archive"
    early = filled(root, "app")
    late = filled(root, "shared")
    with open_with_archiver(root, archive, node="shared") as store:
        store.map("b")
        store.archive()
    merge_nodes(MergePorts(OS_DISK, SYSTEM), root, TARGET, ["app"], lambda *told: None)
    with open_with_archiver(root, archive, node="shared") as store:
        store.map("b")
        store.archive()
    restored = restore_batches(open_objects(str(archive)), *TARGET[:3])
    assert (restored.max_timestamp, restored.positions) == (late[-1], {"shared": 12})
    assert early[-1] < late[0]


def test_a_merge_says_in_the_header_that_it_was_one() -> None:
    plain = new_header(SYSTEM, TARGET)
    old = Entry(b"k", "str", b"", "str", False, 5 << TIMESTAMP_SHIFT)
    for fields, is_stamped in (({"created_ms": 5}, True), ({"created_ms": 6}, False), ({"merged": True}, False)):
        header = msgspec.structs.replace(plain, **fields)
        assert start_of(header, [[old]]) == SegmentStart(0, old.timestamp, is_stamped)
    assert start_of(plain, []) is None


@pytest.mark.parametrize(
    ("starts", "timestamp", "number"),
    [
        ([], 5, None),
        ([SegmentStart(1, 3, True)], 5, 0),
        ([SegmentStart(1, 6, True)], 5, None),
        ([SegmentStart(2, 6, True), SegmentStart(1, 4, True)], 5, 1),
        ([SegmentStart(2, 4, False), SegmentStart(1, 3, True)], 5, 1),
        ([SegmentStart(1, 4, False), SegmentStart(1, 3, True)], 5, 0),
        ([SegmentStart(1, 6, True), SegmentStart(1, 4, False)], 5, 1),
        ([SegmentStart(1, 4, False), None, SegmentStart(1, 1, False)], 5, None),
    ],
)
def test_reading_begins_where_all_before_is_older(
    starts: list[SegmentStart | None], timestamp: int, number: int | None
) -> None:
    assert stamped_before(starts, timestamp) == number
