"""Walk over the segments of a log without its lock, one piece of a file at a time, also while their writer writes to them.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import check_belongs, link_problem
from kvwal.log.files.format import SnapshotHeader, unpack_block
from kvwal.log.files.names import LogFile
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import SegmentReader, Window
from kvwal.log.unlocked.endings import Endings
from kvwal.ports.disk import Disk, OpenedFile
from kvwal_archive.layout import Place

_PIECE_BYTES = 1 << 20
_ZEROS = bytes(_PIECE_BYTES)


class SegmentWalk:
    """Walk over the segments of one log. Raises `FileNotFoundError` for a file that vanished, `CorruptLog`."""

    def __init__(self, disk: Disk, folder: Path, place: Place, decode: Decode, endings: Endings | None) -> None:
        """`endings` are those of a reader that stays open, None for one that looks once."""
        self._disk = disk
        self._folder = folder
        self._place = place
        self._decode = decode
        self._endings = endings

    def blocks(
        self, files: Sequence[LogFile], snapshot: SnapshotHeader | None, holding: Sequence[bytes], passed: int
    ) -> Iterator[tuple[SegmentReader, int, list[Entry]]]:
        """The blocks of these segments with sequences after `passed`: the reader, the first sequence and the entries of each.

        At the end of each segment comes a block without entries. If `holding` has any bytes, blocks without any of these are
        skipped. `snapshot` is the header of the snapshot before the segments. Raises `CorruptLog` for a missing segment too.
        """
        wanted, crc = (snapshot.last_sequence + 1, snapshot.last_crc) if snapshot else (1, 0)
        ends = [later.number - 1 for later in files[1:]]
        needed = sum(end <= passed for end in ends)
        for index, file in enumerate(files[needed:]):
            path = self._folder / file.name
            opened = self._disk.open_to_read(path)
            try:
                window = Window(opened.read_at)
                reader = open_segment(self._disk, path, window)
                check_belongs(reader.header, self._place, self._folder)
                follows = index or (file.number >= wanted and not needed)
                wrong = link_problem(reader.header, wanted, crc) if follows else None
                if wrong is not None:
                    raise CorruptLog(wrong, path=path, offset=0, sequence=wanted)
                for at, entries in self._of_segment(reader, window, opened, holding, last=file is files[-1]):
                    yield reader, at, entries
            finally:
                opened.close()
            yield reader, reader.next_sequence, []
            wanted, crc = reader.next_sequence, reader.seal_crc

    def _of_segment(
        self, reader: SegmentReader, window: Window, opened: OpenedFile, holding: Sequence[bytes], *, last: bool
    ) -> Iterator[tuple[int, list[Entry]]]:
        """The blocks of one segment, with those that were written while it was read, and then the check of its ending."""
        while True:
            yield from reader.numbered(self._decode, holding)
            if reader.seal is not None or not last:
                reader.check_ending(b"", last=last)
                return
            endings = self._endings
            state = endings.state(self._disk.changed_ns(reader.path)) if endings is not None else 0
            if endings is not None and endings.is_known(reader, state):
                return
            rest = _written_after(opened, reader.end)
            if unpack_block(rest, 0, reader.header.salt, base=reader.end) is None:
                break
            window.forget()
        reader.check_ending(rest, last=True, base=reader.end)
        if endings is not None:
            endings.searched(reader, state)


def _written_after(opened: OpenedFile, offset: int) -> bytes:
    """The bytes of a segment from `offset` on. None of them if all are zeros, which its writer has allocated for later."""
    pieces, is_written = [], False
    while piece := opened.read_at(offset, _PIECE_BYTES):
        is_zero = piece == _ZEROS[: len(piece)]
        is_written = is_written or not is_zero
        pieces.append(_ZEROS[: len(piece)] if is_zero else piece)  # the slice of all of it is no copy
        offset += len(piece)
    return b"".join(pieces) if is_written else b""
