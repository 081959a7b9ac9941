"""The merge: of all entries of all nodes, the latest of every identity.

Order is (timestamp, node, sequence), greatest first. The plain form streams in that order and keeps two sets; the
vectorised form compares the same triple in DuckDB. Both give every identity's latest row, a deleted one too, flagged:
what a tombstone hides is the business of whoever reads on. Merging is commutative, associative and idempotent, so
overlapping inputs do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.errors import ArchiveDamaged
from archive.layout import MAX_NUMBER
from archive.rows import COLUMNS, DAMAGED_HINT, node_schema

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 100_000
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
    """Rows of one node: a table of them, or Parquet files; only sequences up to `up_to` count, if it is given."""

    node: str
    data: pa.Table | Sequence[Path]
    up_to: int | None = None


def latest_table(sources: Sequence[Source], at: int | None = None) -> pa.Table:
    """`latest_plain` over whole columns: a table of `SCHEMA` and `node`, sorted by identity."""
    return latest_reader(sources, at).read_all()


def latest_reader(sources: Sequence[Source], at: int | None = None, spill: Path | None = None) -> pa.RecordBatchReader:
    """`latest_table` as a stream of batches; with the folder `spill`, in bounded memory.

    All files were read when this returns. Raises ArchiveDamaged for a file that DuckDB cannot read.
    """
    newest = "PARTITION BY key_class, key ORDER BY timestamp DESC, node DESC, sequence DESC"
    return _query(sources, f"QUALIFY row_number() OVER ({newest}) = 1 ORDER BY key_class, key", at, spill)


def all_rows(sources: Sequence[Source], at: int | None = None) -> pa.Table:
    """Every row of the sources, newest first; what stands in several of them only once."""
    return _query(sources, "GROUP BY ALL ORDER BY timestamp DESC, node DESC, sequence DESC", at, None).read_all()


def _query(sources: Sequence[Source], clauses: str, at: int | None, spill: Path | None) -> pa.RecordBatchReader:
    import pyarrow as pa

    counted = [source for source in sources if len(source.data)]
    if not counted:
        return node_schema().empty_table().to_reader()
    batches = _batches(counted, clauses, at, spill)
    first = next(batches, None)
    return pa.RecordBatchReader.from_batches(node_schema(), chain([first] if first else [], batches))


def _batches(sources: Sequence[Source], clauses: str, at: int | None, spill: Path | None) -> Iterator[pa.RecordBatch]:
    import duckdb
    import pyarrow as pa

    config: dict[str, Any] = {"preserve_insertion_order": False, "temp_directory": str(spill or "")}
    parameters: list[Any] = []
    try:
        with duckdb.connect(config=config | ({"memory_limit": MEMORY_LIMIT} if spill else {})) as connection:
            rows = " UNION ALL ".join(
                _select(connection, f"rows{n}", source, at, parameters) for n, source in enumerate(sources)
            )
            query = f"SELECT {', '.join(node_schema().names)} FROM ({rows}) {clauses}"
            for batch in connection.sql(query, params=parameters).to_arrow_reader(BATCH_ROWS):
                yield batch.cast(node_schema())
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise ArchiveDamaged(
            f"The rows could not be merged: {str(error).splitlines()[0]}.", hint=DAMAGED_HINT
        ) from error


def _select(connection: Any, table: str, source: Source, at: int | None, parameters: list[Any]) -> str:
    """The SELECT over one source; what it is compared with goes to `parameters`, never into the text."""
    import pyarrow as pa

    parameters.append(source.node)
    if isinstance(source.data, pa.Table):
        connection.register(table, source.data)
        origin = table
    else:
        parameters.append([_literal_path(path) for path in source.data])
        origin = "read_parquet(?)"
    parameters += [limit if limit is not None else MAX_NUMBER for limit in (source.up_to, at)]
    return f"SELECT {', '.join(COLUMNS)}, ?::VARCHAR AS node FROM {origin} WHERE sequence <= ? AND timestamp <= ?"


def _literal_path(path: Path) -> str:
    """A path that DuckDB takes as it stands: what would be a pattern is put in a class of its own."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))
