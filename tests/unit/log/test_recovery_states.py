"""One test for each state that stands at the top of kvwal/log/recovery.py, by its name."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kvwal.config import Settings
from kvwal.errors import NewerVersion
from kvwal.log import recovery
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files import format
from kvwal.log.files.format import HEAD_BYTES, pack_header, unpack_block, unpack_header
from kvwal.log.files.names import snapshot_name
from kvwal.log.reader import SegmentEnd, SegmentReader, entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from tests.support.log.logs import (
    Writer,
    flip,
    header,
    keys,
    recovered,
    refusal,
    segments,
    three_groups,
    three_segments,
)
from tests.unit.log import test_overflow_states

SMALL = Settings(segment_bytes=64 << 10)


def blocks(path: Path) -> list[tuple[int, int]]:
    """Offsets (begin, end) of the blocks after the header."""
    data = path.read_bytes()
    unpacked = unpack_header(data)
    assert unpacked is not None
    header, offset = unpacked
    found = []
    while (block := unpack_block(data, offset, header.salt)) is not None:
        found.append((block.offset, block.end))
        offset = block.end
    return found


def test_every_state_has_a_test() -> None:
    states = re.findall(r"^ ?\d+\. (\w+) ", recovery.__doc__ or "", re.MULTILINE)
    assert len(states) == 17
    tests = {*globals(), *vars(test_overflow_states)}
    assert [state for state in states if f"test_{state}" not in tests] == []


def test_clean(tmp_path: Path) -> None:
    three_groups(tmp_path).close()
    found, seen = recovered(tmp_path)
    assert (seen, found.next_sequence, found.torn, found.epoch) == (keys(9), 10, None, 2)


def test_only_header(tmp_path: Path) -> None:
    three_groups(tmp_path).close()
    first = recovered(tmp_path)[0]
    Writer(tmp_path, after=first).crash()
    assert len(segments(tmp_path)) == 2
    found, seen = recovered(tmp_path)
    assert (seen, found.next_sequence, len(found.sealed), found.epoch) == (keys(9), 10, 1, 3)
    again = Writer(tmp_path, after=found)
    again.group(1)
    again.close()
    assert recovered(tmp_path)[1] == keys(10)


def test_only_header_recycled(tmp_path: Path) -> None:
    """The header stands in a file that held entries: they are no torn group, and nothing is reported."""
    writer = Writer(tmp_path, SMALL)
    writer.group(1500)
    writer.appender.rotate()
    recycled = writer.sealed[0]
    checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed, entry_decoder())
    writer.appender.preallocated.recycle(writer.sealed.pop(0).path)
    writer.group(1)
    writer.appender.rotate()
    assert segments(tmp_path)[-1].stat().st_size == recycled.size, "it is the recycled file"
    writer.crash()
    found, seen = recovered(tmp_path)
    assert (len(seen), found.torn) == (1501, None)
    assert not list(tmp_path.glob("*.torn"))


def test_unsealed(tmp_path: Path) -> None:
    three_groups(tmp_path).crash()
    found, seen = recovered(tmp_path)
    assert (seen, found.torn, len(found.sealed)) == (keys(9), None, 1)
    assert recovered(tmp_path)[0].sealed[0].crc == found.sealed[0].crc
    assert not list(tmp_path.glob("*.torn"))


def test_unsealed_recycled(tmp_path: Path) -> None:
    """Stale blocks of the file's earlier life stand after the last one: no alarm, and none of them comes back."""
    writer = Writer(tmp_path, SMALL)
    for _ in range(3):
        writer.group(900)
    writer.appender.rotate()
    writer.appender.preallocated.recycle(writer.sealed.pop(0).path)
    writer.group(1)
    writer.appender.rotate(grow=True)
    writer.group(2)
    stale = writer.appender._segment.path.read_bytes()
    assert b"key-0900" in stale
    writer.crash()
    assert recovered_tail(tmp_path) == [b"key-2702", b"key-2703"]


def recovered_tail(folder: Path) -> list[bytes]:
    """Keys of the last segment, by recovery of it alone as the log's first."""
    path = segments(folder)[-1]
    data = path.read_bytes()
    reader = SegmentReader(path, data)
    found = [entry.key for entries in reader.entries(entry_decoder()) for entry in entries]
    assert reader.ending(data, last=True) is SegmentEnd.OPEN
    return found


def test_torn_block(tmp_path: Path) -> None:
    three_groups(tmp_path).crash()
    path = segments(tmp_path)[0]
    begin, end = blocks(path)[-1]
    data = path.read_bytes()
    path.write_bytes(data[: end - 9] + bytes(len(data) - end + 9))
    found, seen = recovered(tmp_path)
    assert seen == keys(5)
    assert found.torn is not None
    assert (found.torn.offset, found.torn.path) == (begin, path)
    assert found.torn.evidence.read_bytes()[begin : end - 9] == data[begin : end - 9]
    assert recovered(tmp_path)[0].torn is None


def test_torn_group(tmp_path: Path) -> None:
    writer = three_groups(tmp_path)
    writer.group(2, 2, 2)
    writer.crash()
    path = segments(tmp_path)[0]
    first_of_group = blocks(path)[3][0]
    flip(path, first_of_group + HEAD_BYTES + 3)
    found, seen = recovered(tmp_path)
    assert seen == keys(9)
    assert found.torn is not None
    assert found.torn.offset == first_of_group


def test_torn_seal(tmp_path: Path) -> None:
    three_groups(tmp_path).close()
    path = segments(tmp_path)[0]
    flip(path, blocks(path)[-1][0] + HEAD_BYTES)
    found, seen = recovered(tmp_path)
    assert seen == keys(9)
    assert found.torn is not None
    assert len(found.sealed) == 1


def test_damaged(tmp_path: Path) -> None:
    three_groups(tmp_path).crash()
    path = segments(tmp_path)[0]
    begin, _ = blocks(path)[1]
    flip(path, begin + HEAD_BYTES + 5)
    error = refusal(tmp_path)
    assert (error.path, error.offset, error.sequence) == (path, begin, 3)


def test_partial(tmp_path: Path) -> None:
    three_groups(tmp_path).close()
    (tmp_path / f"{9:020}.snapshot.partial").write_bytes(b"half a snapshot")
    (tmp_path / "zeros-1.partial").write_bytes(bytes(100))
    assert recovered(tmp_path)[1] == keys(9)
    assert not list(tmp_path.glob("*.partial"))


def test_missing(tmp_path: Path) -> None:
    three_segments(tmp_path).close()
    segments(tmp_path)[1].unlink()
    error = refusal(tmp_path)
    assert error.sequence == 3
    assert "3 is missing" in str(error)


def test_missing_replaced_by_another(tmp_path: Path) -> None:
    """A segment of another log with the right sequences does not follow the seal before it."""
    three_segments(tmp_path / "one").close()
    three_segments(tmp_path / "two").close()
    segments(tmp_path / "one")[1].write_bytes(segments(tmp_path / "two")[1].read_bytes())
    assert "chain of seals" in str(refusal(tmp_path / "one"))


def test_damaged_middle(tmp_path: Path) -> None:
    three_segments(tmp_path).close()
    path = segments(tmp_path)[1]
    path.write_bytes(path.read_bytes()[: blocks(path)[-1][0]])
    error = refusal(tmp_path)
    assert (error.path, error.sequence) == (path, 6)


def with_damaged_snapshot(folder: Path) -> Path:
    """A log whose snapshot of five entries is damaged, and whose segments are all there."""
    writer = three_segments(folder)
    checkpoint(OS_DISK, SYSTEM, folder, writer.sealed[:2], entry_decoder())
    writer.close()
    snapshot = folder / f"{5:020}.snapshot"
    flip(snapshot, 400)
    return snapshot


def test_damaged_snapshot(tmp_path: Path) -> None:
    """The segments serve. The next checkpoint does not build on the damaged file, which is kept."""
    snapshot = with_damaged_snapshot(tmp_path)
    damaged = snapshot.read_bytes()
    found, seen = recovered(tmp_path)
    assert seen == keys(9)
    (kept,) = found.set_aside
    assert kept.read_bytes() == damaged
    assert not snapshot.exists()
    checkpoint(OS_DISK, SYSTEM, tmp_path, found.sealed, entry_decoder())
    for segment in segments(tmp_path):
        segment.unlink()
    found, seen = recovered(tmp_path)
    assert (seen, found.set_aside) == (keys(9), [])


def test_damaged_snapshot_that_the_log_needs(tmp_path: Path) -> None:
    snapshot = with_damaged_snapshot(tmp_path)
    segments(tmp_path)[0].unlink()
    assert refusal(tmp_path).path == snapshot


def test_damaged_snapshot_and_an_older_one(tmp_path: Path) -> None:
    """As a checkpoint leaves it that was killed before it removed the older one."""
    writer = three_segments(tmp_path)
    checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed[:1], entry_decoder())
    older = tmp_path / f"{2:020}.snapshot"
    bytes_of_older = older.read_bytes()
    checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed, entry_decoder())
    writer.close()
    older.write_bytes(bytes_of_older)
    flip(tmp_path / f"{9:020}.snapshot", 400)
    segments(tmp_path)[0].unlink()
    found, seen = recovered(tmp_path)
    assert (seen, found.snapshot and found.snapshot.number) == (keys(9), 2)
    assert [path.name for path in found.set_aside] == [f"{9:020}.snapshot.1.torn"]


def test_bad_header(tmp_path: Path) -> None:
    three_groups(tmp_path).crash()
    flip(segments(tmp_path)[0], HEAD_BYTES + 2)
    error = refusal(tmp_path)
    assert (error.offset, "header" in str(error)) == (0, True)


def test_newer(tmp_path: Path) -> None:
    three_groups(tmp_path).close()
    path = segments(tmp_path)[0]
    newer = b"".join(pack_header(msgspec.structs.replace(header(), format=format.NEWEST + 1)))
    path.write_bytes(newer + bytes(1000))
    with pytest.raises(NewerVersion, match=f"format {format.NEWEST + 1}"):
        recovered(tmp_path)


def with_deltas(folder: Path, monkeypatch: pytest.MonkeyPatch, *, merged: tuple[int, ...] = (0, 0, 0)) -> Writer:
    """A log whose three segments are in a snapshot of a base and two deltas: 1–2, 3–5, 6–9. `merged`: so many of the parts go
    into each.
    """
    writer = three_segments(folder)
    for number, count in enumerate(merged, 1):
        monkeypatch.setattr("kvwal.log.checkpoint._worth_merging", lambda sizes, new, count=count: count)
        checkpoint(OS_DISK, SYSTEM, folder, writer.sealed[:number], entry_decoder())
    writer.close()
    return writer


BASE, DELTA, NEWEST = snapshot_name(2), snapshot_name(5, 3), snapshot_name(9, 6)


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.snapshot"))


def test_a_snapshot_of_a_base_and_deltas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_deltas(tmp_path, monkeypatch)
    assert snapshots(tmp_path) == sorted([BASE, DELTA, NEWEST])
    for path in segments(tmp_path):
        path.unlink()
    found, seen = recovered(tmp_path)
    assert (seen, found.next_sequence, found.snapshot and found.snapshot.name) == (keys(9), 10, NEWEST)
    sizes = [(tmp_path / name).stat().st_size for name in (BASE, DELTA, NEWEST)]
    assert max(sizes) < found.snapshot_bytes <= sum(sizes)


def test_superseded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a checkpoint leaves them that was killed before it removed what it had merged. The next one does."""
    with_deltas(tmp_path / "apart", monkeypatch)
    writer = with_deltas(tmp_path / "log", monkeypatch, merged=(0, 0, 1))
    folder, wide = tmp_path / "log", snapshot_name(9, 3)
    for name in (DELTA, NEWEST):
        (folder / name).write_bytes((tmp_path / "apart" / name).read_bytes())
    for path in segments(folder):
        path.unlink()
    found, seen = recovered(folder)
    assert (seen, found.snapshot and found.snapshot.name) == (keys(9), wide)
    again = Writer(folder, after=found)
    again.group(1)
    again.appender.rotate()
    monkeypatch.setattr("kvwal.log.checkpoint._worth_merging", lambda sizes, new: 0)
    checkpoint(OS_DISK, SYSTEM, folder, again.sealed, entry_decoder())
    again.close()
    assert snapshots(folder) == sorted([BASE, wide, snapshot_name(10, 10)])
    assert writer.sealed[-1].last == 9


@pytest.mark.parametrize("gone", [BASE, DELTA])
def test_missing_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """The segments serve, if they reach back far enough. What stood above it is in no checkpoint's way."""
    with_deltas(tmp_path, monkeypatch)
    (tmp_path / gone).unlink()
    found, seen = recovered(tmp_path)
    assert (seen, found.snapshot and found.snapshot.name) == (keys(9), BASE if gone == DELTA else None)
    assert snapshots(tmp_path) == ([BASE] if gone == DELTA else [])
    checkpoint(OS_DISK, SYSTEM, tmp_path, found.sealed, entry_decoder())
    for path in segments(tmp_path):
        path.unlink()
    assert recovered(tmp_path)[1] == keys(9)


@pytest.mark.parametrize("gone", [BASE, DELTA])
def test_missing_part_that_the_log_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    with_deltas(tmp_path, monkeypatch)
    (tmp_path / gone).unlink()
    for path in segments(tmp_path)[: 1 if gone == BASE else 2]:
        path.unlink()
    assert "a part of the snapshot is missing" in str(refusal(tmp_path))


@pytest.mark.parametrize("damaged", [BASE, DELTA, NEWEST])
def test_damaged_snapshot_of_deltas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    with_deltas(tmp_path, monkeypatch)
    flip(tmp_path / damaged, 300)
    found, seen = recovered(tmp_path)
    left = {BASE: [], DELTA: [BASE], NEWEST: [BASE, DELTA]}[damaged]
    assert (seen, snapshots(tmp_path)) == (keys(9), sorted(left))
    assert len(found.set_aside) == 3 - len(left)


def test_a_delta_of_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the right sequences, and does not follow the seal below it."""
    for name in ("one", "two"):
        with_deltas(tmp_path / name, monkeypatch)
    (tmp_path / "one" / DELTA).write_bytes((tmp_path / "two" / DELTA).read_bytes())
    for path in segments(tmp_path / "one")[:2]:
        path.unlink()
    assert "this delta does not follow" in str(refusal(tmp_path / "one"))
