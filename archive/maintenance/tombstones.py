"""Which tombstones may go: those that hold down no older row of their key, of any node, now or later.

A node that is behind with its archive may still bring older rows, so a tombstone waits until the archive of every other
registered node has passed its timestamp. And it stays as long as an object of another node has an older row of its key, or a put
of the same timestamp: of two nodes' changes at one timestamp only one counts. A copy of the tombstone itself, as the members of
a cluster log it, holds nothing. An expired put counts as a tombstone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from archive.errors import ArchiveError
from archive.layout import LOGICAL_BITS, MAX_NUMBER, Place
from archive.objects import Objects
from archive.parquet.columns import open_columns
from archive.parquet.rows import IDENTITY
from archive.reader import ObjectInfo, covered, live_objects
from archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16 << 10
Known = tuple[str, bytes, int]
_LOOKED_AT = (*IDENTITY, "timestamp", "expires", "deleted")


class Others(NamedTuple):
    """The other nodes of a business: all that they have logged up to the timestamp `passed` is in `infos`."""

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
    """Answers for one identity after the other, in their order, whether one of these objects has a row that a tombstone of it
    holds down: an older one, or a put of the same timestamp that has not expired by `now_ms`.

    Only five columns are read, in bounded memory. Once an object cannot be read every answer is yes.
    """

    def __init__(self, objects: Objects, infos: Iterable[ObjectInfo], now_ms: int) -> None:
        streams = [_rows(objects, info, now_ms) for info in infos]
        self._oldest = _oldest(heapq.merge(*streams, key=itemgetter(0, 1)))
        self._at: Known | None = ("", b"", 0)
        self._unread = False

    def holds(self, key_class: str, key: bytes, timestamp: int) -> bool:
        """Whether a tombstone of this identity with this timestamp is needed."""
        try:
            while self._at is not None and self._at[:2] < (key_class, key):
                self._at = next(self._oldest, None)
        except (ArchiveError, OSError):
            self._unread = True
        if self._unread:
            return True
        return self._at is not None and self._at[:2] == (key_class, key) and self._at[2] < _rank(timestamp, True)


def _rank(timestamp: int, is_tombstone: bool) -> int:
    """The order of rows of one identity in which a tombstone holds down all that is before it."""
    return 2 * timestamp + is_tombstone


def _rows(objects: Objects, info: ObjectInfo, now_ms: int) -> Iterator[Known]:
    """The identity and the rank of each row, all checked before the first: a delete may go for want of a row."""
    with open_columns(objects, info, _LOOKED_AT) as opened:
        opened.check()
        for batch in opened.batches(BATCH_ROWS):
            key_classes, keys, *rest = (batch.column(name).to_pylist() for name in _LOOKED_AT)
            ranks = [
                _rank(timestamp, deleted or 0 < expires <= now_ms)
                for timestamp, expires, deleted in zip(*rest, strict=True)
            ]
            yield from zip(key_classes, keys, ranks, strict=True)


def _oldest(rows: Iterable[Known]) -> Iterator[Known]:
    for identity, found in groupby(rows, key=itemgetter(0, 1)):
        yield (*identity, min(row[2] for row in found))


def without_tombstones(objects: Objects, table: pa.Table, horizon: int, others: Others) -> pa.Table:
    """The rows but for the tombstones that may go; `others` has all other objects in which older rows of their keys may stand.

    `table` is sorted, and was thinned out below `horizon`: no read is answered for an earlier time. The newest rows stay,
    because they say how far the log had come; and what has expired is judged by them too, because the clock behind `horizon` may
    be wrong.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    timestamp, expires = table.column("timestamp"), table.column("expires")
    limit = min(horizon, others.passed + 1, pc.max(timestamp).as_py())
    expired = pc.and_(pc.greater(expires, 0), pc.less_equal(expires, limit >> LOGICAL_BITS))
    goes = pc.and_(pc.or_(table.column("deleted"), expired), pc.less(timestamp, limit)).combine_chunks()
    if others.infos:
        older = OlderRows(objects, others.infos, limit >> LOGICAL_BITS)
        rows = table.select([*IDENTITY, "timestamp"]).filter(goes)
        found = zip(*(rows.column(name).to_pylist() for name in (*IDENTITY, "timestamp")), strict=True)
        free = pa.array([not older.holds(*row) for row in found], pa.bool_())
        goes = pc.replace_with_mask(goes, goes, free)
    return table.filter(pc.invert(goes))
