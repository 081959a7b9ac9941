"""The history checker finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.consistency import _at_the_end
from tests.support.cluster.histories import DONE, FAILED, REFUSED, UNKNOWN, Once, Pair, Register, Tally


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
        ([("put", DONE), ("put", UNKNOWN), ("put", DONE)], [3], 3),
        ([("put", UNKNOWN), ("put", UNKNOWN)], [None, 1, 2], 2),
        ([("put", DONE), ("delete", UNKNOWN), ("put", UNKNOWN)], [1, None], 3),
        ([("put", DONE), ("put", UNKNOWN), ("delete", DONE), ("put", FAILED)], [], None),
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
        ([("put", UNKNOWN), ("put", DONE)], [], 1),
        ([("put", UNKNOWN), ("put", DONE)], [1], 2),
        ([("put", UNKNOWN), ("delete", DONE)], [], 1),
        ([("put", DONE), ("delete", UNKNOWN), ("put", DONE)], [], None),
        ([("put", UNKNOWN), ("put", UNKNOWN)], [2], 1),
        ([("put", DONE), ("put", FAILED)], [], 2),
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


@pytest.mark.parametrize(
    ("before", "condition", "held", "is_right"),
    [
        ([("put", DONE)], 1, True, True),
        ([("put", DONE), ("put", UNKNOWN)], 1, False, True),
        ([("put", DONE), ("put", UNKNOWN)], 2, False, True),
        ([("put", DONE), ("delete", UNKNOWN)], None, True, True),
        ([("put", DONE)], 1, False, False),
        ([("put", UNKNOWN), ("put", DONE)], 1, True, False),
        ([("put", DONE), ("delete", DONE)], None, False, False),
    ],
)
def test_what_a_condition_says_is_a_read(before: Any, condition: int | None, held: bool, is_right: bool) -> None:
    made = register(*before)
    number = made.begin(deletes=False)
    made.told(made.floor, number, lambda value: (value == condition) is held, "it")
    assert bool(made.wrong) is not is_right


def test_what_a_condition_has_told_is_not_taken_back() -> None:
    made = register(("put", DONE), ("put", UNKNOWN), ("put", FAILED))
    made.told(1, 3, lambda value: value != 1, "a condition on 1")
    assert made.possible() == [2]
    assert made.judge({"k": 1})


@pytest.mark.parametrize(
    ("outcomes", "is_over"),
    [
        ([DONE], False),
        ([FAILED], False),
        ([REFUSED], True),
        ([UNKNOWN], False),
        ([UNKNOWN, REFUSED], False),
        ([UNKNOWN, FAILED], False),
        ([UNKNOWN, REFUSED, DONE], True),
    ],
)
def test_a_key_is_written_on_to_until_the_end_shows_what_it_is_for(outcomes: list[str], is_over: bool) -> None:
    assert register(*(("put", outcome) for outcome in outcomes)).is_over is is_over


def test_a_count_that_goes_back_is_wrong_within_the_number_of_unknown_outcomes_too() -> None:
    tally = Tally("k")
    for seen, outcome in enumerate([UNKNOWN, True, True]):
        tally.end(seen, outcome)
    assert tally.judge({"k": 3}) == []
    assert tally.look({"k": 2}.get) == 2
    assert tally.judge({"k": 3})


def test_what_is_written_together_is_there_together() -> None:
    pair = Pair("k")
    pair.end(pair.begin(deletes=False), UNKNOWN)
    assert pair.judge({}) == []
    assert pair.judge({"k-one": 1})


def test_what_is_put_alone_after_an_unknown_outcome_may_differ_until_both_are_written_as_one() -> None:
    pair = Pair("k")
    pair.end(pair.begin(deletes=False), UNKNOWN)
    pair.end_each(pair.begin(deletes=False), (DONE, REFUSED))
    assert not pair.is_over
    assert pair.judge({"k-one": 2}) == []
    pair.end(pair.begin(deletes=False), DONE)
    assert pair.is_over
    assert pair.judge({"k-one": 3, "k-other": 1})


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
        def half_done(self, final: dict[str, Any]) -> bool:
            """See `Clients.half_done`."""
            return bool(Pair("pair").apart(final))

    pair: Any = OnePair()
    assert _at_the_end(Finished(3), pair) == {"pair-one": 2, "pair-other": 2}
    final = _at_the_end(Finished(4), pair)
    assert Pair("pair").apart(final) == ["pair-one is 2, and pair-other is 1"]
