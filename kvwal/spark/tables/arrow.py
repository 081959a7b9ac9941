"""`kvwal.spark.table`: one table of Spark's records in a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvwal.errors import ConfigError
from kvwal.spark.tables.catalogue import TABLES
from kvwal.sql.typed import read_table

if TYPE_CHECKING:
    import pyarrow as pa

    from kvwal.location.cluster_store import QueryStore
    from kvwal.store.sync import Store

BUSINESS = "spark"
_PREFIX = "spark_"


def table(store: Store | QueryStore, name: str, columns: Iterable[str] | None = None) -> pa.Table:
    """A table of Spark's records, as docs/spark-metadata.md describes it: `name` is `jobs` or `spark_jobs`, say.

    `store` is one of `kvwal.open` or of `kvwal.connect`. With `columns`, only these are decoded. Rows are in the order of the
    records' keys. A store without records of Spark gives a table without rows. Raises `ConfigError` for an unknown name, which
    lists the names there are.
    """
    known = TABLES.get(name) or TABLES.get(_PREFIX + name)
    if known is None:
        names = ", ".join(each.removeprefix(_PREFIX) for each in TABLES)
        raise ConfigError(f"there is no table {name!r} of Spark's records.", hint=f"The tables: {names}.")
    wanted = known.schema.names if columns is None else list(columns)
    unknown = sorted(set(wanted) - set(known.schema.names))
    if unknown:
        raise ConfigError(
            f"{known.name} has no column {unknown[0]!r}.", hint=f"The columns: {', '.join(known.schema.names)}."
        )
    source = store.source()
    if BUSINESS not in source.businesses():
        return known.read([], wanted).select(wanted)
    with source.open_wanted(BUSINESS, known.keys.search) as pieces:
        return read_table(known, pieces, wanted).select(wanted)
