"""A client of the console that follows no redirect, and a store that the tests of the console ask."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import kvwal

API = "/api/kvwal/v1"
HOSTILE = "<script>document.title='run'</script>"


class Reply(NamedTuple):
    """The answer to a request. Headers are by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def send(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
    """Send a request to a console. An underscore in the name of a header is a dash."""
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        found = {name.lower(): text for name, text in response.getheaders()}
        return Reply(response.status, found, response.read())
    finally:
        connection.close()


def get(url: str, path: str, query: Mapping[str, object] | None = None, **headers: str) -> Reply:
    """GET a path of kvwal's API."""
    return send(url, "GET", f"{API}{path}?{urlencode(query or {})}", **headers)


def fill(root: Path) -> None:
    """A store with a map of every kind of key, a history, queues, contents and provenance."""
    with kvwal.open(root, node="writer", archive=None) as store:
        jobs = store.map("jobs")
        jobs.put_many({f"job-{number:03}": {"state": "RUNNING", "rows": number * 7} for number in range(50)})
        jobs["job-001"] = {"state": "SUCCEEDED", "rows": 70}
        jobs[HOSTILE] = HOSTILE
        jobs["a/b c"] = 1.5
        jobs[b"\xff\x00"] = b"\x00\x01"
        jobs[7] = float("inf")
        store.provenance("events")
        store.map("events").put_many({"k": 1})
        store.map("events")["k"] = 2
        store.queue("work").put_many([{"number": number} for number in range(12)])
        store.business("work").queue("todo").put(HOSTILE)
        files = store.content("files")
        files.put("report/α.html", HOSTILE.encode(), {"codec": "none"})
        files.put("bytes", bytes(range(256)) * 40)


def files_of(root: Path) -> dict[str, tuple[int, int]]:
    """Every file under a folder, with its size and the time of its last change."""
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
