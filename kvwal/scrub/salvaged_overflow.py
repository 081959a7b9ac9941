"""Salvage of overflow files: their entries, of a damaged one those of the blocks that verify."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.format import Block, BlockKind, OverflowReference, decode_overflow, find_blocks
from kvwal.log.files.names import OVERFLOW, overflow_number
from kvwal.log.overflow.read import overflow_of
from kvwal.log.reader import SegmentReader
from kvwal.ports.disk import Disk


class SalvagedOverflow:
    """The overflow files that the blocks of one segment name. `damaged` says which of them is damaged, "" if none is."""

    def __init__(self, disk: Disk, segment: Path, decode: Decode) -> None:
        self._disk = disk
        self._segment = segment
        self._decode = decode
        self.damaged = ""

    def read(self, block: Block) -> tuple[list[Entry], bool]:
        """The entries of the file that a block names, and whether it is whole."""
        try:
            reference = decode_overflow(block.payload)
        except msgspec.DecodeError:
            return [], False
        if overflow_number(reference.file) is None:
            return [], False
        path = self._segment.parent / OVERFLOW / reference.file
        try:
            return self._whole(path, reference), True
        except CorruptLog as error:
            self.damaged = (
                f"{OVERFLOW}/{reference.file}, which {self._segment.name} names, is damaged at byte {error.offset}"
            )
            return self._intact(path, reference), False

    def _whole(self, path: Path, reference: OverflowReference) -> list[Entry]:
        if not self._disk.exists(path):
            raise CorruptLog("the overflow file is missing.", path=path, offset=0)
        with self._disk.view(path) as buffer:
            header = SegmentReader(path, buffer).header
        blocks = overflow_of(self._disk)(self._segment, header, reference, self._decode, ())
        return [entry for _, entries in blocks for entry in entries]

    def _intact(self, path: Path, reference: OverflowReference) -> list[Entry]:
        if not self._disk.exists(path):
            return []
        with self._disk.view(path) as buffer:
            entries = [entry for block in find_blocks(buffer, 1, reference.salt) for entry in self._entries(block)]
        for entry in entries:
            entry.timestamp = reference.timestamp
        return entries

    def _entries(self, block: Block) -> list[Entry]:
        if block.kind is not BlockKind.ENTRIES:
            return []
        try:
            return self._decode(block.payload)
        except msgspec.DecodeError:
            return []
