"""kvwal prune: deletes recorded Spark applications, and imported runs of OpenLineage, that are older than a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Json, LogSelection, duration_parser
from kvwal.cli.spark.job_tables import time_text
from kvwal.errors import ConfigError, StoreLocked
from kvwal.lineage.openlineage.retention import OldEvents, delete_events, old_events, subjects_of
from kvwal.lineage.openlineage.runs import BUSINESS as OPENLINEAGE
from kvwal.location.cluster import ClusterMaps
from kvwal.ports.clock import SYSTEM
from kvwal.spark import retention
from kvwal.spark.eventlog import log_reader
from kvwal.spark.index import complete_index, node_of_mark
from kvwal.spark.kept.contents import KEPT_LOGS, contents_of, every_kept_log
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_reader import ClusterRecords, reader_of
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore

_Row = tuple[str, str, str]
_keep_seconds = duration_parser("--keep", plain=None)


def prune(
    selection: StoreSelection,
    keep: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long applications and runs stay after their last event: 90d, 12h, 4w."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Only applications and jobs with this name; * and ? stand for any letters.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")
    ] = False,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete recorded Spark applications whose last event is older than a limit, with all of their records and kept logs, and
    imported runs of OpenLineage with their events.

    A node of a folder that another process writes to is left out and named: run the command again later.
    """
    before = SYSTEM.wall_ms() - round(_keep_seconds(keep) * 1000)
    folder = selection.folder()
    if folder is None:
        rows = _prune_cluster(selection, before, name, dry_run)
    else:
        rows = _prune_folder(folder, before, name, dry_run, accept_clock)
    nothing = f"No application is older than {keep}." if name is None else f"No {name!r} is older than {keep}."
    show.outcome(("would be deleted" if dry_run else "deleted", "name", "last event"), rows, json, nothing)


def _prune_cluster(selection: StoreSelection, before: int, name: str | None, dry_run: bool) -> list[_Row]:
    """Delete what is older than a time in a cluster. Returns a row for each application and each run."""
    rows: list[_Row] = []
    with selection.writer() as store:
        there = store.businesses()
        if isinstance(store, ClusterMaps) and OPENLINEAGE not in there:
            store.check_there(log_reader.BUSINESS)
        if log_reader.BUSINESS in there:
            target = store.map(log_reader.BUSINESS)
            old = retention.old_applications(reader_of(ClusterRecords(target.entries)), before, name)
            rows += map(_row, old)
            if not dry_run:
                complete_index(target, node_of_mark(store))
                if KEPT_LOGS in there:
                    kept = contents_of(store)
                    retention.delete_kept_logs(kept, target, {recorded.prefix for recorded in old}, before)
                retention.delete_applications(target, {recorded.prefix for recorded in old}, before)
        if OPENLINEAGE in there:
            events = store.map(OPENLINEAGE)
            found = old_events(events, before, name)
            rows += map(_row_of_events, found)
            if not dry_run:
                delete_events(events, [each.subject for each in found], before)
    return rows


def _prune_folder(folder: LogSelection, before: int, name: str | None, dry_run: bool, accept_clock: bool) -> list[_Row]:
    """Delete what is older than a time under a root. Returns a row for each application and each run, also of nodes in use."""
    folder.logs(closed=set())
    rows: list[_Row] = []
    events = _business(folder, OPENLINEAGE)
    if events is None or _business(folder, log_reader.BUSINESS) is not None:
        business = _recorded(folder)
        old = retention.old_applications(reader_of(business), before, name)
        prefixes = {recorded.prefix for recorded in old}
        rows += map(_row, old)
        if not dry_run:
            _prune_kept_logs(folder, prefixes, before, accept_clock)
            for node in business.nodes:
                _prune_node(replace(folder, node=node), prefixes, before, accept_clock)
    if events is not None:
        found = old_events(events, before, name)
        rows += map(_row_of_events, found)
        if found and not dry_run:
            for node in events.nodes:
                _prune_events(replace(folder, node=node), [each.subject for each in found], before, accept_clock)
    return rows


def _row(recorded: RecordedApplication) -> _Row:
    return recorded.prefix, recorded.app.name, time_text(recorded.app.last_event)


def _row_of_events(old: OldEvents) -> _Row:
    return old.subject, old.job, time_text(old.at)


def _prune_events(selection: LogSelection, subjects: list[str], before: int, accept_clock: bool) -> None:
    """Delete the old events of these subjects in the log of one node. A node that has none of them is not opened."""
    business = _business(selection, OPENLINEAGE)
    own = [] if business is None else sorted(set(subjects).intersection(subjects_of(business)))
    if not own:
        return
    try:
        with selection.open(accept_clock=accept_clock) as writable:
            delete_events(writable.map(OPENLINEAGE), own, before)
    except StoreLocked:
        show.note(f"{selection.node} is in use; its events stay.")


def _prune_kept_logs(folder: LogSelection, prefixes: set[str], before: int, accept_clock: bool) -> None:
    """Delete the kept logs of these applications. A node that has none of them is not opened."""
    with folder.open(read_only=True) as store:
        if KEPT_LOGS not in store.businesses() or not isinstance(store, ReadOnlyStore):
            return
        nodes = store.read_business(KEPT_LOGS).nodes
    for node in nodes:
        selection = replace(folder, node=node)
        with selection.open(read_only=True) as store:
            own = prefixes.intersection(name.prefix for name in every_kept_log(contents_of(store)))
        if not own:
            continue
        try:
            with selection.open(accept_clock=accept_clock) as writable:
                retention.delete_kept_logs(contents_of(writable), writable.map(log_reader.BUSINESS), own, before)
        except StoreLocked:
            show.note(f"{node} is in use; its kept logs stay.")


def _prune_node(selection: LogSelection, prefixes: set[str], before: int, accept_clock: bool) -> None:
    """Delete the applications in the log of one node. A node that has none of them, and has its index, is not opened."""
    records = reader_of(_recorded(selection))
    own = prefixes.intersection(prefix for prefix, _ in records.applications())
    if not own and records.has_index:
        return
    try:
        with selection.open(accept_clock=accept_clock) as writable:
            target = writable.map(log_reader.BUSINESS)
            complete_index(target, selection.node or "")
            retention.delete_applications(target, own, before)
    except StoreLocked:
        show.note(f"{selection.node} is in use; its applications stay.")


def _recorded(selection: LogSelection) -> ReadOnlyBusiness:
    """The records under a root, as the files are. Raises `ConfigError` if there are none."""
    business = _business(selection, log_reader.BUSINESS)
    if business is None:
        raise ConfigError(f"No Spark application was recorded under {selection.root}.", hint="See `kvwal jobs --help`.")
    return business


def _business(selection: LogSelection, name: str) -> ReadOnlyBusiness | None:
    """A business under a root, as the files are; None if it is not there."""
    with selection.open(read_only=True) as store:
        if not isinstance(store, ReadOnlyStore) or name not in store.businesses():
            return None
        return store.read_business(name)
