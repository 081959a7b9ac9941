"""kvwal queue take: items leave the queue once they are printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Protocol

import typer

from kvwal.cli import show
from kvwal.cli.options import AcceptClock, count_parser, duration_parser
from kvwal.cli.output import OutputFailed
from kvwal.cli.queue.folder import QueueFolder
from kvwal.cli.queue.items import value_of
from kvwal.cli.queue.names import QueueName
from kvwal.cli.queue.selection import QueueArgument, QueueStore
from kvwal.errors import ConfigError, StoreLocked
from kvwal.ports.clock import SYSTEM
from kvwal.structures.queue.changes import MOST_TAKEN
from kvwal.structures.watch import Watch, of_structure

LOCK_SECONDS = 0.1
"""How often a store that another process holds is tried again."""
FILES_SECONDS = 0.05
"""How often files are looked at for new items."""


class StoredItem(Protocol):
    """An item with its value as it is stored."""

    @property
    def value(self) -> bytes:
        """The encoded value."""
        ...

    @property
    def value_class(self) -> str:
        """The codec of the value."""
        ...


def queue_take(
    selection: QueueStore,
    queue: QueueArgument,
    number: Annotated[
        int, typer.Option("-n", metavar="N", help="Take up to N items.", parser=count_parser("-n", 1))
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            help="Wait so long for an item, and for a process that holds the folder: 90s, 15m, or seconds. By default 0.",
            show_default=False,
            parser=duration_parser("--timeout"),
        ),
    ] = 0.0,
    accept_clock: AcceptClock = False,
) -> None:
    """Take the first items of a queue, and print each as a line of JSON. Exit code 1 if there is none.

    The items leave the queue when all lines are written. If the reader of the output has left, or standard output takes no more,
    they stay.
    """
    if number > MOST_TAKEN:
        raise ConfigError(
            f"-n {number:,} is more than the {MOST_TAKEN:,} items of one transaction; nothing was taken.",
            hint="Take the others with the next command.",
        )
    folder = selection.folder()
    if folder is None:
        taken = take_from_cluster(selection, queue, number, timeout)
    else:
        taken = take_from_folder(folder, queue, number, timeout, accept_clock)
    if not taken:
        raise selection.nothing_in(queue)


def take_from_folder(folder: QueueFolder, queue: QueueName, most: int, timeout: float, accept_clock: bool) -> int:
    """Take up to `most` items and print them. Returns how many. The store is opened once an item is there."""
    until = SYSTEM.elapsed() + timeout
    while has_item(folder, queue, until):
        try:
            with (
                folder.existing(queue.business, accept_clock) as store,
                queue.of(store).transaction() as transaction,
            ):
                taken = print_items(transaction.hold(most))
        except StoreLocked:
            if SYSTEM.elapsed() >= until:
                raise
            time.sleep(LOCK_SECONDS)
            continue
        if taken:
            folder.logs().check_archived(store)
            return taken
        if SYSTEM.elapsed() >= until:
            break
    return 0


def take_from_cluster(selection: QueueStore, queue: QueueName, most: int, timeout: float) -> int:
    """As `take_from_folder`. The members hold the items for this client while their lines are printed.

    A queue without items is not waited for in a business that is not there.
    """
    with selection.members() as members:
        if timeout:
            members.check_there(queue.business)
        else:
            selection.check_has_items(members, queue)
        with queue.of(members).transaction() as transaction:
            return print_items(transaction.hold(most, timeout))


def print_items(items: Sequence[StoredItem]) -> int:
    """Print each item as a line. Returns how many they are. If a line cannot be printed, the caller's block must not commit."""
    try:
        show.json_lines(value_of(item.value, item.value_class) for item in items)
    except OutputFailed as failed:
        raise OutputFailed(failed.error, "Nothing was taken.") from failed
    return len(items)


def has_item(folder: QueueFolder, queue: QueueName, until: float) -> bool:
    """Whether the files have an item of the queue that is due. Waits for one until then, without holding the store."""
    with replace(folder, archive="none").files() as store:
        business = store.read_business(queue.business)

        if (due := business.queue_due(queue.structure)) == 0:
            return True
        if SYSTEM.elapsed() >= until:
            return False
        watch = Watch(business.feed(None), of_structure(queue.structure))
        due = business.queue_due(queue.structure)
        while due != 0 and SYSTEM.elapsed() < until:
            time.sleep(FILES_SECONDS)
            if any(not change.deleted for change in watch.poll()) or (due is not None and due <= SYSTEM.wall_ms()):
                due = business.queue_due(queue.structure)
    return due == 0
