"""A map that was destroyed: its log has a mark where that happened, and gets a delete of everything it held until then.

Deletes are what every reader of logs and archives understands. The mark goes when the last of them is durable: a node that was
killed in between finds it at its next start, and finishes.

Of several members each has its mark, which stays, and whoever fills memory obeys them. A member that was away has none: it marks
its own log when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

import jpype
import msgspec

from archive.layout import Place
from archive.objects import Objects
from kvwal.cluster.archive_load import marks_of
from kvwal.cluster.map_names import to_map
from kvwal.cluster.recovery_buffer import is_dropped, recovery_buffer
from kvwal.entry import DROPPED, Ended, Entry, timestamps_within
from kvwal.errors import KvwalError
from kvwal.history.timeline import Timeline
from kvwal.log.ring import Lookup, Submission, size_of
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness

_AGAIN_SECONDS = 10.0
_AT_ONCE = 5_000
_BYTES_AT_ONCE = 1 << 20
"""A transaction of deletes ends at so many entries or about so many bytes: keys may be long, and a block has a limit."""
_MARK = Entry(b"", DROPPED, b"", "", True, 0)


async def drop(
    engine: Engine, business: OpenBusiness, timestamp: int, written: set[tuple[str, bytes]], workers: Workers
) -> int:
    """Delete what the map held when it was destroyed at `timestamp`, and return how many entries that were.

    `written` are the identities that were put since, by whoever uses a map of this name again: those stay.
    """
    past = Timeline(engine.options.disk, engine.options.root, [business.place], None, all_nodes=False)
    state = await workers.run(lambda: past.as_of(timestamp))
    held = (entry for table in state.tables.values() for entry in table.values() if is_dropped(entry, timestamp))
    return await delete(business, held, lambda entry: (entry.key_class, entry.key) not in written)


async def delete(business: OpenBusiness, entries: Iterable[Entry], still: Callable[[Entry], bool]) -> int:
    """Append a delete of each entry for which `still` holds when its turn in the log comes; then the mark goes."""
    count = 0
    for deletes in _chunks(Entry(entry.key, entry.key_class, b"", "", True, 0) for entry in entries):
        await _submit(business, deletes, still)
        count += len(deletes)
    await _submit(business, [msgspec.structs.replace(_MARK)], lambda entry: True)
    return count


def may_let_go(engine: Engine, business: OpenBusiness, *, alone: bool) -> bool:
    """Whether the log may go once it holds nothing. Of a node alone any may; of several members one that has a mark, and where an
    archive has all of them: a delete of this log may hold down what others' logs have."""
    return alone or (engine.options.archive_url is not None and recovery_buffer(business.state).was_dropped)


async def obey(business: OpenBusiness, ended: Ended) -> None:
    """Mark the log of a member that was away when others destroyed the map. What is put meanwhile is younger than what the mark
    ends, and stays."""
    await _submit(business, [ended.mark()], lambda entry: True)
    business.maintenance.retires = True


class Absence:
    """Of several members one that has just started: finds which of its maps the others destroyed while it was away. Used on the
    node's event loop."""

    def __init__(
        self,
        engine: Engine,
        all_archive: Callable[[], Awaitable[None]],
        objects: Callable[[], Objects],
        readers: Workers,
    ) -> None:
        """After `all_archive` the archive, `objects`, has what the logs of the living hold; on `readers` it is read."""
        self._engine = engine
        self._all_archive = all_archive
        self._objects = objects
        self._readers = readers
        self._logger = get_logger(__name__).bind(node=engine.node)

    async def run(self) -> None:
        """Until it is done: what cannot be asked now may be asked later. Others write meanwhile."""
        while True:
            try:
                await self._look()
            except (KvwalError, jpype.JException) as error:
                self._logger.warning("whether maps were destroyed meanwhile cannot be seen yet", error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def _look(self) -> None:
        """A log whose entries are not older than the others' mark by more than clocks may differ stays: they may be newer."""
        found = [one for one in self._engine.businesses.values() if not recovery_buffer(one.state).holds_nothing()]
        if not found:
            return
        await self._all_archive()
        skew = timestamps_within(self._engine.options.settings.max_skew_seconds)
        for business in found:
            destroyed = await self._readers.run(partial(self._destroyed, business.place))
            ended = Ended(destroyed - skew, destroyed)
            state = recovery_buffer(business.state)
            if not business.closed and not state.holds_nothing() and state.put_at <= ended.until:
                await obey(business, ended)
                self._logger.info("destroyed while this member was away", map=to_map(business.name))

    def _destroyed(self, place: Place) -> int:
        return marks_of(self._objects(), (place.namespace, place.cluster, place.business)).last


async def _submit(business: OpenBusiness, deletes: list[Entry], still: Callable[[Entry], bool]) -> None:
    def decide(lookup: Lookup) -> list[Entry]:
        return [entry for entry in deletes if still(entry) and lookup(entry.key_class, entry.key) is None]

    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    await business.submit_soon(Submission(deletes, size_of(deletes), future, decide))
    await future


def _chunks(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    size = 0
    for entry in entries:
        mine = size_of([entry])
        if chunk and (len(chunk) == _AT_ONCE or size + mine > _BYTES_AT_ONCE):
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += mine
    if chunk:
        yield chunk
