"""Forms of requests that clients seldom use, asked of a real History Server and of the console: equal, or as the page says."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterator

import pytest
import zstandard

from tests.repository.source import ROOT
from tests.support.console.client import send
from tests.support.spark_api.comparison import ask, differences
from tests.support.spark_api.measured import both_servers

pytestmark = pytest.mark.long
FOLDERS = ("event-log", "event-log-cases")
APP = "applications/local-1795237371242"
TASKS, SUMMARY = f"{APP}/stages/0/0/taskList", f"{APP}/stages/0/0/taskSummary"
WITH_SLASH = (
    "", "version/", "applications/", "applications/?limit=1", f"{APP}/", "applications/nobody/",
    *(
        f"{APP}/{part}"
        for part in (
            "jobs/", "jobs/0/", "jobs/99999/", "stages/", "stages/0/", "stages/0/0/", "stages/0/0/taskSummary/", "sql/?length=1",
            "stages/0/0/taskList/?length=1", "executors/", "executors/driver/threads/", "allexecutors/", "environment/",
            "allmiscellaneousprocess/", "storage/rdd/", "sql/0/", "streaming/statistics/", "streaming/", "elsewhere/", "1/jobs/",
        )
    ),
)  # fmt: skip
EMPTY = (
    *(f"applications?{name}=" for name in ("limit", "minDate", "maxDate", "minEndDate", "maxEndDate", "status")),
    "applications?limit", "applications?status", "applications?limit=%20", "applications?status=%20", "applications?minDate=%20",
    "applications?status=&status=completed", "applications?minDate=&maxDate=2027-01-01",
    f"{TASKS}?length=", f"{TASKS}?offset=&sortBy=", f"{SUMMARY}?quantiles=",
    *(
        f"{APP}/{part}"
        for part in (
            "sql?offset=", "sql?length=", "sql?offset=&length=1", "sql?details=", "sql?planDescription=", "sql?details",
            "sql/0?details=&planDescription=", "jobs?status=", "jobs?status=&status=succeeded", "jobs?status=%20",
            "stages?status=", "stages?status=complete&status=", "stages?details=", "stages?withSummaries=", "stages?taskStatus=",
            "stages/0?details=", "stages/0/0?details=&withSummaries=", "stages/0/0?details=false&taskStatus=",
        )
    ),
)  # fmt: skip
WORDS = tuple(
    f"{APP}/{part}{word}"
    for word in ("abc", "TRUE", "True", "1", "0", "False", "yes", "on", "true%20")
    for part in ("sql?details=", "sql/0?planDescription=", "stages?withSummaries=", "stages/0/0?details=")
)
REPEATED = (
    *(
        f"applications?{given}"
        for given in (
            "limit=2&limit=1", "limit=1&limit=2", "limit=&limit=1", "limit=abc&limit=1", "limit=1&limit=abc",
            "minDate=2030-01-01&minDate=2010-01-01", "minDate=2010-01-01&minDate=2030-01-01", "minDate=2010-01-01&minDate=soon",
            "minDate=soon&minDate=2010-01-01", "maxDate=2010-01-01&maxDate=", "status=running&status=completed",
        )
    ),
    *(
        f"{APP}/{part}"
        for part in (
            "sql?length=2&length=1", "sql?details=false&details=true", "sql?details=&details=false",
            "sql/0?planDescription=false&planDescription=true", "jobs?status=failed&status=succeeded",
            "jobs?status=x&status=failed", "stages?details=true&details=false", "stages?status=failed&status=complete",
            "stages?details=true&taskStatus=failed&taskStatus=success", "stages?withSummaries=false&withSummaries=true",
        )
    ),
    f"{TASKS}?length=2&length=1", f"{TASKS}?offset=1&offset=0", f"{TASKS}?sortBy=-runtime&sortBy=ID",
    f"{TASKS}?sortBy=ID&sortBy=x", f"{TASKS}?sortBy=x&sortBy=ID", f"{TASKS}?status=failed&status=success",
    f"{SUMMARY}?quantiles=0.1&quantiles=0.9",
)  # fmt: skip
OTHERWISE = [
    (f"{TASKS}?status=", 500, 400), (f"{TASKS}?status=success&status=", 500, 400), (f"{TASKS}?length=-1", 500, 200),
    (f"{APP}/stages?details=true&taskStatus=", 500, 400), (f"{APP}/stages/0?taskStatus=", 500, 400),
    (f"{TASKS}?length=0", 500, 200), (f"{SUMMARY}?quantiles=0.5,2", 200, 400), (f"{SUMMARY}?quantiles=-1", 200, 400),
    (f"{SUMMARY}?quantiles=1.5,NaN", 200, 400), (f"{SUMMARY}?quantiles=0.5d", 200, 400), (f"{SUMMARY}?quantiles=0.5,", 200, 400),
    (f"{APP}/jobs;x=1", 200, 404), ("applications;x=1", 200, 404), ("/applications", 400, 404), (f"{APP}//jobs", 400, 404),
    (f"{APP}/jobs//", 400, 404), (f"{APP}/jobs%2F0", 400, 200), (f"{APP}/%6Aobs", 404, 200),
]  # fmt: skip
"""Questions with the status of Spark's answer, and of the console's, as docs/history-server.md lists them."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A History Server of Spark, and a console."""
    work = tmp_path_factory.mktemp("requests")
    logs = work / "logs"
    logs.mkdir()
    for folder in FOLDERS:
        for log in (ROOT / "tests" / "golden" / folder).iterdir():
            shutil.copy(log, logs)
    with both_servers(logs, len(list(logs.iterdir())), work) as urls:
        yield urls


@pytest.mark.parametrize("question", [*WITH_SLASH, *EMPTY, *WORDS, *REPEATED])
def test_both_answer_alike(question: str, servers: tuple[str, str]) -> None:
    spark, url = servers
    assert list(differences(question, ask(spark, question), ask(url, question))) == []


@pytest.mark.parametrize(("question", "theirs", "ours"), OTHERWISE)
def test_what_differs_is_what_the_page_lists(question: str, theirs: int, ours: int, servers: tuple[str, str]) -> None:
    assert [ask(url, question).status for url in servers] == [theirs, ours]


@pytest.mark.parametrize("kind", ["application/xml", "text/html", "text/plain"])
def test_spark_refuses_kinds_of_answers_that_it_does_not_have(kind: str, servers: tuple[str, str]) -> None:
    assert [send(url, "GET", f"/api/v1/{APP}/jobs", Accept=kind).status for url in servers] == [406, 200]


@pytest.mark.parametrize("path", ["/api/v1/applications", "/api/v1/applications/", f"/api/v1/{APP}/jobs/"])
def test_both_are_only_read(path: str, servers: tuple[str, str]) -> None:
    for verb in ("POST", "PUT", "DELETE", "PATCH"):
        assert [send(url, verb, path).status for url in servers] == [405, 405]
    assert [send(url, "HEAD", path).status for url in servers] == [200, 200]
    assert [send(url, "OPTIONS", path).status for url in servers] == [200, 405]


def test_a_path_that_is_not_there_is_404_to_who_reads(servers: tuple[str, str]) -> None:
    for path in ("/api/v1", "/api/v1/", "/api/v1/elsewhere"):
        assert [send(url, "GET", path).status for url in servers] == [404, 404]
        assert [send(url, "POST", path).status for url in servers] == [404, 405]


def test_the_zip_of_a_compressed_log_has_its_lines(servers: tuple[str, str]) -> None:
    theirs, ours = (zipfile.ZipFile(io.BytesIO(send(url, "GET", f"/api/v1/{APP}/logs/").body)) for url in servers)
    (packed,), (name,) = theirs.namelist(), ours.namelist()
    assert packed == f"{name}.zstd"
    assert zstandard.ZstdDecompressor().stream_reader(theirs.read(packed)).read() == ours.read(name)
