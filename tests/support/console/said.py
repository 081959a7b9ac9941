"""Numbers as people say them, read back: a text is right if the value, rounded as the text is, may be this one.

This knows nothing of how the console writes a number: it reads what stands there, as a person does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tests.support.console.page import Shown

_MS = {"ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
_BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SHORT = {"": 1.0, "k": 1e3, "M": 1e6, "bn": 1e9, "tn": 1e12}
UNITS = {"ms": _MS, "bytes": _BYTES, "short": _SHORT, "count": {"": 1.0}, "times": {"×": 1.0}, "percent": {"%": 0.01}}
"""The units of each kind of number, and how much each is."""
_NUMBER = re.compile(r"(\d[\d\u202f]*)(?:\.(\d+))?(?: ([^\d ]+))?")
_ALMOST = 1e-9
_THOUSANDS = "\u202f"
_FEWEST = 20
"""Letters that are left of a text that was cut."""
_BELOW = {"min": 1e3, "h": 6e4, "d": 3.6e6}


class Range(NamedTuple):
    """The least and the greatest value that a text may stand for."""

    low: float
    high: float


def range_of(text: str, kind: str) -> Range | None:
    """The values that a text may stand for; None if it is no number of this kind."""
    if text == "< 0.1 ×" and kind == "times":
        return Range(0.0, 0.05)
    found = [_NUMBER.fullmatch(part) for part in re.findall(r"[^ ]+(?: [^\d ][^ ]*)?", text)]
    if not found or " ".join(each.group() for each in found if each) != text:
        return None
    value = half = 0.0
    unit = ""
    for each in found:
        assert each is not None
        whole, decimals, unit = (part or "" for part in each.groups())
        if unit not in UNITS[kind]:
            return None
        value += float(f"{whole.replace(_THOUSANDS, '')}.{decimals or 0}") * UNITS[kind][unit]
        half = UNITS[kind][unit] * 10.0 ** -len(decimals) / 2
    # From a minute on, what is less than the second unit is left out; and that one, too, if there is none of it.
    cut = UNITS[kind][unit] if len(found) > 1 else _BELOW.get(unit, 0.0)
    return Range(value, value + cut) if cut else Range(value - half, value + half)


class Number(NamedTuple):
    """A number of Spark's, as a page should say it: from `low` to `high`, if it is not known exactly."""

    kind: str
    low: float
    high: float

    def fits(self, text: str) -> bool:
        """Whether a text says it."""
        found = range_of(text, self.kind)
        slack = _ALMOST * max(1.0, abs(self.high))
        return found is not None and found.low <= self.high + slack and self.low - slack <= found.high

    def is_value(self, value: float) -> bool:
        """Whether an exact value, as CSV has it, is it."""
        slack = _ALMOST * max(1.0, abs(self.high))
        return self.low - slack <= value <= self.high + slack


class Phrase(NamedTuple):
    """Words with numbers in them. Only a person reads it: CSV has its parts, or the same text."""

    parts: tuple[str | Number, ...]

    def fits(self, text: str) -> bool:
        """Whether a text says all of it, and nothing else."""
        pattern = "".join(re.escape(part) if isinstance(part, str) else "(.+?)" for part in self.parts)
        found = re.fullmatch(pattern, text, re.DOTALL)
        numbers = [part for part in self.parts if isinstance(part, Number)]
        return found is not None and all(part.fits(said) for part, said in zip(numbers, found.groups(), strict=True))


class Moment(NamedTuple):
    """A time, in Unix milliseconds."""

    ms: int

    def fits(self, shown: Shown) -> bool:
        """Whether the page tells it exactly to programs, and to the second to people. Words may stand behind it."""
        is_exact = shown.moment != "" and round(datetime.fromisoformat(shown.moment).timestamp() * 1000) == self.ms
        return is_exact and shown.text.startswith(self.seconds)

    @property
    def seconds(self) -> str:
        """As people have it."""
        return f"{datetime.fromtimestamp(self.ms // 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


class Worded(NamedTuple):
    """A text of Spark's. Of a long one a page may leave out the end, or the middle, and says so by an ellipsis."""

    text: str

    def fits(self, text: str) -> bool:
        """Whether a text is it, or what is left of it."""
        begin, cut, end = text.partition(" … cut … ")
        if not cut and text.endswith("…") and len(text) > _FEWEST:
            begin, cut, end = text[:-1], "…", ""
        return self.text.startswith(begin) and self.text.endswith(end) if cut else text == self.text


class Stack(NamedTuple):
    """The stack of a task that failed. Spark adds frames of the driver to it, before or after it tells its listeners."""

    frames: tuple[str, ...]

    def fits(self, text: str) -> bool:
        """Whether a text begins with it, and only frames follow."""
        lines = [line.strip() for line in text.splitlines()]
        more = lines[len(self.frames) :]
        return lines[: len(self.frames)] == list(self.frames) and all(line.startswith("at ") for line in more)


Said = Number | Phrase | Moment | Worded | Stack
"""What should stand at a place."""


def count(number: float) -> Number:
    """A number of things."""
    return Number("count", number, number)


def ms(number: float) -> Number:
    """A duration in milliseconds."""
    return Number("ms", number, number)


def size(number: float) -> Number:
    """A number of bytes."""
    return Number("bytes", number, number)


def times(number: float) -> Number:
    """How many times as much; it is known with two decimals."""
    return Number("times", number - 0.005, number + 0.005)


def phrase(*parts: str | int | Number) -> Phrase:
    """Words with numbers: an `int` is a count."""
    return Phrase(tuple(count(part) if isinstance(part, int) else part for part in parts))


def amount(number: int, one: str, several: str = "") -> Phrase:
    """A number with its noun."""
    return phrase(number, f" {one if number == 1 else several or f'{one}s'}")


def about(number: Number, share: float, rest: float = 0.0) -> Number:
    """A number that is only known to a share of itself, and to `rest` more."""
    return number._replace(low=number.low * (1 - share) - rest, high=number.high * (1 + share) + rest)


def total(numbers: Sequence[Number]) -> Number:
    """The sum of numbers of a kind."""
    return Number(numbers[0].kind, sum(each.low for each in numbers), sum(each.high for each in numbers))


def fits(said: Said, shown: Shown) -> bool:
    """Whether what stands at a place is what should."""
    return said.fits(shown) if isinstance(said, Moment) else said.fits(shown.text)


def fits_exactly(said: Said, cell: str) -> bool:
    """Whether a cell of CSV has it: a number and a time exactly."""
    if isinstance(said, Moment):  # those of a streaming query are text, as Spark writes it
        return cell == str(said.ms) or (not cell.isdecimal() and fits(said, Shown(said.seconds, cell)))
    if isinstance(said, Number):
        try:
            return said.is_value(float(cell))
        except ValueError:
            return said.fits(cell)
    # What shows nothing by itself, a page writes as Python does: the end of a line as \\n.
    return said.fits(cell) or said.fits(escaped(cell))


def escaped(text: str) -> str:
    """A text with letters that show nothing by themselves written as Python writes them."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
