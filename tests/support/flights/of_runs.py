"""What must stand on the pages of several runs: the list of all, the runs of one name, and two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.console.expected import Cells, Expected
from tests.support.console.page import Place, Shown
from tests.support.console.said import Moment, Number, count, escaped, ms, phrase, range_of, size, times
from tests.support.flights import accesses, rows
from tests.support.flights.answers import Row, Run, description_of, lasted, summed, tasks_ended
from tests.support.flights.of_application import added

_MOST_ROWS = 50
_OF_EACH_RUN = frozenset({"spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port"})
"""Settings that differ in each run, and explain nothing: the page leaves them out."""
_ROUND = 2.5
"""How much an axis may rise above its greatest value, to end at a round number."""


def placed(root: Path) -> Expected:
    """What stands on each page that is of no application."""
    expected = Expected()
    expected.put("location", str(root))
    expected.put("location title", f"The location that this console shows: {root}")
    return expected


def command(expected: Expected, text: str) -> None:
    """The command that answers the same as the page."""
    expected.put("footer", text, at=1)


def applications(runs: Sequence[Run], root: Path) -> Expected:
    """The list of all applications: all ended well, and the newest is first."""
    expected = placed(root)
    command(expected, f"kvwal jobs {root}")
    expected.put("beside the title", phrase(len(runs), " applications recorded"))
    expected.put("chips", count(len(runs)))
    expected.put("head", phrase("1 to ", len(runs), " of ", len(runs)))
    expected.table("Applications", [rows.application_row(run) for run in reversed(runs)])
    return expected


def minute(run: Run) -> str:
    """When a run began, to the minute, as pictures have it."""
    return f"{datetime.fromtimestamp(run.started / 1000, UTC):%Y-%m-%d %H:%M}Z"


def axis(expected: Expected, part: str, greatest: Number, texts: Mapping[Place, Shown], suffix: str = "") -> None:
    """The axis of a picture: at its top a number not much above the greatest value, half of it in the middle, and 0."""
    shown = texts[Place(part, 0)].text
    top = range_of(shown.removesuffix(suffix), greatest.kind)
    assert top is not None, shown
    half = Number(greatest.kind, top.low / 2, top.high / 2)
    expected.put(part, phrase(greatest._replace(high=_ROUND * greatest.high), suffix), phrase(half, suffix), "0")


def runs_page(runs: Sequence[Run], root: Path, texts: Mapping[Place, Shown]) -> Expected:
    """The runs of a name: two of them."""
    expected = placed(root)
    command(expected, f"kvwal jobs {root} --runs {runs[0].name}")
    usual = sum(run.lasted for run in runs) / len(runs)
    expected.put("beside the title", phrase(len(runs), " runs of an application, usually ", ms(usual)))
    read = [[summed(run.stages.values(), name) for run in runs] for name in ("inputRecords", "inputBytes")]
    durations = [ms(run.lasted) for run in runs]
    for what, values in (
        ("duration", durations), ("rows", [Number("short", each, each) for each in read[0]]),
        ("bytes", [size(each) for each in read[1]]),
    ):  # fmt: skip
        for kind in ("picture", "small picture"):
            part = f"{kind} {what} of runs"
            told = [phrase(f"{minute(run)}: ", value, ", SUCCEEDED") for run, value in zip(runs, values, strict=True)]
            axis(expected, part, max(values, key=lambda value: value.high), texts)
            expected.put(part, *told, minute(runs[0]), minute(runs[-1]))
            expected.put(f"{part} aria-label", phrase(f"{what} of ", len(runs), " runs"), *told)
    choices = [phrase(f"{minute(run)} · ", ms(run.lasted), " · SUCCEEDED") for run in reversed(runs)]
    expected.put("form", None, *choices, None, *choices)
    expected.put("form value", *[run.id for run in reversed(runs)] * 2)
    expected.table("Runs", [
        {"started": Moment(run.started), "status": "SUCCEEDED", "application": run.id, "duration": ms(run.lasted),
         "of median": times(run.lasted / usual), "rows": count(rows_read), "bytes": size(bytes_read)}
        for run, rows_read, bytes_read in reversed(list(zip(runs, *read, strict=True)))
    ])  # fmt: skip
    return expected


def comparison(before: Run, now: Run, root: Path, records: tuple[Mapping[int, Any], Mapping[int, Any]]) -> Expected:
    """Two runs side by side. `records` are those of their executions, by number (see `of_executions`)."""
    expected = placed(root)
    command(expected, f"kvwal jobs {root} --runs {now.name}")
    for name, run in (("before", before), ("now", now)):
        expected.figure(name, Moment(run.started), run.id)
    expected.table("Figures", [
        compared({"figure": name}, value(before), value(now), number)
        for name, value, number in _FIGURES if value(before) or value(now)
    ])  # fmt: skip
    slower = sorted([*_executions(before, now), *_stages(before, now)], key=lambda each: -abs(each.more))
    every = [each.cells for each in slower]
    expected.table("What got slower, or faster", every[:_MOST_ROWS], every)
    expected.table("Plans that differ", _plans(before, now, records))
    expected.table("Data", _data(before, now))
    expected.table("Settings that differ", _settings(before, now))
    return expected


def _cpu(run: Run) -> float:
    return summed(run.stages.values(), "executorCpuTime") / 1e6


def _of_stages(name: str) -> Callable[[Run], float]:
    return lambda run: summed(run.stages.values(), name)


def _about_a_millisecond(value: float) -> Number:
    return Number("ms", value - 0.5, value + 0.5)


_FIGURES: tuple[tuple[str, Callable[[Run], float], Callable[[float], Number]], ...] = (
    ("duration", lambda run: run.lasted, ms),
    ("jobs", lambda run: len(run.jobs), count),
    ("failed jobs", lambda run: len(rows.failed(list(run.jobs.values()))), count),
    ("stages", lambda run: len(run.stages), count),
    ("tasks", lambda run: sum(map(tasks_ended, run.stages.values())), count),
    ("failed tasks", _of_stages("numFailedTasks"), count),
    ("task time", _of_stages("executorRunTime"), ms),
    ("CPU", _cpu, _about_a_millisecond),
    ("garbage collection", _of_stages("jvmGcTime"), ms),
    ("scheduler delay", lambda run: summed(run.tasks_of(run.stages.values()), "schedulerDelay"), ms),
    ("read", _of_stages("inputBytes"), size),
    ("rows read", _of_stages("inputRecords"), count),
    ("written", _of_stages("outputBytes"), size),
    ("rows written", _of_stages("outputRecords"), count),
    ("shuffled", _of_stages("shuffleWriteBytes"), size),
    ("waiting for shuffled data", _of_stages("shuffleFetchWaitTime"), ms),
    ("spilled to disk", _of_stages("diskBytesSpilled"), size),
    ("core time", lambda run: run.executor["totalCores"] * (run.ended - added(run)), ms),
)


def compared(words: Cells, before: float, now: float, number: Callable[[float], Number]) -> Cells:
    """A row of two numbers, and how many times the first the second is, if neither is 0."""
    ratio = times(now / before) if before and now else None
    return {**words, "before": number(before), "now": number(now), "ratio": ratio}


class _Slower(NamedTuple):
    more: int
    cells: Cells


def matched(before: Iterable[Row], now: Iterable[Row], name: Callable[[Row], str]) -> Iterator[tuple[Row, Row]]:
    """Parts of the same name, in pairs: the first of a name with the first of the other run, and so on."""
    waiting: dict[str, list[Row]] = {}
    for row in before:
        waiting.setdefault(name(row), []).append(row)
    for row in now:
        if waiting.get(name(row)):
            yield waiting[name(row)].pop(0), row


def _executions(before: Run, now: Run) -> Iterator[_Slower]:
    for old, new in matched(before.sql.values(), now.sql.values(), description_of):
        words = {"what": f"sql {new['id']}", "description": description_of(new)}
        yield _Slower(new["duration"] - old["duration"], compared(words, old["duration"], new["duration"], ms))


def _stages(before: Run, now: Run) -> Iterator[_Slower]:
    for old, new in matched(before.stages.values(), now.stages.values(), lambda row: str(row["name"])):
        words = {"what": f"stage {new['stageId']}", "description": new["name"]}
        yield _Slower(lasted(new) - lasted(old), compared(words, lasted(old), lasted(new), ms))


def _plans(before: Run, now: Run, records: tuple[Mapping[int, Any], Mapping[int, Any]]) -> Iterator[Cells]:
    """Executions whose plans have other nodes than those before: adaptive execution may decide otherwise."""
    for old, new in matched(before.sql.values(), now.sql.values(), description_of):
        nodes = [
            Counter(node.partition(" ")[2] for node in told[sql["id"]]["nodes"])
            for told, sql in zip(records, (old, new), strict=True)
        ]
        if all(nodes) and nodes[0] != nodes[1]:
            yield {"execution": f"sql {new['id']}", "description": description_of(new),
                   "only before": _many(nodes[0] - nodes[1]), "only now": _many(nodes[1] - nodes[0])}  # fmt: skip


def _many(nodes: Counter[str]) -> str:
    return ", ".join(f"{number} × {name}" if number > 1 else name for name, number in nodes.most_common())


def _data(before: Run, now: Run) -> Iterator[Cells]:
    """The bytes of each data set that either run read or wrote."""
    sums = [_bytes_of(run) for run in (before, now)]
    for does, shown in dict.fromkeys([*sums[0], *sums[1]]):
        sides = [each.get((does, shown)) for each in sums]
        old, new = sides
        ratio = None
        if old is not None and new is not None and old.low > 0 and new.low > 0:
            ratio = Number("times", new.low / old.high - 0.005, new.high / old.low + 0.005)
        yield {"does": does, "data set": shown, "before": old, "now": new, "ratio": ratio}


def _bytes_of(run: Run) -> dict[tuple[str, str], Number]:
    found: dict[tuple[str, str], Number] = {}
    for sql in run.sql.values():
        for each in accesses.of(sql):
            key = ("writes" if each.writes else "reads", each.data_set or each.shown)
            known, more = found.get(key, size(0)), each.bytes or size(0)
            found[key] = size(0)._replace(low=known.low + more.low, high=known.high + more.high)
    return found


def _settings(before: Run, now: Run) -> Iterator[Cells]:
    old, new = (dict(run.environment["sparkProperties"]) for run in (before, now))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name) and name not in _OF_EACH_RUN:
            yield {"setting": name, "before": escaped(old.get(name, "")), "now": escaped(new.get(name, ""))}
