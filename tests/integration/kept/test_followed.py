"""`kvwal record --follow --keep-logs` as a process: what it keeps while others read, and what a kill leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kvwal
from kvwal.spark.kept.contents import KEPT_LOGS
from tests.support.cli import kvwal as command
from tests.support.event_logs import event_log
from tests.support.polling import until
from tests.support.recording.follow_command import follow_command


@contextmanager
def following(tmp_path: Path, logs: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = follow_command(tmp_path / "root", logs, "--keep-logs", "--archive", "none", every=0.1)
    with (tmp_path / "stderr").open("ab") as errors:
        process = subprocess.Popen(words, stderr=errors, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kept(tmp_path: Path) -> set[str]:
    """The names of the kept logs, read while the follower writes."""
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        return set(store.content(KEPT_LOGS)) if KEPT_LOGS in store.businesses() else set()


def seen(tmp_path: Path, *names: str) -> bool | None:
    return ((tmp_path / "root").exists() and kept(tmp_path) == set(names)) or None


def test_a_follower_keeps_logs_says_so_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app-1").write_bytes(event_log("app-1", 3))
    with following(tmp_path, logs):
        until(lambda: seen(tmp_path, "app-1/app-1.zstd"))
        rows = command("jobs", tmp_path / "root", "app-1", "--tasks", "2", "--json").out.splitlines()
        assert [json.loads(row)["task"] for row in rows] == [4, 5]
    (logs / "app-2").write_bytes(event_log("app-2", 2))
    with following(tmp_path, logs) as process:
        until(lambda: seen(tmp_path, "app-1/app-1.zstd", "app-2/app-2.zstd"))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    said = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
    names = [line["name"] for line in said if line["event"] == "an event log is kept"]
    assert sorted(names) == ["app-1/app-1.zstd", "app-2/app-2.zstd"]
