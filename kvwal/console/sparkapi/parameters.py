"""Parameters of Spark's REST API: words, numbers, quantiles and dates, with Spark's answers to those that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from starlette.datastructures import QueryParams

from kvwal.console.bodies import Refused

INT_MAX = (1 << 31) - 1
_MOMENT = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(.*)")
_DAY = re.compile(r"(\d+)-(\d+)-(\d+)")
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?")
_ZONES = {
    "GMT": 0,
    "UTC": 0,
    "Z": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond of the years 1 to 9999."""


class Window(NamedTuple):
    """Two moments in Unix milliseconds: at or after the first, at or before the second."""

    first: int
    last: int

    def has(self, moment: int) -> bool:
        """Whether a moment lies between."""
        return self.first <= moment <= self.last


def not_found(sentence: str) -> Refused:
    """Spark's answer for what is not there, and for a word or number that it cannot read."""
    return Refused(404, sentence)


def first(given: QueryParams, name: str) -> str | None:
    """The first value of a parameter, which Spark takes if it is given several times; None if it is not given."""
    return next(iter(given.getlist(name)), None)


def words(given: QueryParams, name: str, known: Iterable[str]) -> frozenset[str]:
    """The values of a parameter that may be given several times, each one of a few words; none if it is not given.

    A value that is empty is among them, for Spark takes it as one that no row has: with it alone nothing is listed.
    """
    found = frozenset(value.upper() for value in given.getlist(name))
    if unknown := found - {*known, ""}:
        raise not_found(f"{name} is none of {', '.join(known)}: {', '.join(sorted(unknown))}")
    return found


def words_of_tasks(given: QueryParams, name: str, known: Iterable[str]) -> frozenset[str]:
    """The same where tasks are asked for. Spark fails (500) at an empty value then, so it is refused."""
    found = words(given, name, known)
    if "" in found:
        raise Refused(400, f"{name} is empty. Leave it out, or give one of {', '.join(known)}.")
    return found


def integer(given: QueryParams, name: str, default: int) -> int:
    """A whole number; the default if it is not given, or empty."""
    text = first(given, name)
    if not text:
        return default
    if re.fullmatch(r"[+-]?[0-9]{1,10}", text) is None or not -INT_MAX - 1 <= int(text) <= INT_MAX:
        raise not_found(f"{name} is no whole number: {text}")
    return int(text)


def flag(given: QueryParams, name: str, *, default: bool) -> bool:
    """Whether a parameter is `true`; the default if it is not given, or empty. Every other word is false."""
    text = first(given, name)
    return text.lower() == "true" if text else default


def quantiles(given: QueryParams, default: str) -> list[float]:
    """Quantiles, apart by commas."""
    found, asked = [], first(given, "quantiles")
    for text in (default if asked is None else asked).split(","):
        try:
            found.append(float(text))
        except ValueError as error:
            raise Refused(400, f'Bad value for parameter "quantiles".  Expected a double, got "{text}"') from error
        if not 0 <= found[-1] <= 1:
            raise Refused(400, f'Bad value for parameter "quantiles".  Expected a share from 0 to 1, got "{text}"')
    return found


def window(given: QueryParams, after: str, before: str) -> Window:
    """The window between two dates, each of which may be missing, or empty."""
    return Window(_moment(first(given, after) or "2010-01-01"), _moment(first(given, before) or "3000-01-01"))


def _moment(text: str) -> int:
    """A date, or a date with time and zone, in Unix milliseconds. Spark rolls over days and hours that are too many, too."""
    if (found := _MOMENT.match(text)) and (zone := _zone(found[8])) is not None:
        year, month, day, hour, minute, second, ms = (int(part) for part in found.groups()[:7])
        time = timedelta(hours=hour, minutes=minute, seconds=second, milliseconds=ms)
        return _milliseconds(year, month, day, time - zone)
    if found := _DAY.match(text):
        year, month, day = (int(part) for part in found.groups())
        return _milliseconds(year, month, day, timedelta(0))
    raise Refused(400, f"Couldn't parse date: {text}")


def _zone(text: str) -> timedelta | None:
    """The offset of a zone from Greenwich; None for one that is not known."""
    if text.upper() in _ZONES:
        return timedelta(hours=_ZONES[text.upper()])
    if found := _OFFSET.fullmatch(text):
        sign = 1 if found[1] == "+" else -1
        return sign * timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return None


def _milliseconds(year: int, month: int, day: int, time: timedelta) -> int:
    years, months = divmod(month - 1, 12)
    try:
        first = datetime(year + years, months + 1, 1, tzinfo=UTC)
        moment = first + timedelta(days=day - 1) + time
    except (ValueError, OverflowError):
        return _FIRST if year < 1 else _LAST
    return (moment - _EPOCH) // timedelta(milliseconds=1)
