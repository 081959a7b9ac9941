"""The export as events of OpenLineage: each event and each of its facets is valid by the published schemas."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked
from kvwal.lineage.openlineage.facets import _VERSIONS
from kvwal.spark import records as rec
from kvwal.spark.index import node_of_mark
from tests.support.cli import kvwal as command
from tests.support.lineage.events import event
from tests.support.lineage.published import facets, faults
from tests.support.spark_records import NOON

CSV = rec.Access("csv", "file:/in put/ü", "1", rows=0, bytes=0, files=0)
TABLE = rec.Access(
    "parquet", "s3a://lake/delays/day=1", "7", rows=10, bytes=200, files=1, table="spark_catalog.default.delays"
)
NO_STACK, STACK = rec.Error("no space left"), rec.Error("no space \x1b[31mleft", "at write\n\tat main")


def applications() -> dict[str, Any]:
    """Applications of every status, each with an execution, a job and a stream that read and write."""
    found: dict[str, Any] = {}
    for status, error in (("RUNNING", None), ("SUCCEEDED", None), ("FAILED", STACK), ("KILLED", NO_STACK)):
        app, ended = status.lower(), 0 if status == "RUNNING" else NOON + 5
        made = {
            f"{app}/app": rec.Application(
                id=app, name=app, started=NOON, ended=ended, status=status, error=error, spark_version="4.3.0"
            ),
            f"{app}/sql/0000000001": rec.Sql(
                id=1, root=1, started=NOON, ended=ended, status=status, error=error, reads=[CSV], writes=[TABLE]
            ),
            f"{app}/job/0000000003": rec.Job(
                id=3, started=NOON, ended=ended, status=status, error=error, reads=[CSV, TABLE], writes=[CSV]
            ),
            f"{app}/stream/q": rec.Stream(id="q", started=NOON, ended=ended, status=status, error=error),
            f"{app}/stream/q/000000000000": rec.Batch(
                query="q", at=NOON, sources=[rec.BatchSource("FileStreamSource[file:/in]", "", "", "", 3)]
            ),
        }
        found |= {key: rec.to_value(record) for key, record in made.items()}
    return found


def exported(root: Path) -> list[dict[str, Any]]:
    ran = command("export", "openlineage", root)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_every_event_and_facet_is_valid_by_the_published_schemas(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("spark").put_many(applications())
        EventStore(store.map("openlineage"), node_of_mark(store)).put([checked(event(inputs=["/b"], outputs=["/c"]))])
    events = exported(tmp_path)
    assert [(each["job"]["name"], each["eventTime"], faulty) for each in events if (faulty := faults(each))] == []
    assert {place.rpartition(".")[2] for each in events for place, _ in facets(each)} == _VERSIONS.keys()
    assert {each["eventType"] for each in events} == {"START", "COMPLETE", "FAIL", "ABORT"}
    assert {facet["jobType"] for each in events for place, facet in facets(each) if "jobType" in place} == {
        "APPLICATION", "SQL_JOB", "RDD_JOB", "STREAMING_QUERY"
    }  # fmt: skip


def test_the_check_finds_what_the_published_schemas_do_not_allow(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("spark").put_many({key: value for key, value in applications().items() if key.startswith("failed/")})
    failed = next(each for each in exported(tmp_path) if each["eventType"] == "FAIL")
    assert faults(failed) == []
    told = failed["run"]["facets"]["errorMessage"]
    for wrong in (
        {"message": 7},
        {"_schemaURL": told["_schemaURL"].replace("1-0-1", "9-9-9")},
        {"_producer": "no uri"},
        {"stack": "of another name"},
    ):
        changed = deepcopy(failed)
        changed["run"]["facets"]["errorMessage"] = told | wrong
        assert faults(changed), wrong
    assert faults({**failed, "eventTime": "yesterday"})
    assert faults({name: value for name, value in failed.items() if name != "producer"})
