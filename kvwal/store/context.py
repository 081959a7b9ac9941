"""What all businesses of one store share: its ports, settings, archiver and archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kvwal.archiver.remote import Archiver
from kvwal.config import Settings
from kvwal.hlc import HybridClock
from kvwal.log.log import Ports
from kvwal.log.reader import Progress
from kvwal.ports.logger import Logger
from kvwal.structures.state import Now, State


class StoreContext(NamedTuple):
    """What all businesses of a store share."""

    ports: Ports
    root: Path
    settings: Settings
    archiver: Archiver
    archive_url: str | None
    options: dict[str, Any]
    accept_clock: bool
    progress: Progress | None
    logger: Logger
    memory: Callable[[Now], State] = State
    """What keeps a business's entries; in a node that is Hazelcast, and this passes them on."""
    hybrid: Callable[[], HybridClock] = HybridClock
    """Makes the clock of a log."""
    patience: Callable[[], int] = lambda: 1
    """For how many archive intervals a small segment may wait: more than one where others hold what a lost disk had."""
