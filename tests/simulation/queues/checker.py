"""Judges what takers and producers of one business's queues were told, between one opening and the next, by the log's own order.

Each transaction of the log must be the whole of exactly one call, and stand where real time wants it. No item is taken twice, and
a take gets the first items: an item in front of them that stayed may only be one that another call held, or put, meanwhile.
An item is a key `queue/<name>#<number>` (see `tests.simulation.ledger.name_of`); its number orders the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kvwal.key_codecs import encode_int
from kvwal.structures.queue.positions import priority_of
from tests.simulation.checker import Log, moves_only
from tests.simulation.history import ABSENT, Op, Txn, Version, Violation

TAKES = ("take", "work")
READS = ("browse", "count")
FAILS = "fail"
"""A block that raises: it holds items, and writes nothing."""
CANCELLED = "cancelled"
"""The answer of a call whose task was cancelled. A take has taken nothing then."""
UNREAD = "unread"
"""The answer of a call that was refused because an item could not be read. A take has taken nothing then, either."""
NOT_YET = 1 << 62
ITEMS = "queue/"


def number_of(item: str) -> int:
    """The number of an item: its priority, then its position."""
    return int(item.partition("#")[2])


def queue_of(item: str) -> str:
    """The name of the queue of an item."""
    return item.partition("#")[0].removeprefix(ITEMS)


def check_queue_calls(
    before: Sequence[Txn], since: Sequence[Txn], ops: Sequence[Op], highest: int, *, moves: bool = False
) -> None:
    """Raises `Violation` unless these calls can have happened: see `tests.simulation.checker.check_calls`."""
    log = Log(before, since, highest)
    calls = _Calls(log, ops)
    calls.attribute(moves=moves)
    calls.check()


class _Calls:
    """The calls, and the transaction (its index) that each made."""

    def __init__(self, log: Log, ops: Sequence[Op]) -> None:
        self._log = log
        self._ops = ops
        self._made: dict[int, int] = {}
        self._owner: dict[int, Op] = {}
        self._undone: dict[str, Op] = {}
        """Items that a cancelled take deleted, and may put back."""

    def attribute(self, *, moves: bool) -> None:
        """Find the call that made each transaction. `moves` is that of `check_calls`."""
        by_value = {value: op for op in self._ops for value in op.writes}
        for index, txn in enumerate(self._log.since):
            if txn.changes == {"": Version(ABSENT)} or (moves and moves_only(txn, self._log.states[index])):
                continue
            deleted = {item: self._deleted(index, item) for item, v in txn.changes.items() if v.value is ABSENT}
            if self._puts_back(index, txn):
                continue
            written = [by_value[v.value] for v in txn.changes.values() if v.value in by_value]
            op = written[0] if written else self._taker(index, deleted)
            if op is None:
                raise Violation(f"{txn} is in the log, and nobody asked for it")
            if op.number in self._made:
                raise Violation(f"{op} is in the log twice, at last as {txn}")
            _check_whole(op, txn, deleted)
            self._made[op.number], self._owner[index] = index, op
            if op.outcome != "done" and op.kind == "take":
                self._undone |= dict.fromkeys(deleted, op)
        for op in self._ops:
            wrote = op.kind == "put" or (op.kind in TAKES and op.answer)
            if op.outcome == "done" and wrote and op.number not in self._made:
                raise Violation(f"acknowledged, and not in the log: {op}")
        for item, op in self._undone.items():
            if op.answer in (CANCELLED, UNREAD):
                raise Violation(f"it was cancelled, and {item} is not back: {op}")

    def _deleted(self, index: int, item: str) -> Any:
        found = self._log.states[index].get(item)
        if found is None or found.version.value is ABSENT:
            raise Violation(f"{item} is taken by {self._log.since[index]}, and was not there any more")
        return found.version.value

    def _puts_back(self, index: int, txn: Txn) -> bool:
        """Whether it is what a cancelled take took, put back at its places."""
        back = {item: self._undone.get(item) for item in txn.changes}
        if not all(
            op is not None and txn.changes[item].value in self._taken_values(op, item) for item, op in back.items()
        ):
            return False
        for item in back:
            self._owner[index] = self._undone.pop(item)
        return True

    def _taken_values(self, op: Op, item: str) -> list[Any]:
        return [self._log.states[self._made[op.number]][item].version.value]

    def _taker(self, index: int, deleted: dict[str, Any]) -> Op | None:
        """Whose take this is. What was answered says so; only a take that has taken nothing puts its items back, and it does."""
        values = [value for _, value in sorted(deleted.items(), key=lambda pair: number_of(pair[0]))]
        left = [op for op in self._ops if op.kind == "take" and op.number not in self._made]
        done = [op for op in left if op.outcome == "done" and op.answer == values]
        names = {queue_of(item) for item in deleted}
        fitting = [op for op in left if op.outcome == "unknown" and {op.key} == names and len(values) <= op.most]
        if any(deleted.keys() & txn.changes.keys() and _puts(txn) for txn in self._log.since[index + 1 :]):
            return next((op for op in fitting if op.answer in (CANCELLED, UNREAD)), next(iter(fitting), None))
        fitting.sort(key=lambda op: op.answer in (CANCELLED, UNREAD))
        return next(iter([*done, *fitting]), None) if deleted else None

    def check(self) -> None:
        """Real time, and what each answer says of what was there."""
        reached = 0
        begun: dict[int, int] = {}
        events = [(op.begun, False, op) for op in self._ops]
        events += [(op.ended, True, op) for op in self._ops if op.ended is not None]
        for _, is_end, op in sorted(events, key=lambda event: event[:2]):
            index = self._made.get(op.number)
            if not is_end:
                begun[op.number] = reached
                if index is not None and index < reached:
                    raise Violation(f"it stands in front of what had ended before it began: {op}")
            elif index is not None and op.outcome == "done":
                reached = max(reached, index + 1)
        for op in self._ops:
            if op.outcome == "done" and (op.kind in TAKES or op.kind in READS):
                self._check_answer(op, begun[op.number])
        self._check_held_once()

    def _check_held_once(self) -> None:
        """No item was given to a taker while a block held it."""
        holders = [op for op in self._ops if op.held and op.ended is not None]
        got = [(op, op.moment, op.held) for op in holders]
        got += [(op, op.ended or 0, op.answer) for op in self._ops if op.kind == "take" and op.outcome == "done"]
        for holder in holders:
            for other, when, values in got:
                both = set(holder.held or ()) & set(values or ())
                if other is not holder and both and holder.moment < other.begun and when < (holder.ended or 0):
                    raise Violation(f"{min(both)} was given to two: {holder} and {other}")

    def _check_answer(self, op: Op, first: int) -> None:
        """Whether the items that were told are those that were there, or the first of them."""
        if op.kind == "count":
            most = len({item for place in self._places(op, first) for item in self._there(place, op.key)})
            if not len(self._must(op, first)) <= op.answer <= most:
                raise Violation(f"there were {len(self._must(op, first))} to {most} items: {op}")
            return
        told = self._items_of(op, first)
        if any(number_of(one) >= number_of(other) for one, other in pairwise(told)):
            raise Violation(f"the items are not in the order of the queue: {op}")
        must = self._must(op, first)
        last = NOT_YET if op.kind == "browse" or len(told) < op.most else number_of(told[-1])
        passed = [item for item in must if item not in told and number_of(item) < last]
        if passed:
            raise Violation(f"{passed[0]} was there all the time, held by nobody, and was passed over: {op}")

    def _items_of(self, op: Op, first: int) -> list[str]:
        """The items with these values, of states that the call may have seen."""
        told = op.answer if op.kind in (*READS, "take") else op.held
        seen = {
            self._log.states[p][item].version.value: item
            for p in self._places(op, first)
            for item in self._there(p, op.key)
        }
        unknown = [value for value in told if value not in seen]
        if unknown:
            raise Violation(f"{unknown[0]} was not in the queue: {op}")
        return [seen[value] for value in told]

    def _there(self, place: int, queue: str) -> list[str]:
        state = self._log.states[place]
        return [
            item for item, found in state.items()
            if item.startswith(ITEMS) and queue_of(item) == queue and found.version.value is not ABSENT
        ]  # fmt: skip

    def _places(self, op: Op, first: int) -> range:
        """The places in the log that the call may have stood at, or seen."""
        index = self._made.get(op.number)
        if index is not None:
            return range(first, index + 1)
        ended = NOT_YET if op.ended is None else op.ended
        last = max((i for i, other in self._owner.items() if other.begun < ended), default=-1)
        return range(first, max(first, last + 1) + 1)

    def _must(self, op: Op, first: int) -> list[str]:
        """The items that were there from before the call began until it ended, untouched, and that nobody can have held."""
        places = self._places(op, first)
        touched = {item for index in range(places[0], places[-1]) for item in self._log.since[index].changes}
        beside = [other for other in self._ops if other is not op and _overlap(op, other)]
        return [
            item for item in self._there(places[0], op.key)
            if item not in touched and not any(self._may_hold(other, item, places[0]) for other in beside)
        ]  # fmt: skip

    def _may_hold(self, other: Op, item: str, place: int) -> bool:
        if other.kind not in (*TAKES, FAILS) or other.key != queue_of(item):
            return False
        known = other.answer if other.kind == "take" and other.outcome == "done" else other.held
        return known is None or self._log.states[place][item].version.value in known


def _puts(txn: Txn) -> bool:
    """Whether all changes of a transaction are puts."""
    return all(version.value is not ABSENT for version in txn.changes.values())


def _overlap(one: Op, other: Op) -> bool:
    return other.begun < (NOT_YET if one.ended is None else one.ended) and one.begun < (
        NOT_YET if other.ended is None else other.ended
    )


def _check_whole(op: Op, txn: Txn, deleted: dict[str, Any]) -> None:
    """Whether a transaction is all of what the call would leave, and nothing else."""
    if op.outcome == "refused" or op.kind == FAILS:
        raise Violation(f"it was refused, and {txn} is in the log: {op}")
    written = {name: version.value for name, version in txn.changes.items() if version.value is not ABSENT}
    if sorted(written.values()) != sorted(op.writes):
        raise Violation(f"{txn} is not the whole of {op}")
    numbers: dict[tuple[str, int], int] = {}
    place_of = {value: name for name, value in written.items()}
    for value, target in op.writes.items():
        name = place_of[value]
        if not name.startswith(ITEMS):
            continue
        number = number_of(name)
        priority = priority_of(encode_int(number))
        if (queue_of(name), priority) != (target, op.priority) or number <= numbers.get((target, priority), -NOT_YET):
            raise Violation(f"{value} is at {name}, out of its place: {op}")
        numbers[target, priority] = number
    taken = [value for item, value in sorted(deleted.items(), key=lambda pair: number_of(pair[0]))]
    if taken != _wanted(op, taken) or any(queue_of(item) != op.key for item in deleted) or len(taken) > op.most:
        raise Violation(f"{txn} takes {taken}: {op}")


def _wanted(op: Op, taken: list[Any]) -> list[Any]:
    """What the call takes, as far as it is known; `taken` if it is not."""
    if op.kind == "put":
        return []
    known = op.held if op.kind == "work" else op.answer if op.outcome == "done" else taken
    return known or []
