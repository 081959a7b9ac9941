"""Who may ask a console what: every path and verb of the application is tried, so that a new one is tried by itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount, Route

from kvwal.console.access import Access
from kvwal.console.application import application
from kvwal.console.parts import Console
from kvwal.console.queries.question import Place
from kvwal.console.queries.runner import Queries
from kvwal.console.shared_reader import SharedReader
from kvwal.console.sparkstate.kept_states import KeptStates
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers
from tests.support.console.client import API, Reply, files_of, fill, send
from tests.support.lineage.console import RunningConsole, console

TOKEN = "t" * 32
VERBS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH")
OPEN = ("/healthz", "/login", "/static")
"""Paths that answer without a token: they show nothing of the store."""
HOSTS = [
    ("rebound.example", 401), ("rebound.example:80", 401), ("127.0.0.1.rebound.example", 401), ("localhost.example", 401),
    ("", 401), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("[::1]", 200),
]  # fmt: skip


def paths() -> list[str]:
    """A path of each route of the application, without the open ones."""
    workers = ThreadWorkers("unused", 1)
    reads = SharedReader(lambda: pytest.fail("nothing is read"), workers, SYSTEM)
    console = Console(
        "here",
        reads,
        None,
        workers,
        Access(None),
        Place("here"),
        Queries(Place("here")),
        list,
        asyncio.Event(),
        KeptStates(),
    )
    found = [path for route in application(console).routes for path in _paths(route)]
    filled = (re.sub(r"\{[^}]*\}", "x", re.sub(r"\{[^}]*:int\}", "1", path)) for path in found)
    return sorted({path for path in filled if not path.startswith(OPEN)})


def _paths(route: BaseRoute, above: str = "") -> list[str]:
    if isinstance(route, Mount):
        inner = [path for each in route.routes for path in _paths(each, above + route.path)]
        return inner or [f"{above}{route.path}/x"]
    assert isinstance(route, Route)
    return [above + route.path]


PATHS = paths()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("access") / "data"
    fill(root)
    return root


@pytest.fixture(scope="module")
def locked(root: Path) -> Iterator[RunningConsole]:
    """A console with a token that may write."""
    (root.parent / "token").write_text(TOKEN)
    (root.parent / "token").chmod(0o600)
    options = ("--token-file", str(root.parent / "token"), "--allow-writes", "--node", "console")
    with console(root, *options, log=root.parent / "locked.log") as running:
        yield running


@pytest.fixture(scope="module")
def reading(root: Path) -> Iterator[RunningConsole]:
    """A console without a token that only reads."""
    with console(root, log=root.parent / "reading.log") as running:
        yield running


def test_the_walk_finds_the_paths_of_every_part() -> None:
    assert {"/api/v1/lineage", f"{API}/sql", f"{API}/businesses/x/key", f"{API}/x"} <= set(PATHS)
    assert {"/api/v1", "/api/v1/applications/", "/api/v1/applications/x/jobs/", "/api/v1/applications/x/logs/"} <= set(
        PATHS
    )


@pytest.mark.parametrize("path", PATHS)
def test_no_path_answers_a_caller_without_the_token(locked: RunningConsole, root: Path, path: str) -> None:
    """A verb that a path does not have is 405, before or after the token is asked for."""
    before = files_of(root)
    wrong: list[dict[str, str]] = [
        {}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"bearer{TOKEN}"}, {"Cookie": f"kvwal_session={TOKEN}"}, {"Cookie": "kvwal_session="},
    ]  # fmt: skip
    for verb in VERBS:
        for headers in wrong if verb in ("GET", "PUT") else wrong[:1]:
            reply = send(locked.url, verb, path, b"{}", Content_Type="application/json", **headers)
            assert reply.status in (401, 405), (verb, headers, reply)
            assert b"job-0" not in reply.body
            assert TOKEN.encode() not in reply.body
    assert files_of(root) == before


@pytest.mark.parametrize("path", PATHS)
def test_a_console_that_only_reads_changes_nothing(reading: RunningConsole, root: Path, path: str) -> None:
    before = files_of(root)
    for verb in VERBS:
        if verb in ("GET", "HEAD") and path.endswith("/watch"):
            continue  # it answers as long as its caller listens
        where = path.replace("/businesses/x/", "/businesses/jobs/")
        reply = send(reading.url, verb, f"{where}?key=job-001", b"{}", Content_Type="application/json")
        assert reply.status < 500, (verb, reply)
        if verb in ("PUT", "DELETE", "PATCH"):
            assert reply.status in (403, 404, 405), (verb, reply)
    assert files_of(root) == before


@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_another_site_changes_nothing(locked: RunningConsole, root: Path, path: str) -> None:
    """Not even with the session of a browser that has signed in."""
    before = files_of(root)
    cookie = signed_in(locked).headers["set-cookie"].partition(";")[0]
    sites: list[dict[str, str]] = [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"}, {"Origin": locked.url.replace("127.0.0.1", "127.0.0.2")},
    ]  # fmt: skip
    for verb in ("POST", "PUT", "DELETE", "PATCH"):
        for headers in sites:
            where = path.replace("/businesses/x/", "/businesses/jobs/")
            reply = send(
                locked.url,
                verb,
                f"{where}?key=job-001",
                b"{}",
                Content_Type="application/json",
                Cookie=cookie,
                **headers,
            )
            assert reply.status in (403, 405), (verb, headers, reply)
    assert files_of(root) == before


def test_a_page_of_another_site_has_nothing_worked_out(reading: RunningConsole) -> None:
    """It cannot read an answer. A link to an answer may be followed, but for a statement."""
    elsewhere = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    businesses, sql = f"{API}/businesses", f"{API}/sql?sql=SELECT+41%2B1"
    assert [send(reading.url, "GET", businesses, **each).status for each in (elsewhere, link, {})] == [403, 200, 200]
    assert [send(reading.url, "GET", sql, **each).status for each in (elsewhere, link, {})] == [403, 403, 200]
    assert send(reading.url, "GET", sql, Sec_Fetch_Site="same-origin").status == 200
    page = send(reading.url, "GET", "/store/sql?sql=SELECT+41%2B1", **link)
    assert (page.status, b"SELECT 41+1" in page.body, b"<td" in page.body) == (200, True, False)


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_a_console_without_a_token_answers_to_names_of_this_machine_only(
    reading: RunningConsole, host: str, status: int
) -> None:
    assert send(reading.url, "GET", f"{API}/businesses", Host=host).status == status


def signed_in(running: RunningConsole, to: str = "/", token: str = TOKEN, **headers: str) -> Reply:
    return send(running.url, "POST", f"/login?to={to}", f"token={token}".encode(), **headers)


def test_a_session_is_no_token_and_is_kept_from_scripts_and_other_sites(locked: RunningConsole) -> None:
    reply = signed_in(locked)
    cookie = reply.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert "secure" in signed_in(locked, X_Forwarded_Proto="https").headers["set-cookie"].lower()
    session = cookie.partition(";")[0]
    assert send(locked.url, "GET", f"{API}/businesses", Cookie=session).status == 200
    assert send(locked.url, "GET", f"{API}/businesses", Cookie=session[:-1]).status == 401
    assert (
        send(locked.url, "GET", f"{API}/businesses", Authorization=f"Bearer {session.partition('=')[2]}").status == 401
    )
    wrong = signed_in(locked, token="wrong")
    assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)


ELSEWHERE = [
    "https://evil.example/", "//evil.example/", "/%5Cevil.example", "%09//evil.example", "javascript:alert(1)",
    "/%09/evil.example", "http:evil.example", "/%0a/evil.example", "%5C%5Cevil.example", "/%2Fevil.example",
]  # fmt: skip


@pytest.mark.parametrize("to", ELSEWHERE)
def test_signing_in_leads_to_no_other_site(locked: RunningConsole, to: str) -> None:
    reply = signed_in(locked, to)
    assert (reply.status, reply.headers["location"]) == (303, "/")


def test_signing_in_leads_to_the_page_that_was_asked_for(locked: RunningConsole) -> None:
    assert signed_in(locked, "/store/jobs").headers["location"] == "/store/jobs"


def test_every_answer_says_what_a_browser_may_do_with_it(locked: RunningConsole) -> None:
    for path in ("/healthz", "/login", f"{API}/businesses", "/nothing", "/static/console.css"):
        headers = send(locked.url, "GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


def test_a_token_is_in_no_log(locked: RunningConsole, root: Path) -> None:
    send(locked.url, "GET", f"{API}/businesses?token={TOKEN}", Authorization=f"Bearer {TOKEN}")
    signed_in(locked)
    assert TOKEN not in (root.parent / "locked.log").read_text()


def test_a_store_that_goes_away_and_comes_back_needs_no_other_console(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    with console(tmp_path / "data", log=tmp_path / "log") as running:
        assert send(running.url, "GET", f"{API}/businesses/jobs/key?key=job-001").status == 200
        (tmp_path / "data").rename(tmp_path / "away")
        gone = send(running.url, "GET", f"{API}/businesses/jobs/key?key=job-001")
        assert gone.status in (404, 503), gone
        assert gone.json["error"]
        (tmp_path / "away").rename(tmp_path / "data")
        assert send(running.url, "GET", f"{API}/businesses/jobs/key?key=job-001").status == 200


def test_a_cluster_that_does_not_answer_is_503_with_a_time_to_ask_again(tmp_path: Path) -> None:
    from tests.support.ports import free_port

    with console(f"kvwal://127.0.0.1:{free_port()}", log=tmp_path / "log") as running:
        reply: Any = send(running.url, "GET", f"{API}/businesses")
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")
        assert set(reply.json) == {"error"}
        assert send(running.url, "GET", "/healthz").status == 200
