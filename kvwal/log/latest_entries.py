"""The latest entry of every identity in some segments, sorted, in memory that is in proportion to the bytes of the segments.

Entries as objects take several times the bytes that they have in a segment. So only those of a few megabytes are objects at a
time. The others are held as sorted runs of blocks as a snapshot stores them, which are decoded one by one while the runs are
merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvwal.entry import Decode, Entry
from kvwal.log.files.format import block_size
from kvwal.log.files.snapshot import Packed, in_blocks, size_of
from kvwal.log.files.snapshot_reader import merge_all

RUN_BYTES = 8 << 20
"""Bytes of keys and values after which the entries held as objects become a run."""
RUN_ENTRIES = 1 << 16
"""Entries after which they do so, however small they are."""


class LatestEntries:
    """Keeps the latest entry of every identity of those added. `timestamp` is the greatest of them."""

    def __init__(self, decode: Decode) -> None:
        self.timestamp = 0
        self._decode = decode
        self._latest: dict[tuple[str, bytes], Entry] = {}
        self._added = 0
        self._runs: list[list[Packed]] = []
        self._bytes = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries, later than those before."""
        for entry in entries:
            self._latest[entry.key_class, entry.key] = entry
            self._added += size_of(entry)
        if self._added >= RUN_BYTES or len(self._latest) >= RUN_ENTRIES:
            self._end_run()

    def size(self) -> int:
        """About the bytes of the entries in a snapshot. An entry of a key that is in several runs counts in each."""
        self._end_run()
        return self._bytes

    def in_order(self) -> Iterator[Entry]:
        """The latest entry of every identity, sorted."""
        self._end_run()
        return merge_all(map(self._entries, reversed(self._runs)))

    def _entries(self, run: list[Packed]) -> Iterator[Entry]:
        for block in run:
            yield from self._decode(block.unpacked())

    def _end_run(self) -> None:
        if not self._latest:
            return
        entries = [self._latest[identity] for identity in sorted(self._latest)]
        run = [Packed.of(block) for block in in_blocks(entries, size_of)]
        self._runs.append(run)
        self._bytes += sum(block_size(len(block.payload)) for block in run)
        self.timestamp = max(self.timestamp, *(entry.timestamp for entry in entries))
        self._latest, self._added = {}, 0
