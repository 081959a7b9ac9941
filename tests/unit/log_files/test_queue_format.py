"""Format 2: a file of a log that has an entry of a queue says so in its header, and no other file does. All readers of a log read
both formats; versions without queues refuse the second (tests/unit/log_files/test_older_version.py).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import CommitUnknown
from kvwal.log.files.format import FORMAT, WITH_QUEUES, Header, format_for
from kvwal.log.files.names import log_folder, segment_name, snapshot_name
from kvwal.log.reader import SegmentReader
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal_archive.layout import Place
from tests.support.cli import kvwal as command
from tests.support.disk.faults import START_MS, FakeClock, FakeDisk, open_store
from tests.support.invariants.formats import unmarked
from tests.support.log.logs import Writer, three_groups
from tests.support.log.store import open_with_archiver

GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden" / "log-5"
GOLDEN_PLACE = Place("spark", "local", "jobs", "node-1")
PLACE = Place("default", "local", "work", "local")


def header_of(path: Path) -> Header:
    """The header of a segment or a snapshot."""
    return SegmentReader(path, path.read_bytes()).header


def formats(root: Path, place: Place = PLACE) -> dict[str, int]:
    """The format of each file of a log."""
    folder = log_folder(root, place)
    assert not list(unmarked(OS_DISK, folder))
    return {path.name: header_of(path).format for path in sorted(folder.glob("*.[ws]*"))}


def test_the_golden_log_with_a_queue_is_still_read(tmp_path: Path) -> None:
    folder = log_folder(tmp_path, GOLDEN_PLACE)
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("*.py"))
    assert formats(tmp_path, GOLDEN_PLACE) == {
        segment_name(1): 1, segment_name(3): 2, snapshot_name(7): 2, segment_name(8): 2,
    }  # fmt: skip
    for gone in ([], [snapshot_name(7)]):
        for name in gone:
            (folder / name).unlink()
        with open_store(tmp_path, clock=FakeClock(START_MS + 99), namespace="spark", node="node-1") as store:
            jobs = store.business("jobs")
            assert [(item.priority, item.value) for item in jobs.queue("todo").items()] == [
                (-1, "urgent"), (0, {"b": 2}), (0, "c"),
            ]  # fmt: skip
            assert dict(jobs.map()) == {"moved": 1, "old": "kept"}


def test_a_log_without_a_queue_has_the_format_of_before(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        work.map()["key"] = "queue:int"
        work.map("queue")["named"] = 1
        work.map().commit_if({"key": "queue:int"}, {"other": b"queue/todo:int"})
        with work.transaction() as t:
            t.map("state")["last"] = 2
            assert t.queue("todo").take_many(1) == []
        assert work.queue("todo").take_many(5) == []
        store.checkpoint()
        work.map()["key"] = 2
    assert set(formats(tmp_path).values()) == {FORMAT}


def test_a_log_has_the_format_from_the_first_item_on(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        work.map()["key"] = 1
        work.queue("todo").put_many(["a", "b"])
        work.map()["key"] = 2
        assert formats(tmp_path) == {segment_name(1): FORMAT, segment_name(2): WITH_QUEUES}
        store.checkpoint()
        assert work.queue("todo").take() == "a"
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        work.map()["key"] = 3
        assert list(work.queue("todo").browse()) == ["b"]
        store.checkpoint()
    assert set(formats(tmp_path).values()) == {WITH_QUEUES}


def test_a_segment_without_entries_is_replaced(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        with store.business("work").transaction() as t:
            t.queue().put("a")
            t.map()["key"] = 1
        assert formats(tmp_path) == {segment_name(1): WITH_QUEUES}
    with kvwal.open(tmp_path, read_only=True) as store:
        assert list(store.business("work").queue().browse()) == ["a"]


def test_a_watch_goes_on_over_the_change_of_formats(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        changes, of_map = work.queue().watch(), work.map().watch()
        work.queue().put("a")
        work.map()["key"] = 1
        assert not next(changes).deleted
        assert next(of_map).key == b"key"


@pytest.mark.parametrize("call", ["allocate", "write_at", "datasync"])
@pytest.mark.parametrize("before", [{}, {"key": 1}], ids=["replaced", "sealed"])
def test_where_the_disk_fails_between_the_formats_nothing_is_lost(
    tmp_path: Path, call: str, before: dict[str, int]
) -> None:
    """At each call of the change to a segment of format 2, after which the log is opened again."""
    for nth in range(1, 10):
        root, disk = tmp_path / str(nth), FakeDisk()
        store = open_store(root, disk)
        work = store.business("work")
        for key, value in before.items():
            work.map()[key] = value
        disk.fail(call, nth)
        try:
            work.queue().put("a")
        except CommitUnknown:
            put = False
        else:
            put = True
        assert put != bool(disk.calls[f"failed {call}"])
        disk.fail(call, 0)  # no call of the close
        store.close()
        with open_store(root) as store:
            work = store.business("work")
            assert dict(work.map()) == before
            assert list(work.queue().browse()) in ([["a"]] if put else [[], ["a"]])
        formats(root)
        if put:
            break
    else:
        pytest.fail("it failed at every call")
    assert nth > 1


def test_restored_taken_over_repaired_and_merged_logs_have_the_format(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with open_with_archiver(root, archive) as store:
        work = store.business("work")
        work.map()["key"] = 1
        store.archive()
        work.queue("todo").put_many(["a", "b"])
        assert work.queue("todo").take() == "a"
        store.backup(tmp_path / "backup")
        store.archive()
    kvwal.restore(archive, tmp_path / "restored", node="other")
    assert WITH_QUEUES in formats(tmp_path / "restored", PLACE._replace(node="other")).values()
    damaged = log_folder(root, PLACE) / segment_name(1)
    damaged.unlink()  # the backup has the file, too
    damaged.write_bytes(b"damaged")
    repaired = command("log", "repair", root, "work", "--into", tmp_path / "repaired", "--archive", archive)
    assert repaired.code == 0, repaired.err
    assert WITH_QUEUES in formats(tmp_path / "repaired").values()
    kvwal.restore(archive, tmp_path / "again", node="local", take_over=True)
    assert formats(tmp_path / "again") == {snapshot_name(4): WITH_QUEUES}
    with kvwal.open(tmp_path / "merged", archive=None) as store:
        store.business("work").map()["own"] = 1
    merged = tmp_path / "merged"
    shutil.copytree(
        log_folder(tmp_path / "restored", PLACE._replace(node="other")),
        log_folder(merged, PLACE._replace(node="other")),
    )
    merge_nodes(MergePorts(OS_DISK, SYSTEM), merged, PLACE, ["other"], lambda *told: None)
    assert WITH_QUEUES in formats(merged).values()
    for folder in ("backup", "restored", "repaired", "again", "merged"):
        node = "other" if folder == "restored" else "local"
        with kvwal.open(tmp_path / folder, node=node, archive=None) as store:
            assert list(store.business("work").queue("todo").browse()) == ["b"], folder
            assert store.business("work").map()["key"] == 1


def test_the_classes_that_need_the_format() -> None:
    assert format_for(["str", "map/queue:str", "time:none", "queues:int", "queue"]) == FORMAT
    assert format_for(["str", "queue:int"]) == format_for(["queue/todo:int"]) == WITH_QUEUES


def test_a_log_without_entries_of_queues_is_not_marked_by_the_appender(tmp_path: Path) -> None:
    writer: Writer = three_groups(tmp_path)
    writer.close()
    assert [header_of(path).format for path in tmp_path.glob("*.wal")] == [FORMAT]
