"""Retries: a call is repeated after a pause, until it no longer raises a passing error, or until its result is enough."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential,
    wait_fixed,
)
from tenacity.nap import sleep_using_event

from kvwal.ports.locks import Signal

T = TypeVar("T")
Failed = Callable[[Exception], object]
"""Gets the error of each try that is repeated. If it raises one, that error ends the retries."""


def retry_on(
    call: Callable[[], T],
    errors: tuple[type[Exception], ...],
    *,
    pause: float,
    longest: float | None = None,
    within: float = math.inf,
    until: Signal | None = None,
    failed: Failed | None = None,
    sleep: Callable[[float], None] | None = None,
) -> T:
    """The result of `call`. After each of these `errors` it calls again, `pause` seconds later.

    With `longest` each pause is twice as long as the one before, up to `longest` seconds. The error of a try that ends after
    `within` seconds, or when `until` is set, is raised. `until` also ends a pause, unless `sleep` waits in place of it.
    """
    until = until or Signal()
    attempts = Retrying(
        retry=retry_if_exception_type(errors), wait=wait_exponential(multiplier=pause, max=longest or pause),
        stop=stop_after_delay(within) | stop_when_event_set(until), sleep=sleep or sleep_using_event(until),
        before_sleep=failed and _told(failed), reraise=True,
    )  # fmt: skip
    return attempts(call)


async def retry_awaiting(
    call: Callable[[], Awaitable[T]], errors: tuple[type[Exception], ...], failed: Failed, *, pause: float
) -> T:
    """The result of `call`. After each of these `errors` it calls again, `pause` seconds later."""
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(errors), wait=wait_fixed(pause), before_sleep=_told(failed), reraise=True
    )
    return await attempts(_awaited(call))


async def poll_until(
    is_enough: Callable[[T], bool], call: Callable[[], Awaitable[T]], *, pause: float, within: float = math.inf
) -> T:
    """The first result of `call` for which `is_enough` is true. After every other result it calls again, `pause` seconds later.

    After `within` seconds it returns the last result, which is not enough. An error of `call` is raised.
    """
    attempts = AsyncRetrying(
        retry=retry_if_result(lambda result: not is_enough(result)), wait=wait_fixed(pause), stop=stop_after_delay(within),
        retry_error_callback=_result,
    )  # fmt: skip
    return await attempts(_awaited(call))


def _told(failed: Failed) -> Callable[[RetryCallState], None]:
    """`failed` as tenacity calls it."""

    def tell(state: RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert isinstance(error, Exception)
        failed(error)

    return tell


def _result(state: RetryCallState) -> object:
    assert state.outcome is not None
    return state.outcome.result()


def _awaited(call: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """`call` as a coroutine function: tenacity does not await the result of anything else."""

    async def awaited() -> T:
        return await call()

    return awaited
