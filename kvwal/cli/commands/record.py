"""kvwal record: Spark's event logs into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.options import AcceptClock, Archive, Cluster, Json, Namespace, Node, Root, Where
from kvwal.errors import ConfigError, Kind, KvwalError, StoreLocked
from kvwal.spark import spool
from kvwal.spark.eventlog import reading

Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[EVENTLOG_OR_DIR]...",
        help="Event logs, or folders of them. None: what killed drivers left under ROOT.",
    ),
]


class NotAllRead(KvwalError):
    """Some of the event logs could not be read to their end."""

    kind = Kind.DAMAGE


def record(
    root: Root,
    logs: Logs = None,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Read Spark event logs into ROOT: plain, zstd, lz4 or snappy, rolling or not, finished or still being written.

    Run it again and it reads on: every event counts once. A damaged line is kept aside and counted.
    """
    where = Where(root, namespace, cluster, node, archive)
    with show.progress() as progress:
        if logs:
            with where.open(accept_clock=accept_clock) as store:
                reads = reading.record_event_logs(store, logs, progress)
        else:
            reads = _left_behind(where, accept_clock, progress)
    _tell(reads, json)
    problems = [read for read in reads if read.problem]
    if problems:
        raise NotAllRead(
            f"{problems[0].path.name}: {problems[0].problem}"
            + (f" (and {len(problems) - 1} more)" if problems[1:] else ""),
            hint="What could be read was recorded.",
        )


def _left_behind(where: Where, accept_clock: bool, progress: show.Report) -> list[reading.LogResult]:
    """What drivers left that did not close their recorder, each into the node it was recording as."""
    found = [
        one for one in spool.spools(where.root) if (one.namespace, one.cluster) == (where.namespace, where.cluster)
    ]
    reads = []
    for one in found:
        if where.node not in (None, one.node):
            continue
        try:
            with where._replace(node=one.node).open(accept_clock=accept_clock) as store:
                reads += one.read_rest(store.map(reading.BUSINESS), progress)
        except StoreLocked:
            show.note(f"{one.node} is still recording.")
    if not found:
        raise ConfigError(
            f"No driver left anything under {where.root}.", hint="Name event logs: kvwal record ROOT EVENTLOG_OR_DIR…"
        )
    return reads


def _tell(reads: list[reading.LogResult], json: bool) -> None:
    if json:
        for read in reads:
            show.json_line({**read._asdict(), "path": str(read.path)})
        return
    names = ("log", "application", "name", "events read", "damaged", "state")
    show.table(names, [
        (read.path.name, read.app, read.name, read.events, read.damaged,
         "stopped early" if read.problem else "complete" if read.complete else "still written")
        for read in reads
    ])  # fmt: skip
