"""Transactions of a cluster: an intent, one entry of one log, holds all changes until each is in its own member's log.

An intent has a key class of its own, and its value is a block of entries. Until it is deleted it counts as these entries, at its
own timestamp. A member that fills memory from logs applies those changes that no newer change follows, and finishes the intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kvwal.entry import Entry, is_live, make_decoder, make_entry
from kvwal.log.ring import Submission, size_of
from kvwal.store.open_business import OpenBusiness

if TYPE_CHECKING:
    import pyarrow as pa

INTENT = "intent:str"
"""Their class in the log; there a key is what it is in the map of all intents."""
INTENTS = "__kvwal.intents"
_decode = make_decoder(())


def changes_of(intent: Entry) -> list[Entry]:
    """The changes of an intent, as if each had been logged where it stands."""
    return [_at(entry, intent.timestamp) for entry in _decode(intent.value)]


def with_changes(entries: list[Entry], is_newer: Callable[[Entry], bool]) -> Iterator[list[Entry]]:
    """Split the entries into parts, to be applied one after the other. After each intent comes a part with its changes, without
    those that are older than an applied entry of their key.
    """
    begin = 0
    for end, entry in enumerate(entries, 1):
        if entry.key_class == INTENT and not entry.deleted:
            yield entries[begin:end]
            yield [change for change in changes_of(entry) if not is_newer(change)]
            begin = end
    yield entries[begin:] if begin else entries


class Unfinished:
    """Unfinished intents of the merged logs. Finds which of their changes are the latest of their keys while the merge runs."""

    def __init__(self, intents: Iterable[Entry]) -> None:
        ordered = sorted(intents, key=lambda intent: intent.timestamp)
        self._changes = [(intent, changes_of(intent)) for intent in ordered]
        self._latest = {(change.key_class, change.key): change for _, found in self._changes for change in found}

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows but for those that an intent has changed since. To be called with every row of the merge."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._latest:
            return batch
        keys = pa.array([key for _, key in self._latest], batch.column("key").type)
        touched = pc.indices_nonzero(pc.is_in(batch.column("key"), value_set=keys)).to_pylist()
        rows = batch.select(["key_class", "key", "timestamp"]).take(pa.array(touched, pa.int64())).to_pylist()
        gone = {index for index, row in zip(touched, rows, strict=True) if self._ends(**row)}
        return batch.filter(pa.array([index not in gone for index in range(len(batch))])) if gone else batch

    def _ends(self, key_class: str, key: bytes, timestamp: int) -> bool:
        change = self._latest.get((key_class, key))
        if change is None:
            return False
        if timestamp > change.timestamp:
            del self._latest[key_class, key]
            return False
        return True

    def puts(self, now_ms: int) -> list[Entry]:
        """After all rows: the live changes of the intents, which have to be loaded into memory besides the rows."""
        return [entry for entry in self._latest.values() if is_live(entry, now_ms)]

    def left(self) -> list[tuple[Entry, list[Entry]]]:
        """After all rows: the intents, each with those of its changes that have to be logged before the intent is deleted."""
        latest = self._latest
        return [(i, [e for e in found if latest.get((e.key_class, e.key)) is e]) for i, found in self._changes]


async def finish(business: OpenBusiness, intent: Entry, changes: Sequence[Entry]) -> None:
    """Log these changes of an unfinished intent, which are the latest of their keys; then the intent goes."""
    if changes:
        await _submit(business, [_at(entry, 0) for entry in changes])
    await _submit(business, [Entry(intent.key, INTENT, b"", "", True, 0)])


async def _submit(business: OpenBusiness, entries: list[Entry]) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    await business.submit_soon(Submission(entries, size_of(entries), future))
    await future


def _at(entry: Entry, timestamp: int) -> Entry:
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, timestamp, entry.expires
    )
