"""What an SQL plan reads, writes and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvwal.spark.events import PlanMetric, PlanNode
from kvwal.spark.records import Access, Metric, Sql, cut

MAX_METRICS = 600
MAX_ACCESSES = 100

_READS = ("Scan ", "BatchScan", "FileScan", "MicroBatchScan", "ContinuousScan", "InMemoryTableScan", "LocalTableScan")
_WRITES = (
    "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "WriteToDataSourceV2", "WriteToContinuousDataSource",
    "CreateTableAsSelect", "ReplaceTableAsSelect", "AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect",
)  # fmt: skip
_WRITING_COMMAND = re.compile(r"(?:Insert|Save|Write|AsSelect|Append|Merge|Copy)")
_INSERT = re.compile(
    r"Execute InsertIntoHadoopFsRelationCommand (?P<where>.*?), (?:false|true)\b(?P<rest>.*)", re.DOTALL
)
_FORMAT = re.compile(r", (?P<format>[A-Za-z][\w.]*), \[")
_BRACKETED = re.compile(r"\[(.*)\]", re.DOTALL)

ROWS = ("number of output rows",)
BYTES = ("size of files read", "written output")
FILES = ("number of files read", "number of written files")


def describe(sql: Sql, plan: PlanNode, text: str) -> None:
    """Put a new plan into the record; what was counted so far stays with the counters that the new plan still has."""
    counted = {metric.id: metric.value for metric in sql.metrics}
    nodes = list(_walk(plan))
    sql.plan = text
    sql.metrics = [metric for label, node in nodes for metric in _metrics(label, node.metrics, counted)][:MAX_METRICS]
    sql.reads = [_read(label, node) for label, node in nodes if node.node_name.startswith(_READS)][:MAX_ACCESSES]
    sql.writes = [_write(label, node) for label, node in nodes if _is_write(node.node_name)][:MAX_ACCESSES]


def add_metrics(sql: Sql, metrics: list[PlanMetric]) -> None:
    """Counters that came after the plan."""
    known = {metric.id for metric in sql.metrics}
    fresh = [metric for metric in metrics if metric.accumulator_id not in known]
    sql.metrics += _metrics("", fresh, {})[: max(0, MAX_METRICS - len(sql.metrics))]


def count(sql: Sql, values: Mapping[int, int]) -> bool:
    """Set counters, by accumulator, to their totals. True if the plan has any of them."""
    found = False
    for metric in sql.metrics:
        value = values.get(metric.id)
        if value is not None:
            metric.value = value
            found = True
    return found


def total_accesses(sql: Sql) -> None:
    """Bring rows, bytes and files of what is read and written up to the counters, if it has any."""
    if not sql.metrics:
        return
    for access in (*sql.reads, *sql.writes):
        counted = {metric.name: metric.value for metric in sql.metrics if metric.node == access.node}
        access.rows = _first(counted, ROWS)
        access.bytes = _first(counted, BYTES)
        access.files = _first(counted, FILES)


def _first(counted: Mapping[str, int | None], names: tuple[str, ...]) -> int:
    return next((value for name in names if (value := counted.get(name)) is not None), -1)


def _walk(plan: PlanNode) -> Iterator[tuple[str, PlanNode]]:
    """Every node with its label (number and name), parents first."""
    pending, number = [plan], 0
    while pending:
        node = pending.pop()
        number += 1
        yield f"{number} {cut(node.node_name.strip(), 200)}", node
        pending.extend(reversed(node.children))


def _metrics(label: str, metrics: list[PlanMetric], counted: Mapping[int, int | None]) -> list[Metric]:
    """Averages are left out: their totals mean nothing."""
    return [
        Metric(label, metric.name, metric.metric_type, metric.accumulator_id, counted.get(metric.accumulator_id))
        for metric in sorted(metrics, key=lambda metric: metric.accumulator_id)
        if metric.metric_type != "average"
    ]


def _read(label: str, node: PlanNode) -> Access:
    name = node.node_name.strip()
    location = _BRACKETED.search(node.metadata.get("Location", ""))
    if location:
        return Access(name.removeprefix("Scan ").split(" ")[0] or name, cut(location[1]), label)
    return Access(name, cut(node.simple_string), label)


def _is_write(name: str) -> bool:
    return name.startswith(_WRITES) or (name.startswith("Execute ") and bool(_WRITING_COMMAND.search(name)))


def _write(label: str, node: PlanNode) -> Access:
    insert = _INSERT.match(node.simple_string)
    if insert is None:
        return Access(node.node_name.removeprefix("Execute ").strip(), cut(node.simple_string), label)
    form = _FORMAT.search(insert["rest"])
    return Access(form["format"].lower() if form else "files", cut(insert["where"]), label)
