"""kvwal provenance search, lineage, replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer

from kvwal.cli import show
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Business, Json, KeyClass, LogSelection, count_parser
from kvwal.cli.provenance.shown import print_events
from kvwal.cli.text import parse_key, parse_moment
from kvwal.errors import ConfigError
from kvwal.hlc import to_text
from kvwal.key_class import QUEUE, kind_of
from kvwal.location.archived import ArchiveReader
from kvwal.location.cluster import ClusterMaps
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.questions import EventQuestions
from kvwal.structures.provenance.state import OPTIONS, OPTIONS_KEY, not_in_cluster, options_of
from kvwal.structures.queue.positions import range_of

Of = Annotated[
    str,
    typer.Option(
        "--of",
        metavar="STRUCTURE",
        help="What has KEY: queue, queue/NAME or map/NAME, with the number of an item for a queue; by default the map itself.",
        show_default=False,
    ),
]


def provenance_search(
    selection: StoreSelection,
    business: Business,
    type: Annotated[str | None, typer.Option(help="The type: create, route, drop …", show_default=False)] = None,
    component: Annotated[
        str | None, typer.Option(help="Who made the change; else what it is of: queue/todo.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of the item.", show_default=False)] = None,
    of: Of = "",
    key_class: KeyClass = "str",
    text: Annotated[
        str | None, typer.Option(help="Words that all occur in keys, values or details.", show_default=False)
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A field of the value, or a detail; may be repeated.", show_default=False
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From this time on, or from 90m, 24h, 7d ago.", show_default=False),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to this time, or up to 90m ago.", show_default=False)
    ] = None,
    number: Annotated[
        int, typer.Option("-n", metavar="N", help="Print at most N events.", parser=count_parser("-n", 1))
    ] = 100,
    json: Json = False,
) -> None:
    """Print the events of a map and its queues for which all of this holds, newest first. Exit code 1 if there is none.

    Files are read, also while another process holds the store. An archive has what was archived, and no index: without --after
    all of its events are read.
    """
    with _reading(selection, business) as (provenance, is_on):
        events = provenance.events(
            None if key is None else _parsed(key, of, key_class), of=of, type=type, component=component,
            after=None if after is None else parse_moment(after), before=None if before is None else parse_moment(before),
            attributes=dict(map(_attribute, attribute or [])), text=text, limit=number,
        )  # fmt: skip
    _printed(events, business, is_on, json)


def provenance_lineage(
    selection: StoreSelection,
    business: Business,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the item.", show_default=False)],
    of: Of = "",
    key_class: KeyClass = "str",
    up: Annotated[bool, typer.Option("--up", help="Only what the item was made of.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what was made of the item.")] = False,
    depth: Annotated[
        int | None,
        typer.Option(metavar="N", help="Follow N steps.", show_default=False, parser=count_parser("--depth", 1)),
    ] = None,
    json: Json = False,
) -> None:
    """Print the events that made an item, and those of what was made of it, oldest first. Exit code 1 if there is none."""
    with _reading(selection, business) as (provenance, is_on):
        found = provenance.lineage(
            _parsed(key, of, key_class), of=of, up=up or not down, down=down or not up, depth=depth
        )
    _printed(found, business, is_on, json)


def provenance_replay(
    logs: LogSelection,
    business: Business,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The event, as search prints it.", show_default=False)],
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put the item of an event again, as it was before the event: into its queue, or under its key."""
    logs.logs(business)
    with logs.open(accept_clock=accept_clock) as store:
        provenance = store.provenance(business)
        found = provenance.find(event)
        timestamp = provenance.replay(found)
    items = found.befores or found.afters
    there = ", ".join(f"{business}/{item.structure}" if item.structure else business for item in items[:1])
    sentence = f"{there}: {event} was replayed at {to_text(timestamp)}."
    show.answer({"event": event, "timestamp": str(timestamp), "items": len(items)}, sentence, json)
    logs.check_archived(store)


@contextmanager
def _reading(selection: StoreSelection, business: str) -> Iterator[tuple[EventQuestions, bool]]:
    """Open the events of a map for reading, in a folder or an archive. Whether changes leave events comes with them."""
    folder = selection.folder()
    if folder is not None:
        folder.logs(business)
    with selection.reader() as store:
        if isinstance(store, ClusterMaps):
            raise not_in_cluster(business)
        if isinstance(store, ArchiveReader):
            yield store.provenance(business), options_of(store.read_business(business).find(OPTIONS, OPTIONS_KEY)).on
            return
        assert isinstance(store, ReadOnlyStore)
        stored = store.read_business(business).between(*range_of(OPTIONS), lambda key_class: key_class == OPTIONS)
        yield store.provenance(business), options_of(next(stored, None)).on


def _printed(events: list[Event], business: str, is_on: bool, json: bool) -> None:
    if not events:
        why = "" if is_on else " Its provenance is switched off: `kvwal provenance options --on` switches it on."
        show.note(f"kvwal: {business} has no such event.{why}")
        raise typer.Exit(ABSENT)
    print_events(events, json)


def _parsed(key: str, of: str, key_class: str) -> Any:
    return parse_key(key, "int" if kind_of(of) == QUEUE else key_class)


def _attribute(typed: str) -> tuple[str, Any]:
    """Name and value of --attribute. The value is JSON where it is JSON, else text."""
    name, equals, value = typed.partition("=")
    if not name or not equals:
        raise ConfigError(f"--attribute {typed!r} is no NAME=VALUE.", hint="Write state=RUNNING.")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
