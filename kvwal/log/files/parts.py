"""The newest snapshot of a log as its readers see it: a base and deltas, merged while they are read.

This room is light on purpose (no asyncio, no Arrow): `kvwal get` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import lacking, part_of, snapshot_parts, unlinked_part
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.names import LogFile
from kvwal.log.files.snapshot import in_blocks
from kvwal.log.reader import SnapshotFile
from kvwal.ports.disk import Disk


class Snapshot:
    """A snapshot of any size. `parts` are its files, newest first; `header` is that of the newest: the log goes on behind it."""

    def __init__(self, parts: Sequence[SnapshotFile]) -> None:
        self.parts = parts
        self.header: SnapshotHeader = parts[0].header

    @property
    def left_out(self) -> int:
        """See `Seal`: of all parts. Known once they were read whole."""
        return max(part.left_out for part in self.parts)

    def find(self, decode: Decode, identity: tuple[str, bytes]) -> Entry | None:
        """The latest entry of one identity, None if there is none."""
        return next((found for part in self.parts if (found := part.find(decode, identity)) is not None), None)

    def whole(self, decode: Decode) -> Iterator[list[Entry]]:
        """The latest entry of every identity, sorted, in blocks. `CorruptLog` if a part does not end with its seal."""
        if len(self.parts) == 1:
            yield from self.parts[0].whole(decode)
            return
        runs = ((entry for block in part.whole(decode) for entry in block) for part in self.parts)
        yield from in_blocks(merge_all(runs), lambda entry: len(entry.key) + len(entry.value))


def open_snapshot(disk: Disk, folder: Path, snapshots: Iterable[LogFile]) -> Snapshot | None:
    """The newest snapshot among these files, None if there is none. `CorruptLog` if its parts do not belong together."""
    files = snapshot_parts(snapshots)
    if (wrong := lacking(files)) is not None:
        raise CorruptLog(wrong, path=folder / files[-1].name, offset=0, sequence=files[-1].first - 1)
    if not files:
        return None
    parts = [SnapshotFile(disk, folder / file.name) for file in files]
    told = [part_of(part.header) for part in parts]
    for file, part, below in zip(files, told, [*told[1:], None], strict=True):
        if (wrong := unlinked_part(part, file, below)) is not None:
            raise CorruptLog(wrong, path=folder / file.name, offset=0, sequence=file.first)
    return Snapshot(parts)


def merge_all(runs: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Runs sorted by identity, newest first, as one; of the entries of one identity that of the newest run.

    The oldest, which is the largest, is merged last: each of its entries is looked at once.
    """
    merged: Iterator[Entry] = iter(())
    for older in runs:
        merged = merge_sorted(iter(older), merged)
    return merged


def merge_sorted(older: Iterator[Entry], newer: Iterator[Entry]) -> Iterator[Entry]:
    """Two runs sorted by identity as one; of two entries of one identity the newer run's."""
    waiting = next(newer, None)
    held = _identity(waiting)
    for entry in older:
        identity = (entry.key_class, entry.key)
        while waiting is not None and held < identity:
            yield waiting
            waiting = next(newer, None)
            held = _identity(waiting)
        if waiting is None:
            yield entry
            yield from older
            return
        if held != identity:
            yield entry
    if waiting is not None:
        yield waiting
        yield from newer


def _identity(entry: Entry | None) -> tuple[str, bytes]:
    return ("", b"") if entry is None else (entry.key_class, entry.key)
