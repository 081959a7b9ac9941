"""Numbers and times as people say them, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from kvwal.scrub.units import size

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def moment(ms: int) -> Markup | str:
    """A time in UTC, which a script shows in the reader's zone; a dash for none."""
    if ms <= 0:
        return "–"
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return Markup('<time datetime="{}">{}</time>').format(when.isoformat(), f"{when:%Y-%m-%d %H:%M:%S}Z")


def duration(ms: int) -> str:
    """A duration in its two largest units, as 3 min 5 s; of less than a second in milliseconds."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    whole = [
        (ms // unit if index == 0 else ms % _UNITS[index - 1][0] // unit, name)
        for index, (unit, name) in enumerate(_UNITS)
    ]
    first = next(index for index, (count, _) in enumerate(whole) if count)
    return " ".join(f"{count} {name}" for count, name in whole[first : first + 2] if count)


def count(number: int) -> str:
    """A number with a narrow space between thousands."""
    return f"{number:,}".replace(",", "\u202f")


FILTERS: dict[str, Callable[..., Any]] = {"moment": moment, "duration": duration, "count": count, "size": size}
