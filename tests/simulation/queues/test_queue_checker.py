"""The checker of queues objects to histories that break a promise, and to none that keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.history import ABSENT, Op, Txn, Version, Violation
from tests.simulation.queues.checker import UNREAD, check_queue_calls

LATER = 1 << 62


def txn(timestamp: int, **changes: Any) -> Txn:
    """A transaction that changes the items `todo_1` or `done_7`, by queue and number, or the key `map` of the map."""

    def name(short: str) -> str:
        queue, _, number = short.partition("_")
        return f"queue/{queue}#{number}" if number else "map/state#last"

    return Txn(timestamp, {name(short): Version(value) for short, value in changes.items()})


def op(number: int, kind: str, begun: int, ended: int | None, key: str = "todo", **given: Any) -> Op:
    outcome = given.pop("outcome", "done" if ended is not None else "unknown")
    return Op(number, kind, begun, 0, 0, key=key, ended=ended, outcome=outcome, **given)


PUT = op(1, "put", 1, 2, writes={"a": "todo", "b": "todo"}, answer=10)
PUTS = txn(10, todo_1="a", todo_2="b")
TAKE = op(2, "take", 3, 4, most=1, answer=["a"])
TAKEN = txn(20, todo_1=ABSENT)
WORK = op(3, "work", 3, 8, most=1, held=["a"], moment=4, writes={"c": "done", "m": ""}, answer=["a"])
WORKED = txn(30, todo_1=ABSENT, done_7="c", map="m")
FAILED = op(4, "fail", 3, 8, most=1, held=["a"], moment=4, outcome="refused")
BACK = txn(25, todo_1="a")
STOPPED = op(2, "take", 3, 9, most=1, outcome="unknown", answer="cancelled")

UNREADABLE = op(2, "take", 3, 9, most=1, outcome="unknown", answer=UNREAD)

GOOD: dict[str, tuple[list[Txn], list[Op]]] = {
    "put, taken, browsed": (
        [PUTS, TAKEN],
        [PUT, TAKE, op(5, "browse", 5, 6, answer=["b"]), op(6, "count", 7, 8, answer=1)],
    ),
    "a block over two queues and the map": ([PUTS, WORKED], [PUT, WORK]),
    "what a block holds is passed over": (
        [PUTS, txn(25, todo_2=ABSENT)],
        [PUT, FAILED, op(5, "take", 5, 6, most=1, answer=["b"]), op(6, "browse", 9, 10, answer=["a"])],
    ),
    "an empty queue": ([], [op(5, "take", 1, 2, most=3, answer=[])]),
    "what is being put may be missed": ([PUTS], [PUT, op(5, "take", 1, 2, most=3, answer=[])]),
    "a take of unknown outcome, there": ([PUTS, TAKEN], [PUT, op(2, "take", 3, None, most=1)]),
    "a take of unknown outcome, not there": ([PUTS], [PUT, op(2, "take", 3, None, most=1)]),
    "a cancelled take, and a later one that could not put back": (
        [PUTS, TAKEN],
        [PUT, STOPPED, op(3, "take", 10, 11, most=1, outcome="unknown", answer="StorageFull")],
    ),
    "a take that cannot read its item puts it back": (
        [PUTS, TAKEN, BACK],
        [PUT, UNREADABLE, op(5, "browse", 10, 11, answer=["a", "b"])],
    ),
    "a cancelled take puts back": ([PUTS, TAKEN, BACK], [PUT, STOPPED, op(5, "browse", 10, 11, answer=["a", "b"])]),
}
BAD: dict[str, tuple[list[Txn], list[Op], str]] = {
    "a lost put": ([], [PUT], "acknowledged, and not in the log"),
    "a lost take": ([PUTS], [PUT, TAKE], "acknowledged, and not in the log"),
    "half a put": ([txn(10, todo_1="a")], [PUT], "is not the whole of"),
    "a put out of order": ([txn(10, todo_2="a", todo_1="b")], [PUT], "out of its place"),
    "half a block": ([PUTS, txn(30, todo_1=ABSENT, map="m")], [PUT, WORK], "is not the whole of"),
    "a block that takes another item": ([PUTS, txn(30, todo_2=ABSENT, done_7="c", map="m")], [PUT, WORK], "takes"),
    "a block that raised and is there": ([PUTS, TAKEN], [PUT, FAILED], "nobody asked for it"),
    "an item taken twice": (
        [PUTS, TAKEN, txn(25, todo_1=ABSENT)],
        [PUT, TAKE, op(5, "take", 5, 6, most=1, answer=["a"])],
        "was not there any more",
    ),
    "a later item first": (
        [PUTS, txn(20, todo_2=ABSENT)],
        [PUT, op(2, "take", 3, 4, most=1, answer=["b"])],
        "was passed over",
    ),
    "fewer than there are": ([PUTS, TAKEN], [PUT, op(2, "take", 3, 4, most=2, answer=["a"])], "was passed over"),
    "told to be empty": ([PUTS], [PUT, op(2, "take", 3, 4, most=2, answer=[])], "was passed over"),
    "a browse that misses one": ([PUTS], [PUT, op(5, "browse", 3, 4, answer=["a"])], "was passed over"),
    "a browse in another order": ([PUTS], [PUT, op(5, "browse", 3, 4, answer=["b", "a"])], "not in the order"),
    "a browse of what is gone": ([PUTS, TAKEN], [PUT, TAKE, op(5, "browse", 5, 6, answer=["a", "b"])], "not in the queue"),
    "a wrong count": ([PUTS], [PUT, op(5, "count", 3, 4, answer=3)], "there were 2 to 2 items"),
    "given while a block held it": (
        [PUTS, TAKEN],
        [PUT, FAILED, op(2, "take", 5, 6, most=1, answer=["a"])],
        "was given to two",
    ),
    "a take keeps an item that it could not read": ([PUTS, TAKEN], [PUT, UNREADABLE], "is not back"),
    "a cancelled take keeps its item": ([PUTS, TAKEN], [PUT, STOPPED], "is not back"),
    "before what had ended": (
        [TAKEN, PUTS],
        [PUT, TAKE],
        "timestamps do not increase",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_it_accepts(name: str) -> None:
    log, ops = GOOD[name]
    check_queue_calls([], log, ops, LATER)


def test_a_large_value_of_the_map_may_be_logged_again() -> None:
    again = [PUTS, WORKED, txn(40, map="m")]
    check_queue_calls([], again, [PUT, WORK], LATER, moves=True)
    with pytest.raises(Violation, match="in the log twice"):
        check_queue_calls([], again, [PUT, WORK], LATER)


@pytest.mark.parametrize("name", BAD)
def test_it_objects(name: str) -> None:
    log, ops, says = BAD[name]
    with pytest.raises(Violation, match=says):
        check_queue_calls([], log, ops, LATER)
