"""Spark's REST API of a console over logs that are kept, and over records alone."""

from __future__ import annotations

import io
import json
import urllib.request
import zipfile
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import zstandard

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.kept.contents import KEPT_LOGS, kept_logs
from tests.repository.source import ROOT
from tests.support.applications import SECOND, ran, store_events
from tests.support.console.client import send
from tests.support.lineage.console import console
from tests.support.polling import until
from tests.support.spark_api.comparison import ask
from tests.support.spark_api.measured import recorded

LOGS = ROOT / "tests" / "golden" / "event-log"
APP = "local-1795237371242"
NOT_KEPT = (
    "sql/0",
    "stages?details=true",
    "stages/0?details=true",
    "stages/0?details=TRUE",
    "stages/0?details=true&details=false",
    "stages/0/0/taskList",
    "stages/0/0/taskSummary",
    "storage/rdd",
    "logs",
)
WITH_SLASH = (
    "version", "applications", "applications?limit=1", f"applications/{APP}",
    *(
        f"applications/{APP}/{part}"
        for part in (
            "jobs", "jobs/0", "stages", "stages/0", "stages/0/0", "stages/0/0/taskSummary", "stages/0/0/taskList?length=1",
            "executors", "executors/driver/threads", "allexecutors", "allmiscellaneousprocess", "storage/rdd", "sql?length=1",
            "sql/0", "logs",
        )
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recorded(tmp_path_factory.mktemp("kept") / "root", LOGS) as url:
        yield url


@pytest.fixture(scope="module")
def records_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recorded(tmp_path_factory.mktemp("alone") / "root", LOGS, keep=False) as url:
        yield url


def told(url: str, question: str) -> Any:
    answer = ask(url, question)
    assert answer.status == HTTPStatus.OK, answer
    return answer.body


@pytest.mark.parametrize("question", ["applications", f"applications/{APP}", f"applications/{APP}/jobs/0"])
def test_records_answer_as_the_kept_log_does(question: str, kept: str, records_alone: str) -> None:
    assert told(records_alone, question) == told(kept, question)


@pytest.mark.parametrize("part", WITH_SLASH)
def test_a_path_with_a_slash_behind_it_is_answered_likewise(part: str, kept: str) -> None:
    path, _, given = part.partition("?")
    without = send(kept, "GET", f"/api/v1/{path}?{given}")
    for verb in ("GET", "HEAD"):
        answer = send(kept, verb, f"/api/v1/{path}/?{given}")
        assert (answer.status, answer.headers["content-type"]) == (without.status, without.headers["content-type"])
        assert answer.body == (without.body if verb == "GET" else b"")
    assert without.status == (HTTPStatus.SERVICE_UNAVAILABLE if path.endswith("threads") else HTTPStatus.OK)


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/elsewhere/", f"/api/v1/applications/{APP}/jobs//"])
def test_a_path_that_is_not_there_leads_nowhere_else(path: str, kept: str) -> None:
    answer = send(kept, "GET", path)
    assert (answer.status, answer.body.decode(), answer.headers.get("location")) == (HTTPStatus.NOT_FOUND, path, None)


def test_of_a_parameter_that_is_given_twice_the_first_counts_and_an_empty_one_does_not(kept: str) -> None:
    tasks = f"applications/{APP}/stages/0/0/taskList"
    most = told(kept, f"{tasks}?length=100")
    assert len(most) == 2
    assert told(kept, f"{tasks}?length=1&length=2&sortBy=&status=failed&status=success") == most[:1]
    assert told(kept, f"{tasks}?offset=&length=&status=failed&status=success") == most
    assert told(kept, f"applications/{APP}/jobs?status=") == []
    refused = ask(kept, f"{tasks}?status=")
    assert (refused.status, "status is empty" in refused.body) == (HTTPStatus.BAD_REQUEST, True)


@pytest.mark.parametrize("part", ["jobs", "stages", "stages?status=complete", "allexecutors", "sql?details=false"])
def test_no_field_of_a_record_differs_from_the_kept_log(part: str, kept: str, records_alone: str) -> None:
    ours, theirs = told(records_alone, f"applications/{APP}/{part}"), told(kept, f"applications/{APP}/{part}")
    if part.startswith("stages"):  # records have no stage that did not begin
        theirs = [row for row in theirs if row["status"] != "SKIPPED"]
    assert len(ours) == len(theirs) > 0
    for own, other in zip(ours, theirs, strict=True):
        known = {name: value for name, value in own.items() if name != "hostPort"}
        assert known == {name: other[name] for name in known}


@pytest.mark.parametrize("part", NOT_KEPT)
def test_what_no_record_has_is_refused_with_a_sentence(part: str, records_alone: str) -> None:
    answer = ask(records_alone, f"applications/{APP}/{part}")
    assert answer.status == HTTPStatus.NOT_FOUND
    assert "is not kept here" in answer.body


def test_the_log_comes_back_as_spark_wrote_it(kept: str) -> None:
    with urllib.request.urlopen(f"{kept}/api/v1/applications/{APP}/logs") as answer:
        assert answer.headers["content-disposition"] == f"attachment; filename=eventLogs-{APP}.zip"
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    assert archive.namelist() == [APP]
    (log,) = LOGS.iterdir()
    assert archive.read(APP) == zstandard.ZstdDecompressor().stream_reader(log.read_bytes()).read()


def test_a_long_list_is_sent_in_pieces(tmp_path: Path) -> None:
    root, count = tmp_path / "root", 2_345
    with kvwal.open(root, archive=None, flush="os") as store:
        store_events(store, "app-many", ran("app-many", 1_700_000_000 * SECOND, count=count))
    with console(root, "--archive", "none", log=tmp_path / "log") as running:
        rows = told(running.url, "applications/app-many/jobs")
    assert [row["jobId"] for row in rows] == list(range(count))[::-1]


def test_a_log_that_grew_has_a_new_state(tmp_path: Path) -> None:
    (log,) = LOGS.iterdir()
    lines = zstandard.ZstdDecompressor().stream_reader(log.read_bytes()).read().splitlines(keepends=True)
    folder, root = tmp_path / "logs", tmp_path / "root"
    folder.mkdir()
    growing = folder / f"{APP}.inprogress"
    ends = [number for number, line in enumerate(lines) if b"SparkListenerStageCompleted" in line[:60]]
    growing.write_bytes(b"".join(lines[: ends[0] + 1]))
    with recorded(root, folder) as url:
        before = told(url, f"applications/{APP}/stages?status=complete")
        growing.write_bytes(b"".join(lines))
        with kvwal.open(root, archive=None) as store:
            record_event_logs(store, [folder], keep_logs=True)
        after = until(
            lambda: rows if len(rows := told(url, f"applications/{APP}/stages?status=complete")) > 1 else None
        )
    assert len(before) == 1
    assert before[0] == after[-1]


def test_a_log_that_is_damaged_is_an_error_that_names_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with recorded(root, LOGS) as url:
        told(url, f"applications/{APP}/stages")
    with kvwal.open(root, archive=None) as store:
        contents = store.content(KEPT_LOGS)
        (name,) = kept_logs(contents)
        with contents.open(str(name)) as file:
            data = file.read()
        with contents.create(str(name), {"started": "0"}) as out:
            out.write(data[: len(data) // 2])
    with console(root, "--archive", "none", log=tmp_path / "log") as running:
        answer = ask(running.url, f"applications/{APP}/stages/0/0/taskList")
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert str(name) in answer.body


def test_a_caller_without_the_token_learns_nothing(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("spark").put("one", 1)
    with console(tmp_path / "root", "--archive", "none", "--token-file", str(token), log=tmp_path / "log") as running:
        for question in ("version", "version/", "applications/", f"applications/{APP}/logs/", "elsewhere", ""):
            assert ask(running.url, question).status == HTTPStatus.UNAUTHORIZED
        request = urllib.request.Request(
            f"{running.url}/api/v1/version", headers={"Authorization": f"Bearer {'t' * 32}"}
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer) == {"spark": "4.3.0"}
