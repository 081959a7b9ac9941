"""The records of event logs, and the values in which answers of the History Server differ from them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kvwal
from kvwal.spark import record_event_logs
from tests.support.history_server import server
from tests.support.history_server.answers import Value, compare, told_by_app
from tests.support.rest_fields import Told


def recorded(root: Path, logs: Path) -> dict[str, Told]:
    """The records of the event logs in a folder, none of which is refused or damaged, by application."""
    with kvwal.open(root, archive=None, flush="os") as store:
        read = record_event_logs(store, [logs])
        assert [log for log in read if log.problem or log.damaged] == []
        return told_by_app(store)


def differences(told: dict[str, Told], answers: Iterable[tuple[str, Any]], *, whole: bool) -> list[Value]:
    """The values that differ. Prints how many are compared."""
    values = [value for question, answer in answers for value in compare(told, question, answer, whole=whole)]
    print(f"{len(values)} values compared")
    assert values
    return [value for value in values if value.theirs != value.ours]


def differences_from_server(logs: Path, scratch: Path) -> list[Value]:
    """The values in which the records of the event logs in a folder differ from what a History Server over it answers."""
    told = recorded(scratch / "root", logs)
    return differences(told, server.answers(logs, len(told), scratch / "server.log"), whole=True)
