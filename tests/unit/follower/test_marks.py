"""Marks of event logs: each goes when its log is deleted."""

from __future__ import annotations

from pathlib import Path

from kvwal.spark.eventlog.folders import LocalFolder
from kvwal.spark.queries import applications
from tests.support.event_logs import event_log, write_rolling
from tests.unit.follower.test_follower import Setting, setting

__all__ = ["setting"]


def marks(setting: Setting) -> set[str]:
    """The names of the logs that have a mark."""
    return {key.rpartition("/")[2] for key in setting.records if key.startswith("!log/")}


def test_the_mark_of_a_deleted_log_goes_and_what_was_read_stays(setting: Setting) -> None:
    for app in ("app-1", "app-2", "app-3"):
        setting.write(app, event_log(app, 1))
    write_rolling(setting.logs, "app-4", [event_log("app-4", 1)], in_progress=False)
    follower = setting.follower()
    follower.round()
    (setting.logs / "app-1").unlink()
    follower.round()
    assert marks(setting) == {"app-2", "app-3", "eventlog_v2_app-4"}
    follower.close()
    (setting.logs / "app-2").unlink()  # while no follower runs
    setting.follower().round()
    assert marks(setting) == {"app-3", "eventlog_v2_app-4"}
    assert len(applications(setting.records)) == 4


def test_marks_of_other_folders_and_of_a_folder_that_shows_nothing_stay(setting: Setting, tmp_path: Path) -> None:
    """A folder that is empty may be one whose disk is not mounted."""
    setting.write("app-1", event_log("app-1", 1))
    (inner := setting.logs / "more").mkdir()
    (inner / "app-2").write_bytes(event_log("app-2", 1))
    beside = tmp_path / "logs-2"
    beside.mkdir()
    (beside / "app-3").write_bytes(event_log("app-3", 1))
    setting.follower(folders=[LocalFolder(path) for path in (setting.logs, inner, beside)]).round()
    assert marks(setting) == {"app-1", "app-2", "app-3"}
    setting.follower(folders=[LocalFolder(setting.logs)]).round()
    setting.follower(folders=[LocalFolder(setting.logs / "app-1")]).round()
    assert marks(setting) == {"app-1", "app-2", "app-3", "more"}
    (inner / "app-2").unlink()
    setting.follower(folders=[LocalFolder(inner), LocalFolder(setting.logs)]).round()
    assert marks(setting) == {"app-1", "app-2", "app-3"}
