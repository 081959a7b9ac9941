"""A location of the console that tests count the uses of, on a clock that they move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

from kvwal.console.shared_reader import SharedReader
from kvwal.errors import ArchiveError
from kvwal.location.archived import ArchiveReader
from kvwal.location.readers import LocationReader
from kvwal.ports.tasks import ThreadWorkers
from kvwal_archive.objects import open_objects
from tests.support.disk.faults import FakeClock

T = TypeVar("T")


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


class SlowAnswer:
    """How often it was made. It takes some seconds of the clock, and while it is held it takes until it is released."""

    def __init__(self, clock: FakeClock, seconds: float = 2.0) -> None:
        self.made = 0
        self.begins = Event()
        self._clock = clock
        self._seconds = seconds
        self._goes_on = Event()
        self._goes_on.set()

    def __call__(self, reader: LocationReader) -> int:
        self._clock.seconds += self._seconds
        self.made += 1
        self.begins.set()
        assert self._goes_on.wait(60)
        return self.made

    def hold(self) -> None:
        self.begins.clear()
        self._goes_on.clear()

    def release(self) -> None:
        self._goes_on.set()


class Setting:
    """A shared reader of a location that is no store."""

    def __init__(self) -> None:
        self.location = Location()
        self.clock = FakeClock()
        self.reads = SharedReader(self.location.open, ThreadWorkers("test", 2), self.clock)

    def made(self) -> int:
        return self.ask(make)

    def ask(self, made: Callable[[LocationReader], T]) -> T:
        with self.reads.view() as view:
            return view.made(made)


class ArchivedSetting:
    """A shared reader of an archive, which is empty."""

    def __init__(self, folder: Path) -> None:
        self.objects = open_objects(str(folder))
        self.clock = FakeClock()
        archive = ArchiveReader(self.objects, "default", "local", None)
        self.reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), self.clock)

    def ask(self, made: Callable[[LocationReader], T], seconds: float) -> T:
        """The answer at a time."""
        self.clock.seconds = seconds
        with self.reads.view() as view:
            return view.made(made)

    def write(self) -> None:
        """Put something into the archive."""
        self.objects.put_if_absent("default/local/jobs/local/_log", b"{}")
