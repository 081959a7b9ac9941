"""The checker objects to histories that break a promise, and to none that keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.checker import check_calls, check_recovery, check_state
from tests.simulation.history import ABSENT, Op, Stamped, Txn, Version, Violation

LATER = 1 << 62


def txn(timestamp: int, **changes: Any) -> Txn:
    return Txn(timestamp, {key: Version(value) for key, value in changes.items()})


def op(number: int, kind: str, begun: int, ended: int | None, **given: Any) -> Op:
    outcome = given.pop("outcome", "done" if ended is not None else "unknown")
    return Op(number, kind, begun, 0, 0, ended=ended, outcome=outcome, **given)


PUT = op(1, "put", 1, 2, key="a", writes={"a": "v1"}, answer=10)
OVER = op(2, "put", 3, 4, key="a", writes={"a": "v2"}, answer=20)
BOTH = [txn(10, a="v1"), txn(20, a="v2")]

GONE = op(3, "delete", 5, 6, key="a", writes={"a": ABSENT}, answer=30)
DELETED = [*BOTH, txn(30, a=ABSENT)]


def told(horizon: int, *answer: Stamped) -> Op:
    return op(9, "history", 90, 91, key="a", horizon=horizon, answer=list(answer))


GAP = op(9, "history", 90, 91, key="a", horizon=11, answer="gap")
MOVED = [*BOTH, txn(30, a="v2")]
EXPIRING = [Txn(20, {"a": Version("v2", 7)})]
PUT_EXPIRING = op(2, "put", 3, 4, key="a", writes={"a": "v2"}, ttl_ms=7, answer=20)

GOOD: dict[str, tuple[list[Txn], list[Op]]] = {
    "one after the other": (BOTH, [PUT, OVER, op(3, "get", 5, 6, key="a", answer="v2")]),
    "a read beside a write sees either": (BOTH, [PUT, OVER, op(3, "get", 3, 6, key="a", answer="v1")]),
    "unknown, and there": (BOTH, [PUT, op(2, "put", 3, None, key="a", writes={"a": "v2"})]),
    "unknown, and not there": (BOTH[:1], [PUT, op(2, "put", 3, None, key="a", writes={"a": "v2"})]),
    "a delete older than the history that is kept": (DELETED, [PUT, OVER, GONE, told(31)]),
    "what had expired before the history that is kept": (EXPIRING, [PUT_EXPIRING, told(7 << 16)]),
    "history of which bytes are gone, and some of it was before the history that is kept": (BOTH, [PUT, OVER, GAP]),
    "what had expired by then, told as a delete": (
        EXPIRING,
        [PUT_EXPIRING, told(7 << 16, Stamped(20, Version(ABSENT)))],
    ),
}
BAD: dict[str, tuple[list[Txn], list[Op], str]] = {
    "a lost write": (BOTH[:1], [PUT, OVER], "acknowledged, and not in the log"),
    "a stale read": (BOTH, [PUT, OVER, op(3, "get", 5, 6, key="a", answer="v1")], "nothing that the log ever held"),
    "a read of the future": (
        BOTH,
        [PUT, op(3, "get", 3, 4, key="a", answer="v2"), op(2, "put", 5, 6, key="a", writes={"a": "v2"}, answer=20)],
        "stands in front of",
    ),
    "half a transaction": (
        [txn(10, a="v1")],
        [op(1, "put_many", 1, 2, writes={"a": "v1", "b": "v1b"}, answer=10)],
        "not the whole of",
    ),
    "refused, and there": (
        BOTH[:1],
        [op(1, "put", 1, 2, key="a", writes={"a": "v1"}, outcome="refused")],
        "it was refused",
    ),
    "a write without a writer": (BOTH[:1], [], "nobody asked for it"),
    "a condition that did not hold": (
        BOTH,
        [PUT, op(2, "put_if_absent", 3, 4, key="a", writes={"a": "v2"}, answer=True)],
        "its condition did not hold",
    ),
    "a failed condition that should have held": (
        BOTH[:1],
        [PUT, op(2, "replace", 3, 4, key="a", expected="v1", writes={"a": "v2"}, answer=False)],
        "nothing that the log ever held",
    ),
    "history without a change": (
        BOTH,
        [PUT, OVER, op(3, "history", 5, 6, key="a", answer=[Stamped(20, Version("v2"))])],
        "nothing that the log ever held",
    ),
    "history without a delete that is kept": (DELETED, [PUT, OVER, GONE, told(30)], "nothing that the log ever held"),
    "history without a delete, and with what it deleted": (
        DELETED,
        [PUT, OVER, GONE, told(31, Stamped(20, Version("v2")))],
        "nothing that the log ever held",
    ),
    "history without an old change that still counts": (BOTH, [PUT, OVER, told(31)], "nothing that the log ever held"),
    "history of which bytes are gone, and all of it is kept": (
        BOTH,
        [PUT, OVER, replace(GAP, horizon=0)],
        "nothing that the log ever held",
    ),
    "a value that is logged again": (MOVED, [PUT, OVER], "is in the log twice"),
    "history without what had not expired": (
        EXPIRING,
        [PUT_EXPIRING, told((7 << 16) - 1)],
        "nothing that the log ever held",
    ),
    "a delete in place of what had not expired": (
        EXPIRING,
        [PUT_EXPIRING, told((7 << 16) - 1, Stamped(20, Version(ABSENT)))],
        "nothing that the log ever held",
    ),
    "a scan of two moments": (
        [txn(10, a="v1"), txn(20, a="v2", b="w2")],
        [
            PUT,
            op(2, "put_many", 3, 4, writes={"a": "v2", "b": "w2"}, answer=20),
            op(3, "scan", 3, 5, answer={"a": "v1", "b": "w2"}),
        ],
        "nothing that the log ever held",
    ),
    "timestamps that stand": ([txn(10, a="v1"), txn(10, b="v2")], [], "timestamps do not increase"),
}


@pytest.mark.parametrize("name", GOOD)
def test_it_accepts(name: str) -> None:
    since, ops = GOOD[name]
    check_calls([], since, ops, LATER)


@pytest.mark.parametrize("name", BAD)
def test_it_objects_to(name: str) -> None:
    since, ops, says = BAD[name]
    with pytest.raises(Violation, match=says):
        check_calls([], since, ops, LATER)


def test_a_store_with_large_values_may_log_again_what_a_key_has() -> None:
    check_calls([], MOVED, [PUT, OVER, op(3, "get", 5, 6, key="a", answer="v2")], LATER, moves=True)
    with pytest.raises(Violation, match="is in the log twice"):
        check_calls([], [*BOTH, txn(30, a="v1")], [PUT, OVER], LATER, moves=True)


def test_what_a_recovery_may_bring_back() -> None:
    there = {"a": Stamped(20, Version("v2"))}
    assert check_recovery(BOTH, there, 20, [], 2) == BOTH
    assert check_recovery(BOTH, {"a": Stamped(10, Version("v1"))}, 10, [], 1) == BOTH[:1]
    with pytest.raises(Violation, match="was durable"):
        check_recovery(BOTH, {"a": Stamped(10, Version("v1"))}, 10, [], 2)
    with pytest.raises(Violation, match="after opening"):
        check_recovery(BOTH, {"a": Stamped(10, Version("v1"))}, 20, [], 2)
    with pytest.raises(Violation, match="after opening"):
        check_recovery(DELETED, there, 30, [], 3)


def test_what_a_restore_may_leave_out() -> None:
    there = {"a": Stamped(20, Version("v2", 7))}
    check_state(there, there, 7 << 16, "here")
    check_state(there, {}, 7 << 16, "here")
    check_state({"a": Stamped(20, Version(ABSENT))}, {}, 0, "here")
    late = {"a": Stamped((7 << 16) + 1, Version("v2", 7))}
    older = {"a": Stamped(10, Version("v1"))}
    for state, found, horizon in [
        (there, {}, (7 << 16) - 1), (late, {}, 7 << 16), (older, {}, LATER), (there, older, LATER), ({}, older, LATER),
        ({"a": Stamped(20, Version(ABSENT))}, older, LATER),
    ]:  # fmt: skip
        with pytest.raises(Violation, match="here, a is"):
            check_state(state, found, horizon, "here")
