"""Local logs of a node: opened, loaded if no other node has logs, and compared with the archived logs of this node."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

from archive.objects import Objects, open_objects
from archive.registry import owner, registered
from kvwal.cluster.map_names import to_map
from kvwal.cluster.membership import MembershipRecord
from kvwal.cluster.recovery_buffer import RecoveryBuffer, as_recovery_buffer
from kvwal.cluster.transactions import finish
from kvwal.entry import encode_entries
from kvwal.errors import ConfigError
from kvwal.node.adapters.destroyed_maps import delete
from kvwal.node.config import NodeOptions
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine

_AT_ONCE = 50_000


async def open_logs(engine: Engine) -> None:
    """Open every log of this node. If one cannot be opened the start fails: memory would be incomplete, or writes fail."""
    for name in engine.names():
        await engine.business(name)


async def load_own(engine: Engine, loader: Any, workers: Workers) -> int:
    """Load all entries of this node's logs, when no other node has any. Returns how many those were."""
    logger = get_logger(__name__)
    gc.freeze()  # JPype runs Python's GC with each GC of Java: keep it from scanning the entries that wait to be loaded
    loaded = 0
    for name in engine.names():
        business = await engine.business(name)
        state = as_recovery_buffer(business.state)
        if dropped := state.take_dropped():
            await delete(business, dropped[:-1], lambda entry: True)
        for intent, changes in state.take_unfinished():
            await finish(business, intent, changes)
        count = await workers.run(partial(load, loader, to_map(name), state))
        logger.info("loaded", map=to_map(name), entries=count)
        loaded += count
    return loaded


def load(loader: Any, name: str, state: RecoveryBuffer) -> int:
    """Load the entries of a recovered log into a map. Returns how many, when they are in memory."""
    count = 0
    for batch in state.hand_over(_AT_ONCE):
        loader.load(name, encode_entries(batch))
        count += len(batch)
    loader.drain()
    return count


def is_alone(options: NodeOptions, engine: Engine, record: MembershipRecord | None) -> bool:
    """Whether no other node ever had a log of this cluster. Asks the archive if this node has no membership record."""
    if options.members != [options.address]:
        return False
    if record is not None:
        return record.alone and record.members.keys() <= {options.node}
    url = engine.options.archive_url
    if url is None:
        return True
    objects = open_objects(url, engine.options.storage_options)
    return all(place.node == options.node for place in registered(objects, options.namespace, options.cluster))


def _log_id(engine: Engine, business: str) -> str | None:
    """The log id of this node's log of a business, which may be retired; None without a log."""
    if (here := engine.businesses.get(business)) is not None:
        return here.log.log_id
    end = engine.end_of(business)
    return None if end is None else end.log_id


def check_own(objects: Objects, engine: Engine) -> None:
    """`ConfigError` if the archive has a log of this node that is not here: its disk was lost, or is another one."""
    options = engine.options
    for place in registered(objects, options.namespace, options.cluster):
        if place.node != engine.node:
            continue
        there = owner(objects, place)
        if there is not None and _log_id(engine, place.business) != there.log_id:
            raise ConfigError(
                f"the archive {objects.url} has a log of {'/'.join(place)} that is not the one in {options.root}.",
                hint="If its disk was lost, bring it back with `kvwal restore --take-over`, or start under a new --node name"
                f" with --without {engine.node} at one of the members.",
            )
