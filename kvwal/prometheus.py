"""Figures of queues for Prometheus: a collector for the registry of the program that embeds a store. Needs prometheus-client.

What a scrape costs grows with the number of queues, and not with their items.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kvwal.cluster.figures.messages import REST as REST
from kvwal.errors import ConfigError
from kvwal.store.sync import ReadOnlyStore

MOST = 50
"""Queues that have lines of their own: those with the most items, and as many whose oldest item is the oldest."""
_FIGURES: dict[str, tuple[str, Callable[[Iterable[float]], float]]] = {
    "items": ("Items of the queue that can be taken.", sum),
    "in_flight": ("Items that takers hold: taken, and neither committed nor given back.", sum),
    "bytes": ("Bytes of the values of all items.", sum),
    "oldest_seconds": ("How long the oldest item that can be taken has been in the queue.", max),
}
"""The figures of a queue in the `stats` of a store, each with its help text, and what makes one of the figures of many."""


class Queue(NamedTuple):
    """The labels of a queue, and its figures."""

    business: str
    label: str
    figures: Mapping[str, Any]


class OpenStore(Protocol):
    """A store that is open for writing: `kvwal.Store` or `kvwal.aio.Store`."""

    def stats(self) -> dict[str, Any]:
        """Numbers about the store and each open business."""
        ...


class FiguresOfQueues(Collector):
    """The figures of the queues in the `stats` of businesses, which `businesses` gives at each scrape, on any thread."""

    def __init__(self, businesses: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
        self._businesses = businesses

    def describe(self) -> list[GaugeMetricFamily]:
        """See `Collector`."""
        return queue_families({})

    def collect(self) -> list[GaugeMetricFamily]:
        """See `Collector`."""
        return queue_families(self._businesses())


class QueueCollector(FiguresOfQueues):
    """The figures of the queues of a store: `prometheus_client.REGISTRY.register(QueueCollector(store))`.

    They are those of the businesses that are open, at the moment of the scrape. Take the collector off the registry before the
    store is closed.
    """

    def __init__(self, store: OpenStore) -> None:
        """Raises `ConfigError` for a store that only reads: what is in flight is known to the process that holds the store."""
        if isinstance(store, ReadOnlyStore):
            raise ConfigError(
                f"{store.root} was opened with read_only=True, and only the process that holds a store knows its queues.",
                hint="Register the collector there, or call `kvwal queue list`, which reads the items.",
            )
        super().__init__(lambda: store.stats()["businesses"])


def queue_families(businesses: Mapping[str, Mapping[str, Any]]) -> list[GaugeMetricFamily]:
    """The figures of the queues in the `stats` of these businesses.

    The label `queue` is what `kvwal queue` calls it: the business, and the name of the queue behind a slash.
    """
    queues = [
        Queue(business, f"{business}/{name}" if name else business, figures)
        for business, stats in businesses.items()
        for name, figures in stats.get("queues", {}).items()
    ]
    shown = bounded(queues)
    return [_family(name, text, shown) for name, (text, _) in _FIGURES.items()]


def bounded(queues: list[Queue], most: int = MOST) -> list[Queue]:
    """The `most` queues with the most items, and as many with the oldest items; all others as one, `REST`."""
    if len(queues) <= most:
        return queues
    deepest = heapq.nlargest(most, queues, key=lambda queue: queue.figures["items"] + queue.figures["in_flight"])
    oldest = heapq.nlargest(most, queues, key=lambda queue: queue.figures["oldest_seconds"] or 0)
    labels = {queue.label for queue in (*deepest, *oldest)}
    rest = [queue.figures for queue in queues if queue.label not in labels]
    kept = [queue for queue in queues if queue.label in labels]
    return [*kept, Queue(REST, REST, _together(rest))] if rest else kept


def _together(rest: list[Mapping[str, Any]]) -> dict[str, Any]:
    values = {name: [each[name] for each in rest if each[name] is not None] for name in _FIGURES}
    return {name: fold(values[name]) if values[name] else None for name, (_, fold) in _FIGURES.items()}


def _family(name: str, text: str, queues: Iterable[Queue]) -> GaugeMetricFamily:
    """A queue without an item has no line of its oldest item."""
    family = GaugeMetricFamily(f"kvwal_queue_{name}", text, labels=["business", "queue"])
    for queue in queues:
        if queue.figures[name] is not None:
            family.add_metric([queue.business, queue.label], queue.figures[name])
    return family
