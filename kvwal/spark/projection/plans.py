"""The physical plan of an SQL execution: its reads, its writes and its metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvwal.spark.events.sql import PlanMetric, PlanNode
from kvwal.spark.records import Access, Metric, Sql, cut

MAX_METRICS = 600
MAX_ACCESSES = 100

_READ_NODES = (
    "Scan ",
    "BatchScan",
    "FileScan",
    "MicroBatchScan",
    "ContinuousScan",
    "InMemoryTableScan",
    "LocalTableScan",
)
_WRITE_NODES = (
    "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "WriteToDataSourceV2", "WriteToContinuousDataSource",
    "CreateTableAsSelect", "ReplaceTableAsSelect", "AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect",
)  # fmt: skip
_WRITING_COMMAND = re.compile(r"(?:Insert|Save|Write|AsSelect|Append|Merge|Copy)")
_INSERT = re.compile(
    r"Execute InsertIntoHadoopFsRelationCommand (?P<path>.*?), (?:false|true)\b(?P<rest>.*)", re.DOTALL
)
_FORMAT = re.compile(r", (?P<format>[A-Za-z][\w.]*), \[")
_BRACKETED = re.compile(r"\[(.*)\]", re.DOTALL)

# The metrics that count an access, by name: the first that the node has is taken.
ROWS = ("number of output rows",)
BYTES = ("size of files read", "written output")
FILES = ("number of files read", "number of written files")


def set_plan(sql: Sql, plan: PlanNode, text: str) -> None:
    """Replace the plan of the record. A metric that both plans have keeps its value."""
    counted = {metric.id: metric.value for metric in sql.metrics}
    nodes = list(_walk(plan))
    sql.plan = text
    sql.metrics = [metric for label, node in nodes for metric in _metrics(label, node.metrics, counted)][:MAX_METRICS]
    sql.reads = [_read(label, node) for label, node in nodes if node.node_name.startswith(_READ_NODES)][:MAX_ACCESSES]
    sql.writes = [_write(label, node) for label, node in nodes if _is_write(node.node_name)][:MAX_ACCESSES]


def add_metrics(sql: Sql, metrics: list[PlanMetric]) -> None:
    """Add metrics that Spark announced after the plan."""
    known = {metric.id for metric in sql.metrics}
    added = [metric for metric in metrics if metric.accumulator_id not in known]
    sql.metrics += _metrics("", added, {})[: max(0, MAX_METRICS - len(sql.metrics))]


def set_metrics(sql: Sql, totals: Mapping[int, int]) -> bool:
    """Set metrics, by accumulator id, to their totals. True if the plan has any of them."""
    changed = False
    for metric in sql.metrics:
        total = totals.get(metric.id)
        if total is not None:
            metric.value = total
            changed = True
    return changed


def total_accesses(sql: Sql) -> None:
    """Set rows, bytes and files of each access from the metrics of its node. A record without metrics stays as it is."""
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
    """All nodes, each with its label (number and name), parents first."""
    pending, number = [plan], 0
    while pending:
        node = pending.pop()
        number += 1
        yield f"{number} {cut(node.node_name.strip(), 200)}", node
        pending.extend(reversed(node.children))


def _metrics(label: str, metrics: list[PlanMetric], counted: Mapping[int, int | None]) -> list[Metric]:
    """The metrics of a node, without averages: the total of averages has no meaning."""
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
    return name.startswith(_WRITE_NODES) or (name.startswith("Execute ") and bool(_WRITING_COMMAND.search(name)))


def _write(label: str, node: PlanNode) -> Access:
    insert = _INSERT.match(node.simple_string)
    if insert is None:
        return Access(node.node_name.removeprefix("Execute ").strip(), cut(node.simple_string), label)
    form = _FORMAT.search(insert["rest"])
    return Access(form["format"].lower() if form else "files", cut(insert["path"]), label)
