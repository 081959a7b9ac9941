"""kvwal record: reads Spark event logs into a store, once or as a service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import LEAST_DURATION, AcceptClock, Json, duration_parser, path_parser
from kvwal.cli.spark.follow import follow
from kvwal.cli.spark.kept import check_alone, record_kept
from kvwal.cli.tables import print_table
from kvwal.counted import counted
from kvwal.errors import ConfigError, Kind, KvwalError, StorageFull, StoreLocked
from kvwal.hlc import second_text
from kvwal.location.opening import only_reads
from kvwal.location.parse import ArchiveLocation
from kvwal.location.readers import LocationWriter
from kvwal.spark.eventlog import log_reader
from kvwal.spark.eventlog.record_logs import record_event_logs
from kvwal.spark.follower.service import EVERY_SECONDS
from kvwal.spark.index import complete_index
from kvwal.spark.leases import no_longer_than_a_lease
from kvwal.spark.recording import spool as spools
from kvwal.spark.recording.nodes import RecorderRoot, merge_finished, shared_node
from kvwal.spark.recording.target import default_spool
from kvwal.store.sync import Store

Logs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EVENTLOG_OR_DIR]...",
        help="Event logs, or folders of them, here or behind URLs (s3://…). Without any: the events that killed drivers left"
        " in their spools. With --again: ids of applications.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="Go on reading what is written, until SIGTERM or SIGINT.")]
Every = Annotated[
    float,
    typer.Option(
        "--every",
        metavar="DURATION",
        help="With --follow: the pause between two rounds, 5s or 1m, or seconds.",
        show_default=f"{EVERY_SECONDS:g}s",
        parser=duration_parser("--every", least=LEAST_DURATION),
    ),
]
Http = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="With --follow: serve /healthz, /readyz and /metrics there."),
]


KeepLogs = Annotated[
    bool,
    typer.Option("--keep-logs", help="Keep each event log, too, as content: for `kvwal jobs --tasks` and --again."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Make the records anew from kept logs, of the named applications, or of all.")
]


class NotAllRead(KvwalError):
    """An event log could not be read to its end."""

    kind = Kind.DAMAGE


_SKIPPED_BY_NAME = 10
"""Skipped files that are named: a folder of other files would fill the terminal."""
MANY_EVENTS = 20_000
"""From this many events on, a command makes a snapshot. Without it each later command would replay about 15 MB of log."""


def record(
    selection: StoreSelection,
    logs: Logs = None,
    accept_clock: AcceptClock = False,
    spool: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the spools of recorders into a cluster, if it is not ~/.local/state/kvwal.",
            parser=path_parser("folder of --spool"),
        ),
    ] = None,
    json: Json = False,
    following: Follow = False,
    every: Every = EVERY_SECONDS,
    http: Http = None,
    keep_logs: KeepLogs = False,
    again: Again = False,
) -> None:
    """Read Spark event logs into a store: plain, gzip, zstd, lz4 or snappy, rolling or not, finished or still being written.

    Run it again and it reads on: every event counts once. A damaged line is kept aside and counted. With --follow it is a
    service, which logs to standard error, one JSON object a line.
    """
    if spool is not None and (logs or following):
        raise ConfigError(
            "--spool is for spools, and not for event logs.", hint="Leave out --spool, or the event logs."
        )
    if again:
        check_alone({"--follow": following, "--keep-logs": keep_logs, "--spool": spool is not None})
    if keep_logs and not logs:
        raise ConfigError("--keep-logs needs event logs.", hint="Name them, or folders of them: they are kept.")
    if following:
        into = replace(selection, node=_node_for_logs(selection))
        follow(lambda: into.writer(accept_clock=accept_clock), logs or [], every, http, keep_logs=keep_logs)
        return
    if http is not None:
        raise ConfigError("--http is for a service.", hint="Add --follow, or leave it out.")
    with show.progress() as progress:
        if again:
            _merge_finished(selection, progress)
            reads = record_kept(selection, _node_for_logs(selection), logs or [], accept_clock, progress)
        elif logs:
            _merge_finished(selection, progress)
            into = replace(selection, node=_node_for_logs(selection))
            with into.writer(begins=log_reader.BUSINESS, accept_clock=accept_clock) as store:
                reads = record_event_logs(store, logs, progress, keep_logs=keep_logs)
                _checkpoint_after(reads, store)
        else:
            root, found_spools = _found_spools(selection, spool)
            reads = _read_spools(selection, found_spools, accept_clock, progress)
            if not _merge_finished(selection, progress) and not found_spools:
                selection.check_there()
                raise ConfigError(  # a mistyped root must not look like one where all is done
                    f"No driver left anything under {root}.",
                    hint="Name event logs: kvwal record LOCATION EVENTLOG_OR_DIR…",
                )
    _print_reads(reads, json)
    _check_all_read(reads)


def _check_all_read(reads: list[log_reader.LogResult]) -> None:
    """Raise `NotAllRead` if a log could not be read to its end."""
    problems = [read for read in reads if read.problem]
    if problems:
        error = NotAllRead(
            f"{problems[0].path.name}: {problems[0].problem}"
            + (f" (and {len(problems) - 1} more)" if problems[1:] else ""),
            hint="What could be read was recorded.",
        )
        if not any(read.is_log for read in problems):
            error.kind = Kind.CALLER
        raise error


def _checkpoint_after(reads: list[log_reader.LogResult], store: LocationWriter) -> None:
    """Make a snapshot after many events: the next command reads that, and not the log. Nodes of a cluster make their own."""
    if not isinstance(store, Store) or sum(read.events for read in reads) < MANY_EVENTS:
        return
    try:
        store.checkpoint()
    except StorageFull as full:
        show.note(f"All records are in the log, and there is no snapshot of them yet: {full}")


def _node_for_logs(selection: StoreSelection) -> str | None:
    """The node that event logs are read into. None for a cluster, or if no shared node is needed: then the store chooses."""
    folder = selection.folder()
    if folder is None or folder.node is not None:
        return selection.node
    return shared_node(RecorderRoot(folder.root, folder.namespace, folder.cluster))


def _merge_finished(selection: StoreSelection, progress: log_reader.ReportProgress) -> bool:
    """Move the records of finished applications in a folder to the shared node, unless a node was named.

    Returns True if records moved, or if the shared node is locked.
    """
    folder = selection.folder()
    if folder is None or folder.node is not None:
        return False
    try:
        merged = merge_finished(RecorderRoot(folder.root, folder.namespace, folder.cluster), progress)
    except StoreLocked as held:
        show.note(f"The records of finished applications stay in nodes of their own: {held}")
        return True
    if merged is None:
        return False
    for node, error in merged.left.items():
        show.note(f"{node} stays a node of its own: {error}")
    if merged.nodes:
        show.note(f"The records of {len(merged.nodes):,} finished applications are in one node now.")
    return bool(merged.nodes)


def _read_spools(
    selection: StoreSelection, found_spools: list[spools.Spool], accept_clock: bool, progress: log_reader.ReportProgress
) -> list[log_reader.LogResult]:
    """Read the spools of drivers that ended without closing their recorder.

    In a folder each spool goes into its own node; in a cluster all go into its map.
    """
    folder = selection.folder()
    reads = []
    for spool in found_spools:
        if selection.node not in (None, spool.node):
            continue
        try:
            if folder is not None:
                with replace(folder, node=spool.node).open(accept_clock=accept_clock) as store:
                    records = store.map(log_reader.BUSINESS)
                    complete_index(records, spool.node)
                    reads += spool.read_rest(records, progress)
            else:
                with (
                    spool.locked(),
                    selection.writer() as cluster,
                    spool.leased(cluster.map(log_reader.BUSINESS), no_longer_than_a_lease()) as reader,
                ):
                    reads += spool.read_rest(reader.records, progress)
        except StoreLocked:
            show.note(f"{spool.node} is still recording.")
    return reads


def _found_spools(selection: StoreSelection, spool_root: Path | None) -> tuple[Path, list[spools.Spool]]:
    """The folder of the spools, and the spools there of the selected namespace and cluster. `ConfigError` for an archive."""
    if isinstance(location := selection.parsed(), ArchiveLocation):
        raise only_reads(location)
    folder = selection.folder()
    root = folder.root if folder is not None else spool_root or default_spool()
    wanted = (selection.namespace, selection.cluster)
    return root, [spool for spool in spools.spools(root) if (spool.namespace, spool.cluster) == wanted]


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
    skipped = [read for read in reads if read.skipped]
    for read in skipped[:_SKIPPED_BY_NAME]:
        show.note(f"Skipped {read.path.name}: {read.skipped}")
    if (more := len(skipped) - _SKIPPED_BY_NAME) > 0:
        show.note(f"{more:,} more were skipped. With --json each is named.")
    if kept := sum(bool(read.kept and not read.not_kept) for read in reads):
        show.note(f"{counted(kept, 'log is', 'logs are')} kept.")
    for read in reads:
        if read.not_kept:
            show.note(f"{read.path.name}: {read.not_kept}.")
        if read.replaced:
            show.note(
                f"{read.path}: a later run of {read.app}. Its records replace those of the run that started at"
                f" {second_text(read.replaced)}, which stay in the history."
            )
