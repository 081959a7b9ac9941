"""SQLite, with its write-ahead log and a full sync at each commit."""

from __future__ import annotations

import sqlite3
import threading

from benchmarks.peers.engines.base import Opening


class Sqlite:
    """One table. Each thread has its connection."""

    def __init__(self, opening: Opening) -> None:
        self._path = opening.folder / "bench.db"
        self._local = threading.local()
        self._connection().execute(
            "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
        )

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, timeout=600, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

    def put(self, entries: dict[str, bytes]) -> None:
        """One transaction that replaces."""
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())
        connection.execute("COMMIT")

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """Rows do not expire."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """One statement is one transaction."""
        self._connection().execute("DELETE FROM entries WHERE key = ?", (key,))

    def get(self, key: str) -> bytes | None:
        """By the primary key."""
        row = self._connection().execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def scan(self, start: str, count: int) -> int:
        """By the primary key."""
        statement = "SELECT key, value FROM entries WHERE key >= ? ORDER BY key LIMIT ?"
        return len(self._connection().execute(statement, (start, count)).fetchall())

    def count(self) -> int:
        """All rows, read as a store in memory reads them."""
        return sum(1 for _ in self._connection().execute("SELECT key, value FROM entries"))

    def compact(self) -> None:
        """Empty the log into the database, and lay the database anew."""
        self._connection().execute("VACUUM")
        self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close this thread's connection."""
        self._connection().close()
