"""Interface of the queues of an open location, for the commands that only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from kvwal.cli.queue.names import QueueName
from kvwal.entry import DataEntry
from kvwal.structures.queue.deliveries import Delivery
from kvwal.structures.queue.figures import QueueFigures
from kvwal.structures.queue.options import QueueOptions

Listed = tuple[QueueName, QueueFigures]


class Numbers(NamedTuple):
    """The items of a queue that are in flight, None if that is not known, and those that are delayed."""

    in_flight: int | None
    delayed: int


class QueueReader(Protocol):
    """The queues of a folder or of a cluster. A business that is not there is a `ConfigError`."""

    def businesses(self) -> list[str]:
        """The businesses that are there, sorted."""
        ...

    def listed(self, business: str) -> list[Listed]:
        """The queues of a business that hold items, sorted."""
        ...

    def names(self, business: str) -> list[str]:
        """As `listed`, the names only."""
        ...

    def items(self, queue: QueueName, most: int | None = None) -> Iterator[DataEntry]:
        """The items of a queue in the order of takes, `most` of them at the most."""
        ...

    def count(self, queue: QueueName) -> int:
        """The number of items of a queue that a purge would delete."""
        ...

    def knows(self, queue: QueueName) -> bool:
        """Whether the queue is there: it holds items, or options are set."""
        ...

    def deliveries(self, queue: QueueName) -> Mapping[bytes, Delivery]:
        """What is known of the deliveries of the items, by their keys."""
        ...

    def numbers(self, queue: QueueName) -> Numbers:
        """The items in flight, and the delayed ones."""
        ...

    def options(self, queue: QueueName) -> QueueOptions:
        """The options of a queue."""
        ...
