"""The shared reader of the console: how long an answer serves, and what ends it."""

from __future__ import annotations

from pathlib import Path

import kvwal
from kvwal.console.shared_answer import FRESH_SECONDS, UNCHANGED_SECONDS, UNCHANGED_TIMES
from kvwal.console.shared_reader import ARCHIVED_FRESH_SECONDS, SharedReader
from kvwal.location.readers import LocationReader
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.sync import ReadOnlyStore
from tests.support.console.location import ArchivedSetting, Setting, SlowAnswer, make, renewed
from tests.support.disk.faults import FakeClock, make_options


def test_what_one_request_made_serves_the_others_for_a_second(setting: Setting) -> None:
    assert [setting.made(), setting.made()] == [1, 1]
    setting.clock.seconds += FRESH_SECONDS + 0.1
    assert [setting.made(), setting.made()] == [2, 2]
    assert setting.location.opened == 1


def test_what_took_long_serves_ten_times_as_long(setting: Setting) -> None:
    def make_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        return make(reader)

    assert setting.ask(make_slowly) == 1  # it is as old as its beginning
    for _ in range(10):
        setting.clock.seconds += 1.7
        assert setting.ask(make_slowly) == 1
        setting.made()
    assert setting.location.made > 8, "what took no time is made anew meanwhile"
    setting.clock.seconds += 1.1
    assert setting.ask(make_slowly) == 1, "nobody waits for the next one"
    renewed(setting.reads)
    assert setting.ask(make_slowly) == setting.location.made


def test_an_answer_that_was_right_a_moment_ago_serves_when_something_is_written(archived: ArchivedSetting) -> None:
    """Nothing was written for long, so it was made long ago. It is as new as the last look."""
    slow = SlowAnswer(archived.clock)

    def ask(seconds: float) -> int:
        found = archived.ask(slow, seconds)
        renewed(archived.reads)
        return found

    assert [ask(seconds) for seconds in (0.0, 11.0, 22.0, 33.0, 44.0, 55.0)] == [1, 1, 1, 2, 2, 2]
    archived.write()
    assert [ask(66.0), ask(77.0), ask(77.5)] == [2, 2, 3]


def test_an_answer_that_nobody_asked_for_in_hours_serves_nobody(archived: ArchivedSetting) -> None:
    """Entries with a ttl have expired meanwhile, although nothing was written."""

    def time_of(reader: LocationReader) -> float:
        return archived.clock.seconds

    assert [archived.ask(time_of, seconds) for seconds in (0.0, 11.0, 50.0)] == [0.0, 11.0, 11.0]
    assert archived.ask(time_of, 8 * 3600.0) == 8 * 3600.0


def test_an_answer_that_took_long_serves_longer_while_nothing_changes(archived: ArchivedSetting) -> None:
    slow = SlowAnswer(archived.clock)
    assert [archived.ask(slow, 0.0), archived.ask(slow, 41.0)] == [1, 2]
    assert [archived.ask(slow, 41.0 + seconds) for seconds in range(11, 190, 11)] == [2] * 17
    assert archived.ask(slow, 41.0 + 2 * UNCHANGED_TIMES + UNCHANGED_SECONDS) == 2
    renewed(archived.reads)
    assert archived.ask(slow, archived.clock.seconds) == 3
    archived.write()
    assert archived.ask(slow, archived.clock.seconds + 60) == 4


def test_a_folder_is_read_again_when_a_file_of_it_was_changed(tmp_path: Path) -> None:
    """Also right after a write, when the next one may leave the same time at a file."""
    counted = []

    def number(reader: LocationReader) -> int:
        counted.append(len(list(reader.read_business("jobs").entries())))
        return counted[-1]

    clock = FakeClock()
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1
        reads = SharedReader(lambda: ReadOnlyStore(make_options(tmp_path)), ThreadWorkers("test", 2), clock)

        def count(after: float, written_ms_ago: int) -> int:
            clock.seconds += after
            newest = max(path.stat().st_mtime_ns for path in tmp_path.rglob("*.wal"))
            clock.ms = newest // 1_000_000 + written_ms_ago
            with reads.view() as view:
                return view.made(number)

        assert count(0.0, 5_000) == 1
        assert count(FRESH_SECONDS + 0.1, 5_000) == 1  # its files are known from here on
        assert [count(FRESH_SECONDS + 0.1, 5_000) for _ in range(3)] == [1, 1, 1]
        assert len(counted) == 2
        store.map("jobs")["b"] = 2
        assert count(FRESH_SECONDS + 0.1, 5) == 2
        assert count(FRESH_SECONDS + 0.1, 5) == 2
        assert len(counted) == 4
        assert count(UNCHANGED_SECONDS, 90_000) == 2
        assert len(counted) == 5
    reads.close()


def test_an_archive_is_read_again_when_something_was_put_there(archived: ArchivedSetting) -> None:
    counted = SlowAnswer(archived.clock, 0)

    def count_at(seconds: float) -> int:
        return archived.ask(counted, seconds)

    assert [count_at(seconds) for seconds in (0.0, FRESH_SECONDS + 0.1, ARCHIVED_FRESH_SECONDS)] == [1, 1, 1]
    assert count_at(ARCHIVED_FRESH_SECONDS + 0.1) == 2  # what was there before is not known yet
    assert [count_at(turn * ARCHIVED_FRESH_SECONDS + 1) for turn in (2, 3, 4)] == [2, 2, 2]
    archived.write()
    assert count_at(5 * ARCHIVED_FRESH_SECONDS + 2) == 3
    archived.objects.put_if_absent("default/other/jobs/local/_log", b"{}")
    assert count_at(6 * ARCHIVED_FRESH_SECONDS + 3) == 3
    archived.objects.delete("default/local/jobs/local/_log")
    assert count_at(7 * ARCHIVED_FRESH_SECONDS + 4) == 4
    last = 7 * ARCHIVED_FRESH_SECONDS + 5 + UNCHANGED_SECONDS
    assert count_at(last) == 4
    renewed(archived.reads)
    assert count_at(last) == 5


def test_an_answer_of_before_a_change_does_not_outlive_it_by_much(archived: ArchivedSetting) -> None:
    """It took long, and what is listed has not changed since: but it was made from what was there before."""
    seen = []

    def slowly(reader: LocationReader) -> int:
        found = len(archived.objects.list(""))
        archived.clock.seconds += 6
        return found

    for turn in range(12):
        seen.append(archived.ask(slowly, 12.0 * turn))
        renewed(archived.reads)
        if turn == 3:
            archived.write()
    assert seen.index(1) <= 3 + 60 / 12 + 2


def test_answers_that_nobody_asks_for_any_more_go(archived: ArchivedSetting) -> None:
    for turn in range(200):
        archived.ask(lambda reader, turn=turn: turn, 15.0 * turn)
    assert len(archived.reads._generation.made) < 20
