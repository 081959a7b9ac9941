"""What a command with --spark says of the failure of a task."""

from __future__ import annotations

import socket

import pytest

from kvwal.cli.spark.session import _check_answers, _told_by_task, _why_not, spark_session
from kvwal.errors import ArchiveDamaged, ArchiveError, ConfigError, Kind

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "merge.py", line 2, in merge
kvwal_archive.errors.ArchiveDamaged: ns/local/jobs/a/1.parquet: the checksum of its rows does not match. Put it back.

    at org.apache.spark.api.python.BasePythonRunner"""


def test_the_error_of_the_archive_is_that_of_the_task_with_its_exit_code() -> None:
    told = _told_by_task("local[2]", RuntimeError(TRACE))
    assert type(told) is ArchiveDamaged
    assert told.kind is Kind.DAMAGE
    assert str(told) == "ns/local/jobs/a/1.parquet: the checksum of its rows does not match. Put it back."


@pytest.mark.parametrize(
    "text", ["org.apache.spark.SparkException: Job aborted.\n at x", "kvwal_archive.errors.Nothing: at all", ""]
)
def test_any_other_error_is_told_by_its_first_line(text: str) -> None:
    told = _told_by_task("local[2]", RuntimeError(text))
    assert type(told) is ArchiveError
    assert "Spark on local[2] failed: " in str(told)
    assert text.split("\n")[0].rstrip(".") in str(told)


@pytest.mark.parametrize(
    ("master", "sentence"),
    [
        ("spark://127.0.0.1:1", r"no Spark master answers on 127\.0\.0\.1:1 \(Connection refused\)\."),
        ("spark://[::1]:1,127.0.0.1:2", r"\[::1\]:1 \(.+\), 127\.0\.0\.1:2 \(Connection refused\)\."),
        ("spark://127.0.0.1", r"127\.0\.0\.1 \(this is no host:port\)\. Check the address, which is spark://host:7077"),
        ("spark://host:master", r"host:master \(this is no host:port\)"),
        ("spark://host:70770", r"host:70770 \(this is no host:port\)"),
        ("spark://host:²", r"\(this is no host:port\)"),
        (f"spark://{'x' * 64}.local:7077", r"\(this is no name of a host\)"),
        ("spark://", r"\(this is no host:port\)"),
    ],
)
def test_a_master_that_does_not_answer_is_told_before_spark_starts(master: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence), spark_session(master):
        pass


def test_one_master_of_several_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _check_answers(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
    for other in ("local[2]", "yarn", "submitted", "k8s://https://127.0.0.1:1"):
        _check_answers(other)


def test_a_context_that_the_master_stopped_is_told_as_that() -> None:
    stopped = RuntimeError("x: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n at y")
    assert _why_not(stopped) == "the master did not take the application, or cannot reach this machine"
    assert _why_not(RuntimeError("one: SomeError: why.\n two")) == "one: SomeError: why"
