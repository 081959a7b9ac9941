"""kvwal record and kvwal prune: what is recorded of Spark applications, and how long it stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.job_tables import time_text
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Json, LogSelection
from kvwal.cli.tables import print_table
from kvwal.cli.text import parse_duration
from kvwal.errors import ConfigError, Kind, KvwalError, StoreLocked
from kvwal.location.opening import only_reads
from kvwal.location.parse import ArchiveLocation
from kvwal.ports.clock import SYSTEM
from kvwal.spark import retention
from kvwal.spark import spool as spools
from kvwal.spark.eventlog import log_reader
from kvwal.spark.index import complete_index
from kvwal.spark.record_reader import reader_of
from kvwal.spark.target import default_spool
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore

Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[EVENTLOG_OR_DIR]...",
        help="Event logs, or folders of them. Without any: the events that killed drivers left in their spools.",
    ),
]


class NotAllRead(KvwalError):
    """An event log could not be read to its end."""

    kind = Kind.DAMAGE


def record(
    selection: StoreSelection,
    logs: Logs = None,
    accept_clock: AcceptClock = False,
    spool: Annotated[
        Path | None,
        typer.Option(help="The folder of the spools of recorders into a cluster, if it is not ~/.local/state/kvwal."),
    ] = None,
    json: Json = False,
) -> None:
    """Read Spark event logs into a store: plain, zstd, lz4 or snappy, rolling or not, finished or still being written.

    Run it again and it reads on: every event counts once. A damaged line is kept aside and counted.
    """
    with show.progress() as progress:
        if logs:
            with selection.writer(accept_clock=accept_clock) as store:
                reads = log_reader.record_event_logs(store, logs, progress)
        else:
            reads = _read_spools(selection, spool, accept_clock, progress)
    _print_reads(reads, json)
    problems = [read for read in reads if read.problem]
    if problems:
        raise NotAllRead(
            f"{problems[0].path.name}: {problems[0].problem}"
            + (f" (and {len(problems) - 1} more)" if problems[1:] else ""),
            hint="What could be read was recorded.",
        )


def _read_spools(
    selection: StoreSelection, folder: Path | None, accept_clock: bool, progress: log_reader.ReportProgress
) -> list[log_reader.LogResult]:
    """Read the spools of drivers that ended without closing their recorder: each into the node that it recorded as, or all into
    the cluster that they recorded into.
    """
    logs = selection.folder()
    if isinstance(location := selection.parsed(), ArchiveLocation):
        raise only_reads(location)
    root = logs.root if logs is not None else folder or default_spool()
    wanted = (selection.namespace, selection.cluster)
    left_spools = [left for left in spools.spools(root) if (left.namespace, left.cluster) == wanted]
    if not left_spools:
        raise ConfigError(
            f"No driver left anything under {root}.", hint="Name event logs: kvwal record LOCATION EVENTLOG_OR_DIR…"
        )
    reads = []
    for left in left_spools:
        if selection.node not in (None, left.node):
            continue
        try:
            if logs is not None:
                with replace(logs, node=left.node).open(accept_clock=accept_clock) as store:
                    records = store.map(log_reader.BUSINESS)
                    complete_index(records, left.node)
                    reads += left.read_rest(records, progress)
            else:
                with locked(left), selection.writer() as cluster:
                    reads += left.read_rest(cluster.map(log_reader.BUSINESS), progress)
        except StoreLocked:
            show.note(f"{left.node} is still recording.")
    return reads


@contextmanager
def locked(left: spools.Spool) -> Iterator[None]:
    """Hold the lock of a spool for the block. `StoreLocked` while its driver records."""
    lock = left.lock()
    try:
        yield
    finally:
        lock.release()


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


def prune(
    selection: LogSelection,
    keep: Annotated[str, typer.Option(help="How long applications stay after their last event: 90d, 12h, 4w.")],
    name: Annotated[
        str | None, typer.Option(help="Only applications with this name; * and ? stand for any letters.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")
    ] = False,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete recorded Spark applications whose last event is older than a limit, with all of their records.

    A node that another process writes to is left out and named: run the command again later.
    """
    age = parse_duration(keep)
    if age is None:
        raise ConfigError(f"--keep {keep!r} is no duration.", hint="Give a number with its unit: 90d, 12h, 4w.")
    before = SYSTEM.wall_ms() - age
    business = _recorded(selection)
    old = retention.old_applications(reader_of(business), before, name)
    nodes = business.nodes
    prefixes = {recorded.prefix for recorded in old}
    if not dry_run:
        for node in nodes:
            _prune_node(replace(selection, node=node), prefixes, accept_clock)
    rows = [(recorded.prefix, recorded.app.name, time_text(recorded.app.last_event)) for recorded in old]
    nothing = f"No application is older than {keep}." if name is None else f"No {name!r} is older than {keep}."
    show.outcome(("would be deleted" if dry_run else "deleted", "name", "last event"), rows, json, nothing)


def _prune_node(selection: LogSelection, prefixes: set[str], accept_clock: bool) -> None:
    """Delete the applications in the log of one node. A node that has none of them, and has its index, is not opened."""
    records = reader_of(_recorded(selection))
    own = prefixes.intersection(prefix for prefix, _ in records.applications())
    if not own and records.has_index:
        return
    try:
        with selection.open(accept_clock=accept_clock) as writable:
            target = writable.map(log_reader.BUSINESS)
            complete_index(target, selection.node or "")
            retention.delete_applications(target, own)
    except StoreLocked:
        show.note(f"{selection.node} is in use; its applications stay.")


def _recorded(selection: LogSelection) -> ReadOnlyBusiness:
    """The records under a root, as the files are. Raises `ConfigError` if there are none."""
    with selection.open(read_only=True) as store:
        if not isinstance(store, ReadOnlyStore) or log_reader.BUSINESS not in store.businesses():
            raise ConfigError(
                f"No Spark application was recorded under {selection.root}.", hint="See `kvwal jobs --help`."
            )
        return store.business(log_reader.BUSINESS)
