"""Memory of the archiver, which does not grow with the log, and its share of the processor."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

import kvwal
from tests.support.archive.archiver_memory import grown

ROWS = 8_000
"""Of about 1 KiB each. The bounds of rows in memory are 2 MiB in the program that is measured."""


@pytest.mark.long
@pytest.mark.parametrize("what", ["seed", "put", "compact"])
def test_ten_times_the_log_takes_about_the_same_memory(what: str, tmp_path: Path) -> None:
    """`seed`: an archive that begins late, with a snapshot. `put`: segments. `compact`: the objects that `put` made."""
    once, ten_times = grown(what, ROWS, tmp_path / "once"), grown(what, 10 * ROWS, tmp_path / "ten")
    assert ten_times < 2 * once
    assert ten_times < 10 * ROWS * 1000, "less than the values alone"
    assert not list(tmp_path.glob("*/*.partial"))


@pytest.mark.usefixtures("started_archivers")
def test_it_has_the_priority_of_its_parent(tmp_path: Path) -> None:
    """Members that adopt or leave wait for it: beside a busy neighbour a low priority would hold them up for minutes."""
    with kvwal.open(tmp_path / "root", archive=str(tmp_path / "archive")) as store:
        store.map("jobs")["job-1"] = 1
        store.archive()
        started = [child for child in psutil.Process().children() if "kvwal.archiver" in child.cmdline()]
        assert [child.nice() for child in started] == [os.getpriority(os.PRIO_PROCESS, 0)]
