"""Events of OpenLineage in files: kvwal import openlineage, and kvwal export openlineage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.commands.transfer import STANDARD_OUTPUT, write_file
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, At, Json, path_parser
from kvwal.counted import counted
from kvwal.errors import ConfigError
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import MAX_BODY, CheckedEvent, checked, parsed
from kvwal.lineage.openlineage.export import events_of_others, events_of_spark
from kvwal.lineage.openlineage.runs import BUSINESS
from kvwal.lineage.openlineage.schema import InvalidEvent, check_installed
from kvwal.location.readers import LocationReader
from kvwal.spark.index import node_of_mark
from kvwal.spark.record_reader import BUSINESS as SPARK
from kvwal.spark.record_reader import records_of

_AT_ONCE = 200


def import_openlineage(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Events of OpenLineage, one JSON object a line, as the file transport of its clients writes them.",
            show_default=False,
            parser=path_parser("file", "file"),
        ),
    ],
    selection: StoreSelection,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put the events of OpenLineage in a file into a store, each once: `kvwal lineage` shows their runs beside those of Spark.

    The whole file is checked first: if one event is not valid, nothing is stored, and the line and the place in it are named.
    """
    check_installed()
    for _ in _events(file):
        pass
    new = known = 0
    with selection.writer(begins=BUSINESS, accept_clock=accept_clock) as store:
        events = EventStore(store.map(BUSINESS), node_of_mark(store))
        for batch in _batches(_events(file)):
            stored = events.put(batch)
            new, known = new + stored.new, known + stored.known
    before = f", {counted(known, 'was', 'were')} stored before" if known else ""
    sentence = f"{counted(new, 'event was stored', 'events were stored')}{before}."
    show.answer({"stored": new, "known": known}, sentence, json)
    selection.check_archived(store)


def export_openlineage(
    selection: StoreSelection,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A new file; without it, or with -, standard output.",
            show_default=False,
            parser=path_parser("file", "file"),
        ),
    ] = None,
    job_namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The namespace of Spark's jobs; by default the store's namespace.", show_default=False
        ),
    ] = None,
    at: At = None,
) -> None:
    """Write the runs of the recorded Spark applications as events of OpenLineage, one JSON object a line, and after them the
    events that were imported.

    FILE gets its name when it is whole. A second export of the same records has the same ids.
    """
    selection.check_there()
    with selection.reader(at) as store:
        events = _exported(store, job_namespace or selection.namespace)
        if file is None or str(file) == STANDARD_OUTPUT:
            show.json_lines(events)
        else:
            show.say(f"{file}: {counted(write_file(file, events), 'event', 'events')}.")


def _exported(store: LocationReader, job_namespace: str) -> Iterator[dict[str, Any]]:
    businesses = store.businesses()
    if SPARK in businesses:
        yield from events_of_spark(records_of(store), job_namespace)
    if BUSINESS in businesses:
        yield from events_of_others(store, BUSINESS)


def _events(file: Path) -> Iterator[CheckedEvent]:
    """The events of a file. Raises `InvalidEvent` for the first that is not valid, with its line."""
    try:
        with file.open("rb") as lines:
            number = 0
            while line := lines.readline(MAX_BODY + 1):
                number += 1
                if len(line) > MAX_BODY:
                    raise InvalidEvent("$", f"it is longer than {MAX_BODY >> 20} MiB", f"{file}, line {number}")
                if line.strip():
                    yield _event(line, f"{file}, line {number}")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", hint="Check its name and its mode.") from error


def _event(line: bytes, where: str) -> CheckedEvent:
    try:
        return checked(parsed(line))
    except InvalidEvent as error:
        raise InvalidEvent(error.path, error.reason, where) from error


def _batches(events: Iterator[CheckedEvent]) -> Iterator[list[CheckedEvent]]:
    batch: list[CheckedEvent] = []
    for event in events:
        batch.append(event)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
