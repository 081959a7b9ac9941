"""One job or stage of Spark's REST API is the row that the list has, though it is made from fewer records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET

from kvwal.console.sparkapi.jobs import job_rows
from kvwal.console.sparkapi.stages import stage_rows
from kvwal.spark import records as rec
from kvwal.spark.record_keys import job_key, stage_key, stage_part
from kvwal.spark.record_reader import MappingReader, StoredRecord
from tests.support.console import recorded

APP = "application_9"


def shared_stages() -> dict[str, Any]:
    """Three jobs that share stages: one that a later job skips, one with two attempts, and a job without any."""
    found: dict[str, Any] = {
        job_key(APP, 0): rec.Job(id=0, status="SUCCEEDED", stages=[0, 1], ran=[0, 1], tasks=2, planned=2),
        job_key(APP, 1): rec.Job(id=1, status="SUCCEEDED", stages=[1, 7], ran=[7], skipped=[1], tasks=2, planned=2),
        job_key(APP, 2): rec.Job(id=2, status="SUCCEEDED"),
    }
    for stage, attempt, jobs in ((0, 0, [0]), (1, 0, [0, 1]), (1, 1, [0, 1]), (3, 0, [5]), (7, 0, [1])):
        found[stage_key(APP, stage, attempt)] = rec.Stage(
            id=stage, attempt=attempt, job=jobs[0], jobs=jobs, status="SUCCEEDED" if attempt == 0 else "FAILED", tasks=1
        )
    return {key: rec.to_value(record) for key, record in found.items()}


class Counted(MappingReader):
    """Records, and how many of them were read."""

    def __init__(self, records: dict[str, object]) -> None:
        super().__init__(records)
        self.read = 0

    def between(self, low: str, high: str) -> Iterator[StoredRecord]:
        for stored in super().between(low, high):
            self.read += 1
            yield stored


@pytest.mark.parametrize(("prefix", "records"), [(APP, shared_stages()), (recorded.BUSY, recorded.records())])
def test_one_job_is_the_row_of_the_list(prefix: str, records: dict[str, object]) -> None:
    every = job_rows(MappingReader(records), prefix)
    assert len(every) >= 3
    assert {number: job_rows(MappingReader(records), prefix, number)[number] for number in every} == every
    assert job_rows(MappingReader(records), prefix, 10**12) == {}


@pytest.mark.parametrize(("prefix", "records"), [(APP, shared_stages()), (recorded.BUSY, recorded.records())])
def test_one_stage_is_the_row_of_the_list(prefix: str, records: dict[str, object]) -> None:
    every = stage_rows(MappingReader(records), prefix)
    alone = [stage_rows(MappingReader(records), prefix, f"{stage_part(stage)}/") for stage in {of[0] for of in every}]
    assert {of: row for rows in alone for of, row in rows.items()} == every


@pytest.mark.parametrize(
    "job", [{"batch": 3}, {"status": "FAILED"}, {"killed": 1, "tasks": 3}, {"name": "n" * rec.MAX_TEXT}]
)
def test_a_job_is_known_by_its_record_unless_the_record_lacks_something(job: dict[str, Any]) -> None:
    plain = {
        "id": 0,
        "status": "SUCCEEDED",
        "stages": [0],
        "ran": [0],
        "tasks": 2,
        "planned": 2,
        "description": "counts",
    }
    stage = rec.Stage(id=0, job=0, jobs=[0], status="SUCCEEDED", tasks=2, planned=2)
    rows = []
    for fields in (plain, {**plain, **job}):
        stored = {job_key(APP, 0): rec.Job(**fields), stage_key(APP, 0, 0): stage}
        rows.append(job_rows(MappingReader({key: rec.to_value(record) for key, record in stored.items()}), APP)[0])
    assert [row.num_completed_indices for row in rows] == [2, UNSET]


def test_one_job_or_stage_reads_only_what_belongs_to_it() -> None:
    records = Counted(recorded.records())
    job_rows(records, recorded.BUSY, 60)
    stage_rows(records, recorded.BUSY, f"{stage_part(60)}/")
    assert records.read == 4
