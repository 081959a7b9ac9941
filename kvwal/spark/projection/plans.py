"""The physical plan of an SQL execution: its reads, its writes and its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kvwal.spark.events.sql import PlanMetric, PlanNode
from kvwal.spark.lineage import plan_nodes
from kvwal.spark.records import Metric, PlanEdge, Sql, cut

MAX_METRICS = 600
MAX_NODES = 600
MAX_ACCESSES = 100
_MEASURED = ("size", "timing", "nsTiming")
_NO_FLOOR = -(1 << 63)

# The metrics that count an access, by name: the first that the node has is taken.
ROWS = ("number of output rows",)
BYTES = ("size of files read", "written output")
FILES = ("number of files read", "number of written files")


def set_plan(sql: Sql, plan: PlanNode, text: str) -> None:
    """Replace the plan of the record. A metric that it had before stays, with its value, and without its node if that is gone."""
    counted = {metric.id: metric.value for metric in sql.metrics}
    nodes = list(_distinct(_walk(plan)))
    sql.plan = text
    _set_tree(sql, plan)
    metrics = [metric for label, node in nodes for metric in _metrics(label, node.metrics, counted)]
    known = {metric.id for metric in metrics}
    gone = [msgspec.structs.replace(metric, node="") for metric in sql.metrics if metric.id not in known]
    sql.metrics = [*metrics, *gone][:MAX_METRICS]
    sql.reads = [plan_nodes.read_access(label, node) for label, node in nodes if _is_source(node)][:MAX_ACCESSES]
    sql.writes = [
        plan_nodes.write_access(label, node, text) for label, node in nodes if plan_nodes.is_write(node.node_name)
    ][:MAX_ACCESSES]


def drop_plan(sql: Sql) -> None:
    """Drop the plan, its nodes, its metrics and its settings."""
    sql.plan, sql.nodes, sql.edges, sql.nodes_left, sql.metrics, sql.settings = "", [], [], 0, [], {}


def share_table(root: Sql, part: Sql) -> bool:
    """Let an execution and a part of it name the table that both write. True if the name at the root has changed.

    `CREATE TABLE … AS SELECT` names the table, and a part of it names the path. `saveAsTable` names the table by its last name
    only, and a part of it by its whole name.
    """
    if len(root.writes) != 1 or len(part.writes) != 1:
        return False
    whole, own = root.writes[0], part.writes[0]
    if own.table.endswith(f".{whole.table}") and whole.table:
        whole.table = own.table
        return True
    own.table = own.table or whole.table
    return False


def add_metrics(sql: Sql, metrics: list[PlanMetric]) -> None:
    """Add metrics that Spark announced after the plan."""
    known = {metric.id for metric in sql.metrics}
    added = [metric for metric in metrics if metric.accumulator_id not in known]
    sql.metrics += _metrics("", added, {})[: max(0, MAX_METRICS - len(sql.metrics))]


def drop_unused_metrics(sql: Sql) -> None:
    """Drop the metrics without a node that have counted nothing: the plan is the final one."""
    sql.metrics = [metric for metric in sql.metrics if metric.node or metric.value is not None]


def floors(sql: Sql) -> dict[int, int]:
    """The metrics of the plan, by accumulator id, each with the least value that counts.

    Spark before version 3 begins a time and a size at -1, and so -1 says that a task has measured nothing.
    """
    return {metric.id: 0 if metric.type in _MEASURED else _NO_FLOOR for metric in sql.metrics}


def set_metrics(sql: Sql, totals: Mapping[int, int]) -> bool:
    """Set metrics, by accumulator id, to their totals. True if the plan has any of them."""
    found = [metric for metric in sql.metrics if metric.id in totals]
    for metric in found:
        metric.value = totals[metric.id]
    return bool(found)


def add_to_metrics(sql: Sql, changes: Mapping[int, int]) -> bool:
    """Add to metrics, by accumulator id. True if the plan has any of them."""
    found = [metric for metric in sql.metrics if metric.id in changes]
    for metric in found:
        metric.value = (metric.value or 0) + changes[metric.id]
    return bool(found)


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


def _set_tree(sql: Sql, plan: PlanNode) -> None:
    """Set the nodes and the edges. A node that is used twice, as `_distinct` says, has two edges, and nodes beneath it once."""
    first: dict[tuple[int, ...], int] = {}
    sql.nodes, sql.edges, sql.nodes_left = [], [], 0
    pending, number = [(plan, 0, True)], 0
    while pending:
        node, parent, is_first = pending.pop()
        number += 1
        counters = tuple(metric.accumulator_id for metric in node.metrics)
        known = first.get(counters, 0) if counters else 0
        if is_first and not known:
            first[counters] = number
            if len(sql.nodes) < MAX_NODES:
                sql.nodes.append(_label(number, node))
            else:
                sql.nodes_left += 1
        if is_first and parent and len(sql.edges) < MAX_NODES:
            sql.edges.append(PlanEdge(known or number, parent))
        pending.extend((child, number, is_first and not known) for child in reversed(node.children))


def _label(number: int, node: PlanNode) -> str:
    return f"{number} {cut(node.node_name.strip(), 200)}"


def _walk(plan: PlanNode) -> Iterator[tuple[str, PlanNode]]:
    """All nodes, each with its label (number and name), parents first."""
    pending, number = [plan], 0
    while pending:
        node = pending.pop()
        number += 1
        yield _label(number, node), node
        pending.extend(reversed(node.children))


def _distinct(nodes: Iterable[tuple[str, PlanNode]]) -> Iterator[tuple[str, PlanNode]]:
    """The nodes without those that stand for a node that was there before: a cached plan that is used twice has each node twice.

    Two nodes are the same if they have the same metrics. A node without metrics is like no other.
    """
    seen: set[tuple[int, ...]] = set()
    for label, node in nodes:
        counters = tuple(metric.accumulator_id for metric in node.metrics)
        if not counters or counters not in seen:
            seen.add(counters)
            yield label, node


def _is_source(node: PlanNode) -> bool:
    """Whether a node reads data. The scan of a cached plan does not: the nodes beneath it do."""
    return plan_nodes.is_read(node.node_name) and not (node.node_name.startswith(plan_nodes.CACHED) and node.children)


def _metrics(label: str, metrics: list[PlanMetric], counted: Mapping[int, int | None]) -> list[Metric]:
    """The metrics of a node, without averages: the total of averages has no meaning."""
    return [
        Metric(label, metric.name, metric.metric_type, metric.accumulator_id, counted.get(metric.accumulator_id))
        for metric in sorted(metrics, key=lambda metric: metric.accumulator_id)
        if metric.metric_type != "average"
    ]
