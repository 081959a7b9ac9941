"""Items of one priority that only the files of the log have: they were put, and never handed out.

They are one stretch of the queue. An item that was never handed out was never deleted. So the files have of the stretch what was
put, and no list of it is needed in memory: only its ends, the number of its items, and the few keys between its ends that are not
part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kvwal.entry import Entry
from kvwal.errors import CorruptLog, LogFailed

_LOOKS = 10
"""How often the files are asked again for the next item, because a checkpoint replaced them meanwhile."""
Identity = tuple[str, bytes]


class Stored(Protocol):
    """The entries of the log, read from its files. Raises `CorruptLog` and `OSError`."""

    def latest(self, key_class: str) -> Iterator[list[Entry]]:
        """The latest entry of every key of a class, sorted, in blocks, deletes included. `FileNotFoundError` as of `stretch`."""
        ...

    def stretch(self, low: Identity, high: Identity, timestamp: int) -> Iterator[Entry]:
        """Entries from `low` to before `high` that are no deletes, in the order of the log, from the one with `timestamp` on.

        `FileNotFoundError` when a checkpoint has replaced a file: then it is to be asked again.
        """
        ...

    def missing(self, key: bytes) -> CorruptLog:
        """The error for an entry that the files do not have."""
        ...


class Swap(NamedTuple):
    """About how many items of a queue stay in memory, and where the others are read."""

    items: int
    stored: Stored


class SwappedItems:
    """One stretch of items of one priority. `first` is its first item, `last` the key of its last one, `count` their number.

    `odd` are keys between the ends that are not part of it.
    """

    def __init__(self, stored: Stored, entries: list[Entry]) -> None:
        """`entries` are its first items, in order."""
        self.first = entries[0]
        self.last = entries[0].key
        self.count = 0
        self.odd: set[bytes] = set()
        self._stored = stored
        self._timestamp = self._passed = 0
        self._reading: Iterator[Entry] | None = None
        self.extend(entries)

    def extend(self, entries: list[Entry]) -> None:
        """Add items behind the last one. The log had them in this order, too: see `follows`."""
        self.last, self._timestamp = entries[-1].key, entries[-1].timestamp
        self.count += len(entries)

    def follows(self, entry: Entry) -> bool:
        """Whether the log has an item behind those that are here. One that was put back is not where its key says."""
        return entry.timestamp >= self._timestamp

    def holds(self, key: bytes) -> bool:
        """Whether the item of this key is here."""
        return self.first.key <= key <= self.last and key not in self.odd

    def find(self, key: bytes) -> Entry | None:
        """The item of this key, None if it is not here."""
        if not self.holds(key):
            return None
        return next((entry for entry in self.entries(key, key) if entry.key == key), None)

    def take(self, most: int) -> list[Entry]:
        """Remove up to `most` items, the first ones. Fewer if the next ones cannot be read, an error if it is the first one.

        Raises `CorruptLog`, also if the files have more items than are counted, and `LogFailed`.
        """
        taken: list[Entry] = []
        try:
            while self.count and len(taken) < most:
                following = self._following() if self.count > 1 else self.first
                if self.count == 1 and self.first.key != self.last:
                    raise self._stored.missing(self.first.key)
                taken.append(self.first)
                self.count -= 1
                self.first = following
        except (CorruptLog, LogFailed):
            self._reading = None
            if not taken:
                raise
        self._passed += len(taken)
        if self._passed >= len(self.odd):
            self.odd = {key for key in self.odd if key > self.first.key}
            self._passed = 0
        return taken

    def entries(self, begin: bytes, end: bytes) -> Iterator[Entry]:
        """The items with keys from `begin` to `end`, both included. Raises `CorruptLog` and `LogFailed`.

        Items that are taken meanwhile may come or not.
        """
        key_class, at, timestamp, looks = self.first.key_class, begin, self.first.timestamp, 0
        while looks < _LOOKS:
            looks += 1
            try:
                for entry in self._stored.stretch((key_class, at), (key_class, end + b"\0"), timestamp):
                    if entry.key >= at and not entry.expires and entry.key not in self.odd:
                        yield entry
                        at, timestamp, looks = entry.key + b"\0", entry.timestamp, 0
                        if entry.key >= end:
                            return
                return
            except FileNotFoundError:
                continue
            except OSError as error:
                raise LogFailed(
                    f"items of a queue that are not in memory cannot be read ({error}); nothing was taken.",
                    hint="They are in the log. Mend the disk, then reopen the store.",
                ) from error
        raise self._stored.missing(at)

    def _following(self) -> Entry:
        """The item behind the first one."""
        for _ in range(2):  # items may have been added since the reading began
            if self._reading is None:
                self._reading = self.entries(self.first.key + b"\0", self.last)
            entry = next(self._reading, None)
            if entry is not None:
                return entry
            self._reading = None
        raise self._stored.missing(self.first.key)
