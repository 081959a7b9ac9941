"""A memory that is loaded when it is first looked at, and never again: that of a business which is only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvwal.entry import Entry
from kvwal.ports.locks import Lock
from kvwal.structures.business import Memory
from kvwal.structures.map.view import KeyBounds


class LazyMemory:
    """See `structures.business.Memory`. Any number of threads may look: the first one loads, and the others wait for it.

    A look raises what loading raises; then the next look loads again.
    """

    def __init__(self, load: Callable[[], Memory]) -> None:
        self._load = load
        self._loading = Lock()
        self._loaded: Memory | None = None

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `structures.business.Memory.lookup`."""
        return self._memory().lookup(key_class, key)

    def expires(self, key_class: str, key: bytes) -> int | None:
        """See `structures.business.Memory.expires`."""
        return self._memory().expires(key_class, key)

    def count(self) -> int:
        """See `structures.business.Memory.count`."""
        return self._memory().count()

    def first(self) -> Entry | None:
        """See `structures.business.Memory.first`."""
        return self._memory().first()

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """See `structures.business.Memory.ordered`."""
        return self._memory().ordered(key_class, prefix)

    def all_ordered(self) -> Iterator[Entry]:
        """See `structures.business.Memory.all_ordered`."""
        return self._memory().all_ordered()

    def between(self, bounds: KeyBounds, *, reverse: bool = False) -> Iterator[Entry]:
        """See `structures.business.Memory.between`."""
        return self._memory().between(bounds, reverse=reverse)

    def _memory(self) -> Memory:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
