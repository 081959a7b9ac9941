"""What must stand on the pages of streaming queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.console.expected import Cells, Expected
from tests.support.console.page import Place, Shown
from tests.support.console.said import Moment, Number, amount, count, ms, phrase, size
from tests.support.flights.answers import Row, Run, spark_moment, summed
from tests.support.flights.of_application import framed
from tests.support.flights.of_runs import axis, command, placed

_NEVER = "1970-01-01T00:00:00.000Z"
"""Spark's word for a watermark that is not there yet."""


def of_application(run: Run, root: Path) -> Expected:
    """The page of the streaming queries of an application: one."""
    expected = framed(run, root, "Streams")
    expected.table("Streaming queries", [_row(run)])
    return expected


def of_all(runs: Sequence[Run], root: Path) -> Expected:
    """The page of the streaming queries of all applications, those of the newest first."""
    expected = placed(root)
    command(expected, f"kvwal jobs {root}")
    number = len(runs)
    told = phrase("of 1 to ", number, " of ", number, " applications: those that run first, then the latest")
    expected.put("beside the title", told)
    expected.table("Streaming queries", [{"application": run.name, **_row(run)} for run in reversed(runs)])
    return expected


def _row(run: Run) -> Cells:
    """The row of the query. Spark's live UI has its batches and when it began; its rows are in the event log only."""
    batches = run.batches
    assert (run.stream["Status"], run.stream["Latest Batch"]) == ("FINISHED", str(batches[-1]["batchId"]))
    return {
        "status": "SUCCEEDED", "query": run.stream["Name"], "started": Moment(run.stream_started),
        "batches": count(len(batches)), "rows in": count(_rows_in(batches)), "watermark": _watermark(batches[-1]),
    }  # fmt: skip


def _rows_in(batches: Sequence[Row]) -> int:
    return sum(source["numInputRows"] for batch in batches for source in batch["sources"])


def _watermark(batch: Row) -> Moment | None:
    text = batch["eventTime"]["watermark"]
    return None if text == _NEVER else Moment(spark_moment(text))


def _rate(batch: Row, name: str) -> Number:
    """Rows a second. They are recorded with three decimals."""
    (source,) = batch["sources"]
    value = source.get(name) or 0.0
    return Number("count", value - 0.0005, value + 0.0005)


def page_of(run: Run, root: Path, texts: Mapping[Place, Shown]) -> Expected:
    """The page of the streaming query. The tops of its axes are looked at in `texts`, those of the page."""
    name, batches = run.stream["Name"], run.batches
    expected = framed(run, root, name)
    last = batches[-1]
    expected.figure("started", Moment(run.stream_started))
    expected.figure("batches", count(len(batches)))
    expected.figure("rows in", count(_rows_in(batches)))
    expected.figure("last batch", ms(last["batchDuration"]), amount(_rows_in([last]), "row"))
    expected.figure("input", phrase(_rate(last, "inputRowsPerSecond"), "/s"))
    expected.figure("processed", phrase(_rate(last, "processedRowsPerSecond"), "/s"))
    held = summed(last["stateOperators"], "memoryUsedBytes")
    expected.figure("state", amount(_state(last), "row"), size(held))
    watermark = _watermark(last)
    assert watermark is not None
    expected.figure("watermark", watermark)
    rates = [_rate(batch, which) for batch in batches for which in ("inputRowsPerSecond", "processedRowsPerSecond")]
    fastest = max(rates, key=lambda rate: rate.high)._replace(kind="short")
    ends = [phrase("batch ", batches[0]["batchId"]), phrase("batch ", last["batchId"])]
    for kind in ("picture", "small picture"):
        part = f"{kind} Input and processed rate"
        axis(expected, part, fastest, texts, "/s")
        expected.put(part, *ends)
        for title, values in (
            ("Batch times", [ms(batch["batchDuration"]) for batch in batches]),
            ("Rows of state", [Number("short", _state(batch), _state(batch)) for batch in batches]),
        ):
            part = f"{kind} {title}"
            axis(expected, part, max(values, key=lambda value: value.high), texts)
            told = [phrase("batch ", each["batchId"], ": ", value) for each, value in zip(batches, values, strict=True)]
            expected.put(part, *told, *ends)
    expected.table("Batches", map(_batch_row, reversed(batches)), map(_batch_row, batches))
    return expected


def _state(batch: Row) -> int:
    return summed(batch["stateOperators"], "numRowsTotal")


def _batch_row(batch: Row) -> Cells:
    (source,) = batch["sources"]
    begun = source["startOffset"]
    assert not summed(batch["stateOperators"], "numRowsDroppedByWatermark")
    return {
        "batch": str(batch["batchId"]), "at": Moment(spark_moment(batch["timestamp"])), "duration": ms(batch["batchDuration"]),
        "rows in": count(source["numInputRows"]), "in a second": _rate(batch, "inputRowsPerSecond"),
        "processed a second": _rate(batch, "processedRowsPerSecond"), "rows of state": count(_state(batch)),
        "watermark": _watermark(batch), "offsets": f"{'–' if begun is None else begun} → {source['endOffset']}",
    }  # fmt: skip
