"""What stands where an embedded store has its memory: in a node Hazelcast is the memory."""

from __future__ import annotations

from collections.abc import Iterator

from kvwal.entry import Entry
from kvwal.structures.state import Now, State


class Passing(State):
    """Collects the latest entries while a log is recovered, hands them over once, and keeps nothing from then on."""

    def __init__(self, now: Now) -> None:
        super().__init__(now)
        self._collecting = True

    def apply(self, entries: list[Entry]) -> None:
        """See `State.apply`."""
        if self._collecting:
            super().apply(entries)

    def expired(self, most: int) -> list[Entry]:
        """None: Hazelcast lets go of what has expired, and the log says when that was."""
        return []

    def stop(self) -> None:
        """Keep nothing from now on."""
        self._collecting = False
        self.clear()

    def hand_over(self, at_once: int) -> Iterator[list[Entry]]:
        """What was collected and is live, in lists of at most `at_once`; what was handed over is no longer kept."""
        now = self._now()
        self._collecting = False
        for table in self.tables.values():
            while table:
                batch = [table.popitem()[1] for _ in range(min(at_once, len(table)))]
                if live := [entry for entry in batch if not entry.expires or entry.expires > now]:
                    yield live
        self.clear()
