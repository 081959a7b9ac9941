"""What is salvaged of a damaged log is never wrong: each entry is one that was written, under the sequence it had, and what is
said to be lost is what is not there. KVWAL_SEED=N draws other damage.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from unittest.mock import patch

import pytest

from kvwal.entry import Entry
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.names import log_folder
from kvwal.log.reader import SegmentReader, entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.salt_recovery import find_salt
from kvwal.scrub.salvage import Saved, salvage
from tests.support.disk.power import MemoryDisk
from tests.support.log.logs import PLACE, Writer

SEED = int(os.environ.get("KVWAL_SEED", "1"))
FOLDER = log_folder(Path("/disk"), PLACE)
DECODE = entry_decoder()
Files = dict[Path, bytes]


def files_of(disk: MemoryDisk) -> Files:
    return {path: bytes(content.seen) for path, content in disk.seen.items()}


def written(segments: int, *, closed: bool, covered: int = 0, deltas: bool = False) -> Files:
    """A log of segments of three groups each; the first `covered` are in a snapshot, and gone. With `deltas` each is a part."""
    disk = MemoryDisk()
    writer = Writer(FOLDER, disk=disk)
    for number in range(segments):
        for size in (2, 1, 3):
            writer.group(size)
        if number < segments - 1:
            writer.appender.rotate()
        if number + 1 == covered or (deltas and number < covered):
            with patch("kvwal.log.checkpoint._worth_merging", lambda sizes, new: 0):
                checkpoint(disk, SYSTEM, FOLDER, list(writer.sealed), DECODE)
            for segment in writer.sealed:
                disk.unlink(segment.path)
    writer.close() if closed else writer.crash()
    return files_of(disk)


def salvaged(files: Files) -> Saved:
    return salvage(MemoryDisk(files), FOLDER, DECODE)


def flipped(files: Files, path: Path, at: int, bit: int = 0) -> Files:
    data = bytearray(files[path])
    data[at] ^= 1 << bit
    return {**files, path: bytes(data)}


def number_of(entry: Entry) -> int:
    """Each entry's key says its sequence."""
    return int(entry.key.removeprefix(b"key-"))


def lost_of(saved: Saved) -> set[int]:
    """The sequences that are said to be lost, where all of a range are."""
    return {
        n for lost in saved.lost if lost.entries == lost.last - lost.first + 1 for n in range(lost.first, lost.last + 1)
    }


def test_a_sound_log_loses_nothing() -> None:
    saved = salvaged(written(4, closed=True, covered=2))
    assert (
        [number for number, _ in saved.entries]
        == [number_of(entry) for _, entry in saved.entries]
        == list(range(13, 25))
    )
    assert sorted(map(number_of, saved.snapshot)) == list(range(1, 13))
    assert (saved.covered, saved.lost) == (12, [])


@pytest.mark.parametrize("seed", range(SEED, SEED + 300))
def test_nothing_salvaged_is_wrong(seed: int) -> None:
    chance = random.Random(seed)
    files = written(4, closed=chance.random() < 0.5, covered=chance.choice([0, 2, 3]), deltas=chance.random() < 0.5)
    last = 24
    for _ in range(chance.randint(1, 4)):
        path = chance.choice(sorted(files))
        if chance.random() < 0.1:
            files = {other: data for other, data in files.items() if other != path} or files
        else:
            used = len(files[path].rstrip(b"\0"))
            files = flipped(files, path, chance.randrange(max(1, used)), chance.randrange(8))
    saved = salvaged(files)
    known = {number for number, _ in saved.entries if number}
    assert all(number in (0, number_of(entry)) for number, entry in saved.entries), seed
    assert all(entry.value == b"value-%04d" % number_of(entry) for _, entry in saved.entries), seed
    assert not lost_of(saved) & {number_of(entry) for _, entry in saved.entries}, seed
    there = known | {number_of(entry) for entry in saved.snapshot}
    said = {n for lost in saved.lost for n in range(lost.first, (lost.last or last) + 1)}
    torn = set(range(max(there | {0}) + 1, last + 1))
    assert set(range(1, last + 1)) - there <= said | torn, seed


def test_a_damaged_header_costs_nothing() -> None:
    files = written(3, closed=True)
    for path in files:
        for at in (0, 5, 40, 100):
            saved = salvaged(flipped(files, path, at))
            assert ([number for number, _ in saved.entries], saved.lost) == (list(range(1, 19)), [])


def test_a_header_and_a_block_of_the_last_segment() -> None:
    """How much the last segment held is not known without its seal."""
    files = written(2, closed=False)
    path = max(files)
    reader = SegmentReader(path, files[path])
    saved = salvaged(flipped(flipped(files, path, reader.start + 20), path, 40))
    assert [number for number, _ in saved.entries if number] == list(range(1, 7))
    (lost,) = saved.lost
    assert (lost.first, lost.last, lost.entries) == (7, 0, 0)


def test_between_which_keys_a_damaged_snapshot_has_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.log.files.snapshot.BLOCK_ENTRIES", 4)
    files = written(4, closed=True, covered=3)
    (path,) = (path for path in files if path.suffix == ".snapshot")
    saved = salvaged(flipped(files, path, files[path].index(b"key-0006")))
    (lost,) = saved.lost
    assert (lost.first, lost.last, lost.in_snapshot) == (1, 18, True)
    assert "between 'key-0004' and 'key-0009'" in lost.where
    assert sorted(map(number_of, saved.snapshot)) == [*range(1, 5), *range(9, 19)]


@pytest.mark.parametrize(("at", "kept"), [(20, [0, 1, 2]), (None, [0, 2])], ids=["header", "block"])
def test_of_compressed_blocks_those_that_verify_are_saved(at: int | None, kept: list[int]) -> None:
    """Without a header, too: the blocks agree on the salt."""
    disk = MemoryDisk()
    writer = Writer(FOLDER, disk=disk)
    writer.group(1000, 1000, 1000)
    writer.appender.rotate()
    checkpoint(disk, SYSTEM, FOLDER, list(writer.sealed), DECODE)
    (segment,) = writer.sealed
    disk.unlink(segment.path)
    writer.close()
    files = files_of(disk)
    (path,) = (path for path in files if path.suffix == ".snapshot")
    assert b"value-0700" not in files[path]
    saved = salvaged(flipped(files, path, len(files[path]) // 2 if at is None else at))
    assert sorted(map(number_of, saved.snapshot)) == [1000 * block + n for block in kept for n in range(1, 1001)]


def test_an_older_snapshot_serves_below_a_damaged_one() -> None:
    disk = MemoryDisk(written(3, closed=True, covered=1))
    older = next((path, data) for path, data in files_of(disk).items() if path.suffix == ".snapshot")
    newer = written(3, closed=True, covered=2)
    (path,) = (path for path in newer if path.suffix == ".snapshot")
    saved = salvaged({**flipped(newer, path, len(newer[path]) // 2), older[0]: older[1]})
    assert saved.covered == 6
    assert [(lost.first, lost.last) for lost in saved.lost] == [(1, 12)]


@pytest.mark.parametrize(("number", "covered"), [(0, 0), (1, 6), (2, 12)])
def test_a_part_of_a_snapshot_that_is_damaged_costs_no_other(number: int, covered: int) -> None:
    files = written(4, closed=True, covered=3, deltas=True)
    path = sorted((path for path in files if path.suffix == ".snapshot"), key=lambda path: path.stem[-20:])[number]
    saved = salvaged(flipped(files, path, files[path].index(b"value-")))
    first = 6 * number + 1
    assert [(lost.first, lost.last, lost.in_snapshot) for lost in saved.lost] == [(first, first + 5, True)]
    assert saved.covered == covered
    assert sorted(map(number_of, saved.snapshot)) == [n for n in range(1, 19) if not first <= n < first + 6]


def test_no_salt_is_found_where_there_are_no_blocks() -> None:
    assert find_salt(random.Random(SEED).randbytes(1 << 16)) is None
    assert find_salt(bytes(1 << 16)) is None
    assert find_salt(b"") is None
