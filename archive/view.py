"""What a reader asks of a business: the latest row of every identity, or all rows of one, over the nodes' objects and
live tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from archive.layout import Place
from archive.merge import Source, all_rows, latest_batches
from archive.objects import Objects
from archive.parquet.columns import find_class, find_rows
from archive.parquet.rows import COLUMNS, IDENTITY, node_schema, schema
from archive.reader import ObjectInfo, checked, listed_again, live_objects, without_gaps
from archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa

Tails = Sequence[tuple[str, "pa.Table"]]


HELD_BYTES = 32 << 20
"""Objects of so many bytes together are held in memory while they are merged; of others only what is being decoded."""


class NodePart(NamedTuple):
    """The objects of one node that count, and the last sequence of it that does (None: all)."""

    place: Place
    infos: list[ObjectInfo]
    up_to: int | None


def parts(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    nodes: Mapping[str, int | None] | None = None,
    at: int | None = None,
) -> list[NodePart]:
    """The objects to read for a business, node by node: of `nodes`, up to the sequence given for each, or of every
    registered node.

    Raises ArchiveGap if a range before the last one needed is missing, BeforeHistory if `at` lies before the horizon.
    """
    if nodes is None:
        nodes = {place.node: None for place in registered(objects, namespace, cluster, business)}
    found = []
    for node, up_to in nodes.items():
        place = Place(namespace, cluster, business, node)
        infos = without_gaps(place, live_objects(objects, place), up_to=up_to, at=at)
        found.append(NodePart(place, infos, up_to))
    return found


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

    Deleted rows are there, flagged; whether a row has expired is not judged. `nodes` maps a node to the last sequence
    of it to take from the archive (None: all of it); without `nodes` every registered node counts. `tails` are rows
    still in a node's log. With `at` only rows with a timestamp <= `at` count. Raises ArchiveGap if a range is missing,
    BeforeHistory if `at` lies before the horizon.
    """

    import pyarrow as pa

    def read() -> pa.Table:
        found = parts(objects, namespace, cluster, business, nodes, at)
        return pa.Table.from_batches(latest_of(objects, found, tails, at), schema=node_schema())

    return listed_again(read)


def latest_of(
    objects: Objects, found: Sequence[NodePart], tails: Tails = (), at: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The merge of these objects and tails as a stream: objects are read by ranges, a little of each at a time.

    Every byte of every object is checked before the first row comes; small ones are read once. Raises ObjectMissing if an
    object was removed since it was listed, ArchiveDamaged if its bytes are not what was put.
    """
    with ExitStack() as files:
        room = HELD_BYTES
        sources = []
        for part, info in [(one, info) for one in found for info in one.infos]:
            held = info.size <= room
            room -= info.size if held else 0
            average = info.footer.data_bytes // info.footer.rows + 1
            file = files.enter_context(checked(objects, info, held=held))
            sources.append(Source(part.place.node, file, part.up_to, average))
        sources += [Source(node, table, row_bytes=table.nbytes // max(1, len(table)) + 1) for node, table in tails]
        yield from latest_batches(sources, at)


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
    """Every row of one identity, or without a `key` of a class of few keys, newest first by (timestamp, node, sequence),
    each (node, sequence) once: `SCHEMA` and `node`.

    Arguments and errors are those of `latest`. What a rewrite thinned out below a horizon is not there.
    """

    def read() -> pa.Table:
        found = parts(objects, namespace, cluster, business, nodes, at)
        tables = [(part.place.node, _found(objects, part, info)) for part in found for info in part.infos]
        return all_rows([*tables, *((node, _of_identity(table, key_class, key)) for node, table in tails)], at)

    def _found(objects: Objects, part: NodePart, info: ObjectInfo) -> pa.Table:
        import pyarrow.compute as pc

        if key is None:
            rows = find_class(objects, info, key_class, COLUMNS).cast(schema())
        else:
            rows = find_rows(objects, info, key_class, key)
        return rows if part.up_to is None else rows.filter(pc.less_equal(rows.column("sequence"), part.up_to))

    return listed_again(read)


def keys_of_class(objects: Objects, namespace: str, cluster: str, business: str, key_class: str) -> list[bytes]:
    """The keys of a class that are not deleted, sorted, over all registered nodes. For a class of few keys."""

    def read() -> list[bytes]:
        latest: dict[bytes, tuple[int, str, int, bool]] = {}
        for part in parts(objects, namespace, cluster, business):
            for info in part.infos:
                rows = find_class(objects, info, key_class, ["key", "timestamp", "sequence", "deleted"]).to_pydict()
                for key, timestamp, sequence, deleted in zip(*rows.values(), strict=True):
                    found = (timestamp, part.place.node, sequence, deleted)
                    latest[key] = max(found, latest.get(key, found))
        return sorted(key for key, found in latest.items() if not found[-1])

    return listed_again(read)


def _of_identity(table: pa.Table, key_class: str, key: bytes | None) -> pa.Table:
    import pyarrow.compute as pc

    for name, value in zip(IDENTITY, (key_class, key), strict=True):
        if value is not None:
            table = table.filter(pc.equal(table.column(name), value))
    return table.select(list(COLUMNS))
