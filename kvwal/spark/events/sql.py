"""Events of SQL executions: physical plans and their metrics."""

from __future__ import annotations

import msgspec

from kvwal.spark.events.base import EventStruct, Int


class PlanMetric(EventStruct, rename="camel"):
    """A metric of a plan node."""

    name: str = ""
    accumulator_id: Int = -1
    metric_type: str = ""


class PlanNode(EventStruct, rename="camel"):
    """A node of a physical plan. `children` are the nodes that it reads from."""

    node_name: str = ""
    simple_string: str = ""
    children: list[PlanNode] = msgspec.field(default_factory=list)
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlStart(EventStruct, rename="camel"):
    """An SQL execution begins."""

    execution_id: Int
    description: str = ""
    details: str = ""
    physical_plan_description: str = ""
    spark_plan_info: PlanNode = msgspec.field(default_factory=PlanNode)
    time: Int = 0
    root_execution_id: Int | None = None
    modified_configs: dict[str, str] = msgspec.field(default_factory=dict)


class SqlPlanUpdate(EventStruct, rename="camel"):
    """Adaptive execution replaced the plan."""

    execution_id: Int
    physical_plan_description: str = ""
    spark_plan_info: PlanNode = msgspec.field(default_factory=PlanNode)


class SqlMetricsAdded(EventStruct, rename="camel"):
    """Adaptive execution added metrics to the plan."""

    execution_id: Int
    sql_plan_metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlDriverMetrics(EventStruct, rename="camel"):
    """Metrics that the driver counts, as pairs of accumulator id and value."""

    execution_id: Int
    accum_updates: list[tuple[Int, Int]] = msgspec.field(default_factory=list)


class SqlEnd(EventStruct, rename="camel"):
    """An SQL execution ends. `error_message` is empty where it succeeded, and missing before Spark 3.4."""

    execution_id: Int
    time: Int = 0
    error_message: str | None = None
