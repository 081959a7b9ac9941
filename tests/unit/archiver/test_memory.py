"""Memory of the archiver: it does not grow with the log."""

from __future__ import annotations

from pathlib import Path

import pytest

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
