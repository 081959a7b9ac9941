"""An answer of the console: how long it serves, and what stands for it meanwhile."""

from __future__ import annotations

from typing import Any

from kvwal.console.shared_answer import SharedAnswer, Source
from tests.support.disk.faults import FakeClock


def slowly(clock: FakeClock, seconds: float) -> float:
    """What takes so long, and returns when it ended."""
    clock.seconds += seconds
    return clock.seconds


def test_an_answer_that_was_just_begun_when_something_is_written_is_one_of_before() -> None:
    """What was written may be missing in it."""
    clock = FakeClock()
    clock.seconds = 100.0
    first = SharedAnswer(lambda given: slowly(clock, 2), clock)
    first.made(lambda: Source(0))
    following = first.later(clock.seconds + 20, clock.seconds)
    assert following is not None
    assert following is not first
    clock.seconds += 20

    def while_it_is_made() -> Source:
        clock.seconds += 0.05
        assert following.later(clock.seconds, clock.seconds - 1) is following
        return Source(0)

    following.made(while_it_is_made)
    assert following.is_of_before


def test_an_answer_is_as_old_as_what_it_is_made_from() -> None:
    clock = FakeClock()
    records = SharedAnswer(lambda given: slowly(clock, 5), clock)
    records.made(lambda: Source(0))
    clock.seconds = 48.0
    listed = SharedAnswer(lambda given: slowly(clock, 2), clock)
    listed.made(lambda: records.source)
    assert listed.later(clock.seconds, 0.0) is None
    assert listed.source.known == 0.0


def test_an_answer_that_ends_while_it_is_judged_is_not_lost() -> None:
    clock = FakeClock()

    class EndsMeanwhile(SharedAnswer[Any]):
        """Its value is there as soon as somebody has looked whether it is in the making."""

        judged = False

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name == "_began" and super().__getattribute__("judged"):
                self.judged = False
                self.made(lambda: Source(0))
            return found

    for judge in (lambda one: one.later(clock.seconds, 0.0), lambda one: one.again(clock.seconds)):
        answer = EndsMeanwhile(lambda given: slowly(clock, 2), clock)
        answer.judged = True
        assert judge(answer) is answer


def test_an_answer_that_is_made_just_then_is_no_error() -> None:
    """Another thread ends making the next answer between two steps of one that takes the answer of before."""
    clock = FakeClock()
    first = SharedAnswer(lambda given: f"{given} s", clock)
    clock.seconds = 2.0
    assert first.made(lambda: Source(0)) == "0 s"
    following = first.again(clock.seconds)
    assert following is not None
    assert following is not first

    class EndsMeanwhile(FakeClock):
        def elapsed(self) -> float:
            following._clock = clock
            following.made(lambda: Source(2))
            return clock.elapsed()

    following._clock = EndsMeanwhile()
    found = following.at_hand()
    assert found is not None
    assert found.value == "0 s"
    assert following.at_hand() == ("2 s", False)
