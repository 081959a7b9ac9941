"""The pages of streaming queries: those of applications, and one with its rates, batches, state and watermark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, pictures, texts
from kvwal.console.pages.pictures import Point, Scale
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Link, Pager, Row, Table, page_number
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.application import failure_of
from kvwal.console.sparkpages.frame import frame
from kvwal.console.sparkreads.app_records import decoded, one
from kvwal.console.sparkreads.listing import Listed, listing
from kvwal.scrub.units import size
from kvwal.spark.queries import RecordedApplication, RecordedFailure
from kvwal.spark.record_keys import batch_part, stream_key
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Batch, Stream

BATCHES = 100
"""Batches of a query that a page shows: the last ones."""
_APPLICATIONS = 20
_MOST_STREAMS = 200
_SMALL = 5_000
"""Records of an application that are read to find its streaming queries among them."""
_COLUMNS = (
    Column("status", "status", "status"),
    Column("name", "query"),
    Column("application", "application"),
    Column("started", "started", "moment", wide=True),
    Column("batches", "batches", "count"),
    Column("input_rows", "rows in", "count"),
    Column("watermark", "watermark", "iso", wide=True),
    Column("error", "error", "text", wide=True),
)
_BATCH_COLUMNS = (
    Column("batch", "batch", "plain"),
    Column("at", "at", "moment"),
    Column("duration_ms", "duration", "duration"),
    Column("input_rows", "rows in", "count"),
    Column("input_rows_per_second", "in a second", "rate", wide=True),
    Column("processed_rows_per_second", "processed a second", "rate", wide=True),
    Column("state_rows", "rows of state", "count", wide=True),
    Column("late_rows", "late rows", "some", wide=True),
    Column("watermark", "watermark", "iso", wide=True),
    Column("offsets", "offsets", "text", wide=True),
)


def streams_page(view: View, query: Mapping[str, str], link: Link, command: str) -> Shown:
    """The page of the streaming queries of applications: of those that run, and of 20 others at a time, the latest first."""
    every = view.made_of_records(listing).every
    ordered = sorted(every, key=lambda each: each.app.status != "RUNNING")  # stable: newest first in each half
    number = page_number(query, len(ordered), _APPLICATIONS)
    looked_at = ordered[(number - 1) * _APPLICATIONS : number * _APPLICATIONS]
    found = _streams_of_all(view.records, sorted(each.prefix for each in every), looked_at)
    rows = [
        stream_row(RecordedApplication(each.prefix, each.app), stream)
        for each in looked_at for stream in found.get(each.prefix, ())
    ]  # fmt: skip
    pager = Pager.of(number, len(ordered), _APPLICATIONS, link, "applications")
    table = Table(
        "streams", "Streaming queries", _COLUMNS, rows, "None of these applications ran a streaming query.", pager
    )
    values = {"title": "Streams", "command": command, "place": pager.place if ordered else "",
              "live": any(row.values["status"] == "RUNNING" for row in rows)}  # fmt: skip
    return Shown("streams.html", values, [table])


def _streams_of_all(records: RecordReader, prefixes: list[str], wanted: Sequence[Listed]) -> dict[str, list[Stream]]:
    """The streaming queries of several applications. Small neighbours are one range, since each costs a read of the log."""
    found: dict[str, list[Stream]] = {}
    place = {prefix: number for number, prefix in enumerate(prefixes)}
    group: list[str] = []
    for each in sorted(wanted, key=lambda each: each.prefix):
        if each.app.jobs + each.app.stages + each.app.sql > _SMALL:
            found[each.prefix] = streams_of(records, each.prefix)
            continue
        if group and place[each.prefix] != place[group[-1]] + 1:
            _read_group(records, group, found)
            group = []
        group.append(each.prefix)
    if group:
        _read_group(records, group, found)
    return found


def _read_group(records: RecordReader, prefixes: list[str], found: dict[str, list[Stream]]) -> None:
    """The streaming queries of applications whose keys are neighbours."""
    for stored in records.between(f"{prefixes[0]}/", f"{prefixes[-1]}0"):
        prefix, _, query = stored.key.partition("/stream/")
        if query and "/" not in query and (stream := decoded(stored, Stream)) is not None:
            found.setdefault(prefix, []).append(stream)


def streams_of(records: RecordReader, prefix: str) -> list[Stream]:
    """The streaming queries of an application. Its batches lie between them, so a query with very many of them is read around."""
    found: list[Stream] = []
    folder, end = f"{prefix}/stream/", f"{prefix}/stream0"
    low = folder
    while len(found) < _MOST_STREAMS:
        stored = next(records.between(low, end), None)
        if stored is None:
            break
        query = stored.key[len(folder) :].partition("/")[0]
        if stored.key == f"{folder}{query}" and (stream := decoded(stored, Stream)) is not None:
            found.append(stream)
        low = f"{folder}{query}0"  # after all keys of its batches
    return found


def stream_row(recorded: RecordedApplication, stream: Stream) -> Row:
    """The row of a streaming query."""
    values = {
        "status": stream.status, "name": stream.name or stream.id, "application": recorded.app.name or recorded.prefix,
        "started": stream.started, "batches": stream.batches, "input_rows": stream.input_rows, "watermark": stream.watermark,
        "error": stream.error.message.partition("\n")[0] if stream.error else None, "id": stream.id, "prefix": recorded.prefix,
    }  # fmt: skip
    links = {"name": addresses.stream(recorded.prefix, stream.id), "application": addresses.app(recorded.prefix)}
    return Row(values, links, mark="bad" if stream.status == "FAILED" else "")


def streams_of_application(records: RecordReader, recorded: RecordedApplication, command: str) -> Shown:
    """The page of the streaming queries of one application."""
    columns = tuple(column for column in _COLUMNS if column.key != "application")
    rows = [stream_row(recorded, stream) for stream in streams_of(records, recorded.prefix)]
    table = Table("streams", "Streaming queries", columns, rows, "It ran no streaming query.")
    return Shown(
        "list.html", {**frame(recorded, "streams", command, "Streams"), "filters": False, "chips": []}, [table]
    )


def stream_page(records: RecordReader, recorded: RecordedApplication, query: str, command: str) -> Shown:
    """The page of one streaming query, with its last batches."""
    stream = one(records, stream_key(recorded.prefix, query), Stream)
    if stream is None:
        raise Refused(404, f"{recorded.prefix} has no streaming query {query[:200]!r}.")
    folder = stream_key(recorded.prefix, query)
    first = max(0, stream.last_batch - BATCHES + 1)
    stored = records.between(f"{folder}/{batch_part(first)}", f"{folder}0")
    batches = [batch for each in stored if (batch := decoded(each, Batch)) is not None]
    title = stream.name or stream.id
    failure = None
    if stream.error is not None:
        failure = failure_of(RecordedFailure(recorded.prefix, recorded.app, "query", stream.ended, title, stream.error))
    values = {
        **frame(recorded, "streams", command, title), "record": stream, "failure": failure, "figures": _figures(stream, batches),
        "rates": _rates(batches),
        "durations": _line(
            batches, [each.duration_ms for each in batches], "Batch times", texts.round_duration, pictures.duration_ceiling
        ),
        "state": _line(batches, [each.state_rows for each in batches], "Rows of state", texts.short, pictures.nice_ceiling),
    }  # fmt: skip
    rows = [_batch_row(batch) for batch in reversed(batches)]
    note = f"the last {BATCHES}" if first else ""

    def every() -> list[Row]:
        return [
            _batch_row(batch) for each in records.between(f"{folder}/", f"{folder}0") if (batch := decoded(each, Batch))
        ]

    return Shown(
        "stream.html",
        values,
        [Table("batches", "Batches", _BATCH_COLUMNS, rows, "No batch is recorded.", None, every, note)],
    )


def _figures(stream: Stream, batches: Sequence[Batch]) -> list[tuple[str, Any, str]]:
    last = batches[-1] if batches else Batch()
    return [
        ("started", texts.moment(stream.started), ""),
        ("batches", texts.count(stream.batches), ""),
        ("rows in", texts.count(stream.input_rows), ""),
        ("last batch", texts.duration(last.duration_ms), texts.amount(last.input_rows, "row")),
        ("input", f"{texts.rate(last.input_rows_per_second or 0)}/s", "in the last batch"),
        ("processed", f"{texts.rate(last.processed_rows_per_second or 0)}/s", "in the last batch"),
        ("state", texts.amount(last.state_rows, "row"), size(last.state_bytes)),
        (
            "watermark",
            texts.iso_moment(stream.watermark),
            f"{texts.count(last.late_rows)} late rows" if last.late_rows else "",
        ),
    ]


def _rates(batches: Sequence[Batch]) -> Markup:
    """Rows that came in, and rows that could be processed, a second: two lines on one scale."""
    rates = [((each.input_rows_per_second or 0.0), (each.processed_rows_per_second or 0.0)) for each in batches]
    top = pictures.nice_ceiling(max((rate for pair in rates for rate in pair), default=0.0))
    if len(batches) < 2:
        return Markup("")
    scale = Scale(top, (f"{texts.short(top)}/s", f"{texts.short(top / 2)}/s", "0"))
    ends = (f"batch {batches[0].batch}", f"batch {batches[-1].batch}")
    return pictures.lines(
        [[pair[0] for pair in rates], [pair[1] for pair in rates]], scale, ends, "Input and processed rate"
    )


def _line(
    batches: Sequence[Batch], values: Sequence[float], title: str, text: texts.Form, ceiling: Callable[[float], float]
) -> Markup:
    if not batches or not any(values):
        return Markup("")
    top = ceiling(max(values))
    points = [
        Point(each.at, value, f"batch {each.batch}: {text(value)}") for each, value in zip(batches, values, strict=True)
    ]
    ends = (f"batch {batches[0].batch}", f"batch {batches[-1].batch}")
    return pictures.trend(
        points, Scale(top, (text(top), text(top / 2), "0")), ends, title, height=130, width=pictures.HALF
    )


def _batch_row(batch: Batch) -> Row:
    offsets = ", ".join(f"{each.start or '–'} → {each.end}" for each in batch.sources)
    values = {name: getattr(batch, name) for name in (
        "batch", "at", "duration_ms", "input_rows", "input_rows_per_second", "processed_rows_per_second", "state_rows",
        "state_bytes", "late_rows", "watermark", "steps_ms", "output_rows", "sink",
    )}  # fmt: skip
    return Row({**values, "offsets": offsets})
