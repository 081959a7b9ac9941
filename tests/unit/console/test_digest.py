"""Digests of applications: of very many jobs, of values that are no records, and how long one is kept."""

from __future__ import annotations

from typing import Any

from kvwal.console.sparkreads.app_records import SKEWED
from kvwal.console.sparkreads.digest import MOST_BARS, SLOWEST, Digests, digest_of
from kvwal.spark import records as rec
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_keys import job_key, stage_key
from kvwal.spark.record_reader import MappingReader


def stored(app: str, jobs: int, stages: int) -> dict[str, Any]:
    found: dict[str, Any] = {f"{app}/app": rec.Application(id=app, status="SUCCEEDED", jobs=jobs)}
    for number in range(jobs):
        found[job_key(app, number)] = rec.Job(id=number, description="x" * 500, status="SUCCEEDED", started=1 + number)
    for number in range(stages):
        found[stage_key(app, number, 0)] = rec.Stage(id=number, run_ms=number * 7 % 9_973, skew=number % 5)
    return {key: rec.to_value(record) for key, record in found.items()}


def recorded(records: MappingReader, app: str) -> RecordedApplication:
    found = records.application(app)
    assert found is not None
    return RecordedApplication(app, found)


def test_the_stages_with_most_task_time_are_found_among_very_many() -> None:
    values = stored("a", 2, 9_000)
    digest = digest_of(MappingReader(values), recorded(MappingReader(values), "a"), SKEWED)
    assert [stage.run_ms for stage in digest.slow] == sorted(
        (number * 7 % 9_973 for number in range(9_000)), reverse=True
    )[:SLOWEST]
    assert digest.skewed == 9_000 * 2 // 5


def test_of_very_many_jobs_no_text_is_kept() -> None:
    values = stored("a", MOST_BARS + 1, 0)
    digest = digest_of(MappingReader(values), recorded(MappingReader(values), "a"), SKEWED)
    assert len(digest.jobs) == MOST_BARS + 1
    assert {job.description for job in digest.jobs} == {""}
    assert [job.started for job in digest.jobs] == [1 + number for number in range(MOST_BARS + 1)]


def test_other_attempts_and_values_that_are_no_records_are_passed_over() -> None:
    values = (
        stored("a", 3, 1)
        | stored("a/1", 5, 5)
        | {"a/job/0000000009": {"kind": "job", "id": "no number"}, "a/stage/x": 7}
    )
    digest = digest_of(MappingReader(values), recorded(MappingReader(values), "a"), SKEWED)
    assert [job.id for job in digest.jobs] == [0, 1, 2]
    assert len(digest.slow) == 1


def test_a_digest_is_kept_until_the_application_changes() -> None:
    values, digests = stored("a", 3, 1), Digests(SKEWED)
    first = digests.of(MappingReader(values), recorded(MappingReader(values), "a"))
    assert digests.of(MappingReader({}), recorded(MappingReader(values), "a")) is first
    values |= stored("a", 4, 1)
    assert len(digests.of(MappingReader(values), recorded(MappingReader(values), "a")).jobs) == 4
