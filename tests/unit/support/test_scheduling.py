"""Tests that share a costly fixture run in one process."""

from __future__ import annotations

from tests.repository.source import ROOT
from tests.support.scheduling import TOGETHER, is_taken_as_a_whole, share


def test_files_go_apart_and_shared_folders_together() -> None:
    assert share("tests/unit/log/test_ring.py::test_a[1]") == "tests/unit/log/test_ring.py"
    for folder in TOGETHER:
        assert (ROOT / folder).is_dir()
        assert share(f"{folder}/test_a.py::test_b") == share(f"{folder}/test_c.py::test_d") == folder


def test_a_folder_that_is_taken_as_a_whole_is_told() -> None:
    assert is_taken_as_a_whole(f"{TOGETHER[0]}/test_a.py::test_one")
    assert not is_taken_as_a_whole("tests/unit/log/test_a.py::test_one")
