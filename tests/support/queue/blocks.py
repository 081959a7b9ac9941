"""Blocks of transactions that fail on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TypeVar

T = TypeVar("T")


class RolledBackError(Exception):
    """What ends such a block."""


@contextmanager
def rolled_back(transaction: AbstractContextManager[T]) -> Iterator[T]:
    """A block of this transaction that raises at its end, which nobody else hears of."""
    try:
        with transaction as t:
            yield t
            raise RolledBackError
    except RolledBackError:
        pass


@asynccontextmanager
async def rolled_back_here(transaction: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """As `rolled_back`, in a task."""
    try:
        async with transaction as t:
            yield t
            raise RolledBackError
    except RolledBackError:
        pass
