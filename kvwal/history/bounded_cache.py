"""A cache that keeps what was read last, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from kvwal.ports.locks import Lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
DECODED_BYTES = 256 << 20
"""About the memory for rows of an archive that were decoded, and are kept for the next questions of a reader that stays open."""


class BoundedCache(Generic[K, V]):
    """Values by key, of which those that were not asked for longest are let go. Any number of threads may use it."""

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda value: 1) -> None:
        """All values together weigh at most `most`, or there is only one."""
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._lock = Lock()
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is not here. Two threads may make it at the same time."""
        kept = self.found(key)
        if kept is None:
            kept = make()
            self.put(key, kept)
        return kept

    def found(self, key: K) -> V | None:
        """The value of a key, None if it is not here."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def put(self, key: K, value: V) -> None:
        """Keep a value, instead of the one that has its key."""
        with self._lock:
            self._drop(key)
            self._kept[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def keep_only(self, wanted: Callable[[K], bool]) -> None:
        """Let go the values of other keys."""
        with self._lock:
            for key in [key for key in self._kept if not wanted(key)]:
                self._drop(key)

    def _drop(self, key: K) -> None:
        if (value := self._kept.pop(key, None)) is not None:
            self._weight -= self._weigh(value)


def decoded_rows() -> BoundedCache[Any, Any]:
    """A cache as `kvwal_archive.objects.Objects.decoded` wants it, for one reader of an archive."""
    return BoundedCache(DECODED_BYTES, lambda value: int(value.held_bytes))
