"""Spark's own tests of its REST API: the console gives the answers that they expect about the logs that they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.history_server import published
from tests.support.spark_api.measured import beside_expectations

pytestmark = pytest.mark.long


@pytest.mark.parametrize("version", published.versions())
def test_the_console_answers_what_the_tests_of_spark_expect(version: str, tmp_path: Path) -> None:
    folder = published.unpack(version, tmp_path / "jar")
    compared = beside_expectations(folder, version, tmp_path)
    assert compared.different == []
    assert compared.asked.total() == len(list((folder / published.EXPECTED).iterdir()))
