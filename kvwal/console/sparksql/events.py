"""The start of an SQL execution with the fields that Spark's REST API shows and records do not hold."""

from __future__ import annotations

import msgspec

from kvwal.spark.events.base import EventStruct, Int
from kvwal.spark.events.sql import PlanNode


class SqlStart(EventStruct, rename="camel"):
    """An SQL execution begins."""

    execution_id: Int
    root_execution_id: Int | None = None
    description: str = ""
    physical_plan_description: str = ""
    spark_plan_info: PlanNode = msgspec.field(default_factory=PlanNode)
    time: Int = 0
    modified_configs: dict[str, str] = msgspec.field(default_factory=dict)
    query_id: str | None = None
