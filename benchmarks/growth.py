"""Curves: what one operation costs as one thing grows, and why it costs more from some size on."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Result, Row, Run, unranked_row

PREFIX = "growth_of_"
"""How the names of the questions about growth begin."""
BEND = 2.0
"""A curve bends where an operation costs so many times what it costs at the smallest size. Each bend has its reason below."""
BASELINE = "the smallest size of the same curve, in the same round. All sizes of a curve run in turn, then all again."

BENDS: dict[str, str] = {
    "a put by the bytes of its value": (
        "each byte is copied into a block, checksummed, and copied into the page cache. At 4 MiB that last copy is half of the "
        "processor time, by perf."
    ),
    "the history of a key by its versions": (
        "each version becomes an entry for the caller. Below a thousand versions the 10,000 other entries of the log, which are "
        "checked and not decoded, cost more."
    ),
    "the history of a key by archive objects": (
        "the footer and the filter of each object are read, about 0.4 ms for both; rows only of the objects that have the key. "
        "A store merges its small objects by itself, and `kvwal archive rewrite` merges what is left."
    ),
    "a put by the nodes": (
        "from two nodes on each entry has a copy in another member's memory and log. One client sends to all nodes, and all of "
        "them, and the client, have two cores together."
    ),
}
"""The reason of each bend, by the name of its curve. A test asks for the reasons, and for a bend of each reason."""


class Curve(NamedTuple):
    """What one operation costs, by `measure`, at each of these sizes, the smallest first."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    measure: Callable[[int], float]


def rows(run: Run, curve: Curve, rounds: int) -> list[Row]:
    """A row for each size."""
    sizes = curve.sizes[:2] if run.quick else curve.sizes
    costs: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(run.rounds(rounds)):
        for size in sizes:
            costs[size].append(curve.measure(size))
    return [unranked_row(f"{curve.name}: {size:,}", curve.unit, costs[sizes[0]], costs[size]) for size in sizes]


def by_curve(result: Result) -> dict[str, list[Row]]:
    """The rows of each curve, in the order of their sizes."""
    curves: dict[str, list[Row]] = {}
    for row in result.rows:
        curves.setdefault(row.name.rpartition(": ")[0], []).append(row)
    return curves


def bent(rows: list[Row]) -> Row | None:
    """The first row of a curve that costs `BEND` times what the smallest size costs; None if the curve does not bend."""
    return next((row for row in rows if row.figure >= BEND), None)


def reasons(result: Result) -> list[str]:
    """Where each curve bends, and why: a sentence for each curve that does."""
    curves = {name: bent(rows) for name, rows in by_curve(result).items()}
    return [f"{row.name}: it bends here: {BENDS.get(name, '')}" for name, row in curves.items() if row is not None]


def draw(result: Result, path: Path) -> None:
    """The plot: an axis for each curve, both scales logarithmic, the rounds as dots, the medians as a line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    curves = by_curve(result)
    figure, axes = pyplot.subplots(
        len(curves), 1, figsize=(6.4, 0.3 + 1.9 * len(curves)), squeeze=False, layout="constrained"
    )
    for (name, rows), axis in zip(curves.items(), axes[:, 0], strict=True):
        sizes = [int(row.name.rpartition(": ")[2].replace(",", "")) for row in rows]
        axis.plot(sizes, [statistics.median(row.ours) for row in rows], color="#2a6f97")
        for size, row in zip(sizes, rows, strict=True):
            axis.plot([size] * len(row.ours), row.ours, "o", color="#2a6f97", markersize=3)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"{name} [{rows[0].unit}]", fontsize=9, loc="left")
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(lambda value, _: f"{value:,.6g}")
            scale.set_minor_formatter(lambda value, _: "")
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)
