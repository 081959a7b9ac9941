"""A power cut at any step, of the writer, of a checkpoint, and of the recovery after an earlier one, on a disk that forgets
what was not synced: what was acknowledged is there (under `sync`; else what was there at some earlier moment), transactions
are whole, and no crash is taken for damage.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvwal
from archive.layout import Place
from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.codecs import registry
from kvwal.config import Flush
from kvwal.entry import Entry
from kvwal.log.names import log_folder
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import Target, recover
from kvwal.ports.clock import SYSTEM
from kvwal.store import WritableStore
from tests.support.faults import make_options
from tests.support.power import MemoryDisk

ROOT = Path("/disk")
FOLDER = log_folder(ROOT, Place("default", "local", "b", "local"))
SETTINGS = kvwal.Settings(segment_bytes=64 << 10)
STEPS = 60
CUT_CHANCE = 0.5
Model = dict[Any, Any]


class Cut(NamedTuple):
    """What a power cut left, and which of the states so far may be found: the acknowledged one, and with what is under way."""

    files: dict[Path, bytes]
    states: list[Model]


class Run:
    """A store on a disk that forgets, its dict, and power cuts at moments drawn by chance."""

    def __init__(self, seed: int, flush: Flush) -> None:
        self.flush = flush
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
        self.store = WritableStore(make_options(ROOT, settings=SETTINGS, disk=self.disk, flush=self.flush))
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


class OnDisk:
    """The archiver without its process, on another disk than the machine's."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def ask(self, line: bytes) -> bytes:
        return encode(answer(decode_job(line), self._disk, SYSTEM))

    def close(self) -> None:
        """Nothing to end."""


def recovered(disk: MemoryDisk) -> Model:
    latest: dict[bytes, Entry] = {}

    def apply(entries: list[Entry]) -> None:
        latest.update({entry.key: entry for entry in entries})

    recover(disk, FOLDER, Target(apply, latest.clear), entry_decoder())
    return {
        key.decode(): registry.decode(entry.value, entry.value_class)
        for key, entry in latest.items()
        if not entry.deleted
    }


@pytest.mark.parametrize("flush", ["sync", "os", kvwal.Interval(ms=3_600_000, bytes=20_000)], ids=str)
@pytest.mark.parametrize("turn", range(4))
def test_a_power_cut_at_any_step(turn: int, flush: Flush, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    run = Run(seed, flush)
    monkeypatch.setattr("kvwal.archiver.remote.Child", lambda module: OnDisk(run.disk))
    run.open()
    for _ in range(STEPS):
        run.step()
    run.store.close()
    assert len(run.cuts) > STEPS / 3
    for number, cut in enumerate(run.cuts):
        check(cut, seed, number)


def check(cut: Cut, seed: int, number: int) -> None:
    """Recovery after the cut, after a second cut at any step of that recovery, and once more."""
    disk, again = MemoryDisk(cut.files), []
    chance = random.Random(seed + number)
    disk.watch = lambda: again.append(disk.power_cut(chance))
    found = recovered(disk)
    assert found in cut.states, (number, sorted(map(str, cut.files)))
    assert recovered(disk) == found
    for files in again:
        assert recovered(MemoryDisk(files)) == found, (number, "cut again")
