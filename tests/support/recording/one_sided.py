"""Comparison of the records of one application that were made in two ways, and the differences that must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ONE_SIDED = {
    "app": {"status_from"},  # only the recorder sees how Python ended
    "job": {"error"},  # Spark adds frames of the driver before or after it writes the event; the messages are compared
}
"""Fields of each kind that a recorder and an event log tell in different ways."""
KILLED = {"app": {"status", "exit_code", "ended", "duration_ms", "core_ms"}}
"""More such fields of a driver that was killed: the recorder's spool says so, and an event log only has no end."""


def differences(live: Mapping[str, Any], log: Mapping[str, Any], *, was_killed: bool = False) -> list[str]:
    """The differences between the records of a recorder and those of an event log, a line each, without those that must be."""
    found = [
        f"{key} is in {'the recorder' if key in live else 'the log'} only" for key in sorted(live.keys() ^ log.keys())
    ]
    for key in sorted(live.keys() & log.keys()):
        ours, theirs = live[key], log[key]
        kind = theirs["kind"]
        left_out = ONE_SIDED.get(kind, set()) | (KILLED.get(kind, set()) if was_killed else set())
        if was_killed and (ours.get("status"), theirs.get("status")) == ("KILLED", "RUNNING"):
            left_out = left_out | {"status"}
        found += [
            f"{key} {field}: {ours.get(field)!r} by the recorder, {theirs.get(field)!r} in the log"
            for field in sorted(ours.keys() | theirs.keys())
            if field not in left_out and ours.get(field) != theirs.get(field)
        ]
        if kind == "job" and theirs["error"] and ours["error"]["message"] != theirs["error"]["message"]:
            found.append(f"{key}: another error")
    return found
