"""Event logs of Spark 1.2 to 4 that its own tests read: the History Server answers the same about what is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.kept.contents import KEPT_LOGS, kept_logs
from tests.support.history_server import published
from tests.support.kept.server import asked
from tests.support.kept.tasks import kept_tasks, own, shown_tasks

pytestmark = pytest.mark.long


@pytest.mark.parametrize("version", published.versions())
def test_the_history_server_answers_about_kept_logs_as_about_the_published_ones(version: str, tmp_path: Path) -> None:
    first, back = published.unpack(version, tmp_path / "jar") / published.LOGS, tmp_path / "back"
    back.mkdir()
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        results = record_event_logs(store, [first], keep_logs=True)
        assert all(result.kept and not result.not_kept for result in results if not result.skipped)
        contents = store.content(KEPT_LOGS)
        for name in kept_logs(contents):
            contents.export(str(name), back / name.file)
        kept = kept_tasks(contents)
    count = len(list(back.iterdir()))
    assert count > 3
    before, after = (asked(logs, count, tmp_path / f"{logs.name}.log") for logs in (first, back))
    assert after.keys() == before.keys()
    assert [question for question in before if before[question] != after[question]] == []
    told, ours = shown_tasks(before), {of: own(tasks) for of, tasks in kept.items()}
    assert [of for of in told if told[of] != ours[of]] == []
    print(f"{sum(map(len, told.values()))} tasks compared")
