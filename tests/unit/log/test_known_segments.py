"""A reader that stays open knows where keys are: it reads these blocks alone, and sees what changes in the files meanwhile."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.history.reads.tail_reader import note_keys, open_range
from kvwal.log import reader as log_reader
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files import snapshot, snapshot_reader
from kvwal.log.files.format import DURABLE, BlockKind, find_blocks, pack_block
from kvwal.log.reader import entry_decoder, read_header
from kvwal.log.unlocked import known as known_module
from kvwal.log.unlocked.known import KnownSegments
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Buffer, OsDisk
from tests.support.log.logs import PLACE, Writer, flip, keys, recovered, segments
from tests.unit.history.test_live_segment import ReadDisk

ALL = (("", b""), ("\U0010ffff", b""))


def folder_of(root: Path) -> Path:
    return root.joinpath(*PLACE)


def found(root: Path, known: KnownSegments | None, low: bytes = b"", disk: ReadDisk | None = None) -> list[bytes]:
    """The keys from `low` on, of entries that are no deletes."""
    return [entry.key for entry in entries(root, known, [low, b"l"], disk)]


def entries(
    root: Path, known: KnownSegments | None, span: Sequence[bytes], disk: ReadDisk | None = None
) -> list[Entry]:
    with ExitStack() as opened:
        low, high = (("str", key) for key in span)
        scan = open_range(disk or OS_DISK, root, PLACE, low, high, None, opened, known)
        return [entry for entries in scan.blocks() for entry in entries]


def knows(root: Path) -> KnownSegments:
    known = KnownSegments(SYSTEM)
    note_keys(OS_DISK, root, PLACE, known)
    return known


def test_keys_are_noted_after_some_reads(tmp_path: Path) -> None:
    Writer(folder_of(tmp_path)).group(3)
    known = KnownSegments(SYSTEM)
    folder = folder_of(tmp_path)
    for _ in range(8):
        assert known.read(folder) is None
    assert found(tmp_path, known) == keys(3)
    assert known.log(folder).after(("", b""), 3) == ("str", keys(3)[-1])


def test_the_logs_that_were_not_read_for_longest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their businesses may be gone: nobody reads a log that was removed, and a console runs for months."""
    monkeypatch.setattr(known_module, "_CHECKED_AFTER", 1)
    Writer(folder_of(tmp_path)).group(100)
    known = KnownSegments(SYSTEM)
    roots = [tmp_path, *(tmp_path / f"copy-{number}" for number in range(3))]
    for root in roots[1:]:
        shutil.copytree(tmp_path / "default", root / "default")
    of_one = 0
    for root in roots:
        note_keys(OS_DISK, root, PLACE, known)
        of_one = known.log(folder_of(root)).held_bytes
    monkeypatch.setattr(known_module, "MOST_BYTES", 2 * of_one + 1)
    assert known.read(folder_of(roots[0])) is not None
    assert [known.read(folder_of(root)) is not None for root in roots] == [True, False, False, True]
    monkeypatch.setattr(known_module, "MOST_BYTES", 0)
    assert found(roots[0], known) == found(roots[3], known) == keys(100)
    assert known.read(folder_of(roots[0])) is not None, "of one log the keys stay"


def test_of_a_large_log_the_blocks_of_the_range_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_FIRST_BYTES", 64 << 10)
    writer = Writer(folder_of(tmp_path))
    chance = random.Random(1)
    for number in range(100):
        block = [
            Entry(b"%03d-%d" % (number, each), "str", chance.randbytes(100), "bytes", False, 1) for each in range(500)
        ]
        writer.appender.append([encode_entries(block)], 500, sync=False)
        if number % 40 == 39:
            writer.appender.rotate()
    writer.appender.rotate()
    writer.crash()
    known, disk = knows(tmp_path), ReadDisk()
    size = sum(path.stat().st_size for path in segments(folder_of(tmp_path)))
    assert len(entries(tmp_path, known, [b"070-2", b"070-3"], disk)) == 111
    assert disk.bytes_read < size / 10
    both = [entries(tmp_path, each, [b"070", b"071"]) for each in (known, None)]
    assert [entry.public() for entry in both[0]] == [entry.public() for entry in both[1]]
    log = known.log(folder_of(tmp_path))
    assert log.after(("str", b"070-2"), 1) == ("str", b"071-0"), "a place for each block"


def test_what_was_written_since_is_there(tmp_path: Path) -> None:
    writer = Writer(folder_of(tmp_path))
    known = KnownSegments(SYSTEM)
    for size in range(1, 20):
        if size % 5 == 0:
            writer.overflow(2)
            writer.appender.rotate()
        writer.group(2, 1, sync=False)
        note_keys(OS_DISK, tmp_path, PLACE, known)
        assert found(tmp_path, known) == keys(writer.appender.next_sequence - 1)


def test_blocks_that_were_cut_and_written_anew_are_read_anew(tmp_path: Path) -> None:
    """The writer's fsync failed after a reader had seen its group. The group is cut, and others come to its place."""
    writer = Writer(folder_of(tmp_path))
    writer.group(2)
    (path,) = segments(folder_of(tmp_path))
    salt, durable = read_header(OS_DISK, path).salt, path.read_bytes()
    writer.group(1, 1, sync=False)
    writer.crash()
    known = knows(tmp_path)
    assert found(tmp_path, known) == keys(4)
    *_, last = find_blocks(durable, 0, salt)
    path.write_bytes(durable[: last.end])
    assert found(tmp_path, known) == keys(2)
    for names in (["a"], ["a", "b"], ["c"], ["c", "d"]):
        written = durable[: last.end]
        for name in names:
            block = [Entry(b"key-%s" % name.encode(), "str", b"v", "bytes", False, 5)]
            payload = encode_entries(block)
            written += b"".join(
                pack_block(BlockKind.ENTRIES, payload, salt=salt, offset=len(written), flags=DURABLE)[0]
            )
        path.write_bytes(written)
        assert found(tmp_path, known) == [*keys(2), *(b"key-%s" % name.encode() for name in names)]


def test_another_segment_of_the_same_name_is_read_anew(tmp_path: Path) -> None:
    """A log is deleted and begins again: its first segment has the name that the old one had."""
    folder = folder_of(tmp_path)
    Writer(folder).group(4)
    known = knows(tmp_path)
    for path in folder.iterdir():
        path.unlink()
    Writer(folder).group(2)
    assert found(tmp_path, known) == keys(2)


@pytest.mark.parametrize("rotates", [False, True])
def test_damage_of_a_known_block_is_told_when_it_is_read(tmp_path: Path, rotates: bool) -> None:
    writer = Writer(folder_of(tmp_path))
    for _ in range(3):
        writer.group(2)
    if rotates:
        writer.appender.rotate()
    writer.crash()
    known = knows(tmp_path)
    path = segments(folder_of(tmp_path))[0]
    blocks = list(find_blocks(path.read_bytes(), 0, read_header(OS_DISK, path).salt))
    flip(path, blocks[1].offset + 20)
    with pytest.raises(CorruptLog, match="does not verify") as caught:
        found(tmp_path, known, b"key-0003")
    assert (caught.value.path, caught.value.offset, caught.value.sequence) == (path, blocks[1].offset, 3)
    assert [entry.key for entry in entries(tmp_path, known, [b"key-0006", b"l"])] == keys(6)[5:]


def test_a_segment_that_is_missing_is_told(tmp_path: Path) -> None:
    writer = Writer(folder_of(tmp_path))
    for _ in range(3):
        writer.group(2)
        writer.appender.rotate()
    writer.crash()
    known = knows(tmp_path)
    segments(folder_of(tmp_path))[1].unlink()
    with pytest.raises(CorruptLog, match="3"):
        found(tmp_path, known)


def test_segments_that_a_checkpoint_covers_are_forgotten(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    writer = Writer(folder)
    for _ in range(3):
        writer.group(4)
        writer.appender.rotate()
    writer.crash()
    known = knows(tmp_path)
    assert known.log(folder).after(("", b""), 3) is not None
    sealed = recovered(folder)[0].sealed
    checkpoint(OS_DISK, SYSTEM, folder, sealed, entry_decoder())
    assert found(tmp_path, known) == keys(12)
    assert known.log(folder).after(("", b""), 1) is None


class ViewedDisk(OsDisk):
    """A disk that counts the bytes that are read of files that are held open."""

    def __init__(self) -> None:
        self.bytes_read = 0

    @contextmanager
    def view(self, path: Path) -> Iterator[Buffer]:
        with super().view(path) as buffer:
            yield _Counted(buffer, self)  # type: ignore[misc]


class _Counted:
    def __init__(self, buffer: Buffer, disk: ViewedDisk) -> None:
        self._buffer = buffer
        self._disk = disk

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, part: slice) -> bytes:
        found = bytes(self._buffer[part])
        self._disk.bytes_read += len(found)
        return found


def test_searches_of_a_snapshot_share_what_they_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_FIRST_BYTES", 4 << 10)
    monkeypatch.setattr(snapshot, "BLOCK_ENTRIES", 20)
    monkeypatch.setattr(snapshot_reader, "_NEAR_BYTES", 1 << 10)
    folder, chance = folder_of(tmp_path), random.Random(1)
    writer = Writer(folder)
    for number in range(40):
        block = [
            Entry(b"%03d-%03d" % (number, each), "str", chance.randbytes(90), "bytes", False, 1) for each in range(100)
        ]
        writer.appender.append([encode_entries(block)], 100, sync=False)
    writer.appender.rotate()
    writer.crash()
    checkpoint(OS_DISK, SYSTEM, folder, recovered(folder)[0].sealed, entry_decoder())
    known, disk, each_time = knows(tmp_path), ViewedDisk(), []
    spans = [[b"%03d-%03d" % (chance.randrange(41), chance.randrange(100)), b"040"] for _ in range(60)]
    for span in [*spans, *spans]:
        before = disk.bytes_read
        with ExitStack() as opened:
            low, high = (("str", key) for key in span)
            first = next(iter(open_range(disk, tmp_path, PLACE, low, high, None, opened, known).blocks()), [None])[0]  # type: ignore[arg-type]
        each_time.append(disk.bytes_read - before)
        wanted = next((entry for entry in entries(tmp_path, None, span)), None)
        assert (first and first.public()) == (wanted and wanted.public())
    assert max(each_time[60:]) <= 6 * (4 << 10) < max(each_time[:60])
    assert sum(each_time[60:]) < sum(each_time[:60])


def test_many_threads_note_the_keys_of_a_log_that_grows(tmp_path: Path) -> None:
    writer = Writer(folder_of(tmp_path))
    writer.group(1)
    known = knows(tmp_path)

    def reads() -> list[list[bytes]]:
        return [found(tmp_path, known) for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(reads) for _ in range(4)]
        for _ in range(1_000):
            writer.group(1, 2, sync=False)
            if writer.appender.next_sequence % 60 == 1:
                writer.appender.rotate()
        for reads_of_one in reading:
            for seen in reads_of_one.result():
                assert seen == keys(len(seen))
    assert found(tmp_path, known) == keys(writer.appender.next_sequence - 1)
