"""The queues of a running cluster, for the commands that only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from kvwal.cli.queue.names import QueueName
from kvwal.cli.queue.reader import Listed, Numbers
from kvwal.cluster.queues.requests import BROWSE_ITEMS
from kvwal.entry import DataEntry
from kvwal.location.cluster import ClusterMaps
from kvwal.structures.queue.deliveries import Delivery
from kvwal.structures.queue.figures import figures_of
from kvwal.structures.queue.options import QueueOptions
from kvwal.structures.queue.positions import item_class, position_of

if TYPE_CHECKING:
    from kvwal.client.queues.queue import ClusterQueue


class ClusterReader:
    """See `QueueReader`. The member that decides on a queue shows the items that can be taken, and counts those in flight.

    No member is asked about a queue without items: the first question about queues writes to the log of the business.
    """

    def __init__(self, store: ClusterMaps) -> None:
        self._store = store
        self._known: dict[str, list[str]] = {}
        self._deliveries: dict[bytes, Delivery] = {}

    def businesses(self) -> list[str]:
        """See `QueueReader.businesses`."""
        return self._store.businesses()

    def listed(self, business: str) -> list[Listed]:
        """See `QueueReader.listed`."""
        queues = [QueueName(business, name) for name in self._queues(business)]
        found = ((queue, figures_of(self.items(queue))) for queue in queues)
        return [(queue, figures) for queue, figures in found if figures.items or any(self.numbers(queue))]

    def names(self, business: str) -> list[str]:
        """See `QueueReader.names`."""
        return [str(QueueName(business, name)) for name in self._queues(business)]

    def items(self, queue: QueueName, most: int | None = None) -> Iterator[DataEntry]:
        """See `QueueReader.items`. The timestamp of an item is its position."""
        if (found := self._queue(queue)) is None:
            return
        key_class = item_class(queue.structure)
        page = BROWSE_ITEMS if most is None else min(most, BROWSE_ITEMS)
        self._deliveries.clear()
        for item in islice(found.stored_items(page), most):
            if item.deliveries:
                self._deliveries[item.key] = Delivery(item.deliveries)
            yield DataEntry(
                item.key, key_class, item.value, item.value_class, False, position_of(item.key), item.expires
            )

    def count(self, queue: QueueName) -> int:
        """See `QueueReader.count`."""
        if (found := self._queue(queue)) is None:
            return 0
        counts = found.counts()
        return counts.ready + counts.delayed

    def knows(self, queue: QueueName) -> bool:
        """See `QueueReader.knows`."""
        return queue.name in self._queues(queue.business) or self.options(queue) != QueueOptions()

    def deliveries(self, queue: QueueName) -> Mapping[bytes, Delivery]:
        """See `QueueReader.deliveries`. They come with the items: those that `items` has given so far."""
        return self._deliveries

    def numbers(self, queue: QueueName) -> Numbers:
        """See `QueueReader.numbers`."""
        if (found := self._queue(queue)) is None:
            return Numbers(0, 0)
        counts = found.counts()
        return Numbers(counts.in_flight, counts.delayed)

    def options(self, queue: QueueName) -> QueueOptions:
        """See `QueueReader.options`."""
        self._queues(queue.business)
        has_queues = self._store.business(queue.business).has_queues()
        return queue.of(self._store).options() if has_queues else QueueOptions()

    def _queue(self, queue: QueueName) -> ClusterQueue | None:
        """The queue, if it holds items."""
        return queue.of(self._store) if queue.name in self._queues(queue.business) else None

    def _queues(self, business: str) -> list[str]:
        if business not in self._known:
            self._store.check_there(business)
            self._known[business] = self._store.business(business).queues()
        return self._known[business]
