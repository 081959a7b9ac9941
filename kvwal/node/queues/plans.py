"""Plans of changes of a cluster's queues: the entries that one change becomes, by what the owner knows of the queues. No I/O.

The rules are those of an embedded queue (`kvwal.structures.queue.changes`): capacity, time to live, delays, deliveries and dead
letters. There they are decided in the order of the log, here in the order of the owner's transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvwal.cluster.queues.details import QueueDetails
from kvwal.cluster.queues.requests import MOST_CLASS_BYTES, PutItem
from kvwal.cluster.queues.table import Claim, QueueTable
from kvwal.entry import Entry, make_entry
from kvwal.errors import ConfigError, InvalidName
from kvwal.key_class import structure_of
from kvwal.log.submission import size_of
from kvwal.structures.queue.capacity import Room, check_possible, fits, full
from kvwal.structures.queue.deliveries import DELIVERY_BYTES, Delivery, delivery_entry, give_back_bytes
from kvwal.structures.queue.options import Changes, changed_options, check_readable
from kvwal.structures.queue.positions import (
    ITEM_KEY_BYTES,
    delivery_class,
    item_class,
    key_of,
    priority_of,
    queue_structure,
)

_ENTRY_BYTES = 128
"""More than an entry of an item has beside its value."""
NOTHING = Room(0, 0)


class Change(NamedTuple):
    """One transaction. It is tried until the time `until` while others hold its keys.

    `items` are put, with `delays` of some (ms, by their index), `taken` are taken away, `returned` were given back by a block,
    and count as delivered. `options` are to be stored for a structure. `others` are other entries. `holds`: see
    `OwnerRecord.held`.
    """

    future: asyncio.Future[int]
    until: float
    items: Sequence[PutItem] = ()
    delays: Mapping[int, int] = {}
    taken: Sequence[Claim] = ()
    returned: Sequence[Entry] = ()
    options: tuple[str, Changes] | None = None
    others: Sequence[Entry] = ()
    holds: bool = False

    @property
    def size(self) -> int:
        """About the bytes of its transaction."""
        keys = (2 * len(self.taken) + len(self.delays)) * (ITEM_KEY_BYTES + DELIVERY_BYTES)
        values = sum(len(item.value) + _ENTRY_BYTES for item in self.items)
        return keys + values + size_of(list(self.others)) + sum(map(give_back_bytes, self.returned))


class Plan(NamedTuple):
    """What a change becomes: items that are put, items that are gone, what is noted of items and queues, other entries."""

    items: list[Entry]
    gone: list[Claim]
    details: list[Entry]
    others: Sequence[Entry]

    @property
    def entries(self) -> list[Entry]:
        """The entries of the transaction."""
        deletes = [Entry(key, key_class, b"", "", True, 0) for key_class, key in self.gone]
        return [*self.items, *deletes, *self.details, *self.others]

    @property
    def structures(self) -> set[str]:
        """The queues whose items it changes."""
        classes = {entry.key_class for entry in self.items} | {key_class for key_class, _ in self.gone}
        return set(map(structure_of, classes))

    def room(self, structure: str, table: QueueTable) -> Room:
        """How much more room of a queue is taken after it."""
        of_items = item_class(structure)
        sizes = [len(entry.value) for entry in self.items if entry.key_class == of_items]
        gone = [table.size_of(claim) for claim in self.gone if claim[0] == of_items]
        return Room(len(sizes) - len(gone), sum(sizes) - sum(gone))


class Planner:
    """Makes the plans of one business's changes. `name` is its map."""

    def __init__(self, name: str, table: QueueTable, details: QueueDetails) -> None:
        self._name = name
        self._table = table
        self._details = details

    def plan(self, change: Change, position: int, now_ms: int, added: dict[str, Room]) -> Plan:
        """The plan of a change, with items at positions from `position` on.

        `added` is the room that the plans before it in its transaction take, by queue; this one adds its own. Raises `QueueFull`,
        `TooLarge`, `ConfigError` and `NewerVersion`: nothing of the change is to be written.
        """
        items = self._placed(change.items, position, now_ms)
        details = self._delays(items, change.delays, now_ms)
        gone = list(change.taken)
        if change.options is not None:
            structure, changes = change.options
            self._check_class(delivery_class(structure))
            if (target := changes.get("dead_letters")) is not None:
                self._check_class(delivery_class(queue_structure(target)))
            details += changed_options(structure, self._details.stored_options(structure), changes)
        for number, entry in enumerate(change.returned, position + len(items)):
            dead = self._returned(entry, number, now_ms, details)
            if dead is not None:
                items.append(dead)
                gone.append((entry.key_class, entry.key))
        plan = Plan(items, gone, details + self._details.deletes(gone), change.others)
        bounded = {one for one in plan.structures if self._details.options(one).is_bounded}
        more = {structure: plan.room(structure, self._table) for structure in sorted(bounded)}
        for structure in sorted(bounded & {item.structure for item in change.items}):
            self._check_room(structure, more[structure], added.get(structure, NOTHING))
        for structure, room in more.items():
            added[structure] = added.get(structure, NOTHING).plus(room)
        return plan

    def bounded_by_bytes(self, items: Iterable[PutItem]) -> set[str]:
        """The queues of these items whose capacity counts bytes."""
        structures = {item.structure for item in items}
        return {one for one in structures if self._details.options(one).capacity_bytes is not None}

    def name_of(self, structure: str) -> str:
        """The name of a queue in messages."""
        return f"{self._name}/{structure}"

    def has_room(self, structure: str, more: Room, added: Room = NOTHING) -> bool:
        """Whether a queue has room for so much now, beside what is `added` before it."""
        return fits(self._details.options(structure), self._table.room(structure).plus(added), more)

    def _check_room(self, structure: str, more: Room, added: Room) -> None:
        options = self._details.options(structure)
        check_possible(self.name_of(structure), options, more)
        if not self.has_room(structure, more, added):
            raise full(self.name_of(structure), options)

    def _placed(self, items: Sequence[PutItem], position: int, now_ms: int) -> list[Entry]:
        """The entries of items, at this position and those after it."""
        return [
            make_entry(
                key_of(item.priority, position + number), item_class(item.structure), item.value, item.value_class, False, 0,
                now_ms + item.left_ms if item.left_ms else self._ends(item.structure, now_ms),
            )
            for number, item in enumerate(items)
        ]  # fmt: skip

    def _ends(self, structure: str, now_ms: int) -> int:
        """When an item that is put without a time to live expires (unix ms), 0 for never."""
        ttl = check_readable(self._details.options(structure), self.name_of(structure)).ttl
        return 0 if ttl is None else now_ms + _ms(ttl)

    def _delays(self, items: list[Entry], delays: Mapping[int, int], now_ms: int) -> list[Entry]:
        if any(not 0 <= index < len(items) for index in delays):
            raise ConfigError(f"{self._name}: a delay is of no item; nothing was written.")
        return [self._delivery(items[index], Delivery(due=now_ms + delay)) for index, delay in delays.items()]

    def _delivery(self, item: Entry, delivery: Delivery) -> Entry:
        key_class = delivery_class(structure_of(item.key_class))
        self._check_class(key_class)
        return delivery_entry(key_class, item, delivery)

    def _returned(self, item: Entry, position: int, now_ms: int, details: list[Entry]) -> Entry | None:
        """Count one more delivery of an item; or the item as a dead letter, at this position of another queue."""
        structure = structure_of(item.key_class)
        options = self._details.options(structure)
        if not options.counts_deliveries:
            return None
        deliveries = self._details.delivery((item.key_class, item.key)).deliveries + 1
        most, target = options.max_deliveries, options.dead_letters
        if most is not None and target is not None and deliveries >= most:
            dead = PutItem(queue_structure(target), priority_of(item.key), item.value, item.value_class)
            return self._placed([dead], position, now_ms)[0]
        due = 0 if options.redelivery_delay is None else now_ms + _ms(options.redelivery_delay)
        details.append(self._delivery(item, Delivery(deliveries, due)))
        return None

    def _check_class(self, key_class: str) -> None:
        if len(key_class) > MOST_CLASS_BYTES:
            raise InvalidName(
                f"{self.name_of(structure_of(key_class))}: the name is too long for options and delays of a queue of a cluster;"
                " nothing was written.",
                hint="Choose a shorter name.",
            )


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
