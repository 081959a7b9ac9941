"""The shared reader that the tests of this folder ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.console.location import Setting


@pytest.fixture
def setting() -> Iterator[Setting]:
    setting = Setting()
    yield setting
    setting.reads.close()
    assert setting.location.closed == setting.location.opened
