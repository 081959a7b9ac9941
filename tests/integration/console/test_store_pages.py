"""The pages about the store in a real browser: each width, dark and light, hostile text, and the same answers as CSV and JSON."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Page

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked_batch
from kvwal.lineage.openlineage.runs import BUSINESS
from kvwal.spark.index import node_of_mark
from tests.support.cli import kvwal as command
from tests.support.console.browser import NARROW, SCHEMES, WIDE, chromium, reader
from tests.support.console.client import HOSTILE, fill, send
from tests.support.lineage.console import console
from tests.support.lineage.events import event

IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose keys, values, names of contents and data sets would run a script if they were HTML."""
    root = tmp_path_factory.mktemp("pages") / "data"
    fill(root)
    with kvwal.open(root, node="writer", archive=None) as store:
        store.map("jobs")[b"\xfe'"] = 7
        store.map("jobs")[IMAGE] = {"</pre><script>alert(1)</script>": [IMAGE]}
        store.content("files").put(IMAGE, b"x", {IMAGE: IMAGE})
        store.content("files").put('"><script>alert(1)</script>', b"x")
        told = [
            event(inputs=["/raw/orders"], outputs=["/stage/orders"], name="load", run={"runId": _run(1)}),
            event(
                "FAIL",
                inputs=["/stage/orders"],
                outputs=["/mart/sales", f"/{IMAGE}"],
                name=IMAGE,
                run={"runId": _run(2)},
            ),
        ]
        openlineage = store.map(BUSINESS)
        EventStore(openlineage, node_of_mark(store)).put(checked_batch(told))
    return root


def _run(number: int) -> str:
    return f"0199b7b2-7cf1-7c1b-9a2c-{number:012}"


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with console(root, log=root.parent / "log") as running:
        yield running.url


def key_page(key: str, **more: object) -> str:
    return "/store/jobs/key?" + urlencode({"id": f"str:{base64.urlsafe_b64encode(key.encode()).decode()}", **more})


SQL = "SELECT key, (value->>'rows')::BIGINT AS rows, '<script>alert(1)</script>' AS x FROM jobs WHERE key LIKE 'job-%'"
PAGES = {
    "store": "/store",
    "keys": "/store/jobs",
    "prefix": "/store/jobs?prefix=job-01",
    "key": key_page("job-001"),
    "hostile key": key_page(IMAGE),
    "bytes": "/store/jobs/key?id=bytes:_ic",
    "sql": f"/store/sql?{urlencode({'sql': SQL, 'chart': 'rows'})}",
    "wrong sql": f"/store/sql?{urlencode({'sql': f'SELECT {IMAGE}'})}",
    "queues": "/store/work/queues",
    "queue": "/store/work/queue?queue=todo",
    "contents": "/store/files/contents",
    "lineage": "/lineage",
    "search": "/lineage?q=orders",
    "graph": "/lineage?dataset=file:///stage/orders",
    "hostile data set": f"/lineage?{urlencode({'dataset': f'file:///{IMAGE}'})}",
    "operations": "/operations",
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.variants(3)
def test_a_page_is_readable_at_each_width_and_in_both_schemes(browser: Browser, url: str, name: str) -> None:
    """No script of a store runs, the window is wide enough, and axe has no serious finding."""
    for width, scheme in ((NARROW, SCHEMES[1]), (WIDE, SCHEMES[0])):
        with reader(browser, width, scheme) as reading:
            page = reading.open(url + PAGES[name])
            reading.check()
            assert page.title() != "run"


def test_pages_need_no_script(browser: Browser, url: str) -> None:
    with reader(browser, scripts=False) as reading:
        for path in PAGES.values():
            page = reading.open(url + path)
            assert page.inner_text("h1")
            assert page.locator("[style]").count() == 0
            assert page.locator("main script").count() == 0


@pytest.mark.parametrize("name", [name for name in PAGES if name != "wrong sql"])
def test_every_table_is_there_as_csv_and_json(url: str, name: str) -> None:
    joint = "&" if "?" in PAGES[name] else "?"
    as_json = send(url, "GET", quote(f"{PAGES[name]}{joint}format=json", safe="/?&=%:+,"))
    as_csv = send(url, "GET", quote(f"{PAGES[name]}{joint}format=csv", safe="/?&=%:+,"))
    assert (as_json.status, as_csv.status) == (200, 200)
    assert as_csv.headers["content-disposition"].startswith("attachment")
    rows = [
        {key: value for key, value in row.items() if key not in AGES}
        for row in csv.DictReader(io.StringIO(as_csv.body.decode()))
    ]
    assert len(rows) == len(as_json.json)
    for one, other in zip(rows, as_json.json, strict=True):
        assert {key: value for key, value in one.items() if value} == {
            key: text(other[key]) for key in one if other.get(key) not in (None, "")
        }, name


AGES = ("oldest", "found", "checkpoint", "waits")
"""Columns that have an age, which differs from one request to the next."""


def text(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def typed(page: Page) -> list[str]:
    """The command of a page, as bash splits it."""
    split = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {page.inner_text('code.command')}"], capture_output=True, check=True
    )
    return [os.fsdecode(word) for word in split.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize("name", ["store", "prefix", "key", "hostile key", "queue", "contents", "graph", "bytes"])
@pytest.mark.variants(3)
def test_the_command_of_a_page_answers_the_same(browser: Browser, root: Path, url: str, name: str) -> None:
    with reader(browser) as reading:
        page = reading.open(url + PAGES[name])
        first, *words = typed(page)
        assert first == "kvwal"
        assert str(root) in words
        ran = command(*words)
        assert (ran.code, bool(ran.out)) == (0, True), ran.err


def test_a_reader_goes_from_the_store_to_a_value_and_its_past(browser: Browser, url: str) -> None:
    with reader(browser) as reading:
        page = reading.open(f"{url}/store")
        page.click("text=jobs")
        page.fill("input[name=prefix]", "job-001")
        page.locator("tbody tr").nth(1).wait_for(state="detached")
        page.click("text=job-001")
        page.wait_for_selector("text=What this version changed")
        changed = page.inner_text(".difference")
        assert '-  "state": "RUNNING",' in changed
        assert '+  "state": "SUCCEEDED",' in changed
        page.focus("input[name=version]")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("text=This is version 1 of 2")
        assert '"RUNNING"' in page.inner_text("pre.wrap")
        reading.check()


def test_a_key_at_a_time_is_the_version_of_then(url: str) -> None:
    rows = send(url, "GET", f"{key_page('job-001')}&format=json").json
    older = send(url, "GET", key_page("job-001", at=rows[1]["timestamp"])).body.decode()
    assert "This is version 1 of 2" in older
    assert send(url, "GET", key_page("job-001", at="2001-01-01")).status == 404
    assert send(url, "GET", key_page("job-001", at="nonsense")).status == 400
    assert send(url, "GET", key_page("job-001", version="3")).status == 400
    assert send(url, "GET", key_page("nothing")).status == 404


def test_a_reader_walks_the_graph_with_the_keyboard(browser: Browser, url: str) -> None:
    with reader(browser) as reading:
        page = reading.open(f"{url}/lineage?dataset=file:///stage/orders")
        names = [link.get_attribute("aria-label") for link in page.locator("svg.lineage a").all()]
        assert set(names) == {"file:///raw/orders", "file:///stage/orders", "file:///mart/sales", f"file:///{IMAGE}"}
        assert page.locator("svg.lineage path.edge").count() == 3
        page.locator('svg.lineage a[aria-label="file:///raw/orders"]').focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**dataset=file%3A%2F%2F%2Fraw%2Forders**")
        assert page.inner_text("h1") == "file:///raw/orders"
        page.select_option("select[name=direction]", "up")
        page.wait_for_selector("text=No run that is known")


def test_pages_of_keys_go_on(browser: Browser, url: str) -> None:
    with reader(browser, scripts=False) as reading:
        page = reading.open(f"{url}/store/jobs")
        seen = page.locator("tbody tr").count()
        with page.expect_navigation():
            page.click("a[rel=next]")
        assert seen + page.locator("tbody tr").count() == 56
        assert page.locator("a[rel=next]").count() == 0


def test_an_arrow_stream_is_downloaded_from_the_page(browser: Browser, url: str) -> None:
    import pyarrow as pa

    with reader(browser) as reading:
        page = reading.open(url + PAGES["sql"])
        with page.expect_download() as download:
            page.click("text=Download as an Arrow stream")
        with pa.ipc.open_stream(str(download.value.path())) as stream:
            assert stream.read_all().num_rows == 50


def test_a_content_is_downloaded_and_never_shown(browser: Browser, url: str) -> None:
    with reader(browser) as reading:
        page = reading.open(f"{url}/store/files/contents")
        with page.expect_download() as download:
            page.click("text=report/α.html")
        assert Path(download.value.path()).read_text() == HOSTILE
        assert download.value.suggested_filename == "α.html"


def test_operations_say_what_doctor_says(root: Path, url: str) -> None:
    told = [json.loads(line) for line in command("doctor", root, "--json").out.splitlines()]
    shown = [
        row
        for table in ("findings", "checks")
        for row in send(url, "GET", f"/operations?format=json&table={table}").json
    ]
    assert sorted(each["level"] for each in shown) == sorted(each["level"] for each in told)


def test_a_location_is_examined_when_a_reader_asks_for_it(browser: Browser, url: str) -> None:
    with reader(browser) as reading:
        page = reading.open(f"{url}/operations")
        page.click("text=Examine now")
        page.wait_for_load_state()
        assert page.url == f"{url}/operations"
        assert "Examined" in page.inner_text("#operations")
        assert "of the writing process" in page.inner_text("#operations")


def test_a_page_of_what_is_not_there_is_a_sentence(browser: Browser, url: str) -> None:
    for path, status in (("/store/nothing", 404), ("/lineage?dataset=nothing", 404), ("/store/jobs/key", 400),
                         ("/lineage?dataset=file:///stage/orders&depth=x", 400)):  # fmt: skip
        reply = send(url, "GET", path)
        assert reply.status == status
        assert b'class="sentence"' in reply.body
