"""The states of overflow files that stand at the top of kvwal/log/recovery.py, by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.names import OVERFLOW, overflow_name, partial_name
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from tests.support.log.logs import Writer, flip, keys, recovered, refusal


def with_overflow(folder: Path) -> Path:
    """A log whose second of three groups is in an overflow file. Returns the file's path."""
    writer = Writer(folder)
    writer.group(3)
    writer.overflow(3)
    writer.group(3)
    writer.crash()
    return folder / OVERFLOW / overflow_name(4)


def test_leftover(tmp_path: Path) -> None:
    path = with_overflow(tmp_path)
    for name in (overflow_name(5), overflow_name(10), partial_name("0123456789abcdef")):
        path.with_name(name).write_bytes(path.read_bytes())
    assert recovered(tmp_path)[1] == keys(9)
    assert [left.name for left in path.parent.iterdir()] == [path.name]


def test_leftover_of_a_segment_that_the_snapshot_covers(tmp_path: Path) -> None:
    """The file stays as long as its segment, which the archive may still want, and goes with it."""
    path = with_overflow(tmp_path)
    sealed = recovered(tmp_path)[0].sealed
    checkpoint(OS_DISK, SYSTEM, tmp_path, sealed, entry_decoder())
    found, seen = recovered(tmp_path)
    assert (seen, path.exists()) == (keys(9), True)
    assert [segment.size for segment in found.sealed] == [segment.size for segment in sealed]
    sealed[0].path.unlink()
    assert (recovered(tmp_path)[1], path.exists()) == (keys(9), False)


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut"])
def test_no_overflow(tmp_path: Path, damage: str) -> None:
    path = with_overflow(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-20] if damage == "cut" else data)
    if damage == "flipped":
        flip(path, len(data) // 2)
    elif damage == "missing":
        path.unlink()
    assert refusal(tmp_path).path == path
