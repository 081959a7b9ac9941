"""Snapshot reader: the base and the deltas of a log's newest snapshot, searched by identity, and merged while they are read.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from kvwal.entry import Decode, Entry, entry_identity, first_identity
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import missing_part_problem, part_problem, snapshot_part, snapshot_parts
from kvwal.log.files.format import BlockKind, SnapshotHeader, align
from kvwal.log.files.names import LogFile
from kvwal.log.reader import SnapshotReader, Window
from kvwal.ports.disk import Buffer, Disk

_MOST_PROBES = 50_000
"""A few megabytes. Of a part of a snapshot with more blocks than that all are forgotten then."""
_NEAR_BYTES = 8 << 10
"""A search ends when this many bytes are left. Their blocks are decoded one by one: a compressed block of 1,000 entries can be
as small as this.
"""


class Probe(NamedTuple):
    """A block of a snapshot that a search looked at: its place in the file, and its first identity; None for the seal."""

    offset: int
    end: int
    first: tuple[str, bytes] | None


class Probes:
    """The blocks of one part of a snapshot that searches looked at, by the offset from which on they looked for one.

    A search looks at some ten blocks to find one, and each search begins with the same ones. Any number of threads may use it.
    """

    def __init__(self, salt: int) -> None:
        """`salt` is that of the part's header."""
        self.salt = salt
        self._found: dict[int, Probe] = {}

    def find(self, begin: int) -> Probe | None:
        """The first block at or after `begin`, if it is known."""
        return self._found.get(begin)

    def add(self, begin: int, probe: Probe) -> None:
        """Note the first block at or after `begin`."""
        if len(self._found) >= _MOST_PROBES:
            self._found.clear()
        self._found[begin] = probe


class SnapshotSearch(SnapshotReader):
    """Reader of one part of a snapshot of any size, of which it reads one piece at a time, and finds ranges of identities."""

    def __init__(self, path: Path, size: int, read: Callable[[int, int], bytes], probes: Probes | None = None) -> None:
        """`size` is that of the file; `read` is that of a `Window`. `probes` are those of other searches of this part."""
        self._size = size
        self._window = Window(read)
        super().__init__(path, self._window)
        self._probes = probes if probes is not None and probes.salt == self.header.salt else Probes(self.header.salt)

    def find(self, decode: Decode, identity: tuple[str, bytes]) -> Entry | None:
        """The entry of one identity, None if there is none. A binary search: only a few blocks are read and checked."""
        entry = next(self._from(decode, identity), None)
        return entry if entry is not None and entry_identity(entry) == identity else None

    def between(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[Entry]:
        """The entries with identities from `low` to before `high`, sorted. Other blocks are not read, but a few."""
        return chain.from_iterable(self.blocks_between(decode, low, high))

    def blocks_between(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[list[Entry]]:
        """As `between`, in blocks."""
        for entries in self._blocks_from(decode, low):
            if entry_identity(entries[-1]) < high:
                yield entries
                continue
            if entries := entries[: bisect_left(entries, high, key=entry_identity)]:
                yield entries
            return

    def between_at_start(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[Entry]:
        """`between`, for a range that mostly comes before all entries: then one block is read, and no other."""
        probe = self._probe(self.start, self._size)
        begins_after = (
            probe is not None and probe.offset == self.start and probe.first is not None and probe.first >= high
        )
        return iter(()) if begins_after else self.between(decode, low, high)

    def stretch(self, low: tuple[str, bytes], high: tuple[str, bytes]) -> range:
        """The offsets of blocks that hold nothing but identities from `low` to before `high`: of those that another one follows
        which begins before `high`, too. Empty if there are none.
        """
        begin, _ = self._first_from(low, self.start)
        block = self.block_at(begin)
        if block is None or block.kind is not BlockKind.ENTRIES or self.decoded(first_identity, block) >= high:
            return range(begin, begin)  # mostly: there is nothing of it
        _, end = self._first_from(high, begin)
        return range(begin, max(begin, end))

    def _first_from(self, identity: tuple[str, bytes], start: int) -> tuple[int, int]:
        """The offset of the first block that begins at an identity or after it, and that of the block before, from `start` on."""
        before = at = self._search(identity, start)
        while (block := self.block_at(at)) is not None and block.kind is BlockKind.ENTRIES:
            if self.decoded(first_identity, block) >= identity:
                break
            before, at = at, block.end
        return at, before

    def _from(self, decode: Decode, identity: tuple[str, bytes]) -> Iterator[Entry]:
        """The entries from an identity on, up to the seal. `CorruptLog` for a block that does not verify."""
        return chain.from_iterable(self._blocks_from(decode, identity))

    def _blocks_from(self, decode: Decode, identity: tuple[str, bytes]) -> Iterator[list[Entry]]:
        self.end = self._search(identity, self.start)
        while (block := self.block_at(self.end)) is not None:
            if block.kind is not BlockKind.ENTRIES:
                return
            entries = self.decoded(decode, block)
            self.end = block.end
            if entry_identity(entries[-1]) >= identity:
                yield entries[bisect_left(entries, identity, key=entry_identity) :]
        raise self.incomplete()

    def _search(self, identity: tuple[str, bytes], start: int) -> int:
        """The offset of a block that is at or before the place of an identity, and near to it. That at `start` is before it."""

        def is_behind(probe: Probe) -> bool:
            return probe.first is None or probe.first > identity

        return search(start, self._size, self._probe, is_behind)

    def _probe(self, begin: int, limit: int) -> Probe | None:
        """The first valid block at or after `begin` that ends before `limit`, None if there is none."""
        probe = self._probes.find(begin)
        if probe is None:
            block = self._window.find_block(begin, limit, self.header.salt)
            if block is None:
                return None
            first = self.decoded(first_identity, block) if block.kind is BlockKind.ENTRIES else None
            probe = Probe(block.offset, block.end, first)
            self._probes.add(begin, probe)
        return probe if probe.end <= limit else None


class Placed(Protocol):
    """A block, or what is known of it."""

    @property
    def offset(self) -> int:
        """The offset of the block in its file."""
        ...


B = TypeVar("B", bound=Placed)


def search(
    low: int, high: int, find: Callable[[int, int], B | None], is_behind: Callable[[B], bool], *, grows: bool = False
) -> int:
    """The offset of the last block of a file that is not behind a place, or of one that is near before it. A binary search.

    There is a block at `low`; `high` is the size of the file. `find` is as `Window.find_block`. Blocks that are behind the place
    come after all others. With `grows` the file may end with bytes that are no blocks; without it few blocks are left where none
    is found.
    """
    while high - low > _NEAR_BYTES:
        middle = align((low + high) // 2)
        block = find(middle, high)
        if block is None and not grows:
            break
        if block is None or is_behind(block):
            high = middle
        else:
            low = block.offset
    return low


class SnapshotFile(SnapshotSearch):
    """A part of a snapshot, read from its file."""

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(path, disk.size(path), partial(disk.read_part, path))


class SnapshotView(SnapshotSearch):
    """A part of a snapshot whose file is held open, and may have been removed."""

    def __init__(self, path: Path, view: Buffer, probes: Probes | None = None) -> None:
        super().__init__(path, len(view), lambda offset, size: bytes(view[offset : offset + size]), probes)


class Snapshot:
    """A snapshot of any size. `parts` are its files, newest first. `header` is that of the newest part."""

    def __init__(self, parts: Sequence[SnapshotFile]) -> None:
        self.parts = parts
        self.header: SnapshotHeader = parts[0].header

    @property
    def left_out(self) -> int:
        """The greatest `Seal.left_out` of all parts. Known only after all parts were read to their ends."""
        return max(part.left_out for part in self.parts)

    def find(self, decode: Decode, identity: tuple[str, bytes]) -> Entry | None:
        """The latest entry of one identity, None if there is none."""
        return next((entry for part in self.parts if (entry := part.find(decode, identity)) is not None), None)

    def between(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[Entry]:
        """The latest entry of every identity from `low` to before `high`, sorted. Only the blocks of that range are read."""
        return merge_all(part.between(decode, low, high) for part in self.parts)

    def blocks_between(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[list[Entry]]:
        """As `between`, in blocks. Faster, where many are read."""
        return merge_all_blocks(part.blocks_between(decode, low, high) for part in self.parts)

    def whole(self, decode: Decode) -> Iterator[list[Entry]]:
        """The latest entry of every identity, sorted, in blocks. `CorruptLog` if a part does not end with its seal."""
        yield from merge_all_blocks(part.whole(decode) for part in self.parts)


def open_snapshot(disk: Disk, folder: Path, snapshots: Iterable[LogFile]) -> Snapshot | None:
    """The newest snapshot among these files, None if there is none. `CorruptLog` if its parts do not belong together."""
    files = snapshot_parts(snapshots)
    if (problem := missing_part_problem(files)) is not None:
        raise CorruptLog(problem, path=folder / files[-1].name, offset=0, sequence=files[-1].first - 1)
    if not files:
        return None
    parts = [SnapshotFile(disk, folder / file.name) for file in files]
    headers = [snapshot_part(part.header) for part in parts]
    for file, part, below in zip(files, headers, [*headers[1:], None], strict=True):
        if (problem := part_problem(part, file, below)) is not None:
            raise CorruptLog(problem, path=folder / file.name, offset=0, sequence=file.first)
    return Snapshot(parts)


def merge_all(runs: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Merge runs that are sorted by identity and given newest first. For each identity the entry of the newest run wins.

    The oldest run, which is the largest, is merged last, so each of its entries is compared once.
    """
    merged: Iterator[Entry] = iter(())
    for older in runs:
        merged = merge_sorted(iter(older), merged)
    return merged


def merge_sorted(older: Iterator[Entry], newer: Iterator[Entry]) -> Iterator[Entry]:
    """Merge two runs that are sorted by identity. Of two entries of one identity the newer run's wins."""
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


def merge_all_blocks(runs: Iterable[Iterable[list[Entry]]]) -> Iterator[list[Entry]]:
    """`merge_all` of runs whose entries come in blocks, in blocks of any size. Faster, because most blocks pass untouched."""
    merged: Iterator[list[Entry]] = iter(())
    for older in runs:
        merged = merge_blocks(iter(older), merged)
    return merged


def _merged(older: list[Entry], newer: list[Entry]) -> list[Entry]:
    """Two sorted lists, one of which may be empty, as one. Of two entries of one identity the newer list's stays."""
    if not (older and newer):
        return older or newer
    latest = {entry_identity(entry): entry for entry in older}
    latest.update((entry_identity(entry), entry) for entry in newer)
    return [latest[identity] for identity in sorted(latest)]


Join = Callable[[list[Entry], list[Entry]], list[Entry]]


def merge_blocks(
    older: Iterator[list[Entry]], newer: Iterator[list[Entry]], join: Join = _merged
) -> Iterator[list[Entry]]:
    """`merge_sorted` of two runs whose entries come in blocks, none of them empty. One block of each run is in memory.

    Parts of two blocks that lie beside each other become one list by `join`, the older part first; without it the entries of the
    newer run win.
    """
    low, high = next(older, []), next(newer, [])
    low_at = high_at = 0  # where what is left of a block begins: to copy it at each step would take most of the time
    while low and high:
        end = min(entry_identity(low[-1]), entry_identity(high[-1]))
        below, above = (
            bisect_right(block, end, at, key=entry_identity) for block, at in ((low, low_at), (high, high_at))
        )
        yield join(low[low_at:below], high[high_at:above])
        low, low_at = (low, below) if below < len(low) else (next(older, []), 0)
        high, high_at = (high, above) if above < len(high) else (next(newer, []), 0)
    if low or high:
        yield low[low_at:] or high[high_at:]
    yield from older
    yield from newer


def _identity(entry: Entry | None) -> tuple[str, bytes]:
    return ("", b"") if entry is None else (entry.key_class, entry.key)
