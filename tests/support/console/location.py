"""A location of the console that tests count the uses of, on a clock that they move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

from kvwal.console.shared_reader import (
    SharedReader,
)
from kvwal.errors import ArchiveError
from kvwal.location.readers import LocationReader
from kvwal.ports.tasks import ThreadWorkers
from tests.support.disk.faults import FakeClock


class Location:
    """A location that counts how often it is opened and closed, and may be away."""

    def __init__(self) -> None:
        self.opened = self.closed = self.made = 0
        self.away = False

    @contextmanager
    def open(self) -> Iterator[LocationReader]:
        if self.away:
            raise ArchiveError("the bucket does not answer.")
        self.opened += 1
        try:
            yield cast(LocationReader, self)
        finally:
            self.closed += 1


def make(reader: LocationReader) -> int:
    location = cast(Any, reader)
    location.made += 1
    return cast(int, location.made)


def renewed(reads: SharedReader) -> None:
    """Wait until the answers that are to be made in the background are made."""
    ended = Event()
    assert reads._renewals.begin(ended.set)
    assert ended.wait(60)


class Setting:
    def __init__(self) -> None:
        self.location = Location()
        self.clock = FakeClock()
        self.reads = SharedReader(self.location.open, ThreadWorkers("test", 2), self.clock)

    def made(self) -> int:
        with self.reads.view() as view:
            return view.made(make)
