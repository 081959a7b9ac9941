"""Local logs of a node: opened, loaded if no other node has logs, compared with the archived logs of this node, taken over from
them."""

from __future__ import annotations

import gc
import shlex
from functools import partial
from typing import Any

from kvwal.cluster.map_names import to_map
from kvwal.cluster.membership import LocalMembership, MembershipRecord
from kvwal.cluster.recovery_buffer import RecoveryBuffer, as_recovery_buffer
from kvwal.cluster.transactions import finish
from kvwal.entry import TIMESTAMP_SHIFT, encode_entries
from kvwal.errors import ConfigError
from kvwal.history.restore.restore import RestorePorts, restore_through
from kvwal.node.adapters.destroyed_maps import delete
from kvwal.node.config import NodeOptions
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import note_lost_tail
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import covered, live_objects
from kvwal_archive.registry import owner, registered

_AT_ONCE = 50_000
_EARLY_MS = 10_000
_MEASURED_TO = 1.05
"""The wait of a log's oldest entry is known to about 1 %, and a second: see `ArchiveLag`."""


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
        state = as_recovery_buffer(business.memory)
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
    for batch in state.hand_over(_AT_ONCE, int(loader.batchBytes())):
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


def has_new_root(engine: Engine, record: LocalMembership) -> bool:
    """Whether this node never served with its root: there is no log of it, and it is on no record there."""
    return not record.was_there and not engine.names()


def _log_id(engine: Engine, business: str) -> str | None:
    """The log id of this node's log of a business, which may be retired; None without a log."""
    if (here := engine.businesses.get(business)) is not None:
        return here.log.log_id
    end = engine.end_of(business)
    return None if end is None else end.log_id


def find_lost_log(objects: Objects, engine: Engine) -> Place | None:
    """A log of this node in the archive that is not here, because its disk was lost or is another one. None if there is none."""
    options = engine.options
    for place in registered(objects, options.namespace, options.cluster):
        if place.node != engine.node:
            continue
        there = owner(objects, place)
        if there is not None and _log_id(engine, place.business) != there.log_id:
            return place
    return None


def check_own(objects: Objects, engine: Engine) -> None:
    """`ConfigError` if the archive has a log of this node that is not here."""
    lost = find_lost_log(objects, engine)
    if lost is not None:
        root = engine.options.root
        words = shlex.join([objects.url, str(root)])
        names = f"--namespace {lost.namespace} --cluster {lost.cluster} --node {lost.node}"
        raise ConfigError(
            f"the archive {objects.url} has a log of {'/'.join(lost)} that is not the one in {root}.",
            hint=f"If its disk was lost, empty {root} and run `kvwal restore {words} {names} --take-over`, or start"
            f" one of the other members with --without {engine.node}. If its disk is there, mount it at {root}.",
        )


def note_lost_tails(
    objects: Objects,
    namespace: str,
    cluster: str,
    node: str,
    *,
    archived: int = 0,
    before: int | None = None,
    again: bool = False,
) -> None:
    """Put the tails of all logs of a node on record, whose disk is lost: see `LostTail`.

    The archive has all of their entries up to the timestamp `archived`. `before` is the end of the tails, None if the other
    members may still adopt what the disk had. `again` is that of `note_lost_tail`.
    """
    for place in registered(objects, namespace, cluster):
        if place.node == node:
            infos = live_objects(objects, place)
            last = covered(infos).last if infos else 0
            after = max([archived, *(info.footer.max_timestamp for info in infos)])
            if before is None or after < before:
                note_lost_tail(objects, LostTail(place, last, after, before), again=again)


class ArchivedUntil:
    """The timestamp up to which the archive has all entries of a node's logs, from what their maintenance has seen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last = 0

    def __call__(self, wall_ms: int) -> int:
        """It at this time of the clock that stamps entries: some seconds early, and never decreasing. For any thread."""
        lags = [0.0]
        for business in list(self._engine.businesses.values()):
            maintenance = business.maintenance
            if not maintenance.archive_seen:
                return self._last
            if maintenance.archived < business.log.appender.next_sequence - 1:
                lags.append(maintenance.archive_lag_seconds())
                if not lags[-1]:  # its tail is not measured yet
                    return self._last
        early_ms = int(max(lags) * _MEASURED_TO * 1000) + _EARLY_MS
        self._last = max(self._last, wall_ms - early_ms << TIMESTAMP_SHIFT)
        return self._last


def take_over_logs(objects: Objects, engine: Engine, archived: int) -> dict[str, int]:
    """Make the logs of this node anew, each after what the archive has of it. The root must have no log. Returns the number of
    entries of each business. Raises `ArchiveError`, `StorageFull` and `ConfigError`; it can be run again then.

    The tails that only the lost disk had are put on record. They begin after the timestamp `archived`, or later."""
    options = engine.options
    note_lost_tails(objects, options.namespace, options.cluster, engine.node, archived=archived, again=True)
    report = restore_through(
        RestorePorts(options.disk, options.clock), str(options.archive_url), options.root, namespace=options.namespace,
        cluster=options.cluster, node=engine.node, at=None, take_over=True, storage_options=options.storage_options,
        progress=None,
    )  # fmt: skip
    return report.entries
