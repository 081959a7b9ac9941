"""The event logs that Spark's own tests read, of Spark 1.2 to 4: kvwal records what Spark's History Server answers about them.

Once the answers are those that Spark's tests expect, once those of the History Server that pyspark contains.
`tests.support.history_server.fields` says which value is compared with what.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.history_server import published
from tests.support.history_server.records import differences, differences_from_server, recorded

pytestmark = pytest.mark.long
of_each_version = pytest.mark.parametrize("version", published.versions())


@of_each_version
def test_the_records_have_what_sparks_tests_expect(version: str, tmp_path: Path) -> None:
    folder = published.unpack(version, tmp_path / "jar")
    told = recorded(tmp_path / "root", folder / published.LOGS)
    assert differences(told, published.answers(folder), whole=False) == []


@of_each_version
def test_the_records_have_what_the_history_server_answers(version: str, tmp_path: Path) -> None:
    folder = published.unpack(version, tmp_path / "jar") / published.LOGS
    assert differences_from_server(folder, tmp_path) == []


@pytest.mark.parametrize("broken", ["last-attempt-incomplete", "previous-attempt-incomplete"])
def test_an_attempt_without_an_end_runs(broken: str, tmp_path: Path) -> None:
    folder = published.unpack(published.versions()[-1], tmp_path / "jar") / published.BROKEN / broken
    assert differences_from_server(folder, tmp_path) == []
