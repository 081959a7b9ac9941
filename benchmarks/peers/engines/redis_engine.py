"""Redis by its Python client. Its server syncs its append-only file before it answers."""

from __future__ import annotations

import time

import redis

from benchmarks.peers.engines.base import Opening


class Redis:
    """One server, one database."""

    def __init__(self, opening: Opening) -> None:
        self._client = redis.Redis(port=opening.port, socket_timeout=600)

    def put(self, entries: dict[str, bytes]) -> None:
        """SET, or MSET, which is atomic."""
        if len(entries) == 1:
            ((key, value),) = entries.items()
            self._client.set(key, value)
        else:
            self._client.mset(dict(entries))

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """SET with PX."""
        self._client.set(key, value, px=int(seconds * 1_000))

    def delete(self, key: str) -> None:
        """DEL."""
        self._client.delete(key)

    def get(self, key: str) -> bytes | None:
        """GET."""
        value: bytes | None = self._client.get(key)
        return value

    def scan(self, start: str, count: int) -> int:
        """Its keys have no order."""
        raise NotImplementedError

    def count(self) -> int:
        """DBSIZE: the server loaded all before it answers."""
        return int(self._client.dbsize())

    def compact(self) -> None:
        """Write the append-only file anew."""
        self._client.bgrewriteaof()
        while self._client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.02)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
