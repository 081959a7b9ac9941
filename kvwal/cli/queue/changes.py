"""The commands that change a queue: put, move, purge."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.commands.maps import Yes, confirmed
from kvwal.cli.options import LEAST_DURATION, AcceptClock, Json, count_parser, duration_parser
from kvwal.cli.queue.lines import put_lines
from kvwal.cli.queue.names import AnyQueue, QueueName, queue_name
from kvwal.cli.queue.selection import QueueArgument, QueueStore, complete_queue
from kvwal.cli.transfer.standard_input import STANDARD_INPUT, standard_input
from kvwal.cli.transfer.values import parsed_value
from kvwal.counted import counted
from kvwal.errors import ConfigError, QueueFull, TooLarge
from kvwal.structures.queue.positions import HIGHEST, LOWEST

MOVED_AT_ONCE = 1_000
"""The most items of one transaction of a move."""


def parse_priority(typed: str | int) -> int:
    """The priority that was typed. Raises `ConfigError`."""
    if isinstance(typed, int):  # the default of the option
        return typed
    digits = typed.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and LOWEST <= int(typed) <= HIGHEST:
        return int(typed)
    raise ConfigError(
        f"--priority {typed!r} is no whole number from {LOWEST} to {HIGHEST}.",
        hint="An item of a smaller number is taken first; items without one have 0.",
    )


def queue_put(
    selection: QueueStore,
    queue: QueueArgument,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="VALUE...",
            help="The items: JSON where it is JSON, else text; - for the lines of standard input.",
            show_default=False,
        ),
    ],
    priority: Annotated[
        int, typer.Option(metavar="N", help="From -16 to 15; smaller is taken first.", parser=parse_priority)
    ] = 0,
    ttl: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            help="Items that were not taken are gone after this time: 90s, 15m, 1h, 7d, or seconds.",
            parser=duration_parser("--ttl", least=LEAST_DURATION),
        ),
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put items at the end of a queue, and print how many once they are durable.

    The VALUEs are put in one transaction, and the lines of standard input in transactions of some hundred. A put beyond the
    capacity of the queue is refused with exit code 3.
    """
    lines = standard_input("the items") if values == [STANDARD_INPUT] else None
    if lines is None and STANDARD_INPUT in values:
        raise ConfigError(
            "VALUE - is standard input, and stands alone; nothing was put.", hint="The text - is the VALUE '\"-\"'."
        )
    items = [] if lines is not None else [parsed_value(text, "VALUE") for text in values]
    with selection.beginning(queue, accept_clock) as store:
        target = queue.of(store)
        if lines is not None:
            put = put_lines(target, lines, priority, ttl)
        else:
            target.put_many(items, priority=priority, ttl=ttl, timeout=0)
            put = len(items)
    sentence = f"{queue}: {counted(put, 'item was put', 'items were put')}."
    show.answer({"queue": str(queue), "put": put}, sentence, json)
    selection.check_archived(store)


def queue_move(
    selection: QueueStore,
    source: Annotated[
        QueueName,
        typer.Argument(
            metavar="FROM",
            help="The queue whose first items are moved.",
            show_default=False,
            parser=queue_name,
            autocompletion=complete_queue,
        ),
    ],
    target: Annotated[
        QueueName,
        typer.Argument(
            metavar="TO",
            help="Another queue of the same business.",
            show_default=False,
            parser=queue_name,
            autocompletion=complete_queue,
        ),
    ],
    number: Annotated[
        int | None,
        typer.Option(
            "-n", metavar="N", help="Move at most N items, not all.", show_default=False, parser=count_parser("-n", 1)
        ),
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Move the first items of a queue to the end of another one. They keep their priority and their time to live.

    A transaction moves up to 1,000 items: after a crash each item is in one of the two queues. Exit code 1 if there is none.
    """
    if source.business != target.business:
        raise ConfigError(
            f"{source} and {target} are of two businesses, and a transaction is of one; nothing was moved.",
            hint="Name two queues of one business. Or pipe `kvwal queue take` into `kvwal queue put … -`.",
        )
    if source == target:
        raise ConfigError(f"{source} is moved to itself; nothing was moved.", hint="Name another queue.")
    with selection.existing(source, accept_clock) as store:
        moved = move_items(source.of(store), target.name, number)
    if not moved:
        raise selection.nothing_in(source)
    sentence = f"{counted(moved, 'item was', 'items were')} moved from {source} to {target}."
    show.answer({"from": str(source), "to": str(target), "moved": moved}, sentence, json)
    selection.check_archived(store)


def move_items(queue: AnyQueue, to: str, most: int | None) -> int:
    """Move up to `most` of the items that are there now, and return how many. A transaction has fewer if there is less room."""
    left = len(queue) if most is None else min(most, len(queue))
    moved, at_once = 0, MOVED_AT_ONCE
    while left > 0:
        try:
            done = queue.move(to, min(left, at_once))
        except (TooLarge, QueueFull) as error:
            if at_once == 1 and isinstance(error, QueueFull):
                account = counted(moved, "item was moved", "items were moved")
                raise QueueFull(f"{account}, and no more: {error.what}", hint=error.hint) from error
            if at_once == 1:
                raise
            at_once = max(1, min(left, at_once) // 2)
            continue
        if not done:
            break
        moved, left = moved + done, left - done
    return moved


def queue_purge(
    selection: QueueStore, queue: QueueArgument, yes: Yes = False, accept_clock: AcceptClock = False, json: Json = False
) -> None:
    """Delete all items of a queue, after asking on the terminal. Exit code 1 if the answer is no, and if there is none."""
    if not yes:
        with selection.reader() as queues:
            there = queues.count(queue)
        items = counted(there, "item")
        if there and not confirmed(f"{queue} has {items}", f"Delete {items} of {queue}?"):
            show.note(f"kvwal: {queue} was not purged.")
            raise typer.Exit(1)
    with selection.existing(queue, accept_clock) as store:
        purged = queue.of(store).purge()
    if not purged:
        raise selection.nothing_in(queue)
    show.answer({"queue": str(queue), "purged": purged}, f"{queue}: {counted(purged, 'item')} deleted.", json)
    selection.check_archived(store)
