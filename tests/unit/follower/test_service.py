"""The service of a follower: its end, its waits, and what it says to operators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ClusterUnreachable, CommitUnknown, ConfigError, LogFailed, NotRecovered
from kvwal.ports.clock import SYSTEM
from kvwal.spark.eventlog.folders import EventLogsRefused, EventLogsUnreachable, LocalFolder
from kvwal.spark.eventlog.listing import ListedFile
from kvwal.spark.follower.metrics import FollowerMetrics
from kvwal.spark.follower.service import FollowerService
from kvwal.spark.follower.status import FollowerStatus
from tests.support.event_logs import TASKS, counts, event_log


class Script(threading.Event):
    """A stop that never waits: at each wait it runs the next step, and after the last step it is set."""

    def __init__(self, *steps: Callable[[], Any]) -> None:
        super().__init__()
        self._steps = iter(steps)
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        step = next(self._steps, None)
        if step is None:
            self.set()
        else:
            step()
        return self.is_set()


def service(root: Path, folder: Any, stop: threading.Event, opens: Iterator[Exception] = iter(())) -> FollowerService:
    """A service over a store under `root`; each try to open it raises the next of `opens`, as long as there are some."""

    @contextmanager
    def open_store() -> Iterator[kvwal.Store]:
        if (error := next(opens, None)) is not None:
            raise error
        with kvwal.open(root, archive=None, flush="os") as store:
            yield store

    return FollowerService(open_store, [folder], FollowerStatus(SYSTEM), SYSTEM, stop, every=2.0)


def test_it_follows_until_it_is_stopped_and_leaves_no_lease(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    running = logs / "app-1.inprogress"
    running.write_bytes(event_log("app-1", 2, ended=False))
    stop = Script(
        lambda: running.write_bytes(event_log("app-1", 3, ended=False)),
        lambda: running.write_bytes(event_log("app-1", 4)),
        lambda: running.rename(logs / "app-1"),
    )
    service(tmp_path / "root", LocalFolder(logs), stop).run()
    assert stop.waits == [2.0] * 4
    with kvwal.open(tmp_path / "root", archive=None) as store:
        records = store.map("spark")
        assert counts(records, "app-1") == ("SUCCEEDED", 4, 4 * TASKS, 4)
        assert not [key for key in records if key.startswith(("!lease/", "!follower/"))]


def test_a_store_that_is_away_or_recovers_is_waited_for_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    waiting: list[str | None] = []
    errors = [ClusterUnreachable("no member answers."), NotRecovered("it is loading."), NotRecovered("it is loading.")]
    stop = Script(*[lambda: waiting.append(followed._status.waiting)] * 4)
    followed = service(tmp_path / "root", LocalFolder(tmp_path / "app-1"), stop, iter(errors))
    followed.run()
    assert waiting == ["no member answers.", "it is loading.", "it is loading.", None]
    assert [record.getMessage().split(" problem=")[0] for record in caplog.records].count(
        "the follower waits for its store"
    ) == 2
    with kvwal.open(tmp_path / "root", archive=None) as store:
        assert counts(store.map("spark"), "app-1")[1] == 2


def test_a_transaction_of_unknown_outcome_is_followed_by_no_wait_of_its_own(tmp_path: Path) -> None:
    """The next transaction has a condition that the members decide after it."""
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    errors: list[Exception] = [CommitUnknown("the member is gone."), ClusterUnreachable("no member answers.")]
    stop = Script(*[lambda: None] * 2)
    service(tmp_path / "root", LocalFolder(tmp_path / "app-1"), stop, iter(errors)).run()
    assert stop.waits == [2.0, 2.0, 2.0]


def test_a_stop_while_the_store_is_away_ends_the_service(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    errors = iter(ClusterUnreachable("no member answers.") for _ in range(100))
    stop = Script()
    service(tmp_path / "root", LocalFolder(tmp_path / "app-1"), stop, errors).run()
    assert len(stop.waits) == 1


def test_an_error_that_does_not_pass_ends_the_service(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    with pytest.raises(LogFailed, match="poisoned"):
        service(tmp_path / "root", LocalFolder(tmp_path), Script(), iter([LogFailed("poisoned.")])).run()


def test_a_folder_that_is_not_there_or_refuses_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no event log at"):
        service(tmp_path / "root", LocalFolder(tmp_path / "nowhere"), Script()).run()


class Storage(LocalFolder):
    """A folder whose listings raise the errors that a test gives."""

    def __init__(self, path: Path, errors: list[Exception | None]) -> None:
        super().__init__(path)
        self._errors = iter(errors)

    def list(self) -> list[ListedFile]:
        if (error := next(self._errors, None)) is not None:
            raise error
        return super().list()


def test_storage_that_answers_later_is_no_error_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app-1").write_bytes(event_log("app-1", 2))
    busy, refused = EventLogsUnreachable("it answers 503."), EventLogsRefused("it refused access.")
    stop = Script(lambda: None, lambda: None, lambda: None)
    followed = service(tmp_path / "root", Storage(logs, [busy, busy, refused, None]), stop)
    caplog.set_level("INFO", logger="kvwal")
    followed.run()
    said = [record.getMessage() for record in caplog.records]
    assert sum("it answers 503." in line for line in said) == 1
    assert sum("it refused access." in line for line in said) == 1
    assert sum("can be read again" in line for line in said) == 1
    assert followed._status.troubles == 3
    with kvwal.open(tmp_path / "root", archive=None) as store:
        assert counts(store.map("spark"), "app-1")[1] == 2


def test_the_metrics_count_what_was_done(tmp_path: Path) -> None:
    text = event_log("app-1", 3)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app-1").write_bytes(text)
    (logs / "app-2.inprogress").write_bytes(event_log("app-2", 2, ended=False) + b"damaged\n")
    (logs / "notes").write_bytes(b"no log\n")
    followed = service(tmp_path / "root", LocalFolder(logs), Script(lambda: None))
    page = FollowerMetrics(followed._status).page
    assert b"kvwal_follower_logs" not in page()
    followed.run()
    lines = dict(line.rsplit(" ", 1) for line in page().decode().splitlines() if not line.startswith("#"))
    assert {name: float(lines[f"kvwal_follower_{name}"]) for name in (
        "rounds_total", "log_reads_total", "applications", "damaged_lines", "readers", "waiting", "troubles_total",
    )} == {
        "rounds_total": 2, "log_reads_total": 2, "applications": 2, "damaged_lines": 1, "readers": 1, "waiting": 0,
        "troubles_total": 0,
    }  # fmt: skip
    states = {
        state: float(lines[f'kvwal_follower_logs{{state="{state}"}}']) for state in ("complete", "growing", "skipped")
    }
    assert states == {"complete": 1, "growing": 1, "skipped": 1}
    read = float(lines["kvwal_follower_read_bytes_total"])
    assert len(text) < read < 2 * len(text)
    assert 0 <= float(lines["kvwal_follower_lag_seconds"]) < 60
