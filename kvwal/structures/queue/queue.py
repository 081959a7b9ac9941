"""The synchronous queue: items are taken in the order in which they were put, each by one taker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple

from kvwal.codecs import Codecs
from kvwal.entry import DataEntry, Entry
from kvwal.hlc import to_timestamp
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.handle import Handle
from kvwal.structures.queue.changes import MOST_TAKEN, QueueChanges
from kvwal.structures.queue.positions import is_item, key_of, position_of, priority_of
from kvwal.structures.queue.state import Reservation
from kvwal.structures.queue.transaction import QueueInTransaction
from kvwal.structures.queue.waiting import first_of, taken_by, takers_of
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import Transaction
from kvwal.structures.watch import Watch, of_structure, parse_start


class QueuedItem(NamedTuple):
    """An item as `Queue.items` shows it. `position` orders the items of one priority, `expires` is unix ms, 0 for never."""

    priority: int
    position: int
    value: Any
    timestamp: int
    expires: int


class Queue(Handle):
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
        return f"{self._business.name}/{self._changes.structure}"

    def put(self, item: Any, *, priority: int = 0, ttl: TimeToLive | None = None, sync: bool = False) -> int:
        """Put an item at the end of its priority, -16 to 15, and return the timestamp. It is gone after `ttl`, if not taken."""
        return self.put_many([item], priority=priority, ttl=ttl, sync=sync)

    def put_many(
        self, items: Iterable[Any], *, priority: int = 0, ttl: TimeToLive | None = None, sync: bool = False
    ) -> int:
        """Put all items in one transaction, in their order, and return its timestamp."""
        entries = self._changes.entries(items, priority, ttl)
        waiter = Waiter()
        self._business.submit(self._changes.put(entries, priority, waiter, sync=sync), waits=True)
        waiter.result()
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
        return shown(self._state.items(), self._business.codecs)

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

    def purge(self) -> int:
        """Take all items that are there now away, and return how many. In transactions of 10,000."""
        purged, left = 0, len(self)
        while left > 0 and (taken := self._take(min(left, MOST_TAKEN), purges=True)):
            purged += len(taken)
            left -= len(taken)
        return purged

    def move(self, to: str, most: int) -> int:
        """Move up to `most` items, the first ones, to the end of another queue of the business, in one transaction; return how
        many. They keep their priority and their time to live.
        """
        with Transaction(self._business) as t:
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
        return list(shown(past.all_ordered(), self._business.codecs))

    def watch(self, after: int | date | str | None = None) -> Watch:
        """The puts and takes of the queue (a take is a delete), from now on, or after a moment: see `Map.watch`."""
        return Watch(self._business.feed(parse_start(after)), of_structure(self._changes.structure))

    def _taken(self, most: int, timeout: float | None) -> list[Any]:
        return self._decoded(taken_by(self._takers, lambda: self._take(most), timeout))

    def _decoded(self, entries: list[Entry]) -> list[Any]:
        return [self._business.codecs.decode(entry.value, entry.value_class) for entry in entries]

    def _take(self, most: int, *, purges: bool = False) -> list[Entry]:
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
        return held.entries

    def _hold(self, most: int, held: Reservation, *, decodes: bool) -> None:
        waiter = Waiter()
        self._business.submit(self._changes.hold(most, held, waiter, decodes=decodes), waits=True)
        waiter.result()


class QueueTransaction(Transaction, QueueInTransaction):
    """A transaction of one queue: after any crash its takes and puts are done, or none is. `timestamp` is 0 until then."""

    def __init__(self, target: Queue) -> None:
        Transaction.__init__(self, target._business)
        QueueInTransaction.__init__(self, self.changes, target)


def shown(entries: Iterable[Entry], codecs: Codecs) -> Iterator[QueuedItem]:
    """Items for callers."""
    for entry in entries:
        if is_item(entry.key_class):
            value = codecs.decode(entry.value, entry.value_class)
            yield QueuedItem(priority_of(entry.key), position_of(entry.key), value, entry.timestamp, entry.expires)
