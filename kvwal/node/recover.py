"""From the logs back into memory, when a node starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from kvwal.config import Flush
from kvwal.engine import Engine
from kvwal.entry import encode_entries
from kvwal.node.maps import to_map
from kvwal.node.memory import Passing
from kvwal.ports.tasks import Workers

_AT_ONCE = 10_000


async def recover(engine: Engine, loader: Any, flush: Callable[[str], Flush], workers: Workers) -> int:
    """Open every log of this node and load what it holds; how many entries that were.

    Every log is opened before anything is loaded: one that cannot be opened must not leave half a memory.
    """
    logger = structlog.get_logger("kvwal")
    names = {name: to_map(name) for name in engine.names()}
    for name, of_map in names.items():
        await engine.business(name, flush(of_map))
    loaded = 0
    for name, of_map in names.items():
        state = (await engine.business(name)).state
        if isinstance(state, Passing):
            count = await workers.run(lambda state=state, of_map=of_map: load(loader, of_map, state))  # type: ignore[misc]
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
