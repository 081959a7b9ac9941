"""A reader of the files that stays open from the first opening of a store to the last, over crashes, power cuts and take-overs.

What it notes of the files must never show in its answers: they are those of a reader that has just been opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvwal.entry import DataEntry
from kvwal.errors import KvwalError
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.map.view import KeyBounds
from tests.simulation.history import Violation, short
from tests.simulation.machine.disk import NODE, ROOT
from tests.simulation.machine.process import START_MS
from tests.support.disk.faults import make_options

if TYPE_CHECKING:
    from tests.simulation.world import World

_PAGE = 3
_EVERYTHING = (("", b""), ("\U0010ffff", b""))


class LastingReader:
    """It looks at a moment, while all processes stand still, and takes no step of the simulation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lasting = self._open()
        self._looks = 0

    def look(self) -> None:
        """Read each business, and with a new reader, too. `Violation` if they differ."""
        self._looks += 1
        for name in self._world.ledgers:
            try:
                expected = self._seen(self._open(), name)
            except (KvwalError, OSError):
                self._world.met("a new reader was refused")
                continue
            try:
                found = self._seen(self._lasting, name)
            except (KvwalError, OSError) as error:
                raise Violation(
                    f"{name}: a reader that stays open is refused, and a new one is not: {error}"
                ) from error
            if found != expected:
                raise Violation(
                    f"{name}: a reader that stays open shows {short(found)}, and a new one {short(expected)}"
                )
            self._world.met("a reader that stays open showed what a new one shows")

    def _open(self) -> ReadOnlyStore:
        return ReadOnlyStore(make_options(ROOT, _CurrentDisk(self._world), _Now(self._world), node=NODE))  # type: ignore[arg-type]

    def _seen(self, store: ReadOnlyStore, name: str) -> list[list[DataEntry]]:
        """The entries of all structures, those of the map by pages or by keys, and of half of the identities."""
        if name not in store.businesses():
            return []
        business = store.read_business(name)
        every = list(business.between(*_EVERYTHING, lambda key_class: True))
        middle = every[len(every) // 2] if every else None
        half = [] if middle is None else list(business.between((middle.key_class, middle.key), _EVERYTHING[1], bool))
        return [every, half, self._pages(business) if self._looks % 2 else self._finds(business, every)]

    def _pages(self, business: ReadOnlyBusiness) -> list[DataEntry]:
        found: list[DataEntry] = []
        after = None
        while page := business.page(KeyBounds(), after, _PAGE):
            found += page
            after = page[-1].key_class, page[-1].key
        return found

    def _finds(self, business: ReadOnlyBusiness, every: list[DataEntry]) -> list[DataEntry]:
        one = business.find(every[-1].key_class, every[-1].key) if every else None
        return [] if one is None else [one]


class _CurrentDisk:
    """The disk that is in the machine now."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.machine.memory, name)


class _Now:
    """The time of the simulation. To read it sets no clock of the simulation."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wall_ms(self) -> int:
        return START_MS + self._world.clock.skew_ms + int(self.elapsed() * 1000)

    def elapsed(self) -> float:
        return self._world.loop.now

    def random_bits(self, bits: int) -> int:
        raise AssertionError("a reader needs no number")
