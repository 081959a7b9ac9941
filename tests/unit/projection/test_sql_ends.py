"""The status of SQL executions whose end event has no message: Spark wrote none before version 3.4, so their jobs tell it."""

from __future__ import annotations

from typing import Any

import pytest

from kvwal.spark import queries
from kvwal.spark import records as rec
from kvwal.spark.events.parser import parse_line
from kvwal.spark.projection.projection import Projection

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
APP = b'{"Event":"SparkListenerApplicationStart","App Name":"a","App ID":"app","Timestamp":1,"User":"ada"}'
START = f'{{"Event":"{SQL}Start","executionId":0,"description":"load","time":2}}'.encode()
END = f'{{"Event":"{SQL}End","executionId":0,"time":9}}'.encode()
END_WITHOUT_ERROR = END[:-1] + b',"errorMessage":""}'
FAILURE = b'{"Result":"JobFailed","Exception":{"Message":"no memory","Stack Trace":[]}}'
SUCCESS = b'{"Result":"JobSucceeded"}'


def begun(job: int) -> bytes:
    return (
        b'{"Event":"SparkListenerJobStart","Job ID":%d,"Submission Time":3,"Stage Infos":[],"Stage IDs":[],' % job
        + (b'"Properties":{"spark.sql.execution.id":"0"}}')
    )


def ended(job: int, result: bytes) -> bytes:
    return b'{"Event":"SparkListenerJobEnd","Job ID":%d,"Completion Time":8,"Job Result":%s}' % (job, result)


def recorded(*lines: bytes) -> dict[str, Any]:
    """The records after these lines, stored after each of them and read again by a reader that goes on; all of it twice."""
    stored: dict[str, Any] = {}
    for line in (APP, START, *lines) * 2:
        projection, event = Projection("app", stored.get), parse_line(line)
        assert event is not None
        projection.apply(event, len(line))
        stored |= projection.take()
    return stored


def status(*lines: bytes) -> tuple[str, str, int]:
    """Status and message of the execution, and the number of failed ones of the application."""
    stored = recorded(*lines)
    sql, app = rec.from_value(stored["app/sql/0000000000"]), rec.from_value(stored["app/app"])
    assert isinstance(sql, rec.Sql)
    assert isinstance(app, rec.Application)
    return sql.status, sql.error.message if sql.error else "", app.sql_failed


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_end_without_a_message_fails_with_its_job_whichever_comes_first(order: tuple[int, int]) -> None:
    ends = (ended(0, FAILURE), END)
    assert status(begun(0), *(ends[number] for number in order)) == ("FAILED", "no memory", 1)
    assert [failure.what for failure in queries.failures(recorded(begun(0), *ends))] == ["sql 0"]


def test_an_end_without_a_message_succeeds_with_its_jobs() -> None:
    assert status(END) == ("SUCCEEDED", "", 0)
    assert status(begun(0), ended(0, SUCCESS), END) == ("SUCCEEDED", "", 0)
    assert status(begun(0), begun(1), ended(1, SUCCESS), END, ended(0, SUCCESS)) == ("SUCCEEDED", "", 0)
    assert status(begun(0), END) == ("RUNNING", "", 0)


def test_an_end_with_a_message_does_not_ask_the_jobs() -> None:
    assert status(begun(0), ended(0, FAILURE), END_WITHOUT_ERROR) == ("SUCCEEDED", "", 0)
    assert status(begun(0), END_WITHOUT_ERROR, ended(0, FAILURE)) == ("SUCCEEDED", "", 0)
