"""Commands on the archive: archive run, list, verify, rewrite, gc; and restore."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import kvwal
from archive.layout import Place, parse_object_key, parse_registration_key
from archive.maintenance.compaction import gc, rewrite
from archive.objects import Objects, open_objects
from archive.reader import live_objects
from archive.verify import verify
from kvwal.cli import show
from kvwal.cli.options import (
    ALL,
    AcceptClock,
    AnyNamespace,
    Archive,
    Cluster,
    Json,
    Namespace,
    Node,
    Resume,
    Root,
    Where,
    archive_of,
    check_number,
    scrub_notes,
)
from kvwal.cli.show import Format
from kvwal.cli.text import parse_time
from kvwal.config import Settings
from kvwal.errors import ArchiveError, ConfigError
from kvwal.hlc import to_text

archive_app = typer.Typer(help="The archive: sorted, immutable objects in a folder or a bucket.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(metavar="ROOT|URL", help="A store, or the archive itself.", show_default=False)]


def objects_of(source: str, archive: str | None) -> Objects:
    """The archive to look at: that of a root, or, where the source is none, the URL or folder itself."""
    if archive == "none":
        raise ConfigError("--archive none leaves nothing to look at.", hint="Name the archive's folder or URL.")
    return archive_of(source, archive) or open_objects(source)


def places_of(objects: Objects, namespace: str, cluster: str, node: str | None) -> list[Place]:
    """Every place of the archive that is meant, sorted; `ConfigError` if there is none, naming those there are."""
    listed = places_under(objects, "" if namespace == ALL else f"{namespace}/{cluster}/")
    meant = [p for p in listed if p.cluster == cluster and namespace in (ALL, p.namespace) and node in (None, p.node)]
    if not meant:
        there = ", ".join(sorted({"/".join((p.namespace, p.cluster, "*", p.node)) for p in places_under(objects, "")}))
        of_node = f" on node {node}" if node else ""
        raise ConfigError(
            f"{objects.url} holds nothing of {namespace}/{cluster}{of_node}.",
            hint=f"Check the URL, --namespace, --cluster and --node. There is: {there or 'nothing'}.",
        )
    return meant


def places_under(objects: Objects, prefix: str) -> list[Place]:
    """Every place that objects or registrations under this prefix name, sorted."""
    parsed = (parse_object_key(item.key) or parse_registration_key(item.key) for item in objects.list(prefix))
    return sorted({found[0] for found in parsed if found is not None})


def now_ms() -> int:
    """The wall clock in unix milliseconds."""
    return time.time_ns() // 1_000_000


@archive_app.command("run")
def archive_run(
    root: Root,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Seal what is in the log, archive it, and return when the archive has confirmed it."""
    with Where(root, namespace, cluster, node, archive).open_all(accept_clock=accept_clock) as (store, count):
        store.archive()
        stats = store.stats()
    if json:
        show.json_line(stats)
    else:
        show.say(f"{root}: {'1 business is' if count == 1 else f'{count:,} businesses are'} archived.")


@archive_app.command("list")
def archive_list(
    source: Source,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """List the objects that count, with what each covers."""
    objects = objects_of(source, archive)
    names = ["namespace", "business", "node", "first", "last", "horizon", "rows", "bytes", "newest"]
    lines = listed(objects, places_of(objects, namespace, cluster, node))
    show.rows(names, lines, Format.json if json else Format.table)


def listed(objects: Objects, places: list[Place]) -> Iterator[tuple[str | int, ...]]:
    """A line for each live object."""
    for place in places:
        for info in live_objects(objects, place):
            footer = info.footer
            horizon = to_text(info.span.horizon) if info.span.horizon else ""
            newest = to_text(footer.max_timestamp)
            span = (info.span.first, info.span.last, horizon)
            yield place.namespace, place.business, place.node, *span, footer.rows, info.size, newest


@archive_app.command("verify")
def archive_verify(
    source: Source,
    resume: Resume = None,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Read every object back and check it: checksums, names, order, gaps, the chain of seals. Exit code 4 on any finding."""
    objects = objects_of(source, archive)
    findings, checked, counted = [], 0, 0
    with show.progress() as report, scrub_notes(resume, f"the archive {objects.url}") as notes:
        for place in places_of(objects, namespace, cluster, node):
            result = verify(objects, place, report, notes)
            findings += result.findings
            checked, counted = checked + result.objects_checked, counted + result.rows
    if findings or json:
        show.rows(["kind", "key", "finding"], findings, Format.json if json else Format.table)
    if not json:
        show.say(f"{checked:,} objects with {counted:,} rows were read; {len(findings)} findings.")
    if findings:
        raise typer.Exit(show.DAMAGED)


@archive_app.command("rewrite")
def archive_rewrite(
    source: Source,
    history: Annotated[
        float, typer.Option(help="Days of which every change is kept.", callback=check_number)
    ] = Settings().history_seconds / 86400,
    force: Annotated[bool, typer.Option(help="Rewrite everything, worth it or not.")] = False,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Merge small objects and drop history that is old enough. What they replace stays until gc."""
    objects = objects_of(source, archive)
    lines = []
    with show.progress() as report:
        for place in places_of(objects, namespace, cluster, node):
            history_ms = int(history * 86_400_000)
            stored = rewrite(objects, place, now_ms=now_ms(), history_ms=history_ms, force=force, progress=report)
            lines += [(one.key, one.rows, one.size) for one in stored]
    show.outcome(["object", "rows", "bytes"], lines, json, "Nothing is worth a rewrite.")


@archive_app.command("gc")
def archive_gc(
    source: Source,
    grace: Annotated[
        float, typer.Option(help="Seconds that a superseded object is kept for readers.", callback=check_number)
    ] = Settings().gc_grace_seconds,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Delete objects that a newer one supersedes, once that one was read back and checked."""
    objects = objects_of(source, archive)
    lines: list[tuple[str]] = []
    with show.progress() as report:
        for place in places_of(objects, namespace, cluster, node):
            deleted = gc(objects, place, now_ms=now_ms(), grace_ms=int(grace * 1000), progress=report)
            lines += [(key,) for key in deleted]
    show.outcome(["deleted"], lines, json, "Nothing is superseded and old enough.")


def restore(
    archive: Annotated[str, typer.Argument(metavar="URL", help="The archive: a folder or a URL.", show_default=False)],
    root: Annotated[
        Path, typer.Argument(metavar="ROOT", help="The folder of the new store; it must be empty.", show_default=False)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="As it was then: 2025-01-31T12:00 (local time without a zone) or a timestamp."
        ),
    ] = None,
    take_over: Annotated[bool, typer.Option(help="Continue the node's log and fence the old one.")] = False,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    json: Json = False,
) -> None:
    """Make a fresh store from the archive alone."""
    moment = parse_time(at) if at is not None else None
    try:
        with show.progress() as report:
            done = kvwal.restore(
                archive, root, namespace=namespace, cluster=cluster, node=node, at=moment, take_over=take_over, progress=report
            )  # fmt: skip
    except ArchiveError:
        places_of(open_objects(archive), namespace, cluster, None)  # a mistyped name or folder is the caller's to mend
        raise
    if json:
        show.json_line({"root": done.root, "node": done.node, "entries": done.entries, "positions": done.positions})
        return
    show.say(f"{root}: restored as node {done.node}.")
    show.table(
        ["business", "entries", "up to"], [(name, count, reached(done, name)) for name, count in done.entries.items()]
    )


def reached(done: kvwal.Restored, business: str) -> str:
    """Up to which sequence of which node a business was read."""
    return ", ".join(f"{node} {last:,}" for node, last in sorted(done.positions[business].items()))
