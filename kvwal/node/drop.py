"""A map that was destroyed: its log has a mark where that happened, and gets a delete of everything it held until then.

Deletes are what every reader of logs and archives understands. The mark goes when the last of them is durable: a node that was
killed in between finds it at its next start, and finishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

import msgspec

from kvwal.business import OpenBusiness
from kvwal.cluster.memory import is_dropped
from kvwal.engine import Engine
from kvwal.entry import DROPPED, Entry
from kvwal.log.ring import Lookup, Submission, size_of
from kvwal.past import Past
from kvwal.ports.tasks import Workers

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
    past = Past(engine.options.disk, engine.options.root, [business.place], None, all_nodes=False)
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
