"""What runs on the machine and can be killed, and the clock it looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from kvwal.ports.descriptors import Descriptors
from tests.simulation.machine.disk import Machine, ProcessDisk
from tests.simulation.machine.loop import Dead, Job, current_job

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")
START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""Whose code is running."""


class Process:
    """Code that can be killed: the store, an archiver's child, an operator's command. `disk` is its way to the machine's,
    `descriptors` the file descriptors that it may have: logs of a process that was killed are nobody else's.

    `doing` says what it is about, for the trace and the counts. `ended` is set when it was killed. Before the time `stands_until`
    none of its calls of a disk or a bucket goes on: it stands still. With call number
    `last_call`, of its disk or of the bucket, it ends.
    """

    def __init__(self, world: World, name: str, doing: str, machine: Machine) -> None:
        self.world = world
        self.name = name
        self.doing = doing
        self.alive = True
        self.ended: asyncio.Event = asyncio.Event()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.jobs: dict[Job, None] = {}
        self.ledgers: dict[str, Any] = {}
        self.calls = 0
        self.stands_until = 0.0
        self.last_call = 0
        self.disk = ProcessDisk(machine, self)
        self.descriptors = Descriptors(lambda: 1 << 20, lambda: 0)

    def check_alive(self) -> None:
        if not self.alive:
            raise Dead

    def step(self, half_done: Callable[[], None] = lambda: None) -> None:
        """One call more; the last one ends the process: what it was about to do does not happen, or is half done."""
        self.check_alive()
        self.calls += 1
        if self.calls != self.last_call:
            return
        half_done()
        self.world.met(f"killed while {self.doing}")
        self.world.loop.call_soon(self.world.kill, self, "at a planned call")
        if current_job() is not None:
            self.world.loop.hub.switch()
        raise Dead

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return self.world.loop.create_task(work, context=context)

    def call(self, call: Callable[[], Any]) -> Job:
        """A blocking call of this process, from outside of it."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return self.world.start_job(call, context)


class SimulatedClock:
    """Wall time that jumps when the seed says so, elapsed time that does not, and numbers from the seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance("clock")
        self.skew_ms = 0
        self._reached = (START_MS, 0.0)

    @property
    def highest(self) -> int:
        """The greatest time that a clock may show now: one that has shown a time goes on from there."""
        reached, at = self._reached
        return reached + int((self._world.loop.now - at) * 1000) + 1

    def wall_ms(self) -> int:
        now = START_MS + self.skew_ms + int(self._world.loop.now * 1000)
        if now >= self.highest:
            self._reached = (now, self._world.loop.now)
        return now

    def elapsed(self) -> float:
        return self._world.loop.now

    def random_bits(self, bits: int) -> int:
        return self._chance.getrandbits(bits)
