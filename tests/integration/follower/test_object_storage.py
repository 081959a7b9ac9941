"""Event logs in a bucket: what is requested, and what happens when the storage is slow, busy, refuses, or goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog.folders import READ_AHEAD, EventLogsRefused, EventLogsUnreachable, open_folder
from kvwal.spark.follower.follower import Follower
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.leases import BEAT_SECONDS
from kvwal_archive.objects.remote import RemoteObjects
from tests.support.archive import s3
from tests.support.disk.faults import FakeClock
from tests.support.event_logs import CODECS, SUFFIXES, TASKS, compressed, counts, event_log, lines


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh bucket that the environment's keys reach, as they do in production."""
    for name, value in s3.server().environment().items():
        monkeypatch.setenv(name, value)
    return s3.bucket(s3.server())


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Any]:
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield store.map("spark")


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is asked of the storage: listings, and ranges of objects."""
    asked: list[tuple[Any, ...]] = []
    listing, reading = RemoteObjects.list, RemoteObjects.read_range

    def listed(self: RemoteObjects, prefix: str) -> Any:
        asked.append(("list", prefix))
        return listing(self, prefix)

    def read(self: RemoteObjects, key: str, start: int, end: int) -> bytes:
        asked.append((key, start, end))
        return reading(self, key, start, end)

    monkeypatch.setattr(RemoteObjects, "list", listed)
    monkeypatch.setattr(RemoteObjects, "read_range", read)
    return asked


def put(url: str, data: bytes) -> None:
    s3.filesystem(s3.server()).pipe_file(url, data)


def following(records: Any, *urls: str, clock: Clock = SYSTEM) -> tuple[Follower, FollowerStatus]:
    status = FollowerStatus(clock)
    return Follower(records, [open_folder(url) for url in urls], status, clock, lambda: False), status


def test_a_round_costs_one_listing_and_reads_only_what_is_new(
    bucket: str, records: Any, requests: list[tuple[Any, ...]]
) -> None:
    for number, codec in enumerate(CODECS):
        put(f"{bucket}/logs/app-{number}{SUFFIXES[codec]}", compressed(event_log(f"app-{number}", 4), codec))
    rolled = f"{bucket}/logs/eventlog_v2_app-9"
    put(f"{rolled}/appstatus_app-9.inprogress", b"")
    put(f"{rolled}/events_1_app-9", event_log("app-9", 4, ended=False))
    follower, status = following(records, f"{bucket}/logs")
    follower.round()
    assert [asked for asked in requests if asked[0] == "list"] == [("list", "")]
    assert len(requests) == 1 + len(CODECS) + 1, "each log is small, so one request reads it"
    requests.clear()
    follower.round()
    follower.close()
    follower, status = following(records, f"{bucket}/logs/")
    follower.round()
    assert requests == [("list", ""), ("list", "")]
    requests.clear()
    more = event_log("app-9", 3, first=4).split(b"\n", 3)[3]
    put(f"{rolled}/events_2_app-9", more)
    follower.round()
    assert {asked[0] for asked in requests} == {
        "list",
        "eventlog_v2_app-9/events_1_app-9",
        "eventlog_v2_app-9/events_2_app-9",
    }
    last = status.last
    assert last is not None
    assert (last.logs, last.complete, last.growing, last.whole) == (len(CODECS) + 1, len(CODECS), 1, True)
    follower.close()
    for number in range(len(CODECS)):
        assert counts(records, f"app-{number}") == ("SUCCEEDED", 4, 4 * TASKS, 4)
    assert counts(records, "app-9")[1:] == (7, 7 * TASKS, 7)


def test_of_an_object_that_grows_only_the_new_range_is_requested(
    bucket: str, records: Any, requests: list[tuple[Any, ...]]
) -> None:
    large = event_log("app-1", 3, ended=False) + lines({"Event": "Filler", "Text": "x" * READ_AHEAD})
    put(f"{bucket}/app-1.inprogress", large)
    follower, _ = following(records, bucket)
    follower.round()
    requests.clear()
    grown = large + event_log("app-1", 2, first=3).split(b"\n", 3)[3]
    put(f"{bucket}/app-1.inprogress", grown)
    follower.round()
    assert requests == [("list", ""), ("app-1.inprogress", len(large) - 256, len(grown))]
    follower.close()
    assert counts(records, "app-1")[1:] == (5, 5 * TASKS, 5)


def test_the_command_reads_a_url_once(bucket: str, tmp_path: Path) -> None:
    put(f"{bucket}/logs/app-1.zstd", compressed(event_log("app-1", 4), "zstd"))
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        (read,) = record_event_logs(store, [f"{bucket}/logs"])
        assert (read.path.name, read.complete) == ("app-1.zstd", True)
        assert str(read.path) == f"{bucket}/logs/app-1.zstd"
        (again,) = record_event_logs(store, [f"{bucket}/logs/app-1.zstd"])
        assert again.events == 0
        assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 4, 4 * TASKS, 4)


def test_a_wrong_key_and_a_missing_bucket_are_refusals(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EventLogsRefused, match="no such bucket"):
        open_folder("s3://kvwal-there-is-none/logs").list()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-one")
    with pytest.raises(EventLogsRefused, match="refused access") as refused:
        open_folder(f"{bucket}/logs").list()
    assert "AWS_SECRET_ACCESS_KEY" in refused.value.hint
    assert "not-the-one" not in str(refused.value)


@pytest.mark.long
def test_storage_that_goes_away_is_tried_again_and_nothing_is_lost(
    tmp_path: Path, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3.own_server() as mortal:
        for name, value in mortal.server.environment().items():
            monkeypatch.setenv(name, value)
        own = s3.bucket(mortal.server)
        files = s3.filesystem(mortal.server)
        files.pipe_file(f"{own}/app-1.inprogress", event_log("app-1", 3, ended=False))
        # A storage may take longer to come back than a lease lasts; the service would keep the lease meanwhile.
        clock = FakeClock()
        follower, status = following(records, own, clock=clock)
        follower.round()
        mortal.kill()
        with pytest.raises(EventLogsUnreachable, match="does not answer"):
            open_folder(own).list()
        clock.seconds += BEAT_SECONDS
        follower.beat()  # as the service does while the listing waits
        follower.round()
        clock.seconds += BEAT_SECONDS
        follower.beat()
        assert status.ready()[0] is False
        assert "does not answer" in (status.waiting or "")
        mortal.start()
        files.pipe_file(f"{own}/app-1", event_log("app-1", 5))
        follower.round()
        follower.close()
    assert status.ready()[0]
    assert counts(records, "app-1") == ("SUCCEEDED", 5, 5 * TASKS, 5)
