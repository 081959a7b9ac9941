"""Every link of every page, as a crawler follows them: no page leads to what is not there, and every table is CSV and JSON."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked_batch
from kvwal.lineage.openlineage.runs import BUSINESS
from kvwal.spark.index import node_of_mark
from tests.support.cli import kvwal as kvwal_command
from tests.support.console import recorded
from tests.support.console.client import fill, send
from tests.support.lineage.console import console
from tests.support.lineage.events import event

_OF_A_KIND = 2
"""Pages of one kind that are followed, one in each order and format: lists lead to hundreds of jobs, made by the same code."""


class _Page(HTMLParser):
    """The addresses of a page, and the names of the parts that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        found = {name: value or "" for name, value in attrs}
        if (address := found.get("src" if tag == "script" else "href")) is not None:
            self.links.append(address)
        if "id" in found:
            self.ids.append(found["id"])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console of a store with everything that pages show, hostile names among them."""
    folder: Path = tmp_path_factory.mktemp("links")
    recorded.write(folder / "data")
    fill(folder / "data")
    with kvwal.open(folder / "data", node="writer", archive=None) as store:
        told = [event(inputs=["/raw/a b%25"], outputs=[f"/{recorded.HOSTILE}"], name="load")]
        EventStore(store.map(BUSINESS), node_of_mark(store)).put(checked_batch(told))
    with console(folder / "data", log=folder / "log") as running:
        yield running.url


def kind_of(address: str) -> str:
    """Pages that the same code makes from records of the same kind: names and numbers are left out."""
    split = urlsplit(address)
    parts = split.path.split("/")
    named = [part for part in parts if part in _WORDS]
    query = parse_qs(split.query)
    given = sorted(set(query) - {"id", "cursor", "dataset", "version", "status", "name"})
    evil = "evil" if "script" in address.lower() else ""
    return " ".join([*named, str(len(parts)), *given, *query.get("format", ()), *query.get("table", ()), evil])


_WORDS = {
    "app", "job", "jobs", "stage", "stages", "sql", "executors", "streams", "stream", "failures", "settings", "plan", "runs",
    "compare", "lineage", "store", "key", "queues", "queue", "contents", "operations", "static", "api", "bytes",
}  # fmt: skip


def test_every_link_of_every_page_leads_somewhere(url: str) -> None:
    pending, seen, kinds = (
        ["/", f"/app/{recorded.BUSY}", "/store/work/queues", "/store/files/contents", "/login"],
        set[str](),
        dict[str, int](),
    )
    wrong: list[tuple[str, str, int]] = []
    came_from = dict.fromkeys(pending, "")
    while pending:
        address = pending.pop(0)
        if address in seen or kinds.get(kind_of(address), 0) >= (1 if "=" in address else _OF_A_KIND):
            continue
        seen.add(address)
        kinds[kind_of(address)] = kinds.get(kind_of(address), 0) + 1
        answer = send(url, "GET", address)
        does_something = address == "/login" or "examine=now" in address  # and leads to the page that shows it
        if answer.status != (303 if does_something else 200):
            wrong.append((address, came_from[address], answer.status))
            continue
        if does_something:
            pending.append(answer.headers["location"])
        kind = answer.headers.get("content-type", "")
        form = parse_qs(urlsplit(address).query).get("format", [""])[0]
        if form:
            assert form in kind, address
            rows = (
                json.loads(answer.body)
                if form == "json"
                else list(csv.reader(io.StringIO(answer.body.decode(), newline="")))
            )
            assert rows, f"{came_from[address]} links to {address}, which has no row"
        elif kind.startswith("text/html"):
            page = _Page(answer.body.decode())
            assert len(page.ids) == len(set(page.ids)), address
            for link in page.links:
                target = urlsplit(urljoin(url + address, link))
                assert target.netloc == urlsplit(url).netloc, f"{address} leads away: {link}"
                if link.startswith("#"):
                    assert link[1:] in page.ids, f"{address}: {link}"
                    continue
                found = target.path + (f"?{target.query}" if target.query else "")
                came_from.setdefault(found, address)
                pending.append(found)
    assert wrong == []
    assert {word for word in _WORDS if any(word in kind.split() for kind in kinds)} >= _WORDS - {"compare"}


def test_an_address_that_is_not_there_is_a_page_for_people_and_words_for_programs(url: str) -> None:
    page = send(url, "GET", "/nothing/<b>x</b>".replace("<", "%3C").replace(">", "%3E"))
    assert page.status == 404
    assert b'class="sentence"' in page.body
    assert b"<b>" not in page.body
    for path in ("/api/nothing", "/static/nothing.css"):
        answer = send(url, "GET", path)
        assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8"), path


def test_the_command_of_a_page_names_the_part_that_a_console_shows(tmp_path: Path) -> None:
    """The folder with its whole path, whose name has a space and a percent sign; and the namespace."""
    folder = tmp_path / "a b%20c"
    with kvwal.open(folder, namespace="sales", archive=None) as store:
        store.map("jobs")["a"] = 1
    relative = os.path.relpath(folder)
    with console(relative, "--namespace", "sales", log=tmp_path / "log") as running:
        page = send(running.url, "GET", "/store/jobs").body.decode()
    shown = page.partition('<code class="command">')[2].partition("</code>")[0]
    first, *words = shlex.split(html.unescape(shown))
    assert first == "kvwal"
    assert words == ["scan", str(folder), "--namespace", "sales", "jobs", "--limit", "50"]
    ran = kvwal_command(*words)
    assert (ran.code, "a" in ran.out) == (0, True), ran.err
