"""The merge: the latest entry of every identity, of all entries of all nodes.

The order is (timestamp, node, sequence), greatest first. The plain form streams in that order and keeps two sets; the
vectorised form compares the same triple in Arrow. Both give the latest row of every identity. A deleted row is given too, with
its flag, and the reader decides what the tombstone shadows. Merging is commutative, associative and idempotent, so overlapping
inputs do no harm.

The vectorised form reads all inputs in parallel. Each input is sorted by identity, newest first, so of the rows up to the
least of the inputs' last loaded rows none is missing, and they can be merged. An archive of any size passes through bounded
memory, also with any number of rows of one identity, and nothing is written to a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.parquet.rows import (
    COLUMNS,
    DAMAGED_HINT,
    IDENTITY,
    node_schema,
    same_as_before,
    sorted_rows,
    with_node,
)

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", "pa.Table", "pa.RecordBatch")

BATCH_ROWS = 64 << 10
BATCH_BYTES = 16 << 20
READ_BUFFER_BYTES = 256 << 10
BUDGET_BYTES = 64 << 20
"""Approximate limit of the rows and read-ahead bytes that all sources hold together. Each holds at least the pages it decodes."""
FEW_ROWS = 4 << 10
"""Rows in memory that are sorted, and not taken in turns."""
LEAST_READ_BYTES, MOST_READ_BYTES = 16 << 10, 1 << 20
_NEWEST_FIRST = (
    ("key_class", "ascending"), ("key", "ascending"),
    ("timestamp", "descending"), ("node", "descending"), ("sequence", "descending"),
)  # fmt: skip
Identity = tuple[str, bytes]
Position = tuple[str, bytes, int, int, int]
"""The place of a row in the order of the merge: its identity, and the negated timestamp, rank of the node's name and sequence."""


class Row(NamedTuple):
    """One entry, with the node and the sequence under which it was logged.

    `timestamp` is of the hybrid clock, `expires` is unix ms or 0.
    """

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
        """The identity: two rows with the same one are entries of the same key."""
        return self.key_class, self.key

    @property
    def age(self) -> tuple[int, str, int]:
        """The order of any two rows; greater is newer."""
        return self.timestamp, self.node, self.sequence


def newest_first(rows: Iterable[Row]) -> Iterator[Row]:
    """The first row of each identity, of rows that come newest first.

    A row whose identity is in the delete set or the data set is skipped. Of the others, a delete adds its identity to the
    delete set, a put to the data set.
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


class MergeSource(NamedTuple):
    """Rows of one node: a table in any order, open files of objects, or a stream of an object's rows.

    The keys of one file are all below those of the next. A stream is a function of the number of rows that a batch may have.
    Only sequences above `after` and up to `up_to` count. `row_bytes` is the average length of key and value. It decides how
    many rows are held at a time.
    """

    node: str
    data: pa.Table | Sequence[BinaryIO] | Callable[[int], Iterator[pa.RecordBatch]]
    up_to: int | None = None
    row_bytes: int = 128
    after: int = 0


def latest_table(sources: Sequence[MergeSource], at: int | None = None) -> pa.Table:
    """`latest_plain` over whole columns: a table of `SCHEMA` and `node`, sorted by identity."""
    import pyarrow as pa

    return pa.Table.from_batches(latest_batches(sources, at), schema=node_schema())


def latest_batches(sources: Sequence[MergeSource], at: int | None = None) -> Iterator[pa.RecordBatch]:
    """`latest_table` as a stream. Its memory grows with the number of sources only, and nothing is written to a disk.

    All sources are read in parallel, a few rows at a time. Raises ArchiveDamaged for a file that is not a sorted object.
    """
    if (few := _few_rows(sources, at)) is not None:
        yield from _batches(_latest([few], None, is_sorted=False), sources) if len(few) else ()
        return
    before: Identity | None = None
    for tables in _tables_in_order(sources, at):
        rows = _latest(tables, before)
        if len(rows):
            before = _identity(rows, len(rows) - 1)
            yield from _batches(rows, sources)


def all_batches(sources: Sequence[MergeSource]) -> Iterator[pa.RecordBatch]:
    """Every row of the sources as a stream, by identity. A row that several sources hold is given once; see `all_rows`.

    Memory and errors are those of `latest_batches`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for tables in _tables_in_order(sources, None):
        rows = _merged(tables)  # with all repetitions of a row, because these have one position
        repeated = same_as_before(rows, ("node", "sequence", *IDENTITY))
        yield from _batches(rows.filter(pa.concat_arrays([pa.array([True]), pc.invert(repeated)])), sources)


def _tables_in_order(sources: Sequence[MergeSource], at: int | None) -> Iterator[list[pa.Table]]:
    """The rows within the limits, in parts one after the other: of each part a sorted table of each source that has rows.

    Every row of a part is before those of the next part in the order of the merge. An identity may go on in the next part.
    """
    ranks = {node: rank for rank, node in enumerate(sorted({source.node for source in sources}))}
    inputs = [_Input(source, at, len(sources), ranks[source.node]) for source in sources]
    while inputs := [source_rows for source_rows in inputs if source_rows.load()]:
        end = min(source_rows.last for source_rows in inputs)
        tables = [source_rows.take(end) for source_rows in inputs]
        yield [table for table in tables if len(table)]


def _batches(rows: pa.Table, sources: Sequence[MergeSource]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of a number that fits the sources' longest rows."""
    rows_at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // max(source.row_bytes for source in sources)))
    for start in range(0, len(rows), rows_at_once):
        yield from rows.slice(start, rows_at_once).combine_chunks().to_batches()


def _merged(tables: list[pa.Table]) -> pa.Table:
    """All rows of sorted tables, sorted."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    rows = pa.concat_tables(tables).combine_chunks()
    return rows.take(_sort_indices(rows))


def _few_rows(sources: Sequence[MergeSource], at: int | None) -> pa.Table | None:
    """The rows within the limits, in no order, if all sources are tables with few rows; else None.

    A question about a few keys has some rows in each of many objects: to take these in turns takes longer than to sort them.
    """
    import pyarrow as pa

    tables = [(source, source.data) for source in sources if isinstance(source.data, pa.Table)]
    if len(tables) < len(sources) or sum(len(table) for _, table in tables) > FEW_ROWS:
        return None
    if sum(table.nbytes for _, table in tables) > BATCH_BYTES:
        return None
    found = [with_node(_within_limits(table, source, at), source.node) for source, table in tables]
    return pa.concat_tables(found) if found else node_schema().empty_table()


def _latest(tables: list[pa.Table], before: Identity | None, *, is_sorted: bool = True) -> pa.Table:
    """The latest row of every identity but `before`, of sorted tables, sorted. Only values of these rows are copied.

    A table of which not `is_sorted` may be in any order.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_tables(tables).combine_chunks()
    order = _sort_indices(rows) if len(tables) > 1 or not is_sorted else None
    identities = rows.select(list(IDENTITY)) if order is None else rows.select(list(IDENTITY)).take(order)
    first = pa.array([_identity(identities, 0) != before])
    chosen = pa.concat_arrays([first, pc.invert(same_as_before(identities, IDENTITY))])
    return rows.filter(chosen) if order is None else rows.take(order.filter(chosen))


def _sort_indices(rows: pa.Table) -> pa.Array:
    """The places of the rows in the order of the merge. Columns with one value only are not compared, which takes most time."""
    import pyarrow.compute as pc

    ends = {name: pc.min_max(rows.column(name)) for name in ("key_class", "node")}
    same = {name for name, end in ends.items() if end["min"] == end["max"]}
    return pc.sort_indices(rows, sort_keys=[key for key in _NEWEST_FIRST if key[0] not in same])


def _identity(rows: pa.Table | pa.RecordBatch, place: int) -> Identity:
    return rows.column("key_class")[place].as_py(), rows.column("key")[place].as_py()


def _within_limits(rows: R, source: MergeSource, at: int | None) -> R:
    """The rows of a source that count, up to the timestamp `at`."""
    import pyarrow.compute as pc

    for name, limit in (("sequence", source.up_to), ("timestamp", at)):
        if limit is not None:
            rows = rows.filter(pc.less_equal(rows.column(name), limit))
    return rows.filter(pc.greater(rows.column("sequence"), source.after)) if source.after else rows


def _not_merged(why: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"The rows could not be merged: {why}.", hint=DAMAGED_HINT)


class _Input:
    """The rows of one source that are within the limits, taken in order."""

    def __init__(self, source: MergeSource, at: int | None, inputs: int, rank: int) -> None:
        """`rank` is that of the source's node among the names of all nodes."""
        self._source = source
        self._rank = rank
        self._at = at
        self._batches = _stream(source, inputs)
        self._before: Position | None = None
        self._batch: pa.RecordBatch | None = None

    def load(self) -> bool:
        """Load rows if none are loaded, and return whether there are any. `last` is the position of the last one loaded."""
        while self._batch is None or not len(self._batch):
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._check_sorted(self._batch)
            self._batch = _within_limits(self._batch, self._source, self._at)
        self.last = self._position(self._batch, len(self._batch) - 1)
        return True

    def take(self, end: Position) -> pa.Table:
        """Remove and return the loaded rows up to the position `end`."""
        import pyarrow as pa

        batch = self._batch
        if batch is None:
            raise ValueError("no rows are loaded")
        low, high = 0, len(batch)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._position(batch, middle) <= end else (low, middle)
        self._batch = batch.slice(low)
        return with_node(pa.Table.from_batches([batch.slice(0, low)]), self._source.node)

    def _position(self, batch: pa.RecordBatch, place: int) -> Position:
        key_class, key = _identity(batch, place)
        timestamp, sequence = (batch.column(name)[place].as_py() for name in ("timestamp", "sequence"))
        return key_class, key, -timestamp, -self._rank, -sequence

    def _check_sorted(self, batch: pa.RecordBatch) -> None:
        """Check the order that the merge relies on: identities ascend, timestamps within one identity descend."""
        import pyarrow.compute as pc

        if not len(batch):
            return
        classes, keys, times = (batch.column(name) for name in ("key_class", "key", "timestamp"))
        class_goes_on, key_goes_on = pc.equal(classes[1:], classes[:-1]), pc.equal(keys[1:], keys[:-1])
        down = pc.or_(pc.less(keys[1:], keys[:-1]), pc.and_(key_goes_on, pc.greater(times[1:], times[:-1])))
        wrong = pc.or_(pc.less(classes[1:], classes[:-1]), pc.and_(class_goes_on, down))
        if wrong.true_count or (self._before is not None and self._position(batch, 0)[:3] < self._before[:3]):
            raise _not_merged(f"the rows of an object of {self._source.node} are not sorted by identity, newest first")
        self._before = self._position(batch, len(batch) - 1)


def _stream(source: MergeSource, inputs: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    share = BUDGET_BYTES // inputs
    rows_at_once = max(1, min(BATCH_ROWS, share // source.row_bytes))
    if isinstance(source.data, pa.Table):
        yield from sorted_rows(source.data).combine_chunks().to_batches(max_chunksize=rows_at_once)
        return
    if callable(source.data):
        yield from source.data(rows_at_once)
        return
    buffer_size = max(LEAST_READ_BYTES, min(MOST_READ_BYTES, share // len(COLUMNS)))
    try:
        for opened in source.data:
            with pq.ParquetFile(
                opened, pre_buffer=False, buffer_size=buffer_size, page_checksum_verification=True
            ) as file:
                yield from file.iter_batches(batch_size=rows_at_once, columns=list(COLUMNS))
    except (pa.ArrowException, OSError) as error:
        raise _not_merged(str(error).splitlines()[0]) from error


def all_rows(sources: Sequence[tuple[str, pa.Table]], at: int | None = None) -> pa.Table:
    """Every row of these (node, table) pairs, newest first. A row that several tables hold is given once.

    Two rows are the same if identity, node and sequence are equal: rows from one snapshot share its last sequence.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    order = ("timestamp", "node", "sequence", *IDENTITY)
    tables = [with_node(table, node) for node, table in sources] or [node_schema().empty_table()]
    rows = pa.concat_tables(tables)
    if at is not None:
        rows = rows.filter(pc.less_equal(rows.column("timestamp"), at))
    if len(rows) < 2:  # as of nearly every map that is asked for the marks of its destruction
        return rows
    rows = rows.sort_by([(name, "descending") for name in order])
    repeated = same_as_before(rows, ("node", "sequence", *IDENTITY))
    return rows.filter(pa.concat_arrays([pa.array([True]), pc.invert(repeated)]))
