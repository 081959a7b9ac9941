"""From the logs back into memory, when a node starts."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from kvwal.config import Flush
from kvwal.engine import Engine
from kvwal.entry import encode_entries
from kvwal.node.drop import delete
from kvwal.node.maps import to_map
from kvwal.node.memory import Passing, passing
from kvwal.ports.tasks import Workers

_AT_ONCE = 50_000


async def recover(engine: Engine, loader: Any, flush: Callable[[str], Flush], workers: Workers) -> int:
    """Open every log of this node and load what it holds; how many entries that were.

    Every log is opened before anything is loaded: one that cannot be opened must not leave half a memory.
    """
    logger = structlog.get_logger("kvwal")
    names = {name: to_map(name) for name in engine.names()}
    for name, of_map in names.items():
        await engine.business(name, flush(of_map))
    gc.freeze()  # JPype collects Python's garbage whenever Java's is: it need not look through what is only waiting to be loaded
    loaded = 0
    for name, of_map in names.items():
        business = await engine.business(name)
        state = passing(business.state)
        if dropped := state.dropped():
            await delete(business, dropped[:-1], lambda entry: True)
        count = await workers.run(partial(load, loader, of_map, state))
        logger.info("loaded", map=of_map, entries=count)
        loaded += count
    return loaded


def load(loader: Any, name: str, state: Passing) -> int:
    """Put what a log held into a map; returns when it is there."""
    count = 0
    for batch in state.hand_over(_AT_ONCE):
        loader.load(name, encode_entries(batch))
        count += len(batch)
    loader.drain()
    return count
