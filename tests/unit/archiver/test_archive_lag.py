"""How far the archive is behind, in seconds: the age of the oldest entry that it does not hold."""

from __future__ import annotations

import pytest

from kvwal.store.archive_progress import ArchiveLag

DAY = 86_400


def test_nothing_waits_where_all_is_archived() -> None:
    behind = ArchiveLag()
    for now in range(100):
        behind.note(now, now, float(now))
    assert behind.seconds(99, 200.0) == 0.0


def test_the_oldest_entry_counts_however_much_is_written_after_it() -> None:
    behind = ArchiveLag()
    behind.note(5, 5, 0.0)
    for now in range(10, 60):
        behind.note(now, 5, float(now))
    assert behind.seconds(5, 60.0) == 50.0


def test_what_was_archived_meanwhile_waits_no_longer() -> None:
    behind = ArchiveLag()
    for now in range(1, 101):
        behind.note(now, 0, float(now))
    assert behind.seconds(40, 100.0) == pytest.approx(100 - 41, abs=1)
    assert behind.seconds(100, 100.0) == 0.0


def test_a_quiet_log_that_is_written_to_again_is_as_late_as_its_new_entry() -> None:
    behind = ArchiveLag()
    behind.note(1, 1, 0.0)
    behind.note(1, 1, float(DAY))
    behind.note(2, 1, DAY + 1.0)
    assert behind.seconds(1, DAY + 3.0) == 2.0


@pytest.mark.long
def test_a_week_without_an_archive_is_remembered_in_little() -> None:
    behind = ArchiveLag()
    for now in range(7 * DAY):
        behind.note(now + 1, 0, float(now))
    assert behind.seconds(0, 7.0 * DAY) == 7 * DAY
    assert len(behind._waiting) < 2000
    half = 7 * DAY // 2
    assert behind.seconds(half, 7.0 * DAY) == pytest.approx(half, rel=0.02)
