"""When Python's garbage collector runs: at the moments that a seed chooses, and at no others.

What is in a cycle, as an error that a task holds with all frames of its traceback, is dropped when the collector finds it, and
a finalizer may change what a store does next: a hold on claim files ends, and with it the wait of a cleaning. By itself the
collector runs when a number of objects are new. All that the process did before decides when that is.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager

_RATES = (0.0, 0.003, 0.03)
"""How often a turn of the loop begins with a collection. In a process with few new objects there is none for hours."""


class Collector:
    """The collections of one seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._rate = chance.choice(_RATES)

    def perhaps_collect(self) -> None:
        """Collect, if the seed says so. To be called on the loop itself: a finalizer there gives way to nobody."""
        if self._chance.random() < self._rate:
            gc.collect()


@contextmanager
def collected_by_seeds() -> Iterator[None]:
    """No collection in the block but those of a `Collector`, and one of what the block has left at its end.

    They leave out all that is older than the block. So they are quick, and find nothing that another seed has left.
    """
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if collects:
            gc.enable()
