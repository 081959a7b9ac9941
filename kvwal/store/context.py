"""The context of a store: the ports, settings, archiver and archive that all its businesses share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.archiver.remote import Archiver
from kvwal.config import Settings
from kvwal.hlc import HybridClock
from kvwal.key_class import QUEUE
from kvwal.log.files.names import log_folder
from kvwal.log.log import Ports
from kvwal.log.ranges.stored_entries import StoredEntries
from kvwal.log.reader import Progress, entry_decoder
from kvwal.structures.guards import Now
from kvwal.structures.memory import STRUCTURES, BusinessMemory, Make
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue_items.swapped import Swap
from kvwal_archive.layout import Place

if TYPE_CHECKING:
    from kvwal.ports.logger import Logger


def stored_entries(context: StoreContext, place: Place) -> StoredEntries:
    """The files of a log, which serve its memory as a swap file."""
    ports = context.ports
    return StoredEntries(ports.disk, ports.clock, log_folder(context.root, place), entry_decoder())


def embedded_structures(context: StoreContext, stored: StoredEntries) -> Mapping[str, Make]:
    """The list of structures of an embedded store, whose long queues have their log as a swap file."""
    swap = Swap(context.settings.queue_memory, stored)
    return {**STRUCTURES, QUEUE: partial(QueueState, swap=swap)}


def embedded_memory(context: StoreContext, place: Place, now: Now) -> BusinessMemory:
    """The memory of a business in an embedded store: all live entries, as encoded bytes, but for the middle of long queues, and
    for many names of contents until somebody asks for contents.
    """
    stored = stored_entries(context, place)
    return BusinessMemory(now, embedded_structures(context, stored), place.node, stored)


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
    memory: Callable[[StoreContext, Place, Now], BusinessMemory] = embedded_memory
    """Makes the memory of a business. In a node the entries live in Hazelcast, and this memory passes them on."""
    large_values_beside: bool = True
    """Whether large values stand beside the log. In a node they do not: its memory has all values."""
    hybrid: Callable[[], HybridClock] = HybridClock
    """Makes the hybrid clock of a log."""
    archive_interval_factor: Callable[[], int] = one_interval
    """The number of archive intervals that a small segment may wait: more than 1 where other nodes hold its entries too."""
