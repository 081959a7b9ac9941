"""The plan of a read on Spark: the archive's keys cut into ranges, each with the objects that can hold its keys.

A range is the work of one task. All rows of a key are in one range, so a task merges its range alone, and nothing is shuffled.
docs/decisions/0046-key-ranges.md says how ranges are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive.errors import ConfigError
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import ABOVE_ALL, LEAST, Identity, KeyRange, group_bounds, intersect, keys_sought
from kvwal_archive.parquet.lookup import find_groups
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import listed_again
from kvwal_archive.registry import registered
from kvwal_archive.view import NodePart, latest_parts, parts

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PARTITION_BYTES = 32 << 20
"""Compressed bytes that one task reads, if the row groups can be cut so."""


class RowGroup(NamedTuple):
    """The least and the greatest identity that a row group can hold, and its compressed size in bytes."""

    least: Identity
    greatest: Identity
    size: int


class ScannedObject(NamedTuple):
    """An object of `node` that a task reads, and the compressed bytes of the row groups it reads. Rows up to the sequence
    `after` are skipped: a base holds them."""

    node: str
    info: ObjectInfo
    size: int
    after: int = 0


class Partition(NamedTuple):
    """The work of one task: ranges of identities, sorted, and the objects that can hold them."""

    ranges: tuple[KeyRange, ...]
    objects: list[ScannedObject]


def plan(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    *,
    ranges: Sequence[KeyRange] = (KeyRange(),),
    since: int = 0,
    until: int | None = None,
    latest: bool = False,
) -> list[Partition]:
    """Partitions that together have every row of a business whose identity is in `ranges`, over all registered nodes.

    `ranges` are sorted and do not overlap. Objects whose rows are all older than `since`, or younger than `until`, are left
    out; both are timestamps. With `latest` the partitions have what the latest row of each identity is found from: the newest
    base that fits, and the rows after it. Only footers and filters are read. Raises ConfigError if the archive has no such
    business, ArchiveGap if a range of a log is missing, ArchiveDamaged, ArchiveError.
    """

    def read() -> list[Partition]:
        node_parts = (latest_parts if latest else parts)(objects, namespace, cluster, business)
        return partitions_of(objects, node_parts, ranges, since, until)

    check_business(objects, namespace, cluster, business)
    return listed_again(read)


def partitions_of(
    objects: Objects,
    node_parts: Sequence[NodePart],
    ranges: Sequence[KeyRange] = (KeyRange(),),
    since: int = 0,
    until: int | None = None,
) -> list[Partition]:
    """`plan` for these parts of a read. Raises ObjectMissing if an object was removed since they were listed."""
    wholes = [whole for whole in _whole(node_parts) if _in_time(whole.info, since, until)]
    found = find_groups(objects, [whole.info for whole in wholes], lambda group: keys_sought(group, ranges))
    scanned = [(whole, _sized(metadata, groups)) for whole, (_, metadata, groups) in zip(wholes, found, strict=True)]
    cuts = cut_points((group for _, groups in scanned for group in groups), PARTITION_BYTES)
    pieces = [KeyRange(low, high) for low, high in pairwise([LEAST, *cuts, ABOVE_ALL])]
    partitions = [_partition(tuple(intersect([piece], ranges)), scanned) for piece in pieces]
    return [partition for partition in partitions if partition.objects]


def check_business(objects: Objects, namespace: str, cluster: str, business: str) -> None:
    """Raise ConfigError, which names the businesses of the cluster, if the archive has nothing of this one."""
    businesses = {place.business for place in registered(objects, namespace, cluster)}
    if business not in businesses:
        raise ConfigError(
            f"{objects.url}: the archive has no map {business!r} in {namespace}/{cluster}"
            f" (there are: {', '.join(sorted(businesses)) or 'none'}).",
            hint="Check the archive's URL and the names of the namespace, the cluster and the map.",
        )


def cut_points(groups: Iterable[RowGroup], partition_bytes: int) -> list[Identity]:
    """The identities at which the keys are cut: least identities of row groups, sorted. Pure.

    A range ends when its row groups have `partition_bytes`. A row group on both sides of a cut is read twice. So there is no
    cut where such row groups have more than half of the bytes of the range.
    """
    cuts: list[Identity] = []
    reaching: list[tuple[Identity, int]] = []
    straddling = size = 0
    for group in sorted(groups):
        while reaching and reaching[0][0] < group.least:
            straddling -= heappop(reaching)[1]
        if size >= partition_bytes and 2 * straddling <= size and (not cuts or cuts[-1] < group.least):
            cuts.append(group.least)
            size = straddling
        heappush(reaching, (group.greatest, group.size))
        straddling += group.size
        size += group.size
    return cuts


def _in_time(info: ObjectInfo, since: int, until: int | None) -> bool:
    return info.footer.max_timestamp >= since and (until is None or info.footer.min_timestamp <= until)


def _sized(metadata: pq.FileMetaData, groups: Iterable[int]) -> list[RowGroup]:
    wanted = [metadata.row_group(number) for number in groups]
    sizes = [sum(group.column(number).total_compressed_size for number in range(group.num_columns)) for group in wanted]
    return [RowGroup(*group_bounds(group), size) for group, size in zip(wanted, sizes, strict=True)]


def _whole(node_parts: Iterable[NodePart]) -> Iterator[ScannedObject]:
    """All objects of a read, those of its base included."""
    for part in node_parts:
        yield from (ScannedObject(part.place.node, info, info.size) for info in part.base)
        yield from (ScannedObject(part.place.node, info, info.size, part.after.sequence) for info in part.infos)
        yield from (ScannedObject(part.place.node, info, info.size) for info in part.events)


def _partition(ranges: tuple[KeyRange, ...], scanned: list[tuple[ScannedObject, list[RowGroup]]]) -> Partition:
    sizes = [sum(group.size for group in groups if _overlap(group, ranges)) for _, groups in scanned]
    return Partition(
        ranges, [whole._replace(size=size) for (whole, _), size in zip(scanned, sizes, strict=True) if size]
    )


def _overlap(group: RowGroup, ranges: Iterable[KeyRange]) -> bool:
    return any(key_range.overlaps(group.least, group.greatest) for key_range in ranges)
