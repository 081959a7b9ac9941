"""What a reader that stays open knows of the bytes after the last block of each log.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kvwal.log.reader import SegmentReader
from kvwal.ports.clock import Clock
from kvwal.ports.disk import settled_before

ENDING_SECONDS = 1.0
"""How long a search of the bytes after a log's last block serves other reads: see `Endings`."""


class _Searched(NamedTuple):
    path: Path
    salt: int
    end: int
    at: float
    state: int
    """That of `Endings.state`."""


class Endings:
    """Searches of the bytes after the last block of each log, for the reads of one reader that stays open.

    A block there that was durable says that the last block is damaged, and not just unfinished. The search reads all that the
    segment was allocated with, up to 64 MiB, and these may be full of old blocks. Of many reads in a second one does it. A later
    one passes only blocks that verify, and the first read after `ENDING_SECONDS` searches again, if the file has changed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._searched: dict[Path, _Searched] = {}

    def state(self, changed_ns: int) -> int:
        """The state of a segment that was last changed at `changed_ns` (`Disk.changed_ns`). 0 if its next change may not show."""
        return changed_ns if changed_ns < settled_before(self._clock.wall_ms()) else 0

    def is_known(self, reader: SegmentReader, state: int) -> bool:
        """Whether the bytes after `reader.end`, or more of them, were searched a moment ago, or in this state of the segment."""
        known = self._searched.get(reader.path.parent)
        if known is None or (known.path, known.salt) != (reader.path, reader.header.salt) or known.end > reader.end:
            return False
        is_same = state != 0 and known.state == state
        return is_same or self._clock.elapsed() - known.at <= ENDING_SECONDS

    def searched(self, reader: SegmentReader, state: int) -> None:
        """No block that was durable is after `reader.end`. `state` is that of before the search."""
        known = _Searched(reader.path, reader.header.salt, reader.end, self._clock.elapsed(), state)
        self._searched[reader.path.parent] = known
