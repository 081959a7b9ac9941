"""Retries: a call is repeated after a pause, until its result is enough, or until it no longer raises a passing error."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

T = TypeVar("T")


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


def _result(state: RetryCallState) -> object:
    assert state.outcome is not None
    return state.outcome.result()


async def retry_on(
    call: Callable[[], Awaitable[T]],
    errors: tuple[type[Exception], ...],
    failed: Callable[[Exception], object],
    *,
    pause: float,
) -> T:
    """The result of `call`. After each of these `errors` it calls again, `pause` seconds later.

    `failed` gets each error. If it raises one, that error ends the retries.
    """

    def note(state: RetryCallState) -> None:
        failed(_error(state))

    attempts = AsyncRetrying(
        retry=retry_if_exception_type(errors), wait=wait_fixed(pause), before_sleep=note, reraise=True
    )
    return await attempts(_awaited(call))


def _awaited(call: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """`call` as a coroutine function: tenacity does not await the result of anything else."""

    async def awaited() -> T:
        return await call()

    return awaited


def _error(state: RetryCallState) -> Exception:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, Exception)
    return error
