"""A program is killed, or its disk fails once, the next one opens the log, and then the power is cut: what the next one found
in the page cache is no better than that. What it told must be there after every cut.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from kvwal.errors import CommitUnknown, KvwalError
from tests.support.disk.cuts import AcknowledgedWrites, Cuts, Found
from tests.support.disk.lives import Life
from tests.support.disk.power import CALLS, Cut, MemoryDisk

Script = list[Callable[[Life], None]]

PUTS: Script = [lambda life: life.put(a=1), lambda life: life.put(a=2, b="long " * 110), lambda life: life.put(a=None)]
ROTATES: Script = [lambda life: life.put(a=1), Life.rotate, lambda life: life.put(a=2), Life.rotate]
CHECKPOINTS: Script = [lambda life: life.put(a=1, b="x" * 40), Life.checkpoint, lambda life: life.put(a=None, c=1)] * 3
LEAST = 15
"""Of the calls of each script at which something happens to it: that is what the tests are for."""
LEAST_MOMENTS = 1000
SCRIPTS = {"puts": PUTS, "rotates": ROTATES, "checkpoints": CHECKPOINTS}


def live(disk: MemoryDisk, told: AcknowledgedWrites, script: Script) -> None:
    """A program that is told of every failure, and tries to go on."""
    life = Life(disk, told)
    with suppress(KvwalError):
        life.open()
        for step in script:
            with suppress(KvwalError):
                step(life)
            assert dict(life.b) == told.states[told.acknowledged]
    life.end()


def live_on(disk: MemoryDisk, told: AcknowledgedWrites, known: dict[int, Found]) -> Cuts:
    """The next program on that disk, as the one before left it, and every cut of it."""
    cuts = Cuts(told, known=known)
    cuts.watch(disk)
    life = Life(disk, told, number=2, cuts=cuts)
    life.open()
    life.put(d=1)
    life.checkpoint()
    life.close()
    cuts.check()
    return cuts


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_anywhere_then_cut_anywhere(script: str) -> None:
    known: dict[int, Found] = {}
    kills = moments = 0
    alive = False
    while not alive:
        disk, told = MemoryDisk(), AcknowledgedWrites()
        left = kills

        def watch(disk: MemoryDisk = disk) -> None:
            nonlocal left
            left -= 1
            disk.dead = left < 0

        disk.watch = watch
        live(disk, told, SCRIPTS[script])
        if disk.dead:
            disk.limits.held.clear()  # the operating system closes the files of a killed program
        alive, disk.dead = not disk.dead, False
        moments += live_on(disk, told, known).moments
        kills += 1
    assert kills > LEAST
    assert moments > LEAST_MOMENTS
    print(f"{kills - 1} kills, and {len(known):,} states of {moments:,} moments after them")


@pytest.mark.long
@pytest.mark.parametrize(("script", "name"), [*((script, "EIO") for script in SCRIPTS), ("checkpoints", "ENOSPC")])
def test_failed_anywhere_then_cut_anywhere(script: str, name: str) -> None:
    known: dict[int, Found] = {}
    failures = moments = 0
    for call in CALLS:
        nth = 0
        failed = 1
        while failed:
            nth += 1
            disk, told = MemoryDisk(), AcknowledgedWrites()
            disk.fail(call, nth, getattr(errno, name))
            live(disk, told, SCRIPTS[script])
            failed = disk.failed
            failures += failed
            if failed:
                moments += live_on(disk, told, known).moments
    assert failures > LEAST
    assert moments > LEAST_MOMENTS
    print(f"{failures} failed calls, and {len(known):,} states of {moments:,} moments after them")


@pytest.mark.long
@pytest.mark.parametrize("script", ["rotates", "checkpoints"])
def test_cut_anywhere_then_written_to_then_cut_anywhere(script: str) -> None:
    told, disk = AcknowledgedWrites(), MemoryDisk()
    first = Cuts(told)
    first.watch(disk)
    life = Life(disk, told, cuts=first)
    life.open()
    for step in SCRIPTS[script]:
        step(life)
    life.close()
    first.check()
    known = dict(first.known)
    moments = 0
    for key, possible in first.left.items():
        moments += live_on(MemoryDisk(possible.image), AcknowledgedWrites(known[key].values), known).moments
    assert len(first.left) > LEAST
    assert moments > LEAST_MOMENTS
    print(f"{len(first.left)} cuts, and {len(known):,} states of {moments:,} moments after them")


def unfinished() -> tuple[MemoryDisk, AcknowledgedWrites]:
    """A disk on which a program was killed in the middle of a group: all of it was there but its last sector."""
    disk, told = MemoryDisk(), AcknowledgedWrites()
    life = Life(disk, told)
    life.open()
    life.put(a=1)
    life.rotate()
    life.put(a=2)
    disk.fail("datasync")
    with pytest.raises(CommitUnknown):
        life.put(b="long " * 220)
    cut = Cut(disk)
    picks = [len(choice.versions) - 1 for choice in cut.choices]
    (last,) = [
        at for at, choice in enumerate(cut.choices) if choice.place == max(choice.place for choice in cut.choices)
    ]
    picks[last] = 0
    life.end()
    return MemoryDisk(cut.image(picks)), told


@pytest.mark.long
def test_the_recovery_fails_anywhere_then_cut_anywhere() -> None:
    known: dict[int, Found] = {}
    failures = moments = 0
    for call in CALLS:
        nth = 0
        failed = 1
        while failed:
            nth += 1
            disk, told = unfinished()
            disk.fail(call, nth)
            live(disk, told, [lambda life: life.put(c=1)])
            failed = disk.failed
            failures += failed
            if failed:
                moments += live_on(disk, told, known).moments
    assert {found.values["a"] for found in known.values()} == {2}
    assert failures > LEAST
    assert moments > LEAST_MOMENTS
    print(f"{failures} failed calls, and {len(known):,} states of {moments:,} moments after them")
