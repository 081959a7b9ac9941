"""Spark's History Server, which pyspark contains, over a folder of event logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyspark

from tests.support.polling import until
from tests.support.ports import free_port

QUARTILES = "quantiles=0.25,0.5,0.75,0.95"
LISTS = (
    "jobs",
    f"stages?withSummaries=true&{QUARTILES}",
    "allexecutors",
    "environment",
    "sql?details=true&planDescription=true&length=10000",
    "storage/rdd",
    "allmiscellaneousprocess",
)
"""Questions about each application."""


@contextmanager
def history_server(
    logs: Path, port: int, log: Path, settings: Mapping[str, str] | None = None, heap: str = "1g"
) -> Iterator[subprocess.Popen[bytes]]:
    """Spark's History Server over a folder of logs, with its own settings but for these. It is killed afterwards."""
    given = {"spark.history.fs.logDirectory": logs.as_uri(), "spark.history.ui.port": str(port), **(settings or {})}
    options = " ".join(f"-D{name}={value}" for name, value in given.items())
    environment = os.environ | {
        "SPARK_HISTORY_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": heap,
    }  # fmt: skip
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
        "org.apache.spark.deploy.history.HistoryServer",
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            yield server
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def listed(port: int) -> int:
    """Number of attempts of applications that the History Server lists by now."""
    try:
        return sum(len(row["attempts"]) for row in ask(port, "applications"))
    except (urllib.error.URLError, json.JSONDecodeError):
        return 0  # it does not listen yet, or answers with its page until its API is there


def ask(port: int, path: str) -> Any:
    """The answer of its REST API to a question."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}") as answer:
        return json.load(answer)


def answers(logs: Path, count: int, log: Path) -> Iterator[tuple[str, Any]]:
    """Each question to a History Server over `count` event logs, with its answer. Its own log goes to the file `log`."""
    port = free_port()
    with history_server(logs, port, log) as server:
        until(lambda: True if listed(port) >= count or server.poll() is not None else None)
        assert server.poll() is None, log.read_text()[-2_000:]
        applications = ask(port, "applications")
        yield "applications", applications
        for row in applications:
            for attempt in row["attempts"]:
                parts = (row["id"], attempt.get("attemptId", ""))
                yield from _of_application(port, "/".join(("applications", *filter(None, parts))))


def _of_application(port: int, application: str) -> Iterator[tuple[str, Any]]:
    for name in LISTS:
        try:
            yield f"{application}/{name}", ask(port, f"{application}/{name}")
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:  # so it answers about settings that no event tells
                raise
    for stage in ask(port, f"{application}/stages"):
        if stage["status"] not in ("SKIPPED", "PENDING"):
            question = f"{application}/stages/{stage['stageId']}/{stage['attemptId']}?details=true"
            yield question, ask(port, question)
