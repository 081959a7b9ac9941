"""Object storage in trouble before a follower: it is tried again, said, and nothing is lost or counted twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.spark.eventlog.folders import open_folder
from kvwal.spark.follower.follower import Follower
from kvwal.spark.follower.status import FollowerStatus
from tests.support.archive import s3
from tests.support.archive.proxy import Proxy, proxied
from tests.support.event_logs import TASKS, counts, event_log


class Setting:
    """A follower of a bucket behind a proxy."""

    def __init__(self, proxy: Proxy, records: Any) -> None:
        self.proxy = proxy
        self.records = records
        self.bucket = s3.bucket(s3.server())
        self.status = FollowerStatus(SYSTEM)
        self.follower = Follower(records, [open_folder(self.bucket)], self.status, SYSTEM, lambda: False)

    def put(self, name: str, data: bytes) -> None:
        s3.filesystem(s3.server()).pipe_file(f"{self.bucket}/{name}", data)


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    with (
        proxied(s3.server().endpoint) as proxy,
        kvwal.open(tmp_path / "store", archive=None, flush="os") as store,
    ):
        for name, value in {**s3.server().environment(), "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(name, value)
        yield Setting(proxy, store.map("spark"))


@pytest.mark.long
@pytest.mark.parametrize("what", ["503", "cut"])
def test_one_failure_of_a_request_is_not_noticed(setting: Setting, what: str) -> None:
    setting.put("app-1", event_log("app-1", 3))
    failed: set[str] = set()

    def once_each(method: str, path: str) -> str | None:
        if path in failed:
            return None
        failed.add(path)
        return what

    setting.proxy.choose = once_each
    setting.follower.round()
    assert setting.proxy.met[what] >= 2
    assert setting.status.troubles == 0
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 3, 3 * TASKS, 3)


@pytest.mark.long
@pytest.mark.parametrize("path", ["list-type", "app-2"])
def test_a_bucket_that_answers_503_is_said_and_tried_again(setting: Setting, path: str) -> None:
    for app in ("app-1", "app-2"):
        setting.put(app, event_log(app, 3))
    setting.proxy.choose = lambda method, asked: "503" if path in asked else None
    setting.follower.round()
    ready, details = setting.status.ready()
    assert not ready
    assert "cannot serve this now" in str(details["waiting"])
    setting.proxy.choose = lambda method, asked: None
    setting.follower.round()
    assert setting.status.ready()[0]
    setting.follower.close()
    for app in ("app-1", "app-2"):
        assert counts(setting.records, app) == ("SUCCEEDED", 3, 3 * TASKS, 3)


def test_a_key_that_is_refused_later_on_is_said_and_no_log_is_given_up(setting: Setting) -> None:
    setting.put("app-1", event_log("app-1", 3))
    setting.proxy.choose = lambda method, asked: "403" if "app-1" in asked else None
    setting.follower.round()
    assert "refused access" in str(setting.status.waiting)
    setting.proxy.choose = lambda method, asked: None
    setting.follower.round()
    assert setting.status.ready()[0]
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 3, 3 * TASKS, 3)


def test_a_bucket_that_lists_slowly_is_waited_for(setting: Setting) -> None:
    setting.put("app-1", event_log("app-1", 3))
    setting.proxy.choose = lambda method, asked: "held" if "list-type" in asked else None
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (setting.follower.round(), ended.set()))
    thread.start()
    setting.proxy.wait_for("waiting")
    setting.follower.beat()
    assert not ended.is_set()
    setting.proxy.go_on()
    thread.join()
    assert setting.status.ready()[0]
    assert counts(setting.records, "app-1") == ("SUCCEEDED", 3, 3 * TASKS, 3)
