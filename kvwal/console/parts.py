"""Parts of a running console, which its routes are made from."""

from __future__ import annotations

from typing import NamedTuple

from kvwal.console.access import Access
from kvwal.console.shared_reader import SharedReader
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.location.readers import LocationWriter
from kvwal.ports.tasks import Workers


class Writes(NamedTuple):
    """What a console with `--allow-writes` writes to."""

    store: LocationWriter
    events: EventStore


class Console(NamedTuple):
    """A console: what its routes read, what they write, who may ask, and what pages say about it.

    `writes` is None in a console that only reads. `location` is the location as its user typed it, without credentials.
    """

    location: str
    reads: SharedReader
    writes: Writes | None
    workers: Workers
    access: Access
