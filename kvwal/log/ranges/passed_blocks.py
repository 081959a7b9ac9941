"""Reads a part of a snapshot without the blocks of some identities: they are verified, and passed without being decoded.

Recovery passes the names of contents this way when there are many, so that a log opens as fast as one without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvwal.log.files.format import Block, BlockKind, Seal, verified_block
from kvwal.log.files.snapshot_reader import SnapshotView
from kvwal.log.reader import SnapshotReader
from kvwal.ports.disk import Buffer

LEAST_BYTES = 1 << 20
"""A stretch of blocks that is shorter is decoded with the others: that takes some milliseconds."""
Identity = tuple[str, bytes]


class PassingReader(SnapshotReader):
    """Walk over one part of a snapshot that passes long stretches of blocks. `passed` is the number of blocks so far."""

    def __init__(self, path: Path, buffer: Buffer, ranges: Sequence[tuple[Identity, Identity]]) -> None:
        """`ranges` are those of the identities that are not wanted, sorted, each from the first to before the second one."""
        super().__init__(path, buffer)
        self.passed = 0
        self._buffer = buffer
        stretches: list[range] = []
        if ranges and len(buffer) >= LEAST_BYTES:
            view = SnapshotView(path, buffer)
            stretches = [view.stretch(low, high) for low, high in ranges]
        self._ahead = [stretch for stretch in stretches if len(stretch) >= LEAST_BYTES]

    def next_block(self) -> Block | None:
        """See `SegmentReader.next_block`. Raises `CorruptLog` also for a block that is passed and does not verify."""
        while self._ahead and self.end >= self._ahead[0].start:
            self._pass(self._ahead.pop(0))
        return super().next_block()

    def _pass(self, stretch: range) -> None:
        while self.end < stretch.stop:
            block = verified_block(self._buffer, self.end, self.header.salt)
            if block is None or block.kind is not BlockKind.ENTRIES:
                raise self.incomplete()
            self.end = block.end
            self.passed += 1

    def _check_seal(self, block: Block, seal: Seal) -> None:
        """The number of entries in passed blocks is not known: each has one at least."""
        if not self.passed:
            super()._check_seal(block, seal)
            return
        least = self.count + self.passed
        if seal.entries < least or (seal.bytes, seal.last_sequence) != (block.offset, self.header.last_sequence):
            raise self.corrupt("the seal does not match the entries of the snapshot.")
        self.seal, self.seal_crc = seal, block.crc
