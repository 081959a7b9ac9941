"""What is said of a data set: the steps of the walk from it, in an order of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kvwal
from kvwal.spark import index
from kvwal.spark.records import Access, Application, Sql, to_value
from tests.support.cli import kvwal as command


def test_steps_come_by_distance_and_name_not_in_the_order_of_plans(tmp_path: Path) -> None:
    executions = [(["/z", "/a", "/m"], ["/made"]), (["/y", "/0"], ["/z"]), (["/made"], ["/c", "/b"])]
    records: dict[str, Any] = {"app-1/app": to_value(Application(id="app-1", name="report", status="SUCCEEDED"))}
    for number, (reads, writes) in enumerate(executions):
        records[f"app-1/sql/{number:010}"] = to_value(
            Sql(id=number, root=number, description=f"step {number}", status="SUCCEEDED", ended=1_767_225_600_000,
                reads=[Access("parquet", each) for each in reads], writes=[Access("parquet", each) for each in writes])
        )  # fmt: skip
    with kvwal.open(tmp_path, node="recorder", archive=None) as store:
        records |= index.index_entries(records) | index.mark_of(store.map("spark"), "recorder")
        store.map("spark").put_many(records)
    ran = command("lineage", tmp_path, "/made", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert {way: [(step["depth"], step["name"]) for step in told[way]] for way in ("up", "down")} == {
        "up": [(1, "/a"), (1, "/m"), (1, "/z"), (2, "/0"), (2, "/y")],
        "down": [(1, "/b"), (1, "/c")],
    }
