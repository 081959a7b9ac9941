"""Kept logs by the command line: `kvwal record --keep-logs` and `--again`, `kvwal jobs --tasks`, `kvwal prune`."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

import kvwal
from kvwal.spark.kept.contents import KEPT_LOGS
from kvwal.spark.records import Application, Error, from_value, to_value
from tests.support.cli import kvwal as command
from tests.support.event_logs import event_log, write_rolling


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the kept log of `app-1`."""
    (tmp_path / "app-1").write_bytes(event_log("app-1", 3))
    ran = command("record", tmp_path / "root", tmp_path / "app-1", "--keep-logs", "--archive", "none")
    assert ran.code == 0, ran.err
    assert "1 log is kept." in ran.err
    return tmp_path / "root"


def kept(root: Path) -> list[str]:
    with kvwal.open(root, read_only=True) as store:
        return sorted(store.content(KEPT_LOGS)) if KEPT_LOGS in store.businesses() else []


def recorded(root: Path) -> dict[str, Any]:
    with kvwal.open(root, read_only=True) as store:
        return {key: value for key, value in store.map("spark").items() if value["kind"] not in ("log", "index")}


def test_logs_are_not_kept_unless_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 3))
    command("record", tmp_path / "root", tmp_path / "app-1", "--archive", "none")
    assert kept(tmp_path / "root") == []
    ran = command("jobs", tmp_path / "root", "--tasks", "0")
    assert (ran.code, ran.err) == (
        2,
        "kvwal: No event log is kept here. Keep logs with: kvwal record LOCATION EVENTLOG_OR_DIR… --keep-logs\n",
    )


def test_a_log_that_was_recorded_before_is_kept_later(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 3))
    command("record", tmp_path / "root", tmp_path / "app-1", "--archive", "none")
    ran = command("record", tmp_path / "root", tmp_path / "app-1", "--keep-logs", "--archive", "none", "--json")
    assert json.loads(ran.out)["kept"] == "app-1/app-1.zstd"
    assert kept(tmp_path / "root") == ["app-1/app-1.zstd"]


def test_the_tasks_of_a_stage_are_printed_in_three_forms(root: Path) -> None:
    table = command("jobs", root, "--tasks", "2").out.splitlines()
    assert [line.split()[:4] for line in table[1:-1]] == [["4", "0", "0", "SUCCEEDED"], ["5", "1", "0", "SUCCEEDED"]]
    rows = [json.loads(line) for line in command("jobs", root, "app-1", "--tasks", "2.0", "--json").out.splitlines()]
    assert [(row["task"], row["duration_ms"], row["run_ms"], row["input_bytes"]) for row in rows] == [
        (4, 10, 7, 1_000),
        (5, 10, 7, 1_000),
    ]
    told = list(csv.DictReader(io.StringIO(command("jobs", root, "app", "--tasks", "2", "--format", "csv").out)))
    assert [(row["task"], row["status"]) for row in told] == [("4", "SUCCEEDED"), ("5", "SUCCEEDED")]


def test_an_archive_answers_about_tasks_without_the_folder(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 3))
    archive = str(tmp_path / "archive")
    command("record", tmp_path / "root", tmp_path / "app-1", "--keep-logs", "--archive", archive)
    assert command("archive", "run", tmp_path / "root", "--archive", archive).code == 0
    told = command("jobs", tmp_path / "root", "--tasks", "2", "--json")
    shutil.rmtree(tmp_path / "root")
    for words in (("app-1",), ()):
        ran = command("jobs", archive, *words, "--tasks", "2", "--json")
        assert (ran.code, ran.out) == (0, told.out), ran.err


def test_the_last_attempt_at_a_stage_is_shown_and_the_others_are_named(tmp_path: Path) -> None:
    first, second = event_log("app-1", 1, ended=False), event_log("app-1", 1)
    again = second.replace(b'"Stage Attempt ID":0', b'"Stage Attempt ID":1').partition(b"\n")[2]
    (tmp_path / "app-1").write_bytes(first + again)
    command("record", tmp_path / "root", tmp_path / "app-1", "--keep-logs", "--archive", "none")
    last, named = (command("jobs", tmp_path / "root", "--tasks", stage, "--json") for stage in ("0", "0.0"))
    assert {json.loads(line)["stage_attempt"] for line in last.out.splitlines()} == {1}
    assert "Stage 0 was tried 2 times: 0.0, 0.1. This is the last one." in last.err
    assert {json.loads(line)["stage_attempt"] for line in named.out.splitlines()} == {0}
    assert named.err == ""


def test_of_a_long_stage_the_last_tasks_are_shown(root: Path) -> None:
    ran = command("jobs", root, "--tasks", "2", "--limit", "1")
    assert [line.split()[0] for line in ran.out.splitlines()[1:-1]] == ["5"]
    assert "1 earlier tasks are not shown: see --limit." in ran.err


def test_a_failed_task_has_its_error_without_the_secrets_that_the_kept_log_has(tmp_path: Path) -> None:
    failed = b'{"Reason":"ExceptionFailure","Class Name":"E","Description":"no --password=hunter2 please"}'
    log = event_log("app-1", 1).replace(b'{"Reason":"Success"}', failed)
    (tmp_path / "app-1").write_bytes(log)
    command("record", tmp_path / "root", tmp_path / "app-1", "--keep-logs", "--archive", "none")
    ran = command("jobs", tmp_path / "root", "--tasks", "0", "--json")
    first = json.loads(ran.out.splitlines()[0])
    assert (first["status"], first["message"]) == ("FAILED", "E: no --password=*********(redacted) please")
    assert "hunter2" not in ran.out
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        data = store.content(KEPT_LOGS).get("app-1/app-1.zstd")
    assert zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read() == log


def test_one_of_several_applications_has_to_be_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "app-2").write_bytes(event_log("app-2", 3))
    command("record", root, tmp_path / "app-2", "--keep-logs", "--archive", "none")
    ran = command("jobs", root, "--tasks", "2")
    assert (ran.code, ran.err) == (
        2,
        "kvwal: --tasks needs an application: logs of 2 are kept here."
        " Name one of them: kvwal jobs LOCATION app-2 --tasks STAGE\n",
    )
    assert command("jobs", root, "app-2", "--tasks", "2").code == 0


@pytest.fixture
def changed(root: Path) -> Path:
    """The root, where an earlier version would have left other records: one is missing, one is too many."""
    with kvwal.open(root, archive=None) as store:
        records = store.map("spark")
        del records["app-1/job/0000000001"]
        records["app-1/job/0000000009"] = records["app-1/job/0000000002"]
    return root


def test_records_are_made_anew_from_a_kept_log(changed: Path, tmp_path: Path) -> None:
    command("record", tmp_path / "once", tmp_path / "app-1", "--archive", "none")
    (tmp_path / "app-1").unlink()
    assert recorded(changed) != recorded(tmp_path / "once")
    ran = command("record", changed, "--again", "app-1", "--archive", "none", "--json")
    assert (ran.code, json.loads(ran.out)["events"]) == (0, 22), ran.err
    assert recorded(changed) == recorded(tmp_path / "once")


def test_logs_that_another_node_keeps_are_found(tmp_path: Path) -> None:
    for app, node in (("app-1", "n1"), ("app-2", "n2")):
        (tmp_path / app).write_bytes(event_log(app, 2))
        command("record", tmp_path / "root", tmp_path / app, "--keep-logs", "--node", node, "--archive", "none")
    before = recorded(tmp_path / "root")
    ran = command("record", tmp_path / "root", "--again", "--archive", "none", "--json")
    assert [json.loads(line)["app"] for line in ran.out.splitlines()] == ["app-1", "app-2"], ran.err
    assert recorded(tmp_path / "root") == before
    assert command("jobs", tmp_path / "root", "app-2", "--tasks", "1").code == 0


def test_after_that_the_event_log_is_read_on_and_counts_once(changed: Path, tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 3, ended=False))
    command("record", tmp_path / "running", tmp_path / "app-1", "--keep-logs", "--archive", "none")
    command("record", tmp_path / "running", "--again", "--archive", "none")
    (tmp_path / "app-1").write_bytes(event_log("app-1", 5))
    command("record", tmp_path / "running", tmp_path / "app-1", "--archive", "none")
    command("record", tmp_path / "once", tmp_path / "app-1", "--archive", "none")
    assert recorded(tmp_path / "running") == recorded(tmp_path / "once")


def test_what_a_recorder_saw_of_the_end_stays(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        records = store.map("spark")
        app = from_value(records["app-1/app"])
        assert isinstance(app, Application)
        app.status, app.status_from, app.exit_code, app.dropped = "FAILED", "python", 1, 7
        app.error = Error("ValueError: no", "Traceback\nValueError: no")
        records["app-1/app"] = to_value(app)
    before = recorded(root)
    assert command("record", root, "--again", "--archive", "none").code == 0
    after = recorded(root)
    assert after["app-1/app"] == before["app-1/app"]
    assert after.keys() - before.keys() == {"=failed/000000000002300/app-1/application"}
    assert command("record", root, "--again", "--archive", "none").code == 0
    assert recorded(root) == after


def test_content_get_gives_the_file_of_an_event_log(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "logs" / "app-1.zstd"
    copy.parent.mkdir()
    assert command("content", "get", root, KEPT_LOGS, "app-1/app-1.zstd", "-o", copy).code == 0
    command("record", tmp_path / "copied", copy.parent, "--archive", "none")
    assert recorded(tmp_path / "copied") == recorded(root)


def test_a_rolling_log_is_recorded_again_as_it_was(tmp_path: Path) -> None:
    text = event_log("app-7", 4)
    cut = text.index(b"\n", len(text) // 2) + 1
    log = write_rolling(tmp_path, "app-7", [text[:cut], text[cut:]], in_progress=False)
    command("record", tmp_path / "root", log, "--keep-logs", "--archive", "none")
    before = recorded(tmp_path / "root")
    assert command("record", tmp_path / "root", "--again", "--archive", "none").code == 0
    assert recorded(tmp_path / "root") == before


def test_a_content_that_is_no_kept_log_is_refused(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        store.content(KEPT_LOGS).put("app-2/app-2.zstd", b"not a log")
    ran = command("record", root, "--again", "app-2", "--archive", "none")
    assert ran.code == 4
    assert "is no event log of Spark" in ran.err
    asked = command("jobs", root, "app-2", "--tasks", "0")
    assert asked.code == 4
    assert asked.err.startswith("kvwal: The kept log app-2/app-2.zstd cannot be read: it has no seek table.")


def test_kept_logs_go_with_the_records_of_old_applications(root: Path, tmp_path: Path) -> None:
    recent = 1 << 41
    (tmp_path / "app-2").write_bytes(event_log("app-2", 1, started=recent))
    command("record", root, tmp_path / "app-2", "--keep-logs", "--archive", "none")
    assert kept(root) == ["app-1/app-1.zstd", "app-2/app-2.zstd"]
    assert command("prune", root, "--keep", "1d", "--dry-run").code == 0
    assert len(kept(root)) == 2
    assert command("prune", root, "--keep", "1d").code == 0
    assert kept(root) == ["app-2/app-2.zstd"]
