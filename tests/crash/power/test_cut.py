"""A power cut at any step, of the writer, of a checkpoint, and of the recovery after an earlier one, on a disk that forgets
what was not synced: what was acknowledged is there (under `sync`; else what was there at some earlier moment), transactions
are whole, and no crash is taken for damage.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

import kvwal
from kvwal.config import Flush
from kvwal.ports.clock import SYSTEM
from kvwal.store.sync import WritableStore
from tests.support.chance import new_seed
from tests.support.disk.cuts import ROOT, Model, recovered
from tests.support.disk.durability import Image
from tests.support.disk.faults import make_options
from tests.support.disk.lives import OnDisk
from tests.support.disk.power import MemoryDisk

SETTINGS = kvwal.Settings(segment_bytes=64 << 10)
OVERFLOWING = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=400)
"""Most of what is written has files of its own."""
STEPS = 60
CUT_CHANCE = 0.5


class Cut(NamedTuple):
    """What a power cut left, and which of the states so far may be found: the acknowledged one, and with what is under way."""

    image: Image
    states: list[Model]


class Run:
    """A store on a disk that forgets, its dict, and power cuts at moments drawn by chance."""

    def __init__(self, seed: int, flush: Flush) -> None:
        self.flush = flush
        self.settings = OVERFLOWING if seed % 2 else SETTINGS
        self.chance = random.Random(seed)
        self.cutting = random.Random(seed + 1)
        self.disk = MemoryDisk()
        self.disk.watch = self.maybe_cut
        self.states: list[Model] = [{}]
        self.acknowledged = 0
        self.cuts: list[Cut] = []

    def maybe_cut(self) -> None:
        if self.cutting.random() < CUT_CHANCE:
            first = self.acknowledged if self.flush == "sync" else 0
            self.cuts.append(Cut(self.disk.power_cut(self.cutting), self.states[first:]))

    def open(self) -> None:
        given = {"flush": self.flush, "start_archiver": lambda: OnDisk(self.disk, SYSTEM)}
        self.store = WritableStore(make_options(ROOT, settings=self.settings, disk=self.disk, **given))
        self.b = self.store.map("b")
        assert self.store.stats()["businesses"]["b"]["torn"] is None, "it was closed"
        assert dict(self.b) == self.states[-1]

    def step(self) -> None:
        """One operation, of which a cut may see all or nothing."""
        chance = self.chance
        kind = chance.choices(["put", "many", "delete", "checkpoint", "reopen"], [8, 4, 3, 1, 1])[0]
        if kind == "checkpoint":
            self.store.checkpoint()
        elif kind == "reopen":
            self.store.close()
            self.open()
        else:
            self.change(kind, f"key-{chance.randrange(20)}", chance.randbytes(chance.choice([3, 600, 9000])))

    def change(self, kind: str, key: str, value: bytes) -> None:
        together = {f"all-{part}": value[:40] for part in range(4)}
        state = dict(self.states[-1])
        if kind == "delete":
            state.pop(key, None)
        else:
            state |= together if kind == "many" else {key: value}
        self.states.append(state)
        if kind == "delete":
            self.b.delete(key)
        elif kind == "many":
            self.b.put_many(together)
        else:
            self.b.put(key, value)
        self.acknowledged = len(self.states) - 1


@pytest.mark.parametrize("flush", ["sync", "os", kvwal.Interval(ms=3_600_000, bytes=20_000)], ids=str)
@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long) for turn in (1, 2, 3))])
def test_a_power_cut_at_any_step(turn: int, flush: Flush) -> None:
    seed = new_seed() + turn
    run = Run(seed, flush)
    run.open()
    for _ in range(STEPS):
        run.step()
    run.store.close()
    assert len(run.cuts) > STEPS / 3
    for number, cut in enumerate(run.cuts):
        check(cut, seed, number)


def check(cut: Cut, seed: int, number: int) -> None:
    """Recovery after the cut, after a second cut at any step of that recovery, and once more."""
    disk, again = MemoryDisk(cut.image), []
    chance = random.Random(seed + number)
    disk.watch = lambda: again.append(disk.power_cut(chance))
    found = recovered(disk)
    assert found.values in cut.states, (number, cut.image)
    assert not found.log.set_aside, (number, "it was taken for damage", cut.image)
    assert recovered(disk).values == found.values
    for image in again:
        assert recovered(MemoryDisk(image)).values == found.values, (number, "cut again")
