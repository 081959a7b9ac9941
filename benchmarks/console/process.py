"""A console as a process of its own: started for a question, asked over HTTP, killed afterwards."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.support.history_server.server import listed
from tests.support.ports import free_port

T = TypeVar("T")
LOOK_SECONDS = 0.05
"""Between two questions to a server that starts: as for Spark's History Server."""
_TIMEOUT_SECONDS = 600


class Served(NamedTuple):
    """A console that runs: its port, its process, and its log."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def console(log: Path, *arguments: str) -> Iterator[Served]:
    """`kvwal console ARGUMENTS`. It may not listen yet. It is killed afterwards."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("kvwal")),
        "console",
        *arguments,
        "--http",
        f"127.0.0.1:{port}",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield Served(port, process, log)
    finally:
        process.kill()
        process.wait()


def until_listed(served: Served, count: int) -> None:
    """Wait until its REST API lists `count` applications. Raises `RuntimeError` if its process ends before."""
    while listed(served.port) < count:
        if served.process.poll() is not None:
            raise RuntimeError(served.log.read_text()[-2_000:])
        time.sleep(LOOK_SECONDS)


class Client:
    """One connection to a server, which stays open between requests as that of a browser does. For one thread."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)

    def get(self, path: str) -> bytes:
        """The body of an answer, read to its end. Raises `RuntimeError` for any status but 200."""
        try:
            answer = self._ask(path)
        except http.client.RemoteDisconnected:  # the server closed the connection while nothing was asked
            self._connection.close()
            answer = self._ask(path)
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"GET {path}: {answer.status} {body[:500]!r}")
        return body

    def _ask(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path)
        return self._connection.getresponse()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def client(port: int) -> Iterator[Client]:
    """A client of the server at a port of this machine."""
    opened = Client(port)
    try:
        yield opened
    finally:
        opened.close()


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds of some work, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
