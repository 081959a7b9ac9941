"""A field that a newer version stored in a record survives when this version stores the record again."""

from __future__ import annotations

from typing import Any

from kvwal.spark import records as rec
from kvwal.spark.events import jobs as events
from kvwal.spark.projection.projection import Projection
from kvwal.spark.projection.record_cache import MAX_CACHED, RecordCache

KEY = "app/sql/0000000001"


def stored() -> dict[str, Any]:
    """An SQL execution that a newer version stored: with fields of its own in the record, in an access, and in the error."""
    record = rec.Sql(
        id=1, reads=[rec.Access("parquet", "a", rows=3), rec.Access("csv", "b")], error=rec.Error("lost", "at a")
    )
    value = rec.to_value(record)
    value["cost"] = 1.5
    value["reads"][1]["catalog"] = "main"
    value["error"]["class"] = "SparkException"
    return value


def changed(value: dict[str, Any], *, error: rec.Error | None = None) -> dict[str, Any]:
    """The record after it was read, changed and stored: another first access, another count of the second, perhaps an error."""
    cache = RecordCache({KEY: value}.get)
    record = cache.edit(KEY, rec.Sql)
    record.description = "report"
    record.reads = [rec.Access("json", "c"), rec.Access("csv", "b", rows=7)]
    record.error = error or record.error
    return dict(cache.take()[KEY])


def test_unknown_fields_of_a_record_and_of_its_parts_are_kept() -> None:
    value = changed(stored())
    assert (value["description"], value["cost"]) == ("report", 1.5)
    assert value["error"] == {"message": "lost", "stack": "at a", "class": "SparkException"}
    assert [(read["what"], read["rows"], read.get("catalog")) for read in value["reads"]] == [
        ("json", -1, None), ("csv", 7, "main"),
    ]  # fmt: skip


def test_another_part_does_not_get_the_unknown_fields_of_the_part_before() -> None:
    assert changed(stored(), error=rec.Error("no space"))["error"] == {"message": "no space", "stack": ""}


def test_a_record_without_unknown_fields_is_stored_as_this_version_writes_it() -> None:
    settings = rec.to_value(rec.Environment(spark={"a": "1", "b": "2"}))
    cache = RecordCache({"app/env": settings}.get)
    cache.edit("app/env", rec.Environment).spark = {"a": "1"}
    assert cache.take()["app/env"]["spark"] == {"a": "1"}


def test_unknown_fields_are_kept_at_every_store_and_after_the_cache_dropped_the_record() -> None:
    store: dict[str, Any] = {KEY: stored()}
    cache = RecordCache(store.get)
    for number in range(3):
        cache.edit(KEY, rec.Sql).description = str(number)
        store |= cache.take()
        assert store[KEY]["cost"] == 1.5
        for other in range(MAX_CACHED if number else 0):
            cache.add(f"other {other}", rec.Job())
        store |= cache.take()
    assert store[KEY]["description"] == "2"


def test_a_reader_that_goes_on_keeps_what_a_newer_version_recorded() -> None:
    first = Projection("app", lambda key: None)
    first.apply(events.JobStart(job_id=1, submission_time=1, stage_ids=[]), 1)
    store = first.take()
    store["app/job/0000000001"]["priority"] = "high"
    later = Projection("app", store.get)
    later.apply(events.JobEnd(job_id=1, completion_time=9, job_result=events.JobResult(result="JobSucceeded")), 2)
    job = later.take()["app/job/0000000001"]
    assert (job["status"], job["priority"]) == ("SUCCEEDED", "high")
