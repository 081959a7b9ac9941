"""Listings of folders of event logs: on this machine, and behind URLs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.folders import logs_at, open_folder
from kvwal.spark.eventlog.listing import ListedLog
from kvwal.spark.eventlog.logs import identify
from tests.support.event_logs import event_log, write_rolling


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path or the URL of a folder with three logs, with files that are none, and with a folder that is not read."""
    write(tmp_path)
    if request.param == "local":
        yield str(tmp_path)
        return
    memory = fsspec.filesystem("memory")
    name = f"/{uuid.uuid4().hex}"
    memory.put(str(tmp_path), name, recursive=True)
    yield f"memory:/{name}"
    memory.rm(name, recursive=True)


def write(folder: Path) -> None:
    (folder / "app-1").write_bytes(event_log("app-1", 1))
    (folder / "app-2.zstd.inprogress").write_bytes(b"")
    write_rolling(folder, "app-3", [event_log("app-3", 1, ended=False), b""], in_progress=True)
    (folder / ".hidden").write_bytes(b"x")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "appstatus_app-3").write_bytes(b"")
    (folder / "other").mkdir()
    (folder / "other" / "app-9").write_bytes(event_log("app-9", 1))


def listed(place: str) -> dict[str, ListedLog]:
    return {log.path.name: log for log in logs_at(open_folder(place))}


def test_a_listing_shows_the_logs_with_their_files_and_their_state(place: str) -> None:
    logs = listed(place)
    assert sorted(logs) == ["app-1", "app-2.zstd.inprogress", "eventlog_v2_app-3", "other"]
    assert logs.pop("other").is_nested()
    assert {name: log.in_progress() for name, log in logs.items()} == {
        "app-1": False,
        "app-2.zstd.inprogress": True,
        "eventlog_v2_app-3": True,
    }
    rolling = logs["eventlog_v2_app-3"]
    assert [(file.roll, file.path.name) for file in rolling.files()] == [(1, "events_1_app-3"), (2, "events_2_app-3")]
    assert rolling.path.where == f"{place}/eventlog_v2_app-3"
    assert logs["app-1"].path.where == f"{place}/app-1"
    assert all(log.listed for log in logs.values())
    identity = identify(rolling)
    assert identity is not None
    assert identity.app == "app-3"


@pytest.mark.parametrize("name", ["app-1", "eventlog_v2_app-3"])
def test_a_log_that_is_named_itself_is_the_only_one(place: str, name: str) -> None:
    (log,) = logs_at(open_folder(f"{place}/{name}"))
    assert (log.path.name, log.path.where, log.listed) == (name, f"{place}/{name}", False)
    identity = identify(log)
    assert identity is not None
    assert identity.app == name.removeprefix("eventlog_v2_")


def test_a_log_with_in_progress_beside_the_finished_one_is_a_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "app-1.inprogress").write_bytes(event_log("app-1", 1, ended=False))
    (before,) = logs_at(open_folder(str(tmp_path)))
    (tmp_path / "app-1").write_bytes(event_log("app-1", 1))
    log, beside = logs_at(open_folder(str(tmp_path)))
    assert [log.path.name, beside.path.name] == ["app-1", "app-1.inprogress"]
    assert log.place == before.place == beside.place.removesuffix(".inprogress")
    assert log.version() != before.version()
    assert [log.in_progress(), beside.in_progress()] == [False, True]


def test_the_version_changes_with_the_bytes_the_name_and_the_files(tmp_path: Path) -> None:
    versions = []

    def look() -> None:
        (log,) = logs_at(open_folder(str(tmp_path)))
        versions.append(log.version())

    write_rolling(tmp_path, "app-1", [b"one\n"], in_progress=True)
    look()
    write_rolling(tmp_path, "app-1", [b"one\ntwo\n"], in_progress=True)
    look()
    write_rolling(tmp_path, "app-1", [b"one\ntwo\n", b""], in_progress=True)
    look()
    write_rolling(tmp_path, "app-1", [b"one\ntwo\n", b""], in_progress=False)
    look()
    look_again = versions[-1]
    (log,) = logs_at(open_folder(str(tmp_path)))
    assert log.version() == look_again
    assert len(set(versions)) == len(versions) == 4


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("/nowhere/at/all", "There is no event log"),
        ("s3:/bucket/logs", "with one slash"),
        ("nosuch://bucket/logs", "no filesystem"),
    ],
)
def test_a_place_that_cannot_be_read_is_named(given: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_folder(given).list()
