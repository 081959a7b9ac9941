"""Answers of Spark's History Server beside those of the console, field by field.

`REASONS` has the differences that there may be, each with its reason. docs/history-server.md lists them.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

REASONS: dict[str, str] = {
    "lastUpdated": "Spark says when the file of the log was written last; kvwal, the time of its latest event",
    "lastUpdatedEpoch": "as `lastUpdated`",
    "logSourceName": "of a folder of logs; left out",
    "logSourceFullPath": "of a folder of logs; left out",
    "totalDuration": "of the driver of an application that runs: until now in Spark, until its latest event in kvwal",
    "text of a 404": "where Spark answers with a page of its web server, or with a sentence about something else",
}
"""By the name of the field, the reason why it differs."""
_OF_FILES = ("lastUpdated", "lastUpdatedEpoch", "logSourceName", "logSourceFullPath")
_UNORDERED = ("accumulatorUpdates", "partitions", "dataDistribution")
"""Lists whose order is that of a hash table in Spark."""


class Answer(NamedTuple):
    """The status of an answer, and its JSON; its text if it has none."""

    status: int
    body: Any


class Difference(NamedTuple):
    """A value that differs: the question, the field, the value of Spark, and that of the console."""

    question: str
    field: str
    theirs: Any
    ours: Any


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def ask(url: str, question: str) -> Answer:
    """The answer of a server at `url` to a question below /api/v1."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{question}", timeout=120) as response:
            data, kind, status = response.read(), response.headers.get("content-type", ""), response.status
    except urllib.error.HTTPError as error:
        data, kind, status = error.read(), error.headers.get("content-type", ""), error.code
    if status == 200 and "json" in kind:
        return Answer(status, json.loads(data))
    return Answer(status, None if "html" in kind else data.decode(errors="replace"))


def differences(question: str, theirs: Answer, ours: Answer, *, whole: bool = True) -> Iterator[Difference]:
    """Each value that differs, and that no reason is given for.

    `whole`: Spark's answer has all fields. That of an earlier Spark may lack some.
    """
    if theirs.status != ours.status:
        yield Difference(question, "status", theirs.status, ours.status)
    elif theirs.status == 200:
        yield from _values(question, "", theirs.body, ours.body, whole)


def _values(question: str, field: str, theirs: Any, ours: Any, whole: bool) -> Iterator[Difference]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        runs = theirs.get("isActive") and theirs.get("id") == "driver"
        for name in sorted(theirs.keys() | ours.keys()):
            if name in _OF_FILES or (name not in theirs and not whole):
                continue
            if name == "totalDuration" and runs and theirs[name] > 10 * (ours[name] + 1):
                continue  # the application has no end in the log
            told = theirs.get(name, ABSENT), ours.get(name, ABSENT)
            yield from _values(question, f"{field}.{name}", *told, whole)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if field.rpartition(".")[2] in _UNORDERED:
            theirs, ours = (
                sorted(told, key=lambda value: json.dumps(value, sort_keys=True)) for told in (theirs, ours)
            )
        if len(theirs) != len(ours):
            yield Difference(question, f"{field} length", len(theirs), len(ours))
            return
        for number, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from _values(question, f"{field}[{number}]", *pair, whole)
    elif theirs != ours or isinstance(theirs, bool) != isinstance(ours, bool):
        yield Difference(question, field, theirs, ours)


def kind_of(question: str) -> str:
    """What a question asks for, without its application and its numbers: `stages/<n>/<n>/taskList`."""
    path = re.sub(r"^applications/[^/?]+(/[0-9]+(?=[/?]|$))?/?", "", question.partition("?")[0])
    named = "applications" if not path or path == "applications" else path
    return re.sub(r"[0-9]+", "<n>", named)
