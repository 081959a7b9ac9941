"""`kvwal record --follow` as a process: its log lines, its HTTP port, its signals and its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.cli import kvwal as command
from tests.support.event_logs import TASKS, counts, event_log
from tests.support.polling import until
from tests.support.ports import free_port
from tests.support.recording.follow_command import follow_command


class Service:
    """The command as a process, and what it answers."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self._port = port
        self._log = log

    def get(self, path: str) -> tuple[int, bytes]:
        assert self.process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except urllib.error.URLError:
            return 0, b""

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@contextmanager
def running(tmp_path: Path, *places: Path) -> Iterator[Service]:
    port, log = free_port(), tmp_path / "stderr"
    words = follow_command(tmp_path / "root", *places, "--http", f"127.0.0.1:{port}", every=0.1)
    with log.open("wb") as errors:
        process = subprocess.Popen(words, stderr=errors, stdout=subprocess.DEVNULL)
    try:
        yield Service(process, port, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_follows_says_how_it_is_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "app-1.inprogress"
    log.write_bytes(event_log("app-1", 2, ended=False))
    with running(tmp_path, logs) as service:
        until(lambda: service.get("/readyz")[0] == 200 or None)
        assert json.loads(service.get("/readyz")[1])["applications"] == 1
        log.write_bytes(event_log("app-1", 5))
        log.rename(logs / "app-1")
        until(lambda: b'kvwal_follower_logs{state="complete"} 1.0' in service.get("/metrics")[1] or None)
        assert service.get("/healthz")[0] == 200
        service.process.send_signal(number)
        assert service.process.wait(60) == 0
        said = [line["event"] for line in service.said()]
    assert said == ["following event logs", "an event log was read to its end", "stopped"]
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        records = store.map("spark")
        assert counts(records, "app-1") == ("SUCCEEDED", 5, 5 * TASKS, 5)
        assert not [key for key in records if key.startswith(("!lease/", "!follower/"))]
    listed = command("jobs", tmp_path / "root")
    assert listed.code == 0
    assert "!" not in listed.out


def test_what_is_typed_wrong_is_said(tmp_path: Path) -> None:
    for arguments, says in (
        (["--follow"], "needs folders of event logs"),
        ([tmp_path / "nowhere", "--follow"], "There is no event log at"),
        ([tmp_path, "--http", "127.0.0.1:1"], "--http is for a service"),
        ([tmp_path, "--follow", "--http", "nothing"], "is no address"),
        ([tmp_path, "--follow", "--every", "0"], "above 0"),
        (["nosuch://logs", "--follow"], "no filesystem"),
    ):
        ran = command("record", tmp_path / "root", *arguments)
        assert (ran.code, says in ran.err) == (2, True), ran.err
