"""The pages about Spark over HTTP: their numbers are those of `kvwal jobs`, filters are in the address, errors are sentences."""

from __future__ import annotations

import csv
import io
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvwal.spark.records import MAX_PLAN
from tests.support.cli import kvwal
from tests.support.console import recorded
from tests.support.lineage.console import console

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "event-log"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with synthetic records, and those of a real application with its event log."""
    root: Path = tmp_path_factory.mktemp("pages") / "data"
    recorded.write(root)
    ran = kvwal("record", root, GOLDEN, "--keep-logs", "--node", "kept")
    assert ran.code == 0, ran.err
    return root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with console(root, log=root.parent / "log") as running:
        yield running.url


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def rows(address: str, **query: object) -> list[dict[str, Any]]:
    status, text = get(f"{address}?{urllib.parse.urlencode({'format': 'json', **query})}")
    assert status == 200, text
    found: list[dict[str, Any]] = json.loads(text)
    return found


def told(root: Path, *arguments: str) -> list[dict[str, Any]]:
    ran = kvwal("jobs", root, *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def same(shown: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Whether every field that a row shares with a record has its value."""
    return all(
        shown[name] == stored[name] for name in shown.keys() & stored.keys() - {"name", "stages", "stage", "title"}
    )


def test_numbers_of_pages_are_those_of_the_command_line(root: Path, url: str) -> None:
    every = {each["key"].removesuffix("/app"): each for each in told(root, "--json") if each["kind"] == "app"}
    listed = {each["application"]: each for each in rows(url)}
    assert listed.keys() == every.keys()
    for prefix, shown in listed.items():
        goes_on = every[prefix]["status"] == "RUNNING"  # its duration is that up to its last event
        assert same({**shown, "duration_ms": every[prefix]["duration_ms"]} if goes_on else shown, every[prefix])
    app = next(prefix for prefix in every if prefix.startswith("local-"))
    stored = told(root, app, "--json")
    for name, kind in (("jobs", "job"), ("stages", "stage"), ("sql", "sql"), ("executors", "executor")):
        records = [each for each in stored if each["kind"] == kind]
        shown = rows(f"{url}/app/{app}/{name}")
        assert len(shown) == len(records) > 0
        if name == "sql":
            shown = [{key: each[key] for key in ("id", "root", "status", "duration_ms")} for each in shown]
        assert all(any(same(row, record) for record in records) for row in shown), name
    tasks = told(root, app, "--tasks", "0", "--format", "json")
    shown = rows(f"{url}/app/{app}/stage/0/0", table="tasks")
    assert [(each["task"], each["run_ms"], each["host"]) for each in shown] == [
        (each["task"], each["run_ms"], each["host"]) for each in tasks
    ]


def test_a_stage_says_where_no_event_log_is_kept(url: str) -> None:
    text = get(f"{url}/app/{recorded.BUSY}/stage/7/0")[1]
    assert "The event log of this application is not kept, so single tasks are not known." in text
    assert "<b>3 tasks</b> failed with this error" in text
    assert rows(f"{url}/app/{recorded.BUSY}/stage/7/0", table="tasks") == []


def test_filters_and_order_are_in_the_address(url: str) -> None:
    named = rows(url, name="load orders")
    assert len(named) == recorded.RUNS
    assert [each["status"] for each in rows(url, name="load orders", status="failed")] == ["FAILED"] * 2
    longest = rows(url, sort="-duration", name="load orders")
    assert [each["duration_ms"] for each in longest] == sorted((each["duration_ms"] for each in named), reverse=True)
    assert longest[0]["of_usual"] > 2.5
    between = rows(url, **{"from": "2026-01-01T00:00", "to": "2026-01-01T06:00", "name": "load orders"})
    assert [each["application"] for each in between] == [f"run-{number:03}" for number in range(63, 57, -1)]
    assert rows(url, q="orders ADA run-01")[0]["user"] == "ada"


def test_a_long_list_is_read_page_by_page(url: str) -> None:
    seen, address = [], f"{url}/app/{recorded.BUSY}/stages"
    while address:
        text = get(address)[1]
        seen += [part.partition('"')[0] for part in text.split(f'href="/app/{recorded.BUSY}/stage/')[1::2]]
        after = (
            text.partition('rel="next"')[0].rpartition('<a href="')[2].partition('"')[0] if 'rel="next"' in text else ""
        )
        address = f"{url}/app/{recorded.BUSY}/stages{after.replace('&amp;', '&')}" if after else ""
    assert seen == [f"{number}/0" for number in range(121)]
    assert len(rows(f"{url}/app/{recorded.BUSY}/stages")) == 121
    assert [each["id"] for each in rows(f"{url}/app/{recorded.BUSY}/jobs", status="FAILED")] == [7]


def test_every_table_is_csv_too(url: str) -> None:
    status, text = get(f"{url}/app/{recorded.EVIL.replace('%', '%25')}/jobs?format=csv")
    assert status == 200
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [int(each["id"]) for each in found] == list(range(121))
    assert all(recorded.HOSTILE in each["title"] for each in found)


def test_the_whole_plan_is_plain_text(url: str) -> None:
    page = f"{url}/app/{recorded.BUSY}/sql/0"
    with urllib.request.urlopen(f"{page}/plan") as answer:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        whole = answer.read().decode()
    assert len(whole) > 4_000_000 > MAX_PLAN
    assert len(get(page)[1]) < 100_000


def test_a_page_shows_the_command_that_answers_the_same(root: Path, url: str) -> None:
    assert f"kvwal jobs {root} {recorded.BUSY}" in get(f"{url}/app/{recorded.BUSY}")[1]
    assert f"kvwal jobs {root} --runs &#39;load orders&#39;" in get(f"{url}/runs?name=load+orders")[1]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/app/nothing", 404, "There is no application &#39;nothing&#39; here."),
        (f"/app/{recorded.BUSY}/job/9999", 404, "has no job 9999."),
        (f"/app/{recorded.BUSY}/sql/77777777777777", 404, "There is no number 77777777777777 here."),
        (f"/app/{recorded.BUSY}/stage/1/9", 404, "has no stage 1 with an attempt 9."),
        ("/?from=yesterday", 400, "from=&#39;yesterday&#39; is no time"),
        ("/?sort=colour", 400, "The list cannot be sorted by &#39;colour&#39;"),
        ("/?page=0", 400, "page=&#39;0&#39; is no page"),
        ("/?format=xml", 400, "There is no format &#39;xml&#39;"),
        ("/?format=csv&table=jobs", 404, "This page has no table &#39;jobs&#39;: it has applications."),
        ("/compare?a=x", 404, "There is no application &#39;x&#39; to compare"),
        ("/runs", 400, "Name an application"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(url: str, path: str, status: int, sentence: str) -> None:
    answered, text = get(url + path)
    assert answered == status
    assert sentence in text
