"""A reader that takes so long that all it shows is replaced and cleaned away meanwhile, on a quiet day."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from kvwal import aio
from kvwal.store.open_business import OpenBusiness
from tests.simulation.history import Violation, short
from tests.simulation.ledger import Ledger
from tests.simulation.world import World


async def read_slowly(
    world: World, ledger: Ledger, store: aio.Store, business: OpenBusiness, clean: Callable[[], Awaitable[None]]
) -> None:
    """Replace all values of the business's own map while a scan shows them, one by one, and `clean` meanwhile.

    `Violation` if it shows others than were there at its beginning.
    """
    own = store.map(ledger.name)
    before = {key: value async for key, value in own.scan()}
    if not before:
        return
    found: dict[str, Any] = {}
    with patch("kvwal.store.aio.structure._AT_ONCE", 1):
        async for key, value in own.scan():
            if not found:
                await _replace_all(ledger, own, before)
                await asyncio.get_running_loop().run_in_executor(None, business.contents.files.seal)
                await clean()
            found[key] = value
    if found != before:
        raise Violation(f"a scan of {ledger.name} began with {short(before)}, and showed {short(found)}")
    world.met("values: a reader showed what was replaced and cleaned away")


async def _replace_all(ledger: Ledger, own: aio.Map, before: dict[str, Any]) -> None:
    for key in before:
        op = ledger.begin("put", key=key)
        value = op.writes[key] = ledger.large.wrote(f"v{op.number}-" + "z" * 3000)
        ledger.end(op, "done", await own.put(key, value))
