"""Views of a business: the latest row of every identity, or all rows of one, over the nodes' objects and live tails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kvwal_archive.bases.record import Base, BasePosition
from kvwal_archive.bases.select import LogRead, newest_base
from kvwal_archive.layout import MAX_NUMBER, Place
from kvwal_archive.lost_tails import check_moment, lost_tails
from kvwal_archive.merge import MergeSource, all_rows, latest_batches
from kvwal_archive.objects import Objects
from kvwal_archive.parquet import kept_rows
from kvwal_archive.parquet.columns import find_class, find_rows, holding, open_ranges
from kvwal_archive.parquet.key_ranges import Identity, KeyRange, check_apart, key_range, rows_within
from kvwal_archive.parquet.rows import COLUMNS, IDENTITY, ObjectInfo, node_schema, schema, sorted_rows
from kvwal_archive.reader import checked, event_objects, listed_again, live_objects, without_gaps
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa

Tails = Sequence[tuple[str, "pa.Table"]]
"""Nodes, each with rows that are only in its log."""

HELD_BYTES = 32 << 20
"""Limit of the objects that are held in memory while they are merged. Of other objects only the pages being decoded are."""


NOTHING = BasePosition("", 0, 0, 0)
"""The position before a log's first entry."""


class NodePart(NamedTuple):
    """The live objects of one node, and the node's last sequence to read (None: all).

    Of a read that begins with a base, `after` is the base's position in the node's log: rows up to there are skipped. `base`
    has the base's rows of the node, in the order of their keys. `events` has the rows that left the other objects: they count
    wherever the base ends.
    """

    place: Place
    infos: list[ObjectInfo]
    up_to: int | None
    after: BasePosition = NOTHING
    base: Sequence[ObjectInfo] = ()
    events: Sequence[ObjectInfo] = ()


def parts(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    nodes: Mapping[str, int | None] | None = None,
    at: int | None = None,
) -> list[NodePart]:
    """The objects to read for a business, node by node.

    `nodes` maps each node to the last sequence to read (None: all); without `nodes` every registered node is read. Raises
    ArchiveGap if a range before the last one needed is missing, or if a lost tail may have changes that counted at the moment
    `at`; BeforeHistory if `at` lies before the horizon.
    """
    if at is not None and at < MAX_NUMBER:
        check_moment(lost_tails(objects, namespace, cluster, business, nodes), at)
    if nodes is None:
        nodes = {place.node: None for place in registered(objects, namespace, cluster, business)}
    node_parts = []
    for node, up_to in nodes.items():
        place = Place(namespace, cluster, business, node)
        infos = without_gaps(place, live_objects(objects, place), up_to=up_to, at=at)
        node_parts.append(NodePart(place, infos, up_to))
    return node_parts


def latest_parts(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    nodes: Mapping[str, int | None] | None = None,
    at: int | None = None,
    *,
    events: bool = False,
) -> list[NodePart]:
    """The objects to read for the latest rows of a business: the newest base that fits, and of each log what is after it.

    Without a base these are the objects of `parts`; with `events` those of events, too. Arguments and errors are those of
    `parts`.
    """
    node_parts = parts(objects, namespace, cluster, business, nodes, at)
    if events:
        node_parts = [part._replace(events=event_objects(objects, part.place)) for part in node_parts]
    logs = {part.place.node: LogRead(part.infos, part.up_to) for part in node_parts}
    base = newest_base(objects, (namespace, cluster, business), logs, at)
    return node_parts if base is None else after_base(node_parts, base)


def after_base(node_parts: Sequence[NodePart], base: Base) -> list[NodePart]:
    """The parts of a read that begins with this base, which fits."""
    rest = []
    for part in node_parts:
        after = base.positions.get(part.place.node, NOTHING)
        infos = [info for info in part.infos if info.span.last > after.sequence]
        rest.append(part._replace(infos=infos, after=after, base=base.objects_of(part.place.node)))
    return rest


def latest(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    *,
    nodes: Mapping[str, int | None] | None = None,
    tails: Tails = (),
    at: int | None = None,
) -> pa.Table:
    """The latest row of every identity, sorted by identity: the columns of `SCHEMA` and `node`.

    Deleted rows are given too, with their flag. Expired rows are not left out. `nodes` maps a node to its last sequence to
    take from the archive (None: all); without `nodes` every registered node counts. `tails` are rows still in a node's log.
    With `at` only rows with a timestamp <= `at` count. Raises ArchiveGap if a range is missing, BeforeHistory if `at` lies
    before the horizon.
    """

    import pyarrow as pa

    def read() -> pa.Table:
        node_parts = latest_parts(objects, namespace, cluster, business, nodes, at)
        return pa.Table.from_batches(latest_of(objects, node_parts, tails, at), schema=node_schema())

    return listed_again(read)


def latest_of(
    objects: Objects,
    node_parts: Sequence[NodePart],
    tails: Tails = (),
    at: int | None = None,
    ranges: Sequence[KeyRange] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The merge of these objects and tails as a stream. Objects are read by ranges, a few rows of each at a time.

    Every byte of every object is checked before the first row comes. Small objects are read once. With `ranges` only rows with
    these identities come; of the objects only the row groups are read, and checked, that may have them. The ranges are sorted and
    do not overlap. Raises ObjectMissing if an object was removed since it was listed, ArchiveDamaged if its bytes are not what
    was put, ValueError if ranges overlap.
    """
    with ExitStack() as files:
        if ranges is not None:
            check_apart(ranges)
            parts_of_tails = [MergeSource(node, _rows_within(sorted_rows(table), ranges)) for node, table in tails]
            yield from latest_batches([*_sources_within(files, objects, node_parts, ranges), *parts_of_tails], at)
            return
        memory_left = HELD_BYTES

        def opened(info: ObjectInfo) -> BinaryIO:
            nonlocal memory_left
            in_memory = info.size <= memory_left
            memory_left -= info.size if in_memory else 0
            return files.enter_context(checked(objects, info, in_memory=in_memory))

        sources = []
        for part in node_parts:
            if part.base:
                base = [opened(info) for info in part.base]
                sources.append(MergeSource(part.place.node, base, row_bytes=max(info.row_bytes for info in part.base)))
            for info in part.infos:
                source = MergeSource(part.place.node, [opened(info)], part.up_to, info.row_bytes, part.after.sequence)
                sources.append(source)
            sources += [
                MergeSource(part.place.node, [opened(info)], part.up_to, info.row_bytes) for info in part.events
            ]
        sources += [MergeSource(node, table, row_bytes=table.nbytes // max(1, len(table)) + 1) for node, table in tails]
        yield from latest_batches(sources, at)


def _sources_within(
    files: ExitStack, objects: Objects, node_parts: Sequence[NodePart], ranges: Sequence[KeyRange]
) -> Iterator[MergeSource]:
    """The rows of these identities: in memory while they are few, and of further objects a few at a time."""
    memory_left = HELD_BYTES
    for part, info in ((one, info) for one in node_parts for info in _all_of(one)):
        limits = (None if info in part.base else part.up_to, part.after.sequence if info in part.infos else 0)
        batches = kept_rows.kept_rows(objects, info, ranges) if memory_left > 0 else None
        if batches is None:
            columns = files.enter_context(open_ranges(objects, info, ranges))
            if not columns.groups:
                continue
            stream = partial(columns.within, ranges)
            memory_left -= info.size
            if memory_left < 0:
                yield MergeSource(part.place.node, stream, limits[0], info.row_bytes, limits[1])
                continue
            batches = list(stream())
        else:
            memory_left -= sum(batch.nbytes for batch in batches)
        if batches:
            rows = _table(batches)
            yield MergeSource(part.place.node, rows, limits[0], info.row_bytes, limits[1])


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches).cast(schema()) if batches else schema().empty_table()


def _all_of(part: NodePart) -> tuple[ObjectInfo, ...]:
    return (*part.base, *part.infos, *part.events)


def _rows_within(rows: pa.Table, ranges: Sequence[KeyRange]) -> pa.Table:
    import pyarrow as pa

    found = [part for batch in rows.combine_chunks().to_batches() for part in rows_within(batch, ranges)]
    return pa.Table.from_batches(found, schema=rows.schema)


def end_of_rows(objects: Objects, node_parts: Sequence[NodePart], wanted: KeyRange, count: int) -> Identity:
    """See `kept_rows.end_of_rows`: of all objects of these parts."""
    return kept_rows.end_of_rows(objects, [info for part in node_parts for info in _all_of(part)], wanted, count)


def history(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    *,
    key_class: str,
    key: bytes | None,
    nodes: Mapping[str, int | None] | None = None,
    tails: Tails = (),
    at: int | None = None,
) -> pa.Table:
    """Every row of one identity, newest first by (timestamp, node, sequence): the columns of `SCHEMA` and `node`.

    Without a `key` it is every row of the class `key_class`, which has few keys. Each (node, sequence) is given once.
    Arguments and errors are those of `latest`. Rows that compaction removed below a horizon are missing.
    """

    def read() -> pa.Table:
        look = objects.for_one_look()
        node_parts = parts(look, namespace, cluster, business, nodes, at)
        held = _holding(look, node_parts, key_class, key)
        tables = [(part.place.node, matching_rows(part, info)) for part, info in held]
        return all_rows([*tables, *((node, _of_identity(table, key_class, key)) for node, table in tails)], at)

    def matching_rows(part: NodePart, info: ObjectInfo) -> pa.Table:
        import pyarrow.compute as pc

        if key is None:
            rows = find_class(objects, info, key_class, COLUMNS).cast(schema())
        else:
            kept = kept_rows.kept_rows(objects, info, [key_range(key_class, key)])
            rows = find_rows(objects, info, key_class, key) if kept is None else _table(kept)
        return rows if part.up_to is None else rows.filter(pc.less_equal(rows.column("sequence"), part.up_to))

    return listed_again(read)


def keys_of_class(objects: Objects, namespace: str, cluster: str, business: str, key_class: str) -> list[bytes]:
    """The keys of a class that are not deleted, sorted, over all registered nodes. The class must have few keys."""

    def read() -> list[bytes]:
        latest: dict[bytes, tuple[int, str, int, bool]] = {}
        look = objects.for_one_look()
        for part, info in _holding(look, parts(look, namespace, cluster, business), key_class, None):
            rows = find_class(objects, info, key_class, ["key", "timestamp", "sequence", "deleted"]).to_pydict()
            for key, timestamp, sequence, deleted in zip(*rows.values(), strict=True):
                version = (timestamp, part.place.node, sequence, deleted)
                latest[key] = max(version, latest.get(key, version))
        return sorted(key for key, version in latest.items() if not version[-1])

    return listed_again(read)


def _of_identity(table: pa.Table, key_class: str, key: bytes | None) -> pa.Table:
    import pyarrow.compute as pc

    for name, value in zip(IDENTITY, (key_class, key), strict=True):
        if value is not None:
            table = table.filter(pc.equal(table.column(name), value))
    return table.select(list(COLUMNS))


def _holding(
    objects: Objects, node_parts: Sequence[NodePart], key_class: str, key: bytes | None
) -> list[tuple[NodePart, ObjectInfo]]:
    """The objects that can hold rows of an identity, or of a class of keys, each with the part of its node."""
    held = {info.key for info in holding(objects, [info for part in node_parts for info in part.infos], key_class, key)}
    return [(part, info) for part in node_parts for info in part.infos if info.key in held]
