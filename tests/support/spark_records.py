"""Records of Spark of every kind, as they are stored, and a map of records whose user is killed."""

from __future__ import annotations

import json
from typing import Any

from kvwal.spark import records as rec
from kvwal.spark.events.parser import parse_line
from kvwal.spark.lineage.edges import edge_entries
from kvwal.spark.projection.projection import Projection

NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z"""


def records() -> dict[str, Any]:
    """The records of two applications, of every kind."""
    error = rec.Error("no space left", "at write")
    access = rec.Access("parquet", "s3://lake/delays", "7", rows=10, bytes=200)
    found = {
        "a/app": rec.Application(id="a", name="report", user="ada", started=NOON, ended=NOON + 5, run_ms=7_200_000),
        "a/env": rec.Environment(spark={"spark.app.name": "report", "k": "1"}, jvm={"java.version": "17"}),
        "a/executor/000001": rec.Executor(id="1", host="h", cores=2, added=NOON, tasks=4, failed=1),
        "a/job/0000000003": rec.Job(id=3, name="collect at a.py:1", description="delays", started=NOON, duration_ms=5),
        "a/job/0000000004": rec.Job(id=4, name="save at a.py:2", status="FAILED", ended=NOON, error=error, stages=[8, 9]),
        "a/stage/0000000008/0000": rec.Stage(id=8, tasks=4, skew=2.5, slowest=rec.Slowest(ms=9, partition=3, host="h")),
        "a/rdd/0000000002": rec.Rdd(id=2, name="delays", level="Memory Serialized 1x Replicated", partitions=4, stage=8),
        "a/sql/0000000001": rec.Sql(
            id=1, description="delays", jobs=[3, 4], reads=[rec.Access("csv", "in")], writes=[access]
        ),
        "a/stream/q": rec.Stream(id="q", name="counts", started="2026-01-01T12:00:00.000Z"),
        "a/stream/q/000000000000": rec.Batch(
            query="q", name="counts", at="2026-01-01T12:00:00.250Z", steps_ms={"addBatch": 7},
            sources=[rec.BatchSource("rate", "1", "2", "2", 3)],
        ),
        "b/1/app": rec.Application(id="b", attempt="1", name="load"),
        "b/1/env": rec.Environment(spark={"spark.app.name": "load", "k": "1"}),
    }  # fmt: skip
    values = {key: rec.to_value(record) for key, record in found.items()}
    ended = rec.Sql(
        id=2, root=1, status="SUCCEEDED", ended=NOON + 5, reads=[rec.Access("csv", "file:/in")], writes=[access]
    )
    return values | edge_entries({"a/sql/0000000002": rec.to_value(ended)})


def recorded_lines(*events: dict[str, Any], times: int = 1, stored: dict[str, Any] | None = None) -> dict[str, Any]:
    """The records of the application `app` after these lines of an event log, which are read `times` times.

    The records, `stored` ones among them, are stored after each line, and read again by a reader that goes on.
    """
    stored = {} if stored is None else stored
    for told in events * times:
        line = json.dumps(told, separators=(",", ":")).encode()
        event = parse_line(line)
        if event is not None:
            projection = Projection("app", stored.get)
            projection.apply(event, len(line))
            stored |= projection.take()
            for key in projection.take_dropped():
                stored.pop(key, None)
    return {key: rec.from_value(value) for key, value in stored.items()}


class Killed(Exception):
    """The process is gone."""


class DyingMap:
    """A map whose user is killed at each transaction: first just before it, and when it is tried again, just after it."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self._tried = False
        self.kills = 0
        self.get, self.scan = records.get, records.scan

    def __len__(self) -> int:
        return len(self._records)

    def put_many(self, entries: dict[str, Any]) -> None:
        self.submit_many(entries, [])

    def submit_many(self, entries: dict[str, Any], deletes: list[str]) -> None:
        self.kills += 1
        self._tried = not self._tried
        if not self._tried:
            self._records.submit_many(entries, deletes).result()
        raise Killed
