"""Rounds of followers over folders: what is opened, what is recorded, and who does it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import KvwalError
from kvwal.spark.eventlog import lines
from kvwal.spark.eventlog.folders import EventLogsUnreachable, LocalFolder
from kvwal.spark.eventlog.lines import Lines
from kvwal.spark.eventlog.listing import ListedFile
from kvwal.spark.follower import follower as follower_module
from kvwal.spark.follower.follower import Follower, Stopped
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.queries import applications
from kvwal.spark.state import LeaseLost
from tests.support.event_logs import CODECS, SUFFIXES, TASKS, compressed, counts, event_log, write_rolling


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._random = random.Random(1)

    def wall_ms(self) -> int:
        return 0

    def elapsed(self) -> float:
        return self.now

    def random_bits(self, bits: int) -> int:
        return self._random.getrandbits(bits)


class Setting:
    """A store, a folder of logs, and followers of it."""

    def __init__(self, store: kvwal.Store, logs: Path) -> None:
        self.records = store.map("spark")
        self.logs = logs
        self.clock = HandClock()
        self.status = FollowerStatus(self.clock)

    def follower(self, records: Any = None, **changed: Any) -> Follower:
        given = {"status": self.status, "is_stopped": lambda: False, "folders": [LocalFolder(self.logs)], **changed}
        return Follower(records or self.records, clock=self.clock, **given)

    def write(self, name: str, data: bytes) -> Path:
        path = self.logs / name
        path.write_bytes(data)
        return path


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield Setting(store, logs)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The files that are opened, each with the byte at which reading begins."""
    found: list[tuple[str, int]] = []
    begin, move = Lines.__init__, Lines.move_to

    def noted(self: Lines, path: Any, start: int = 0) -> None:
        found.append((path.name, start))
        begin(self, path, start)

    def moved(self: Lines, path: Any) -> bool:
        found.append((path.name, self.tell()))
        return move(self, path)

    monkeypatch.setattr(Lines, "__init__", noted)
    monkeypatch.setattr(Lines, "move_to", moved)
    return found


def test_the_second_round_opens_no_log_and_a_new_follower_opens_none_either(
    setting: Setting, opened: list[tuple[str, int]]
) -> None:
    for number, codec in enumerate(CODECS):
        setting.write(f"app-{number}{SUFFIXES[codec]}", compressed(event_log(f"app-{number}", 5), codec))
    setting.write("app-8.inprogress", event_log("app-8", 5, ended=False))
    write_rolling(setting.logs, "app-9", [event_log("app-9", 5)], in_progress=False)
    setting.write("readme.txt", b"no event log\n")
    setting.write("empty", b"")
    first = setting.follower()
    first.round()
    assert opened
    opened.clear()
    first.round()
    first.close()
    setting.follower().round()
    assert opened == []
    last = setting.status.last
    assert last is not None
    assert (last.logs, last.complete, last.growing, last.skipped, len(last.applications)) == (9, 6, 1, 2, 7)
    assert {application.app.id for application in applications(setting.records)} == {
        "app-0", "app-1", "app-2", "app-3", "app-4", "app-8", "app-9",
    }  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_of_a_log_that_grows_only_new_bytes_are_read(
    setting: Setting, opened: list[tuple[str, int]], codec: str
) -> None:
    whole = compressed(event_log("app-1", 200), codec)
    name = f"app-1{SUFFIXES[codec]}"
    half = len(whole) // 2
    log = setting.write(f"{name}.inprogress", whole[:half])
    follower = setting.follower()
    follower.round()
    opened.clear()
    log.write_bytes(whole)
    follower.round()
    log.rename(setting.logs / name)
    follower.round()
    assert opened == [(f"{name}.inprogress", half), (name, len(whole))]
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 200, 200 * TASKS, 200)


def test_a_rolling_log_is_followed_through_its_rolls_and_their_compaction(setting: Setting) -> None:
    rolls = [event_log("app-1", 5, ended=False)]
    write_rolling(setting.logs, "app-1", rolls, in_progress=True)
    follower = setting.follower()
    follower.round()
    text = event_log("app-1", 10, first=5).split(b"\n", 3)[3]
    write_rolling(setting.logs, "app-1", [*rolls, text[:1_000]], in_progress=True)
    follower.round()
    folder = write_rolling(setting.logs, "app-1", [*rolls, text], in_progress=True)
    (folder / "events_2_app-1").rename(folder / "events_2_app-1.compact")
    (folder / "events_1_app-1").unlink()
    follower.round()
    write_rolling(setting.logs, "app-1", [], in_progress=False)
    follower.round()
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 15, 15 * TASKS, 15)


def test_what_a_log_no_longer_has_stays_in_the_store(setting: Setting) -> None:
    log = setting.write("app-1.inprogress", event_log("app-1", 5, ended=False))
    follower = setting.follower()
    follower.round()
    log.unlink()
    follower.round()
    assert counts(setting.records, "app-1") == ("RUNNING", 5, 5 * TASKS, 5)
    assert "!lease/app-1" not in setting.records


@pytest.mark.parametrize("app", ["app-1", "app-2"])
def test_a_log_that_is_written_anew_while_it_is_followed_is_read_from_its_start(setting: Setting, app: str) -> None:
    log = setting.write("log.inprogress", event_log("app-1", 20, ended=False))
    follower = setting.follower()
    follower.round()
    log.write_bytes(event_log(app, 30, first=100, ended=False))
    follower.round()
    expected = {"app-1": 50, "app-2": 30}[app]
    assert counts(setting.records, app) == ("RUNNING", expected, expected * TASKS, expected)


def test_two_logs_of_one_application_are_read_one_after_the_other(setting: Setting) -> None:
    setting.write("one.inprogress", event_log("app-1", 10, ended=False))
    setting.write("two.inprogress", event_log("app-1", 10, first=7, ended=False))
    follower = setting.follower()
    follower.round()
    assert counts(setting.records, "app-1") == ("RUNNING", 17, 17 * TASKS, 17)
    setting.write("one.inprogress", event_log("app-1", 12, ended=False))
    setting.write("two.inprogress", event_log("app-1", 12, first=7))
    follower.round()
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 19, 19 * TASKS, 19)


def test_more_running_logs_than_readers_are_kept_lose_nothing(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "MOST_READERS", 2)
    follower = setting.follower()
    for jobs in (2, 5, 9):
        for number in range(5):
            setting.write(f"app-{number}.inprogress", event_log(f"app-{number}", jobs, ended=False))
        follower.round()
    last = setting.status.last
    assert last is not None
    assert last.readers == 2
    for number in range(5):
        assert counts(setting.records, f"app-{number}") == ("RUNNING", 9, 9 * TASKS, 9)


def test_a_damaged_log_is_counted_and_stops_no_other(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK", 2_000)
    whole = bytearray(compressed(event_log("app-1", 300), "lz4"))
    last = whole.rindex(b"LZ4Block")
    whole[last : last + 8] = bytes(8)
    setting.write("app-1.lz4", bytes(whole))
    setting.write("app-2", event_log("app-2", 2) + b"\xff\xfe no event\n")
    setting.write("app-3", event_log("app-3", 2))
    follower = setting.follower()
    for _ in range(2):
        follower.round()
        last = setting.status.last
        assert last is not None
        assert (last.stopped_early, last.complete, last.damaged, last.whole) == (1, 2, 2, True)


def test_a_log_that_vanishes_while_it_is_read_is_looked_at_again(setting: Setting) -> None:
    log = setting.write("app-1.inprogress", event_log("app-1", 2, ended=False))

    class Renaming(LocalFolder):
        def list(self) -> list[ListedFile]:
            found = super().list()
            if log.exists():
                log.rename(log.with_name("app-1"))
            return found

    follower = setting.follower(folders=[Renaming(setting.logs)])
    follower.round()
    assert not setting.status.ready()[0]
    follower.round()
    assert setting.status.ready()[0]
    assert counts(setting.records, "app-1")[1] == 2


def test_a_folder_that_does_not_answer_is_said_and_the_others_are_read(setting: Setting) -> None:
    setting.write("app-1", event_log("app-1", 2))

    class Away(LocalFolder):
        away = True

        def list(self) -> list[ListedFile]:
            if self.away:
                raise EventLogsUnreachable("it answers 503.", hint="Wait.")
            return super().list()

    away = Away(setting.logs)
    (setting.logs.parent / "more").mkdir()
    follower = setting.follower(folders=[away, LocalFolder(setting.logs.parent / "more")])
    follower.round()
    setting.clock.now += 9
    ready, details = setting.status.ready()
    assert (ready, details["waiting"], details["lag_seconds"]) == (False, "it answers 503. Wait.", 9.0)
    assert setting.status.troubles == 1
    Away.away = False
    follower.round()
    ready, details = setting.status.ready()
    assert (ready, details["lag_seconds"], details["applications"]) == (True, 0.0, 1)


class Dying:
    """A map whose user is gone at a write: just before it, or just after it."""

    def __init__(self, records: Any, at: int, *, after: bool) -> None:
        self._records = records
        self._left = at
        self._after = after
        self.get, self.scan = records.get, records.scan

    def _write(self, call: Any, *arguments: Any) -> Any:
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Killed
        answer = call(*arguments)
        if self._left < 0:
            raise Killed
        return answer

    def commit_if(self, conditions: Any, items: Any, deletes: Any = ()) -> Any:
        return self._write(self._records.commit_if, conditions, items, deletes)

    def put_many(self, entries: dict[str, Any]) -> Any:
        return self._write(self._records.put_many, entries)


class Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_write_another_follower_takes_over_and_each_event_counts_once(
    setting: Setting, after: bool
) -> None:
    for at in range(6):
        apps = (f"app-{at}-1", f"app-{at}-2")
        (setting.logs / f"{apps[0]}.inprogress").write_bytes(event_log(apps[0], 5, ended=False))
        write_rolling(setting.logs, apps[1], [event_log(apps[1], 5, ended=False)], in_progress=True)
        with pytest.raises(Killed):
            setting.follower(Dying(setting.records, at, after=after)).round()
        setting.write(f"{apps[0]}.inprogress", event_log(apps[0], 9, ended=False))
        write_rolling(setting.logs, apps[1], [event_log(apps[1], 9, ended=False)], in_progress=True)
        heir = setting.follower()
        for _ in range(10):  # it waits until the dead one's leases are over
            heir.round()
            setting.clock.now += 10.0
        heir.close()
        for app in apps:
            assert counts(setting.records, app) == ("RUNNING", 9, 9 * TASKS, 9)


def test_two_followers_share_the_logs_and_neither_reads_what_the_other_holds(setting: Setting) -> None:
    for number in range(6):
        setting.write(f"app-{number}.inprogress", event_log(f"app-{number}", 3, ended=False))
    statuses = [FollowerStatus(setting.clock) for _ in range(2)]
    one, two = (setting.follower(status=status) for status in statuses)
    one.round()
    for number in range(6, 9):
        setting.write(f"app-{number}.inprogress", event_log(f"app-{number}", 3, ended=False))
    two.round()
    for number in range(9):
        setting.write(f"app-{number}.inprogress", event_log(f"app-{number}", 4, ended=False))
    one.round()
    two.round()
    last = [status.last for status in statuses]
    assert [found.elsewhere for found in last if found] == [3, 0]
    assert [found.readers for found in last if found] == [6, 3]
    for number in range(9):
        assert counts(setting.records, f"app-{number}") == ("RUNNING", 4, 4 * TASKS, 4)
    one.close()
    for number in range(9):
        setting.write(f"app-{number}.inprogress", event_log(f"app-{number}", 5, ended=False))
    two.round()
    two.close()
    assert not [key for key in setting.records if key.startswith(("!lease/", "!follower/"))]
    for number in range(9):
        assert counts(setting.records, f"app-{number}") == ("RUNNING", 5, 5 * TASKS, 5)


def test_a_follower_that_stood_still_writes_nothing_over_its_heir(setting: Setting) -> None:
    log = setting.write("app-1.inprogress", event_log("app-1", 5, ended=False))
    stale, heir = setting.follower(), setting.follower()
    stale.round()
    heir.round()
    log.write_bytes(event_log("app-1", 9, ended=False))
    for _ in range(10):
        heir.round()
        setting.clock.now += 10.0
    heir.round()
    position = setting.records["app-1/log"]
    assert counts(setting.records, "app-1") == ("RUNNING", 9, 9 * TASKS, 9)
    log.write_bytes(event_log("app-1", 7, ended=False))  # what the stale one is about to read
    with pytest.raises(LeaseLost, match="nothing was written"):
        stale.round()
    stale.close()
    assert setting.records["app-1/log"] == position
    assert setting.records["!lease/app-1"] == {"kind": "lease", "holder": heir._leases.holder}


def test_a_stop_comes_after_the_current_transaction(setting: Setting) -> None:
    setting.write("app-1", event_log("app-1", 3))
    setting.write("app-2", event_log("app-2", 3))
    follower = setting.follower(is_stopped=lambda: "app-1/app" in setting.records)
    with pytest.raises(Stopped):
        follower.round()
    follower.close()
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 3, 3 * TASKS, 3)
    assert "app-2/app" not in setting.records
    assert not [key for key in setting.records if key.startswith(("!lease/", "!follower/"))]


def test_no_name_of_an_application_reaches_the_keys_of_the_follower(setting: Setting) -> None:
    for name in ("!lease", "!log", "../..", "!follower/1"):
        setting.write("hostile", event_log(name, 1))
        setting.follower().round()
    known = {key for key in setting.records if key.startswith("!")}
    assert {key.split("/")[0] for key in known} <= {"!log", "!lease", "!follower"}
    assert all(setting.records[key]["kind"] in ("eventlog", "lease", "follower") for key in known)
    assert len(applications(setting.records)) == 4


def test_an_error_of_the_store_ends_the_round(setting: Setting) -> None:
    class Refusing(Dying):
        def _write(self, call: Any, *arguments: Any) -> Any:
            raise KvwalError("the store is away.")

    with pytest.raises(KvwalError, match="away"):
        setting.follower(Refusing(setting.records, 0, after=False)).round()
