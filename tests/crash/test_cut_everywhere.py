"""A cut at every byte of a log's last group: by truncation, by zeros from there on, by stale bytes from there on.

What was durable before the group must be there, of the group each transaction whole or not at all, and each cut must
be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvwal.log.files.format import unpack_block, unpack_header
from tests.support.log.logs import Writer, keys, recovered

BEFORE = 5
BLOCKS = (2, 1, 3)
"""Entries of the blocks of the last group; each block is one transaction."""

Cut = Callable[[bytes, int, bytes], bytes]
CUTS: dict[str, Cut] = {
    "truncated": lambda data, at, stale: data[:at],
    "zeros": lambda data, at, stale: data[:at] + bytes(len(data) - at),
    "stale": lambda data, at, stale: data[:at] + stale[at : len(data)],
}


def whole(folder: Path) -> tuple[Path, bytes, int, list[int]]:
    """A log that was killed after its last group: its file, the bytes, where the group begins, and where its blocks end."""
    writer = Writer(folder)
    writer.group(2)
    writer.group(3)
    writer.group(*BLOCKS)
    writer.crash()
    (path,) = folder.glob("*.wal")
    data = path.read_bytes()
    ends = []
    unpacked = unpack_header(data)
    assert unpacked is not None
    header, offset = unpacked
    while (block := unpack_block(data, offset, header.salt)) is not None:
        ends.append(block.end)
        offset = block.end
    return path, data[: ends[-1] + 64], ends[1], ends[2:]


def stale_bytes(folder: Path) -> bytes:
    """Another log's segment of the same length: what a recycled file may hold after the cut."""
    writer = Writer(folder)
    for size in (1, 4, 2, 2, 5, 3):
        writer.group(size)
    writer.crash()
    (path,) = folder.glob("*.wal")
    return path.read_bytes()


@pytest.mark.parametrize("kind", CUTS)
def test_cut_at_every_byte(kind: str, tmp_path: Path) -> None:
    path, data, begin, ends = whole(tmp_path / "log")
    stale = stale_bytes(tmp_path / "stale")
    assert len(stale) >= len(data)
    reported = 0
    for at in range(begin, ends[-1] + 1):
        for left in path.parent.iterdir():
            left.unlink()
        cut = CUTS[kind](data, at, stale)
        path.write_bytes(cut)
        found, seen = recovered(path.parent)
        complete = sum(end <= at for end in ends)
        # A block's last bytes may be its padding, or equal what stands there anyway: then it is whole without them.
        counts = [BEFORE + sum(BLOCKS[:number]) for number in range(len(BLOCKS) + 1)]
        assert len(seen) in counts, (kind, at)
        assert len(seen) >= counts[complete], (kind, at)
        assert seen == keys(len(seen)), (kind, at)
        if found.torn is not None:
            reported += 1
            kept = found.torn.evidence.read_bytes()
            assert kept == cut[: len(kept)], (kind, at)
            assert len(kept) > found.torn.offset, (kind, at)
            assert not any(cut[len(kept) :]), (kind, at)
        elif kind == "truncated":
            assert not any(cut[ends_of(seen, ends, begin) :]), (kind, at)
        assert recovered(path.parent)[1] == seen, (kind, at)
    assert reported > (ends[-1] - begin) // 2


def ends_of(seen: list[bytes], ends: list[int], begin: int) -> int:
    """Where the last block that was recovered ends."""
    blocks = [BEFORE + sum(BLOCKS[: number + 1]) for number in range(len(BLOCKS))]
    return max([begin, *(end for end, count in zip(ends, blocks, strict=True) if count <= len(seen))])
