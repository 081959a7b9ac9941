"""The shared reader of the console: one location for all requests, opened again after an error, and answers of one second."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any, cast

import pytest

import kvwal
from kvwal.console.shared_answer import FRESH_SECONDS, UNCHANGED_TIMES, SharedAnswer, Source
from kvwal.console.shared_reader import (
    ARCHIVED_FRESH_SECONDS,
    UNCHANGED_SECONDS,
    SharedReader,
    View,
)
from kvwal.errors import ArchiveError, BeforeHistory, ConfigError
from kvwal.location.archived import ArchiveReader
from kvwal.location.readers import LocationReader
from kvwal.ports.tasks import ThreadWorkers
from kvwal.spark import index
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Application, to_value
from kvwal.store.sync import ReadOnlyStore
from kvwal_archive.objects import open_objects
from tests.support.disk.faults import FakeClock, make_options


class Location:
    """A location that counts how often it is opened and closed, and may be away."""

    def __init__(self) -> None:
        self.opened = self.closed = self.made = 0
        self.away = False

    @contextmanager
    def open(self) -> Iterator[LocationReader]:
        if self.away:
            raise ArchiveError("the bucket does not answer.")
        self.opened += 1
        try:
            yield cast(LocationReader, self)
        finally:
            self.closed += 1


def make(reader: LocationReader) -> int:
    location = cast(Any, reader)
    location.made += 1
    return cast(int, location.made)


def fail(view: View) -> None:
    raise ArchiveError("an object is damaged.")


def mistype(view: View) -> None:
    raise ConfigError("there is no such application.")


def ask_too_early(view: View) -> None:
    raise BeforeHistory("only the latest entry of each key was kept.")


def renewed(reads: SharedReader) -> None:
    """Wait until the answers that are to be made in the background are made."""
    ended = Event()
    assert reads._renewals.begin(ended.set)
    assert ended.wait(60)


class Setting:
    def __init__(self) -> None:
        self.location = Location()
        self.clock = FakeClock()
        self.reads = SharedReader(self.location.open, ThreadWorkers("test", 2), self.clock)

    def made(self) -> int:
        with self.reads.view() as view:
            return view.made(make)


@pytest.fixture
def setting() -> Iterator[Setting]:
    setting = Setting()
    yield setting
    setting.reads.close()
    assert setting.location.closed == setting.location.opened


def test_what_one_request_made_serves_the_others_for_a_second(setting: Setting) -> None:
    assert [setting.made(), setting.made()] == [1, 1]
    setting.clock.seconds += FRESH_SECONDS + 0.1
    assert [setting.made(), setting.made()] == [2, 2]
    assert setting.location.opened == 1


def test_what_took_long_serves_ten_times_as_long(setting: Setting) -> None:
    def make_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        return make(reader)

    def made() -> int:
        with setting.reads.view() as view:
            return view.made(make_slowly)

    assert made() == 1  # it is as old as its beginning
    for _ in range(10):
        setting.clock.seconds += 1.7
        assert made() == 1
        setting.made()
    assert setting.location.made > 8, "what took no time is made anew meanwhile"
    setting.clock.seconds += 1.1
    assert made() == 1, "nobody waits for the next one"
    renewed(setting.reads)
    assert made() == setting.location.made


def test_all_take_the_answer_of_before_while_the_next_is_made(setting: Setting) -> None:
    made, begins, goes_on = [0], Event(), Event()
    goes_on.set()

    def make_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        made[0] += 1
        begins.set()
        assert goes_on.wait(60)
        return made[0]

    def ask() -> int:
        with setting.reads.view() as view:
            return view.made(make_slowly)

    assert ask() == 1
    setting.clock.seconds += 19
    begins.clear()
    goes_on.clear()
    assert ask() == 1
    assert begins.wait(60)
    assert [ask(), ask()] == [1, 1]
    goes_on.set()
    renewed(setting.reads)
    assert (ask(), made) == (2, [2])
    setting.clock.seconds += 41
    assert ask() == 3, "what is too old serves nobody"


def test_an_answer_in_the_making_is_not_begun_again_when_something_is_written(setting: Setting) -> None:
    """It would be made again each second, by one more request each time, and never end."""
    made, begins, goes_on, found = [0], Event(), Event(), list[int]()

    def make_slowly(reader: LocationReader) -> int:
        made[0] += 1
        begins.set()
        assert goes_on.wait(60)
        return made[0]

    def ask() -> None:
        with setting.reads.view() as view:
            found.append(view.made(make_slowly))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
        assert begins.wait(60)
        setting.clock.seconds += 2
        setting.made()  # the location is looked at, and the generation ends
    goes_on.set()
    for thread in threads:
        thread.join()
    assert (found, made) == ([1] * 4, [1])


def test_an_answer_that_was_right_a_moment_ago_serves_when_something_is_written(tmp_path: Path) -> None:
    """Nothing was written for long, so it was made long ago. It is as new as the last look."""
    objects, made = open_objects(str(tmp_path)), [0]
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)

    def number(reader: LocationReader) -> int:
        made[0] += 1
        clock.seconds += 2
        return made[0]

    def ask(seconds: float) -> int:
        clock.seconds = seconds
        with reads.view() as view:
            found = view.made(number)
        renewed(reads)
        return found

    assert [ask(seconds) for seconds in (0.0, 11.0, 22.0, 33.0, 44.0, 55.0)] == [1, 1, 1, 2, 2, 2]
    objects.put_if_absent("default/local/jobs/local/_log", b"{}")
    assert [ask(66.0), ask(77.0), ask(77.5)] == [2, 2, 3]
    reads.close()


def test_an_error_in_the_background_is_met_by_a_request(setting: Setting) -> None:
    fails = [False]

    def make_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        if fails[0]:
            raise ArchiveError("an object is damaged.")
        return make(reader)

    def ask() -> int:
        with setting.reads.view() as view:
            return view.made(make_slowly)

    assert ask() == 1
    setting.clock.seconds += 19
    fails[0] = True
    assert ask() == 1
    renewed(setting.reads)
    with pytest.raises(ArchiveError):
        ask()
    fails[0] = False
    assert ask() == 2


def test_threads_take_short_turns_while_an_answer_is_made_in_the_background(setting: Setting) -> None:
    """Also an answer that fails."""
    usual, turns = sys.getswitchinterval(), list[float]()

    def make_slowly(reader: LocationReader) -> float:
        setting.clock.seconds += 2
        turns.append(sys.getswitchinterval())
        if len(turns) == 3:
            raise ArchiveError("an object is damaged.")
        return turns[-1]

    def ask() -> float:
        with setting.reads.view() as view:
            return view.made(make_slowly)

    for _ in range(3):
        assert ask() > 0
        renewed(setting.reads)
        assert sys.getswitchinterval() == usual
        setting.clock.seconds += 19
    assert turns[0] == usual
    assert [turn < usual / 5 for turn in turns[1:]] == [True, True]


def test_a_list_is_never_made_from_the_records_of_before(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while the next records are read: others may take those of before meanwhile."""
    made, begins, goes_on = [0], Event(), Event()
    goes_on.set()

    def read_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        made[0] += 1
        begins.set()
        assert goes_on.wait(60)
        return made[0]

    monkeypatch.setattr("kvwal.console.shared_reader._records", read_slowly)

    def records() -> Any:
        with setting.reads.view() as view:
            return view.records

    assert records() == 1
    setting.clock.seconds += 19
    begins.clear()
    goes_on.clear()
    assert records() == 1
    assert begins.wait(60)
    listed: list[Any] = []

    def ask() -> None:
        with setting.reads.view() as view:
            listed.append(view.made_of_records(lambda records: records))

    asking = Thread(target=ask)
    asking.start()
    assert records() == 1
    goes_on.set()
    asking.join()
    assert listed == [2]


def test_a_list_that_takes_long_is_made_from_the_records_of_its_time(tmp_path: Path) -> None:
    """Also where people ask all the time, so that each list stands in for the next one."""
    clock = FakeClock()
    with kvwal.open(tmp_path, archive=None) as store:
        reads = SharedReader(lambda: ReadOnlyStore(make_options(tmp_path)), ThreadWorkers("test", 2), clock)

        def listed(records: RecordReader) -> list[str]:
            clock.seconds += 0.2
            return [prefix for prefix, _ in records.applications()]

        found = []
        for number in range(8):
            record = to_value(Application(id=f"app-{number}", name="report", started=number))
            entries = {f"app-{number}/app": record}
            store.map("spark").put_many(
                entries | index.index_entries(entries) | index.mark_of(store.map("spark"), store.node or "")
            )
            clock.seconds += 2.5
            for _ in range(2):
                with reads.view() as view:
                    newest = view.made_of_records(listed)
                renewed(reads)
            found.append(newest)
    reads.close()
    assert [len(each) for each in found] == list(range(1, 9))


def test_others_need_not_wait_for_an_answer_that_nothing_has_changed(tmp_path: Path) -> None:
    objects, made, begins, goes_on = open_objects(str(tmp_path)), [0], Event(), Event()
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)
    goes_on.set()

    def number(reader: LocationReader) -> int:
        made[0] += 1
        begins.set()
        assert goes_on.wait(60)
        return made[0]

    def ask(seconds: float) -> int:
        clock.seconds = seconds
        with reads.view() as view:
            return view.made(number)

    assert [ask(0.0), ask(11.0), ask(22.0)] == [1, 2, 2]
    begins.clear()
    goes_on.clear()
    later = 11.0 + UNCHANGED_SECONDS + ARCHIVED_FRESH_SECONDS
    assert ask(later) == 2
    assert begins.wait(60)
    assert ask(later) == 2
    goes_on.set()
    renewed(reads)
    assert ask(later) == 3
    reads.close()


def test_an_answer_that_took_long_serves_longer_while_nothing_changes(tmp_path: Path) -> None:
    objects, made = open_objects(str(tmp_path)), [0]
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)

    def number(reader: LocationReader) -> int:
        made[0] += 1
        clock.seconds += 2
        return made[0]

    def ask(seconds: float) -> int:
        clock.seconds = seconds
        with reads.view() as view:
            return view.made(number)

    assert [ask(0.0), ask(41.0)] == [1, 2]
    assert [ask(41.0 + seconds) for seconds in range(11, 190, 11)] == [2] * 17
    assert ask(41.0 + 2 * UNCHANGED_TIMES + UNCHANGED_SECONDS) == 2
    renewed(reads)
    assert ask(clock.seconds) == 3
    objects.put_if_absent("default/local/jobs/local/_log", b"{}")
    assert ask(clock.seconds + 60) == 4
    reads.close()


def test_an_answer_that_is_made_just_then_is_no_error() -> None:
    """Another thread ends making the next answer between two steps of one that takes the answer of before."""
    clock = FakeClock()
    first = SharedAnswer(lambda given: f"{given} s", clock)
    clock.seconds = 2.0
    assert first.made(lambda: Source(0)) == "0 s"
    following = first.again(2.0)
    assert following is not None and following is not first

    class EndsMeanwhile(FakeClock):
        def elapsed(self) -> float:
            following._clock = clock
            following.made(lambda: Source(2))
            return clock.elapsed()

    following._clock = EndsMeanwhile()
    found = following.at_hand()
    assert found is not None
    assert found.value == "0 s"
    assert following.at_hand() == ("2 s", False)


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


def test_an_archive_is_read_again_when_something_was_put_there(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)
    counted = []

    def count() -> int:
        with reads.view() as view:
            return view.made(number)

    def number(reader: LocationReader) -> int:
        counted.append(reader)
        return len(counted)

    def count_at(seconds: float) -> int:
        clock.seconds = seconds
        return count()

    assert [count_at(seconds) for seconds in (0.0, FRESH_SECONDS + 0.1, ARCHIVED_FRESH_SECONDS)] == [1, 1, 1]
    assert count_at(ARCHIVED_FRESH_SECONDS + 0.1) == 2  # what was there before is not known yet
    assert [count_at(turn * ARCHIVED_FRESH_SECONDS + 1) for turn in (2, 3, 4)] == [2, 2, 2]
    objects.put_if_absent("default/local/jobs/local/_log", b"{}")
    assert count_at(5 * ARCHIVED_FRESH_SECONDS + 2) == 3
    objects.put_if_absent("default/other/jobs/local/_log", b"{}")
    assert count_at(6 * ARCHIVED_FRESH_SECONDS + 3) == 3
    objects.delete("default/local/jobs/local/_log")
    assert count_at(7 * ARCHIVED_FRESH_SECONDS + 4) == 4
    assert count_at(7 * ARCHIVED_FRESH_SECONDS + 5 + UNCHANGED_SECONDS) == 4
    renewed(reads)
    assert count() == 5


def test_requests_that_come_together_have_one_of_them_open_and_make(setting: Setting) -> None:
    start, found = Barrier(8), []

    def ask() -> None:
        start.wait()
        found.append(setting.made())

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8
    assert setting.location.opened == 1


def test_an_error_of_the_store_has_the_next_request_open_it_again(setting: Setting) -> None:
    setting.made()
    with pytest.raises(ArchiveError), setting.reads.view() as view:
        fail(view)
    assert (setting.location.opened, setting.location.closed) == (1, 1)
    assert setting.made() == 2
    assert setting.location.opened == 2


def test_an_error_of_the_question_leaves_the_location_open(setting: Setting) -> None:
    for error, ask in ((ConfigError, mistype), (BeforeHistory, ask_too_early)):
        with pytest.raises(error), setting.reads.view() as view:
            ask(view)
    setting.made()
    assert setting.location.opened == 1


def test_a_failed_location_is_closed_after_the_last_request_that_reads_it(setting: Setting) -> None:
    with setting.reads.view() as view:
        with pytest.raises(ArchiveError), setting.reads.view() as other:
            fail(other)
        assert setting.location.closed == 0
        assert view.made(make) == 1
    assert setting.location.closed == 1


def test_a_store_that_was_away_and_is_back_is_read(setting: Setting) -> None:
    setting.location.away = True
    with pytest.raises(ArchiveError):
        asyncio.run(setting.reads.ask(lambda view: view.made(make)))
    setting.location.away = False
    assert asyncio.run(setting.reads.ask(lambda view: view.made(make))) == 1


def test_an_answer_of_before_a_change_does_not_outlive_it_by_much(tmp_path: Path) -> None:
    """It took long, and what is listed has not changed since: but it was made from what was there before."""
    objects, seen = open_objects(str(tmp_path)), []
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)

    def slowly(reader: LocationReader) -> int:
        found = len(objects.list(""))
        clock.seconds += 6
        return found

    for turn in range(12):
        clock.seconds = 12.0 * turn
        with reads.view() as view:
            seen.append(view.made(slowly))
        if turn == 3:
            objects.put_if_absent("default/local/jobs/local/_log", b"{}")
    assert seen.index(1) <= 3 + 60 / 12 + 2
    reads.close()


def test_answers_that_nobody_asks_for_any_more_go(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    clock, archive = FakeClock(), ArchiveReader(objects, "default", "local", None)
    reads = SharedReader(lambda: nullcontext(archive), ThreadWorkers("test", 2), clock)
    for turn in range(200):
        clock.seconds = 15.0 * turn
        with reads.view() as view:
            view.made(lambda reader, turn=turn: turn)
    assert len(reads._generation.made) < 20
    reads.close()
