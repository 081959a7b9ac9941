"""The merge: of all entries of all nodes, the latest of every identity.

Order is (timestamp, node, sequence), greatest first. The plain form streams in that order and keeps two sets; the
vectorised form compares the same triple in DuckDB. Both give every identity's latest row, a deleted one too, flagged:
what a tombstone hides is the business of whoever reads on. Merging is commutative, associative and idempotent, so
overlapping inputs do no harm.

The vectorised form finds the winners without touching a value, and then takes them from the inputs, each of which is
sorted by identity and so read once, from its beginning to its end: values of any size pass through bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.errors import ArchiveDamaged, ArchiveError
from archive.layout import MAX_NUMBER
from archive.rows import COLUMNS, DAMAGED_HINT, IDENTITY, node_schema, same_as_before, sorted_rows, with_node

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 64 << 10
BATCH_BYTES = 16 << 20
READ_BUFFER_BYTES = 256 << 10
MEMORY_LIMIT = "1GB"


class Row(NamedTuple):
    """One entry and where it was logged. Timestamps are of the hybrid clock, `expires` is unix ms or 0."""

    key_class: str
    key: bytes
    value: bytes
    value_class: str
    deleted: bool
    timestamp: int
    expires: int
    node: str
    sequence: int

    @property
    def identity(self) -> tuple[str, bytes]:
        """What makes two rows entries of the same key."""
        return self.key_class, self.key

    @property
    def age(self) -> tuple[int, str, int]:
        """What orders any two rows; greater is newer."""
        return self.timestamp, self.node, self.sequence


def newest_first(rows: Iterable[Row]) -> Iterator[Row]:
    """Of rows that come newest first, the first of each identity.

    An identity in the delete set or the data set is skipped; a delete goes to the delete set, a put to the data set.
    """
    delete_set: set[tuple[str, bytes]] = set()
    data_set: set[tuple[str, bytes]] = set()
    for row in rows:
        if row.identity in delete_set or row.identity in data_set:
            continue
        (delete_set if row.deleted else data_set).add(row.identity)
        yield row


def latest_plain(rows: Iterable[Row], at: int | None = None) -> list[Row]:
    """The latest row of each identity, of the rows not younger than the timestamp `at`, sorted by identity."""
    counted = (row for row in rows if at is None or row.timestamp <= at)
    streamed = sorted(counted, key=lambda row: row.age, reverse=True)
    return sorted(newest_first(streamed), key=lambda row: row.identity)


class Source(NamedTuple):
    """Rows of one node: a table of them in any order, or an object's file; only sequences up to `up_to` count, if given.

    `row_bytes` is the average length of key and value, and decides how many rows are held at a time.
    """

    node: str
    data: pa.Table | Path
    up_to: int | None = None
    row_bytes: int = 128


def latest_table(sources: Sequence[Source], at: int | None = None) -> pa.Table:
    """`latest_plain` over whole columns: a table of `SCHEMA` and `node`, sorted by identity."""
    import pyarrow as pa

    return pa.Table.from_batches(latest_batches(sources, at), schema=node_schema())


def latest_batches(
    sources: Sequence[Source], at: int | None = None, spill: Path | None = None
) -> Iterator[pa.RecordBatch]:
    """`latest_table` as a stream, in memory that does not grow with the values; what identities need beyond
    MEMORY_LIMIT is spilled to the folder `spill`.

    Raises ArchiveDamaged for a file that is not a sorted object.
    """
    if not sources:
        return
    ordered = [source._replace(data=_in_order(source.data)) for source in sources]
    inputs = [_Input(source) for source in ordered]
    rows_at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // max(source.row_bytes for source in ordered)))
    for winners in _winners(ordered, at, spill):
        for start in range(0, len(winners), rows_at_once):
            yield from _materialised(inputs, winners.slice(start, rows_at_once))


def _in_order(data: pa.Table | Path) -> pa.Table | Path:
    return data if isinstance(data, Path) else sorted_rows(data)


def _winners(sources: Sequence[Source], at: int | None, spill: Path | None) -> Iterator[pa.Table]:
    """For each identity, in order, which source has its latest row (`source`) and where in it (`place`, from 0)."""
    import duckdb
    import pyarrow as pa

    config: dict[str, Any] = {"preserve_insertion_order": False, "temp_directory": str(spill or "")}
    parameters: list[Any] = []
    before: dict[str, Any] = {}
    try:
        with duckdb.connect(config=config | ({"memory_limit": MEMORY_LIMIT} if spill else {})) as connection:
            rows = " UNION ALL ".join(
                _select(connection, n, source, at, parameters) for n, source in enumerate(sources)
            )
            order = "key_class, key, timestamp DESC, node DESC, sequence DESC"
            query = f"SELECT key_class, key, source, place FROM ({rows}) ORDER BY {order}"
            for batch in connection.sql(query, params=parameters).to_arrow_reader(BATCH_ROWS):
                table = pa.Table.from_batches([batch])
                yield _firsts(table, before)
                before = table.select(list(IDENTITY)).slice(len(table) - 1).to_pylist()[0]
    except duckdb.OutOfMemoryException as error:
        hint = "Rewrite the archive first (`kvwal archive rewrite`), or merge where there is more memory."
        raise ArchiveError(f"The keys of the merge do not fit into {MEMORY_LIMIT} and the disk.", hint=hint) from error
    except duckdb.Error as error:
        raise _not_merged(str(error).splitlines()[0]) from error


def _firsts(table: pa.Table, before: dict[str, Any]) -> pa.Table:
    """Of rows in order, those whose identity is not that of the row before; `before` is the identity before the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = table.select(list(IDENTITY)).slice(0, 1).to_pylist()[0]
    return table.filter(pa.concat_arrays([pa.array([first != before]), pc.invert(same_as_before(table, IDENTITY))]))


def _not_merged(why: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"The rows could not be merged: {why}.", hint=DAMAGED_HINT)


def _select(connection: Any, number: int, source: Source, at: int | None, parameters: list[Any]) -> str:
    """The SELECT over one source; what it is compared with goes to `parameters`, never into the text."""
    import pyarrow as pa

    parameters.append(source.node)
    if isinstance(source.data, Path):
        parameters.append(_literal_path(source.data))
        origin = "read_parquet(?, file_row_number = true)"
    else:
        places = pa.array(range(len(source.data)), pa.int64())
        origin = f"rows{number}"
        connection.register(origin, source.data.drop(["value"]).append_column("file_row_number", places))
    parameters += [limit if limit is not None else MAX_NUMBER for limit in (source.up_to, at)]
    names = f"{number} AS source, file_row_number AS place, ?::VARCHAR AS node, key_class, key, timestamp, sequence"
    return f"SELECT {names} FROM {origin} WHERE sequence <= ? AND timestamp <= ?"


def _literal_path(path: Path) -> str:
    """A path that DuckDB takes as it stands: what would be a pattern is put in a class of its own."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


def _materialised(inputs: Sequence[_Input], winners: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows that these winners name, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    taken, positions = [], []
    for number in pc.unique(winners.column("source")).to_pylist():
        mine = pc.indices_nonzero(pc.equal(winners.column("source"), number))
        taken.append(inputs[number].take(winners.column("place").take(mine)))
        positions.append(mine)
    in_order = pc.sort_indices(pa.concat_arrays(positions))
    yield from pa.concat_tables(taken).take(in_order).combine_chunks().to_batches()


class _Input:
    """The rows of one source, taken from its beginning to its end."""

    def __init__(self, source: Source) -> None:
        self._node = source.node
        self._batches = _stream(source)
        self._batch: pa.RecordBatch | None = None
        self._start = 0
        self._last = -1

    def take(self, places: pa.ChunkedArray) -> pa.Table:
        """The rows at these places, which go on behind those taken before, because the source is sorted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (self._last < places[0].as_py() and pc.all(pc.less(places[:-1], places[1:]), min_count=0).as_py()):
            raise _not_merged(f"the rows of an object of {self._node} are not sorted by identity")
        self._last = places[-1].as_py()
        found = []
        while len(places):
            batch = self._reach(places[0].as_py())
            near = places.filter(pc.less(places, self._start + len(batch)))
            found.append(batch.take(pc.subtract(near, self._start).combine_chunks()))
            places = places.slice(len(near))
        return with_node(pa.Table.from_batches(found), self._node)

    def _reach(self, place: int) -> pa.RecordBatch:
        """Moves on to the batch that holds `place`."""
        while self._batch is None or place >= self._start + len(self._batch):
            self._start += len(self._batch) if self._batch else 0
            self._batch = next(self._batches, None)
            if self._batch is None:
                raise _not_merged(f"an object of {self._node} ends before row {place}")
        return self._batch


def _stream(source: Source) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(source.data, pa.Table):
        yield from source.data.to_batches()
        return
    rows_at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // source.row_bytes))
    try:
        with pq.ParquetFile(source.data, pre_buffer=False, buffer_size=READ_BUFFER_BYTES) as file:
            yield from file.iter_batches(batch_size=rows_at_once, columns=list(COLUMNS))
    except (pa.ArrowException, OSError) as error:
        raise _not_merged(str(error).splitlines()[0]) from error


def all_rows(sources: Sequence[tuple[str, pa.Table]], at: int | None = None) -> pa.Table:
    """Every row of these tables of a node, newest first; what stands in several of them only once.

    The same row is one of the same identity, node and sequence: rows that came from a snapshot share its last sequence.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    order = ("timestamp", "node", "sequence", *IDENTITY)
    tables = [with_node(table, node) for node, table in sources] or [node_schema().empty_table()]
    found = pa.concat_tables(tables).sort_by([(name, "descending") for name in order])
    if at is not None:
        found = found.filter(pc.less_equal(found.column("timestamp"), at))
    if len(found) < 2:
        return found
    repeated = same_as_before(found, ("node", "sequence", *IDENTITY))
    return found.filter(pa.concat_arrays([pa.array([True]), pc.invert(repeated)]))
