"""The pace of a serving member's work: an idle one waits for news."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kvwal.errors import NotRecovered
from kvwal.node import serving
from kvwal.node.lifecycle import Phase
from kvwal.node.serving import ServingLoop

LOOKS = 50


class Others:
    """The other members: nobody goes and nobody says anything. After some looks at them the node ends."""

    def __init__(self, looks: int) -> None:
        self.is_archiving = False
        self.looks = 0
        self.more = asyncio.Event()
        self._most = looks

    async def keep_up(self) -> None:
        self.looks += 1
        if self.looks > self._most:
            await self.more.wait()
            raise NotRecovered("the test is over", hint="")
        await asyncio.sleep(0)


class Adoption:
    """Counts the looks for what there is to adopt. The last one ends the test."""

    def __init__(self, partitions: int, others: Others, last: int | None = None) -> None:
        self.partitions = partitions
        self.steps = 0
        self._others = others
        self._last = last

    async def step(self) -> None:
        self.steps += 1
        if self.steps == self._last:
            self._others.more.set()


def loop_of(others: Others, adoption: Adoption) -> ServingLoop:
    parts: Any = SimpleNamespace(
        instance=None, serving=others, adoption=adoption, statuses=SimpleNamespace(failing=False),
        clock_bounds=SimpleNamespace(is_off=lambda: False),
    )  # fmt: skip
    options: Any = SimpleNamespace(node="n")
    nothing: Any = SimpleNamespace(failed=dict, full=dict, elapsed=lambda: 0.0, lost=lambda: None, phase=Phase.SERVING)
    return ServingLoop(options, parts, nothing, nothing, nothing, nothing, nothing)


async def serve(looks: int, partitions: int, last: int | None) -> tuple[int, int]:
    """The looks at the others, and at what there is to adopt, until the node ends."""
    others = Others(looks)
    if last is None:
        others.more.set()
    adoption = Adoption(partitions, others, last)
    loop = loop_of(others, adoption)
    adopting = asyncio.create_task(loop.adopt())
    with pytest.raises(NotRecovered):
        await loop.run()
    adopting.cancel()
    return others.looks, adoption.steps


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "QUIET_SECONDS", "_ADOPT_SECONDS"):
        monkeypatch.setattr(serving, name, 0.0)
    watch = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(serving.jvm, "java", lambda name: lambda *given: watch)


def test_while_nothing_is_left_to_adopt_a_member_tries_after_each_look_at_the_others() -> None:
    looks, steps = asyncio.run(serve(LOOKS, 0, None))
    assert looks == LOOKS + 1
    assert 2 <= steps <= looks


def test_partitions_that_are_left_are_adopted_while_the_others_do_not_answer() -> None:
    assert asyncio.run(serve(1, 3, 20))[1] >= 20
