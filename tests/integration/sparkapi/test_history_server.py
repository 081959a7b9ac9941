"""The console beside a real History Server, over the logs of real applications: each field of each answer is equal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.spark import Written
from tests.support.spark_api.measured import beside_history_server

pytestmark = pytest.mark.long
FOLDERS = ("event-log", "event-log-cases")


def test_the_console_answers_as_the_history_server_does(written: Written, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(written.plain, logs)
    for folder in FOLDERS:
        for log in (ROOT / "tests" / "golden" / folder).iterdir():
            shutil.copy(log, logs)
    compared = beside_history_server(logs, len(list(logs.iterdir())), tmp_path)
    assert compared.different == []
    assert compared.asked["sql/<n>"] > 5 < compared.asked["stages/<n>/<n>/taskList"]
