"""What a command with --spark says of the failure of a task."""

from __future__ import annotations

import pytest

from kvwal.cli.spark.session import _told_by_task
from kvwal.errors import ArchiveDamaged, ArchiveError, Kind

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "merge.py", line 2, in merge
archive.errors.ArchiveDamaged: ns/local/jobs/a/1.parquet: the checksum of its rows does not match. Put it back.

    at org.apache.spark.api.python.BasePythonRunner"""


def test_the_error_of_the_archive_is_that_of_the_task_with_its_exit_code() -> None:
    told = _told_by_task("local[2]", RuntimeError(TRACE))
    assert type(told) is ArchiveDamaged
    assert told.kind is Kind.DAMAGE
    assert str(told) == "ns/local/jobs/a/1.parquet: the checksum of its rows does not match. Put it back."


@pytest.mark.parametrize(
    "text", ["org.apache.spark.SparkException: Job aborted.\n at x", "archive.errors.Nothing: at all", ""]
)
def test_any_other_error_is_told_by_its_first_line(text: str) -> None:
    told = _told_by_task("local[2]", RuntimeError(text))
    assert type(told) is ArchiveError
    assert "Spark on local[2] failed: " in str(told)
    assert text.split("\n")[0].rstrip(".") in str(told)
