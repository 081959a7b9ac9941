"""kvwal's REST API on a real console: each path gives what the command line gives, and what is no value is a sentence."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import kvwal
from tests.support.cli import kvwal as command
from tests.support.console.client import API, HOSTILE, Reply, fill, get, send
from tests.support.lineage.console import console
from tests.support.lineage.events import event


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own") / "data"
    fill(root)
    return root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """A console that only reads."""
    with console(root, log=root.parent / "log") as running:
        yield running.url


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[str]:
    """A console that writes, as a node of its own beside the one that wrote the store."""
    fill(tmp_path / "data")
    with console(tmp_path / "data", "--allow-writes", "--node", "console", log=tmp_path / "log") as running:
        yield running.url


def printed(*arguments: object) -> Any:
    ran = command(*map(str, arguments), "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_businesses_and_figures_are_those_of_the_command_line(root: Path, url: str) -> None:
    names = [each["name"] for each in get(url, "/businesses").json["businesses"]]
    assert names == ["events", "files", "jobs", "work"]
    assert get(url, "/stats").json["businesses"].keys() == printed("stats", root)["businesses"].keys()
    health = get(url, "/health").json
    assert (health["status"], {each["level"] for each in health["findings"]}) == ("note", {"ok", "note"})


@pytest.mark.parametrize("prefix", ["", "job-"])
def test_pages_of_keys_join_to_all_of_them_in_order(root: Path, url: str, prefix: str) -> None:
    """Keys of several classes are among them. The cursor of a page is its last key."""
    found: list[Any] = []
    query: dict[str, Any] = {"limit": 7, "prefix": prefix}
    while True:
        page = get(url, "/businesses/jobs/keys", query).json
        found += page["entries"]
        assert len(page["entries"]) == 7 or page["next"] is None
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    scanned = [
        json.loads(line) for line in command("scan", root, "jobs", "--prefix", prefix, "--json").out.splitlines()
    ]
    assert [(each["key"], each["value"]) for each in found] == [(each["key"], each["value"]) for each in scanned]
    assert len(found) == (50 if prefix else 54)


@pytest.mark.parametrize(
    ("key", "key_class", "value"),
    [
        ("a/b c", "str", 1.5), (HOSTILE, "str", HOSTILE), ("7", "int", "Infinity"),
        (b"\xff\x00", "bytes", base64.b64encode(b"\x00\x01").decode()),
    ],
)  # fmt: skip
def test_one_key_of_any_class_is_read(url: str, key: str | bytes, key_class: str, value: object) -> None:
    reply = send(url, "GET", f"{API}/businesses/jobs/key?key={quote(key, safe='')}&key_class={key_class}")
    assert (reply.status, reply.json["value"]) == (200, value)
    assert reply.headers["content-type"] == "application/json"
    tag = reply.headers["etag"]
    assert tag == f'"{reply.json["timestamp"]}"'
    again = send(
        url, "GET", f"{API}/businesses/jobs/key?key={quote(key, safe='')}&key_class={key_class}", If_None_Match=tag
    )
    assert (again.status, again.body) == (304, b"")


def test_the_history_of_a_key_and_its_value_at_each_time(url: str) -> None:
    entries = get(url, "/businesses/jobs/history", {"key": "job-001"}).json["entries"]
    assert [each["value"]["state"] for each in entries] == ["SUCCEEDED", "RUNNING"]
    for each in entries:
        then = get(url, "/businesses/jobs/key", {"key": "job-001", "at": each["timestamp"]})
        assert then.json["value"] == each["value"]
    page = get(url, "/businesses/jobs/keys", {"prefix": "job-001", "at": entries[1]["timestamp"]}).json
    assert [each["value"]["state"] for each in page["entries"]] == ["RUNNING"]


REFUSED = [
    ("/businesses/jobs/keys", {"limit": "0"}, 400, "limit"),
    ("/businesses/jobs/keys", {"limit": "²"}, 400, "limit"),
    ("/businesses/jobs/keys", {"cursor": "x"}, 400, "cursor"),
    ("/businesses/jobs/keys", {"at": "yesterday"}, 400, "at"),
    ("/businesses/jobs/keys", {"limits": "1"}, 400, "limits"),
    ("/businesses/jobs/key", {}, 400, "key"),
    ("/businesses/jobs/key", {"key": "x", "key_class": "pickle"}, 400, "key_class"),
    ("/businesses/jobs/key", {"key": "x", "key_class": "int"}, 400, "int"),
    ("/businesses/jobs/key", {"key": "nothing"}, 404, "no such key"),
    ("/businesses/nothing/keys", {}, 404, "nothing"),
    ("/businesses/..%2F..%2Fetc/keys", {}, 404, ""),
    ("/nothing", {}, 404, "openapi.json"),
    ("/lineage", {"dataset": "s3://no/where"}, 404, "no data set"),
    ("/businesses/files/content", {"name": "nothing"}, 404, "no content"),
    ("/businesses/jobs/watch", {"after": "{"}, 400, "after"),
]


@pytest.mark.parametrize(("path", "query", "status", "word"), REFUSED)
def test_what_cannot_be_answered_is_a_sentence(
    url: str, path: str, query: dict[str, str], status: int, word: str
) -> None:
    reply = get(url, path, query)
    assert reply.status == status, reply.body
    assert set(reply.json) == {"error"}
    assert word in reply.json["error"]
    assert reply.json["error"].endswith((".", ")"))


def test_queues_are_listed_and_browsed_and_keep_their_items(root: Path, url: str) -> None:
    listed = get(url, "/queues").json["queues"]
    assert {(each["queue"], each["items"]) for each in listed} == {("", 12), ("todo", 1)}
    for _ in range(2):
        items = get(url, "/businesses/work/queue/items", {"limit": 3}).json["items"]
        assert [item["value"]["number"] for item in items] == [0, 1, 2]
    assert get(url, "/businesses/work/queue/items", {"queue": "todo"}).json["items"][0]["value"] == HOSTILE
    stats, told = get(url, "/businesses/work/queue/stats").json, printed("queue", "stats", root, "work")
    for name in ("items", "bytes", "by_priority", "delayed"):
        assert stats[name] == told[name]


def bytes_of(url: str, name: str, **headers: str) -> Reply:
    return get(url, "/businesses/files/content/bytes", {"name": name}, **headers)


def test_the_bytes_of_a_content_whole_and_in_ranges(url: str) -> None:
    whole, data = bytes_of(url, "bytes"), bytes(range(256)) * 40
    assert (whole.status, whole.body) == (200, data)
    tag = whole.headers["etag"]
    assert tag == f'"{hashlib.sha256(data).hexdigest()}"'
    for wanted, part in [("bytes=10-19", data[10:20]), ("bytes=10230-", data[10230:]), ("bytes=-5", data[-5:]),
                         ("bytes=10239-99999", data[-1:])]:  # fmt: skip
        reply = bytes_of(url, "bytes", Range=wanted)
        assert (reply.status, reply.body) == (206, part)
        start = data.index(part) if len(part) > 1 else len(data) - 1
        assert reply.headers["content-range"].endswith("/10240")
        assert int(reply.headers["content-length"]) == len(part)
        assert start >= 0
    beyond = bytes_of(url, "bytes", Range="bytes=10240-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, "bytes */10240")
    for wanted in ("bytes=5-2", "lines=1-2", "bytes=0-1,4-5", "bytes=-", "bytes=²-3"):
        assert bytes_of(url, "bytes", Range=wanted.encode().decode("latin-1")).status == 200
    assert bytes_of(url, "bytes", If_None_Match=tag).status == 304
    assert bytes_of(url, "bytes", Range="bytes=0-1", If_Range=tag).status == 206
    assert bytes_of(url, "bytes", Range="bytes=0-1", If_Range='"another"').status == 200
    head = send(url, "HEAD", f"{API}/businesses/files/content/bytes?name=bytes")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "10240")


def test_no_browser_renders_a_content(url: str) -> None:
    reply = bytes_of(url, "report/α.html")
    assert reply.body == HOSTILE.encode()
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''%CE%B1.html"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_provenance_is_that_of_the_command_line(root: Path, url: str) -> None:
    told = [json.loads(line) for line in command("provenance", "search", root, "events", "--json").out.splitlines()]
    assert get(url, "/businesses/events/provenance").json["events"] == told
    lineage = get(url, "/businesses/events/provenance/lineage", {"key": "k"}).json["events"]
    assert [each["type"] for each in lineage] == ["create", "modify content"]


def test_lineage_is_that_of_the_command_line(tmp_path: Path) -> None:
    with console(tmp_path / "data", "--allow-writes", log=tmp_path / "log") as running:
        told = event("COMPLETE", inputs=["/in"], outputs=["/out"])
        assert running.post(told).status == 201
        found = get(running.url, "/datasets", {"text": "OUT"}).json
        assert [each["dataset"] for each in found["datasets"]] == ["file:///out"]
        reply = get(running.url, "/lineage", {"dataset": "file:///out", "direction": "up"})
        assert reply.json == printed("lineage", tmp_path / "data", "file:///out", "--up")


def put(url: str, key: str, value: object, **headers: str) -> Reply:
    kind = {"Content_Type": "application/json"} | headers
    return send(url, "PUT", f"{API}/businesses/jobs/key?key={quote(key, safe='')}", json.dumps(value).encode(), **kind)


def test_a_write_on_a_condition_is_refused_after_another_change(writing: str) -> None:
    """The key was written by another node of the folder: the condition is about the latest change of all nodes."""
    tag = get(writing, "/businesses/jobs/key", {"key": "job-001"}).headers["etag"]
    assert put(writing, "job-001", 1, If_Match='"1"').status == 412
    first = put(writing, "job-001", {"state": "KILLED"}, If_Match=tag)
    assert (first.status, first.headers["etag"]) == (200, f'"{first.json["timestamp"]}"')
    assert put(writing, "job-001", 2, If_Match=tag).status == 412
    assert put(writing, "job-001", 3, If_None_Match="*").status == 412
    second = put(writing, "job-001", [1], If_Match=f'"1", {first.headers["etag"]}')
    assert second.status == 200
    path = f"{API}/businesses/jobs/key?key=job-001"
    assert send(writing, "DELETE", path, If_Match=tag).status == 412
    assert send(writing, "DELETE", path, If_Match=second.headers["etag"]).status == 200
    assert get(writing, "/businesses/jobs/key", {"key": "job-001"}).status == 404
    assert put(writing, "job-001", 4, If_Match="*").status == 412
    assert put(writing, "job-001", 4, If_None_Match="*").status == 200


def test_of_many_writers_with_one_tag_one_wins(writing: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    tag = put(writing, "shared", 0).headers["etag"]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda number: put(writing, "shared", number, If_Match=tag), range(1, 17)))
    assert sorted({reply.status for reply in replies}) == [200, 412]
    assert sum(reply.status == 200 for reply in replies) == 1


def test_values_of_each_class_are_put(writing: str, tmp_path: Path) -> None:
    path = f"{API}/businesses/jobs/key?key=%FF&key_class=bytes"
    assert send(writing, "PUT", path, b"\x00\xff", Content_Type="application/octet-stream").status == 200
    assert put(writing, "text", "x").status == 200
    assert put(writing, "new/business", None).status == 200
    plain = f"{API}/businesses/fresh/key?key=k"
    assert send(writing, "PUT", plain, "α".encode(), Content_Type="text/plain; charset=utf-8").status == 200
    assert send(writing, "PUT", plain, b"\xff", Content_Type="text/plain").status == 400
    assert send(writing, "PUT", plain, b"{", Content_Type="application/json").status == 400
    assert send(writing, "PUT", plain, b"1", Content_Type="text/html").status == 415
    assert send(writing, "PUT", plain, b" " * (5 << 20), Content_Type="text/plain").status == 413
    assert send(writing, "PUT", f"{API}/businesses/..%2Fx/key?key=k", b"1", Content_Type="text/plain").status in (
        400,
        404,
    )
    assert send(writing, "DELETE", f"{API}/businesses/nothing/key?key=k").status == 404
    with kvwal.open(tmp_path / "data", read_only=True) as store:
        jobs = store.map("jobs")
        assert (jobs[b"\xff"], jobs["text"], jobs["new/business"]) == (b"\x00\xff", "x", None)
        assert store.map("fresh")["k"] == "α"
        assert store.businesses() == ["events", "files", "fresh", "jobs", "openlineage", "work"]
        assert math.isinf(jobs[7])


def test_an_archive_alone_answers_all_but_what_it_cannot_know(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "data", archive=tmp_path / "archive") as store:
        store.map("jobs").put_many({"a": 1, "b": 2})
        store.map("jobs")["a"] = 3
        store.queue("work").put_many([1, 2])
        store.content("files").put("report", b"bytes")
    with console(tmp_path / "archive", log=tmp_path / "log") as running:
        url = running.url
        assert [each["name"] for each in get(url, "/businesses").json["businesses"]] == ["files", "jobs", "work"]
        assert [each["value"] for each in get(url, "/businesses/jobs/keys").json["entries"]] == [3, 2]
        history = get(url, "/businesses/jobs/history", {"key": "a"}).json["entries"]
        assert [each["value"] for each in history] == [3, 1]
        then = get(url, "/businesses/jobs/key", {"key": "a", "at": history[1]["timestamp"]})
        assert then.json["value"] == 1
        assert get(url, "/sql", {"sql": "SELECT count(*) FROM jobs_history"}).json["rows"] == [[3]]
        assert get(url, "/queues").json["queues"][0]["items"] == 2
        assert bytes_of(url, "report").body == b"bytes"
        for path in ("/health", "/businesses/jobs/watch", "/businesses/jobs/provenance"):
            assert get(url, path).status == 404, path
        for path in ("/store", "/store/jobs", "/store/work/queue", "/store/files/contents", "/operations"):
            assert send(url, "GET", path).status == 200, path
        assert send(url, "PUT", f"{API}/businesses/jobs/key?key=a", b"1", Content_Type="application/json").status == 403
