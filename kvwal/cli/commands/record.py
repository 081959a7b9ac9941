"""kvwal record: reads Spark's event logs into a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.options import AcceptClock, Json, LogSelection
from kvwal.cli.tables import print_table
from kvwal.errors import ConfigError, Kind, KvwalError, StoreLocked
from kvwal.spark import spool
from kvwal.spark.eventlog import log_reader
from kvwal.spark.index import complete_index

Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[EVENTLOG_OR_DIR]...",
        help="Event logs, or folders of them. Without any: the events that killed drivers left under ROOT.",
    ),
]


class NotAllRead(KvwalError):
    """An event log could not be read to its end."""

    kind = Kind.DAMAGE


def record(
    selection: LogSelection,
    logs: Logs = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Read Spark event logs into ROOT: plain, zstd, lz4 or snappy, rolling or not, finished or still being written.

    Run it again and it reads on: every event counts once. A damaged line is kept aside and counted.
    """
    with show.progress() as progress:
        if logs:
            with selection.open(accept_clock=accept_clock) as store:
                reads = log_reader.record_event_logs(store, logs, progress)
        else:
            reads = _read_spools(selection, accept_clock, progress)
    _print_reads(reads, json)
    problems = [read for read in reads if read.problem]
    if problems:
        raise NotAllRead(
            f"{problems[0].path.name}: {problems[0].problem}"
            + (f" (and {len(problems) - 1} more)" if problems[1:] else ""),
            hint="What could be read was recorded.",
        )


def _read_spools(
    selection: LogSelection, accept_clock: bool, progress: log_reader.ReportProgress
) -> list[log_reader.LogResult]:
    """Read the spools of drivers that ended without closing their recorder, each into the node that it recorded as."""
    wanted = (selection.namespace, selection.cluster)
    spools = [left for left in spool.spools(selection.root) if (left.namespace, left.cluster) == wanted]
    reads = []
    for left in spools:
        if selection.node not in (None, left.node):
            continue
        try:
            with replace(selection, node=left.node).open(accept_clock=accept_clock) as store:
                records = store.map(log_reader.BUSINESS)
                complete_index(records, left.node)
                reads += left.read_rest(records, progress)
        except StoreLocked:
            show.note(f"{left.node} is still recording.")
    if not spools:
        raise ConfigError(
            f"No driver left anything under {selection.root}.",
            hint="Name event logs: kvwal record ROOT EVENTLOG_OR_DIR…",
        )
    return reads


def _print_reads(reads: list[log_reader.LogResult], json: bool) -> None:
    if json:
        for read in reads:
            show.json_line({**read._asdict(), "path": str(read.path)})
        return
    names = ("log", "application", "name", "events read", "damaged", "state")
    print_table(names, [
        (read.path.name, read.app, read.name, read.events, read.damaged,
         "stopped early" if read.problem else "complete" if read.complete else "still written")
        for read in reads if not read.skipped
    ])  # fmt: skip
    for read in reads:
        if read.skipped:
            show.note(f"Skipped {read.path.name}: {read.skipped}")
