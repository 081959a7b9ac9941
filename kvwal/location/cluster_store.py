"""The store that `kvwal.connect` gives: the maps of a cluster, and SQL over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvwal.client.store import ClusterStore
from kvwal.location.cluster import ClusterMaps
from kvwal.location.sql_source import LocationSource
from kvwal.sql.engine import answered

if TYPE_CHECKING:
    import pyarrow as pa


class QueryStore(ClusterStore):
    """A connection to a cluster. Any number of threads may use it; leaving the `with` block closes it."""

    def sql(self, statement: str) -> pa.Table:
        """The answer to one statement of DuckDB's SQL, as a table of Arrow (`.to_pandas()`, `polars.from_arrow`).

        Tables are those of `kvwal query`: each map, the queues and named maps of a business with their histories, and the typed
        tables of Spark's records. Moments have the zone UTC. Of a map only the keys that the statement asks for are transferred,
        if its WHERE says so. Rows need not be of one moment. Raises `ConfigError` if DuckDB refuses the statement, for one that
        does not read (INSERT, CREATE, COPY …), and for `<map>_history`.
        """
        with answered({"": self.source(statement)}, statement) as answer:
            return answer.table()

    def source(self, statement: str = "") -> LocationSource:
        """The businesses as SQL reads them. Entries that `statement` does not ask for may be missing."""
        return ClusterMaps(self).source(statement)
