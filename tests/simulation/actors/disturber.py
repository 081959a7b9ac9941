"""What befalls a store while it serves: maintenance by hand, a clock that is set, disks and buckets that fail, operators."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from kvwal import aio
from kvwal.errors import ArchiveDamaged, ArchiveGap, CorruptLog, KvwalError
from tests.simulation.actors.operator import Operator
from tests.simulation.machine.disk import CHANGES, ROOMY

if TYPE_CHECKING:
    from tests.simulation.scenario import Life

DAMAGE = (CorruptLog, ArchiveDamaged, ArchiveGap)
"""What nothing that a simulation does excuses: it damages no byte that was durable, and removes no object."""
_JUMPS_MS = (-3_600_000, -15_000, -2000, -1, 500, 5000, 15_000, 60_000)
_STOPS_SECONDS = (15.0, 61.0, 400.0, 8000.0)
_READS = ("view", "read", "names", "open", "read_at")


class Disturber:
    """One task beside the clients of a store. It ends when it is cancelled."""

    def __init__(self, life: Life, store: aio.Store) -> None:
        self.life = life
        self.world = life.world
        self.profile = life.profile
        self.process = life.process
        self.store = store
        self.chance = self.world.chance(f"disturber {life.number}")
        self.count = 0

    async def run(self) -> None:
        deeds = self._deeds()
        while True:
            await asyncio.sleep(self.chance.choice((0.005, 0.05, 0.5, 2.0)))
            await self.chance.choice(deeds)()
            self.life.scenario.reader.look()

    def _deeds(self) -> list[Callable[[], Awaitable[None]]]:
        profile = self.profile
        wanted: list[tuple[bool, Callable[[], Awaitable[None]]]] = [
            (True, self.checkpoint),
            (profile.archive, self.archive),
            (profile.clock_jumps, self.jump),
            (profile.disk_faults, self.fail_a_call),
            (profile.disk_faults and profile.inline_bytes is not None, self.misread),
            (profile.full_disk, self.fill),
            (profile.full_disk, self.free),
            (profile.archive and profile.trouble > 0, self.bucket_goes_or_comes),
            (profile.kills_child, self.kill_child),
            (profile.stops, self.stop),
            (profile.operators, self.rewrite),
            (profile.restores, self.restore),
        ]
        return [deed for chosen, deed in wanted if chosen]

    async def checkpoint(self) -> None:
        await self._by_the_store("checkpoint", self.store.checkpoint())

    async def archive(self) -> None:
        await self._by_the_store("archive", self.store.archive())

    async def _by_the_store(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        before = {name: ledger.last_place for name, ledger in self.world.ledgers.items()}
        task = self.process.start(work)
        await asyncio.wait({task})
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.world.met(f"by hand: {what}")
            for name, ledger in self.world.ledgers.items():
                ledger.is_durable_up_to(before[name])
        elif isinstance(error, DAMAGE) or not isinstance(error, KvwalError | OSError):
            raise error
        else:
            self.world.happened(f"{what} failed", error)

    async def jump(self) -> None:
        self.world.jump(self.chance.choice(_JUMPS_MS))

    async def fail_a_call(self) -> None:
        """One of the next calls of the store, or of its archiver, fails."""
        victims = [p for p in self.world.processes if p.alive and p.name.startswith(self.process.name)]
        call = self.chance.choice((*CHANGES, "write_at", "datasync", self.chance.choice(_READS)))
        full = call in ("create", "allocate", "write_at") and self.chance.random() < 0.4
        nth = self.chance.choice((1, 1, 2, 5, 15))
        self.chance.choice(victims).disk.fail_soon(call, nth, errno.ENOSPC if full else errno.EIO)

    async def misread(self) -> None:
        """One of the next reads of a claim file gives other bytes. They are right in the file."""
        self.process.disk.misread_soon(self.chance.choice((1, 2, 5)))

    async def fill(self) -> None:
        self.world.machine.capacity = self.world.machine.used + self.chance.choice((0, 5000, 30_000, 100_000, 400_000))
        self.world.happened("fill", self.world.machine.capacity)

    async def free(self) -> None:
        self.world.machine.capacity = ROOMY
        self.world.happened("free")

    async def bucket_goes_or_comes(self) -> None:
        bucket = self.world.bucket
        bucket.away = not bucket.away
        self.world.met("bucket: away" if bucket.away else "bucket: back")

    async def kill_child(self) -> None:
        for process in self.world.processes:
            if process.alive and process.name == f"{self.process.name}/archiver":
                self.world.met(f"the archiver was killed: {process.doing}")
                self.world.kill(process, "alone")

    async def stop(self) -> None:
        """An archiver or an operator's command stands still, as by SIGSTOP, for longer than a lease, a grace period or a timeout.

        Its calls wait. The store itself runs on the loop that all processes share, so it cannot be stopped as a whole.
        """
        victims = [process for process in self.world.processes if process.alive and process is not self.process]
        if not victims:
            return
        victim = self.chance.choice(victims)
        victim.stands_until = self.world.loop.now + self.chance.choice(_STOPS_SECONDS)
        self.world.met("a process stood still")
        self.world.happened("stop", f"{victim.name} until {victim.stands_until}")

    async def rewrite(self) -> None:
        await self._operator().rewrite()

    async def restore(self) -> None:
        await self._operator().restore_elsewhere()

    def _operator(self) -> Operator:
        self.count += 1
        return Operator(self.world, self.profile, f"operator-{self.life.number}.{self.count}")
