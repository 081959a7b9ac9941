"""Destroyed maps: the log of the map gets a mark at the moment of the destroy, and then a delete of every entry before the mark.

Every reader of logs and archives understands deletes. The mark is deleted when the last of them is durable. A node that was
killed before that finds the mark at its next start, and finishes.

With several members every log of the map has its mark, which stays, and the member that fills memory obeys the marks. A member
that was away has no mark: it marks its own log when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import jpype
import msgspec

from kvwal.cluster.map_names import to_map
from kvwal.cluster.recovery_buffer import as_recovery_buffer, is_dropped
from kvwal.entry import Ended, Entry, timestamps_within
from kvwal.errors import KvwalError
from kvwal.history.reads.map_rows import marks_of
from kvwal.history.reads.timeline import Timeline
from kvwal.key_class import DROPPED
from kvwal.log.submission import GroupView, Submission, size_of
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import retry_awaiting
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness
from kvwal.structures.map.changes import in_transactions
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects

_AGAIN_SECONDS = 10.0
_MARK = Entry(b"", DROPPED, b"", "", True, 0)


async def drop(
    engine: Engine, business: OpenBusiness, timestamp: int, written: set[tuple[str, bytes]], workers: Workers
) -> int:
    """Delete the entries that the map had when it was destroyed at `timestamp`. Returns how many those were.

    `written` are the identities that clients have put since, into a new map of this name: those stay.
    """
    past = Timeline(engine.options.disk, engine.options.root, [business.place], None, all_nodes=False)
    logged = await workers.run(lambda: past.logged_as_of(timestamp))
    held = (entry for entry in logged if is_dropped(entry, timestamp))
    return await delete(business, held, lambda entry: (entry.key_class, entry.key) not in written)


async def delete(business: OpenBusiness, entries: Iterable[Entry], still: Callable[[Entry], bool]) -> int:
    """Append a delete of each entry for which `still` holds when the delete is written. Then delete the mark."""
    count = 0
    for deletes in in_transactions(Entry(entry.key, entry.key_class, b"", "", True, 0) for entry in entries):
        await _submit(business, deletes, still)
        count += len(deletes)
    await _submit(business, [msgspec.structs.replace(_MARK)], lambda entry: True)
    return count


def may_retire_log(engine: Engine, business: OpenBusiness, *, alone: bool) -> bool:
    """Whether the log may be retired once it holds nothing.

    On a node alone every log may. With several members a log needs a mark, and an archive that keeps it: a delete in this log may
    shadow puts in other logs.
    """
    return alone or (engine.options.archive_url is not None and as_recovery_buffer(business.memory).was_dropped)


async def mark_log(business: OpenBusiness, ended: Ended) -> None:
    """Mark the log of a member that was away when others destroyed the map. Entries that clients put meanwhile are newer, and
    stay."""
    await _submit(business, [ended.mark()], lambda entry: True)
    business.maintenance.retires = True


class MissedDestroySearch:
    """Search for maps that other members destroyed while this member was away. Used on the node's event loop."""

    def __init__(
        self,
        engine: Engine,
        all_archive: Callable[[], Awaitable[None]],
        objects: Callable[[], Objects],
        readers: Workers,
    ) -> None:
        """After `all_archive` the archive, `objects`, has all entries of the living members' logs. `readers` read it."""
        self._engine = engine
        self._all_archive = all_archive
        self._objects = objects
        self._readers = readers
        self._logger = get_logger(__name__).bind(node=engine.node)

    async def run(self) -> None:
        """Search until it succeeds. Clients write meanwhile."""
        await retry_awaiting(self._look, (KvwalError, jpype.JException), self._failed, pause=_AGAIN_SECONDS)

    def _failed(self, error: Exception) -> None:
        self._logger.warning("whether maps were destroyed meanwhile cannot be seen yet", error=str(error))

    async def _look(self) -> None:
        """Mark the logs whose last put is older than the others' mark by more than the clocks may differ."""
        candidates = [
            one for one in self._engine.businesses.values() if not as_recovery_buffer(one.memory).holds_nothing()
        ]
        if not candidates:
            return
        await self._all_archive()
        skew = timestamps_within(self._engine.options.settings.max_skew_seconds)
        for business in candidates:
            destroyed = await self._readers.run(partial(self._destroyed, business.place))
            ended = Ended(destroyed - skew, destroyed)
            state = as_recovery_buffer(business.memory)
            if not business.closed and not state.holds_nothing() and state.put_at <= ended.until:
                await mark_log(business, ended)
                self._logger.info("destroyed while this member was away", map=to_map(business.name))

    def _destroyed(self, place: Place) -> int:
        return marks_of(self._objects(), (place.namespace, place.cluster, place.business)).last


async def _submit(business: OpenBusiness, deletes: list[Entry], still: Callable[[Entry], bool]) -> None:
    def decide(group: GroupView) -> list[Entry]:
        return [entry for entry in deletes if still(entry) and group.lookup(entry.key_class, entry.key) is None]

    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    await business.submit_soon(Submission(deletes, size_of(deletes), future, decide))
    await future
