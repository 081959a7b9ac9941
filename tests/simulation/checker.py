"""Judges what the callers of one log were told, between one opening and the next, against the log's own order.

The log is the witness: its transactions, by timestamp, are one total order. An order is no excuse, it is only what has to
explain everything: every answer needs a place in it, the places must keep the order of real time (a call that began after
another had ended stands after it), and each transaction must be the whole of exactly one call. If such places exist the
history is linearizable, over all keys at once; if none exist, it is not, in this order, and the log knows no other.

Places are given greedily, each as early as it can be, in the order in which calls ended. Nothing else needs to be tried: a
place only ever bounds later ones from below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tests.simulation.history import ABSENT, Op, Stamped, State, Txn, Version, Violation, fold, may_be, short

_TIMESTAMP_SHIFT = 16
READS = ("get", "count", "scan", "history", "at")
CONDITIONS = ("put_if_absent", "replace", "remove", "pop")


class Log:
    """The transactions before an opening (`before`) and since, with the state in front of and after each of the latter."""

    def __init__(self, before: Sequence[Txn], since: Sequence[Txn], highest: int) -> None:
        self.highest = highest
        self.before = before
        self.since = since
        self.states: list[State] = [fold(before)]
        for txn in since:
            self.states.append(fold([txn], self.states[-1]))
        for one, other in pairwise([*before, *since]):
            if one.timestamp >= other.timestamp:
                raise Violation(f"timestamps do not increase: {one.timestamp} then {other.timestamp}")

    def time_at(self, place: int) -> int:
        """The wall-clock part of the last timestamp in front of `place`: the hybrid clock is never behind it."""
        last = self.since[place - 1] if place else (self.before[-1] if self.before else None)
        return last.timestamp >> _TIMESTAMP_SHIFT if last else 0


def check_calls(
    before: Sequence[Txn], since: Sequence[Txn], ops: Sequence[Op], highest: int, *, moves: bool = False
) -> None:
    """Raises `Violation` unless these calls, made between an opening that found `before` and the next one, which found
    `since` after it, can have happened one after the other in the order of the log.

    `highest` is the greatest time (unix ms) that a clock has shown so far. `moves`: the store itself may log a key again with the
    value that it has, as it does with contents whose bytes it writes into another file.
    """
    log = Log(before, since, highest)
    _Places(log, ops, attribute(log, ops, moves=moves)).check()


def attribute(log: Log, ops: Sequence[Op], *, moves: bool = False) -> dict[int, int]:
    """Which transaction (its index) each call made, by the number of the call. Every one was made by somebody, wholly."""
    made: dict[int, int] = {}
    acknowledged = {op.answer: op for op in ops if op.outcome == "done" and op.kind not in (*READS, *CONDITIONS)}
    by_value = {value: op for op in ops for value in op.writes.values() if value is not ABSENT}
    open_deletes = [op for op in ops if _may_delete(op)]
    for index, txn in enumerate(log.since):
        if moves and txn.timestamp not in acknowledged and moves_only(txn, log.states[index]):
            continue
        op = acknowledged.pop(txn.timestamp, None) or _by_value(txn, by_value) or _deleter(log, index, open_deletes)
        if op is None:
            if not _is_mark(txn):
                raise Violation(f"{_shown(txn)} is in the log, and nobody asked for it")
            continue
        if op.number in made:
            raise Violation(f"{op} is in the log twice: {_shown(log.since[made[op.number]])} and {_shown(txn)}")
        if op in open_deletes:
            open_deletes.remove(op)
        _check_made(op, txn)
        made[op.number] = index
    if acknowledged:
        raise Violation(f"acknowledged, and not in the log: {next(iter(acknowledged.values()))}")
    for op in ops:
        if op.kind in CONDITIONS and op.outcome == "done" and _held(op) and op.number not in made:
            raise Violation(f"its condition held, and it is not in the log: {op}")
    return made


def _by_value(txn: Txn, by_value: dict[Any, Op]) -> Op | None:
    found = (by_value.get(version.value) for version in txn.changes.values() if version.value is not ABSENT)
    return next((op for op in found if op is not None), None)


def _may_delete(op: Op) -> bool:
    """Whether an unstamped delete in the log may be this call's."""
    only_deletes = bool(op.writes) and all(value is ABSENT for value in op.writes.values())
    return only_deletes and (op.outcome == "unknown" or (op.kind in CONDITIONS and op.outcome == "done" and _held(op)))


def _deleter(log: Log, index: int, candidates: Sequence[Op]) -> Op | None:
    """Whose delete this is. What it ended says so, because no value is ever written twice; an answered call comes first."""
    txn, state = log.since[index], log.states[index]
    if any(version.value is not ABSENT for version in txn.changes.values()):
        return None
    fitting = [op for op in candidates if set(op.writes) == set(txn.changes) and _ended_by(op, state)]
    fitting.sort(key=lambda op: (op.outcome == "unknown", op.begun))
    return fitting[0] if fitting else None


def _ended_by(op: Op, state: State) -> bool:
    wanted = op.expected if op.kind == "remove" else op.answer if op.kind == "pop" and op.outcome == "done" else None
    if wanted is None:
        return True
    found = state.get(op.key)
    return found is not None and found.version.value == wanted


def moves_only(txn: Txn, state: State) -> bool:
    """Whether it gives each key the value that it has."""
    return all(
        version.value is not ABSENT and key in state and state[key].version.value == version.value
        for key, version in txn.changes.items()
    )


def _is_mark(txn: Txn) -> bool:
    """Whether it is a time mark: a delete of the key that no call names."""
    return txn.changes == {"": Version(ABSENT)}


def _check_made(op: Op, txn: Txn) -> None:
    if op.outcome == "refused" or (op.kind in CONDITIONS and op.outcome == "done" and not _held(op)):
        raise Violation(f"it was refused, and {_shown(txn)} is in the log: {op}")
    if {key: version.value for key, version in txn.changes.items()} != op.writes:
        raise Violation(f"{_shown(txn)} is not the whole of {op}")
    for key, version in txn.changes.items():
        wanted = (
            range(op.low + op.ttl_ms, op.high + op.ttl_ms + 1) if op.ttl_ms and version.value is not ABSENT else (0,)
        )
        if version.expires not in wanted:
            raise Violation(f"{key} expires at {version.expires}, and not in {wanted}: {op}")


def _held(op: Op) -> bool:
    """Whether an answered conditional call said that its condition held."""
    return op.answer is not ABSENT if op.kind == "pop" else bool(op.answer)


class _Places:
    """Gives every call its place: how many of the transactions since the opening are in front of it."""

    def __init__(self, log: Log, ops: Sequence[Op], made: dict[int, int]) -> None:
        self._log = log
        self._ops = ops
        self._made = made
        self._least: dict[int, int] = {}
        self._reached = 0

    def check(self) -> None:
        for _, is_end, op in sorted(self._events(), key=lambda event: event[:2]):
            if not is_end:
                self._least[op.number] = self._reached
                if op.number in self._made:
                    self._check_order(op)
            elif op.outcome == "done":
                self._reached = max(self._reached, self._place(op))

    def _events(self) -> list[tuple[int, bool, Op]]:
        begins = [(op.begun, False, op) for op in self._ops]
        return begins + [(op.ended, True, op) for op in self._ops if op.ended is not None]

    def _check_order(self, op: Op) -> None:
        index = self._made[op.number]
        if index < self._reached:
            raise Violation(
                f"{_shown(self._log.since[index])} stands in front of what had ended, or was seen, before it began: {op}"
            )

    def _place(self, op: Op) -> int:
        index = self._made.get(op.number)
        if index is not None:
            if op.kind in CONDITIONS and not self._holds(op, index):
                raise Violation(f"its condition did not hold where it stands in the log: {op}")
            return index + 1
        fits = _FITS[op.kind] if op.kind in READS else self._fails
        for place in range(self._least[op.number], len(self._log.since) + 1):
            if fits(self._log, place, op):
                return place
        raise Violation(f"nothing that the log ever held from then on gives this answer: {op}{self._told(op)}")

    def _told(self, op: Op) -> str:
        """What it should have been, for a person."""
        if not op.key:
            return ""
        places = range(self._least[op.number], len(self._log.since) + 1)
        held = [self._log.states[place].get(op.key) for place in places]
        return f"; {op.key} was, one after the other, {short(list(dict.fromkeys(held)))}"

    def _seen(self, op: Op, place: int) -> list[Any]:
        return may_be(self._log.states[place].get(op.key), max(op.low, self._log.time_at(place)), op.high)

    def _holds(self, op: Op, place: int) -> bool:
        seen = self._seen(op, place)
        if op.kind == "put_if_absent":
            return ABSENT in seen
        return (op.answer if op.kind == "pop" else op.expected) in seen

    def _fails(self, log: Log, place: int, op: Op) -> bool:
        seen = self._seen(op, place)
        if op.kind == "put_if_absent":
            return seen != [ABSENT]
        if op.kind == "pop":
            return ABSENT in seen
        return seen != [op.expected]


def _get_fits(log: Log, place: int, op: Op) -> bool:
    return op.answer in may_be(log.states[place].get(op.key), max(op.low, log.time_at(place)), op.high)


def _scan_fits(log: Log, place: int, op: Op) -> bool:
    state, low = log.states[place], max(op.low, log.time_at(place))
    if not set(op.answer) <= set(state):
        return False
    return all(op.answer.get(key, ABSENT) in may_be(found, low, op.high) for key, found in state.items())


def _count_fits(log: Log, place: int, op: Op) -> bool:
    low = max(op.low, log.time_at(place))
    seen = [may_be(found, low, op.high) for found in log.states[place].values()]
    return sum(ABSENT not in values for values in seen) <= op.answer <= sum(values != [ABSENT] for values in seen)


def _at_fits(log: Log, place: int, op: Op) -> bool:
    """As of a moment: what later transactions did is not there, and the moment itself judges what had expired."""
    if op.answer == "gap":
        return op.moment < op.horizon
    state = fold(txn for txn in (*log.before, *log.since[:place]) if txn.timestamp <= op.moment)
    then = op.moment >> _TIMESTAMP_SHIFT
    values = {key: may_be(found, then, then)[0] for key, found in state.items()}
    return {key: value for key, value in values.items() if value is not ABSENT} == op.answer


def _history_fits(log: Log, place: int, op: Op) -> bool:
    """Every change of the key, newest first; below the horizon all but the latest may be gone, and that too if it holds nothing
    (docs/decisions/0024). Then nothing older is there, because it would come up again.
    """
    if op.answer == "gap":  # the bytes of one of its values were gone
        return op.horizon > 0
    told = list(reversed(op.answer))
    changes = [
        _as_told(Stamped(txn.timestamp, txn.changes[op.key]), told, op.horizon)
        for txn in (*log.before, *log.since[:place])
        if op.key in txn.changes
    ]
    older = [change for change in changes if change.timestamp < op.horizon]
    if older and older[-1] not in told and _holds_nothing(older[-1].version, op.horizon):
        changes, older = changes[len(older) :], []
    must = [*older[-1:], *changes[len(older) :]]
    return all(change in told for change in must) and told == [change for change in changes if change in told]


def _as_told(change: Stamped, told: Sequence[Stamped], horizon: int) -> Stamped:
    """The change, or a delete of its timestamp if that is told, as it may be of what had expired by the horizon."""
    delete = Stamped(change.timestamp, Version(ABSENT))
    may_be_told = change.timestamp < horizon and _holds_nothing(change.version, horizon)
    return delete if may_be_told and delete in told else change


def _holds_nothing(version: Version, horizon: int) -> bool:
    """Whether it is a delete, or had expired by the timestamp `horizon`."""
    return version.value is ABSENT or 0 < version.expires <= horizon >> _TIMESTAMP_SHIFT


_FITS: dict[str, Callable[[Log, int, Op], bool]] = {
    "get": _get_fits, "scan": _scan_fits, "count": _count_fits, "at": _at_fits, "history": _history_fits,
}  # fmt: skip


def check_recovery(
    log: Sequence[Txn], found: State, last: int, newer: Sequence[Txn], keep: int, horizon: int = 0
) -> list[Txn]:
    """What an opening brought back, as the log goes on from it; raises `Violation` if that is not a log with its first
    `keep` transactions, any number of those after them, and `newer` ones only if all of them are there.

    `found` is memory after it, `last` the last timestamp, `newer` the transactions after those of `log` that were there.
    `horizon` is that of the archive from which the log was taken over, if it was.
    """
    there = [txn for txn in log if txn.timestamp <= last]
    if len(there) < keep:
        raise Violation(f"{_shown(log[len(there)])} was durable, and the log now ends with {last}")
    if len(there) < len(log) and newer:
        raise Violation(f"{_shown(log[len(there)])} is gone, and what came after it is there: {_shown(newer[0])}")
    # a snapshot leaves out what had expired by its last entry, and a rewrite what had by its horizon
    check_state(fold([*there, *newer]), found, max(last, horizon), "after opening")
    return [*there, *newer]


def check_state(state: State, found: State, horizon: int, when: str) -> None:
    """Raises `Violation` if `found` is not this state without its deletes; what is older than `horizon`, and had expired by then,
    may be missing too (docs/decisions/0024).
    """
    for key in sorted({*state, *found}):
        wanted = state.get(key)
        if found.get(key) != wanted and (wanted is None or key in found or not _may_be_gone(wanted, horizon)):
            raise Violation(f"{when}, {key} is {short(found.get(key))}, and was {short(wanted)}")


def _may_be_gone(stamped: Stamped, horizon: int) -> bool:
    deleted = stamped.version.value is ABSENT
    return deleted or (stamped.timestamp <= horizon and _holds_nothing(stamped.version, horizon))


def _shown(txn: Txn) -> str:
    changes = {key: short(version.value) for key, version in txn.changes.items()}
    return f"transaction {txn.timestamp} {changes}"
