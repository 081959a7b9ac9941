"""The plot of a question about peers: an axis for each workload, a bar for each contestant, the rounds as dots."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.harness import Result, Row

OURS, THEIRS = "#2a6f97", "#a9a9a9"
WIDTH = 6.4


def by_workload(result: Result) -> dict[str, list[Row]]:
    """The rows of each workload: what stands before the colon in their names."""
    groups: dict[str, list[Row]] = {}
    for row in result.rows:
        groups.setdefault(row.name.split(": ")[0], []).append(row)
    return groups


def bars(rows: list[Row]) -> list[tuple[str, list[float], str]]:
    """The name, the rounds and the colour of each bar of a workload, kvwal's first."""
    if not any(row.baselines for row in rows):
        return [(row.name.split(": ")[1], row.ours, THEIRS if "kvwal" not in row.name else OURS) for row in rows]
    return [("kvwal", rows[0].ours, OURS), *((row.name.split(": ")[1], row.baselines, THEIRS) for row in rows)]


def draw(result: Result, path: Path) -> None:
    """Write the plot as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    groups = by_workload(result)
    heights = [0.55 + 0.22 * len(bars(rows)) for rows in groups.values()]
    figure, axes = pyplot.subplots(
        len(groups), 1, figsize=(WIDTH, 0.3 + sum(heights)), squeeze=False, layout="constrained", height_ratios=heights
    )
    for (workload, rows), axis in zip(groups.items(), axes[:, 0], strict=True):
        drawn = bars(rows)
        for position, (_, values, colour) in enumerate(reversed(drawn)):
            axis.barh(position, statistics.median(values), color=colour, alpha=0.55, height=0.6)
            axis.plot(values, [position] * len(values), "o", color=colour, markersize=3)
        axis.set_yticks(range(len(drawn)), [name for name, _, _ in reversed(drawn)])
        axis.set_xlim(left=0)
        axis.set_title(f"{workload} [{rows[0].unit}]", fontsize=9, loc="left")
        axis.tick_params(labelsize=7)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)
