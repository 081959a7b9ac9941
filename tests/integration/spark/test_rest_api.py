"""The REST API of the History Server that pyspark contains, over event logs of this Spark: kvwal records what it answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.history_server.records import differences_from_server
from tests.support.spark import Written

pytestmark = pytest.mark.long
GOLDEN = ROOT / "tests" / "golden"


def test_the_records_have_what_the_history_server_answers(written: Written, tmp_path: Path) -> None:
    """Of an application that has ended, of one that runs, and of small logs of earlier Sparks."""
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(written.plain, logs)
    shutil.copytree(written.rolled, logs / written.rolled.name)
    for folder in ("event-log", "event-log-cases"):
        for log in (GOLDEN / folder).iterdir():
            shutil.copy(log, logs)
    assert differences_from_server(logs, tmp_path) == []
