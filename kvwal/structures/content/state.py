"""State of the contents of one structure in memory: the latest entry of each name, with its claim, and no byte of a content."""

from __future__ import annotations

from kvwal.entry import Entry
from kvwal.structures.guards import Guards
from kvwal.structures.map.state import MapState


class ContentState(MapState):
    """The names and their claims. `changes` counts the entries that were applied: without any, no claim file can be let go."""

    def __init__(self, guards: Guards) -> None:
        super().__init__(guards)
        self.changes = 0

    def apply(self, entries: list[Entry]) -> None:
        """See `StructureState.apply`."""
        self.changes += len(entries)
        super().apply(entries)
