"""Files of terms as they were before they had a format of their own: Parquet, a row for each row of a term."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kvwal.history.provenance.terms import TermRows
from kvwal.ports.locks import Lock

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_GROUP_ROWS = 1 << 12


class ParquetTerms:
    """A file of terms in Parquet. Any number of threads may use it. Its statistics, a row group for 4,096 rows, are in memory."""

    def __init__(self, opened: pq.ParquetFile) -> None:
        self._opened = opened
        self._lock = Lock()
        metadata = opened.metadata
        found = [metadata.row_group(n).column(0).statistics for n in range(metadata.num_row_groups)]
        self._firsts: list[int] = [each.min for each in found]
        self._lasts: list[int] = [each.max for each in found]

    def find(self, term: int) -> TermRows | None:
        """The rows of a term, None if no event has it. They may turn out to be none."""
        groups = range(bisect_left(self._lasts, term), bisect_right(self._firsts, term))
        return TermRows(len(groups) * _GROUP_ROWS, lambda: self._rows(term, groups)) if groups else None

    def table(self) -> tuple[pa.Array, pa.Array]:
        """All terms, and their rows."""
        with self._lock:
            table = self._opened.read()
        return table.column("term").combine_chunks(), table.column("row").combine_chunks()

    def _rows(self, term: int, groups: range) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            table = self._opened.read_row_groups(list(groups), use_threads=False)
        rows = table.column("row").filter(pc.equal(table.column("term"), pa.scalar(term, pa.uint64())))
        return rows.combine_chunks()
