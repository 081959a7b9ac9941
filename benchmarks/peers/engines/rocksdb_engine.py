"""RocksDB, whose writes wait for the sync of its log."""

from __future__ import annotations

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from benchmarks.peers.engines.base import Opening


class Rocksdb:
    """One database with keys and values as bytes."""

    def __init__(self, opening: Opening) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._database = Rdict(str(opening.folder / "rocks"), options)
        durable = WriteOptions()
        durable.sync = True
        self._database.set_write_options(durable)

    def put(self, entries: dict[str, bytes]) -> None:
        """One put, or one batch."""
        if len(entries) == 1:
            ((key, value),) = entries.items()
            self._database.put(key.encode(), value)
            return
        batch = WriteBatch(raw_mode=True)
        for key, value in entries.items():
            batch.put(key.encode(), value)
        self._database.write(batch)

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """Entries expire only where the whole database has a time to live."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """One tombstone."""
        self._database.delete(key.encode())

    def get(self, key: str) -> bytes | None:
        """From its memtable, or from a file."""
        value: bytes | None = self._database.get(key.encode())
        return value

    def scan(self, start: str, count: int) -> int:
        """By an iterator."""
        cursor = self._database.iter()
        cursor.seek(start.encode())
        seen = 0
        while cursor.valid() and seen < count:
            cursor.key(), cursor.value()
            seen += 1
            cursor.next()
        return seen

    def count(self) -> int:
        """All entries, read as a store in memory reads them."""
        return sum(1 for _ in self._database.items())

    def compact(self) -> None:
        """All levels into one."""
        self._database.flush(True)
        self._database.compact_range(None, None)

    def close(self) -> None:
        """Close the database."""
        self._database.close()
