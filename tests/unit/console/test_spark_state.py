"""The state of an application: the replay takes any lines, and states stay within their bytes."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import zstandard

from kvwal.console.sparksql.metric_text import Greatest, metric_text
from kvwal.console.sparksql.plan_graph import plan_graph
from kvwal.console.sparkstate.kept_states import KeptStates
from kvwal.console.sparkstate.state import Replay
from kvwal.console.sparkstate.tasks import task_rows
from kvwal.spark.events.sql import PlanNode
from kvwal.spark.kept.task_lines import StageAttempt, stage_of
from tests.repository.source import ROOT

(LOG,) = (ROOT / "tests" / "golden" / "event-log").iterdir()


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(LOG.read_bytes()).read().splitlines()


def test_any_line_may_be_missing_cut_or_told_twice(lines: list[bytes]) -> None:
    for damage in (lambda line: b"", lambda line: line[: len(line) // 2], lambda line: line + b"\n" + line):
        for number in range(0, len(lines), 7):
            replay = Replay()
            replay.lines(b"\n".join([*lines[:number], damage(lines[number]), *lines[number + 1 :]]).splitlines())
            state = replay.state(0)
            assert list(state.jobs) == sorted(state.jobs)


def test_lines_that_are_no_events_change_nothing(lines: list[bytes]) -> None:
    plain, other = Replay(), Replay()
    plain.lines(lines)
    noise = [
        b"",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"Event":"SparkListenerTaskEnd"}',
        b'{"Event":"SparkListenerJobStart","Job ID":null}',
    ]
    for line in lines:
        other.lines([*noise, line])
    assert other.state(0) == plain.state(0)


def test_the_tasks_of_a_stage_are_those_that_the_state_counts(lines: list[bytes]) -> None:
    replay = Replay()
    replay.lines(lines)
    for (stage, attempt), state in replay.state(0).stages.items():
        of = StageAttempt(stage, attempt)
        tasks = task_rows([line for line in lines if stage_of(line) == of], of, 0)
        well = [task.metrics for task in tasks if task.metrics is not None]
        assert len([task for task in tasks if task.status == "SUCCESS"]) == state.row.num_complete_tasks
        assert sum(metrics[2] for metrics in well) == state.row.executor_run_time


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("sum", [1_000, 2], "1,002"),
        ("size", [2047], "2047.0 B"),
        ("size", [2048], "2.0 KiB"),
        ("timing", [999], "999 ms"),
        ("timing", [60_000], "1.0 m"),
        ("nsTiming", [1_500_000_000], "1.5 s"),
        ("average", [15], "1.5"),
        ("average", [], "0"),
        ("size", [], "0.0 B"),
        ("unheard", [7], "7"),
        ("timing", [3, 1, 2], "total (min, med, max (stageId: taskId))\n6 ms (1 ms, 2 ms, 3 ms (stage 4.0: task 9))"),
    ],
)
def test_a_metric_is_written_as_spark_writes_it(kind: str, values: list[int], text: str) -> None:
    assert metric_text(kind, values, Greatest(3, 4, 0, 9)) == text


def test_a_plan_of_any_depth_has_a_graph() -> None:
    plan = PlanNode("Scan", "Scan")
    for _ in range(50_000):
        plan = PlanNode("Filter", "Filter", [plan])
    graph = plan_graph(plan)
    assert len(graph.nodes) == 50_001
    assert len(graph.edges) == 50_000


def test_an_exchange_that_is_used_again_is_one_node() -> None:
    exchange = PlanNode("Exchange", "Exchange hash", [PlanNode("Scan", "Scan")])
    graph = plan_graph(PlanNode("Join", "Join", [exchange, PlanNode("ReusedExchange", "ReusedExchange", [exchange])]))
    assert [node.name for node in graph.nodes] == ["Join", "Exchange", "Scan"]
    assert [(edge.from_id, edge.to_id) for edge in graph.edges] == [(1, 0), (2, 1), (1, 0)]


def test_a_state_is_made_once_for_all_that_wait(lines: list[bytes]) -> None:
    states, made = KeptStates(), []

    def make() -> str:
        made.append(1)
        return "state"

    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(states._once(("one",), make))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, made) == (["state"] * 8, [1])


def test_states_stay_within_their_bytes() -> None:
    states, made = KeptStates(most_bytes=10_000), list[int]()

    def make(number: int) -> str:
        made.append(number)
        return "x" * 1_000

    for number in range(20):
        states._once((number,), lambda number=number: make(number))
    states._once((19,), lambda: make(19))
    assert made == list(range(20))  # the last one is still there
    states._once((0,), lambda: make(0))
    assert made == [*range(20), 0]  # the first one had gone
    assert sum(each.bytes for each in states._made.values()) <= 10_000


def test_a_state_that_cannot_be_made_is_tried_again() -> None:
    states = KeptStates()

    def broken() -> str:
        raise ValueError("no log")

    with pytest.raises(ValueError, match="no log"):
        states._once(("one",), broken)
    assert states._once(("one",), lambda: json.dumps("state")) == '"state"'
