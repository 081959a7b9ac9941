"""The archive's part of a restore: the latest rows of a business as a stream, and the end of each node's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive.errors import BeforeHistory
from kvwal_archive.layout import LOGICAL_BITS, MAX_NUMBER, to_text
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import listed_again, live_objects, read_rows
from kvwal_archive.registry import registered
from kvwal_archive.view import NodePart, latest_of, latest_parts

if TYPE_CHECKING:
    import pyarrow as pa


class RestoreResult(NamedTuple):
    """The latest row of every identity, tombstones too, sorted by identity: batches of `SCHEMA` and `node`.

    `positions` is the last sequence taken of each node, `max_timestamp` the greatest timestamp taken (0 without rows).
    Open files are closed when `batches` has ended or was dropped.
    """

    batches: Iterator[pa.RecordBatch]
    positions: dict[str, int]
    max_timestamp: int


def restore_batches(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    *,
    nodes: Mapping[str, int | None] | None = None,
    at: int | None = None,
) -> RestoreResult:
    """All rows of a business in the archive, as of the timestamp `at`.

    `nodes` maps each node to the last sequence to take (None: all); without `nodes` every registered node is taken. Every
    object was read and checked when this returns, and the rows follow in bounded memory. Raises ArchiveGap if a range is
    missing, BeforeHistory if `at` lies before the horizon, ArchiveDamaged for an object that is not what was put.
    """

    def read() -> RestoreResult:
        node_parts = latest_parts(objects, namespace, cluster, business, nodes, at, events=True)
        return restored_by(objects, node_parts, at, latest_of(objects, node_parts, at=at))

    return listed_again(read)


def check_began(objects: Objects, namespace: str, cluster: str, at: int) -> None:
    """Raise BeforeHistory if the first entry that a cluster archived is later than the timestamp `at`.

    An archive whose older history was compacted is left to the readers: what was first is not known then.
    """
    infos = [info for place in registered(objects, namespace, cluster) for info in live_objects(objects, place)]
    if not infos or any(info.span.horizon > at for info in infos):
        return
    first = min(info.footer.min_timestamp for info in infos)
    if at < first:
        raise BeforeHistory(
            f"{objects.url}: the first archived entry of {namespace}/{cluster} is of {to_text(first)}, and"
            f" {to_text(at >> LOGICAL_BITS << LOGICAL_BITS)} was asked.",
            hint="Ask for a later time.",
        )


def restored_by(
    objects: Objects, node_parts: list[NodePart], at: int | None, stream: Iterator[pa.RecordBatch]
) -> RestoreResult:
    """The result of a restore whose rows are `stream`, the merge of these parts. The first batch is taken from it here."""
    ends = {part.place.node: _end(objects, part, at) for part in node_parts}
    first = list(islice(stream, 1))
    latest = max((end.timestamp for end in ends.values()), default=0)
    return RestoreResult(chain(first, stream), {node: end.sequence for node, end in ends.items()}, latest)


class _End(NamedTuple):
    sequence: int
    timestamp: int


def _end(objects: Objects, part: NodePart, at: int | None) -> _End:
    """The last sequence and the greatest timestamp that are taken of a node."""
    ends = [_end_within(objects, info, part.up_to, at) for info in part.infos]
    ends.append(_End(part.after.sequence, part.after.timestamp))
    return _End(max(end.sequence for end in ends), max(end.timestamp for end in ends))


def _end_within(objects: Objects, info: ObjectInfo, up_to: int | None, at: int | None) -> _End:
    """The last sequence and the greatest timestamp that are taken of one object.

    The footer has both, unless a limit runs through the object: then its rows are read.
    """
    import pyarrow.compute as pc

    limits = {"sequence": MAX_NUMBER if up_to is None else up_to, "timestamp": MAX_NUMBER if at is None else at}
    if info.span.last <= limits["sequence"] and info.footer.max_timestamp <= limits["timestamp"]:
        return _End(info.span.last, info.footer.max_timestamp)
    table = read_rows(objects, info).select(list(limits))
    for column, limit in limits.items():
        table = table.filter(pc.less_equal(table.column(column), limit))
    return _End(*(pc.max(table.column(column)).as_py() for column in limits)) if len(table) else _End(0, 0)


def businesses(objects: Objects, namespace: str, cluster: str) -> list[str]:
    """The businesses of a cluster that have a registered log on any node, sorted. Raises ArchiveError."""
    return sorted({place.business for place in registered(objects, namespace, cluster)})
