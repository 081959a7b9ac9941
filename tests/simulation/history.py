"""The words of the checker: what was asked and answered, and the transactions of a log in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class Violation(AssertionError):
    """A promise was broken."""


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
"""The value of a key that is not there."""


class Version(NamedTuple):
    """A key after a transaction: its value (ABSENT after a delete) and when it expires (unix ms, 0 for never)."""

    value: Any
    expires: int = 0


class Txn(NamedTuple):
    """What one timestamp of a log did."""

    timestamp: int
    changes: dict[str, Version]


class Stamped(NamedTuple):
    """A version and the timestamp of the transaction that made it."""

    timestamp: int
    version: Version


State = dict[str, Stamped]
"""The latest version of every key, deleted ones too."""


@dataclass
class Op:
    """A call: `begun` and `ended` are places in the order of all events, `low` and `high` the least and the greatest time
    (unix ms) that a clock may have shown meanwhile.

    `outcome`: `done` (it was answered), `refused` (an error that says that nothing was written) or `unknown` (an error that
    does not, a cancelled task, a crash). `writes` are the values it would leave, ABSENT for a delete; `ttl_ms` when they
    expire. Of a call of queues, `held` are the items that its block took, as far as it knows, `most` how many it asked for.
    `horizon` is the timestamp below which history may have been compacted when it ended.
    """

    number: int
    kind: str
    begun: int
    low: int
    high: int
    key: str = ""
    expected: Any = None
    moment: int = 0
    writes: dict[str, Any] = field(default_factory=dict)
    ttl_ms: int = 0
    sync: bool = False
    priority: int = 0
    most: int = 0
    held: list[Any] | None = None
    ended: int | None = None
    outcome: str = "unknown"
    answer: Any = None
    horizon: int = 0

    def __str__(self) -> str:
        asked = {"key": self.key, "expected": self.expected, "moment": self.moment, **self.writes}
        shown = ", ".join(f"{name}={short(value)}" for name, value in asked.items() if value not in ("", None, 0))
        return f"#{self.number} {self.kind}({shown}) begun {self.begun} -> {self.outcome} {short(self.answer)} at {self.ended}"


def short(value: Any) -> str:
    """A value as a trace shows it."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


def fold(txns: Iterable[Txn], before: State | None = None) -> State:
    """The state after these transactions."""
    state = dict(before or {})
    for txn in txns:
        for key, version in txn.changes.items():
            state[key] = Stamped(txn.timestamp, version)
    return state


def may_be(found: Stamped | None, low: int, high: int) -> list[Any]:
    """What a reader may be told of this version, whose clock shows something between `low` and `high`."""
    if found is None or found.version.value is ABSENT:
        return [ABSENT]
    expires = found.version.expires
    if expires and expires <= low:
        return [ABSENT]
    return [found.version.value, ABSENT] if expires and expires <= high else [found.version.value]
