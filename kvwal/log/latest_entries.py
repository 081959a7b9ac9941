"""The latest entry of every identity in some segments, sorted, in limited memory.

Entries as objects take several times the bytes that they have in a segment. So only those of a few megabytes are objects at a
time. The others are held as sorted runs of blocks as a snapshot stores them, which are decoded one by one while the runs are
merged. Runs above `HELD_BYTES` together stand in files: a segment has overflow files of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kvwal.entry import Decode, Entry
from kvwal.log.files.external_sort import write_pieces
from kvwal.log.files.format import block_size
from kvwal.log.files.snapshot import Packed, in_blocks, size_of
from kvwal.log.files.snapshot_reader import merge_blocks, merge_sorted
from kvwal.ports.disk import Disk

RUN_BYTES = 8 << 20
"""Bytes of keys and values after which the entries held as objects become a run."""
RUN_ENTRIES = 1 << 16
"""Entries after which they do so, however small they are."""
HELD_BYTES = 64 << 20
"""Bytes of runs, as they are held, after which the next ones are written to files."""


class LatestEntries:
    """Keeps the latest entry of every identity of those added. `timestamp` is the greatest of them.

    Used in a `with` block, at whose end its files are deleted.
    """

    def __init__(self, decode: Decode, disk: Disk, file: Callable[[int], Path]) -> None:
        """`file` gives a path for the file with this number. Nobody else uses it."""
        self.timestamp = 0
        self._decode = decode
        self._disk = disk
        self._file = file
        self._latest: dict[tuple[str, bytes], Entry] = {}
        self._added = 0
        self._runs: list[Callable[[], Iterator[Packed]]] = []
        self._files: list[Path] = []
        self._bytes = self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._files:
            self._disk.unlink(path)

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
        return self._merged(self._runs)

    def blocks_in_order(self) -> Iterator[list[Entry]]:
        """As `in_order`, in blocks. Faster where few keys of one run are between those of another."""
        self._end_run()
        return self._merged_blocks(self._runs)

    def _merged_blocks(self, runs: Sequence[Callable[[], Iterator[Packed]]]) -> Iterator[list[Entry]]:
        if len(runs) < 2:
            return (self._decode(block.unpacked()) for run in runs for block in run())
        middle = len(runs) // 2
        return merge_blocks(self._merged_blocks(runs[:middle]), self._merged_blocks(runs[middle:]))

    def _merged(self, runs: Sequence[Callable[[], Iterator[Packed]]]) -> Iterator[Entry]:
        """Runs, oldest first, merged in halves: of a thousand runs an entry passes ten merges, and each call is ten deep."""
        if len(runs) < 2:
            return iter(()) if not runs else self._entries(runs[0])
        middle = len(runs) // 2
        return merge_sorted(self._merged(runs[:middle]), self._merged(runs[middle:]))

    def _entries(self, run: Callable[[], Iterator[Packed]]) -> Iterator[Entry]:
        for block in run():
            yield from self._decode(block.unpacked())

    def _end_run(self) -> None:
        if not self._latest:
            return
        entries = [self._latest[identity] for identity in sorted(self._latest)]
        self.timestamp = max(self.timestamp, *(entry.timestamp for entry in entries))
        packed = (Packed.of(block) for block in in_blocks(entries, size_of))
        if self._held < HELD_BYTES:
            run = list(packed)
            self._runs.append(lambda: iter(run))
            size = sum(block_size(len(block.payload)) for block in run)
            self._held += size
        else:
            size = self._write(packed)
        self._bytes += size
        self._latest, self._added = {}, 0

    def _write(self, packed: Iterator[Packed]) -> int:
        """Write a run to a file. Returns the bytes of its blocks."""
        path = self._file(len(self._files))
        flags: list[int] = []

        def payloads() -> Iterator[bytes]:
            for block in packed:
                flags.append(block.flags)
                yield block.payload

        self._files.append(path)
        pieces = write_pieces(self._disk, path, payloads())

        def read() -> Iterator[Packed]:
            for (position, size), flag in zip(pieces, flags, strict=True):
                yield Packed(self._disk.read_part(path, position, size), flag)

        self._runs.append(read)
        return sum(block_size(size) for _, size in pieces)
