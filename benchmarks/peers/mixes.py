"""The operations of YCSB's mixes on an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

from benchmarks.peers.distributions import Zipfian
from benchmarks.peers.engines.base import Engine
from benchmarks.peers.workloads import YCSB, YCSB_MAX_SCAN, Mix

BATCH = 1_000


def named(name: str) -> Mix:
    """The mix of a name."""
    return next(mix for mix in YCSB if mix.name == name)


def key_name(number: int) -> str:
    """The key of a record. Keys sort as their numbers, as YCSB's do under insertorder=ordered."""
    return f"user{number:012d}"


class Mixer:
    """One mix on one engine. Each thread draws from its own seed, so that a run can be repeated."""

    def __init__(self, engine: Engine, mix: str, records: int, value: Callable[[int], bytes]) -> None:
        self._engine = engine
        self._mix = named(mix)
        self._records = records
        self._value = value
        self._newest = records - 1
        self._insert = threading.Lock()
        self._local = threading.local()
        self._operations, self._weights = zip(*self._mix.parts.items(), strict=True)
        self._zipfian = Zipfian(records)

    def load(self) -> None:
        """Put all records."""
        for first in range(0, self._records, BATCH):
            numbers = range(first, min(self._records, first + BATCH))
            self._engine.put({key_name(number): self._value(number) for number in numbers})

    def operation(self, producer: int, turn: int) -> int:
        """The next operation of a thread."""
        chance = self._chance(producer)
        (name,) = chance.choices(self._operations, self._weights)
        getattr(self, name)(chance, turn)
        return 1

    def _chance(self, producer: int) -> Random:
        chance: Random | None = getattr(self._local, "chance", None)
        if chance is None:
            chance = self._local.chance = Random(producer)
        return chance

    def _key(self, chance: Random) -> str:
        if self._mix.keys == "latest":
            return key_name(self._zipfian.latest(self._newest, chance))
        return key_name(self._zipfian.scrambled(chance))

    def read(self, chance: Random, turn: int) -> None:
        """Read a record, which must be there."""
        key = self._key(chance)
        if self._engine.get(key) is None:
            raise AssertionError(f"{key} is gone")

    def update(self, chance: Random, turn: int) -> None:
        """Replace a record."""
        self._engine.put({self._key(chance): self._value(turn)})

    def insert(self, chance: Random, turn: int) -> None:
        """Put a new record. It counts as the newest once it is there: readers never ask before."""
        with self._insert:
            number = self._newest + 1
            self._engine.put({key_name(number): self._value(number)})
            self._newest = number

    def scan(self, chance: Random, turn: int) -> None:
        """Read one to a hundred records in order."""
        self._engine.scan(self._key(chance), chance.randint(1, YCSB_MAX_SCAN))

    def read_modify_write(self, chance: Random, turn: int) -> None:
        """Read a record, and replace it."""
        key = self._key(chance)
        self._engine.get(key)
        self._engine.put({key: self._value(turn)})
