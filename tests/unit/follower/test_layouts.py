"""Layouts of event logs beside those of Spark: the rolls of Databricks, and folders within a folder of logs."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ConfigError
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog.folders import logs_at, open_folder
from tests.support.cli import kvwal as command
from tests.support.event_logs import TASKS, counts, event_log
from tests.unit.follower.test_follower import Setting, setting
from tests.unit.follower.test_runs import place

__all__ = ["setting"]
APP = "app-1"
JOBS = 6
EVERY_JOB = ("SUCCEEDED", JOBS, JOBS * TASKS, JOBS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield store


def pieces(count: int) -> list[bytes]:
    """A log of Databricks in pieces, each of which begins with the event that Databricks has in place of Spark's first one."""
    lines = event_log(APP, JOBS).splitlines(keepends=True)[1:]
    size = -(-len(lines) // count)
    return [
        json.dumps({"Event": "DBCEventLoggingListenerMetadata", "Spark Version": "3.5.0", "Rollover Number": number}).encode()
        + b"\n" + b"".join(lines[number * size : (number + 1) * size])
        for number in range(count)
    ]  # fmt: skip


def write(folder: Path, told: list[bytes]) -> None:
    """Write a log as Databricks does: the last piece is the open file, each of the others a roll of its hour."""
    folder.mkdir(exist_ok=True)
    for hour, text in enumerate(told[:-1]):
        (folder / f"eventlog-2026-01-02--{hour:02}-00.gz").write_bytes(gzip.compress(text))
    (folder / "eventlog").write_bytes(told[-1])


@pytest.mark.parametrize("within", [False, True], ids=["named", "within"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_rolls_of_databricks_are_one_log(store: kvwal.Store, tmp_path: Path, count: int, within: bool) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs / "driver", pieces(count))
    (read,) = record_event_logs(store, [logs if within else logs / "driver"])
    assert (read.events, read.problem, read.skipped) == (sum(text.count(b"\n") for text in pieces(count)), "", "")
    records = store.map("spark")
    assert counts(records, APP) == EVERY_JOB
    assert records[f"{APP}/app"]["spark_version"] == "3.5.0"
    assert record_event_logs(store, [logs if within else logs / "driver"])[0].events == 0


def test_each_event_of_databricks_counts_once_while_the_open_file_becomes_a_roll(
    store: kvwal.Store, tmp_path: Path
) -> None:
    told = pieces(4)
    for count in range(1, 5):
        for share in (0.4, 1.0):
            open_file = told[count - 1][: int(len(told[count - 1]) * share)]
            write(tmp_path / "driver", [*told[: count - 1], open_file])
            (read,) = record_event_logs(store, [tmp_path / "driver"])
            assert (read.damaged, read.complete) == (0, False), "a line without its end is not read yet"
    assert counts(store.map("spark"), APP) == EVERY_JOB
    assert store.map("spark")[f"{APP}/log"]["events"] == sum(text.count(b"\n") for text in told)


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("folder", ["", "driver"], ids=["named", "within"])
def test_a_follower_reads_the_rolls_of_databricks(setting: Setting, folder: str, remote: bool) -> None:
    logs, show = place(setting.logs, remote=remote)
    follower, told = setting.follower(folders=[logs]), pieces(4)
    for count in range(1, 5):
        write(setting.logs / folder, told[:count])
        show()
        follower.round()
        last = setting.status.last
        assert last is not None
        assert (last.logs, last.skipped, last.damaged) == (1, 0, 0)
    assert counts(setting.records, APP) == EVERY_JOB
    assert setting.status.events == sum(text.count(b"\n") for text in told)
    opened = setting.status.logs_read
    follower.close()
    setting.follower(folders=[logs]).round()
    assert setting.status.logs_read == opened


def test_the_mark_of_a_folder_of_databricks_goes_with_it(setting: Setting) -> None:
    setting.write("app-2", event_log("app-2", 1))
    write(setting.logs / "driver", pieces(2))
    follower = setting.follower()
    follower.round()
    for path in (setting.logs / "driver").iterdir():
        path.unlink()
    (setting.logs / "driver").rmdir()
    follower.round()
    assert [key for key in setting.records if key.startswith("!log/")] == [f"!log/{setting.logs}/app-2"]


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A folder of logs with a log, an empty folder, and a folder with an older log."""
    logs = tmp_path / "logs"
    for name in ("old", "empty", ".trash"):
        (logs / name).mkdir(parents=True)
    (logs / APP).write_bytes(event_log(APP, 2))
    (logs / "old" / "app-0").write_bytes(event_log("app-0", 3))
    (logs / ".trash" / "app-9").write_bytes(event_log("app-9", 3))
    return logs


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_folder_in_a_folder_is_named_and_read_by_its_own_name(nested: Path, tmp_path: Path, remote: bool) -> None:
    folder, show = place(nested, remote=remote)
    show()
    ran = command("record", tmp_path / "root", folder.url)
    assert ran.code == 0, ran.err
    (said,) = [line for line in ran.err.splitlines() if line.startswith("Skipped")]
    assert f"{folder.url}/old is a folder in a folder of event logs, and is not read." in said
    assert f"kvwal record LOCATION {folder.url}/old" in said
    assert command("record", tmp_path / "root", f"{folder.url}/old").code == 0
    assert "app-0" in command("jobs", tmp_path / "root").out
    assert "Skipped" not in command("record", tmp_path / "root", folder.url, f"{folder.url}/old").err


def test_folders_without_a_log_beside_them_are_an_error_that_names_one(store: kvwal.Store, nested: Path) -> None:
    (nested / APP).unlink()
    with pytest.raises(ConfigError, match=r"holds no event log, but folders.*kvwal record LOCATION .*/old"):
        record_event_logs(store, [nested])


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_follower_says_once_which_folder_it_does_not_read(setting: Setting, nested: Path, remote: bool) -> None:
    logs, show = place(nested, remote=remote)
    show()
    follower = setting.follower(folders=[logs])
    for count in range(1, 3):
        (nested / "old" / f"app-{count}0").write_bytes(event_log("app-0", 1))
        show()
        follower.round()
        last = setting.status.last
        assert last is not None
        assert (last.logs, last.complete, last.skipped, last.whole) == (2, 1, 1, True)
    (mark,) = [value for key, value in setting.records.items() if key.startswith("!log/") and key.endswith("/old")]
    assert "is a folder in a folder of event logs" in mark["problem"]


def test_a_folder_that_may_not_be_looked_into_stops_no_other_log(
    store: kvwal.Store, nested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost+found at the root of a disk is root's."""
    scan, listdir = Path.iterdir, os.listdir

    def refused(path: Path) -> Iterator[Path]:
        if path.name == "old":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    def refused_names(path: Path) -> list[str]:
        return [child.name for child in refused(path)] if path.name == "old" else listdir(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    monkeypatch.setattr(os, "listdir", refused_names)
    reads = {read.path.name: read for read in record_event_logs(store, [nested])}
    assert reads[APP].complete
    assert "is a folder" in reads["old"].skipped
    assert [log.is_nested() for log in logs_at(open_folder(str(nested)))] == [False, True]
