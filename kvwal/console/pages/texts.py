"""Numbers and times as people say them, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from kvwal.scrub.units import size

Form = Callable[[Any], str]
"""Says a number as people do."""
_SHORT = ((1e12, "tn"), (1e9, "bn"), (1e6, "M"), (1e3, "k"))
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_NOTHING, _TEXT = Markup(""), Markup('">')
_TIME, _TIME_END = Markup('<time datetime="'), Markup("</span></time>")
_DAY, _HOUR = Markup('"><span>'), Markup("</span> <span>")
_STATUS, _STATUS_END = Markup('<span class="status is-'), Markup("</span>")
_MOST_CELL = 300
_MOST_CODE = 4_000
_MOST_KEY = 200
_CONTROLS = {number: ascii(chr(number))[1:-1] for number in (*range(32), *range(127, 160))}
"""Control characters, which show nothing by themselves, as Python escapes them."""
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: the last time that a datetime can tell."""


def moment(ms: int) -> Markup | str:
    """A time in UTC, which a script shows in the reader's zone; a dash for none."""
    if not 0 < ms <= _LAST_MS:
        return "–"
    when = datetime.fromtimestamp(ms / 1000, UTC)
    day, time = f"{when:%Y-%m-%d}", f"{when:%H:%M:%S}Z"
    return _NOTHING.join((_TIME, when.isoformat(), _DAY, day, _HOUR, time, _TIME_END))


def iso_moment(text: str) -> Markup | str:
    """A time that Spark wrote as text, as `moment` shows it; a dash for none, and other text as it is."""
    try:
        when = datetime.fromisoformat(text)
        return moment(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return clipped(text) or "–"


def code(text: object) -> str:
    """A setting or the like: a text that is rarely long, and read as a whole. Control characters are escaped."""
    return clipped(text, _MOST_CODE).translate(_CONTROLS)


def key(text: object) -> str:
    """A key of a map in a list: its beginning, if it is long."""
    return clipped(code(text), _MOST_KEY)


def plain_moment(ms: int) -> str:
    """A time in UTC as text alone, for pictures and choices; a dash for none."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M}Z" if 0 < ms <= _LAST_MS else "–"


def duration(ms: float) -> str:
    """A duration in its two largest units, as 3 min 5 s; of less than a second in milliseconds."""
    ms = round(ms)
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


def latency(ms: float) -> str:
    """A duration of a call to a disk: with two digits that count below ten milliseconds."""
    return f"{ms:.2g} ms" if ms < 10 else duration(ms)


def round_duration(ms: float) -> str:
    """A duration as an axis has it: 10 s, not 10.0 s."""
    return duration(ms).replace(".0 s", " s")


def count(number: float) -> str:
    """A number with a narrow space between thousands."""
    return f"{number:,.0f}".replace(",", "\u202f")


def short(number: float) -> str:
    """A number as an axis has it: 25 k, 5 M, 1 bn."""
    return next((f"{number / unit:.4g} {name}" for unit, name in _SHORT if abs(number) >= unit), f"{number:.4g}")


def some(number: float) -> str:
    """A number; nothing for zero."""
    return count(number) if number else ""


def rate(number: float) -> str:
    """A number a second: with one decimal below ten."""
    return f"{number:.1f}" if 0 < abs(number) < 10 else count(number)


def factor(number: float) -> str:
    """How many times as much; nothing for zero, which stands for not known."""
    return "" if not number else f"{number:.1f} ×" if number >= 0.05 else "< 0.1 ×"


def percent(share: float) -> str:
    """A share of one in percent."""
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def status(text: str) -> Markup:
    """A status in its colour."""
    return _NOTHING.join((_STATUS, text.lower(), _TEXT, text, _STATUS_END))


def clipped(text: object, most: int = _MOST_CELL) -> str:
    """A text of a cell: its beginning, if it is long."""
    shown = str(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def amount(number: int, one: str, several: str = "") -> str:
    """A number with its noun: 1 job, 2 jobs."""
    return f"{count(number)} {one if number == 1 else several or f'{one}s'}"


FORMS: dict[str, Callable[[Any], Any]] = {
    "text": clipped, "clip": clipped, "value": clipped, "code": code, "key": key, "iso": iso_moment,
    "plain": str, "right": str, "id": clipped, "status": status, "moment": moment, "duration": duration, "latency": latency,
    "count": count, "some": some, "size": size, "rate": rate, "factor": factor, "percent": percent,
}  # fmt: skip
"""The forms of the cells of a table, by name."""
NUMBERS = frozenset({"right", "duration", "latency", "count", "some", "size", "rate", "factor", "percent"})
"""The forms whose cells stand at the right."""
FILTERS: dict[str, Callable[..., Any]] = {**FORMS, "clipped": clipped, "amount": amount}
