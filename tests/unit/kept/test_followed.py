"""Followers that keep logs: which logs, when, and what a stop or a deleted log leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

import kvwal
from kvwal.spark.eventlog.folders import LocalFolder
from kvwal.spark.follower.follower import Follower, Stopped
from kvwal.spark.follower.quiet_logs import QUIET_SECONDS, QuietLogs
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.kept.contents import KEPT_LOGS
from tests.support.event_logs import event_log, write_rolling
from tests.support.kept.clock import HandClock


class Setting:
    """A store, a folder of logs, and followers that keep them."""

    def __init__(self, store: kvwal.Store, logs: Path) -> None:
        self.records = store.map("spark")
        self.contents = store.content(KEPT_LOGS)
        self.logs = logs
        self.clock = HandClock()
        self.looks = 0
        """How often followers have looked whether they are to stop."""
        self.stops_at = 0
        """The look that says so; 0: none does."""

    def is_stopped(self) -> bool:
        self.looks += 1
        return self.looks == self.stops_at

    def follower(self, *, keeps: bool = True) -> Follower:
        quiet_logs = QuietLogs(self.contents, self.clock) if keeps else None
        folders = [LocalFolder(self.logs)]
        status = FollowerStatus(self.clock)
        return Follower(self.records, folders, status, self.clock, self.is_stopped, quiet_logs)

    def log(self, name: str) -> bytes:
        data = self.contents.get(name)
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield Setting(store, logs)


def test_a_finished_log_is_kept_in_the_round_that_reads_it(setting: Setting) -> None:
    (setting.logs / "app-1").write_bytes(event_log("app-1", 2))
    setting.follower().round()
    assert list(setting.contents) == ["app-1/app-1.zstd"]


def test_a_log_that_grows_is_kept_when_it_has_ended(setting: Setting) -> None:
    follower = setting.follower()
    (setting.logs / "app-1.inprogress").write_bytes(event_log("app-1", 1, ended=False))
    follower.round()
    follower.round()
    assert list(setting.contents) == []
    (setting.logs / "app-1.inprogress").rename(setting.logs / "app-1")
    (setting.logs / "app-1").write_bytes(event_log("app-1", 2))
    follower.round()
    assert setting.log("app-1/app-1.zstd") == event_log("app-1", 2)


def test_a_quiet_log_without_an_end_is_kept_and_kept_anew_when_it_goes_on(setting: Setting) -> None:
    follower, name = setting.follower(), "app-1/app-1.zstd.inprogress"
    path = setting.logs / "app-1.inprogress"
    for jobs in (1, 2):
        path.write_bytes(event_log("app-1", jobs, ended=False))
        follower.round()
        setting.clock.now += QUIET_SECONDS / 2
        follower.round()
        assert (name in setting.contents) == (jobs == 2)
        setting.clock.now += QUIET_SECONDS / 2 + 1
        follower.round()
        assert setting.log(name) == event_log("app-1", jobs, ended=False)


def test_logs_that_were_recorded_before_are_kept_by_the_first_round_that_keeps(setting: Setting) -> None:
    (setting.logs / "app-1").write_bytes(event_log("app-1", 2))
    first = setting.follower(keeps=False)
    first.round()
    first.close()
    assert list(setting.contents) == []
    setting.follower().round()
    assert list(setting.contents) == ["app-1/app-1.zstd"]


def test_a_kept_log_is_not_read_again_after_a_restart(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    (setting.logs / "app-1").write_bytes(event_log("app-1", 2))
    first = setting.follower()
    first.round()
    first.close()
    (setting.logs / "app-1").chmod(0)
    timestamp = setting.contents.stat("app-1/app-1.zstd").timestamp
    setting.follower().round()
    assert setting.contents.stat("app-1/app-1.zstd").timestamp == timestamp


def test_a_log_that_spark_deletes_stays_kept(setting: Setting) -> None:
    follower = setting.follower()
    (setting.logs / "app-1").write_bytes(event_log("app-1", 2))
    follower.round()
    (setting.logs / "app-1").unlink()
    (setting.logs / "app-2").write_bytes(event_log("app-2", 1))
    follower.round()
    assert list(setting.contents) == ["app-1/app-1.zstd", "app-2/app-2.zstd"]


def test_a_stopped_follower_keeps_no_half_of_a_log(setting: Setting) -> None:
    log = write_rolling(setting.logs, "app-1", [event_log("app-1", 1, ended=False), b"\n"], in_progress=False)
    first = setting.follower(keeps=False)
    first.round()
    first.close()
    assert log.exists()
    setting.stops_at = setting.looks + 2  # the first look is before the log, the second between two parts of it
    with pytest.raises(Stopped):
        setting.follower().round()
    assert list(setting.contents) == []
    setting.follower().round()
    assert list(setting.contents) == ["app-1/app-1.zstd"]


def test_a_log_without_one_of_its_rolls_is_kept_when_the_roll_is_there(setting: Setting) -> None:
    follower, text = setting.follower(), event_log("app-1", 1)
    log = write_rolling(setting.logs, "app-1", [text, b'{"Event":"x"}\n', b'{"Event":"y"}\n'], in_progress=False)
    (log / "events_2_app-1").rename(setting.logs / ".away")
    follower.round()
    follower.round()
    assert list(setting.contents) == []
    (setting.logs / ".away").rename(log / "events_2_app-1")
    follower.round()
    assert setting.log("app-1/app-1.zstd") == text + b'{"Event":"x"}\n{"Event":"y"}\n'
