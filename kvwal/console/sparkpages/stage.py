"""The page of one attempt of a stage: failures grouped, the distribution of task times, the slowest tasks and their hosts."""

from __future__ import annotations

from math import log2
from typing import Any

from markupsafe import Markup

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, pictures, texts
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.frame import frame
from kvwal.console.sparkpages.tasks import hosts_of, kept_tasks, slowest_tasks
from kvwal.console.sparkreads.app_records import SKEWED, one
from kvwal.scrub.units import size
from kvwal.spark.projection.task_statistics import duration_counts
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_keys import stage_key
from kvwal.spark.records import Quantiles, Stage
from kvwal.spark.records.texts import gist

_BINS = 40
_QUANTILES = ("min", "p25", "median", "p75", "p95", "max")
_QUANTILE_COLUMNS = (
    Column("metric", "over successful tasks"),
    *(
        Column(name, name, "right", wide=name in ("least", "p25", "p75"))
        for name in ("least", "p25", "median", "p75", "p95", "most")
    ),
)
_FAILURE_COLUMNS = (
    Column("count", "tasks", "count"),
    Column("message", "error", "text"),
    Column("task", "first task", "plain", wide=True),
    Column("executor", "executor", "clip", wide=True),
    Column("host", "host", "clip", wide=True),
)
_METRICS = {
    "gc_ms": "garbage collection", "peak_memory_bytes": "peak memory", "input_bytes": "read", "output_bytes": "written",
    "shuffle_read_bytes": "shuffle read", "shuffle_write_bytes": "shuffle written", "spill_memory_bytes": "spilled from memory",
    "spill_disk_bytes": "spilled to disk",
}  # fmt: skip


def stage_page(
    view: View, recorded: RecordedApplication, number: int, attempt: int, commands: tuple[str, str]
) -> Shown:
    """The page of one attempt of a stage. Its command is the first one if its tasks are known, else the second one."""
    prefix = recorded.prefix
    stage = one(view.records, stage_key(prefix, number, attempt), Stage)
    if stage is None:
        raise Refused(404, f"{prefix} has no stage {number} with an attempt {attempt}.")
    kept = kept_tasks(view.reader, prefix, number, attempt)
    failures = [
        Row({"count": each.count, "message": each.message, "task": each.task, "executor": each.executor, "host": each.host,
             "stack": each.stack}, mark="bad")
        for each in sorted(stage.failures, key=lambda each: -each.count)
    ]  # fmt: skip
    name = f"{number}.{attempt}" if attempt else str(number)
    values = {
        **frame(recorded, "stages", commands[not kept.tasks], f"Stage {name}"), "record": stage, "figures": _figures(stage),
        "job_link": "" if stage.job is None else addresses.job(prefix, stage.job), "distribution": _distribution(stage),
        "slowest": _slowest(stage), "is_skewed": stage.skew >= SKEWED, "time": _time(stage),
        "error": _error(stage), "stack": stage.error.stack if stage.error else "",
        "failed": [(each, gist(each.message)) for each in sorted(stage.failures, key=lambda each: -each.count)],
    }  # fmt: skip
    quantiles = Table("quantiles", "Quantiles", _QUANTILE_COLUMNS, _quantiles(stage), "No task of it has succeeded.")
    shown = [slowest_tasks(kept), quantiles]
    if kept.tasks:
        shown.append(hosts_of(kept.tasks))
    if failures:
        shown.append(Table("failures", "Failures of tasks", _FAILURE_COLUMNS, failures))
    return Shown("stage.html", values, shown)


def _error(stage: Stage) -> str:
    """The line that names the error of the stage; nothing where its tasks tell of the same one."""
    named = gist(stage.error.message) if stage.error else ""
    return "" if named in {gist(each.message) for each in stage.failures} else named


def _figures(stage: Stage) -> list[tuple[str, Any, str]]:
    return [
        ("started", texts.moment(stage.started), ""),
        ("duration", texts.duration(stage.duration_ms), ""),
        ("tasks", texts.count(stage.tasks), ", ".join(filter(None, (
            f"{texts.count(stage.planned)} planned" if stage.planned != stage.tasks else "",
            f"{texts.count(stage.failed)} failed" if stage.failed else "")))),
        ("task time", texts.duration(stage.run_ms), f"{texts.duration(stage.gc_ms)} in GC"),
        ("median task", texts.duration(stage.task_median_ms) if stage.buckets else "–", ""),
        ("slowest task", texts.duration(stage.task_max_ms) if stage.buckets else "–",
         f"{stage.skew:.1f} × the median" if stage.skew else ""),
        ("read", size(stage.input_bytes), texts.amount(stage.input_rows, "row")),
        ("written", size(stage.output_bytes), texts.amount(stage.output_rows, "row")),
        ("shuffle read", size(stage.shuffle_read_bytes), texts.amount(stage.shuffle_read_rows, "row")),
        ("shuffle written", size(stage.shuffle_write_bytes), texts.amount(stage.shuffle_write_rows, "row")),
        ("spilled", size(stage.spill_disk_bytes), "to disk"),
    ]  # fmt: skip


def _time(stage: Stage) -> Markup:
    """Where the time of its tasks went."""
    cpu, waiting = min(round(stage.cpu_ms), stage.run_ms), min(stage.shuffle_wait_ms, stage.run_ms)
    other = max(0, stage.run_ms - cpu - stage.gc_ms - waiting)
    values = (("CPU", cpu, "c1"), ("garbage collection", stage.gc_ms, "c5"), ("waiting for shuffled data", waiting, "c4"),
              ("reading, writing, Python", other, "c2"), ("scheduler delay", stage.scheduler_delay_ms, "c3"))  # fmt: skip
    parts = [pictures.Part(name, ms, texts.duration(ms), colour) for name, ms, colour in values]
    return pictures.parts_bar(parts, "Where the time of the tasks went")


def _slowest(stage: Stage) -> str:
    """What explains the time of the slowest task, as far as the record has it."""
    slowest = stage.slowest
    if slowest is None:
        return ""
    read = slowest.input_bytes + slowest.shuffle_read_bytes
    where = f"on {slowest.host}" if slowest.host else f"on executor {slowest.executor}"
    partition = f" (partition {slowest.partition})" if slowest.partition >= 0 else ""
    return f"slowest: task {slowest.task}{partition}, {texts.duration(slowest.ms)} {where}, {size(read)} read"


def _distribution(stage: Stage) -> Markup:
    """How many tasks took how long. The bins are as wide as each other; those of a skewed stage grow."""
    counts = duration_counts(stage)
    if not counts:
        return Markup("")
    least, most = counts[0][0], max(counts[-1][0], counts[0][0] + 1)
    grows = most / max(1, least) > 20
    bins = [0] * _BINS
    edges = [_edge(least, most, number, grows) for number in range(_BINS + 1)]
    for ms, count in counts:
        share = (
            log2(ms / max(1, least) or 1) / log2(most / max(1, least))
            if grows and ms
            else (ms - least) / (most - least)
        )
        bins[min(_BINS - 1, max(0, int(share * _BINS)))] += count
    shown = [
        (texts.duration(edges[number]), count,
         f"{texts.amount(count, 'task')} from {texts.duration(edges[number])} to {texts.duration(edges[number + 1])}")
        for number, count in enumerate(bins)
    ]  # fmt: skip
    return pictures.histogram(shown, "Successful tasks by their durations")


def _edge(least: int, most: int, number: int, grows: bool) -> float:
    share = number / _BINS
    return max(1, least) * (most / max(1, least)) ** share if grows else least + (most - least) * share


def _quantiles(stage: Stage) -> list[Row]:
    durations = Quantiles(stage.task_min_ms, stage.task_p25_ms, stage.task_median_ms, stage.task_p75_ms, stage.task_p95_ms,
                          stage.task_max_ms)  # fmt: skip
    if not stage.buckets:
        return []
    rows = [_quantile_row("duration", durations, is_time=True)]
    if stage.quantiles is not None:
        for name, told in _METRICS.items():
            found = getattr(stage.quantiles, name)
            if found is not None:
                rows.append(_quantile_row(told, found, is_time=name.endswith("_ms")))
    return rows


def _quantile_row(name: str, found: Quantiles, *, is_time: bool) -> Row:
    text = texts.duration if is_time else size
    shown = ("least", "p25", "median", "p75", "p95", "most")
    numbers = {
        f"{column}_{'ms' if is_time else 'bytes'}": getattr(found, key)
        for column, key in zip(shown, _QUANTILES, strict=True)
    }
    return Row(
        {
            "metric": name,
            **{column: text(getattr(found, key)) for column, key in zip(shown, _QUANTILES, strict=True)},
            **numbers,
        }
    )
