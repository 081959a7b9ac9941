"""Tests that share a costly fixture run in one process."""

from __future__ import annotations

from tests.repository.source import ROOT
from tests.support.scheduling import TOGETHER, share


def test_files_go_apart_and_shared_folders_together() -> None:
    assert share("tests/unit/log/test_ring.py::test_a[1]") == "tests/unit/log/test_ring.py"
    for folder in TOGETHER:
        assert (ROOT / folder).is_dir()
        assert share(f"{folder}/test_a.py::test_b") == share(f"{folder}/test_c.py::test_d") == folder
