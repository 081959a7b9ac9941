"""Transactions of a cluster: an intent, one entry of one log, holds all changes until each is in its own member's log.

An intent has a key class of its own, and its value is a block of entries. Until it is deleted it counts as these entries. A
member that fills memory from logs applies those of them that no later change of their key follows, and finishes the intent.

What came later is found by the timestamps in the block: each change has one that no earlier entry of its key is above, and every
later entry is (LogContext.java). The intent's own timestamp is of another member's clock than the key's. It counts within one
log, and for a change with timestamp 0, which members of earlier versions wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvwal.entry import Entry, is_live, make_decoder, make_entry
from kvwal.key_class import INTENT
from kvwal.log.submission import Submission, size_of
from kvwal.store.open_business import OpenBusiness

if TYPE_CHECKING:
    import pyarrow as pa

INTENTS = "__kvwal.intents"
"""The map of all intents. Its keys are those that the intents have in the log."""
_decode = make_decoder(())


def changes_of(intent: Entry) -> list[Entry]:
    """The changes of an intent in one log, as if each had been logged where it stands."""
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


class _Change(NamedTuple):
    """A change of an intent. An entry of its key came before it if its timestamp is at most `after`."""

    entry: Entry
    after: int


def _changes(intent: Entry) -> list[_Change]:
    return [
        _Change(_at(entry, intent.timestamp), entry.timestamp or intent.timestamp) for entry in _decode(intent.value)
    ]


class Unfinished:
    """Unfinished intents of the merged logs. Finds which of their changes are the latest of their keys while the merge runs."""

    def __init__(self, intents: Iterable[Entry]) -> None:
        self._intents = [(i, _changes(i)) for i in sorted(intents, key=lambda intent: intent.timestamp)]
        self._last: dict[tuple[str, bytes], list[_Change]] = {}
        for _, changes in self._intents:
            for change in changes:
                self._last.setdefault((change.entry.key_class, change.entry.key), []).append(change)

    def identities(self) -> list[tuple[str, bytes]]:
        """Before any row: the identities that the intents change."""
        return list(self._last)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows but for those that an intent has changed since. To be called with every row of the merge."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._last:
            return batch
        keys = pa.array([key for _, key in self._last], batch.column("key").type)
        touched = pc.indices_nonzero(pc.is_in(batch.column("key"), value_set=keys)).to_pylist()
        rows = batch.select(["key_class", "key", "timestamp"]).take(pa.array(touched, pa.int64())).to_pylist()
        gone = {index for index, row in zip(touched, rows, strict=True) if self._ends(**row)}
        return batch.filter(pa.array([index not in gone for index in range(len(batch))])) if gone else batch

    def _ends(self, key_class: str, key: bytes, timestamp: int) -> bool:
        changes = self._last.get((key_class, key), [])
        changes[:] = [change for change in changes if timestamp <= change.after]
        return bool(changes)

    def _latest(self) -> Iterator[Entry]:
        return (changes[-1].entry for changes in self._last.values() if changes)

    def puts(self, now_ms: int) -> list[Entry]:
        """After all rows: the live changes of the intents, which have to be loaded into memory besides the rows."""
        return [entry for entry in self._latest() if is_live(entry, now_ms)]

    def left(self) -> list[tuple[Entry, list[Entry]]]:
        """After all rows: the intents, each with those of its changes that have to be logged before the intent is deleted."""
        latest = {id(entry) for entry in self._latest()}
        return [(i, [change.entry for change in found if id(change.entry) in latest]) for i, found in self._intents]


async def finish(business: OpenBusiness, intent: Entry, changes: Sequence[Entry]) -> int:
    """Log these changes of an unfinished intent, which are the latest of their keys; then the intent goes. Returns the greatest
    timestamp of what was logged."""
    if changes:
        await _submit(business, [_at(entry, 0) for entry in changes])
    return await _submit(business, [Entry(intent.key, INTENT, b"", "", True, 0)])


async def _submit(business: OpenBusiness, entries: list[Entry]) -> int:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    await business.submit_soon(Submission(entries, size_of(entries), future))
    return await future


def _at(entry: Entry, timestamp: int) -> Entry:
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, timestamp, entry.expires
    )
