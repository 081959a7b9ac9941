"""Blocks of transactions that fail on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
