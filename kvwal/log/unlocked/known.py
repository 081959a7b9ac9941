"""What a reader that stays open knows of the files of logs, so that it reads only what a question needs of them.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kvwal.log.files.snapshot_reader import Probes
from kvwal.log.reader import SegmentReader
from kvwal.log.unlocked.endings import Endings
from kvwal.log.unlocked.segment_keys import Identity, SegmentKeys, identity_of, ordered
from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock

_READS = 8
"""Reads of a log before its keys are noted, which takes as long as many reads: a program that asks once has no use for it."""
MOST_BYTES = 256 << 20
"""About the memory for what is known of all logs together, or for that of the log that was read last."""
_CHECKED_AFTER = 100
"""Reads until that is checked again."""


class KnownLog:
    """Where the keys of one log are. `lock` is held while the keys of a segment are asked for or changed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._segments: dict[str, SegmentKeys] = {}
        self._probes: dict[str, Probes] = {}

    def probes(self, name: str, salt: int) -> Probes:
        """The probes of the part of the snapshot with this file name, and this salt in its header."""
        with self.lock:
            known = self._probes.get(name)
            if known is None or known.salt != salt:
                known = self._probes[name] = Probes(salt)
            return known

    def segment(self, reader: SegmentReader) -> SegmentKeys:
        """The keys of the segment that `reader` begins to read, as far as they are known.

        A writer cuts blocks that were not durable, and writes others there. So the last block must be the one that it was.
        """
        name, salt = reader.path.name, reader.header.salt
        keys = self._segments.get(name)
        if keys is None or keys.salt != salt or not _is_there(reader, keys):
            keys = self._segments[name] = SegmentKeys(salt, reader.start)
        return keys

    @property
    def held_bytes(self) -> int:
        """About how much memory the keys take. They may be changing meanwhile."""
        return sum(keys.held_bytes for keys in list(self._segments.values()))

    def keep(self, names: Collection[str]) -> None:
        """Forget all other files."""
        with self.lock:
            for of_files in (self._segments, self._probes):
                for name in of_files.keys() - set(names):
                    del of_files[name]

    def after(self, low: Identity, count: int) -> Identity | None:
        """The identity that is noted as the one of this number after `low`: a range up to it has few blocks. None for fewer."""
        begin = ordered(low)
        with self.lock:
            found = sorted({each for keys in self._segments.values() for each in keys.following(begin, count)})
        return identity_of(found[count - 1]) if len(found) >= count else None


class KnownSegments:
    """What the reads of one reader that stays open know together. Any number of threads may use it."""

    def __init__(self, clock: Clock) -> None:
        self.endings = Endings(clock)
        self._lock = Lock()
        self._reads = 0
        self._reads_of: dict[Path, int] = {}
        self._logs: dict[Path, KnownLog] = {}
        """Those that were read last are the last ones."""

    def log(self, folder: Path) -> KnownLog:
        """The log in a folder."""
        with self._lock:
            return self._last(folder)

    def read(self, folder: Path) -> KnownLog | None:
        """Count a read of the log in a folder. Returns the log, or None if nothing is noted of it and it was read a few times."""
        with self._lock:
            self._reads += 1
            reads = self._reads_of[folder] = self._reads_of.get(folder, 0) + 1
            log = self._last(folder) if reads > _READS or folder in self._logs else None
            if self._reads % _CHECKED_AFTER == 0:
                self._forget()
            return log

    def _last(self, folder: Path) -> KnownLog:
        log = self._logs[folder] = self._logs.pop(folder) if folder in self._logs else KnownLog()
        return log

    def _forget(self) -> None:
        """Forget the logs that were not read for longest, while all take too much memory: their businesses may be gone."""
        sizes = {folder: log.held_bytes for folder, log in self._logs.items()}
        too_many = sum(sizes.values()) - MOST_BYTES
        for folder in [*sizes][:-1]:
            if too_many <= 0:
                return
            too_many -= sizes[folder]
            del self._logs[folder]
            self._reads_of.pop(folder, None)


def _is_there(reader: SegmentReader, keys: SegmentKeys) -> bool:
    last = keys.last
    if last is None:
        return True
    block = reader.block_at(last.offset)
    return block is not None and (block.kind, block.crc, block.end) == (last.kind, last.crc, last.end)
