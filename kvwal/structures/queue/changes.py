"""Changes of a queue as submissions: puts get their positions, and takes their items, in the order of the log. No I/O.

A take hands its items out in memory when the log writer decides on it, so no other take gets them. It is over when the deletes
of the items are durable. If it fails, `give_back` returns the items to their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kvwal.entry import Entry, make_entry
from kvwal.errors import ConfigError
from kvwal.log.submission import ENTRY_BYTES, Completion, GroupView, Submission, cut, size_of
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.positions import ITEM_KEY_BYTES, checked_priority, item_class, key_of, queue_structure
from kvwal.structures.queue.state import QueueState, Reservation
from kvwal.structures.time_to_live import TimeToLive, expiry_of
from kvwal.structures.transaction import checked_size

MOST_TAKEN = 10_000
"""The most items of one take: their deletes are one transaction, and other writes wait for it."""
_ROOM_KEY = bytes(ITEM_KEY_BYTES)


class QueueChanges:
    """Builds the submissions of one queue. Every method raises `CodecError` and `ConfigError` before anything is submitted."""

    def __init__(self, business: LocalBusiness, name: str) -> None:
        self.structure = queue_structure(name)
        self.key_class = item_class(self.structure)
        self.business = business

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

    def put(self, entries: list[Entry], priority: int, future: Completion, *, sync: bool = False) -> Submission:
        """A put of all these entries, one after the other."""

        def decide(group: GroupView) -> list[Entry]:
            return placed([(priority, entry) for entry in entries], group)

        return Submission(entries, checked_size(self.business, entries), future, decide, sync)

    def take(self, most: int, held: Reservation, future: Completion, *, purges: bool = False) -> Submission:
        """A take of up to `most` items, which `held` has when it is over.

        It is refused with `CodecError` if an item's codec is not registered here, unless nobody wants the items (`purges`).
        """
        most = checked_number(most)

        def decide(group: GroupView) -> list[Entry]:
            return deletes_of(self._handed_out(group, most, held, decodes=not purges))

        return Submission([], most * (ENTRY_BYTES + ITEM_KEY_BYTES), future, decide)

    def taken(self, held: Reservation) -> list[list[Entry]]:
        """Items that were taken, as entries for `put_back`: a list for each transaction that their size needs."""
        entries = [make_entry(e.key, e.key_class, e.value, e.value_class, False, 0, e.expires) for e in held.entries]
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

    def _handed_out(self, group: GroupView, most: int, held: Reservation, *, decodes: bool) -> list[Entry]:
        state: QueueState = group.state(self.structure)
        entries = state.hand_out(most, held)
        if decodes:
            for entry in entries:
                self.business.codecs.check_known(entry.value, entry.value_class)
        return entries


class QueueBlock:
    """The puts and takes of one queue in a transaction. See `kvwal.structures.transaction.DecidedChanges`."""

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self.puts: list[tuple[int, Entry]] = []
        self._held: list[Reservation] = []

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
        return [entry for _, entry in self.puts] + self._deletes()

    def decide(self, group: GroupView) -> list[Entry]:
        """See `DecidedChanges.decide`. A take that another task has not awaited yet gets nothing any more."""
        for held in self._held:
            held.over = True
        return placed(self.puts, group) + self._deletes()

    def give_back(self) -> None:
        """See `DecidedChanges.give_back`."""
        for held in self._held:
            self._state.give_back(held)

    def _deletes(self) -> list[Entry]:
        return [delete for held in self._held for delete in deletes_of(held.entries)]


def _absent(entries: list[Entry], group: GroupView) -> list[Entry]:
    """Those of the items that the queue does not have. It has an item in flight."""
    return [entry for entry in entries if group.lookup(entry.key_class, entry.key) is None]


def placed(puts: Sequence[tuple[int, Entry]], group: GroupView) -> list[Entry]:
    """These puts, each a priority and an entry without a key, at the next positions."""
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
