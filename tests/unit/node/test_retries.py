"""Repetition of calls: until a result will do, and until a call succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from kvwal.node.retries import poll_until, retry_on


def answers(*outcomes: int | BaseException) -> Callable[[], Awaitable[int]]:
    """A call with these outcomes, one after the other."""
    left: Iterator[int | BaseException] = iter(outcomes)

    async def call() -> int:
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return call


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
    assert asyncio.run(retry_on(answers(first, second, 7), errors, failures.append, pause=0)) == 7
    assert failures == [first, second]


def test_every_other_error_is_raised_at_once() -> None:
    failures: list[Exception] = []
    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(retry_on(answers(ValueError("a bug"), 7), (ConnectionError,), failures.append, pause=0))
    assert not failures


def test_who_hears_of_the_failure_may_end_the_repetition() -> None:
    def failed(error: Exception) -> None:
        raise error

    refusal = ConnectionError("for good")
    with pytest.raises(ConnectionError) as raised:
        asyncio.run(retry_on(answers(refusal, 7), (ConnectionError,), failed, pause=0))
    assert raised.value is refusal


def test_a_cancelled_repetition_ends() -> None:
    async def cancelled(errors: tuple[type[Exception], ...]) -> None:
        waiting = asyncio.Event()

        async def call() -> int:
            waiting.set()
            await asyncio.Event().wait()
            return 1

        for repeated in (poll_until(bool, call, pause=0), retry_on(call, errors, lambda error: None, pause=0)):
            waiting.clear()
            task = asyncio.ensure_future(repeated)
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled((Exception,)))
