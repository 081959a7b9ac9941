"""What is known of the queues of a business beside their items: their options, and the deliveries of items. No I/O.

These are entries, as of an embedded queue (`kvwal.structures.queue.options`, `kvwal.structures.queue.deliveries`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvwal.cluster.queues.table import Claim
from kvwal.entry import Entry
from kvwal.key_class import structure_of
from kvwal.structures.queue.deliveries import Delivery, delivery_of
from kvwal.structures.queue.options import NO_OPTIONS, QueueOptions, options_of
from kvwal.structures.queue.positions import delivery_class, is_delivery, is_options, item_class


class QueueDetails:
    """The options of the queues of one business, and the deliveries of their items, as one member knows them."""

    def __init__(self) -> None:
        self._stored: dict[str, Entry] = {}
        self._options: dict[str, QueueOptions] = {}
        self._deliveries: dict[Claim, Entry] = {}

    def apply(self, entries: Iterable[Entry]) -> dict[Claim, int]:
        """Take changes of options and deliveries; other entries change nothing.

        Returns from when on items can be taken that are among them (unix ms), 0 for at once.
        """
        due: dict[Claim, int] = {}
        for entry in entries:
            structure = structure_of(entry.key_class)
            if is_options(entry.key_class):
                self._stored[structure] = entry
                self._options[structure] = options_of(entry)
            elif is_delivery(entry.key_class):
                item = item_class(structure), entry.key
                if entry.deleted:
                    self._deliveries.pop(item, None)
                else:
                    self._deliveries[item] = entry
                due[item] = self.delivery(item).due
        return due

    def knows(self, identity: Claim) -> bool:
        """Whether the entry of options, or of a delivery, with this identity was applied."""
        structure = structure_of(identity[0])
        return (
            structure in self._stored
            if is_options(identity[0])
            else (item_class(structure), identity[1]) in self._deliveries
        )

    def forget(self, items: Iterable[Claim]) -> None:
        """These items are gone."""
        if self._deliveries:
            for item in items:
                self._deliveries.pop(item, None)

    def options(self, structure: str) -> QueueOptions:
        """The options of a queue."""
        return self._options.get(structure, NO_OPTIONS)

    def stored_options(self, structure: str) -> Entry | None:
        """The entry of the options of a queue, which may be a delete; None if they were never set."""
        return self._stored.get(structure)

    def delivery(self, item: Claim) -> Delivery:
        """What is known of the deliveries of an item."""
        return delivery_of(self._deliveries.get(item))

    def deletes(self, items: Iterable[Claim]) -> list[Entry]:
        """Deletes of what is known of the deliveries of these items."""
        if not self._deliveries:
            return []
        return [
            Entry(key, delivery_class(structure_of(key_class)), b"", "", True, 0)
            for key_class, key in items
            if (key_class, key) in self._deliveries
        ]
