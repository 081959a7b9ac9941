"""LMDB, as it comes: a commit is durable."""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb

from benchmarks.peers.engines.base import Opening

MAP_SIZE = 16 << 30


class Lmdb:
    """One environment with its default database."""

    def __init__(self, opening: Opening) -> None:
        self._folder = opening.folder / "lmdb"
        self._environment = lmdb.open(str(self._folder), map_size=MAP_SIZE, max_readers=256)

    def put(self, entries: dict[str, bytes]) -> None:
        """One write transaction."""
        with self._environment.begin(write=True) as transaction:
            for key, value in entries.items():
                transaction.put(key.encode(), value)

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """Entries do not expire."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """One write transaction."""
        with self._environment.begin(write=True) as transaction:
            transaction.delete(key.encode())

    def get(self, key: str) -> bytes | None:
        """One read transaction."""
        with self._environment.begin() as transaction:
            value: bytes | None = transaction.get(key.encode())
            return value

    def scan(self, start: str, count: int) -> int:
        """By a cursor."""
        seen = 0
        with self._environment.begin() as transaction:
            cursor = transaction.cursor()
            found = cursor.set_range(start.encode())
            while found and seen < count:
                cursor.item()
                seen += 1
                found = cursor.next()
        return seen

    def count(self) -> int:
        """All entries, read as a store in memory reads them."""
        with self._environment.begin() as transaction:
            return sum(1 for _ in transaction.cursor())

    def compact(self) -> None:
        """Copy without the free pages, as mdb_copy -c does, and put the copy in the place of the original."""
        copy = Path(f"{self._folder}-copy")
        copy.mkdir()
        self._environment.copy(str(copy), compact=True)
        self._environment.close()
        shutil.rmtree(self._folder)
        copy.rename(self._folder)
        self._environment = lmdb.open(str(self._folder), map_size=MAP_SIZE, max_readers=256)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()
