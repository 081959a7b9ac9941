"""The console's answers about recorded logs, beside those that Spark's tests expect, and beside a History Server's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import kvwal
from kvwal.spark import record_event_logs
from tests.support.history_server import published
from tests.support.history_server.server import history_server, listed
from tests.support.lineage.console import console
from tests.support.polling import until
from tests.support.ports import free_port
from tests.support.spark_api.comparison import Answer, Difference, ask, differences, kind_of
from tests.support.spark_api.questions import every_question

_EARLIER: dict[str, dict[str, str]] = {
    "3.5.7": {
        r"Merged|PushRead|pushRead": "the push-based shuffle: Spark 4 reads its metrics under other names than this log has"
    },
    "2.4.8": {
        r"(Properties|classpathEntries)\[": "Spark sorts settings since 3.0",
        r"\.isBlacklisted$": "Spark no longer excludes a driver with its host",
        r"\.totalDuration$": "since Spark 3.0 that of a driver is that of its application",
    },
}
"""Expectations of earlier versions that Spark 4.3's own History Server does not meet either: the fields, and the reason."""


class Compared(NamedTuple):
    """How many questions were asked of each kind, and what differs without a reason."""

    asked: Counter[str]
    different: list[Difference]


@contextmanager
def recorded(root: Path, logs: Path, *, keep: bool = True) -> Iterator[str]:
    """The address of a console over a root that a folder of logs was recorded into."""
    with kvwal.open(root, archive=None, flush="os") as store:
        record_event_logs(store, [logs], keep_logs=keep)
    with console(root, "--archive", "none", log=root.with_suffix(".log")) as running:
        yield running.url


def beside_expectations(folder: Path, version: str, work: Path) -> Compared:
    """The answers that the tests of a version of Spark expect, beside the console's."""
    found, asked = list[Difference](), Counter[str]()
    with recorded(work / f"root-{version}", folder / published.LOGS) as url:
        for question, expected in published.answers(folder):
            asked[kind_of(question)] += 1
            found += differences(question, Answer(200, expected), ask(url, question), whole=False)
    earlier = _EARLIER.get(version, {})
    return Compared(asked, [each for each in found if not any(re.search(field, each.field) for field in earlier)])


def beside_history_server(logs: Path, count: int, work: Path) -> Compared:
    """The answers of the History Server that pyspark contains, over `count` logs in a folder, beside the console's."""
    found, asked = list[Difference](), Counter[str]()
    with both_servers(logs, count, work) as (spark, url):
        theirs = partial(ask, spark)
        for question in every_question(theirs):
            asked[kind_of(question)] += 1
            found += differences(question, theirs(question), ask(url, question))
    return Compared(asked, found)


@contextmanager
def both_servers(logs: Path, count: int, work: Path) -> Iterator[tuple[str, str]]:
    """The addresses of the History Server that pyspark contains, over `count` logs in a folder, and of a console over them."""
    port = free_port()
    with history_server(logs, port, work / "history-server.log") as server, recorded(work / "root", logs) as url:
        until(lambda: True if listed(port) >= count or server.poll() is not None else None)
        yield f"http://127.0.0.1:{port}", url
