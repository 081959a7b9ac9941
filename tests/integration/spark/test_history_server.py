"""Metrics of SQL executions beside those that Spark's History Server shows for the same event logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import kvwal
from benchmarks.questions.spark.history_server import history_server, listed
from kvwal.spark import record_event_logs
from kvwal.spark import records as rec
from kvwal.spark.record_keys import sql_key
from tests.support import rest_fields as rest
from tests.support.polling import until
from tests.support.ports import free_port
from tests.support.recording.rest_rows import counted
from tests.support.recording.sql_logs import LOGS, application


def write_logs(folder: Path) -> dict[str, str]:
    """Write the logs. Returns what happens in each, by the application that it is of."""
    apps = {f"app-{number}": what for number, what in enumerate(LOGS)}
    for app, what in apps.items():
        (folder / app).write_bytes(b"\n".join([*application(app), *LOGS[what].lines, b""]))
    return apps


def shown(port: int, app: str) -> set[tuple[str, str, str]]:
    """Node, name and value of the metrics that the History Server shows."""
    url = f"http://127.0.0.1:{port}/api/v1/applications/{app}/sql?details=true&planDescription=false"
    with urlopen(url) as answer:
        (row,) = json.load(answer)
    return counted(rest.rest_metrics(row["nodes"]))


def recorded(records: Any, app: str) -> set[tuple[str, str, str]]:
    """The same of the record."""
    sql = rec.from_value(records[sql_key(app, 0)])
    assert isinstance(sql, rec.Sql)
    return counted(rest.plan_metrics(sql))


@pytest.mark.long
def test_metrics_are_those_of_the_history_server(tmp_path: Path) -> None:
    (logs := tmp_path / "logs").mkdir()
    apps = write_logs(logs)
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        record_event_logs(store, [logs])
        ours = {what: recorded(store.map("spark"), app) for app, what in apps.items()}
    with history_server(logs, port := free_port(), tmp_path / "server.log"):
        until(lambda: listed(port) == len(apps) or None)
        theirs = {what: shown(port, app) for app, what in apps.items()}
    assert ours == theirs
    assert sum(map(len, theirs.values())) > len(apps)
