"""Examinations of a location: those who look share one, an old one is shown while the next is made, and a very old one is not."""

from __future__ import annotations

import pytest

from kvwal.console.figures.examinations import DUE_SECONDS, DUE_TIMES, SHOWN_SECONDS, Beside, Examinations
from kvwal.errors import StoreLocked
from kvwal.scrub.diagnose import OK, Finding
from tests.support.disk.faults import FakeClock


class Looks:
    """Examinations that are numbered."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.number = 0
        self.takes = 0.0
        self.error: StoreLocked | None = None
        self.all = Examinations(self.examine, Beside, self.clock)

    def examine(self) -> list[Finding]:
        if self.error is not None:
            raise self.error
        self.number += 1
        self.clock.seconds += self.takes
        return [Finding(OK, "disk", f"look {self.number}")]

    def last(self) -> str:
        return self.all.last().findings[0].text


def test_all_who_look_share_one_and_an_old_one_is_shown_while_one_of_them_makes_the_next() -> None:
    looks = Looks()
    assert not looks.all.begin_renewal()
    assert [looks.last() for _ in range(3)] == ["look 1"] * 3
    assert not looks.all.begin_renewal()
    looks.clock.seconds += DUE_SECONDS + 1
    assert looks.last() == "look 1"
    assert [looks.all.begin_renewal() for _ in range(3)] == [True, False, False]
    assert looks.all.age(looks.all.renewed()) == 0
    assert (looks.last(), looks.all.begin_renewal()) == ("look 2", False)


def test_one_that_took_long_is_due_later() -> None:
    looks = Looks()
    looks.takes = 2.0
    looks.last()
    looks.clock.seconds += DUE_SECONDS
    assert not looks.all.begin_renewal()
    looks.clock.seconds += 2 * DUE_TIMES - DUE_SECONDS
    assert looks.all.begin_renewal()
    looks.takes = 0.0
    assert looks.all.renewed().findings[0].text == "look 2"
    looks.clock.seconds += DUE_SECONDS + 1
    assert looks.all.begin_renewal()


def test_nobody_is_shown_one_of_long_ago() -> None:
    looks = Looks()
    looks.last()
    looks.clock.seconds += SHOWN_SECONDS + 1
    assert looks.last() == "look 2"


def test_all_who_ask_for_one_of_now_share_it() -> None:
    looks = Looks()
    looks.last()
    looks.clock.seconds += 0.001
    assert [looks.all.now().findings[0].text for _ in range(3)] == ["look 2"] * 3


def test_an_error_is_raised_and_the_next_one_looks_again() -> None:
    looks = Looks()
    looks.error = StoreLocked("it is locked.")
    with pytest.raises(StoreLocked):
        looks.last()
    looks.error = None
    assert looks.last() == "look 1"
    looks.clock.seconds += DUE_SECONDS + 1
    looks.error = StoreLocked("it is locked.")
    assert looks.all.begin_renewal()
    with pytest.raises(StoreLocked):
        looks.all.renewed()
    assert looks.last() == "look 1"
    assert looks.all.begin_renewal()
