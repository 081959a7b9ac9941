"""A member that was away compares what its own log took last with what the others have, and puts what is newer once more.

What it wrote alone, before it noticed that it was alone, is in its log and in nobody's memory. Deletes count as much as puts.
A change is made only where memory still holds what all logs had last without it: whatever was written since stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from archive.objects import Objects
from archive.reader import read_rows
from archive.registry import registered
from archive.restore import businesses, restore_batches
from archive.view import parts
from kvwal.entry import TIMESTAMP_SHIFT

if TYPE_CHECKING:
    import pyarrow as pa

Identity = tuple[str, bytes]
WINDOW_MS = 20_000
"""For how long a member may have served alone without having noticed."""


class Change(NamedTuple):
    """The last that a log has of a key. `value` is None for a delete, `expires` 0 for never."""

    key_class: str
    key: bytes
    value_class: str
    value: bytes | None
    timestamp: int
    expires: int


Exchange = Callable[[str, Change, "Change | None", list[tuple[str, bytes]], bool], bool]
"""Makes a change in the memory of a business: of which key, to what (None: deletes it), if it is one of these classes and bytes
now or, where the last is true, absent. Whether it did."""


class Returning:
    """Compares once. It reads the archive, so all members have to have archived their tails before."""

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        cluster: str,
        node: str,
        exchange: Exchange,
        *,
        now_ms: int,
        mark: str,
        is_of_map: Callable[[str], bool],
    ) -> None:
        """`mark` is the key class of the mark of a destroyed map; `is_of_map` says whether entries of a class are of a map."""
        self._objects = objects
        self._where = (namespace, cluster)
        self._node = node
        self._exchange = exchange
        self._now_ms = now_ms
        self._mark = mark
        self._is_of_map = is_of_map

    def run(self, apart_ms: int) -> dict[str, int]:
        """How many entries of each business were put, or deleted, once more. `apart_ms` is since when it may have been alone;
        what its log took last is looked at in any case.
        """
        return {name: count for name in businesses(self._objects, *self._where) if (count := self._of(name, apart_ms))}

    def _of(self, business: str, apart_ms: int) -> int:
        nodes = {place.node for place in registered(self._objects, *self._where, business)}
        if self._node not in nodes:
            return 0
        own = restore_batches(self._objects, *self._where, business, nodes={self._node: None})
        since = min(apart_ms << TIMESTAMP_SHIFT, own.max_timestamp - (WINDOW_MS << TIMESTAMP_SHIFT))
        mine = {_identity(change): change for change in self._changes(own.batches, since)}
        if not mine:
            return 0
        before = self._before(business, nodes - {self._node}, since, mine)
        if any(change.value is not None for change in (*mine.values(), *before) if change.key_class == self._mark):
            return 0  # what a destroyed map held must not come back
        earlier: dict[Identity, list[Change]] = {}
        for change in before:
            earlier.setdefault(_identity(change), []).append(change)
        return sum(self._again(business, change, earlier.get(identity, [])) for identity, change in mine.items())

    def _before(self, business: str, others: set[str], since: int, wanted: Collection[Identity]) -> list[Change]:
        """What memory may hold of `wanted` keys: the last of the others, and all of this member's from shortly before `since`."""
        where = (self._objects, *self._where, business)
        found = list(self._changes(restore_batches(*where, nodes={self._node: None}, at=since).batches, 0))
        if others:
            found += self._changes(restore_batches(*where, nodes=dict.fromkeys(others)).batches, 0)
        for part in parts(*where, {self._node: None}):
            for info in part.infos:
                if info.footer.max_timestamp > since:
                    found += self._changes(read_rows(self._objects, info).to_batches(), since)
        return [change for change in found if _identity(change) in wanted or change.key_class == self._mark]

    def _again(self, business: str, mine: Change, before: list[Change]) -> bool:
        """Make a change of ours, if none is newer and memory still has what it may have had before it."""
        if any(change.timestamp > mine.timestamp for change in before):
            return False
        before = [change for change in before if change.timestamp < mine.timestamp]
        lives = [live for change in before if (live := self._live(change)) is not None]
        values = {(live.value_class, live.value or b"") for live in lives} - {(mine.value_class, mine.value)}
        was_absent = len(lives) < len(before) or not before
        return self._exchange(business, mine, self._live(mine), sorted(values), was_absent)

    def _live(self, change: Change | None) -> Change | None:
        if change is None or change.value is None or 0 < change.expires <= self._now_ms:
            return None
        return change

    def _changes(self, batches: Iterator[pa.RecordBatch], since: int) -> Iterator[Change]:
        """Those after `since`."""
        import pyarrow.compute as pc

        for batch in batches:
            rows = batch.filter(pc.greater(batch.column("timestamp"), since)).to_pylist()
            for row in rows:
                if row["key_class"] == self._mark or self._is_of_map(row["key_class"]):
                    value = None if row["deleted"] else row["value"]
                    yield Change(
                        row["key_class"], row["key"], row["value_class"], value, row["timestamp"], row["expires"] or 0
                    )


def _identity(change: Change) -> Identity:
    return change.key_class, change.key
