"""Kept logs go back into Spark's History Server, and its REST answers equal those for the first logs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.kept.contents import KEPT_LOGS, kept_logs
from tests.repository.source import ROOT
from tests.support.kept.server import asked
from tests.support.kept.tasks import kept_tasks, own, shown_tasks
from tests.support.spark import Written

pytestmark = pytest.mark.long
GOLDEN = ROOT / "tests" / "golden" / "event-log"


@pytest.fixture
def first(written: Written, tmp_path: Path) -> Path:
    """A folder of logs: of a killed driver, in rolls, and compressed."""
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(written.plain, logs / f"{written.plain.name}.inprogress")
    shutil.copytree(written.rolled, logs / written.rolled.name)
    for log in GOLDEN.iterdir():
        shutil.copy(log, logs)
    return logs


def test_the_history_server_answers_about_kept_logs_as_about_the_first_ones(first: Path, tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.mkdir()
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        results = record_event_logs(store, [first], keep_logs=True)
        assert all(result.kept and not result.not_kept for result in results)
        contents = store.content(KEPT_LOGS)
        names = list(kept_logs(contents))
        for name in names:
            contents.export(str(name), back / name.file)
    assert len(names) == len(results) == 3
    before, after = (asked(logs, len(names), tmp_path / f"{logs.name}.log") for logs in (first, back))
    assert after.keys() == before.keys()
    assert [question for question in before if before[question] != after[question]] == []


def test_the_tasks_of_kept_logs_are_those_that_the_history_server_shows(first: Path, tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        record_event_logs(store, [first], keep_logs=True)
        kept = kept_tasks(store.content(KEPT_LOGS))
    told, ours = shown_tasks(asked(first, 3, tmp_path / "server.log")), {of: own(tasks) for of, tasks in kept.items()}
    assert told == ours
    assert sum(map(len, told.values())) > 40
