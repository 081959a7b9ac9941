"""Parts of a running console, which its routes are made from."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from kvwal.console.access import Access
from kvwal.console.figures.shared import SharedFigures
from kvwal.console.queries.question import Place
from kvwal.console.queries.runner import Queries
from kvwal.console.shared_reader import SharedReader
from kvwal.console.sparkstate.kept_states import KeptStates
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
    `figures` are those of its nodes and logs, with what `kvwal doctor` says; they are looked at on a worker. `stopping` is set
    before the server ends its requests. `states` are those of Spark applications whose event logs are kept.
    """

    location: str
    reads: SharedReader
    writes: Writes | None
    workers: Workers
    access: Access
    place: Place
    queries: Queries
    figures: SharedFigures
    stopping: asyncio.Event
    states: KeptStates
