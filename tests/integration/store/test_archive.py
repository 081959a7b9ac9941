"""A store and its archive: what happens when one of them fails, goes away, or is somebody else's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ArchiveError, ArchiveGap, BeforeHistory, ConfigError
from kvwal.history.reads.tail_reader import read_local
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.compaction import rewrite
from kvwal_archive.objects import open_objects
from tests.support.archive.archiver import PLACE, InProcess, archivers, business, coverage_of
from tests.support.cli import kvwal as command

SMALL = kvwal.Settings(segment_bytes=64 << 10)


def segments(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.wal"))


def test_a_silent_archive_costs_no_write_and_drops_nothing(tmp_path: Path) -> None:
    """Nobody listens at that port. The lag shows; when the archive is back, it catches up."""
    wrong = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    root = tmp_path / "root"
    with kvwal.open(root, archive="s3://nowhere/kvwal", storage_options=wrong) as store:
        b = store.map("b")
        b["before"] = 1
        with pytest.raises(ArchiveError, match=r"s3://nowhere") as caught:
            store.archive()
        assert "secret" not in str(caught.value)
        b["after"] = 2
        store.checkpoint()
        assert business(store)["archive_lag_entries"] == 2
        assert "s3://nowhere" in business(store)["archive_error"]
        assert f"{1:020}.wal" in segments(root)
        store.close(archive=False)
    with kvwal.open(root, archive=tmp_path / "archive") as store:
        store.map("b")
        store.archive()
        assert (business(store)["archive_lag_entries"], business(store)["archive_error"]) == (0, None)
    assert coverage_of(tmp_path / "archive").last == 2


@pytest.mark.usefixtures("started_archivers")
def test_an_archiver_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root") as store:
        b = store.map("b")
        b["a"] = 1
        store.archive()
        (archiver,) = archivers()
        archiver.send_signal(signal.SIGSTOP)
        b["a"] = 2
        archiver.kill()
        with pytest.raises(ArchiveError, match="died"):
            store.archive()
        b["a"] = 3
        store.archive()
        assert [process.pid for process in archivers()] != [archiver.pid]
        assert business(store)["archive_lag_entries"] == 0
        assert len(b.history("a")) == 3


def test_a_segment_goes_only_when_archived_and_covered(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, settings=SMALL) as store:
        b = store.map("b")
        b["a"] = 1
        store.archive()
        assert f"{1:020}.wal" in segments(root)
        store.checkpoint()
        assert f"{1:020}.wal" not in segments(root)
        b["a"] = 2
        store.checkpoint()
        assert f"{2:020}.wal" in segments(root)
        store.archive()
        assert f"{2:020}.wal" not in segments(root)
    with kvwal.open(root, archive=None) as store:
        assert dict(store.map("b")) == {"a": 2}


def test_without_an_archive_a_checkpoint_alone_bounds_the_log(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        b = store.map("b")
        first = b.put("a", 1)
        b["a"] = 2
        assert b.at(first)["a"] == 1
        store.checkpoint()
        assert segments(tmp_path) == [f"{3:020}.wal"]
        assert [entry.value for entry in b.history("a")] == [b"\x81\x02"]
        with pytest.raises(BeforeHistory, match="last checkpoint"):
            b.at(first)


def test_a_log_moves_to_a_new_archive(tmp_path: Path) -> None:
    """Its first segments are gone: the new archive begins with the snapshot, and its history there."""
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        b = store.map("b")
        first = b.put("a", 1)
        b.put_many({"a": 2, "b": 2})
        del b["b"]
        store.checkpoint()
        b["c"] = 3
    with kvwal.open(root, archive=tmp_path / "new") as store:
        b = store.map("b")
        store.archive()
        assert coverage_of(tmp_path / "new").last == 5
        with pytest.raises(ArchiveGap):
            b.at(first)
        assert b.at(b["c"] and b.history("c")[0].timestamp)["a"] == 2
    kvwal.restore(tmp_path / "new", tmp_path / "second")
    with kvwal.open(tmp_path / "second") as store:
        assert dict(store.map("b")) == {"a": 2, "c": 3}


def test_what_only_a_snapshot_holds_is_archived_too(tmp_path: Path) -> None:
    """No segment is left, and still an archive that was asked for holds all of it when the call returns."""
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        store.map("b").update(a=1, b=2)
        store.checkpoint()
    with kvwal.open(root, archive=tmp_path / "new") as store:
        store.map("b")
        store.archive()
        assert business(store)["archive_lag_entries"] == 0
    kvwal.restore(tmp_path / "new", tmp_path / "second")
    with kvwal.open(tmp_path / "second") as store:
        assert dict(store.map("b")) == {"a": 1, "b": 2}


@pytest.mark.parametrize("more", [False, True], ids=["snapshot", "segment"])
def test_an_archive_that_a_log_went_on_without_is_a_gap(tmp_path: Path, more: bool) -> None:
    """Its own checkpoint dropped what the archive never got: that is said, not passed over."""
    archive = tmp_path / "archive"
    for url, value in ((archive, 1), (None, 2)):
        with kvwal.open(tmp_path / "root", archive=url) as store:
            store.map("b")["a"] = value
            store.checkpoint()
    with kvwal.open(tmp_path / "root", archive=archive) as store:
        b = store.map("b")
        if more:
            b["a"] = 3
        with pytest.raises(ArchiveGap, match=r"ends with 1, .* begins with 3"):
            store.archive()
        assert business(store)["archive_error"]
        assert b["a"] == (3 if more else 2)


def test_history_reaches_over_archive_snapshot_and_log(tmp_path: Path) -> None:
    with kvwal.open(tmp_path) as store:
        b = store.map("b")
        moments = []
        for value in range(6):
            moments.append(b.put("a", value))
            if value % 3 == 0:
                store.archive()
            if value % 3 == 1:
                store.checkpoint()
        assert [entry.timestamp for entry in b.history("a")] == moments[::-1]
        assert [b.at(moment)["a"] for moment in moments] == list(range(6))
        with kvwal.open(tmp_path, read_only=True) as reader:
            assert reader.map("b").history("a") == b.history("a")


def test_before_the_horizon_is_a_gap(tmp_path: Path) -> None:
    with kvwal.open(tmp_path) as store:
        b = store.map("b")
        first = b.put("a", 1)
        second = b.put("a", 2)
        store.archive()
        objects = open_objects(str(tmp_path / "_archive"))
        rewrite(objects, PLACE, now_ms=(second >> 16) + 10_000, history_ms=1, force=True)
        store.checkpoint()
        with pytest.raises(ArchiveGap):
            b.at(first)
        assert [entry.timestamp for entry in b.history("a")] == [second]


def test_a_second_root_may_not_write_under_the_same_name(tmp_path: Path) -> None:
    for name, fails in (("one", False), ("two", True)):
        with kvwal.open(tmp_path / name, archive=tmp_path / "archive") as store:
            store.map("b")["who"] = name
            if fails:
                with pytest.raises(ConfigError, match="belongs to another log"):
                    store.archive()
            else:
                store.archive()
    kvwal.restore(tmp_path / "archive", tmp_path / "third")
    with kvwal.open(tmp_path / "third") as store:
        assert store.map("b")["who"] == "one"


def test_reading_while_another_process_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.programs.load", str(tmp_path), str(tmp_path / "_archive"), "7"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    try:
        assert process.stdout is not None
        counts = []
        for number, _ in enumerate(process.stdout):
            if number in (50, 500, 1500, 2500, 3500):
                with kvwal.open(tmp_path, read_only=True) as store:
                    counts.append(
                        len(read_local(OS_DISK, tmp_path, Place("default", "local", "jobs", "local")).tail.entries)
                    )
                    assert len(store.map("jobs")) > 0
                    assert store.stats()["businesses"]["jobs"]["local"]["last_sequence"] > 0
            if number == 3500:
                break
        assert len(counts) == 5
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("more", [0, 5, 20])
def test_an_older_copy_of_a_log_does_not_write_over_what_came_later(tmp_path: Path, more: int) -> None:
    """A folder was put back from a backup: what is written then has the numbers of entries that the archive holds already."""
    root, archive, backup = tmp_path / "root", tmp_path / "archive", tmp_path / "backup"
    for first in (0, 10):
        if first:
            shutil.copytree(root, backup)
        with kvwal.open(root, archive=archive) as store:
            for number in range(first, first + 10):
                store.map("b")[f"key-{number}"] = number
    shutil.rmtree(root)
    backup.rename(root)
    with kvwal.open(root, archive=archive) as store:
        b = store.map("b")
        for number in range(more):
            b[f"new-{number}"] = number
        with pytest.raises(ArchiveError, match="older copy"):
            store.archive()
        store.checkpoint()
        assert "older copy" in business(store)["archive_error"]
        assert f"{1:020}.wal" in segments(root)
    assert coverage_of(archive).spans[-1].last == 20


@pytest.mark.parametrize("more", [1, 3, 5])
def test_a_copy_that_goes_on_beside_its_original_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Both have the same log_id; the original archives three entries more, the copy writes fewer, as many, or more."""
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    root, archive, copy, mended = (tmp_path / name for name in ("root", "archive", "copy", "mended"))
    with kvwal.open(root, archive=archive) as store:
        store.map("b").update({f"both-{number}": number for number in range(5)})
    shutil.copytree(root, copy)
    with kvwal.open(copy, archive=archive) as beside:
        with kvwal.open(root, archive=archive) as store:
            for number in range(3):
                store.map("b")[f"original-{number}"] = number
                if number < more:
                    beside.map("b")[f"copy-{number}"] = number
            store.archive()
        for number in range(3, more):
            beside.map("b")[f"copy-{number}"] = number
        for _ in range(2):
            with pytest.raises(ArchiveError, match="a copy of its folder"):
                beside.archive()
        beside.checkpoint()
        assert "a copy of its folder" in business(beside)["archive_error"]
        assert business(beside)["archived_sequence"] is None
        assert f"{6:020}.wal" in segments(copy)
    assert (
        command("doctor", root, "--archive", archive).code,
        command("log", "verify", root, "--archive", archive).code,
    ) == (0, 0)
    said = command("doctor", copy, "--archive", archive, "--json")
    assert said.code == 1
    assert "copy of" in said.out
    assert command("log", "verify", copy, "--archive", archive).code == 4
    wanted = {f"both-{number}": number for number in range(5)} | {f"original-{number}": number for number in range(3)}
    kvwal.restore(archive, tmp_path / "restored")
    with kvwal.open(tmp_path / "restored", archive=None, read_only=True) as store:
        assert dict(store.map("b")) == wanted
    assert command("log", "repair", copy, "--archive", archive, "--into", mended, "--take-over").code == 0
    with kvwal.open(mended, archive=archive) as store:
        assert dict(store.map("b")) == wanted | {f"copy-{number}": number for number in range(more)}
        store.archive()


def test_an_archive_can_begin_with_an_empty_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    with kvwal.open(tmp_path / "root", archive=tmp_path / "first") as store:
        store.map("b")["a"] = 1
        store.map("b").delete("a")
        store.archive()
        store.checkpoint()
    with kvwal.open(tmp_path / "root", archive=tmp_path / "second") as store:
        store.map("b")
        store.archive()
        store.map("b")["b"] = 2
        store.archive()
    kvwal.restore(tmp_path / "second", tmp_path / "restored")
    with kvwal.open(tmp_path / "restored", archive=None, read_only=True) as store:
        assert dict(store.map("b")) == {"b": 2}


def test_a_checkpoint_keeps_the_deletes_that_hold_down_another_nodes_entries(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, node="n2") as store:
        store.map("b").update(a=1, b=1)
    with kvwal.open(tmp_path, archive=None, node="n1") as store:
        b = store.map("b")
        b["own"] = 1
        for key in ("a", "own"):
            b.delete(key)
        store.checkpoint()
        assert len(segments(tmp_path)) == 2, "the log of n2, and what n1 began after its checkpoint"
    with kvwal.open(tmp_path, archive=None, read_only=True) as store:
        assert dict(store.map("b")) == {"b": 1}
