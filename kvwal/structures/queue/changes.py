"""Changes of a queue as submissions: puts get their positions, and takes their items, in the order of the log. No I/O.

A take hands its items out in memory when the log writer decides on it, so no other take gets them. It is over when the deletes
of the items are durable. If it fails, `give_back` returns the items to their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from kvwal.entry import Entry, make_entry
from kvwal.errors import ConfigError
from kvwal.log.submission import ENTRY_BYTES, Completion, GroupView, Submission, cut, size_of
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.capacity import check_room, room_of
from kvwal.structures.queue.deliveries import DELIVERY_BYTES, Delivery, delivery_entry, delivery_of, give_back_bytes
from kvwal.structures.queue.options import (
    NO_OPTIONS,
    Changes,
    QueueOptions,
    changed_options,
    check_readable,
    checked_changes,
    delay_ms_of,
    options_of,
)
from kvwal.structures.queue.positions import (
    ITEM_KEY_BYTES,
    OPTIONS_KEY,
    checked_priority,
    delivery_class,
    item_class,
    key_of,
    options_class,
    priority_of,
    queue_structure,
)
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.time_to_live import TimeToLive, expiry_of
from kvwal.structures.transaction import GiveBack, checked_size

MOST_TAKEN = 10_000
"""The most items of one take: their deletes are one transaction, and other writes wait for it."""
Put: TypeAlias = tuple[int, Entry]
"""A priority, and an entry whose key is not known yet."""
_ROOM_KEY = bytes(ITEM_KEY_BYTES)
_ROOM_OF_DELAY = Entry(_ROOM_KEY, "", bytes(DELIVERY_BYTES - ENTRY_BYTES), "", False, 0)


class QueueChanges:
    """Builds the submissions of one queue. Every method raises `CodecError` and `ConfigError` before anything is submitted."""

    def __init__(self, business: LocalBusiness, name: str) -> None:
        self.structure = queue_structure(name)
        self.key_class = item_class(self.structure)
        self.delivery_class = delivery_class(self.structure)
        self.options_class = options_class(self.structure)
        self.business = business

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.business.name}/{self.structure}"

    @property
    def state(self) -> QueueState:
        """The queue in memory."""
        state: QueueState = self.business.state_of(self.structure)
        return state

    def entries(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None) -> list[Entry]:
        """Items as entries whose keys are not known yet."""
        checked_priority(priority)
        expires = 0 if ttl is None else expiry_of(ttl, self.business.now_ms())
        values = map(self.business.codecs.encode_value, items)
        key_class = self.key_class
        if not expires:
            return [Entry(_ROOM_KEY, key_class, value, value_class, False, 0) for value, value_class in values]
        return [make_entry(_ROOM_KEY, key_class, *value, False, 0, expires) for value in values]

    def renew(self, entries: list[Entry], ttl: TimeToLive | None) -> None:
        """Begin the time to live of these entries anew: they are put again, after a wait."""
        if ttl is not None:
            entries[:] = self._expiring(entries, expiry_of(ttl, self.business.now_ms()))

    def put(
        self,
        entries: list[Entry],
        priority: int,
        future: Completion,
        delay: TimeToLive | None = None,
        sync: bool = False,
    ) -> Submission:
        """A put of all these entries, one after the other. Refused with `QueueFull` if there is no room for them now."""
        size = checked_size(self.business, entries)
        if delay is None:

            def decide(group: GroupView) -> list[Entry]:
                options = self.options(group)
                if options is not NO_OPTIONS:
                    entries[:] = self._admitted(entries, [], options, group)
                return placed([(priority, entry) for entry in entries], group)

            return Submission(entries, size, future, decide, sync)

        block = QueueBlock(self)
        block.put(priority, entries, delay)

        def decide_delayed(group: GroupView) -> list[Entry]:
            changes = block.decide(group)
            entries[:] = changes[: len(entries)]
            return changes

        return Submission(entries, size + DELIVERY_BYTES * len(entries), future, decide_delayed, sync)

    def options(self, group: GroupView) -> QueueOptions:
        """The options of the queue after the transactions before one in its group."""
        if group.added and (entry := group.changed(self.options_class, OPTIONS_KEY)) is not None:
            return options_of(entry)
        state: QueueState = group.state(self.structure)
        return state.options

    def set_options(self, given: Changes, future: Completion) -> Submission:
        """A change of the options that are given. Refused with `ConfigError` if they do not go together."""
        changes = checked_changes(self.structure, given)

        def decide(group: GroupView) -> list[Entry]:
            return changed_options(self.structure, group.lookup(self.options_class, OPTIONS_KEY), changes)

        return Submission([], DELIVERY_BYTES * (1 + len(changes)), future, decide)

    def decided(
        self, puts: Sequence[Put], delays: Mapping[int, int], held: Iterable[Reservation], group: GroupView
    ) -> list[Entry]:
        """The entries of a block: its puts, with the delays of some of them (in ms, by their index), and the deletes of what it
        holds.
        """
        taken = [entry for one in held for entry in one.entries]
        if puts and (options := self.options(group)) is not NO_OPTIONS:
            admitted = self._admitted([entry for _, entry in puts], taken, options, group)
            puts = [(priority, entry) for (priority, _), entry in zip(puts, admitted, strict=True)]
        entries = placed(puts, group)
        if delays:
            now = self.business.now_ms()
            entries += [
                delivery_entry(self.delivery_class, entries[index], Delivery(due=now + delay))
                for index, delay in delays.items()
            ]
        return entries + deletes_of(taken) + deletes_of(known for one in held for known in one.deliveries)

    def given_back(self, item: Entry, group: GroupView) -> list[Entry]:
        """The entries of the give-back of an item in flight: one delivery more, or the move to the dead letters."""
        options = self.options(group)
        if not options.counts_deliveries or group.lookup(item.key_class, item.key) is None:
            return []
        known = group.lookup(self.delivery_class, item.key)
        deliveries = delivery_of(known).deliveries + 1
        most, target = options.max_deliveries, options.dead_letters
        if most is not None and target is not None and deliveries >= most:
            dead = QueueChanges(self.business, target)
            return dead.dead_letter(item, group) + deletes_of([item] if known is None else [item, known])
        due = 0 if options.redelivery_delay is None else self._after(options.redelivery_delay)
        return [delivery_entry(self.delivery_class, item, Delivery(deliveries, due))]

    def dead_letter(self, item: Entry, group: GroupView) -> list[Entry]:
        """The put of a dead letter of another queue, also beyond the capacity. Only the queue's own time to live counts."""
        entries = self._lived(
            [Entry(item.key, self.key_class, item.value, item.value_class, False, 0)], self.options(group)
        )
        return placed([(priority_of(item.key), entry) for entry in entries], group)

    def _admitted(
        self, entries: list[Entry], taken: list[Entry], options: QueueOptions, group: GroupView
    ) -> list[Entry]:
        """Puts for which there is room, with the time to live of the options."""
        check_readable(options, self.name)
        if options.is_bounded:
            state: QueueState = group.state(self.structure)
            check_room(self.name, self.structure, options, group, state, room_of(entries), room_of(taken))
        return self._lived(entries, options)

    def _lived(self, entries: list[Entry], options: QueueOptions) -> list[Entry]:
        if options.ttl is None:
            return entries
        expires = self._after(options.ttl)
        return [
            entry if entry.expires else one
            for entry, one in zip(entries, self._expiring(entries, expires), strict=True)
        ]

    def _expiring(self, entries: list[Entry], expires: int) -> list[Entry]:
        return [make_entry(e.key, e.key_class, e.value, e.value_class, False, 0, expires) for e in entries]

    def _after(self, seconds: float) -> int:
        return self.business.now_ms() + max(1, round(seconds * 1000))

    def take(self, most: int, held: Reservation, future: Completion, *, purges: bool = False) -> Submission:
        """A take of up to `most` items, which `held` has when it is over.

        It is refused with `CodecError` if an item's codec is not registered here, unless nobody wants the items (`purges`).
        """
        most = checked_number(most)

        def decide(group: GroupView) -> list[Entry]:
            deletes = deletes_of(self._handed_out(group, most, held, decodes=not purges, delayed=purges))
            return deletes + deletes_of(held.deliveries) if held.deliveries else deletes

        return Submission([], most * (ENTRY_BYTES + ITEM_KEY_BYTES), future, decide)

    def taken(self, held: Reservation) -> list[list[Entry]]:
        """Items that were taken, as entries for `put_back`: a list for each transaction that their size needs. What is known of
        their deliveries comes first: an item that is back is not due too early.
        """
        both = held.deliveries + held.entries
        entries = [make_entry(e.key, e.key_class, e.value, e.value_class, False, 0, e.expires) for e in both]
        return list(cut(entries, self.business.transaction_bytes, lambda entry: size_of([entry])))

    def put_back(self, entries: list[Entry], future: Completion) -> Submission:
        """A put of items that were taken, at their old places, to be submitted when the log writer has the take. If the take is
        not written, it puts nothing.
        """
        return Submission(entries, size_of(entries), future, partial(_absent, entries))

    def hold(self, most: int, held: Reservation, future: Completion, *, decodes: bool) -> Submission:
        """As `take`, without the deletes: the items are in flight until they are deleted or given back.

        With `decodes` it is refused as a take is, if an item's codec is not registered here.
        """
        most = checked_number(most)

        def decide(group: GroupView) -> list[Entry]:
            self._handed_out(group, most, held, decodes=decodes)
            return []

        return Submission([], ENTRY_BYTES, future, decide)

    def _handed_out(
        self, group: GroupView, most: int, held: Reservation, *, decodes: bool, delayed: bool = False
    ) -> list[Entry]:
        state: QueueState = group.state(self.structure)
        entries = state.hand_out(most, held, delayed=delayed)
        if decodes:
            for entry in entries:
                self.business.codecs.check_known(entry.value, entry.value_class)
        return entries


class QueueBlock:
    """The puts and takes of one queue in a transaction. See `kvwal.structures.transaction.DecidedChanges`."""

    def __init__(self, changes: QueueChanges) -> None:
        self._changes = changes
        self._state = changes.state
        self._puts: list[Put] = []
        self._delays: dict[int, int] = {}
        self._held: list[Reservation] = []

    def put(self, priority: int, entries: Iterable[Entry], delay: TimeToLive | None = None) -> None:
        """Put these entries, whose keys are not known yet, at the end of the block."""
        ms = delay_ms_of(delay)
        before = len(self._puts)
        self._puts += [(priority, entry) for entry in entries]
        if ms:
            self._delays |= dict.fromkeys(range(before, len(self._puts)), ms)

    def reserve(self) -> Reservation:
        """A reservation for one take: its items are deleted with the block. If the take fails, it is to be given back."""
        held = Reservation()
        self._held.append(held)
        return held

    def release(self, held: Reservation) -> None:
        """Forget a reservation that has no items: its take found none, or failed."""
        if not held.entries:
            self._held.remove(held)

    def room(self) -> list[Entry]:
        """See `DecidedChanges.room`."""
        taken = [entry for held in self._held for entry in held.entries + held.deliveries]
        return [entry for _, entry in self._puts] + [_ROOM_OF_DELAY] * len(self._delays) + deletes_of(taken)

    def decide(self, group: GroupView) -> list[Entry]:
        """See `DecidedChanges.decide`. A take that another task has not awaited yet gets nothing any more."""
        for held in self._held:
            held.over = True
        return self._changes.decided(self._puts, self._delays, self._held, group)

    def give_backs(self) -> list[GiveBack]:
        """See `DecidedChanges.give_backs`. A queue that does not count its deliveries has none."""
        if not self._state.options.counts_deliveries:
            return []
        return [
            GiveBack(give_back_bytes(entry), partial(self._changes.given_back, entry))
            for held in self._held
            for entry in held.entries
        ]

    def give_back(self) -> None:
        """See `DecidedChanges.give_back`."""
        for held in self._held:
            self._state.give_back(held)


def _absent(entries: list[Entry], group: GroupView) -> list[Entry]:
    """Those of the items that the queue does not have. It has an item in flight."""
    return [entry for entry in entries if group.lookup(entry.key_class, entry.key) is None]


def placed(puts: Sequence[Put], group: GroupView) -> list[Entry]:
    """The entries of these puts, at the next positions."""
    position = group.stamps(len(puts)) if puts else 0
    entries = []
    for priority, entry in puts:
        entry.key = key_of(priority, position)
        entries.append(entry)
        position += 1
    return entries


def deletes_of(entries: Iterable[Entry]) -> list[Entry]:
    """Deletes of these items."""
    return [Entry(entry.key, entry.key_class, b"", "", True, 0) for entry in entries]


def checked_number(most: int) -> int:
    """How many items to take: `most`, at most `MOST_TAKEN`. Raises `ConfigError`."""
    if type(most) is int and most > 0:
        return min(most, MOST_TAKEN)
    raise ConfigError(f"{most!r} must be a whole number above 0: how many items to take; none was taken.")
