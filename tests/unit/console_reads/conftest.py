"""The shared reader that the tests of this folder ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console.location import ArchivedSetting, Setting


@pytest.fixture
def setting() -> Iterator[Setting]:
    setting = Setting()
    yield setting
    setting.reads.close()
    assert setting.location.closed == setting.location.opened


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[ArchivedSetting]:
    archived = ArchivedSetting(tmp_path)
    yield archived
    archived.reads.close()
