"""Two runs side by side: figures, what got slower, plans, data and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, texts
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.application import lineage_name
from kvwal.console.sparkpages.lists import without_packages
from kvwal.console.sparkreads.app_records import BriefStage, decoded, every_record
from kvwal.console.sparkreads.listing import SLOW
from kvwal.scrub.units import size
from kvwal.spark.queries import RecordedApplication, lasted_ms
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Access, Application, Environment

T = TypeVar("T")
_MOST = 2_000
"""Executions, and stages, of each run that are compared."""
_ROWS = 50
_FIGURES: tuple[tuple[str, Callable[[Application], float], texts.Form], ...] = (
    ("duration", lasted_ms, texts.duration),
    ("jobs", lambda app: app.jobs, texts.count),
    ("failed jobs", lambda app: app.jobs_failed, texts.count),
    ("stages", lambda app: app.stages, texts.count),
    ("tasks", lambda app: app.tasks, texts.count),
    ("failed tasks", lambda app: app.failed, texts.count),
    ("task time", lambda app: app.run_ms, texts.duration),
    ("CPU", lambda app: app.cpu_ms, texts.duration),
    ("garbage collection", lambda app: app.gc_ms, texts.duration),
    ("scheduler delay", lambda app: app.scheduler_delay_ms, texts.duration),
    ("read", lambda app: app.input_bytes, size),
    ("rows read", lambda app: app.input_rows, texts.count),
    ("written", lambda app: app.output_bytes, size),
    ("rows written", lambda app: app.output_rows, texts.count),
    ("shuffled", lambda app: app.shuffle_write_bytes, size),
    ("waiting for shuffled data", lambda app: app.shuffle_wait_ms, texts.duration),
    ("spilled to disk", lambda app: app.spill_disk_bytes, size),
    ("core time", lambda app: app.core_ms, texts.duration),
)


class PlanSql(msgspec.Struct, tag_field="kind", tag="sql"):
    """An SQL execution as a comparison needs it: the nodes of its plan, not its text."""

    id: int = 0
    description: str = ""
    call_site: str = ""
    stream: str = ""
    duration_ms: int = 0
    nodes: list[str] = []
    reads: list[Access] = []
    writes: list[Access] = []


class Side(NamedTuple):
    """What is compared of one run."""

    recorded: RecordedApplication
    executions: list[PlanSql]
    stages: list[BriefStage]
    settings: dict[str, str]


def comparison_page(view: View, query: Mapping[str, str], command: str) -> Shown:
    """The page of two runs: `a` is the one before, `b` the one that is looked at."""
    one_side, other = (_side(view.records, query.get(name, "")) for name in ("a", "b"))
    slower = [*_executions(one_side, other), *_stages(one_side, other)]
    slower.sort(key=lambda row: -abs(row.values["more_ms"]))
    values = {
        "title": "Two runs", "command": command, "a": one_side.recorded, "b": other.recorded,
        "a_link": addresses.app(one_side.recorded.prefix), "b_link": addresses.app(other.recorded.prefix),
        "swap": addresses.comparison(other.recorded.prefix, one_side.recorded.prefix),
    }  # fmt: skip
    part = (
        "of the first 2,000 of each"
        if max(len(one_side.executions), len(other.executions), len(one_side.stages)) >= _MOST
        else ""
    )
    return Shown("comparison.html", values, [
        Table("figures", "Figures", _columns("figure", ""), list(_figures(one_side.recorded.app, other.recorded.app))),
        Table("slower", "What got slower, or faster", (Column("what", "what", "plain"), *_columns("title", "description")),
              slower[:_ROWS], "No part of one has the description of a part of the other.", every=lambda: slower, note=part),
        Table("plans", "Plans that differ", (Column("what", "execution", "plain"), Column("title", "description"),
                                             Column("gone", "only before"), Column("new", "only now")),
              list(islice(_plans(one_side, other), _ROWS)), "Executions of the same description have the same nodes."),
        Table("data", "Data", (Column("does", "", "plain"), *_columns("dataset", "data set")),
              list(_data(one_side, other)), "No SQL execution says what it read or wrote."),
        Table("settings", "Settings that differ",
              (Column("setting", "setting", "code"), Column("before", "before", "code"), Column("now", "now", "code")),
              list(_settings(one_side, other)), "All settings that are recorded are the same."),
    ])  # fmt: skip


def _columns(key: str, title: str) -> tuple[Column, ...]:
    return (Column(key, title), Column("shown_a", "before", "right"), Column("shown_b", "now", "right"),
            Column("times", "ratio", "factor"))  # fmt: skip


def _side(records: RecordReader, prefix: str) -> Side:
    if not prefix:
        raise Refused(400, "Name two applications: /compare?a=APPLICATION&b=APPLICATION.")
    app = records.application(prefix)
    if app is None:
        raise Refused(
            404, f"There is no application {prefix[:200]!r} to compare: /compare?a=APPLICATION&b=APPLICATION."
        )
    side = Side(RecordedApplication(prefix, app), [], [], {})
    record: Any
    for folder, stored in every_record(records, prefix):
        if folder == "sql" and len(side.executions) < _MOST:
            if (record := decoded(stored, PlanSql)) is not None:
                side.executions.append(record)
        elif folder == "stage":
            if len(side.stages) == _MOST:
                break  # nothing after the stages is compared
            if (record := decoded(stored, BriefStage)) is not None:
                side.stages.append(record)
        elif folder == "env" and (record := decoded(stored, Environment)) is not None:
            side.settings.update(record.spark)
    return side


def _compared(values: dict[str, Any], before: float | None, now: float | None, text: texts.Form) -> Row:
    """A row of two numbers. What is half as much again, or a third less, is marked."""
    times = round(now / before, 2) if before and now else None
    shown = {"shown_a": None if before is None else text(before), "shown_b": None if now is None else text(now)}
    mark = "" if not times or 1 / SLOW < times < SLOW else "warn" if times > 1 else "less"
    return Row({**values, **shown, "times": times, "before": before, "now": now}, mark=mark)


def _figures(before: Application, now: Application) -> Iterator[Row]:
    for name, value, text in _FIGURES:
        if value(before) or value(now):
            yield _compared({"figure": name}, value(before), value(now), text)


def _matched(before: Iterable[T], now: Iterable[T], name: Callable[[T], str]) -> Iterator[tuple[str, T, T]]:
    """Parts of the same name, in pairs: the first of a name with the first of the other run, and so on."""
    waiting: dict[str, list[T]] = {}
    for each in before:
        waiting.setdefault(name(each), []).append(each)
    used: Counter[str] = Counter()
    for each in now:
        same = waiting.get(name(each), [])
        number = used[name(each)]
        if number < len(same):
            used[name(each)] += 1
            yield name(each), same[number], each


def _name_of_sql(sql: PlanSql) -> str:
    return sql.description or sql.call_site


def _executions(before: Side, now: Side) -> Iterator[Row]:
    for name, old, new in _matched(before.executions, now.executions, _name_of_sql):
        row = _compared(
            {"what": f"sql {new.id}", "title": name.partition("\n")[0], "more_ms": new.duration_ms - old.duration_ms},
            old.duration_ms, new.duration_ms, texts.duration,
        )  # fmt: skip
        yield row._replace(links={"what": addresses.execution(now.recorded.prefix, new.id)})


def _stages(before: Side, now: Side) -> Iterator[Row]:
    for name, old, new in _matched(before.stages, now.stages, lambda stage: stage.name):
        row = _compared(
            {"what": f"stage {new.id}", "title": name, "more_ms": new.duration_ms - old.duration_ms}, old.duration_ms,
            new.duration_ms, texts.duration,
        )  # fmt: skip
        yield row._replace(links={"what": addresses.stage(now.recorded.prefix, new.id, new.attempt)})


def _plans(before: Side, now: Side) -> Iterator[Row]:
    """Executions of the same description whose plans have other nodes."""
    for name, old, new in _matched(before.executions, now.executions, _name_of_sql):
        one_plan, other = (Counter(node.partition(" ")[2] for node in sql.nodes) for sql in (old, new))
        if old.nodes and new.nodes and one_plan != other:
            values = {"what": f"sql {new.id}", "title": name.partition("\n")[0], "gone": _nodes(one_plan - other),
                      "new": _nodes(other - one_plan)}  # fmt: skip
            yield Row(values, {"what": addresses.execution(now.recorded.prefix, new.id)}, mark="warn")


def _nodes(nodes: Counter[str]) -> str:
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in nodes.most_common())


def _data(before: Side, now: Side) -> Iterator[Row]:
    """Bytes of each data set that either run read or wrote."""
    sums = [_bytes_of(side) for side in (before, now)]
    for key in dict.fromkeys([*sums[0], *sums[1]]):
        does, name, shown = key
        row = _compared({"does": does, "dataset": shown, "name": name}, sums[0].get(key), sums[1].get(key), size)
        yield row._replace(links={"dataset": addresses.lineage(name)} if name else {})


def _bytes_of(side: Side) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for sql in side.executions:
        for does, accesses in (("reads", sql.reads), ("writes", sql.writes)):
            for access in accesses:
                name = lineage_name(access, of_stream=bool(sql.stream))
                key = (does, name, access.table or name or without_packages(access.where) or access.what)
                found[key] = found.get(key, 0) + max(0, access.bytes)
    return found


def _settings(before: Side, now: Side) -> Iterator[Row]:
    for name in sorted(before.settings.keys() | now.settings.keys()):
        old, new = before.settings.get(name), now.settings.get(name)
        if old != new and name not in _OF_EACH_RUN:
            yield Row({"setting": name, "before": old, "now": new})


_OF_EACH_RUN = frozenset({"spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port"})
"""Settings that differ in each run, and explain nothing."""
