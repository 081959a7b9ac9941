"""The folders that take new claim files of one log, used side by side: the next content goes where no other one is being written,
and there where the smallest share of the disk is taken. One that fails is passed over for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from kvwal.content.containers.record import add_to_record
from kvwal.content.shared import SharedFiles
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.ports.locks import Lock
from kvwal.ports.space import DiskSpace

AVOIDED_SECONDS = 60.0
"""A folder that failed is passed over for this time, as long as another one takes contents."""
T = TypeVar("T")
Tell = Callable[[Path, OSError], None]
"""Is told of a folder that could not take a content, and the error. Any thread may call it."""


class Home:
    """A folder that takes claim files: beside the log, or in a container. Any thread may use it."""

    def __init__(self, folder: Path, space: DiskSpace, shared: SharedFiles, *, is_ready: bool) -> None:
        """`is_ready`: readers know the folder."""
        self.folder = folder
        self.space = space
        self.shared = shared
        self._is_ready = is_ready
        self._lock = Lock()

    def make_ready(self, disk: Disk, log: Path) -> None:
        """Put a new folder on the list of the containers of the log in the folder `log`. Raises `OSError`."""
        if not self._is_ready:
            with self._lock:
                if not self._is_ready:
                    add_to_record(disk, log, self.folder)
                    self._is_ready = True


class Homes:
    """The folders of one log that take new claim files. The first one is beside the log. Any thread may use it."""

    def __init__(self, disk: Disk, clock: Clock, homes: list[Home], tell: Tell) -> None:
        self._disk = disk
        self._clock = clock
        self._homes = homes
        self._tell = tell
        self._failed: dict[Path, float] = {}

    def __iter__(self) -> Iterator[Home]:
        return iter(self._homes)

    def take(self, write: Callable[[Home], T]) -> T:
        """What `write` makes of the first folder that takes a content. Raises the error of the last one: `OSError`."""
        *others, last = self.in_order()
        for home in others:
            try:
                return self._written(home, write)
            except OSError as error:
                self.failed(home.folder, error)
        return self._written(last, write)

    def in_order(self) -> list[Home]:
        """The folders, the best one for the next content first."""
        if len(self._homes) == 1:
            return self._homes
        now = self._clock.elapsed()
        return sorted(
            self._homes, key=lambda home: (self._is_failing(home.folder, now), home.shared.waiting, self._taken(home))
        )

    def failed(self, folder: Path, error: OSError) -> None:
        """A folder could not take a content."""
        if len(self._homes) > 1:
            if not self._is_failing(folder, self._clock.elapsed()):
                self._tell(folder, error)
            self._failed[folder] = self._clock.elapsed()

    def _written(self, home: Home, write: Callable[[Home], T]) -> T:
        home.make_ready(self._disk, self._homes[0].folder)
        return write(home)

    def _is_failing(self, folder: Path, now: float) -> bool:
        since = self._failed.get(folder)
        return since is not None and now - since < AVOIDED_SECONDS

    def _taken(self, home: Home) -> float:
        """The share of the disk that is taken; 1 if the disk does not answer."""
        try:
            return home.space.taken_share
        except OSError:
            return 1.0
