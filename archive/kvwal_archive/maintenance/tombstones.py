"""Removal of tombstones. A tombstone may go if it shadows no older row of its key, of any node, now or later.

A node whose archive lags may still archive older rows, so a tombstone waits until the archive of every other registered node has
passed its timestamp. It also stays as long as an object of another node has an older row of its key, or a put of the same
timestamp: of two nodes' changes at one timestamp only one counts. A copy of the tombstone, as the members of a cluster log it,
does not keep it. An expired put counts as a tombstone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive.errors import ArchiveError
from kvwal_archive.layout import LOGICAL_BITS, MAX_NUMBER, Place
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import open_columns
from kvwal_archive.parquet.rows import IDENTITY, ObjectInfo
from kvwal_archive.reader import covered, live_objects
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16 << 10
RankedRow = tuple[str, bytes, int]
"""The identity of a row, and its rank."""
_COLUMNS = (*IDENTITY, "timestamp", "expires", "deleted")


class Others(NamedTuple):
    """The live objects of the other nodes of a business. They hold all entries of these nodes up to the timestamp `passed`."""

    passed: int
    infos: list[ObjectInfo]


def others_of(objects: Objects, place: Place) -> Others:
    """The live objects of the other registered nodes of the place's business. Raises ArchiveError."""
    passed, infos = MAX_NUMBER, []
    for other in registered(objects, place.namespace, place.cluster, place.business):
        if other.node != place.node:
            live = live_objects(objects, other)
            reached = covered(live)
            passed = min(passed, 0 if reached.gaps else reached.max_timestamp)
            infos += live
    return Others(passed, infos)


class OlderRows:
    """The rows of some objects that a tombstone shadows: older rows, and puts of its timestamp that have not expired by `now_ms`.

    Identities are asked in their order. Only five columns are read, in bounded memory. Once an object cannot be read, every
    answer is yes.
    """

    def __init__(self, objects: Objects, infos: Iterable[ObjectInfo], now_ms: int) -> None:
        streams = [_rows(objects, info, now_ms) for info in infos]
        self._oldest = _oldest(heapq.merge(*streams, key=itemgetter(0, 1)))
        self._at: RankedRow | None = ("", b"", 0)
        self._unread = False

    def holds(self, key_class: str, key: bytes, timestamp: int) -> bool:
        """Whether a tombstone of this identity with this timestamp shadows a row, and so must stay."""
        try:
            while self._at is not None and self._at[:2] < (key_class, key):
                self._at = next(self._oldest, None)
        except (ArchiveError, OSError):
            self._unread = True
        if self._unread:
            return True
        return self._at is not None and self._at[:2] == (key_class, key) and self._at[2] < _rank(timestamp, True)


def _rank(timestamp: int, is_tombstone: bool) -> int:
    """The order of rows of one identity: a tombstone shadows all rows of lower rank."""
    return 2 * timestamp + is_tombstone


def _rows(objects: Objects, info: ObjectInfo, now_ms: int) -> Iterator[RankedRow]:
    """The identity and the rank of each row. All are checked before the first, because a missing row lets a tombstone go."""
    with open_columns(objects, info, _COLUMNS) as opened:
        opened.check()
        for batch in opened.batches(BATCH_ROWS):
            key_classes, keys, *rest = (batch.column(name).to_pylist() for name in _COLUMNS)
            ranks = [
                _rank(timestamp, deleted or 0 < expires <= now_ms)
                for timestamp, expires, deleted in zip(*rest, strict=True)
            ]
            yield from zip(key_classes, keys, ranks, strict=True)


def _oldest(rows: Iterable[RankedRow]) -> Iterator[RankedRow]:
    for identity, group in groupby(rows, key=itemgetter(0, 1)):
        yield (*identity, min(row[2] for row in group))


class TombstoneFilter:
    """Removes the tombstones that may go from the rows of one log, which come in their order, in parts.

    The rows were compacted below `horizon`: no read is answered for an earlier time. `newest` is the timestamp of the newest of
    all rows. Rows of that timestamp stay, because they show how far the log had come. Expiry is judged by it too, because the
    clock behind `horizon` may be wrong. `others` has all other objects that may hold older rows of the keys.
    """

    def __init__(self, objects: Objects, horizon: int, newest: int, others: Others) -> None:
        self._limit = min(horizon, others.passed + 1, newest)
        self._older = OlderRows(objects, others.infos, self._limit >> LOGICAL_BITS) if others.infos else None

    def __call__(self, table: pa.Table) -> pa.Table:
        """The rows of the next part without the tombstones that may go."""
        import pyarrow as pa
        import pyarrow.compute as pc

        timestamp, expires = table.column("timestamp"), table.column("expires")
        expired = pc.and_(pc.greater(expires, 0), pc.less_equal(expires, self._limit >> LOGICAL_BITS))
        goes = pc.and_(pc.or_(table.column("deleted"), expired), pc.less(timestamp, self._limit)).combine_chunks()
        if self._older is not None:
            rows = table.select([*IDENTITY, "timestamp"]).filter(goes)
            candidates = zip(*(rows.column(name).to_pylist() for name in (*IDENTITY, "timestamp")), strict=True)
            may_go = pa.array([not self._older.holds(*row) for row in candidates], pa.bool_())
            goes = pc.replace_with_mask(goes, goes, may_go)
        return table.filter(pc.invert(goes))
