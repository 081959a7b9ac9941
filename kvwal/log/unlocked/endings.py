"""What a reader that stays open knows of the bytes after the last block of each log.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kvwal.log.reader import SegmentReader
from kvwal.ports.clock import Clock

ENDING_SECONDS = 1.0
"""How long a search of the bytes after a log's last block serves other reads: see `Endings`."""


_SETTLED_MS = 1_000
"""A file that was changed longer ago than this has another time after its next change."""


class _Searched(NamedTuple):
    path: Path
    salt: int
    end: int
    at: float
    changed_ns: int
    """When the file was last changed, 0 if the next change may have the same time."""


class Endings:
    """Searches of the bytes after the last block of each log, for the reads of one reader that stays open.

    A block there that was durable says that the last block is damaged, and not just unfinished. The search reads all that the
    segment was allocated with, up to 64 MiB, and these may be full of old blocks. Of many reads in a second one does it. A later
    one passes only blocks that verify, and the first read after `ENDING_SECONDS` searches again, if the file has changed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._searched: dict[Path, _Searched] = {}

    def is_known(self, reader: SegmentReader, changed_ns: int) -> bool:
        """Whether the bytes after `reader.end`, or more of them, were searched a moment ago, or since the file's last change.

        `changed_ns` is when the file was last changed: see `Disk.changed_ns`.
        """
        known = self._searched.get(reader.path.parent)
        if known is None or (known.path, known.salt) != (reader.path, reader.header.salt) or known.end > reader.end:
            return False
        return known.changed_ns == changed_ns or self._clock.elapsed() - known.at <= ENDING_SECONDS

    def searched(self, reader: SegmentReader, changed_ns: int) -> None:
        """No block that was durable is after `reader.end`. `changed_ns` is of before the search."""
        is_settled = changed_ns < (self._clock.wall_ms() - _SETTLED_MS) * 1_000_000
        changed = changed_ns if is_settled else 0
        known = _Searched(reader.path, reader.header.salt, reader.end, self._clock.elapsed(), changed)
        self._searched[reader.path.parent] = known
