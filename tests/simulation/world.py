"""The machine of one seed: its time, its processes and what they may do, and the record of what happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.history import Violation, short
from tests.simulation.machine.bucket import Bucket
from tests.simulation.machine.disk import Machine
from tests.simulation.machine.garbage import Collector
from tests.simulation.machine.loop import Dead, Job, Loop, current_job, pause
from tests.simulation.machine.process import PROCESS, Process, SimulatedClock

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger


class Happened(NamedTuple):
    """A line of the trace."""

    seconds: float
    who: str
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.seconds:12.6f}  {self.who:<14} {self.what:<14} {self.detail}"


class World:
    """Made inside its loop's thread, used by one run. `events` counts what a simulation should have met."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = Loop()
        self.loop.start_job = self.start_job
        self.loop.begin_turn = Collector(self.chance("garbage")).perhaps_collect
        self.loop.set_task_factory(self._make_task)
        self.loop.set_exception_handler(self._unexpected)
        self.trace: list[Happened] = []
        self.events: Counter[str] = Counter()
        self.problems: list[str] = []
        self.processes: list[Process] = []
        self.clock = SimulatedClock(self)
        self.order = 0
        self._pace = self.chance("pace")
        self.giving_way = self._pace.choice([0.05, 0.3, 0.7])
        self.stalls = self._pace.choice([0.0, 0.0, 0.02])
        self.machine = Machine(self)
        self.bucket = Bucket(self)
        self.ledgers: dict[str, Ledger] = {}
        self.horizon: Callable[[Ledger], int] = lambda ledger: 0
        self.moves_values = False
        """Whether the background may log a large value of a map again, with its bytes in another file."""
        self.misread: set[str] = set()
        """The claim files of which a disk gave other bytes once."""
        self.rewrites = 0
        self.checkpoints = 0
        self._numbers = 0

    def chance(self, what: str) -> random.Random:
        """A stream of its own for each purpose: what one of them draws moves none of the others."""
        return random.Random(f"{self.seed}/{what}")

    def happened(self, what: str, detail: Any = "") -> None:
        """Put a line into the trace."""
        process = PROCESS.get()
        self.trace.append(Happened(self.loop.now, process.name if process else "-", what, str(detail)))

    def met(self, event: str) -> None:
        """Count something that a simulation should meet, and trace it."""
        self.events[event] += 1
        self.happened("EVENT", event)

    def tick(self) -> int:
        """The next place in the order of all events."""
        self.order += 1
        return self.order

    def next_number(self) -> int:
        """A number that no other call has."""
        self._numbers += 1
        return self._numbers

    def jump(self, milliseconds: int) -> None:
        """The wall clock is set."""
        self.clock.wall_ms()
        self.clock.skew_ms += milliseconds
        self.met("the clock was set back" if milliseconds < 0 else "the clock was set forward")
        for ledger in self.ledgers.values():
            ledger.clock_jumped()

    def start(self, name: str, doing: str, machine: Machine | None = None) -> Process:
        """A process of the machine, or of another one."""
        process = Process(self, name, doing, machine or self.machine)
        self.processes.append(process)
        self.happened("start", name)
        return process

    def start_job(self, call: Callable[[], Any], context: Context) -> Job:
        process = context[PROCESS]
        if process is None:
            raise Violation("a blocking call of nobody")
        job = Job(self.loop, call, context, self._delay())
        process.jobs[job] = None
        job.when_over(lambda: process.jobs.pop(job, None))
        if not process.alive:
            job.kill()
        return job

    def give_way(self, *, always: bool = False) -> None:
        """Perhaps let others go on first; on the loop itself, and in a library's thread, never."""
        process = PROCESS.get()
        if process is not None and process.stands_until > self.loop.now and current_job() is not None:
            pause(self.loop, process.stands_until - self.loop.now)
            process.check_alive()
        if current_job() is not None and (always or self._pace.random() < self.giving_way):
            pause(self.loop, self._delay())

    def _delay(self) -> float:
        if self._pace.random() < self.stalls:
            return self._pace.choice([0.5, 3.0, 20.0])
        return self._pace.choice([0.0, 0.0001, 0.001, 0.01])

    def kill(self, process: Process, why: str) -> None:
        """End a process where it stands. Its children go on, as children do."""
        if not process.alive:
            return
        process.alive = False
        self.happened("KILLED", f"{process.name} ({process.doing}): {why}")
        for job in list(process.jobs):
            job.kill()
        for task in list(process.tasks):
            task.cancel()
        process.disk.machine.release_locks(process)
        process.ended.set()

    def cut_power(self, chance: random.Random) -> None:
        """Every process ends, and the disk keeps what it must and any part of the rest. The bucket is elsewhere."""
        self.happened("POWER CUT")
        self.end_all("power cut")
        self.machine.cut_power(chance)

    def end_all(self, why: str) -> None:
        """End every process of the machine."""
        for process in list(self.processes):
            if process.disk.machine is self.machine:
                self.kill(process, why)

    def close(self) -> None:
        """End everybody, and let each come to its end."""
        for process in self.processes:
            self.kill(process, "the end")
        for _ in range(100):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _make_task(self, loop: Any, work: Any, **given: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **given)
        process = PROCESS.get() if "context" not in given else given["context"].get(PROCESS)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None))
            if not process.alive:
                task.cancel()
        return task

    def _unexpected(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Dead) or "never retrieved" in context["message"]:
            return
        self.problems.append(f"{context['message']}: {short(error)}")
