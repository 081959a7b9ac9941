"""The text of a metric of a plan, as Spark writes it from the values of tasks and of the driver."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import NamedTuple

_SUFFIX = "(min, med, max (stageId: taskId))"
_UNITS = ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))
_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_AVERAGE_BASE = 10
"""An average is stored as ten times its value."""


class Greatest(NamedTuple):
    """The greatest value that a task told, and the task."""

    value: int
    stage: int
    attempt: int
    task: int


def metric_text(kind: str, values: Sequence[int], greatest: Greatest | None) -> str:
    """The text of a metric of a kind: `sum`, `size`, `timing`, `nsTiming` or `average`."""
    told_by = "(driver)" if greatest is None else f"(stage {greatest.stage}.{greatest.attempt}: task {greatest.task})"
    if kind == "sum":
        return f"{sum(values):,}"
    if kind == "average":
        valid = sorted(value for value in values if value > 0)
        if len(valid) <= 1:
            return _average(valid[0] if valid else 0)
        least, middle, most = map(_average, (valid[0], valid[len(valid) // 2], valid[-1]))
        return f"{_SUFFIX}:\n({least}, {middle}, {most} {told_by})"
    form = _FORMS.get(kind, _plain)
    valid = sorted(value for value in values if value >= 0)
    if len(valid) <= 1:
        return form(valid[0] if valid else 0)
    total, least, middle, most = map(form, (sum(valid), valid[0], valid[len(valid) // 2], valid[-1]))
    return f"total {_SUFFIX}\n{total} ({least}, {middle}, {most} {told_by})"


def _average(value: int) -> str:
    tenths = (Decimal(value) / _AVERAGE_BASE).quantize(Decimal("0.001"), ROUND_HALF_EVEN)
    whole, _, rest = f"{tenths:,}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def size_text(value: int) -> str:
    """A size in bytes: a unit is taken from twice its size on."""
    unit, name = next(((1 << power, name) for power, name in _UNITS if value >= 2 << power), (1, "B"))
    return f"{_rounded(Decimal(value) / unit, '0.1')} {name}"


def duration_text(ms: int) -> str:
    """A duration in milliseconds, in the unit that fits it."""
    if ms < _SECOND:
        return f"{ms} ms"
    if ms < _MINUTE:
        return f"{_rounded(_single(ms / _SECOND), '0.1')} s"
    if ms < _HOUR:
        return f"{_rounded(_single(ms / _MINUTE), '0.1')} m"
    return f"{_rounded(_single(ms / _HOUR), '0.01')} h"


def _nanoseconds(value: int) -> str:
    return duration_text(value // 1_000_000)


def _plain(value: int) -> str:
    """A value of a kind that this version does not know."""
    return f"{value:,}"


_FORMS: dict[str, Callable[[int], str]] = {"size": size_text, "timing": duration_text, "nsTiming": _nanoseconds}


def _rounded(value: Decimal, digits: str) -> Decimal:
    """As Java rounds it: half up."""
    return value.quantize(Decimal(digits), ROUND_HALF_UP)


def _single(value: float) -> Decimal:
    """A number of single precision, as Spark divides times."""
    return Decimal(struct.unpack("f", struct.pack("f", value))[0])
