"""Commands on the archive: archive run, list, verify, rewrite (compaction), base, gc; and restore."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

import typer

import kvwal
import kvwal.spark
from kvwal.cli import show
from kvwal.cli.nodes import answer_for_nodes, run_on_nodes
from kvwal.cli.options import (
    ALL,
    AcceptClock,
    AnyNamespace,
    Archive,
    At,
    Cluster,
    Json,
    LogSelection,
    Namespace,
    Node,
    Resume,
    archive_of,
    duration_parser,
    scrub_notes,
)
from kvwal.cli.spark.session import SparkMaster, spark_session
from kvwal.cli.tables import print_table
from kvwal.cli.text import parse_moment
from kvwal.config import Settings
from kvwal.counted import counted
from kvwal.errors import ArchiveError, ConfigError
from kvwal.hlc import to_text
from kvwal.key_class import EVENTS
from kvwal.location.archived import check_archive_folder, not_archived, places_under
from kvwal_archive import spark as archive_spark
from kvwal_archive.bases.check import verify_bases
from kvwal_archive.bases.collect import gc_bases
from kvwal_archive.bases.local import make_base
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.layout import Place
from kvwal_archive.lost_tails import lost_tails, sentence
from kvwal_archive.maintenance.compaction import gc, plan, rewrite
from kvwal_archive.maintenance.events import Apart
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.verify import verify

R = TypeVar("R")
QUICKER_ON_SPARK = 1 << 30
"""From so many bytes of keys and values on eight cores of Spark are quicker, the start of their session included: one process
compacts 75 MB a second, a core of Spark 41 MB, and a session starts in 8 s (benchmarks/results/archive_rewrite.json)."""
Source = Annotated[str, typer.Argument(metavar="ROOT|URL", help="A store, or the archive itself.", show_default=False)]


@dataclass(frozen=True)
class ArchiveSelection:
    """Bundle: an archive, and which of the logs in it."""

    source: Source
    namespace: AnyNamespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    def objects(self) -> Objects:
        """The archive of the root that `source` names, or the archive at the URL or folder `source` itself."""
        if self.archive == "none":
            raise ConfigError("--archive none leaves nothing to look at.", hint="Name the archive's folder or URL.")
        return archive_of(self.source, self.archive) or open_objects(self.source)

    def places(self, objects: Objects) -> list[Place]:
        """The selected logs, sorted. Raises `ConfigError` if there is none."""
        return places_of(objects, self.namespace, self.cluster, self.node)

    def on_spark(self, master: str, objects: Objects, work: Callable[..., R]) -> list[R]:
        """The results of work of `kvwal_archive.spark` on each selected business. Raises `ConfigError` with a node selected."""
        if self.node is not None:
            raise _of_all_nodes("Work on Spark")
        businesses = businesses_of(self.places(objects))
        with spark_session(master) as spark:
            return [
                work(spark, objects.address, namespace=namespace, cluster=cluster, business=business)
                for namespace, cluster, business in businesses
            ]


def businesses_of(places: Iterable[Place]) -> list[tuple[str, str, str]]:
    """Namespace, cluster and business of these logs, sorted."""
    return sorted({(place.namespace, place.cluster, place.business) for place in places})


def _of_all_nodes(what: str) -> ConfigError:
    return ConfigError(f"{what} is of all nodes of a map, and --node names one.", hint="Leave --node out.")


def places_of(objects: Objects, namespace: str, cluster: str, node: str | None) -> list[Place]:
    """The selected logs of an archive, sorted. Raises `ConfigError` if none is selected: see `not_archived`."""
    check_archive_folder(objects)
    listed = places_under(objects, "" if namespace == ALL else f"{namespace}/{cluster}/")
    selected = [
        p for p in listed if p.cluster == cluster and namespace in (ALL, p.namespace) and node in (None, p.node)
    ]
    if not selected:
        raise not_archived(objects, namespace=None if namespace == ALL else namespace, cluster=cluster, node=node)
    return selected


def now_ms() -> int:
    """Now by the wall clock, in unix milliseconds."""
    return time.time_ns() // 1_000_000


def archive_run(selection: LogSelection, accept_clock: AcceptClock = False, json: Json = False) -> None:
    """Seal the log up to now, archive it, and return when the archive has confirmed it. Without --node: on every node."""
    outcomes = run_on_nodes(selection, accept_clock, lambda store: store.archive())
    answer_for_nodes(selection, outcomes, ("is archived", "are archived"), "archived", json)


def archive_list(selection: ArchiveSelection, json: Json = False) -> None:
    """List the live objects, each with the range that it covers."""
    objects = selection.objects()
    names = ["namespace", "business", "node", "first", "last", "horizon", "rows", "bytes", "newest"]
    places = selection.places(objects)
    show.table_or_json(names, listed(objects, places), json)
    for where in businesses_of(places):
        for tail in lost_tails(objects, *where, None if selection.node is None else [selection.node]):
            show.note(sentence(tail))


def listed(objects: Objects, places: list[Place]) -> Iterator[tuple[str | int, ...]]:
    """A row for each live object."""
    for place in places:
        for info in live_objects(objects, place):
            footer = info.footer
            horizon = to_text(info.span.horizon) if info.span.horizon else ""
            newest = to_text(footer.max_timestamp)
            span = (info.span.first, info.span.last, horizon)
            yield place.namespace, place.business, place.node, *span, footer.rows, info.size, newest


def archive_verify(
    selection: ArchiveSelection, resume: Resume = None, spark: SparkMaster = None, json: Json = False
) -> None:
    """Read every object and check it: checksums, names, order, gaps, the chain of seals. Exit code 4 on any finding."""
    objects = selection.objects()
    places = selection.places(objects)
    if spark is not None:
        if resume is not None:
            raise ConfigError("--resume and --spark do not go together.", hint="Choose one of them.")
        reports = selection.on_spark(spark, objects, archive_spark.verify)
    else:
        with show.progress() as report, scrub_notes(resume, f"the archive {objects.url}") as notes:
            reports = [verify(objects, place, report, notes) for place in places]
            if selection.node is None:
                reports += [verify_bases(objects, *where, report, notes) for where in businesses_of(places)]
    findings = [finding for result in reports for finding in result.findings]
    checked, rows = sum(result.objects_checked for result in reports), sum(result.rows for result in reports)
    if findings or json:
        show.table_or_json(["kind", "key", "finding"], findings, json)
    if not json:
        show.say(
            f"{counted(checked, 'object')} with {counted(rows, 'row')} were read; {counted(len(findings), 'finding')}."
        )
    if findings:
        raise typer.Exit(show.DAMAGED)


def archive_rewrite(
    selection: ArchiveSelection,
    history: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            help="How long every change is kept: 7d, 12h, or days.",
            show_default=f"{Settings().history_seconds / 86_400:g}d",
            parser=duration_parser("--history", plain="d"),
        ),
    ] = Settings().history_seconds,
    force: Annotated[bool, typer.Option(help="Rewrite every object, even if it is not worth it.")] = False,
    spark: SparkMaster = None,
    json: Json = False,
) -> None:
    """Merge small objects and drop history that is old enough. The replaced objects stay until gc."""
    objects = selection.objects()
    history_ms = int(history * 1000)
    if spark is not None:
        compact = partial(archive_spark.rewrite, history_ms=history_ms, force=force)
        made = selection.on_spark(spark, objects, compact)
    else:
        objects = objects.for_one_look()
        places = selection.places(objects)
        _note_on_size(objects, places, history_ms, force)
        compact = partial(rewrite, objects, history_ms=history_ms, force=force, apart=Apart(EVENTS))
        with show.progress() as report:
            made = [compact(place, now_ms=now_ms(), progress=report) for place in places]
    lines = [(new.key, new.rows, new.size) for stored in made for new in stored]
    show.outcome(["object", "rows", "bytes"], lines, json, "Nothing is worth a rewrite.")


def _note_on_size(objects: Objects, places: list[Place], history_ms: int, force: bool) -> None:
    """Say on stderr that Spark would be quicker, if the compactions of these logs read that much."""
    plans = (
        plan(live_objects(objects, place), now_ms=now_ms(), history_ms=history_ms, force=force) for place in places
    )
    size = sum(info.footer.data_bytes for jobs in plans for job in jobs for info in job.inputs)
    if size >= QUICKER_ON_SPARK:
        show.note(
            f"{size / (1 << 30):.1f} GiB of keys and values are to be compacted, by this process alone."
            " Eight cores of Spark or more would be quicker: --spark MASTER."
        )


def archive_base(selection: ArchiveSelection, spark: SparkMaster = None, json: Json = False) -> None:
    """Make a base of each map: the latest entry of every key, over all nodes. Reads and restores begin with it."""
    objects = selection.objects()
    if spark is not None:
        bases = selection.on_spark(spark, objects, archive_spark.base)
    elif selection.node is not None:
        raise _of_all_nodes("A base")
    else:
        with show.progress() as report:
            bases = [make_base(objects, *where, progress=report) for where in businesses_of(selection.places(objects))]
    lines = [
        (base.key, sum(part.footer.rows for part in base.parts), sum(part.size for part in base.parts))
        for base in bases
    ]
    show.table_or_json(["base", "rows", "bytes"], lines, json)


def archive_gc(
    selection: ArchiveSelection,
    grace: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            help="How long a superseded object is kept for readers: 90s, 1h, or seconds.",
            show_default=f"{Settings().gc_grace_seconds / 3_600:g}h",
            parser=duration_parser("--grace"),
        ),
    ] = Settings().gc_grace_seconds,
    spark: SparkMaster = None,
    json: Json = False,
) -> None:
    """Delete objects and bases that a newer one supersedes, once that one was read back and checked."""
    objects = selection.objects()
    grace_ms = int(grace * 1000)
    if spark is not None:
        removed = selection.on_spark(spark, objects, partial(archive_spark.gc, grace_ms=grace_ms))
    else:
        with show.progress() as report:
            places = selection.places(objects)
            removed = [gc(objects, place, now_ms=now_ms(), grace_ms=grace_ms, progress=report) for place in places]
            if selection.node is None:
                businesses = businesses_of(places)
                for remove in (gc_bases, gc_contents):
                    removed += [remove(objects, *where, now_ms=now_ms(), grace_ms=grace_ms) for where in businesses]
    lines = [(key,) for keys in removed for key in keys]
    show.outcome(["deleted"], lines, json, "Nothing is superseded and old enough.")


def restore(
    archive: Annotated[str, typer.Argument(metavar="URL", help="The archive: a folder or a URL.", show_default=False)],
    root: Annotated[
        str,
        typer.Argument(
            metavar="ROOT",
            help="The folder of the new store; it must be empty. With --spark also a running cluster, kvwal://host:port.",
            show_default=False,
        ),
    ],
    at: At = None,
    take_over: Annotated[bool, typer.Option(help="Continue the node's log and fence the old one.")] = False,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    spark: SparkMaster = None,
    json: Json = False,
) -> None:
    """Make a fresh store from the archive alone."""
    moment = parse_moment(at) if at is not None else None
    if spark is None and root.startswith("kvwal://"):
        raise ConfigError(f"{root} is a cluster.", hint="Restore into it with --spark MASTER, or name a new folder.")
    try:
        with show.progress() as progress, ExitStack() as sessions:
            work = (
                partial(kvwal.spark.restore, sessions.enter_context(spark_session(spark))) if spark else kvwal.restore
            )
            report = work(
                archive, root, namespace=namespace, cluster=cluster, node=node, at=moment, take_over=take_over, progress=progress
            )  # fmt: skip
    except ArchiveError:
        places_of(open_objects(archive), namespace, cluster, None)  # ConfigError for a mistyped name or folder
        raise
    if isinstance(report, dict):
        show.table_or_json(["business", "entries put"], report.items(), json)
        return
    if json:
        fields = ("root", "node", "entries", "positions")
        show.json_line({name: getattr(report, name) for name in fields})
        return
    show.say(f"{root}: restored as node {report.node}.")
    lines = [(name, count, reached(report, name)) for name, count in report.entries.items()]
    print_table(["business", "entries", "up to"], lines)


def reached(report: kvwal.RestoreReport, business: str) -> str:
    """For each node, the last sequence of a business that was restored."""
    return ", ".join(f"{node} {last:,}" for node, last in sorted(report.positions[business].items()))
