"""The range reader: the entries of a range of keys, sorted, from logs without their lock.

Snapshots are sorted, so of a snapshot only the blocks of the range are read. The log behind the snapshot is read whole, and its
entries of the range are in memory. Everything else is read as the caller asks for it, so the memory does not grow with the range.

This module imports neither asyncio nor Arrow, because commands that answer at once import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from pathlib import Path

from archive.layout import Place
from kvwal.entry import Entry, entry_identity, is_live
from kvwal.history.tail_reader import LOOKS, Identity, open_range
from kvwal.log.files.parts import merge_sorted
from kvwal.ports.disk import Disk


def live_entries(
    disk: Disk, root: Path, places: Iterable[Place], low: Identity, high: Identity, now_ms: int
) -> Iterator[Entry]:
    """The latest entries with identities from `low` to before `high` over these logs, sorted, without those that are absent.

    The answer shows each log as it is when its first entry is asked for. If a checkpoint replaces the files of a log meanwhile,
    the rest of that log is as it is then. Raises `CorruptLog`.
    """
    logs = [_entries_of(disk, root, place, low, high) for place in sorted(places, key=lambda place: place.node)]
    for entry in _latest(logs):
        if is_live(entry, now_ms):
            yield entry


def _latest(logs: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    """Of several entries of one identity the one with the greatest timestamp, and then of the last log."""
    if len(logs) == 1:
        yield from logs[0]
        return
    latest: Entry | None = None
    for entry in merge(*logs, key=entry_identity):
        if latest is None or entry_identity(entry) != entry_identity(latest):
            if latest is not None:
                yield latest
            latest = entry
        elif entry.timestamp >= latest.timestamp:
            latest = entry
    if latest is not None:
        yield latest


def _entries_of(disk: Disk, root: Path, place: Place, low: Identity, high: Identity) -> Iterator[Entry]:
    """The latest entries of a range in one log, sorted, deletes included. Reads on in new files if the old ones are gone."""
    looks, part = 0, common_part(low, high)
    while looks < LOOKS:
        snapshot, newer = open_range(disk, root, place, low, high, part)
        try:
            for entry in merge_sorted(iter(snapshot), iter(newer)):
                yield entry
                looks, low = 0, (entry.key_class, entry.key + b"\0")
            return
        except FileNotFoundError:
            looks += 1
            if looks == LOOKS:
                raise


def common_part(low: Identity, high: Identity) -> bytes | None:
    """The bytes with which every key from `low` to before `high` begins, None if there are none."""
    if low[0] != high[0]:
        return None
    shorter = min(low[1], high[1], key=len)
    differs = (number for number, (a, b) in enumerate(zip(low[1], high[1], strict=False)) if a != b)
    return shorter[: next(differs, len(shorter))] or None
