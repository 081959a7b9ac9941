"""Slow and many clients of a console: none holds a thread or keeps others out for long, and watches end in order."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

import kvwal
from kvwal.console.ownapi.watches import MOST_WATCHES
from tests.support.console.client import API, get, send
from tests.support.lineage.console import RunningConsole, console
from tests.support.polling import until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningConsole]:
    with kvwal.open(tmp_path / "data", archive=None) as store:
        store.map("jobs")["a"] = 1
        store.content("files").put("large", bytes(32 << 20))
    with console(tmp_path / "data", log=tmp_path / "log") as running:
        yield running


def connected(running: RunningConsole, text: str = "") -> socket.socket:
    split = urlsplit(running.url)
    client = socket.create_connection((split.hostname or "", split.port or 0), timeout=60)
    client.sendall(text.encode())
    return client


def request(path: str, *headers: str) -> str:
    return "\r\n".join([f"GET {API}{path} HTTP/1.1", "Host: localhost", *headers, "", ""])


def test_a_thousand_clients_that_say_nothing_keep_others_out_for_seconds_only(running: RunningConsole) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(running, "GET /he")) for _ in range(1000)]
        until(lambda: True if send(running.url, "GET", "/healthz").status == 200 else None)
        until(lambda: slow[0].recv(1) == b"" or None)  # it was closed


def test_clients_that_do_not_read_hold_no_thread(running: RunningConsole) -> None:
    """There are more of them than threads, and each is in the middle of a long answer."""
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(connected(running, request("/businesses/files/content/bytes?name=large")))
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        assert get(running.url, "/businesses/jobs/key", {"key": "a"}).json["value"] == 1


class Events:
    """The events of a watch, as they come."""

    def __init__(self, client: socket.socket) -> None:
        self._lines = client.makefile("rb")
        assert self._lines.readline() == b"HTTP/1.1 200 OK\r\n"

    def next(self) -> dict[str, str]:
        """The next event with data; an empty one at the end."""
        fields: dict[str, str] = {}
        for line in iter(self._lines.readline, b""):
            name, colon, text = line.decode().rstrip("\r\n").partition(": ")
            if colon and name in ("event", "id", "data"):
                fields[name] = text
            elif not name and "data" in fields:
                return fields
        return {}


def test_a_watch_goes_on_after_the_last_event_in_any_console_and_ends_in_order(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with kvwal.open(root, archive=None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        with console(root, log=tmp_path / "log") as running:
            with connected(running, request("/businesses/jobs/watch?after=1h")) as client:
                events = Events(client)
                first = events.next()
                assert json.loads(first["data"])["value"] == 1
                jobs["b"] = "line\nend"
                del jobs["a"]
                found = [json.loads(events.next()["data"]) for _ in range(2)]
                assert [(each["key"], each["deleted"], each["value"]) for each in found] == [
                    ("b", False, "line\nend"), ("a", True, None)
                ]  # fmt: skip
                running.process.terminate()
                assert events.next()["event"] == "end"
                assert events.next() == {}
            assert running.process.wait(60) == 0
        with (
            console(root, log=tmp_path / "log.2") as other,
            connected(other, request("/businesses/jobs/watch", f"Last-Event-ID: {first['id']}")) as client,
        ):
            events = Events(client)
            assert [json.loads(events.next()["data"])["key"] for _ in range(2)] == ["b", "a"]


def test_watches_are_bounded_and_one_that_ends_makes_room(running: RunningConsole) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_WATCHES):
            client = stack.enter_context(connected(running, request("/businesses/jobs/watch")))
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        reply = get(running.url, "/businesses/jobs/watch")
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")
        assert get(running.url, f"/businesses/{quote('jobs')}/keys").status == 200

    def watched() -> bool | None:
        with connected(running, request("/businesses/jobs/watch")) as client:
            return True if client.recv(15) == b"HTTP/1.1 200 OK" else None

    until(watched)
