"""What the History Server answers about logs, without what differs between copies of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.history_server.server import answers

OF_FILES = ("lastUpdated", "lastUpdatedEpoch", "logSourceName", "logSourceFullPath")
"""Fields of an answer that tell of the file of the log, and not of the application."""
UNTIL_NOW = ("totalDuration", "duration")
"""Fields of what has not ended in the log: it lasts until the server is asked."""


def asked(logs: Path, count: int, log: Path) -> dict[str, Any]:
    """Each question about the applications of `count` logs in a folder, with its answer as it can be compared."""
    return {question: comparable(answer) for question, answer in answers(logs, count, log)}


def comparable(answer: Any) -> Any:
    """An answer without what tells of the file of the log, or of the present."""
    if isinstance(answer, dict):
        runs = answer.get("isActive") or answer.get("status") in ("RUNNING", "ACTIVE")
        left_out = (*OF_FILES, *UNTIL_NOW) if runs else OF_FILES
        return {name: comparable(value) for name, value in answer.items() if name not in left_out}
    return [comparable(value) for value in answer] if isinstance(answer, list) else answer
