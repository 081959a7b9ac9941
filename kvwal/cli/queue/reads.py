"""The commands that only read queues: list, browse, stats. They work while another process holds the folder."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.commands.stats import flattened
from kvwal.cli.options import Json, complete_business, count_parser
from kvwal.cli.queue.items import as_json, oldest_seconds, oldest_text
from kvwal.cli.queue.names import QueueName
from kvwal.cli.queue.reader import Listed, QueueReader
from kvwal.cli.queue.selection import QueueArgument, QueueStore, note_nothing_in
from kvwal.cli.show import Format
from kvwal.cli.tables import print_table
from kvwal.cli.text import label
from kvwal.errors import ClusterUnreachable, KvwalError
from kvwal.hlc import to_text
from kvwal.structures.queue.deliveries import NOT_DELIVERED
from kvwal.structures.queue.figures import figures_of
from kvwal.structures.queue.positions import priority_of


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

    Items that another process has in flight count. In a cluster only those that can be taken do.
    """
    refused: list[KvwalError] = []
    with selection.reader() as queues:
        names = queues.businesses() if business is None else [business]
        listed = [each for name in names for each in _queues_of(queues, name, refused)]
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


def _queues_of(queues: QueueReader, business: str, refused: list[KvwalError]) -> list[Listed]:
    """The queues of a business, sorted. What is wrong with the business goes to `refused`: it hides no other business.

    Raises `ClusterUnreachable`, which is wrong with all of them.
    """
    try:
        return queues.listed(business)
    except ClusterUnreachable:
        raise
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

    Items that another process has in flight are among them, and delayed ones. In a cluster only those that can be taken are.
    """
    form = Format.json if json else format
    with selection.reader() as queues:
        items = queues.items(queue, number)
        first = next(items, None)
        if first is None:
            note_nothing_in(queues, queue)
            raise typer.Exit(ABSENT)
        found = chain([first], items)
        if form is Format.json:
            known = queues.deliveries(queue)
            show.json_lines(as_json(item, known.get(item.key, NOT_DELIVERED)) for item in found)
            return
        rows = ((priority_of(i.key), to_text(i.timestamp), label(i.value, i.value_class)) for i in found)
        show.rows(["priority", "put", "value"], rows, form)


def queue_stats(selection: QueueStore, queue: QueueArgument, json: Json = False) -> None:
    """Print the figures of a queue: its items, those in flight and delayed, the age of the oldest one, the bytes, the items by
    priority; and, where options say so, its capacity, and the number of items in its queue of dead letters.

    Only the process that holds a folder knows what is in flight. For others such items are in the queue. In a cluster the items
    are those that can be taken.
    """
    with selection.reader() as queues:
        found, numbers, options = figures_of(queues.items(queue)), queues.numbers(queue), queues.options(queue)
        dead = None if options.dead_letters is None else QueueName(queue.business, options.dead_letters)
        dead_letters = 0 if dead is None else queues.count(dead)
        if not found.items:
            note_nothing_in(queues, queue)
    figures: dict[str, Any] = {
        "queue": str(queue),
        "items": found.items,
        "in_flight": numbers.in_flight,
        "delayed": numbers.delayed,
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
