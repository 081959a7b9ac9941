"""The history checker finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.consistency import (
    DONE,
    REFUSED,
    UNKNOWN,
    Clients,
    Once,
    Pair,
    Register,
    Tally,
    _at_the_end,
)


def register(*changes: tuple[str, str]) -> Register:
    made = Register("k")
    for kind, outcome in changes:
        made.end(made.begin(deletes=kind == "delete"), outcome)
    return made


def judged(made: Register, reads: list[int | None], final: int | None) -> list[str]:
    for found in reads:
        made.read({"k": found}.get)
    return made.judge({} if final is None else {"k": final})


@pytest.mark.parametrize(
    ("changes", "reads", "final"),
    [
        ([("put", DONE)], [1], 1),
        ([("put", DONE), ("put", UNKNOWN)], [1, 2], 2),
        ([("put", DONE), ("put", UNKNOWN)], [1], 1),
        ([("put", DONE), ("delete", UNKNOWN)], [1, None], None),
        ([("put", DONE), ("delete", DONE)], [None], None),
        ([("put", DONE), ("put", REFUSED)], [1], 1),
    ],
)
def test_what_may_be(changes: Any, reads: Any, final: Any) -> None:
    assert judged(register(*changes), reads, final) == []


@pytest.mark.parametrize(
    ("changes", "reads", "final"),
    [
        ([("put", DONE)], [], None),
        ([("put", DONE)], [None], 1),
        ([("put", DONE), ("put", UNKNOWN)], [2, 1], 2),
        ([("put", DONE), ("put", UNKNOWN)], [2], 1),
        ([("put", DONE), ("delete", UNKNOWN)], [None, 1], None),
        ([("put", DONE), ("delete", DONE)], [], 1),
        ([("put", DONE), ("put", REFUSED)], [], 2),
        ([("put", DONE), ("delete", REFUSED)], [], None),
        ([("put", DONE)], [], 7),
    ],
)
def test_what_is_wrong(changes: Any, reads: Any, final: Any) -> None:
    assert judged(register(*changes), reads, final)


def test_a_change_that_was_read_and_then_refused_is_wrong() -> None:
    made = register(("put", DONE))
    number = made.begin(deletes=False)
    made.read({"k": number}.get)
    made.end(number, REFUSED)
    assert made.judge({"k": 1})


@pytest.mark.parametrize(
    ("outcomes", "final", "is_right"),
    [
        ({"a": True, "b": False}, "a", True),
        ({"a": UNKNOWN, "b": False}, "a", True),
        ({"a": UNKNOWN}, None, True),
        ({"a": REFUSED}, None, True),
        ({"a": True, "b": True}, "a", False),
        ({"a": True, "b": UNKNOWN}, "b", False),
        ({"a": True}, None, False),
        ({"a": REFUSED}, "a", False),
        ({"a": False}, None, False),
        ({"a": UNKNOWN, "b": False}, None, False),
    ],
)
def test_one_of_several_makes_a_key(outcomes: dict[str, Any], final: str | None, is_right: bool) -> None:
    once = Once("k")
    for who, outcome in outcomes.items():
        once.end(who, outcome)
    assert bool(once.judge({} if final is None else {"k": final})) is not is_right


@pytest.mark.parametrize(
    ("attempts", "final", "is_right"),
    [
        ([(0, True), (1, True), (1, False)], 2, True),
        ([(0, True), (1, UNKNOWN)], 2, True),
        ([(0, True), (1, UNKNOWN)], 1, True),
        ([(0, True), (1, REFUSED)], 2, False),
        ([(0, True), (1, True)], 1, False),
        ([(0, True), (1, True), (1, True)], 3, False),
    ],
)
def test_each_success_counts_once(attempts: Any, final: int, is_right: bool) -> None:
    tally = Tally("k")
    for seen, outcome in attempts:
        tally.end(seen, outcome)
    assert bool(tally.judge({"k": final})) is not is_right


def test_what_is_written_together_is_there_together() -> None:
    pair = Pair("k")
    for side in (pair.one, pair.other):
        side.end(side.begin(deletes=False), UNKNOWN)
    assert pair.judge({}) == []
    assert pair.judge({"k-one": 1})


def test_what_members_still_finish_is_looked_at_again_and_what_they_never_finish_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.cluster.consistency.LOOKS", 3)

    class Finished:
        """A map of which the last look shows what the members have finished."""

        def __init__(self, looks: int) -> None:
            self.looks = looks

        def items(self) -> list[tuple[str, int]]:
            self.looks -= 1
            return [("pair-one", 2), ("pair-other", 2 if self.looks <= 0 else 1)]

    class OnePair:
        half_done = Clients.half_done

        def __init__(self) -> None:
            self._pairs = [Pair("pair")]

    assert _at_the_end(Finished(3), OnePair()) == {"pair-one": 2, "pair-other": 2}  # type: ignore[arg-type]
    final = _at_the_end(Finished(4), OnePair())  # type: ignore[arg-type]
    assert Pair("pair").apart(final) == ["pair-one is 2, and pair-other is 1"]
