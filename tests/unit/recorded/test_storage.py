"""The RDDs that Spark keeps: recorded with the stage that computes them, and marked when Spark is told to drop them."""

from __future__ import annotations

from typing import Any

import pytest

from kvwal.spark import records as rec
from kvwal.spark.projection.state import KEPT_BATCHES
from tests.support.spark_records import recorded_lines

QUERY, RUN = "5f3c7a1e-0000-0000-0000-000000000001", "5f3c7a1e-0000-0000-0000-000000000002"


def level(**flags: Any) -> dict[str, Any]:
    none = {"Use Disk": False, "Use Memory": False, "Use Off Heap": False, "Deserialized": False, "Replication": 1}
    return none | {name.replace("_", " "): value for name, value in flags.items()}


def rdd(number: int, storage: dict[str, Any], name: str = "pairs") -> dict[str, Any]:
    return {
        "RDD ID": number, "Name": name, "Callsite": "cache at a.py:4", "Parent IDs": [], "Storage Level": storage,
        "Number of Partitions": 4, "Number of Cached Partitions": 0, "Memory Size": 0, "Disk Size": 0,
    }  # fmt: skip


def stage(number: int, *rdds: dict[str, Any]) -> dict[str, Any]:
    info = {"Stage ID": number, "Stage Name": "s", "Number of Tasks": 4, "Submission Time": 2_000, "RDD Info": rdds}
    return {"Event": "SparkListenerStageSubmitted", "Stage Info": info}


def dropped(number: int) -> dict[str, Any]:
    return {"Event": "SparkListenerUnpersistRDD", "RDD ID": number}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"Use_Memory": True, "Deserialized": True}, "Memory Deserialized 1x Replicated"),
        ({"Use_Memory": True, "Use_Disk": True, "Replication": 2}, "Disk Memory Serialized 2x Replicated"),
        ({"Use_Memory": True, "Use_Off_Heap": True}, "Memory (off heap) Serialized 1x Replicated"),
        ({"Use_Disk": True}, "Disk Serialized 1x Replicated"),
    ],
)
def test_a_kept_rdd_has_the_level_that_sparks_page_shows(flags: dict[str, Any], text: str) -> None:
    found = recorded_lines(stage(3, rdd(7, level(**flags)), rdd(6, level())), times=2)
    kept = rec.Rdd(id=7, name="pairs", level=text, partitions=4, call_site="cache at a.py:4", stage=3)
    assert found["app/rdd/0000000007"] == kept
    assert found["app/stage/0000000003/0000"].rdds == [7]
    assert "app/rdd/0000000006" not in found


@pytest.mark.parametrize("times", [1, 2])
def test_an_rdd_keeps_its_first_stage_and_is_marked_when_it_is_dropped(times: int) -> None:
    kept = rdd(7, level(Use_Memory=True))
    found = recorded_lines(stage(3, kept), stage(4, kept), dropped(7), dropped(9), times=times)
    assert (found["app/rdd/0000000007"].stage, found["app/rdd/0000000007"].unpersisted) == (3, True)
    assert found["app/stage/0000000004/0000"].rdds == [7]
    assert "app/rdd/0000000009" not in found


def test_a_stage_names_the_newest_of_many_rdds() -> None:
    found = recorded_lines(stage(3, *(rdd(number, level(Use_Disk=True)) for number in range(250))))
    assert found["app/stage/0000000003/0000"].rdds == list(range(150, 250))


def batch(number: int, *, rdds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A batch of a streaming query with one job of one stage."""
    properties = {"streaming.sql.batchId": str(number), "sql.streaming.queryId": QUERY}
    progress = {"id": QUERY, "runId": RUN, "batchId": number, "timestamp": "2026-01-01T12:00:00.000Z"}
    begins = {
        "Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 1_000, "Stage IDs": [number],
        "Stage Infos": [{"Stage ID": number, "Number of Tasks": 4}], "Properties": properties,
    }  # fmt: skip
    ended = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return [begins, stage(number, *rdds), {"Event": ended, "progress": progress}]


def test_the_rdds_of_a_batch_that_is_dropped_are_dropped_with_it() -> None:
    of_batch, of_all = rdd(7, level(Use_Memory=True)), rdd(2, level(Use_Memory=True))
    first = [stage(999_999, of_all), *batch(0, rdds=[of_batch, of_all])]
    found = recorded_lines(*first, *batch(KEPT_BATCHES - 1, rdds=[]))
    assert {"app/rdd/0000000002", "app/rdd/0000000007"} < found.keys()
    found = recorded_lines(*first, *batch(KEPT_BATCHES, rdds=[]))
    assert "app/rdd/0000000002" in found
    assert not {"app/rdd/0000000007", "app/stage/0000000000/0000"} & found.keys()
