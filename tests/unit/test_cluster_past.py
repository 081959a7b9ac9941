"""A question of the past while the archive cannot be brought up to date: it is refused, and says by whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kvwal.cluster.gathering import Status
from kvwal.cluster.questions import Question, encode
from kvwal.cluster.record import OwnRecord
from kvwal.node.past import Answering
from kvwal.node.recover import Recovery
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers

WITHIN = 0.01


class Asked:
    """Stands for java/Questions.java with one question in it, which stays open until that has its answer."""

    def __init__(self) -> None:
        self.told = ""
        self._given = False
        self._done = threading.Event()

    def take(self) -> Any:
        if self._given:
            self._done.wait()
            return None
        self._given = True
        return self

    def text(self) -> bytes:
        return encode(Question("jobs", "str", b"job-1"))

    def answer(self, found: bytes) -> None:
        self.refuse(f"an answer of {len(found)} bytes")

    def refuse(self, text: str) -> None:
        self.told = self.told or text
        self._done.set()


def told(archive: Callable[[], Awaitable[None]], *, alone: bool) -> str:
    """What whoever asks node-1 is told, when its logs are archived by `archive`, and node-2 has told nothing of itself."""

    async def run() -> str:
        workers, asked = ThreadWorkers("test"), Asked()
        options: Any = SimpleNamespace(node="node-1")
        engine: Any = SimpleNamespace(
            node="node-1", businesses={}, archive=archive, options=SimpleNamespace(clock=SYSTEM, archive_url="there")
        )
        before_it_asks = iter([[]])
        done = [Status(member="1", name="node-1", address="", answered={"node-1": 1 << 60})]
        roster: Any = SimpleNamespace(statuses=lambda: next(before_it_asks, done), names=lambda: {"node-1", "node-2"})
        file: Any = SimpleNamespace(read=lambda: None)
        nothing: Any = None
        record = OwnRecord(file, workers, "node-1", "", alone=alone)
        recovery = Recovery(options, engine, roster, nothing, nothing, workers, record, nothing)
        await Answering(asked, engine, recovery, workers, ThreadWorkers("takers", 1), within=WITHIN).run()
        return asked.told

    return asyncio.run(run())


async def archived() -> None:
    """At once."""


def test_a_member_that_does_not_archive_is_named_to_whoever_asks() -> None:
    said = told(archived, alone=False)
    assert said.startswith(f"ArchiveError: node-2 did not bring the archive up to date within {WITHIN:g} s")
    assert "/readyz" in said


def test_a_node_alone_whose_archive_does_not_answer_says_so() -> None:
    """Its archiver is at work until the archive's own time is up, and nobody can take that back."""
    held = threading.Event()
    workers = ThreadWorkers("archiver", 1)

    async def archive() -> None:
        await workers.run(lambda: held.wait() and None)

    try:
        said = told(archive, alone=True)
    finally:
        held.set()
    assert said.startswith(f"ArchiveError: node-1 did not bring the archive up to date within {WITHIN:g} s")
