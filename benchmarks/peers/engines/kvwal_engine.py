"""kvwal, embedded."""

from __future__ import annotations

from itertools import islice

import kvwal
from benchmarks.peers.engines.base import Opening

NEVER = 1e9
MAP = "bench"


class Kvwal:
    """A store with one map, through kvwal's public interface. `archived` gives it an archive beside its root."""

    def __init__(self, opening: Opening, archived: bool = False) -> None:
        settings = kvwal.Settings(checkpoint_seconds=NEVER, archive_seconds=NEVER, checkpoint_bytes=1 << 50)
        archive = str(opening.folder / "archive") if archived else None
        self.store = kvwal.open(opening.folder / "root", archive=archive, settings=settings)
        self._map = self.store.map(MAP)

    def put(self, entries: dict[str, bytes]) -> None:
        """One put, or one put_many."""
        if len(entries) == 1:
            ((key, value),) = entries.items()
            self._map.put(key, value)
        else:
            self._map.put_many(entries)

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """A put with a time to live."""
        self._map.put(key, value, ttl=seconds)

    def delete(self, key: str) -> None:
        """A delete, which is an entry of the log, too."""
        self._map.delete(key)

    def get(self, key: str) -> bytes | None:
        """Read from memory."""
        value: bytes | None = self._map.get(key)
        return value

    def scan(self, start: str, count: int) -> int:
        """By prefix, as kvwal scans: the keys that differ from `start` in the last two digits."""
        return sum(1 for _ in islice(self._map.scan(start[:-2]), count))

    def count(self) -> int:
        """All live keys."""
        return len(self._map)

    def compact(self) -> None:
        """Archive, then let go of the log by a checkpoint."""
        self.store.archive()
        self.store.checkpoint()

    def close(self) -> None:
        """Close in order."""
        self.store.close()
