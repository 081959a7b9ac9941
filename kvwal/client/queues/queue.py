"""Queue of a cluster: the methods of an embedded `Queue`, as requests to the member that decides on its items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.queues.blocks import QueueBlock, Renewals, room_of
from kvwal.client.queues.calls import QueueCalls
from kvwal.client.queues.transaction import ClusterQueueTransaction
from kvwal.client.queues.waiting import awaited, may_put, put_when_room
from kvwal.cluster.queues.requests import (
    BROWSE_ITEMS,
    MOST_CLASS_BYTES,
    Await,
    Browse,
    Count,
    Item,
    Options,
    Purge,
    Put,
    PutBack,
    PutItem,
    SetOptions,
    Take,
)
from kvwal.entry import DataEntry, Entry
from kvwal.errors import InvalidName
from kvwal.hlc import to_timestamp
from kvwal.structures.handle import Handle
from kvwal.structures.queue.changes import MOST_TAKEN, checked_number
from kvwal.structures.queue.options import (
    JSON,
    Changes,
    QueueOptions,
    SettableOptions,
    check_readable,
    checked_changes,
    delay_ms_of,
    options_of,
)
from kvwal.structures.queue.positions import (
    OPTIONS_KEY,
    checked_priority,
    item_class,
    key_of,
    of_items,
    options_class,
    position_of,
    priority_of,
    queue_structure,
)
from kvwal.structures.queue.queue import QueuedItem, items_of
from kvwal.structures.queue.waiting import first_of
from kvwal.structures.time_to_live import TimeToLive, expiry_of
from kvwal.structures.transaction import checked_size
from kvwal.structures.watch import Watch, parse_start


class QueueCounts(NamedTuple):
    """The numbers of items that can be taken, that are in flight and that are delayed; `waiting` is that of calls that wait.

    A member of an earlier version delays none, and does not say so.
    """

    ready: int
    in_flight: int
    waiting: int
    delayed: int = 0


class ClusterQueue(Handle, SettableOptions[QueueOptions]):
    """A queue of a cluster. It differs from an embedded queue in these points:

    - Takers in any processes share it. What a block has taken goes back to its place when its process has said nothing for 30 s
      (the visibility timeout); the block cannot be committed any more.
    - The timestamp of an item in `items` is its position: the time of the put, by the clock of the member that decided on it.
    - A call whose answer was lost raises `CommitUnknown`, if it was to change something.
    - A taker that is silent for that long has given back what its block had taken: that counts as a delivery.
    - Of putters that wait for room, the first one to ask gets it.
    """

    def __init__(
        self, business: ClusterBusiness, calls: QueueCalls, renewals: Renewals, name: str = "", store: object = None
    ) -> None:
        self.structure = queue_structure(name)
        if len(item_class(self.structure)) > MOST_CLASS_BYTES:
            raise InvalidName(f"{name!r} is too long for a queue of a cluster.", hint="Choose a shorter name.")
        self.business = business
        self._calls = calls
        self._renewals = renewals
        self._store = store

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}{f' of {self._store!r}' if self._store else ''}>"

    @property
    def name(self) -> str:
        """See `Queue.name`."""
        return f"{self.business.name}/{self.structure}"

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
        """See `Queue.put`. `sync` changes nothing."""
        return self.put_many([item], priority=priority, ttl=ttl, delay=delay, timeout=timeout)

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
        """See `Queue.put_many`, and `put`."""
        request = self.request(items, priority, ttl, delay)
        return put_when_room(self._calls, request, timeout)

    def request(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None, delay: TimeToLive | None) -> Put:
        """A put of these items. Raises `CodecError`, `ConfigError` and `TooLarge`."""
        puts = self.encoded(items, priority, ttl)
        checked_size(self.business, room_of(puts))
        ms = delay_ms_of(delay)
        return Put(self.business.name, puts, dict.fromkeys(range(len(puts)), ms) if ms else {})

    def put_once(self, request: Put) -> int:
        """Put items, without a wait for room, and return the timestamp."""
        timestamp: int = self._calls.ask(request, writes=True) if request.items else 0
        return timestamp

    def may_put(self, request: Put) -> bool:
        """Whether there is room now, or a put says why there never is. `request` puts something."""
        return may_put(self._calls, request, 0.0)

    def take(self, timeout: float | None = None) -> Any:
        """See `Queue.take`."""
        return first_of(self.take_many(1, timeout), self.name)

    def take_once(self, most: int) -> list[Item]:
        """Up to `most` items, without a wait."""
        request = Take(self.business.name, self.structure, checked_number(most), self._calls.codecs.names())
        return self._calls.items(request, writes=True)

    def put_back(self, items: list[Item]) -> None:
        """Put items that were taken at their old places."""
        self._calls.ask(PutBack(self.business.name, self.structure, items), writes=True)

    def is_there(self) -> bool:
        """Whether an item can be taken now."""
        return bool(self._calls.ask(Await(self.business.name, self.structure, 0.0), writes=False))

    def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """See `Queue.take_many`."""
        checked_number(most)
        return self.awaited(lambda: self.take_once(most), timeout)

    def peek(self) -> Any:
        """See `Queue.peek`."""
        return first_of(map(self._value, self._browsed(1)), self.name)

    def browse(self) -> Iterator[Any]:
        """See `Queue.browse`."""
        return map(self._value, self._browsed())

    def items(self) -> Iterator[QueuedItem]:
        """See `Queue.items`."""
        for item in self._browsed():
            position = position_of(item.key)
            place = priority_of(item.key), position
            yield QueuedItem(*place, self._value(item), position, item.expires, item.deliveries)

    def stored_items(self, page: int = BROWSE_ITEMS) -> Iterator[Item]:
        """As `items`, as they are stored, also those whose codec is not registered here. A request asks for `page` of them."""
        return self._browsed(page)

    def __len__(self) -> int:
        return self.counts().ready

    def __bool__(self) -> bool:
        """Whether an item can be taken."""
        return len(self) > 0

    @property
    def in_flight(self) -> int:
        """See `Queue.in_flight`. The items of takers in all processes."""
        return self.counts().in_flight

    @property
    def delayed(self) -> int:
        """See `Queue.delayed`."""
        return self.counts().delayed

    def options(self) -> QueueOptions:
        """See `Queue.options`."""
        return self._shown_options(self._calls.ask(Options(self.business.name, self.structure), writes=False))

    def _set_options(self, changes: Changes) -> QueueOptions:
        changes = checked_changes(self.structure, changes)
        return self._shown_options(
            self._calls.ask(SetOptions(self.business.name, self.structure, changes), writes=True)
        )

    def _shown_options(self, stored: bytes) -> QueueOptions:
        entry = Entry(OPTIONS_KEY, options_class(self.structure), stored, JSON, False, 0) if stored else None
        return check_readable(options_of(entry), self.name)

    def purge(self) -> int:
        """See `Queue.purge`."""
        counts = self.counts()
        purged, left = 0, counts.ready + counts.delayed
        while left > 0 and (taken := self._purged(min(left, MOST_TAKEN))):
            purged += taken
            left -= taken
        return purged

    def move(self, to: str, most: int) -> int:
        """See `Queue.move`."""
        target = ClusterQueue(self.business, self._calls, self._renewals, to)
        block = self.block()
        try:
            items = block.hold(self.structure, checked_number(most), decodes=False)
            block.put(
                [
                    PutItem(target.structure, priority_of(item.key), item.value, item.value_class, item.left_ms)
                    for item in items
                ]
            )
            checked_size(self.business, room_of(block.puts))
        except BaseException:
            block.give_back()
            raise
        if items:
            block.commit([], counts=False)
        else:
            block.give_back()
        return len(items)

    def history(self, priority: int, position: int) -> list[DataEntry]:
        """See `Queue.history`."""
        return self.business.history(item_class(self.structure), key_of(priority, position))

    def at(self, moment: int | date) -> list[QueuedItem]:
        """See `Queue.at`. The timestamp of an item is that of its put in the log of a member, not its position."""
        past = self.business.as_of(to_timestamp(moment), self.structure)
        return items_of(past.all_ordered(), self._calls.codecs)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """See `Queue.watch`, and `kvwal.client.store.ClusterMap` for what a killed member brings back."""
        return Watch(self.business.feed(parse_start(after), self.structure), of_items(self.structure))

    def encoded(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None) -> list[PutItem]:
        """Items to put. Raises `CodecError` and `ConfigError`."""
        checked_priority(priority)
        left_ms = 0 if ttl is None else expiry_of(ttl, 0)
        encode = self._calls.codecs.encode_value
        return [PutItem(self.structure, priority, *encode(item), left_ms) for item in items]

    def transaction(self) -> ClusterQueueTransaction:
        """See `Queue.transaction`."""
        return ClusterQueueTransaction(self)

    def block(self) -> QueueBlock:
        """A block of takes and puts."""
        return QueueBlock(self._calls, self._renewals)

    def awaited(self, take: Callable[[], list[Item]], timeout: float | None) -> list[Any]:
        """The values of what `take` gives, once that is something: see `kvwal.client.queues.waiting.awaited`."""
        return self.decoded(self.awaited_items(take, timeout))

    def awaited_items(self, take: Callable[[], list[Item]], timeout: float | None) -> list[Item]:
        """As `awaited`, the items as they are stored."""
        return awaited(self._calls, self.structure, take, timeout)

    def decoded(self, items: Iterable[Item]) -> list[Any]:
        """The values of items."""
        return list(map(self._value, items))

    def _value(self, item: Item) -> Any:
        return self._calls.codecs.decode(item.value, item.value_class)

    def _browsed(self, most: int = BROWSE_ITEMS) -> Iterator[Item]:
        after = b""
        while found := self._calls.items(Browse(self.business.name, self.structure, after, most), writes=False):
            yield from found
            after = found[-1].key

    def counts(self) -> QueueCounts:
        """The numbers of items, by one request."""
        numbers: list[int] = self._calls.ask(Count(self.business.name, self.structure), writes=False)
        return QueueCounts(*numbers)

    def _purged(self, most: int) -> int:
        """Take items away, and return how many."""
        deleted: int = self._calls.ask(Purge(self.business.name, self.structure, most), writes=True)
        return deleted
