"""Repetition of calls: until a result will do, and until a call succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from kvwal.ports.locks import Signal
from kvwal.ports.retries import poll_until, retry_awaiting, retry_on


def outcomes_of(*outcomes: int | BaseException) -> Callable[[], int]:
    """A call with these outcomes, one after the other."""
    left: Iterator[int | BaseException] = iter(outcomes)

    def call() -> int:
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return call


def answers(*outcomes: int | BaseException) -> Callable[[], Awaitable[int]]:
    """`outcomes_of` for a caller that awaits."""
    call = outcomes_of(*outcomes)

    async def answer() -> int:
        return call()

    return answer


def test_a_call_is_repeated_until_its_result_will_do() -> None:
    assert asyncio.run(poll_until(bool, answers(0, 0, 7, 8), pause=0)) == 7


def test_after_its_time_the_last_result_is_returned() -> None:
    assert asyncio.run(poll_until(bool, answers(0, 5), pause=0, within=0)) == 0


def test_an_error_is_not_a_result_to_wait_for() -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(poll_until(bool, answers(0, ConnectionError(), 7), pause=0))


def test_a_call_is_repeated_until_it_succeeds() -> None:
    first, second = ConnectionError(), TimeoutError()
    failures: list[Exception] = []
    errors = (ConnectionError, TimeoutError)
    assert asyncio.run(retry_awaiting(answers(first, second, 7), errors, failures.append, pause=0)) == 7
    assert failures == [first, second]


def test_every_other_error_is_raised_at_once() -> None:
    failures: list[Exception] = []
    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(retry_awaiting(answers(ValueError("a bug"), 7), (ConnectionError,), failures.append, pause=0))
    assert not failures


def test_who_hears_of_the_failure_may_end_the_repetition() -> None:
    def failed(error: Exception) -> None:
        raise error

    refusal = ConnectionError("for good")
    with pytest.raises(ConnectionError) as raised:
        asyncio.run(retry_awaiting(answers(refusal, 7), (ConnectionError,), failed, pause=0))
    assert raised.value is refusal


def test_a_cancelled_repetition_ends() -> None:
    async def cancelled(errors: tuple[type[Exception], ...]) -> None:
        waiting = asyncio.Event()

        async def call() -> int:
            waiting.set()
            await asyncio.Event().wait()
            return 1

        for repeated in (poll_until(bool, call, pause=0), retry_awaiting(call, errors, lambda error: None, pause=0)):
            waiting.clear()
            task = asyncio.ensure_future(repeated)
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled((Exception,)))


def test_a_thread_repeats_a_call_until_it_succeeds() -> None:
    first, second = ConnectionError(), TimeoutError()
    failures: list[Exception] = []
    errors = (ConnectionError, TimeoutError)
    assert retry_on(outcomes_of(first, second, 7), errors, pause=0, failed=failures.append) == 7
    assert failures == [first, second]
    with pytest.raises(ValueError, match="a bug"):
        retry_on(outcomes_of(ValueError("a bug"), 7), errors, pause=0)


def test_after_its_time_the_error_of_the_last_try_is_raised() -> None:
    with pytest.raises(ConnectionError, match="first"):
        retry_on(outcomes_of(ConnectionError("first"), 7), (ConnectionError,), pause=0, within=0)


def test_the_end_ends_the_pause_and_the_try_after_it_is_the_last() -> None:
    until = Signal()
    tries = outcomes_of(ConnectionError("first"), ConnectionError("last"), 7)
    with pytest.raises(ConnectionError, match="last"):
        retry_on(tries, (ConnectionError,), pause=3600, until=until, failed=lambda error: until.set())


def test_pauses_grow_up_to_the_longest_and_stay_equal_without_one() -> None:
    for longest, expected in ((None, [0.5, 0.5, 0.5, 0.5]), (3.0, [0.5, 1.0, 2.0, 3.0])):
        pauses: list[float] = []
        tries = outcomes_of(*[ConnectionError()] * 4, 7)
        assert retry_on(tries, (ConnectionError,), pause=0.5, longest=longest, sleep=pauses.append) == 7
        assert pauses == expected
