"""What a simulated store has instead of a machine: its options, its archiver's child, and a few names of libraries."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import structlog  # noqa: F401  # the first log line would load it within a seed, and that draws from `random`

from kvwal.archiver import work
from kvwal.archiver.jobs import ArchiverJob, Checkpoint, Compact, Failed, SeveralAnswers, decode_job, encode
from kvwal.archiver.work import answer
from kvwal.log.reader import log_files
from kvwal.ports.boundary import Settable
from kvwal.ports.disk import Disk
from kvwal.store.options import Options
from tests.simulation.history import Violation
from tests.simulation.machine import constants
from tests.simulation.machine.bucket import URL, Bucket
from tests.simulation.machine.disk import NODE, ROOT, ProcessDisk
from tests.simulation.machine.locks import Helper, Lock, no_thread
from tests.simulation.machine.loop import Loop, pause, wait_for
from tests.simulation.machine.process import PROCESS, Process
from tests.simulation.profile import Profile
from tests.simulation.world import World
from tests.support.invariants.owners import Ended
from tests.support.invariants.watch import watching


def options(
    process: Process, profile: Profile, *, archive: bool, accept_clock: bool = False, is_quiet: bool = False
) -> Options:
    """What `kvwal.aio.open` makes of its arguments, with the simulation's ports. `is_quiet`: its archiver is not killed."""
    world = process.world
    return Options(
        ROOT, namespace="default", cluster="local", node=NODE, archive=URL if archive else None, flush=profile.flush,
        storage_options=None, settings=profile.settings, accept_clock=accept_clock, progress=None,
        disk=process.disk, clock=world.clock, descriptors=process.descriptors,
        start_archiver=lambda: Child(process, dies=profile.kills_child and not is_quiet),
    )  # fmt: skip


class Child:
    """Stands for `kvwal.ports.tasks.Child`: a process of its own, which a kill of its parent leaves alive."""

    def __init__(self, parent: Process, *, dies: bool) -> None:
        """`dies`: now and then it is killed at some call of a job."""
        self._world = parent.world
        self._parent = parent
        self._dies = dies
        self._process = self._world.start(f"{parent.name}/archiver", "waiting", parent.disk.machine)
        self._chance = self._world.chance(f"{self._process.name} {len(self._world.processes)}")

    def ask(self, line: bytes) -> bytes:
        """Have a job done. `EOFError` if the child is dead."""
        process = self._process
        if not process.alive:
            raise EOFError("the archiver of the simulation is dead")
        wanted = decode_job(line)
        process.doing = type(wanted).__name__.lower()
        if self._dies and self._chance.random() < 0.2:
            process.last_call = process.calls + self._chance.randint(1, 40)
        job = process.call(lambda: self._do(wanted))
        wait_for(self._world.loop, job)
        process.doing = "waiting"
        if job.killed:
            raise EOFError("the archiver of the simulation was killed")
        answered: bytes = job.future.result()
        return answered

    def _do(self, job: ArchiverJob) -> bytes:
        self._world.happened("job", type(job).__name__)
        self._world.rewrites += isinstance(job, Compact)
        self._world.checkpoints += isinstance(job, Checkpoint)
        done = answer(job, self._process.disk, self._world.clock)
        self._world.happened("job done", done)
        self._world.met(f"job: {type(job).__name__} -> {type(done).__name__}")
        if isinstance(job, Checkpoint) and any(
            file.first > 1 for file in log_files(self._process.disk, Path(job.folder))[1]
        ):
            self._world.met("a snapshot had deltas")
        for each in done.answers if isinstance(done, SeveralAnswers) else [done]:
            if (
                isinstance(each, Failed)
                and each.error in ("CorruptLog", "ArchiveDamaged", "ArchiveGap")
                and self._parent.alive
            ):
                self._world.problems.append(f"{type(job).__name__}: {each.error}: {each.what}")
        return encode(done)

    def close(self) -> None:
        """Let it finish, and end it."""
        for job in list(self._process.jobs):
            wait_for(self._world.loop, job)
        self._process.alive = False


class Pool:
    """Stands for the threads behind `kvwal.ports.tasks.ThreadWorkers`: calls take turns on the loop's own thread."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._waiting: deque[tuple[Callable[[], Any], Context, Settable[Any]]] = deque()
        self._running = 0

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have it called when one of `most` is free."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.start(call, future)
        return future

    def start(self, call: Callable[[], Any], outcome: Settable[Any]) -> None:
        """As `submit`, with an outcome of the caller's own."""
        self._waiting.append((call, copy_context(), outcome))
        self._begin()

    def _begin(self) -> None:
        if not self._waiting or self._running == self._most:
            return
        call, context, outcome = self._waiting.popleft()
        self._running += 1
        loop = cast("Loop", asyncio.get_running_loop())
        loop.start_job(call, context).future.add_done_callback(partial(self._done, outcome))

    def _done(self, outcome: Settable[Any], answer: asyncio.Future[Any]) -> None:
        self._running -= 1
        if answer.cancelled():
            outcome.set_exception(asyncio.CancelledError("its process was killed"))
        elif (error := answer.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(answer.result())
        self._begin()

    def close(self) -> None:
        """Where threads would be waited for, none may have anything left to do: nothing else would go on meanwhile."""
        if self._running or self._waiting:
            raise Violation(
                f"{self._name} was closed over {self._running} calls that run, {len(self._waiting)} that wait"
            )


@contextmanager
def in_place(world: World) -> Iterator[None]:
    """For as long as a seed runs: retries wait in simulated time, logs go into the trace, snapshots, which are small, have
    deltas as if they were large, and the seed shrinks other constants.
    """
    shrunk = constants.draw(world.chance("constants"))
    world.happened("constants", shrunk)
    if shrunk:
        world.met("constants were shrunk")
    heard, own = _Heard(world), logging.getLogger("kvwal")
    before = own.level, own.propagate
    state = random.getstate()
    own.addHandler(heard)
    own.setLevel(logging.DEBUG)
    own.propagate = False
    Bucket.running = world.bucket
    random.seed(world.seed)  # a library that retries draws from it how long it waits
    try:
        with (
            patch("tenacity.nap.time", _Nap(world)),
            patch("kvwal.ports.tasks._Pool", Pool),
            patch("kvwal.ports.tasks.Helper", Helper),
            patch("kvwal.content.digest.Helper", no_thread),
            patch("kvwal.content.shared.Lock", Lock),
            patch("kvwal.content.pending.Lock", Lock),
            patch("kvwal.content.pending.signals_arrive_here", _draws(world)),
            patch("kvwal.log.checkpoint.FILE_BYTES", 0),
            # What an archiver knows of a bucket is of this seed's bucket.
            patch("kvwal.archiver.work._opened", lru_cache(maxsize=8)(work._opened.__wrapped__)),
            patch.dict("kvwal.archiver.work._looked", clear=True),
            constants.shrunk(shrunk),
            watching(lambda law, how: world.problems.append(f"{law}: {how}"), _seen, Ended.BESIDE_ORPHANS),
        ):
            yield
    finally:
        random.setstate(state)
        Bucket.running = None
        own.removeHandler(heard)
        own.setLevel(before[0])
        own.propagate = before[1]


def _draws(world: World) -> Callable[[], bool]:
    """Whether a thread is one that may write no group, as the one with signal handlers."""
    chance = world.chance("threads with signals")
    return lambda: chance.random() < 0.2


def _seen(disk: Disk) -> Disk | None:
    """The disk of the machine: a look at it is no step of a process."""
    return disk.machine.memory if isinstance(disk, ProcessDisk) else None


class _Heard(logging.Handler):
    """What kvwal logs goes into the trace."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.happened("log", sorted(getattr(record, "kvwal", {"event": record.getMessage()}).items()))


class _Nap:
    """Stands for `time` where tenacity sleeps."""

    def __init__(self, world: World) -> None:
        self._world = world

    def sleep(self, seconds: float) -> None:
        process = PROCESS.get()
        self._world.met("a request was tried again")
        pause(self._world.loop, seconds)
        if process is not None:
            process.check_alive()
