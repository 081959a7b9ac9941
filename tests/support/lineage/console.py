"""A console that runs, as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.polling import until
from tests.support.ports import free_port

RUN = [sys.executable, "-c", "from kvwal.cli.main import main; main()"]


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: dict[str, Any]


class RunningConsole:
    """A console at `url`."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    def post(self, body: bytes | object, path: str = "/api/v1/lineage", **headers: str) -> Answer:
        """POST a body: bytes as they are, else as JSON. An underscore in the name of a header is a dash."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        return answer(urllib.request.Request(self.url + path, data, sent, method="POST"))

    def get(self, path: str, **headers: str) -> Answer:
        """GET a path."""
        return answer(urllib.request.Request(self.url + path, headers=headers))

    def stop(self) -> int:
        """Stop it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def answer(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return Answer(response.status, json.load(response))
    except urllib.error.HTTPError as error:
        text = error.read()
        return Answer(error.code, json.loads(text) if text[:1] == b"{" else {"error": text.decode()})


@contextmanager
def console(location: str | Path, *options: str, log: Path, host: str = "127.0.0.1") -> Iterator[RunningConsole]:
    """`kvwal console LOCATION OPTIONS`, until the block ends. Its log lines are in the file `log`."""
    url = f"{host}:{free_port()}"
    with log.open("ab") as lines:
        command = [*RUN, "console", str(location), "--http", url, *options]
        process = subprocess.Popen(command, stderr=lines)
    try:
        until(lambda: True if process.poll() is not None or b"the console serves" in log.read_bytes() else None)
        assert process.poll() is None, log.read_text()
        yield RunningConsole(f"http://{url}", process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
