"""A seed decides when garbage is collected, and so when finalizers run. What its process did before decides nothing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.simulation.machine.garbage import collected_by_seeds
from tests.simulation.run import run_seed
from tests.simulation.world import World

_COLLECTS = 1
"""A seed that collects now and then."""
_AFTER = (0, 20, 700)
"""New objects after which Python collects by itself; 0: never."""


class _Dropped:
    """In a cycle: only the collector finds that nobody has it."""

    def __init__(self, found: Callable[[], None]) -> None:
        self._itself = self
        self._found = found

    def __del__(self) -> None:
        self._found()


def test_garbage_is_found_when_the_seed_says() -> None:
    found = [_found_at(after) for after in _AFTER]
    assert 1 < len(set(found[0])) < len(found[0])
    assert found == [found[0]] * len(_AFTER)


@pytest.mark.parametrize("seed", [3, 20_065])
def test_a_seed_is_the_same_however_often_python_collects(seed: int) -> None:
    """In both, its collections once decided how long the claim files were kept: the traceback of an error had a hold on them."""
    traces = []
    for after in _AFTER:
        with _collects_after(after):
            traces.append([str(line) for line in run_seed(seed).trace])
    assert traces == [traces[0]] * len(_AFTER)


def _found_at(after: int) -> list[float]:
    """When what was dropped in a run was found."""
    found: list[float] = []
    with _collects_after(after), collected_by_seeds():
        world = World(_COLLECTS)

        async def drops() -> None:
            for _ in range(300):
                _Dropped(lambda: found.append(world.loop.now))
                await asyncio.sleep(0.01)

        world.loop.run_until_complete(drops())
        world.close()
        return found.copy()


@contextmanager
def _collects_after(objects: int) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(objects, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
