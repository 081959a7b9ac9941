"""diskcache, with SQLite's full sync in place of its default, which is not durable."""

from __future__ import annotations

from itertools import islice

import diskcache

from benchmarks.peers.engines.base import Opening


class Diskcache:
    """One cache without eviction."""

    def __init__(self, opening: Opening) -> None:
        self._cache = diskcache.Cache(
            str(opening.folder / "cache"), timeout=600, sqlite_synchronous=2, eviction_policy="none", cull_limit=0,
            size_limit=1 << 50,
        )  # fmt: skip

    def put(self, entries: dict[str, bytes]) -> None:
        """One set, or many under one transaction."""
        if len(entries) == 1:
            ((key, value),) = entries.items()
            self._cache.set(key, value)
            return
        with self._cache.transact():
            for key, value in entries.items():
                self._cache.set(key, value)

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """A set that expires."""
        self._cache.set(key, value, expire=seconds)

    def delete(self, key: str) -> None:
        """One transaction."""
        self._cache.delete(key)

    def get(self, key: str) -> bytes | None:
        """By its index."""
        value: bytes | None = self._cache.get(key)
        return value

    def scan(self, start: str, count: int) -> int:
        """From the first key: iterkeys takes no start."""
        return sum(1 for key in islice(self._cache.iterkeys(), count) if self._cache.get(key) is not None)

    def count(self) -> int:
        """All entries, read as a store in memory reads them."""
        return sum(1 for key in self._cache if self._cache.get(key) is not None)

    def compact(self) -> None:
        """VACUUM of its SQLite, which `check` calls."""
        self._cache.check(fix=True)

    def close(self) -> None:
        """Close this thread's connection."""
        self._cache.close()
