"""The commands that only read queues: list, browse, stats. They work while another process holds the store."""

from __future__ import annotations

from itertools import chain, groupby, islice
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.commands.stats import flattened
from kvwal.cli.options import Json, complete_business, count_parser
from kvwal.cli.queue.items import as_json, oldest_seconds, oldest_text
from kvwal.cli.queue.selection import QueueArgument, QueueName, QueueStore, name_of
from kvwal.cli.show import Format
from kvwal.cli.survey import lock_holder
from kvwal.cli.tables import print_table
from kvwal.cli.text import label
from kvwal.errors import KvwalError
from kvwal.hlc import to_text
from kvwal.key_class import structure_of
from kvwal.log.files.names import log_folder
from kvwal.ports.clock import SYSTEM
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.queue.deliveries import NOT_DELIVERED
from kvwal.structures.queue.figures import QueueFigures, figures_of
from kvwal.structures.queue.positions import priority_of

Listed = tuple[QueueName, QueueFigures]


def queue_list(
    selection: QueueStore,
    business: Annotated[
        str | None,
        typer.Argument(
            metavar="BUSINESS",
            help="The business; without it, all.",
            show_default=False,
            autocompletion=complete_business,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the queues that hold items, each with its number of items, the age of the oldest one, and the bytes of the values.

    Items that another process has in flight count.
    """
    logs = selection.logs()
    names = [business] if business is not None else sorted({place.business for place in logs.logs()})
    refused: list[KvwalError] = []
    with selection.files() as store:
        listed = [each for name in names for each in _queues_of(store, name, refused)]
    if json:
        show.json_lines(
            {"business": queue.business, "queue": str(queue), "items": found.items,
             "oldest_seconds": oldest_seconds(found), "bytes": found.size}
            for queue, found in listed
        )  # fmt: skip
    elif listed:
        rows = [(queue.business, str(queue), found.items, oldest_text(found), found.size) for queue, found in listed]
        print_table(["business", "queue", "items", "oldest", "bytes"], rows)
    elif not refused:
        show.say("No queue holds an item.")
    if refused:
        raise refused[0]


def _queues_of(store: ReadOnlyStore, business: str, refused: list[KvwalError]) -> list[Listed]:
    """The queues of a business, sorted. What is wrong with its files goes to `refused`: it hides no other business."""
    try:
        groups = groupby(store.read_business(business).queue_items(), lambda item: structure_of(item.key_class))
        return sorted((name_of(business, structure), figures_of(items)) for structure, items in groups)
    except KvwalError as error:
        refused.append(error)
        return []


def queue_browse(
    selection: QueueStore,
    queue: QueueArgument,
    number: Annotated[
        int | None,
        typer.Option(
            "-n", metavar="N", help="Print at most N items.", show_default=False, parser=count_parser("-n", 1)
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Print the items of a queue in the order of takes. They stay. Exit code 1 if there is none.

    Items that another process has in flight are among them, and delayed ones.
    """
    form = Format.json if json else format
    with selection.files() as store:
        business = store.read_business(queue.business)
        items = islice(business.queue_items(queue.structure), number)
        first = next(items, None)
        if first is None:
            raise selection.nothing_in(queue)
        found = chain([first], items)
        if form is Format.json:
            known = business.queue_deliveries(queue.structure)
            show.json_lines(as_json(item, known.get(item.key, NOT_DELIVERED)) for item in found)
            return
        rows = ((priority_of(i.key), to_text(i.timestamp), label(i.value, i.value_class)) for i in found)
        show.rows(["priority", "put", "value"], rows, form)


def queue_stats(selection: QueueStore, queue: QueueArgument, json: Json = False) -> None:
    """Print the figures of a queue: its items, those in flight and delayed, the age of the oldest one, the bytes, the items by
    priority; and, where options say so, its capacity, and the number of items in its queue of dead letters.

    Only the process that holds the store knows what is in flight. For others such items are in the queue.
    """
    with selection.files() as store:
        business = store.read_business(queue.business)
        found = figures_of(business.queue_items(queue.structure))
        delayed = _delayed(business, queue.structure)
        options = business.queue_options(queue.structure)
        dead = None if options.dead_letters is None else QueueName(queue.business, options.dead_letters)
        dead_letters = 0 if dead is None else sum(1 for _ in business.queue_items(dead.structure))
    figures: dict[str, Any] = {
        "queue": str(queue),
        "items": found.items,
        "in_flight": _in_flight(selection, queue.business),
        "delayed": delayed,
        "oldest_seconds": oldest_seconds(found),
        "bytes": found.size,
        "by_priority": {str(priority): items for priority, items in found.by_priority.items()},
    }
    if options.capacity is not None:
        figures["capacity"] = options.capacity
    if options.capacity_bytes is not None:
        figures["capacity_bytes"] = options.capacity_bytes
    if dead is not None:
        figures["dead_letters"] = {str(dead): dead_letters}
    if json:
        show.json_line(figures)
    else:
        print_table(["", ""], flattened(figures))
    if not found.items:
        selection.note_nothing_in(queue)


def _delayed(business: ReadOnlyBusiness, structure: str) -> int:
    """The number of items that are not due yet."""
    now_ms = SYSTEM.wall_ms()
    due = {key for key, known in business.queue_deliveries(structure).items() if known.due > now_ms}
    return sum(1 for item in business.queue_items(structure) if item.key in due) if due else 0


def _in_flight(selection: QueueStore, business: str) -> int | None:
    """The number of items in flight: none if no process holds the store, else not known here."""
    logs = selection.logs()
    held = any(lock_holder(log_folder(logs.root, place)) for place in logs.places(business))
    return None if held else 0
