"""The range reader: the entries of a range of keys, sorted, from logs without their lock.

Snapshots are sorted, so of a snapshot only the blocks of the range are read. The log after the snapshot is read whole, and its
entries of the range are in memory. Everything else is read as the caller asks for it, so the memory does not grow with the range.

This module imports neither asyncio nor Arrow, because commands that answer at once import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import chain, groupby, repeat
from pathlib import Path

from kvwal.entry import Entry, entry_identity, is_live
from kvwal.history.reads.tail_reader import Identity, open_range
from kvwal.key_class import is_of_map
from kvwal.log.files.snapshot_reader import merge_blocks
from kvwal.log.unlocked.known import KnownLog, KnownSegments
from kvwal.ports.disk import Disk
from kvwal.structures.destroyed import FoundMarks
from kvwal_archive.layout import Place

_FIRST_PLACES, _GROWTH = 2, 4
"""Of a log that was filled in order of its keys two places are some thousand entries, of others two."""
_Logged = tuple[str, Entry]
"""A node, and an entry of its log."""


def live_entries(
    disk: Disk,
    root: Path,
    places: Iterable[Place],
    low: Identity,
    high: Identity,
    now_ms: int,
    shows: Callable[[str], bool] = is_of_map,
    known: KnownSegments | None = None,
) -> Iterator[Entry]:
    """The latest entries with identities from `low` to before `high` over these logs, sorted, without those that are absent.

    `shows` says of a key class whether its entries are wanted. `known` is that of a reader that stays open.

    The answer shows each log as it is when its first entry is asked for: the files of its snapshot are held open until the
    iterator ends, because a checkpoint may replace them meanwhile. Raises `CorruptLog`.
    """
    blocks = latest_blocks(disk, root, places, low, high, shows, known)
    return chain.from_iterable([entry for entry in block if is_live(entry, now_ms)] for block in blocks)


def page_ends(logs: Sequence[KnownLog], low: Identity, high: Identity) -> Iterator[Identity]:
    """Ends of ever larger ranges that begin at `low`, the last of which is `high`: the first ones have few blocks of segments.

    The caller reads one range after the other until a range has enough entries: a read of the whole range would hold all of its
    entries in the segments in memory. The keys of the logs are noted.
    """
    count = _FIRST_PLACES
    while ends := [end for log in logs if (end := log.after(low, count)) is not None and end < high]:
        yield min(ends)
        count *= _GROWTH
    yield high


def latest_blocks(
    disk: Disk,
    root: Path,
    places: Iterable[Place],
    low: Identity,
    high: Identity,
    shows: Callable[[str], bool],
    known: KnownSegments | None = None,
) -> Iterator[list[Entry]]:
    """As `live_entries`, in blocks, with the deletes and the expired entries that the logs still have. A block may be empty.

    Hundreds of thousands of entries may pass here, so no step is for one of them.
    """
    with ExitStack() as opened:
        found, logs = FoundMarks(), list[tuple[str, Iterator[list[Entry]]]]()
        for place in sorted(places, key=lambda place: place.node):
            scan = open_range(disk, root, place, low, high, common_part(low, high), opened, known)
            found.add(place.node, scan.marks)
            logs.append((place.node, scan.blocks()))
        if len(logs) > 1 and found.marks.own:  # a mark voids entries by the log they are of
            for node, entry in _merged(logs):
                if shows(entry.key_class) and not found.marks.ended(node, entry.timestamp):
                    yield [entry]
            return
        until = found.marks.until(logs[0][0]) if logs else 0
        for block in _latest([blocks for _, blocks in logs]):
            yield [entry for entry in block if entry.timestamp > until and shows(entry.key_class)]


def _latest(logs: Sequence[Iterator[list[Entry]]]) -> Iterator[list[Entry]]:
    """`_merged` of logs without marks, in blocks: most of them pass untouched, because few keys are in several logs."""
    if len(logs) < 2:
        return logs[0] if logs else iter(())
    middle = len(logs) // 2  # by halves: each entry passes as many merges as there are levels
    return merge_blocks(_latest(logs[:middle]), _latest(logs[middle:]), _newest)


def _newest(some: list[Entry], others: list[Entry]) -> list[Entry]:
    """Two sorted lists as one. Of two entries of one identity the one with the greater timestamp stays, or that of `others`."""
    if not (some and others):
        return some or others
    newest = {entry_identity(entry): entry for entry in some}
    for entry in others:
        identity = entry_identity(entry)
        known = newest.get(identity)
        if known is None or entry.timestamp >= known.timestamp:
            newest[identity] = entry
    return [newest[identity] for identity in sorted(newest)]


def _merged(logs: Iterable[tuple[str, Iterator[list[Entry]]]]) -> Iterator[_Logged]:
    """Of several entries of one identity the one with the greatest timestamp, and then of the last log."""
    each = [zip(repeat(node), chain.from_iterable(blocks)) for node, blocks in logs]  # the node is for all of them
    for _, versions in groupby(merge(*each, key=_identity), key=_identity):
        *_, latest = sorted(versions, key=lambda logged: logged[1].timestamp)
        yield latest


def _identity(logged: _Logged) -> Identity:
    return entry_identity(logged[1])


def common_part(low: Identity, high: Identity) -> bytes | None:
    """The bytes with which every key from `low` to before `high` begins, None if there are none."""
    if low[0] != high[0]:
        return None
    shorter = min(low[1], high[1], key=len)
    differs = (number for number, (a, b) in enumerate(zip(low[1], high[1], strict=False)) if a != b)
    return shorter[: next(differs, len(shorter))] or None
