"""The table `openlineage_lineage`: a row for each data set that a run read or wrote, as imported events told."""

from __future__ import annotations

from typing import Any

from kvwal.lineage.openlineage.runs import PARTS, STATUSES, LineageRecord
from kvwal.spark.tables.columns import Moment
from kvwal.spark.tables.key_spans import spans_of_keys
from kvwal.spark.tables.lineage import DatasetTable


def _of_told(key: str, told: LineageRecord) -> tuple[Any, ...]:
    status = STATUSES.get(told.state, "")
    return told.namespace, told.job, told.run, status, told.started, told.ended, told.parent, told.producer


_TABLE = DatasetTable(
    "openlineage_lineage",
    b"^(?:" + "|".join(PARTS).encode() + b")",
    LineageRecord,
    {
        "job_namespace": str, "job": str, "run": str, "status": str, "started": Moment, "ended": Moment, "parent": str,
        "producer": str,
    },
    _of_told,
    spans_of_keys,
)  # fmt: skip
TABLES = {_TABLE.name: _TABLE}
"""The tables by name."""
