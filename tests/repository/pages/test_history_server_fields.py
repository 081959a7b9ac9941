"""docs/spark-metadata.md lists each field of the History Server's REST API that no record holds, and no other."""

from __future__ import annotations

import pytest

from kvwal.spark import records as rec
from tests.support.history_server import fields, page
from tests.support.history_server.answers import check_known, compare


def test_the_page_lists_each_field_that_is_not_compared() -> None:
    assert page.PAGE.read_text() == page.written(), "`python -m tests.support.history_server.page` writes the table"


def test_a_field_that_nobody_has_decided_about_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"in no table of fields.*newField"):
        check_known({"jobId": 1, "newField": 2}, fields.JOB)


def test_a_value_that_differs_and_a_row_without_a_record_are_told() -> None:
    apps = {"app-1": {"app-1/app": rec.Application(id="app-1"), "app-1/job/0000000003": rec.Job(id=3, planned=8)}}
    rows = [{"jobId": 3, "numTasks": 9}, {"jobId": 4, "numTasks": 1}]
    found = [
        value for value in compare(apps, "applications/app-1/jobs", rows, whole=False) if value.theirs != value.ours
    ]
    assert [(value.row, value.field, value.theirs, value.ours) for value in found] == [
        ("app-1/job/0000000003", "numTasks", 9, 8),
        ("app-1/job/0000000004", "", "a row", "no record"),
        ("app-1", "jobs", {"app-1/job/0000000003", "app-1/job/0000000004"}, {"app-1/job/0000000003"}),
    ]
