"""Pictures of pages as SVG: bars, trends, histograms and timelines.

Colours are classes of console.css, since no style attribute may be. A picture has a `title`, which a screen reader reads;
texts in it are escaped as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil, floor, log10
from typing import NamedTuple

from markupsafe import Markup

WIDTH, HALF, NARROW = 1270.0, 620.0, 316.0
"""Units across a wide picture, across one of two side by side, and across one on a phone. A picture is scaled to its room."""


class Part(NamedTuple):
    """A part of a bar: its name, its value, the value as text, and a colour: `c1` to `c6`."""

    name: str
    value: float
    text: str
    colour: str


class Point(NamedTuple):
    """A point of a trend: where it is in time, its value, what is said of it, where it leads, and a colour."""

    at: float
    value: float
    text: str
    link: str = ""
    colour: str = "s-ok"


class Bar(NamedTuple):
    """A bar of a timeline: from when to when (Unix milliseconds), what is said of it, where it leads, and a colour."""

    begin: float
    end: float
    text: str
    link: str = ""
    colour: str = "s-ok"


class Lane(NamedTuple):
    """A line of a timeline: its name, and its bars. Bars that overlap lie in rows below each other."""

    name: str
    bars: Sequence[Bar]


def picture(width: float, height: float, title: str, inner: Iterable[Markup], kind: str = "picture") -> Markup:
    """A picture of this size."""
    drawn = Markup("").join(inner)
    role = "group" if "<a " in drawn else "img"  # a reader of the screen is told nothing of what is inside an image
    return Markup('<svg class="{}" viewBox="0 0 {:g} {:g}" role="{}" aria-label="{}">{}</svg>').format(
        kind + {WIDTH: "", HALF: " half", NARROW: " narrow"}.get(width, ""), width, height, role, title, drawn
    )


def _at_both_widths(draw: Callable[[float], Markup], width: float) -> Markup:
    """A picture for a desk, and one for a phone, where the text of the first would be too small. A page shows one of them."""
    return Markup('<div class="desk">{}</div><div class="phone">{}</div>').format(draw(width), draw(NARROW))


def rectangle(x: float, y: float, width: float, height: float, kind: str, text: str = "", link: str = "") -> Markup:
    """A rectangle, with a text that shows when one points at it."""
    told = Markup("<title{}>{}</title>").format(_utc(text), text) if text else Markup("")
    shape = Markup('<rect x="{:.6g}" y="{:.6g}" width="{:.6g}" height="{:.6g}" rx="1.5" class="{}">{}</rect>').format(
        x, y, width, height, kind, told
    )
    if not link:
        return shape
    return Markup('<a href="{}" tabindex="-1" aria-label="{}">{}</a>').format(link, text or link, shape)


def label(x: float, y: float, text: str, kind: str = "soft", anchor: str = "start") -> Markup:
    """A text. A time in it is shown in the zone of the reader, as those of `texts.moment` are."""
    return Markup('<text x="{:.6g}" y="{:.6g}" class="{}" text-anchor="{}"{}>{}</text>').format(
        x, y, kind, anchor, _utc(text), text
    )


def _utc(text: str) -> Markup:
    """The attribute by which the script of pages finds texts that begin with a time in UTC."""
    return Markup(" data-utc") if _MOMENT.match(text) else Markup("")


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\dZ")


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> Markup:
    """A straight line."""
    return Markup('<line x1="{:.6g}" y1="{:.6g}" x2="{:.6g}" y2="{:.6g}" class="{}"/>').format(x1, y1, x2, y2, kind)


def parts_bar(parts: Sequence[Part], title: str) -> Markup:
    """Parts of a whole as one bar, with a legend that has every value as text."""
    shown = [part for part in parts if part.value > 0]
    total = sum(part.value for part in shown)
    if not total:
        return Markup("")
    drawn, x = [], 0.0
    for part in shown:
        width = WIDTH * part.value / total
        drawn.append(rectangle(x, 0, max(1.0, width - 1), 22, part.colour, f"{part.name}: {part.text}"))
        x += width
    legend = Markup("").join(
        Markup('<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" class="{}"/></svg>{}'
               " <b>{}</b> ({:.0f} %)</li>").format(part.colour, part.name, part.text, 100 * part.value / total)
        for part in shown
    )  # fmt: skip
    bar = Markup(
        '<svg class="picture bar" viewBox="0 0 {:.0f} 22" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, title, Markup("").join(drawn))
    return Markup('{}<ul class="legend">{}</ul>').format(bar, legend)


def nice_ceiling(value: float) -> float:
    """The least of 1, 2, 2.5, 5 or 10 times a power of ten that is not below a value."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** floor(log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= value * 0.999_999)


_DURATIONS = (1, 2, 4, 6, 10, 20, 30, 40, 60, 120, 240, 360, 600, 1200, 1800, 2400, 3600, 7200, 14400, 21600, 28800, 43200,
              86400, 172800)  # fmt: skip
"""Seconds whose half is a round duration, too."""


def duration_ceiling(ms: float) -> float:
    """The top of an axis of durations: a round one that is not below a value."""
    if ms < 1000:
        return nice_ceiling(ms)
    return next((1000.0 * each for each in _DURATIONS if 1000 * each >= ms), 86.4e6 * nice_ceiling(ms / 86.4e6))


def size_ceiling(value: float) -> float:
    """The top of an axis of bytes: a round number of KiB, MiB, GiB or TiB that is not below a value."""
    unit: float = next((1024.0**power for power in (4, 3, 2, 1) if value >= 1024**power), 1.0)
    return unit * nice_ceiling(value / unit)


class Scale(NamedTuple):
    """A scale of values: the text at its top, at its middle and at zero, and the value at its top."""

    top: float
    texts: tuple[str, str, str]


def trend(
    points: Sequence[Point], scale: Scale, ends: tuple[str, str], title: str, *, usual: float = 0.0,
    height: int = 150, width: float = WIDTH,
) -> Markup:  # fmt: skip
    """Values in order of time, as bars; `usual` is a line across. `ends` are the texts below its two ends."""
    return _at_both_widths(partial(_trend, points, scale, ends, title, usual, height), width)


def _trend(
    points: Sequence[Point], scale: Scale, ends: tuple[str, str], title: str, usual: float, height: int, width: float
) -> Markup:
    left, right, top, bottom = 66.0, width - 8.0, 8.0, height - 20.0
    room, rise = right - left, bottom - top
    inner = [line(left, bottom - rise * share, right, bottom - rise * share) for share in (0.5, 1.0)]
    inner += [
        label(left - 6, bottom - rise * share + 4, text, "soft", "end")
        for share, text in zip((1.0, 0.5, 0.0), scale.texts, strict=True)
    ]
    inner.append(line(left, bottom, right, bottom, "axis"))
    step = room / max(1, len(points))
    wide = min(26.0, step * 0.8)
    for number, point in enumerate(points):
        tall = max(1.5, rise * min(1.0, point.value / scale.top))
        x = left + step * number + (step - wide) / 2
        inner.append(rectangle(x, bottom - tall, wide, tall, point.colour, point.text, point.link))
    if usual:
        y = bottom - rise * min(1.0, usual / scale.top)
        inner.append(line(left, y, right, y, "usual"))
    inner += [label(left, height - 4, ends[0]), label(right, height - 4, ends[1], "soft", "end")]
    return picture(width, height, title, inner)


def lines(
    values: Sequence[Sequence[float]], scale: Scale, ends: tuple[str, str], title: str, *,
    height: int = 150, width: float = WIDTH,
) -> Markup:  # fmt: skip
    """Several lines on one scale, each in a colour of its own: that of `c1`, `c2` and so on."""
    return _at_both_widths(partial(_lines, values, scale, ends, title, height), width)


def _lines(
    values: Sequence[Sequence[float]], scale: Scale, ends: tuple[str, str], title: str, height: int, width: float
) -> Markup:
    left, right, top, bottom = 66.0, width - 8.0, 8.0, height - 20.0
    room, rise = right - left, bottom - top
    inner = [line(left, bottom - rise * share, right, bottom - rise * share) for share in (0.5, 1.0)]
    inner += [
        label(left - 6, bottom - rise * share + 4, text, "soft", "end")
        for share, text in zip((1.0, 0.5, 0.0), scale.texts, strict=True)
    ]
    inner.append(line(left, bottom, right, bottom, "axis"))
    for number, each in enumerate(values):
        step = room / max(1, len(each) - 1)
        path = " ".join(
            f"{left + step * at:.6g},{bottom - rise * min(1.0, value / scale.top):.6g}" for at, value in enumerate(each)
        )
        inner.append(Markup('<polyline points="{}" class="line l{}"/>').format(path, number + 1))
    inner += [label(left, height - 4, ends[0]), label(right, height - 4, ends[1], "soft", "end")]
    return picture(width, height, title, inner)


def timeline(lanes: Sequence[Lane], begin: float, end: float, ticks: Sequence[tuple[float, str]], title: str) -> Markup:
    """Bars from `begin` to `end`, a lane for each kind of thing. `ticks` are times with their texts."""
    left, right, row = 76.0, WIDTH - 4.0, 12.0
    span = max(1.0, end - begin)
    inner: list[Markup] = []
    y = 6.0
    for lane in lanes:
        rows: list[float] = []
        drawn: list[Markup] = []
        for bar in sorted(lane.bars, key=lambda bar: bar.begin):
            x = left + (right - left) * max(0.0, bar.begin - begin) / span
            wide = max(2.0, (right - left) * (min(bar.end, end) - max(bar.begin, begin)) / span)
            wide = min(wide, right - x) if x < right else 2.0
            place = next((number for number, taken in enumerate(rows) if taken <= x + 0.01), len(rows))
            if place == len(rows):
                if len(rows) == _MOST_ROWS:
                    place = rows.index(min(rows))
                else:
                    rows.append(0.0)
            rows[place] = x + wide
            drawn.append(rectangle(x, y + row * place, wide, row - 3, bar.colour, bar.text, bar.link))
        inner += [label(left - 8, y + 9, lane.name, "soft", "end"), *drawn]
        y += row * max(1, len(rows)) + 8
    height = y + 16
    for at, text in ticks:
        x = left + (right - left) * (at - begin) / span
        inner.insert(0, line(x, 2, x, y))
        inner.append(
            label(
                x,
                height - 4,
                text,
                "soft",
                "middle" if left + 30 < x < right - 30 else "start" if x < right - 30 else "end",
            )
        )
    return picture(WIDTH, height, title, inner)


_MOST_ROWS = 12
"""Rows of overlapping bars in a lane; what overlaps beyond is drawn over others."""
_TICK_STEPS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800,
)  # fmt: skip


def ticks_of(span_ms: float) -> list[int]:
    """Milliseconds from the beginning at which a timeline of this length has its ticks: at most eight."""
    step = next((each for each in _TICK_STEPS if span_ms / 1000 / each <= 7), ceil(span_ms / 7000)) * 1000
    return list(range(0, floor(span_ms) + 1, step))


def histogram(bins: Sequence[tuple[str, int, str]], title: str, *, height: int = 170, width: float = HALF) -> Markup:
    """Counts by bins: the text below each, its count, and what is said of it."""
    return _at_both_widths(partial(_histogram, bins, title, height), width)


def _histogram(bins: Sequence[tuple[str, int, str]], title: str, height: int, width: float) -> Markup:
    left, right, top, bottom = 46.0, width - 8.0, 14.0, height - 22.0
    most = max((count for _, count, _ in bins), default=0)
    step = (right - left) / max(1, len(bins))
    told = f"{most:,}".replace(",", "\u202f")
    inner = [line(left, bottom, right, bottom, "axis"), label(left - 6, top + 4, told, "soft", "end"),
             label(left - 6, bottom, "0", "soft", "end"), line(left, top, right, top)]  # fmt: skip
    every = max(1, ceil(len(bins) / (4 if width == NARROW else 7)))
    for number, (text, count, told) in enumerate(bins):
        tall = (bottom - top) * count / max(1, most)
        if count:
            tall = max(2.0, tall)
            inner.append(rectangle(left + step * number + 1, bottom - tall, max(1.0, step - 2), tall, "c1", told))
        if number % every == 0:
            inner.append(label(left + step * number, height - 6, text))
    return picture(width, height, title, inner)
