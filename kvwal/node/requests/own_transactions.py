"""Transactions that a member makes for itself, with Hazelcast's errors as those of kvwal."""

from __future__ import annotations

from typing import Any

import jpype

from kvwal import errors
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CommitUnknown, ConfigError, KvwalError, NotRecovered
from kvwal.node.adapters.live_members import NODE
from kvwal.node.jvm import java

_LOCK_MS = 5_000


def run_transaction(instance: Any, name: str, entries: list[Entry], guards: list[Entry]) -> tuple[str, int]:
    """Make all these changes of a map, or none, if each guard has the value that it says: see OwnTransaction.java.

    Returns the outcome and the timestamp. Waits for other members. Raises `CommitUnknown`, and the errors of `translated`.
    """
    run = java("kvwal.transactions.OwnTransaction").run
    try:
        said = str(run(instance, name, encode_entries(entries), encode_entries(guards), _LOCK_MS))
    except jpype.JException as error:
        raise translated(name, error, CommitUnknown) from error
    outcome, _, timestamp = said.partition(" ")
    return outcome, int(timestamp)


def check_versions(instance: Any, name: str, attribute: str, what: str) -> None:
    """Raise `ConfigError` if a member has not this attribute: it is of a version without `what`."""
    for member in instance.getCluster().getMembers():
        if member.getAttribute(attribute) is None:
            raise ConfigError(
                f"{name}: the member {member.getAttribute(NODE)} is of a version without {what}; nothing was written.",
                hint="Update all members first.",
            )


def translated(name: str, error: Any, otherwise: type[KvwalError]) -> KvwalError:
    """The error of kvwal that an error of Hazelcast names; `otherwise` if it names none."""
    text = str(error.getMessage())
    if isinstance(error, java("kvwal.node.NotWritten")):
        kind_name, _, sentence = text.partition(": ")
        kind = getattr(errors, kind_name, None)
        if isinstance(kind, type) and issubclass(kind, KvwalError) and kind.__init__ is KvwalError.__init__:
            return kind(f"{name}: {sentence}")
    if isinstance(error, java("com.hazelcast.spi.exception.RetryableException")):
        return NotRecovered(f"{name}: a member cannot answer now ({text}); nothing was written.")
    return otherwise(f"{name}: {type(error).__name__}: {text}")
