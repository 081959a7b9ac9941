"""Accumulators of the program as Spark's REST API shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kvwal.console.sparkevents.events import Accumulable
from kvwal.spark.redaction import redacted

_SHOWN = 5
"""Elements of a list that Spark shows."""


class AccumulatorRow(msgspec.Struct, omit_defaults=True, gc=False):
    """An accumulator: what one task added to it, and its value."""

    id: int
    name: str | None = None
    update: str | None = None
    value: str | None = None


def accumulator_rows(told: Iterable[Accumulable]) -> list[AccumulatorRow]:
    """The accumulators that Spark shows: those of the program, not its own and not those of SQL."""
    return [
        AccumulatorRow(each.id, each.name, _text(each.update), _text(each.value))
        for each in told
        if not each.internal and each.metadata != "sql"
    ]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        if len(value) > _SHOWN:
            return f"[{','.join(map(str, value[:_SHOWN]))},... {len(value) - _SHOWN} more items]"
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return redacted(str(value))
