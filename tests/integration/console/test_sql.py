"""SQL over HTTP: it reads the store's tables and nothing else, and no statement holds the console up or eats its memory."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
import pyarrow as pa
import pytest

from tests.support.console.client import API, files_of, fill, get, send
from tests.support.lineage.console import RunningConsole, console
from tests.support.polling import until

ENDLESS = "SELECT count(*) FROM range(1000000000000) a"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    root = tmp_path_factory.mktemp("sql") / "data"
    fill(root)
    with console(root, log=root.parent / "log") as running:
        yield running


def test_rows_come_as_json_and_as_arrow(running: RunningConsole) -> None:
    statement = "SELECT key, (value->>'rows')::BIGINT AS rows FROM jobs WHERE key LIKE 'job-%' ORDER BY key"
    found = get(running.url, "/sql", {"sql": statement, "limit": 3}).json
    assert found == {
        "columns": ["key", "rows"], "types": ["VARCHAR", "BIGINT"], "is_whole": False,
        "rows": [["job-000", 0], ["job-001", 70], ["job-002", 14]],
    }  # fmt: skip
    posted = send(
        running.url, "POST", f"{API}/sql?limit=3", statement.encode(), Content_Type="application/sql", Accept=ARROW
    )
    assert (posted.headers["content-type"], posted.headers["x-kvwal-whole"]) == (ARROW, "false")
    table = pa.ipc.open_stream(io.BytesIO(posted.body)).read_all()
    assert table.to_pylist() == [{"key": key, "rows": rows} for key, rows in found["rows"]]
    before = get(running.url, "/businesses/jobs/history", {"key": "job-001"}).json["entries"][1]["timestamp"]
    then = get(
        running.url, "/sql", {"sql": "SELECT value->>'state' FROM jobs WHERE key = 'job-001'", "at": before}
    ).json
    assert then["rows"] == [["RUNNING"]]


REFUSED = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "COPY jobs TO 'copied.csv'",
    "ATTACH 'attached.db'",
    "INSTALL httpfs",
    "SET enable_external_access = true",
    "CREATE TABLE x AS SELECT 1",
    "SELECT 1; SELECT 2",
    "DROP TABLE jobs",
    "WITH x AS (DELETE FROM jobs RETURNING *) SELECT * FROM x",
    "",
    "SELECT \x00",
    "SELECT * FROM nothing",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_reads_tables_of_the_store_and_nothing_else(
    running: RunningConsole, tmp_path: Path, statement: str
) -> None:
    reply = get(running.url, "/sql", {"sql": statement})
    assert reply.status == 400, reply.body
    assert set(reply.json) == {"error"}


def children(running: RunningConsole) -> list[psutil.Process]:
    return psutil.Process(running.process.pid).children()


def test_a_statement_that_takes_too_long_is_ended_and_others_go_on(running: RunningConsole) -> None:
    with ThreadPoolExecutor(2) as pool:
        endless = [pool.submit(get, running.url, "/sql", {"sql": ENDLESS, "seconds": 2}) for _ in range(2)]
        until(lambda: len(children(running)) == 2 or None)
        assert get(running.url, "/businesses").status == 200
        replies = [each.result() for each in endless]
    assert {reply.status for reply in replies} == {408}
    assert "2 s" in replies[0].json["error"]
    assert get(running.url, "/sql", {"sql": "SELECT 1"}).json["rows"] == [[1]]


EATING = [
    "SELECT length(repeat('x', 4000000000))",
    "SELECT len(range(4000000000))",
    "SELECT sum(length(s)) FROM (SELECT repeat('x', 300000000) || i AS s FROM range(20) r(i) ORDER BY s)",
]


@pytest.mark.parametrize("statement", EATING)
def test_a_statement_that_eats_memory_costs_the_console_none(running: RunningConsole, statement: str) -> None:
    own = psutil.Process(running.process.pid)
    before = own.memory_info().rss
    reply = get(running.url, "/sql", {"sql": statement, "seconds": 5})
    assert reply.status in (400, 408, 413), reply.body
    assert own.memory_info().rss - before < 64 << 20
    assert get(running.url, "/sql", {"sql": "SELECT 1"}).status == 200


def test_an_answer_has_a_limit_of_bytes(running: RunningConsole) -> None:
    wide = "SELECT repeat('x', 1000000) FROM range(100)"
    for accept in ("application/json", ARROW):
        assert get(running.url, "/sql", {"sql": wide}, Accept=accept).status == 413


def test_the_statement_of_a_caller_that_went_is_ended(running: RunningConsole) -> None:
    assert get(running.url, "/sql", {"sql": "SELECT 1"}).status == 200
    (busy,) = children(running)[:1]
    host = urlsplit(running.url)
    with socket.create_connection((host.hostname or "", host.port or 0)) as caller:
        query = urlencode({"sql": ENDLESS, "seconds": 300})
        caller.sendall(f"GET {API}/sql?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        before = sum(busy.cpu_times()[:2])
        until(lambda: sum(busy.cpu_times()[:2]) > before or None)
    until(lambda: not busy.is_running() or busy.status() == psutil.STATUS_ZOMBIE or None)


def test_nothing_of_a_statement_stays_in_the_store(running: RunningConsole, tmp_path: Path) -> None:
    fill(tmp_path / "data")
    before = files_of(tmp_path / "data")
    with console(tmp_path / "data", log=tmp_path / "log") as fresh:
        assert get(fresh.url, "/sql", {"sql": "SELECT count(*) FROM jobs ORDER BY 1"}).status == 200
        assert fresh.stop() == 0
    assert files_of(tmp_path / "data") == before
