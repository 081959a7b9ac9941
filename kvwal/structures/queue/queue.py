"""The synchronous queue: items are taken in the order in which they were put, each by one taker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple

from kvwal.codecs import Codecs
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ContentDamaged, QueueFull
from kvwal.hlc import to_timestamp
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.handle import Handle
from kvwal.structures.map.reads import while_held
from kvwal.structures.queue.capacity import room_of
from kvwal.structures.queue.changes import MOST_TAKEN, QueueChanges
from kvwal.structures.queue.deliveries import Delivery, delivery_of
from kvwal.structures.queue.options import (
    Changes,
    QueueOptions,
    SettableOptions,
    check_readable,
)
from kvwal.structures.queue.positions import is_delivery, is_item, key_of, of_items, position_of, priority_of
from kvwal.structures.queue.transaction import QueueInTransaction
from kvwal.structures.queue.waiting import checked_timeout, first_of, put_when_room, taken_by, takers_of
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import Transaction
from kvwal.structures.watch import Watch, parse_start
from kvwal_archive.errors import ArchiveError


class QueuedItem(NamedTuple):
    """An item as `Queue.items` shows it. `position` orders the items of one priority, `expires` is unix ms, 0 for never.

    `deliveries` is how often the item was given back, as far as the options of the queue have that counted.
    """

    priority: int
    position: int
    value: Any
    timestamp: int
    expires: int
    deliveries: int = 0


class Queue(Handle, SettableOptions[QueueOptions]):
    """A queue of items in a business's log. Any number of threads may use it.

    A put and a take return when they are durable, as the flush policy says. If a put raises, the item is not in the queue; if a
    take raises, the item is still there; only after `CommitUnknown` it may be otherwise. An item that was taken is given to no
    other taker. An item that a transaction holds is in flight: nobody else sees it until the block ends, and a crash leaves it at
    its place. First in, first out within a priority; a smaller number is taken first.

    A `KeyboardInterrupt` in a take loses the item: take in a transaction where that matters.
    """

    def __init__(self, business: LocalBusiness, name: str = "", store: object = None) -> None:
        """The queue keeps a reference to `store`, so that the store is not closed by garbage collection meanwhile."""
        self._business = business
        self._changes = QueueChanges(business, name)
        self._state = self._changes.state
        self._takers = takers_of(business, self._state)
        self._store = store

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}{f' of {self._store!r}' if self._store else ''}>"

    @property
    def name(self) -> str:
        """The business, and behind a slash the structure: `work/queue`, `work/queue/todo`."""
        return self._changes.name

    def put(
        self,
        item: Any,
        *,
        priority: int = 0,
        ttl: TimeToLive | None = None,
        delay: TimeToLive | None = None,
        timeout: float | None = None,
        sync: bool = False,
    ) -> int:
        """Put an item at the end of its priority, -16 to 15, and return the timestamp. It is gone after `ttl`, if not taken, and
        handed out after `delay` at the earliest.

        If the queue is full, it waits up to `timeout` seconds for room (None: without end, 0: not at all), then `queue.Full`.
        """
        return self.put_many([item], priority=priority, ttl=ttl, delay=delay, timeout=timeout, sync=sync)

    def put_many(
        self,
        items: Iterable[Any],
        *,
        priority: int = 0,
        ttl: TimeToLive | None = None,
        delay: TimeToLive | None = None,
        timeout: float | None = None,
        sync: bool = False,
    ) -> int:
        """Put all items in one transaction, in their order, and return its timestamp. Waits for room as `put`, for all of them.

        `TooLarge` at once if they are more than the capacity of the queue.
        """
        if timeout is not None:
            checked_timeout(timeout)
        changes, business = self._changes, self._business
        entries = changes.entries(items, priority, ttl)
        waiter = Waiter()
        try:
            business.submit(changes.put(entries, priority, waiter, delay, sync), waits=True)
            waiter.result()
        except QueueFull as full:

            def again() -> None:
                waiter = Waiter()
                changes.renew(entries, ttl)
                business.submit(changes.put(entries, priority, waiter, delay, sync), waits=True)
                waiter.result()

            put_when_room(self._takers, again, room_of(entries), timeout, full)
        return entries[0].timestamp if entries else 0

    def take(self, timeout: float | None = None) -> Any:
        """Take the first item. Waits up to `timeout` seconds (None: without end, 0: not at all), then `queue.Empty`."""
        return first_of(self._taken(1, timeout), self.name)

    def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """Take up to `most` items in one transaction, the first ones, at most 10,000. An empty list if there is none.

        Waits up to `timeout` seconds for the first item.
        """
        return self._taken(most, timeout)

    def peek(self) -> Any:
        """The first item, which stays. `queue.Empty` if there is none to take."""
        return first_of(self.browse(), self.name)

    def browse(self) -> Iterator[Any]:
        """The items that can be taken, in order. They stay; items that are put or taken meanwhile may be there or not."""
        return (item.value for item in self.items())

    def items(self) -> Iterator[QueuedItem]:
        """As `browse`, with what is known of each item."""
        codecs = self._business.codecs
        return while_held(shown(self._state.items(), codecs, self._state.delivery), codecs.hold())

    def __len__(self) -> int:
        """The number of items that can be taken. An item that expired counts until it is swept."""
        return self._state.count()

    def __bool__(self) -> bool:
        """Whether an item can be taken."""
        return len(self) > 0

    @property
    def in_flight(self) -> int:
        """The number of items that transactions hold."""
        return self._state.in_flight

    @property
    def delayed(self) -> int:
        """The number of items that are not handed out yet: they were given back, or put with a delay."""
        return self._state.delayed

    def options(self) -> QueueOptions:
        """The options of the queue, as they are stored in the log. `NewerVersion` if this version cannot read them."""
        return check_readable(self._state.options, self.name)

    def _set_options(self, changes: Changes) -> QueueOptions:
        waiter = Waiter()
        self._business.submit(self._changes.set_options(changes, waiter), waits=True)
        waiter.result()
        return self.options()

    def purge(self) -> int:
        """Take all items that are there now away, the delayed ones too, and return how many. In transactions of 10,000."""
        purged, left = 0, len(self) + self.delayed
        while left > 0 and (taken := self._take(min(left, MOST_TAKEN), purges=True).entries):
            purged += len(taken)
            left -= len(taken)
        return purged

    def move(self, to: str, most: int) -> int:
        """Move up to `most` items, the first ones, to the end of another queue of the business, in one transaction; return how
        many. They keep their priority and their time to live. `queue.Full` if the other queue has no room for them.
        """
        # The hold is for an item that expires in the block: its value is logged again.
        with self._business.codecs.hold(), Transaction(self._business, counts=False) as t:
            target = QueueInTransaction(t.changes, Queue(self._business, to))
            held = QueueInTransaction(t.changes, self).hold(most)
            target.put_entries(held)
            return len(held)

    def transaction(self) -> QueueTransaction:
        """`with q.transaction() as t: x = t.take(); t.put(y)`: all of it at the end of the block, or nothing."""
        return QueueTransaction(self)

    def history(self, priority: int, position: int) -> list[DataEntry]:
        """All changes of the item at a position that log and archive hold, newest first."""
        return self._business.history(self._changes.key_class, key_of(priority, position))

    def at(self, moment: int | date) -> list[QueuedItem]:
        """The items as they were at a moment, in order, those that were in flight among them. `moment` is that of `Map.at`."""
        past = self._business.as_of(to_timestamp(moment), self._changes.structure)
        return items_of(past.all_ordered(), self._business.codecs)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """The puts and takes of the queue (a take is a delete), from now on, or after a moment: see `Map.watch`."""
        return Watch(
            self._business.feed(parse_start(after)), of_items(self._changes.structure), self._business.codecs.whole
        )

    def _taken(self, most: int, timeout: float | None) -> list[Any]:
        return taken_by(self._takers, lambda: self._take_values(most), timeout)

    def _take_values(self, most: int) -> list[Any]:
        """A take whose items are back at their places if their values cannot be read."""
        with self._business.codecs.hold():  # before the take: then nobody collects the values of what it takes
            held = self._take(most)
            try:
                return self._decoded(held.entries)
            except (ContentDamaged, ArchiveError):
                for entries in self._changes.taken(held):
                    waiter = Waiter()
                    self._business.submit(self._changes.put_back(entries, waiter), waits=True)
                    waiter.result()
                raise

    def _decoded(self, entries: list[Entry]) -> list[Any]:
        return [self._business.codecs.decode(entry.value, entry.value_class) for entry in entries]

    def _take(self, most: int, *, purges: bool = False) -> Reservation:
        held = Reservation()
        waiter = Waiter()
        try:
            self._business.submit(self._changes.take(most, held, waiter, purges=purges), waits=True)
            waiter.result()
        except Exception:
            self._state.give_back(held)
            raise
        finally:  # of a take that a signal handler ended, what was not handed out yet stays
            held.over = True
        return held

    def _hold(self, most: int, held: Reservation, *, decodes: bool) -> None:
        waiter = Waiter()
        self._business.submit(self._changes.hold(most, held, waiter, decodes=decodes), waits=True)
        waiter.result()


class QueueTransaction(Transaction, QueueInTransaction):
    """A transaction of one queue: after any crash its takes and puts are done, or none is. `timestamp` is 0 until then."""

    def __init__(self, target: Queue) -> None:
        Transaction.__init__(self, target._business)
        QueueInTransaction.__init__(self, self.changes, target)


def shown(entries: Iterable[Entry], codecs: Codecs, delivery: Callable[[bytes], Delivery]) -> Iterator[QueuedItem]:
    """Items for callers."""
    for entry in entries:
        if is_item(entry.key_class):
            value = codecs.decode(entry.value, entry.value_class)
            place = priority_of(entry.key), position_of(entry.key)
            yield QueuedItem(*place, value, entry.timestamp, entry.expires, delivery(entry.key).deliveries)


def items_of(past: Iterable[Entry], codecs: Codecs) -> list[QueuedItem]:
    """The items among all entries of a queue at one moment, which are in the order of identity."""
    entries = list(past)
    known = {entry.key: entry for entry in entries if is_delivery(entry.key_class)}
    return list(shown(entries, codecs, lambda key: delivery_of(known.get(key))))
