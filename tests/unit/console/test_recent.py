"""A value that is renewed in the background: no request waits while it is young, and none gets one that is too old."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from kvwal.console.shared_reader import SharedReader, View
from kvwal.console.sparkstate.recent import FRESH_SECONDS, MOST_SECONDS, Recent
from tests.support.polling import until


class _Clock:
    now = 100.0

    def wall_ms(self) -> int:
        return 0

    def elapsed(self) -> float:
        return self.now

    def random_bits(self, bits: int) -> int:
        return 0


class _Reads:
    @contextmanager
    def view(self) -> Iterator[View]:
        yield cast(View, None)


class _Counted:
    """A value that counts how often it was made, and may be held up or fail."""

    def __init__(self) -> None:
        self.made = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.error: Exception | None = None

    def make(self, view: View) -> int:
        self.may_go_on.wait(60)
        if self.error is not None:
            raise self.error
        self.made += 1
        return self.made


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def counted() -> _Counted:
    return _Counted()


@pytest.fixture
def recent(clock: _Clock, counted: _Counted) -> Recent[int]:
    return Recent(cast(SharedReader, _Reads()), clock, counted.make)


def value(recent: Recent[int]) -> int:
    return recent.value(cast(Any, None))


def test_a_young_value_serves_all(recent: Recent[int], clock: _Clock) -> None:
    assert value(recent) == 1
    clock.now += FRESH_SECONDS
    assert value(recent) == 1


def test_an_older_value_is_answered_and_renewed(recent: Recent[int], clock: _Clock, counted: _Counted) -> None:
    value(recent)
    clock.now += FRESH_SECONDS + 0.1
    counted.may_go_on.clear()
    assert [value(recent) for _ in range(5)] == [1] * 5
    counted.may_go_on.set()
    assert until(lambda: value(recent) if counted.made == 2 else None) in (1, 2)
    until(lambda: True if value(recent) == 2 else None)
    assert counted.made == 2


def test_a_value_that_is_too_old_is_waited_for(recent: Recent[int], clock: _Clock) -> None:
    value(recent)
    clock.now += MOST_SECONDS
    assert value(recent) == 2


def test_an_error_in_the_background_is_met_by_the_next_request(
    recent: Recent[int], clock: _Clock, counted: _Counted
) -> None:
    value(recent)
    counted.error = ValueError("the store went away")
    clock.now += FRESH_SECONDS + 0.1
    assert value(recent) == 1
    clock.now += MOST_SECONDS
    with pytest.raises(ValueError, match="the store went away"):
        value(recent)
    counted.error = None
    assert value(recent) == 2
