"""kvwal queue options: what is stored of a queue's capacity, deliveries and time to live, and a change of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from kvwal.cli import show
from kvwal.cli.options import LEAST_DURATION, AcceptClock, Json, count_parser, duration_parser
from kvwal.cli.queue.names import QueueName, queue_name
from kvwal.cli.queue.selection import QueueArgument, QueueStore
from kvwal.cli.tables import print_table
from kvwal.errors import ConfigError
from kvwal.structures.queue.options import QueueOptions

T = TypeVar("T")
NONE = "none"
"""What is typed for an option that is to be set no more."""


def or_none(parse: Callable[[str], T]) -> Callable[[str], Any]:
    """The parser of an option of a queue: what `parse` makes of it, or `NONE`."""

    def parsed(typed: str) -> Any:
        return NONE if typed == NONE else parse(typed)

    return parsed


def stored(metavar: str, explained: str, parse: Callable[[str], Any]) -> Any:
    """An option of a queue, which may be typed as `NONE`."""
    return typer.Option(metavar=f"{metavar}|{NONE}", help=explained, show_default=False, parser=or_none(parse))


@dataclass(frozen=True)
class TypedOptions:
    """Bundle: the options of a queue as they are typed, each None if it is not there, and `NONE` if it is to be cleared."""

    capacity: Annotated[
        Any,
        stored(
            "N",
            "The most items, those in flight and the delayed ones among them. A put beyond it is refused.",
            count_parser("--capacity", 1),
        ),
    ] = None
    capacity_bytes: Annotated[
        Any,
        stored("N", "The most bytes of all values.", count_parser("--capacity-bytes", 1)),
    ] = None
    redelivery_delay: Annotated[
        Any,
        stored(
            "DURATION",
            "An item that was given back is not handed out for this time: 90s, 15m, 1h, or seconds.",
            duration_parser("--redelivery-delay", least=LEAST_DURATION),
        ),
    ] = None
    max_deliveries: Annotated[
        Any,
        stored(
            "N",
            "An item that was given back N times goes to the queue --dead-letters.",
            count_parser("--max-deliveries", 1),
        ),
    ] = None
    dead_letters: Annotated[
        Any,
        stored("QUEUE", "Another queue of the business, for items that were given back too often.", queue_name),
    ] = None
    ttl: Annotated[
        Any,
        stored(
            "DURATION",
            "The time to live of items that are put without one: 90s, 15m, 1h, 7d, or seconds.",
            duration_parser("--ttl", least=LEAST_DURATION),
        ),
    ] = None

    def changes(self, queue: QueueName) -> dict[str, Any]:
        """The options of this queue to change. Raises `ConfigError`."""
        typed = asdict(self)
        if isinstance(self.dead_letters, QueueName):
            typed["dead_letters"] = name_within(self.dead_letters, queue)
        return {name: None if value == NONE else value for name, value in typed.items() if value is not None}


def queue_options(
    selection: QueueStore,
    queue: QueueArgument,
    typed: TypedOptions,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Print the options of a queue, or set those that are given.

    They are stored in the log, and hold for every program that opens the store. `none` clears an option. Without an option, exit
    code 1 says that the queue is not there.
    """
    changes = typed.changes(queue)
    if changes:
        with selection.beginning(queue, accept_clock) as store:
            options = queue.of(store).set_options(**changes)
        selection.check_archived(store)
    else:
        with selection.reader() as queues:
            options = queues.options(queue)
            if not queues.knows(queue):
                raise selection.nothing_in(queue)
    stored = fields_of(options, queue)
    if json:
        show.json_line({"queue": str(queue)} | stored)
    else:
        print_table(["", ""], [("queue", str(queue)), *stored.items()])


def name_within(target: QueueName, queue: QueueName) -> str:
    """The name of a queue of the same business. Raises `ConfigError` for one of another business."""
    if target.business != queue.business:
        raise ConfigError(
            f"--dead-letters {target} is of another business than {queue}, and an item moves in one transaction; no option was"
            " changed.",
            hint="Name a queue of the same business.",
        )
    if target == queue:
        raise ConfigError(
            f"--dead-letters {target} is the queue itself; no option was changed.",
            hint="Name another queue of the business.",
        )
    return target.name


def fields_of(options: QueueOptions, queue: QueueName) -> dict[str, Any]:
    """The options of a queue for people and for programs, each None if it is not set."""
    fields = msgspec.structs.asdict(options)
    if options.dead_letters is not None:
        fields["dead_letters"] = str(QueueName(queue.business, options.dead_letters))
    return fields
