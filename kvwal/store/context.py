"""The context of a store: the ports, settings, archiver and archive that all its businesses share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.archiver.remote import Archiver
from kvwal.config import Settings
from kvwal.hlc import HybridClock
from kvwal.log.log import Ports
from kvwal.log.reader import Progress
from kvwal.structures.guards import Now
from kvwal.structures.memory import BusinessMemory
from kvwal_archive.layout import Place

if TYPE_CHECKING:
    from kvwal.ports.logger import Logger


def embedded_memory(place: Place, now: Now) -> BusinessMemory:
    """The memory of a business in an embedded store: all live entries, as encoded bytes."""
    return BusinessMemory(now)


def one_interval() -> int:
    """The factor of a node without others: each segment is archived at the next interval."""
    return 1


class StoreContext(NamedTuple):
    """The ports, settings, archiver and archive of a store."""

    ports: Ports
    root: Path
    settings: Settings
    archiver: Archiver
    archive_url: str | None
    options: dict[str, Any]
    accept_clock: bool
    progress: Progress | None
    logger: Logger
    memory: Callable[[Place, Now], BusinessMemory] = embedded_memory
    """Makes the memory of a business. In a node the entries live in Hazelcast, and this memory passes them on."""
    hybrid: Callable[[], HybridClock] = HybridClock
    """Makes the hybrid clock of a log."""
    archive_interval_factor: Callable[[], int] = one_interval
    """The number of archive intervals that a small segment may wait: more than 1 where other nodes hold its entries too."""
