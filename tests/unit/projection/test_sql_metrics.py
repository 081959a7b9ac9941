"""SQL metrics as the History Server has them: those of tasks that ended, each index of a stage once, and those of the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark.eventlog.log_reader import LogReader
from kvwal.spark.eventlog.logs import find_logs, identify
from kvwal.spark.events.parser import parse_line
from kvwal.spark.projection.projection import Projection
from tests.support.recording.sql_logs import (
    BYTES,
    LOGS,
    MS,
    ROWS,
    SqlLog,
    application,
    begun,
    driver,
    ended,
    job,
    replanned,
    stage,
    task,
)

SQL, STAGE = "app/sql/0000000000", "app/stage/0000000000/0000"


def recorded(*lines: bytes, whole: bool = True, logs: tuple[str, ...] = ("log",)) -> dict[str, Any]:
    """The records after these lines, stored after each of them and read again by a reader that goes on; all of it twice.

    Without `whole`, metrics of running stages wait in the position until the end. The readers are of these logs in turn.
    """
    stored: dict[str, Any] = {}
    for number, each in enumerate((*application("app"), *lines) * 2):
        projection, event = Projection("app", stored.get, log=logs[number % len(logs)]), parse_line(each)
        assert event is not None
        projection.apply(event, len(each))
        stored |= projection.take(metrics=whole)
    return stored | Projection("app", stored.get).take()


def at_once(*lines: bytes) -> dict[str, Any]:
    """The records after these lines, stored at their end."""
    projection = Projection("app", lambda key: None)
    for each in lines:
        event = parse_line(each)
        assert event is not None
        projection.apply(event, len(each))
    return projection.take()


def metrics(*lines: bytes, key: str = SQL) -> dict[int, int | None]:
    """The values of an execution's metrics by their number: the same for one reader, and for one that stores after each line."""
    ways = (
        at_once(*lines), recorded(*lines), recorded(*lines, whole=False),
        recorded(*lines, whole=False, logs=("log", "recorder")),
    )  # fmt: skip
    one, *others = ({metric["id"]: metric["value"] for metric in way[key]["metrics"]} for way in ways)
    assert others == [one] * len(others)
    return one


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_metrics_have_the_values_that_the_history_server_shows(log: SqlLog) -> None:
    assert metrics(*log.lines) == log.values


def test_a_stage_that_two_jobs_of_an_execution_share_counts_once() -> None:
    assert metrics(begun(ROWS), job(), job(1), stage("Submitted"), task(0, {1: "5"})) == {1: 5}


def test_a_stage_counts_in_each_execution_that_has_its_metrics() -> None:
    both = begun(ROWS), begun(BYTES, execution=1), job(), job(1, execution=1), task(0, {1: "5", 2: "6", 4: "7"})
    assert (metrics(*both), metrics(*both, key="app/sql/0000000001")) == ({1: 5}, {2: 6})


def test_a_metric_whose_node_went_stays_without_its_node_if_it_counted() -> None:
    records = recorded(begun(ROWS, BYTES, MS), job(), task(0, {2: "64"}), replanned(ROWS), ended())
    assert [(each["node"], each["id"], each["value"]) for each in records[SQL]["metrics"]] == [
        ("1 Final", 1, None), ("", 2, 64),
    ]  # fmt: skip


def test_what_the_driver_counts_comes_in_any_number_of_events() -> None:
    """The last event of a metric counts: one that is read again changes nothing."""
    assert metrics(begun(ROWS), job(), driver((1, 1)), task(0, {1: "5"}), driver((1, 100), (1, 20))) == {1: 125}


def test_the_total_of_a_stage_counts_where_its_tasks_name_no_metrics() -> None:
    """Spark's queue may have dropped the ends of tasks."""
    lines = begun(ROWS, BYTES), job(), task(0, {2: "6"}), stage("Completed", total={1: "500", 2: "7"})
    assert metrics(*lines) == {1: 500, 2: 6}


@pytest.mark.parametrize("update", [None, "", "many", "0x5", 1.5, [1], "9" * 30, True])
def test_an_update_that_is_no_number_costs_nothing_else(update: object) -> None:
    assert metrics(begun(ROWS, BYTES), job(), task(0, {1: update, 2: "6"})) == {1: None, 2: 6}


def test_a_line_with_an_unreadable_value_keeps_its_metrics() -> None:
    unreadable = [
        task(0, {1: "5"}).replace(b'"Executor Run Time":1', b'"Executor Run Time":NaN'),
        task(1, {1: "6"}).replace(b'"Name":"a"', b'"Name":"\xe9"'),
        task(2, {1: "7", 8: "1"}).replace(b'"ID":8', b'"ID":"eight"'),
        task(3, {1: "9"}).replace(b'"Accumulables":[', b'"Accumulables":[null,'),
        task(4, {}).replace(b'"Accumulables":[]', b'"Accumulables":7'),
    ]
    records = recorded(begun(ROWS), job(), *unreadable)
    assert (records[SQL]["metrics"][0]["value"], records[STAGE]["tasks"]) == (27, 5)


def test_the_record_of_a_stage_does_not_grow_with_its_tasks() -> None:
    tasks = [task(index, {1: "1"}, "ExecutorLostFailure") for index in range(50)]
    tasks += [task(index, {1: "2"}, tried=1) for index in range(500)]
    few, many = (at_once(begun(ROWS), job(), *lines)[STAGE]["sql_metrics"] for lines in (tasks[:1], tasks))
    assert few == {"totals": {"1": 1}, "unsuccessful": {"0": {"1": 1}}, "is_replaced": False}
    assert many == {"totals": {"1": 1000}, "unsuccessful": {}, "is_replaced": False}


def test_the_record_of_an_execution_is_not_put_for_each_task() -> None:
    """It is large. What tasks have counted meanwhile is in the position, and so it outlives the reader."""
    stored: dict[str, Any] = {}
    projection = Projection("app", stored.get)
    for each in (*application("app"), begun(ROWS), job(), task(0, {1: "5"})):
        projection.apply(parse_line(each), len(each))
    stored |= projection.take(metrics=False)
    assert stored[SQL]["metrics"][0]["value"] is None
    assert stored["app/log"]["sql_metrics"] == {"0": {"1": 5}}
    last = task(1, {1: "6"})
    projection.apply(parse_line(last), len(last))
    changed = projection.take(metrics=False)
    assert SQL not in changed
    stored |= changed
    stored |= Projection("app", stored.get, log="recorder").take()
    assert (stored[SQL]["metrics"][0]["value"], stored["app/log"]["sql_metrics"]) == (11, {})


def test_what_waits_in_the_position_is_put_when_nothing_more_is_there_to_read(tmp_path: Path) -> None:
    path = tmp_path / "app.inprogress"
    path.write_bytes(b"\n".join([*application("app"), begun(ROWS), job(), task(0, {1: "5"}), b""]))
    (log,) = find_logs([path])
    identity = identify(log)
    assert identity is not None
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        records = store.map("spark")
        reader = LogReader(records, log, identity)
        found = []
        for reader.puts_metrics in (False, False, True):
            reader.advance()
            found.append(records[SQL]["metrics"][0]["value"])
        reader.close()
    assert found == [None, None, 5]
