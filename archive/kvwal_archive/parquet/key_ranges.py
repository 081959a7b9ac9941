"""Key ranges, and row-group pruning by the min/max statistics of the Parquet footer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal_archive.parquet.rows import COLUMNS, IDENTITY

if TYPE_CHECKING:
    import pyarrow as pa

Identity = tuple[str, bytes]
LEAST: Identity = ("", b"")
ABOVE_ALL: Identity = ("\U0010ffff" * 4, b"")
"""Upper bound above every identity."""


class KeyRange(NamedTuple):
    """The identities from `low` on and below `high`."""

    low: Identity = LEAST
    high: Identity = ABOVE_ALL

    def overlaps(self, least: Identity, greatest: Identity) -> bool:
        """Whether an identity between `least` and `greatest`, both included, is in the range."""
        return greatest >= self.low and least < self.high

    @property
    def only_key(self) -> bytes | None:
        """The key of the only identity of the range; None if it can have more than one."""
        return self.low[1] if self.high == next_identity(self.low) else None

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the range. The batch is sorted by identity."""
        begin = _position(batch, self.low)
        return batch.slice(begin, max(0, _position(batch, self.high) - begin))

    def end_of(self, batch: pa.RecordBatch, count: int) -> Identity | None:
        """The least identity after the first `count` rows of the range that the batch has; None if it has none of them."""
        part = self.rows(batch)
        return next_identity(_identity(_columns(part), min(count, len(part)) - 1)) if len(part) else None

    def gap(self, batch: pa.RecordBatch) -> KeyRange:
        """The largest range around this one of which the batch has no rows, as it has none of this one."""
        at = _position(batch, self.low)
        columns = _columns(batch)
        low = next_identity(_identity(columns, at - 1)) if at else LEAST
        return KeyRange(low, _identity(columns, at) if at < len(batch) else ABOVE_ALL)


def rows_within(batch: pa.RecordBatch, ranges: Iterable[KeyRange]) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges, of a batch that is sorted by identity. Ranges without a row give nothing."""
    return (part for key_range in ranges if (part := key_range.rows(batch)).num_rows)


def next_identity(identity: Identity) -> Identity:
    """The least identity after this one."""
    return identity[0], identity[1] + b"\0"


def key_range(key_class: str, key: bytes) -> KeyRange:
    """The range of one identity."""
    return KeyRange((key_class, key), next_identity((key_class, key)))


def class_range(key_class: str) -> KeyRange:
    """All identities of one class of keys."""
    return KeyRange((key_class, b""), (key_class + "\0", b""))


def structure_ranges(structure: str) -> list[KeyRange]:
    """The identities of a structure's entries, sorted; with `*` as its name those of all structures of a kind.

    Entries of a structure have the classes `<structure>:<codec>`. A structure is `<kind>`, or `<kind>/<name>`.
    """
    kind, _, name = structure.partition("/")
    prefixes = [f"{kind}/", f"{kind}:"] if name == "*" else [f"{structure}:"]
    return [KeyRange((prefix, b""), (prefix[:-1] + chr(ord(prefix[-1]) + 1), b"")) for prefix in prefixes]


def check_apart(ranges: Sequence[KeyRange]) -> None:
    """Raise ValueError unless each range ends before the next one begins: a row of two of them would be read twice."""
    for one, following in pairwise(ranges):
        if following.low < one.high:
            raise ValueError(f"key ranges overlap or are not sorted: {one} is before {following}")


def intersect(some: Iterable[KeyRange], others: Sequence[KeyRange]) -> Iterator[KeyRange]:
    """The identities that are in one of `some` and in one of `others`, as ranges. None of them is empty."""
    for one in some:
        for other in others:
            both = KeyRange(max(one.low, other.low), min(one.high, other.high))
            if both.low < both.high:
                yield both


def group_bounds(group: Any) -> tuple[Identity, Identity]:
    """The least and the greatest identity that a row group can hold.

    Parquet's writer leaves out the statistics of a column with long values. Then the bounds are wider.
    """
    classes, keys = (group.column(COLUMNS.index(name)).statistics for name in IDENTITY)
    if classes is None or not classes.has_min_max:
        return LEAST, ABOVE_ALL
    if keys is None or not keys.has_min_max:
        return (classes.min, b""), (classes.max + "\0", b"")
    return (classes.min, keys.min), (classes.max, keys.max)


def keys_sought(group: Any, ranges: Iterable[KeyRange]) -> list[bytes] | None:
    """Keys to look up in the row group's Bloom filter; None if a range of more than one key overlaps the group."""
    bounds = group_bounds(group)
    return only_keys([key_range for key_range in ranges if key_range.overlaps(*bounds)])


def only_keys(ranges: Iterable[KeyRange]) -> list[bytes] | None:
    """The keys of these ranges; None if one of them can have more than one."""
    keys = [key_range.only_key for key_range in ranges]
    return None if None in keys else [key for key in keys if key is not None]


def _columns(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    classes, keys = (batch.column(name) for name in IDENTITY)
    return classes, keys


def _identity(columns: tuple[pa.Array, pa.Array], row: int) -> Identity:
    return columns[0][row].as_py(), columns[1][row].as_py()


def _position(batch: pa.RecordBatch, identity: Identity) -> int:
    """The number of rows below `identity`."""
    columns = _columns(batch)
    low, high = 0, len(batch)
    while low < high:
        middle = (low + high) // 2
        if _identity(columns, middle) < identity:
            low = middle + 1
        else:
            high = middle
    return low
