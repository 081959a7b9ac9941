"""A watch by the files of logs that come, go and are damaged beside it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ArchiveGap, CorruptLog
from kvwal.history.feeds.segment_cursor import SegmentCursor
from kvwal.log.files.names import log_folder
from kvwal.log.reader import SegmentReader, entry_decoder
from kvwal.ports.disk import OsDisk
from kvwal.store.engine import Engine
from kvwal.store.sync import ReadOnlyStore
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, FakeDisk, make_options
from tests.support.log import logs as of_logs
from tests.support.log.logs import Writer
from tests.support.log.store import open_with_archiver
from tests.support.log.submissions import entry, put

BEGIN = '{"n1": 0, "n2": 0, "local": 0}'
PLACE = Place("default", "local", "jobs", "local")


def keys(found: list[kvwal.DataEntry]) -> list[str]:
    """The key of each change."""
    return [item.key.decode() for item in found]


def damage(path: Path, text: bytes) -> None:
    """Change the byte where `text` begins."""
    data = path.read_bytes()
    at = data.index(text)
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])


@pytest.mark.parametrize("nodes", [["n1"], ["n1", "n2"]])
def test_what_was_read_before_damage_is_given_and_then_the_damage_is_told(tmp_path: Path, nodes: list[str]) -> None:
    for node in nodes:
        with kvwal.open(tmp_path, node=node, archive=None) as store:
            for number in range(4):
                store.map("jobs")[f"key-{number}-of-{node}"] = number
    watch = kvwal.open(tmp_path, archive=None, read_only=True).map("jobs").watch(after=BEGIN)
    (segment,) = (tmp_path / "default/local/jobs/n1").glob("*.wal")
    damage(segment, b"key-2-of-n1")
    assert keys(watch.poll()) == ["key-0-of-n1", "key-1-of-n1"]
    for _ in range(5):
        with pytest.raises(CorruptLog, match="a later block says that it was durable"):
            watch.poll()
    assert json.loads(watch.position)["n1"] == 2


def test_a_page_of_several_nodes_ends_by_its_bytes_too(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        with kvwal.open(tmp_path, node=node, archive=None, flush="os") as store:
            for number in range(3):
                store.map("jobs")[f"{number}"] = "x" * 700_000
    watch = kvwal.open(tmp_path, archive=None, read_only=True).map("jobs").watch(after=BEGIN)
    assert [len(watch.poll()) for _ in range(4)] == [2, 2, 2, 0]


@pytest.mark.parametrize("moment", [False, True])
def test_a_log_that_only_the_archive_had_is_read_by_its_files_once_they_are_there(tmp_path: Path, moment: bool) -> None:
    """After a moment, what is not younger stays left out."""
    root, archive, away = tmp_path / "root", tmp_path / "archive", tmp_path / "away"
    with kvwal.open(root, node="n1", archive=archive) as store:
        store.map("jobs")["a"] = 1
    with kvwal.open(root, node="n2", archive=archive) as store:
        store.map("jobs").put_many({"b": 2, "c": 3})
        last = store.map("jobs").put("d", 4)
    shutil.move(root / "default/local/jobs/n2", away)
    clock = FakeClock()
    watch = (
        ReadOnlyStore(make_options(root, clock=clock, archive=archive))
        .map("jobs")
        .watch(after=last - 1 if moment else BEGIN)
    )
    begun = [] if moment else ["a", "b", "c", "d"]
    assert moment or keys(watch.poll()) == begun
    shutil.move(away, root / "default/local/jobs/n2")
    with kvwal.open(root, node="n2", archive=None) as store:
        store.map("jobs")["new"] = 5
    clock.seconds += 1.5
    assert keys(watch.poll()) == (["d", "new"] if moment else ["new"])


async def _put_and_retire(engine: Engine) -> int:
    """Put two entries and destroy the map, so that its log goes. The timestamp of the last entry is returned."""
    business = await engine.business("jobs")
    await put(business, entry("a"))
    last = await put(business, entry("a", deleted=True))
    business.maintenance.retires = True
    await business.maintenance.archive()
    engine._retirement.tick()
    assert engine._retirement._task is not None
    await engine._retirement._task
    assert business.closed
    return last


def test_the_last_changes_of_a_destroyed_map_are_given_from_the_archive(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def main() -> None:
        engine = Engine(make_options(root, archive=archive, start_archiver=lambda: InProcess("")), own_loop=True)
        first = await put(await engine.business("jobs"), entry("first"))
        beside = kvwal.open(root, archive=archive, read_only=True).map("jobs")
        watch = beside.watch()
        other = kvwal.open(root, archive=None, read_only=True).map("jobs").watch()
        await put(await engine.business("jobs"), entry("first", deleted=True))
        last = await _put_and_retire(engine)
        assert [(item.key, item.deleted) for item in watch.poll()] == [
            (b"first", True), (b"a", False), (b"a", True),
        ]  # fmt: skip
        assert json.loads(beside.watch().position) == {"local": 4}
        assert [item.timestamp for item in beside.watch(after=last - 1).poll()] == [last]
        assert len(beside.watch(after=first).poll()) == 3
        assert beside.watch(after=last).poll() == beside.watch(after='{"local": 4}').poll() == []
        with pytest.raises(ArchiveGap, match="sequences 2–4"):
            other.poll()
        assert kvwal.open(root, archive=None, read_only=True).map("jobs").watch(after=last).poll() == []
        await put(await engine.business("jobs"), entry("again"))
        assert [item.key for item in watch.poll()] == [b"again"]
        await engine.close(archive=False)

    asyncio.run(main())


class _Counting(OsDisk):
    """A disk that counts how often a whole file was read."""

    def __init__(self) -> None:
        self.whole = 0

    def read(self, path: Path) -> bytes:
        self.whole += 1
        return super().read(path)


def test_a_reader_syncs_what_was_written_since_its_last_sync(tmp_path: Path) -> None:
    """The file is allocated ahead, so a group may be written into bytes that were zeros when the reader synced."""
    writer, disk = Writer(log_folder(tmp_path, of_logs.PLACE)), FakeDisk()
    cursor = SegmentCursor(disk, tmp_path, of_logs.PLACE, 0, acknowledged_only=True)
    for number in (1, 2, 3):
        writer.group(1, sync=False)
        assert [sequence for sequence, _ in cursor.read()] == [number]
        assert disk.calls["datasync"] == number
    for _ in range(5):
        writer.group(1, sync=False)
    assert [sequence for _ in range(5) for sequence, _ in cursor.read()] == [4, 5, 6, 7, 8]
    assert disk.calls["datasync"] == 4, "one sync for all that was there"
    writer.crash()


def test_a_torn_block_is_searched_after_ever_more_seldom(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        disk = _Counting()
        reader = SegmentCursor(disk, tmp_path, PLACE, 0, acknowledged_only=False)
        assert len(reader.read()) == 1
        (segment,) = log_folder(tmp_path, PLACE).glob("*.wal")
        whole = SegmentReader(segment, segment.read_bytes())
        assert len(list(whole.entries(entry_decoder()))) == 1
        with segment.open("r+b") as file:
            file.seek(whole.end)
            file.write(b"torn block")
        for _ in range(1536):
            assert reader.read() == []
        assert disk.whole == 12
        jobs["b"] = 2
        assert [item.key for _, item in reader.read()] == [b"b"]


class _Moving(OsDisk):
    """A disk on which the first files that are asked for are gone since they were listed."""

    def __init__(self, times: int) -> None:
        self.left = times

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        self.left -= 1
        if self.left >= 0:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return super().read_part(path, offset, size)


def test_a_file_that_goes_while_a_start_is_looked_up_is_looked_up_again(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        jobs = store.map("jobs")
        moment = jobs.put("a", 1)
        jobs["b"] = 2
        for times in (1, 3):
            cursor = SegmentCursor(_Moving(times), tmp_path, PLACE, 0, acknowledged_only=False)
            assert cursor.last_sequence() == 2
            cursor = SegmentCursor(_Moving(times), tmp_path, PLACE, 0, acknowledged_only=False)
            assert cursor.at_or_before(moment) in (0, 1)


def test_a_log_that_only_the_archive_has_is_given_whole_before_it_is_left_alone(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    for node in ("n1", "n2"):
        with kvwal.open(root, node=node, archive=archive) as store:
            store.map("jobs").put_many({f"{node}-{number}": number for number in range(5_000 if node == "n2" else 1)})
    shutil.rmtree(root / "default/local/jobs/n2")
    reader = ReadOnlyStore(make_options(root, clock=FakeClock(), archive=archive))
    watch = reader.map("jobs").watch(after=BEGIN)
    assert [len(watch.poll()) for _ in range(4)] == [2_000, 2_000, 1_001, 0]
