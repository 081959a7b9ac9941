"""The nodes and the edges of a plan, and the settings that it was made with."""

from __future__ import annotations

from typing import Any

from kvwal.spark import records as rec
from tests.support.spark_records import recorded_lines

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
KEY = "app/sql/0000000000"


def node(name: str, *children: dict[str, Any], counter: int = 0) -> dict[str, Any]:
    metrics = [{"name": "number of output rows", "accumulatorId": counter, "metricType": "sum"}] if counter else []
    return {"nodeName": name, "simpleString": name, "children": children, "metadata": {}, "metrics": metrics}


def starts(plan: dict[str, Any], description: str = "a query", **settings: str) -> dict[str, Any]:
    return {
        "Event": SQL + "ExecutionStart", "executionId": 0, "description": description, "details": "",
        "physicalPlanDescription": "== Physical Plan ==", "sparkPlanInfo": plan, "time": 1_000,
        "modifiedConfigs": settings,
    }  # fmt: skip


def edges(*pairs: tuple[int, int]) -> list[rec.PlanEdge]:
    return [rec.PlanEdge(child, parent) for child, parent in pairs]


def test_a_plan_has_its_nodes_and_its_edges() -> None:
    plan = node("Join", node("Sort", node("Scan parquet ", counter=4)), node("Range", counter=5), counter=6)
    sql = recorded_lines(starts(plan), times=2)[KEY]
    assert sql.nodes == ["1 Join", "2 Sort", "3 Scan parquet", "4 Range"]
    assert sql.edges == edges((2, 1), (3, 2), (4, 1))
    assert {metric.node for metric in sql.metrics} <= set(sql.nodes)


def test_a_node_that_is_used_twice_has_two_edges() -> None:
    cached = node("InMemoryTableScan", node("Project", node("Range", counter=5)), counter=4)
    sql = recorded_lines(starts(node("Union", cached, cached, node("Range", counter=7))))[KEY]
    assert sql.nodes == ["1 Union", "2 InMemoryTableScan", "3 Project", "4 Range", "8 Range"]
    assert sql.edges == edges((2, 1), (3, 2), (4, 3), (2, 1), (8, 1))


def test_the_tree_is_that_of_the_last_plan() -> None:
    update = {
        "Event": SQL + "AdaptiveExecutionUpdate", "executionId": 0, "physicalPlanDescription": "", "sparkPlanInfo": node("B"),
    }  # fmt: skip
    sql = recorded_lines(starts(node("A", node("C"))), update)[KEY]
    assert (sql.nodes, sql.edges) == (["1 B"], [])


def test_nodes_are_bounded_and_the_rest_is_counted() -> None:
    sql = recorded_lines(starts(node("Union", *(node(f"Range {number}") for number in range(900)))))[KEY]
    assert (len(sql.nodes), sql.nodes_left, len(sql.edges)) == (600, 301, 600)


def test_later_batches_of_a_stream_do_not_keep_the_tree() -> None:
    query = "5f3c7a1e-0000-0000-0000-000000000001"
    description = f"counts\nid = {query}\nrunId = {query}\nbatch = 1"
    ended = {"Event": SQL + "ExecutionEnd", "executionId": 0, "time": 2_000, "errorMessage": ""}
    sql = recorded_lines(starts(node("A", node("B")), description, k="1"), ended)[KEY]
    assert (sql.plan, sql.nodes, sql.edges, sql.nodes_left, sql.settings) == ("", [], [], 0, {})


def test_an_execution_has_the_settings_of_its_session_without_secrets() -> None:
    changed = {"spark.sql.shuffle.partitions": "7", "spark.sql.catalog.c.password": "hush"}
    sql = recorded_lines(starts(node("A"), **changed), times=2)[KEY]
    assert sql.settings == {
        "spark.sql.catalog.c.password": "*********(redacted)", "spark.sql.shuffle.partitions": "7",
    }  # fmt: skip
    many = {f"spark.sql.name-{number}": "1" for number in range(300)}
    assert len(recorded_lines(starts(node("A"), **many))[KEY].settings) == 100
