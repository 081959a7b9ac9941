"""The plan of an SQL execution as a graph: data flows down, from what is read to what is written or returned.

Plans are trees, but for exchanges that several nodes read. So the layout is that of a tree: leaves side by side, a node in the
middle below its children, and a node with several parents at the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from kvwal.console.pages import texts
from kvwal.console.pages.pictures import label
from kvwal.scrub.units import size
from kvwal.spark.records import Metric, PlanEdge

MOST_NODES = 400
"""Nodes of a plan that is drawn. A larger one is read as text."""
_WIDTH, _GAP, _ROW, _LINE = 196, 18, 26, 14
_PASSES_ON = (
    "InputAdapter", "AdaptiveSparkPlan", "ShuffleQueryStage", "BroadcastQueryStage", "ResultQueryStage", "TableCacheQueryStage",
)  # fmt: skip
"""Nodes that do nothing themselves; without metrics they are not drawn."""
_FIRST = (
    "number of output rows", "data size", "size of files read", "written output", "shuffle bytes written", "spill size",
)  # fmt: skip
_MOST_LETTERS = 30
_NS = {"nsTiming": 1e6, "timing": 1.0}


class Touched(NamedTuple):
    """That a node reads or writes a data set: which, and the page of its lineage; empty if it has none."""

    writes: bool
    link: str


class PlanNode(NamedTuple):
    """A node of a plan: its number, its name, its metrics with values, and its time in milliseconds."""

    number: int
    name: str
    metrics: list[Metric]
    ms: float


class Plan(NamedTuple):
    """The nodes of a plan that do something, by their numbers; the children of each; the roots; and the slowest node's number."""

    nodes: dict[int, PlanNode]
    children: dict[int, list[int]]
    roots: list[int]
    slowest: int | None


def metric_text(metric: Metric) -> str:
    """The value of a metric as people say it. Spark counts averages in tenths, and of nanoseconds it shows whole milliseconds."""
    value = metric.value or 0
    if metric.type == "size":
        return size(value)
    if metric.type in _NS:
        return texts.duration(value // _NS[metric.type])
    return f"{value / 10:.1f}" if metric.type == "average" else texts.count(value)


def plan_of(nodes: Sequence[str], edges: Sequence[PlanEdge], metrics: Sequence[Metric]) -> Plan:
    """The plan of an execution's record, without the nodes that only pass rows on."""
    measured: dict[str, list[Metric]] = {}
    for metric in metrics:
        if metric.value is not None and metric.value > 0:
            measured.setdefault(metric.node, []).append(metric)
    known: dict[int, PlanNode] = {}
    for node in nodes:
        text, _, name = node.partition(" ")
        if text.isascii() and text.isdecimal():
            own = measured.get(node, [])
            ms = max((_milliseconds(each) for each in own), default=0.0)
            known[int(text)] = PlanNode(int(text), name, own, ms)
    parents: dict[int, list[int]] = {}
    for edge in edges:
        if edge.child in known and edge.parent in known and edge.child != edge.parent:
            parents.setdefault(edge.child, []).append(edge.parent)
    kept = {number: node for number, node in known.items() if node.metrics or not node.name.startswith(_PASSES_ON)}
    children: dict[int, list[int]] = {}
    placed: set[int] = set()
    for number in sorted(kept):
        for parent in _drawn_parents(number, parents, kept):
            children.setdefault(parent, []).append(number)
            placed.add(number)
    slowest = max(kept.values(), key=lambda node: node.ms, default=None)
    return Plan(
        kept, children, [number for number in kept if number not in placed], slowest.number if slowest and slowest.ms else None
    )  # fmt: skip


def _drawn_parents(number: int, parents: Mapping[int, list[int]], kept: Mapping[int, PlanNode]) -> list[int]:
    """The nodes that take the rows of a node, past those that only pass them on."""
    found: list[int] = []
    pending, seen = list(parents.get(number, ())), {number}
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in kept:
            found.append(each)
        else:
            pending += parents.get(each, ())
    return found


def _milliseconds(metric: Metric) -> float:
    return (metric.value or 0) / _NS[metric.type] if metric.type in _NS else 0.0


class _Spot(NamedTuple):
    x: float
    y: float
    height: int
    lines: list[str]


def plan_picture(plan: Plan, touched: Mapping[int, Touched], title: str) -> Markup:
    """The graph of a plan. A node that reads or writes leads to the lineage of its data set; one more than once is drawn once."""
    spots = _layout(plan)
    if not spots:
        return Markup("")
    width = max(spot.x for spot in spots.values()) + _WIDTH + _GAP
    height = max(spot.y + spot.height for spot in spots.values()) + _GAP
    drawn = [_edge(spots[child], spots[parent]) for parent, below in plan.children.items() for child in below
             if parent in spots and child in spots]  # fmt: skip
    drawn += [_node(plan, plan.nodes[number], spot, touched.get(number)) for number, spot in spots.items()]
    return Markup(
        '<svg class="graph" width="{:.0f}" height="{:.0f}" viewBox="0 0 {:.0f} {:.0f}" role="group" aria-label="{}">{}</svg>'
    ).format(width, height, width, height, title, Markup("").join(drawn))


def _layout(plan: Plan) -> dict[int, _Spot]:
    """Where each node is: the deepest level at the top."""
    order, level = _levels(plan)
    lines = {number: _lines(plan.nodes[number]) for number in order}
    tall = {number: _ROW + _LINE * len(lines[number]) for number in order}
    deepest = max(level.values(), default=0)
    heights = [
        max((tall[number] for number in order if level[number] == each), default=0) for each in range(deepest + 1)
    ]
    tops, y = [0.0] * (deepest + 1), float(_GAP)
    for each in range(deepest, -1, -1):
        tops[each] = y
        y += heights[each] + 30
    owned: set[int] = set()
    mine: dict[int, list[int]] = {}
    for number in order:
        mine[number] = [child for child in plan.children.get(number, ()) if child in level and child not in owned]
        owned.update(mine[number])
    return {number: _Spot(_GAP / 2 + place, tops[level[number]], tall[number], lines[number])
            for number, place in _apart(order, level, mine).items()}  # fmt: skip


def _levels(plan: Plan) -> tuple[list[int], dict[int, int]]:
    """The nodes, each parent before its children, and the distance of each from the root: the longest one."""
    level: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for below in plan.children.values():
        for child in below:
            waiting[child] = waiting.get(child, 0) + 1
    order, ready = [], list(plan.roots)
    while ready:
        number = ready.pop()
        level.setdefault(number, 0)
        order.append(number)
        for child in plan.children.get(number, ()):
            level[child] = max(level.get(child, 0), level[number] + 1)
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return order, {number: level[number] for number in order}  # nodes of a cycle, which no plan has, are left out


def _apart(order: list[int], level: Mapping[int, int], mine: Mapping[int, list[int]]) -> dict[int, float]:
    """The left end of each node: leaves from left to right, a parent in the middle of its children, none over another."""
    x: dict[int, float] = {}
    free: dict[int, float] = {}
    pending = [(number, False) for number in order if level[number] == 0][::-1]
    while pending:
        number, is_ready = pending.pop()
        if not is_ready:
            pending.append((number, True))
            pending += [(child, False) for child in reversed(mine[number])]
            continue
        below = [x[child] for child in mine[number]]
        least = free.get(level[number], 0.0)
        # A leaf stands at the right of everything that was placed, so that no edge crosses a node.
        wanted = (below[0] + below[-1]) / 2 if below else max(free.values(), default=0.0)
        x[number] = max(wanted, least)
        free[level[number]] = x[number] + _WIDTH + _GAP
    return x


def _lines(node: PlanNode) -> list[str]:
    """The metrics that are written in a node: its rows, its bytes and its longest time."""
    first = sorted((each for each in node.metrics if each.name in _FIRST), key=lambda each: _FIRST.index(each.name))[:2]
    timed = sorted((each for each in node.metrics if each.type in _NS), key=_milliseconds, reverse=True)[:1]
    return [_clipped(f"{_short(each.name)}: {metric_text(each)}") for each in [*first, *timed]]


def _short(name: str) -> str:
    return (
        name.removeprefix("number of ")
        .replace("output rows", "rows")
        .replace("size of files read", "read")
        .replace("shuffle bytes written", "shuffled")
    )


def _clipped(text: str, most: int = _MOST_LETTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _edge(child: _Spot, parent: _Spot) -> Markup:
    x1, y1, x2, y2 = child.x + _WIDTH / 2, child.y + child.height, parent.x + _WIDTH / 2, parent.y
    bend = (y1 + y2) / 2
    return Markup(
        '<path class="edge" d="M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}"/>'
        '<path class="arrow" d="M{:.1f} {:.1f}l-4 -7h8z"/>'
    ).format(x1, y1, x1, bend, x2, bend, x2, y2 - 5, x2, y2)


def _node(plan: Plan, node: PlanNode, spot: _Spot, touched: Touched | None) -> Markup:
    kind = "box"
    if touched is not None:
        kind += " is-target" if touched.writes else " is-source"
    if node.number == plan.slowest:
        kind += " is-slow"
    told = "\n".join([f"{node.number} {node.name}", *(f"{each.name}: {metric_text(each)}" for each in node.metrics)])
    drawn = [
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{}" height="{}" rx="4" class="{}"><title>{}</title></rect>').format(
            spot.x, spot.y, _WIDTH, spot.height, kind, told
        ),
        label(spot.x + 8, spot.y + 17, _clipped(node.name, 28), "strong"),
    ]
    drawn += [label(spot.x + 8, spot.y + 17 + _LINE * (row + 1), text) for row, text in enumerate(spot.lines)]
    if node.number == plan.slowest:
        drawn.append(label(spot.x + _WIDTH, spot.y - 4, "slowest", "warn", "end"))
    inner = Markup("").join(drawn)
    if touched is not None and touched.link:
        return Markup('<a href="{}" aria-label="{}">{}</a>').format(touched.link, f"lineage of {node.name}", inner)
    return inner
